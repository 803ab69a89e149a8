//! Two gateways, which are processes of their own, serve one session. A gateway is killed or paused
//! while orders are sent; the other one continues. The counterparty, the application of a gateway
//! and the comparison of the histories are those of `transfix demo fleet`.

#[path = "../../../crates/cli/src/demo/fleet/trials/counterparty.rs"]
#[allow(dead_code, reason = "the demo also has a counterparty that listens")]
mod counterparty;
#[path = "../../../crates/cli/src/demo/fleet/trials/history.rs"]
mod history;
#[path = "../../../crates/cli/src/demo/fleet/trials/venue.rs"]
mod venue;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use transfix::clock::monotonic_ns;
use transfix::{Engine, Role, Settings};
use transfix_testkit::laws::Patient;
use transfix_testkit::temp::TempDir;

use crate::server::{Server, stand_by};
use crate::{LONG, settings};
use counterparty::{Counterparty, nanos};
use history::{Histories, Journal};
use venue::Venue;

pub(crate) use history::Violations;

/// The server's place, the name of the session, the address, and the file of the notes, for a
/// process that is a gateway.
const PLACE: &str = "TRANSFIX_TEST_PLACE";
const SESSION: &str = "TRANSFIX_TEST_SESSION";
const ADDRESS: &str = "TRANSFIX_TEST_ADDRESS";
const NOTES: &str = "TRANSFIX_TEST_NOTES";
/// Number of orders that are answered before a fault, and after it.
const STEADY: u64 = 100;
/// Maximum time for the orders to be answered again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits before the next look at a process, which reports no event.
pub(crate) fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a process reports no event")]
    std::thread::sleep(time);
}

/// A gateway in a process of its own, killed when dropped.
pub(crate) struct Gateway {
    process: Child,
    address: String,
    notes: PathBuf,
}

impl Gateway {
    /// Starts a gateway that keeps its notes in this file.
    fn start(server: &impl Server, session: &str, address: &str, notes: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["gateways::gateway", "--exact", "--ignored", "--nocapture"]);
        command.env(PLACE, server.place()).env(SESSION, session);
        command.env(ADDRESS, address).env(NOTES, notes);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut addresses = lines.map_while(Result::ok).filter_map(|line| {
            line.split_once("listening at ").map(|(_, address)| address.trim().to_owned())
        });
        let address = addresses.next().expect("the gateway listens");
        Self { process, address, notes: notes.to_owned() }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &process]).status().unwrap().success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process of a [`Gateway`]: an acceptor of the session that answers orders, until its standard
/// input ends.
#[test]
#[ignore = "a gateway, which the test of the gateways starts"]
fn gateway() {
    let [Ok(place), Ok(name), Ok(address), Ok(notes)] =
        [PLACE, SESSION, ADDRESS, NOTES].map(std::env::var)
    else {
        return;
    };
    let settings = Settings::of(settings(Role::Acceptor, "VENUE", "CLIENT", &address));
    let venue = Venue::noting_in(Path::new(&notes)).unwrap();
    let engine = Engine::builder(&settings)
        .stores(move |_, now_ns| stand_by(&place, &name, now_ns).map(Some))
        .start(|_| Box::new(venue.clone()))
        .unwrap();
    println!("listening at {}", engine.listening()[0]);
    let _ = std::io::stdin().read(&mut [0; 1]);
    engine.stop(Duration::from_secs(5));
}

/// Two gateways, and a counterparty that sends orders to them all the time.
pub(crate) struct Trial<'a, S: Server> {
    pub(crate) server: &'a S,
    pub(crate) gateways: [Gateway; 2],
    session: String,
    counterparty: Counterparty,
    dir: TempDir,
}

impl<'a, S: Server> Trial<'a, S> {
    /// Begins a new session, which the first gateway gets. Returns once orders are answered.
    pub(crate) fn begin(server: &'a S) -> Self {
        let (session, dir) = (server.fresh_name(), TempDir::new());
        let gateways = ["g0", "g1"]
            .map(|name| Gateway::start(server, &session, "127.0.0.1:0", &dir.path().join(name)));
        let addresses = gateways.each_ref().map(|gateway| gateway.address.clone());
        let counterparty = Counterparty::start(&addresses, dir.path()).unwrap();
        let trial = Self { server, gateways, session, counterparty, dir };
        trial.wait_for_answers();
        trial.counterparty.begin_gap();
        trial
    }

    /// Waits until further orders are answered.
    pub(crate) fn wait_for_answers(&self) {
        let wanted = self.counterparty.answered() + STEADY;
        let until = monotonic_ns() + nanos(PATIENCE);
        while self.counterparty.answered() < wanted {
            assert!(monotonic_ns() < until, "the orders are not answered");
            pause(Duration::from_millis(1));
        }
    }

    /// Starts a killed gateway again.
    pub(crate) fn restart(&mut self, n: usize) {
        let Gateway { address, notes, .. } = &self.gateways[n];
        self.gateways[n] = Gateway::start(self.server, &self.session, address, notes);
    }

    /// Ends the orders, and compares all histories. Returns the longest time between two answers,
    /// the number of orders, and the violations.
    pub(crate) fn finish(mut self) -> (Duration, u64, Violations) {
        self.wait_for_answers();
        let longest = self.counterparty.gap();
        let orders = self.counterparty.finish_orders(LONG).unwrap();
        let (orders_sent, reports_received) = self.counterparty.stop().unwrap();
        let mut histories = Histories { orders_sent, reports_received, ..Histories::default() };
        for gateway in self.gateways {
            histories.add_notes(&gateway.notes).unwrap();
        }
        let mut store = Patient(self.server.open(&self.session, 1).unwrap());
        histories.reports_stored = Journal::read(&mut store).unwrap();
        drop(self.dir);
        (longest, orders, histories.compare())
    }
}

/// Each order is answered once, and no history contradicts another one. Meanwhile the gateway with
/// the session is killed, a gateway is paused until the other one has the session, and the server
/// has a fault.
pub(crate) fn orders_are_answered_once_whatever_happens<S: Server>(server: &S, fault: fn(&S)) {
    let mut trial = Trial::begin(server);
    trial.gateways[0].signal("KILL");
    trial.wait_for_answers();
    trial.restart(0);
    trial.gateways[1].signal("STOP");
    trial.wait_for_answers();
    trial.gateways[1].signal("CONT");
    trial.wait_for_answers();
    fault(server);
    let (longest, orders, violations) = trial.finish();
    println!("{orders} orders; at most {} ms between two answers", longest.as_millis());
    assert_eq!(violations, Violations::default());
}
