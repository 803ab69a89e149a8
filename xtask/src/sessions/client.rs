//! A FIX client for one session, over a plain socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time limit for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// The client side of one session.
pub(super) struct Client {
    socket: TcpStream,
    name: String,
    next_num_out: u64,
}

impl Client {
    pub(super) fn log_on(address: &str, name: &str, heart_bt_int_s: u64) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let socket = TcpStream::connect(address).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut client = Self { socket, name: name.to_owned(), next_num_out: 1 };
        // The Logon(A) has ResetSeqNumFlag(141)=Y, because the stores may come from an earlier run.
        client.send("A", &format!("98=0|108={heart_bt_int_s}|141=Y|"))?;
        client.hear("35=A|")?;
        Ok(client)
    }

    fn failed(&self, what: &dyn std::fmt::Display) -> String {
        format!("{}: {what}", self.name)
    }

    fn send(&mut self, msg_type: &str, fields: &str) -> Result<(), String> {
        let bytes = message(msg_type, &self.name, self.next_num_out, fields);
        self.next_num_out += 1;
        self.socket.write_all(&bytes).map_err(|error| self.failed(&error))
    }

    /// Reads until this text arrives, or until the time limit.
    fn hear(&mut self, wanted: &str) -> Result<(), String> {
        let wanted = wanted.replace('|', "\x01");
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let n = self.socket.read(&mut buffer).map_err(|error| self.failed(&error))?;
            heard.extend_from_slice(&buffer[..n]);
            if heard.windows(wanted.len()).any(|part| part == wanted.as_bytes()) {
                return Ok(());
            }
            if n == 0 {
                let said = String::from_utf8_lossy(&heard).replace('\x01', "|");
                return Err(self.failed(&format!("closed; it said: {said}")));
            }
        }
    }

    /// Sends a TestRequest(1). Returns the time until its Heartbeat(0).
    pub(super) fn ask(&mut self) -> Result<Duration, String> {
        let id = format!("112=ask{}|", self.next_num_out);
        let begin = Instant::now();
        self.send("1", &id)?;
        self.hear(&id)?;
        Ok(begin.elapsed())
    }

    /// Sends a Heartbeat(0), and reads everything that has arrived.
    pub(super) fn beat(&mut self) -> Result<(), String> {
        self.send("0", "")?;
        self.socket.set_nonblocking(true).map_err(|error| self.failed(&error))?;
        let mut buffer = [0; 4096];
        let read = loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => break Err(self.failed(&"closed")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(self.failed(&error)),
            }
        };
        self.socket.set_nonblocking(false).map_err(|error| self.failed(&error))?;
        read
    }

    /// Waits for the venue's Logout(5), and answers it with a Logout(5).
    pub(super) fn answer_logout(&mut self) -> Result<(), String> {
        self.hear("35=5|")?;
        self.send("5", "")
    }
}

/// Returns a message of a client to the venue; `fields` uses `|` as delimiter.
fn message(msg_type: &str, name: &str, seq: u64, fields: &str) -> Vec<u8> {
    let body = format!("35={msg_type}|49={name}|56=VENUE|34={seq}|52=20260101-00:00:00|{fields}");
    let text = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\x01");
    let sum = text.bytes().map(u32::from).sum::<u32>() % 256;
    format!("{text}10={sum:03}\x01").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length_and_sum() {
        let bytes = message("0", "C1", 2, "");
        let text = String::from_utf8(bytes).unwrap().replace('\x01', "|");
        let body = "35=0|49=C1|56=VENUE|34=2|52=20260101-00:00:00|";
        assert_eq!(text, format!("8=FIX.4.4|9=46|{body}10=236|"));
    }
}
