//! Session settings that the input determines.

use std::time::Duration;

use transfix::{
    ApplVerId, BeginString, Durability, GarbledPolicy, Offline, Role, Secret, SessionId,
    SessionSettings, Throttle, ThrottleAction, TooLow, TooLowAtLogon, Unavailable,
    UnavailableAction, Unsent,
};

use crate::Input;

/// Returns settings that the input determines, and that the checks of a settings file accept.
pub(crate) fn any(input: &mut Input<'_>) -> SessionSettings {
    let choices = input.byte();
    let begin_string = BeginString::ALL[usize::from(choices) % BeginString::ALL.len()];
    let role = if choices & 64 == 0 { Role::Acceptor } else { Role::Initiator };
    let mut s = SessionSettings::new(role, &SessionId::new(begin_string, "US", "THEM"), "");
    s.store.durability = Durability::Memory;
    s.protocol.default_appl_ver_id = (begin_string == BeginString::Fixt11).then_some(ApplVerId(9));
    s.protocol.heart_bt_int = Duration::from_secs(u64::from(input.byte() % 40));
    s.protocol.sending_time_tolerance = Duration::from_secs(u64::from(choices & 128));
    s.validation.message_bytes_max = 4_000;
    s.queue.queued_bytes_max = 3_000;
    s.protocol.held_messages_max = usize::from(input.byte() % 8);
    s.protocol.held_bytes_max = 2_000;
    s.threads.turn_messages_max = u32::from(input.byte() % 4) + 1;
    if input.flag() {
        s.protocol.field_bytes_max = 64;
    }
    for switch in [
        &mut s.validation.validate,
        &mut s.validation.validate_check_sum,
        &mut s.protocol.check_comp_ids,
        &mut s.protocol.silent_disconnect,
        &mut s.validation.search_garbled,
        &mut s.route_third_party,
        &mut s.store.keep_outbound,
        &mut s.store.keep_inbound,
        &mut s.protocol.reset_on.logon,
        &mut s.protocol.reset_on.logout,
        &mut s.protocol.reset_on.disconnect,
        &mut s.protocol.reset_on.error,
        &mut s.numbers.request_missing,
        &mut s.numbers.send_last_processed,
        &mut s.numbers.next_expected,
        &mut s.resend.closed_ranges,
        &mut s.resend.redundant_requests,
        &mut s.resend.answer_poss_dup,
        &mut s.resend.resend_rejects,
        &mut s.resend.orig_sending_time_required,
        &mut s.timing.watch_silence,
        &mut s.timing.logout_when_silent,
        &mut s.timing.impose_heart_bt_int,
        &mut s.timing.same_heart_bt_int,
        &mut s.logon.check_encrypt_method,
        &mut s.logon.quiet,
    ] {
        *switch = input.flag();
    }
    for name in transfix_codec::Switches::NAMES {
        if let Some(switch) = s.validation.checks.named(name) {
            *switch = input.flag();
        }
    }
    tables(&mut s, input);
    s
}

fn tables(s: &mut SessionSettings, input: &mut Input<'_>) {
    let small = |input: &mut Input<'_>| u32::from(input.byte() % 6);
    s.numbers.too_low = [TooLow::Logout, TooLow::Reject, TooLow::Ignore][small(input) as usize % 3];
    if input.flag() {
        s.numbers.too_low_at_logon = TooLowAtLogon::Accept;
    }
    s.numbers.gap_at_logon_max = small(input);
    s.resend.request_max = small(input);
    s.resend.repeat_after = Duration::from_secs(small(input).into());
    s.resend.repeats_max = small(input);
    s.resend.answered_max = small(input);
    s.resend.same_requests_max = small(input);
    s.validation.garbled = if input.flag() { GarbledPolicy::Reject } else { GarbledPolicy::Skip };
    s.queue.offline = [Offline::Refuse, Offline::Store, Offline::Queue][small(input) as usize % 3];
    s.queue.queue_pause = Duration::from_millis(100) * small(input);
    s.queue.unsent = if input.flag() { Unsent::Return } else { Unsent::Keep };
    s.unavailable = Unavailable {
        retries: small(input) % 3,
        delay: Duration::from_millis(500),
        then: [
            UnavailableAction::Reject,
            UnavailableAction::Silence,
            UnavailableAction::Disconnect,
        ][small(input) as usize % 3],
    };
    if input.flag() {
        let action = if input.flag() { ThrottleAction::Reject } else { ThrottleAction::Disconnect };
        let msg_type = ["D", "8", "ZZ"][small(input) as usize % 3].to_owned();
        s.protocol.throttles.push(Throttle {
            msg_type,
            messages_max: 1,
            interval: Duration::from_secs(1),
            action,
        });
    }
    s.protocol.reset_after = Duration::from_hours(1) * (small(input) % 2);
    if s.begin_string >= BeginString::Fix43 && s.role == Role::Acceptor && input.byte() % 8 == 0 {
        s.logon.expected_password = Some(Secret::new("sesame".to_owned()));
    }
    s.logon.max_message_size = small(input) * 1_000;
    if s.begin_string >= BeginString::Fix43 && input.byte() % 8 == 0 {
        s.logon.test_message_indicator = Some(true);
    }
}
