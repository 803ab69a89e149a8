//! Tests what operators see and do, and what the audit file records about their actions.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use transfix::{
    Action, Actor, Admin, AdminError, BeginString, Engine, EngineAction, OperateError, SessionId,
    Settings, State,
};
use transfix_observe::audit::verify;
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{echo, venue};

fn anna() -> Actor {
    Actor::new("anna", "192.0.2.7")
}

fn id() -> SessionId {
    SessionId::new(BeginString::Fix44, "VENUE", "CLIENT")
}

fn started(audit: &Path) -> (Engine, Admin, Wire) {
    let mut settings = Settings::of(venue(|_| ()));
    settings.engine.audit_file = audit.to_owned();
    let engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
    let (admin, mut wire) =
        (engine.admin(), Wire::connect(engine.listening()[0], BeginString::Fix44));
    wire.send("35=A|34=1|98=0|108=30");
    assert!(wire.next().starts_with("35=A"));
    (engine, admin, wire)
}

fn lines(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_action_does_what_it_says_and_is_written_down() {
    let dir = TempDir::new();
    let audit = dir.path().join("audit");
    let (_engine, admin, mut wire) = started(&audit);
    let cases = [
        (Action::Heartbeat {}, "heartbeat", "35=0|34=2"),
        (Action::TestRequest { id: "up?".to_owned() }, "test_request id=up?", "35=1|34=3|112=up?"),
        (Action::ResendRequest { begin: 1, end: 0 }, "resend_request begin=1 end=0", {
            "35=2|34=4|7=1|16=0"
        }),
        (
            Action::Send { msg_type: "B".to_owned(), fields: "148=news|554=hush".to_owned() },
            "send 35=B|148=news|554=****",
            "35=B|34=5|148=news|554=hush",
        ),
        (Action::SetNumbers { next_in: Some(9), next_out: None }, "set_numbers next_in=9", ""),
        (Action::SequenceReset { new_seq_no: 20 }, "sequence_reset new_seq_no=20", {
            "35=4|34=6|123=N|36=20"
        }),
        (Action::LogOut { text: "bye\n".to_owned() }, "log_out text=bye\n", "35=5|34=20|58=bye\\n"),
    ];
    for (action, _, sent) in &cases {
        let done = admin.act(&anna(), &id(), action).unwrap();
        assert_eq!(done.before.id, id());
        if !sent.is_empty() {
            assert_eq!(wire.next(), *sent, "{action:?}");
        }
    }
    let all = lines(&audit);
    assert_eq!(all.len(), 2 * cases.len());
    for ((_, what, _), pair) in cases.iter().zip(all.chunks(2)) {
        for line in pair {
            assert_eq!((&line["who"], &line["what"]), (&"anna".into(), &(*what).into()));
            assert_eq!(line["session"], "FIX.4.4:VENUE->CLIENT");
        }
        assert_eq!((&pair[0]["step"], &pair[1]["step"]), (&"asked".into(), &"done".into()));
        assert_eq!((&pair[0]["from"], &pair[1]["of"]), (&"192.0.2.7".into(), &pair[0]["n"]));
    }
    let (before, after) = (&all[8]["before"], &all[9]["after"]);
    let said = "state=Active next_in=2 next_out=6 enabled=true queued_bytes=0";
    assert_eq!(before.as_str().unwrap(), said);
    assert_eq!(after.as_str().unwrap(), said.replace("next_in=2", "next_in=9"));
    let verified = verify(BufReader::new(File::open(&audit).unwrap()), None).unwrap();
    assert_eq!((verified.lines, verified.unfinished), (14, vec![]));
}

#[test]
fn what_is_refused_is_written_down_with_the_reason() {
    let dir = TempDir::new();
    let audit = dir.path().join("audit");
    let (_engine, admin, _wire) = started(&audit);
    let refused = |action| admin.act(&anna(), &id(), &action).unwrap_err();
    let low = refused(Action::SequenceReset { new_seq_no: 1 });
    assert_eq!(low.as_u16(), 1305, "as the session says it");
    let no_field = Action::Send { msg_type: "B".to_owned(), fields: "148".to_owned() };
    assert!(matches!(refused(no_field), AdminError::Operate(OperateError::Send(_))));
    let admin_message = Action::Send { msg_type: "4".to_owned(), fields: "36=9".to_owned() };
    assert!(
        matches!(refused(admin_message), AdminError::Operate(OperateError::Send(_))),
        "the session layer's own"
    );
    assert!(matches!(refused(Action::ConnectTo { destination: 0 }), AdminError::Operate(_)));
    let other = SessionId::new(BeginString::Fix44, "VENUE", "NOBODY");
    let nobody = admin.act(&anna(), &other, &Action::LogOn {}).unwrap_err();
    assert_eq!(nobody.to_string(), "no session is named FIX.4.4:VENUE->NOBODY");
    let all = lines(&audit);
    let steps: Vec<_> = all.iter().map(|line| line["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["asked", "refused"].repeat(4), "nothing was asked of nobody");
    assert_eq!(all[1]["why"], low.to_string());
}

#[test]
fn what_the_audit_file_does_not_take_is_not_done() {
    let (_engine, admin, mut wire) = started(Path::new("/dev/full"));
    let numbers = Action::SetNumbers { next_in: Some(50), next_out: None };
    for action in [Action::Heartbeat {}, numbers, Action::LogOut { text: String::new() }] {
        let error = admin.act(&anna(), &id(), &action).unwrap_err();
        assert_eq!(error.as_u16(), 1402, "{error}");
    }
    let error = admin.request(&anna(), EngineAction::Stop).unwrap_err();
    assert_eq!(error.as_u16(), 1402);
    wire.send("35=1|34=2|112=still here?");
    assert_eq!(wire.next(), "35=0|34=2|112=still here?", "nothing came before");
    assert_eq!(admin.sessions()[0].state, State::Active);
}

#[test]
fn an_audit_file_of_another_engine_keeps_this_one_from_starting() {
    let dir = TempDir::new();
    let audit = dir.path().join("audit");
    let _first = started(&audit);
    let mut settings = Settings::of(venue(|_| ()));
    settings.engine.audit_file = audit.clone();
    let error = Engine::start(&settings, |_| Box::new(echo())).err().unwrap().to_string();
    let said = format!("the audit file {}: another process has the file open", audit.display());
    assert_eq!(error, said);
}

#[test]
fn sessions_are_listed_while_they_are_there() {
    let second = venue(|s| s.target_comp_id = "SECOND".to_owned());
    let settings =
        Settings { sessions: vec![second.clone(), venue(|_| ())], ..Settings::default() };
    let mut engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
    let admin = engine.admin();
    let ids = || admin.sessions().iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(), ["FIX.4.4:VENUE->CLIENT", "FIX.4.4:VENUE->SECOND"]);
    let handle = admin.find("FIX.4.4:VENUE->SECOND").unwrap();
    assert_eq!((handle.id(), &*handle.settings().target_comp_id), (&second.id(), "SECOND"));
    engine.remove(&second.id(), "", Duration::from_secs(1)).unwrap();
    assert_eq!(ids(), ["FIX.4.4:VENUE->CLIENT"]);
    assert!(admin.find("FIX.4.4:VENUE->SECOND").is_none());
    engine.add(&second, Box::new(echo())).unwrap();
    assert_eq!(ids().len(), 2);
    engine.stop(Duration::from_secs(1));
    let gone = admin.act(&anna(), &id(), &Action::LogOn {}).unwrap_err();
    assert!([1309, 1401].contains(&gone.as_u16()), "{gone}");
}

#[test]
fn what_only_the_program_can_do_it_is_asked_for() {
    let dir = TempDir::new();
    let audit = dir.path().join("audit");
    let (_engine, admin, _wire) = started(&audit);
    let ask = |action| admin.request(&anna(), action);
    assert!(matches!(ask(EngineAction::Stop), Err(AdminError::NotTaken)));
    let (to, requests) = mpsc::channel();
    admin.take_requests(move |request| to.send(request).unwrap());
    let program = thread::spawn(move || {
        for request in requests {
            match &request.action {
                EngineAction::Reload => request.answer(Err("x.toml:1: no".to_owned())),
                EngineAction::Remove { .. } => request.answer(Ok("removed".to_owned())),
                // Drops the request without an answer.
                _ => return,
            }
        }
    });
    assert!(matches!(ask(EngineAction::Reload), Err(AdminError::Program(_))));
    let remove = EngineAction::Remove { id: id(), text: "end".to_owned() };
    assert_eq!(ask(remove).unwrap(), "removed");
    assert!(matches!(ask(EngineAction::Stop), Err(AdminError::Late)));
    program.join().unwrap();
    let by_signal = Actor::new("signal", "SIGHUP");
    let said = admin.audited(&by_signal, &EngineAction::Reload, || Ok("as it was".to_owned()));
    assert_eq!(said.unwrap(), "as it was");
    assert_eq!(ask(EngineAction::RotateLogs).unwrap(), "rolled: 0 files of the protocol logs");
    let levels = EngineAction::SetLevels("info,transfix::link=debug".parse().unwrap());
    assert!(admin.audited(&by_signal, &levels, || Err("no".to_owned())).is_err());
    let all = lines(&audit);
    let ends: Vec<_> = all.iter().filter(|line| line["step"] != "asked").collect();
    let shown: Vec<_> =
        ends.iter().map(|line| format!("{}: {}", line["what"], line["step"])).collect();
    assert_eq!(shown.join(" "), {
        "\"stop\": \"refused\" \"reload\": \"refused\" \
         \"remove FIX.4.4:VENUE->CLIENT text=end\": \"done\" \"stop\": \"refused\" \
         \"reload\": \"done\" \"rotate_logs\": \"done\" \
         \"set_levels info,transfix::link=debug\": \"refused\""
    });
}
