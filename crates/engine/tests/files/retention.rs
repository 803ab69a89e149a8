//! Tests which messages a session's store keeps, from the counterparty's view.

use std::fs;
use std::path::Path;
use std::time::Duration;

use transfix::{
    BeginString, BeyondLimit, Durability, Engine, RetentionSettings, Role, SessionId,
    SessionSettings, Settings, Tag, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use crate::counterparty::Client;

/// Returns an application that answers each order with a News(B) of one kilobyte.
fn venue() -> App {
    App::new(|message, session| {
        let text = message.text(tag::TEXT)?.to_owned();
        let _ = session.send("B", |news| {
            news.str(Tag(148), &text).str(tag::TEXT, &"x".repeat(1_000));
        });
        Ok(())
    })
}

fn start(dir: &Path, durability: Durability, retention: RetentionSettings) -> Engine {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    session.store.durability = durability;
    session.validation.validate = false;
    session.store.store_dir = dir.join("store");
    session.retention = retention;
    Engine::start(&Settings::of(session), |_| Box::new(venue())).unwrap()
}

const LIMIT: u64 = 64 << 10;

#[test]
fn a_resend_fills_what_was_forgotten_and_sends_what_is_kept() {
    for durability in [Durability::Memory, Durability::Process] {
        let dir = TempDir::new();
        let archive_dir = (durability == Durability::Process).then(|| dir.path().join("archive"));
        let retention =
            RetentionSettings { bytes_max: LIMIT, archive_dir, ..RetentionSettings::default() };
        let engine = start(dir.path(), durability, retention);
        let mut client = Client::logged_on(&engine);
        (0..150).for_each(|n| client.order(&format!("order{n}")));
        client.say("2", "7=1|16=0|");
        let heard = client.hear("|148=order149|");
        // The first kept message follows the gap fill.
        let first = heard.split("|148=order").nth(1).unwrap();
        let first: u64 = first.split('|').next().unwrap().parse().unwrap();
        assert!((90..=115).contains(&first), "{durability:?}: {first}");
        // The gap fill accounts for number 1, which is the Logon(A); number 2 answers the first
        // order.
        assert!(heard.contains(&format!("|123=Y|36={}|", first + 2)), "{durability:?}");
        assert_eq!(heard.matches("|43=Y|").count() as u64, 1 + 150 - first);
        let not_stored = engine.sessions().next().unwrap().counters().not_stored;
        assert_eq!(not_stored, first + 1);
        engine.stop(Duration::ZERO);
        let archived = fs::read_dir(dir.path().join("archive/FIX.4.4-VENUE-CLIENT"));
        assert_eq!(archived.is_ok_and(|all| all.count() > 2), durability == Durability::Process);
    }
}

#[test]
fn a_session_that_may_not_forget_ends_and_nothing_unsaved_is_sent() {
    for durability in [Durability::Memory, Durability::Process] {
        let dir = TempDir::new();
        let retention = RetentionSettings {
            bytes_max: LIMIT,
            when_full: BeyondLimit::Refuse,
            ..RetentionSettings::default()
        };
        let engine = start(dir.path(), durability, retention);
        let mut client = Client::logged_on(&engine);
        let sent = (0..).take_while(|n| client.tries_order(&format!("order{n}"))).count();
        assert!((40..=64).contains(&sent), "{durability:?}: {sent}");
        let outcome = engine.stop(Duration::ZERO).remove(0);
        assert_eq!(outcome.outcome, transfix::Outcome::Failed);
    }
}

#[test]
fn settings_that_contradict_each_other() {
    let check = |keys: &str, expected: &str| {
        let text = format!(
            "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
             sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n{keys}\n"
        );
        let error = Settings::parse("x.toml", &text).unwrap_err().to_string();
        assert_eq!(error, format!("x.toml:{expected}"));
    };
    check("retention.bytes_mx = 1", "7: unknown key `bytes_mx`; did you mean `bytes_max`?");
    check(
        "retention.bytes_max = 1000",
        "7: FIX.4.4:A->B: retention.bytes_max must be 0 or at least 65536, not 1000",
    );
    check(
        "durability = \"memory\"\nretention.rotate_every_h = 1",
        "8: FIX.4.4:A->B: with durability = \"memory\" only bytes_max and when_full of \
         retention are allowed; remove its other keys",
    );
    check(
        "store_dir = \"s\"\nretention.archive_dir = \"s\"",
        "8: FIX.4.4:A->B: retention.archive_dir must not be the same directory as store_dir",
    );
}
