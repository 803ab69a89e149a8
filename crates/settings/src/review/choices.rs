//! Warnings about keys that make a session less secure, and about keys without an effect.
//!
//! Invariant: a key causes a warning only if its value differs from the default.

use std::time::Duration;

use transfix_codec::Precision;
use transfix_session::{BeginString, ResetPolicy, Role, TooLow, TooLowAtLogon};

use super::Findings;
use crate::schedule::NumbersAtOpening;
use crate::{
    ApplicationSettings, Durability, Offline, QueueSettings, QueueWhenFull, SessionSettings,
    Settings, SlowConsumer, SocketSettings, StoreSettings, Unavailable,
};

/// A choice about which the review warns.
struct Choice {
    /// The name of the key by which the choice is made.
    key: &'static str,
    /// Returns true if the session's settings make the choice.
    is_made: fn(&SessionSettings) -> bool,
    /// Returns true if the choice has no effect in this session. For dangerous choices, always
    /// returns true, so that each of them causes a warning.
    is_idle: fn(&SessionSettings) -> bool,
    says: &'static str,
}

const fn dangerous(
    key: &'static str,
    is_made: fn(&SessionSettings) -> bool,
    says: &'static str,
) -> Choice {
    Choice { key, is_made, is_idle: |_| true, says }
}

const fn idle(
    key: &'static str,
    is_made: fn(&SessionSettings) -> bool,
    is_idle: fn(&SessionSettings) -> bool,
    says: &'static str,
) -> Choice {
    Choice { key, is_made, is_idle, says }
}

const DANGEROUS: &[Choice] = &[
    dangerous(
        "validate_check_sum",
        |s| !s.validation.validate_check_sum,
        "CheckSum(10) is not verified: damaged messages are accepted",
    ),
    dangerous(
        "check_comp_ids",
        |s| !s.protocol.check_comp_ids,
        "CompIDs are checked only in the Logon(A): later messages with other CompIDs are accepted",
    ),
    dangerous(
        "sending_time_tolerance_s",
        |s| s.protocol.sending_time_tolerance.is_zero(),
        "0 accepts any SendingTime(52): a wrong clock and old messages remain undetected",
    ),
    dangerous(
        "numbers",
        |s| !s.numbers.request_missing,
        "`request_missing = false`: missing messages are never requested, and are lost",
    ),
    dangerous(
        "numbers",
        |s| s.numbers.too_low != TooLow::Logout,
        "`too_low`: a counterparty that lost its sequence numbers stays connected, and its \
         messages are lost",
    ),
    dangerous(
        "numbers",
        |s| s.numbers.too_low_at_logon != TooLowAtLogon::Logout,
        "`too_low_at_logon = \"accept\"`: a loss of the counterparty's sequence numbers remains \
         undetected",
    ),
    dangerous(
        "timing",
        |s| !s.timing.watch_silence,
        "`watch_silence = false`: the loss of a silent counterparty remains undetected",
    ),
    dangerous(
        "heart_bt_int_s",
        |s| s.role == Role::Initiator && s.protocol.heart_bt_int.is_zero(),
        "0 disables heartbeats: the loss of a silent counterparty remains undetected",
    ),
    dangerous(
        "keep_outbound",
        |s| !s.store.keep_outbound,
        "no message is ever resent: a gap fill replaces each message that the counterparty missed",
    ),
    dangerous(
        "reset_on",
        |s| {
            let ResetPolicy { logon, disconnect, error, .. } = s.protocol.reset_on;
            logon || disconnect || error
        },
        "after such a reset neither side requests messages lost before the reset; `logout` resets \
         when no message is in transit",
    ),
    dangerous(
        "offline",
        |s| {
            let schedule = s.schedule.as_ref();
            s.queue.offline == Offline::Store
                && schedule.is_some_and(|schedule| schedule.numbers == NumbersAtOpening::Restart)
        },
        "`store`: messages stored while the schedule is closed are never sent, because the next \
         window restarts the numbers; `queue` keeps them",
    ),
    dangerous(
        "precision",
        |s| s.begin_string < BeginString::Fix42 && finer_than_seconds(s),
        "up to FIX 4.1, times have whole seconds: counterparties may reject a finer precision",
    ),
    dangerous(
        "logon",
        |s| s.logon.count_refusals,
        "`count_refusals = true`: a stranger who knows the CompIDs can advance the sequence \
         numbers",
    ),
];

fn finer_than_seconds(session: &SessionSettings) -> bool {
    session.protocol.precision.is_some_and(|precision| precision != Precision::Seconds)
}

fn is_acceptor(session: &SessionSettings) -> bool {
    session.role == Role::Acceptor
}

fn is_initiator(session: &SessionSettings) -> bool {
    session.role == Role::Initiator
}

const OF_INITIATOR: &str = "no effect: an acceptor does not connect";
const OF_ACCEPTOR: &str =
    "no effect: only an acceptor checks the HeartBtInt(108) that a counterparty requests";
const IN_MEMORY: &str = "no effect: with durability = \"memory\" the store has no files";

const IDLE: &[Choice] = &[
    idle(
        "numbers",
        |s| s.numbers.next_expected,
        |s| s.begin_string < BeginString::Fix44,
        "`next_expected` has no effect: NextExpectedMsgSeqNum(789) exists only from FIX 4.4 on",
    ),
    idle(
        "numbers",
        |s| s.numbers.send_last_processed,
        |s| s.begin_string < BeginString::Fix42,
        "`send_last_processed` has no effect: LastMsgSeqNumProcessed(369) exists only from FIX \
         4.2 on",
    ),
    idle(
        "logon",
        |s| s.logon.max_message_size > 0,
        |s| s.begin_string < BeginString::Fix42,
        "`max_message_size` has no effect: MaxMessageSize(383) exists only from FIX 4.2 on",
    ),
    idle(
        "logon",
        |s| s.logon.test_message_indicator.is_some(),
        |s| s.begin_string < BeginString::Fix43,
        "`test_message_indicator` has no effect: TestMessageIndicator(464) exists only from FIX \
         4.3 on",
    ),
    idle(
        "reset_at_zone",
        |s| !s.protocol.reset_at_zone.is_empty(),
        |s| s.protocol.reset_at.is_none(),
        "no effect without reset_at",
    ),
    idle(
        "queue_wait_ms",
        |s| s.queue.queue_wait != QueueSettings::default().queue_wait,
        |s| s.queue.queue_when_full != QueueWhenFull::Wait,
        "no effect without queue_when_full = \"wait\"",
    ),
    idle(
        "queue_pause_ms",
        |s| !s.queue.queue_pause.is_zero(),
        |s| s.queue.offline != Offline::Queue,
        "no effect without offline = \"queue\": no messages wait for a logon",
    ),
    idle(
        "slow_consumer_ms",
        |s| s.queue.slow_consumer_after != QueueSettings::default().slow_consumer_after,
        |s| s.queue.slow_consumer_bytes == 0,
        "no effect without slow_consumer_bytes",
    ),
    idle(
        "slow_consumer",
        |s| s.queue.slow_consumer != SlowConsumer::Tell,
        |s| s.queue.slow_consumer_bytes == 0,
        "no effect without slow_consumer_bytes: slow counterparties are not detected",
    ),
    idle(
        "unavailable",
        |s| s.unavailable.delay != Unavailable::default().delay,
        |s| s.unavailable.retries == 0,
        "`delay_ms` has no effect without `retries`",
    ),
    idle(
        "resend",
        |s| s.resend.repeats_max > 0,
        |s| s.resend.repeat_after.is_zero(),
        "`repeats_max` has no effect with `repeat_after_s = 0`: a resend request is never repeated",
    ),
    idle(
        "timing",
        |s| s.timing.margin_percent != 20,
        |s| !s.timing.margin.is_zero(),
        "`margin_percent` has no effect, because `margin_ms` replaces it",
    ),
    idle(
        "segment_bytes",
        |s| s.store.segment_bytes != StoreSettings::default().segment_bytes,
        |s| s.store.durability == Durability::Memory,
        IN_MEMORY,
    ),
    idle(
        "allow_network_store",
        |s| s.store.allow_network_store,
        |s| s.store.durability == Durability::Memory,
        IN_MEMORY,
    ),
    idle(
        "heart_bt_int_s",
        |s| s.protocol.heart_bt_int != Duration::from_secs(30),
        |s| is_acceptor(s) && !s.timing.impose_heart_bt_int,
        "no effect: an acceptor uses the HeartBtInt(108) of the Logon(A), unless \
         `timing.impose_heart_bt_int` is set",
    ),
    idle(
        "reconnect_interval_ms",
        |s| s.socket.reconnect_interval != SocketSettings::default().reconnect_interval,
        is_acceptor,
        OF_INITIATOR,
    ),
    idle(
        "reconnect_interval_max_ms",
        |s| s.socket.reconnect_interval_max != SocketSettings::default().reconnect_interval_max,
        is_acceptor,
        OF_INITIATOR,
    ),
    idle(
        "reconnect_backoff",
        |s| s.socket.reconnect_backoff != SocketSettings::default().reconnect_backoff,
        is_acceptor,
        OF_INITIATOR,
    ),
    idle(
        "reconnect_jitter_percent",
        |s| s.socket.reconnect_jitter_percent > 0,
        is_acceptor,
        OF_INITIATOR,
    ),
    idle(
        "reconnect_attempts_max",
        |s| s.socket.reconnect_attempts_max > 0,
        is_acceptor,
        OF_INITIATOR,
    ),
    idle(
        "connect_timeout_ms",
        |s| s.socket.connect_timeout != SocketSettings::default().connect_timeout,
        is_acceptor,
        OF_INITIATOR,
    ),
    idle(
        "timing",
        |s| s.timing.same_heart_bt_int,
        is_acceptor,
        "`same_heart_bt_int` has no effect: an acceptor does not request a HeartBtInt(108)",
    ),
    idle("timing", |s| s.timing.impose_heart_bt_int, is_initiator, OF_ACCEPTOR),
    idle("timing", |s| !s.timing.heart_bt_int_min.is_zero(), is_initiator, OF_ACCEPTOR),
    idle("timing", |s| !s.timing.heart_bt_int_max.is_zero(), is_initiator, OF_ACCEPTOR),
];

/// Warns about all dangerous and idle choices.
pub fn review(settings: &Settings, warnings: &mut Findings) {
    for choice in DANGEROUS {
        warn(choice, settings, warnings);
    }
    for choice in IDLE {
        warn(choice, settings, warnings);
    }
    if settings.engine.application_threads > 0 {
        return;
    }
    let in_pool = Choice {
        key: "application",
        is_made: |s| s.application != ApplicationSettings::default(),
        is_idle: |_| true,
        says: "no effect without `application_threads` in [engine]; only `transfix run` starts \
               such threads by default",
    };
    warn(&in_pool, settings, warnings);
}

fn warn(choice: &Choice, settings: &Settings, warnings: &mut Findings) {
    let Choice { key, is_made, is_idle, says } = choice;
    let made: Vec<_> = settings.sessions.iter().filter(|session| is_made(session)).collect();
    // No warning is needed if a key of `[defaults]` has an effect in at least one session.
    let counts = made.iter().any(|session| !is_idle(session));
    let idle = made.into_iter().filter(|session| is_idle(session));
    for session in idle.filter(|session| !counts || session.has_own(key)) {
        warnings.of(session, key, says);
    }
}
