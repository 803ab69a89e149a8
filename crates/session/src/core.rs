//! One session with all that waits around it: messages for the application, messages to be sent,
//! and what is not safe in the store yet. It decides, and knows no socket, no store and no
//! application: whoever has it carries out what it decides.
//!
//! Invariant: calls of the application, and events, are queued in the order in which they came
//! about, and carried out outside of the core.

mod act;
mod answering;
pub mod bulk;
pub mod call;
mod calls;
pub mod deliver;
pub mod delivery;
pub mod event;
pub mod judging;
mod logon;
pub mod outgoing;
pub mod schedule_state;
pub mod send;
pub mod slow;
mod store;
mod unread;

use std::collections::VecDeque;
use std::hint::cold_path;
use std::time::Duration;

use transfix_codec::frame::SearchBudget;
use transfix_codec::{CheckSumPolicy, FieldIndex, Limits, Tag};

use self::answering::Answering;
use self::event::CoreEvent;
use crate::core::bulk::is_bulky;
use crate::core::call::{Call, PlainEvent};
use crate::core::delivery::Delivery;
use crate::core::judging::{Asked, Judging};
use crate::core::outgoing::Outgoing;
use crate::core::schedule_state::ScheduleState;
use crate::core::slow::Slow;
use crate::{
    ApplicationSettings, Config, Disconnect, GarbledPolicy, Now, Offer, Outbox, QueueSettings,
    Replay, Role, Session, SessionId, State, TooLongPolicy, Unavailable, Verdict, Watermarks,
    nanos,
};

/// Answers of the session layer that may wait beyond the limit of applications.
const STALLED_BYTES: usize = 4 << 20;
/// Bytes that the send buffer keeps when a burst is over. It grows up to the limit of queued bytes.
const OUTBOX_BYTES: usize = 64 << 10;
/// Its size at first: a few messages, which is all that an idle session has at a time.
const OUTBOX_BYTES_FIRST: usize = 1 << 10;
/// How long a connection that is to end may wait for the store, which has still to make safe what
/// is the last word on it.
pub const ENDING_NS_MAX: u64 = 10_000_000_000;

/// Which messages a store keeps.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    pub outbound: bool,
    pub inbound: bool,
}

/// How much is stored and written at once.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    pub messages_max: u64,
    pub bytes_max: usize,
}

/// Limits and switches of a link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    pub limits: Limits,
    pub check_sum: CheckSumPolicy,
    pub garbled: GarbledPolicy,
    /// True if a message is looked for within the bytes of a garbled one.
    pub search_garbled: bool,
    pub too_long: TooLongPolicy,
    pub turn_messages_max: u32,
    /// `None`: all that one turn has.
    pub batch: Option<BatchLimits>,
    /// Without such limits, a turn that nobody waits for writes before its end: a commit costs
    /// next to nothing.
    pub writes_early: bool,
    pub keeps: Keeps,
    pub queue: QueueSettings,
    /// True if somebody else may have written the store since the last connection.
    pub refresh_on_logon: bool,
    pub unavailable: Unavailable,
    /// True if messages for third parties are passed on.
    pub routes: bool,
    /// How long the application may take to answer a Logon(A).
    pub logon_answer: Duration,
    /// Data fields that the dictionaries define, each after its Length field.
    pub data_fields: Vec<(Tag, Tag)>,
    /// After so long without a turn the next one leaves no memory.
    pub rest_after_ns: u64,
}

impl LinkOptions {
    /// Memory for the index of messages of this session.
    pub fn index(&self) -> FieldIndex {
        let mut index = FieldIndex::default();
        index.set_data_fields(self.data_fields.iter().copied());
        index
    }
}

/// One session without its socket: the session layer, and what its messages need on their way.
pub struct Core {
    pub session: Session,
    pub out: Outbox,
    /// Messages that are numbered and not put yet, and that are not written.
    pub late: Outbox,
    /// Such messages came behind our Logon(A).
    stored_at_logon: bool,
    /// The first and the last number of such messages since the last logon.
    pub stored: Option<(u64, u64)>,
    pub options: LinkOptions,
    /// The state of the schedule now. The executor looks it up.
    pub schedule: ScheduleState,
    pub outgoing: Outgoing,
    pub delivery: Delivery,
    pub replay: Replay,
    /// The last batch that was pending when the replay began.
    replay_ticket: u64,
    pub watermarks: Watermarks,
    /// Why the connection ends as soon as the store has made safe what is still to be written, and
    /// when it ends in any case, on the monotonic clock.
    ending: Option<(Disconnect, u64)>,
    /// The index of messages that were kept as bytes.
    pub held_index: FieldIndex,
    /// Offset up to which one callback alone has filled the outbox.
    burst_end: u64,
    /// Offset up to which log and application have seen the outgoing stream.
    pub shown: u64,
    /// The connection is to end for this reason: the application or an operator wants it.
    pub cut: Option<Disconnect>,
    /// The connection of an initiator waits for the store, which takes over what another process
    /// has written, until this moment of the monotonic clock at the latest.
    pub refreshes_until_ns: Option<u64>,
    pub judging: Judging,
    answering: Answering,
    /// The look at a counterparty that takes its messages too slowly.
    pub slow: Slow,
    /// It was told that as much waits for the application as may.
    queue_full_reported: bool,
    /// The state that the application was told of last.
    told_state: State,
    /// The number expected before the message that is being handled.
    expected: u64,
    /// Text(58) of the counterparty's Logout(5) in this connection.
    logout_text: Option<Vec<u8>>,
    /// The work that searches in garbled messages may still cost.
    search_budget: SearchBudget,
    /// Other sessions of the thread have had turns since the last one of this: what it needs is far
    /// from the processor.
    pub was_away: bool,
    /// When memory is given back, on the monotonic clock.
    pub trim_at_ns: Option<u64>,
    /// A turn has panicked: what it has left in memory is not to be trusted.
    panicked: bool,
    /// Calls of the application that are not made yet.
    calls: VecDeque<Call>,
    /// Events that the sinks do not have yet, and how many of them are counted.
    events: VecDeque<(Now, CoreEvent)>,
    counted_events: usize,
}

impl Core {
    /// A session that goes on from these next numbers, inbound and outbound. `application`: of one
    /// that is called in threads of its own.
    pub fn new(
        config: Config,
        numbers: (u64, u64),
        application: Option<ApplicationSettings>,
        options: LinkOptions,
    ) -> Self {
        Self {
            session: store::session_of(config, numbers),
            out: Outbox::with_capacity(OUTBOX_BYTES_FIRST),
            late: Outbox::default(),
            stored_at_logon: false,
            stored: None,
            replay: Replay::default(),
            replay_ticket: 0,
            watermarks: Watermarks::default(),
            ending: None,
            held_index: options.index(),
            search_budget: SearchBudget::new(options.limits),
            outgoing: Outgoing::new(options.queue),
            delivery: Delivery::new(application, options.unavailable),
            slow: Slow::of(&options.queue),
            queue_full_reported: false,
            options,
            schedule: ScheduleState::unknown(),
            burst_end: 0,
            shown: 0,
            cut: None,
            refreshes_until_ns: None,
            judging: Judging::default(),
            answering: Answering::default(),
            told_state: State::Disconnected,
            expected: 0,
            logout_text: None,
            was_away: false,
            trim_at_ns: None,
            panicked: false,
            calls: VecDeque::new(),
            events: VecDeque::new(),
            counted_events: 0,
        }
    }

    pub fn id(&self) -> &SessionId {
        &self.session.config().id
    }

    /// Memory for the index of messages of this session.
    pub fn index(&self) -> FieldIndex {
        self.options.index()
    }

    /// Returns true if something waits for the store, or to be sent as soon as the socket takes it.
    pub fn waits(&self) -> bool {
        !self.out.is_empty()
            || self.replay.active
            || self.sends_more()
            || self.cut.is_some()
            || self.has_calls()
            || !self.watermarks.are_safe()
    }

    /// Returns true if something waits to be sent, and can be as soon as the socket takes it.
    pub fn waits_for_socket(&self) -> bool {
        // Behind the beginning of a replay nothing is written before that.
        let writes = match self.replay.is_next(self.out.written()) {
            true => self.replays_now(),
            false => self.watermarks.writable(&self.out) > 0,
        };
        writes || (self.ending.is_none() && (self.sends_more() || self.cut.is_some()))
    }

    /// Returns true if messages are sent again now: what comes before is written, and the store has
    /// made safe what they are.
    pub fn replays_now(&self) -> bool {
        self.replay.is_next(self.out.written()) && self.watermarks.is_safe(self.replay_ticket)
    }

    /// Returns true if a burst has left far more memory than is used.
    #[inline]
    pub fn is_bulky(&self) -> bool {
        let replayed = &self.replay.out;
        is_bulky(self.out.capacity(), self.out.len())
            || is_bulky(replayed.capacity(), replayed.len())
            || self.outgoing.is_bulky()
            || self.delivery.is_bulky()
            || self.held_index.is_bulky()
    }

    /// Gives back the memory of a burst that is over.
    pub fn trim(&mut self) {
        for out in [&mut self.out, &mut self.replay.out] {
            if is_bulky(out.capacity(), out.len()) {
                out.shrink_to(OUTBOX_BYTES.max(out.len()));
            }
        }
        self.outgoing.trim();
        self.delivery.trim();
        self.held_index.trim();
    }

    /// Returns true if nothing is taken from the counterparty before the application has had more.
    /// As much waits for it as may, or a new connection begins and it is not done with the last
    /// one.
    #[inline]
    pub fn is_behind(&mut self) -> bool {
        self.delivery.is_behind() || (self.session.awaits_logon() && !self.delivery.await_idle())
    }

    /// Returns true if another turn follows at once. There is more to send, this turn has left
    /// readable bytes, or the application has had the call that was waited for.
    #[inline(always)]
    pub fn has_more_work(&mut self, now: Now, has_left: bool) -> bool {
        self.delivery.owes_turn() | (self.sends_more() || self.goes_on_reading(now, has_left))
    }

    /// Returns true if a turn that has left something unread goes on with it at once. Tells when it
    /// does not, since as much waits for the application as may, and when there is room again.
    #[inline(always)]
    fn goes_on_reading(&mut self, now: Now, has_left: bool) -> bool {
        if has_left || self.queue_full_reported {
            cold_path();
            let is_full = self.delivery.is_behind();
            match (is_full, std::mem::replace(&mut self.queue_full_reported, is_full)) {
                (true, false) => {
                    let (messages, bytes) = self.delivery.waiting();
                    self.queue_event(now, CoreEvent::ApplicationFull { messages, bytes });
                }
                (false, true) => {
                    let (messages, bytes) = self.delivery.waiting();
                    self.queue_event(now, CoreEvent::ApplicationHasRoom { messages, bytes });
                }
                _ => {}
            }
        }
        has_left && !self.is_behind()
    }

    /// MsgSeqNum(34) of the message that is being handled, or was last.
    pub const fn handled(&self) -> u64 {
        self.expected
    }

    /// Bytes that wait in memory: to be sent, or to be handed to the application. The queue of
    /// other threads is not counted.
    pub fn waiting_bytes(&self) -> usize {
        let (_, held) = self.session.held();
        let out = self.out.len() + self.replay.out.len();
        out + self.outgoing.bytes() + held + self.delivery.bytes()
    }

    /// Returns true if far more waits than applications may queue: a counterparty that makes us
    /// answer and never reads.
    pub fn is_stalled(&self) -> bool {
        let max = self.options.queue.queued_bytes_max;
        let begin = self.out.written().max(self.burst_end);
        let bytes = (self.out.end() - begin) as usize;
        bytes > max.saturating_mul(2).max(max.saturating_add(STALLED_BYTES))
    }

    /// Returns true if as much waits to be written as may.
    pub fn is_full(&self) -> bool {
        self.outgoing.is_full(self.out.len())
    }

    /// Lets the numbers start again if a window has opened since they began, which was at this time
    /// of the wall clock.
    pub fn open_window(&mut self, now: Now, since_ns: u64) {
        if self.schedule.restarts(since_ns) {
            self.queue_event(now, CoreEvent::WindowOpened);
            self.session.restart_numbers(&mut self.out);
        }
    }

    /// A link is up, and the numbers began at this time of the wall clock. Returns whether the
    /// session is to begin at once; if not, it waits for the store.
    pub fn begin_connection(&mut self, now: Now, since_ns: u64) -> bool {
        self.logout_text = None;
        self.stored_at_logon = false;
        self.judging = Judging::default();
        self.ending = None;
        // An acceptor does so when it has found the Logon(A) good: what a stranger begins must not
        // take the store from the process that has it.
        if !self.options.refresh_on_logon {
            self.open_window(now, since_ns);
        } else if self.session.config().role == Role::Initiator {
            self.refreshes_until_ns = Some(now.monotonic_ns + self.answer_ns());
            return false;
        }
        true
    }

    /// Returns true if the connection waits for the store before the session hears of it.
    pub const fn is_refreshing(&self) -> bool {
        self.refreshes_until_ns.is_some()
    }

    /// Returns true if a connection waits for the store, before or behind its Logon(A).
    pub fn awaits_refresh(&self) -> bool {
        self.is_refreshing() || self.judging.refreshes_until_ns().is_some()
    }

    /// The Logon(A) of this connection was judged already, and accepted, before this session was
    /// made.
    pub fn was_offered(&mut self, offer: Offer) {
        self.session.set_offer(offer);
        self.judging = Judging::Answered(Ok(()), Asked::Before);
    }

    /// How long the application may take to judge a Logon(A), and the store to be refreshed for it.
    pub fn answer_ns(&self) -> u64 {
        nanos(self.options.logon_answer)
    }

    /// Returns true if the session is to have a turn of its worker, after something that was not
    /// one.
    pub fn calls_worker(&mut self) -> bool {
        self.slow.calls_worker() | self.delivery.owes_turn()
    }

    /// When a tick is due at the latest, apart from looks at a refresh of the store.
    pub fn next_deadline(&self) -> Option<u64> {
        if let Some((_, until_ns)) = self.ending {
            return self.answering.deadline().into_iter().chain([until_ns]).min();
        }
        let session = self.session.next_deadline();
        let offers = self.delivery.deadline();
        let others = [
            self.outgoing.pause_until_ns(),
            offers,
            self.trim_at_ns,
            self.refreshes_until_ns,
            self.judging.deadline(),
            self.answering.deadline(),
            self.slow.deadline(),
        ];
        session.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Begins with what is due. Returns whether the session takes part in it: its connection is not
    /// about to end.
    pub fn begin_tick(&mut self, now: Now) -> Result<bool, Disconnect> {
        self.answering.look(now);
        if let Some((reason, until_ns)) = self.ending {
            let is_over = now.monotonic_ns >= until_ns;
            return if is_over { Err(reason) } else { Ok(false) };
        }
        Ok(true)
    }

    /// Gives up an application that has not judged the Logon(A) in time.
    pub fn look_for_judgement(&mut self, now: Now) {
        if self.judging.give_up(now.monotonic_ns) {
            self.queue_event(now, CoreEvent::LogonUnanswered);
        }
    }

    /// Tells if the counterparty takes too slowly what is sent, or does no more.
    pub fn look_for_slowness(&mut self, now: Now) -> Result<(), Disconnect> {
        match self.slow.due(now) {
            Some(is_slow) => self.tell_slow(now, is_slow),
            None => Ok(()),
        }
    }

    /// The session layer does what is due.
    pub fn tick_session(&mut self, now: Now) -> Result<(), Disconnect> {
        if self.is_behind() {
            self.session.note_unread(now);
        }
        match self.session.tick(now, &mut self.out) {
            Verdict::Disconnect(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    /// The connection is to end for this reason. Returns it unless the store has still to make safe
    /// what is to be written before, or messages are sent again before.
    pub fn end(&mut self, now: Now, reason: Disconnect) -> Result<(), Disconnect> {
        // It has waited long enough, or need not.
        if self.ending.is_some() || !self.has_last_words(reason) {
            return Err(reason);
        }
        self.ending = Some((reason, now.monotonic_ns + ENDING_NS_MAX));
        Ok(())
    }

    /// Returns true if something is still to be written before the connection ends for this reason.
    /// It waits for the store, or the counterparty has logged out, and the answer stands behind
    /// messages that it has asked for.
    pub fn has_last_words(&self, reason: Disconnect) -> bool {
        let answers = reason == Disconnect::LoggedOut && !self.out.is_empty();
        self.waits_for_store() || (answers && self.replay.active)
    }

    /// Why the connection ends as soon as all is written.
    pub const fn ending(&self) -> Option<Disconnect> {
        match self.ending {
            Some((reason, _)) => Some(reason),
            None => None,
        }
    }

    fn tell_slow(&mut self, now: Now, is_slow: bool) -> Result<(), Disconnect> {
        let bytes = self.out.len();
        let (event, told) = match is_slow {
            true => (PlainEvent::SlowConsumer, CoreEvent::SlowConsumer { bytes }),
            false => (PlainEvent::CaughtUp, CoreEvent::CaughtUp { bytes }),
        };
        self.queue_event(now, told);
        if is_slow && self.slow.disconnects() {
            return Err(Disconnect::Stalled);
        }
        self.call_later(Call::Event(event));
        Ok(())
    }

    /// Why the connection is to end: the application or an operator wants it.
    pub fn take_cut(&mut self) -> Result<(), Disconnect> {
        self.cut.take().map_or(Ok(()), Err)
    }

    /// Why the connection ends, as the session sees it.
    pub fn end_reason(&self, reason: Disconnect) -> Disconnect {
        match (reason, self.session.state()) {
            (Disconnect::LinkLost, State::LogonSent) => Disconnect::LogonUnanswered,
            _ => reason,
        }
    }

    /// The connection has ended: what the application has not taken is asked for again.
    /// `begun`: calls of an application in threads of its own which have begun.
    pub fn forget_untaken(&mut self, begun: usize) {
        if let Some(seq) = self.delivery.forget_numbered(begun) {
            self.session.set_next_num_in(seq);
        }
    }

    /// The connection has ended, and what the application has sent in it is put.
    pub fn disconnected(&mut self) {
        // An initiator that has waited for its store has not begun the connection.
        if self.refreshes_until_ns.take().is_none() {
            self.session.disconnected(&mut self.out);
        }
    }

    /// The end of the connection is in the journal. Returns Text(58) of the counterparty.
    pub fn end_connection(&mut self) -> Option<Vec<u8>> {
        self.cut = None;
        self.outgoing.end_pause();
        self.slow.reset();
        self.replay.clear();
        self.ending = None;
        self.judging = Judging::default();
        self.logout_text.take()
    }
}
