//! Settings as used with QuickFIX are migrated, and the result is checked and started.

use std::fs;
use std::path::Path;

use transfix::Settings;
use transfix_testkit::temp::TempDir;

use crate::command_line::migrate::cfg;
use crate::command_line::running::Program;
use crate::command_line::{Run, run_in};

/// Writes `cfg` to a file and migrates the file with these options.
fn migrated(dir: &TempDir, cfg: &str, options: &[&str]) -> Run {
    fs::write(dir.path().join("desk.cfg"), cfg).unwrap();
    run_in(dir.path(), &[&["migrate", "desk.cfg"], options].concat(), b"")
}

/// Returns the standard dictionary of FIX 4.4 with an additional field.
fn dictionary(field: &str) -> String {
    let standard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dictionaries/FIX44.xml");
    let text = fs::read_to_string(standard).unwrap();
    let field = format!("  <field number='9001' name='{field}' type='CHAR'/>\n </fields>");
    text.replacen(" </fields>", &field, 1)
}

/// Returns the QuickFIX section of a session with this counterparty.
fn session(target: &str, more: &str) -> String {
    cfg(more).replace("FIX.4.2", "FIX.4.4").replace("INCA", target)
}

#[test]
fn two_brokers_with_dictionaries_of_one_name_get_an_overlay_each() {
    let dir = TempDir::new();
    for (broker, field) in [("b1", "FlagOfOne"), ("b2", "FlagOfTwo"), ("b3", "FlagOfTwo")] {
        fs::create_dir(dir.path().join(broker)).unwrap();
        fs::write(dir.path().join(broker).join("FIX44.xml"), dictionary(field)).unwrap();
    }
    let brokers = [("ONE", "b1"), ("TWO", "b2"), ("THREE", "b3"), ("AGAIN", "b1/../b1")];
    let text: String = brokers
        .iter()
        .map(|(target, broker)| session(target, &format!("DataDictionary={broker}/FIX44.xml\n")))
        .collect();
    let run = migrated(&dir, &text, &["--out", "desk.toml"]);
    assert_eq!(run.code, 0, "{run:#?}");
    let settings = Settings::load(dir.path().join("desk.toml")).unwrap();
    let overlays = settings.sessions.iter().map(|session| {
        let source = session.validation.dictionary.clone().unwrap();
        source.overlays[0].display().to_string()
    });
    let overlays: Vec<_> = overlays.collect();
    let expected = ["FIX44.overlay.xml", "b2-FIX44.overlay.xml", "b3-FIX44.overlay.xml"];
    assert_eq!(overlays[..3], expected);
    assert_eq!(overlays[3], overlays[0], "the same dictionary has the same overlay");
    for (overlay, field) in overlays.iter().zip(["FlagOfOne", "FlagOfTwo", "FlagOfTwo"]) {
        let text = fs::read_to_string(dir.path().join(overlay)).unwrap();
        assert!(text.contains(field), "{overlay}: {text}");
    }
}

#[test]
fn no_file_is_written_over_another_of_the_same_call() {
    let dir = TempDir::new();
    let text = cfg("");
    for options in [
        &["--out", "a", "--report", "a"][..],
        &["--out", "a", "--report", "./a", "--force"],
        &["--out", "desk.cfg", "--force"],
        &["--report", "../desk.cfg", "--force"],
    ] {
        let dir =
            if options[1].starts_with("..") { dir.path().join("x") } else { dir.path().into() };
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("../desk.cfg"), &text).unwrap();
        fs::write(dir.join("desk.cfg"), &text).unwrap();
        let from = if options[1].starts_with("..") { "../desk.cfg" } else { "desk.cfg" };
        let run = run_in(&dir, &[&["migrate", from], options].concat(), b"");
        assert_eq!(run.code, 2, "{run:#?}");
        assert!(run.err.contains("is already the input or another output"), "{run:#?}");
        assert_eq!(fs::read_to_string(dir.join("desk.cfg")).unwrap(), text);
    }
}

#[test]
fn a_panic_of_the_application_is_reported_as_it_is() {
    let dir = TempDir::new();
    for yes in ["Y", "N"] {
        let text = cfg(&format!("RejectMessageOnUnhandledException={yes}\n"));
        let run = migrated(&dir, &text, &["--dialect", "j"]);
        let expected = "the message counts as received: it is neither rejected nor delivered again";
        assert!(run.code == 0 && run.err.contains(expected), "{run:#?}");
        assert!(!run.err.contains("arrives again"), "{run:#?}");
    }
}

#[test]
fn an_overlay_of_other_settings_stays_as_it_is() {
    let dir = TempDir::new();
    for (broker, field) in [("b1", "FlagOfOne"), ("b2", "FlagOfTwo")] {
        fs::create_dir(dir.path().join(broker)).unwrap();
        fs::write(dir.path().join(broker).join("FIX44.xml"), dictionary(field)).unwrap();
    }
    let overlay_of = |broker: &str, out: &str, options: &[&str]| {
        let text = session("ONE", &format!("DataDictionary={broker}/FIX44.xml\n"));
        let run = migrated(&dir, &text, &[&["--out", out], options].concat());
        assert_eq!(run.code, 0, "{run:#?}");
        let settings = Settings::load(dir.path().join(out)).unwrap();
        let source = settings.sessions[0].validation.dictionary.clone().unwrap();
        let path = dir.path().join(&source.overlays[0]);
        (path.clone(), fs::read_to_string(path).unwrap())
    };
    let (path, text) = overlay_of("b1", "two.toml", &[]);
    for (out, options) in [("three.toml", &[][..]), ("three.toml", &["--force"])] {
        let (other, other_text) = overlay_of("b2", out, options);
        assert!(other != path && other_text.contains("FlagOfTwo"), "{}", other.display());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    // Other settings that use the same dictionary share the overlay.
    assert_eq!(overlay_of("b1", "four.toml", &[]), (path, text));
}

#[test]
fn the_report_names_the_cause_whatever_the_outcome_is() {
    let lower = cfg("").replace("ConnectionType=", "connectiontype=");
    let keys_lower = |line: &str| match line.split_once('=') {
        Some((key, value)) => format!("{}={value}\n", key.to_lowercase()),
        None => format!("{}\n", line.to_lowercase()),
    };
    let all_lower: String = cfg("").lines().map(keys_lower).collect();
    for (text, options, code, expected) in [
        // QuickFIX C++ and QuickFIX/n ignore the case of keys, so the dialect of the file is one of
        // these.
        (&*lower, &[][..], 0, "honoured: ConnectionType=initiator"),
        (
            &lower,
            &["--dialect", "j"],
            2,
            "ConnectionType is missing: QuickFIX/J compares keys letter by letter and ignores \
             `connectiontype=` in line 2",
        ),
        (
            &all_lower,
            &["--dialect", "cpp"],
            2,
            "QuickFIX C++ recognises section names in capital letters only",
        ),
        (
            &all_lower,
            &["--dialect", "cpp"],
            2,
            "the file has sessions if read as a file of QuickFIX/n",
        ),
        (
            &cfg("").replace("ConnectionType=initiator\n", ""),
            &["--dialect", "cpp"],
            2,
            "the file has sessions if read as a file of QuickFIX/Go: name that dialect",
        ),
        (&cfg("").replace("Port=1", "Port=many"), &[], 2, "SocketConnectPort: `many` is no port"),
        ("[SESSION]\n", &[], 2, "ConnectionType is missing"),
        // The report lists the keys of [DEFAULT] before the error.
        (
            "[DEFAULT]\nConnectionType=acceptor\nSenderCompID=A\nStartTime=00:00:00\n\
             EndTime=00:00:00\n[SESSION]\nBeginString=FIX.4.4\nTargetCompID=B\n\
             SocketAcceptPort=${port}\n",
            &["--dialect", "cpp"],
            2,
            "SocketAcceptPort",
        ),
        ("", &[], 2, "the file has no [SESSION] of QuickFIX C++ that can be carried over"),
    ] {
        let dir = TempDir::new();
        let run = migrated(&dir, text, &[&["--out", "desk.toml"], options].concat());
        assert_eq!(run.code, code, "{text}: {run:#?}");
        assert!(run.err.contains(expected), "{expected}: {run:#?}");
        let last = run.err.lines().last().unwrap_or_default();
        assert!(!last.contains("the session of this key is not carried over"), "{run:#?}");
        let is_hint = [last, expected].iter().any(|text| {
            text.contains(
                "the file has sessions \
            if read as a file of",
            )
        });
        assert!(code == 0 || is_hint || last.contains(expected), "{expected}: {last}");
        // Each report ends with a line of counts.
        assert!(run.err.contains(" honoured, ") && run.err.contains(" not carried over\n"));
        assert_eq!(dir.path().join("desk.toml").exists(), code == 0, "{text}");
        let options = [&["--report", "desk.report", "--force"], options].concat();
        let run = migrated(&dir, text, &options);
        assert_eq!(run.code, code, "{run:#?}");
        let report = fs::read_to_string(dir.path().join("desk.report")).unwrap();
        assert!(report.contains(" not carried over\n"), "{report}");
    }
}

#[test]
fn a_property_of_java_is_a_variable_of_the_environment_and_keeps_no_session_back() {
    let dir = TempDir::new();
    let text = "[default]\nConnectionType=initiator\nStartTime=00:00:00\nEndTime=00:00:00\n\
        SenderCompID=${desk.id}\nSocketConnectHost=127.0.0.1\nSocketConnectPort=${desk.port}\n\
        HeartBtInt=${beat}\nResetOnLogon=${resets}\nFileLogPath=${logs}/fix\n\
        [session]\nBeginString=FIX.4.4\nTargetCompID=A\n\
        [session]\nBeginString=FIX.4.4\nTargetCompID=B\n";
    let run = migrated(&dir, text, &["--dialect", "j", "--out", "desk.toml"]);
    assert_eq!(run.code, 1, "{run:#?}");
    for expected in [
        "desk.cfg:5: mapped: SenderCompID=${desk.id} -> ${DESK_ID}: QuickFIX/J reads a Java \
         property",
        "desk.cfg:9: not carried over: ResetOnLogon=${resets}: ",
        "[all 2 sessions]",
    ] {
        assert!(run.err.contains(expected), "{expected}: {}", run.err);
    }
    let toml = fs::read_to_string(dir.path().join("desk.toml")).unwrap();
    for expected in [
        "sender_comp_id = \"${DESK_ID}\"\n",
        "address = \"127.0.0.1:${DESK_PORT}\"\n",
        "heart_bt_int_s = \"${BEAT}\"\n",
        "log.dir = \"${LOGS}/fix\"\n",
        "# not carried over: ResetOnLogon=${resets} (line 9): ",
    ] {
        assert!(toml.contains(expected), "{expected}: {toml}");
    }
    let error = Settings::load(dir.path().join("desk.toml")).unwrap_err().to_string();
    assert!(error.contains("the environment variable"), "{error}");
}

#[test]
fn zones_of_windows_and_java_are_mapped_and_unknown_ones_keep_the_engine_from_starting() {
    let dir = TempDir::new();
    let hours = |zone: &str| {
        let hours = format!("StartTime=08:00:00\nEndTime=17:00:00\nTimeZone={zone}\n");
        cfg("").replace("StartTime=00:00:00\nEndTime=00:00:00\n", &hours)
    };
    for (dialect, zone, expected) in [
        ("n", "Eastern Standard Time", "America/New_York"),
        ("n", "W. Europe Standard Time", "Europe/Berlin"),
        ("n", "Tokyo Standard Time", "Asia/Tokyo"),
        ("j", "GMT+1", "+01:00"),
        ("j", "GMT-5:30", "-05:30"),
        ("j", "PST", "America/Los_Angeles"),
        ("go", "Europe/London", "Europe/London"),
    ] {
        let run = migrated(&dir, &hours(zone), &["--dialect", dialect]);
        assert_eq!(run.code, 0, "{run:#?}");
        let line = format!(
            "schedule = {{ zone = \"{expected}\", from = \"08:00:00\", to = \"17:00:00\" }}\n"
        );
        assert!(run.out.contains(&line), "{}", run.out);
        assert_eq!(run.err.contains(&format!("{zone} is {expected} here")), zone != expected);
    }
    let local = hours("UTC").replace("TimeZone=UTC", "UseLocalTime=Y");
    let broken = hours("UTC").replace("17:00:00", "25:00:00");
    let half = hours("UTC").replace("EndTime=17:00:00\n", "");
    let days = hours("UTC") + "StartDay=someday\nEndDay=friday\n";
    for (text, undecided) in [
        (&hours("Narnia Standard Time"), "zone = \"Narnia Standard Time\""),
        (&local, "zone = \"?\""),
        (&broken, "to = \"25:00:00\""),
        (&half, "from = \"08:00:00\" }"),
        (&days, "from = \"? 08:00:00\""),
    ] {
        let run = migrated(&dir, text, &["--dialect", "n", "--out", "desk.toml", "--force"]);
        assert_eq!(run.code, 1, "{run:#?}");
        assert!(run.err.contains("the engine does not start until `schedule` is corrected"));
        let toml = fs::read_to_string(dir.path().join("desk.toml")).unwrap();
        let lines: Vec<_> = toml.lines().collect();
        let at = lines.iter().position(|line| line.contains(undecided)).unwrap();
        assert!(lines[at].starts_with("schedule = ") && lines[at - 1].starts_with("# "), "{toml}");
        assert!(toml.contains("# not carried over: StartTime=08:00:00 (line 9)"), "{toml}");
        for verb in ["check", "show"] {
            let run = run_in(dir.path(), &["settings", verb, "desk.toml"], b"");
            assert_ne!(run.code, 0, "{run:#?}");
        }
        let run = run_in(dir.path(), &["run", "desk.toml"], b"");
        assert!(run.code == 2 && run.err.contains("schedule: "), "{run:#?}");
    }
}

#[test]
fn what_is_dropped_is_a_comment_in_its_place() {
    let dir = TempDir::new();
    let text = "[DEFAULT]\nConnectionType=initiator\nNonStopSession=Y\nSocketConnectPort=1\n\
        SocketConnectHost=127.0.0.1\nBeginString=FIX.4.4\nSenderCompID=DESK\nPassword=hush\n\
        CmeEnhancedResend=Y\nReconectInterval=5\n\
        [SESSION]\nTargetCompID=A\nLogonTimeout=soon\n\
        [SESSION]\nTargetCompID=B\nSocketConnectPort=none\n\
        [SESSION]\nTargetCompID=A\n";
    let run = migrated(&dir, text, &["--dialect", "n"]);
    assert_eq!(run.code, 1, "{run:#?}");
    for expected in [
        "\n# not carried over: CmeEnhancedResend=Y (line 9): the rules of CME",
        "\n# not carried over: ReconectInterval=5 (line 10): no QuickFIX knows this key; if",
        "\n# not carried over: LogonTimeout=soon (line 13): `soon` is no number\n",
        "\n# not carried over: line 14: the session: SocketConnectPort: `none` is no port\n",
        "\n# not carried over: [SESSION] (line 17): session FIX.4.4:DESK->A appears twice: ",
    ] {
        assert!(run.out.contains(expected), "{expected}: {}", run.out);
    }
    assert_eq!(run.out.matches("hush").count(), 1, "{}", run.out);
    let settings = Settings::parse("desk.toml", &run.out).unwrap();
    assert_eq!(settings.sessions.len(), 1);
}

const ACCEPTOR: &str = "[SESSION]\nConnectionType=acceptor\nBeginString=FIX.4.4\nSenderCompID=A\n\
    TargetCompID=B\nSocketAcceptPort=1\nStartTime=00:00:00\nEndTime=00:00:00\n";

/// Migrates each text in its dialect, and checks the expected lines of the settings and the report.
fn becomes(rows: &[(&str, String, &[&str], &str)]) {
    for (dialect, text, lines, said) in rows {
        let dir = TempDir::new();
        let run = migrated(&dir, text, &["--dialect", dialect]);
        assert!(run.err.contains(said), "{said}: {run:#?}");
        for line in *lines {
            assert!(run.out.lines().any(|one| one == *line), "{line}: {}", run.out);
        }
        Settings::parse("desk.toml", &run.out).unwrap();
    }
}

/// A key that has one value for the whole engine is reported with the value that applies.
#[test]
fn the_report_names_the_value_that_counts_for_all_sessions() {
    let dir = TempDir::new();
    let two = |more: [&str; 2]| session("ONE", more[0]) + &session("TWO", more[1]);
    let run = migrated(&dir, &two(["FileLogPath=a\n", "FileLogPath=b\n"]), &[]);
    assert!(run.out.contains("file = \"a/events.log\"") && !run.out.contains("b/events.log"));
    assert!(!run.err.contains("b/events.log"), "{run:#?}");
    let counts = "an earlier session sets [events] file = \"a/events.log\", and that value \
                  applies";
    assert!(run.err.contains(counts), "{run:#?}");
    let ports = ["HttpAcceptPort=9911\n", "HttpAcceptPort=9912\n"];
    let run = migrated(&dir, &two(ports), &["--dialect", "cpp"]);
    assert!(run.out.contains("address = \"127.0.0.1:9911\""), "{run:#?}");
    let counts = "HttpAcceptPort=9912: an earlier session sets [admin] address = \
                  \"127.0.0.1:9911\"";
    assert!(run.err.contains(counts), "{run:#?}");
}

#[test]
fn keys_of_consoles_logs_and_databases_are_carried_over() {
    let acceptor = ACCEPTOR;
    let initiator = cfg("");
    becomes(&[
        (
            "cpp",
            format!("{acceptor}HttpAcceptPort=9911\n"),
            &["[admin]", "address = \"127.0.0.1:9911\""][..],
            "`transfix admin user add --file users.toml NAME` creates the first one",
        ),
        (
            "cpp",
            format!("{acceptor}FileLogPath=log/\n"),
            &["[events]", "file = \"log/events.log\"", "log.dir = \"log/\""],
            "the events of all sessions are in one file",
        ),
        (
            "n",
            format!("{acceptor}DebugFileLogPath=debug\n"),
            &[],
            "ignored: DebugFileLogPath=debug: connections are among the events",
        ),
        (
            "j",
            format!("{initiator}JdbcURL=jdbc:postgresql://db/fix\nJdbcUser=fix\n"),
            &[],
            "JdbcUser=fix: the package transfix-stores can keep stores in PostgreSQL",
        ),
        (
            "go",
            format!("{initiator}SQLStoreDriver=pgx\n"),
            &[],
            "SQLStoreDriver=pgx: the package transfix-stores can keep stores in PostgreSQL",
        ),
        (
            "j",
            format!("{initiator}JdbcURL=jdbc:mysql://db/fix\n"),
            &[],
            "write a store of your own",
        ),
        (
            "go",
            format!("{acceptor}UseTCPProxy=Y\n"),
            &[],
            "list the addresses of the proxies in `proxy_protocol_from`",
        ),
    ]);
}

#[test]
fn lists_of_pauses_and_times_of_a_reset_are_carried_over() {
    let initiator = cfg("");
    becomes(&[
        (
            "j",
            format!("{initiator}ReconnectInterval=5;10;30\n"),
            &[
                "reconnect_interval_ms = 5000",
                "reconnect_interval_max_ms = 30000",
                "reconnect_backoff = \"exponential\"",
            ],
            "the pause doubles after each attempt",
        ),
        (
            "j",
            format!("{initiator}ReconnectInterval=3x7\n"),
            &["reconnect_interval_ms = 7000"],
            "the pause always has the last value",
        ),
        ("j", format!("{initiator}ReconnectInterval=7\n"), &["reconnect_interval_ms = 7000"], ""),
        (
            "j",
            format!("{initiator}ReconnectInterval=5;x\n"),
            &[],
            "`5;x` is not a list of seconds such as 5;10;30",
        ),
        (
            "go",
            format!("{initiator}ResetSeqTime=01:30:00\nTimeZone=Etc/GMT-2\n"),
            &["reset_at = \"01:30:00\"", "reset_at_zone = \"Etc/GMT-2\""],
            "honoured: ResetSeqTime=01:30:00",
        ),
        (
            "go",
            format!("{initiator}ResetSeqTime=17:00:00\nTimeZone=America/New_York\n"),
            &["reset_at = \"17:00:00\"", "reset_at_zone = \"America/New_York\""],
            "honoured: ResetSeqTime=17:00:00",
        ),
    ]);
}

#[test]
fn a_line_about_the_defaults_names_its_sessions() {
    let dir = TempDir::new();
    let text = "[DEFAULT]\nBeginString=FIX.4.4\nSenderCompID=DESK\nNonStopSession=Y\n\
        SocketConnectHost=127.0.0.1\nSocketConnectPort=1\nSocketAcceptPort=2\nHeartBtInt=30\n\
        FileStorePath=store\n\
        [SESSION]\nConnectionType=initiator\nTargetCompID=A\n\
        [SESSION]\nConnectionType=initiator\nTargetCompID=B\n\
        [SESSION]\nConnectionType=acceptor\nTargetCompID=C\n";
    let run = migrated(&dir, text, &["--dialect", "cpp"]);
    for expected in [
        ": honoured: BeginString=FIX.4.4 -> begin_string = \"FIX.4.4\" [all 3 sessions]\n",
        "desk.cfg:5: honoured: SocketConnectHost=127.0.0.1 -> address = \"127.0.0.1:1\" \
         [FIX.4.4:DESK->A, FIX.4.4:DESK->B]\n",
        "desk.cfg:5: ignored: SocketConnectHost=127.0.0.1: only sessions of the other role \
         (initiator or acceptor) use this key [FIX.4.4:DESK->C]\n",
        "desk.cfg:12: honoured: TargetCompID=A -> target_comp_id = \"A\"\n",
    ] {
        assert!(run.err.contains(expected), "{expected}: {}", run.err);
    }
}

/// Returns a Heartbeat(0) in the form of a screen log.
fn heartbeat(seq: u32, from: &str, to: &str) -> String {
    let body = format!("35=0|34={seq}|49={from}|52=20261121-09:00:00|56={to}|");
    let text = format!("8=FIX.4.4|9={}|{body}", body.len());
    let sum = text.bytes().map(|b| if b == b'|' { 1 } else { u32::from(b) }).sum::<u32>() % 256;
    format!("{text}10={sum:03}|")
}

#[test]
fn screen_logs_of_two_lines_keep_their_time_and_direction() {
    // QuickFIX C++ and QuickFIX/Go write this format.
    let screen = format!(
        "<20261121-09:28:25.623118000, FIX.4.4:VENUE->DESK, event>\n\
         \x20 (Created session)\n\
         <20261121-09:28:26.100000000, FIX.4.4:VENUE->DESK, incoming>\n\
         \x20 ({})\n\
         <2026-11-21 09:28:27.200000 +0000 UTC, FIX.4.4:VENUE->DESK, outgoing>\r\n\
         \x20 ({})\n\
         a line without a message\n\
         {}\n",
        heartbeat(2, "DESK", "VENUE"),
        heartbeat(3, "VENUE", "DESK"),
        heartbeat(4, "VENUE", "DESK"),
    );
    let dir = TempDir::new();
    fs::write(dir.path().join("screen.log"), screen).unwrap();
    for (options, expected) in [
        (&["--in"][..], &["34=2"][..]),
        (&["--out"], &["34=3"]),
        (&["--from", "20261121-09:28:27"], &["34=3"]),
        (&["--to", "20261121-09:28:26.5"], &["34=2", "34=4"]),
    ] {
        let call = [&["logs", "screen.log", "--raw"], options].concat();
        let run = run_in(dir.path(), &call, b"");
        assert_eq!(run.code, 0, "{run:#?}");
        let out = run.out.replace('\u{1}', "|");
        let found = ["34=2", "34=3", "34=4"].into_iter();
        let found: Vec<_> = found.filter(|seq| out.contains(&format!("|{seq}|"))).collect();
        assert_eq!(found, expected, "{options:?}: {run:#?}");
    }
    let run = run_in(dir.path(), &["print", "screen.log"], b"");
    let head = "<20261121-09:28:26.100000000, FIX.4.4:VENUE->DESK, incoming>\n";
    assert!(run.out.contains(head), "{run:#?}");
}

#[test]
fn one_program_runs_a_migrated_file_whatever_sessions_it_holds() {
    let dir = TempDir::new();
    let text = "[DEFAULT]\nBeginString=FIX.4.4\nSenderCompID=DESK\nNonStopSession=Y\n\
         HeartBtInt=30\nSocketConnectHost=127.0.0.1\nSocketConnectPort=1\nFileStorePath=store\n\
         SocketAcceptHost=127.0.0.1\nSocketAcceptPort=0\nFileLogPath=log\nRefreshOnLogon=Y\n\
         [SESSION]\nConnectionType=initiator\nTargetCompID=A\n\
         [SESSION]\nConnectionType=initiator\nTargetCompID=B\n\
         [SESSION]\nConnectionType=acceptor\nTargetCompID=C\n\
         [SESSION]\nConnectionType=acceptor\nTargetCompID=*\n";
    let run = migrated(&dir, text, &["--dialect", "n", "--out", "desk.toml"]);
    assert!(
        run.code == 1 && run.err.contains("RefreshOnLogon=Y: the engine's own stores"),
        "{run:#?}"
    );
    let checked = run_in(dir.path(), &["settings", "check", "desk.toml"], b"");
    assert!(checked.out.contains("starts with `transfix run desk.toml`\n"), "{checked:#?}");
    for verb in ["serve", "connect"] {
        let run = run_in(dir.path(), &[verb, "desk.toml"], b"");
        assert!(run.code == 2 && run.err.contains("use `transfix run desk.toml`"), "{run:#?}");
    }
    let mut program = Program::start(&dir, &["run", "desk.toml"]);
    program.wait_for("no routes: messages of the application are refused");
    program.wait_for("listening at 127.0.0.1:");
    program.signal();
    let (code, said) = program.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(dir.path().join("log/events.log").exists());
}

#[test]
fn a_session_below_a_mistyped_heading_is_not_lost_in_silence() {
    let dir = TempDir::new();
    let text = cfg("") + "[SESION]\nTargetCompID=OTHER\n[LIMITS]\nMaxOrders=9\n";
    let run = migrated(&dir, &text, &["--out", "desk.toml"]);
    assert_eq!(run.code, 1, "{run:#?}");
    for expected in [
        "dangerous: [SESION]: no QuickFIX uses this section; did you mean [SESSION]?",
        "dangerous: TargetCompID=OTHER: the key is in a section that no QuickFIX uses",
        "ignored: [LIMITS]: no QuickFIX uses this section\n",
        "ignored: MaxOrders=9: ",
    ] {
        assert!(run.err.contains(expected), "{expected}: {run:#?}");
    }
}

/// If one key of a pair is missing, nothing is migrated, and the report names the missing key.
#[test]
fn a_missing_key_of_the_hours_is_named() {
    let dir = TempDir::new();
    let without_hours = cfg("").replace("StartTime=00:00:00\nEndTime=00:00:00\n", "");
    let times = "StartTime=08:00:00\nEndTime=17:00:00\n";
    for (keys, missing, there) in [
        ("StartTime=08:00:00\n".to_owned(), "EndTime", "StartTime"),
        ("EndTime=17:00:00\n".to_owned(), "StartTime", "EndTime"),
        (format!("{times}StartDay=monday\n"), "EndDay", "StartDay"),
        (format!("{times}EndDay=friday\n"), "StartDay", "EndDay"),
        (format!("{times}LogonDay=monday\n"), "LogoutDay", "LogonDay"),
    ] {
        let text = without_hours.clone() + &keys;
        let options = ["--dialect", "cpp", "--out", "desk.toml", "--force"];
        let run = migrated(&dir, &text, &options);
        assert_eq!(run.code, 1, "{keys}: {run:#?}");
        let why = format!(
            ": {missing} is missing; set both keys, or remove {there}; the engine does not \
             start until `schedule` is corrected"
        );
        let said = run.err.lines().filter(|line| line.contains("not carried over: "));
        let count = keys.lines().count();
        assert_eq!(said.filter(|line| line.ends_with(&why)).count(), count, "{keys}: {run:#?}");
        let toml = fs::read_to_string(dir.path().join("desk.toml")).unwrap();
        assert!(toml.replace("\n# ", " ").contains(&why[2..]), "{toml}");
        // The settings check names the Transfix key with the same meaning.
        let run = run_in(dir.path(), &["settings", "check", "desk.toml"], b"");
        let expected = match missing {
            "EndTime" => "`to` is missing",
            "StartTime" | "LogoutDay" => "`from` is missing",
            "EndDay" => "to = \"17:00:00\" has no day",
            _ => "from = \"08:00:00\" has no day",
        };
        assert_eq!((run.code, run.out.contains(expected)), (1, true), "{missing}: {run:#?}");
    }
    // A key with an empty value counts as missing.
    let text = format!("{without_hours}{times}StartDay=monday\nEndDay=\n");
    let run = migrated(&dir, &text, &["--dialect", "cpp"]);
    assert!(run.err.contains(" is empty; set both keys, or remove StartDay;"), "{run:#?}");
}

#[test]
fn each_line_of_the_report_says_which_sessions_it_is_about() {
    let dir = TempDir::new();
    let text = "[DEFAULT]\nSenderCompID=US\nHeartBtInt=30\nBeginString=FIX.4.4\n\
        SocketConnectHost=127.0.0.1\nSocketConnectPort=9880\nSocketAcceptPort=9881\n\
        [SESSION]\nConnectionType=initiator\nTargetCompID=ONE\nNonStopSession=Y\n\
        [SESSION]\nConnectionType=initiator\nTargetCompID=TWO\n\
        [SESSION]\nConnectionType=acceptor\nTargetCompID=THREE\nReconnectInterval=5\n\
        NonStopSession=Y\nSocketNodelay=Y\n\
        [SESSION]\nConnectionType=nonsense\nTargetCompID=FOUR\n";
    for dialect in ["cpp", "j", "n"] {
        let run = migrated(&dir, text, &["--dialect", dialect]);
        let fates = ["honoured", "mapped", "ignored", "dangerous", "not carried over"];
        let mut absent = 0;
        for line in run.err.lines().filter(|line| line.starts_with("desk.cfg:")) {
            let Some((at, said)) = line["desk.cfg:".len()..].split_once(": ") else { continue };
            let Ok(at) = at.parse::<usize>() else { continue };
            let rest = fates.iter().find_map(|fate| said.strip_prefix(fate)).unwrap();
            let key = text.lines().nth(at - 1).unwrap();
            let is_of_key = rest.strip_prefix(": ").is_some_and(|rest| rest.starts_with(key));
            // A key in a section of one session is reported for that session.
            if is_of_key && at > 7 {
                continue;
            }
            absent += usize::from(!is_of_key);
            assert!(line.ends_with(']'), "{dialect}: {line}");
        }
        assert!(absent >= 4, "{dialect}: {run:#?}");
        let lines: Vec<_> = run.err.lines().collect();
        let ends = |what: &str, whose: &str| {
            let mut found = lines.iter().filter(|line| line.contains(what));
            let is_right = found.all(|line| line.ends_with(&format!(" [{whose}]")));
            assert!(is_right, "{dialect}: {what}: {lines:#?}");
        };
        ends("reconnect_interval_ms = 30000", "FIX.4.4:US->ONE, FIX.4.4:US->TWO");
        ends("the session: ConnectionType", "FIX.4.4:US->FOUR");
    }
}

/// QuickFIX C++ does not substitute variables; a value with a variable that cannot be parsed is
/// reported once.
#[test]
fn a_variable_in_a_file_of_cpp_is_told_once() {
    let dir = TempDir::new();
    let text = cfg("ResetOnLogon=${resets}\nFileLogPath=${logs}\nCheckLatency=${check}\n")
        .replace("SocketConnectPort=", "LogonTimeout=${wait}\nSocketConnectPort=");
    let run = migrated(&dir, &text, &["--dialect", "cpp"]);
    for (key, fate) in [
        (
            "ResetOnLogon",
            "not carried over: ResetOnLogon=${resets}: `${resets}` is neither Y nor N",
        ),
        (
            "FileLogPath",
            "dangerous: FileLogPath=${logs}: QuickFIX C++ inserts environment variables",
        ),
        (
            "CheckLatency",
            "dangerous: CheckLatency=${check}: QuickFIX C++ inserts environment variables",
        ),
        ("LogonTimeout", "not carried over: LogonTimeout=${wait}: "),
    ] {
        let of_key = format!(": {key}=${{");
        let lines: Vec<_> = run.err.lines().filter(|line| line.contains(&of_key)).collect();
        let bad = lines.iter().filter(|line| !line.contains(": mapped: "));
        let bad: Vec<_> = bad.filter(|line| !line.contains(": honoured: ")).collect();
        assert!(bad.len() == 1 && bad[0].contains(fate), "{key}: {lines:#?}");
    }
}
