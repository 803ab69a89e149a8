//! Commands that the program adds to the built-in commands.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use transfix::{Actor, Admin};

use crate::fix::answer::{CommandResult, Refused, ResultCode};
use crate::users::Role;

/// The arguments of a command that the program has added.
#[derive(Debug)]
#[non_exhaustive]
pub struct OwnRequest<'a> {
    /// Whole XML of the command: well formed, without DTD and entities.
    pub xml: &'a str,
    /// Administrator who sends the command, for [`Admin::act`].
    pub actor: &'a Actor,
    /// Role of the administrator.
    pub role: Role,
    /// Administration of the engine; its audit records all actions of the command.
    pub admin: &'a Admin,
}

/// A command that the program adds; a closure can be a command.
///
/// The administration calls the command in one of its threads and serves other administrators
/// meanwhile. A panic is answered with result code 6.
pub trait OwnCommand: Send + Sync {
    /// Performs the command and returns the answer.
    ///
    /// # Errors
    /// Returns [`Refused`] with the reason.
    fn run(&self, request: &OwnRequest<'_>) -> Result<CommandResult, Refused>;
}

impl<F> OwnCommand for F
where
    F: Fn(&OwnRequest<'_>) -> Result<CommandResult, Refused> + Send + Sync,
{
    fn run(&self, request: &OwnRequest<'_>) -> Result<CommandResult, Refused> {
        self(request)
    }
}

/// The commands that the program has added, by the names of their XML elements.
///
/// ```
/// use transfix_admin::users::Role;
/// use transfix_admin::{OwnCommands, OwnRequest, CommandResult};
///
/// let mut commands = OwnCommands::default();
/// commands.add("Uptime", Role::Viewer, "How long the program runs", |request: &OwnRequest<'_>| {
///     let sessions = request.admin.sessions().len();
///     Ok(CommandResult::data(format!("<UptimeData><Sessions>{sessions}</Sessions></UptimeData>")))
/// });
/// ```
#[derive(Clone, Default)]
pub struct OwnCommands {
    all: BTreeMap<String, Own>,
}

#[derive(Clone)]
struct Own {
    role: Role,
    about: String,
    command: Arc<dyn OwnCommand>,
}

impl fmt::Debug for OwnCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl OwnCommands {
    /// Adds a command with its element name, its required role, and its description for the command
    /// `Help`. The new command replaces an added or built-in command of the same name.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        role: Role,
        about: impl Into<String>,
        command: impl OwnCommand + 'static,
    ) {
        let own = Own { role, about: about.into(), command: Arc::new(command) };
        self.all.insert(name.into(), own);
    }

    /// Returns the role that the command `name` requires, or `None` if the program has added no
    /// such command.
    pub(super) fn role(&self, name: &str) -> Option<Role> {
        self.all.get(name).map(|own| own.role)
    }

    /// Returns the name, required role and description of each command.
    pub(super) fn about(&self) -> impl Iterator<Item = (&str, Role, &str)> {
        self.all.iter().map(|(name, own)| (&**name, own.role, &*own.about))
    }

    /// Runs the command `name`; refuses a name that the program has not added.
    pub(super) fn run(
        &self,
        name: &str,
        request: &OwnRequest<'_>,
    ) -> Result<CommandResult, Refused> {
        let unknown = || Refused::new(ResultCode::NotImplemented, format!("no command {name}"));
        let own = self.all.get(name).ok_or_else(unknown)?;
        tracing::info!(
            command = name,
            who = request.actor.who,
            from = request.actor.from,
            "the administration runs a command that the program defines"
        );
        let failed = |why: &str| {
            tracing::error!(command = name, why, "a command that the program defines has failed");
            Refused::new(
                ResultCode::InternalError,
                format!(
                    "{name} failed; the log has the \
                details"
                ),
            )
        };
        let run = || own.command.run(request);
        let said = catch_unwind(AssertUnwindSafe(run)).map_err(|_| failed("it has panicked"))??;
        let whole = format!("<all>{}</all>", said.data);
        let is_xml =
            whole.len() <= "<all></all>".len() || roxmltree::Document::parse(&whole).is_ok();
        match is_xml {
            true => Ok(said),
            false => Err(failed("the output of the command is not valid XML")),
        }
    }
}
