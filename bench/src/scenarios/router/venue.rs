//! The router: this engine as an acceptor for all sessions, with an application that passes each
//! message to a random receiver.

use std::cell::Cell;
use std::io::BufRead;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use transfix::{
    Application, BusinessReject, Engine, Latency, LatencyStage, Message, Role, SessionHandle,
    SessionId, SessionRef, Settings,
};

use super::super::column::Column;
use super::super::remote;
use super::client::{ROUTER, receiver, sender};
use super::figures::Points;

/// Uniform random numbers, the same sequence in each run.
#[derive(Debug)]
pub(super) struct Choice(u64);

impl Default for Choice {
    fn default() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
}

impl Choice {
    /// Returns a random number below `n`.
    pub(super) const fn next(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Multiplying the upper 32 bits by n and shifting gives a number below n without a
        // division.
        (((self.0 >> 32) * n as u64) >> 32) as usize
    }
}

/// State that the applications of all sessions share.
struct Shared {
    /// Handles of the receiving sessions, set after the engine has started.
    receivers: OnceLock<Vec<SessionHandle>>,
    /// Number of receivers among which the router chooses.
    among: Arc<AtomicUsize>,
}

struct Router(Arc<Shared>);

thread_local! {
    static CHOICE: Cell<u64> = const { Cell::new(0) };
}

/// Returns a random number below `n` from a sequence of the calling thread.
fn choose(n: usize) -> usize {
    CHOICE.with(|state| {
        let mut choice = match state.get() {
            0 => Choice::default(),
            state => Choice(state),
        };
        let chosen = choice.next(n);
        state.set(choice.0);
        chosen
    })
}

impl Application for Router {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let Some(receivers) = self.0.receivers.get() else {
            return Err(BusinessReject::not_available());
        };
        let to = &receivers[choose(self.0.among.load(Ordering::Relaxed))];
        Ok(to.send(message.msg_type(), |copy| _ = copy.copy(message)).map(drop)?)
    }
}

/// Returns the number of CPUs for the router: all except one, which is left to the sending process
/// and the system.
pub(super) const fn cpus(all: usize) -> usize {
    if all > 1 { all - 1 } else { 1 }
}

/// Returns the number of the engine's workers, at most one per CPU.
pub(super) fn workers(column: &Column, cpus: usize) -> usize {
    column.side(Role::Acceptor).engine.workers.min(cpus)
}

/// Returns true if a pool of application threads routes. A pool does not keep the order of a
/// sender's messages to a receiver.
pub(super) fn has_pool(column: &Column) -> bool {
    column.side(Role::Acceptor).engine.application_threads > 0
}

/// Returns true if each thread of the router can have a CPU of its own.
pub(super) fn has_room(column: &Column, cpus: usize) -> bool {
    workers(column, cpus) + column.side(Role::Acceptor).engine.application_threads <= cpus
}

/// Prints the listening address, and routes until standard input ends.
pub(super) fn run(
    column: &Column,
    address: &str,
    senders: usize,
    receivers: usize,
) -> Result<(), String> {
    let mut settings = column.side(Role::Acceptor);
    let mut like = settings.sessions.remove(0);
    address.clone_into(&mut like.address);
    let cpus = cpus(remote::cpus());
    settings.engine.workers = workers(column, cpus);
    if !has_room(column, cpus) {
        // The threads must not spin, because several threads on one CPU would block each other.
        like.threads.spin = Duration::ZERO;
        settings.engine.application_spin = Duration::ZERO;
    }
    if remote::cpus() > 1 {
        settings.engine.cpus = (1..=settings.engine.workers).collect();
    }
    let all = senders + receivers;
    settings.engine.pending_connections_max = all.max(1_000);
    settings.engine.pending_per_address_max = all.max(1_000);
    let names = (0..receivers).map(receiver).chain((0..senders).map(sender));
    for name in names {
        let mut session = like.clone();
        (session.sender_comp_id, session.target_comp_id) = (ROUTER.to_owned(), name);
        settings.sessions.push(session);
    }
    serve(&settings, receivers)
}

fn serve(settings: &Settings, receivers: usize) -> Result<(), String> {
    let among = Arc::new(AtomicUsize::new(receivers));
    let shared = Arc::new(Shared { receivers: OnceLock::new(), among: Arc::clone(&among) });
    let application = |_: &SessionId| -> Box<dyn Application> { Box::new(Router(shared.clone())) };
    let engine = Engine::start(settings, application).map_err(|error| error.to_string())?;
    let handle = |n: usize| {
        let id = settings.sessions[n].id();
        engine.session(&id).ok_or_else(|| format!("no session {id}"))
    };
    let all = (0..settings.sessions.len()).map(handle).collect::<Result<Vec<_>, _>>()?;
    let _ = shared.receivers.set(all[..receivers].to_vec());
    println!("{}", engine.listening()[0]);
    let mut before: Vec<Latency> = all.iter().map(SessionHandle::latency).collect();
    obey(&among, || {
        let now: Vec<Latency> = all.iter().map(SessionHandle::latency).collect();
        let since: Vec<Latency> =
            now.iter().zip(&before).map(|(now, then)| now.since(then)).collect();
        before = now;
        Points {
            socket_to_callback_ns: median(&since, LatencyStage::ReadToCallback),
            put_to_socket_ns: median(&since, LatencyStage::PutToWritten),
        }
    })?;
    engine.stop(Duration::ZERO);
    Ok(())
}

/// Returns the median of a latency stage over all sessions, in nanoseconds; `None` without
/// measurements.
fn median(all: &[Latency], stage: LatencyStage) -> Option<u64> {
    let mut buckets: Vec<(u64, u64)> =
        all.iter().flat_map(|latency| latency.stage(stage).buckets()).collect();
    buckets.sort_unstable();
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut so_far = 0;
    let middle = buckets.iter().find(|(_, count)| {
        so_far += count;
        2 * so_far >= total
    });
    middle.map(|(ns, _)| *ns)
}

/// Executes each line of standard input until it ends, and prints a line as answer. A number sets
/// the count of receivers; `points` requests the latency measurements since the previous request.
pub(super) fn obey(among: &AtomicUsize, mut points: impl FnMut() -> Points) -> Result<(), String> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        match line.parse() {
            Ok(receivers) => {
                among.store(receivers, Ordering::Relaxed);
                println!("{receivers}");
            }
            Err(_) => {
                let points = serde_json::to_string(&points()).map_err(|e| e.to_string())?;
                println!("{points}");
            }
        }
    }
    Ok(())
}
