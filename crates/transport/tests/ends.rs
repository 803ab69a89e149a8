//! The end of a connection is detected, wherever the bytes before the end are split into reads.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::io;

use transfix_testkit::laws::{EndingConnection, stream_end_laws};
use transfix_transport::Stream;
use transfix_transport::memory::{MemoryStream, pipe};
use transfix_transport::tls::{Client, Server, TlsStream};

use crate::tls::Firm;

const TEXT: &[u8] = b"8=FIX.4.4\x019=5\x0135=5\x0110=160\x01";
/// Bytes that are not a TLS record; a reader answers them with an alert.
const NO_RECORD: &[u8] = b"8=FIX.4.4\x01";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// The last bytes that the remote end sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// Nothing after the handshake; the handshake of a server ends with tickets for the client.
    Nothing,
    Text,
    TextAndCloseNotify,
    CloseNotify,
    TextAndAlert,
    Alert,
}

impl Last {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Text,
        Self::TextAndCloseNotify,
        Self::CloseNotify,
        Self::TextAndAlert,
        Self::Alert,
    ];

    fn has_text(self) -> bool {
        matches!(self, Self::Text | Self::TextAndCloseNotify | Self::TextAndAlert)
    }
}

/// Moves the bytes in transit from one stream to the other.
fn carry(from: &mut MemoryStream, to: &mut MemoryStream) {
    let bytes = taken(from);
    assert!(bytes.is_empty() || to.write(&bytes).unwrap() == bytes.len());
}

fn taken(from: &mut MemoryStream) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let n = from.read(&mut bytes).unwrap_or(0);
    bytes.truncate(n);
    bytes
}

fn look(side: &mut TlsStream) {
    let error = side.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
}

/// Returns a connection in which the stream under test has completed the handshake. Bytes that the
/// remote end sent afterwards are still in transit.
fn last_words((client, server): (&Client, &Server), side: Side, last: Last) -> EndingConnection {
    let (near, mut wire) = pipe(1 << 16);
    let (far, mut tap) = pipe(1 << 16);
    let (mut stream, mut far) = match side {
        Side::Client => {
            (client.connect(Box::new(near)).unwrap(), server.accept(Box::new(far)).unwrap())
        }
        Side::Server => {
            (server.accept(Box::new(near)).unwrap(), client.connect(Box::new(far)).unwrap())
        }
    };
    while stream.is_handshaking() {
        look(&mut far);
        carry(&mut tap, &mut wire);
        look(&mut stream);
        carry(&mut wire, &mut tap);
    }
    look(&mut far);
    assert!(!far.is_handshaking());
    if last.has_text() {
        assert_eq!(far.write(TEXT).unwrap(), TEXT.len());
    }
    match last {
        Last::CloseNotify | Last::TextAndCloseNotify => far.shutdown().unwrap(),
        Last::Alert | Last::TextAndAlert => {
            tap.write(NO_RECORD).unwrap();
            far.read(&mut [0; 1]).unwrap_err();
        }
        Last::Nothing | Last::Text => {}
    }
    let text = if last.has_text() { TEXT.to_vec() } else { Vec::new() };
    let are_end = !matches!(last, Last::Nothing | Last::Text);
    EndingConnection { stream: Box::new(stream), wire, raw: taken(&mut tap), text, are_end }
}

#[test]
fn of_plain_bytes() {
    stream_end_laws(|| {
        let (near, wire) = pipe(1_000);
        let (raw, text) = (TEXT.to_vec(), TEXT.to_vec());
        EndingConnection { stream: Box::new(near), wire, raw, text, are_end: false }
    });
}

#[test]
fn over_tls() {
    let firm = Firm::new();
    let server = Server::new(firm.server.clone()).unwrap();
    let client = Client::new(firm.client.clone()).unwrap();
    for side in [Side::Client, Side::Server] {
        for last in Last::ALL {
            println!("{side:?} {last:?}");
            stream_end_laws(|| last_words((&client, &server), side, last));
        }
    }
}
