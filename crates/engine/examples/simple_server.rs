//! A server with options: several addresses, users with passwords, a time limit for the logon, and
//! optional validation. The server prints and accepts each message.
//!
//! ```text
//! cargo run -p transfix --example simple_server -- \
//!     --listen 127.0.0.1:3001 --listen 127.0.0.1:3002 \
//!     --user desk:secret --user risk:hidden --logon-timeout-ms 3000 --no-check
//! ```
//!
//! Without `--user` the server admits every counterparty. A counterparty has one session at each
//! address.
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineError, LogonAttempt,
    LogonRefusal, Message, ResetPolicy, Role, SessionEvent, SessionId, SessionRef, SessionSettings,
    Settings, tag,
};

/// Arguments of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) listen: Vec<String>,
    /// The password of each Username(553). If the map is empty, the server admits every
    /// counterparty.
    pub(crate) users: HashMap<String, String>,
    pub(crate) logon_timeout: Duration,
    pub(crate) checks: bool,
}

impl Options {
    /// Parses the arguments. Returns the text of the error if an argument is wrong.
    ///
    /// # Errors
    /// The wrong argument.
    pub(crate) fn read(args: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let logon_timeout = Duration::from_secs(10);
        let mut options =
            Self { listen: vec![], users: HashMap::new(), logon_timeout, checks: true };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match &*arg {
                "--listen" => options.listen.push(value()?),
                "--user" => {
                    let user = value()?;
                    let (name, password) =
                        user.split_once(':').ok_or("--user needs NAME:PASSWORD")?;
                    options.users.insert(name.to_owned(), password.to_owned());
                }
                "--logon-timeout-ms" => {
                    let wrong = |error| format!("--logon-timeout-ms: {error}");
                    options.logon_timeout = Duration::from_millis(value()?.parse().map_err(wrong)?);
                }
                "--no-check" => options.checks = false,
                _ => return Err(format!("{arg} is no option")),
            }
        }
        if options.listen.is_empty() {
            options.listen.push("127.0.0.1:3001".to_owned());
        }
        Ok(options)
    }
}

/// The application of one session.
struct Server {
    users: Arc<HashMap<String, String>>,
}

impl Application for Server {
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        let field = |tag| logon.raw(tag).unwrap_or_default();
        let (user, password) = (field(tag::USERNAME), field(tag::PASSWORD));
        let is_known = self
            .users
            .iter()
            .any(|(name, word)| name.as_bytes() == user && word.as_bytes() == password);
        if is_known || self.users.is_empty() {
            return Ok(());
        }
        println!("{} is refused", attempt.id());
        // The refusal does not reveal whether the user name or the password is wrong.
        Err(LogonRefusal::new("wrong user or password"))
    }

    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        println!("{}: {} {}", session.id(), message.msg_type(), message.msg_seq_num()?);
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            println!("{} is logged on", session.id());
        }
    }
}

/// Starts the server.
///
/// # Errors
/// If the server cannot listen.
pub(crate) fn start(options: Options) -> Result<Engine, EngineError> {
    let Options { listen, users, logon_timeout, checks } = options;
    let session = |(n, address): (usize, &String)| {
        // Each address has a template (TargetCompID `*`), from which the engine creates a session
        // for each counterparty. Templates must differ, so the second address has another
        // SenderCompID(49).
        let name = if n == 0 { "SERVER".to_owned() } else { format!("SERVER{}", n + 1) };
        let id = SessionId::new(BeginString::Fix44, &name, "*");
        let mut session = SessionSettings::new(Role::Acceptor, &id, address);
        session.store.durability = Durability::Memory;
        session.protocol.reset_on = ResetPolicy::LOGON;
        session.protocol.logon_timeout = logon_timeout;
        session.validation.validate = checks;
        session
    };
    let sessions = listen.iter().enumerate().map(session).collect();
    let settings = Settings { sessions, ..Settings::default() };
    let users = Arc::new(users);
    let server = move || -> Box<dyn Application> { Box::new(Server { users: users.clone() }) };
    let admitted = server.clone();
    Engine::builder(&settings).admit(move |_| Some(admitted())).start(|_| server())
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let engine = start(Options::read(std::env::args().skip(1))?)?;
    println!("listening at {:?}; enter a line to stop", engine.listening());
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
