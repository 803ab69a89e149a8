//! Sends arbitrary XML as the command of a FIX administrator, in each role. Nothing panics, the
//! answer is XML with a result code, and viewers change nothing.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineAction, Message, SessionId,
    SessionRef, SessionSettings, SessionStatus, Settings,
};
use transfix_admin::rig::Commands;
use transfix_admin::users::Role;

struct Deaf;

impl Application for Deaf {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

thread_local! {
    static ENGINE: (Engine, Commands) = engine();
}

/// Returns an engine with an acceptor and an initiator. Its application accepts every request and
/// does nothing.
fn engine() -> (Engine, Commands) {
    let session = |role, theirs: &str, address: &str| {
        let id = SessionId::new(BeginString::Fix44, "VENUE", theirs);
        let mut session = SessionSettings::new(role, &id, address);
        session.store.durability = Durability::Memory;
        session.socket.reconnect_interval = Duration::from_secs(3_600);
        session
    };
    let mut settings = Settings::of(session(transfix::Role::Acceptor, "DESK", "127.0.0.1:0"));
    // No process listens at this address.
    settings.sessions.push(session(transfix::Role::Initiator, "FAR", "127.0.0.1:1"));
    settings.engine.workers = 1;
    let engine = Engine::start(&settings, |_| Box::new(Deaf)).expect("an engine");
    engine.admin().take_requests(|request| {
        let said = match &request.action {
            EngineAction::Add(session) => format!("{} was not really added", session.id()),
            _ => "not really".to_owned(),
        };
        request.answer(Ok(said));
    });
    let commands = Commands::new(&engine.admin());
    (engine, commands)
}

/// Returns the state of a session that only an operator or an administrator may change.
fn state(status: &SessionStatus) -> (SessionId, u64, u64, bool) {
    (status.id.clone(), status.next_num_in, status.next_num_out, status.enabled)
}

fn answered(commands: &Commands, role: Role, xml: &[u8]) {
    let answer = commands.answer(role, xml);
    let read = roxmltree::Document::parse(&answer);
    let read = read.unwrap_or_else(|error| panic!("{error}: {answer}"));
    let code = read.root_element().attribute("ResultCode").and_then(|code| code.parse().ok());
    assert!(code.is_some_and(|code: u8| code < 10), "{answer}");
}

fuzz_target!(|bytes: &[u8]| {
    ENGINE.with(|(engine, commands)| {
        let states = || engine.sessions().map(|one| state(&one.status())).collect::<Vec<_>>();
        let before = states();
        answered(commands, Role::Viewer, bytes);
        assert_eq!(states(), before, "a viewer has changed something");
        answered(commands, Role::Operator, bytes);
        answered(commands, Role::Administrator, bytes);
    });
});
