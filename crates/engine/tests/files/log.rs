//! The protocol log in real files: contents, rotation, and refused log directories.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Actor, BeginString, Durability, Engine, LogDirection, LogSettings, Role, SessionId,
    SessionNotice, SessionSettings, Settings, Tag, Timestamp, tag,
};
use transfix_codec::{raw, shown};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use crate::counterparty::Client;

const NAME: &str = "FIX.4.4-VENUE-CLIENT";

/// Returns an application that answers each order with a News(B) of the same number, and panics if
/// the order asks for a panic.
fn venue(sender: Sender<()>) -> App {
    let sender_on_message = sender.clone();
    App::new(move |message, session| {
        let text = message.text(tag::TEXT)?.to_owned();
        assert!(text != "panic", "as it was asked to");
        let _ = session.send("B", |news| _ = news.str(Tag(148), &text));
        sender_on_message.send(()).unwrap();
        Ok(())
    })
    .on_notice(move |notice, _| {
        if let SessionNotice::Disconnected(_) = notice {
            let _ = sender.send(());
        }
    })
}

fn settings(dir: &Path, adjust: impl FnOnce(&mut LogSettings)) -> Settings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    session.store.durability = Durability::Memory;
    session.validation.validate = false;
    let mut log = LogSettings::in_dir(dir);
    adjust(&mut log);
    session.log = Some(log);
    Settings::of(session)
}

fn start(settings: &Settings) -> (Engine, Receiver<()>) {
    let (sender, seen) = channel();
    let engine = Engine::start(settings, |_| Box::new(venue(sender.clone())));
    (engine.unwrap(), seen)
}

fn lines(dir: &Path, ending: &str) -> Vec<String> {
    let bytes = fs::read(dir.join(format!("{NAME}.{ending}"))).unwrap();
    let text = String::from_utf8(bytes).unwrap().replace('\x01', "|");
    assert!(text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

/// Splits a line of the log into its head and its message. Fails if the message is not valid.
fn parts(line: &str) -> (&str, String) {
    let (head, message) = line.split_once(" : ").unwrap();
    let bytes = message.replace('|', "\x01").into_bytes();
    assert_eq!(raw::verify(&bytes), Ok(()), "{line}");
    assert!(Timestamp::parse(&head.as_bytes()[..27]).is_some(), "{line}");
    assert_eq!(head.as_bytes()[17], b'.', "{line}");
    (&head[27..], message.to_owned())
}

#[test]
fn both_directions_rejected_and_garbled_with_secrets_masked() {
    let dir = TempDir::new();
    let log = dir.path().join("made/by/the/engine");
    let (engine, seen) = start(&settings(&log, |log| log.mask = vec![1]));
    let mut client = Client::logged_on(&engine);
    client.order("one");
    seen.recv_timeout(crate::LONG).unwrap();
    // This TestRequest(1) is rejected, because TestReqID(112) is missing.
    client.say("1", "");
    client.hear("|35=3|");
    let mut wrong = client.message("D", "1=account|58=x|");
    let digit = wrong.len() - 2;
    wrong[digit] = if wrong[digit] == b'0' { b'1' } else { b'0' };
    client.seq -= 1;
    client.write(b"junk 554=hush\x01");
    client.write(&wrong);
    client.say("D", "1=account|58=two|");
    drop(client);
    seen.recv_timeout(crate::LONG).unwrap();
    engine.stop(Duration::ZERO);
    let inbound = lines(&log, "in.log");
    let outbound = lines(&log, "out.log");
    let logon = parts(&inbound[0]);
    assert!(logon.1.contains("|35=A|") && logon.1.contains("|554=****|925=*****|"), "{logon:?}");
    assert!(parts(&inbound[1]).1.contains("|58=one|"));
    assert!(parts(&inbound[2]).1.contains("|35=1|"));
    let garbled: Vec<_> =
        inbound.iter().filter(|line| line[27..].starts_with(" garbled")).collect();
    assert!(garbled[0].ends_with(" garbled : junk 554=****|"), "{garbled:?}");
    assert!(garbled[1].contains("|1=*******|58=x|"), "{garbled:?}");
    assert_eq!(garbled.len(), 2);
    assert!(parts(inbound.last().unwrap()).1.contains("|1=*******|58=two|"));
    assert!(parts(&outbound[0]).1.contains("|35=A|"));
    assert!(parts(&outbound[1]).1.contains("|148=one|"));
    for line in &outbound {
        assert_eq!(parts(line).0, "");
    }
}

/// A data field may contain any bytes, but a logged message stays one line and can be restored from
/// it.
#[test]
fn no_message_can_forge_a_line() {
    use std::os::unix::fs::PermissionsExt;

    let dir = TempDir::new();
    let log = dir.path().join("log");
    let (engine, seen) = start(&settings(&log, |_| ()));
    let mut client = Client::logged_on(&engine);
    let forged = "20261121-09:28:25.623118000 : 8=FIX.4.4|35=D|";
    let data = format!("a\n{forged}\r\x1b[2J\u{202e}\\n");
    let secret = "923=1|924=1|553=me|554=hush|925=newer|";
    client.say("BE", &format!("{secret}95={}|96={data}|58=x|", data.len()));
    client.say("D", &format!("58=one|354={}|355={data}|", data.len()));
    seen.recv_timeout(crate::LONG).unwrap();
    seen.recv_timeout(crate::LONG).unwrap();
    engine.stop(Duration::ZERO);
    let inbound = lines(&log, "in.log");
    assert_eq!(inbound.len(), 3, "{inbound:?}");
    let text = inbound.concat();
    assert!(!text.contains(char::is_control) && !text.contains('\u{202e}'), "{text:?}");
    let user = &inbound[1];
    assert!(user.contains("|554=****|925=*****|95=") && !user.contains("forged"), "{user}");
    let line = inbound[2].split_once(" : ").unwrap().1.replace('|', "\x01");
    let message = shown::unescape_line(line.as_bytes()).unwrap();
    assert_eq!(raw::verify(&message), Ok(()));
    assert_eq!(raw::first(&message, Tag(355)), Some(data.replace('|', "\x01").as_bytes()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&log), 0o700);
    assert_eq!(mode(&log.join(format!("{NAME}.in.log"))), 0o600);
}

/// A password in a field that the dictionary forbids is masked too; NewPassword(925) is not part of
/// FIX 4.4.
#[test]
fn a_logon_that_the_dictionary_forbids_shows_no_secrets() {
    let dir = TempDir::new();
    let mut settings = settings(dir.path(), |_| ());
    settings.sessions[0].validation.validate = true;
    let (engine, seen) = start(&settings);
    let mut client = Client::asking_in(&engine);
    let heard = client.hear("|35=5|");
    assert!(heard.contains("|58=Logon(A) refused: ") && heard.contains("tag 925"), "{heard}");
    seen.recv_timeout(crate::LONG).unwrap();
    engine.stop(Duration::ZERO);
    let inbound = lines(dir.path(), "in.log");
    assert!(parts(&inbound[0]).1.contains("|554=****|925=*****|"), "{inbound:?}");
    assert!(!heard.contains("newer") && !lines(dir.path(), "out.log").concat().contains("newer"));
}

#[test]
fn one_file_with_words_goes_on_where_it_ended() {
    let dir = TempDir::new();
    let settings = settings(dir.path(), |log| log.direction = LogDirection::Words);
    let file = dir.path().join(format!("{NAME}.messages.log"));
    fs::write(&file, "20261121-09:28:25.623118000 in : 8=FIX.4.4\x019=").unwrap();
    for run in 1..=2 {
        let (engine, _seen) = start(&settings);
        let mut client = Client::logged_on(&engine);
        client.order(&format!("run{run}"));
        // Dropping the engine without a stop simulates a panic of the thread that owns it.
        drop(engine);
    }
    let lines = lines(dir.path(), "messages.log");
    assert_eq!(lines[0], "20261121-09:28:25.623118000 in : 8=FIX.4.4|9=");
    let of_run = |n: usize| lines.iter().position(|line| line.contains(&format!("58=run{n}")));
    let (first, second) = (of_run(1).unwrap(), of_run(2).unwrap());
    assert!(first < second);
    assert_eq!(parts(&lines[first]).0, " in");
    assert_eq!(parts(&lines[first + 1]).0, " out");
    assert!(lines[first + 1].contains("|148=run1|"));
}

#[test]
fn what_made_the_application_panic_is_there() {
    let dir = TempDir::new();
    let (engine, seen) = start(&settings(dir.path(), |_| ()));
    let mut client = Client::logged_on(&engine);
    client.say("D", "58=panic|");
    seen.recv_timeout(crate::LONG).unwrap();
    engine.stop(Duration::ZERO);
    let inbound = lines(dir.path(), "in.log");
    assert!(parts(inbound.last().unwrap()).1.contains("|58=panic|"));
}

#[test]
fn closed_files_are_named_by_their_first_line_and_the_oldest_go() {
    let dir = TempDir::new();
    let (engine, _seen) = start(&settings(dir.path(), |log| {
        log.roll_bytes = 1_024;
        log.rolled_files_max = 3;
    }));
    let mut client = Client::logged_on(&engine);
    (0..60).for_each(|n| client.order(&format!("order{n}")));
    engine.stop(Duration::ZERO);
    let mut rolled: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    rolled.retain(|path| path.to_string_lossy().contains(".in.2"));
    rolled.sort();
    assert_eq!(rolled.len(), 3, "{rolled:?}");
    let text = |path: &Path| String::from_utf8(fs::read(path).unwrap()).unwrap();
    let current = dir.path().join(format!("{NAME}.in.log"));
    let all: String = rolled.iter().chain([&current]).map(|path| text(path)).collect();
    let numbers: Vec<u32> = all
        .lines()
        .filter_map(|line| raw::first(line.split_once(" : ")?.1.as_bytes(), tag::TEXT))
        .map(|text| std::str::from_utf8(text).unwrap().trim_start_matches("order").parse().unwrap())
        .collect();
    assert!(numbers.len() > 10, "{numbers:?}");
    assert_eq!(numbers, (60 - numbers.len() as u32..60).collect::<Vec<_>>());
    for path in &rolled {
        assert!(fs::metadata(path).unwrap().len() <= 1_024);
        let first: String = text(path)[..17].chars().filter(|c| *c != ':').collect();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("{NAME}.in.{first}.")), "{name} begins at {first}");
    }
}

#[test]
fn a_new_file_begins_with_the_first_line_of_a_new_hour() {
    let dir = TempDir::new();
    let file = dir.path().join(format!("{NAME}.in.log"));
    fs::write(&file, "20010101-09:28:25.000000000 : 8=FIX.4.4\x01\n").unwrap();
    let hours_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&file).unwrap().set_modified(hours_ago).unwrap();
    let (engine, _seen) =
        start(&settings(dir.path(), |log| log.roll_every = Duration::from_hours(1)));
    Client::logged_on(&engine);
    engine.stop(Duration::ZERO);
    let old = dir.path().join(format!("{NAME}.in.20010101-092825.000.log"));
    assert_eq!(fs::read(old).unwrap().len(), 41);
    assert!(parts(&lines(dir.path(), "in.log")[0]).1.contains("|35=A|"));
}

#[test]
fn lines_beyond_the_buffer_are_counted_there_and_by_the_session() {
    let dir = TempDir::new();
    let (engine, _seen) = start(&settings(dir.path(), |log| {
        log.buffer_bytes = 4 << 10;
        log.write_every = Duration::from_secs(60);
    }));
    let mut client = Client::logged_on(&engine);
    (0..200).for_each(|n| client.order(&format!("order{n}")));
    let session = engine.sessions().next().unwrap();
    // Waits for the end of the turn, because a line is written or counted only after the answer.
    assert_eq!(session.store_failure(), None);
    let lost = session.counters().not_logged;
    assert!(lost > 100, "{lost}");
    engine.stop(Duration::ZERO);
    let mut missing = 0;
    for ending in ["in.log", "out.log"] {
        for line in lines(dir.path(), ending) {
            if let Some(count) = line[27..].strip_suffix(" lines are missing near here") {
                missing += count.trim_start_matches(" : ").parse::<u64>().unwrap();
            }
        }
    }
    // The Logout(5) of the stop may also be missing from the files.
    assert!((lost..=lost + 2).contains(&missing), "{missing} in the files, {lost} counted");
}

#[test]
fn a_full_disk_costs_lines_and_not_the_session() {
    let dir = TempDir::new();
    let full = dir.path().join(format!("{NAME}.in.log"));
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let settings = settings(dir.path(), |log| log.write_every = Duration::from_millis(1));
    let (engine, _seen) = start(&settings);
    let mut client = Client::logged_on(&engine);
    (0..50).for_each(|n| client.order(&format!("order{n}")));
    engine.stop(Duration::ZERO);
    assert!(lines(dir.path(), "out.log").len() > 50);
    fs::remove_file(full).unwrap();
}

#[test]
fn an_operator_begins_new_files_now() {
    let dir = TempDir::new();
    let (engine, _seen) =
        start(&settings(dir.path(), |log| log.write_every = Duration::from_secs(60)));
    let admin = engine.admin();
    let rotate = || admin.rotate_logs(&Actor::new("anna", "here"));
    assert_eq!(rotate().unwrap(), "rolled: 0 files of the protocol logs", "there is no line");
    let mut client = Client::logged_on(&engine);
    // The second answer shows that the first turn has ended and its lines are written.
    client.order("one");
    client.order("two");
    assert_eq!(rotate().unwrap(), "rolled: 2 files of the protocol logs");
    client.order("three");
    client.order("four");
    // Rotating fails for the file that is missing, and succeeds for the other.
    fs::remove_file(dir.path().join(format!("{NAME}.out.log"))).unwrap();
    admin.rotate_also(|| Ok("events.log".to_owned()));
    let error = rotate().unwrap_err().to_string();
    assert!(error.starts_with("not rolled: ") && error.contains("out.log: "), "{error}");
    assert!(error.ends_with("\nrolled: events.log"), "the program's are rolled all the same");
    engine.stop(Duration::ZERO);
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let closed: Vec<_> = names.filter(|path| path.to_string_lossy().contains(".000.log")).collect();
    let inbound = closed.iter().filter(|path| path.to_string_lossy().contains(".in."));
    let text = inbound.map(|path| fs::read_to_string(path).unwrap()).collect::<String>();
    assert!(text.contains("58=one"), "{closed:?}: {text}");
}

#[test]
fn two_engines_do_not_share_a_file() {
    let dir = TempDir::new();
    let settings = settings(dir.path(), |_| ());
    let (first, _seen) = start(&settings);
    let second = Engine::start(&settings, |_| Box::new(venue(channel().0)));
    let error = second.err().unwrap().to_string();
    assert!(error.ends_with("another process has it open"), "{error}");
    drop(first);
    start(&settings);
}

#[test]
fn settings_are_read_strictly() {
    let text = |log: &str| {
        format!(
            "[defaults]\nlog = {{ dir = \"logs\", mask = [1, 453] }}\n[[session]]\n\
             role = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"A\"\n\
             target_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n{log}\n"
        )
    };
    let settings = Settings::parse("x.toml", &text("log.direction = \"words\"")).unwrap();
    let log = settings.sessions[0].log.as_ref().unwrap();
    assert_eq!((log.direction, &log.mask[..]), (LogDirection::Words, &[1, 453][..]));
    for (keys, expected) in [
        ("log.rol_bytes = 5", "x.toml:9: unknown key `rol_bytes`; did you mean `roll_bytes`?"),
        (
            "log.roll_bytes = 5",
            "x.toml:9: FIX.4.4:A->B: log.roll_bytes must be 0 or at least 1024, not 5",
        ),
        (
            "log.write_every_ms = 0",
            "x.toml:9: FIX.4.4:A->B: log.write_every_ms is between 1 and 60000, not 0",
        ),
        #[cfg(not(feature = "zstd"))]
        (
            "log.compress = true",
            "x.toml:9: FIX.4.4:A->B: log.compress requires the cargo feature `zstd` of the \
             package transfix; build with this feature, or remove the key",
        ),
    ] {
        assert_eq!(Settings::parse("x.toml", &text(keys)).unwrap_err().to_string(), expected);
    }
}

#[cfg(feature = "zstd")]
#[test]
fn closed_files_are_compressed() {
    let dir = TempDir::new();
    let (engine, _seen) = start(&settings(dir.path(), |log| {
        log.roll_bytes = 1_024;
        log.compress = true;
    }));
    let mut client = Client::logged_on(&engine);
    (0..40).for_each(|n| client.order(&format!("order{n}")));
    engine.stop(Duration::ZERO);
    let mut rolled: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    rolled.retain(|path| path.to_string_lossy().contains(".in.2"));
    rolled.sort();
    assert!(rolled.len() > 2 && rolled.iter().all(|p| p.extension().unwrap() == "zst"));
    let first = transfix_store::compress::read(&rolled[0]).unwrap();
    let text = String::from_utf8(first).unwrap().replace('\x01', "|");
    assert!(parts(text.lines().next().unwrap()).1.contains("|35=A|"));
}
