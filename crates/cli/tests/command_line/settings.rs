//! `transfix settings`.

use std::fs;

use transfix_testkit::temp::TempDir;

use crate::command_line::run_in;

fn check(dir: &TempDir, text: &str, flags: &[&str]) -> (i32, String) {
    fs::write(dir.path().join("a.toml"), text).unwrap();
    let run = run_in(dir.path(), &[&["settings", "check", "a.toml"], flags].concat(), b"");
    (run.code, run.out)
}

const SESSION: &str = "[[session]]\nrole = 'acceptor'\nbegin_string = 'FIX.4.4'\n\
    sender_comp_id = 'A'\ntarget_comp_id = 'B'\naddress = '127.0.0.1:0'\n";

#[test]
fn all_errors_are_told_at_once() {
    let dir = TempDir::new();
    let text = format!(
        "[engine]\nworkers = 0\nlog_cpu = 'x'\n[defaults]\nnosuch = 1\n\
         {SESSION}heart_bt_int_s = 'x'\nmode = 'fast'\n[[session]]\nrole = 'buyer'\n"
    );
    let (code, said) = check(&dir, &text, &[]);
    let lines: Vec<_> = said.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let places = [2, 3, 5, 12, 13, 15].map(|line| format!("a.toml:{line}:"));
    assert_eq!(lines[..6], places, "{said}");
    assert!(said.ends_with("a.toml: 6 errors, 0 warnings\n"), "{said}");
    assert_eq!(code, 1);
}

#[test]
fn all_errors_of_tables_within_tables_are_told_at_once() {
    let dir = TempDir::new();
    let other = SESSION.replace("'B'", "'C'");
    let text = format!(
        "[admin]\nopen_metric = true\n[admin.fix]\nadress = 'a'\nsessions_max = 'x'\n\
         [defaults]\ntiming.nosuch = 1\n\
         {SESSION}logon = {{ usernam = 'a', quiet = 7 }}\nheart_bt_int_s = 'x'\n\
         [session.tls]\nenabled = 'x'\nmin_version = '1.9'\nca = 5\n\
         [session.log]\ndir = 5\nroll_bytes = 'x'\n\
         {other}throttles = [{{ msg_type = 5, messages_max = 'x' }}]\n"
    );
    let (code, said) = check(&dir, &text, &[]);
    let places = [2, 4, 5, 7, 14, 14, 15, 17, 18, 19, 21, 22, 29, 29];
    let places = places.map(|line| format!("a.toml:{line}:"));
    let lines: Vec<_> = said.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(lines[..lines.len() - 1], places, "{said}");
    assert_eq!(code, 1);
}

#[test]
fn all_entries_of_a_list_and_all_cpus_that_are_wrong_are_told_at_once() {
    let dir = TempDir::new();
    let text = format!("{SESSION}allow_from = ['a', '::1', 'b']\n");
    let (code, said) = check(&dir, &text, &[]);
    let place = "error: a.toml:7: FIX.4.4:A->B: allow_from: `a` is neither an IP address";
    assert!(code == 1 && said.starts_with(place) && said.contains("; `b` is neither"), "{said}");
    let text = format!(
        "[engine]\ncpus = [0, 60001, 60002]\nhelper_cpus = [60003]\nlog_cpu = 60004\n\
         {SESSION}mode = 'dedicated'\ncpu = 60005\n"
    );
    let (code, said) = check(&dir, &text, &[]);
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    let expected = [
        "2: [engine] cpus: 60001, 60002 are no CPUs: ",
        "3: [engine] helper_cpus: 60003 is no CPU: ",
        "4: [engine] log_cpu: 60004 is no CPU: ",
        "12: FIX.4.4:A->B: cpu = 60005: ",
    ];
    assert!(code == 1 && lines.len() == expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("error: a.toml:{expected}")), "{said}");
    }
}

#[test]
fn warnings_fail_only_if_that_is_wanted() {
    let dir = TempDir::new();
    let text = format!("{SESSION}durability = 'memory'\n");
    let (code, said) = check(&dir, &text, &[]);
    let begin = "warning: a.toml:7: FIX.4.4:A->B: durability: messages are not stored in files";
    assert!(said.starts_with(begin), "{said}");
    let end = "FIX.4.4:A->B: always open\nstarts with `transfix serve a.toml` or `transfix run \
               a.toml`\na.toml: 0 errors, 1 warning\n";
    assert!(said.ends_with(end), "{said}");
    assert_eq!((code, check(&dir, &text, &["--strict"]).0), (0, 1));
}

#[test]
fn the_next_window_is_shown_once_for_all_sessions_that_have_it() {
    let dir = TempDir::new();
    let schedule = "schedule = { zone = 'UTC', from = 'sun 17:00', to = 'sun 16:00' }\n";
    let other = SESSION.replace("'B'", "'C'");
    let (_, said) = check(&dir, &format!("{SESSION}{schedule}{other}{schedule}"), &[]);
    let line = said.lines().find(|line| line.contains("(UTC)")).unwrap();
    assert!(line.starts_with("FIX.4.4:A->B and 1 other: "), "{said}");
    assert!(line.contains("open, closes Sun") || line.contains("closed, opens Sun"), "{said}");
}

fn said(dir: &TempDir, args: &[&str]) -> String {
    let run = run_in(dir.path(), &[&["settings"], args].concat(), b"");
    assert_eq!((run.code, &*run.err), (0, ""), "{args:?}");
    run.out
}

#[test]
fn what_counts_in_the_end_is_shown_with_its_origin_and_without_passwords() {
    let dir = TempDir::new();
    let common = "[defaults]\nlogon = { expected_password = 'sesame1', quiet = true }\n\
        heart_bt_int_s = '${NO_SUCH_VARIABLE:-20}'\nheader_fields = [\n  '115=DESK',\n]\n\
        log = { dir = 'log', mask = [116] }\n";
    fs::write(dir.path().join("common.toml"), common).unwrap();
    let other = SESSION.replace("'B'", "'C'");
    let text = format!(
        "include = ['common.toml']\n{SESSION}logon.expected_username = 'desk'\n\
         logon.fields = ['1603=APP', '1402=sesame2', '96=sesame5', '116=sesame6']\n\
         body_fields = ['1=ACCOUNT', '554=sesame4']\n\
         log = {{ direction = 'words' }}\n\
         {other}heart_bt_int_s = 7\ndictionary = 'venue'\n\
         logon.expected_password = {{ command = ['printf', 'sesame3'] }}\n\
         [dictionaries]\nvenue = {{ base = 'FIX44' }}\n"
    );
    fs::write(dir.path().join("a.toml"), text).unwrap();
    let shown = said(&dir, &["show", "a.toml", "--changed"]);
    for line in [
        "[[session]] # FIX.4.4:A->B, a.toml:2",
        "role = \"acceptor\" # a.toml:3",
        "heart_bt_int_s = 20 # common.toml:3, [defaults], with the environment",
        "header_fields = [\"115=DESK\"] # common.toml:4, [defaults]",
        "logon.expected_username = \"desk\" # a.toml:8",
        "logon.expected_password = \"***\" # common.toml:2, [defaults]",
        "logon.fields = [\"1603=APP\", \"1402=***\", \"96=***\", \"116=***\"] # a.toml:9",
        "body_fields = [\"1=ACCOUNT\", \"554=***\"] # a.toml:10",
        "log = { dir = \"log\", direction = \"words\", mask = [116] } # a.toml:11",
        "heart_bt_int_s = 7 # a.toml:18",
        "logon.expected_password = { command = [\"printf\", \"***\"] } # a.toml:20",
        "dictionary = { base = \"FIX44\" } # a.toml:19",
    ] {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(shown.lines().any(|one| words(one) == words(line)), "{line}:\n{shown}");
    }
    let all = said(&dir, &["show", "a.toml"]);
    let json = said(&dir, &["show", "a.toml", "--json"]);
    for text in [&shown, &all, &json] {
        assert!(!text.contains("sesame"), "{text}");
    }
    assert!(all.contains("logon_timeout_ms = 10000") && json.contains("\"logon_timeout_ms\""));
    // The output of `settings show` is itself a valid settings file, and shows the same values.
    let read_back = all.replace("workers = 2", "workers = 3");
    fs::write(dir.path().join("b.toml"), &read_back).unwrap();
    let again = said(&dir, &["show", "b.toml"]);
    let values = |text: &str| -> Vec<String> {
        let values = text.lines().map(|line| line.split(" # ").next().unwrap().trim().to_owned());
        values.filter(|line| !line.starts_with('#')).collect()
    };
    assert_eq!(values(&again), values(&read_back));
    // `settings show` with a session name shows this session only, and reports an unknown name.
    let one = said(&dir, &["show", "a.toml", "A->C"]);
    assert_eq!(one.matches("[[session]]").count(), 1);
    let run = run_in(dir.path(), &["settings", "show", "a.toml", "nobody"], b"");
    assert_eq!((run.code, &*run.err), (1, "transfix: a.toml: no session has `nobody`\n"));
}

#[test]
fn keys_are_explained_and_a_wrong_one_names_the_nearest() {
    let dir = TempDir::new();
    let one = said(&dir, &["reference", "heart_bt_int_s"]);
    assert!(one.contains("heart_bt_int_s (whole number; default 30)"), "{one}");
    let table = said(&dir, &["reference", "tls"]);
    assert!(table.contains("\ntls, a table of a session; in Rust TlsSettings\n"), "{table}");
    let run = run_in(dir.path(), &["settings", "reference", "hart_bt_int"], b"");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("did you mean `heart_bt_int_s`?"), "{}", run.err);
    let schema: serde_json::Value = serde_json::from_str(&said(&dir, &["schema"])).unwrap();
    let key = &schema["$defs"]["session"]["properties"]["heart_bt_int_s"];
    assert_eq!(key["default"], 30);
}
