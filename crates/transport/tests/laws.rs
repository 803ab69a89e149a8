//! The test suite for every `Stream`, run over TCP and in memory.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use transfix_testkit::laws::stream_laws;
use transfix_transport::{Listener, SocketOptions, Stream, TcpStream, connect, memory};

fn tcp_pair(options: &SocketOptions) -> (TcpStream, TcpStream) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let mut connecting = connect(listener.local_addr().unwrap(), options).unwrap();
    let client = loop {
        if let Some(stream) = connecting.finish().unwrap() {
            break stream;
        }
    };
    let server = loop {
        if let Some(stream) = listener.accept().unwrap() {
            break stream;
        }
    };
    (client, server)
}

#[test]
fn memory() {
    for capacity in [64, 1000, 1 << 16] {
        stream_laws(|| {
            let (a, b) = memory::pipe(capacity);
            (Box::new(a) as Box<dyn Stream>, Box::new(b) as Box<dyn Stream>)
        });
    }
}

#[test]
fn tcp() {
    stream_laws(|| {
        let (a, b) = tcp_pair(&SocketOptions::default());
        (Box::new(a) as Box<dyn Stream>, Box::new(b) as Box<dyn Stream>)
    });
}
