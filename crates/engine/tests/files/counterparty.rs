//! A counterparty over a plain socket.

use std::io::{Read, Write};
use std::net::TcpStream;

use transfix::Engine;

use crate::LONG;

/// A counterparty that sends what the test tells it to send.
pub(crate) struct Client {
    stream: TcpStream,
    pub(crate) seq: u64,
}

impl Client {
    pub(crate) fn logged_on(engine: &Engine) -> Self {
        let mut client = Self::asking_in(engine);
        client.hear("|35=A|");
        client
    }

    /// Connects and sends a Logon(A), without waiting for the answer.
    pub(crate) fn asking_in(engine: &Engine) -> Self {
        let stream = TcpStream::connect(engine.listening()[0]).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut client = Self { stream, seq: 1 };
        client.say("A", "98=0|108=30|141=Y|553=desk|554=hush|925=newer|");
        client
    }

    pub(crate) fn message(&mut self, msg_type: &str, fields: &str) -> Vec<u8> {
        let (seq, time) = (self.seq, transfix::clock::now().utc);
        self.seq += 1;
        let body = format!("35={msg_type}|49=CLIENT|56=VENUE|34={seq}|52={time}|{fields}");
        let head = format!("8=FIX.4.4|9={}|{body}", body.len());
        let sum = head.replace('|', "\x01").bytes().fold(0_u8, u8::wrapping_add);
        format!("{head}10={sum:03}|").replace('|', "\x01").into_bytes()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn say(&mut self, msg_type: &str, fields: &str) {
        let message = self.message(msg_type, fields);
        self.write(&message);
    }

    /// Reads until `text` arrives. Returns everything read.
    pub(crate) fn hear(&mut self, text: &str) -> String {
        let mut heard = String::new();
        while !heard.contains(text) {
            let mut bytes = [0; 4096];
            let n = self.stream.read(&mut bytes).unwrap();
            assert!(n > 0, "no {text} in {heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..n]).replace('\x01', "|"));
        }
        heard
    }

    /// Sends an order. Returns true if an answer arrives before the connection ends.
    pub(crate) fn tries_order(&mut self, text: &str) -> bool {
        self.say("D", &format!("58={text}|"));
        let mut heard = String::new();
        while !heard.contains(&format!("|148={text}|")) {
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(n @ 1..) => {
                    heard.push_str(&String::from_utf8_lossy(&bytes[..n]).replace('\x01', "|"))
                }
                _ => return false,
            }
        }
        true
    }

    pub(crate) fn order(&mut self, text: &str) {
        self.say("D", &format!("58={text}|"));
        self.hear(&format!("|148={text}|"));
    }
}
