//! `transfix run` is killed under load, and restarted while a venue is down. A message that a venue
//! has received is not refused, and goes to no other venue. A message that no venue has received is
//! not lost. `TRANSFIX_KILLS=n` sets the number of kills in each test.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use rustix::process::Signal;

use crate::command_line::gateway::{DESK, Street, VENUE, listening, session};
use crate::command_line::gateway_faults::{AT_THE_VENUE, nothing_is_lost, orders, refused};
use crate::command_line::running::Program;

const OTHER: &str = "FIX.4.4:GATE->OTHER";
const AT_THE_OTHER: &str = "OTHER-GATE/FIX.4.4-OTHER-GATE";
const POWER: &str = "durability = 'power'\n";
const ROUNDS: usize = 4;

fn rounds() -> impl Iterator<Item = usize> {
    let kills = std::env::var("TRANSFIX_KILLS").ok().map(|kills| kills.parse().unwrap());
    (0..kills.unwrap_or(ROUNDS)).map(|round| round % ROUNDS)
}

/// A second venue, next to the venue of the `Street`.
struct Other {
    address: String,
    program: Option<Program>,
}

impl Other {
    /// Starts a second venue, and adds a session to this venue to the gateway's settings.
    fn new(street: &Street) -> Self {
        let mut other = Self { address: "127.0.0.1:0".to_owned(), program: None };
        other.start(street);
        let gate_toml = street.dir.path().join("gate.toml");
        // The new session is inserted at the beginning, because `Street` expects its own venue's
        // address at the end of the file.
        let gate = fs::read_to_string(&gate_toml).unwrap();
        let own = session("initiator", "GATE", "OTHER", &other.address) + POWER;
        fs::write(gate_toml, own + &gate).unwrap();
        other
    }

    fn start(&mut self, street: &Street) {
        let settings = session("acceptor", "OTHER", "GATE", &self.address);
        fs::write(street.dir.path().join("other.toml"), settings).unwrap();
        let program = Program::start(&street.dir, &["serve", "other.toml"]);
        self.address = listening(&program);
        self.program = Some(program);
    }

    fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.send(Signal::KILL);
        }
    }
}

/// Starts the gateway, waits until these sessions are logged on, and writes the settings of the
/// client.
fn gate(street: &Street, logons: &[&str]) -> Program {
    let gate = Program::start(&street.dir, &["run", "gate.toml"]);
    let (mut address, mut left) = (None, logons.to_vec());
    while address.is_none() || !left.is_empty() {
        let line = gate.wait_for("");
        left.retain(|id| !line.contains(&format!("{id} logged on")));
        address = address.or(line.strip_prefix("listening at ").map(str::to_owned));
    }
    let client = session("initiator", "DESK", "GATE", &address.unwrap());
    fs::write(street.dir.path().join("client.toml"), client).unwrap();
    gate
}

/// Sends orders, and kills the gateway when `orders` of them have reached the venue.
fn kill_under_load(street: &Street, gate: Program, orders: usize) {
    let mut client = Program::start(&street.dir, &["connect", "client.toml", "--quiet"]);
    client.wait_for("logged on");
    writeln!(client.commands, "burst 400 2000").unwrap();
    (0..orders).for_each(|_| drop(street.venue.wait_for("<- NewOrderSingle(D)")));
    gate.send(Signal::KILL);
    drop(gate);
    writeln!(client.commands, "quit").unwrap();
    let _ = client.ended();
}

/// Starts a client that logs on, has its orders resent, and sends one more order.
fn client_again(street: &Street) -> Program {
    let mut client = Program::start(&street.dir, &["connect", "client.toml"]);
    client.wait_for("logged on");
    writeln!(client.commands, "buy 1 LAST 7").unwrap();
    client
}

fn quit(mut client: Program) {
    writeln!(client.commands, "quit").unwrap();
    let _ = client.ended();
}

#[test]
fn what_the_venue_has_is_not_refused_while_it_is_away() {
    let mut street = Street::with(POWER, POWER);
    for round in rounds() {
        kill_under_load(&street, gate(&street, &[VENUE]), 40 + 30 * round);
        street.venue.send(Signal::KILL);
        let gate = gate(&street, &[]);
        let client = client_again(&street);
        client.wait_for("BusinessMessageReject(j)");
        street.venue_again();
        gate.wait_for(&format!("{VENUE} logged on"));
        quit(client);
        drop(gate);
    }
    let _gate = gate(&street, &[VENUE]);
    street.trades("wait\nbuy 1 FINAL 7\nexpect 8 Symbol=FINAL within 100\n");
    assert!(nothing_is_lost(&street) > 100);
}

#[test]
fn what_the_first_venue_has_goes_to_no_second_one() {
    let mut street = Street::with(POWER, POWER);
    let mut other = Other::new(&street);
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}', '{OTHER}']\n\
         [[route]]\nfrom = ['{VENUE}', '{OTHER}']\nto = ['{DESK}']\n"
    ));
    for round in rounds() {
        kill_under_load(&street, gate(&street, &[VENUE, OTHER]), 40 + 30 * round);
        street.venue.send(Signal::KILL);
        let gate = gate(&street, &[OTHER]);
        let client = client_again(&street);
        other.program.as_ref().unwrap().wait_for("LAST");
        street.venue_again();
        gate.wait_for(&format!("{VENUE} logged on"));
        quit(client);
        drop(gate);
    }
    let _gate = gate(&street, &[VENUE, OTHER]);
    street.trades("wait\nbuy 1 FINAL 7\nexpect 8 Symbol=FINAL within 100\n");
    let at = |store| orders(&street, store, "").into_iter().collect::<BTreeSet<_>>();
    let (first, second) = (at(AT_THE_VENUE), at(AT_THE_OTHER));
    let both: Vec<_> = first.intersection(&second).collect();
    assert!(both.is_empty(), "at both venues: {both:?}");
    let sent = at("DESK-GATE/FIX.4.4-DESK-GATE");
    let somewhere = &(&first | &second) | &refused(&street);
    let lost: Vec<_> = sent.difference(&somewhere).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    other.kill();
}

#[test]
fn what_one_of_all_venues_has_is_held_for_the_others() {
    let street = Street::with(POWER, POWER);
    let mut other = Other::new(&street);
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}', '{OTHER}']\npick = 'all'\n\
         [[route]]\nfrom = ['{VENUE}', '{OTHER}']\nto = ['{DESK}']\n"
    ));
    for round in rounds() {
        let running = gate(&street, &[VENUE, OTHER]);
        let mut client = Program::start(&street.dir, &["connect", "client.toml", "--quiet"]);
        client.wait_for("logged on");
        writeln!(client.commands, "burst 400 2000").unwrap();
        let count = 40 + 30 * round;
        (0..count).for_each(|_| drop(street.venue.wait_for("<- NewOrderSingle(D)")));
        // The second venue stops under load before the gateway is killed.
        other.kill();
        running.wait_for(&format!("{OTHER} ended"));
        running.send(Signal::KILL);
        drop(running);
        quit(client);
        let gate = gate(&street, &[VENUE]);
        let client = client_again(&street);
        other.start(&street);
        gate.wait_for(&format!("{OTHER} logged on"));
        quit(client);
        drop(gate);
    }
    let _gate = gate(&street, &[VENUE, OTHER]);
    street.trades("wait\nbuy 1 FINAL 7\nexpect 8 Symbol=FINAL within 100\n");
    assert!(nothing_is_lost(&street) > 100);
    let at = |store| orders(&street, store, "").into_iter().collect::<BTreeSet<_>>();
    let one: Vec<_> = at(AT_THE_VENUE).symmetric_difference(&at(AT_THE_OTHER)).cloned().collect();
    assert!(one.is_empty(), "at one of both venues: {one:?}");
}
