//! A simulated world: two engine sessions with stores and applications, a connection between them,
//! and clocks. The same seed gives the same world on every machine.
//!
//! Laws checked at every step: the laws of the wire (see `observer`) and of crashes (see `side`),
//! and the following. An application message that a session accepts is delivered exactly once and
//! in order, or dropped by a reset. A counterparty that answers is never disconnected, and a silent
//! one is detected in time. The expected sequence number advances while the counterparty writes. No
//! session spins, and queues are bounded. After the faults end, all messages arrive within a time
//! limit.

mod app;
mod disk;
mod evil;
mod hostile;
mod laws;
mod net;
mod observer;
mod plan;
mod side;
mod trace;

use std::sync::Arc;

use transfix::simulated::rig::{Ended, Rules};
use transfix::{BeginString, Disconnect, State};
use transfix_session::Session;

use crate::disk::{Crash, DiskFault, End, SimDisk};
use crate::engines;
use crate::random::Random;
use disk::{Disk, Fuse};
use evil::Mallory;
use net::{MS, NetworkConditions};
use observer::Observer;
use plan::Plan;
use side::{Outcome, Side};

pub use plan::WorldKind;
pub use trace::Trace;

const SECOND: u64 = 1_000 * MS;
/// The maximum number of steps while the clock stands still; a session that needs more steps is
/// spinning.
const STEPS_PER_MOMENT_MAX: u32 = 1_000_000;

/// Counts of the events in a world, which show how much of the engine the seeds exercise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of application messages delivered, in both directions.
    pub delivered: u64,
    /// The number of frames written, in both directions.
    pub frames: u64,
    /// The number of ResendRequest(2) messages written, in both directions.
    pub requests: u64,
    /// Connections made.
    pub connections: u64,
    /// The number of connections that a session ended by its own decision, including timeouts.
    pub verdicts: u64,
    /// The number of processes that crashed during a disk operation.
    pub crashes: u64,
    /// The virtual time at the end of the world, in nanoseconds.
    pub ended_ns: u64,
}

impl Summary {
    /// Adds the counts of another world.
    pub const fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.frames += other.frames;
        self.requests += other.requests;
        self.connections += other.connections;
        self.verdicts += other.verdicts;
        self.crashes += other.crashes;
        self.ended_ns += other.ended_ns;
    }
}

/// Data that all worlds share: the compiled rules of each FIX version, whose compilation is slow.
#[derive(Clone, Default)]
pub struct Ground {
    rules: Rules,
}

/// Runs the world with this seed to its end.
///
/// # Panics
/// If a law is broken.
#[must_use]
pub fn run(ground: &Ground, seed: u64, kind: WorldKind, trace: &Trace) -> Summary {
    match kind {
        WorldKind::Hostile => hostile::run(ground, seed, trace),
        WorldKind::Engines => engines::run(seed, trace),
        _ => run_honest(ground, seed, kind, trace),
    }
}

fn run_honest(ground: &Ground, seed: u64, kind: WorldKind, trace: &Trace) -> Summary {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random, kind);
    let mut world = World::new(ground, plan, random, trace.clone());
    for _ in 0..world.plan.actions {
        world.step_to_action();
        world.act();
    }
    world.rest();
    world.summarize()
}

/// A simulated run: two sessions and the connection between them; side 0 is the initiator.
struct World {
    random: Random,
    plan: Plan,
    trace: Trace,
    now: u64,
    sides: [Side; 2],
    net: net::Shared,
    connects_at: u64,
    /// The time at which each side's application answers a pending Logon(A), in nanoseconds.
    answers_at: [Option<u64>; 2],
    /// The time at which each side's disk completes the pending commits, in nanoseconds.
    safe_at: [Option<u64>; 2],
    acts_at: u64,
    /// True after the faults have ended.
    resting: bool,
    summary: Summary,
}

impl World {
    fn new(ground: &Ground, plan: Plan, mut random: Random, trace: Trace) -> Self {
        let observer = Observer::new(plan.tolerance(), trace.clone());
        let net = net::Shared::new(Random::new(random.next()), plan.weather, observer);
        let mut side = |n: usize| {
            let app = app::Shared::new(Random::new(random.next()));
            let mut log = app.lock();
            log.answer_one_in = plan.answer_one_in[n];
            log.refuse_one_in = plan.refuse_one_in;
            log.decline_one_in = plan.decline_one_in;
            log.deny_one_in = plan.deny_one_in;
            log.later_one_in = plan.later_one_in;
            log.text_bytes_max = plan.text_bytes_max;
            drop(log);
            let ends = net.clone();
            let on_end = Box::new(move || ends.lock().die(n));
            let disk = SimDisk::new(Random::new(random.next()), on_end);
            let ends = net.clone();
            let on_reset = Arc::new(move || ends.lock().observer.reset(n));
            let disk = Disk::new(disk, plan.store[n], app.clone(), on_reset, plan.is_delayed[n]);
            Side::new(plan.settings[n].clone(), plan.held, app, disk, &ground.rules)
        };
        let sides = [side(0), side(1)];
        trace.add(0, || {
            let s = &plan.settings;
            let resets = s
                .each_ref()
                .map(|s| (s.protocol.reset_on, s.protocol.reset_at, s.protocol.reset_after));
            let held = plan.held;
            format!(
                "{} {:?} HeartBtInt(108)={} {resets:?} {held:?} {:?} {:?}",
                s[0].begin_string,
                plan.kind,
                s[0].protocol.heart_bt_int.as_secs(),
                plan.weather,
                plan.odds
            )
        });
        Self {
            random,
            plan,
            trace,
            now: SECOND,
            sides,
            net,
            connects_at: SECOND,
            answers_at: [None; 2],
            safe_at: [None; 2],
            acts_at: 2 * SECOND,
            resting: false,
            summary: Summary::default(),
        }
    }

    fn step_to_action(&mut self) {
        while self.now < self.acts_at {
            self.step();
        }
        let pause_ms = match self.random.below(10) {
            0 if self.random.below(4) < self.plan.odds.pause_h => 4_000_000,
            0 => 20_000,
            _ => 100,
        };
        self.acts_at = self.now + 1 + self.random.below(pause_ms) as u64 * MS;
    }

    fn chance(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    fn say(&self, what: impl FnOnce() -> String) {
        self.trace.add(self.now, what);
    }

    /// Carries out a random action of the applications, the operators, or the environment.
    fn act(&mut self) {
        let side = self.random.below(2);
        let odds = self.plan.odds;
        if self.chance(odds.cut) {
            self.cut();
        } else if self.chance(odds.crash) {
            let fuse = Fuse {
                events: 1 + self.random.below(6) as u64,
                end: [End::Before, End::Torn, End::After][self.random.below(3)],
            };
            self.say(|| format!("side {side} will crash: {fuse:?}"));
            self.sides[side].arm(fuse);
        } else if self.chance(odds.disk_fault) {
            let disk_faults = [DiskFault::Full, DiskFault::FailingSync, DiskFault::ReadOnly];
            let disk_fault = disk_faults[self.random.below(3)];
            self.say(|| format!("the disk of side {side} fails: {disk_fault:?}"));
            self.sides[side].disk.set_fault(Some(disk_fault));
        } else if self.chance(odds.restart) {
            self.say(|| format!("side {side} restarts"));
            self.close(side, Disconnect::Application);
            let outcome = self.sides[side].settle(self.now);
            self.go_on(side, outcome);
            self.sides[side].restart(self.now, Crash::Process);
            self.sides[side].begin_commits();
        } else if self.chance(odds.close) {
            self.say(|| format!("side {side} closes"));
            self.close(side, Disconnect::Application);
        } else if self.chance(odds.jump) {
            self.jump(side);
        } else if self.chance(odds.logout) {
            self.say(|| format!("side {side} logs out"));
            let outcome = self.sides[side].operate(self.now, |session, now, out| {
                session.logout(now, "the end of the day", out);
            });
            self.go_on(side, outcome);
        } else if self.chance(odds.forge) {
            self.forge(side);
        } else if self.chance(odds.operate) {
            self.operate(side);
        } else {
            let flood = self.chance(odds.flood);
            let messages = if flood { 100 } else { 1 + self.random.below(5) };
            self.say(|| format!("side {side} sends {messages}"));
            for _ in 0..messages {
                let outcome = self.sides[side].send(self.now);
                self.go_on(side, outcome);
            }
        }
    }

    /// Injects a message to `side` that claims to come from the counterparty.
    fn forge(&mut self, side: usize) {
        let seen = self.sides[side].rig.look();
        let live = matches!(seen.state, State::Active | State::LogoutSent);
        // Injected bytes form a separate message only if the connection is between two messages.
        if !live || !self.net.lock().is_between_messages(1 - side) {
            return;
        }
        let settings = &self.plan.settings[1 - side];
        let mut mallory = Mallory::new(Random::new(self.random.next()), settings);
        let message = mallory.forge(self.sides[side].moment(self.now), seen.next_num_in);
        self.say(|| {
            let text = String::from_utf8_lossy(&message).replace('\x01', "|");
            format!("to side {side}, forged: {text:.200}")
        });
        self.net.lock().inject(1 - side, &message);
    }

    /// Carries out a random operator action on a session.
    fn operate(&mut self, side: usize) {
        let kinds = match (self.plan.odds.operator_resets, self.plan.odds.in_session_resets) {
            (true, true) => &[0, 1, 2, 3, 4][..],
            (true, false) => &[0, 1, 2, 3],
            (false, true) => &[0, 1, 4],
            (false, false) => &[0, 1],
        };
        let what = kinds[self.random.below(kinds.len())];
        let number = self.random.below(30) as u64;
        self.say(|| format!("side {side}: operator {what}, {number}"));
        let begin = self.sides[side].numbers().0.saturating_sub(number).max(1);
        if what == 1 && self.sides[side].state() == State::Active {
            self.net.lock().observer.sides[side].operator_requests.push(begin);
        }
        let old = self.plan.settings[0].begin_string == BeginString::Fix40;
        let mut gives_up = false;
        let outcome = self.sides[side].operate(self.now, |session: &mut Session, now, out| {
            match what {
                0 => _ = session.test_request(now, &format!("T{number}"), out),
                1 => _ = session.request_resend(now, begin, 0, out),
                // FIX 4.0 has no ResetSeqNumFlag(141), so a reset would require an agreement
                // between the operators of both sides.
                2 if old => {}
                2 => session.reset_at_next_logon(),
                4 => _ = session.reset_in_session(now, out),
                _ => {
                    let next = session.next_num_out() + 1 + number;
                    gives_up = session.sequence_reset(now, next, out).is_ok();
                }
            }
        });
        if gives_up {
            self.sides[side].app.lock().epoch += 1;
        }
        self.go_on(side, outcome);
    }

    /// Makes the wall clock of a side jump. The monotonic clock never jumps.
    fn jump(&mut self, side: usize) {
        let most = self.plan.jump_s_max;
        let ahead_s = self.random.below(2 * most + 1) as i64 - most as i64;
        self.say(|| format!("the clock of side {side} is {ahead_s} s ahead"));
        self.sides[side].ahead_ns = ahead_s * SECOND as i64;
    }

    /// Breaks the connection: bytes in transit are lost, and each side notices the break after some
    /// time.
    fn cut(&mut self) {
        let most = self.plan.odds.unnoticed_ms_max + 1;
        let notices_at = [0, 1].map(|_| self.now + self.random.below(most) as u64 * MS);
        self.say(|| format!("cut; noticed at {:?} ms", notices_at.map(|at| at / MS)));
        self.net.lock().cut(notices_at);
    }

    /// Advances the clock to the next event, and handles all events due at that time.
    fn step(&mut self) {
        self.now = self.next_at().max(self.now);
        self.net.lock().now = self.now;
        for steps in 0.. {
            assert!(steps < STEPS_PER_MOMENT_MAX, "the clock stands still: {}", self.stand());
            if !self.step_now() {
                break;
            }
        }
        self.check();
    }

    fn next_at(&self) -> u64 {
        let mut next = self.acts_at;
        if !self.sides[0].rig.look().is_up {
            next = next.min(self.connects_at);
        }
        let net = self.net.lock();
        for side in [0, 1] {
            let seen = self.sides[side].rig.look();
            let readable = net.readable_at(side).filter(|_| seen.reads);
            next = [readable, seen.next_deadline, self.answers_at[side], self.safe_at[side]]
                .into_iter()
                .flatten()
                .fold(next, u64::min);
        }
        assert!(next < u64::MAX, "nothing will ever happen");
        next
    }

    /// Handles one due event; returns false if none is due.
    fn step_now(&mut self) -> bool {
        if !self.sides[0].rig.look().is_up && self.now >= self.connects_at {
            self.connect();
            return true;
        }
        for side in [0, 1] {
            if self.answers_later(side) || self.makes_safe(side) {
                return true;
            }
            let seen = self.sides[side].rig.look();
            if !seen.is_up {
                continue;
            }
            let (readable, room) = {
                let net = self.net.lock();
                let arrived = net.readable_at(side).is_some_and(|at| at <= self.now);
                (arrived && seen.reads, net.room(side))
            };
            if readable || (room > 0 && seen.waits) {
                let outcome = self.sides[side].turn(self.now);
                self.go_on(side, outcome);
                return true;
            }
            if seen.next_deadline.is_some_and(|at| at <= self.now) {
                let outcome = self.sides[side].call(self.now, transfix::simulated::rig::Rig::tick);
                self.go_on(side, outcome);
                return true;
            }
        }
        false
    }

    /// Makes the application answer a pending Logon(A) if the answer is due; the delay is random.
    /// Returns true if the application has answered.
    fn answers_later(&mut self, side: usize) -> bool {
        if self.sides[side].app.lock().answer.is_none() {
            self.answers_at[side] = None;
            return false;
        }
        let at = *self.answers_at[side].get_or_insert_with(|| {
            // The longest possible delay of 30 s exceeds the logon timeout.
            self.now + [0, 1, 50, 3_000, 30_000][self.random.below(5)] * MS
        });
        if self.now < at {
            return false;
        }
        self.say(|| format!("the application of side {side} answers the Logon(A)"));
        self.sides[side].app.lock().give_answer();
        self.answers_at[side] = None;
        if self.sides[side].rig.look().is_up {
            let outcome = self.sides[side].turn(self.now);
            self.go_on(side, outcome);
        }
        true
    }

    /// Makes the disk complete earlier commits if their random delay is over. Returns true if the
    /// disk has done so.
    fn makes_safe(&mut self, side: usize) -> bool {
        let Some(pace) = self.sides[side].disk.pace.clone().filter(|pace| pace.waits()) else {
            self.safe_at[side] = None;
            return false;
        };
        let at = *self.safe_at[side]
            .get_or_insert_with(|| self.now + [0, 1, 5, 50, 2_000][self.random.below(5)] * MS);
        if self.now < at {
            return false;
        }
        pace.allow([1, 2, 8, u64::MAX][self.random.below(4)]);
        self.safe_at[side] = None;
        let outcome = self.sides[side].turn(self.now);
        self.go_on(side, outcome);
        true
    }

    /// Connects the initiator. An acceptor that still has an open connection refuses the new
    /// connection.
    fn connect(&mut self) {
        self.summary.connections += 1;
        let refused = self.sides[1].rig.look().is_up;
        self.say(|| format!("the initiator connects{}", if refused { " in vain" } else { "" }));
        let order = if refused {
            self.net.lock().refuse(0, self.now + 5 * MS);
            &[0][..]
        } else {
            self.net.lock().join();
            &[1, 0][..]
        };
        for &side in order {
            let stream = self.net.stream(side);
            let outcome = self.sides[side].call(self.now, |rig, now| rig.attach(now, stream));
            self.sides[side].connected(self.now);
            self.go_on(side, outcome);
        }
        if !self.sides[0].rig.look().is_up && self.connects_at <= self.now {
            // Outside its schedule, the session does not connect, so the attempt is repeated later.
            self.reconnect_later(0);
        }
    }

    fn go_on(&mut self, side: usize, outcome: Outcome) {
        match outcome {
            Outcome::Fine => {}
            Outcome::Died => {
                self.say(|| format!("side {side} crashes; {:?} left", self.sides[side].numbers()));
                self.summary.crashes += 1;
                self.reconnect_later(side);
            }
            Outcome::Ended(Ended::Session(reason)) => {
                self.check_reason(side, reason);
                self.close(side, reason);
            }
            Outcome::Ended(Ended::Io(_)) => self.close(side, Disconnect::LinkLost),
            Outcome::Ended(Ended::Store(error)) => panic!("side {side}: {error}"),
        }
    }

    fn close(&mut self, side: usize, reason: Disconnect) {
        self.say(|| format!("side {side} ends: {reason}"));
        if let Outcome::Died = self.sides[side].close(self.now, reason) {
            self.summary.crashes += 1;
        }
        self.reconnect_later(side);
    }

    fn reconnect_later(&mut self, side: usize) {
        if side == 0 {
            self.connects_at = self.now + (1 + self.random.below(3_000)) as u64 * MS;
        }
    }

    /// Ends the faults. All messages must then arrive within a time limit, and with few frames.
    fn rest(&mut self) {
        self.resting = true;
        self.say(|| "the faults cease".to_owned());
        for side in &self.sides {
            side.disk.set_fault(None);
            let mut log = side.app.lock();
            (log.decline_one_in, log.deny_one_in, log.later_one_in) = (0, 0, 0);
        }
        self.net.lock().weather =
            NetworkConditions { capacity: self.plan.weather.capacity, ..NetworkConditions::FAIR };
        let (begun, bound) = (self.now, self.rest_max());
        let written = self.frames();
        let mut sends_at = self.now;
        while !self.is_well() {
            if self.now >= begun + bound {
                self.check_order();
                panic!("nothing moves any more: {}", self.stand());
            }
            self.check_frame_count(begun, written);
            // Without heartbeats, a session notices the loss of the last message only when another
            // message follows.
            self.acts_at = sends_at.max(self.now);
            self.step();
            if self.now >= sends_at {
                sends_at = self.now + 7 * SECOND;
                if self.plan.settings[0].protocol.heart_bt_int.is_zero() {
                    for side in [0, 1] {
                        let outcome = self.sides[side].send(self.now);
                        self.go_on(side, outcome);
                    }
                }
            }
        }
        self.check_order();
    }

    fn frames(&self) -> u64 {
        self.net.lock().observer.sides.iter().map(|side| side.frames).sum()
    }

    fn summarize(mut self) -> Summary {
        self.summary.ended_ns = self.now;
        self.summary.frames = self.frames();
        self.summary.requests =
            self.net.lock().observer.sides.iter().map(|side| side.requests).sum();
        self.summary.delivered =
            self.sides.iter().map(|side| side.app.lock().delivered.len() as u64).sum();
        self.summary
    }
}
