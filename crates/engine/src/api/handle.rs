//! Sending from anywhere: handles to sessions.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use transfix_codec::Body;
use transfix_observe::counters::Counters;
use transfix_observe::latency::Latency;
use transfix_session::{OperateError, SendError, Sent, SessionId, State};
use transfix_settings::{Offline, SendMode, SessionSettings};
use transfix_store::StoreError;

use crate::api::batch::{Batch, BatchSent};
use crate::api::options::{Opening, SendOptions};
use crate::drive::drives::drives;
use crate::drive::shared::Shared;
use crate::link::Link;
use crate::link::callbacks::PassedOn;
use crate::link::queue::Pushed;

/// Memory for bodies that a thread keeps: enough for any usual message.
const BODY_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    /// Where this thread encodes what it sends. Taken meanwhile: a closure may send as well.
    static BODY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How long a message that is queued without a logon waits for the session's lock.
const LOCK_WAIT_NS: u64 = 20_000_000;

/// How long a session looks for the lock of another one, to which it passes a message on: longer
/// than most turns.
const PASS_ON_NS: u64 = 50_000;

/// How long an operator waits for a store that takes over what another process has written.
const REFRESH_WAIT_NS: u64 = 10_000_000_000;

/// Time between two looks of a sender that waits for its message to be safe.
const SAFE_LOOK: Duration = Duration::from_micros(50);

/// Sends into one session, from any thread. A stuck counterparty never blocks a call.
///
/// A callback of any session may call [`SessionHandle::send`] and the methods that only read:
/// state, numbers, counters, times. These wait for nothing. The other methods wait for the end of
/// the turn of the session: never call them from a callback.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) shared: Arc<Shared>,
}

impl SessionHandle {
    pub(crate) const fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns the identity of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns the settings of the session at its start.
    #[must_use]
    pub fn settings(&self) -> &SessionSettings {
        &self.shared.settings
    }

    /// Returns true if the session is logged on. The answer may be outdated at once.
    #[must_use]
    pub fn is_logged_on(&self) -> bool {
        self.shared.published.state() == State::Active
    }

    /// Sends an application message; `fill` writes its fields. `fill` runs before the session is
    /// locked: it may take long, and its panic loses this message alone.
    ///
    /// With `send = "direct"` the calling thread stores and writes the message if the session is
    /// free. Otherwise, and with `send = "queued"`, the worker of the session does. Messages of one
    /// thread keep their order in both cases.
    ///
    /// `send` never waits for the counterparty. If more than `queued_bytes_max` wait to be sent, it
    /// refuses; with `queue_when_full` it waits for a limited time, or disconnects.
    ///
    /// # Errors
    /// [`SendError`]: the session did not accept the message.
    pub fn send(
        &self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let msg_type = msg_type.as_ref();
        self.send_whole(msg_type, fill, |body| self.hand_over(msg_type, body))
    }

    /// Encodes a message, and hands its body over.
    #[inline]
    fn send_whole<T>(
        &self,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
        hand_over: impl FnOnce(&[u8]) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.may_send()?;
        // A thread that ends may send once more, when it has given this memory back.
        let mut body = BODY.try_with(Cell::take).unwrap_or_default();
        body.clear();
        let sent = Body::detached(&mut body, self.shared.queue.precision(), fill)
            .map_err(SendError::Misuse)
            .and_then(|()| match &self.shared.filter {
                Some(filter) => filter.pass(msg_type, &mut body),
                None => Ok(()),
            })
            .and_then(|()| hand_over(&body));
        if body.capacity() <= BODY_BYTES_KEPT {
            let _ = BODY.try_with(|kept| kept.set(body));
        }
        sent
    }

    /// Sends an application message like [`SessionHandle::send`], with options. With
    /// [`SendOptions::stored`], for instance, the call returns when the store has the message.
    ///
    /// # Errors
    /// As [`SessionHandle::send`]; [`SendError::NoApplVerId`] for a version before FIXT.1.1.
    ///
    /// With `stored` also [`SendError::WouldWait`] in a thread that drives sessions: without
    /// `application_threads`, callbacks run in such threads. With `stored` also
    /// [`SendError::WouldBlock`] while an operator or `queue_pause` holds messages back. After
    /// [`SendError::Failed`] the store may have the message; after all other errors nothing was
    /// sent.
    pub fn send_with(
        &self,
        options: SendOptions<'_>,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let SendOptions { version, poss_resend, stored, note } = options;
        let fill = Opening::of(version, poss_resend, self.id())?.then(fill);
        let note: &mut dyn FnMut(Sent) = match note {
            Some(note) => note,
            None if stored => &mut |_| (),
            None => return self.send(msg_type, fill),
        };
        if drives() {
            return Err(SendError::WouldWait);
        }
        let msg_type = msg_type.as_ref();
        self.send_whole(msg_type, fill, |body| match self.store(msg_type, body, note) {
            Err(full @ SendError::WouldBlock { .. }) => {
                self.shared.when_full(full, || self.store(msg_type, body, note))
            }
            sent => sent,
        })
    }

    /// Sends a message that was received by another session, whose lock this thread has: so it
    /// waits for no lock. It is in the store when this returns.
    pub(crate) fn pass_on(&self, msg_type: &[u8], fill: &mut dyn FnMut(&mut Body<'_>)) -> PassedOn {
        let until_ns = self.shared.io.monotonic_ns() + PASS_ON_NS;
        let sent = self.send_whole(msg_type, fill, |body| {
            loop {
                match self.shared.link.try_lock() {
                    Ok(mut link) => {
                        return match link.executor().holds(self.shared.io.now()) {
                            true => Ok(PassedOn::Busy),
                            false => self.put(&mut link, msg_type, body).map(|_| PassedOn::Sent),
                        };
                    }
                    Err(TryLockError::Poisoned(_)) => return Err(SendError::Failed),
                    Err(TryLockError::WouldBlock)
                        if self.shared.io.monotonic_ns() < until_ns
                            && !self.shared.io.gives_way() =>
                    {
                        std::hint::spin_loop();
                    }
                    Err(TryLockError::WouldBlock) => return Ok(PassedOn::Busy),
                }
            }
        });
        sent.unwrap_or_else(PassedOn::Refused)
    }

    /// Puts a message with its number into the store, and waits until it is safe there.
    fn store(
        &self,
        msg_type: &[u8],
        body: &[u8],
        note: &mut dyn FnMut(Sent),
    ) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        let mut link = shared.sound_link().map_err(|_| SendError::Failed)?;
        // Nothing is committed before the answer of the application is whole.
        while link.executor().holds(shared.io.now()) {
            drop(link);
            shared.io.sleep(SAFE_LOOK);
            link = shared.sound_link().map_err(|_| SendError::Failed)?;
        }
        let (sent, batch) = (self.put(&mut link, msg_type, body)?, link.core().awaited());
        // The thread that has the session reads the counterparty's answer, after this.
        note(sent);
        drop(link);
        // The worker is woken when it is safe, and takes note of it.
        loop {
            match shared.lock().is_safe(batch) {
                Some(true) => return Ok(sent),
                Some(false) => shared.io.sleep(SAFE_LOOK),
                None => return Err(SendError::Failed),
            }
        }
    }

    /// Puts a message with its number into the store.
    fn put(&self, link: &mut Link, msg_type: &[u8], body: &[u8]) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        let fill = |whole: &mut Body<'_>| _ = whole.fields_unchecked(body);
        // Others that wait in memory go first.
        if link.core().waits_behind() {
            return Err(SendError::WouldBlock { queued_bytes: shared.queue.waiting() });
        }
        let now = shared.io.now();
        let sent = match shared.offline {
            Offline::Queue => link.send_or_queue(now, &shared.queue, msg_type, fill),
            _ => link.send(now, &shared.queue, msg_type, fill),
        };
        self.note_sent(link);
        sent
    }

    /// Returns an empty batch for messages of this session.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(self.shared.queue.precision())
    }

    /// Sends all messages of a batch in order, each as [`SessionHandle::send`] does. The calling
    /// thread needs one commit of the store and one write. The settings `batch_messages_max` and
    /// `batch_bytes_max` divide a large batch. No other message comes between the messages of one
    /// part, and the session is busy until the part is written.
    pub fn send_batch(&self, batch: &Batch) -> BatchSent {
        let mut sent = Vec::with_capacity(batch.len());
        let Some(filter) = &self.shared.filter else {
            let refused = self.send_all(batch, &mut sent).err();
            return BatchSent { sent, refused };
        };
        // Those before one that does not pass are sent.
        let (passed, refusal) = batch.passed(|msg_type, body| filter.pass(msg_type, body));
        let refused = self.send_all(&passed, &mut sent).err().or(refusal);
        BatchSent { sent, refused }
    }

    fn send_all(&self, batch: &Batch, sent: &mut Vec<Sent>) -> Result<(), SendError> {
        self.may_send()?;
        let shared = &*self.shared;
        if shared.send_mode == SendMode::Direct
            && self.is_logged_on()
            && let Ok(Some(mut link)) = shared.link_to_send()
            && !link.core().must_queue()
        {
            let all = link.send_batch(shared.io.now(), &shared.queue, batch.messages(), sent);
            self.note_sent(&mut link);
            drop(link);
            match all {
                // There may be room later.
                Err(SendError::WouldBlock { .. }) => {}
                all => return all,
            }
        }
        for (msg_type, body) in batch.messages().skip(sent.len()) {
            sent.push(self.hand_over(msg_type, body)?);
        }
        Ok(())
    }

    /// Messages were sent in this thread: the worker is called if they leave it something to do.
    fn note_sent(&self, link: &mut Link) {
        let shared = &*self.shared;
        let is_over = link.is_up() && shared.waiting.note(link.waiting_bytes(&shared.queue));
        if is_over || link.core_mut().calls_worker() || link.has_failed() {
            shared.call_worker();
        }
    }

    /// Checks that a message may be taken at all: nothing is encoded in vain.
    fn may_send(&self) -> Result<(), SendError> {
        let shared = &*self.shared;
        if shared.closed.load(Ordering::Acquire) {
            return Err(SendError::Closed);
        }
        if shared.offline != Offline::Refuse {
            return Ok(());
        }
        shared.published.state().ready().map_err(|why| match shared.link.try_lock() {
            Ok(link) if link.has_failed() => SendError::Failed,
            Err(TryLockError::Poisoned(_)) => SendError::Failed,
            _ => why,
        })
    }

    /// Hands over a body that is whole.
    fn hand_over(&self, msg_type: &[u8], body: &[u8]) -> Result<Sent, SendError> {
        match self.try_hand_over(msg_type, body) {
            Err(full @ SendError::WouldBlock { .. }) => {
                self.shared.when_full(full, || self.try_hand_over(msg_type, body))
            }
            sent => sent,
        }
    }

    fn try_hand_over(&self, msg_type: &[u8], body: &[u8]) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        if shared.offline == Offline::Queue && !self.is_logged_on() {
            return self.queue_offline(msg_type, body);
        }
        let fill = |whole: &mut Body<'_>| _ = whole.fields_unchecked(body);
        // Without a logon there is no worker's turn to wait for: refused, or stored, at once,
        // unless somebody else has the lock at this moment.
        let mut queues = false;
        if shared.send_mode == SendMode::Direct || !self.is_logged_on() {
            match shared.link_to_send()? {
                Some(link) if link.core().must_queue() => queues = true,
                Some(mut link) => {
                    let sent = link.send(shared.io.now(), &shared.queue, msg_type, fill);
                    self.note_sent(&mut link);
                    return sent;
                }
                None => {}
            }
        }
        if !queues && shared.offline == Offline::Refuse {
            shared.published.state().ready()?;
        }
        let Pushed { bytes, first, .. } = shared.queue.push(msg_type, fill)?;
        if shared.waiting.may_be_over(bytes) {
            shared.call_worker();
        } else if first {
            shared.session_waker.wake_for_message();
        }
        Ok(Sent::Queued { bytes })
    }

    /// Queues a message without a logon: it is in the store when this returns, with two exceptions.
    ///
    /// The holder of the lock gives it back soon. A thread that drives sessions does not wait for
    /// it: it may have it itself, in a callback, and others must not wait with it. Then the message
    /// goes into the store with the session's next turn, at once. While the store is being
    /// refreshed, the message waits in memory until the refresh is over.
    fn queue_offline(&self, msg_type: &[u8], body: &[u8]) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        let fill = |whole: &mut Body<'_>| _ = whole.fields_unchecked(body);
        let until_ns = shared.io.monotonic_ns() + LOCK_WAIT_NS;
        let mut link = loop {
            match shared.link.try_lock() {
                Ok(link) if !link.is_held() => break link,
                Err(TryLockError::Poisoned(_)) => return Err(SendError::Failed),
                Ok(_) | Err(TryLockError::WouldBlock)
                    if !drives() && shared.io.monotonic_ns() < until_ns =>
                {
                    if !shared.io.gives_way() {
                        std::thread::yield_now();
                    }
                }
                Ok(_) | Err(TryLockError::WouldBlock) => {
                    let bytes = shared.queue.push_offline(msg_type, fill)?.bytes;
                    shared.call_worker();
                    return Ok(Sent::Queued { bytes });
                }
            }
        };
        let sent = link.send_or_queue(shared.io.now(), &shared.queue, msg_type, fill);
        if link.core().outgoing.is_first_to_expire() || link.has_failed() {
            shared.call_worker();
        }
        sent
    }

    /// Returns the counts of the session since the start of the engine.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.published.counters.now()
    }

    /// Returns the times of messages in the session since the start of the engine, by
    /// [`LatencyStage`](crate::LatencyStage). Empty with `latency_points = false`.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.shared.published.latency()
    }

    /// Returns the next numbers, inbound and outbound, as of the last turn, or of the message that
    /// the application handles.
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        self.shared.published.next_numbers()
    }

    /// Returns the state of the session.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.published.state()
    }

    /// Returns the bytes of accepted messages that have no number yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.shared.queue.waiting()
    }

    /// Returns the number and the bytes of messages and frames that wait for an application with
    /// threads of its own (`application_threads`). The settings `messages_max` and `bytes_max` of
    /// `application` limit them. The message that the application handles does not count.
    #[must_use]
    pub fn waiting_for_application(&self) -> (usize, usize) {
        self.shared.application.as_ref().map_or((0, 0), |application| application.waiting())
    }

    /// Returns the message sent under this MsgSeqNum(34), as the store has it. Waits for the end of
    /// a turn, and for a store that reads slowly.
    ///
    /// # Errors
    /// The store has failed.
    pub fn sent_message(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            match self.with_link(|link| link.executor().journal.sent_message(seq)) {
                Err(StoreError::NotYet) => self.shared.io.sleep(SAFE_LOOK),
                found => return found,
            }
        }
    }

    /// Returns why the store of the session accepts nothing now: it has failed, or could not be
    /// opened at the start. The session has no connection meanwhile, and the engine retries in
    /// growing intervals of up to a minute. `None` if the store works.
    #[must_use]
    pub fn store_failure(&self) -> Option<String> {
        self.with_link(|link| link.journal().failure().map(str::to_owned))
    }

    /// Returns the addresses that an initiator connects to, as `host:port`: `address` first, then
    /// the backups ([`FailoverSettings`](crate::FailoverSettings)). Empty for an acceptor.
    #[must_use]
    pub fn destinations(&self) -> &[String] {
        &self.shared.destinations
    }

    /// Returns the index in [`SessionHandle::destinations`] of the current or last tried address;
    /// `None` for an acceptor.
    #[must_use]
    pub fn destination(&self) -> Option<usize> {
        let current = self.shared.destination.load(Ordering::Acquire);
        (current < self.shared.destinations.len()).then_some(current)
    }

    /// Returns the messages that wait in the queue, oldest first: MsgType(35), and the encoded
    /// fields after the header.
    #[must_use]
    pub fn queued(&self) -> Vec<(String, Vec<u8>)> {
        self.with_link(|link| link.queued(&self.shared.queue))
    }

    /// Uses the link as soon as no refresh of the store is under way: a change before its end would
    /// be overwritten by what the store has.
    ///
    /// # Errors
    /// [`OperateError::Failed`] if the store has not answered for long.
    pub(crate) fn with_settled_link<T>(
        &self,
        use_link: impl FnOnce(&mut Link) -> Result<T, OperateError>,
    ) -> Result<T, OperateError> {
        let until_ns = self.shared.io.monotonic_ns() + REFRESH_WAIT_NS;
        let mut use_link = Some(use_link);
        loop {
            let done =
                self.with_link(|link| match link.executor().settle_refresh(self.shared.io.now()) {
                    Ok(()) => use_link.take().map(|use_link| use_link(link)),
                    Err(StoreError::NotYet) => None,
                    Err(error) => {
                        link.executor().journal.fail(&error);
                        Some(Err(OperateError::Failed))
                    }
                });
            if let Some(done) = done {
                return done;
            }
            if self.shared.io.monotonic_ns() >= until_ns {
                return Err(OperateError::Failed);
            }
            self.shared.io.sleep(SAFE_LOOK);
        }
    }

    pub(crate) fn with_link<T>(&self, use_link: impl FnOnce(&mut Link) -> T) -> T {
        let mut link = self.shared.lock();
        let used = use_link(&mut link);
        link.note_state(self.shared.io.now());
        if link.has_failed() {
            self.shared.call_worker();
        }
        used
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionHandle({})", self.shared.id)
    }
}
