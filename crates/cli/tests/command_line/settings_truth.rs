//! `transfix settings check` agrees with the commands: a file that passes the check starts, and a
//! file that cannot start fails the check.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::temp::TempDir;

use crate::command_line::running::Program;
use crate::command_line::{Run, run_in};

const ACCEPTOR: &str = "[[session]]\nrole = 'acceptor'\nbegin_string = 'FIX.4.4'\n\
    sender_comp_id = 'A'\ntarget_comp_id = 'B'\naddress = '127.0.0.1:0'\n";
const INITIATOR: &str = "[[session]]\nrole = 'initiator'\nbegin_string = 'FIX.4.4'\n\
    sender_comp_id = 'A'\ntarget_comp_id = 'C'\naddress = '127.0.0.1:1'\n";

fn check(dir: &TempDir, text: &str, flags: &[&str]) -> Run {
    fs::write(dir.path().join("a.toml"), text).unwrap();
    run_in(dir.path(), &[&["settings", "check", "a.toml"], flags].concat(), b"")
}

/// Starts the command, and waits for its first line of output.
fn starts(dir: &TempDir, verb: &str) {
    let mut program = Program::start(dir, &[verb, "a.toml"]);
    let sign = match verb {
        "connect" => "connecting to ",
        "serve" => "listening at ",
        _ => "no routes: ",
    };
    program.wait_for(sign);
    program.signal();
    let (_, said) = program.ended();
    assert!(!said.contains("not started"), "{said}");
}

#[test]
fn a_file_without_errors_starts_with_each_verb_that_is_named() {
    let template = ACCEPTOR.replace("'B'", "'*'");
    let other = INITIATOR.replace("'C'", "'D'");
    for (text, verbs) in [
        (ACCEPTOR.to_owned(), &["serve", "run"][..]),
        (INITIATOR.to_owned(), &["connect", "run"]),
        (format!("{ACCEPTOR}{INITIATOR}"), &["run"]),
        (format!("{INITIATOR}{other}"), &["run"]),
        (template.clone(), &["run"]),
        (format!("{ACCEPTOR}{template}"), &["run"]),
    ] {
        let dir = TempDir::new();
        let run = check(&dir, &text, &[]);
        let calls: Vec<_> = verbs.iter().map(|verb| format!("`transfix {verb} a.toml`")).collect();
        let expected = format!("starts with {}\n", calls.join(" or "));
        assert!(run.code == 0 && run.out.contains(&expected), "{text}: {run:#?}");
        for verb in ["serve", "connect", "run"] {
            if verbs.contains(&verb) {
                starts(&dir, verb);
                continue;
            }
            let run = run_in(dir.path(), &[verb, "a.toml"], b"");
            let named = format!("use {}", calls.join(" or "));
            assert!(run.code == 2 && run.err.contains(&named), "{verb}: {run:#?}");
        }
    }
}

#[test]
fn what_does_not_start_is_an_error_with_its_key() {
    let dir = TempDir::new();
    let authority = Authority::new(dir.path(), "ca");
    let signed = authority.sign(&["localhost"], 7, Valid::Now);
    let tls = format!(
        "tls = {{ certificate = '{}', key = '{}' }}\n",
        signed.certificate.display(),
        signed.key.display()
    );
    fs::write(dir.path().join("file"), "x").unwrap();
    let fixed = ACCEPTOR.replace(":0'", ":4321'");
    let second = fixed.replace("'B'", "'C'");
    for (text, expected) in [
        (
            format!("{ACCEPTOR}mode = 'polled'\n"),
            "a.toml:7: FIX.4.4:A->B: mode: \"polled\" works only",
        ),
        (
            format!("{ACCEPTOR}refresh_on_logon = true\n"),
            "a.toml:7: FIX.4.4:A->B: refresh_on_logon: the key works only in a program with its \
             own store",
        ),
        (
            format!("{ACCEPTOR}tls = {{ certificate = 'no.pem', key = 'no.key' }}\n"),
            "a.toml:7: FIX.4.4:A->B: tls: ",
        ),
        (
            ACCEPTOR.replace("127.0.0.1", "192.0.2.1"),
            "a.toml:6: FIX.4.4:A->B: address: this machine cannot listen at 192.0.2.1",
        ),
        (
            format!("{fixed}{second}{tls}"),
            "FIX.4.4:A->C: another session at 127.0.0.1:4321 has other settings of tls",
        ),
        (
            format!("{fixed}{second}proxy_protocol_from = ['10.0.0.1']\n"),
            "FIX.4.4:A->C: another session at 127.0.0.1:4321 has another proxy_protocol_from",
        ),
        (
            format!("{INITIATOR}local_address = '192.0.2.1'\n"),
            "a.toml:7: FIX.4.4:A->C: local_address 192.0.2.1: ",
        ),
        (
            format!("{ACCEPTOR}store_dir = 'file/store'\n"),
            "a.toml:7: FIX.4.4:A->B: store_dir: file is a file, not a directory",
        ),
        (
            format!("{ACCEPTOR}log = {{ dir = 'file' }}\n"),
            "a.toml:7: FIX.4.4:A->B: log: file is a file, not a directory",
        ),
        (
            format!("{ACCEPTOR}dictionary = 'no/such.xml'\n"),
            "a.toml:7: FIX.4.4:A->B: dictionary: no/such.xml: ",
        ),
    ] {
        does_not_start(&dir, &text, expected);
    }
}

#[test]
fn what_keeps_the_program_from_its_start_is_an_error_with_its_key() {
    let dir = TempDir::new();
    fs::write(dir.path().join("file"), "x").unwrap();
    fs::create_dir(dir.path().join("folder")).unwrap();
    let (pipe, mode) = (dir.path().join("pipe"), Mode::RUSR | Mode::WUSR);
    mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    for (text, expected) in [
        (
            format!("[events]\nfile = 'file/events.log'\n{ACCEPTOR}"),
            "[events] file: file is a file, not a directory",
        ),
        (
            format!("[engine]\naudit_file = 'file/audit'\n{ACCEPTOR}"),
            "[engine] audit_file: file is a file, not a directory",
        ),
        (
            format!("[events]\nfile = 'folder'\n{ACCEPTOR}"),
            "[events] file: folder is a directory, not a file",
        ),
        (
            format!("[engine]\naudit_file = 'folder'\n{ACCEPTOR}"),
            "[engine] audit_file: folder is a directory, not a file",
        ),
        (
            format!("[events]\nfile = 'pipe'\n{ACCEPTOR}"),
            "[events] file: pipe is a pipe, not a file",
        ),
        (
            format!("[engine]\naudit_file = 'pipe'\n{ACCEPTOR}"),
            "[engine] audit_file: pipe is a pipe, not a file",
        ),
        (format!("[admin]\n{ACCEPTOR}"), "[admin]: users_file users.toml: "),
        (
            format!("[admin]\ncertificate = 'no.pem'\nkey = 'no.key'\n{ACCEPTOR}"),
            "[admin] certificate: no.pem: ",
        ),
    ] {
        does_not_start(&dir, &text, expected);
    }
}

#[test]
fn an_administration_that_cannot_start_is_found_before_a_port_is_opened() {
    let dir = TempDir::new();
    let authority = Authority::new(dir.path(), "ca");
    let (one, other) = (
        authority.sign(&["localhost"], 7, Valid::Now),
        authority.sign(&["localhost"], 8, Valid::Now),
    );
    let pair =
        format!("certificate = '{}'\nkey = '{}'\n", one.certificate.display(), other.key.display());
    for (name, text) in [("users.toml", ""), ("wrong.toml", "user = 5\n"), ("file", "no audit\n")] {
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    }
    // The test holds the port with a listener, so that no other program can bind the port.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let at_port = ACCEPTOR.replace(":0'", &format!(":{port}'"));
    let template = ACCEPTOR.replace("'B'", "'*'");
    let admin = "[admin]\naddress = '127.0.0.1:0'\n";
    for (text, expected) in [
        (
            format!("[engine]\naudit_file = 'file'\n{ACCEPTOR}"),
            "[engine] audit_file: file: the last lines of the file were changed",
        ),
        (format!("{admin}{pair}{ACCEPTOR}"), "[admin] certificate: "),
        (
            format!("{admin}users_file = 'wrong.toml'\n{ACCEPTOR}"),
            "[admin] users_file: wrong.toml: ",
        ),
        (
            format!("[admin]\naddress = '127.0.0.1:{port}'\n{at_port}"),
            "FIX.4.4:A->B already listens there; choose another port",
        ),
        (
            format!("{admin}[admin.fix]\naddress = '127.0.0.1:{port}'\n{at_port}"),
            "FIX.4.4:A->B already listens there; choose another port",
        ),
        (
            format!(
                "[admin]\naddress = '127.0.0.1:{port}'\n[admin.fix]\naddress = \
                     '127.0.0.1:{port}'\n{ACCEPTOR}"
            ),
            "[admin] address already listens there; choose another port",
        ),
        (format!("{admin}{pair}[admin.fix]\naddress = '192.0.2.1:0'\n{ACCEPTOR}"), "[admin.fix]"),
        (
            format!("{template}store_dir = 'file/store'\n"),
            "a.toml:7: FIX.4.4:A->*: store_dir: file is a file, not a directory",
        ),
    ] {
        does_not_start(&dir, &text, expected);
    }
    // The check accepts an address in use, because another program may free the address at any
    // moment; only the start fails.
    let text = format!("[admin]\naddress = '127.0.0.1:{port}'\n{ACCEPTOR}");
    assert_eq!(check(&dir, &text, &[]).code, 0);
    for verb in ["serve", "run"] {
        let run = run_in(dir.path(), &[verb, "a.toml"], b"");
        let said = run.out + &run.err;
        let is_told = said.contains(&format!("[admin] address: 127.0.0.1:{port}: "));
        assert!(run.code == 1 && is_told && !said.contains("listening at"), "{said}");
    }
}

#[test]
fn the_first_start_makes_the_folder_of_the_audit_file() {
    let dir = TempDir::new();
    let text = format!("[engine]\naudit_file = 'log2/deep/a.jsonl'\n{ACCEPTOR}");
    let run = check(&dir, &text, &[]);
    assert!(run.code == 0 && !dir.path().join("log2").exists(), "{run:#?}");
    starts(&dir, "serve");
    assert!(dir.path().join("log2/deep/a.jsonl").exists());
}

#[test]
fn a_missing_store_is_compared_with_its_state_file() {
    let dir = TempDir::new();
    fs::write(dir.path().join("a.toml"), ACCEPTOR).unwrap();
    starts(&dir, "serve");
    let numbers = dir.path().join("store/FIX.4.4-A-B.numbers");
    let text = fs::read_to_string(&numbers).unwrap();
    fs::write(&numbers, text.replace("next_in = 1\n", "next_in = 8\n")).unwrap();
    fs::remove_dir_all(dir.path().join("store/FIX.4.4-A-B")).unwrap();
    let mut program = Program::start(&dir, &["serve", "a.toml"]);
    program.wait_for("listening at ");
    program.signal();
    let (_, said) = program.ended();
    assert!(said.contains("had_next_in=8") || said.contains("2215"), "{said}");
}

#[test]
fn an_unknown_key_has_a_short_answer() {
    let dir = TempDir::new();
    for key in [
        "Cryptography",
        "ParserWrapper",
        "FooBar",
        "",
        "x",
        "tp",
        "zz.y",
        "a.b.c.d",
        "heart_bt_int",
    ] {
        let run = run_in(dir.path(), &["settings", "reference", key], b"");
        assert!(run.code == 1 && run.err.lines().count() <= 3, "{key}: {run:#?}");
        assert!(run.err.len() < 200, "{key}: {run:#?}");
        let named = run.err.split('`').skip(3).step_by(2);
        assert!(named.into_iter().all(|name| name.len() > 2), "{key}: {run:#?}");
    }
    for key in ["host", "port", "ip", "senderCompID", "SocketConnectHost"] {
        let run = run_in(dir.path(), &["settings", "reference", key], b"");
        let heading = run.out.lines().find(|line| line.starts_with('['));
        assert!(heading.is_some_and(|line| line.starts_with("[[session]]")), "{key}: {run:#?}");
    }
}

/// Tests that `settings check` reports this error, and that the command fails before it listens.
fn does_not_start(dir: &TempDir, text: &str, expected: &str) {
    let run = check(dir, text, &[]);
    assert!(run.code == 1 && run.out.contains(expected), "{expected}: {run:#?}");
    assert!(run.out.starts_with("error: ") && !run.out.contains("starts with"), "{run:#?}");
    let verb = match text {
        _ if text.contains("'initiator'") => "connect",
        _ if text.contains("'*'") => "run",
        _ => "serve",
    };
    let started = run_in(dir.path(), &[verb, "a.toml"], b"");
    assert_ne!(started.code, 0, "{text}: {started:#?}");
    let said = started.out + &started.err;
    assert!(!said.lines().any(|line| line.starts_with("listening at")), "{text}: {said}");
}

#[test]
fn a_program_of_ones_own_may_do_more() {
    let dir = TempDir::new();
    for key in ["mode = 'polled'", "refresh_on_logon = true"] {
        let text = format!("{ACCEPTOR}{key}\n");
        let run = check(&dir, &text, &["--program"]);
        assert!(run.code == 0 && run.out.ends_with(": 0 errors, 0 warnings\n"), "{run:#?}");
        assert_eq!(check(&dir, &text, &[]).code, 1);
        for verb in ["serve", "run"] {
            let run = run_in(dir.path(), &[verb, "a.toml"], b"");
            let key = key.split(' ').next().unwrap();
            assert!(run.code == 2 && run.err.contains(&format!(": {key}: ")), "{run:#?}");
        }
    }
}

const SCHEDULED: &str = "offline = 'store'\n\
    schedule = { zone = 'UTC', from = '08:00', to = '16:00' }";

/// Settings with a warning: BeginString(8), the session, the additional key, and the expected
/// warning.
const CHOICES: &[(&str, &str, &str, &str)] = &[
    ("FIX.4.4", ACCEPTOR, SCHEDULED, "restarts the numbers; `queue` keeps them"),
    ("FIX.4.4", ACCEPTOR, "validate_check_sum = false", "damaged messages are accepted"),
    ("FIX.4.4", ACCEPTOR, "check_comp_ids = false", "messages with other CompIDs are accepted"),
    ("FIX.4.4", ACCEPTOR, "sending_time_tolerance_s = 0", "accepts any SendingTime(52)"),
    ("FIX.4.4", ACCEPTOR, "numbers.request_missing = false", "and are lost"),
    (
        "FIX.4.4",
        ACCEPTOR,
        "numbers.too_low = 'ignore'",
        "stays connected, and its messages are lost",
    ),
    ("FIX.4.4", ACCEPTOR, "numbers.too_low_at_logon = 'accept'", "remains undetected"),
    (
        "FIX.4.4",
        ACCEPTOR,
        "timing.watch_silence = false",
        "the loss of a silent counterparty remains undetected",
    ),
    ("FIX.4.4", INITIATOR, "heart_bt_int_s = 0", "0 disables heartbeats"),
    ("FIX.4.4", ACCEPTOR, "keep_outbound = false", "no message is ever resent"),
    ("FIX.4.4", ACCEPTOR, "reset_on = ['logon']", "neither side requests messages lost"),
    ("FIX.4.0", ACCEPTOR, "precision = 'nanos'", "up to FIX 4.1, times have"),
    ("FIX.4.4", ACCEPTOR, "logon.count_refusals = true", "can advance the sequence numbers"),
    ("FIX.4.2", ACCEPTOR, "numbers.next_expected = true", "exists only from FIX 4.4 on"),
    ("FIX.4.1", ACCEPTOR, "numbers.send_last_processed = true", "exists only from FIX 4.2 on"),
    ("FIX.4.1", ACCEPTOR, "logon.max_message_size = 5000", "exists only from FIX 4.2 on"),
    ("FIX.4.2", ACCEPTOR, "logon.test_message_indicator = true", "exists only from FIX 4.3 on"),
    ("FIX.4.3", ACCEPTOR, "checks.conditions = true", "the dictionary FIX.4.3 has no conditions"),
    ("FIX.4.4", ACCEPTOR, "reset_at_zone = 'UTC'", "no effect without reset_at"),
    ("FIX.4.4", ACCEPTOR, "queue_wait_ms = 5", "no effect without queue_when_full = \"wait\""),
    ("FIX.4.4", ACCEPTOR, "queue_pause_ms = 5", "no effect without offline = \"queue\""),
    ("FIX.4.4", ACCEPTOR, "slow_consumer_ms = 5", "no effect without slow_consumer_bytes"),
    ("FIX.4.4", ACCEPTOR, "slow_consumer = 'disconnect'", "without slow_consumer_bytes"),
    ("FIX.4.4", ACCEPTOR, "unavailable.delay_ms = 5", "no effect without `retries`"),
    (
        "FIX.4.4",
        ACCEPTOR,
        "resend = { repeats_max = 5, repeat_after_s = 0 }",
        "`repeats_max` has no effect",
    ),
    (
        "FIX.4.4",
        ACCEPTOR,
        "timing = { margin_percent = 5, margin_ms = 5 }",
        "`margin_percent` has no effect",
    ),
    ("FIX.4.4", ACCEPTOR, "application.messages_max = 5", "without `application_threads`"),
    ("FIX.4.4", ACCEPTOR, "heart_bt_int_s = 5", "uses the HeartBtInt(108) of the Logon(A)"),
    ("FIX.4.4", ACCEPTOR, "reconnect_interval_ms = 5", "an acceptor does not connect"),
    ("FIX.4.4", ACCEPTOR, "connect_timeout_ms = 5", "an acceptor does not connect"),
    ("FIX.4.4", ACCEPTOR, "reconnect_attempts_max = 5", "an acceptor does not connect"),
    ("FIX.4.4", ACCEPTOR, "timing.same_heart_bt_int = true", "does not request a HeartBtInt(108)"),
    ("FIX.4.4", INITIATOR, "timing.heart_bt_int_s_min = 5", "only an acceptor checks"),
    ("FIX.4.4", INITIATOR, "timing.impose_heart_bt_int = true", "only an acceptor checks"),
];

/// Keys that have an effect in their session, so that the check does not warn.
const SOUND: &[(&str, &str, &str)] = &[
    ("FIX.4.4", ACCEPTOR, "numbers.next_expected = true"),
    ("FIX.4.2", ACCEPTOR, "checks.conditions = true"),
    ("FIX.4.2", ACCEPTOR, "precision = 'nanos'"),
    ("FIX.4.4", ACCEPTOR, "queue_wait_ms = 5\nqueue_when_full = 'wait'"),
    ("FIX.4.4", INITIATOR, "reconnect_interval_ms = 5"),
    ("FIX.4.4", INITIATOR, "heart_bt_int_s = 5"),
    ("FIX.4.4", ACCEPTOR, "timing.impose_heart_bt_int = true\nheart_bt_int_s = 5"),
    ("FIX.4.4", ACCEPTOR, "reset_on = ['logout']"),
];

#[test]
fn choices_that_cost_safety_or_do_nothing_are_warned_of() {
    let of = |begin_string: &str, session: &str, key: &str| {
        format!("{}{key}\n", session.replace("FIX.4.4", begin_string))
    };
    for &(begin_string, session, key, expected) in CHOICES {
        let dir = TempDir::new();
        let run = check(&dir, &of(begin_string, session, key), &[]);
        let line = run.out.lines().find(|line| line.contains(expected));
        let line = line.unwrap_or_else(|| panic!("{key}: {run:#?}"));
        assert!(line.starts_with("warning: a.toml:7: ") && run.code == 0, "{key}: {run:#?}");
        // Without the additional key, its default value causes no warning.
        let plain = check(&dir, &of(begin_string, session, ""), &[]);
        assert!(!plain.out.contains(expected), "{key}: {plain:#?}");
    }
    for &(begin_string, session, key) in SOUND {
        let dir = TempDir::new();
        let run = check(&dir, &of(begin_string, session, key), &[]);
        let said = run.out.lines().filter(|line| !line.contains("store_dir: "));
        let warned = said.filter(|line| line.starts_with("warning: ")).count();
        assert_eq!(warned, 0, "{key}: {run:#?}");
    }
}

#[test]
fn a_default_that_counts_for_one_session_is_not_warned_of() {
    let dir = TempDir::new();
    let defaults = "[defaults]\nreconnect_interval_ms = 5\n";
    let both = check(&dir, &format!("{defaults}{ACCEPTOR}{INITIATOR}"), &[]);
    assert!(!both.out.contains("reconnect_interval_ms"), "{both:#?}");
    let one = check(&dir, &format!("{defaults}{ACCEPTOR}"), &[]);
    assert!(one.out.contains("warning: a.toml:2: FIX.4.4:A->B: reconnect_interval_ms"), "{one:#?}");
}

#[test]
fn an_unknown_dictionary_names_those_of_the_file_too() {
    let dir = TempDir::new();
    let text = format!(
        "[dictionaries]\nbroker = 'FIX44'\nvenue = {{ base = 'FIX42' }}\n\
         {ACCEPTOR}dictionary = 'venu'\n"
    );
    let run = check(&dir, &text, &[]);
    assert!(run.out.contains("; [dictionaries] has broker, venue"), "{run:#?}");
}

#[test]
fn files_of_other_engines_are_recognised_by_every_verb_that_reads_settings() {
    let fix8 = "<?xml version='1.0' encoding='ISO-8859-1'?>\n<fix8>\n <session name='DLD1' \
        role='initiator' ip='127.0.0.1' port='11001'/>\n</fix8>\n";
    let antenna = "# properties\nsessionIDs = one\nsessions.one.host=localhost\n";
    let (of_fix8, of_antenna) =
        ("the file has settings of Fix8", "the file has settings of FIX Antenna");
    for (text, expected, key) in
        [(fix8, of_fix8, "login_retries"), (antenna, of_antenna, "heartbeatInterval")]
    {
        let dir = TempDir::new();
        fs::write(dir.path().join("a.xml"), text).unwrap();
        for call in [
            &["serve", "a.xml"][..],
            &["run", "a.xml"],
            &["connect", "a.xml"],
            &["migrate", "a.xml"],
            &["settings", "check", "a.xml"],
            &["schedule", "a.xml"],
        ] {
            let run = run_in(dir.path(), call, b"");
            let said = run.err + &run.out;
            assert!(run.code != 0 && said.contains(expected), "{call:?}: {said}");
            assert!(said.contains(&format!("`transfix settings reference {key}`")), "{said}");
        }
        let run = run_in(dir.path(), &["settings", "reference", key], b"");
        assert_eq!(run.code, 0, "{run:#?}");
    }
}

#[test]
fn keys_of_all_engines_are_answered_for() {
    let dir = TempDir::new();
    for (key, code, expected) in [
        ("sequenceResendManagerMessageBufferSize", 0, "in Transfix use `held_messages_max`"),
        ("sessions.default.heartbeatInterval", 0, "in Transfix use `heart_bt_int_s`"),
        ("AggressiveReceiveDelay", 0, "is a key of FIX Antenna C++; in Transfix use `spin_us`"),
        ("Log.Device", 0, "in Transfix use `events`"),
        ("enhancedCmeResendLogic", 1, "Transfix has no such key: the rules of CME"),
        ("server_group", 0, "is a key of Fix8; in Transfix use `failover`"),
        ("tabsize", 1, "Transfix has no such key: `transfix print` indents by itself"),
        ("heartbeatIntervl", 1, "did you mean `heartbeatInterval`?"),
    ] {
        let run = run_in(dir.path(), &["settings", "reference", key], b"");
        let said = run.out + &run.err;
        assert!(run.code == code && said.replace('\n', " ").contains(expected), "{key}: {said}");
    }
}

#[test]
fn a_store_whose_segments_are_gone_leads_to_a_remedy_and_not_in_a_circle() {
    let dir = TempDir::new();
    let path = "store/FIX.4.4-A-B";
    fs::write(dir.path().join("a.toml"), ACCEPTOR).unwrap();
    starts(&dir, "serve");
    let store = dir.path().join(path);
    let mut gone = 0;
    for file in fs::read_dir(&store).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|end| end == "seg") {
            fs::remove_file(file).unwrap();
            gone += 1;
        }
    }
    assert!(gone > 0 && Path::new(&store).join("lock").exists());
    let remedy = "restore the files from a backup";
    for (call, code) in [
        (&["store", "list", "store"][..], 1),
        (&["store", "verify", path], 1),
        (&["store", "show", path], 2),
        (&["store", "repair", path, "--to", "new"], 2),
        (&["store", "print", path], 2),
        (&["store", "export", path, "--to", "raw"], 2),
    ] {
        let run = run_in(dir.path(), call, b"");
        let said = run.out + &run.err;
        assert!(run.code == code && said.contains(remedy), "{call:?}: {} {said}", run.code);
        for circle in ["store list", "store verify", "store repair"] {
            assert!(!said.contains(circle), "{call:?}: {said}");
        }
    }
    // The remedy that the error suggests works.
    fs::rename(&store, dir.path().join("away")).unwrap();
    starts(&dir, "serve");
}
