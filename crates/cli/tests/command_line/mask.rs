//! Each command that prints messages hides passwords and the fields that the user names.

use std::fs;
use std::io::Write;

use transfix_codec::FrameWriter;
use transfix_store::{FileStore, Kind, Options, Record, Store};
use transfix_testkit::temp::TempDir;

use crate::command_line::run_in;
use crate::command_line::running::{Program, venue};

/// Secret values in the test's messages: passwords, a key, and a value that is hidden only on
/// request.
const SECRETS: [&str; 4] = ["hush", "whisper", "KEY", "DESK"];

/// Returns a UserRequest(BE) with passwords and a key, and with a field that the message type does
/// not allow.
fn message() -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"BE");
    let fields = "34=2|49=A|56=B|52=20261121-09:28:25|923=1|924=3|553=me|554=hush|925=whisper|\
        1=DESK|95=3|96=KEY|";
    frame.raw(fields.replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    out
}

/// Writes the message as a capture, as a truncated log line, and into the stores of both sides.
fn files() -> TempDir {
    let (dir, bytes) = (TempDir::new(), message());
    fs::write(dir.path().join("user.fix"), &bytes).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap().replace('\x01', "|");
    // A wrong BodyLength(9) and a wrong third field make the message garbled.
    let text = text.replace("|35=BE|", "|7=x|35=BE|").replace("|9=", "|9=9");
    fs::write(dir.path().join("broken.log"), text).unwrap();
    for (name, value) in [("one", "hush"), ("two", "HUSH")] {
        let (mut store, _) =
            FileStore::open(&dir.path().join(name), Options::default(), 0).unwrap();
        let bytes =
            String::from_utf8(bytes.clone()).unwrap().replace("=hush", &format!("={value}"));
        let sum = transfix_codec::raw::check_sum(&bytes.as_bytes()[..bytes.len() - 7]);
        let bytes = [&bytes.as_bytes()[..bytes.len() - 4], &sum, b"\x01"].concat();
        let kind = Kind::Application;
        store.put(1, Record::Outbound { seq: 2, kind, bytes: &bytes }).unwrap();
        store.put(1, Record::Inbound { seq: 2, kind, bytes: &bytes }).unwrap();
        let queued = &message()[b"8=FIX.4.4\x019=129\x01".len()..];
        store.put(1, Record::Queued { ticket: 1, bytes: queued }).unwrap();
        store.commit().unwrap();
    }
    dir
}

/// Runs `call` with the additional arguments `more`, and checks that of all secrets only `shown`
/// appear.
fn check(dir: &TempDir, call: &str, more: &str, shown: &[&str]) {
    let args: Vec<&str> = call.split(' ').chain(more.split_whitespace()).collect();
    let run = run_in(dir.path(), &args, b"");
    let text = format!("{}{}", run.out, run.err);
    assert!(!text.contains("error:"), "{args:?}: {text}");
    for secret in SECRETS {
        let is_shown = text.contains(secret);
        assert_eq!(is_shown, shown.contains(&secret), "{args:?}: {secret}: {text}");
    }
}

#[test]
fn each_verb_shows_stars_for_secrets() {
    let dir = files();
    for call in [
        "print user.fix",
        "print --one-line user.fix",
        "print broken.log",
        "print one",
        "store print one",
        "store print one --full",
        "store export one --to raw",
        "store export one --to json",
        "store export one --to quickfix-log",
    ] {
        check(&dir, call, "", &["DESK"]);
        check(&dir, call, "--mask 1", &[]);
        check(&dir, call, "--mask 58,1", &[]);
        check(&dir, call, "--unmasked", &SECRETS);
    }
    check(&dir, "store queue one", "", &["DESK"]);
    check(&dir, "store queue one", "--mask 1", &[]);
    check(&dir, "audit journals one two", "", &["DESK"]);
    check(&dir, "audit journals one two", "--mask 1", &[]);
    // Conversion of a file hides nothing unless the user names fields.
    check(&dir, "convert --to json user.fix", "", &SECRETS);
    check(&dir, "convert --to json user.fix", "--mask 1", &[]);
    check(&dir, "convert --to json one", "", &["DESK"]);
    check(&dir, "convert --to json one", "--mask 1", &[]);
    // A segment file of a store is treated like the store: passwords are hidden.
    let mut segments = fs::read_dir(dir.path().join("one")).unwrap().map(|entry| entry.unwrap());
    let segment = segments.find(|entry| entry.path().extension().is_some_and(|end| end == "seg"));
    let segment = format!("convert --to json one/{}", segment.unwrap().file_name().display());
    check(&dir, &segment, "", &["DESK"]);
    check(&dir, &segment, "--mask 1", &[]);
    // A directory of logs can only be converted to Parquet.
    fs::create_dir(dir.path().join("logs")).unwrap();
    fs::copy(dir.path().join("user.fix"), dir.path().join("logs/user.fix")).unwrap();
    for (to, why) in [
        ("json", "logs: no .seg file here; name the store directory of one session, or a file"),
        ("fix", "logs is a directory, but --to fix reads a file of JSON; name a file"),
    ] {
        let run = run_in(dir.path(), &["convert", "--to", to, "logs"], b"");
        assert!(run.code == 2 && run.out.is_empty() && run.err.contains(why), "{run:?}");
    }
    let json = run_in(dir.path(), &["convert", "--to", "json", "user.fix"], b"").out;
    fs::write(dir.path().join("user.json"), json).unwrap();
    check(&dir, "convert --to fix user.json", "", &SECRETS);
    check(&dir, "convert --to fix user.json", "--mask 1", &[]);
    for call in ["print user.fix --mask Account", "print user.fix --mask 0"] {
        let run = run_in(dir.path(), &call.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains("write the number of a tag"), "{run:?}");
    }
}

#[test]
fn check_judges_the_value_and_shows_stars() {
    let dir = TempDir::new();
    let text = "8=FIX.4.4|9=60|35=D|34=2|49=A|56=B|52=20261121-09:28:25|1=DESK|554=hush|44=12x|\
        0554=KEY|925=whisper|10=000|\n";
    fs::write(dir.path().join("bad.log"), text).unwrap();
    check(&dir, "check --all bad.log", "", &[]);
    check(&dir, "check --all bad.log", "--unmasked", &["hush", "whisper", "KEY"]);
    let price = |more: &[&str]| {
        let args = [&["check", "--all", "bad.log"], more].concat();
        run_in(dir.path(), &args, b"").out
    };
    assert!(price(&[]).contains("Price(44)=12x: Incorrect data format"), "{}", price(&[]));
    let masked = price(&["--mask", "44"]);
    assert!(masked.contains("Price(44)=***: Incorrect data format"), "{masked}");
}

#[test]
fn the_screens_of_a_session_hide_what_its_log_hides() {
    let dir = TempDir::new();
    let keys = "log = { dir = 'log', mask = [1, 55] }\n";
    let mut venue = venue(&dir, keys, &[]);
    let settings = dir.path().join("client.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text + "log = { dir = 'mine', mask = [1, 55] }\n").unwrap();
    let mut client = Program::start(&dir, &["connect", "client.toml"]);
    let order = "11=1|1=DESK|55=KEY|54=1|60=20261121-12:00:00|38=5|40=2|44=30|554=hush";
    write!(client.commands, "wait\nsend D {order}\n").unwrap();
    client.wait_for("-> NewOrderSingle(D)");
    let answer = client.wait_for("<- ");
    writeln!(client.commands, "quit").unwrap();
    let mut all = client.rest() + &answer;
    assert_eq!(client.ended().0, Some(0));
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
    all += &venue.rest();
    assert!(all.contains("NewOrderSingle(D)") && all.contains("****"), "{all}");
    assert!(SECRETS.iter().all(|secret| !all.contains(secret)), "{all}");
}
