//! Tests of TCP streams besides the common test suite: options, readiness, refused connections, and
//! several addresses.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::io;
use std::time::Duration;

use socket2::SockRef;
use transfix_transport::{
    Events, Interest, Listener, Poll, Registry, SocketOptions, Stream, TcpStream, Token, Waker,
    connect,
};

const LISTENER: Token = Token(0);
const CLIENT: Token = Token(1);
const SERVER: Token = Token(2);

fn any_port() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Waits for an event and returns the reported tokens; the time limit only ends a broken test.
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
    let from_any = SocketOptions { local: Some(any_port()), ..options.clone() };
    let mut connecting = connect(address, &from_any).unwrap();
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
        keepalive_interval: Some(Duration::from_secs(7)),
        keepalive_probes: Some(4),
        user_timeout: Some(Duration::from_secs(20)),
        quick_ack: true,
        dscp: Some(46),
        linger: Some(Duration::ZERO),
        ..SocketOptions::default()
    };
    for nodelay in [true, false] {
        let options = SocketOptions { nodelay, ..options.clone() };
        let listener = Listener::bind(any_port(), &options).unwrap();
        let mut connecting = connect(listener.local_addr().unwrap(), &options).unwrap();
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
        for stream in [&client, &server] {
            let socket = SockRef::from(stream);
            assert_eq!(socket.tcp_nodelay().unwrap(), nodelay);
            assert_eq!(socket.send_buffer_size().unwrap(), 128 << 10, "Linux doubles it");
            assert_eq!(socket.recv_buffer_size().unwrap(), 128 << 10);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(7));
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(20)));
            assert!(socket.tcp_quickack().unwrap());
            assert_eq!(socket.tos_v4().unwrap(), 46 << 2);
            assert_eq!(socket.linger().unwrap(), Some(Duration::ZERO));
        }
    }
}

#[test]
fn quick_acknowledgements_outlive_a_read() {
    for quick_ack in [true, false] {
        let options = SocketOptions { quick_ack, ..SocketOptions::default() };
        let listener = std::net::TcpListener::bind(any_port()).unwrap();
        let far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut near = TcpStream::from_std(listener.accept().unwrap().0, &options).unwrap();
        // Linux turns quick acknowledgements off for a connection with alternating requests and
        // answers.
        let off = || SockRef::from(&near).set_tcp_quickack(false).unwrap();
        off();
        io::Write::write_all(&mut &far, b"8=FIX").unwrap();
        let mut buffer = [0; 16];
        while near.read(&mut buffer).is_err() {}
        assert_eq!(SockRef::from(&near).tcp_quickack().unwrap(), quick_ack);
    }
}

#[test]
fn a_socket_of_ipv6_has_its_traffic_class() {
    let options = SocketOptions { dscp: Some(10), ..SocketOptions::default() };
    let listener = Listener::bind("[::1]:0".parse().unwrap(), &options);
    // The host may not support IPv6.
    let Ok(listener) = listener else { return };
    let mut connecting = connect(listener.local_addr().unwrap(), &options).unwrap();
    let client = loop {
        if let Some(stream) = connecting.finish().unwrap() {
            break stream;
        }
    };
    assert_eq!(SockRef::from(&client).tclass_v6().unwrap(), 10 << 2);
}

#[test]
fn what_the_system_refuses_is_known_before_any_connection() {
    let address = any_port();
    assert!(SocketOptions::default().check(address).is_ok());
    let elsewhere = Some("192.0.2.1:0".parse().unwrap());
    let options = SocketOptions { local: elsewhere, ..SocketOptions::default() };
    assert_eq!(options.check(address).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    // The check succeeds although another connection may still use the port.
    let taken = std::net::TcpListener::bind(any_port()).unwrap();
    let local = Some(taken.local_addr().unwrap());
    assert!(SocketOptions { local, ..SocketOptions::default() }.check(address).is_ok());
}

#[test]
fn a_refused_connection_is_an_error() {
    let options = SocketOptions::default();
    let listener = Listener::bind(any_port(), &options).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = connect(address, &options).and_then(|mut connecting| {
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
