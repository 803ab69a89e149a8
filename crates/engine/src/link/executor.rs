//! Carries out what the core decides wherever the application takes part.
//!
//! Invariant: the application gets its calls in the order in which they came about: before any
//! message that comes later, and before what is written behind the commit that has brought them.

mod deliver;
mod finish;
mod logon;
mod write;

use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use transfix_codec::{CheckSumPolicy, Message};
use transfix_session::{Now, Offer, Role, Verdict};
use transfix_store::StoreError;

use crate::io::Io;
use crate::link::answers::Direction;
use crate::link::app_executor::AppExecutor;
use crate::link::call::Call;
use crate::link::core::Core;
use crate::link::delivery::Handling;
use crate::link::down::Down;
use crate::link::queue::SendQueue;

/// A session with its application.
pub(crate) struct Executor {
    pub(crate) core: Core,
    application: AppExecutor,
    /// The application is to see the frames of the connection.
    wants_wire: bool,
}

impl Executor {
    pub(crate) fn new(core: Core, mut application: AppExecutor) -> Self {
        let wants_wire = application.ask(|application| application.wants_wire());
        Self { core, application, wants_wire }
    }

    /// Makes the queued calls. `message`: the one in hand.
    #[inline]
    pub(crate) fn make_calls(&mut self, now: Now, message: Option<&Message<'_>>) {
        if self.core.has_calls() {
            self.make_all_calls(now, message);
        }
    }

    #[cold]
    fn make_all_calls(&mut self, now: Now, message: Option<&Message<'_>>) {
        while let Some(call) = self.core.next_call() {
            let is_undone = matches!(call, Call::Undone(_));
            let Self { core, application, .. } = self;
            let called = AssertUnwindSafe(|| application.call(now, (call, message), core));
            if let Err(panic) = catch_unwind(called) {
                // The session begins anew, and what is an event now would be none then.
                self.core.forget_events();
                resume_unwind(panic);
            }
            if is_undone {
                self.core.is_whole();
            }
        }
    }

    /// A link is up. `offer`: its Logon(A) was judged already, and accepted, before this session
    /// was made.
    pub(crate) fn connected(&mut self, now: Now, offer: Option<Offer>) -> Result<(), Down> {
        if !self.core.begin_connection(now) {
            return self.log_on_refreshed(now);
        }
        self.begin_session(now);
        if let Some(offer) = offer {
            self.core.was_offered(offer);
        }
        Ok(())
    }

    fn begin_session(&mut self, now: Now) {
        if self.core.session.config().role == Role::Initiator {
            self.fill_logon(now);
        }
        self.core.session.connected(now, &mut self.core.out);
    }

    /// Begins the logon of an initiator as soon as the store has taken over what another process
    /// has written.
    pub(crate) fn log_on_refreshed(&mut self, now: Now) -> Result<(), Down> {
        if self.core.is_refreshed(now)? {
            self.begin_session(now);
        }
        Ok(())
    }

    /// Carries out the session's verdict on `message`, then on the held messages it has freed.
    pub(crate) fn act(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
        left: &mut u32,
    ) -> Result<(), Down> {
        self.core.published.received(now.utc, message.bytes().len());
        if self.wants_wire {
            cold_path();
            self.make_calls(now, None);
            self.application.show(now, Direction::Inbound, message.bytes(), &self.core);
        }
        self.core.note_remarks(now);
        let acted = self.act_on_one(now, message, verdict);
        self.core.points.acted(now);
        acted?;
        if self.core.delivery.is_over() {
            cold_path();
            return Err(self.core.give_up(now));
        }
        self.act_on_held(now, left)
    }

    /// Takes note of what the application has had, and goes on with messages that were kept above a
    /// gap.
    #[inline]
    pub(crate) fn hear_and_go_on(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        self.core.hear(now)?;
        self.act_on_held(now, left)
    }

    /// Carries out what the session makes of messages that were kept above a gap and have their
    /// turn now, as far as this turn still takes messages.
    #[inline]
    fn act_on_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        if self.core.cut.is_none() && !self.core.session.holds_next() {
            return Ok(());
        }
        self.act_on_all_held(now, left)
    }

    #[cold]
    fn act_on_all_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        while *left > 0
            && !self.core.is_behind()
            && let Some(held) = self.core.session.take_held()
        {
            *left -= 1;
            let mut index = std::mem::take(&mut self.core.held_index);
            let mut acted = Ok(());
            // It was whole and sound when it was kept.
            if let Ok(message) = Message::parse(&held, &mut index, CheckSumPolicy::Ignore) {
                let verdict = self.core.receive_held(now, &message);
                acted = self.act_on_one(now, &message, &verdict);
            }
            self.core.held_index = index;
            acted?;
        }
        self.core.take_cut()
    }

    /// Invariant: what the session layer has written for a message is put into the store's batch
    /// before the next message has its turn.
    #[inline(always)]
    fn act_on_one(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Down> {
        if matches!(message.msg_type().as_bytes(), b"3" | b"5" | b"j") {
            cold_path();
            self.core.heed(now, message, verdict);
            self.make_calls(now, Some(message));
        }
        match verdict {
            Verdict::Deliver => self.deliver(now, message, Handling::Offer)?,
            other => self.carry_out(now, message, other)?,
        }
        self.core.put_entries(now).map_err(Down::Store)
    }

    #[inline(never)]
    fn carry_out(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Down> {
        if *verdict == Verdict::Throttled {
            return self.deliver(now, message, Handling::Reject);
        }
        let carried = self.core.carry_out(now, message, verdict);
        self.make_calls(now, Some(message));
        carried?;
        if let Verdict::Resend { begin, end } = *verdict {
            self.core.start_replay(now, begin, end);
        }
        Ok(())
    }

    /// Does what is due, with at most `left` messages of the application.
    pub(crate) fn tick(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        if !self.core.begin_tick(now)? {
            return Ok(());
        }
        if self.core.is_refreshing() {
            return self.log_on_refreshed(now);
        }
        self.core.look_for_answers(now)?;
        self.offer_again(now, left)?;
        self.core.look_for_slowness(now)?;
        if self.core.has_calls() {
            self.make_calls(now, None);
            self.core.take_cut()?;
        }
        self.core.tick_session(now)
    }

    /// Goes on from the store, after it has failed or a turn has panicked.
    pub(crate) fn reopen(&mut self, io: &dyn Io, queue: &SendQueue) -> Result<(), StoreError> {
        self.core.reopen(io, queue)?;
        self.make_calls(io.now(), None);
        Ok(())
    }

    /// Asks the processor for the application ahead.
    pub(crate) fn prefetch(&self) {
        self.application.prefetch();
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&mut self) {
        self.core.trim();
        self.application.trim();
    }
}
