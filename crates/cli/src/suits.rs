//! Determines which verbs can run the sessions of a settings file, to name them in errors.

use std::path::Path;

use transfix::{Review, Role, Settings};

/// A verb of the program that runs sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Serve,
    Connect,
    Run,
}

impl Runner {
    /// All verbs that run sessions; the last can run the sessions of any file.
    const ALL: [Self; 3] = [Self::Serve, Self::Connect, Self::Run];

    const fn verb(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Connect => "connect",
            Self::Run => "run",
        }
    }

    /// Returns an error if this verb cannot run the sessions; the error names the verbs that can.
    pub(crate) fn refuses(self, path: &Path, settings: &Settings) -> Option<String> {
        let shown = path.display();
        let why = match self {
            Self::Serve => not_served(settings),
            Self::Connect => not_connected(settings),
            Self::Run => None,
        };
        if let Some(why) = why {
            let others: Vec<_> = suited(path, settings);
            return Some(format!("{shown}: {why}; use {}", others.join(" or ")));
        }
        Review::needs_program(settings).into_iter().next()
    }
}

/// Returns the commands that can run these sessions, according to roles and number of sessions.
pub(crate) fn suited(path: &Path, settings: &Settings) -> Vec<String> {
    let suits = |runner: &Runner| match runner {
        Runner::Serve => not_served(settings).is_none(),
        Runner::Connect => not_connected(settings).is_none(),
        Runner::Run => true,
    };
    let path = path.display();
    let call = |runner: Runner| format!("`transfix {} {path}`", runner.verb());
    Runner::ALL.into_iter().filter(suits).map(call).collect()
}

fn not_served(settings: &Settings) -> Option<String> {
    let mut sessions = settings.sessions.iter();
    sessions.find_map(|session| match session.role {
        Role::Acceptor if session.target_comp_id == "*" => Some(format!(
            "{} is a template for any counterparty, but the venue accepts only counterparties \
             named in the settings",
            session.id()
        )),
        Role::Acceptor => None,
        _ => Some(format!("{} is an initiator, but the venue runs only acceptors", session.id())),
    })
}

fn not_connected(settings: &Settings) -> Option<String> {
    match &settings.sessions[..] {
        [session] if session.role == Role::Initiator => None,
        [session] => {
            Some(format!("{} is an acceptor, but the test client needs an initiator", session.id()))
        }
        sessions => Some(format!(
            "the file has {} sessions, but the test client needs exactly one",
            sessions.len()
        )),
    }
}
