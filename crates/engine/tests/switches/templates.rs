//! Counterparties that no settings name: sent away, or given a session made from a template.

use std::net::SocketAddr;

use transfix::{Application, BeginString, Engine, SessionSettings, Settings};

use crate::wire::Wire;
use crate::{Echo, start, venue};

fn template() -> SessionSettings {
    venue(|settings| settings.target_comp_id = "*".to_owned())
}

fn open(sessions: Vec<SessionSettings>, created_sessions_max: usize) -> (Engine, SocketAddr) {
    let mut settings = Settings { sessions, ..Settings::default() };
    settings.engine.created_sessions_max = created_sessions_max;
    let engine = Engine::builder(&settings)
        .admit(|id| (&*id.target_comp_id != "BAD").then(|| Box::new(Echo) as Box<dyn Application>))
        .start(|_| Box::new(Echo))
        .unwrap();
    let address = engine.listening()[0];
    (engine, address)
}

/// The answer to a Logon(A) of this counterparty.
fn log_on(address: SocketAddr, name: &str, seq: u64) -> (Wire, String) {
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send(&format!("35=A|34={seq}|49={name}|98=0|108=30"));
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
    // Whoever comes again finds the session as it was.
    first.send("35=5|34=3");
    assert_eq!(first.next(), "35=5|34=3");
    assert_eq!(first.next(), "");
    let (_first, answer) = log_on(address, "CLIENT", 4);
    assert_eq!(answer, "35=A|34=4|98=0|108=30");
    let id = transfix::SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    assert!(engine.session(&id).unwrap().is_logged_on());
    assert_eq!(engine.stop(1_000).len(), 2);
}

#[test]
fn whom_the_settings_name_is_not_of_the_template() {
    let mut named = venue(|settings| settings.heart_bt_int_s = 7);
    named.timing.impose_heart_bt_int = true;
    let mut others = template();
    others.address.clone_from(&named.address);
    let (_engine, address) = open(vec![others, named], 2);
    assert_eq!(log_on(address, "CLIENT", 1).1, "35=A|34=1|98=0|108=7");
    assert_eq!(log_on(address, "OTHER", 1).1, WELCOME);
}

#[test]
fn without_a_template_nobody_else_gets_in() {
    let (_engine, address) = start(vec![venue(|_| ())], || Echo);
    assert_eq!(log_on(address, "OTHER", 1).1, "");
    let settings = Settings::of(template());
    let refused = Engine::start(&settings, |_| Box::new(Echo)).err().unwrap().to_string();
    assert_eq!(refused, "FIX.4.4:VENUE->* is a template; Engine::builder().admit() says whom");
}
