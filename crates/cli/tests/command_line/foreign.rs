//! No command lets text of counterparties control the terminal.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use transfix::clock;
use transfix_codec::shown::is_hidden;
#[cfg(feature = "tls")]
use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::temp::TempDir;
#[cfg(feature = "tls")]
use transfix_testkit::tls::{self, TLS12_AND_13};

use crate::command_line::admin::AdministeredVenue;
use crate::command_line::running::{PATIENCE, Program};
use crate::command_line::{Run, run_in, session};

const ID: &str = "FIX.4.4:VENUE->CLIENT";
/// A hostile text: ESC, OSC with BEL, BS, C1, bidirectional marks, zero-width marks, line breaks
/// and DEL, with two words by which the test finds the text.
const EVIL: &str = "FOUND\u{1b}[2J\u{1b}]0;title\u{7}\u{8}\u{9b}31m\u{90}q\u{9c}\u{202e}\u{2066}\
                    \u{200b}\r\nLINE\u{85}\u{2028}\u{7f}\u{e0041}";

/// Builds a message from `from` to `to` with these fields, whose values may contain any text.
fn frame((from, to): (&str, &str), msg_type: &str, seq: u64, fields: &[(u32, &str)]) -> Vec<u8> {
    // A time such as `20261127-00:00:00.123`.
    let now = clock::now().utc.to_string();
    let mut body =
        format!("35={msg_type}\x0149={from}\x0156={to}\x0134={seq}\x0152={}\x01", &now[..21]);
    fields.iter().for_each(|(tag, value)| body += &format!("{tag}={value}\x01"));
    let mut frame = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
    let sum = frame.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    frame.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    frame
}

/// Returns messages of several types with the hostile text in all fields, and finally a Logout(5).
fn evil(way: (&str, &str)) -> Vec<u8> {
    let order = |id| [(11, id), (55, EVIL), (54, "1"), (38, "1"), (40, "2"), (44, "1"), (58, EVIL)];
    [
        frame(way, "A", 1, &[(98, "0"), (108, "30"), (58, EVIL)]),
        frame(way, "D", 2, &order("plain")),
        frame(way, "D", 3, &order(EVIL)),
        frame(way, EVIL, 4, &[(58, EVIL)]),
        frame(way, "3", 5, &[(45, "2"), (373, "5"), (58, EVIL)]),
        frame(way, "j", 6, &[(45, "2"), (372, EVIL), (380, "0"), (58, EVIL)]),
        frame(way, "B", 7, &[(148, EVIL), (33, "1"), (58, EVIL), (9_999, EVIL)]),
        frame(way, "1", 8, &[(112, EVIL)]),
        frame(way, "5", 9, &[(58, EVIL)]),
    ]
    .concat()
}

#[track_caller]
fn is_clean(verb: &str, text: &str) {
    let is_bad = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    assert!(!text.contains(is_bad), "{verb}: {}", text.escape_debug());
}

/// Checks that the output contains no control characters, and no line that imitates the program's
/// own.
#[track_caller]
fn is_harmless(run: &Run, verb: &str) {
    let all = format!("{}{}", run.out, run.err);
    is_clean(verb, &all);
    let lines: Vec<_> = all.lines().filter(|line| line.trim_start().starts_with("LINE")).collect();
    assert_eq!(lines, [""; 0], "{verb}: lines that look like those of the program");
}

#[track_caller]
fn shows(run: &Run, verb: &str) {
    is_harmless(run, verb);
    let is_shown = run.out.contains("FOUND") || run.err.contains("FOUND");
    assert!(is_shown, "{verb} shows nothing of it: {run:?}");
}

/// Connects as an unknown client and as the counterparty, and sends hostile messages.
fn attack(listening: &str) {
    let mut stranger = TcpStream::connect(listening).unwrap();
    stranger.write_all(&frame((EVIL, "VENUE"), "A", 1, &[(98, "0"), (108, "30")])).unwrap();
    let mut socket = TcpStream::connect(listening).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(&evil(("CLIENT", "VENUE"))).unwrap();
    // The read waits for the Logout(5) of the venue and the end of the connection.
    let _ = socket.read_to_end(&mut Vec::new());
    let _ = stranger.read_to_end(&mut Vec::new());
}

#[test]
fn an_operator_is_shown_it_harmlessly() {
    let mut desk = AdministeredVenue::of("keep_inbound = true\nvalidate = false\n");
    attack(&desk.listening);
    for args in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["session", ID],
        &["session", ID, "--json"],
        &["messages", ID],
        &["messages", ID, "--json"],
        &["messages", ID, "--type", "D"],
        &["events"],
        &["events", "--json"],
    ] {
        shows(&desk.ask("viewer", args), &args.join(" "));
    }
    shows(&desk.ask("operator", &["do", ID, "log_out", &format!("text={EVIL}")]), "do");
    for args in [
        &["session", EVIL][..],
        &["do", EVIL, "log_on"],
        &["messages", ID, "--field", EVIL],
        &["latency", ID, EVIL],
        &["levels", EVIL],
    ] {
        let run = desk.ask("administrator", args);
        assert_eq!(run.code, 1, "{run:?}");
        is_clean(args[0], &(run.out + &run.err));
    }
    for args in [&["audit"][..], &["audit", "--json"], &["certificates"]] {
        let run = desk.ask("viewer", args);
        is_clean(args[0], &(run.out + &run.err));
    }
    for args in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["session", ID],
        &["xml", "<SessionsSnapshot><View>STATUS_PARAMS_STAT</View></SessionsSnapshot>"],
        &["session", EVIL],
        &["do", EVIL, "log_out"],
        &["do", ID, EVIL],
        &["xml", EVIL],
        &["xml", &format!("<{EVIL}/>")],
    ] {
        let run = desk.ask_over_fix("operator", args);
        is_clean(&format!("admin --fix {}", args[0]), &(run.out + &run.err));
    }
    desk.venue.signal();
    let rest = desk.venue.rest();
    is_clean("serve --quiet", &rest);
    is_clean("serve --quiet", &desk.venue.ended().1);
}

/// Fills the venue's store with hostile messages. Returns the venue's own output.
fn store(dir: &TempDir) -> Run {
    let keys = "store_dir = 'venue'\nkeep_inbound = true\nvalidate = false\n";
    let keys = session("acceptor", "127.0.0.1:0") + keys;
    fs::write(dir.path().join("venue.toml"), keys).unwrap();
    let mut venue = Program::start(dir, &["serve", "venue.toml", "--verbose"]);
    let line = venue.wait_for("listening at ");
    attack(line.rsplit(' ').next().unwrap());
    venue.signal();
    let out = venue.rest();
    let (code, err) = venue.ended();
    Run { code: code.unwrap(), out, err }
}

#[test]
fn verbs_that_read_stores_show_it_harmlessly() {
    let dir = TempDir::new();
    shows(&store(&dir), "serve");
    let at = "venue/FIX.4.4-VENUE-CLIENT";
    assert!(Path::new(&dir.path().join(at)).is_dir());
    for args in [
        &["print", at][..],
        &["print", at, "--one-line"],
        &["print", at, "--summary", "--unmasked"],
        &["logs", at],
        &["logs", at, "--full"],
        &["logs", at, "--json"],
        &["logs", at, "--csv", "time,MsgType,Text,ClOrdID"],
        &["logs", at, "--order", EVIL],
        &["logs", at, "--latency"],
        &["logs", at, "--latency", "--csv", "ClOrdID,answer,latency_ns"],
        &["check", at],
        &["convert", at, "--to", "json"],
        &["store", "print", at],
        &["store", "print", at, "--full"],
        &["store", "print", at, "--direction", "in"],
        &["store", "export", at, "--to", "json"],
    ] {
        let run = run_in(dir.path(), args, b"");
        assert_ne!(run.code, 2, "{args:?}: {run:?}");
        shows(&run, &args.join(" "));
    }
    for args in [
        &["store", "list", "venue"][..],
        &["logs", at, "--gaps"],
        &["store", "show", at],
        &["store", "show", "--json", at],
        &["store", "verify", at],
        &["store", "queue", at],
        &["print", EVIL],
        &["logs", EVIL],
        &["check", EVIL],
        &["convert", EVIL],
        &["store", "show", EVIL],
        &["settings", "check", EVIL],
        &["settings", "show", EVIL],
        &["serve", EVIL],
        &["connect", EVIL],
        &["play", EVIL, EVIL],
        &["schedule", EVIL],
        &["schedule", "venue.toml", "--session", EVIL],
        &["store", "import", EVIL, "--from", "quickfixj", "--to", "new"],
        &["logs", at, "--latency", "--where", &format!("ClOrdID={EVIL}")],
        &["audit", "verify", EVIL],
    ] {
        let run = run_in(dir.path(), args, b"");
        is_clean(&args.join(" "), &(run.out + &run.err));
    }
}

#[test]
fn a_client_shows_it_harmlessly() {
    let dir = TempDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let keys = "store_dir = 'client'\nvalidate = false\n";
    fs::write(dir.path().join("client.toml"), session("initiator", &address) + keys).unwrap();
    let mut client = Program::start(&dir, &["connect", "client.toml", "--verbose"]);
    lie(&listener);
    drop(listener);
    let mut out = client.wait_for("ended");
    client.signal();
    out += &client.rest();
    let (_, err) = client.ended();
    shows(&Run { code: 0, out, err }, "connect");
}

/// Values in settings that another person wrote are shown without effect on the terminal.
#[test]
fn settings_of_others_are_shown_harmlessly() {
    let dir = TempDir::new();
    let write = |name: &str, text: String| fs::write(dir.path().join(name), text).unwrap();
    // The hostile text is written as TOML escapes.
    let evil =
        EVIL.chars().fold(String::new(), |toml, c| toml + &format!("\\U{:08x}", u32::from(c)));
    let venue = session("acceptor", "127.0.0.1:0");
    write("zone.toml", format!("{venue}schedule.zone = \"{evil}\"\n"));
    write("days.toml", format!("{venue}schedule = {{ zone = 'UTC', days = \"{evil}\" }}\n"));
    write("name.toml", venue.replace("'CLIENT'", &format!("\"{evil}\"")));
    write("qualifier.toml", format!("{venue}qualifier = \"{evil}\"\n"));
    let gate = session("initiator", "127.0.0.1:1").replace("'CLIENT'", "'OTHER'");
    write("gate.toml", format!("{venue}{gate}"));
    let route =
        |more: &str| format!("[[route]]\nfrom = ['{ID}']\nto = ['FIX.4.4:VENUE->OTHER']\n{more}\n");
    for (name, more) in [
        ("when", format!("when = {{ 55 = \"{evil}\" }}")),
        ("types", format!("msg_type = [\"{evil}\"]")),
        ("set", format!("set = {{ 58 = \"{evil}\" }}")),
        ("key", format!("\"{evil}\" = 1")),
    ] {
        write(&format!("{name}.routes"), route(&more));
        let routes = format!("{name}.routes");
        let run = run_in(dir.path(), &["run", "gate.toml", "--routes", &routes, "--check"], b"");
        is_harmless(&run, &format!("run with {name}"));
    }
    write("to.routes", route("").replace("VENUE->OTHER'", &format!("VENUE->OTHER', \"{evil}\"")));
    is_harmless(
        &run_in(dir.path(), &["run", "gate.toml", "--routes", "to.routes", "--check"], b""),
        "run with to",
    );
    write("audit.jsonl", format!("{EVIL}\n{{\"n\": \"{}\"}}\n", EVIL.escape_debug()));
    for args in [
        &["audit", "verify", "audit.jsonl"][..],
        &["admin", "user", "list", "--file", "audit.jsonl"],
        &["settings", "show", "gate.toml", "--session", EVIL],
        &["settings", "reference", EVIL],
    ] {
        let run = run_in(dir.path(), args, b"");
        assert_ne!(run.code, 0, "{args:?}: {run:?}");
        is_clean(&args.join(" "), &(run.out + &run.err));
    }
    for file in ["zone.toml", "days.toml", "name.toml", "qualifier.toml"] {
        for verb in [&["schedule"][..], &["settings", "check"], &["settings", "show"]] {
            let run = run_in(dir.path(), &[verb, &[file]].concat(), b"");
            is_clean(&format!("{verb:?} {file}"), &(run.out + &run.err));
        }
    }
}

#[test]
fn stores_of_others_are_imported_harmlessly() {
    for (what, header, numbers) in [
        ("entry", EVIL, "00000000000000000001 : 00000000000000000001"),
        ("numbers", "", EVIL),
        ("one number", "", &*format!("{EVIL}:1")),
    ] {
        for from in ["quickfix-cpp", "quickfixj", "quickfixn", "quickfixgo"] {
            let dir = TempDir::new();
            // The hostile text contains no '/', so it can be a file name.
            for session in ["FIX.4.4-VENUE-CLIENT", EVIL] {
                let write = |end: &str, text: &str| {
                    fs::write(dir.path().join(format!("{session}.{end}")), text).unwrap();
                };
                write("body", EVIL);
                write("header", header);
                for end in ["seqnums", "senderseqnums", "targetseqnums"] {
                    write(end, numbers);
                }
                write("session", EVIL);
            }
            let to = ["--to", "new"];
            let both = [&["store", "import", ".", "--from", from][..], &to].concat();
            shows(&run_in(dir.path(), &both, b""), &format!("{what}: {both:?}"));
            for session in ["FIX.4.4-VENUE-CLIENT", EVIL] {
                let import = [&both[..], &["--session", session]].concat();
                let run = run_in(dir.path(), &import, b"");
                assert_eq!(run.code, 1, "{run:?}");
                is_harmless(&run, &format!("{what}: {import:?}"));
            }
        }
    }
}

/// The name of a certificate's authority is hostile, and is shown without effect on the terminal.
#[cfg(feature = "tls")]
#[test]
fn a_certificate_is_shown_harmlessly() {
    let dir = TempDir::new();
    let own = Authority::new(dir.path(), EVIL);
    for (n, own) in [own.itself(), own.sign(&["localhost"], 1, Valid::Before)].iter().enumerate() {
        let config = tls::server(own, None, TLS12_AND_13);
        for more in [&[][..], &["--peer", EVIL], &["--server-name", "fix.broker.example"]] {
            let (config, listener) = (config.clone(), TcpListener::bind("127.0.0.1:0").unwrap());
            let address = listener.local_addr().unwrap().to_string();
            let server = std::thread::spawn(move || {
                let mut stream = tls::accept(&config, listener.accept().unwrap().0);
                // The read fails if the client refuses the certificate.
                let _ = stream.read_to_end(&mut Vec::new());
            });
            let check = [&["tls", "check", &address][..], more].concat();
            shows(&run_in(dir.path(), &check, b""), &format!("certificate {n}, {more:?}"));
            server.join().unwrap();
        }
    }
}

/// Accepts a connection of the client under test, and sends the hostile messages.
fn lie(listener: &TcpListener) {
    let mut socket = loop {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // Waits for a Logon(A); a connection without one comes from an earlier test and is skipped.
        if socket.read_exact(&mut [0; 60]).is_ok() {
            break socket;
        }
    };
    socket.write_all(&evil(("CLIENT", "VENUE"))).unwrap();
    let _ = socket.read_to_end(&mut Vec::new());
}

#[test]
fn a_script_is_played_harmlessly() {
    let dir = TempDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let keys = "store_dir = 'client'\nvalidate = false\n";
    fs::write(dir.path().join("client.toml"), session("initiator", &address) + keys).unwrap();
    fs::write(dir.path().join("script.txt"), "wait\nexpect 8 ClOrdID=never\n").unwrap();
    let server = std::thread::spawn(move || lie(&listener));
    let run = run_in(dir.path(), &["play", "client.toml", "script.txt"], b"");
    assert_eq!(run.code, 1, "{run:?}");
    shows(&run, "play");
    server.join().unwrap();
}

#[test]
fn a_gateway_shows_it_harmlessly() {
    let dir = TempDir::new();
    let gate = session("acceptor", "127.0.0.1:0") + "store_dir = 'gate'\nvalidate = false\n";
    fs::write(dir.path().join("gate.toml"), gate).unwrap();
    let mut gate = Program::start(&dir, &["run", "gate.toml", "--verbose"]);
    let line = gate.wait_for("listening at ");
    attack(line.rsplit(' ').next().unwrap());
    gate.signal();
    let out = gate.rest();
    let (_, err) = gate.ended();
    shows(&Run { code: 0, out, err }, "run");
}

#[test]
fn whoever_connects_again_and_again_makes_few_lines() {
    let dir = TempDir::new();
    let settings = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n";
    fs::write(dir.path().join("venue.toml"), settings).unwrap();
    let mut venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("listening at ");
    let address = line.rsplit(' ').next().unwrap();
    for _ in 0..300 {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // The Logon(A) lacks HeartBtInt(108), so the venue disconnects.
        socket.write_all(&frame(("CLIENT", "VENUE"), "A", 1, &[(98, "0")])).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    }
    venue.signal();
    let out = venue.rest();
    let ended = out.lines().filter(|line| line.contains(" ended: ")).count();
    assert!((1..40).contains(&ended), "{ended} lines: {out}");
    assert!(venue.ended().1.lines().count() < 60);
}
