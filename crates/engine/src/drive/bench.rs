//! An application that is called in threads of its own: what a link hands over lies on its desk,
//! and a thread of the [`Line`](crate::drive::line::Line) comes and calls it.
//!
//! Invariants: the application is called by one thread at a time; no thread of a worker waits for
//! it; whoever waits for the lock of a link does not have that of an application which a link asks.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

use transfix_codec::{Body, CheckSumPolicy, FieldIndex, Message, MsgType};
use transfix_session::{ApplVerId, HeaderChange, Now, SendError, SessionId, State};

use crate::drive::line::{Line, Visited};
use crate::drive::registry::Registry;
use crate::drive::shared::Shared;
use crate::link::answers::{BusinessReject, Direction, Resend};
use crate::link::callbacks::{Access, Callbacks, PassedOn, Remote, View};
use crate::link::core::Core;
use crate::link::desk::{Call, Desk, Item, Made, Showing, Work};
use crate::link::judging::Judgement;
use crate::link::later::{Answer, Later, Parts};
use crate::link::told::{Disconnection, Rejected, SessionEvent, SessionNotice, Unsendable};
use crate::settings::{ApplicationSettings, QueueWhenFull};

/// Time after which what the application has sent goes out though there is more for it to do, and
/// after which others that wait in line have their turn.
const REPORT_NS: u64 = 100_000;

/// Memory for what the application sends, which is kept when a burst is over.
const BODY_BYTES_KEPT: usize = 64 << 10;

/// The application of one session.
pub(crate) struct Bench {
    seat: Mutex<Seat>,
    desk: Arc<Desk>,
    /// Calls in one visit of a thread, before those that wait in line have their turn.
    visit_max: u32,
    id: SessionId,
    registry: Arc<Registry>,
    /// Found once, in the registry.
    session: OnceLock<Weak<Shared>>,
}

/// What whoever calls the application has in hand.
struct Seat {
    application: Box<dyn Callbacks>,
    index: FieldIndex,
    /// Memory for what the application sends.
    body: Vec<u8>,
}

impl Bench {
    /// Gives this application a bench. `index`: memory for the index of messages of its session.
    pub(crate) fn of(
        (application, index): (Box<dyn Callbacks>, FieldIndex),
        (limits, visit_max): (ApplicationSettings, u32),
        (id, registry): (SessionId, Arc<Registry>),
        line: &Arc<Line>,
    ) -> Arc<Self> {
        let seat = Mutex::new(Seat { application, index, body: Vec::new() });
        let (desk, session) = (Arc::new(Desk::new(limits)), OnceLock::new());
        let bench = Arc::new(Self { seat, desk, visit_max, id, registry, session });
        let (line, of_desk) = (Arc::clone(line), Arc::downgrade(&bench));
        bench.desk.run_by(Box::new(move || {
            let Some(bench) = of_desk.upgrade() else { return };
            match bench.session() {
                Some(session) => line.push((bench, session)),
                None => bench.desk.leave(),
            }
        }));
        bench
    }

    pub(crate) const fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// The session that it belongs to, as long as that is there.
    fn session(&self) -> Option<Arc<Shared>> {
        if let Some(session) = self.session.get() {
            return session.upgrade();
        }
        let session = self.registry.find(&self.id)?;
        let _ = self.session.set(Arc::downgrade(&session));
        Some(session)
    }

    /// A panic of the application costs its session alone.
    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the session's worker is to be called.
    fn serve(&self, session: &Shared, item: Item) -> bool {
        let (work, parts) = item.into_parts();
        let is_message = matches!(work, Work::Message);
        let later = Cell::new(None);
        let called = catch_unwind(AssertUnwindSafe(|| {
            let mut seat = self.seat();
            let Seat { application, index, body } = &mut *seat;
            let later = is_message.then_some(&later);
            let (body, begin) = (RefCell::new(body), Cell::new(None));
            let remote = Elsewhere { session, bench: self, body, later, begin };
            let (bytes, now, _) = &parts;
            call(&mut **application, (work, bytes), index, (&remote, *now))
        }));
        match (called.unwrap_or(Made::Panicked), later.into_inner()) {
            (made, None) => self.desk.end(is_message, parts, made),
            (Made::Had, Some(later)) => {
                let answered = later.returned(parts);
                answered.is_some_and(|(parts, answer)| self.desk.end(true, parts, Made::of(answer)))
            }
            (made, Some(later)) => {
                later.forget();
                self.desk.end(is_message, parts, made)
            }
        }
    }

    /// Calls the application for what there is, and for as long as no other waits in line. Returns
    /// whether there is more.
    fn serve_some(&self, session: &Shared, line: &Line) -> bool {
        let (mut served, mut calls) = (0, false);
        let mut reported_ns = session.io.monotonic_ns();
        while served < self.visit_max {
            let Some(item) = self.desk.begin() else {
                report(&self.desk, session, calls);
                return false;
            };
            calls |= self.serve(session, item);
            served += 1;
            let now_ns = session.io.monotonic_ns();
            if now_ns.saturating_sub(reported_ns) > REPORT_NS {
                if line.is_waited_in() {
                    break;
                }
                report(&self.desk, session, std::mem::take(&mut calls));
                reported_ns = now_ns;
            }
        }
        report(&self.desk, session, calls);
        self.desk.pause()
    }
}

/// Lets the session take note of what the application has had, and send what it has sent, with one
/// commit and one write: here, if it is free.
fn report(desk: &Desk, session: &Shared, calls: bool) {
    let heard = match session.link.try_lock() {
        _ if calls || !desk.has_news() => !calls,
        Ok(mut link) => {
            let kept = link.flush(session.io.now());
            let waiting = link.core.waiting_bytes(&session.queue);
            let is_over = link.is_up() && session.waiting.note(waiting);
            let is_slow = link.core.slow.calls_worker();
            let goes_on = !is_slow && !is_over && link.core.cut.is_none();
            kept.is_ok() && goes_on && !desk.has_news() && !desk.owes_call()
        }
        Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
    };
    if !heard {
        session.call_worker();
    }
}

/// The application has answered, in whatever thread, for the message that it was called for.
fn answered(desk: &Desk, session: &Weak<Shared>, (parts, answer): (Parts, Answer)) {
    let calls = desk.end(true, parts, Made::of(answer));
    // Without its session nobody hears of it.
    let Some(session) = session.upgrade() else { return };
    let reports = AssertUnwindSafe(|| report(desk, &session, calls));
    if catch_unwind(reports).is_err() {
        // As in a visit: the worker finds what is broken, and this thread goes on.
        desk.is_broken();
        session.call_worker();
    }
    desk.resume();
}

impl Visited for Bench {
    fn visit(&self, line: &Line) -> bool {
        // Without its session nobody hears what the application makes of it.
        let Some(session) = self.session() else {
            self.desk.leave();
            return false;
        };
        catch_unwind(AssertUnwindSafe(|| self.serve_some(&session, line))).unwrap_or_else(|_| {
            // A store, or whoever listens to events, with the lock of the session: its worker finds
            // that, and the other sessions go on.
            let goes_on = self.desk.give_up();
            session.call_worker();
            goes_on
        })
    }
}

fn call(
    application: &mut dyn Callbacks,
    (work, bytes): (Work, &[u8]),
    index: &mut FieldIndex,
    (session, now): (&dyn Remote, Now),
) -> Made {
    let access = || Access::from_elsewhere(session, now);
    let view = || View::from_elsewhere(session, now);
    match work {
        Work::Call(call) => call(application, access()),
        Work::Show(show) => show(application, view()),
        Work::Wire(direction) => application.on_wire(direction, bytes, view()),
        // Both were whole and sound when they came.
        Work::Admin => {
            if let Ok(message) = Message::parse(bytes, index, CheckSumPolicy::Ignore) {
                application.on_event(SessionEvent::AdminMessage(&message), access());
            }
        }
        Work::Message => {
            if let Ok(message) = Message::parse(bytes, index, CheckSumPolicy::Ignore) {
                return Made::of(application.on_message(&message, access()));
            }
        }
    }
    Made::Had
}

/// A session as its application reaches it from a thread of its own.
struct Elsewhere<'a> {
    session: &'a Shared,
    bench: &'a Bench,
    body: RefCell<&'a mut Vec<u8>>,
    /// The answer that comes later, if the application is called for a message.
    later: Option<&'a Cell<Option<Arc<Later>>>>,
    /// Bytes of the outbox before the call sent something.
    begin: Cell<Option<usize>>,
}

impl Elsewhere<'_> {
    /// Sends a body that is whole. Returns whether as much waits then as may, too.
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
        let begin = self.begin.get().unwrap_or(link.core.out.len());
        self.begin.set(Some(begin));
        // It is stored and written when the application has returned, or by whoever sends next.
        let sent = link.send_now(now, &session.queue, msg_type, change, &mut whole);
        link.core.note_burst(begin);
        self.bench.desk.note_sent();
        let is_over = link.is_up() && session.waiting.note(link.core.waiting_bytes(&session.queue));
        let awaits_look = link.core.awaits_look(now);
        if is_over || awaits_look || link.core.journal.has_failed() || link.core.cut.is_some() {
            session.call_worker();
        }
        (sent, link.is_up() && link.core.is_full())
    }
}

impl Remote for Elsewhere<'_> {
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
        // Before anything is locked: it may take its time.
        Body::detached(&mut body, session.queue.precision(), fill).map_err(SendError::Misuse)?;
        let (sent, is_full) = self.send_whole(msg_type, change, &body);
        if is_full && session.queue_when_full == QueueWhenFull::Wait {
            // The message is taken. The next one has room, if the settings let a sender wait.
            let full = SendError::WouldBlock { queued_bytes: 0 };
            let has_room = |core: &mut Core| if core.is_full() { Err(full) } else { Ok(()) };
            let _ = session.when_full(full, || session.with_core(has_room));
        }
        sent
    }

    fn answer_later(&self) -> Option<Arc<Later>> {
        let place = self.later?;
        let desk = Arc::clone(&self.bench.desk);
        let session = Arc::downgrade(&self.bench.session()?);
        let end = move |parts, answer| answered(&desk, &session, (parts, answer));
        let later = Arc::new(Later::new(Box::new(end)));
        // One that was taken before counts no more.
        if let Some(before) = place.replace(Some(Arc::clone(&later))) {
            before.forget();
        }
        Some(later)
    }

    fn logout(&self, text: &str) {
        let mut link = self.session.lock();
        link.core.send_queued(self.session.io.now(), &self.session.queue);
        // A link that fails now is closed by its worker's next turn.
        let waits = link.logout(self.session.io.now(), text).unwrap_or(false);
        drop(link);
        if !waits {
            self.disconnect();
        }
        // The time for an answer begins.
        self.session.call_worker();
    }

    fn disconnect(&self) {
        let mut link = self.session.lock();
        if link.is_up() {
            link.core.cut = Some(transfix_session::Disconnect::Application);
        }
        drop(link);
        self.session.call_worker();
    }
}

/// The application as its link knows it: what it is told goes to its desk; what it is asked, it is
/// asked here, where it is free.
pub(crate) struct Pooled(pub(crate) Arc<Bench>);

/// A call that tells the application of this event, which borrows nothing.
fn later(event: SessionEvent<'static>) -> Call {
    Box::new(move |application, access| application.on_event(event, access))
}

fn shown_later(notice: SessionNotice<'static>) -> Showing {
    Box::new(move |application, view| application.on_notice(notice, view))
}

fn rejected_later(rejected: Rejected<'_>) -> Call {
    let Rejected { by, seq, msg_type, reason, tag, id, text } = rejected;
    let (msg_type, id, text) = (msg_type.as_bytes().to_vec(), id.to_vec(), text.to_vec());
    Box::new(move |application, access| {
        let (msg_type, id, text) = (MsgType::of(&msg_type), &*id, &*text);
        let rejected = Rejected { by, seq, msg_type, reason, tag, id, text };
        application.on_event(SessionEvent::Rejected(rejected), access);
    })
}

fn unsent_later(unsent: Unsendable<'_>) -> Showing {
    let (msg_type, body) = (unsent.msg_type.as_bytes().to_vec(), unsent.body.to_vec());
    Box::new(move |application, view| {
        let unsent = Unsendable::new(&msg_type, &body, unsent.why);
        application.on_notice(SessionNotice::Unsent(unsent), view);
    })
}

impl Callbacks for Pooled {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: Access<'_>,
    ) -> Result<(), BusinessReject> {
        let seq = message.msg_seq_num().unwrap_or(0);
        self.0.desk.hand_over(access.view.now, seq, message.bytes());
        Ok(())
    }

    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        from: (&SessionId, Option<SocketAddr>),
    ) -> Judgement {
        self.0.seat().application.judge_logon(logon, from)
    }

    fn fill_logon(&mut self, logon: &mut Body<'_>, view: View<'_>) {
        self.0.seat().application.fill_logon(logon, view);
    }

    fn on_event(&mut self, event: SessionEvent<'_>, access: Access<'_>) {
        let (desk, now) = (&self.0.desk, access.view.now);
        let call = match event {
            SessionEvent::AdminMessage(message) => {
                return desk.tell(now, Work::Admin, message.bytes());
            }
            SessionEvent::Rejected(rejected) => rejected_later(rejected),
            SessionEvent::LoggedOn => later(SessionEvent::LoggedOn),
            SessionEvent::NumbersReset => later(SessionEvent::NumbersReset),
            SessionEvent::ResendLoop { times } => later(SessionEvent::ResendLoop { times }),
            SessionEvent::SlowConsumer => later(SessionEvent::SlowConsumer),
            SessionEvent::CaughtUp => later(SessionEvent::CaughtUp),
        };
        desk.tell(now, Work::Call(call), b"");
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, view: View<'_>) {
        let showing: Showing = match notice {
            SessionNotice::StateChanged { from, to } => {
                shown_later(SessionNotice::StateChanged { from, to })
            }
            SessionNotice::Disconnected(Disconnection { reason, text }) => {
                let text = text.map(<[u8]>::to_vec);
                Box::new(move |app, view| {
                    let end = Disconnection::new(reason, text.as_deref());
                    app.on_notice(SessionNotice::Disconnected(end), view);
                })
            }
            SessionNotice::Unsent(unsent) => unsent_later(unsent),
            SessionNotice::Undone(undone) => {
                let undone = undone.clone();
                Box::new(move |app, view| app.on_notice(SessionNotice::Undone(&undone), view))
            }
        };
        self.0.desk.tell(view.now, Work::Show(showing), b"");
    }

    fn on_resend(&mut self, message: &Message<'_>, view: View<'_>) -> Resend {
        self.0.seat().application.on_resend(message, view)
    }

    fn wants_wire(&self) -> bool {
        self.0.seat().application.wants_wire()
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], view: View<'_>) {
        self.0.desk.tell(view.now, Work::Wire(direction), frame);
    }

    fn trim(&mut self) {
        // Who is called now gives its memory back another time.
        if let Ok(mut seat) = self.0.seat.try_lock() {
            let Seat { index, body, .. } = &mut *seat;
            index.trim();
            body.clear();
            body.shrink_to(BODY_BYTES_KEPT);
        }
    }

    fn pass_on(
        &self,
        from_to: (&SessionId, &str),
        msg_type: MsgType<'_>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> PassedOn {
        self.0.seat().application.pass_on(from_to, msg_type, fill)
    }
}
