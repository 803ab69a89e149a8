//! A session with its queues: messages for the application, messages to be sent, and bytes that are
//! not yet durable in the store. The core only makes decisions, and has no socket, store or
//! application. The executor of the engine carries out the decisions.
//!
//! Invariant: the core queues calls of the application and events in the order of their causes; the
//! executor carries them out.

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
use crate::core::judging::{Asked, LogonDecision};
use crate::core::outgoing::Outgoing;
use crate::core::schedule_state::ScheduleState;
use crate::core::slow::Slow;
use crate::{
    ApplicationSettings, Config, Disconnect, GarbledPolicy, Now, Offer, Outbox, QueueSettings,
    Replay, Role, Session, SessionId, State, TooLongPolicy, Unavailable, Verdict, Watermarks,
    nanos,
};

/// Number of bytes by which the queued answers of the session layer may exceed the limit for
/// applications.
const STALLED_BYTES: usize = 4 << 20;
/// Capacity to which the send buffer is reduced after a burst, in bytes. During a burst, the buffer
/// grows up to the limit of queued bytes.
const OUTBOX_BYTES: usize = 64 << 10;
/// Initial capacity of the send buffer, in bytes: a few messages, enough for an idle session.
const OUTBOX_BYTES_FIRST: usize = 1 << 10;
/// Maximum time that an ending connection waits until its last messages are durable in the store,
/// in nanoseconds.
pub const ENDING_NS_MAX: u64 = 10_000_000_000;

/// The directions whose messages the store keeps.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    pub outbound: bool,
    pub inbound: bool,
}

/// Limits of one batch of outbound messages that is stored and written at once.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    pub messages_max: u64,
    pub bytes_max: usize,
}

/// The settings of a session that concern its connection and its queues.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    pub limits: Limits,
    pub check_sum: CheckSumPolicy,
    pub garbled: GarbledPolicy,
    /// True if the bytes of a garbled message are searched for a valid message.
    pub search_garbled: bool,
    pub too_long: TooLongPolicy,
    pub turn_messages_max: u32,
    /// Limits of a batch; `None` means that all messages of one turn form a batch.
    pub batch: Option<BatchLimits>,
    /// True if a turn may write before its end, because a commit costs almost nothing; only while
    /// no caller waits. The option applies only if `batch` is `None`.
    pub writes_early: bool,
    pub keeps: Keeps,
    pub queue: QueueSettings,
    /// True if another process may have written to the store since the last connection.
    pub refresh_on_logon: bool,
    pub unavailable: Unavailable,
    /// True if messages addressed to third parties are forwarded to other sessions.
    pub routes: bool,
    /// Maximum time for the application to answer a Logon(A).
    pub logon_answer: Duration,
    /// The custom data fields of the dictionaries, each after its Length field.
    pub data_fields: Vec<(Tag, Tag)>,
    /// Idle time after which the next turn of the session releases unused memory, in nanoseconds.
    pub rest_after_ns: u64,
}

impl LinkOptions {
    /// Creates an index for parsing the messages of this session.
    pub fn index(&self) -> FieldIndex {
        let mut index = FieldIndex::default();
        index.set_data_fields(self.data_fields.iter().copied());
        index
    }
}

/// A session without its socket: the session layer and the message queues.
pub struct Core {
    pub session: Session,
    pub out: Outbox,
    /// Messages that received a number while the session was not logged on, and are neither stored
    /// nor written yet. The counterparty requests them after the next logon.
    pub late: Outbox,
    /// True if a message was added to `late` after our Logon(A) was sent.
    stored_at_logon: bool,
    /// The first and the last number of the messages added to `late` since the last logon.
    pub stored: Option<(u64, u64)>,
    pub options: LinkOptions,
    /// The current state of the schedule, which the executor updates.
    pub schedule: ScheduleState,
    pub outgoing: Outgoing,
    pub delivery: Delivery,
    pub replay: Replay,
    /// Ticket of the last batch that was pending in the store when the replay started.
    replay_ticket: u64,
    pub watermarks: Watermarks,
    /// Reason and deadline of a connection that is about to end. The connection ends when its last
    /// bytes are durable in the store, or at the deadline on the monotonic clock.
    ending: Option<(Disconnect, u64)>,
    /// Index for parsing messages that the session holds as bytes.
    pub held_index: FieldIndex,
    /// Offset of the outgoing stream up to which a single callback has filled the outbox.
    burst_end: u64,
    /// Offset of the outgoing stream up to which the frames were passed to the log and the
    /// application.
    pub shown: u64,
    /// Reason of a disconnect that the application or an operator has requested.
    pub cut: Option<Disconnect>,
    /// Deadline on the monotonic clock for refreshing an initiator's store before the logon. The
    /// refresh reads what another process has written.
    pub refreshes_until_ns: Option<u64>,
    pub judging: LogonDecision,
    answering: Answering,
    /// Detects a counterparty that reads too slowly.
    pub slow: Slow,
    /// True if the event "application queue full" has been reported and the queue has had no room
    /// since.
    queue_full_reported: bool,
    /// The last state that was reported to the application.
    reported_state: State,
    /// The expected MsgSeqNum(34) before the current message was handled.
    expected: u64,
    /// Text(58) of the Logout(5) that the counterparty sent in this connection.
    logout_text: Option<Vec<u8>>,
    /// The remaining budget for searching garbled messages.
    search_budget: SearchBudget,
    /// True if the thread has processed other sessions since the last turn of this session. The
    /// memory of this session is then no longer in the processor's cache.
    pub was_away: bool,
    /// Time at which unused memory is released, on the monotonic clock.
    pub trim_at_ns: Option<u64>,
    /// True if a turn of this session has panicked and may have left inconsistent memory.
    panicked: bool,
    /// Queued calls of the application.
    calls: VecDeque<Call>,
    /// Events that the sinks (counters and logs) have not received yet.
    events: VecDeque<(Now, CoreEvent)>,
    counted_events: usize,
}

impl Core {
    /// Creates a session whose next sequence numbers, inbound and outbound, are `numbers`.
    /// `application` contains the limits of an application that runs in its own threads.
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
            judging: LogonDecision::default(),
            answering: Answering::default(),
            reported_state: State::Disconnected,
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

    /// Creates an index for parsing the messages of this session.
    pub fn index(&self) -> FieldIndex {
        self.options.index()
    }

    /// Returns true if bytes wait for the store or the socket, if messages wait to be sent, or if a
    /// call is queued.
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
        // While a replay is pending, the bytes after its start are written only after the replay.
        let writes = match self.replay.is_next(self.out.written()) {
            true => self.replays_now(),
            false => self.watermarks.writable(&self.out) > 0,
        };
        writes || (self.ending.is_none() && (self.sends_more() || self.cut.is_some()))
    }

    /// Returns true if the replay can run now: all earlier bytes are written, and the messages to
    /// be resent are durable in the store.
    pub fn replays_now(&self) -> bool {
        self.replay.is_next(self.out.written()) && self.watermarks.is_safe(self.replay_ticket)
    }

    /// Returns true if a burst has left buffers with far more memory than their content needs.
    #[inline]
    pub fn is_bulky(&self) -> bool {
        let replayed = &self.replay.out;
        is_bulky(self.out.capacity(), self.out.len())
            || is_bulky(replayed.capacity(), replayed.len())
            || self.outgoing.is_bulky()
            || self.delivery.is_bulky()
            || self.held_index.is_bulky()
    }

    /// Releases buffer memory that a burst has left unused.
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

    /// Returns true if the session must not read from the counterparty now. Either the
    /// application's queue is full, or a new connection begins while the application still handles
    /// messages of the previous connection.
    #[inline]
    pub fn is_behind(&mut self) -> bool {
        self.delivery.is_behind() || (self.session.awaits_logon() && !self.delivery.ask_for_idle())
    }

    /// Returns true if another turn of the session must follow at once. Messages remain to be sent,
    /// the turn has left readable bytes (`has_left`), or an awaited call of the application has
    /// ended.
    #[inline(always)]
    pub fn has_more_work(&mut self, now: Now, has_left: bool) -> bool {
        self.delivery.owes_turn() | (self.sends_more() || self.goes_on_reading(now, has_left))
    }

    /// Returns true if the session can read the bytes that the last turn has left. Reports the
    /// event when the application's queue becomes full or has room again.
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

    /// Returns the MsgSeqNum(34) that was expected before the current or the last message was
    /// handled. For a delivered message this is its MsgSeqNum(34).
    pub const fn handled(&self) -> u64 {
        self.expected
    }

    /// Returns the number of bytes in memory that wait to be sent or delivered, without the
    /// messages that other threads have queued.
    pub fn waiting_bytes(&self) -> usize {
        let (_, held) = self.session.held();
        let out = self.out.len() + self.replay.out.len();
        out + self.outgoing.bytes() + held + self.delivery.bytes()
    }

    /// Returns true if far more bytes are queued than applications may queue: the counterparty
    /// causes answers of the session layer but never reads.
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

    /// Restarts the sequence numbers at 1 if a schedule window has opened since the numbers began.
    /// `since_ns` is the time at which the numbers began, on the wall clock.
    pub fn open_window(&mut self, now: Now, since_ns: u64) {
        if self.schedule.restarts(since_ns) {
            self.queue_event(now, CoreEvent::WindowOpened);
            self.session.restart_numbers(&mut self.out);
        }
    }

    /// Begins a connection. `since_ns` is the time at which the sequence numbers began, on the wall
    /// clock. Returns true if the session begins at once, and false if the session must wait for a
    /// refresh of the store.
    pub fn begin_connection(&mut self, now: Now, since_ns: u64) -> bool {
        self.logout_text = None;
        self.stored_at_logon = false;
        self.judging = LogonDecision::default();
        self.ending = None;
        // An acceptor refreshes its store only after checking the Logon(A). Otherwise any client
        // that connects could lock the store, which another process may be using.
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

    /// Records that the Logon(A) of this connection was checked and accepted before this session
    /// was created.
    pub fn was_offered(&mut self, offer: Offer) {
        self.session.set_offer(offer);
        self.judging = LogonDecision::Answered(Ok(()), Asked::Before);
    }

    /// Returns the maximum time in nanoseconds for the application to answer a Logon(A), and for a
    /// refresh of the store.
    pub fn answer_ns(&self) -> u64 {
        nanos(self.options.logon_answer)
    }

    /// Returns true if an action outside of a turn has created work, so that the worker must run a
    /// turn of the session.
    pub fn calls_worker(&mut self) -> bool {
        self.slow.calls_worker() | self.delivery.owes_turn()
    }

    /// Returns the time of the next tick on the monotonic clock; checks of a store refresh are not
    /// included.
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

    /// Begins a tick. Returns true if the tick includes the session layer, and false if the
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

    /// Reports a counterparty that has become too slow, or has caught up.
    pub fn look_for_slowness(&mut self, now: Now) -> Result<(), Disconnect> {
        match self.slow.due(now) {
            Some(is_slow) => self.tell_slow(now, is_slow),
            None => Ok(()),
        }
    }

    /// Runs the actions of the session layer that are due.
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
    /// end now. Otherwise the connection ends later, when its last bytes are durable in the store
    /// or a resend has finished.
    pub fn end(&mut self, now: Now, reason: Disconnect) -> Result<(), Disconnect> {
        // The connection has waited long enough, or has nothing left to write.
        if self.ending.is_some() || !self.has_bytes_before_end(reason) {
            return Err(reason);
        }
        self.ending = Some((reason, now.monotonic_ns + ENDING_NS_MAX));
        Ok(())
    }

    /// Returns true if bytes must still be written before the connection ends for this reason.
    /// Either the bytes wait for the store, or our Logout(5) waits for the end of a resend.
    pub fn has_bytes_before_end(&self, reason: Disconnect) -> bool {
        let answers = reason == Disconnect::LoggedOut && !self.out.is_empty();
        self.waits_for_store() || (answers && self.replay.active)
    }

    /// Returns the reason of a connection that ends as soon as all bytes are written; `None` if the
    /// connection is not about to end.
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

    /// Takes the requested disconnect; returns its reason as an error.
    pub fn take_requested_disconnect(&mut self) -> Result<(), Disconnect> {
        self.cut.take().map_or(Ok(()), Err)
    }

    /// Returns a more precise reason of the disconnection if the state of the session implies one.
    pub fn end_reason(&self, reason: Disconnect) -> Disconnect {
        match (reason, self.session.state()) {
            (Disconnect::LinkLost, State::LogonSent) => Disconnect::LogonUnanswered,
            _ => reason,
        }
    }

    /// After the end of a connection, lowers the expected number, so that messages that were not
    /// delivered are requested again. `begun` is the number of calls that an application in its own
    /// threads has begun.
    pub fn forget_untaken(&mut self, begun: usize) {
        if let Some(seq) = self.delivery.forget_numbered(begun) {
            self.session.set_next_num_in(seq);
        }
    }

    /// Ends the connection in the session layer, after the last messages of the application were
    /// stored.
    pub fn disconnected(&mut self) {
        // An initiator that still waits for its store has not begun the connection in the session
        // layer.
        if self.refreshes_until_ns.take().is_none() {
            self.session.disconnected(&mut self.out);
        }
    }

    /// Resets the state of the connection after the journal has recorded its end. Returns Text(58)
    /// of the counterparty's Logout(5).
    pub fn end_connection(&mut self) -> Option<Vec<u8>> {
        self.cut = None;
        self.outgoing.end_pause();
        self.slow.reset();
        self.replay.clear();
        self.ending = None;
        self.judging = LogonDecision::default();
        self.logout_text.take()
    }
}
