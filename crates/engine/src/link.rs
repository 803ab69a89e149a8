//! One session with its store, its application and its connection; [`Link::turn`] is the data's
//! way.
//!
//! Here belongs what a message meets on its way: the turn, and the core of a session ([`core`])
//! with its owner, its store and what is to be sent. Waiting, connecting and driving are not here:
//! they are in `drive`.
//!
//! Invariants: a frame is in the store before any byte of it is on the socket. One turn handles the
//! bytes of one read, with one commit and one write unless a batch is full. One owner (the lock
//! around the link) sends.

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
pub(crate) mod hours;
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
use crate::link::hours::Hours;
use crate::link::journal::Journal;
use crate::link::latency_probe::Source;
use crate::link::queue::SendQueue;
use crate::link::receive_buffer::ReceiveBuffer;
use crate::link::rule_book::SessionRules;
use crate::link::sinks::Sinks;

/// The readiness of its socket that a link is told.
pub(crate) const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);
const ENDED: Down = Down::Session(Disconnect::LinkLost);
/// Time after which the memory of a burst is given back.
const TRIM_AFTER_NS: u64 = 1_000_000_000;
/// A session that shares its thread and has had no turn for so long keeps no memory between this
/// turn and the next one, which allocates it anew.
pub(crate) const REST_AFTER_NS: u64 = 250_000_000;

/// The result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Bytes came in, or something was handed over or sent.
    pub(crate) progress: bool,
    /// The socket may hold more already: take another turn without waiting.
    pub(crate) again: bool,
}

/// A connection for a session.
pub(crate) struct Arrival {
    pub(crate) stream: Box<dyn Stream>,
    /// The bytes that were read from it already.
    pub(crate) read: Vec<u8>,
    /// Its Logon(A), if that was accepted before this session was made.
    pub(crate) offer: Option<Offer>,
    /// True if its Password(554) is known to have the hash of the settings.
    pub(crate) password_proof: bool,
    /// The waiter for its result.
    pub(crate) watch: Option<LogonWatch>,
}

impl Arrival {
    /// A connection from which nothing was read yet.
    pub(crate) const fn fresh(stream: Box<dyn Stream>) -> Self {
        Self { stream, read: Vec::new(), offer: None, password_proof: false, watch: None }
    }
}

/// One session and its connection, if it has one.
pub(crate) struct Link {
    executor: Executor,
    stream: Option<Box<dyn Stream>>,
    input: ReceiveBuffer,
    /// The receive buffer holds what no turn has looked at: another owner of the stream has read
    /// it, or the last turn has ended before it.
    unseen: bool,
    /// The messages that are not logged yet.
    received: Received,
    index: FieldIndex,
    /// When the last turn had something to do, on the monotonic clock.
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

    /// The core decides for this session.
    pub(crate) const fn core(&self) -> &Core {
        &self.executor.core
    }

    /// The same, to change it. [`Link::make_calls`] carries out the calls of the application and
    /// the events that this queues; turns, ticks and flushes do so too.
    pub(crate) const fn core_mut(&mut self) -> &mut Core {
        &mut self.executor.core
    }

    /// Carries out what the core decides.
    pub(crate) const fn executor(&mut self) -> &mut Executor {
        &mut self.executor
    }

    pub(crate) const fn journal(&self) -> &Journal {
        &self.executor.journal
    }

    /// The counters and logs of the session.
    pub(crate) const fn sinks(&self) -> &Sinks {
        &self.executor.sinks
    }

    /// Returns true if the store has failed: the connection ends, and the store is opened again.
    pub(crate) const fn has_failed(&self) -> bool {
        self.executor.journal.has_failed()
    }

    /// Returns true if this batch is safe; `None` if nobody knows, since the store has failed
    /// before.
    pub(crate) fn is_safe(&self, batch: Awaited) -> Option<bool> {
        let is_safe = self.executor.core.watermarks.has(batch);
        is_safe.filter(|is_safe| *is_safe || !self.has_failed())
    }

    /// Returns true if nothing may be committed now: see [`Executor::is_held`].
    pub(crate) fn is_held(&self) -> bool {
        self.executor.is_held()
    }

    /// When there is something to tell or to look at though there is no connection.
    pub(crate) fn deadline_at_rest(&self) -> Option<u64> {
        self.executor.deadline_at_rest()
    }

    /// When [`Link::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.executor.next_deadline()
    }

    /// Bytes that wait in memory, in the queue of other threads too.
    pub(crate) fn waiting_bytes(&self, queue: &SendQueue) -> usize {
        self.executor.core.waiting_bytes() + queue.len()
    }

    /// The messages that wait to be sent, oldest first: MsgType(35) and body.
    pub(crate) fn queued(&self, queue: &SendQueue) -> Vec<(String, Vec<u8>)> {
        let mut all = self.executor.core.outgoing.list();
        all.append(&mut queue.list());
        all
    }

    /// Lets others see where the session stands, and tells the application if that is a new state.
    pub(crate) fn note_state(&mut self, now: Now) {
        self.executor.note_state(now);
        self.make_calls(now);
    }

    /// Gives queued events to the sinks, and makes the queued calls of the application.
    pub(crate) fn make_calls(&mut self, now: Now) {
        self.executor.make_calls(now, None);
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.stream.is_some()
    }

    /// Takes a fresh connection.
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

    /// The connection is reported to this worker no more. Returns whether there is one that was.
    pub(crate) fn leave(&mut self, registry: Registry<'_>) -> bool {
        self.stream.as_mut().is_some_and(|stream| stream.deregister(registry).is_ok())
    }

    /// The connection is reported to this worker, with what has come meanwhile.
    pub(crate) fn enter(&mut self, registry: Registry<'_>, token: Token) -> Result<(), Down> {
        match &mut self.stream {
            Some(stream) => stream.register(registry, token, INTEREST).map_err(Down::Io),
            None => Ok(()),
        }
    }

    /// One turn of the data's way: at most one read and so many messages, one commit, and the
    /// writes that the socket takes. More commits and writes follow if that is more than a batch
    /// may have, or much while nobody waits for the end of the turn (`is_alone`). `clock` is asked
    /// once, after the read. `Err` means that the link must be closed.
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
        // In a thread that sends, which has told its caller.
        executor.journal.check().map_err(Down::Store)?;
        // While the application judges a Logon(A), this and what follows wait in receive buffer and
        // kernel.
        let judges = executor.core.is_judging() && !executor.hears_answer();
        // So they wait for an application that has as much before it as may be.
        let (is_behind, has_news) = (executor.core.is_behind(), executor.has_news());
        let core = &executor.core;
        let waits = judges || is_behind;
        let had = !is_behind && (std::mem::take(unseen) || (core.is_judging() && !judges));
        let (mut left, check_sum) = (core.options.turn_messages_max, core.options.check_sum);
        // 1 read, unless the last turn has left something: what is not read yet waits in the kernel
        let (read, again) =
            if had || waits { (0, had) } else { read(executor, input, &mut **stream)? };
        if read == 0 && !had && !executor.core.waits() && !queue.is_pending() && !has_news {
            return Ok(Turn { progress: false, again });
        }
        let now = executor.begin_turn(clock);
        let queue_first = executor.begin_with_queue(now, queue, &mut left);
        // Messages kept above a gap that the last turn has left come before all else.
        let mut outcome = executor.hear_and_go_on(now, &mut left);
        outcome = outcome.and_then(|()| skip(executor, (input, received), now));
        while outcome.is_ok() && !waits && !input.bytes().is_empty() {
            if left == 0 || executor.core.is_behind() {
                cold_path();
                // The other sessions of the worker have their turn first.
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
                            // 5 application, which 6 encodes its answers
                            // Not copied unless there is an error: a processor waits for what
                            // it reads in one piece and has written in several.
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
        // The worker is called when the application has had enough.
        let has_more_work = executor.has_more_work(now, is_behind || *unseen);
        let again = again || more || has_more_work;
        self.note_memory(now);
        // A counterparty that has hung up is looked at when the application has answered.
        Ok(Turn { progress: !waits || has_news, again })
    }

    /// Begins a connection when the store is refreshed; what comes meanwhile waits in the kernel.
    /// Or writes the last words of one, as far as the store has made them safe.
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
            .filter(|reason| !self.executor.core.has_last_words(*reason))
        {
            Some(reason) => Err(Down::Session(reason)),
            None => Ok(Turn { progress: again, again }),
        }
    }

    /// Sees to the memory that a turn has left.
    #[inline]
    fn note_memory(&mut self, now: Now) {
        let last_ns = std::mem::replace(&mut self.last_turn_ns, now.monotonic_ns);
        if now.monotonic_ns.saturating_sub(last_ns) > self.executor.core.options.rest_after_ns {
            self.rest();
        }
        self.note_bulk(now);
    }

    /// Gives back what the next turn makes anew: what one session of a thread gives back, the next
    /// one takes, and finds it in the processor's cache.
    #[cold]
    fn rest(&mut self) {
        self.input.rest();
        self.index = self.executor.core.index();
        self.executor.core.session.rest();
    }

    /// Bytes of the receive buffer between two turns.
    #[cfg(test)]
    pub(crate) fn input_bytes(&self) -> usize {
        self.input.buffer().len()
    }

    /// Plans to give memory back if a burst has left far more than is used.
    #[inline]
    fn note_bulk(&mut self, now: Now) {
        let is_bulky =
            self.input.is_bulky() || self.index.is_bulky() || self.executor.core.is_bulky();
        if is_bulky && self.executor.core.trim_at_ns.is_none() {
            self.executor.core.trim_at_ns = Some(now.monotonic_ns + TRIM_AFTER_NS);
        }
    }

    /// Gives back the memory of a burst that is over.
    fn trim(&mut self, queue: &SendQueue) {
        self.executor.core.trim_at_ns = None;
        self.input.trim();
        self.index.trim();
        self.executor.trim();
        queue.trim();
    }

    /// Does what is due: heartbeats, ends of waits, with as many messages as a turn. Returns
    /// whether a turn is to follow at once: the queue is left in the middle, or the answer to a
    /// Logon(A) is there. [`Link::next_deadline`] covers messages that wait for the application.
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
        let has_answer = self.executor.core.is_judging() && self.executor.hears_answer();
        let owes_turn = self.executor.core.delivery.owes_turn();
        // There may be room before the application again.
        let has_more_work = self.unseen && !self.executor.core.is_behind();
        Ok(has_answer || owes_turn || has_more_work || self.executor.core.sends_more())
    }

    /// Sends in the thread of the caller, who holds the lock.
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
        // Messages that were handed over before go out before.
        self.executor.send_queued(now, queue);
        let mut put = self.executor.probe.source().at(now);
        let sent = self.executor.send_put(now, &mut put, msg_type, fill);
        // A link that fails here is closed by its worker's next turn. A message
        // that was stored is accepted: it is sent again after the next logon.
        match self.flush(now) {
            Err(Down::Store(_)) => Err(SendError::Failed),
            _ => sent,
        }
    }

    /// The same with several messages, of each its MsgType(35) and its body: one commit and one
    /// write, unless that is more than a batch may have. `sent` is told what became of each that
    /// was taken.
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
        // A message is put when the one before it is encoded: one look at the clock for each.
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

    /// Stores and writes what was sent of a batch since so many messages; those are taken back if
    /// the store fails.
    fn flush_batch(
        &mut self,
        now: Now,
        sent: &mut Vec<Sent>,
        flushed: usize,
    ) -> Result<(), SendError> {
        // A link that fails otherwise is closed by its worker's next turn, as with one message.
        if let Err(Down::Store(_)) = self.flush(now) {
            sent.truncate(flushed);
            return Err(SendError::Failed);
        }
        Ok(())
    }

    /// Sends for the application that is called in a thread of its own, who holds the lock: as in
    /// a callback, it goes out when that has returned.
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
        // A message that it has rejected is answered before.
        self.note_had(now).map_err(|_| SendError::Failed)?;
        // Messages that were handed over before go out before. The callback goes on: nothing is
        // committed.
        self.executor.take_queued(now, queue, |_| Ok(()));
        self.executor.core.note_answer(now);
        let sent = self.executor.send_now(now, msg_type, change, fill);
        // The sender sees which number is the next.
        self.note_state(now);
        sent
    }

    /// Takes note of what the application has had in a thread of its own.
    fn note_had(&mut self, now: Now) -> Result<(), Down> {
        match self.executor.poll_application(now) {
            // The worker's next turn ends the connection.
            Err(Down::Session(why)) => self.executor.core.cut = Some(why),
            // The worker's next turn finds it again.
            Ok(()) | Err(Down::Panicked) => {}
            failed => return failed,
        }
        Ok(())
    }

    /// Sends, or takes the message into the queue: as handles do, in the thread that drives the
    /// session.
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

    /// Begins an orderly end; returns whether the counterparty's Logout(5) is waited for.
    pub(crate) fn logout(&mut self, now: Now, text: &str) -> Result<bool, Down> {
        let waits = self.executor.core.session.logout(now, text, &mut self.executor.core.out);
        self.flush(now)?;
        Ok(waits)
    }

    /// The engine ends: see [`Executor::finish`].
    pub(crate) fn finish(&mut self, io: &dyn Io, queue: &SendQueue, until_ns: u64) {
        self.executor.finish(io, queue, until_ns);
    }

    /// Returns true if the session may end: see [`Executor::is_settled`].
    pub(crate) fn is_settled(&mut self, now: Now) -> bool {
        self.executor.is_settled(now)
    }

    /// One commit, and one write: of what the application has sent in a thread of its own together
    /// with what it has had.
    pub(crate) fn flush(&mut self, now: Now) -> Result<(), Down> {
        self.flush_some(now).map(|_| ())
    }

    /// The same. Returns whether the socket may take more.
    fn flush_some(&mut self, now: Now) -> Result<bool, Down> {
        let noted = self.note_had(now);
        self.make_calls(now);
        noted?;
        self.executor.commit(now).map_err(Down::Store)?;
        let more = match self.stream.as_deref_mut() {
            // The turn that began a replay goes on with it, or the socket's next event does.
            Some(stream) => {
                let mut unlogged = self.received.of_turn(self.input.buffer());
                self.executor.write(now, stream, &mut unlogged)
            }
            None => self.executor.look_what_is_safe(now).map(|()| false).map_err(Down::Store),
        };
        self.make_calls(now);
        more
    }

    /// Goes on from the store, after it has failed or a turn has panicked.
    pub(crate) fn reopen(&mut self, io: &dyn Io, queue: &SendQueue) -> Result<(), StoreError> {
        self.executor.reopen(io, queue)?;
        self.input.clear();
        self.unseen = false;
        self.index = self.executor.core.index();
        self.received = Received::of(self.executor.sinks.log.as_ref());
        Ok(())
    }

    /// Closes the connection, if there is one, and tells the application.
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
        // The Logout(5) just written arrives before the end of the stream; a peer that is gone
        // already makes this fail, which changes nothing.
        let _ = stream.shutdown();
        // The cause of the link's end is in the log.
        self.executor.log_received(now, &mut self.received.of_turn(self.input.buffer()));
        self.input.clear();
        self.executor.return_unsent(now, queue, SendError::NotLoggedOn);
        self.executor.closed(now, queue, reason);
        self.make_calls(now);
        self.trim(queue);
        Some(stream)
    }
}

/// A message of so many bytes is done with. Stores and writes the messages of the turn so far, if
/// they are as many as a batch may have, and more has come. Else the turn does so at its end.
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

/// The last two steps. Returns whether the socket may take more.
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

/// The same, for the last time in a turn.
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

/// A frame is no sound message. Returns how many bytes go with it.
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

/// Drops the bytes of a message that is too long, as far as they have come.
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

/// The beginning of an alert of TLS (RFC 8446, section 5.1): a port of TLS answers other protocols
/// so.
const TLS_ALERT: &[u8] = &[21, 3];

/// Passes over bytes that are no message, or begin one that is too long.
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
    // Later it is but bytes that a counterparty may send to mislead whoever reads the log.
    let answers_logon = executor.core.session.state() == transfix_session::State::LogonSent;
    if answers_logon && input.bytes().starts_with(TLS_ALERT) {
        executor.tell(now, &Event::SpeaksTls);
    }
    executor.core.garbled(now, reason, end);
    input.consume(end);
    Ok(())
}

/// Reads once. Returns the bytes read, and whether there may be more at once.
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
        // The application may still answer messages that it has not had yet.
        Ok((0, _)) if !executor.core.delivery.await_idle() => Ok((0, false)),
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
