//! Settings that need more than the session layer: an engine over loopback, with each setting on
//! and off.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod admin;
mod answered_later;
mod answers;
mod application_threads;
mod batches;
mod before_admin;
mod before_send;
mod counting;
mod damaged;
mod delivery;
mod dynamic;
mod failing;
mod failover;
mod fetching;
mod greedy;
mod handles;
mod latency;
mod later;
mod may_send;
mod memory;
mod moving;
mod order;
mod outgoing;
mod own_store;
mod pool;
mod pressure;
mod queue;
mod reload;
mod reopening;
mod templates;
mod told;
mod too_long;
mod turns;
mod unavailable;
mod undone;
pub(crate) mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, GarbledPolicy, LogonRefusal,
    Role, SessionId, SessionSettings, Settings, tag,
};
use transfix_store::journal;
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;
use wire::Wire;

/// Enough time for the slowest machine, and shorter than the default of any setting. Only a failing
/// test waits this long.
const LONG: Duration = Duration::from_secs(8);

/// Returns an application that echoes each message, except those that it must reject.
fn echo() -> App {
    App::new(|message, session| {
        let id = message.text(tag::CL_ORD_ID)?;
        if id == "refuse" {
            return Err(BusinessReject::other("as you wish"));
        }
        let _ = session.send("D", |order| _ = order.str(tag::CL_ORD_ID, id));
        Ok(())
    })
}

fn venue(change: impl FnOnce(&mut SessionSettings)) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    change(&mut settings);
    settings
}

fn start<A: Application + 'static>(
    sessions: Vec<SessionSettings>,
    application: impl Fn() -> A,
) -> (Engine, SocketAddr) {
    let settings = Settings { sessions, ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(application())).unwrap();
    let address = engine.listening()[0];
    (engine, address)
}

fn logged_on(address: SocketAddr) -> Wire {
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30");
    assert!(wire.next().starts_with("35=A|"));
    wire
}

#[test]
fn sub_ids_tell_sessions_apart() {
    let desk = |sub_id: &str| {
        venue(|s| {
            s.sender_sub_id = sub_id.to_owned();
            s.target_location_id = "LDN".to_owned();
        })
    };
    let (_engine, address) = start(vec![desk("EQ"), desk("FX")], echo);
    for (ids, expected) in [
        ("|57=EQ", "35=A|50=EQ|143=LDN|34=1|98=0|108=30"),
        ("|57=FX|142=LDN", "35=A|50=FX|143=LDN|34=1|98=0|108=30"),
        ("|57=BONDS", ""),
        ("|57=FX|142=NYC", ""),
    ] {
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send(&format!("35=A|34=1{ids}|98=0|108=30"));
        assert_eq!(wire.next(), expected, "{ids}");
    }
}

#[test]
fn a_connection_without_a_logon_is_closed_in_time() {
    let (_engine, address) =
        start(vec![venue(|s| s.protocol.logon_timeout = Duration::from_millis(1))], echo);
    let mut wire = Wire::connect(address, BeginString::Fix44);
    assert_eq!(wire.next(), "");
}

#[test]
fn refused_connections_are_counted() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let mut first = logged_on(address);
    let mut second = Wire::connect(address, BeginString::Fix44);
    second.send("35=A|34=1|98=0|108=30");
    assert_eq!(second.next(), "");
    assert_eq!(engine.sessions().next().unwrap().counters().refused, 1);
    first.send("35=1|34=2|112=x");
    assert_eq!(first.next(), "35=0|34=2|112=x");
}

#[test]
fn garbled_messages_are_skipped_or_rejected() {
    let reject = "35=3|34=2|45=2|371=10|372=D|373=99|58=Other, tag 10 [MsgSeqNum 2, MsgType D]";
    for (garbled, expected) in
        [(GarbledPolicy::Skip, "35=2|34=2|7=2|16=0"), (GarbledPolicy::Reject, reject)]
    {
        let (_engine, address) = start(vec![venue(|s| s.validation.garbled = garbled)], echo);
        let mut wire = logged_on(address);
        let mut frame = wire.frame("35=D|34=2|11=a");
        let at = frame.len() - 2;
        frame[at] = if frame[at] == b'0' { b'1' } else { b'0' };
        wire.write(&frame);
        wire.send("35=1|34=3|112=x");
        assert_eq!(wire.next(), expected);
    }
}

/// Returns an application that admits counterparties with the right password, and adds the time of
/// its last password change to our Logon(A).
fn doorkeeper() -> App {
    App::new(|_, _| Err(BusinessReject::unsupported()))
        .judge_logon(|logon, _| match logon.raw(tag::PASSWORD) {
            Some(b"sesame") => Ok(()),
            _ => Err(LogonRefusal::new("who are you?")),
        })
        .fill_logon(|logon, session| {
            logon.str(tag::TEXT, &format!("welcome, {}", session.id().target_comp_id));
        })
}

#[test]
fn the_application_judges_a_logon_and_adds_to_the_answer() {
    let (_engine, address) = start(vec![venue(|_| ())], doorkeeper);
    for (password, expected) in [
        ("", "35=5|34=1|58=who are you?"),
        ("|554=open", "35=5|34=1|58=who are you?"),
        ("|554=sesame", "35=A|34=1|98=0|108=30|58=welcome, CLIENT"),
    ] {
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send(&format!("35=A|34=1|98=0|108=30{password}"));
        assert_eq!(wire.next(), expected);
        if password != "|554=sesame" {
            assert_eq!(wire.next(), "");
        }
    }
    // The application is not asked about a Logon(A) that is invalid.
    let (_engine, address) = start(vec![venue(|_| ())], doorkeeper);
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=-1");
    let why = "HeartBtInt(108) must be seconds, 0 or more";
    assert_eq!(wire.next(), format!("35=5|34=1|58=Logon(A) refused: {why}"));
}

#[test]
fn a_qualifier_tells_equal_sessions_apart() {
    let venues = ["a", "b"].map(|name| (name, start(vec![venue(|_| ())], echo)));
    let client = |qualifier: &str, address: SocketAddr| {
        let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
        let id = SessionId { qualifier: qualifier.into(), ..id };
        let mut settings = SessionSettings::new(Role::Initiator, &id, &address.to_string());
        settings.store.durability = Durability::Memory;
        settings
    };
    let sessions = venues.iter().map(|(name, (_, address))| client(name, *address)).collect();
    let engine = Engine::start(&Settings { sessions, ..Settings::default() }, |_| Box::new(echo()));
    let engine = engine.unwrap();
    for (name, (_, address)) in &venues {
        let session = engine.session(&client(name, *address).id()).unwrap();
        while !session.is_logged_on() {
            std::thread::yield_now();
        }
    }
    let text = "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
        sender_comp_id = \"CLIENT\"\ntarget_comp_id = \"VENUE\"\naddress = \"127.0.0.1:1\"\n";
    let twice = Settings::parse("x.toml", &format!("{text}{text}")).unwrap_err().to_string();
    assert_eq!(
        twice,
        "x.toml:7: session FIX.4.4:CLIENT->VENUE appears twice; give one of them a qualifier"
    );
}

#[test]
fn messages_received_are_kept_if_wanted() {
    for keeps in [false, true] {
        let dir = TempDir::new();
        let settings = venue(|s| {
            s.store.durability = Durability::Process;
            s.store.store_dir = dir.path().to_owned();
            s.store.keep_inbound = keeps;
        });
        let store = settings.store_path();
        let (engine, address) = start(vec![settings], echo);
        let mut wire = logged_on(address);
        wire.send("35=D|34=2|11=a");
        assert_eq!(wire.next(), "35=D|34=2|11=a");
        drop(engine);
        let entries = journal::read(&store).unwrap();
        let is_kept = |entry: &journal::Entry| matches!(entry.event, journal::Event::Inbound(_));
        assert_eq!(entries.map(Result::unwrap).any(|entry| is_kept(&entry)), keeps);
    }
}

/// If the limit of waiting connections is reached, a connection that has sent nothing is closed to
/// make room for a new one.
#[test]
fn connections_wait_in_limited_number() {
    for (pending_connections_max, is_closed) in [(1, true), (2, false)] {
        let mut settings = Settings::of(venue(|_| ()));
        settings.engine.pending_connections_max = pending_connections_max;
        let engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
        let mut silent = Wire::connect(engine.listening()[0], BeginString::Fix44);
        let mut second = Wire::connect(engine.listening()[0], BeginString::Fix44);
        second.send("35=A|34=1|98=0|108=30");
        assert_eq!(second.next(), "35=A|34=1|98=0|108=30");
        if is_closed {
            assert_eq!(silent.next(), "");
        } else {
            silent.send("35=A|34=1|98=0|108=30");
            assert_eq!(silent.next(), "", "only now: there is a connection already");
            assert_eq!(engine.sessions().next().unwrap().counters().refused, 1);
        }
    }
}
