//! The part of a link that knows no socket and calls no application: session, store, and what is to
//! be sent.
//!
//! Invariant: calls of the application are queued in the order in which they came about, and made
//! outside of the core.

mod act;
mod answering;
mod calls;
pub(crate) mod deliver;
mod logon;
mod refresh;
mod send;
pub(crate) mod store;
mod unread;

use std::collections::VecDeque;
use std::hint::cold_path;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use transfix_codec::frame::SearchBudget;
use transfix_codec::{CheckSumPolicy, FieldIndex, Limits, Tag};
use transfix_session::{
    Config, Disconnect, Now, Offer, Outbox, Remark, Role, Session, SessionId, State, Verdict, nanos,
};
use transfix_store::Store;
use transfix_transport::prefetch;

use self::answering::Answering;
use crate::link::call::Call;
use crate::link::delivery::Delivery;
use crate::link::desk::Desk;
use crate::link::down::Down;
use crate::link::event::Event;
use crate::link::event_log::EventLog;
use crate::link::failed_logons::LogonWatch;
use crate::link::gate::Gate;
use crate::link::journal::{Journal, Keeps};
use crate::link::judging::{Asked, Judging};
use crate::link::outgoing::Outgoing;
use crate::link::points::{Points, Source};
use crate::link::queue::{SendQueue, is_bulky};
use crate::link::replay::Replay;
use crate::link::rule_book::SessionRules;
use crate::link::slow::Slow;
use crate::link::told::{Disconnection, SessionEvent};
use crate::link::watermarks::Watermarks;
use crate::observe::protocol_log::Tap;
use crate::observe::published::Published;
use crate::observe::reasons::LiveReasons;
use crate::schedule::Hours;
use crate::settings::{QueueSettings, Unavailable};

/// Answers of the session layer that may wait beyond the limit of applications.
const STALLED_BYTES: usize = 4 << 20;
/// What the send buffer keeps when a burst is over; it grows up to the limit of queued bytes.
const OUTBOX_BYTES: usize = 64 << 10;
/// Its size at first: a few messages, which is all that an idle session has at a time.
const OUTBOX_BYTES_FIRST: usize = 1 << 10;
/// The length of a usual answer.
const ANSWER_BYTES: usize = 320;
/// How long a connection that is to end may wait for the store, which has still to make safe what
/// is the last word on it.
pub(crate) const ENDING_NS_MAX: u64 = 10_000_000_000;

/// How much is stored and written at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) messages_max: u64,
    pub(crate) bytes_max: usize,
}

/// Limits and switches of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkOptions {
    pub(crate) limits: Limits,
    pub(crate) check_sum: CheckSumPolicy,
    pub(crate) turn_messages_max: u32,
    /// `None`: all that one turn has.
    pub(crate) batch: Option<BatchLimits>,
    /// Without such limits, a turn that nobody waits for writes before its end: a commit costs
    /// next to nothing.
    pub(crate) writes_early: bool,
    pub(crate) keeps: Keeps,
    pub(crate) queue: QueueSettings,
    /// Whether somebody else may have written the store since the last connection.
    pub(crate) refresh_on_logon: bool,
    /// When the session may be connected; `None` for always.
    pub(crate) hours: Option<Hours>,
    pub(crate) unavailable: Unavailable,
    /// Whether messages for third parties are passed on.
    pub(crate) routes: bool,
    /// How long the application may take to answer a Logon(A).
    pub(crate) logon_answer: Duration,
    /// Data fields that the dictionaries define, each after its Length field.
    pub(crate) data_fields: Vec<(Tag, Tag)>,
    /// Where the time of the latency points comes from.
    pub(crate) points: Source,
    /// After so long without a turn the next one leaves no memory.
    pub(crate) rest_after_ns: u64,
}

impl LinkOptions {
    /// Memory for the index of messages of this session.
    pub(crate) fn index(&self) -> FieldIndex {
        let mut index = FieldIndex::default();
        index.set_data_fields(self.data_fields.iter().copied());
        index
    }
}

/// One session without its socket: the session layer, and what its messages need on their way.
pub(crate) struct Core {
    pub(crate) session: Session,
    pub(crate) out: Outbox,
    /// Messages that are numbered and not put yet, and that are not written.
    late: Outbox,
    /// Such messages came behind our Logon(A).
    stored_at_logon: bool,
    /// The first and the last number of such messages since the last logon.
    stored: Option<(u64, u64)>,
    pub(crate) options: LinkOptions,
    pub(crate) published: Arc<Published>,
    /// What all sessions count together.
    pub(crate) reasons: Arc<LiveReasons>,
    pub(crate) journal: Journal,
    pub(crate) outgoing: Outgoing,
    pub(crate) delivery: Delivery,
    pub(crate) event_log: EventLog,
    rules: SessionRules,
    /// Judges what is sent by the same rules.
    gate: Option<Arc<Gate>>,
    pub(crate) replay: Replay,
    /// The last batch that was pending when the replay began.
    replay_ticket: u64,
    pub(crate) watermarks: Watermarks,
    pub(crate) points: Points,
    /// Why the connection ends as soon as the store has made safe what is still to be written, and
    /// when it ends in any case, on the monotonic clock.
    ending: Option<(Disconnect, u64)>,
    /// Of messages that were kept as bytes.
    pub(crate) held_index: FieldIndex,
    /// The protocol log, if there is one.
    pub(crate) log: Option<Tap>,
    /// Offset up to which one callback alone has filled the outbox.
    burst_end: u64,
    /// Offset up to which log and application have seen the outgoing stream.
    pub(crate) shown: u64,
    /// The connection is to end for this reason: the application or an operator wants it.
    pub(crate) cut: Option<Disconnect>,
    /// The connection of an initiator waits for the store, which takes over what another process
    /// has written, until this moment of the monotonic clock at the latest.
    refreshes_until_ns: Option<u64>,
    /// When to look again whether it has, on the monotonic clock.
    refresh_look_ns: u64,
    judging: Judging,
    answering: Answering,
    /// Who wants to know what comes of the Logon(A) of this connection.
    pub(super) watch: Option<LogonWatch>,
    /// Whether the counterparty takes too slowly what is sent.
    pub(crate) slow: Slow,
    /// It was told that as much waits for the application as may.
    is_told_full: bool,
    /// The state that the application was told of last.
    told_state: State,
    /// The number expected before the message that is being handled.
    expected: u64,
    /// Text(58) of the counterparty's Logout(5) in this connection.
    logout_text: Option<Vec<u8>>,
    /// What searches in garbled messages may still cost.
    search_budget: SearchBudget,
    /// Other sessions of the thread have had turns since the last one of this: what it needs is far
    /// from the processor.
    pub(crate) was_away: bool,
    /// When memory is given back, on the monotonic clock.
    pub(crate) trim_at_ns: Option<u64>,
    /// A turn has panicked: what it has left in memory is not to be trusted.
    panicked: bool,
    /// Calls of the application that are not made yet.
    calls: VecDeque<Call>,
}

impl Core {
    /// A session that goes on from what its store has. An application that is called in threads of
    /// its own has a desk.
    pub(crate) fn new(
        config: Config,
        store: Box<dyn Store>,
        desk: Option<Arc<Desk>>,
        rules: SessionRules,
        options: LinkOptions,
    ) -> Self {
        let id = config.id.clone();
        let journal = Journal::new(store, id.clone(), options.keeps);
        Self {
            session: store::session_of(&journal, config),
            journal,
            out: Outbox::with_capacity(OUTBOX_BYTES_FIRST),
            late: Outbox::default(),
            stored_at_logon: false,
            stored: None,
            replay: Replay::new(options.index()),
            replay_ticket: 0,
            watermarks: Watermarks::default(),
            points: Points::of(options.points),
            ending: None,
            held_index: options.index(),
            search_budget: SearchBudget::new(options.limits),
            outgoing: Outgoing::new(options.queue),
            delivery: Delivery::new(desk, options.unavailable),
            event_log: EventLog::of(id),
            slow: Slow::of(&options.queue),
            is_told_full: false,
            options,
            published: Arc::default(),
            reasons: Arc::default(),
            log: None,
            rules,
            gate: None,
            burst_end: 0,
            shown: 0,
            cut: None,
            refreshes_until_ns: None,
            refresh_look_ns: 0,
            judging: Judging::default(),
            answering: Answering::default(),
            watch: None,
            told_state: State::Disconnected,
            expected: 0,
            logout_text: None,
            was_away: false,
            trim_at_ns: None,
            panicked: false,
            calls: VecDeque::new(),
        }
    }

    /// What is sent passes here, before it comes to this session.
    pub(crate) fn set_gate(&mut self, now: Now, gate: Arc<Gate>) {
        self.session.set_before_admin(gate.admin_look());
        self.gate = Some(gate);
        // Something may be sent before the first logon.
        self.choose_rules(now, self.session.appl_ver_id());
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.session.config().id
    }

    /// Memory for the index of messages of this session.
    pub(crate) fn index(&self) -> FieldIndex {
        self.options.index()
    }

    /// A turn begins, and asks the clock.
    #[inline]
    pub(crate) fn begin_turn(&mut self, clock: impl FnOnce() -> Now) -> Now {
        self.points.begin(&self.published, self.out.end(), clock)
    }

    /// Whether something waits for the store, or to be sent as soon as the socket takes it.
    pub(crate) fn waits(&self) -> bool {
        !self.out.is_empty()
            || self.replay.active
            || self.sends_more()
            || self.cut.is_some()
            || self.has_calls()
            || !self.watermarks.are_safe()
    }

    /// Whether something waits to be sent, and can be as soon as the socket takes it.
    #[cfg(feature = "rig")]
    pub(crate) fn waits_for_socket(&self) -> bool {
        self.watermarks.writable(&self.out) > 0
            || self.replays_now()
            || (self.ending.is_none() && (self.sends_more() || self.cut.is_some()))
    }

    /// Whether messages are sent again now: what comes before is written, and the store has made
    /// safe what they are.
    pub(crate) fn replays_now(&self) -> bool {
        self.replay.is_next(self.out.written()) && self.watermarks.is_safe(self.replay_ticket)
    }

    /// Whether a burst has left far more memory than is used.
    #[inline]
    pub(crate) fn is_bulky(&self) -> bool {
        let replayed = &self.replay.out;
        is_bulky(self.out.capacity(), self.out.len())
            || is_bulky(replayed.capacity(), replayed.len())
            || self.outgoing.is_bulky()
            || self.delivery.is_bulky()
            || self.held_index.is_bulky()
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&mut self) {
        for out in [&mut self.out, &mut self.replay.out] {
            if is_bulky(out.capacity(), out.len()) {
                out.shrink_to(OUTBOX_BYTES.max(out.len()));
            }
        }
        self.outgoing.trim();
        self.delivery.trim();
        self.held_index.trim();
        self.points.trim();
    }

    /// Whether nothing is taken from the counterparty before the application has had more: it has
    /// as much before it as may be, or a new connection begins and it is not done with the last
    /// one.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.delivery.is_behind() || (self.session.awaits_logon() && !self.delivery.stands_still())
    }

    /// Whether another turn follows at once: there is more to send, or this one has left something
    /// unread that can be read.
    #[inline(always)]
    pub(crate) fn goes_on(&mut self, now: Now, has_left: bool) -> bool {
        self.sends_more() || self.goes_on_reading(now, has_left)
    }

    /// Whether a turn that has left something unread goes on with it at once. Tells when it does
    /// not, since as much waits for the application as may, and when there is room again.
    #[inline(always)]
    fn goes_on_reading(&mut self, now: Now, has_left: bool) -> bool {
        if has_left || self.is_told_full {
            cold_path();
            let is_full = self.delivery.is_behind();
            match (is_full, std::mem::replace(&mut self.is_told_full, is_full)) {
                (true, false) => {
                    let (messages, bytes) = self.delivery.waiting();
                    self.tell(now, &Event::ApplicationFull { messages, bytes });
                }
                (false, true) => {
                    let (messages, bytes) = self.delivery.waiting();
                    self.tell(now, &Event::ApplicationHasRoom { messages, bytes });
                }
                _ => {}
            }
        }
        has_left && !self.is_behind()
    }

    /// MsgSeqNum(34) of the message that is being handled, or was last.
    pub(crate) const fn handled(&self) -> u64 {
        self.expected
    }

    /// Bytes that wait in memory: to be sent, or to be handed to the application.
    pub(crate) fn waiting_bytes(&self, queue: &SendQueue) -> usize {
        let (_, held) = self.session.held();
        let out = self.out.len() + self.replay.out.len();
        out + self.outgoing.bytes(queue) + held + self.delivery.bytes()
    }

    /// Whether far more waits than applications may queue: a counterparty that makes us answer and
    /// never reads.
    pub(crate) fn is_stalled(&self) -> bool {
        let max = self.options.queue.queued_bytes_max;
        let begin = self.out.written().max(self.burst_end);
        let bytes = (self.out.end() - begin) as usize;
        bytes > max.saturating_mul(2).max(max.saturating_add(STALLED_BYTES))
    }

    /// Whether as much waits to be written as may.
    pub(crate) fn is_full(&self) -> bool {
        self.outgoing.is_full(self.out.len())
    }

    /// Lets the numbers start again if a window has opened since they began.
    fn open_window(&mut self, now: Now) {
        let since_ns = self.journal.numbers().created_ns;
        let hours = self.options.hours.as_mut();
        if hours.is_some_and(|hours| hours.restarts(now.utc, since_ns)) {
            self.tell(now, &Event::WindowOpened);
            self.session.restart_numbers(&mut self.out);
        }
    }

    /// A link is up. Returns whether the session is to begin at once; if not, it waits for the
    /// store.
    pub(crate) fn begin_connection(&mut self, now: Now) -> bool {
        self.logout_text = None;
        self.stored_at_logon = false;
        self.judging = Judging::default();
        self.points.reset();
        self.ending = None;
        // An acceptor does so when it has found the Logon(A) good: what a stranger begins must not
        // take the store from the process that has it.
        if !self.options.refresh_on_logon {
            self.open_window(now);
        } else if self.session.config().role == Role::Initiator {
            self.refreshes_until_ns = Some(now.monotonic_ns + self.answer_ns());
            return false;
        }
        true
    }

    /// The Logon(A) of this connection was judged already, and accepted, before this session was
    /// made.
    pub(crate) fn was_offered(&mut self, offer: Offer) {
        self.session.set_offer(offer);
        self.judging = Judging::Answered(Ok(()), Asked::Before);
    }

    /// How long the application may take to judge a Logon(A), and the store to be refreshed for it.
    fn answer_ns(&self) -> u64 {
        nanos(self.options.logon_answer)
    }

    /// When there is something to tell or to look at though there is no connection.
    pub(crate) fn deadline_at_rest(&self) -> Option<u64> {
        self.event_log.deadline().into_iter().chain(self.refresh_deadline()).min()
    }

    /// When [`Core::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if let Some((_, until_ns)) = self.ending {
            return self.answering.deadline().into_iter().chain([until_ns]).min();
        }
        let session = self.session.next_deadline();
        let (offers, tells) = (self.delivery.deadline(), self.event_log.deadline());
        let others = [
            self.outgoing.pause_until_ns(),
            offers,
            self.trim_at_ns,
            tells,
            self.refreshes_until_ns,
            self.refresh_deadline(),
            self.judging.deadline(),
            self.answering.deadline(),
            self.slow.deadline(),
        ];
        session.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Asks the processor for what a turn needs and the session points to: it comes while the read
    /// goes on.
    #[inline]
    pub(crate) fn prefetch_parts(&self) {
        prefetch(self.journal.place());
        prefetch(&*self.published);
    }

    /// The same for what those point to, which have come by now.
    #[inline]
    pub(crate) fn prefetch_memory(&mut self) {
        let room = self.out.room();
        prefetch(room.get(..ANSWER_BYTES).unwrap_or(room));
        self.session.outlying().into_iter().for_each(prefetch);
        prefetch(self.journal.place().next_place());
        if let Some(recorder) = self.points.recorder() {
            prefetch(recorder);
        }
    }

    /// Begins with what is due. Returns whether the session takes part in it: its connection is not
    /// about to end.
    pub(crate) fn begin_tick(&mut self, now: Now) -> Result<bool, Down> {
        self.answering.look(now);
        if let Some((reason, until_ns)) = self.ending {
            let is_over = now.monotonic_ns >= until_ns;
            return if is_over { Err(Down::Session(reason)) } else { Ok(false) };
        }
        self.event_log.tell_untold(now);
        Ok(true)
    }

    /// Looks at the answers that are waited for: of the store, and of the application.
    pub(crate) fn look_for_answers(&mut self, now: Now) -> Result<(), Down> {
        self.look_at_refresh(now)?;
        if self.judging.give_up(now.monotonic_ns) {
            self.tell(now, &Event::LogonUnanswered);
        }
        self.hear(now)?;
        self.delivery.go_on(now);
        Ok(())
    }

    /// Tells if the counterparty takes too slowly what is sent, or does no more.
    pub(crate) fn look_for_slowness(&mut self, now: Now) -> Result<(), Down> {
        match self.slow.due(now) {
            Some(is_slow) => self.tell_slow(now, is_slow),
            None => Ok(()),
        }
    }

    /// The session layer does what is due.
    pub(crate) fn tick_session(&mut self, now: Now) -> Result<(), Down> {
        if self.is_behind() {
            self.session.note_unread(now);
        }
        match self.session.tick(now, &mut self.out) {
            Verdict::Disconnect(reason) => Err(Down::Session(reason)),
            _ => Ok(()),
        }
    }

    /// Another connection of this session was closed.
    pub(crate) fn refused_connection(&mut self, now: Now, peer: Option<SocketAddr>, why: &str) {
        self.tell(now, &Event::ConnectionRefused { peer, why });
    }

    /// The connection is to end for this reason. Returns it unless the store has still to make safe
    /// what is to be written before, or messages are sent again before.
    pub(crate) fn end(&mut self, now: Now, why: Down) -> Result<(), Down> {
        let Down::Session(reason) = why else { return Err(why) };
        // It has waited long enough, or need not.
        if self.ending.is_some() || !self.has_last_words(reason) {
            return Err(why);
        }
        self.ending = Some((reason, now.monotonic_ns + ENDING_NS_MAX));
        Ok(())
    }

    /// Whether something is still to be written before the connection ends for this reason: it
    /// waits for the store, or the counterparty has logged out, and the answer stands behind the
    /// messages that it has asked for before.
    pub(crate) fn has_last_words(&self, reason: Disconnect) -> bool {
        let answers = reason == Disconnect::LoggedOut && !self.out.is_empty();
        self.waits_for_store() || (answers && self.replay.active)
    }

    /// Why the connection ends as soon as all is written.
    pub(crate) const fn ending(&self) -> Option<Disconnect> {
        match self.ending {
            Some((reason, _)) => Some(reason),
            None => None,
        }
    }

    /// Counts an event, and writes it into the log.
    #[cold]
    pub(crate) fn tell(&mut self, now: Now, event: &Event<'_>) {
        count(&self.published, now, event);
        self.event_log.write(now, event);
    }

    fn tell_slow(&mut self, now: Now, is_slow: bool) -> Result<(), Down> {
        let bytes = self.out.len();
        let (event, told) = match is_slow {
            true => (SessionEvent::SlowConsumer, Event::SlowConsumer { bytes }),
            false => (SessionEvent::CaughtUp, Event::CaughtUp { bytes }),
        };
        self.tell(now, &told);
        if is_slow && self.slow.disconnects() {
            return Err(Down::Session(Disconnect::Stalled));
        }
        self.call_later(now, Call::Event(event));
        Ok(())
    }

    /// Why the connection is to end: the application or an operator wants it.
    pub(crate) fn take_cut(&mut self) -> Result<(), Down> {
        self.cut.take().map_or(Ok(()), |reason| Err(Down::Session(reason)))
    }

    /// The connection has ended.
    pub(crate) fn closed(&mut self, now: Now, queue: &SendQueue, reason: Disconnect) {
        let reason = match (reason, self.session.state()) {
            (Disconnect::LinkLost, State::LogonSent) => Disconnect::LogonUnanswered,
            _ => reason,
        };
        // What brought the connection down comes first; a panic is found again.
        let _ = self.hear(now);
        // What the application has not taken is asked for again.
        if let Some(seq) = self.delivery.forget_numbered() {
            self.session.set_next_num_in(seq);
        }
        // What the application has sent before it panicked in a turn is not lost with the turn: it
        // goes out after the next logon. In other turns all of it is in the store already.
        let put = self.put_entries(now);
        // An initiator that has waited for its store has not begun the connection.
        if self.refreshes_until_ns.take().is_none() {
            self.session.disconnected(&mut self.out);
        }
        self.journal.take_fresh();
        self.note_state(now);
        let noted = put.and_then(|()| self.journal.note_end(now, reason));
        // A reset that this end brings; a store that has failed keeps the session down anyway.
        self.send_queued(now, queue);
        let kept = noted.and_then(|()| self.put_queued(now, queue));
        // A store error is not lost here: `has_failed` reports it, and the worker takes the session
        // down.
        let _ = kept.and_then(|()| self.commit(now));
        self.cut = None;
        self.outgoing.end_pause();
        self.slow.reset();
        self.replay.clear();
        if let Some(desk) = self.delivery.desk() {
            desk.release();
        }
        let text = self.logout_text.take();
        let end = Disconnection::new(reason, text.as_deref());
        // Before the connection counts as ended: both counts are looked at together.
        self.reasons.ended(reason);
        self.tell(now, &Event::Disconnected(&end));
        self.ending = None;
        // An answer that is still to come finds nobody.
        self.judging = Judging::default();
        self.calls.push_back(Call::Disconnected(reason, text));
    }
}

/// Counts what has happened, and keeps of it what others may look at.
fn count(published: &Published, now: Now, event: &Event<'_>) {
    let counters = &published.counters;
    match *event {
        Event::Disconnected(end) => published.note_end(now.utc, end.reason, end.text),
        Event::ConnectionRefused { .. } => counters.refused.add(1),
        Event::Skipped { .. } => counters.garbled.add(1),
        Event::Remark(Remark::PassedOver(count)) => counters.passed_over.add(count),
        Event::NotStored { missing } => counters.not_stored.add(missing),
        Event::SlowConsumer { .. } => published.note_slow(true),
        Event::CaughtUp { .. } => published.note_slow(false),
        _ => {}
    }
}
