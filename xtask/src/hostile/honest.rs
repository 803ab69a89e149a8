//! The honest counterparty, which trades during the attacks. Each of its orders must be answered in
//! order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::line::Line;
use super::{Machine, Outcome, stay};

/// The interval between two orders.
const PACE: Duration = Duration::from_millis(4);

/// A counterparty that trades in its own thread until stopped.
pub(super) struct Honest {
    stop: Arc<AtomicBool>,
    slice: Arc<AtomicUsize>,
    thread: JoinHandle<Outcome<Vec<(usize, Duration)>>>,
}

impl Honest {
    /// Logs on, and starts the thread that trades.
    pub(super) fn start(address: &str) -> Outcome<Self> {
        let (stop, slice) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, now) = (Arc::clone(&stop), Arc::clone(&slice));
        let (address, (sender, logged_on)) = (address.to_owned(), channel());
        let thread = thread::spawn(move || {
            stay(Machine::OfHonest)?;
            // The counterparty uses a plain socket directly, so that no other program affects the
            // measured times.
            let mut line = Line::plain(&address, "HONEST")?;
            line.log_on("141=Y|")?;
            let _ = sender.send(());
            trade(line, &stopped, &now)
        });
        let honest = Self { stop, slice, thread };
        match logged_on.recv() {
            Ok(()) => Ok(honest),
            // The thread has already ended, and `stop` returns the reason.
            Err(_) => honest.stop().and(Err("honest: no logon".to_owned())),
        }
    }

    /// Counts later orders as part of this slice.
    pub(super) fn slice(&self, slice: usize) {
        self.slice.store(slice, Ordering::Relaxed);
    }

    /// Returns true if the counterparty is still trading.
    pub(super) fn goes_on(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops trading. Returns the response time of each order, with its slice.
    pub(super) fn stop(self) -> Outcome<Vec<(usize, Duration)>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the honest client has panicked".to_owned())?
    }
}

fn trade(
    mut line: Line,
    stop: &AtomicBool,
    slice: &AtomicUsize,
) -> Outcome<Vec<(usize, Duration)>> {
    let mut times = Vec::new();
    let (mut next_in, mut id) = (2, 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let (at, begin) = (slice.load(Ordering::Relaxed), Instant::now());
        id += 1;
        // Every second order trades with the order before it, so that the order book stays short.
        let side = 1 + (id + 1) % 2;
        let order = format!("11=h{id}|55=EU|54={side}|60=20260101-00:00:00|38=1|40=2|44=30|");
        line.say("D", &order);
        let said = line.hears(&format!("|11=h{id}|")).map_err(|why| format!("honest: {why}"))?;
        times.push((at, begin.elapsed()));
        check(&said, &mut next_in)?;
        thread::sleep(PACE.saturating_sub(begin.elapsed()));
    }
    Ok(times)
}

/// Checks that the messages in `said` have consecutive sequence numbers.
fn check(said: &str, next_in: &mut u64) -> Outcome<()> {
    for number in said.split("|34=").skip(1) {
        let number: u64 = number.split('|').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        if number != *next_in {
            return Err(format!("honest: received MsgSeqNum(34) {number}, expected {next_in}"));
        }
        *next_in += 1;
    }
    Ok(())
}
