//! Tests attacks by strangers on the administration over HTTP while other clients use it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use crate::http::{Answer, Client, LONG, answer};
use crate::market::Market;

/// Connects to `to` from the local address `from`.
fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

/// Sends a request from the local address `from` and returns the answer.
fn asks(client: &Client, from: [u8; 4], path: &str) -> Answer {
    let mut socket = connect_from(from, client.to);
    socket.write_all(client.request("GET", path, "").as_bytes()).unwrap();
    answer(&mut socket)
}

/// Incomplete requests: a name, and the bytes that a stranger sends before it becomes silent.
const BEGUN: &[(&str, &str)] = &[
    ("nothing", ""),
    ("half of a head", "GET /health/live HTTP/1.1\r\nHost:"),
    ("no body", "POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("answers that nobody reads", "GET /app.js HTTP/1.1\r\nHost: x\r\n\r\n"),
];

#[test]
fn silent_connections_keep_nobody_out() {
    let market = Market::new();
    let (stranger, viewer) = (market.stranger(), market.viewer());
    let (probe, shared) = ([127, 0, 0, 9], [127, 0, 1, 1]);
    for (what, begun) in BEGUN {
        // The strangers connect from 50 addresses, from an address that an honest client uses too,
        // and from this machine.
        let crowd = (0..300_u16).map(|n| [127, 0, 1, 2 + (n % 50) as u8]);
        let crowd = crowd.chain([shared; 300]).chain([[127, 0, 0, 1]; 300]);
        let mut held = Vec::new();
        for from in crowd {
            let mut socket = connect_from(from, market.server.address());
            // The write may fail, because the server may have closed this connection already.
            let _ = socket.write_all(begun.repeat(20).as_bytes());
            held.push(socket);
        }
        for from in [probe, shared, [127, 0, 0, 1]] {
            assert_eq!(asks(&stranger, from, "/health/live").status, 200, "{what}: {from:?}");
            assert_eq!(asks(&stranger, from, "/health/ready").status, 200, "{what}: {from:?}");
            assert_eq!(asks(&viewer, from, "/api/sessions").status, 200, "{what}: {from:?}");
        }
    }
}

#[test]
fn strangers_cut_nobody_off_who_is_known() {
    let market = Market::new();
    let viewer = market.viewer();
    let mut reader = connect_from([127, 0, 1, 1], viewer.to);
    let request = viewer.request("GET", "/api/events/stream", "");
    reader.write_all(request.as_bytes()).unwrap();
    let mut begun = [0; 12];
    reader.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let held: Vec<_> = (0..300).map(|_| connect_from([127, 0, 1, 1], viewer.to)).collect();
    assert_eq!(asks(&viewer, [127, 0, 1, 1], "/api/me").status, 200);
    // The server closed the first stranger's connection to admit another.
    let mut first = &held[0];
    assert_eq!(first.read(&mut begun).unwrap_or(0), 0);
    reader.set_nonblocking(true).unwrap();
    let mut rest = Vec::new();
    let end = reader.read_to_end(&mut rest).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::WouldBlock, "the stream goes on");
}
