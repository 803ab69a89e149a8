//! Reads arbitrary text as a settings file, without a panic. The reader that stops at the first
//! error and the reader that collects all errors agree on a valid file. Settings that are printed
//! contain no password.
//!
//! A settings file may name programs to run and files to read; such inputs are skipped.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use transfix::{Mask, Secret, Settings};

/// The file into which each input is written.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("transfix-fuzz-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory of our own");
    dir.join("fuzz.toml")
});

/// Minimum length in bytes of the passwords that are searched for; shorter ones also occur inside
/// other words.
const PASSWORD_BYTES_MIN: usize = 5;

/// Returns true if reading the text could run a program or read another file, even if the key is
/// written with escapes.
fn reaches_out(text: &str) -> bool {
    let names = ["command", "include", "file", "\\u", "\\U", "\\x"];
    names.iter().any(|name| text.contains(name))
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if reaches_out(text) {
        return;
    }
    fs::write(&*FILE, text).expect("a file of our own");
    let name = FILE.to_str().expect("a path of our own");
    let first = Settings::parse(name, text);
    let all = Settings::load_or_all_errors(&*FILE);
    match (&first, &all) {
        (Ok(first), Ok(all)) => assert_eq!(format!("{first:?}"), format!("{all:?}")),
        (Err(first), Err(all)) => {
            let lines: Vec<_> = all.iter().map(|error| error.line()).collect();
            assert!(lines.is_sorted() && !lines.is_empty(), "{all:#?}");
            assert!(lines.contains(&first.line()), "{first}\nis not among\n{all:#?}");
        }
        _ => panic!("the first error: {:?}\nall: {:?}", first.err(), all.err()),
    }
    let shown = Settings::shown(&*FILE);
    assert_eq!(shown.is_ok(), all.is_ok());
    let shown: Vec<_> = shown.into_iter().flatten().flat_map(|one| one.keys).collect();
    for password in all.iter().flat_map(passwords) {
        // A password that occurs more than once in the text may also be a name, so it is not
        // searched for.
        if password.len() >= PASSWORD_BYTES_MIN && text.matches(password).count() == 1 {
            let of = shown.iter().find(|key| key.value.iter().any(|v| v.contains(password)));
            assert!(of.is_none(), "{password} is shown: {of:?}");
        }
    }
});

/// Returns all passwords of the settings.
fn passwords(settings: &Settings) -> impl Iterator<Item = &str> {
    settings.sessions.iter().flat_map(|session| {
        let (logon, proxy) = (&session.logon, session.proxy.as_ref());
        let of_proxy = proxy.and_then(|proxy| proxy.password.as_ref());
        let all = [
            logon.password.as_ref(),
            logon.new_password.as_ref(),
            logon.expected_password.as_ref(),
            logon.expected_password_hash.as_ref(),
            of_proxy,
        ];
        let fields = [&session.protocol.header_fields, &session.protocol.body_fields];
        let fields =
            fields.into_iter().flatten().filter(|(tag, _)| Mask::default().hides("D", *tag));
        all.into_iter().flatten().map(Secret::reveal).chain(fields.map(|(_, value)| &**value))
    })
}
