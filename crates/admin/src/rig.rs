//! Runs administrators' commands over FIX without a connection, for the fuzz target only.

use std::sync::Arc;

use transfix::{Actor, Admin, BeginString, SessionId};

use crate::app::Limits;
use crate::fix::Administrators;
use crate::fix::own::OwnCommands;
use crate::refusals::Refusals;
use crate::throttle::Throttle;
use crate::users::{Role, UsersFile};

/// An interpreter for administrators' commands that needs no connection.
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
    /// Creates an interpreter for the engine of `admin`, without users.
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

    /// Runs a command as an administrator with the role `role`; returns the answer as XML.
    #[must_use]
    pub fn answer(&self, role: Role, xml: &[u8]) -> String {
        let asks = Ok((Actor::new("fuzz", "nowhere"), role));
        crate::fix::answer_to(&self.administrators, &self.session, xml, asks)
    }
}
