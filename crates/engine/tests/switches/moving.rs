//! Tests connected sessions that move between the workers of a pool.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use transfix::{BeginString, Disconnect, Engine, Outcome, SendError, Settings, tag};
use transfix_testkit::app::App;

use crate::switches::venue;
use crate::switches::wire::Wire;

type Threads = Arc<Mutex<HashMap<String, String>>>;

/// Returns an application that echoes messages, and records the thread in which each session runs.
fn noting(threads: Threads) -> App {
    App::new(move |message, session| {
        let thread = thread::current().name().unwrap_or("?").to_owned();
        let whose = session.id().target_comp_id.to_string();
        threads.lock().unwrap().insert(whose, thread);
        let id = message.text(tag::CL_ORD_ID)?;
        let _ = session.send("D", |order| _ = order.str(tag::CL_ORD_ID, id));
        Ok(())
    })
}

/// A counterparty that checks that inbound numbers have no gap.
struct Counterparty {
    name: String,
    wire: Wire,
    sent: u64,
    had: u64,
}

impl Counterparty {
    fn log_on(to: std::net::SocketAddr, name: &str) -> Self {
        let mut wire = Wire::connect(to, BeginString::Fix44);
        wire.send(&format!("35=A|34=1|49={name}|98=0|108=30"));
        assert!(wire.next().starts_with("35=A|34=1|"));
        Self { name: name.to_owned(), wire, sent: 1, had: 1 }
    }

    /// Reads one message. Returns true if it is the echo of this order.
    fn next(&mut self, order: Option<u64>) -> bool {
        self.had += 1;
        let line = self.wire.next();
        let expected = format!("34={}|", self.had);
        assert!(line.contains(&expected), "{}: {line}, not {expected}", self.name);
        order.is_some_and(|order| line.ends_with(&format!("|11={order}")))
    }

    fn order(&mut self) {
        self.sent += 1;
        let (sent, name) = (self.sent, &self.name);
        self.wire.send(&format!("35=D|34={sent}|49={name}|11={sent}"));
        while !self.next(Some(sent)) {}
    }

    fn log_out(&mut self) {
        let (sent, name) = (self.sent + 1, &self.name);
        self.wire.send(&format!("35=5|34={sent}|49={name}"));
        while self.wire.next().starts_with("35=B|") {
            self.had += 1;
        }
        assert_eq!(self.wire.next(), "", "nothing comes behind the Logout(5)");
    }
}

const NAMES: [&str; 3] = ["C0", "C1", "C2"];

fn settings(rebalance_ms: u64) -> Settings {
    let sessions = NAMES.map(|name| venue(|s| s.target_comp_id = name.to_owned()));
    let mut settings = Settings { sessions: sessions.to_vec(), ..Settings::default() };
    (settings.engine.workers, settings.engine.hot_worker_percent) = (2, 0);
    settings.engine.rebalance = Duration::from_millis(rebalance_ms);
    settings
}

/// Returns two sessions that ran in the same thread when they were last called.
fn neighbours(threads: &Threads) -> (usize, usize) {
    let threads = threads.lock().unwrap();
    let shares = |(a, b): &(usize, usize)| threads[NAMES[*a]] == threads[NAMES[*b]];
    [(0, 1), (0, 2), (1, 2)].into_iter().find(shares).expect("three sessions have two threads")
}

#[test]
fn a_session_goes_to_a_calmer_worker_without_a_gap() {
    let threads = Threads::default();
    let engine = Engine::start(&settings(5), |_| Box::new(noting(Arc::clone(&threads)))).unwrap();
    let to = engine.listening()[0];
    let mut all = NAMES.map(|name| Counterparty::log_on(to, name));
    all.iter_mut().for_each(Counterparty::order);
    let handles: Vec<_> = engine.sessions().collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let sender = thread::spawn({
        let (handles, is_over) = (handles.clone(), Arc::clone(&is_over));
        move || {
            while !is_over.load(Ordering::Relaxed) {
                for handle in &handles {
                    let sent = handle.send("B", |news| _ = news.str(tag::TEXT, "x"));
                    // The send is refused while the counterparty reads for another session.
                    assert!(matches!(sent, Ok(_) | Err(SendError::WouldBlock { .. })), "{sent:?}");
                }
                thread::yield_now();
            }
        }
    });
    for _ in 0..6 {
        let (a, b) = neighbours(&threads);
        let of = |i: usize| threads.lock().unwrap()[NAMES[i]].clone();
        while of(a) == of(b) {
            all[a].order();
            all[b].order();
            // The counterparties must continue to read, so that the sessions stay busy.
            all.iter_mut().for_each(Counterparty::order);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    for (handle, counterparty) in handles.iter().zip(&mut all) {
        counterparty.order();
        assert_eq!(handle.counters().logons, 1, "one connection all the time");
    }
    // The moved session is found: a second connection is refused, and a connection after the logout
    // is accepted.
    all[0].log_out();
    let mut again = Wire::connect(to, BeginString::Fix44);
    again.send(&format!("35=A|34={}|49=C0|98=0|108=30", all[0].sent + 2));
    assert!(again.next().starts_with("35=A|"));
    drop((all, again));
    for ended in engine.stop(Duration::from_secs(10)) {
        let is_over =
            matches!(ended.outcome, Outcome::NotConnected | Outcome::Ended(Disconnect::LinkLost));
        assert!(is_over, "{ended:?}");
    }
}

#[test]
fn sessions_stay_where_they_are_if_the_settings_say_so() {
    let threads = Threads::default();
    let engine = Engine::start(&settings(0), |_| Box::new(noting(Arc::clone(&threads)))).unwrap();
    let mut all = NAMES.map(|name| Counterparty::log_on(engine.listening()[0], name));
    all.iter_mut().for_each(Counterparty::order);
    let at_first = threads.lock().unwrap().clone();
    // C0 and C2 share a worker, and the other worker is idle.
    for _ in 0..2_000 {
        all[0].order();
        all[2].order();
    }
    all[1].order();
    assert_eq!(*threads.lock().unwrap(), at_first);
    assert!(at_first[NAMES[0]] == at_first[NAMES[2]] && at_first[NAMES[0]] != at_first[NAMES[1]]);
}
