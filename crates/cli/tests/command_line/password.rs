//! `transfix password`.

use std::fs;

use transfix_testkit::temp::TempDir;

use crate::command_line::{run_in, session};

#[test]
fn the_hash_of_a_password_goes_into_the_settings() {
    let dir = TempDir::new();
    let made = run_in(dir.path(), &["password"], b"open sesame\r\nmore\n");
    assert_eq!((made.code, &*made.err), (0, ""), "{made:#?}");
    assert!(made.out.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{made:#?}");
    assert_eq!(made.out.lines().count(), 1);
    fs::write(dir.path().join("fund.hash"), &made.out).unwrap();
    let table = "logon.expected_password_hash = { file = 'fund.hash' }\n";
    let text = session("acceptor", "127.0.0.1:0") + table;
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    let checked = run_in(dir.path(), &["settings", "check", "venue.toml"], b"");
    assert_eq!(checked.code, 0, "{checked:#?}");
    // The settings check detects a file that contains a password instead of a hash, and does not
    // print the password.
    fs::write(dir.path().join("fund.hash"), "open sesame\n").unwrap();
    let checked = run_in(dir.path(), &["settings", "check", "venue.toml"], b"");
    assert_ne!(checked.code, 0, "{checked:#?}");
    let said = checked.out + &checked.err;
    assert!(said.contains("expected_password_hash must be an Argon2 hash"), "{said}");
    assert!(!said.contains("sesame"), "{said}");
}

#[test]
fn what_is_no_password_is_told() {
    let dir = TempDir::new();
    for input in [&b""[..], b"\n", b"\x01\n", b"tab\there\n", b"\xff\n"] {
        let run = run_in(dir.path(), &["password"], input);
        assert_eq!((run.code, &*run.out), (2, ""), "{run:#?}");
        assert!(run.err.starts_with("error: "), "{run:#?}");
    }
}
