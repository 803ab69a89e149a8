//! Two gateways, which are processes of their own, serve one session. A gateway is killed or paused
//! while orders are sent; the other one continues.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use transfix::{Engine, FailoverOrder, Role, Settings, clock, tag};
use transfix_testkit::laws::Patient;
use transfix_testkit::temp::TempDir;

use crate::server::{Server, stand_by};
use crate::{Echo, LONG, settings};
use transfix_store::Store;

/// The server's place, the name of the session, and the address, for a process that is a gateway.
const PLACE: &str = "TRANSFIX_TEST_PLACE";
const SESSION: &str = "TRANSFIX_TEST_SESSION";
const ADDRESS: &str = "TRANSFIX_TEST_ADDRESS";
const ORDERS: usize = 400;
/// Maximum number of unanswered orders.
const WINDOW: usize = 20;

/// A gateway in a process of its own, killed when dropped.
struct Gateway {
    process: Child,
    address: String,
}

impl Gateway {
    fn start(server: &impl Server, session: &str) -> Self {
        Self::start_at(server, session, "127.0.0.1:0")
    }

    fn start_at(server: &impl Server, session: &str, address: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["gateways::gateway", "--exact", "--ignored", "--nocapture"]);
        command.env(PLACE, server.place()).env(SESSION, session).env(ADDRESS, address);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut addresses = lines.map_while(Result::ok).filter_map(|line| {
            line.split_once("listening at ").map(|(_, address)| address.trim().to_owned())
        });
        let address = addresses.next().expect("the gateway listens");
        Self { process, address }
    }

    fn signal(&self, signal: &str) {
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
    let [Ok(place), Ok(name), Ok(address)] = [PLACE, SESSION, ADDRESS].map(std::env::var) else {
        return;
    };
    let settings = Settings::of(settings(Role::Acceptor, "VENUE", "CLIENT", &address));
    let (sender, seen) = std::sync::mpsc::channel();
    let engine = Engine::builder(&settings)
        .stores(move |_, now_ns| stand_by(&place, &name, now_ns).map(Some))
        .start(|_| Box::new(Echo(sender.clone())))
        .unwrap();
    println!("listening at {}", engine.listening()[0]);
    let _ = std::io::stdin().read(&mut [0; 1]);
    drop(seen);
    engine.stop(Duration::from_secs(5));
}

/// Each order is answered once, in order. Meanwhile the gateway with the session is killed, a
/// gateway is paused until the other one has the session, and the server has a fault.
pub(crate) fn orders_are_answered_once_whatever_happens<S: Server>(server: &S, fault: fn(&S)) {
    let name = server.fresh_name();
    let mut gateways = [Gateway::start(server, &name), Gateway::start(server, &name)];
    let dir = TempDir::new();
    let mut session = settings(Role::Initiator, "CLIENT", "VENUE", &gateways[0].address);
    session.store.store_dir = dir.path().to_owned();
    session.failover.addresses = vec![gateways[1].address.clone()];
    // A paused gateway still accepts connections, and answers none.
    session.failover.order = FailoverOrder::Next;
    session.protocol.heart_bt_int = Duration::from_secs(1);
    let (sender, seen) = std::sync::mpsc::channel();
    let client = Engine::start(&Settings::of(session), |_| Box::new(Echo(sender.clone()))).unwrap();
    let handle = client.sessions().next().unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let (sending, seen_answers) = (handle.clone(), Arc::clone(&answered));
    // At most some orders are unanswered at a time, so each fault happens among them.
    let orders = std::thread::spawn(move || {
        for number in 0..ORDERS {
            while number >= seen_answers.load(Ordering::Relaxed).saturating_add(WINDOW) {
                std::thread::yield_now();
            }
            let id = number.to_string();
            while sending.send("D", |order| _ = order.str(tag::CL_ORD_ID, &id)).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let (mut next, mut since, mut longest) = (0, clock::now().monotonic_ns, 0);
    while next < ORDERS {
        let line = seen.recv_timeout(LONG).unwrap_or_else(|error| {
            panic!("order {next} is not answered: {error}");
        });
        // Other lines are events.
        let Ok(number) = line.parse::<usize>() else { continue };
        assert_eq!(number, next, "answers come once and in order");
        next += 1;
        answered.store(next, Ordering::Relaxed);
        let now = clock::now().monotonic_ns;
        longest = longest.max(now - since);
        since = now;
        match next {
            100 => gateways[0].signal("KILL"),
            150 => gateways[0] = Gateway::start_at(server, &name, &gateways[0].address),
            200 => gateways[1].signal("STOP"),
            300 => gateways[1].signal("CONT"),
            350 => fault(server),
            _ => {}
        }
        let part = match next {
            100 => "before a fault",
            150 => "gateway killed",
            300 => "gateway paused",
            350 => "gateway continued",
            ORDERS => "to the last order",
            _ => continue,
        };
        println!("{part}: at most {} ms between two answers", longest / 1_000_000);
        (since, longest) = (clock::now().monotonic_ns, 0);
    }
    orders.join().unwrap();
    drop(handle);
    client.stop(Duration::from_secs(5));
    drop(gateways);
    assert!(seen.try_iter().all(|line| line.parse::<usize>().is_err()), "an answer came twice");
    let mut store = Patient(server.open(&name, 1).unwrap());
    let next_out = store.numbers().next_out;
    assert!((1..next_out).all(|seq| store.outbound(seq).unwrap().is_some()));
}
