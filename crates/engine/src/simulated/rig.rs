//! A link over any store and any stream, which a simulation drives step by step.
//!
//! Invariant: session, store, replay, application and schedule work together as in an engine. The
//! caller takes the part of worker and acceptor.

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

/// Reads the header of a proxy before a connection, as an acceptor with `proxy_protocol_from` does.
#[derive(Default)]
pub struct ProxyReader(ProxyHeader);

impl ProxyReader {
    /// Continues to read, but never beyond the header. Returns `None` while the header is
    /// incomplete; then the client's address, or `None` if the proxy connects for itself or does
    /// not know the address.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the header is invalid; others if the connection ends.
    #[allow(clippy::option_option, reason = "\"not yet\" and \"no address\" are different results")]
    pub fn advance(&mut self, stream: &mut dyn Stream) -> io::Result<Option<Option<IpAddr>>> {
        self.0.advance(stream)
    }
}

/// Compiled rules, shared by all rigs made with this value.
#[derive(Clone, Default)]
pub struct Rules(Arc<Registry>);

/// The reason why the link must close its connection.
#[derive(Debug)]
pub enum Ended {
    /// The session layer has ended the connection, or the counterparty has closed it.
    Session(Disconnect),
    /// The stream failed.
    Io(io::Error),
    /// The store failed; nothing is sent until the store is reopened.
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

/// The state of a rig, as a test observes it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// The state of the session.
    pub state: State,
    /// The MsgSeqNum(34) expected next from the counterparty.
    pub next_num_in: u64,
    /// The MsgSeqNum(34) of our next message.
    pub next_num_out: u64,
    /// The next inbound and outbound numbers with which a new process would continue. The numbers
    /// are lower while messages wait for their application, or our reset for its answer.
    pub kept_numbers: (u64, u64),
    /// The monotonic time, in nanoseconds, at which [`Rig::tick`] must be called at the latest.
    pub next_deadline: Option<u64>,
    /// True if the session is connected.
    pub is_up: bool,
    /// True if the session reads inbound bytes. False while its application judges a Logon(A), or
    /// while the end of the connection waits for the store.
    pub reads: bool,
    /// True if bytes wait to be written, or the answer to a Logon(A) waits to be applied.
    pub waits: bool,
    /// True if bytes wait until the store has made them durable.
    pub waits_for_store: bool,
    /// Bytes of new messages that wait to be written.
    pub waiting_bytes: usize,
    /// Bytes of queued messages that the session has not taken yet.
    pub queued_bytes: usize,
    /// The number and bytes of messages kept above a gap.
    pub held: (usize, usize),
    /// The counters since the session was made.
    pub counters: Counters,
}

/// A session with its store and application, driven by its caller. Not for production.
pub struct Rig {
    slot: DrivenSession,
}

impl Rig {
    /// Returns a session that continues from `store`. `adjust` changes the session layer's
    /// configuration.
    ///
    /// # Errors
    /// If the dictionary or the schedule of the settings is invalid.
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

    /// Returns the present state for inspection.
    #[must_use]
    pub fn look(&self) -> Seen {
        // Without a connection, there is no link deadline to report.
        let next_deadline = if self.slot.up { self.slot.deadline() } else { None };
        let mut link = self.link();
        let has_answer = link.core().is_judging() && link.executor().has_answer_now();
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

    /// Returns the measured latencies of messages, like [`crate::SessionHandle::latency`]. They are
    /// measured by the machine's clock, not by `now`.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.slot.shared.published.latency()
    }

    /// Accepts a new connection, or drops it if the schedule does not allow one now.
    ///
    /// # Errors
    /// [`Ended`], as all steps: the link must be closed.
    pub fn attach(&mut self, now: Now, stream: Box<dyn Stream>) -> Result<(), Ended> {
        Ok(self.slot.attach(now, Arrival::fresh(stream), None)?)
    }

    /// Runs one turn: at most one read, one commit, and the writes that the stream accepts. Returns
    /// true if another turn is due at once.
    ///
    /// # Errors
    /// As [`Rig::attach`].
    pub fn turn(&self, now: Now) -> Result<bool, Ended> {
        Ok(self.link().turn(&self.slot.shared.queue, true, || now)?.again)
    }

    /// Does the work that is due by time, for at most as many messages as a turn processes. A turn
    /// continues with queued messages that are left ([`Seen::waits`]), and another tick with
    /// messages that wait for the application ([`Seen::next_deadline`]).
    ///
    /// # Errors
    /// As [`Rig::attach`].
    pub fn tick(&mut self, now: Now) -> Result<(), Ended> {
        Ok(self.slot.tick(now).map(drop)?)
    }

    /// Sends one application message, or queues it.
    ///
    /// # Errors
    /// The reason why the message was not accepted.
    pub fn send(
        &self,
        now: Now,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let (mut link, queue) = (self.link(), &self.slot.shared.queue);
        link.send_or_queue(now, queue, msg_type.as_ref(), fill)
    }

    /// Returns the bodies of the queued messages, oldest first.
    #[must_use]
    pub fn queued(&self) -> Vec<Vec<u8>> {
        let queued = self.link().queued(&self.slot.shared.queue);
        queued.into_iter().map(|(_, body)| body).collect()
    }

    /// Applies an operator's action to the session, then stores and writes its messages.
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
