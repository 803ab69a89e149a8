//! Counterparties that the settings do not name: refused, or served by a session made from a
//! template.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use transfix::{
    Application, BeginString, Durability, Engine, LogonRefusal, SessionId, SessionSettings,
    Settings, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use crate::switches::dynamic::until;
use crate::switches::wire::Wire;
use crate::switches::{echo, start, venue};

fn template() -> SessionSettings {
    venue(|settings| settings.target_comp_id = "*".to_owned())
}

fn open(sessions: Vec<SessionSettings>, created_sessions_max: usize) -> (Engine, SocketAddr) {
    let mut settings = Settings { sessions, ..Settings::default() };
    settings.engine.created_sessions_max = created_sessions_max;
    let engine = Engine::builder(&settings)
        .admit(|id| {
            (&*id.target_comp_id != "BAD").then(|| Box::new(echo()) as Box<dyn Application>)
        })
        .start(|_| Box::new(echo()))
        .unwrap();
    let address = engine.listening()[0];
    (engine, address)
}

/// Sends a Logon(A) as this counterparty. Returns the connection and the answer.
fn log_on(address: SocketAddr, name: &str, seq: u64) -> (Wire, String) {
    log_on_with(address, name, &format!("34={seq}|98=0|108=30"))
}

fn log_on_with(address: SocketAddr, name: &str, terms: &str) -> (Wire, String) {
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send(&format!("35=A|49={name}|{terms}"));
    let answer = wire.next();
    (wire, answer)
}

const WELCOME: &str = "35=A|34=1|98=0|108=30";

#[test]
fn sessions_are_made_from_a_template() {
    let (engine, address) = open(vec![template()], 2);
    let (mut first, answer) = log_on(address, "CLIENT", 1);
    assert_eq!(answer, WELCOME);
    first.send("35=D|34=2|11=a");
    assert_eq!(first.next(), "35=D|34=2|11=a");
    assert_eq!(log_on(address, "BAD", 1).1, "", "not admitted");
    assert_eq!(log_on(address, "*", 1).1, "", "no counterparty is called so");
    assert_eq!(log_on(address, "CLIENT", 1).1, "", "it is logged on already");
    let (_second, answer) = log_on(address, "OTHER", 1);
    assert_eq!(answer, WELCOME);
    assert_eq!(log_on(address, "THIRD", 1).1, "", "no more than allowed");
    // A counterparty that connects again gets the same session.
    first.send("35=5|34=3");
    assert_eq!(first.next(), "35=5|34=3");
    assert_eq!(first.next(), "");
    let (_first, answer) = log_on(address, "CLIENT", 4);
    assert_eq!(answer, "35=A|34=4|98=0|108=30");
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    assert!(engine.session(&id).unwrap().is_logged_on());
    assert_eq!(engine.stop(Duration::from_secs(1)).len(), 2);
}

#[test]
fn whom_the_settings_name_is_not_of_the_template() {
    let mut named = venue(|settings| settings.protocol.heart_bt_int = Duration::from_secs(7));
    named.timing.impose_heart_bt_int = true;
    let mut others = template();
    others.address.clone_from(&named.address);
    let (_engine, address) = open(vec![others, named], 2);
    assert_eq!(log_on(address, "CLIENT", 1).1, "35=A|34=1|98=0|108=7");
    assert_eq!(log_on(address, "OTHER", 1).1, WELCOME);
}

/// During a reload, a Logon(A) for a session that restarts waits, and the template makes no session
/// for it. The session first waits for the answer to its Logout(5).
#[test]
fn whom_the_settings_name_is_not_of_the_template_during_a_reload() {
    let dir = TempDir::new();
    let mut named = venue(|settings| settings.protocol.heart_bt_int = Duration::from_secs(7));
    named.timing.impose_heart_bt_int = true;
    named.store.store_dir = dir.path().to_owned();
    named.store.durability = Durability::Process;
    let mut others = template();
    others.address.clone_from(&named.address);
    let from = Settings { sessions: vec![others, named], ..Settings::default() };
    let builder = Engine::builder(&from).admit(|_| Some(Box::new(echo())));
    let mut engine = builder.start(|_| Box::new(echo())).unwrap();
    let address = engine.listening()[0];
    let (mut first, answer) = log_on(address, "CLIENT", 1);
    assert_eq!(answer, "35=A|34=1|98=0|108=7");
    let mut to = from.clone();
    to.sessions[1].queue.queued_bytes_max += 1;
    thread::scope(|scope| {
        let reload = scope
            .spawn(|| engine.reload(&from, &to, Duration::from_secs(60), |_| Box::new(echo())));
        assert_eq!(first.next(), "35=5|34=2|58=the settings have changed");
        let mut second = Wire::connect(address, BeginString::Fix44);
        second.send("35=A|34=3|49=CLIENT|98=0|108=30");
        assert_eq!(log_on(address, "OTHER", 1).1, WELCOME);
        first.send("35=5|34=2");
        assert_eq!(second.next(), "35=A|34=3|98=0|108=7");
        let done = reload.join().unwrap().unwrap();
        assert!(done.failed.is_empty(), "{:?}", done.failed);
    });
}

/// Sessions made from a template are found after the template has moved to another port. The
/// template is the only one at its address.
#[test]
fn sessions_of_a_template_are_found_after_it_has_changed() {
    let dir = TempDir::new();
    let mut from = Settings::of(template());
    from.sessions[0].store.store_dir = dir.path().to_owned();
    from.sessions[0].store.durability = Durability::Process;
    let builder = Engine::builder(&from).admit(|_| Some(Box::new(echo())));
    let mut engine = builder.start(|_| Box::new(echo())).unwrap();
    let (mut wire, answer) = log_on(engine.listening()[0], "CLIENT", 1);
    assert_eq!(answer, WELCOME);
    let mut next = 2;
    for _ in 0..3 {
        let mut to = from.clone();
        to.sessions[0].queue.queued_bytes_max += 1;
        let done =
            engine.reload(&from, &to, Duration::from_secs(60), |_| Box::new(echo())).unwrap();
        assert!(done.failed.is_empty(), "{:?}", done.failed);
        from = to;
        wire.send(&format!("35=5|34={next}"));
        assert_eq!(wire.next(), format!("35=5|34={next}"), "it has heard nothing of it");
        next += 1;
        // The engine notices the end of the connection a little later.
        until(|| {
            let answer;
            (wire, answer) = log_on(engine.listening()[0], "CLIENT", next);
            answer == format!("35=A|34={next}|98=0|108=30")
        });
        next += 1;
        assert_eq!(engine.sessions().count(), 1);
    }
}

/// A counterparty of a template gets its own session when new settings name it, and returns to the
/// template when the next settings do not.
#[test]
fn a_counterparty_of_a_template_gets_a_session_of_its_own_and_goes_back() {
    let dir = TempDir::new();
    let mut from = Settings::of(template());
    from.sessions[0].store.store_dir = dir.path().to_owned();
    from.sessions[0].store.durability = Durability::Process;
    from.engine.created_sessions_max = 1;
    let builder = Engine::builder(&from).admit(|_| Some(Box::new(echo())));
    let mut engine = builder.start(|_| Box::new(echo())).unwrap();
    let address = engine.listening()[0];
    let mut to = from.clone();
    to.sessions.push(from.sessions[0].clone());
    to.sessions[1].target_comp_id = "CLIENT".to_owned();
    to.sessions[1].timing.impose_heart_bt_int = true;
    to.sessions[1].protocol.heart_bt_int = Duration::from_secs(7);
    let mut next = 1;
    for round in 0..6 {
        let beat = if round % 2 == 0 { 30 } else { 7 };
        // The acceptor learns a little later that the counterparty is allowed, so the logon is
        // repeated.
        let mut wire = None;
        until(|| {
            let (found, answer) = log_on(address, "CLIENT", next);
            wire = Some(found);
            answer == format!("35=A|34={next}|98=0|108={beat}")
        });
        let mut wire = wire.unwrap();
        thread::scope(|scope| {
            let reload = || {
                engine.reload(&from, &to, Duration::from_secs(60), |_| Box::new(echo())).unwrap()
            };
            let reload = scope.spawn(reload);
            let bye = format!("35=5|34={}|58=the settings have changed", next + 1);
            assert_eq!(wire.next(), bye, "round {round}");
            wire.send(&format!("35=5|34={}", next + 1));
            let done = reload.join().unwrap();
            assert!(done.failed.is_empty(), "round {round}: {:?}", done.failed);
        });
        assert_eq!(engine.sessions().count(), (round + 1) % 2, "round {round}");
        std::mem::swap(&mut from, &mut to);
        next += 2;
    }
}

#[test]
fn without_a_template_nobody_else_gets_in() {
    let (_engine, address) = start(vec![venue(|_| ())], echo);
    assert_eq!(log_on(address, "OTHER", 1).1, "");
    let settings = Settings::of(template());
    let refused = Engine::start(&settings, |_| Box::new(echo())).err().unwrap().to_string();
    assert_eq!(
        refused,
        "FIX.4.4:VENUE->* is a template; a program admits its sessions by \
                         Engine::builder().admit()"
    );
}

/// Admits counterparties with the right password, and counts the attempts.
fn doorkeeper(count: Arc<AtomicU32>) -> App {
    echo().judge_logon(move |logon, _| {
        count.fetch_add(1, Ordering::Relaxed);
        match logon.raw(tag::PASSWORD) {
            Some(b"sesame") => Ok(()),
            _ => Err(LogonRefusal::new("who are you?")),
        }
    })
}

#[test]
fn strangers_are_judged_before_anything_is_made() {
    let dir = TempDir::new();
    let mut template = template();
    template.store.durability = Durability::Process;
    template.validation.validate = true;
    template.store.store_dir = dir.path().to_owned();
    let mut settings = Settings::of(template);
    settings.engine.created_sessions_max = 1;
    let judged = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&judged);
    let open = |_: &SessionId| -> Box<dyn Application> { unreachable!("no session of its own") };
    let admit = move |_: &SessionId| -> Option<Box<dyn Application>> {
        Some(Box::new(doorkeeper(Arc::clone(&count))))
    };
    let opened = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&opened);
    let stores = move |_: &SessionSettings, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    };
    let engine = Engine::builder(&settings).admit(admit).stores(stores).start(open).unwrap();
    let address = engine.listening()[0];
    let refused = [
        ("34=1|98=0|108=30", "who are you?"),
        ("34=7|98=0|108=30|554=open", "who are you?"),
        (
            "34=1|98=0|108=30|554=sesame|55=X",
            "Logon(A) refused: Tag not defined for this message type, tag 55",
        ),
        ("34=1|98=0|554=sesame", "Logon(A) refused: HeartBtInt(108) must be seconds, 0 or more"),
    ];
    for (n, (terms, why)) in refused.into_iter().enumerate() {
        let (mut wire, said) = log_on_with(address, &format!("STRANGER{n}"), terms);
        assert_eq!(said, format!("35=5|34=1|58={why}"));
        assert_eq!(wire.next(), "", "closed");
    }
    assert_eq!(judged.load(Ordering::Relaxed), 2, "only good ones");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    assert_eq!(opened.load(Ordering::Relaxed), 0, "nor a store of the user's own");
    // The limit allows one more session, whose Logon(A) is judged only once.
    let known = "34=1|98=0|108=30|554=sesame";
    let (wire, said) = log_on_with(address, "CLIENT", known);
    assert_eq!(said, WELCOME);
    assert_eq!(judged.load(Ordering::Relaxed), 3);
    let left = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(left.filter(|path| path.is_dir()).count(), 1, "one store");
    // From here on, the session itself lets its application judge each Logon(A).
    drop(wire);
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let session = engine.session(&id).unwrap();
    while session.is_logged_on() {
        thread::yield_now();
    }
    let (_wire, said) = log_on_with(address, "CLIENT", "34=2|98=0|108=30|554=open");
    assert_eq!(said, "35=5|34=2|58=who are you?");
    assert_eq!(judged.load(Ordering::Relaxed), 4);
}

#[test]
fn messages_for_third_parties_find_sessions_made_from_templates() {
    for routes in [false, true] {
        let mut template = template();
        template.route_third_party = routes;
        let (_engine, address) = open(vec![template], 2);
        let (mut from, _) = log_on(address, "CLIENT", 1);
        let (mut to, _) = log_on(address, "OTHER", 1);
        from.send("35=D|34=2|128=OTHER|11=a");
        if routes {
            assert_eq!(to.next(), "35=D|34=2|115=CLIENT|11=a");
        } else {
            assert_eq!(from.next(), "35=D|34=2|11=a", "the application got it");
        }
    }
}
