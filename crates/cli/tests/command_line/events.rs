//! Events of `transfix serve` reach files, syslog and journald; operators change levels at run
//! time. Syslog and journald are sockets of the test.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use transfix::clock;
use transfix_testkit::temp::TempDir;

use crate::command_line::admin::AdministeredVenue;
use crate::command_line::running::{PATIENCE, Program};
use crate::command_line::{run_in, session};

const NO_MESSAGE: &str = "closed: the first bytes are no FIX message";

/// Starts a venue whose settings have these keys in `[events]`. Returns the venue and its address.
fn venue(dir: &TempDir, keys: &str) -> (Program, String) {
    let text = session("acceptor", "127.0.0.1:0");
    let text = format!("[events]\n{keys}\n{text}store_dir = 'venue'\n");
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    let venue = Program::start(dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("listening at ");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    (venue, address)
}

/// Sends garbage, and waits until the venue has closed the connection, which causes an event.
fn stranger(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"8=FIX.4.4\x019=5\x0135=A\x0149=CLIENT\x01").unwrap();
    stream.write_all(&[b'x'; 300]).unwrap();
    // The read may also fail, because the venue may reset the connection.
    let _ = stream.read(&mut [0; 100]);
}

/// Calls `is_so` repeatedly until it returns true; fails after a time limit.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
    while !is_so() {
        assert!(clock::monotonic_ns() < end, "never: {what}");
        std::thread::yield_now();
    }
}

/// Returns the closed event files, oldest first.
fn closed(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut closed: Vec<_> = all.filter(|path| !path.ends_with("events.log")).collect();
    closed.sort();
    closed
}

fn datagram(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 65_536];
    let n = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..n].to_vec()).unwrap()
}

fn bound(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn each_destination_has_its_form_and_its_level() {
    let dir = TempDir::new();
    let (log, journal) = (dir.path().join("log.sock"), dir.path().join("journal.sock"));
    let (syslog, journald) = (bound(&log), bound(&journal));
    let keys = format!(
        "file = 'deep/er/events.log'\nfile_form = 'json'\nsyslog = '{}'\nsyslog_facility = \
         'local3'\nsyslog_level = 'warn'\njournald = '{}'\nstderr_form = 'json'",
        log.display(),
        journal.display()
    );
    let (mut venue, address) = venue(&dir, &keys);
    stranger(&address);
    let line = datagram(&syslog);
    assert!(line.starts_with("<156>1 20") && line.contains(" transfix "), "{line}");
    assert!(line.contains(" 2111 [transfix@32473 code=\"2111\" target=\"transfix::"), "{line}");
    assert!(line.contains(" peer=\"127.0.0.1\""), "{line}");
    assert!(line.contains(&format!("] {NO_MESSAGE} ")), "{line}");
    let entry = datagram(&journald);
    for field in ["PRIORITY=4", "EVENT_CODE=2111", "PEER=127.0.0.1", "SYSLOG_IDENTIFIER=transfix"] {
        assert!(entry.lines().any(|line| line == field), "{field}: {entry}");
    }
    assert!(entry.starts_with(&format!("MESSAGE={NO_MESSAGE} ")), "{entry}");
    let said: Value = serde_json::from_str(&venue.wait_for_error(NO_MESSAGE)).unwrap();
    assert_eq!((&said["code"], &said["level"]), (&2111.into(), &"WARN".into()));
    // A logon causes events of level `info`.
    let client = format!(
        "[[session]]\nrole = 'initiator'\naddress = '{address}'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = 'CLIENT'\ntarget_comp_id = 'VENUE'\nstore_dir = 'client'\n"
    );
    fs::write(dir.path().join("client.toml"), client).unwrap();
    let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], b"wait\nquit\n");
    assert_eq!(run.code, 0, "{run:?}");
    let entry = datagram(&journald);
    assert!(entry.contains("\nSESSION=FIX.4.4:VENUE->CLIENT\n"), "{entry}");
    assert!(entry.contains("\nEVENT_CODE=2001\n") && entry.contains("\nPRIORITY=6\n"), "{entry}");
    venue.signal();
    let (code, told) = venue.ended();
    assert_eq!(code, Some(0));
    assert!(!told.contains("logged on"), "standard error has warnings: {told}");
    let text = fs::read_to_string(dir.path().join("deep/er/events.log")).unwrap();
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> = all.iter().filter_map(|one| one["code"].as_u64()).collect();
    assert!(codes.starts_with(&[2111, 2001, 2002]), "all that was told before the end: {text}");
    syslog.set_nonblocking(true).unwrap();
    assert!(syslog.recv(&mut [0; 9_000]).is_err(), "nothing below `warn`");
    let rights = |path: &str| fs::metadata(dir.path().join(path)).unwrap().mode() & 0o777;
    assert_eq!(rights("deep/er/events.log") & 0o137, 0, "nobody else reads it");
    assert_eq!(rights("deep/er") & 0o027, 0);
}

#[test]
fn a_level_keeps_events_from_a_destination() {
    let dir = TempDir::new();
    let path = dir.path().join("journal.sock");
    let journald = bound(&path);
    let keys = format!(
        "file = 'events.log'\nfile_level = 'error'\njournald_level = 'off'\njournald = '{}'\n\
         stderr_level = 'off'",
        path.display()
    );
    let (mut venue, address) = venue(&dir, &keys);
    stranger(&address);
    venue.signal();
    assert_eq!(venue.ended(), (Some(0), String::new()));
    assert_eq!(fs::read_to_string(dir.path().join("events.log")).unwrap(), "");
    journald.set_nonblocking(true).unwrap();
    assert!(journald.recv(&mut [0; 9_000]).is_err());
}

#[test]
fn syslog_takes_lines_by_udp() {
    let dir = TempDir::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let keys = format!("syslog = 'udp://{}'", socket.local_addr().unwrap());
    let (_venue, address) = venue(&dir, &keys);
    stranger(&address);
    let mut bytes = [0; 9_000];
    let n = socket.recv(&mut bytes).unwrap();
    let line = String::from_utf8_lossy(&bytes[..n]);
    assert!(line.starts_with("<28>1 20") && line.contains(NO_MESSAGE), "{line}");
}

/// Events about repeated connections of an unknown client are limited; a last line contains their
/// number.
#[test]
fn repeated_events_are_summed_up_at_each_destination() {
    let dir = TempDir::new();
    let path = dir.path().join("log.sock");
    let syslog = bound(&path);
    let keys = format!("file = 'events.log'\nsyslog = '{}'", path.display());
    let (mut venue, address) = venue(&dir, &keys);
    // A thread reads the datagrams, because a Unix datagram socket may hold only ten.
    let reader = std::thread::spawn(move || {
        let mut sent = String::new();
        let is_last =
            |line: &str| line.contains("similar lines about unknown connections were omitted");
        while sent.lines().last().is_none_or(|line| !is_last(line)) {
            sent += &(datagram(&syslog).replace("=\"", "=\" ") + "\n");
        }
        sent
    });
    (0..60).for_each(|_| stranger(&address));
    venue.signal();
    let (_, told) = venue.ended();
    let text = fs::read_to_string(dir.path().join("events.log")).unwrap();
    let sent = reader.join().unwrap();
    for (name, all) in [("stderr", &told), ("file", &text), ("syslog", &sent)] {
        let lines: Vec<_> = all.lines().filter(|line| line.contains(NO_MESSAGE)).collect();
        assert!((10..20).contains(&lines.len()), "{name}: {}: {all}", lines.len());
        let left_out = all.lines().filter_map(|line| {
            let rest = line.rsplit_once("left_out=")?.1.trim_matches(['"', ' ']);
            rest.split([' ', '"', ']']).next()?.parse::<usize>().ok()
        });
        assert_eq!(left_out.sum::<usize>() + lines.len(), 60, "{name}: {all}");
    }
}

#[test]
fn a_file_is_rolled_by_size_and_by_hand_and_old_ones_go() {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    fs::create_dir(&log).unwrap();
    // The first file exceeds the age limit; the second is not an event file and must be kept.
    fs::write(log.join("events.20200101-000000.000.log"), "old\n").unwrap();
    fs::write(log.join("events.txt"), "mine\n").unwrap();
    let keys = "file = 'log/events.log'\nroll_bytes = 1024\nrolled_files_max = 3\n\
                rolled_days_max = 30\nroll_every_h = 0";
    let (mut venue, address) = venue(&dir, keys);
    until("the old file is gone", || closed(&log).len() == 1);
    (0..8).for_each(|_| stranger(&address));
    // Lines have about 200 bytes, so the size limit of 1,024 bytes is reached.
    until("it is full", || closed(&log).len() == 2);
    for path in &closed(&log)[..1] {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.len() <= 1_024 && text.ends_with('\n'), "{text}");
    }
    for count in 3..=6 {
        venue.send(Signal::USR1);
        // The rotation itself causes an event, so the new file is not empty.
        until("it is rolled by hand", || closed(&log).len() == count.min(4));
        until("there is a new file with a line", || {
            fs::metadata(log.join("events.log")).is_ok_and(|meta| meta.len() > 0)
        });
    }
    until("three are kept", || closed(&log).len() == 4);
    assert_eq!(fs::read_to_string(log.join("events.txt")).unwrap(), "mine\n");
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn a_new_file_is_begun_with_a_new_day() {
    let dir = TempDir::new();
    let file = dir.path().join("events.log");
    fs::write(&file, "yesterday\n").unwrap();
    let yesterday = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(&file).unwrap().set_modified(yesterday).unwrap();
    let (mut venue, address) = venue(&dir, "file = 'events.log'\nroll_every_h = 24");
    stranger(&address);
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
    assert!(fs::read_to_string(&file).unwrap().contains(NO_MESSAGE));
    let all = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_closed = |path: &PathBuf| path.to_string_lossy().contains(".000.log");
    let closed: Vec<_> = all.filter(is_closed).collect();
    assert_eq!(fs::read_to_string(&closed[0]).unwrap(), "yesterday\n");
}

#[cfg(feature = "zstd")]
#[test]
fn closed_files_are_compressed() {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    let (venue, address) = venue(&dir, "file = 'log/events.log'\ncompress = true");
    stranger(&address);
    until("it is written", || fs::metadata(log.join("events.log")).is_ok_and(|m| m.len() > 0));
    venue.send(Signal::USR1);
    let is_compressed = |path: &PathBuf| path.to_string_lossy().ends_with(".000.log.zst");
    until("it is compressed", || closed(&log).iter().any(is_compressed));
    let path = closed(&log).into_iter().find(is_compressed).unwrap();
    let text = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
    assert!(String::from_utf8(text).unwrap().contains(NO_MESSAGE));
    until("the plain one is gone", || closed(&log).len() == 1);
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o137, 0);
}

/// A full disk stops nothing: the venue continues, reports the problem once, and writes the waiting
/// events when the disk has space again.
#[test]
fn a_full_disk_stops_nothing_and_heals() {
    let dir = TempDir::new();
    let file = dir.path().join("events.log");
    symlink("/dev/full", &file).unwrap();
    let (mut venue, address) = venue(&dir, "file = 'events.log'");
    (0..3).for_each(|_| stranger(&address));
    let told = venue.wait_for_error("events cannot be written");
    assert!(told.contains("No space left on device") && told.contains("events.log"), "{told}");
    (0..3).for_each(|_| stranger(&address));
    fs::remove_file(&file).unwrap();
    until("it heals", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.matches(NO_MESSAGE).count() == 6
    });
    venue.wait_for_error("events can be written again");
    // A missing directory is created again.
    fs::remove_file(&file).unwrap();
    stranger(&address);
    until("it is made anew", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains(NO_MESSAGE))
    });
    venue.signal();
    let (code, told) = venue.ended();
    assert_eq!(code, Some(0));
    assert_eq!(told.matches("events cannot be written").count(), 1, "{told}");
}

#[test]
fn a_syslog_that_comes_late_has_what_has_waited() {
    let dir = TempDir::new();
    let path = dir.path().join("log.sock");
    let (mut venue, address) = venue(&dir, &format!("syslog = '{}'", path.display()));
    stranger(&address);
    venue.wait_for_error("events cannot be written");
    let syslog = bound(&path);
    assert!(datagram(&syslog).contains(NO_MESSAGE));
    // A restarted syslog has a new socket at the same path.
    drop(syslog);
    fs::remove_file(&path).unwrap();
    let syslog = bound(&path);
    stranger(&address);
    loop {
        if datagram(&syslog).contains(NO_MESSAGE) {
            break;
        }
    }
    // A receiver that does not read blocks no session, and does not block the end of the program.
    drop(syslog);
    (0..5).for_each(|_| stranger(&address));
    venue.signal();
    let (code, told) = venue.ended();
    assert_eq!(code, Some(0));
    assert_eq!(told.matches("ERROR").count(), 1, "once in a minute: {told}");
    assert!(told.contains("events could not be written\n"), "how many at the end: {told}");
}

#[test]
fn two_programs_do_not_write_one_file_and_a_torn_line_ends() {
    let dir = TempDir::new();
    let file = dir.path().join("events.log");
    let (first, address) = venue(&dir, "file = 'events.log'");
    stranger(&address);
    until("it is written", || fs::metadata(&file).is_ok_and(|meta| meta.len() > 0));
    let second = run_in(dir.path(), &["serve", "venue.toml"], b"");
    assert_eq!(second.code, 1, "{second:?}");
    let why = "transfix serve: [events]: file events.log: another process has it open\n";
    assert_eq!(second.err, why);
    // Two kills: after a complete line, and in the middle of a line.
    first.send(Signal::KILL);
    drop(first);
    let before = fs::read_to_string(&file).unwrap();
    assert!(before.ends_with('\n'), "{before}");
    fs::write(&file, before.clone() + "2026-11-25T00:00:00Z  WARN half a li").unwrap();
    let (mut again, address) = venue(&dir, "file = 'events.log'");
    stranger(&address);
    again.signal();
    again.ended();
    let text = fs::read_to_string(&file).unwrap();
    let mut lines = text.strip_prefix(&*before).unwrap().lines();
    assert!(lines.next().unwrap().ends_with("half a li"), "{text}");
    assert!(lines.next().unwrap().contains(NO_MESSAGE), "{text}");
}

#[test]
fn what_cannot_be_opened_or_is_no_level_keeps_it_from_starting() {
    let dir = TempDir::new();
    fs::write(dir.path().join("file"), "").unwrap();
    let write = |keys: &str| {
        let text = format!("[events]\n{keys}\n{}", session("acceptor", "127.0.0.1:0"));
        fs::write(dir.path().join("venue.toml"), text).unwrap();
    };
    write("file = 'file/events.log'");
    let run = run_in(dir.path(), &["serve", "venue.toml"], b"");
    assert!(run.code == 1 && run.err.contains("[events]: file file/events.log: "), "{run:?}");
    for (keys, why) in [
        (
            "levels = 'loud'",
            "venue.toml:2: levels of [events]: `loud` is not a level; write one \
                             of off",
        ),
        ("levles = 'info'", "venue.toml:2: unknown key `levles`; did you mean `levels`?"),
        ("syslog = 'logs'", "venue.toml:2: syslog must be the path of a socket, such as /dev/log"),
        ("file_level = 'loud'", "unknown value `loud`; known are off, error, warn, info, debug"),
    ] {
        write(keys);
        for verb in [&["settings", "check"][..], &["serve"]] {
            let run = run_in(dir.path(), &[verb, &["venue.toml"]].concat(), b"");
            let said = run.out.clone() + &run.err;
            assert!(run.code != 0 && said.contains(why), "{keys}: {run:?}");
        }
    }
}

#[test]
fn levels_are_set_from_afar_until_the_next_reload() {
    let keys = "[events]\nlevels = 'error'\nfile = 'events.log'\n";
    let mut desk = AdministeredVenue::with(keys);
    let file = desk.dir.path().join("events.log");
    let has = |text: &str| fs::read_to_string(&file).unwrap().contains(text);
    assert_eq!(desk.good("viewer", &["levels"]), "error, from the settings\n");
    desk.refused("operator", &["levels", "info"], "the request needs the role administrator");
    desk.refused("administrator", &["levels", "loud"], "levels: `loud` is not a level");
    stranger(&desk.listening);
    let said = desk.good("administrator", &["levels", "info,transfix::link=trace"]);
    let now = "info,transfix::link=trace until the next start or reload; the levels in the \
               settings are error\n";
    assert_eq!(said, now);
    until("the action itself is told", || has("what=\"set_levels info,transfix::link=trace\""));
    assert!(!has(NO_MESSAGE), "it was told before");
    stranger(&desk.listening);
    until("it is told", || has(NO_MESSAGE));
    let again = "nothing has changed\n[events]: the levels of the settings are in force again\n";
    assert_eq!(desk.good("administrator", &["reload"]), again);
    assert_eq!(desk.good("administrator", &["reload"]), "nothing has changed\n");
    assert_eq!(desk.good("viewer", &["levels"]), "error, from the settings\n");
    // SIGHUP reloads the changed settings, which replaces the operator's levels.
    let settings = desk.dir.path().join("venue.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("'error'", "'warn'\nroll_bytes = 2048")).unwrap();
    desk.venue.send(Signal::HUP);
    desk.venue.wait_for("reload: [events]: the levels of the file apply now");
    desk.venue.wait_for("reload: [events]: roll_bytes will apply from the next start");
    assert_eq!(desk.good("viewer", &["levels"]), "warn, from the settings\n");
    let audit = desk.good("viewer", &["audit"]);
    assert_eq!(audit.matches("set_levels info,transfix::link=trace").count(), 2, "{audit}");
    let said = desk.good("administrator", &["rotate-logs"]);
    assert_eq!(said, "rolled: 0 files of the protocol logs\nrolled: the event file\n");
    desk.refused("operator", &["rotate-logs"], "the request needs the role administrator");
    desk.venue.signal();
    assert_eq!(desk.venue.ended().0, Some(0));
}
