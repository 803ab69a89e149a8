//! A session with its store, application and connection. [`Link::turn`] processes the bytes of one
//! read.
//!
//! This module contains the path of a message: the turn, the executor around a session's [`core`],
//! the journal, and outbound messages. Waiting, connecting and scheduling are in `drive`.
//!
//! Invariants: a frame is in the store before any of its bytes is on the socket. A turn handles the
//! bytes of one read, with one commit and one write unless a batch is full. Only the thread that
//! holds the link's lock sends.

pub(crate) mod access;
pub(crate) mod app_executor;
pub(crate) mod before_send;
pub(crate) mod callbacks;
pub(crate) mod delivery_queue;
pub(crate) mod down;
pub(crate) mod event;
pub(crate) mod event_log;
pub(crate) mod executor;
pub(crate) mod failed_logons;
pub(crate) mod journal;
pub(crate) mod latency_probe;
pub(crate) mod later;
pub(crate) mod outbound_filter;
pub(crate) mod queue;
mod receive_buffer;
pub(crate) mod refusal;
pub(crate) mod rule_book;
pub(crate) mod session_event;
pub(crate) mod sinks;

use std::hint::cold_path;
use std::io;

use transfix_codec::frame::TooLong;
use transfix_codec::{Body, FieldIndex, Frame, Garbled, Message, frame};
use transfix_observe::protocol_log::Received;
use transfix_session::core::Core;
use transfix_session::{Awaited, Disconnect, HeaderChange, Now, Offer, SendError, Sent, Verdict};
use transfix_store::StoreError;
use transfix_transport::{Interest, Registry, Stream, Token};

use crate::io::Io;
use crate::link::app_executor::AppExecutor;
pub(crate) use crate::link::down::Down;
use crate::link::event::Event;
use crate::link::executor::Executor;
use crate::link::failed_logons::LogonWatch;
use crate::link::journal::Journal;
use crate::link::latency_probe::Source;
use crate::link::queue::SendQueue;
use crate::link::receive_buffer::ReceiveBuffer;
use crate::link::rule_book::SessionRules;
use crate::link::sinks::Sinks;
use transfix_settings::schedule::Hours;

/// The readiness events of a link's socket.
pub(crate) const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);
const ENDED: Down = Down::Session(Disconnect::LinkLost);
/// The time, in nanoseconds, after which a session frees the memory that a burst of messages
/// needed.
const TRIM_AFTER_NS: u64 = 1_000_000_000;
/// The idle time, in nanoseconds, after which a session frees its buffers, which the next turn
/// allocates again. Applies only to sessions that share a thread.
pub(crate) const REST_AFTER_NS: u64 = 250_000_000;

/// The result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The turn read bytes, or accepted or sent messages.
    pub(crate) progress: bool,
    /// True if there may be more work, so that another turn must follow without waiting.
    pub(crate) again: bool,
}

/// A new connection, with all that is known about it when a session receives it.
pub(crate) struct Arrival {
    pub(crate) stream: Box<dyn Stream>,
    /// The bytes that were already read from the stream, such as the Logon(A).
    pub(crate) read: Vec<u8>,
    /// The accepted Logon(A), if it was judged before this session was made from a template.
    pub(crate) offer: Option<Offer>,
    /// True if Password(554) was already compared with the hash in the settings and matches it.
    pub(crate) password_proof: bool,
    /// Records whether the logon succeeds.
    pub(crate) watch: Option<LogonWatch>,
}

impl Arrival {
    /// Returns an arrival whose stream is unread.
    pub(crate) const fn fresh(stream: Box<dyn Stream>) -> Self {
        Self { stream, read: Vec::new(), offer: None, password_proof: false, watch: None }
    }
}

/// A session with its executor, its receive buffer and its connection, if there is one.
pub(crate) struct Link {
    executor: Executor,
    stream: Option<Box<dyn Stream>>,
    input: ReceiveBuffer,
    /// True if the receive buffer holds bytes that no turn has processed: bytes read before the
    /// connection was attached, or left by the last turn.
    unseen: bool,
    /// The received messages of this turn that were not logged yet.
    received: Received,
    index: FieldIndex,
    /// The monotonic time of the last turn with work, in nanoseconds.
    last_turn_ns: u64,
}

impl Link {
    pub(crate) fn new(
        core: Core,
        (hours, rules): (Option<Hours>, SessionRules),
        (journal, sinks, probe): (Journal, Sinks, Source),
        application: AppExecutor,
    ) -> Self {
        let (input, index) = (ReceiveBuffer::default(), core.index());
        let received = Received::of(sinks.log.as_ref());
        let executor = Executor::new(core, (hours, rules), (journal, sinks, probe), application);
        Self { executor, stream: None, input, unseen: false, received, index, last_turn_ns: 0 }
    }

    /// Returns the core, which makes the decisions of this session.
    pub(crate) const fn core(&self) -> &Core {
        &self.executor.core
    }

    /// Returns the core for changes. A change may queue application calls and events, which
    /// [`Link::make_calls`] carries out; turns, ticks and flushes call it.
    pub(crate) const fn core_mut(&mut self) -> &mut Core {
        &mut self.executor.core
    }

    /// Returns the executor, which carries out the decisions of the core.
    pub(crate) const fn executor(&mut self) -> &mut Executor {
        &mut self.executor
    }

    pub(crate) const fn journal(&self) -> &Journal {
        &self.executor.journal
    }

    /// Returns the counters and logs of the session.
    pub(crate) const fn sinks(&self) -> &Sinks {
        &self.executor.sinks
    }

    /// Returns true if the store has failed. The connection then ends, and the store must be
    /// reopened.
    pub(crate) const fn has_failed(&self) -> bool {
        self.executor.journal.has_failed()
    }

    /// Returns true if `batch` is durable. Returns `None` if its durability is unknown because the
    /// store has failed.
    pub(crate) fn is_safe(&self, batch: Awaited) -> Option<bool> {
        let is_safe = self.executor.core.watermarks.has(batch);
        is_safe.filter(|is_safe| *is_safe || !self.has_failed())
    }

    /// Returns true if commits are suspended: see [`Executor::is_held`].
    pub(crate) fn is_held(&self) -> bool {
        self.executor.is_held()
    }

    /// Returns the next deadline of a session without a connection.
    pub(crate) fn deadline_at_rest(&self) -> Option<u64> {
        self.executor.deadline_at_rest()
    }

    /// Returns the monotonic time at which [`Link::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.executor.next_deadline()
    }

    /// Returns the number of bytes that wait in memory, including the queue that other threads
    /// fill.
    pub(crate) fn waiting_bytes(&self, queue: &SendQueue) -> usize {
        self.executor.core.waiting_bytes() + queue.len()
    }

    /// Returns the messages that wait to be sent, oldest first: MsgType(35) and body.
    pub(crate) fn queued(&self, queue: &SendQueue) -> Vec<(String, Vec<u8>)> {
        let mut all = self.executor.core.outgoing.list();
        all.append(&mut queue.list());
        all
    }

    /// Publishes the state of the session, and reports a new state to the application.
    pub(crate) fn note_state(&mut self, now: Now) {
        self.executor.note_state(now);
        self.make_calls(now);
    }

    /// Reports queued events to the sinks, and makes the queued calls of the application.
    pub(crate) fn make_calls(&mut self, now: Now) {
        self.executor.make_calls(now, None);
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    /// Attaches a new connection, and begins the session on it.
    pub(crate) fn attach(&mut self, now: Now, arrival: Arrival) -> Result<(), Down> {
        assert!(self.stream.is_none(), "a session has one connection at a time");
        let peer = arrival.stream.peer_addr();
        self.executor.sinks.event_log.connected(peer);
        self.executor.sinks.published.note_peer(peer);
        self.stream = Some(arrival.stream);
        self.input.clear();
        self.input.preload(&arrival.read);
        self.unseen = !arrival.read.is_empty();
        self.executor.sinks.watch = arrival.watch;
        self.executor.connected(now, arrival.offer)?;
        self.executor.core.session.set_password_proof(arrival.password_proof);
        self.flush(now)
    }

    /// Deregisters the connection from this worker. Returns true if a connection was registered.
    pub(crate) fn leave(&mut self, registry: Registry<'_>) -> bool {
        self.stream.as_mut().is_some_and(|stream| stream.deregister(registry).is_ok())
    }

    /// Registers the connection with this worker. The worker then reports bytes that arrived
    /// meanwhile.
    pub(crate) fn enter(&mut self, registry: Registry<'_>, token: Token) -> Result<(), Down> {
        match &mut self.stream {
            Some(stream) => stream.register(registry, token, INTEREST).map_err(Down::Io),
            None => Ok(()),
        }
    }

    /// Runs one turn: at most one read, at most `turn_messages_max` messages, one commit, and the
    /// writes that the socket accepts. A full batch causes further commits and writes. With
    /// `is_alone`, batches may be smaller, because no other session waits for this turn. The turn
    /// calls `clock` once, after the read. On `Err` the caller must close the link.
    pub(crate) fn turn(
        &mut self,
        queue: &SendQueue,
        is_alone: bool,
        clock: impl FnOnce() -> Now,
    ) -> Result<Turn, Down> {
        let Self { executor, stream: Some(stream), input, index, unseen, received, .. } = self
        else {
            return Ok(Turn::default());
        };
        if executor.core.ending().is_some() || executor.core.is_refreshing() {
            return self.begin_or_end(clock());
        }
        // A direct send in another thread may have found that the store has failed, so the link
        // closes here.
        executor.journal.check().map_err(Down::Store)?;
        // While the application judges a Logon(A), later bytes wait in the receive buffer and the
        // kernel.
        let judges = executor.core.is_judging() && !executor.has_answer_now();
        // Bytes also stay there while the application has reached its limit of waiting messages.
        let (is_behind, has_news) = (executor.core.is_behind(), executor.has_news());
        let core = &executor.core;
        let waits = judges || is_behind;
        let had = !is_behind && (std::mem::take(unseen) || (core.is_judging() && !judges));
        let (mut left, check_sum) = (core.options.turn_messages_max, core.options.check_sum);
        // 1 read, unless the last turn has left bytes: unread bytes wait in the kernel
        let (read, again) =
            if had || waits { (0, had) } else { read(executor, input, &mut **stream)? };
        if read == 0 && !had && !executor.core.waits() && !queue.is_pending() && !has_news {
            return Ok(Turn { progress: false, again });
        }
        let now = executor.begin_turn(clock);
        let queue_first = executor.begin_with_queue(now, queue, &mut left);
        // Messages kept above a gap and left by the last turn come first.
        let mut outcome = executor.process_ended_and_held(now, &mut left);
        outcome = outcome.and_then(|()| skip(executor, (input, received), now));
        while outcome.is_ok() && !waits && !input.bytes().is_empty() {
            if left == 0 || executor.core.is_behind() {
                cold_path();
                // The limit of messages is reached, so the other sessions of the worker run first.
                *unseen = true;
                break;
            }
            left -= 1;
            // 2 split
            match frame::split(input.bytes(), executor.core.options.limits) {
                Frame::Whole(mut end) => {
                    // 3 index
                    match Message::parse(&input.bytes()[..end], index, check_sum) {
                        Ok(message) => {
                            received.message(input.range(end), || executor.core.has_asked());
                            // 4 session
                            let verdict = executor.receive(now, &message);
                            if verdict == Verdict::LogonOffered {
                                break;
                            }
                            // 5 application; 6 encode its answers
                            // Copy the outcome only on an error: the processor stalls when it
                            // reads as a whole what it has written in parts.
                            if let Err(why) = executor.act(now, &message, &verdict, &mut left) {
                                outcome = Err(why);
                            }
                        }
                        Err(why) => {
                            (end, outcome) = lose(executor, (input, received), now, (end, why))
                        }
                    }
                    pass(executor, (input, received), (now, end, is_alone), &mut **stream)?;
                }
                Frame::Partial => break,
                other => outcome = pass_over(executor, (input, received), now, other),
            }
        }
        *unseen |= executor.core.session.holds_next();
        executor.end_with_queue(now, queue, &mut left, queue_first).map_err(Down::Store)?;
        let more = end_turn(executor, (input, received), now, &mut **stream)?;
        if let Err(why) = outcome {
            return executor.end(now, why).map(|()| Turn { progress: true, again: more });
        }
        // Work that waits for the application continues in a later turn, when the application has
        // caught up.
        let has_more_work = executor.has_more_work(now, is_behind || *unseen);
        let again = again || more || has_more_work;
        self.note_memory(now);
        // The end of the connection is handled only after the application has answered all
        // messages.
        Ok(Turn { progress: !waits || has_news, again })
    }

    /// Begins a connection when the refresh of the store has ended; received bytes wait in the
    /// kernel until then. If the connection is ending, writes the last messages when they are
    /// durable.
    #[cold]
    fn begin_or_end(&mut self, now: Now) -> Result<Turn, Down> {
        if self.executor.core.is_refreshing() {
            self.executor.journal.check().map_err(Down::Store)?;
            if let Some(reason) = self.executor.core.cut.take() {
                return Err(Down::Session(reason));
            }
            self.executor.log_on_refreshed(now)?;
            self.flush(now)?;
            let progress = !self.executor.core.is_refreshing();
            return Ok(Turn { progress, again: progress });
        }
        let again = self.flush_some(now)?;
        match self
            .executor
            .core
            .ending()
            .filter(|reason| !self.executor.core.has_bytes_before_end(*reason))
        {
            Some(reason) => Err(Down::Session(reason)),
            None => Ok(Turn { progress: again, again }),
        }
    }

    /// Frees buffers if the session was idle before this turn, and plans to free the memory of a
    /// burst.
    #[inline]
    fn note_memory(&mut self, now: Now) {
        let last_ns = std::mem::replace(&mut self.last_turn_ns, now.monotonic_ns);
        if now.monotonic_ns.saturating_sub(last_ns) > self.executor.core.options.rest_after_ns {
            self.rest();
        }
        self.note_bulk(now);
    }

    /// Frees the buffers that the next turn allocates again. Another session of the thread can
    /// reuse the memory while it is still in the processor's cache.
    #[cold]
    fn rest(&mut self) {
        self.input.rest();
        self.index = self.executor.core.index();
        self.executor.core.session.rest();
    }

    /// Returns the bytes of the receive buffer between two turns.
    #[cfg(test)]
    pub(crate) fn input_bytes(&self) -> usize {
        self.input.buffer().len()
    }

    /// Plans a trim if a burst has left far more memory than the session uses.
    #[inline]
    fn note_bulk(&mut self, now: Now) {
        let is_bulky =
            self.input.is_bulky() || self.index.is_bulky() || self.executor.core.is_bulky();
        if is_bulky && self.executor.core.trim_at_ns.is_none() {
            self.executor.core.trim_at_ns = Some(now.monotonic_ns + TRIM_AFTER_NS);
        }
    }

    /// Frees the memory of a past burst.
    fn trim(&mut self, queue: &SendQueue) {
        self.executor.core.trim_at_ns = None;
        self.input.trim();
        self.index.trim();
        self.executor.trim();
        queue.trim();
    }

    /// Does what is due, such as heartbeats and timeouts, and sends at most `turn_messages_max`
    /// messages. Returns true if a turn must follow at once: the queue is not empty, or the answer
    /// to a Logon(A) has arrived. [`Link::next_deadline`] covers messages that wait for the
    /// application.
    pub(crate) fn tick(&mut self, now: Now, queue: &SendQueue) -> Result<bool, Down> {
        if self.executor.core.trim_at_ns.is_some_and(|at| now.monotonic_ns >= at) {
            self.trim(queue);
            self.note_bulk(now);
        }
        let mut left = self.executor.core.options.turn_messages_max;
        let outcome = self.executor.tick(now, &mut left);
        self.executor.send_some(now, queue, &mut left);
        self.flush(now)?;
        if let Err(why) = outcome {
            return self.executor.end(now, why).map(|()| false);
        }
        let has_answer = self.executor.core.is_judging() && self.executor.has_answer_now();
        let owes_turn = self.executor.core.delivery.owes_turn();
        // A turn must continue if the application has room for messages again.
        let has_more_work = self.unseen && !self.executor.core.is_behind();
        Ok(has_answer || owes_turn || has_more_work || self.executor.core.sends_more())
    }

    /// Sends a message in the calling thread, which holds the link's lock.
    pub(crate) fn send(
        &mut self,
        now: Now,
        queue: &SendQueue,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        // The engine may have been stopped while the caller was encoding.
        if queue.is_closed() {
            return Err(SendError::Closed);
        }
        // Queued messages are sent first.
        self.executor.send_queued(now, queue);
        let mut put = self.executor.probe.source().at(now);
        let sent = self.executor.send_put(now, &mut put, msg_type, fill);
        // If the link fails otherwise, its worker's next turn closes it. The stored message counts
        // as accepted, and is resent after the next logon.
        match self.flush(now) {
            Err(Down::Store(_)) => Err(SendError::Failed),
            _ => sent,
        }
    }

    /// Sends several messages, each given as MsgType(35) and body, like [`Link::send`]. Uses one
    /// commit and one write unless a batch is full. Appends the result of each accepted message to
    /// `sent`.
    pub(crate) fn send_batch<'b>(
        &mut self,
        now: Now,
        queue: &SendQueue,
        messages: impl Iterator<Item = (&'b [u8], &'b [u8])>,
        sent: &mut Vec<Sent>,
    ) -> Result<(), SendError> {
        if queue.is_closed() {
            return Err(SendError::Closed);
        }
        self.executor.send_queued(now, queue);
        let (mut outcome, mut flushed) = (Ok(()), 0);
        // The start time of each message is the end time of the previous one, which saves a reading
        // of the clock.
        let mut put = self.executor.probe.source().at(now);
        for (msg_type, body) in messages {
            let fill = |whole: &mut Body<'_>| _ = whole.fields_unchecked(body);
            match self.executor.send_put(now, &mut put, msg_type, fill) {
                Ok(one) => sent.push(one),
                Err(why) => {
                    outcome = Err(why);
                    break;
                }
            }
            if self.executor.is_batch_full(false) {
                self.flush_batch(now, sent, flushed)?;
                flushed = sent.len();
                put = self.executor.probe.source().at(now);
            }
        }
        self.flush_batch(now, sent, flushed)?;
        outcome
    }

    /// Stores and writes the messages of `sent` from index `flushed` on. If the store fails,
    /// removes their results from `sent`.
    fn flush_batch(
        &mut self,
        now: Now,
        sent: &mut Vec<Sent>,
        flushed: usize,
    ) -> Result<(), SendError> {
        // If the link fails otherwise, its worker's next turn closes it, as after a single message.
        if let Err(Down::Store(_)) = self.flush(now) {
            sent.truncate(flushed);
            return Err(SendError::Failed);
        }
        Ok(())
    }

    /// Sends a message for an application that runs in application threads; the caller holds the
    /// lock. The message is stored and written when the callback has returned, as in the session's
    /// own thread.
    pub(crate) fn send_now(
        &mut self,
        now: Now,
        queue: &SendQueue,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        if queue.is_closed() {
            return Err(SendError::Closed);
        }
        // Processes ended calls first, so that the answer to a rejected message precedes this
        // message.
        self.note_had(now).map_err(|_| SendError::Failed)?;
        // Queued messages are sent first. The batch is not committed, because the callback is still
        // running.
        self.executor.take_queued(now, queue, |_| Ok(()));
        self.executor.core.note_answer(now);
        let sent = self.executor.send_now(now, msg_type, change, fill);
        // Publishes the next number, which the sender may read.
        self.note_state(now);
        sent
    }

    /// Processes the ended calls of an application that runs in its own threads.
    fn note_had(&mut self, now: Now) -> Result<(), Down> {
        match self.executor.poll_application(now) {
            // Records the reason, so that the worker's next turn ends the connection.
            Err(Down::Session(why)) => self.executor.core.cut = Some(why),
            // The next turn of the worker detects the panic again.
            Ok(()) | Err(Down::Panicked) => {}
            failed => return failed,
        }
        Ok(())
    }

    /// Sends the message or queues it, like a send through a handle. Runs in the thread that holds
    /// the session.
    pub(crate) fn send_or_queue(
        &mut self,
        now: Now,
        queue: &SendQueue,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        if !self.executor.core.must_queue() {
            return self.send(now, queue, msg_type, fill);
        }
        let queued = self.executor.queue(now, queue, msg_type, fill);
        self.make_calls(now);
        queued.map(|bytes| Sent::Queued { bytes })
    }

    /// Begins a logout. Returns true if the counterparty's Logout(5) must be awaited.
    pub(crate) fn logout(&mut self, now: Now, text: &str) -> Result<bool, Down> {
        let waits = self.executor.core.session.logout(now, text, &mut self.executor.core.out);
        self.flush(now)?;
        Ok(waits)
    }

    /// Ends the session because the engine ends: see [`Executor::finish`].
    pub(crate) fn finish(&mut self, io: &dyn Io, queue: &SendQueue, until_ns: u64) {
        self.executor.finish(io, queue, until_ns);
    }

    /// Returns true if the session may end: see [`Executor::is_settled`].
    pub(crate) fn is_settled(&mut self, now: Now) -> bool {
        self.executor.is_settled(now)
    }

    /// Processes ended calls of an application in application threads, then commits and writes
    /// once.
    pub(crate) fn flush(&mut self, now: Now) -> Result<(), Down> {
        self.flush_some(now).map(|_| ())
    }

    /// Flushes as [`Link::flush`] does. Returns true if the socket may accept more.
    fn flush_some(&mut self, now: Now) -> Result<bool, Down> {
        let noted = self.note_had(now);
        self.make_calls(now);
        noted?;
        self.executor.commit(now).map_err(Down::Store)?;
        let more = match self.stream.as_deref_mut() {
            // Does not continue a replay: the turn that began it does, or the socket's next event.
            Some(stream) => {
                let mut unlogged = self.received.of_turn(self.input.buffer());
                self.executor.write(now, stream, &mut unlogged)
            }
            None => self.executor.look_what_is_safe(now).map(|()| false).map_err(Down::Store),
        };
        self.make_calls(now);
        more
    }

    /// Restores the session from its store, after a failure of the store or a panic.
    pub(crate) fn reopen(&mut self, io: &dyn Io, queue: &SendQueue) -> Result<(), StoreError> {
        self.executor.reopen(io, queue)?;
        self.input.clear();
        self.unseen = false;
        self.index = self.executor.core.index();
        self.received = Received::of(self.executor.sinks.log.as_ref());
        Ok(())
    }

    /// Closes the connection, if there is one, and reports the end to the application.
    pub(crate) fn close(
        &mut self,
        now: Now,
        queue: &SendQueue,
        reason: Disconnect,
    ) -> Option<Box<dyn Stream>> {
        let Some(mut stream) = self.stream.take() else {
            self.make_calls(now);
            return None;
        };
        // The shutdown sends the Logout(5) that was just written before the end of the stream. An
        // error is ignored, because the peer may already have closed.
        let _ = stream.shutdown();
        // Logs the received bytes that have not been logged yet, among them those that caused the
        // end.
        self.executor.log_received(now, &mut self.received.of_turn(self.input.buffer()));
        self.input.clear();
        self.executor.return_unsent(now, queue, SendError::NotLoggedOn);
        self.executor.closed(now, queue, reason);
        self.make_calls(now);
        self.trim(queue);
        Some(stream)
    }
}

/// Consumes `end` bytes of a processed message. If the batch is full and more bytes have arrived,
/// stores and writes the messages so far; otherwise the end of the turn does.
#[inline(always)]
fn pass(
    executor: &mut Executor,
    (input, received): (&mut ReceiveBuffer, &mut Received),
    (now, end, is_alone): (Now, usize, bool),
    stream: &mut dyn Stream,
) -> Result<(), Down> {
    input.consume(end);
    if !input.bytes().is_empty() && executor.is_batch_full(is_alone) {
        store_and_write(executor, (input, received), now, stream)?;
    }
    Ok(())
}

/// Commits and writes: the last two steps of a turn. Returns true if the socket may accept more.
#[inline]
fn store_and_write(
    executor: &mut Executor,
    (input, received): (&ReceiveBuffer, &mut Received),
    now: Now,
    stream: &mut dyn Stream,
) -> Result<bool, Down> {
    // 7 store
    executor.commit(now).map_err(Down::Store)?;
    // 8 write
    executor.write(now, stream, &mut received.of_turn(input.buffer()))
}

/// Commits and writes for the last time in a turn. Returns true if the socket may accept more.
#[inline]
fn end_turn(
    executor: &mut Executor,
    (input, received): (&ReceiveBuffer, &mut Received),
    now: Now,
    stream: &mut dyn Stream,
) -> Result<bool, Down> {
    let more = store_and_write(executor, (input, received), now, stream)?;
    executor.log_received(now, &mut received.of_turn(input.buffer()));
    if executor.core.is_stalled() {
        return Err(Down::Session(Disconnect::Stalled));
    }
    Ok(more)
}

/// Handles a garbled frame. Returns the number of bytes to drop.
#[cold]
fn lose(
    executor: &mut Executor,
    (input, received): (&mut ReceiveBuffer, &mut Received),
    now: Now,
    (end, reason): (usize, Garbled),
) -> (usize, Result<(), Down>) {
    let new = input.take_received();
    let end = executor.core.lost_with(input.bytes(), end, new);
    received.garbled(input.range(end));
    let lost = executor.core.garbled_frame(now, &input.bytes()[..end], reason);
    (end, lost.map_err(Down::from).and_then(|()| executor.put_entries(now).map_err(Down::Store)))
}

/// Drops the received bytes of a message that is too long.
#[inline]
fn skip(
    executor: &mut Executor,
    (input, received): (&mut ReceiveBuffer, &mut Received),
    now: Now,
) -> Result<(), Down> {
    let Some(mut message) = input.too_long.take() else { return Ok(()) };
    cold_path();
    let taken = message.take(input.bytes());
    received.garbled(input.range(taken));
    input.consume(taken);
    match message.outcome() {
        Some(outcome) => {
            executor.core.end_too_long(now, &message, outcome)?;
            executor.put_entries(now).map_err(Down::Store)
        }
        None => {
            input.too_long = Some(message);
            Ok(())
        }
    }
}

/// The first bytes of a TLS alert (RFC 8446, section 5.1), with which a TLS port answers plain
/// text.
const TLS_ALERT: &[u8] = &[21, 3];

/// Skips bytes that are not a message, or that begin a message that is too long.
#[cold]
fn pass_over(
    executor: &mut Executor,
    (input, received): (&mut ReceiveBuffer, &mut Received),
    now: Now,
    found: Frame,
) -> Result<(), Down> {
    let (end, reason) = match found {
        Frame::Garbled { skip, reason } => (skip, reason),
        Frame::TooLong { end } => {
            input.too_long = Some(Box::new(TooLong::new(end)));
            executor.core.begin_too_long(now, end)?;
            executor.put_entries(now).map_err(Down::Store)?;
            return skip(executor, (input, received), now);
        }
        Frame::Whole(_) | Frame::Partial => return Ok(()),
    };
    let new = input.take_received();
    let end = executor.core.lost_with(input.bytes(), end, new);
    received.garbled(input.range(end));
    // A TLS alert is reported only before the logon, because a counterparty could later send these
    // bytes to mislead readers of the log.
    let answers_logon = executor.core.session.state() == transfix_session::State::LogonSent;
    if answers_logon && input.bytes().starts_with(TLS_ALERT) {
        executor.tell(now, &Event::SpeaksTls);
    }
    executor.core.garbled(now, reason, end);
    input.consume(end);
    Ok(())
}

/// Reads once from the stream. Returns the number of bytes read, and true if more may be available.
fn read(
    executor: &mut Executor,
    input: &mut ReceiveBuffer,
    stream: &mut dyn Stream,
) -> Result<(usize, bool), Down> {
    let was_away = executor.core.was_away;
    if was_away {
        executor.prefetch_parts();
    }
    match input.read(stream) {
        // The end of the stream waits until the application has answered the messages that are
        // still queued for it.
        Ok((0, _)) if !executor.core.delivery.ask_for_idle() => Ok((0, false)),
        Ok((0, _)) => Err(ENDED),
        Ok(read) => {
            if was_away {
                executor.prefetch_memory();
            }
            Ok(read)
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok((0, false)),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok((0, true)),
        Err(e) => Err(Down::Io(e)),
    }
}
