//! The random choices that a seed determines: the kind of world, the settings of both sides, and
//! the faults.

use std::time::Duration;

use transfix::{
    ApplVerId, BeginString, Offline, Precision, ResetPolicy, Role, SessionId, SessionSettings,
    Unavailable, UnavailableAction, Unsent,
};

use transfix::schedule::{NumbersAtOpening, Outside, ScheduleSettings, WindowSettings};
use transfix_session::{
    NumbersConfig, ResendConfig, Secret, Throttle, ThrottleAction, TimingConfig,
};
use transfix_store::{Durability, Options};

use super::app::PASSWORD;
use super::net::NetworkConditions;
use super::observer::Tolerance;
use super::side::Held;
use crate::random::Random;

/// The kind of a world: the events and faults that the world simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorldKind {
    /// Connections break, stall, deliver fragments, fill up, are refused, and go silent.
    Links,
    /// Processes crash at any moment and restart.
    Crashes,
    /// Disks are full, fail to sync, or reject changes.
    Disks,
    /// Sequence numbers are reset, by settings or by schedule.
    Resets,
    /// Bytes are damaged in transit.
    Damage,
    /// Wall clocks jump forward and back.
    Clocks,
    /// Operators request resends, reset sequence numbers, and skip sequence numbers.
    Operators,
    /// The kinds above combined, except `Damage`.
    Mixed,
    /// Applications are temporarily unavailable, and messages exceed the limits.
    Applications,
    /// Schedule windows of the sessions open and close.
    Schedules,
    /// A third party injects messages into the connection of two honest sides.
    Forgeries,
    /// The counterparty violates the protocol.
    Hostile,
    /// Two whole engines run with all their threads.
    Engines,
}

impl WorldKind {
    /// All kinds of worlds, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::Links,
        Self::Crashes,
        Self::Disks,
        Self::Resets,
        Self::Damage,
        Self::Clocks,
        Self::Operators,
        Self::Mixed,
        Self::Applications,
        Self::Schedules,
        Self::Forgeries,
        Self::Hostile,
        Self::Engines,
    ];

    /// Returns the kind of the world with this seed. Few seeds run whole engines, because such a
    /// world takes as long as a hundred other worlds.
    #[must_use]
    pub const fn of(seed: u64) -> Self {
        if seed % 80 == 79 {
            return Self::Engines;
        }
        Self::ALL[(seed % (Self::ALL.len() as u64 - 1)) as usize]
    }

    /// Returns the name of the kind on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Links => "links",
            Self::Crashes => "crashes",
            Self::Disks => "disks",
            Self::Resets => "resets",
            Self::Damage => "damage",
            Self::Clocks => "clocks",
            Self::Operators => "operators",
            Self::Mixed => "mixed",
            Self::Applications => "applications",
            Self::Schedules => "schedules",
            Self::Forgeries => "forgeries",
            Self::Hostile => "hostile",
            Self::Engines => "engines",
        }
    }

    /// Returns the kind with this command-line name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The odds of each random action: one in the given number, or never for 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Odds {
    pub(super) cut: usize,
    pub(super) close: usize,
    pub(super) logout: usize,
    pub(super) restart: usize,
    pub(super) crash: usize,
    pub(super) jump: usize,
    pub(super) disk_fault: usize,
    pub(super) operate: usize,
    /// True if operators also reset and skip sequence numbers.
    pub(super) operator_resets: bool,
    /// True if operators also reset the sequence numbers of a logged-on session.
    pub(super) in_session_resets: bool,
    /// The odds that several hours pass without an action.
    pub(super) pause_h: usize,
    pub(super) flood: usize,
    pub(super) forge: usize,
    pub(super) unnoticed_ms_max: usize,
}

/// All random choices that are made before a world begins.
pub(super) struct Plan {
    pub(super) kind: WorldKind,
    pub(super) settings: [SessionSettings; 2],
    pub(super) held: Held,
    pub(super) store: [Options; 2],
    /// True for each side whose commits become durable with a delay.
    pub(super) is_delayed: [bool; 2],
    pub(super) weather: NetworkConditions,
    pub(super) odds: Odds,
    pub(super) actions: usize,
    pub(super) answer_one_in: [usize; 2],
    pub(super) refuse_one_in: usize,
    pub(super) decline_one_in: usize,
    pub(super) deny_one_in: usize,
    pub(super) later_one_in: usize,
    pub(super) text_bytes_max: usize,
    /// The maximum jump of a wall clock, in seconds.
    pub(super) jump_s_max: usize,
}

impl Plan {
    pub(super) fn draw(random: &mut Random, kind: WorldKind) -> Self {
        let versions = match kind {
            // These worlds use BusinessMessageReject(j), which FIX 4.0 and 4.1 do not define.
            WorldKind::Applications | WorldKind::Schedules => &BeginString::ALL[2..],
            _ => &BeginString::ALL,
        };
        let begin_string = versions[random.below(versions.len())];
        let mut odds = odds(random, kind);
        let in_session = InSession::draw(random, begin_string, kind);
        odds.in_session_resets = in_session.by_hand;
        odds.pause_h = usize::from(in_session.after_h != [0; 2]);
        let wide_clocks =
            matches!(kind, WorldKind::Clocks | WorldKind::Mixed) && random.below(2) == 0;
        let mut settings = both_sides(random, (kind, begin_string), &in_session);
        let mut weather = weather(random, kind);
        if odds.jump > 0 && !wide_clocks {
            // Without this, a message that stalls could be too old for the clock of the receiver,
            // and a rejection would be right.
            weather.stall_ms_max = 0;
            weather.capacity = 1 << 20;
        }
        if wide_clocks || (weather.stall_ms_max > 0 && weather.capacity < 100_000) {
            // Without this, a message that is delayed by minutes would rightly be rejected as too
            // old.
            settings
                .iter_mut()
                .for_each(|settings| settings.protocol.sending_time_tolerance = Duration::ZERO);
        }
        // With single-byte fragments or small buffers, messages must be short.
        let narrow = weather.fragment_one_in == 1 || weather.capacity < 1_000;
        let text_bytes_max = if narrow { 0 } else { [0, 100, 100, 2_000][random.below(4)] };
        let held = held(random, settings[0].resend);
        let deny_one_in = if kind == WorldKind::Applications { [0, 3][random.below(2)] } else { 0 };
        Self {
            kind,
            settings,
            held,
            store: [(); 2].map(|()| options(random)),
            weather,
            odds,
            // Most worlds are short, because most failures appear early; a few worlds are long.
            actions: if random.below(20) == 0 { 150 } else { 8 + random.below(25) },
            answer_one_in: [(); 2].map(|()| [0, 2, 5][random.below(3)]),
            refuse_one_in: if random.below(5) == 0 { 5 } else { 0 },
            deny_one_in,
            // Late answers require a world that allows refusals, because an answer after the
            // timeout counts as a refusal.
            later_one_in: if deny_one_in > 0 { [0, 2][random.below(2)] } else { 0 },
            decline_one_in: if kind == WorldKind::Applications {
                [0, 2, 4][random.below(3)]
            } else {
                0
            },
            text_bytes_max,
            is_delayed: [(); 2].map(|()| kind == WorldKind::Crashes && random.below(3) == 0),
            jump_s_max: if wide_clocks { 100_000 } else { 50 },
        }
    }

    pub(super) fn tolerance(&self) -> Tolerance {
        let never = self.policies() == [ResetPolicy::NEVER; 2];
        Tolerance {
            silent_resets: !never || self.restarts_by_schedule(),
            asked_resets: self.settings[0].protocol.reset_on.logon
                || self.odds.operator_resets
                || self.resets_in_session(),
            complete: self.weather.damage_one_in == 0
                && self.odds.forge == 0
                && self.held.messages_max > 100
                && !self.resets(),
            jumps: self.odds.jump > 0,
            resend_rejects: self.settings[0].resend.resend_rejects,
            damage: self.weather.damage_one_in > 0,
            refusals: (self.refuse_one_in > 0
                && self.settings[0].begin_string < BeginString::Fix42)
                || self.odds.forge > 0,
            honest: true,
        }
    }

    /// Returns true if the world has resets, which may lose messages.
    pub(super) fn resets(&self) -> bool {
        let never = self.policies() == [ResetPolicy::NEVER; 2];
        let by_schedule = self.restarts_by_schedule();
        self.odds.operator_resets || self.resets_in_session() || by_schedule || !never
    }

    fn restarts_by_schedule(&self) -> bool {
        let schedule = self.settings[0].schedule.as_ref();
        schedule.is_some_and(|schedule| schedule.numbers == NumbersAtOpening::Restart)
    }

    /// Returns true if messages can wait in queues, not counting the messages that callbacks send.
    pub(super) fn queues(&self) -> bool {
        let queues = |s: &SessionSettings| {
            s.queue.offline == Offline::Queue || !s.queue.queue_pause.is_zero()
        };
        self.settings.iter().any(queues)
    }

    fn policies(&self) -> [ResetPolicy; 2] {
        self.settings.each_ref().map(|settings| settings.protocol.reset_on)
    }

    pub(super) fn resets_in_session(&self) -> bool {
        let timed = |s: &SessionSettings| {
            s.protocol.reset_at.is_some() || !s.protocol.reset_after.is_zero()
        };
        self.odds.in_session_resets || self.settings.iter().any(timed)
    }
}

/// Draws random settings that apply to both sides.
fn both_sides(
    random: &mut Random,
    (kind, begin_string): (WorldKind, BeginString),
    in_session: &InSession,
) -> [SessionSettings; 2] {
    let reset = match kind {
        WorldKind::Resets | WorldKind::Mixed => policies(random, begin_string, kind),
        _ => [ResetPolicy::NEVER; 2],
    };
    // Long heartbeat intervals reduce the number of events in simulated hours.
    let intervals = match in_session.after_h {
        [0, 0] => &[1, 2, 5, 30, 30, 0][..],
        _ => &[600, 0],
    };
    let heart_bt_int = Duration::from_secs(intervals[random.below(intervals.len())]);
    let offline = if random.below(3) == 0 { Offline::Store } else { Offline::Refuse };
    let precision = [None, Some(Precision::Nanos)][random.below(2)]
        .filter(|_| begin_string >= BeginString::Fix44);
    let appl_ver_id = (begin_string == BeginString::Fixt11).then_some(7 + random.below(3));
    let (resend, numbers, timing) = switches(random);
    let validate = random.below(3) == 0;
    let mut settings = [Role::Initiator, Role::Acceptor].map(|role| {
        let id = match role {
            Role::Initiator => SessionId::new(begin_string, "CLIENT", "VENUE"),
            Role::Acceptor => SessionId::new(begin_string, "VENUE", "CLIENT"),
        };
        let mut settings = SessionSettings::new(role, &id, "");
        settings.protocol.default_appl_ver_id = appl_ver_id.map(|version| ApplVerId(version as u8));
        settings.protocol.heart_bt_int = heart_bt_int;
        settings.protocol.reset_on = reset[role as usize];
        settings.protocol.reset_at = in_session.at_s[role as usize];
        settings.protocol.reset_after = Duration::from_hours(in_session.after_h[role as usize]);
        settings.protocol.precision = precision;
        settings.validation.validate = validate;
        // Test orders have only a few fields, so the check for required fields is off.
        settings.validation.checks.required_tags = false;
        settings.logon.password = Some(Secret::new(PASSWORD.to_owned()));
        settings.queue.offline = offline;
        settings.resend = resend;
        settings.numbers = numbers;
        settings.timing = timing;
        settings.queue.queued_bytes_max = [2_000, 1 << 20][random.below(2)];
        settings
    });
    if kind == WorldKind::Applications {
        burden(random, &mut settings);
    }
    if kind == WorldKind::Schedules {
        let schedule = hours(random);
        settings.iter_mut().for_each(|settings| settings.schedule = Some(schedule.clone()));
    }
    settings
}

/// Draws limits for the messages held behind a gap. Some limits are so low that most of a gap must
/// be requested again.
fn held(random: &mut Random, resend: ResendConfig) -> Held {
    match random.below(3) {
        0 if resend.closed_ranges || resend.request_max > 0 => {
            // A limit of 0 would stall such a session forever, because messages that arrive during
            // a resend would always be dropped.
            Held { messages_max: 3 + random.below(4), bytes_max: 8_000 }
        }
        0 => Held { messages_max: random.below(4), bytes_max: 400 },
        _ => Held { messages_max: 10_000, bytes_max: 1 << 20 },
    }
}

/// In-session resets.
#[derive(Default)]
struct InSession {
    by_hand: bool,
    at_s: [Option<u32>; 2],
    after_h: [u64; 2],
}

impl InSession {
    fn draw(random: &mut Random, begin_string: BeginString, kind: WorldKind) -> Self {
        // FIX 4.0 has no ResetSeqNumFlag(141), which some of these resets need.
        let wanted = match kind {
            WorldKind::Resets | WorldKind::Operators => 2,
            WorldKind::Mixed => 4,
            _ => return Self::default(),
        };
        if begin_string == BeginString::Fix40 || random.below(wanted) > 0 {
            return Self::default();
        }
        let mut drawn = Self { by_hand: random.below(3) > 0, ..Self::default() };
        // Scheduled resets take place in the first minutes of the world, sometimes on both sides at
        // once.
        let same = 12 * 3_600 + random.below(60) as u32;
        for side in [0, 1] {
            drawn.at_s[side] = match random.below(4) {
                0 => Some(same),
                1 => Some(12 * 3_600 + random.below(100) as u32),
                _ => None,
            };
        }
        if random.below(6) == 0 {
            drawn.after_h = [1, random.below(3) as u64];
        }
        drawn
    }
}

/// Draws some schedule windows in the first minutes of the world, followed by a window that stays
/// open.
fn hours(random: &mut Random) -> ScheduleSettings {
    let time = |second: usize| format!("12:{:02}:{:02}", second / 60, second % 60);
    let mut schedule = ScheduleSettings::in_zone("UTC");
    let mut second = random.below(20);
    for _ in 0..1 + random.below(4) {
        let close = second + 3 + random.below(40);
        let (from, to) = (Some(time(second)), Some(time(close)));
        schedule.windows.push(WindowSettings { from, to, ..WindowSettings::default() });
        // Some windows begin exactly at the end of the window before.
        second = close + [0, 1, 10, 40][random.below(4)];
    }
    let (from, to) = (Some(time(second)), Some("23:00".to_owned()));
    schedule.windows.push(WindowSettings { from, to, ..WindowSettings::default() });
    match random.below(3) {
        0 => schedule.numbers = NumbersAtOpening::Restart,
        1 => schedule.numbers = NumbersAtOpening::Keep,
        _ => {
            schedule.numbers = NumbersAtOpening::Keep;
            schedule.outside = Outside::Reject("closed".to_owned());
        }
    }
    schedule
}

/// Draws limits and queue settings for applications that are unavailable, send too much, or send
/// too early.
fn burden(random: &mut Random, settings: &mut [SessionSettings; 2]) {
    let unavailable = Unavailable {
        retries: random.below(4) as u32,
        delay: Duration::from_millis([1, 50, 3_000][random.below(3)]),
        then: [
            UnavailableAction::Reject,
            UnavailableAction::Silence,
            UnavailableAction::Disconnect,
        ][random.below(3)],
    };
    let throttle = Throttle {
        msg_type: "D".to_owned(),
        messages_max: 1 + random.below(5) as u32,
        interval: Duration::from_millis([100, 2_000][random.below(2)]),
        action: ThrottleAction::Reject,
    };
    let throttles = if random.below(2) == 0 { vec![throttle] } else { Vec::new() };
    for settings in settings {
        settings.unavailable = unavailable;
        settings.protocol.throttles.clone_from(&throttles);
        settings.queue.offline = [Offline::Refuse, Offline::Store, Offline::Queue][random.below(3)];
        settings.queue.queue_pause = Duration::from_millis([0, 50, 3_000][random.below(3)]);
        settings.queue.unsent = [Unsent::Keep, Unsent::Return][random.below(2)];
    }
}

/// Draws reset policies under which the sequence numbers of both sides always restart together.
fn policies(random: &mut Random, begin_string: BeginString, kind: WorldKind) -> [ResetPolicy; 2] {
    // Adds further resets on one side, in cases where the next Logon(A) resets the sequence numbers
    // anyway.
    let mut more = |policy: ResetPolicy| ResetPolicy {
        logout: random.below(3) == 0,
        error: random.below(3) == 0,
        disconnect: policy.disconnect || random.below(3) == 0,
        ..policy
    };
    let logon = [more(ResetPolicy::LOGON), more(ResetPolicy::LOGON)];
    let at_end = [more(ResetPolicy::DISCONNECT), more(ResetPolicy::DISCONNECT)];
    let by_initiator = [more(ResetPolicy::LOGON), more(ResetPolicy::NEVER)];
    match random.below(if kind == WorldKind::Mixed { 8 } else { 4 }) {
        0 => at_end,
        1 => logon,
        // FIX 4.0 has no ResetSeqNumFlag(141), so only resets at logon are possible.
        2 if begin_string == BeginString::Fix40 => logon,
        2 => by_initiator,
        _ => [ResetPolicy::NEVER; 2],
    }
}

/// Draws session settings that change the exchanged messages but not the delivered messages.
fn switches(random: &mut Random) -> (ResendConfig, NumbersConfig, TimingConfig) {
    let mut chance = |one_in: usize| random.below(one_in) == 0;
    let resend = ResendConfig {
        request_max: if chance(3) { 5 } else { 0 },
        closed_ranges: chance(3),
        resend_rejects: chance(4),
        orig_sending_time_required: !chance(4),
        ..ResendConfig::default()
    };
    let numbers = NumbersConfig {
        send_last_processed: chance(4),
        next_expected: chance(4),
        ..NumbersConfig::default()
    };
    let timing = TimingConfig {
        margin_percent: if chance(3) { 60 } else { 20 },
        margin: Duration::from_millis(if chance(4) { 400 } else { 0 }),
        test_requests_max: if chance(3) { 2 } else { 1 },
        logout_when_silent: chance(4),
        ..TimingConfig::default()
    };
    (resend, numbers, timing)
}

fn odds(random: &mut Random, kind: WorldKind) -> Odds {
    let has = |kinds: &[WorldKind]| kind == WorldKind::Mixed || kinds.contains(&kind);
    let operator_resets = random.below(2) == 0 && has(&[WorldKind::Resets, WorldKind::Operators]);
    let mut one_in = |usual: usize, wanted: bool| {
        let drawn = random.below(3);
        if wanted && drawn > 0 { usual } else { 0 }
    };
    Odds {
        cut: one_in(12, kind != WorldKind::Damage),
        close: one_in(20, true),
        logout: one_in(30, true),
        restart: one_in(30, true),
        crash: match has(&[WorldKind::Crashes]) {
            true => 6,
            false => one_in(15, matches!(kind, WorldKind::Applications | WorldKind::Schedules)),
        },
        disk_fault: if has(&[WorldKind::Disks]) { 6 } else { 0 },
        jump: if has(&[WorldKind::Clocks]) { 6 } else { 0 },
        operate: one_in(6, has(&[WorldKind::Operators, WorldKind::Resets])),
        operator_resets,
        in_session_resets: false,
        pause_h: 0,
        flood: one_in(20, true),
        forge: if kind == WorldKind::Forgeries { 4 } else { 0 },
        unnoticed_ms_max: one_in(60_000, true),
    }
}

/// Draws store options. Some segments are full almost at once, and others are large enough for the
/// whole world.
fn options(random: &mut Random) -> Options {
    Options {
        durability: [Durability::Process, Durability::Power][random.below(2)],
        segment_bytes_first: [300, 4_000, 30_000][random.below(3)],
        segment_bytes_max: [1_000, 60_000][random.below(2)],
    }
}

fn weather(random: &mut Random, kind: WorldKind) -> NetworkConditions {
    NetworkConditions {
        delay_ms_max: [1, 5, 20][random.below(3)],
        stall_ms_max: [0, 0, 15_000][random.below(3)],
        fragment_one_in: if random.below(20) == 0 { 1 } else { [0, 4][random.below(2)] },
        fragment_bytes_max: [1, 7, 20, 200][random.below(4)],
        damage_one_in: if kind == WorldKind::Damage { 40 } else { 0 },
        capacity: [200, 3_000, 30_000, 1 << 20][random.below(4)],
    }
}
