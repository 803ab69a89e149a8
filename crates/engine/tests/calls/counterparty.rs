//! A counterparty of the counted engine, over a plain socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A time limit that suffices on the slowest machine.
const LONG: Duration = Duration::from_secs(300);

/// A counterparty that is logged on.
pub(crate) struct Counterparty {
    stream: TcpStream,
    seq: u64,
}

impl Counterparty {
    pub(crate) fn connects(address: &str) -> Self {
        let mut counterparty = Self::of(TcpStream::connect(address).unwrap());
        counterparty.say("A", "98=0|108=300|");
        counterparty.hear("|35=A|");
        counterparty
    }

    pub(crate) fn accepts(listener: &TcpListener) -> Self {
        let mut counterparty = Self::of(listener.accept().unwrap().0);
        counterparty.hear("|35=A|");
        counterparty.say("A", "98=0|108=30|");
        counterparty
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, seq: 1 }
    }

    fn say(&mut self, msg_type: &str, fields: &str) {
        let (seq, time) = (self.seq, transfix::clock::now().utc);
        self.seq += 1;
        let body = format!("35={msg_type}|49=OTHER|56=ENGINE|34={seq}|52={time}|{fields}");
        let head = format!("8=FIX.4.4|9={}|{body}", body.len());
        let sum = head.replace('|', "\x01").bytes().fold(0_u8, u8::wrapping_add);
        let message = format!("{head}10={sum:03}|").replace('|', "\x01");
        self.stream.write_all(message.as_bytes()).unwrap();
    }

    /// Reads up to the end of the message that contains `text`.
    fn hear(&mut self, text: &str) {
        let mut heard = String::new();
        let is_whole = |heard: &str| {
            let trailer = heard.split_once(text).and_then(|(_, rest)| rest.split_once("10="));
            trailer.is_some_and(|(_, sum)| sum.contains('|'))
        };
        while !is_whole(&heard) {
            let mut bytes = [0; 4096];
            let n = self.stream.read(&mut bytes).unwrap();
            assert!(n > 0, "no {text} in {heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..n]).replace('\x01', "|"));
        }
    }

    /// Sends one message, and reads its answer.
    pub(crate) fn ping(&mut self) {
        let text = format!("58=ping {}|", self.seq);
        self.say("B", &text);
        self.hear(&format!("|{text}"));
    }
}
