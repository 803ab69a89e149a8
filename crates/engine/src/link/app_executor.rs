//! The application of a session, called in the link's thread or in application threads.

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

/// The maximum capacity, in bytes, of the encoding buffer that stays after a burst.
const BODY_BYTES_KEPT: usize = 64 << 10;

/// An application that runs in its own threads, with the buffers for its calls.
pub(crate) struct Caller {
    pub(crate) application: Box<dyn Callbacks>,
    pub(crate) index: FieldIndex,
    /// The buffer in which the application's messages are encoded.
    pub(crate) body: Vec<u8>,
}

/// The application of a session, by the kind of thread that calls it.
pub(crate) enum AppExecutor {
    /// The thread that drives the session calls the application.
    Inline(Box<dyn Callbacks>),
    /// Application threads call the application, with calls from the delivery queue. The link's
    /// thread calls it directly only while no application thread does.
    Threads { caller: Arc<Mutex<Caller>>, deliveries: Arc<DeliveryQueue> },
}

impl AppExecutor {
    /// Returns the delivery queue, or `None` if the session's own thread calls the application.
    pub(crate) const fn deliveries(&self) -> Option<&Arc<DeliveryQueue>> {
        match self {
            Self::Inline(_) => None,
            Self::Threads { deliveries, .. } => Some(deliveries),
        }
    }

    /// Queries the application in the current thread.
    pub(crate) fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Callbacks) -> T) -> T {
        match self {
            Self::Inline(application) => ask(&mut **application),
            Self::Threads { caller, .. } => ask(&mut *lock(caller).application),
        }
    }

    /// Makes a call, or puts it into the delivery queue. `message` is the current message, if the
    /// call needs one.
    pub(crate) fn call(
        &mut self,
        now: Now,
        (call, message): (Call, Option<&Message<'_>>),
        (core, probe): (&mut Core, &mut LatencyProbe),
    ) {
        let bytes = message.map_or(&b""[..], |message| message.bytes());
        // A result is not needed, because only a message can be rejected, and this call delivers
        // none.
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

    /// Delivers a message to the application, or puts it into the delivery queue. Returns the
    /// application's answer if it was called here.
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

    /// Passes a frame with masked passwords to the application's `on_wire`.
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

    /// Returns true if calls have ended that the core has not processed.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.deliveries().is_some_and(|deliveries| deliveries.has_news())
    }

    /// Returns true if an application thread is in a call of the application.
    pub(crate) fn is_called(&self) -> bool {
        self.deliveries().is_some_and(|deliveries| deliveries.is_called())
    }

    /// Drops waiting calls for messages that will be requested again. Returns the number of earlier
    /// calls that have begun.
    pub(crate) fn forget_asked_again(&self, delivery: &Delivery) -> usize {
        self.deliveries()
            .map_or(0, |deliveries| deliveries.forget(|place| delivery.is_asked_again(place)))
    }

    /// Discards ended and running calls, if at least one of them delivers a message with a number.
    /// Returns the highest of these numbers.
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

    /// Clears the delivery queue, because all messages are requested again: see
    /// [`DeliveryQueue::clear`].
    pub(crate) fn clear(&self) -> (usize, bool) {
        self.deliveries().map_or((0, false), |deliveries| deliveries.clear())
    }

    /// Returns true if the link may call the application directly now. Otherwise the session gets a
    /// turn when the running call has returned.
    pub(crate) fn is_free(&self, delivery: &mut Delivery) -> bool {
        let is_free = self.deliveries().is_none_or(|deliveries| deliveries.want());
        if !is_free {
            delivery.await_return();
        }
        is_free
    }

    /// Lets application threads make calls again, after a direct call.
    pub(crate) fn release(&self) {
        if let Some(deliveries) = self.deliveries() {
            deliveries.release();
        }
    }

    /// Prefetches the application into the processor's cache.
    pub(crate) fn prefetch(&self) {
        if let Self::Inline(application) = self {
            prefetch(&**application);
        }
    }

    /// Frees the memory of a past burst.
    pub(crate) fn trim(&self) {
        // Skips the buffers while the application is in a call; a later trim frees them.
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

/// Locks the caller even if a thread has panicked while it held the lock, because such a panic
/// affects only its own session.
pub(crate) fn lock(caller: &Mutex<Caller>) -> MutexGuard<'_, Caller> {
    caller.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the application about a Logon(A). Returns `None` if the application has panicked. A panic
/// ends only the connection, because any peer that knows two CompIDs can cause the call.
pub(crate) fn judge(
    application: &mut dyn Callbacks,
    logon: &Message<'_>,
    from: (&SessionId, Option<SocketAddr>),
) -> Option<Judgement> {
    catch_unwind(AssertUnwindSafe(|| application.judge_logon(logon, from))).ok()
}

/// Calls the application. `bytes` is the frame of the call, and `message` is the parsed frame if
/// the call needs a message.
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
        // A call without its message cannot happen, because the bytes were a valid message when
        // they arrived.
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
