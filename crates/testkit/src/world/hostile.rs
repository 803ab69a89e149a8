//! Worlds with a hostile counterparty, which sends garbage, well-formed messages with bad values,
//! floods, or nothing. Later an honest counterparty replaces the hostile one.
//!
//! Laws: the engine never panics, and garbled input gets no answer. The numbers of bytes written
//! and kept are in proportion to the input. The session works again with an honest counterparty.

use transfix::simulated::rig::{Ended, Rig};
use transfix::{BeginString, Disconnect, MSG_SEQ_NUM_MAX, State};

use super::evil::Mallory;
use super::net::MS;
use super::observer::Tolerance;
use super::plan::{Plan, WorldKind};
use super::side::Outcome;
use super::{Ground, SECOND, Summary, Trace, World};
use crate::random::Random;

/// The maximum number of frames that one hostile message may trigger, except the messages that a
/// ResendRequest(2) requests.
const ANSWERS_MAX: u64 = 4;

pub(super) fn run(ground: &Ground, seed: u64, trace: &Trace) -> Summary {
    let mut random = Random::new(seed);
    let mut plan = Plan::draw(&mut random, WorldKind::Hostile);
    plan.odds.operator_resets = true;
    // The connection never stalls, so that the victim reads bytes at once and each answer can be
    // matched to its cause.
    plan.weather.stall_ms_max = 0;
    let actions = plan.actions * 2;
    let victim = random.below(2);
    let mallory = Mallory::new(Random::new(random.next()), &plan.settings[1 - victim]);
    let world = World::new(ground, plan, random, trace.clone());
    world.net.lock().observer.tolerance = Tolerance::default();
    let mut attack = Attack { world, victim, mallory, owed: 64 };
    for _ in 0..actions {
        attack.act();
    }
    attack.make_peace();
    let mut world = attack.world;
    for _ in 0..2 {
        world.rest();
        for side in [0, 1, 0, 1] {
            let outcome = world.sides[side].send(world.now);
            assert!(matches!(outcome, Outcome::Fine), "side {side} cannot send: {outcome:?}");
        }
    }
    world.rest();
    let sent = world.sides.each_ref().map(|side| side.app.lock().sent.len());
    assert!(sent >= [4, 4], "the session takes no messages any more: {sent:?}");
    world.summarize()
}

/// A session under attack (the victim) and its hostile counterparty.
struct Attack {
    world: World,
    victim: usize,
    mallory: Mallory,
    /// The number of frames that the victim may still write.
    owed: u64,
}

impl Attack {
    fn rig(&self) -> &Rig {
        &self.world.sides[self.victim].rig
    }

    fn act(&mut self) {
        self.pass_time();
        if !self.rig().look().is_up {
            return self.connect();
        }
        match self.world.random.below(12) {
            0 => self.garbage(),
            1 => {
                let outcome = self.world.sides[self.victim].send(self.world.now);
                self.owed += 1;
                self.go_on(outcome);
            }
            2 => {
                let side = self.victim;
                let outcome =
                    self.world.sides[side].operate(self.world.now, |session, now, out| {
                        let _ = session.request_resend(now, 1, 0, out);
                    });
                self.owed += 1;
                self.go_on(outcome);
            }
            3 => {
                // The attacker sends the same message many times, to fill the victim's buffers.
                let message = self.craft();
                for _ in 0..40 {
                    self.give(&message, ANSWERS_MAX);
                }
            }
            _ => {
                let message = self.craft();
                self.give(&message, ANSWERS_MAX);
            }
        }
        self.check();
    }

    fn craft(&mut self) -> Vec<u8> {
        let seen = self.rig().look();
        let now = self.world.sides[self.victim].moment(self.world.now);
        let message = self.mallory.craft(now, &seen);
        self.world.say(|| {
            let text = String::from_utf8_lossy(&message).replace('\x01', "|");
            format!("mallory {:.200}", text)
        });
        message
    }

    /// Lets a short time pass, or enough time for timers to expire.
    fn pass_time(&mut self) {
        let ms = [1, 1, 20, 1_000, 30_000][self.world.random.below(5)];
        let until = self.world.now + ms * MS;
        loop {
            let deadline = self.rig().look().next_deadline.filter(|at| *at <= until);
            self.set_now(deadline.unwrap_or(until).max(self.world.now));
            if deadline.is_none() {
                break;
            }
            self.owed += 2;
            let outcome = self.world.sides[self.victim].call(self.world.now, Rig::tick);
            self.go_on(outcome);
            self.drain();
        }
        self.turn();
    }

    fn set_now(&mut self, now: u64) {
        self.world.now = now;
        self.world.net.lock().now = now;
    }

    fn connect(&mut self) {
        self.world.summary.connections += 1;
        self.world.net.lock().join();
        let stream = self.world.net.stream(self.victim);
        let now = self.world.now;
        let outcome = self.world.sides[self.victim].call(now, |rig, now| rig.attach(now, stream));
        self.owed += 2;
        self.world.sides[self.victim].connected(now);
        self.go_on(outcome);
        if self.world.random.below(8) > 0 {
            let seen = self.rig().look();
            let moment = self.world.sides[self.victim].moment(now);
            let logon = self.mallory.logon(moment, &seen);
            self.give(&logon, ANSWERS_MAX);
        }
    }

    /// Sends garbage, and checks that the victim neither answers nor changes a sequence number.
    fn garbage(&mut self) {
        self.turn();
        let before = self.rig().look();
        if before.waits || !before.is_up {
            return;
        }
        let frames = self.world.frames();
        let message = self.craft();
        // A garbled message that contains a whole message inside is not sent.
        let message = match message.windows(3).any(|part| part == b"\x018=") {
            true => Vec::new(),
            false => message,
        };
        let garbage = self.mallory.garble(message);
        self.give(&garbage, 0);
        let after = self.rig().look();
        let numbers = |seen: &transfix::simulated::rig::Seen| (seen.next_num_in, seen.next_num_out);
        assert_eq!(numbers(&before), numbers(&after), "garbage has changed a number");
        assert_eq!(self.world.frames(), frames, "garbage was answered");
        assert!(after.is_up == before.is_up, "garbage has ended the session");
        // The next message completes any message that the garbage has begun.
        let end =
            self.mallory.heartbeat(self.world.sides[self.victim].moment(self.world.now), &after);
        self.give(&end, ANSWERS_MAX);
    }

    /// Sends bytes to the victim. The victim may write `answers` frames in addition to all
    /// requested messages.
    fn give(&mut self, bytes: &[u8], answers: u64) {
        let again = self.rig().look().next_num_out.min(1_000_000);
        let asks = bytes.windows(6).any(|part| part == b"\x0135=2\x01");
        // Messages that were held behind a gap may also be ResendRequests(2); the victim holds at
        // most `held` messages.
        let kept = self.rig().look().held.0 as u64;
        self.owed += answers + if asks || kept > 0 { (1 + kept) * (again + 2) } else { 0 };
        self.owed += kept * answers;
        let before = self.rig().look();
        {
            let mut net = self.world.net.lock();
            net.observer.sides[self.victim].rejected = None;
            net.inject(1 - self.victim, bytes);
        }
        let at = self.world.now + 25 * MS;
        self.set_now(at);
        self.turn();
        // FIX Session Layer: a rejected message uses up its sequence number. The exception is a
        // SequenceReset(4) in Reset mode, whose number is ignored.
        let rejected = self.world.net.lock().observer.sides[self.victim].rejected;
        let reset = bytes.windows(6).any(|part| part == b"\x0135=4\x01");
        if rejected == Some(before.next_num_in) && !reset && !before.waits {
            let after = self.rig().look().next_num_in;
            assert!(after > before.next_num_in, "a rejected message does not count: {after}");
        }
    }

    /// Runs the victim until it has nothing more to read or write.
    fn turn(&mut self) {
        for _ in 0..200_000 {
            let seen = self.rig().look();
            let ready = {
                let net = self.world.net.lock();
                let readable = net.readable_at(self.victim).is_some_and(|at| at <= self.world.now);
                readable || (seen.waits && net.room(self.victim) > 0)
            };
            if !seen.is_up || !ready {
                return;
            }
            let outcome = self.world.sides[self.victim].turn(self.world.now);
            self.go_on(outcome);
            self.drain();
        }
        panic!("the session spins");
    }

    /// In most cases, reads everything that the victim has written, so that the victim's buffers
    /// stay empty.
    fn drain(&mut self) {
        if self.world.random.below(50) > 0 {
            self.world.net.lock().drain(self.victim);
        }
    }

    fn go_on(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Fine => {}
            Outcome::Died => panic!("nothing kills the process here"),
            Outcome::Ended(Ended::Session(reason)) => {
                self.world.summary.verdicts += 1;
                self.world.close(self.victim, reason);
            }
            Outcome::Ended(Ended::Io(_)) => self.world.close(self.victim, Disconnect::LinkLost),
            Outcome::Ended(Ended::Store(error)) => panic!("the store fails: {error}"),
        }
    }

    fn check(&self) {
        let seen = self.rig().look();
        let (messages, bytes) = seen.held;
        let held = self.world.plan.held;
        assert!(messages <= held.messages_max && bytes <= held.bytes_max, "{messages} are kept");
        let max = self.world.plan.settings[self.victim].queue.queued_bytes_max + (9 << 20);
        assert!(seen.waiting_bytes <= max, "{} bytes wait", seen.waiting_bytes);
        let frames = self.world.frames();
        assert!(frames <= self.owed, "{frames} frames written, {} are enough", self.owed);
    }

    /// Replaces the hostile counterparty with an honest one, and sets matching sequence numbers on
    /// both sides.
    fn make_peace(&mut self) {
        self.world.say(|| "peace".to_owned());
        let (victim, honest) = (self.victim, 1 - self.victim);
        self.world.close(victim, Disconnect::Application);
        let tolerance =
            Tolerance { asked_resets: true, honest: true, ..self.world.plan.tolerance() };
        let seen = self.rig().look();
        {
            let mut net = self.world.net.lock();
            net.drain(0);
            net.drain(1);
            net.observer.forget();
            net.observer.tolerance = tolerance;
        }
        for side in &self.world.sides {
            let mut log = side.app.lock();
            log.sent.clear();
            log.delivered.clear();
        }
        let room = seen.next_num_in < MSG_SEQ_NUM_MAX / 2;
        let old = self.world.plan.settings[0].begin_string == BeginString::Fix40;
        let agree = old || (room && self.world.random.below(2) == 0);
        let next_in = if room { seen.next_num_in } else { 1 };
        for side in [0, 1] {
            let ours = &self.world.sides[side];
            let outcome = ours.rig.operate(ours.moment(self.world.now), |session, _, _| {
                assert_eq!(session.state(), State::Disconnected);
                if !agree {
                    session.reset_at_next_logon();
                } else if side == honest {
                    session.set_next_num_out(next_in);
                    session.set_next_num_in(seen.next_num_out);
                } else {
                    session.set_next_num_in(next_in);
                }
            });
            assert!(outcome.is_ok(), "{outcome:?}");
        }
        self.world.connects_at = self.world.now + SECOND;
    }
}
