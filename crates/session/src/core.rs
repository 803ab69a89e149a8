//! One session with its queues: messages for the application, messages to be sent, and bytes that
//! are not safe in the store yet. The core decides, and has no socket, store or application. The
//! executor of the engine carries out the decisions.
//!
//! Invariant: calls of the application and events are queued in the order of their causes, and
//! carried out outside of the core.

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

/// Bytes of session-layer answers that may be queued beyond the limit for applications.
const STALLED_BYTES: usize = 4 << 20;
/// Capacity of the send buffer after a burst, in bytes. The buffer grows up to the limit of queued
/// bytes.
const OUTBOX_BYTES: usize = 64 << 10;
/// Initial capacity of the send buffer, in bytes: a few messages, enough for an idle session.
const OUTBOX_BYTES_FIRST: usize = 1 << 10;
/// Longest time that an ending connection waits for the store to make its last messages safe, in
/// nanoseconds.
pub const ENDING_NS_MAX: u64 = 10_000_000_000;

/// The messages that a store keeps.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    pub outbound: bool,
    pub inbound: bool,
}

/// Limits of one batch that is stored and written at once.
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
    /// True if the bytes of a garbled message are searched for a message.
    pub search_garbled: bool,
    pub too_long: TooLongPolicy,
    pub turn_messages_max: u32,
    /// Limits of a batch; `None` = everything of one turn.
    pub batch: Option<BatchLimits>,
    /// True if a turn without waiting callers may write before its end, because a commit is almost
    /// free. The option applies only if `batch` is `None`.
    pub writes_early: bool,
    pub keeps: Keeps,
    pub queue: QueueSettings,
    /// True if another process may have written to the store since the last connection.
    pub refresh_on_logon: bool,
    pub unavailable: Unavailable,
    /// True if messages for third parties are passed to other sessions.
    pub routes: bool,
    /// Longest time for the application to answer a Logon(A).
    pub logon_answer: Duration,
    /// Data fields of the dictionaries, each after its Length field.
    pub data_fields: Vec<(Tag, Tag)>,
    /// Time without a turn after which the next turn releases its memory, in nanoseconds.
    pub rest_after_ns: u64,
}

impl LinkOptions {
    /// Returns an empty index for the messages of this session.
    pub fn index(&self) -> FieldIndex {
        let mut index = FieldIndex::default();
        index.set_data_fields(self.data_fields.iter().copied());
        index
    }
}

/// One session without its socket: the session layer and the queues of its messages.
pub struct Core {
    pub session: Session,
    pub out: Outbox,
    /// Numbered messages that are neither stored yet nor written: the counterparty requests them
    /// after the next logon.
    pub late: Outbox,
    /// True if a message was added to `late` after our Logon(A) was sent.
    stored_at_logon: bool,
    /// The first and the last number added to `late` since the last logon.
    pub stored: Option<(u64, u64)>,
    pub options: LinkOptions,
    /// The current state of the schedule, which the executor updates.
    pub schedule: ScheduleState,
    pub outgoing: Outgoing,
    pub delivery: Delivery,
    pub replay: Replay,
    /// Ticket of the last pending batch at the start of the replay.
    replay_ticket: u64,
    pub watermarks: Watermarks,
    /// Reason and deadline of an ending connection. The connection ends when the store has made the
    /// last bytes safe, or at the deadline on the monotonic clock.
    ending: Option<(Disconnect, u64)>,
    /// Index of the messages that are kept as bytes.
    pub held_index: FieldIndex,
    /// Offset before which a single callback has filled the outbox.
    burst_end: u64,
    /// Offset before which the log and the application have received the outgoing frames.
    pub shown: u64,
    /// Reason to end the connection, if the application or an operator has requested the end.
    pub cut: Option<Disconnect>,
    /// Deadline for the refresh of an initiator's store before the logon, on the monotonic clock.
    /// The refresh reads what another process has written.
    pub refreshes_until_ns: Option<u64>,
    pub judging: Judging,
    answering: Answering,
    /// Detector of a counterparty that reads too slowly.
    pub slow: Slow,
    /// True if "queue full" has been reported.
    queue_full_reported: bool,
    /// The last state that was reported to the application.
    told_state: State,
    /// The expected number before the message that is being handled.
    expected: u64,
    /// Text(58) of the counterparty's Logout(5) in this connection.
    logout_text: Option<Vec<u8>>,
    /// The remaining budget for searches in garbled messages.
    search_budget: SearchBudget,
    /// True if other sessions of the thread have had turns since the last turn of this session. The
    /// memory of this session is then no longer in the processor's cache.
    pub was_away: bool,
    /// Time at which unused memory is released, on the monotonic clock.
    pub trim_at_ns: Option<u64>,
    /// True if a turn has panicked and may have left inconsistent memory.
    panicked: bool,
    /// Queued calls of the application.
    calls: VecDeque<Call>,
    /// Events that the sinks have not received yet, and how many of them are counted.
    events: VecDeque<(Now, CoreEvent)>,
    counted_events: usize,
}

impl Core {
    /// Creates a session that continues from these next numbers, inbound and outbound.
    /// `application` has the limits of an application that runs in its own threads.
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

    /// Returns an empty index for the messages of this session.
    pub fn index(&self) -> FieldIndex {
        self.options.index()
    }

    /// Returns true if anything waits for the store or the socket, or a call is queued.
    pub fn waits(&self) -> bool {
        !self.out.is_empty()
            || self.replay.active
            || self.sends_more()
            || self.cut.is_some()
            || self.has_calls()
            || !self.watermarks.are_safe()
    }

    /// Returns true if the session could send more as soon as the socket accepts bytes.
    pub fn waits_for_socket(&self) -> bool {
        // Bytes after the start of a replay are written only after the replay.
        let writes = match self.replay.is_next(self.out.written()) {
            true => self.replays_now(),
            false => self.watermarks.writable(&self.out) > 0,
        };
        writes || (self.ending.is_none() && (self.sends_more() || self.cut.is_some()))
    }

    /// Returns true if the replay is next: all earlier bytes are written, and the messages to be
    /// resent are safe in the store.
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

    /// Releases the unused memory of a burst.
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

    /// Returns true if nothing is read from the counterparty for now. Either the application's
    /// queue is full, or a new connection begins while the application still handles the last
    /// connection.
    #[inline]
    pub fn is_behind(&mut self) -> bool {
        self.delivery.is_behind() || (self.session.awaits_logon() && !self.delivery.ask_for_idle())
    }

    /// Returns true if another turn must follow at once. Messages remain to be sent, the turn has
    /// left readable bytes (`has_left`), or an awaited call of the application has ended.
    #[inline(always)]
    pub fn has_more_work(&mut self, now: Now, has_left: bool) -> bool {
        self.delivery.owes_turn() | (self.sends_more() || self.goes_on_reading(now, has_left))
    }

    /// Returns true if the session continues to read the bytes left by a turn. Reports when reading
    /// stops because the application's queue is full, and when the queue has room again.
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

    /// Returns the number that was expected before the current or the last message. For a delivered
    /// message this is its MsgSeqNum(34).
    pub const fn handled(&self) -> u64 {
        self.expected
    }

    /// Returns the number of bytes in memory that wait to be sent or delivered. The queue of other
    /// threads is not counted.
    pub fn waiting_bytes(&self) -> usize {
        let (_, held) = self.session.held();
        let out = self.out.len() + self.replay.out.len();
        out + self.outgoing.bytes() + held + self.delivery.bytes()
    }

    /// Returns true if far more bytes are queued than applications may queue: the counterparty
    /// causes answers and never reads.
    pub fn is_stalled(&self) -> bool {
        let max = self.options.queue.queued_bytes_max;
        let begin = self.out.written().max(self.burst_end);
        let bytes = (self.out.end() - begin) as usize;
        bytes > max.saturating_mul(2).max(max.saturating_add(STALLED_BYTES))
    }

    /// Returns true if the limit of queued bytes is reached.
    pub fn is_full(&self) -> bool {
        self.outgoing.is_full(self.out.len())
    }

    /// Restarts the numbers if a schedule window has opened since the numbers began. `since_ns` is
    /// the start of the numbers on the wall clock.
    pub fn open_window(&mut self, now: Now, since_ns: u64) {
        if self.schedule.restarts(since_ns) {
            self.queue_event(now, CoreEvent::WindowOpened);
            self.session.restart_numbers(&mut self.out);
        }
    }

    /// Begins a connection. `since_ns` is the start of the numbers on the wall clock. Returns true
    /// if the session begins at once, and false if the session waits for a refresh of the store.
    pub fn begin_connection(&mut self, now: Now, since_ns: u64) -> bool {
        self.logout_text = None;
        self.stored_at_logon = false;
        self.judging = Judging::default();
        self.ending = None;
        // An acceptor refreshes its store after the check of the Logon(A). Otherwise a stranger
        // could lock the store, which another process may hold.
        if !self.options.refresh_on_logon {
            self.open_window(now, since_ns);
        } else if self.session.config().role == Role::Initiator {
            self.refreshes_until_ns = Some(now.monotonic_ns + self.answer_ns());
            return false;
        }
        true
    }

    /// Returns true if the connection waits for a refresh of the store before its logon.
    pub const fn is_refreshing(&self) -> bool {
        self.refreshes_until_ns.is_some()
    }

    /// Returns true if the connection waits for a refresh of the store, before or after its
    /// Logon(A).
    pub fn awaits_refresh(&self) -> bool {
        self.is_refreshing() || self.judging.refreshes_until_ns().is_some()
    }

    /// Notes that the Logon(A) of this connection was checked and accepted before this session was
    /// created.
    pub fn was_offered(&mut self, offer: Offer) {
        self.session.set_offer(offer);
        self.judging = Judging::Answered(Ok(()), Asked::Before);
    }

    /// Returns the longest time for the application's answer to a Logon(A), and for the refresh of
    /// the store, in nanoseconds.
    pub fn answer_ns(&self) -> u64 {
        nanos(self.options.logon_answer)
    }

    /// Returns true if the worker must run a turn of the session after an action outside of a turn.
    pub fn calls_worker(&mut self) -> bool {
        self.slow.calls_worker() | self.delivery.owes_turn()
    }

    /// Returns the deadline of the next tick on the monotonic clock, apart from checks of a refresh
    /// of the store.
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

    /// Begins a tick. Returns true if the session layer takes part in the tick, and false if the
    /// connection is about to end.
    pub fn begin_tick(&mut self, now: Now) -> Result<bool, Disconnect> {
        self.answering.look(now);
        if let Some((reason, until_ns)) = self.ending {
            let is_over = now.monotonic_ns >= until_ns;
            return if is_over { Err(reason) } else { Ok(false) };
        }
        Ok(true)
    }

    /// Refuses the Logon(A) if the application has not answered in time.
    pub fn look_for_judgement(&mut self, now: Now) {
        if self.judging.give_up(now.monotonic_ns) {
            self.queue_event(now, CoreEvent::LogonUnanswered);
        }
    }

    /// Reports that the counterparty has become too slow, or has caught up.
    pub fn look_for_slowness(&mut self, now: Now) -> Result<(), Disconnect> {
        match self.slow.due(now) {
            Some(is_slow) => self.tell_slow(now, is_slow),
            None => Ok(()),
        }
    }

    /// Runs the due actions of the session layer.
    pub fn tick_session(&mut self, now: Now) -> Result<(), Disconnect> {
        if self.is_behind() {
            self.session.note_unread(now);
        }
        match self.session.tick(now, &mut self.out) {
            Verdict::Disconnect(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    /// Ends the connection for this reason. Returns the reason as an error if the connection can
    /// end now. Otherwise the connection ends later: the store must make the last bytes safe, or a
    /// resend must finish.
    pub fn end(&mut self, now: Now, reason: Disconnect) -> Result<(), Disconnect> {
        // The connection has waited long enough, or has nothing left to write.
        if self.ending.is_some() || !self.has_last_words(reason) {
            return Err(reason);
        }
        self.ending = Some((reason, now.monotonic_ns + ENDING_NS_MAX));
        Ok(())
    }

    /// Returns true if bytes remain to be written before the connection ends for this reason.
    /// Either the bytes wait for the store, or our Logout(5) waits behind a resend.
    pub fn has_last_words(&self, reason: Disconnect) -> bool {
        let answers = reason == Disconnect::LoggedOut && !self.out.is_empty();
        self.waits_for_store() || (answers && self.replay.active)
    }

    /// Returns the reason of a connection that ends as soon as all bytes are written.
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

    /// Returns the requested reason to end the connection, as an error.
    pub fn take_cut(&mut self) -> Result<(), Disconnect> {
        self.cut.take().map_or(Ok(()), Err)
    }

    /// Returns the reason of the disconnection, refined by the state of the session.
    pub fn end_reason(&self, reason: Disconnect) -> Disconnect {
        match (reason, self.session.state()) {
            (Disconnect::LinkLost, State::LogonSent) => Disconnect::LogonUnanswered,
            _ => reason,
        }
    }

    /// Requests undelivered messages again after the end of the connection. `begun` is the number
    /// of calls that an application in its own threads has begun.
    pub fn forget_untaken(&mut self, begun: usize) {
        if let Some(seq) = self.delivery.forget_numbered(begun) {
            self.session.set_next_num_in(seq);
        }
    }

    /// Ends the connection of the session layer, after the application's last messages were stored.
    pub fn disconnected(&mut self) {
        // An initiator that still waits for its store has not begun the connection.
        if self.refreshes_until_ns.take().is_none() {
            self.session.disconnected(&mut self.out);
        }
    }

    /// Resets the state of the connection after its end was journalled. Returns Text(58) of the
    /// counterparty's Logout(5).
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
