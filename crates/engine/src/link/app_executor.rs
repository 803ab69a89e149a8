//! The application of a session as its link reaches it: in the thread of the link, or in threads of
//! its own.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix_codec::{FieldIndex, Message, masked};
use transfix_session::core::Core;
use transfix_session::core::call::Call;
use transfix_session::core::delivery::{Delivery, HandedCall};
use transfix_session::{BusinessReject, Direction, Now, Session, SessionId};
use transfix_transport::prefetch;

use crate::link::access::SessionAccess;
use crate::link::callbacks::{Callbacks, Judgement};
use crate::link::delivery_queue::DeliveryQueue;
use crate::link::latency_probe::LatencyProbe;
use crate::link::session_event::{
    Disconnection, Rejected, SessionEvent, SessionNotice, Undeliverable,
};

/// Memory for what the application sends, which is kept when a burst is over.
const BODY_BYTES_KEPT: usize = 64 << 10;

/// An application that is called in threads of its own, with what a thread needs to call it.
pub(crate) struct Caller {
    pub(crate) application: Box<dyn Callbacks>,
    pub(crate) index: FieldIndex,
    /// Memory for what the application sends.
    pub(crate) body: Vec<u8>,
}

/// The application of a session.
pub(crate) enum AppExecutor {
    /// Called in the thread that drives the session.
    Inline(Box<dyn Callbacks>),
    /// Called in threads of its own, which find their calls on the delivery queue. The thread
    /// of the link asks the application something only while no other thread calls it.
    Threads { caller: Arc<Mutex<Caller>>, deliveries: Arc<DeliveryQueue> },
}

impl AppExecutor {
    /// The delivery queue of an application that is called in threads of its own.
    pub(crate) const fn deliveries(&self) -> Option<&Arc<DeliveryQueue>> {
        match self {
            Self::Inline(_) => None,
            Self::Threads { deliveries, .. } => Some(deliveries),
        }
    }

    /// Asks the application something.
    pub(crate) fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Callbacks) -> T) -> T {
        match self {
            Self::Inline(application) => ask(&mut **application),
            Self::Threads { caller, .. } => ask(&mut *lock(caller).application),
        }
    }

    /// Makes a call, or puts it on the delivery queue. `message`: the one in hand, for the calls
    /// that need it.
    pub(crate) fn call(
        &mut self,
        now: Now,
        (call, message): (Call, Option<&Message<'_>>),
        (core, probe): (&mut Core, &mut LatencyProbe),
    ) {
        let bytes = message.map_or(&b""[..], |message| message.bytes());
        // Only a message can be rejected, and that is not among these calls.
        match self {
            Self::Inline(application) if call.is_event() => {
                let begin = core.out.len();
                let _ = make(
                    &mut **application,
                    call,
                    (bytes, message),
                    SessionAccess::of((core, probe), now),
                );
                core.end_call(begin);
                core.note_state();
            }
            Self::Inline(application) => {
                let access = SessionAccess::to_see(&core.session, now);
                let _ = make(&mut **application, call, (bytes, message), access);
            }
            Self::Threads { deliveries, .. } => {
                let bytes = if call.has_message() { bytes } else { b"" };
                core.delivery.hand_over(HandedCall {
                    bytes: bytes.len(),
                    counts: call.counts(),
                    ..HandedCall::default()
                });
                deliveries.put(now, call, bytes);
            }
        }
    }

    /// Calls the application with a message, or puts the message on the delivery queue. Returns the
    /// answer of the application, if it has been called.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now: Now,
        message: &Message<'_>,
        (core, probe): (&mut Core, &mut LatencyProbe),
    ) -> Option<Result<(), BusinessReject>> {
        match self {
            Self::Inline(application) => {
                let begin = core.out.len();
                let answer = application.on_message(message, SessionAccess::of((core, probe), now));
                core.end_call(begin);
                Some(answer)
            }
            Self::Threads { deliveries, .. } => {
                core.delivery.hand_over(HandedCall {
                    seq: core.number_of(message),
                    bytes: message.bytes().len(),
                    is_message: true,
                    counts: true,
                    ..HandedCall::default()
                });
                deliveries.put(now, Call::Message, message.bytes());
                None
            }
        }
    }

    /// Shows a frame to the application, without its passwords.
    pub(crate) fn show(
        &mut self,
        now: Now,
        (direction, frame): (Direction, &[u8]),
        (session, delivery): (&Session, &mut Delivery),
    ) {
        let frame = masked(frame);
        match self {
            Self::Inline(application) => {
                application.on_wire(direction, &frame, SessionAccess::to_see(session, now));
            }
            Self::Threads { deliveries, .. } => {
                let bytes = frame.len();
                delivery.hand_over(HandedCall { bytes, counts: true, ..HandedCall::default() });
                deliveries.put(now, Call::Wire(direction), &frame);
            }
        }
    }

    /// Returns true if the application has had something that the core has not heard of.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.deliveries().is_some_and(|deliveries| deliveries.has_news())
    }

    /// Returns true if a thread of its own calls the application.
    pub(crate) fn is_called(&self) -> bool {
        self.deliveries().is_some_and(|deliveries| deliveries.is_called())
    }

    /// Drops calls that wait and that are for messages which are asked for again. Returns how many
    /// have begun before.
    pub(crate) fn forget_asked_again(&self, delivery: &Delivery) -> usize {
        self.deliveries()
            .map_or(0, |deliveries| deliveries.forget(|place| delivery.is_asked_again(place)))
    }

    /// Forgets what the application has had, or is called for, if there is a message with a number
    /// among that. Returns the highest number.
    pub(crate) fn undo(&self, delivery: &mut Delivery) -> Option<u64> {
        let mut last = None;
        self.deliveries()?.undo(|begun, runs| {
            last = delivery.last_seq(begun);
            if last.is_some() {
                delivery.undo(begun, runs);
            }
            last.is_some()
        });
        last
    }

    /// All messages are asked for again: see [`DeliveryQueue::clear`].
    pub(crate) fn clear(&self) -> (usize, bool) {
        self.deliveries().map_or((0, false), |deliveries| deliveries.clear())
    }

    /// Returns true if the application can be asked something now. If not, the session is to have a
    /// turn as soon as the application has returned from its call.
    pub(crate) fn is_free(&self, delivery: &mut Delivery) -> bool {
        let is_free = self.deliveries().is_none_or(|deliveries| deliveries.want());
        if !is_free {
            delivery.await_return();
        }
        is_free
    }

    /// The application has been asked, and gets its calls again.
    pub(crate) fn release(&self) {
        if let Some(deliveries) = self.deliveries() {
            deliveries.release();
        }
    }

    /// Asks the processor for the application ahead.
    pub(crate) fn prefetch(&self) {
        if let Self::Inline(application) = self {
            prefetch(&**application);
        }
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&self) {
        // While the application is called, its memory stays: it is given back another time.
        let Self::Threads { caller, deliveries, .. } = self else { return };
        deliveries.trim();
        if let Ok(mut caller) = caller.try_lock() {
            let Caller { index, body, .. } = &mut *caller;
            index.trim();
            body.clear();
            body.shrink_to(BODY_BYTES_KEPT);
        }
    }
}

/// A panic of the application costs its session alone.
pub(crate) fn lock(caller: &Mutex<Caller>) -> MutexGuard<'_, Caller> {
    caller.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the application about a Logon(A). `None` if it has panicked: whoever knows two CompIDs can
/// bring that about, and it costs the connection, not the session.
pub(crate) fn judge(
    application: &mut dyn Callbacks,
    logon: &Message<'_>,
    from: (&SessionId, Option<SocketAddr>),
) -> Option<Judgement> {
    catch_unwind(AssertUnwindSafe(|| application.judge_logon(logon, from))).ok()
}

/// Calls an application. `bytes`: the frame; `message`: the same, where it is a message.
pub(crate) fn make(
    application: &mut dyn Callbacks,
    call: Call,
    (bytes, message): (&[u8], Option<&Message<'_>>),
    access: SessionAccess<'_>,
) -> Result<(), BusinessReject> {
    match (call, message) {
        (Call::Message, Some(message)) => return application.on_message(message, access),
        (Call::AdminMessage, Some(message)) => {
            application.on_event(SessionEvent::AdminMessage(message), access);
        }
        (Call::Rejected(stored), Some(message)) => {
            if let Some(mut rejected) = Rejected::of(message) {
                rejected.complete(&stored);
                application.on_event(SessionEvent::Rejected(rejected), access);
            }
        }
        // The bytes were a message when they came.
        (Call::Message | Call::AdminMessage | Call::Rejected(_), None) => {}
        (Call::Event(event), _) => application.on_event(SessionEvent::of(event), access),
        (Call::StateChanged(from, to), _) => {
            application.on_notice(SessionNotice::StateChanged { from, to }, access);
        }
        (Call::Disconnected(reason, text), _) => {
            let end = Disconnection::new(reason, text.as_deref());
            application.on_notice(SessionNotice::Disconnected(end), access);
        }
        (Call::Unsent(msg_type, body, why), _) => {
            let unsent = Undeliverable::new(&msg_type, &body, why);
            application.on_notice(SessionNotice::Unsent(unsent), access);
        }
        (Call::RolledBack(undone), _) => {
            application.on_notice(SessionNotice::RolledBack(&undone), access);
        }
        (Call::Wire(direction), _) => application.on_wire(direction, bytes, access),
    }
    Ok(())
}
