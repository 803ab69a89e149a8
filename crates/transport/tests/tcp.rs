//! What TCP adds to the laws: options, readiness, refused connections, several addresses.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::io;
use std::time::Duration;

use transfix_transport::{
    Events, Interest, Listener, Poll, Registry, SocketOptions, Stream, Token, Waker, connect,
};

const LISTENER: Token = Token(0);
const CLIENT: Token = Token(1);
const SERVER: Token = Token(2);

fn any_port() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Waits for readiness under one of the tokens; the limit only ends a broken test.
fn wait(poll: &mut Poll) -> Vec<Token> {
    let mut events = Events::with_capacity(16);
    poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
    assert!(!events.is_empty(), "no event");
    events.iter().map(|event| event.token()).collect()
}

#[test]
fn readiness_leads_from_connect_to_bytes() {
    let options = SocketOptions::default();
    let mut poll = Poll::new().unwrap();
    let mut listener = Listener::bind(any_port(), &options).unwrap();
    listener.register(Registry::System(poll.registry()), LISTENER).unwrap();
    let address = listener.local_addr().unwrap();
    let mut connecting = connect(address, Some(any_port()), &options).unwrap();
    connecting.register(Registry::System(poll.registry()), CLIENT, Interest::WRITABLE).unwrap();
    let (mut client, mut server) = (None, None);
    while client.is_none() || server.is_none() {
        for token in wait(&mut poll) {
            match token {
                LISTENER => server = listener.accept().unwrap(),
                _ => client = connecting.finish().unwrap(),
            }
        }
    }
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    assert_eq!(client.peer_addr(), Some(address));
    assert_eq!(server.peer_addr(), Some(client.local_addr().unwrap()));
    client.deregister(Registry::System(poll.registry())).unwrap();
    server.register(Registry::System(poll.registry()), SERVER, Interest::READABLE).unwrap();
    client.write(b"8=FIX").unwrap();
    assert_eq!(wait(&mut poll), [SERVER]);
    let mut buf = [0; 16];
    assert_eq!(server.read(&mut buf).unwrap(), 5);
    assert!(listener.accept().unwrap().is_none());
}

#[test]
fn options_reach_both_ends() {
    let options = SocketOptions {
        send_buffer_bytes: Some(64 << 10),
        receive_buffer_bytes: Some(64 << 10),
        keepalive: Some(Duration::from_secs(30)),
        linger: Some(Duration::ZERO),
        ..SocketOptions::default()
    };
    for nodelay in [true, false] {
        let options = SocketOptions { nodelay, ..options.clone() };
        let listener = Listener::bind(any_port(), &options).unwrap();
        let mut connecting = connect(listener.local_addr().unwrap(), None, &options).unwrap();
        let client = loop {
            if let Some(stream) = connecting.finish().unwrap() {
                break stream;
            }
        };
        assert_eq!(connecting.finish().unwrap_err().kind(), io::ErrorKind::NotConnected);
        let server = loop {
            if let Some(stream) = listener.accept().unwrap() {
                break stream;
            }
        };
        assert_eq!([client.nodelay().unwrap(), server.nodelay().unwrap()], [nodelay; 2]);
    }
}

#[test]
fn a_refused_connection_is_an_error() {
    let options = SocketOptions::default();
    let listener = Listener::bind(any_port(), &options).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = connect(address, None, &options).and_then(|mut connecting| {
        loop {
            if let Some(stream) = connecting.finish()? {
                return Ok(stream);
            }
        }
    });
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn an_address_in_use_is_an_error() {
    let options = SocketOptions::default();
    let listener = Listener::bind(any_port(), &options).unwrap();
    let error = Listener::bind(listener.local_addr().unwrap(), &options).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_waker_ends_the_wait_of_another_thread() {
    let mut poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), SERVER).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| waker.wake().unwrap());
        assert_eq!(wait(&mut poll), [SERVER]);
    });
}
