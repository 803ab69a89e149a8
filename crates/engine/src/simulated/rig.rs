//! One link over any store and any stream, each step by hand: for simulated worlds.
//!
//! Invariant: session, store, replay, application and schedule are put together as in an engine;
//! only the worker and the acceptor are missing, whose part the caller plays.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard};

use transfix_codec::Body;
use transfix_observe::counters::Counters;
use transfix_observe::latency::Latency;
use transfix_session::{Config, Disconnect, Now, Outbox, SendError, Sent, Session, State};
use transfix_settings::schedule::Hours;
use transfix_settings::schedule::Schedule;
use transfix_settings::{DictionaryChoice, SessionSettings};
use transfix_store::{Store, StoreError};
use transfix_transport::Stream;
use transfix_transport::proxy_header::ProxyHeader;

use crate::api::adapter::ApplicationAdapter;
use crate::api::application::Application;
use crate::assemble::{Parts, assemble};
use crate::drive::driven::DrivenSession;
use crate::drive::registry::Registry;
use crate::link::{Arrival, Down, Link};

/// The header of a proxy in front of a connection, as an acceptor with `proxy_protocol_from` reads
/// it.
#[derive(Default)]
pub struct ProxyReader(ProxyHeader);

impl ProxyReader {
    /// Reads on, and never beyond the end of the header. `None` while more is to come; then the
    /// address for which the proxy connects, `None` if it does so for itself or does not know.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is no such header; others if the connection ends.
    #[allow(clippy::option_option, reason = "not yet, and nobody, are two things")]
    pub fn advance(&mut self, stream: &mut dyn Stream) -> io::Result<Option<Option<IpAddr>>> {
        self.0.advance(stream)
    }
}

/// Rules compiled so far, shared by the rigs that are made with it.
#[derive(Clone, Default)]
pub struct Rules(Arc<Registry>);

/// Why the link must be closed.
#[derive(Debug)]
pub enum Ended {
    /// The session layer wants it, or the counterparty closed.
    Session(Disconnect),
    /// The stream failed.
    Io(io::Error),
    /// The store failed: nothing more is sent before it has been opened anew.
    Store(StoreError),
}

impl From<Down> for Ended {
    fn from(down: Down) -> Self {
        match down {
            Down::Session(reason) => Self::Session(reason),
            Down::Io(error) => Self::Io(error),
            Down::Store(error) => Self::Store(error),
            Down::Panicked => Self::Session(Disconnect::Application),
        }
    }
}

/// The findings of a look at a rig.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// Where the session stands.
    pub state: State,
    /// MsgSeqNum(34) expected next.
    pub next_num_in: u64,
    /// MsgSeqNum(34) of our next message.
    pub next_num_out: u64,
    /// The next numbers, inbound and outbound, with which a new process would go on: lower where
    /// messages wait for their application, or a reset of ours for its answer.
    pub kept_numbers: (u64, u64),
    /// When [`Rig::tick`] must be called at the latest, on the monotonic clock.
    pub next_deadline: Option<u64>,
    /// True if there is a connection.
    pub is_up: bool,
    /// True if it reads what comes: not while its application judges a Logon(A), nor while the end
    /// of the connection waits for the store.
    pub reads: bool,
    /// True if something waits to be written, or the answer to a Logon(A) to be carried out.
    pub waits: bool,
    /// True if something waits to be written until the store has made it safe.
    pub waits_for_store: bool,
    /// Bytes of new messages that wait to be written.
    pub waiting_bytes: usize,
    /// Messages that were handed over and wait for the session to take them: their bytes.
    pub queued_bytes: usize,
    /// Messages above a gap that are kept: how many, and their bytes.
    pub held: (usize, usize),
    /// Counts since it was made.
    pub counters: Counters,
}

/// A session with its store and its application, driven by hand. Not for production.
pub struct Rig {
    slot: DrivenSession,
}

impl Rig {
    /// Goes on with what `store` holds. `adjust` changes what the session layer is told.
    ///
    /// # Errors
    /// If the dictionary or the schedule of the settings is none.
    pub fn new(
        settings: &SessionSettings,
        adjust: impl FnOnce(&mut Config),
        store: Box<dyn Store>,
        application: Box<dyn Application>,
        rules: &Rules,
    ) -> Result<Self, String> {
        let version = settings.protocol.default_appl_ver_id;
        let wanted =
            DictionaryChoice::of_session(settings.begin_string, version, &settings.validation);
        let compiled = rules.0.rule_book.rules(&wanted)?;
        let mut config = settings.config();
        adjust(&mut config);
        let data_fields = compiled.data_fields().to_vec();
        let owner = ApplicationAdapter::of(application, &settings.id(), &rules.0);
        let schedule = settings.schedule.as_ref().map(Schedule::new).transpose();
        let hours = schedule.map_err(|error| error.to_string())?.map(Hours::new);
        let (log, is_at_backup, application) = (None, Arc::default(), owner);
        let parts = Parts { config, data_fields, hours, store, is_at_backup, log, application };
        let shared = assemble(settings, parts, &rules.0).map_err(|error| error.to_string())?;
        Ok(Self { slot: DrivenSession::new(Arc::new(shared), None) })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.slot.shared.lock()
    }

    /// Where it stands.
    #[must_use]
    pub fn look(&self) -> Seen {
        // Without a connection it is the worker that looks at the session.
        let next_deadline = if self.slot.up { self.slot.deadline() } else { None };
        let mut link = self.link();
        let has_answer = link.core().is_judging() && link.executor().hears_answer();
        let session = &link.core().session;
        Seen {
            state: session.state(),
            next_num_in: session.next_num_in(),
            next_num_out: session.next_num_out(),
            kept_numbers: link.core().kept_numbers(),
            next_deadline,
            is_up: link.is_up(),
            reads: (!link.core().is_judging() || has_answer) && link.core().ending().is_none(),
            waits: link.core().waits_for_socket() || has_answer,
            waits_for_store: link.core().waits_for_store(),
            waiting_bytes: link.core().out.len(),
            queued_bytes: link.core().outgoing.bytes() + self.slot.shared.queue.len(),
            held: session.held(),
            counters: self.slot.shared.published.counters.now(),
        }
    }

    /// How long messages have taken on the machine, as [`crate::SessionHandle::latency`] says; what
    /// is told as `now` has no part in it.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.slot.shared.published.latency()
    }

    /// Takes a fresh connection, or drops it if the schedule allows none now.
    ///
    /// # Errors
    /// [`Ended`], as all steps: the link must be closed.
    pub fn attach(&mut self, now: Now, stream: Box<dyn Stream>) -> Result<(), Ended> {
        Ok(self.slot.attach(now, Arrival::fresh(stream), None)?)
    }

    /// One turn: at most one read, one commit, and the writes that the stream takes. Returns
    /// whether another one is due at once.
    ///
    /// # Errors
    /// As [`Rig::attach`].
    pub fn turn(&self, now: Now) -> Result<bool, Ended> {
        Ok(self.link().turn(&self.slot.shared.queue, true, || now)?.again)
    }

    /// Does what is due, with at most as many messages as a turn takes. If some are left, a turn
    /// goes on with those of the queue ([`Seen::waits`]), and another tick with those that wait for
    /// the application ([`Seen::next_deadline`]).
    ///
    /// # Errors
    /// As [`Rig::attach`].
    pub fn tick(&mut self, now: Now) -> Result<(), Ended> {
        Ok(self.slot.tick(now).map(drop)?)
    }

    /// Sends one application message, or puts it into the queue.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn send(
        &self,
        now: Now,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let (mut link, queue) = (self.link(), &self.slot.shared.queue);
        link.send_or_queue(now, queue, msg_type.as_ref(), fill)
    }

    /// The bodies of the messages that wait in the queue, oldest first.
    #[must_use]
    pub fn queued(&self) -> Vec<Vec<u8>> {
        let queued = self.link().queued(&self.slot.shared.queue);
        queued.into_iter().map(|(_, body)| body).collect()
    }

    /// Does to the session what an operator does by hand, then stores and writes what it says.
    ///
    /// # Errors
    /// As [`Rig::attach`].
    pub fn operate(
        &self,
        now: Now,
        act: impl FnOnce(&mut Session, Now, &mut Outbox),
    ) -> Result<(), Ended> {
        let mut link = self.link();
        let core = link.core_mut();
        act(&mut core.session, now, &mut core.out);
        Ok(link.flush(now)?)
    }

    /// Closes the connection, if there is one.
    pub fn close(&mut self, now: Now, reason: Disconnect) {
        self.slot.up = false;
        drop(self.link().close(now, &self.slot.shared.queue, reason));
    }
}
