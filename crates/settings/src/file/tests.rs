//! Settings files that are accepted, and the errors of the other files.

use std::time::Duration;

use super::*;
use transfix_codec::{Switches, Tag};
use transfix_session::{ResendConfig, ResetPolicy, Secret, TimingConfig, TooLow, TooLowAtLogon};

const GOOD: &str = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
    sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n";

const INITIATOR: &str = "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
    sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:9880\"\n";

fn check(text: &str, expected: &str) {
    let error = Settings::parse("my.toml", text).unwrap_err().to_string();
    assert_eq!(error, expected, "{text}");
}

#[test]
fn defaults_are_overridden_by_the_session() {
    let text = format!("[defaults]\nheart_bt_int_s = 7\ncheck_comp_ids = false\n{GOOD}");
    let text = format!("{text}heart_bt_int_s = 9\n");
    let settings = Settings::parse("my.toml", &text).unwrap();
    assert_eq!(settings.sessions[0].protocol.heart_bt_int, Duration::from_secs(9));
    assert!(!settings.sessions[0].protocol.check_comp_ids);
}

/// A session's password replaces the one of the defaults, even if it is given in another form.
#[test]
fn a_password_of_the_session_replaces_one_of_the_defaults() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let text = format!(
        "[defaults]\nlogon.password = {{ env = \"NO_SUCH_VARIABLE\" }}\nlogon.username = \"u\"\n\
         {INITIATOR}logon.password = {{ file = \"{own}\" }}\n"
    );
    let settings = Settings::parse("my.toml", &text).unwrap();
    let logon = &settings.sessions[0].logon;
    assert_eq!(logon.username.as_deref(), Some("u"), "key by key");
    assert_eq!(logon.password.as_ref().map(Secret::reveal), Some("[package]"));
}

#[test]
fn a_wrong_default_is_one_where_no_session_has_a_value_of_its_own() {
    let text = format!("[defaults]\nheart_bt_int_s = \"x\"\n{GOOD}");
    let whole = "a whole number from 0 to 4294967295";
    check(&text, &format!("my.toml:2: `heart_bt_int_s` must be {whole}, not \"x\""));
    assert!(Settings::parse("my.toml", &format!("{text}heart_bt_int_s = 9\n")).is_ok());
}

#[test]
fn single_checks_are_switched() {
    let text = format!("{GOOD}checks = {{ codes = false, empty_groups = true }}\n");
    let settings = Settings::parse("my.toml", &text).unwrap();
    assert_eq!(
        settings.sessions[0].validation.checks,
        Switches { codes: false, empty_groups: true, ..Switches::default() }
    );
    check(
        &format!("{GOOD}checks = {{ code = false }}\n"),
        "my.toml:7: unknown key `code`; did you mean `codes`?",
    );
}

#[test]
fn dictionaries_by_name_path_alias_and_table() {
    let text = format!(
        "[dictionaries]\nVENUE = {{ base = \"FIX50SP2\", overlays = [\"a.xml\"] }}\n{}\
         dictionary = {{ base = \"VENUE\", overlays = [\"b.xml\"] }}\n\
         appl_versions = {{ 4 = \"FIX42\", X = \"VENUE\", Y = \"y.xml\" }}\n",
        GOOD.replace("FIX.4.4", "FIXT.1.1")
    );
    let settings = Settings::parse("my.toml", &text).unwrap();
    let source = |base: &str, overlays: &[&str]| DictionarySource {
        base: base.into(),
        scenario: None,
        overlays: overlays.iter().map(Into::into).collect(),
    };
    let session = &settings.sessions[0];
    assert_eq!(session.validation.dictionary, Some(source("FIX50SP2", &["a.xml", "b.xml"])));
    let versions: Vec<_> = session.validation.appl_versions.iter().collect();
    let expected = [
        (&"4".to_owned(), &source("FIX42", &[])),
        (&"X".to_owned(), &source("FIX50SP2", &["a.xml"])),
        (&"Y".to_owned(), &source("y.xml", &[])),
    ];
    assert_eq!(versions, expected);
    check(
        &format!("{GOOD}dictionary = 5\n"),
        "my.toml:7: `dictionary` must be a dictionary name, a path, or a table with base and \
         overlays, not 5",
    );
    check(
        &format!("{GOOD}appl_versions = {{ 4 = \"FIX42\" }}\n"),
        "my.toml:1: FIX.4.4:A->B: appl_versions is for FIXT.1.1 only",
    );
}

#[test]
fn tables_are_taken_over_key_by_key() {
    let text = format!(
        "[defaults]\nresend = {{ request_max = 5, closed_ranges = true }}\n\
         reset_on = [\"logout\"]\n{GOOD}resend.request_max = 7\n\
         numbers = {{ too_low = \"reject\", too_low_at_logon = \"accept\" }}\n\
         reset_on = [\"disconnect\", \"error\"]\nreset_at = \"17:00:01\"\n\
         [session.logon]\nexpected_username = \"us\"\n\
         expected_password = \"hush\"\nfields = [\"1603=A=B\"]\n\
         test_message_indicator = true\n[session.timing]\nmargin_ms = 200\n"
    );
    let session = &Settings::parse("my.toml", &text).unwrap().sessions[0];
    let resend = ResendConfig { request_max: 7, closed_ranges: true, ..Default::default() };
    assert_eq!(session.resend, resend);
    assert_eq!(session.numbers.too_low, TooLow::Reject);
    assert_eq!(session.numbers.too_low_at_logon, TooLowAtLogon::Accept);
    let reset_on = ResetPolicy { disconnect: true, error: true, ..ResetPolicy::NEVER };
    assert_eq!(session.protocol.reset_on, reset_on);
    assert_eq!(session.protocol.reset_at, Some(61_201));
    assert_eq!(session.logon.fields, [(Tag(1603), "A=B".to_owned())]);
    assert_eq!(session.logon.expected_password.as_ref().map(Secret::reveal), Some("hush"));
    assert!(!format!("{session:?}").contains("hush"));
    assert_eq!(
        session.timing,
        TimingConfig { margin: Duration::from_millis(200), ..Default::default() }
    );
}

#[test]
fn tables_are_read_strictly() {
    check(
        &format!("{GOOD}resend.request_maxx = 5\n"),
        "my.toml:7: unknown key `request_maxx`; did you mean `request_max`?",
    );
    check(
        &format!("{GOOD}numbers.too_low = \"rejected\"\n"),
        "my.toml:7: unknown value `rejected`; did you mean `reject`?",
    );
    check(
        &format!("{GOOD}reset_on = [\"logonn\"]\n"),
        "my.toml:7: unknown value `logonn`; did you mean `logon`?",
    );
    check(
        &format!("{GOOD}reset_at = \"24:00:00\"\n"),
        "my.toml:7: `24:00:00` is not a time of day such as 17:00:00",
    );
    check(
        &format!("{GOOD}logon.password = {{ env = \"NO_SUCH_VARIABLE\" }}\n"),
        "my.toml:7: the environment variable NO_SUCH_VARIABLE is not set",
    );
    check(
        &format!("{GOOD}logon.password = {{ var = \"X\" }}\n"),
        "my.toml:7: write the text itself, or { env = \"NAME\" }, { file = \"PATH\" } or { \
         command = [\"PROGRAM\", \"ARGUMENT\"] }",
    );
    check(
        &format!("{GOOD}logon.fields = [\"96\"]\n"),
        "my.toml:7: `96` is no field; write it as tag=value",
    );
    check(
        &format!("{GOOD}logon.fields = [\"108=5\"]\n"),
        "my.toml:7: FIX.4.4:A->B: logon.fields: tag 108 is written by the session layer or has \
         a setting of its own",
    );
}

#[test]
fn values_that_do_not_fit_each_other_are_refused() {
    let of_session = |keys: &str, expected: &str| {
        check(&format!("{GOOD}{keys}\n"), &format!("my.toml:1: FIX.4.4:A->B: {expected}"));
    };
    check(
        &format!("{INITIATOR}logon.new_password = \"x\"\n"),
        "my.toml:7: FIX.4.4:A->B: logon.new_password is for FIXT.1.1 only",
    );
    of_session(
        "timing.test_requests_max = 0",
        "timing.test_requests_max must be at least 1, \
        not 0",
    );
    of_session(
        "timing = { heart_bt_int_s_min = 9, heart_bt_int_s_max = 5 }",
        "timing.heart_bt_int_s_min 9 must not be above heart_bt_int_s_max 5",
    );
    check(
        &format!("{}logon.username = \"x\"\n", INITIATOR.replace("4.4", "4.2")),
        "my.toml:7: FIX.4.2:A->B: FIX.4.2 has no Username(553) and no Password(554); if the \
         counterparty requires these fields, write logon.fields = [\"553=...\"]",
    );
    check(
        &format!("{GOOD}logon.password = \"x\"\n"),
        "my.toml:7: FIX.4.4:A->B: logon.username, password and new_password are for initiators \
         only; an acceptor checks expected_username and expected_password",
    );
    check(
        &format!("{INITIATOR}logon.expected_password = \"x\"\n"),
        "my.toml:7: FIX.4.4:A->B: logon.expected_username and expected_password are for \
         acceptors only; an initiator sends username and password",
    );
    check(
        &format!("{}logon.expected_username = \"x\"\n", GOOD.replace("4.4", "4.2")),
        "my.toml:7: FIX.4.2:A->B: FIX.4.2 has no Username(553) and Password(554); \
         expected_username and expected_password require FIX.4.3 or later",
    );
    check(
        &format!("{}sender_location_id = \"x\"\n", GOOD.replace("4.4", "4.0")),
        "my.toml:1: FIX.4.0:A(,x)->B: FIX.4.0 has no LocationIDs; remove sender_location_id and \
         target_location_id",
    );
}

#[test]
fn a_version_without_username_takes_one_as_a_field() {
    let advised = format!("{}logon.fields = [\"553=x\", \"554=y\"]\n", GOOD.replace("4.4", "4.2"));
    assert!(Settings::parse("my.toml", &advised).is_ok());
}

#[test]
fn what_is_wrong_with_a_schedule_stands_in_a_line_of_its_own() {
    let zone = "[session.schedule]\nzone = \"Europe/London\"\n";
    let windows = "[[session.schedule.windows]]\ndays = \"mon\"\nfrom = \"08:00\"\n\
        to = \"17:00\"\n[[session.schedule.windows]]\ndays = \"tue\"\nfrom = \"08:00\"\n";
    for (keys, expected) in [
        (
            "schedule.zone = \"Europe/Londn\"".to_owned(),
            "7: FIX.4.4:A->B: schedule: unknown time zone `Europe/Londn`; did you mean \
             `Europe/London`?",
        ),
        (
            format!("{zone}from = \"08:00\"\nto = \"25:00\""),
            "10: FIX.4.4:A->B: schedule: `25:00` is not a time; write 17:00, 17:00:30, or fri \
             17:00",
        ),
        (
            format!("{zone}{windows}to = \"x\""),
            "16: FIX.4.4:A->B: schedule: `x` is not a time; write 17:00, 17:00:30, or fri 17:00",
        ),
        (
            format!("{zone}{windows}"),
            "13: FIX.4.4:A->B: schedule: `to` is missing: `from` requires this key",
        ),
        (
            format!("{zone}to = \"17:00\""),
            "7: FIX.4.4:A->B: schedule: `from` is missing: `to` requires this key",
        ),
        (
            format!("{zone}days = \"mon\""),
            "7: FIX.4.4:A->B: schedule: a window needs both from and to",
        ),
        (
            format!("{zone}from = \"mon 08:00\"\nto = \"17:00\""),
            "10: FIX.4.4:A->B: schedule: to = \"17:00\" has no day, but from = \"mon 08:00\" \
             has one: write a day in both or in neither",
        ),
        (
            format!("{zone}from = \"08:00\"\nto = \"fri 17:00\""),
            "9: FIX.4.4:A->B: schedule: from = \"08:00\" has no day, but to = \"fri 17:00\" has \
             one: write a day in both or in neither",
        ),
        (
            format!("{zone}[[session.schedule.windows]]\nclose = \"0 8 * * *\""),
            "9: FIX.4.4:A->B: schedule: `open` is missing: `close` requires this key",
        ),
        (
            format!("{zone}from = \"08:00\"\nto = \"17:00\"\nholidays = [\"2026-13-01\"]"),
            "11: FIX.4.4:A->B: schedule: holidays: `2026-13-01` is neither a date such as \
             2026-12-25 nor a readable file (No such file or directory (os error 2))",
        ),
        (
            format!("{zone}from = \"08:00\"\nto = \"17:00\"\noutside = {{ reject = \"no\" }}"),
            "11: FIX.4.4:A->B: schedule: outside = { reject = ... } keeps the session \
             connected, so the numbers cannot restart; write numbers = \"keep\"",
        ),
        (
            zone.to_owned(),
            "7: FIX.4.4:A->B: schedule: the schedule has no window; write from \
                           and to, or windows",
        ),
    ] {
        check(&format!("{GOOD}{keys}\n"), &format!("my.toml:{expected}"));
        let all = parse_or_all(Path::new("my.toml"), &format!("{GOOD}{keys}\n"));
        assert_eq!(all.unwrap_err().len(), 1, "{keys}");
    }
    // An error in a default is reported in the line of the default.
    let text = format!("[defaults]\nheart_bt_int_s = 5\nschedule = {{ zone = \"X\" }}\n{GOOD}");
    let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("my.toml:3: FIX.4.4:A->B: schedule: unknown time zone"), "{error}");
}

#[test]
fn all_entries_of_a_list_that_are_wrong_are_told() {
    for (session, keys, expected) in [
        (
            GOOD,
            "allow_from = [\"a\", \"::1\", \"10.0.0.0/33\"]",
            "allow_from: `a` is neither an IP address nor a subnet such as 10.1.0.0/16; \
             `10.0.0.0/33`: the number after `/` must be 0 to 32",
        ),
        (
            GOOD,
            "header_fields = [\"50=A\", \"115=B\", \"57=C\"]",
            "header_fields: tag 50: use the setting sender_sub_id instead; header_fields: tag 57: \
             use the setting target_sub_id instead",
        ),
        (
            INITIATOR,
            "failover = { addresses = [\"a\", \"b:1\", \"c:x\"] }",
            "failover.addresses: `a` has no port; write host:port, such as a:9880; \
             failover.addresses: `c:x`: the port must be 0 to 65535, not `x`",
        ),
        (
            INITIATOR,
            "logon.fields = [\"98=0\", \"96=x\", \"108=3\"]",
            "logon.fields: tag 98 is written by the session layer or has a setting of its own; \
             logon.fields: tag 108 is written by the session layer or has a setting of its own",
        ),
    ] {
        let text = format!("{session}{keys}\n");
        check(&text, &format!("my.toml:7: FIX.4.4:A->B: {expected}"));
    }
    let throttles = "[[session.throttles]]\nmsg_type = \"A\"\nmessages_max = 1\ninterval_ms = 1\n\
                     action = \"reject\"\n\
                     [[session.throttles]]\nmsg_type = \"D\"\nmessages_max = 1\ninterval_ms = 0\n\
                     action = \"reject\"\n";
    check(
        &format!("{GOOD}{throttles}"),
        "my.toml:7: FIX.4.4:A->B: throttles: `A` is not an application message type; throttles: \
         interval_ms of D must be at least 1",
    );
}

#[test]
fn addresses_that_are_none_name_the_line() {
    for (session, value, expected) in [
        (
            GOOD,
            "[\"10.1.2.3/16\"]",
            "allow_from: `10.1.2.3/16` has address bits set after the first 16; write \
             10.1.0.0/16 for the subnet, or 10.1.2.3 for this single address",
        ),
        (
            GOOD,
            "[\"::1\", \"fix.bank.example\"]",
            "allow_from: `fix.bank.example` is neither an IP address nor a subnet such as \
             10.1.0.0/16",
        ),
        (
            INITIATOR,
            "[\"10.1.0.0/16\"]",
            "allow_from is for acceptors only, because an initiator accepts no connections",
        ),
    ] {
        let text = format!("{session}allow_from = {value}\n");
        check(&text, &format!("my.toml:7: FIX.4.4:A->B: {expected}"));
    }
}

#[test]
fn dictionaries_that_do_not_exist_name_the_line() {
    let text = format!("{GOOD}dictionary = \"FIX45\"\n");
    let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("my.toml:7: FIX.4.4:A->B: "), "{error}");
    assert!(error.contains("'FIX45'") && error.contains("did you mean 'FIX4"), "{error}");
    let fixt = GOOD.replace("FIX.4.4", "FIXT.1.1");
    let text = format!("{fixt}[session.appl_versions]\n4 = \"FIX42\"\n9 = \"FIX5SP2\"\n");
    let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("my.toml:7: FIXT.1.1:A->B: "), "{error}");
}

#[test]
fn settings_of_quickfix_are_told_as_such() {
    for (text, line) in [
        ("# ours\n[DEFAULT]\nConnectionType=initiator\n[SESSION]\n", 2),
        ("[Session]\nBeginString=FIX.4.4\n", 1),
        ("\n\nConnectionType = acceptor\n", 3),
    ] {
        check(text, &format!("my.toml:{line}: {QUICKFIX}"));
    }
    check("[session]\n", "my.toml:1: write each session as [[session]], with two brackets");
}

#[test]
fn a_key_like_no_other_lists_them_all() {
    let text = format!("[defaults]\nzzz = 2\n{GOOD}");
    let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
    assert!(error.starts_with("my.toml:2: unknown key `zzz`; known are role, "), "{error}");
}

#[test]
fn errors_name_line_and_nearest_key() {
    check(
        &format!("{GOOD}hartbeat_int_s = 3\n"),
        "my.toml:7: unknown key `hartbeat_int_s`; did you mean `heart_bt_int_s`?",
    );
    check(
        &format!("{GOOD}mode = \"spinn\"\n"),
        "my.toml:7: unknown value `spinn`; did you mean `spin`?",
    );
    check(
        &format!("[engin]\nworkers = 2\n{GOOD}"),
        "my.toml:1: unknown section `engin`; did you mean `engine`?",
    );
    check(
        &format!("[engine]\nwokers = 2\n{GOOD}"),
        "my.toml:2: unknown key `wokers`; did you mean `workers`?",
    );
    check(
        &GOOD.replace("4.4", "4.9"),
        "my.toml:3: unknown value `FIX.4.9`; did you mean `FIX.4.4`?",
    );
    check(
        &format!("{GOOD}heart_bt_int_s = \"x\"\n"),
        "my.toml:7: `heart_bt_int_s` must be a whole number from 0 to 4294967295, not \"x\"",
    );
    check(
        &format!("{GOOD}{GOOD}"),
        "my.toml:7: session FIX.4.4:A->B appears twice, and a Logon(A) could not tell the two \
         apart; remove one, or give it other CompIDs",
    );
    // The settings that the error suggests are accepted.
    let initiator = GOOD.replace("acceptor", "initiator");
    check(
        &format!("{initiator}{initiator}"),
        "my.toml:7: session FIX.4.4:A->B appears twice; give one of them a qualifier",
    );
    let advised = format!("{initiator}{initiator}qualifier = \"2\"\n");
    assert!(Settings::parse("my.toml", &advised).is_ok());
    check(
        &format!("{GOOD}message_bytes_max = 10\n"),
        "my.toml:1: FIX.4.4:A->B: message_bytes_max must be at least 1024, not 10",
    );
    check(
        &GOOD.replace("FIX.4.4", "FIX.5.0SP2"),
        "my.toml:3: FIX 5.0 is begin_string = \"FIXT.1.1\" with default_appl_ver_id = 7 (5.0), \
         8 (SP1) or 9 (SP2)",
    );
    check(&GOOD.replace("address", "#"), "my.toml:1: the key `address` is missing");
    for (keys, missing) in [
        ("throttles = [{ msg_type = \"D\", interval_ms = 5 }]", "messages_max"),
        ("schedule = { from = \"08:00\" }", "zone"),
        ("dictionary = { overlays = [] }", "base"),
    ] {
        let expected = format!("my.toml:7: the key `{missing}` is missing");
        check(&format!("{GOOD}{keys}\n"), &expected);
    }
    check("", "my.toml:1: the file has no [[session]]");
    let cpu = "cpu = 2 requires a thread for this session alone (mode = \"dedicated\" or \
        \"spin\"), not \"pool\"; `cpus` of [engine] pins the threads of the pool";
    check(&format!("{GOOD}cpu = 2\n"), &format!("my.toml:7: FIX.4.4:A->B: {cpu}"));
    check(&format!("[defaults]\ncpu = 2\n{GOOD}"), &format!("my.toml:2: FIX.4.4:A->B: {cpu}"));
    assert!(Settings::parse("my.toml", &format!("{GOOD}cpu = 2\nmode = \"spin\"\n")).is_ok());
    check(
        &GOOD.replace("FIX.4.4", "FIXT.1.1").replace("acceptor", "initiator"),
        "my.toml:1: FIXT.1.1:A->B: a FIXT.1.1 initiator requires default_appl_ver_id, such as 9",
    );
}

/// A valid file with a table of each kind.
const WHOLE: &str = "[engine]\nworkers = 2\ncpus = []\n[defaults]\nheart_bt_int_s = 7\n\
    [dictionaries]\nours = { base = \"FIX44\" }\n[[session]]\nrole = \"acceptor\"\n\
    begin_string = \"FIX.4.4\"\nsender_comp_id = \"A\"\ntarget_comp_id = \"B\"\n\
    address = \"127.0.0.1:0\"\nlogon.expected_password = \"x\"\nmode = \"pool\"\n\
    throttles = [\n  { msg_type = \"D\", messages_max = 10, interval_ms = 1000 },\n]\n\
    schedule = { zone = \"UTC\", from = \"08:00\", to = \"16:00\" }\n";

/// Reading all errors finds the same errors as stopping at the first one. Each line of a valid file
/// is omitted, repeated, or given another value; the first error must then be among all errors, and
/// both ways accept the same files.
#[test]
fn who_looks_for_all_errors_finds_those_of_who_stops_at_the_first() {
    let lines: Vec<&str> = WHOLE.lines().collect();
    let with = |at: usize, line: &[String]| {
        let changed = |(n, old): (usize, &&str)| {
            if n == at { line.to_vec() } else { vec![(*old).to_owned()] }
        };
        lines.iter().enumerate().flat_map(changed).collect::<Vec<_>>().join("\n")
    };
    let mut several = 0;
    for (n, line) in lines.iter().enumerate() {
        let key = line.split(" = ").next().unwrap();
        let values = ["-1", "\"?\"", "[]", "{ a = 1 }", "true"];
        let mut all = vec![vec![], vec![(*line).to_owned(); 2], vec![format!("x{line}")]];
        all.extend(values.map(|value| vec![format!("{key} = {value}")]));
        all.push(vec![(*line).to_owned(), "nosuch = 1".to_owned(), "mode = \"fast\"".to_owned()]);
        for changed in all {
            let text = with(n, &changed);
            let first = parse(Path::new("a.toml"), &text);
            let every = parse_or_all(Path::new("a.toml"), &text);
            match (first, every) {
                (Ok(first), Ok(every)) => assert_eq!(first.sessions.len(), every.sessions.len()),
                (Err(first), Err(every)) => {
                    let is_there = every.iter().any(|error| error.line == first.line);
                    assert!(is_there, "{first}, {every:?}: {text}");
                    assert!(every.is_sorted_by(|a, b| a.line < b.line), "{every:?}");
                    several += usize::from(every.len() > 1);
                }
                (first, every) => panic!("{first:?}, {every:?}: {text}"),
            }
        }
    }
    assert!(several > 10, "{several} with more than one error");
}

#[test]
fn sessions_that_a_wrong_key_tells_apart_are_not_said_to_be_the_same() {
    let text = format!("{INITIATOR}{INITIATOR}qualifier = 5\n");
    let errors = parse_or_all(Path::new("a.toml"), &text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].message.starts_with("`qualifier` must be a text in quotes"), "{errors:?}");
}

/// Passwords are shown neither by `Debug` nor in errors. They may also be among the added fields of
/// a Logon(A), as was usual up to FIX 4.2.
#[test]
fn secrets_are_shown_neither_by_debug_nor_in_errors() {
    let session = INITIATOR.replace("4.4", "4.2");
    let keys = "logon.fields = [\"553=me\", \"554=hush\", \"9001=hush\"]\n\
        proxy = { kind = \"http\", address = \"p:1\", username = \"me\", password = \"hush\" }\n";
    let settings = Settings::parse("my.toml", &format!("{session}{keys}")).unwrap();
    let shown = format!("{settings:?}");
    assert!(!shown.contains("hush") && shown.contains("Tag(554)"), "{shown}");
    for line in [
        "logon.fields = [\"554:hush\"]",
        "logon.fields = [\"=hush\"]",
        "logon.fields = [\"hush=554\"]",
        "logon.fields = \"554=hush\"",
        "logon.password = [\"hush\"]",
        "logon.password = { env = \"NO_SUCH_VARIABLE\", file = \"hush\" }",
        "logon.password = hush",
        "logon = \"hush\"",
        "proxy = \"hush\"",
        "proxy = { kind = \"http\", address = \"p:1\", password = [\"hush\"] }",
    ] {
        let errors = parse_or_all(Path::new("my.toml"), &format!("{session}{line}\n"));
        let said = format!("{:?}", errors.unwrap_err());
        assert!(!said.contains("hush"), "{line}: {said}");
    }
}

/// A variable without a value causes only one error, although the text may be wrong in other ways
/// without its value.
#[test]
fn a_variable_without_a_value_is_one_error() {
    let session = "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
        sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:1\"\n";
    let table = [
        ("address", "address = \"${NO_SUCH_VARIABLE}\""),
        ("address", "address = \"b.example:${NO_SUCH_VARIABLE}\""),
        ("role", "role = \"${NO_SUCH_VARIABLE}\""),
        ("begin_string", "begin_string = \"FIX.${NO_SUCH_VARIABLE}\""),
        ("", "heart_bt_int_s = \"${NO_SUCH_VARIABLE}\""),
        ("", "validate = \"${NO_SUCH_VARIABLE}\""),
        ("", "mode = \"${NO_SUCH_VARIABLE}\""),
        ("", "reset_on = [\"logon\", \"${NO_SUCH_VARIABLE}\"]"),
        ("", "reset_at = \"${NO_SUCH_VARIABLE}\""),
        ("", "local_address = \"${NO_SUCH_VARIABLE}\""),
        ("", "dictionary = \"${NO_SUCH_VARIABLE}\""),
        ("", "logon.fields = [\"${NO_SUCH_VARIABLE}\"]"),
        ("", "failover = { addresses = [\"${NO_SUCH_VARIABLE}\"] }"),
        ("", "proxy = { kind = \"http\", address = \"${NO_SUCH_VARIABLE}\" }"),
        ("", "schedule = { zone = \"${NO_SUCH_VARIABLE}\", from = \"08:00\", to = \"17:00\" }"),
        ("", "[session.schedule]\nzone = \"UTC\"\nfrom = \"08:00\"\nto = \"${NO_SUCH_VARIABLE}\""),
        ("", "[engine]\nworkers = \"${NO_SUCH_VARIABLE}\""),
        ("", "[admin]\naddress = \"${NO_SUCH_VARIABLE}\""),
        ("", "[defaults]\nmode = \"${NO_SUCH_VARIABLE}\""),
        ("", "[dictionaries]\nvenue = \"${NO_SUCH_VARIABLE}\""),
    ];
    for (instead_of, line) in table {
        let is_kept =
            |line: &&str| instead_of.is_empty() || !line.starts_with(&format!("{instead_of} = "));
        let kept = session.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
        let text = format!("{kept}\n{line}\n");
        let errors = parse_or_all(Path::new("my.toml"), &text).unwrap_err();
        let shown: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 1, "{line}: {shown:#?}");
        assert!(shown[0].contains("variable NO_SUCH_VARIABLE is not set"), "{line}: {shown:?}");
    }
    // Other errors in the file are still reported.
    let text = format!("{session}mode = \"${{NO_SUCH_VARIABLE}}\"\nheart_bt_int_s = -1\n");
    assert_eq!(parse_or_all(Path::new("my.toml"), &text).unwrap_err().len(), 2);
    let inline = "schedule = { zone = \"${NO_SUCH_VARIABLE}\", from = \"25:00\", to = \"17:00\" }";
    let errors = parse_or_all(Path::new("my.toml"), &format!("{session}{inline}\n")).unwrap_err();
    assert!(errors[0].to_string().contains("NO_SUCH_VARIABLE"), "{errors:?}");
}
