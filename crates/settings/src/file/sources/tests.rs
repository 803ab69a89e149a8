//! Tests settings in several files, and with environment variables.

use std::path::PathBuf;
use std::time::Duration;

use transfix_session::Secret;
use transfix_testkit::temp::TempDir;

use crate::Settings;

/// Returns the text of a session with the counterparty `name`.
fn session(name: &str) -> String {
    format!(
        "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"US\"\n\
         target_comp_id = \"{name}\"\naddress = \"127.0.0.1:0\"\n"
    )
}

/// A directory with settings files, of which the first one is loaded.
struct Dir(TempDir, PathBuf);

impl Dir {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = TempDir::new();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let first = dir.path().join(files[0].0);
        Self(dir, first)
    }

    fn load(&self) -> Settings {
        Settings::load(&self.1).unwrap()
    }

    /// Returns the error without the name of the directory. Checks that it is also the first in the
    /// list of all errors.
    fn error(&self) -> String {
        let first = self.told(&Settings::load(&self.1).unwrap_err());
        let all = Settings::load_or_all_errors(&self.1).unwrap_err();
        assert!(all.iter().any(|error| self.told(error) == first), "{first}: {all:?}");
        first
    }

    fn told(&self, error: &impl ToString) -> String {
        error.to_string().replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn counterparties(settings: &Settings) -> Vec<&str> {
    settings.sessions.iter().map(|session| &*session.target_comp_id).collect()
}

#[test]
fn sessions_of_all_files_have_the_defaults_of_all() {
    let first = format!(
        "include = [\"common.toml\", \"sessions/*.toml\"]\n[engine]\nworkers = 3\n\
         [defaults]\nheart_bt_int_s = 9\ntiming.margin_ms = 7\n{}",
        session("A")
    );
    let common = "[defaults]\nheart_bt_int_s = 5\ntiming = { margin_ms = 5, \
                  test_request_wait_ms = 5 }\n\
                  check_comp_ids = false\ndictionary = \"OURS\"\n[dictionaries]\n\
                  OURS = { base = \"FIX44\" }\n";
    let dir = Dir::new(&[
        ("fix.toml", &first),
        ("common.toml", common),
        ("sessions/c.toml", &session("C")),
        ("sessions/b.toml", &format!("{}heart_bt_int_s = 1\n", session("B"))),
        ("sessions/.d.toml", "not read"),
        ("sessions/e.toml.old", "not read"),
    ]);
    let settings = dir.load();
    assert_eq!(settings.engine.workers, 3);
    assert_eq!(counterparties(&settings), ["A", "B", "C"], "by the names of their files");
    for (session, seconds) in settings.sessions.iter().zip([9, 1, 9]) {
        assert_eq!(session.protocol.heart_bt_int.as_secs(), seconds, "the includer's word counts");
        assert_eq!(
            [session.timing.margin, session.timing.test_request_wait],
            [7, 5].map(Duration::from_millis)
        );
        assert!(!session.protocol.check_comp_ids);
        assert_eq!(session.validation.dictionary.as_ref().unwrap().base, PathBuf::from("FIX44"));
    }
}

#[test]
fn an_error_names_the_file_that_it_stands_in_and_its_line() {
    let main = format!("include = [\"b.toml\"]\n{}", session("A"));
    let b = session("B");
    for (text, expected) in [
        (
            format!("# 1\n{b}hart_bt_int_s = 5\n"),
            "b.toml:8: unknown key `hart_bt_int_s`; did you mean `heart_bt_int_s`?",
        ),
        (
            format!("{b}heart_bt_int_s = \"x\"\n"),
            "b.toml:7: `heart_bt_int_s` must be a whole number from 0 to 4294967295, not \"x\"",
        ),
        (format!("{b}= 3\n"), "b.toml:7: "),
        (b.replace("\"B\"", "\"A\""), "b.toml:1: session FIX.4.4:US->A appears twice"),
        (format!("{b}cpu = 2\n"), "b.toml:7: FIX.4.4:US->B: cpu = 2 requires a thread"),
        (format!("{b}message_bytes_max = 10\n"), "b.toml:1: FIX.4.4:US->B: message_bytes_max"),
        ("[engin]\n".to_owned(), "b.toml:1: unknown section `engin`"),
        (b.replace("address", "#"), "b.toml:1: the key `address` is missing"),
    ] {
        let error = Dir::new(&[("a.toml", &main), ("b.toml", &text)]).error();
        assert!(error.starts_with(expected), "{error}\n{text}");
    }
}

#[test]
fn what_two_files_say_must_not_contradict() {
    let all = format!("include = [\"b.toml\", \"c.toml\"]\n{}", session("A"));
    let interval = "[defaults]\nheart_bt_int_s = 5\n";
    let with = |a: &str, b: &str, c: &str| Dir::new(&[("a.toml", a), ("b.toml", b), ("c.toml", c)]);
    let error = with(&all, interval, interval).error();
    let expected = "c.toml:2: [defaults] of b.toml:2 also sets `heart_bt_int_s`, and neither \
                    file includes the other; set the key in one file only, or in the file that \
                    includes both";
    assert_eq!(error.replace("[defaults] of /", "[defaults] of "), expected);
    // The including file decides which value applies.
    let decided = with(&format!("{all}[defaults]\nheart_bt_int_s = 3\n"), interval, interval);
    assert_eq!(decided.load().sessions[0].protocol.heart_bt_int, Duration::from_secs(3));
    let error = with(&all, "[engine]\n", "[engine]\nworkers = 2\n").error();
    assert!(error.starts_with("c.toml:1: [engine] appears already at b.toml:1"), "{error}");
    let error = with(&all, "[dictionaries]\nX = \"FIX44\"\n", "[dictionaries]\nX = \"FIX42\"\n");
    assert_eq!(error.error(), "c.toml:2: `X` stands at b.toml:2 already");
}

#[test]
fn what_cannot_be_included_is_told() {
    let with = |include: &str| {
        Dir::new(&[
            ("a.toml", &*format!("include = {include}\n{}", session("A"))),
            ("b.toml", "include = [\"a.toml\"]\n"),
            ("quickfix.cfg", "[DEFAULT]\nConnectionType=acceptor\n"),
            ("empty/.hidden", ""),
        ])
    };
    for (include, expected) in [
        ("\"b.toml\"", "a.toml:1: include must be a list of files: include = [\"common.toml\"]"),
        ("[5]", "a.toml:1: include must be a list of texts in quotes"),
        ("[\"none.toml\"]", "a.toml:1: include: none.toml cannot be read: No such file"),
        ("[\"empty\"]", "a.toml:1: include: empty cannot be read: Is a directory"),
        ("[\"none/*.toml\"]", "a.toml:1: include: the folder none cannot be read: No such file"),
        ("[\"*/b.toml\"]", "a.toml:1: include: `*/b.toml`: only the last part of a path"),
        ("[\"*.to*\"]", "a.toml:1: include: `*.to*`: only the last part of a path"),
        (
            "[\"b.toml\"]",
            "b.toml:1: include: a.toml was already read: this file is the first file; remove",
        ),
        (
            "[\"quickfix.cfg\"]",
            "a.toml:1: include: quickfix.cfg: the file has settings of QuickFIX",
        ),
        ("[\"${NO_SUCH_VARIABLE}\"]", "a.toml:1: the environment variable NO_SUCH_VARIABLE is"),
    ] {
        let error = with(include).error();
        assert!(error.starts_with(expected), "{error}\n{include}");
    }
    // A directory without matching files is no error, because files may be added later.
    assert_eq!(counterparties(&with("[\"empty/*.toml\"]").load()), ["A"]);
    assert_eq!(counterparties(&with("[\"${NO_SUCH_VARIABLE:-empty}/*\"]").load()), ["A"]);
    // Each of these files includes the next one, which exceeds the maximum depth.
    let deep: Vec<_> = (0..9).map(|n| format!("include = [\"{}.toml\"]\n", n + 1)).collect();
    let names: Vec<_> = (0..9).map(|n| format!("{n}.toml")).collect();
    let mut files: Vec<_> = names.iter().zip(&deep).map(|(a, b)| (&**a, &**b)).collect();
    let last = session("Z");
    files.push(("9.toml", &last));
    let error = Dir::new(&files).error();
    assert_eq!(error, "7.toml:1: include: files may include each other at most 8 levels deep");
}

#[test]
fn a_variable_stands_for_a_text_a_number_or_a_switch() {
    // The test uses a variable that Cargo sets for each test.
    let major: u64 = env!("CARGO_PKG_VERSION_MAJOR").parse().unwrap();
    let text = format!(
        "{}heart_bt_int_s = \"${{CARGO_PKG_VERSION_MAJOR}}\"\n\
         check_comp_ids = \"${{NO_SUCH_VARIABLE:-false}}\"\n\
         logon.expected_username = \"<${{CARGO_PKG_NAME}}>\"\n\
         timing = {{ margin_ms = '${{NO_SUCH_VARIABLE:-7}}' }}\n\
         throttles = [{{ msg_type = \"D\", messages_max = \"${{NO_SUCH_VARIABLE:-2}}\", \
         interval_ms = 1000, \
         action = \"reject\" }}]\n\
         logon.expected_password = \"${{CARGO_PKG_NAME}}\"\n",
        session("$${A}")
    );
    let settings = Settings::parse("a.toml", &text).unwrap();
    let session = &settings.sessions[0];
    assert_eq!(session.target_comp_id, "${A}");
    assert_eq!(session.protocol.heart_bt_int.as_secs(), major);
    assert!(!session.protocol.check_comp_ids);
    assert_eq!(session.timing.margin, Duration::from_millis(7));
    assert_eq!(session.protocol.throttles[0].messages_max, 2);
    assert_eq!(session.logon.expected_username.as_deref(), Some("<transfix-settings>"));
    assert_eq!(
        session.logon.expected_password.as_ref().map(Secret::reveal),
        Some("transfix-settings")
    );
    let places = session.places.as_ref().unwrap();
    assert!(places.secrets.is_empty(), "the file holds no password");
}

#[test]
fn an_include_below_a_heading_is_told_where_it_belongs() {
    let expected = "`include` must be at the top of the file, before the first section";
    for text in [
        format!("[engine]\ninclude = [\"b.toml\"]\n{}", session("A")),
        format!("[defaults]\ninclude = [\"b.toml\"]\n{}", session("A")),
        format!("{}include = [\"b.toml\"]\n", session("A")),
        format!("{}[session.tls]\ninclude = [\"b.toml\"]\n", session("A")),
        format!("{}[session.logon]\ninclude = [\"b.toml\"]\n", session("A")),
    ] {
        let error = Settings::parse("a.toml", &text).unwrap_err();
        assert_eq!(error.message(), expected, "{text}");
    }
}

#[test]
fn a_variable_that_is_not_what_is_wanted_is_told_with_its_value() {
    for (key, expected) in [
        (
            "heart_bt_int_s = \"${CARGO_PKG_NAME}\"",
            "whole number from 0 to 4294967295, not \"${CARGO_PKG_NAME}\"; the environment \
             changes the value to `transfix-settings`: CARGO_PKG_NAME is set",
        ),
        (
            "heart_bt_int_s = \"${NO_SUCH_VARIABLE:-20s}\"",
            "; the environment changes the value to `20s`: NO_SUCH_VARIABLE is unset or empty, \
             so its default applies",
        ),
        (
            "heart_bt_int_s = \"1${NO_SUCH_VARIABLE:-5}\"",
            "not \"1${NO_SUCH_VARIABLE:-5}\"; the environment changes the value to `15`: NO_SUCH",
        ),
        // The values are out of range, or wrong for another reason.
        (
            "slow_consumer_bytes = \"${NO_SUCH_VARIABLE:-99999999999}\"",
            "; the environment changes the value to `99999999999`: NO_SUCH_VARIABLE is unset",
        ),
        (
            "allow_from = [\"::1\", \"${CARGO_PKG_NAME}\", \"${NO_SUCH_VARIABLE:-}\"]",
            "; the environment changes the value to `transfix-settings`: CARGO_PKG_NAME is set; \
             the environment changes the value to ``: NO_SUCH_VARIABLE is unset",
        ),
        ("heart_bt_int_s = \"5\"", "whole number from 0 to 4294967295, not \"5\""),
        ("mode = \"${CARGO_PKG_NAME}\"", "unknown value"),
        ("logon.expected_username = \"${\"", "`${` without `}`"),
    ] {
        let error = Settings::parse("a.toml", &format!("{}{key}\n", session("A"))).unwrap_err();
        assert_eq!(error.line(), Some(7), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // The value of a key that may contain a password is not shown.
    for key in [
        "logon.expected_password_hash = \"${CARGO_PKG_NAME}\"",
        "logon = \"${CARGO_PKG_NAME}\"",
        "proxy = \"${CARGO_PKG_NAME}\"",
        "header_fields = [\"115=A\", \"50=${CARGO_PKG_NAME}\"]",
        "logon = { expected_password = \"${CARGO_PKG_NAME}\", expected_username = 5 }",
        "logon = { fields = [\"1=x\", \"${CARGO_PKG_NAME}\"] }",
        "logon.expected_password = { command = [\"${CARGO_PKG_NAME}\", 5] }",
    ] {
        let error = Settings::parse("a.toml", &format!("{}{key}\n", session("A"))).unwrap_err();
        assert_eq!(error.line(), Some(7), "{error}");
        let told = error.message();
        assert!(told.ends_with("changes the value: CARGO_PKG_NAME is set"), "{told}");
        assert!(!told.contains("`transfix`") && !told.contains("=transfix"), "{told}");
    }
    // Variables in keys are not replaced.
    let error = Settings::parse("a.toml", &format!("{}\"${{A}}\" = 5\n", session("A")));
    assert!(error.unwrap_err().to_string().contains("unknown key `${A}`"));
}
