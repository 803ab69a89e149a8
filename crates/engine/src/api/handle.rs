//! Handles, with which any thread sends through a session.

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

/// The maximum capacity, in bytes, of the encoding buffer that a thread keeps between messages.
const BODY_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    /// The buffer in which this thread encodes messages. `send` takes the buffer out of the cell
    /// while it runs, because the fill function may send too.
    static BODY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The time, in nanoseconds, for which a message sent without a logon waits for the session's lock.
const LOCK_WAIT_NS: u64 = 20_000_000;

/// The time, in nanoseconds, for which a session that forwards a message tries to lock the other
/// session: longer than most turns.
const PASS_ON_NS: u64 = 50_000;

/// The time, in nanoseconds, for which an operator's action waits for the store to read what
/// another process has written.
const REFRESH_WAIT_NS: u64 = 10_000_000_000;

/// The interval at which a sender checks whether its message is durable.
const SAFE_LOOK: Duration = Duration::from_micros(50);

/// A handle that sends messages through one session, from any thread. A counterparty that does not
/// read never blocks a call.
///
/// A callback of any session may call [`SessionHandle::send`] and the methods that only read state,
/// numbers, counters or times, because these methods never wait. All other methods wait until the
/// session has finished its current turn: never call them from a callback.
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

    /// Returns true if the session is logged on. The state may change at any time.
    #[must_use]
    pub fn is_logged_on(&self) -> bool {
        self.shared.published.state() == State::Active
    }

    /// Sends an application message; `fill` writes its fields. `fill` runs before the session is
    /// locked, so it may be slow. A panic in `fill` loses only this message.
    ///
    /// With `send = "direct"`, the calling thread stores and writes the message if the session is
    /// free. Otherwise, and with `send = "queued"`, the session's worker stores and writes it.
    /// Messages of one thread always keep their order.
    ///
    /// `send` does not wait for the counterparty. If more than `queued_bytes_max` bytes wait to be
    /// sent, `send` refuses the message; the setting `queue_when_full` can make it wait for a
    /// limited time, or disconnect.
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

    /// Encodes a message, passes it through the outbound filter, and calls `hand_over` with its
    /// body.
    #[inline]
    fn send_whole<T>(
        &self,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
        hand_over: impl FnOnce(&[u8]) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        self.may_send()?;
        // A destructor in an ending thread may send after this thread-local buffer was destroyed.
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
    /// With `stored`, also [`SendError::WouldWait`] in a thread that drives sessions; without
    /// `application_threads`, callbacks run in such threads. With `stored`, also
    /// [`SendError::WouldBlock`] while an operator or `queue_pause` holds messages back. After
    /// [`SendError::Failed`] the store may contain the message; after all other errors nothing was
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

    /// Forwards a message that another session has received. The thread holds the lock of that
    /// session, so this method waits for this session's lock only briefly. The message is in the
    /// store when the method returns [`PassedOn::Sent`].
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

    /// Assigns a number to a message, stores it, and waits until it is durable.
    fn store(
        &self,
        msg_type: &[u8],
        body: &[u8],
        note: &mut dyn FnMut(Sent),
    ) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        let mut link = shared.sound_link().map_err(|_| SendError::Failed)?;
        // The store accepts no commit before the application has completed its answer to the
        // current message.
        while link.executor().holds(shared.io.now()) {
            drop(link);
            shared.io.sleep(SAFE_LOOK);
            link = shared.sound_link().map_err(|_| SendError::Failed)?;
        }
        let (sent, batch) = (self.put(&mut link, msg_type, body)?, link.core().awaited());
        // This thread still holds the session's lock, so the counterparty's answer is processed
        // only after `note` returns.
        note(sent);
        drop(link);
        // The store wakes the worker once the batch is durable; this thread polls for the same
        // result.
        loop {
            match shared.lock().is_safe(batch) {
                Some(true) => return Ok(sent),
                Some(false) => shared.io.sleep(SAFE_LOOK),
                None => return Err(SendError::Failed),
            }
        }
    }

    /// Assigns a number to a message and passes it to the store.
    fn put(&self, link: &mut Link, msg_type: &[u8], body: &[u8]) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        let fill = |whole: &mut Body<'_>| _ = whole.fields_unchecked(body);
        // Messages that wait in memory must be sent first.
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

    /// Sends all messages of a batch in order, each like [`SessionHandle::send`]. The calling
    /// thread makes one commit to the store and one write. The settings `batch_messages_max` and
    /// `batch_bytes_max` divide a large batch into parts. No other message comes between the
    /// messages of a part, and the session is busy until the part is written.
    pub fn send_batch(&self, batch: &Batch) -> BatchSent {
        let mut sent = Vec::with_capacity(batch.len());
        let Some(filter) = &self.shared.filter else {
            let refused = self.send_all(batch, &mut sent).err();
            return BatchSent { sent, refused };
        };
        // The messages before a refused message are still sent.
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
                // The outbox is full; `hand_over` below waits for room if the settings allow it.
                Err(SendError::WouldBlock { .. }) => {}
                all => return all,
            }
        }
        for (msg_type, body) in batch.messages().skip(sent.len()) {
            sent.push(self.hand_over(msg_type, body)?);
        }
        Ok(())
    }

    /// Calls the session's worker if messages sent in this thread leave work for it.
    fn note_sent(&self, link: &mut Link) {
        let shared = &*self.shared;
        let is_over = link.is_up() && shared.waiting.note(link.waiting_bytes(&shared.queue));
        if is_over || link.core_mut().calls_worker() || link.has_failed() {
            shared.call_worker();
        }
    }

    /// Checks that the session may accept a message, before the message is encoded.
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

    /// Passes a complete body to the session. If the session is full, waits as `queue_when_full`
    /// demands.
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
        // Without a logon, the message is refused or stored at once, without a turn of the worker.
        // The exception is a lock that another thread holds now.
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

    /// Queues a message for the next logon. The message is in the store when the method returns,
    /// with two exceptions.
    ///
    /// First, a thread that drives sessions does not wait for the lock: it may hold the lock
    /// itself, in a callback, and would delay other sessions. The message then goes into the store
    /// in the session's next turn. Second, while the store is being refreshed, the message waits in
    /// memory until the refresh has ended.
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

    /// Returns the next inbound and the next outbound MsgSeqNum(34), as of the last turn. In a
    /// callback, the numbers include the message that the application is processing.
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        self.shared.published.next_numbers()
    }

    /// Returns the state of the session.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.published.state()
    }

    /// Returns the size, in bytes, of accepted messages that have no MsgSeqNum(34) yet.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.shared.queue.waiting()
    }

    /// Returns the number and the total bytes of messages and frames that wait for an application
    /// with threads of its own (`application_threads`). The settings `messages_max` and `bytes_max`
    /// of `application` limit them. The message that the application is processing does not count.
    #[must_use]
    pub fn waiting_for_application(&self) -> (usize, usize) {
        self.shared.application.as_ref().map_or((0, 0), |application| application.waiting())
    }

    /// Returns the message sent with this MsgSeqNum(34) from the store, or `None` if the store does
    /// not have it. Waits until the session has finished its current turn, and for a slow store.
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

    /// Returns why the store of the session accepts no data now: the store has failed, or could not
    /// be opened at the start. Meanwhile the session has no connection, and the engine retries in
    /// growing intervals of up to a minute. Returns `None` if the store works.
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

    /// Returns the messages that wait in the queue, oldest first. Each entry has the MsgType(35)
    /// and the encoded body fields.
    #[must_use]
    pub fn queued(&self) -> Vec<(String, Vec<u8>)> {
        self.with_link(|link| link.queued(&self.shared.queue))
    }

    /// Calls `use_link` as soon as no refresh of the store is under way. The refresh would
    /// overwrite a change made before its end.
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
