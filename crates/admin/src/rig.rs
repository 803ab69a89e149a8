//! Commands of administrators over FIX without a connection, for the fuzz target only.

use std::sync::Arc;

use transfix::{Actor, Admin, BeginString, SessionId};

use crate::app::Limits;
use crate::fix::Administrators;
use crate::fix::own::OwnCommands;
use crate::refusals::Refusals;
use crate::throttle::Throttle;
use crate::users::{Role, UsersFile};

/// A command interpreter without a connection.
pub struct Commands {
    administrators: Administrators,
    session: SessionId,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Commands({})", self.session)
    }
}

impl Commands {
    /// Creates an interpreter for this engine, without users.
    #[must_use]
    pub fn new(admin: &Admin) -> Self {
        let administrators = Administrators {
            admin: admin.clone(),
            refusals: Arc::new(Refusals::new(admin)),
            users: Arc::new(UsersFile::of_nobody()),
            throttle: Arc::<Throttle>::default(),
            own: OwnCommands::default(),
            attendance: Arc::default(),
            limits: Arc::<Limits>::default(),
        };
        Self { administrators, session: SessionId::new(BeginString::Fix44, "FIXADMIN", "fuzz") }
    }

    /// Returns the XML answer to a command of an administrator with this role.
    #[must_use]
    pub fn answer(&self, role: Role, xml: &[u8]) -> String {
        let asks = Ok((Actor::new("fuzz", "nowhere"), role));
        crate::fix::answer_to(&self.administrators, &self.session, xml, asks)
    }
}
