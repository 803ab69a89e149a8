//! Carries out the core's decisions: writes to the journal and the socket, and calls the
//! application.
//!
//! Invariant: the application receives its calls in the order of their causes. A call precedes
//! later messages, and precedes the writing of bytes that were committed with it.

mod deliver;
mod finish;
mod logon;
mod refresh;
mod send;
mod store;
mod write;

use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use transfix_codec::{CheckSumPolicy, Message, tag};
use transfix_session::core::Core;
use transfix_session::core::call::Call;
use transfix_session::core::delivery::Handling;
use transfix_session::core::judging::Answer;
use transfix_session::{Direction, Disconnect, Now, Offer, Role, Verdict};
use transfix_settings::schedule::Hours;
use transfix_transport::prefetch;

use crate::link::app_executor::AppExecutor;
use crate::link::down::Down;
use crate::link::event::Event;
use crate::link::journal::Journal;
use crate::link::latency_probe::{LatencyProbe, Source};
use crate::link::outbound_filter::OutboundFilter;
use crate::link::queue::SendQueue;
use crate::link::rule_book::SessionRules;
use crate::link::session_event::{Disconnection, Rejected};
use crate::link::sinks::Sinks;

/// The length of a typical message in bytes, for prefetching.
const ANSWER_BYTES: usize = 320;

/// A session's core, with the journal, application and sinks through which its decisions are
/// carried out.
pub(crate) struct Executor {
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) sinks: Sinks,
    pub(crate) probe: LatencyProbe,
    application: AppExecutor,
    /// The schedule of the session; `None` if it may always be connected.
    pub(crate) hours: Option<Hours>,
    rules: SessionRules,
    /// The filter that checks and changes messages before they are sent.
    filter: Option<Arc<OutboundFilter>>,
    /// Receives the application's deferred answer to a Logon(A); `None` if no answer is awaited.
    judgement: Option<Receiver<Answer>>,
    /// The monotonic time, in nanoseconds, of the next check of a running refresh of the store.
    refresh_look_ns: u64,
    /// True if the application receives the frames of the connection through `on_wire`.
    wants_wire: bool,
}

impl Executor {
    pub(crate) fn new(
        core: Core,
        (hours, rules): (Option<Hours>, SessionRules),
        (journal, sinks, probe): (Journal, Sinks, Source),
        mut application: AppExecutor,
    ) -> Self {
        let wants_wire = application.ask(|application| application.wants_wire());
        Self {
            probe: LatencyProbe::of(probe),
            core,
            journal,
            sinks,
            application,
            hours,
            rules,
            filter: None,
            judgement: None,
            refresh_look_ns: 0,
            wants_wire,
        }
    }

    /// Sets the filter that checks and changes messages before they are sent.
    pub(crate) fn set_filter(&mut self, now: Now, filter: Arc<OutboundFilter>) {
        self.core.session.set_before_admin(filter.admin_look());
        self.filter = Some(filter);
        // Choose rules now, because messages may be sent before the first logon.
        self.choose_rules(now, self.core.session.appl_ver_id());
        self.set_rules();
    }

    /// Begins a turn, reads the clock, and returns the time.
    #[inline]
    pub(crate) fn begin_turn(&mut self, clock: impl FnOnce() -> Now) -> Now {
        let now = self.probe.begin(&self.sinks.published, self.core.out.end(), clock);
        self.look_at_schedule(now);
        now
    }

    /// Determines the schedule's state at `now`, unless it is still valid.
    #[inline]
    pub(super) fn look_at_schedule(&mut self, now: Now) {
        if let Some(hours) = &mut self.hours
            && !self.core.schedule.holds(now.utc)
        {
            cold_path();
            self.core.schedule = hours.state(now.utc).clone();
        }
    }

    /// Reports queued events, and makes the queued calls. `message` is the current message.
    #[inline]
    pub(crate) fn make_calls(&mut self, now: Now, message: Option<&Message<'_>>) {
        if self.core.has_effects() {
            self.tell_events(now);
            self.make_all_calls(now, message);
        }
    }

    /// Returns true if another turn must follow at once: see [`Core::has_more_work`].
    #[inline(always)]
    pub(crate) fn has_more_work(&mut self, now: Now, has_left: bool) -> bool {
        let has_more_work = self.core.has_more_work(now, has_left);
        self.make_calls(now, None);
        has_more_work
    }

    /// Reports an event to the sinks, after the events that the core has queued.
    #[cold]
    pub(crate) fn tell(&mut self, now: Now, event: &Event<'_>) {
        self.tell_events(now);
        self.sinks.count(now, event);
        self.sinks.event_log.write(now, event);
    }

    /// Reports the queued events to the sinks: first the counters, then the state, then the log
    /// lines. A thread that sees one of them therefore also sees those before.
    #[cold]
    pub(crate) fn tell_events(&mut self, now: Now) {
        for (now, event) in self.core.count_events() {
            self.sinks.count(*now, &Event::Core(event));
        }
        self.publish(now);
        while let Some((now, event)) = self.core.next_event() {
            self.sinks.event_log.write(now, &Event::Core(&event));
        }
    }

    #[cold]
    fn make_all_calls(&mut self, now: Now, message: Option<&Message<'_>>) {
        while let Some(call) = self.core.next_call() {
            self.publish(now);
            let is_undone = matches!(call, Call::RolledBack(_));
            let Self { core, probe, application, .. } = self;
            let called = AssertUnwindSafe(|| application.call(now, (call, message), (core, probe)));
            if let Err(panic) = catch_unwind(called) {
                // Drops the events of the turn that panicked; they must not be reported after the
                // restart.
                self.core.forget_event_calls();
                resume_unwind(panic);
            }
            // An error is ignored, because the next write to the journal detects a failed store
            // too.
            let _ = self.put_if_late(now);
            self.tell_events(now);
            if is_undone {
                self.core.is_whole();
            }
        }
    }

    /// Begins a connection. `offer` is its Logon(A), if the Logon(A) was accepted before the
    /// session was made from a template.
    pub(crate) fn connected(&mut self, now: Now, offer: Option<Offer>) -> Result<(), Down> {
        self.probe.reset();
        self.look_at_schedule(now);
        if !self.core.begin_connection(now, self.journal.numbers().created_ns) {
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

    /// Begins the logon of an initiator as soon as the store has read the records that another
    /// process has written.
    pub(crate) fn log_on_refreshed(&mut self, now: Now) -> Result<(), Down> {
        if self.is_refreshed(now)? {
            self.begin_session(now);
        }
        Ok(())
    }

    /// Carries out the session's verdict on `message`, then processes kept messages that are now in
    /// sequence.
    pub(crate) fn act(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
        left: &mut u32,
    ) -> Result<(), Down> {
        self.sinks.published.received(now.utc, message.bytes().len());
        if self.wants_wire {
            cold_path();
            self.make_calls(now, None);
            let Core { session, delivery, .. } = &mut self.core;
            let frame = (Direction::Inbound, message.bytes());
            self.application.show(now, frame, (session, delivery));
        }
        self.core.note_remarks(now);
        let acted = self.act_on_one(now, message, verdict);
        self.probe.acted(now);
        acted?;
        if self.core.delivery.is_over() {
            cold_path();
            self.poll_application(now)?;
            if self.core.delivery.is_over() {
                return Err(self.core.give_up(now).into());
            }
        }
        self.act_on_held(now, left)
    }

    /// Returns true if calls of the application have ended that were not processed yet.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.application.has_news()
    }

    /// Processes the application's ended calls, then kept messages that are now in sequence.
    #[inline]
    pub(crate) fn process_ended_and_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        self.poll_application(now)?;
        self.act_on_held(now, left)
    }

    /// Processes messages that were kept above a gap and are now in sequence. `left` limits their
    /// number in this turn.
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
            // The message can be parsed, because it was valid when it arrived.
            if let Ok(message) = Message::parse(&held, &mut index, CheckSumPolicy::Ignore) {
                let verdict = self.core.receive_held(now, &message);
                acted = self.act_on_one(now, &message, &verdict);
            }
            self.core.held_index = index;
            acted?;
        }
        Ok(self.core.take_requested_disconnect()?)
    }

    /// Invariant: before the next message is processed, the store's batch contains all entries that
    /// the session layer has written for this message.
    #[inline(always)]
    fn act_on_one(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Down> {
        if matches!(message.msg_type().as_bytes(), b"3" | b"5" | b"j") {
            cold_path();
            self.apply(now, message, verdict);
        }
        match verdict {
            Verdict::Deliver => self.deliver(now, message, Handling::Offer)?,
            other => self.carry_out(now, message, other)?,
        }
        self.put_entries(now).map_err(Down::Store)
    }

    /// Reports the content of a Reject(3), BusinessMessageReject(j) or Logout(5) of the
    /// counterparty.
    fn apply(&mut self, now: Now, message: &Message<'_>, verdict: &Verdict) {
        if !self.core.apply(message, verdict) {
            return;
        }
        let Some(mut rejected) = Rejected::of(message) else { return };
        let counters = &self.sinks.published.counters;
        if message.msg_type() == b"j" {
            counters.business_rejects_in.add(1);
        } else {
            counters.rejects_in.add(1);
            self.sinks.reasons.reject_in(message.raw(tag::SESSION_REJECT_REASON));
        }
        // FIX 4.0 and 4.1 have no RefMsgType(372), so the type is read from the store.
        let stored = match rejected.msg_type.is_empty() {
            true => self.journal.sent_msg_type(rejected.seq).into_owned(),
            false => Vec::new(),
        };
        rejected.complete(&stored);
        self.tell(now, &Event::Rejected(&rejected));
        self.core.call_later(Call::Rejected(stored));
        self.make_calls(now, Some(message));
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
        match *verdict {
            Verdict::Handled if !message.msg_type().is_application() => self.probe.heard(message),
            // Starts the replay before the application is notified, because messages that the
            // application sends now are outside the requested range.
            Verdict::LoggedOnThenResend { begin, end } => {
                self.core.start_replay(now, begin, end);
                self.note_logon(now)?;
            }
            Verdict::LoggedOn => self.note_logon(now)?,
            Verdict::Reset => self.put_entries(now).map_err(Down::Store)?,
            Verdict::Resend { .. } | Verdict::Disconnect(Disconnect::ResendLoop) => {
                self.sinks.published.counters.resend_requests_in.add(1);
            }
            _ => {}
        }
        if let Verdict::LoggedOn | Verdict::LoggedOnThenResend { .. } | Verdict::Reset = verdict {
            // The two Logon(A)s have determined DefaultApplVerID(1137) and
            // DefaultCstmApplVerID(1408), on which the rules depend.
            self.choose_rules(now, self.core.session.appl_ver_id());
            self.set_rules();
        }
        let carried = self.core.carry_out(now, message, verdict);
        self.make_calls(now, Some(message));
        carried?;
        if let Verdict::Resend { begin, end } = *verdict {
            self.core.start_replay(now, begin, end);
        }
        Ok(())
    }

    /// Notes the logon in the journal, after a reset that the Logon(A) may have caused.
    fn note_logon(&mut self, now: Now) -> Result<(), Down> {
        let noted = self.put_entries(now).and_then(|()| self.journal.note_logon(now));
        noted.map_err(Down::Store)
    }

    /// Does what is due, with at most `left` messages of the application.
    pub(crate) fn tick(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        if !self.core.begin_tick(now)? {
            return Ok(());
        }
        self.sinks.event_log.tell_untold(now);
        self.look_at_schedule(now);
        if self.core.is_refreshing() {
            return self.log_on_refreshed(now);
        }
        self.look_at_refresh(now)?;
        self.hear_judgement();
        self.core.look_for_judgement(now);
        self.poll_application(now)?;
        if self.core.delivery.has_more_work(now)
            && let Some(deliveries) = self.application.deliveries()
        {
            deliveries.go_on();
        }
        self.offer_again(now, left)?;
        self.core.look_for_slowness(now)?;
        if self.core.has_effects() {
            self.make_calls(now, None);
            self.core.take_requested_disconnect()?;
        }
        Ok(self.core.tick_session(now)?)
    }

    /// Begins the end of the connection. Returns `why` at once unless messages must be written
    /// first: see [`Core::end`].
    pub(crate) fn end(&mut self, now: Now, why: Down) -> Result<(), Down> {
        let Down::Session(reason) = why else { return Err(why) };
        Ok(self.core.end(now, reason)?)
    }

    /// Ends the session's connection: stores what was sent, and reports the end.
    pub(crate) fn closed(&mut self, now: Now, queue: &SendQueue, reason: Disconnect) {
        let reason = self.core.end_reason(reason);
        // An error is ignored, because `reason` was reported first, and the next turn detects a
        // panic again.
        let _ = self.poll_application(now);
        let begun = self.application.forget_asked_again(&self.core.delivery);
        self.core.forget_untaken(begun);
        // Messages that the application sent before a panic are sent after the next logon. In all
        // other cases the store already has all messages.
        let put = self.put_entries(now);
        self.core.disconnected();
        self.journal.take_fresh();
        self.note_state(now);
        let noted = put.and_then(|()| self.journal.note_end(now, reason));
        // Queued messages get their numbers after a reset by this engine. If the store has failed,
        // they keep waiting.
        self.send_queued(now, queue);
        let kept = noted.and_then(|()| self.put_queued(now, queue));
        // `has_failed` reports a store error, and the worker closes the session.
        if kept.and_then(|()| self.commit(now)).is_err() {
            self.core.not_committed(now);
        }
        let text = self.core.end_connection();
        self.application.release();
        // Drops the receiver, because an outstanding answer no longer matters.
        self.judgement = None;
        self.tell(now, &Event::Disconnected(&Disconnection::new(reason, text.as_deref())));
        self.core.call_later(Call::Disconnected(reason, text));
    }

    /// Prefetches the parts that the next turn needs into the processor's cache, during the read.
    pub(crate) fn prefetch_parts(&self) {
        prefetch(self.journal.place());
        prefetch(&*self.sinks.published);
        self.application.prefetch();
    }

    /// Prefetches the memory behind the parts of [`Executor::prefetch_parts`].
    pub(crate) fn prefetch_memory(&mut self) {
        let room = self.core.out.room();
        prefetch(room.get(..ANSWER_BYTES).unwrap_or(room));
        self.core.session.outlying().into_iter().for_each(prefetch);
        if let Some(recorder) = self.probe.recorder() {
            prefetch(recorder);
        }
        prefetch(self.journal.place().next_place());
    }

    /// Frees the memory of a past burst.
    pub(crate) fn trim(&mut self) {
        self.core.trim();
        self.probe.trim();
        self.application.trim();
    }
}
