//! A simulated world: two sessions, a connection that fragments, delays, stalls and breaks, and a
//! virtual clock. A seed gives the same world on every machine.
//!
//! Laws, checked while it runs and at its end: each application message that one side's session
//! accepted is delivered by the other's once and in order; numbers never go back and are never used
//! twice but after a reset; neither side finds fault with what the other sends, unless it was
//! damaged; nothing spins, and once the faults have ceased all is well within a bound.

mod peer;
mod wire;

use std::fmt;

use transfix_session::{ApplVerId, BeginString, Config, Disconnect, ResetPolicy, Role, SessionId};

use crate::random::Random;
use peer::Peer;
use wire::Wire;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Once the faults have ceased: a silent link, two timeouts and a logon fit in several times.
const QUIET_MAX: u64 = 600 * SECOND;
/// Steps without the clock moving on: beyond it somebody spins.
const STEPS_PER_MOMENT_MAX: u32 = 10_000;

/// What a world suffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// One action in so many cuts the connection; 0 for never.
    pub cut_one_in: usize,
    /// One in so many logs out; 0 for never.
    pub logout_one_in: usize,
    /// One in so many restarts a side from its store; 0 for never.
    pub restart_one_in: usize,
    /// The longest stall on the way, in milliseconds.
    pub stall_ms_max: usize,
    /// The longest time that a side does not notice that the connection is cut, in milliseconds.
    pub unnoticed_ms_max: usize,
    /// One piece in so many arrives with a wrong bit; 0 for never.
    pub damage_one_in: usize,
}

impl Faults {
    const NONE: Self = Self {
        cut_one_in: 0,
        logout_one_in: 0,
        restart_one_in: 0,
        stall_ms_max: 0,
        unnoticed_ms_max: 0,
        damage_one_in: 0,
    };

    /// Some faults, chosen by the seed; nothing is ever damaged.
    #[must_use]
    pub fn any(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut one_in = |least: usize| if random.below(3) == 0 { 0 } else { least };
        Self {
            cut_one_in: one_in(12),
            logout_one_in: one_in(40),
            restart_one_in: one_in(30),
            stall_ms_max: one_in(15_000),
            unnoticed_ms_max: one_in(60_000),
            damage_one_in: 0,
        }
    }
}

/// What has happened in a world, for a look at how much the seeds try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Application messages delivered, both ways.
    pub delivered: u64,
    /// Connections made.
    pub connections: u64,
    /// Sessions ended by a verdict, a timeout among them.
    pub verdicts: u64,
    /// Virtual time until all was well, in nanoseconds.
    pub ended_ns: u64,
}

/// Two sessions and what lies between them; side 0 is the initiator.
struct World {
    random: Random,
    faults: Faults,
    /// Whether messages were ever damaged, so that one side may find fault with the other.
    damages: bool,
    now: u64,
    peers: [Peer; 2],
    /// `wires[side]` carries what `side` writes.
    wires: [Wire; 2],
    /// Whether a side believes to have a connection.
    up: [bool; 2],
    /// When a side notices that the connection is cut.
    notices_at: [Option<u64>; 2],
    cut: bool,
    connects_at: u64,
    acts_at: u64,
    summary: Summary,
}

/// Runs the world of this seed to its end.
///
/// # Panics
/// If a law is broken.
#[must_use]
pub fn run(seed: u64) -> Summary {
    run_with(seed, Faults::any(seed), ResetPolicy::NEVER)
}

/// Runs the world of this seed with these faults. With another policy than `Never` messages may be
/// lost at a reset; their order still holds, and none comes twice.
///
/// # Panics
/// If a law is broken.
#[must_use]
pub fn run_with(seed: u64, faults: Faults, reset: ResetPolicy) -> Summary {
    let mut world = World::new(seed, faults, reset);
    let actions = 50 + world.random.below(150);
    for _ in 0..actions {
        world.step_to_action();
        world.act();
    }
    world.faults = Faults::NONE;
    let begun = world.now;
    while !world.is_well(reset) {
        if world.now >= begun + QUIET_MAX {
            world.check_order(reset);
            panic!("nothing moves any more: {world}");
        }
        world.acts_at = u64::MAX;
        world.step();
    }
    world.check_order(reset);
    world.summary.ended_ns = world.now;
    world.summary.delivered = world.peers.iter().map(|p| p.delivered.len() as u64).sum();
    world.summary
}

fn config(random: &mut Random, role: Role, begin_string: BeginString) -> Config {
    let id = match role {
        Role::Initiator => SessionId::new(begin_string, "CLIENT", "VENUE"),
        Role::Acceptor => SessionId::new(begin_string, "VENUE", "CLIENT"),
    };
    let mut config = Config::new(id, role);
    config.default_appl_ver_id = (begin_string == BeginString::Fixt11).then_some(ApplVerId(9));
    config.heart_bt_int_s = [1, 2, 5, 30][random.below(4)];
    if random.below(3) == 0 {
        // So few that most of a gap must be asked for again.
        config.held_messages_max = random.below(4);
        config.held_bytes_max = 400;
    }
    config
}

impl World {
    fn new(seed: u64, faults: Faults, reset: ResetPolicy) -> Self {
        // Another stream than the one that chose the faults.
        let mut random = Random::new(!seed);
        let begin_string = BeginString::ALL[random.below(BeginString::ALL.len())];
        let mut peer = |role| {
            let mut config = config(&mut random, role, begin_string);
            config.reset = reset;
            let mut peer = Peer::new(config);
            peer.answer_one_in = [0, 2, 5][random.below(3)];
            peer
        };
        Self {
            peers: [peer(Role::Initiator), peer(Role::Acceptor)],
            random,
            damages: faults.damage_one_in > 0,
            faults,
            now: SECOND,
            wires: [Wire::default(), Wire::default()],
            up: [false, false],
            notices_at: [None, None],
            cut: false,
            connects_at: SECOND,
            acts_at: 2 * SECOND,
            summary: Summary::default(),
        }
    }

    fn step_to_action(&mut self) {
        while self.now < self.acts_at {
            self.step();
        }
        let pause_ms = if self.random.below(10) == 0 { 10_000 } else { 100 };
        self.acts_at = self.now + 1 + self.random.below(pause_ms) as u64 * MS;
    }

    fn chance(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    /// What the applications, or fate, do of their own accord.
    fn act(&mut self) {
        let side = self.random.below(2);
        if self.chance(self.faults.cut_one_in) {
            self.cut();
        } else if self.chance(self.faults.restart_one_in) {
            if self.up[side] {
                self.lose(side);
            }
            self.peers[side].restart();
        } else if self.chance(self.faults.logout_one_in) {
            self.peers[side].logout(self.now);
        } else {
            for _ in 0..=self.random.below(5) {
                self.peers[side].send(self.now);
            }
        }
        self.write(side);
    }

    /// The connection breaks: what is under way is lost, and each side learns of it some time.
    fn cut(&mut self) {
        self.cut = true;
        for side in [0, 1] {
            self.wires[side].clear();
            let unnoticed_ms = self.random.below(self.faults.unnoticed_ms_max + 1) as u64;
            self.notices_at[side] = Some(self.now + unnoticed_ms * MS);
        }
    }

    /// All that happens next, at one moment.
    fn step(&mut self) {
        self.now = self.next_at().max(self.now);
        for steps in 0.. {
            assert!(steps < STEPS_PER_MOMENT_MAX, "the clock stands still: {self}");
            if !self.step_now() {
                return;
            }
        }
    }

    fn next_at(&self) -> u64 {
        let mut next = self.acts_at;
        if self.up == [false, false] {
            next = next.min(self.connects_at);
        }
        for side in [0, 1].into_iter().filter(|&side| self.up[side]) {
            let arrives_at = self.wires[1 - side].next_at();
            let times =
                [self.notices_at[side], arrives_at, self.peers[side].session.next_deadline()];
            next = times.into_iter().flatten().fold(next, u64::min);
        }
        assert!(next < u64::MAX, "nothing will ever happen: {self}");
        next
    }

    /// One thing that is due; answers whether there was one.
    fn step_now(&mut self) -> bool {
        if self.up == [false, false] && self.now >= self.connects_at {
            self.connect();
            return true;
        }
        for side in [0, 1] {
            if !self.up[side] {
                continue;
            }
            if self.notices_at[side].is_some_and(|at| at <= self.now) {
                self.lose(side);
                return true;
            }
            if let Some(piece) = self.wires[1 - side].read(self.now) {
                if piece.is_empty() {
                    self.lose(side);
                } else {
                    let read = self.peers[side].read(self.now, &piece, &mut self.random);
                    self.go_on(side, read);
                }
                return true;
            }
            if self.peers[side].session.next_deadline().is_some_and(|at| at <= self.now) {
                let ticked = self.peers[side].tick(self.now);
                self.go_on(side, ticked);
                return true;
            }
        }
        false
    }

    fn connect(&mut self) {
        self.cut = false;
        self.notices_at = [None, None];
        self.up = [true, true];
        self.summary.connections += 1;
        for side in [1, 0] {
            self.wires[side].clear();
            self.peers[side].connected(self.now);
            self.write(side);
        }
    }

    fn go_on(&mut self, side: usize, outcome: Result<(), Disconnect>) {
        self.write(side);
        if let Err(reason) = outcome {
            let fair = matches!(
                reason,
                Disconnect::LoggedOut
                    | Disconnect::LogoutTimeout
                    | Disconnect::LogonTimeout
                    | Disconnect::HeartbeatTimeout
            );
            assert!(fair || self.damages, "side {side} blames the other: {reason}; {self}");
            self.summary.verdicts += 1;
            self.lose(side);
        }
    }

    /// The connection takes what the session has written.
    fn write(&mut self, side: usize) {
        let leaving = std::mem::take(&mut self.peers[side].leaving);
        if self.up[side] && self.up[1 - side] && !self.cut {
            self.wires[side].write(self.now, &leaving, &mut self.random, &self.faults);
        }
    }

    /// One side's end of the connection closes: the other finds the end of the stream.
    fn lose(&mut self, side: usize) {
        self.up[side] = false;
        self.peers[side].disconnected();
        self.wires[1 - side].clear();
        if self.up[1 - side] && !self.cut {
            self.wires[side].end(self.now, &mut self.random, &self.faults);
        }
        self.connects_at = self.now + self.random.below(3_000) as u64 * MS;
    }

    /// Whether everything has been delivered and nobody waits for anything.
    fn is_well(&self, reset: ResetPolicy) -> bool {
        let [a, b] = &self.peers;
        let agree = a.session.next_num_in() == b.session.next_num_out()
            && b.session.next_num_in() == a.session.next_num_out();
        let all = reset != ResetPolicy::NEVER || (a.sent == b.delivered && b.sent == a.delivered);
        agree
            && all
            && a.is_quiet()
            && b.is_quiet()
            && self.wires.iter().all(|w| w.next_at().is_none())
    }

    /// What was delivered was sent, in that order, and each once.
    fn check_order(&self, reset: ResetPolicy) {
        for side in [0, 1] {
            let (sent, delivered) = (&self.peers[side].sent, &self.peers[1 - side].delivered);
            assert!(delivered.is_sorted_by(|a, b| a < b), "twice or out of order: {delivered:?}");
            assert!(delivered.iter().all(|id| sent.binary_search(id).is_ok()), "never sent");
            let kept = self.peers[side].resets == 0;
            assert!(reset != ResetPolicy::NEVER || kept, "nobody has asked for a reset");
        }
    }
}

/// Where both sides stand, for a law that is broken.
impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {} ms; cut: {}; {:?}", self.now / MS, self.cut, self.summary)?;
        for side in [0, 1] {
            let (peer, other) = (&self.peers[side], &self.peers[1 - side]);
            writeln!(
                f,
                "side {side}, up: {}: {peer}; {} of its {} messages delivered, last {:?}; \
                 under way {}",
                self.up[side],
                other.delivered.len(),
                peer.sent.len(),
                other.delivered.last(),
                self.wires[side],
            )?;
        }
        Ok(())
    }
}
