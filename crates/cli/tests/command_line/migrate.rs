//! `transfix migrate` writes settings and a report, and never overwrites files without `--force`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use transfix::Settings;
use transfix_testkit::temp::TempDir;

use crate::command_line::run_in;

/// Returns valid QuickFIX settings with the additional lines `more`.
pub(super) fn cfg(more: &str) -> String {
    "[SESSION]\nConnectionType=initiator\nBeginString=FIX.4.2\nSenderCompID=TW\n\
     TargetCompID=INCA\nSocketConnectHost=127.0.0.1\nSocketConnectPort=1\nHeartBtInt=30\n\
     StartTime=00:00:00\nEndTime=00:00:00\nFileStorePath=old\n"
        .to_owned()
        + more
}

fn dir_with(cfg: &str) -> TempDir {
    let dir = TempDir::new();
    fs::write(dir.path().join("desk.cfg"), cfg).unwrap();
    dir
}

#[test]
fn settings_go_to_standard_output_and_the_report_to_standard_error() {
    let dir = dir_with(&cfg(""));
    let run = run_in(dir.path(), &["migrate", "desk.cfg"], b"");
    assert_eq!(run.code, 0, "{run:#?}");
    let settings = Settings::parse("desk.toml", &run.out).unwrap();
    assert_eq!(settings.sessions[0].id().to_string(), "FIX.4.2:TW->INCA");
    assert!(run.err.starts_with("desk.cfg: QuickFIX C++, guessed"), "{}", run.err);
    assert!(run.err.contains("desk.cfg:8: honoured: HeartBtInt=30 -> heart_bt_int_s = 30\n"));
}

#[test]
fn a_file_of_ours_is_told_as_one_and_dialects_have_their_usual_names() {
    let dir = dir_with(&cfg(""));
    let run = run_in(dir.path(), &["migrate", "desk.cfg", "--out", "desk.toml"], b"");
    assert_eq!(run.code, 0, "{run:#?}");
    fs::write(dir.path().join("all.toml"), "include = ['desk.toml']\n").unwrap();
    for file in ["desk.toml", "all.toml"] {
        let run = run_in(dir.path(), &["migrate", file], b"");
        let expected = format!("transfix: {file}: this file has settings of Transfix already; ");
        assert!(run.code == 2 && run.err.starts_with(&expected), "{run:#?}");
    }
    for (name, engine) in [
        ("cpp", "QuickFIX C++"),
        ("C++", "QuickFIX C++"),
        ("quickfix/j", "QuickFIX/J"),
        ("java", "QuickFIX/J"),
        ("QuickFIXn", "QuickFIX/n"),
        (".net", "QuickFIX/n"),
        ("quickfixgo", "QuickFIX/Go"),
    ] {
        let run = run_in(dir.path(), &["migrate", "desk.cfg", "--dialect", name], b"");
        assert!(run.err.starts_with(&format!("desk.cfg: {engine}, as was said")), "{run:#?}");
    }
    let run = run_in(dir.path(), &["migrate", "desk.cfg", "--dialect", "philadelphia"], b"");
    assert!(run.code == 2 && run.err.contains("[possible values: cpp, j, n, go]"), "{run:#?}");
}

#[test]
fn files_are_written_and_never_over_others() {
    let dir = dir_with(&cfg("Password=hush\n"));
    let call = ["migrate", "desk.cfg", "--out", "desk.toml", "--report", "desk.report"];
    // The password cannot be migrated, because FIX 4.2 has no Password(554).
    let run = run_in(dir.path(), &call, b"");
    assert_eq!((run.code, &*run.out, &*run.err), (1, "", ""));
    let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let (toml, report) = (text("desk.toml"), text("desk.report"));
    assert!(report.contains("not carried over: Password=***"), "{report}");
    Settings::load(dir.path().join("desk.toml")).unwrap();
    fs::write(dir.path().join("desk.toml"), "mine").unwrap();
    fs::remove_file(dir.path().join("desk.report")).unwrap();
    let run = run_in(dir.path(), &call, b"");
    assert_eq!(run.code, 2, "{run:#?}");
    assert!(run.err.contains("desk.toml already exists"), "{}", run.err);
    assert_eq!(text("desk.toml"), "mine");
    assert!(!dir.path().join("desk.report").exists());
    assert_eq!(run_in(dir.path(), &[&call[..], &["--force"]].concat(), b"").code, 1);
    assert_eq!((text("desk.toml"), text("desk.report")), (toml, report));
}

#[test]
fn a_password_is_for_the_engines_user_alone() {
    let cfg = cfg("Password=hush\n").replace("FIX.4.2", "FIX.4.4");
    let dir = dir_with(&cfg);
    let call = ["migrate", "desk.cfg", "--out", "desk.toml", "--report", "desk.report"];
    assert_eq!(run_in(dir.path(), &call, b"").code, 0);
    let path = dir.path().join("desk.toml");
    assert!(fs::read_to_string(&path).unwrap().contains("hush"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let report = fs::read_to_string(dir.path().join("desk.report")).unwrap();
    assert!(!report.contains("hush"), "{report}");
}

#[test]
fn what_is_written_can_be_used_by_the_other_verbs() {
    let dir = dir_with(&cfg(""));
    let run = run_in(dir.path(), &["migrate", "desk.cfg", "--out", "desk.toml"], b"");
    assert_eq!(run.code, 0, "{run:#?}");
    let schedule = run_in(dir.path(), &["schedule", "desk.toml"], b"");
    assert!(schedule.out.contains("FIX.4.2:TW->INCA"), "{schedule:#?}");
}

#[test]
fn a_dictionary_that_differs_little_is_written_as_an_overlay() {
    let dir = dir_with(&cfg("DataDictionary=venue.xml\n"));
    let standard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dictionaries/FIX42.xml");
    let text = fs::read_to_string(standard).unwrap();
    let field = "  <field number='9001' name='VenueFlag' type='CHAR'/>\n </fields>";
    let changed = text.replacen(" </fields>", field, 1);
    assert_ne!(changed, text);
    fs::write(dir.path().join("venue.xml"), changed).unwrap();
    let run = run_in(dir.path(), &["migrate", "desk.cfg", "--out", "desk.toml"], b"");
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.err.contains("1 difference: VenueFlag(9001) added"), "{}", run.err);
    let overlay = "venue.overlay.xml";
    let call = ["dictionary", "FIX42", "9001", "--overlay", overlay];
    let found = run_in(dir.path(), &call, b"");
    assert!(found.out.starts_with("VenueFlag(9001)"), "{found:#?}");
    let toml = fs::read_to_string(dir.path().join("desk.toml")).unwrap();
    assert!(toml.contains("overlays = [\"venue.overlay.xml\"]"), "{toml}");
}

#[test]
fn stores_are_offered_and_imported() {
    let dir = dir_with(&cfg(""));
    let old = dir.path().join("old");
    fs::create_dir(&old).unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLE);
    for file in fs::read_dir(&sample).unwrap() {
        let path = file.unwrap().path();
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        fs::copy(&path, old.join(format!("FIX.4.2-TW-INCA.{ending}"))).unwrap();
    }
    let run = run_in(dir.path(), &["migrate", "desk.cfg"], b"");
    assert!(
        run.err.contains("add --import-stores to import it into old/FIX.4.2-TW-INCA"),
        "{run:#?}"
    );
    let call = ["migrate", "desk.cfg", "--out", "desk.toml", "--import-stores"];
    let run = run_in(dir.path(), &call, b"");
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.out.starts_with("old/FIX.4.2-TW-INCA: "), "{run:#?}");
    let shown = run_in(dir.path(), &["store", "show", "old/FIX.4.2-TW-INCA"], b"");
    assert_eq!(shown.code, 0, "{shown:#?}");
    // At the second run the store exists already.
    let again = [&call[..], &["--force"]].concat();
    let run = run_in(dir.path(), &again, b"");
    assert_eq!(run.code, 2, "{run:#?}");
    assert!(run.err.contains("already exists"), "{}", run.err);
}

/// Directory with sample stores of QuickFIX C++.
const SAMPLE: &str = "../../testdata/stores/quickfix-cpp-1.15.1";
