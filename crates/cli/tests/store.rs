//! `transfix store` as users call it: on Transfix stores, and on stores of QuickFIX engines.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use transfix_store::journal::{self, Event};
use transfix_store::{FileStore, Kind, LOGGED_ON, Options, Record, Store};
use transfix_testkit::temp::TempDir;

/// The output and the exit code of a finished `transfix` command.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    let output = command.arg("store").args(args).env("LOGNAME", "alice").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program and checks its exit code. Returns the output.
fn expect(code: i32, args: &[&str]) -> Run {
    let run = run(args);
    assert_eq!(run.code, code, "{args:?}: {run:#?}");
    run
}

/// The options for small segments, so that a test store has several segments.
const SMALL: Options = Options {
    durability: transfix_store::Durability::Process,
    segment_bytes_first: 4096,
    segment_bytes_max: 4096,
};

const SECOND: u64 = 1_000_000_000;

fn message(msg_type: &str, seq: u64, sender: &str, target: &str) -> Vec<u8> {
    let body = format!("35={msg_type}|34={seq}|49={sender}|52=20261121-09:28:25|56={target}|");
    let text = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\x01");
    let sum = text.bytes().fold(0_u8, u8::wrapping_add);
    format!("{text}10={sum:03}\x01").into_bytes()
}

/// Writes a store of a session that received a logon and `orders` orders, one per second, and
/// answered each of them.
fn session(dir: &Path, orders: u64) {
    let (mut store, _) = FileStore::open(dir, SMALL, 0).unwrap();
    store.put(0, Record::Note("logged\non")).unwrap();
    for seq in 1..=orders {
        let (order, report) =
            if seq == 1 { ("A", "A") } else { ("D", if seq % 2 == 0 { "8" } else { "0" }) };
        let bytes = &message(order, seq, "CLIENT", "VENUE");
        store.put(seq * SECOND, Record::Inbound { seq, kind: Kind::Application, bytes }).unwrap();
        let bytes = &message(report, seq, "VENUE", "CLIENT");
        store.put(seq * SECOND, Record::Outbound { seq, kind: Kind::Application, bytes }).unwrap();
        store.put(seq * SECOND, Record::NextIn(seq + 1)).unwrap();
        store.commit().unwrap();
    }
}

/// Returns a directory with the store of one session.
fn with_session(orders: u64) -> (TempDir, PathBuf, String) {
    let dir = TempDir::new();
    let path = dir.path().join("FIX.4.4-VENUE-CLIENT");
    session(&path, orders);
    let text = path.to_str().unwrap().to_owned();
    (dir, path, text)
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = paths.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn help_shows_an_example_of_each_verb() {
    assert!(expect(0, &["--help"]).out.contains("\n  transfix store list"));
    for verb in
        ["list", "show", "print", "queue", "set-next", "verify", "repair", "export", "import"]
    {
        let help = expect(0, &[verb, "--help"]).out;
        assert!(help.contains(&format!("\n  transfix store {verb} ")), "{help}");
        assert!(help.contains("Exit code: 0 "), "{help}");
    }
}

#[test]
fn list_and_show_say_numbers_and_health() {
    let (dir, path, store) = with_session(40);
    let root = dir.path().to_str().unwrap();
    session(&dir.path().join("other/FIX.4.4-VENUE-DESK"), 2);
    let list = expect(0, &["list", root]).out;
    let row = |list: &str, name: &str| {
        let line = list.lines().find(|line| line.contains(name)).unwrap().to_owned();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&list, "VENUE-CLIENT")[1..5], ["41", "41", "40", "40"], "{list}");
    assert_eq!(row(&list, "VENUE-DESK")[1..5], ["3", "3", "2", "2"], "{list}");
    // Without stored bytes of received messages, the output says `none kept` instead of a count of
    // 0.
    let (mut bare, _) = FileStore::open(&dir.path().join("BARE"), SMALL, 0).unwrap();
    bare.put(1, Record::NextIn(7)).unwrap();
    bare.commit().unwrap();
    drop(bare);
    let bare = dir.path().join("BARE");
    for args in [["list", root], ["show", bare.to_str().unwrap()]] {
        assert!(expect(0, &args).out.contains("none kept"), "{args:?}");
    }
    let show = expect(0, &["show", &store]).out;
    for text in ["next_out", "19700101-00:00:40.0", "00000001.seg", "logged\\non", "sound"] {
        assert!(show.contains(text), "{text}: {show}");
    }
    let held = FileStore::open(&path, SMALL, 0).unwrap();
    assert!(expect(0, &["list", root]).out.contains("in use by a process"));
    drop(held);
    assert!(expect(0, &["list", &store]).out.contains("41"), "a store itself");
    let nothing = dir.path().join("nothing");
    assert!(expect(2, &["list", nothing.to_str().unwrap()]).err.contains("nothing"));
    assert!(expect(2, &["show", root]).err.contains("transfix store list"));
}

#[test]
fn stores_behind_symbolic_links_are_listed_once() {
    let (stores, path, _) = with_session(2);
    let dir = TempDir::new();
    symlink(&path, dir.path().join("LINKED")).unwrap();
    symlink(stores.path(), dir.path().join("ALL")).unwrap();
    symlink(dir.path(), dir.path().join("LOOP")).unwrap();
    session(&dir.path().join("OWN"), 2);
    let list = expect(0, &["list", dir.path().to_str().unwrap()]).out;
    let names: Vec<_> = list.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(names, ["OWN", "ALL/FIX.4.4-VENUE-CLIENT"], "{list}");
}

#[test]
fn print_takes_numbers_times_directions_and_types() {
    let (_dir, _, store) = with_session(20);
    let lines = |args: &[&str]| {
        let run = expect(0, &[&["print", &store], args].concat());
        run.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&[]).len(), 1 + 3 * 20);
    let some = lines(&["--from", "7", "--to", "8", "--direction", "out"]);
    assert!(some.len() == 2 && some[0].contains("Heartbeat(0) seq 7 VENUE->CLIENT"), "{some:?}");
    let types = lines(&["--type", "A,8"]);
    assert_eq!(types.len(), 2 + 10, "{types:?}");
    let second = lines(&["--from", "19700101-00:00:05", "--to", "19700101-00:00:05"]);
    assert!(second.len() == 3 && second[2].starts_with("next_in 6 "), "{second:?}");
    assert!(lines(&["--to", "1", "--full"]).iter().any(|line| line.contains("MsgSeqNum")));
    assert!(expect(2, &["print", &store, "--from", "noon"]).err.contains("20261121-09:28:25"));
}

#[test]
fn the_queue_is_shown_at_any_time_and_cleared_while_nobody_uses_it() {
    let dir = TempDir::new();
    let store = dir.path().to_str().unwrap().to_owned();
    session(dir.path(), 2);
    assert_eq!(expect(0, &["queue", &store]).out, "0 messages waiting\n");
    let (mut open, _) = FileStore::open(dir.path(), SMALL, 0).unwrap();
    for ticket in 1..=3 {
        let bytes = format!("35=D\x0111=order {ticket}\x01").into_bytes();
        open.put(ticket * SECOND, Record::Queued { ticket, bytes: &bytes }).unwrap();
    }
    open.put(4 * SECOND, Record::Unqueued(1)).unwrap();
    open.commit().unwrap();
    let two = "2 19700101-00:00:02.000000000 35=D|11=order 2\n\
               3 19700101-00:00:03.000000000 35=D|11=order 3\n2 messages waiting\n";
    assert_eq!(expect(0, &["queue", &store]).out, two);
    let shown = expect(0, &["show", &store]).out;
    let mut words = shown.split_whitespace().skip_while(|word| *word != "waiting");
    assert_eq!(words.nth(1), Some("2"), "{shown}");
    let printed = expect(0, &["print", &store]).out;
    assert!(printed.contains("queued 2 19700101-00:00:02.000000000 35=D|11=order 2"), "{printed}");
    assert!(printed.contains("unqueued 1 19700101-00:00:04"), "{printed}");
    let exported = expect(0, &["export", &store, "--to", "json"]).out;
    assert!(exported.contains("\"queued\":2") && exported.contains("\"unqueued\":1"));
    let clear = ["queue", &store, "--clear", "--reason", "of yesterday"];
    let said = expect(1, &clear);
    assert!(said.err.contains("stop the other process"), "{said:?}");
    drop(open);
    assert_eq!(expect(0, &["queue", &store]).out, two, "nothing was cleared");
    assert_eq!(expect(0, &clear).out, "2 messages cleared\n");
    assert_eq!(expect(0, &["queue", &store]).out, "0 messages waiting\n");
    assert_eq!(expect(0, &["queue", &store, "--clear"]).out, "0 messages cleared\n");
    let note = expect(0, &["show", &store]).out;
    assert!(note.contains("queue, by alice (uid "), "{note}");
    assert!(note.contains(": 2 messages cleared: of yesterday"), "{note}");
    expect(2, &["queue", &store, "--reason", "of yesterday"]);
    expect(2, &["queue", "nowhere"]);
}

#[test]
fn set_next_writes_who_and_why_unless_the_store_is_open() {
    let (_dir, path, store) = with_session(5);
    let set = ["set-next", &store, "--in", "40", "--out", "3", "--reason", "agreed by phone"];
    let mut held = FileStore::open(&path, SMALL, 0).unwrap().0;
    let mut kept = path.clone().into_os_string();
    kept.push(".numbers");
    assert_eq!(held.keep_numbers_in(kept.clone().into()).unwrap(), None);
    let before = files(&path);
    assert!(expect(1, &set).err.contains("stop the other process"));
    assert!(files(&path) == before);
    drop(held);
    for (option, number) in [("--out", "3"), ("--out", "5"), ("--in", "1")] {
        let lower = ["set-next", &store, option, number, "--reason", "agreed"];
        let refusal = expect(1, &lower).err;
        let said = format!("{option} {number} is below the present number 6");
        assert!(refusal.contains(&said) && refusal.contains("--force"), "{refusal}");
    }
    assert!(expect(1, &set).err.contains("--force"));
    assert!(files(&path) == before);
    let set = [&set[..], &["--force"]].concat();
    assert!(expect(0, &set).out.contains("next_in 6 to 40, next_out 6 to 3"));
    let events: Vec<_> = journal::read(&path).unwrap().map(|entry| entry.unwrap().event).collect();
    let [.., Event::Note(note), Event::NextIn(40), Event::NextOut(3)] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(
        note.starts_with("set by alice (uid ") && note.ends_with(": agreed by phone"),
        "{note}"
    );
    let (mut opened, _) = FileStore::open(&path, SMALL, 0).unwrap();
    assert_eq!((opened.numbers().next_in, opened.numbers().next_out), (40, 3));
    assert_eq!(opened.keep_numbers_in(kept.into()).unwrap(), None, "it is no older copy");
    assert!(opened.outbound(2).unwrap().is_some() && opened.outbound(3).unwrap().is_none());
    drop(opened);
    expect(2, &["set-next", &store, "--in", "40"]);
    expect(2, &["set-next", &store, "--reason", "none"]);
    expect(2, &["set-next", &store, "--in", "0", "--reason", "none"]);
    let nowhere = path.with_file_name("nowhere");
    expect(2, &["set-next", nowhere.to_str().unwrap(), "--in", "4", "--reason", "x"]);
    assert!(!nowhere.exists());
}

#[test]
fn show_prints_a_store_as_json() {
    let (_dir, path, store) = with_session(40);
    let json = |code: i32| {
        let out = expect(code, &["show", "--json", &store]).out;
        assert_eq!(out.lines().count(), 1, "{out}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let shown = json(0);
    for (key, value) in [
        ("store", Value::from(&*store)),
        ("session", Value::Null),
        ("next_in", 41.into()),
        ("next_out", 41.into()),
        ("last_reset", "19700101-00:00:00".into()),
        ("last_logon", Value::Null),
        ("sent", 40.into()),
        ("received", 40.into()),
        ("waiting", 0.into()),
        ("first_message", "19700101-00:00:01".into()),
        ("last_message", "19700101-00:00:40".into()),
        ("health", "sound".into()),
    ] {
        let found = &shown[key];
        let is_it = match (found.as_str(), value.as_str()) {
            (Some(found), Some(wanted)) => found.starts_with(wanted),
            _ => *found == value,
        };
        assert!(is_it, "{key}: {shown}");
    }
    assert_eq!(shown["last_note"]["text"], "logged\non");
    assert_eq!(shown["faults"], Value::Array(Vec::new()));
    assert_eq!(shown["segments"][1]["file"], "00000001.seg");
    let (mut open, _) = FileStore::open(&path, SMALL, 0).unwrap();
    open.put(50 * SECOND, Record::Note(LOGGED_ON)).unwrap();
    open.commit().unwrap();
    drop(open);
    assert_eq!(json(0)["last_logon"].as_str().unwrap()[..17], *"19700101-00:00:50");
    assert!(expect(0, &["show", &store]).out.contains("last logon"));
    let segment = path.join("00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[1200..1210].fill(0xff);
    fs::write(&segment, &bytes).unwrap();
    let damaged = json(1);
    let fault = &damaged["faults"][0];
    assert_eq!(
        (&fault["file"], &fault["code"]),
        (&"00000001.seg".into(), &610.into()),
        "{damaged}"
    );
    assert!(fault["lost_bytes"].as_u64().unwrap() > 0, "{damaged}");
}

#[test]
fn damage_is_found_told_and_repaired_beside_the_original() {
    let (dir, path, store) = with_session(60);
    assert!(expect(0, &["verify", &store]).out.contains("sound"));
    let segment = path.join("00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[1200..1210].fill(0xff);
    fs::write(&segment, &bytes).unwrap();
    let before = files(&path);
    let verify = expect(1, &["verify", &store]).out;
    let lost = "the sent messages 20 to 21 are lost";
    assert!(verify.contains("00000001.seg, byte ") && verify.contains(lost), "{verify}");
    assert!(verify.contains(&format!("`transfix store repair {store} --to NEW`")), "{verify}");
    assert!(expect(1, &["list", &store]).out.contains("damaged in 1 place, "));
    expect(1, &["show", &store]);
    let refusal = FileStore::open(&path, SMALL, 0).unwrap_err().to_string();
    assert!(refusal.contains(&format!("`transfix store repair {store} --to NEW`")), "{refusal}");
    let new = dir.path().join("new");
    let new = new.to_str().unwrap();
    assert!(expect(0, &["repair", &store, "--to", new]).out.contains(lost));
    assert!(files(&path).iter().eq(&before), "the original stays");
    assert!(expect(0, &["verify", new]).out.contains("sound"));
    let (opened, _) = FileStore::open(Path::new(new), SMALL, 0).unwrap();
    assert_eq!(opened.numbers().next_out, 61);
    drop(opened);
    let last = journal::read(Path::new(new)).unwrap().last().unwrap().unwrap().event;
    let Event::Note(note) = last else { panic!("{last:?}") };
    assert!(note.starts_with("repaired by alice (uid ") && note.contains(&store), "{note}");
    assert!(note.contains(lost) && note.contains("00000001.seg, byte "), "{note}");
    let again = expect(2, &["repair", &store, "--to", new]).err;
    assert!(again.contains("already has a store; name a new directory"), "{again}");
    let itself = expect(2, &["repair", &store, "--to", &format!("{store}/.")]).err;
    assert!(itself.contains("is the store itself"), "{itself}");
    assert!(files(&path).iter().eq(&before), "the original stays");
    let file = expect(2, &["verify", &format!("{store}/00000000.seg")]).err;
    assert!(file.contains("is a file") && file.contains(&store), "{file}");
}

/// `store verify` accepts the arguments that a shell makes from `store/*`: files beside stores are
/// skipped, and all stores are verified.
#[test]
fn files_beside_stores_are_passed_over_and_the_next_store_is_verified() {
    let (dir, _, store) = with_session(3);
    let beside = format!("{store}.numbers");
    fs::write(&beside, "as an engine writes it").unwrap();
    assert!(expect(0, &["verify", &store, &beside]).out.contains("sound"));
    let alone = expect(2, &["verify", &beside]).err;
    let named = format!("is a file; name the directory of the store: {store}\n");
    assert!(alone.contains(&named), "{alone}");
    let none = dir.path().join("none");
    let both = expect(2, &["verify", none.to_str().unwrap(), &store]);
    assert!(both.err.contains("none: no such directory") && both.out.contains("sound"), "{both:?}");
    let all = dir.path().to_str().unwrap();
    let logs = Command::new(env!("CARGO_BIN_EXE_transfix")).args(["logs", "--count", all]).output();
    let logs = String::from_utf8(logs.unwrap().stderr).unwrap();
    assert!(!logs.contains("other file"), "{logs}");
}

#[test]
fn what_others_have_put_there_is_told_and_a_renamed_session_takes_its_store_along() {
    let (dir, path, store) = with_session(60);
    let spare = dir.path().join("spare");
    fs::rename(path.join("00000000.seg"), &spare).unwrap();
    fs::rename(path.join("00000001.seg"), path.join("00000000.seg")).unwrap();
    fs::rename(&spare, path.join("00000001.seg")).unwrap();
    let verify = expect(1, &["verify", &store]).out;
    assert!(verify.contains("the file's name: it is segment 1"), "{verify}");
    assert!(verify.contains("damaged in 2 places, nothing lost"), "{verify}");
    let new = dir.path().join("new");
    let args = ["repair", &store, "--to", new.to_str().unwrap(), "--session", "FIX.4.4-A-B"];
    assert!(expect(0, &args).out.contains("next_out 61"));
    assert!(expect(0, &["show", new.to_str().unwrap()]).out.contains("FIX.4.4-A-B"));
    let misnamed = "new belongs to the session FIX.4.4-A-B, but the directory has another name";
    assert!(expect(0, &["verify", new.to_str().unwrap()]).out.contains(misnamed));
    assert!(run(&["list", dir.path().to_str().unwrap()]).out.contains(misnamed));
    let named = dir.path().join("FIX.4.4-A-B");
    fs::rename(&new, &named).unwrap();
    assert!(
        !expect(0, &["verify", named.to_str().unwrap()])
            .out
            .contains("the directory has another name")
    );
    fs::rename(&named, &new).unwrap();
    let opened = FileStore::open_for("FIX.4.4-A-C", &new, SMALL, 0).unwrap_err().to_string();
    assert!(opened.contains("belongs to the session FIX.4.4-A-B"), "{opened}");
    // A torn message whose text contains a batch in an older store format.
    let planted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/store/sound.seg");
    let bytes = &fs::read(planted).unwrap()[64..];
    let (mut torn, _) = FileStore::open(&new, SMALL, 0).unwrap();
    torn.put(1, Record::Inbound { seq: 9, kind: Kind::Application, bytes }).unwrap();
    drop(torn);
    let verify = expect(0, &["verify", new.to_str().unwrap()]).out;
    assert!(
        verify.contains("of an unfinished batch") && verify.contains("look like batches"),
        "{verify}"
    );
    let old = dir.path().join("old");
    fs::create_dir(&old).unwrap();
    let planted = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/store/sound.seg");
    fs::copy(planted, old.join("00000000.seg")).unwrap();
    let verify = expect(0, &["verify", old.to_str().unwrap()]).out;
    assert!(verify.contains("segments of an older format: 1;"), "{verify}");
}

#[test]
fn secrets_are_stars_in_what_is_printed_and_exported() {
    let (dir, bytes) = (TempDir::new(), b"8=FIX.4.4\x019=15\x0135=A\x01554=hush\x0110=213\x01");
    let (mut store, _) = FileStore::open(dir.path(), SMALL, 0).unwrap();
    store.put(1, Record::Inbound { seq: 1, kind: Kind::Admin, bytes }).unwrap();
    store.commit().unwrap();
    drop(store);
    let store = dir.path().to_str().unwrap();
    // `print`, the command for captures, also reads stores, and masks their values.
    let printed = Command::new(env!("CARGO_BIN_EXE_transfix")).args(["print", store]).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    assert!(printed.contains("****") && !printed.contains("hush"), "{printed}");
    for words in ["Logon", "logon", "A"] {
        assert!(run(&["print", store, "--type", words]).out.contains("Logon(A)"), "{words}");
    }
    let wrong = expect(2, &["export", store, "--to", "raw", "--type", "Logonn"]);
    assert!(wrong.err.contains("did you mean 'Logon'?"), "{wrong:?}");
    let to = |form| ["export", store, "--to", form];
    for args in [&["print", store][..], &to("raw"), &to("json"), &to("quickfix-log")] {
        let shown = run(args).out;
        assert!(shown.contains("****") && !shown.contains("hush"), "{args:?}: {shown}");
        let shown = run(&[args, &["--unmasked"]].concat()).out;
        assert!(!shown.contains("****") && shown.contains("hush"), "{args:?}: {shown}");
    }
}

#[test]
fn what_is_lost_is_told_or_said_not_to_be_known() {
    let (dir, path, store) = with_session(60);
    let segment = |number: u32| path.join(format!("{number:08}.seg"));
    let last = (0..).take_while(|n| segment(*n).exists()).last().unwrap();
    assert!(last > 2);
    let said = |expected: &[&str]| {
        let out = expect(1, &["verify", &store]).out;
        assert!(expected.iter().all(|text| out.contains(text)), "{out}");
        let new = dir.path().join("new");
        expect(0, &["repair", &store, "--to", new.to_str().unwrap()]);
        assert!(expect(0, &["verify", new.to_str().unwrap()]).out.contains("sound"));
        fs::remove_dir_all(new).unwrap();
    };
    let with = |number: u32, bytes: Option<usize>, expected: &[&str]| {
        let whole = fs::read(segment(number)).unwrap();
        match bytes {
            Some(bytes) => fs::write(segment(number), &whole[..bytes]).unwrap(),
            None => fs::remove_file(segment(number)).unwrap(),
        }
        said(expected);
        fs::write(segment(number), whole).unwrap();
    };
    let unknown = "; the loss is unknown";
    with(last, None, &["1 place, loss not known", "this segment is missing", unknown]);
    with(last, Some(2000), &["1 place, ", "more not known", "the file was truncated", unknown]);
    with(last, Some(10), &["1 place, loss not known", "unsound segment header", unknown]);
    with(1, None, &["messages sent lost, more not known", " are lost; further losses are unknown"]);
    assert!(expect(0, &["verify", &store]).out.contains("sound"));
}

#[test]
fn export_gives_bytes_json_and_a_log() {
    let (dir, _, store) = with_session(3);
    let sent: Vec<_> = [("A", 1), ("8", 2), ("0", 3)]
        .iter()
        .flat_map(|(t, n)| message(t, *n, "VENUE", "CLIENT"))
        .collect();
    let file = dir.path().join("sent.fix");
    let file = file.to_str().unwrap();
    expect(0, &["export", &store, "--to", "raw", "--direction", "out", "--output", file]);
    assert!(fs::read(file).unwrap() == sent);
    expect(2, &["export", &store, "--to", "raw", "--output", file]);
    let log = expect(0, &["export", &store, "--to", "quickfix-log", "--until", "1"]).out;
    let lines: Vec<_> = log.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("19700101-00:00:01.000000000 : 8=FIX.4.4\x01")
    );
    let json = expect(0, &["export", &store, "--to", "json"]).out;
    let objects: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["note"], "logged\non");
    assert_eq!(objects[1]["direction"], "in");
    assert_eq!(objects[5]["message"]["Header"]["MsgType"], "8");
    assert_eq!(objects[5]["time"], "19700101-00:00:02.000000000");
    assert_eq!(objects[6]["next_in"], 3);
}

fn foreign(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/stores");
    root.join(name).to_str().unwrap().to_owned()
}

/// Stores of other engines and their expected layouts. Stores with a version in the name were
/// written by the engine itself; the others were made from the description of the format.
const FOREIGN: [(&str, &str); 8] = [
    ("quickfix-cpp", "quickfix-cpp"),
    ("quickfix-cpp", "quickfix-cpp-1.15.1"),
    ("quickfixj", "quickfixj"),
    ("quickfixj", "quickfixj-3.0.0"),
    ("quickfixj", "quickfixj-cached"),
    ("quickfixj", "quickfixj-3.0.0-cached"),
    ("quickfixn", "quickfixn"),
    ("quickfixgo", "quickfixgo"),
];

#[test]
fn stores_of_other_engines_are_taken_over() {
    let dir = TempDir::new();
    for (from, name) in FOREIGN {
        let to = dir.path().join("imported").join(name);
        let args = ["import", "--from", from, &foreign(name), "--to", to.to_str().unwrap()];
        let said = expect(0, &args);
        assert!(said.out.contains("3 messages, next_in 17, next_out 4"), "{name}: {said:?}");
        let (mut store, _) = FileStore::open(&to, SMALL, 0).unwrap();
        let numbers = store.numbers();
        assert_eq!((numbers.next_in, numbers.next_out), (17, 4), "{name}");
        let day_ns = 86_400 * SECOND;
        assert_eq!(numbers.created_ns / day_ns, 20_778, "{name}: 2026-11-21");
        let body = fs::read(Path::new(&foreign(name)).join("FIX.4.4-VENUE-CLIENT.body")).unwrap();
        let [one, two, three] = [1, 2, 3].map(|seq| {
            let found = store.outbound(seq).unwrap().unwrap();
            (found.kind, found.time_ns, found.bytes.to_vec())
        });
        assert_eq!((one.0, two.0, three.0), (Kind::Admin, Kind::Application, Kind::Admin));
        assert!([one.2, two.2, three.2].concat() == body, "{name}");
        let sent = "20261121-09:28:26.001000000";
        assert_eq!(transfix::Timestamp(two.1 as i64).to_string(), sent, "{name}");
        drop(store);
        expect(2, &args);
    }
}

/// Returns a copy of another engine's store in which `change` has modified the file with this
/// ending.
fn changed(name: &str, ending: &str, change: impl FnOnce(&mut Vec<u8>)) -> TempDir {
    let dir = TempDir::new();
    for (path, mut bytes) in files(Path::new(&foreign(name))) {
        if path.extension().is_some_and(|end| end == ending) {
            change(&mut bytes);
            return finish(dir, name, &path, &bytes);
        }
    }
    panic!("{name} has no {ending}")
}

fn finish(dir: TempDir, name: &str, changed: &Path, bytes: &[u8]) -> TempDir {
    for (path, old) in files(Path::new(&foreign(name))) {
        let new = if path == changed { bytes } else { &old };
        fs::write(dir.path().join(path.file_name().unwrap()), new).unwrap();
    }
    dir
}

/// The layout, the ending of the changed file, the change, and the expected error.
type Case = (&'static str, &'static str, fn(&mut Vec<u8>), &'static str);

#[test]
fn what_does_not_fit_together_must_be_decided() {
    let cases: [Case; 16] = [
        ("quickfix-cpp", "seqnums", Vec::clear, "seqnums: empty"),
        ("quickfix-cpp", "seqnums", |b| b.truncate(30), "does not consist of two numbers"),
        (
            "quickfix-cpp",
            "seqnums",
            |b| b[19] = b'9',
            "next_out is 9, but the last message sent has number 3",
        ),
        ("quickfix-cpp", "seqnums", |b| b.truncate(42), "does not consist of two numbers"),
        ("quickfixn", "seqnums", |b| b.truncate(42), "does not consist of two numbers"),
        ("quickfixgo", "targetseqnums", |b| b.truncate(18), "is not a number"),
        ("quickfix-cpp", "header", |b| b.truncate(12), "entry 2 is incomplete"),
        ("quickfix-cpp", "header", |b| b.truncate(7), "201 bytes of the body file are missing"),
        (
            "quickfix-cpp",
            "body",
            |b| b.truncate(250),
            "message 3: the body file ends before this message",
        ),
        ("quickfix-cpp", "body", |b| b[100] = b'x', "message 2: "),
        ("quickfixj", "header", |b| b.truncate(40), "8 bytes)"),
        ("quickfixj", "senderseqnums", Vec::clear, "senderseqnums: empty"),
        (
            "quickfixn",
            "header",
            |b| b[0] = b'7',
            "message 7: at this position the body file has \
            MsgSeqNum(34) '1'",
        ),
        ("quickfixgo", "targetseqnums", |b| b[18] = b'x', "is not a number"),
        ("quickfix-cpp", "session", |b| *b = b"garbage".to_vec(), "'garbage' is not a time"),
        ("quickfixj", "session", |b| b[5] = 0xff, "is not a time"),
    ];
    for (name, ending, change, expected) in cases {
        let dir = changed(name, ending, change);
        let from = dir.path().to_str().unwrap();
        let to = dir.path().join("new");
        let args = ["import", "--from", name, from, "--to", to.to_str().unwrap()];
        let refusal = expect(1, &args);
        assert!(refusal.err.contains(expected), "{name} {ending}: {refusal:?}");
        assert!(!to.exists(), "{name} {ending}");
        expect(0, &[&args[..], &["--in", "17", "--out", "5"]].concat());
        let (store, _) = FileStore::open(&to, SMALL, 0).unwrap();
        assert_eq!((store.numbers().next_in, store.numbers().next_out), (17, 5));
    }
}

#[test]
fn a_log_that_disagrees_must_be_decided() {
    let dir = TempDir::new();
    let log = dir.path().join("messages.log");
    let import = |to: &str| {
        let (from, to) = (foreign("quickfix-cpp"), dir.path().join(to));
        let (log, to) = (log.to_str().unwrap(), to.to_str().unwrap());
        run(&["import", "--from", "quickfix-cpp", &from, "--log", log, "--to", to])
    };
    let write = |last_in: u64, last_out: u64| {
        let mut text = Vec::new();
        let received = message("0", last_in, "CLIENT", "VENUE");
        let sent = message("0", last_out, "VENUE", "CLIENT");
        let others = message("0", 99, "DESK", "VENUE");
        for message in [received, sent, others] {
            text.extend_from_slice(b"20261121-09:28:25.623118000 : ");
            text.extend_from_slice(&message);
            text.push(b'\n');
        }
        fs::write(&log, text).unwrap();
    };
    write(16, 3);
    assert_eq!(import("agreed").code, 0);
    write(16, 5);
    let run = import("more");
    assert!(
        run.code == 1 && run.err.contains("next_out is 4 in the store, but 6 in the log"),
        "{run:?}"
    );
    write(18, 3);
    let run = import("in");
    assert!(
        run.code == 1 && run.err.contains("next_in is 17 in the store, but 19 in the log"),
        "{run:?}"
    );
    fs::write(&log, "nothing\n").unwrap();
    assert_eq!(import("none").code, 1);
}

#[test]
fn one_of_several_sessions_must_be_named() {
    let dir = changed("quickfixgo", "session", |_| {});
    for ending in ["body", "header", "senderseqnums", "targetseqnums"] {
        let from = dir.path().join(format!("FIX.4.4-VENUE-CLIENT.{ending}"));
        fs::copy(from, dir.path().join(format!("FIX.4.4-VENUE-DESK.{ending}"))).unwrap();
    }
    let (from, to) = (dir.path().to_str().unwrap(), dir.path().join("new"));
    let args = ["import", "--from", "quickfixgo", from, "--to", to.to_str().unwrap()];
    let refusal = expect(2, &args).err;
    assert!(refusal.contains("FIX.4.4-VENUE-CLIENT, FIX.4.4-VENUE-DESK"), "{refusal}");
    expect(0, &[&args[..], &["--session", "FIX.4.4-VENUE-CLIENT"]].concat());
}
