//! A parsed command with its administrator and its parameters.

use transfix::{Actor, Admin, EngineAction, SessionId};

use crate::fix::administrators::Administrators;
use crate::fix::answer::Refused;
use crate::fix::logged_on_users::LoggedOnUsers;
use crate::fix::request::Element;

/// A parsed command, ready to run.
pub(super) struct ParsedCommand<'a> {
    pub(super) administrators: &'a Administrators,
    /// Session of the administrator who sent the command.
    pub(super) session: &'a SessionId,
    pub(super) actor: &'a Actor,
    pub(super) element: Element<'a>,
    pub(super) request_id: Option<i64>,
    /// MonitoringRequestId(9207) of the command's message.
    pub(super) monitoring_id: Option<&'a str>,
}

impl ParsedCommand<'_> {
    pub(super) const fn admin(&self) -> &Admin {
        &self.administrators.admin
    }

    /// Sends a request, such as a reload, to the program that runs the engine; returns the
    /// program's answer.
    pub(super) fn request(&self, action: EngineAction) -> Result<String, Refused> {
        let place = self.administrators.limits.request(&action);
        let _place = place.map_err(|busy| Refused::rejected(busy.to_string()))?;
        Ok(self.admin().request(self.actor, action)?)
    }

    pub(super) fn attendance(&self) -> &LoggedOnUsers {
        &self.administrators.attendance
    }
}
