//! Tests what a program prints when it ends with an engine error: the text, its causes, and the
//! place in the file.

use std::error::Error;
use std::fs;
use std::time::Duration;

use transfix::{
    BeginString, Decimal, Engine, EngineError, Misuse, SendError, SessionId, Settings,
    SettingsError,
};
use transfix_store::{Damage, StoreError};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

/// Returns the text that is printed if `main` returns the error.
fn printed_by_main(error: Box<dyn Error>) -> String {
    format!("Error: {error:?}")
}

/// A typical `main`: reads settings from a file and starts an engine.
fn run(settings: &str) -> Result<(), Box<dyn Error>> {
    let dir = TempDir::new();
    let path = dir.path().join("my.toml");
    fs::write(&path, settings)?;
    let mut settings = Settings::load(&path)?;
    for session in &mut settings.sessions {
        session.store.store_dir = dir.path().join("store");
    }
    let engine = Engine::start(&settings, |_| Box::new(App::silent()))?;
    engine.stop(Duration::ZERO);
    Ok(())
}

#[test]
fn main_prints_the_place_and_what_to_do() {
    let session = |role: &str, address: &str| {
        format!(
            "[[session]]\nrole = \"{role}\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"A\"\n\
             target_comp_id = \"B\"\naddress = \"{address}\"\n"
        )
    };
    for (settings, place, text) in [
        (
            session("initiator", "127.0.0.1"),
            "my.toml:6: ",
            "has no port; write host:port, such as 127.0.0.1:9880",
        ),
        (session("initiator", "::1"), "my.toml:6: ", "such as [::1]:9880"),
        (session("acceptor", ""), "my.toml:6: ", "address : invalid socket address"),
        (session("acceptor", ":9880"), "my.toml:6: ", "has no host"),
        (session("acceptor", "localhost:x"), "my.toml:6: ", "the port must be 0 to 65535, not `x`"),
        (
            session("acceptor", "venue..example:9880"),
            "my.toml:6: ",
            "FIX.4.4:A->B: address venue..example:9880: ",
        ),
        (session("acceptor", "192.0.2.1:9880"), "my.toml:6: ", "listening at 192.0.2.1:9880: "),
        (
            session("acceptor", "127.0.0.1:0") + "mode = 'dedicated'\ncpu = 99999\n",
            "my.toml:8: ",
            "this machine has only the CPUs 0",
        ),
        (session("acceptor", "127.0.0.1:0") + "modus = 1\n", "my.toml:7: ", "did you mean `mode`?"),
    ] {
        let shown = printed_by_main(run(&settings).unwrap_err());
        assert!(shown.contains(place) && shown.contains(text), "{shown}");
        assert!(!shown.contains('{') && !shown.contains("\\\""), "a Debug of Rust: {shown}");
    }
}

#[test]
fn all_errors_show_their_text_by_debug() {
    let locked = StoreError::Locked { path: "lock".into() };
    let damaged = StoreError::Damaged { path: "a.seg".into(), offset: 5, reason: Damage::Record };
    let id = SessionId::new(BeginString::Fix44, "A", "B");
    let of_store = EngineError::Store { id, source: damaged };
    let errors: Vec<Box<dyn Error>> = vec![
        Box::new(locked),
        Box::new(of_store),
        Box::new(SendError::WouldBlock { queued_bytes: 7 }),
        Box::new(SendError::Misuse(Misuse::EmptyValue(transfix::tag::TEXT))),
        Box::new("x".parse::<Decimal>().unwrap_err()),
        Box::new(transfix_dictionary::standard("FIX45").unwrap_err()),
    ];
    for error in errors {
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}

#[test]
fn errors_have_a_cause_a_place_and_a_number() {
    let cause = |error: &dyn Error| error.source().map(ToString::to_string);
    let misuse = SendError::Misuse(Misuse::EmptyValue(transfix::tag::TEXT));
    assert_eq!(cause(&misuse), Some("tag 58 has no value; omit the field".to_owned()));
    assert_eq!((misuse.as_u16(), SendError::Closed.as_u16()), (302, 207));

    let damaged = StoreError::Damaged { path: "a.seg".into(), offset: 5, reason: Damage::Record };
    let (id, text) = (SessionId::new(BeginString::Fix44, "A", "B"), damaged.to_string());
    let of_store = EngineError::Store { id, source: damaged };
    assert_eq!((cause(&of_store), of_store.as_u16()), (Some(text), 610));

    let place = |error: &SettingsError| (error.path().to_owned(), error.line(), error.as_u16());
    let unreadable = Settings::load("no/such.toml").unwrap_err();
    assert_eq!(place(&unreadable), ("no/such.toml".into(), None, 801));
    assert!(cause(&unreadable).is_some_and(|text| text.contains("No such file")));
    let malformed = Settings::parse("my.toml", "[engine]\nworkers = \"two\"\n").unwrap_err();
    assert_eq!(place(&malformed), ("my.toml".into(), Some(2), 802));
    let wrong = Settings::parse("my.toml", "[engine]\nworkers = 0\n").unwrap_err();
    assert_eq!(place(&wrong), ("my.toml".into(), Some(2), 803));
    assert_eq!(wrong.to_string(), "my.toml:2: workers must be at least 1, not 0");
    // The error must name the key of the file, whose suffix gives the unit of a time.
    for (wrong, key) in
        [("latency_unusual_percent = 100", "101"), ("hot_worker_percent = 101", "100")]
    {
        let refused = Settings::parse("my.toml", &format!("[engine]\n\n{wrong}\n")).unwrap_err();
        assert_eq!(
            (refused.line(), refused.to_string().contains(key)),
            (Some(3), true),
            "{refused}"
        );
    }
}
