//! Two sessions linked in memory, an initiator and an acceptor, in virtual time.
//!
//! Invariant: bytes move only in [`Pair::step`] and its callers, and time only in
//! [`Pair::advance`].

use transfix_session::{BeginString, Now, Role, SessionId, State};
use transfix_settings::{Durability, SessionSettings};

use super::{SimulatedSession, Simulation};
use crate::api::application::Application;
use crate::error::EngineError;

/// The number of rounds after which a run is aborted, because the two applications answer each
/// other without end.
const ROUNDS_MAX: usize = 10_000;
/// The initial time of the wall clock: Monday, 2026-01-05 12:00:00 UTC.
const BEGIN: Now =
    Now { utc: transfix_codec::Timestamp(1_767_614_400_000_000_000), monotonic_ns: 0 };
/// The minimum step of time, in nanoseconds, so that time advances even if a deadline has passed.
const LEAST_NS: u64 = 1_000_000;

/// An initiator and an acceptor that are linked without sockets, threads or clocks, to test the
/// applications on both sides.
///
/// A sent message is in transit until [`run`](Self::run) or [`step`](Self::step) delivers it. The
/// message is lost if the connection breaks before.
///
/// ```
/// use std::sync::mpsc::{Sender, channel};
/// use transfix::simulated::Pair;
/// use transfix::{Application, BusinessReject, Message, SessionRef, msg_type, tag};
///
/// /// Passes the text of each News(B) to the test.
/// struct Reader(Sender<String>);
///
/// impl Application for Reader {
///     fn on_message(
///         &mut self,
///         news: &Message<'_>,
///         _: &mut SessionRef<'_>,
///     ) -> Result<(), BusinessReject> {
///         let _ = self.0.send(news.text(tag::TEXT)?.to_owned());
///         Ok(())
///     }
/// }
///
/// let (to, texts) = channel();
/// let mut pair = Pair::fix44(Box::new(Reader(to.clone())), Box::new(Reader(to)))?;
/// pair.connect();
/// assert!(pair.is_logged_on());
///
/// // The first message is lost with the link, and is resent after the next logon.
/// let now = pair.now();
/// let news = |text| move |body: &mut transfix::Body<'_>| {
///     body.str(transfix::Tag(148), "h").uint(transfix::Tag(33), 1).str(tag::TEXT, text);
/// };
/// pair.initiator.send(now, msg_type::NEWS, news("first"))?;
/// pair.cut();
/// pair.connect();
/// pair.initiator.send(now, msg_type::NEWS, news("second"))?;
/// pair.run();
/// assert_eq!(texts.try_iter().collect::<Vec<_>>(), ["first", "second"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pair {
    /// The session that connects.
    pub initiator: SimulatedSession,
    /// The session that accepts the connection.
    pub acceptor: SimulatedSession,
    now: Now,
    is_silent: bool,
}

impl Pair {
    /// Links a FIX 4.4 session between the initiator CLIENT and the acceptor VENUE, with stores in
    /// memory.
    ///
    /// # Errors
    /// [`EngineError`], as at the start of an engine.
    pub fn fix44(
        initiator: Box<dyn Application>,
        acceptor: Box<dyn Application>,
    ) -> Result<Self, EngineError> {
        let settings = |role, own: &str, other: &str| {
            let id = SessionId::new(BeginString::Fix44, own, other);
            let mut settings = SessionSettings::new(role, &id, "");
            settings.store.durability = Durability::Memory;
            settings
        };
        let client = settings(Role::Initiator, "CLIENT", "VENUE");
        let venue = settings(Role::Acceptor, "VENUE", "CLIENT");
        Self::new((&client, initiator), (&venue, acceptor))
    }

    /// Links two sessions, each of which continues from its store.
    ///
    /// # Errors
    /// [`EngineError`], as at the start of an engine, or if the settings are not of an initiator
    /// and its acceptor.
    pub fn new(
        initiator: (&SessionSettings, Box<dyn Application>),
        acceptor: (&SessionSettings, Box<dyn Application>),
    ) -> Result<Self, EngineError> {
        let roles = (initiator.0.role, acceptor.0.role);
        if roles != (Role::Initiator, Role::Acceptor) {
            let why = "a pair is an initiator and an acceptor, in this order";
            return Err(EngineError::Settings(why.to_owned()));
        }
        let (one, other) = (initiator.0.id(), acceptor.0.id());
        let is_answered = one.begin_string == other.begin_string
            && one.sender_comp_id == other.target_comp_id
            && one.target_comp_id == other.sender_comp_id;
        if !is_answered {
            let why = format!(
                "{one} and {other} are not two sides of one session: BeginString(8), \
                 SenderCompID(49) and TargetCompID(56) must match"
            );
            return Err(EngineError::Settings(why));
        }
        let simulation = Simulation::default();
        Ok(Self {
            initiator: simulation.session(initiator.0, initiator.1)?,
            acceptor: simulation.session(acceptor.0, acceptor.1)?,
            now: BEGIN,
            is_silent: false,
        })
    }

    /// Returns the time on both sides. The time begins on Monday, 2026-01-05, at 12:00 UTC.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.now
    }

    /// Returns true if both sides are logged on.
    #[must_use]
    pub fn is_logged_on(&self) -> bool {
        [&self.initiator, &self.acceptor]
            .iter()
            .all(|side| side.link().core().session.state() == State::Active)
    }

    /// Connects both sides, and delivers messages until none is in transit. Both sides are then
    /// logged on, unless one has refused. An existing connection breaks before.
    pub fn connect(&mut self) {
        self.cut();
        self.is_silent = false;
        self.acceptor.connect(self.now);
        self.initiator.connect(self.now);
        self.run();
    }

    /// Breaks the connection. Messages in transit are lost, and both sides see a closed connection.
    pub fn cut(&mut self) {
        for side in [&mut self.initiator, &mut self.acceptor] {
            drop(side.take_output());
            side.close(self.now);
            drop(side.take_output());
        }
    }

    /// Loses all messages from now on, until [`connect`](Self::connect), without closing the
    /// connection. The sides notice only by their heartbeats.
    pub fn silence(&mut self) {
        self.is_silent = true;
    }

    /// Delivers the messages that both sides have sent so far, but not the answers to them. Returns
    /// true if any message was delivered.
    pub fn step(&mut self) -> bool {
        let (sent, answered) = (self.initiator.take_output(), self.acceptor.take_output());
        if self.is_silent {
            return false;
        }
        self.acceptor.receive(self.now, &sent);
        self.initiator.receive(self.now, &answered);
        let sides = [&mut self.initiator, &mut self.acceptor];
        // The end of a connection arrives after its last bytes.
        let has_closed = match sides {
            [one, other] if one.far.is_none() && one.output.is_empty() => {
                other.close_if_up(self.now)
            }
            [one, other] if other.far.is_none() && other.output.is_empty() => {
                one.close_if_up(self.now)
            }
            _ => false,
        };
        has_closed || !sent.is_empty() || !answered.is_empty()
    }

    /// Delivers messages and the answers to them, until none is in transit.
    ///
    /// # Panics
    /// If the applications answer each other without end.
    pub fn run(&mut self) {
        let rounds = (0..ROUNDS_MAX).take_while(|_| self.step()).count();
        assert!(rounds < ROUNDS_MAX, "after {rounds} rounds the two applications still answer");
    }

    /// Advances the time on both sides by `ms` milliseconds, and delivers the messages that
    /// sessions send by time, such as heartbeats.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn advance(&mut self, ms: u64) {
        self.run();
        let end_ns = self.now.monotonic_ns + ms * 1_000_000;
        loop {
            let deadlines = [self.initiator.next_deadline(), self.acceptor.next_deadline()];
            let next_ns = deadlines.into_iter().flatten().min();
            let next_ns = next_ns.map(|at| at.max(self.now.monotonic_ns + LEAST_NS));
            let is_due = next_ns.is_some_and(|at| at <= end_ns);
            self.set_time(next_ns.filter(|_| is_due).unwrap_or(end_ns));
            for side in [&mut self.initiator, &mut self.acceptor] {
                side.tick(self.now);
            }
            self.run();
            if !is_due {
                return;
            }
        }
    }

    fn set_time(&mut self, monotonic_ns: u64) {
        let passed_ns = monotonic_ns - self.now.monotonic_ns;
        self.now.utc.0 += i64::try_from(passed_ns).unwrap_or(0);
        self.now.monotonic_ns = monotonic_ns;
    }
}

impl SimulatedSession {
    fn close_if_up(&mut self, now: Now) -> bool {
        let is_up = self.far.is_some();
        self.close(now);
        is_up
    }
}
