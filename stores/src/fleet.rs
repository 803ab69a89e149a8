//! Fleets: several gateways have the same sessions in one stream of NATS JetStream.
//!
//! The brokers decide which gateway owns a session: they accept records of its owner alone. The
//! requests of this module only decide when a gateway tries to become the owner. A wrong decision
//! interrupts a session, and loses nothing.

mod access;
mod gateway;
mod operator;
mod request;
mod session;
mod watch;

use std::sync::Arc;
use std::{fmt, io};

use transfix::{Engine, RetentionSettings, Role, SessionSettings, Settings, Store, StoreError};

use crate::jetstream::JetStreamStore;
use access::connect;
pub(crate) use gateway::Gateway;

pub use operator::FleetOperator;
pub use request::{GatewayStatus, SessionInFleet};

/// One gateway of a fleet. The gateway leaves the fleet when the value is dropped.
///
/// A counterparty may connect to any gateway. The gateway that accepts its Logon(A) takes the
/// session over, unless another gateway is connected with the counterparty. One gateway
/// connects an initiator. If this gateway stops answering, another one connects.
///
/// ```no_run
/// # use transfix::{Application, Engine, Settings, SessionId};
/// # fn application(_: &SessionId) -> Box<dyn Application> { unimplemented!() }
/// use transfix_stores::Fleet;
///
/// let mut settings = Settings::load("gateway.toml")?;
/// let fleet = Fleet::join(&mut settings)?;
/// let engine = Engine::builder(&settings).stores(fleet.stores()).start(application)?;
/// fleet.begin(&engine)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fleet {
    gateway: Arc<Gateway>,
}

impl Fleet {
    /// Connects to the brokers of `[fleet]`, and prepares the sessions of the settings: each
    /// session refreshes its store at a logon, and an initiator starts disabled.
    ///
    /// # Errors
    /// [`StoreError::Own`] if the settings have no `[fleet]`, if a file of `[fleet]` cannot be
    /// read, if no broker answers, or if the stream could lose messages.
    pub fn join(settings: &mut Settings) -> Result<Self, StoreError> {
        let Some(fleet) = &settings.fleet else {
            return Err(wrong("the settings have no section [fleet]".to_owned()));
        };
        let gateway = Arc::new(Gateway::join(connect(fleet)?, fleet)?);
        Self::prepare(settings)?;
        Ok(Self { gateway })
    }

    /// Prepares the sessions of other settings, before
    /// [`Engine::reload`](transfix::Engine::reload) or [`Engine::add`](transfix::Engine::add). All
    /// initiators start disabled; the gateway enables those that it takes over.
    ///
    /// # Errors
    /// [`StoreError::Own`] if a session has `failover.own_store`, or keys of `retention`.
    pub fn prepare(settings: &mut Settings) -> Result<(), StoreError> {
        let of_backup = settings.sessions.iter().find(|session| session.failover.own_store);
        if let Some(session) = of_backup {
            let id = session.id();
            return Err(wrong(format!("{id}: failover.own_store does not work in a fleet")));
        }
        let of_files = RetentionSettings::default();
        if let Some(session) = settings.sessions.iter().find(|one| one.retention != of_files) {
            let id = session.id();
            return Err(wrong(format!(
                "{id}: retention does not work in a fleet; use delete_after_days of [fleet]"
            )));
        }
        for session in &mut settings.sessions {
            session.store.refresh_on_logon = true;
            session.socket.start_disabled |= session.role == Role::Initiator;
        }
        Ok(())
    }

    /// Returns the function that opens the stores of the sessions, for
    /// [`EngineBuilder::stores`](transfix::EngineBuilder::stores).
    pub fn stores(
        &self,
    ) -> impl Fn(&SessionSettings, u64) -> Result<Option<Box<dyn Store>>, StoreError> + use<> {
        let gateway = Arc::clone(&self.gateway);
        move |session, now_ns| {
            let store = JetStreamStore::in_fleet(&gateway, (&session.id(), session.role), now_ns)?;
            Ok(Some(Box::new(store)))
        }
    }

    /// Lets the gateway take sessions over, and answer the requests of other gateways and of
    /// operators. Before this call, all logons are refused.
    ///
    /// # Errors
    /// [`StoreError::Own`] if the gateway receives no requests, for instance because its user lacks
    /// a permission.
    pub fn begin(&self, engine: &Engine) -> Result<(), StoreError> {
        self.gateway.begin(engine.admin())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.gateway.leave();
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Fleet");
        debug.field("gateway", &self.gateway.name()).field("sessions", &self.gateway.count());
        debug.finish_non_exhaustive()
    }
}

fn wrong(why: String) -> StoreError {
    StoreError::Own(io::Error::other(why))
}
