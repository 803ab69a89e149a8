//! Tests initiators with several destinations, with names that are resolved at each attempt, and
//! with proxies.

use std::any::Any;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use transfix::{
    Action, Durability, Engine, FailoverOrder, OperateError, ProxyKind, ProxySettings, Role,
    Secret, SessionHandle, SessionSettings, Settings, clock,
};
use transfix_testkit::program::Program;
use transfix_testkit::proxy::{self, Login, Proxy};
use transfix_testkit::temp::TempDir;

use crate::switches::{LONG, echo, venue};

/// Returns an address at which nothing listens. Each test uses its own host.
fn place(host: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 77, 1, host), port).into()
}

/// Starts an acceptor at this address.
fn acceptor(at: SocketAddr, change: impl FnOnce(&mut SessionSettings)) -> Engine {
    let session = venue(|s| {
        s.address = at.to_string();
        change(s);
    });
    Engine::start(&Settings::of(session), |_| Box::new(echo())).unwrap()
}

/// Starts the counterparty of the acceptors, an initiator that connects to these addresses.
fn initiator(to: &[String], change: impl FnOnce(&mut SessionSettings)) -> Engine {
    Engine::start(&Settings::of(settings(to, change)), |_| Box::new(echo())).unwrap()
}

fn settings(to: &[String], change: impl FnOnce(&mut SessionSettings)) -> SessionSettings {
    let mut session = venue(|s| {
        s.role = Role::Initiator;
        (s.sender_comp_id, s.target_comp_id) = ("CLIENT".to_owned(), "VENUE".to_owned());
        s.address = to[0].clone();
        s.failover.addresses = to[1..].to_vec();
        s.socket.reconnect_interval = Duration::from_millis(20);
    });
    change(&mut session);
    session
}

fn texts(places: &[SocketAddr]) -> Vec<String> {
    places.iter().map(SocketAddr::to_string).collect()
}

/// Waits until the initiator is logged on at this destination.
fn reaches(handle: &SessionHandle, destination: usize) {
    let end = clock::monotonic_ns() + LONG.as_nanos() as u64;
    while !handle.is_logged_on() || handle.destination() != Some(destination) {
        assert!(clock::monotonic_ns() < end, "{:?}, not {destination}", handle.destination());
        thread::yield_now();
    }
}

fn the_one(engine: &Engine) -> SessionHandle {
    engine.sessions().next().unwrap()
}

#[test]
fn a_backup_takes_over_and_the_primary_comes_back() {
    for (order, back_at) in [(FailoverOrder::Stay, 1), (FailoverOrder::First, 0)] {
        let places = [place(1, 4_001), place(1, 4_002)];
        let primary = acceptor(places[0], |_| ());
        // The numbers of the two acceptors do not matter in this test.
        let backup = acceptor(places[1], |_| ());
        let engine = initiator(&texts(&places), |s| {
            s.failover.order = order;
            s.failover.reset_on_backup = true;
            s.failover.reset_on_primary = true;
        });
        let handle = the_one(&engine);
        assert_eq!(handle.destinations(), texts(&places));
        reaches(&handle, 0);
        primary.stop(Duration::from_secs(1));
        reaches(&handle, 1);
        let primary = acceptor(places[0], |_| ());
        the_one(&backup).operate(&Action::Disconnect {}).unwrap();
        // Both acceptors begin with the numbers after the reset.
        reaches(&handle, back_at);
        drop((primary, backup));
    }
}

#[test]
fn an_operator_chooses_the_destination() {
    let places = [place(2, 4_001), place(2, 4_002)];
    let both = places.map(|at| acceptor(at, |s| s.protocol.reset_on.logon = true));
    let engine = initiator(&texts(&places), |s| {
        s.protocol.reset_on.logon = true;
        s.failover.attempts = 0;
        // The interval is longer than the test, so the operator's action must not wait for it.
        s.socket.reconnect_interval = Duration::from_secs(3_600);
    });
    let handle = the_one(&engine);
    reaches(&handle, 0);
    for destination in [1, 0, 1] {
        handle.operate(&Action::ConnectTo { destination }).unwrap();
        reaches(&handle, destination);
    }
    assert!(matches!(
        handle.operate(&Action::ConnectTo { destination: 2 }),
        Err(OperateError::NoDestination(2))
    ));
    assert_eq!(the_one(&both[0]).destination(), None);
    handle.operate(&Action::LogOut { text: "for the night".to_owned() }).unwrap();
    handle.operate(&Action::ConnectTo { destination: 0 }).unwrap();
    reaches(&handle, 0);
}

#[test]
fn backups_have_a_store_of_their_own_if_that_is_wanted() {
    for durability in [Durability::Memory, Durability::Process, Durability::Power] {
        let dirs = [TempDir::new(), TempDir::new(), TempDir::new()];
        let in_dir = |dir: &TempDir| {
            let path = dir.path().to_owned();
            move |s: &mut SessionSettings| {
                s.store.store_dir = path;
                s.store.durability = durability;
            }
        };
        let places = [place(3, 4_001), place(3, 4_002)];
        let far = [acceptor(places[0], in_dir(&dirs[0])), acceptor(places[1], in_dir(&dirs[1]))];
        let engine = initiator(&texts(&places), |s| {
            in_dir(&dirs[2])(s);
            s.failover.own_store = true;
            s.failover.attempts = 0;
        });
        let handle = the_one(&engine);
        let mut visits = [1, 0];
        reaches(&handle, 0);
        for destination in [1, 0, 1, 1, 0] {
            handle.operate(&Action::ConnectTo { destination }).unwrap();
            visits[destination] += 1;
            // Each visit uses one number for the Logon(A) and one for the Logout(5). If both
            // destinations shared a store, the numbers would be higher.
            let next = (2 * visits[destination], 2 * visits[destination]);
            let far = the_one(&far[destination]);
            let end = clock::monotonic_ns() + LONG.as_nanos() as u64;
            while (handle.next_numbers(), far.next_numbers()) != (next, next) {
                let found = (handle.next_numbers(), far.next_numbers());
                assert!(clock::monotonic_ns() < end, "{durability:?} {destination}: {found:?}");
                thread::yield_now();
            }
            reaches(&handle, destination);
        }
        drop(engine);
        if durability != Durability::Memory {
            assert!(dirs[2].path().join("backup/FIX.4.4-CLIENT-VENUE").is_dir());
        }
    }
}

#[test]
fn it_gives_up_after_as_many_attempts_as_it_may() {
    let listener = TcpListener::bind(place(4, 4_001)).unwrap();
    let engine = initiator(&texts(&[place(4, 4_001)]), |s| {
        s.socket.reconnect_attempts_max = 3;
        s.socket.reconnect_interval = Duration::from_millis(1);
        s.socket.reconnect_interval_max = Duration::from_millis(1);
    });
    for _ in 0..3 {
        drop(listener.accept().unwrap());
    }
    listener.set_nonblocking(true).unwrap();
    // Waits ten times as long as the pause before an attempt.
    thread::park_timeout(Duration::from_millis(50));
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    the_one(&engine).operate(&Action::LogOn {}).unwrap();
    drop(listener.accept().unwrap());
}

/// Starts a proxy that reports the requested address and the credentials.
fn proxy(at: SocketAddr, kind: ProxyKind, answer: &'static [u8]) -> Receiver<String> {
    let listener = TcpListener::bind(at).unwrap();
    let (asked, receiver) = channel();
    thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let target = match kind {
                ProxyKind::Socks5 => socks(&mut socket, &asked, answer),
                _ => http(&mut socket, &asked, answer),
            };
            let Some(target) = target.ok().flatten() else { continue };
            let Ok(far) = TcpStream::connect(target) else { continue };
            let pairs = [(socket.try_clone(), far.try_clone()), (Ok(far), Ok(socket))];
            for (from, to) in pairs {
                let (mut from, mut to) = (from.unwrap(), to.unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    receiver
}

fn http(
    socket: &mut TcpStream,
    asked: &Sender<String>,
    answer: &[u8],
) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    let _ = asked.send(head);
    // The answer is written in two parts, as it may arrive in real networks.
    let (first, second) = answer.split_at(answer.len() / 2);
    socket.write_all(first)?;
    thread::yield_now();
    socket.write_all(second)?;
    Ok(answer.starts_with(b"HTTP/1.1 2").then_some(target))
}

fn socks(
    socket: &mut TcpStream,
    asked: &Sender<String>,
    answer: &[u8],
) -> io::Result<Option<String>> {
    let read = |count: usize, socket: &mut TcpStream| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        socket.read_exact(&mut bytes).map(|()| bytes)
    };
    let methods = read(2, socket)?[1];
    let methods = read(methods.into(), socket)?;
    let mut text = String::new();
    if methods.contains(&2) {
        socket.write_all(&[5, 2])?;
        assert_eq!(read(1, socket)?, [1]);
        for _ in 0..2 {
            let length = read(1, socket)?[0];
            text += &(String::from_utf8(read(length.into(), socket)?).unwrap() + " ");
        }
        socket.write_all(&[1, 0])?;
    } else {
        socket.write_all(&[5, 0])?;
    }
    assert_eq!(read(3, socket)?, [5, 1, 0]);
    let host = match read(1, socket)?[0] {
        1 => Ipv4Addr::from(<[u8; 4]>::try_from(read(4, socket)?).unwrap()).to_string(),
        _ => {
            let length = read(1, socket)?[0];
            String::from_utf8(read(length.into(), socket)?).unwrap()
        }
    };
    let port = read(2, socket)?;
    let target = format!("{host}:{}", u16::from_be_bytes([port[0], port[1]]));
    let _ = asked.send(text + &target);
    socket.write_all(answer)?;
    Ok((answer[1] == 0).then_some(target))
}

const GRANTED: &[u8] = &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

#[test]
fn a_proxy_puts_the_connection_through() {
    let to = place(5, 4_000);
    let _acceptor = acceptor(to, |s| s.protocol.reset_on.logon = true);
    let cases: [(ProxyKind, bool, &[u8], String); 5] = [
        (ProxyKind::Http, false, b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n", format!("CONNECT {to} ")),
        (ProxyKind::Http, true, b"HTTP/1.1 200 \r\n\r\n", "Basic ZGVzazpzZXNhbWU=\r\n".to_owned()),
        (ProxyKind::Socks5, false, GRANTED, to.to_string()),
        (ProxyKind::Socks5, true, GRANTED, format!("desk sesame {to}")),
        // The proxy's answer contains its own address as a name.
        (ProxyKind::Socks5, false, b"\x05\x00\x00\x03\x03abc\x01\x02", to.to_string()),
    ];
    for (n, (kind, has_login, answer, expected)) in (1..).zip(cases) {
        let asked = proxy(place(5, 4_000 + n), kind, answer);
        let engine = initiator(&[to.to_string()], |s| {
            s.protocol.reset_on.logon = true;
            let mut proxy = ProxySettings::new(kind, &place(5, 4_000 + n).to_string());
            if has_login {
                proxy.username = Some("desk".to_owned());
                proxy.password = Some(Secret::new("sesame".to_owned()));
            }
            s.proxy = Some(proxy);
        });
        reaches(&the_one(&engine), 0);
        let asked = asked.recv_timeout(LONG).unwrap();
        assert!(asked.contains(&expected), "{asked}");
    }
}

/// Starts a proxy of the test kit with this login.
fn of_testkit(kind: ProxyKind, at: SocketAddr, login: Option<Login>) -> Box<dyn Any> {
    let kind = match kind {
        ProxyKind::Socks5 => proxy::Kind::Socks5(login),
        _ => proxy::Kind::Http(login),
    };
    Box::new(Proxy::start(at, kind))
}

/// Starts the same kind of proxy as a program: tinyproxy or microsocks.
fn program(kind: ProxyKind, at: SocketAddr, login: Option<Login>) -> Box<dyn Any> {
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    if kind == ProxyKind::Socks5 {
        let mut args = vec!["-i", &ip, "-p", &port];
        if let Some((user, password)) = &login {
            args.extend(["-u", user, "-P", password]);
        }
        return Box::new(Program::start("microsocks", "microsocks", &args));
    }
    let dir = TempDir::new();
    let config = dir.path().join("tinyproxy.conf");
    let login = login.map(|(user, password)| format!("BasicAuth {user} {password}\n"));
    let login = login.unwrap_or_default();
    fs::write(&config, format!("Listen {ip}\nPort {port}\nTimeout 60\n{login}")).unwrap();
    let args = ["-d", "-c", config.to_str().unwrap()];
    let program = Program::start("tinyproxy", "tinyproxy-bin", &args);
    Box::new((program, dir))
}

/// Logs on through both kinds of proxies, with the right credentials and without credentials.
fn logs_on_through(
    start: fn(ProxyKind, SocketAddr, Option<Login>) -> Box<dyn Any>,
    place: fn(u16) -> SocketAddr,
) {
    let to = place(4_000);
    let _acceptor = acceptor(to, |s| s.protocol.reset_on.logon = true);
    let login = Some(("desk".to_owned(), "sesame".to_owned()));
    for (port, kind, login) in [
        (4_001, ProxyKind::Http, None),
        (4_002, ProxyKind::Http, login.clone()),
        (4_003, ProxyKind::Socks5, None),
        (4_004, ProxyKind::Socks5, login),
    ] {
        let _proxy = start(kind, place(port), login.clone());
        // If the proxy program is still starting, a later attempt succeeds.
        let engine = initiator(&[to.to_string()], |s| {
            s.protocol.reset_on.logon = true;
            let mut proxy = ProxySettings::new(kind, &place(port).to_string());
            if let Some((user, password)) = login {
                (proxy.username, proxy.password) = (Some(user), Some(Secret::new(password)));
            }
            s.proxy = Some(proxy);
        });
        reaches(&the_one(&engine), 0);
    }
}

#[test]
fn proxies_put_the_connection_through() {
    logs_on_through(of_testkit, |port| place(9, port));
}

#[test]
#[ignore = "needs tinyproxy and microsocks: cargo xtask peers programs"]
fn proxies_that_people_run_put_the_connection_through() {
    logs_on_through(program, |port| place(10, port));
}

#[test]
fn a_proxy_that_refuses_leads_to_the_next_destination() {
    let places = [place(6, 4_000), place(6, 4_001)];
    let cases: [(ProxyKind, &[u8]); 6] = [
        (ProxyKind::Http, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"),
        (ProxyKind::Http, b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n"),
        (ProxyKind::Http, b"\r\n\r\n"),
        (ProxyKind::Socks5, &[5, 5]),
        (ProxyKind::Socks5, &[5, 0, 0, 9, 0, 0]),
        (ProxyKind::Socks5, b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ];
    for (n, (kind, answer)) in (1..).zip(cases) {
        let asked = proxy(place(6, 5_000 + n), kind, answer);
        let engine = initiator(&texts(&places), |s| {
            s.proxy = Some(ProxySettings::new(kind, &place(6, 5_000 + n).to_string()));
        });
        for to in [0, 1, 0] {
            let asked = asked.recv_timeout(LONG).unwrap();
            assert!(asked.contains(&places[to].to_string()), "{asked}");
        }
        assert_eq!(the_one(&engine).next_numbers(), (1, 1), "no Logon(A) has used a number");
    }
}

#[test]
fn who_says_nothing_is_left_in_time() {
    let (primary, backup) = (place(8, 4_000), place(8, 4_001));
    let _acceptor = acceptor(backup, |_| ());
    // A proxy that accepts connections and sends nothing; the first connection gets no answer.
    let listener = TcpListener::bind(primary).unwrap();
    let engine = initiator(&texts(&[backup]), |s| {
        s.socket.connect_timeout = Duration::from_millis(50);
        s.proxy = Some(ProxySettings::new(ProxyKind::Http, &primary.to_string()));
    });
    let silent = listener.accept().unwrap();
    let (mut next, _) = listener.accept().unwrap();
    // The engine has closed the first connection after its timeout.
    assert!(io::copy(&mut &silent.0, &mut io::sink()).unwrap() > 0);
    next.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let mut request = [0; 7];
    next.read_exact(&mut request).unwrap();
    assert_eq!(&request, b"CONNECT");
    drop(engine);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let two = texts(&[place(7, 1), place(7, 2)]);
    type Change = fn(&mut SessionSettings);
    let cases: [(Change, &str); 8] = [
        (|s| s.failover.addresses = vec!["b.example".to_owned()], "`b.example` has no port"),
        (|s| s.failover.addresses = vec!["b.example:1".to_owned(); 16], "at most 15 addresses"),
        (
            |s| (s.failover.own_store, s.failover.reset_on_backup) = (true, true),
            "excludes reset_on_backup and reset_on_primary",
        ),
        (
            |s| (s.failover.addresses, s.failover.attempts) = (Vec::new(), 2),
            "requires failover.addresses",
        ),
        (|s| s.role = Role::Acceptor, "an acceptor does not connect"),
        (|s| s.proxy = Some(ProxySettings::new(ProxyKind::Http, "x")), "proxy.address `x` has no"),
        (|s| s.socket.connect_timeout = Duration::ZERO, "connect_timeout_ms must be at least 1"),
        (|s| s.socket.reconnect_jitter_percent = 101, "reconnect_jitter_percent is at most 100"),
    ];
    for (change, expected) in cases {
        let settings = Settings::of(settings(&two, change));
        let error = Engine::start(&settings, |_| Box::new(echo())).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_settings_file_says_where_else_and_through_whom() {
    let text = r#"
        [[session]]
        role = "initiator"
        begin_string = "FIX.4.4"
        sender_comp_id = "A"
        target_comp_id = "B"
        address = "a.example:1"
        reconnect_backoff = "exponential"
        failover = { addresses = ["b.example:2"], order = "random", attempts = 3 }
        proxy = { kind = "socks5", address = "p.example:3", username = "me", password = "sesame" }
    "#;
    let settings = Settings::parse("my.toml", text).unwrap();
    let session = &settings.sessions[0];
    assert_eq!(session.failover.addresses, ["b.example:2"]);
    assert_eq!((session.failover.order, session.failover.attempts), (FailoverOrder::Random, 3));
    let proxy = session.proxy.as_ref().unwrap();
    assert_eq!((proxy.kind, &*proxy.address), (ProxyKind::Socks5, "p.example:3"));
    assert!(!format!("{settings:?}").contains("sesame"));
    for (from, to, expected) in [
        ("kind = \"socks5\", ", "", "my.toml:10: the key `kind` is missing"),
        ("\"socks5\"", "\"ftp\"", "my.toml:10: "),
        ("\"random\"", "\"best\"", "my.toml:9: "),
        ("b.example:2", "b.example", "my.toml:9: "),
        ("username = \"me\", ", "", "my.toml:10: "),
    ] {
        let error = Settings::parse("my.toml", &text.replace(from, to)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_name_that_nobody_knows_is_no_error_of_the_start_and_leads_to_the_next_destination() {
    // On most hosts, localhost has addresses of both families, and nothing listens at the other
    // address.
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listening.local_addr().unwrap().port();
    drop(listening);
    let _acceptor = acceptor(([127, 0, 0, 1], port).into(), |_| ());
    let to = ["no.such.host.invalid:9880".to_owned(), format!("localhost:{port}")];
    let engine = initiator(&to, |_| ());
    reaches(&the_one(&engine), 1);
}
