//! Attacks on the admin interface by strangers, over HTTP and over FIX, and attacks from an address
//! that honest counterparties also use.
//!
//! Checks after each attack: a health probe and an operator get answers, over HTTP and over FIX.
//! The sessions at the shared address log on without a delay. Password guesses leave no memory
//! allocated.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::line::{Line, PATIENCE};
use super::server::{PASSWORD, SESSIONS};
use super::{Attack, Field, On, Outcome, on};

/// The address from which attackers connect to the admin interface. It differs from the machine's
/// own address.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 3];
const HERE: [u8; 4] = [127, 0, 0, 1];
/// The upper limit for the memory of a password check, in KiB.
const GUESSING_KIB: u64 = 24 << 10;

/// Connects to the address `to` from the local address `from`.
fn connect_from(from: [u8; 4], to: &str) -> Outcome<TcpStream> {
    let failed = |error: std::io::Error| format!("{to}: {error}");
    let address: SocketAddr = to.parse().map_err(|_| format!("{to} is no address"))?;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(failed)?;
    socket.bind(&SocketAddr::from((from, 0)).into()).map_err(failed)?;
    socket.connect_timeout(&address.into(), PATIENCE).map_err(failed)?;
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(socket)
}

/// Returns the HTTP status of an answer, or 0 if no answer arrives.
fn status(socket: &mut TcpStream) -> u16 {
    let mut bytes = Vec::new();
    // The result is ignored, because an interrupted connection counts as no answer.
    let _ = socket.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    status.and_then(|status| status.parse().ok()).unwrap_or_default()
}

fn asks(from: [u8; 4], to: &str, head: &str, body: &str) -> Outcome<u16> {
    let mut socket = connect_from(from, to)?;
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    // The result is ignored, because the server may refuse the request before all bytes are
    // written.
    let _ = socket.write_all(request.as_bytes());
    Ok(status(&mut socket))
}

fn login(name: &str, password: &str) -> String {
    format!("{{\"name\":\"{name}\",\"password\":\"{password}\"}}")
}

impl Field<'_> {
    /// Checks that a health probe and operators get answers, both from another address and from the
    /// machine's own address.
    fn is_administered(&self) -> Outcome<()> {
        for from in [ELSEWHERE, HERE, [127, 0, 0, 9]] {
            for path in ["GET /health/live", "GET /health/ready"] {
                match asks(from, self.admin, path, "")? {
                    200 => {}
                    status => return Err(format!("{path} from {from:?}: status {status}")),
                }
            }
            let known = format!(
                "GET /api/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                 Authorization: Bearer {}\r\n\r\n",
                self.token
            );
            let mut socket = connect_from(from, self.admin)?;
            let _ = socket.write_all(known.as_bytes());
            match status(&mut socket) {
                200 => {}
                status => return Err(format!("an operator from {from:?}: status {status}")),
            }
        }
        self.logs_in("bert", HERE)?;
        let mut line = Line::plain(self.fix_admin, "BERT")?;
        line.log_on(&format!("553=bert|554={PASSWORD}|"))?;
        line.say("n", "212=15|213=<SessionsList/>|");
        line.hears("SessionsListData").map(drop)
    }

    /// Checks that this user can log in from this address.
    fn logs_in(&self, name: &str, from: [u8; 4]) -> Outcome<()> {
        match asks(from, self.admin, "POST /api/login", &login(name, PASSWORD))? {
            200 => Ok(()),
            status => Err(format!("{name} does not come in from {from:?}: status {status}")),
        }
    }
}

/// Returns an attack that opens many connections from two addresses. `says` returns the bytes that
/// each connection sends.
fn crowd(name: &str, says: impl Fn(usize) -> Vec<u8> + Sync + 'static) -> Attack {
    let expects = "probes and operators are answered meanwhile";
    on(On::Plain, &format!("administration/{name}"), expects, move |field| {
        let mut held = Vec::new();
        for n in 0..400 {
            let from = if n % 2 == 0 { ELSEWHERE } else { HERE };
            let mut socket = connect_from(from, field.admin)?;
            // The result is ignored, because the server may have closed this connection to make
            // room for another.
            let _ = socket.set_nonblocking(true);
            let _ = socket.write_all(&says(n));
            held.push(socket);
        }
        field.is_administered()
    })
}

pub(super) fn all() -> Vec<Attack> {
    let mut all = http();
    all.extend(guesses());
    all.extend(fix());
    all.extend(shared());
    all
}

fn http() -> Vec<Attack> {
    let text = |text: &'static str| move |_: usize| text.as_bytes().to_vec();
    vec![
        crowd("silent-connections", text("")),
        crowd("half-a-head", text("GET /health/live HTTP/1.1\r\nHost:")),
        crowd("a-head-of-a-mib", |_| [&b"GET / HTTP/1.1\r\nX: "[..], &[b'x'; 1 << 20]].concat()),
        crowd(
            "a-body-that-does-not-come",
            text("POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"),
        ),
        crowd("a-body-without-end", |_| {
            let head = b"POST /api/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
            [&head[..], &b"5\r\nxxxxx\r\n".repeat(5_000)].concat()
        }),
        crowd("answers-that-nobody-reads", |_| {
            b"GET /app.js HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500)
        }),
        crowd("http-2-preface", text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")),
        crowd("http-2-pings", |_| {
            let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
            [&preface[..], &ping.repeat(1_000)].concat()
        }),
        crowd("fix-on-its-port", text("8=FIX.4.4\x019=70\x0135=A\x0149=LIAR\x01")),
        crowd("tls-on-its-port", |_| {
            [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[0; 500]].concat()
        }),
        on(On::Plain, "administration/opened-and-cut", "probes are answered", |field| {
            for n in 0..1_000 {
                drop(connect_from([ELSEWHERE, HERE][n % 2], field.admin)?);
            }
            field.is_administered()
        }),
        on(On::Plain, "administration/wrong-tokens", "each 401", |field| {
            for n in 0..200 {
                let head = format!("GET /api/me?n={n}");
                match asks(ELSEWHERE, field.admin, &head, "")? {
                    401 => {}
                    status => return Err(format!("status {status}")),
                }
            }
            field.is_administered()
        }),
    ]
}

/// Returns the attacks that guess passwords. The attacks must not affect other users.
fn guesses() -> Vec<Attack> {
    vec![
        on(On::Plain, "guessing/another-user-behind-the-address", "others log in", |field| {
            for n in 0..12 {
                let body = login("anna", &format!("guess {n}"));
                match asks(ELSEWHERE, field.admin, "POST /api/login", &body)? {
                    401 | 429 => {}
                    status => return Err(format!("a guess: status {status}")),
                }
            }
            field.logs_in("bert", ELSEWHERE)?;
            field.is_administered()
        }),
        on(On::Plain, "guessing/a-user-who-was-there-before", "the user logs in", |field| {
            field.logs_in("carl", ELSEWHERE)?;
            for n in 0..8 {
                let body = login("carl", &format!("guess {n}"));
                asks(ELSEWHERE, field.admin, "POST /api/login", &body)?;
            }
            field.logs_in("carl", ELSEWHERE)
        }),
        on(On::Plain, "guessing/names-over-http-in-parallel", "no memory is kept", |field| {
            let before = field.memory_kib()?;
            std::thread::scope(|scope| {
                for n in 0..100_u8 {
                    let guess = login(&format!("name{n}"), "guess");
                    let to = field.admin;
                    scope.spawn(move || {
                        drop(asks([127, 0, 2, n], to, "POST /api/login", &guess));
                    });
                }
            });
            kept(before, field.memory_kib()?)?;
            field.is_administered()
        }),
        on(On::Plain, "guessing/hashed-passwords-of-a-session", "no memory is kept", |field| {
            let before = field.memory_kib()?;
            for round in 0..2 {
                let mut lines = Vec::new();
                // The attack uses few addresses, because each address may cause log lines of its
                // own.
                for n in 0..100 {
                    let socket = connect_from([127, 0, 2, n % 3], field.plain)?;
                    let mut line = Line::over(socket, "HASHED")?;
                    line.say("A", &format!("98=0|108=30|554=guess {round}|"));
                    lines.push(line);
                }
                for mut line in lines {
                    let said = line.is_shut()?;
                    if said.contains("|35=A|") {
                        return Err(format!("a guess was let in: {said}"));
                    }
                }
            }
            kept(before, field.memory_kib()?)
        }),
    ]
}

fn kept(before_kib: u64, after_kib: u64) -> Outcome<()> {
    match after_kib.saturating_sub(before_kib) {
        kept if kept > GUESSING_KIB => Err(format!("{kept} KiB are kept after guesses")),
        _ => Ok(()),
    }
}

fn fix() -> Vec<Attack> {
    let attack = |name: &str, run: fn(&Field<'_>) -> Outcome<()>| {
        let name = format!("fix-administration/{name}");
        on(On::Plain, &name, "administrators log on meanwhile", move |field: &Field<'_>| {
            run(field)?;
            field.is_administered()
        })
    };
    vec![
        attack("silent-connections", |field| {
            let from = |n: usize| connect_from([ELSEWHERE, HERE][n % 2], field.fix_admin);
            let held: Vec<_> = (0..400).map(from).collect::<Outcome<_>>()?;
            field.is_administered()?;
            drop(held);
            Ok(())
        }),
        attack("guesses-that-wait", |field| {
            let mut held = Vec::new();
            for n in 0..100 {
                let socket = connect_from([127, 0, 3, n % 2], field.fix_admin)?;
                let mut line = Line::over(socket, &format!("GUESS{n}"))?;
                line.say("A", "98=0|108=30|553=anna|554=guess|");
                held.push(line);
            }
            field.is_administered()
        }),
        attack("commands-before-the-logon", |field| {
            for _ in 0..50 {
                let mut line = Line::plain(field.fix_admin, "EVIL")?;
                line.say("n", "212=13|213=<StopServer/>|");
                line.is_shut_silently()?;
            }
            Ok(())
        }),
        attack("xml-that-doubles-itself", |field| {
            let mut line = Line::plain(field.fix_admin, "ANNA")?;
            line.log_on(&format!("553=dora|554={PASSWORD}|"))?;
            let doubled: String =
                (1..25).map(|n| format!("<!ENTITY e{n} \"&e{};&e{};\">", n - 1, n - 1)).collect();
            let xml = format!("<!DOCTYPE x [<!ENTITY e0 \"x\">{doubled}]><x>&e24;</x>");
            line.say("n", &format!("212={}|213={xml}|", xml.len()));
            line.hears("ResultCode").map(drop)
        }),
    ]
}

/// Returns the attacks from an address at which honest counterparties also log on.
fn shared() -> Vec<Attack> {
    vec![on(On::Plain, "shared-address/unknown-names", "its sessions log on at once", |field| {
        for n in 0..40 {
            let socket = connect_from([127, 0, 0, 7], field.plain)?;
            let mut line = Line::over(socket, &format!("UNKNOWN{n}"))?;
            line.say("A", "98=0|108=30|");
            line.is_shut_silently()?;
        }
        let waits = || field.log().matches("a Logon(A) is delayed").count();
        let before = waits();
        for name in SESSIONS.into_iter().filter(|name| *name == "PROBE" || *name == "LIAR") {
            let mut line = Line::over(connect_from([127, 0, 0, 7], field.plain)?, name)?;
            line.log_on("141=Y|").map_err(|why| format!("{name}: {why}"))?;
            line.say("5", "");
            line.hears("|35=5|")?;
        }
        match waits() - before {
            0 => Ok(()),
            waited => Err(format!("{waited} of its sessions had to wait")),
        }
    })]
}
