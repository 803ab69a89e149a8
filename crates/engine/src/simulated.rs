//! A session without socket, thread and clock: the caller passes bytes and time. Made for tests of
//! applications and of the session layer in simulated time.
//!
//! All parts of a link are real: framing, session, store, application, replay. Only connecting is
//! missing: the caller decides when the session has a connection.
//!
//! A [`Pair`] links two simulated sessions, to test the applications on both sides.
//!
//! ```
//! use transfix::simulated::Simulation;
//! use transfix::{
//!     Application, BeginString, BusinessReject, Durability, Message, Now, Role, SessionId,
//!     SessionRef, SessionSettings, Timestamp,
//! };
//!
//! struct Deaf;
//!
//! impl Application for Deaf {
//!     fn on_message(
//!         &mut self,
//!         _: &Message<'_>,
//!         _: &mut SessionRef<'_>,
//!     ) -> Result<(), BusinessReject> {
//!         Err(BusinessReject::unsupported())
//!     }
//! }
//!
//! let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
//! let mut settings = SessionSettings::new(Role::Initiator, &id, "");
//! settings.store.durability = Durability::Memory;
//! let mut session = Simulation::default().session(&settings, Box::new(Deaf))?;
//! let noon = Now { utc: Timestamp(1_795_262_400_000_000_000), monotonic_ns: 0 };
//! session.connect(noon);
//! assert!(session.take_output().starts_with(b"8=FIX.4.4\x019="));
//! # Ok::<(), transfix::EngineError>(())
//! ```

/// The interface between the engine and its environment. With your own implementation, tests run
/// whole engines; see [`EngineBuilder::io`](crate::EngineBuilder::io).
#[cfg(feature = "rig")]
pub mod io {
    pub use crate::io::{Connecting, Io, Listener, Poll, Ready, System, Thread, Waker};
}
mod pair;
#[cfg(feature = "rig")]
pub mod rig;

use std::sync::{Arc, MutexGuard};

use transfix_codec::Body;
use transfix_session::{Disconnect, Now, OperateError, SendError, Sent};
use transfix_settings::SessionSettings;
use transfix_transport::Stream;
use transfix_transport::memory::{MemoryStream, pipe};

use crate::admin::action::{Action, body};
use crate::api::adapter::ApplicationAdapter;
use crate::api::application::Application;
use crate::api::operate::act_on_session;
use crate::assemble::open;
use crate::drive::registry::Registry;
use crate::drive::shared::Shared;
use crate::error::EngineError;
use crate::link::rule_book::RuleBook;
use crate::link::{Arrival, Down, Link};
pub use pair::Pair;

/// The maximum number of bytes in transit in each direction.
const PIPE_BYTES: usize = 64 << 10;
/// The maximum number of bytes in one read of a session's output.
const READ_BYTES: usize = 4096;

/// Creates simulated sessions, which share the compiled rules of their dictionaries.
#[derive(Default)]
pub struct Simulation {
    rule_book: Arc<RuleBook>,
}

impl Simulation {
    /// Returns a session that continues from its store.
    ///
    /// # Errors
    /// [`EngineError`], as at the start of an engine.
    pub fn session(
        &self,
        settings: &SessionSettings,
        application: Box<dyn Application>,
    ) -> Result<SimulatedSession, EngineError> {
        settings.check().map_err(EngineError::Settings)?;
        let registry = Arc::new(Registry::new(Arc::clone(&self.rule_book)));
        let owner = ApplicationAdapter::of(application, &settings.id(), &registry);
        let shared = Arc::new(open(settings, owner, &registry)?);
        registry.fill(&[Arc::clone(&shared)]);
        let (output, buffer) = (Vec::new(), vec![0; READ_BYTES]);
        Ok(SimulatedSession { shared, far: None, output, buffer, ended: None })
    }
}

/// A session that its caller drives.
pub struct SimulatedSession {
    shared: Arc<Shared>,
    /// The counterparty's end of the connection.
    far: Option<MemoryStream>,
    output: Vec<u8>,
    /// A buffer for reads of `far`, kept because zeroing it for each read would be slow.
    buffer: Vec<u8>,
    ended: Option<Disconnect>,
}

impl SimulatedSession {
    /// Opens a connection. An initiator sends its Logon(A).
    ///
    /// # Panics
    /// If there is a connection already.
    pub fn connect(&mut self, now: Now) {
        assert!(self.far.is_none(), "a session has one connection at a time");
        let (near, far) = pipe(PIPE_BYTES);
        self.far = Some(far);
        self.ended = None;
        let attached = self.link().attach(now, Arrival::fresh(Box::new(near)));
        self.settle(now, attached);
    }

    /// Passes bytes of the counterparty to the session: any number of messages, or a part of one.
    /// Has no effect without a connection.
    pub fn receive(&mut self, now: Now, mut bytes: &[u8]) {
        while let Some(far) = self.far.as_mut().filter(|_| !bytes.is_empty()) {
            let taken = far.write(bytes).unwrap_or(0);
            bytes = &bytes[taken..];
            self.turns(now);
        }
    }

    /// Closes the connection from the counterparty's side.
    pub fn close(&mut self, now: Now) {
        if let Some(far) = &mut self.far {
            // An error is ignored, because a pipe in memory does not fail.
            let _ = far.shutdown();
            self.turns(now);
        }
    }

    /// Returns the monotonic time, in nanoseconds, at which [`SimulatedSession::tick`] must be
    /// called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.link().next_deadline()
    }

    /// Does the work that is due, such as heartbeats and timeouts.
    pub fn tick(&mut self, now: Now) {
        loop {
            let mut link = self.link();
            let ticked = link.tick(now, &self.shared.queue);
            let offers_more = link.core().delivery.offers_more(now);
            drop(link);
            let has_more_work = ticked.as_ref().is_ok_and(|sends_more| *sends_more || offers_more);
            self.settle(now, ticked.map(drop));
            if !has_more_work {
                return;
            }
        }
    }

    /// Sends an application message, as [`crate::SessionHandle::send`] does.
    ///
    /// # Errors
    /// [`SendError`]: the message was not accepted.
    pub fn send(
        &mut self,
        now: Now,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let (shared, msg_type) = (&self.shared, msg_type.as_ref());
        let send = |fill: &mut dyn FnMut(&mut Body<'_>)| {
            shared.lock().send_or_queue(now, &shared.queue, msg_type, fill)
        };
        let sent = match &shared.filter {
            Some(filter) => filter.through(msg_type, fill, |body| {
                send(&mut |whole| _ = whole.fields_unchecked(body))
            }),
            None => {
                let mut fill = Some(fill);
                send(&mut |body| fill.take().into_iter().for_each(|fill| fill(body)))
            }
        };
        self.turns(now);
        sent
    }

    /// Carries out an operator's action, and sends the resulting messages. Actions for an engine
    /// (`LogOn`, `ConnectTo`, `Revive`) or for its queue have no effect, because the test itself
    /// connects.
    ///
    /// # Errors
    /// As [`crate::SessionHandle::operate`].
    pub fn operate(&mut self, now: Now, action: &Action) -> Result<(), OperateError> {
        match action {
            Action::LogOut { text } => self.log_out(now, text),
            Action::Disconnect {} => self.disconnect(now),
            Action::Send { msg_type, fields } => {
                let sent = self.send(now, msg_type, |message| _ = message.fields(&body(fields)));
                sent.map_err(OperateError::Send)?;
            }
            session_action => {
                let done = act_on_session(&mut self.link(), now, session_action);
                self.settle(now, Ok(()));
                done?;
            }
        }
        Ok(())
    }

    fn log_out(&mut self, now: Now, text: &str) {
        let waits = self.link().logout(now, text);
        let outcome = match waits {
            Ok(false) => Err(Down::Session(Disconnect::Operator)),
            other => other.map(drop),
        };
        self.settle(now, outcome);
    }

    fn disconnect(&mut self, now: Now) {
        self.settle(now, Err(Down::Session(Disconnect::Operator)));
    }

    /// Returns all bytes that the session has sent since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns the reason why the last connection ended. `None` during a connection, or before the
    /// first.
    #[must_use]
    pub const fn ended(&self) -> Option<Disconnect> {
        self.ended
    }

    /// Returns the next inbound and outbound numbers.
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        let link = self.link();
        (link.core().session.next_num_in(), link.core().session.next_num_out())
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.shared.lock()
    }

    /// Runs turns until all arrived bytes are read.
    fn turns(&mut self, now: Now) {
        while self.far.is_some() {
            let turn = self.link().turn(&self.shared.queue, true, || now);
            let has_more_work = turn.as_ref().is_ok_and(|turn| turn.again);
            self.settle(now, turn.map(drop));
            if !has_more_work {
                return;
            }
        }
    }

    /// Collects the output, and closes the connection if the outcome demands it.
    fn settle(&mut self, now: Now, outcome: Result<(), Down>) {
        while self.collect() {
            // The flush sends bytes for which the pipe had no room before.
            let _ = self.link().flush(now);
        }
        let Err(down) = outcome else { return };
        let reason = down.reason();
        if self.far.take().is_some() {
            self.link().close(now, &self.shared.queue, reason);
            self.ended = Some(reason);
        }
    }

    fn collect(&mut self) -> bool {
        let Some(far) = &mut self.far else { return false };
        let read = far.read(&mut self.buffer).unwrap_or(0);
        self.output.extend_from_slice(&self.buffer[..read]);
        read > 0
    }
}
