//! `transfix settings check`.

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
fn warnings_fail_only_if_that_is_wanted() {
    let dir = TempDir::new();
    let text = format!("{SESSION}durability = 'memory'\n");
    let (code, said) = check(&dir, &text, &[]);
    let begin = "warning: a.toml:7: FIX.4.4:A->B: durability: nothing is stored in files";
    assert!(said.starts_with(begin), "{said}");
    assert!(said.ends_with("FIX.4.4:A->B: always open\na.toml: 0 errors, 1 warning\n"), "{said}");
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
