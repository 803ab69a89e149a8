//! An application with threads of its own. A link puts calls into the delivery queue, and a thread
//! of the [`RunQueue`](crate::drive::run_queue::RunQueue) makes them.
//!
//! Invariants: only one thread at a time calls the application. No worker waits for the
//! application. No thread waits for a link's lock while it holds an application lock that the link
//! needs.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};

use transfix_codec::{Body, CheckSumPolicy, FieldIndex, Message};
use transfix_session::core::Core;
use transfix_session::core::call::Call;
use transfix_session::core::delivery::Made;
use transfix_session::{ApplVerId, HeaderChange, SendError, SessionId, State};
use transfix_settings::QueueWhenFull;

use crate::drive::run_queue::{RunQueue, Runnable};
use crate::drive::shared::{Shared, ThreadedApplication};
use crate::link::access::{RemoteSession, SessionAccess};
use crate::link::app_executor::{Caller, lock, make};
use crate::link::callbacks::Callbacks;
use crate::link::delivery_queue::{DeliveryQueue, Item};
use crate::link::later::{Answer, Later, Parts};

/// The time, in nanoseconds, after which a thread sends the application's messages although more
/// calls wait. The thread then also lets other waiting applications run.
const REPORT_NS: u64 = 100_000;

/// The application of one session, as a task of the run queue.
pub(crate) struct ApplicationTask {
    caller: Arc<Mutex<Caller>>,
    deliveries: Arc<DeliveryQueue>,
    /// The maximum number of calls per visit of a thread.
    visit_max: u32,
    /// The session, set once it has a worker. The application is not called earlier.
    session: OnceLock<Weak<Shared>>,
}

impl ApplicationTask {
    /// Returns the task of an application. `index` is the message index of its session.
    pub(crate) fn of(
        (application, index): (Box<dyn Callbacks>, FieldIndex),
        visit_max: u32,
        run_queue: &Arc<RunQueue>,
    ) -> Arc<Self> {
        let caller = Caller { application, index, body: Vec::new() };
        let caller = Arc::new(Mutex::new(caller));
        let (deliveries, session) = (Arc::new(DeliveryQueue::default()), OnceLock::new());
        let task = Arc::new(Self { caller, deliveries, visit_max, session });
        let (run_queue, weak) = (Arc::clone(run_queue), Arc::downgrade(&task));
        task.deliveries.run_by(Box::new(move || {
            let Some(task) = weak.upgrade() else { return };
            match task.session() {
                Some(session) => run_queue.push((task, session)),
                None => {
                    task.deliveries.leave();
                    // Another thread may have set the session between the two checks.
                    if task.session().is_some() {
                        task.deliveries.resume();
                    }
                }
            }
        }));
        task
    }

    pub(crate) const fn deliveries(&self) -> &Arc<DeliveryQueue> {
        &self.deliveries
    }

    /// Returns the session, while it exists.
    fn session(&self) -> Option<Arc<Shared>> {
        self.session.get()?.upgrade()
    }

    /// Returns the caller, through which the link can call the application directly.
    pub(crate) const fn caller(&self) -> &Arc<Mutex<Caller>> {
        &self.caller
    }

    fn serve(&self, session: &Shared, item: Item) {
        let (call, parts) = item.into_parts();
        let is_message = matches!(call, Call::Message);
        let later = Cell::new(None);
        let called = catch_unwind(AssertUnwindSafe(|| {
            let mut caller = lock(&self.caller);
            let Caller { application, index, body } = &mut *caller;
            let later = is_message.then_some(&later);
            let (body, begin) = (RefCell::new(body), Cell::new(None));
            let remote = RemoteAccess { session, task: self, body, later, begin };
            let (bytes, now) = &parts;
            // The checksum was verified when the message arrived.
            let message = match call.has_message() {
                true => Message::parse(bytes, index, CheckSumPolicy::Ignore).ok(),
                false => None,
            };
            let access = SessionAccess::from_elsewhere(&remote, *now);
            Made::of(make(&mut **application, call, (bytes, message.as_ref()), access))
        }));
        match (called.unwrap_or(Made::Panicked), later.into_inner()) {
            (made, None) => self.deliveries.end(is_message, parts, made),
            (Made::Had, Some(later)) => {
                if let Some((parts, answer)) = later.returned(parts) {
                    self.deliveries.end(true, parts, Made::of(answer));
                }
            }
            (made, Some(later)) => {
                later.forget();
                self.deliveries.end(is_message, parts, made)
            }
        }
    }

    /// Calls the application until no calls are left, or until other applications wait. Returns
    /// true if calls are left.
    fn serve_some(&self, session: &Shared, run_queue: &RunQueue) -> bool {
        let mut served = 0;
        let mut reported_ns = session.io.monotonic_ns();
        while served < self.visit_max {
            let Some(item) = self.deliveries.begin() else {
                report(&self.deliveries, session);
                return false;
            };
            self.serve(session, item);
            served += 1;
            let now_ns = session.io.monotonic_ns();
            if now_ns.saturating_sub(reported_ns) > REPORT_NS {
                if run_queue.is_waited_in() {
                    break;
                }
                report(&self.deliveries, session);
                reported_ns = now_ns;
            }
        }
        report(&self.deliveries, session);
        self.deliveries.pause()
    }
}

/// Applies the results of finished calls, and sends the application's messages with one commit and
/// one write, if the session's lock is free. Calls the worker if the lock is taken or the
/// counterparty does not read, because no other turn would notice.
fn report(deliveries: &DeliveryQueue, session: &Shared) {
    let is_settled = match session.link.try_lock() {
        Ok(mut link) if deliveries.has_news() => {
            let kept = link.flush(session.io.now());
            let waiting = link.waiting_bytes(&session.queue);
            let is_over =
                link.is_up() && (session.waiting.note(waiting) || link.core().is_stalled());
            let needs_no_worker =
                !link.core_mut().calls_worker() && !is_over && link.core().cut.is_none();
            kept.is_ok() && needs_no_worker && !deliveries.has_news()
        }
        // Another thread has already applied the results.
        Ok(mut link) => {
            let is_stalled = link.is_up() && link.core().is_stalled();
            !link.core_mut().calls_worker() && !is_stalled
        }
        Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
    };
    if !is_settled {
        session.call_worker();
    }
}

/// Processes an answer to a message that the application has given later, in any thread.
fn answered(deliveries: &DeliveryQueue, session: &Weak<Shared>, (parts, answer): (Parts, Answer)) {
    deliveries.end(true, parts, Made::of(answer));
    // The answer has no effect if the session no longer exists.
    let Some(session) = session.upgrade() else { return };
    let reports = AssertUnwindSafe(|| report(deliveries, &session));
    if catch_unwind(reports).is_err() {
        // A panic here is left to the worker, so that the answering thread continues.
        deliveries.is_broken();
        session.call_worker();
    }
    deliveries.resume();
}

impl ThreadedApplication for ApplicationTask {
    fn belongs_to(&self, session: Weak<Shared>) {
        if self.session.set(session).is_ok() {
            self.deliveries.resume();
        }
    }

    fn waiting(&self) -> (usize, usize) {
        self.deliveries.waiting()
    }
}

impl Runnable for ApplicationTask {
    fn visit(&self, run_queue: &RunQueue) -> bool {
        // Pending calls have no effect if the session no longer exists.
        let Some(session) = self.session() else {
            self.deliveries.leave();
            return false;
        };
        catch_unwind(AssertUnwindSafe(|| self.serve_some(&session, run_queue))).unwrap_or_else(
            |_| {
                // A store or an event listener has panicked while this thread held the session's
                // lock. The worker detects the failure, and other sessions continue.
                let has_more_work = self.deliveries.give_up();
                session.call_worker();
                has_more_work
            },
        )
    }
}

/// The session as its application accesses it from an application thread.
struct RemoteAccess<'a> {
    session: &'a Shared,
    task: &'a ApplicationTask,
    body: RefCell<&'a mut Vec<u8>>,
    /// The place for a deferred answer; `None` unless the call delivers a message.
    later: Option<&'a Cell<Option<Arc<Later>>>>,
    /// The length of the outbox before the first message that this call has sent.
    begin: Cell<Option<usize>>,
}

impl RemoteAccess<'_> {
    /// Sends a complete body. The flag is true if the queue is then full.
    fn send_whole(
        &self,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        body: &[u8],
    ) -> (Result<u64, SendError>, bool) {
        let session = self.session;
        let mut whole = |message: &mut Body<'_>| _ = message.fields_unchecked(body);
        let Ok(mut link) = session.sound_link() else { return (Err(SendError::Failed), false) };
        let now = session.io.now();
        let begin = self.begin.get().unwrap_or(link.core().out.len());
        self.begin.set(Some(begin));
        // The message is stored and written after the application returns, or by the next sender.
        let sent = link.send_now(now, &session.queue, msg_type, change, &mut whole);
        link.core_mut().note_burst(begin);
        self.task.deliveries.note_news();
        let is_over = link.is_up() && session.waiting.note(link.waiting_bytes(&session.queue));
        let awaits_look = link.core_mut().awaits_look(now);
        if is_over || awaits_look || link.has_failed() || link.core().cut.is_some() {
            session.call_worker();
        }
        (sent, link.is_up() && link.core().is_full())
    }
}

impl RemoteSession for RemoteAccess<'_> {
    fn id(&self) -> &SessionId {
        &self.session.id
    }

    fn state(&self) -> State {
        self.session.published.state()
    }

    fn next_numbers(&self) -> (u64, u64) {
        self.session.published.next_numbers()
    }

    fn appl_ver_id(&self) -> Option<ApplVerId> {
        self.session.with_core(|core| core.session.appl_ver_id())
    }

    fn send(
        &self,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let session = self.session;
        let mut body = self.body.borrow_mut();
        body.clear();
        // The fill function runs before the session is locked, because it may be slow.
        Body::detached(&mut body, session.queue.precision(), fill).map_err(SendError::Misuse)?;
        let (sent, is_full) = self.send_whole(msg_type, change, &body);
        if is_full && session.queue_when_full == QueueWhenFull::Wait {
            // The message was accepted, but the queue is full: the thread waits until there is room
            // for the next message.
            let full = SendError::WouldBlock { queued_bytes: 0 };
            let has_room = |core: &mut Core| if core.is_full() { Err(full) } else { Ok(()) };
            let _ = session.when_full(full, || session.with_core(has_room));
        }
        sent
    }

    fn answer_later(&self) -> Option<Arc<Later>> {
        let place = self.later?;
        let deliveries = Arc::clone(&self.task.deliveries);
        let session = Arc::downgrade(&self.task.session()?);
        let end = move |parts, answer| answered(&deliveries, &session, (parts, answer));
        let later = Arc::new(Later::new(Box::new(end)));
        // A deferred answer that the same call requested earlier is discarded.
        if let Some(before) = place.replace(Some(Arc::clone(&later))) {
            before.forget();
        }
        Some(later)
    }

    fn logout(&self, text: &str) {
        let mut link = self.session.lock();
        link.executor().send_queued(self.session.io.now(), &self.session.queue);
        // If the link fails here, the next turn of its worker closes it.
        let waits = link.logout(self.session.io.now(), text).unwrap_or(false);
        drop(link);
        if !waits {
            self.disconnect();
        }
        // The worker must note the deadline for the Logout(5) answer.
        self.session.call_worker();
    }

    fn disconnect(&self) {
        let mut link = self.session.lock();
        if link.is_up() {
            link.core_mut().cut = Some(transfix_session::Disconnect::Application);
        }
        drop(link);
        self.session.call_worker();
    }
}
