//! The connection of an attacker, over plain TCP or TLS.
//!
//! TLS connections use `openssl s_client`, so that the peer is independent of our TLS code.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Outcome;

/// The time limit for an answer of the server.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);
/// A connection.
pub(super) struct Line {
    writer: Option<Box<dyn Write + Send>>,
    socket: Option<TcpStream>,
    child: Option<Child>,
    pieces: Receiver<Vec<u8>>,
    /// True if the attacker no longer reads from the connection.
    is_deaf: Arc<AtomicBool>,
    /// The received bytes that no step has examined yet.
    heard: Vec<u8>,
    is_closed: bool,
    /// The SenderCompID(49) of the attacker's messages.
    pub(super) name: String,
    pub(super) next_num_out: u64,
}

impl Line {
    pub(super) fn plain(address: &str, name: &str) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("{address}: {error}");
        Self::over(TcpStream::connect(address).map_err(failed)?, name)
    }

    /// Creates an attacker's connection from a connected socket.
    pub(super) fn over(socket: TcpStream, name: &str) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("{name}: {error}");
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(None).map_err(failed)?;
        socket.set_write_timeout(Some(Duration::from_secs(3))).map_err(failed)?;
        let (reader, writer) =
            (socket.try_clone().map_err(failed)?, socket.try_clone().map_err(failed)?);
        Ok(Self::of(name, reader, Box::new(writer), Some(socket), None))
    }

    pub(super) fn tls(address: &str, name: &str) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("openssl s_client: {error}");
        let mut child = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or("openssl s_client has no pipes")?;
        Ok(Self::of(name, stdout, Box::new(stdin), None, Some(child)))
    }

    fn of(
        name: &str,
        mut reader: impl Read + Send + 'static,
        writer: Box<dyn Write + Send>,
        socket: Option<TcpStream>,
        child: Option<Child>,
    ) -> Self {
        let (sender, pieces) = channel();
        let is_deaf = Arc::<AtomicBool>::default();
        let of_reader = Arc::clone(&is_deaf);
        // The reading thread ends when the connection ends.
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
                while of_reader.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        Self {
            writer: Some(writer),
            socket,
            child,
            pieces,
            is_deaf,
            heard: Vec::new(),
            is_closed: false,
            name: name.to_owned(),
            next_num_out: 1,
        }
    }

    /// Sends arbitrary bytes. Returns false if writing fails, for example because the connection is
    /// closed.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        writer.write_all(bytes).and_then(|()| writer.flush()).is_ok()
    }

    /// Stops reading from the connection. Bytes that have already arrived may still be read.
    pub(super) fn turn_deaf(&self) {
        self.is_deaf.store(true, Ordering::Relaxed);
    }

    /// Shuts down the sending direction of the connection.
    pub(super) fn end(&mut self) {
        self.writer = None;
        if let Some(socket) = &self.socket {
            // The result is ignored, because the connection may be closed already.
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    /// Sends a message with the next sequence number. Header fields in `fields` replace the default
    /// fields.
    pub(super) fn say(&mut self, msg_type: &str, fields: &str) -> bool {
        let bytes = self.message(msg_type, fields);
        self.raw(&bytes)
    }

    /// Returns the bytes of the message that [`Line::say`] would send.
    pub(super) fn message(&mut self, msg_type: &str, fields: &str) -> Vec<u8> {
        let has = |tag: &str| fields.split('|').any(|field| field.starts_with(tag));
        let mut header = format!("35={msg_type}|");
        for (tag, value) in [
            ("49=", self.name.clone()),
            ("56=", "VENUE".to_owned()),
            ("34=", self.next_num_out.to_string()),
            ("52=", utc()),
        ] {
            if !has(tag) {
                header += &format!("{tag}{value}|");
            }
        }
        if !has("34=") {
            self.next_num_out += 1;
        }
        framed("FIX.4.4", &(header + fields))
    }

    /// Sends a Logon(A) with these additional fields, and waits for the answer.
    pub(super) fn log_on(&mut self, fields: &str) -> Outcome<()> {
        self.say("A", &format!("98=0|108=30|{fields}"));
        self.hears("35=A|").map(drop)
    }

    /// Reads until the text `wanted` arrives. Returns all text read so far.
    pub(super) fn hears(&mut self, wanted: &str) -> Outcome<String> {
        let until = Instant::now() + PATIENCE;
        let wanted_bytes = wanted.replace('|', "\x01").into_bytes();
        loop {
            let found = self.heard.windows(wanted_bytes.len()).any(|part| part == wanted_bytes);
            if found && is_whole(&self.heard) {
                return Ok(shown(&std::mem::take(&mut self.heard)));
            }
            if !self.take(until.saturating_duration_since(Instant::now())) {
                let how = if self.is_closed { "it has closed" } else { "nothing more comes" };
                let said = shown(&self.heard);
                return Err(format!("{wanted} has not come: {how}; it said: {}", tail(&said)));
            }
        }
    }

    /// Waits until the server closes the connection. Returns the text received before the end.
    pub(super) fn is_shut(&mut self) -> Outcome<String> {
        let until = Instant::now() + PATIENCE;
        while self.take(until.saturating_duration_since(Instant::now())) {}
        match self.is_closed {
            true => Ok(shown(&std::mem::take(&mut self.heard))),
            false => Err(format!("it has not closed; it said: {}", tail(&shown(&self.heard)))),
        }
    }

    /// Waits until the server closes the connection. Returns an error if the server sends anything
    /// before.
    pub(super) fn is_shut_silently(&mut self) -> Outcome<()> {
        match &*self.is_shut()? {
            "" => Ok(()),
            said => Err(format!("it should have closed without a word; it said: {}", tail(said))),
        }
    }

    /// Checks that the session is still alive: it must answer a TestRequest(1).
    pub(super) fn lives(&mut self) -> Outcome<()> {
        let id = format!("112=alive{}|", self.next_num_out);
        self.say("1", &id);
        self.hears(&format!("|{id}")).map(drop)
    }

    /// Waits for received bytes, for `wait` at most. Returns false if none arrived.
    fn take(&mut self, wait: Duration) -> bool {
        match self.pieces.recv_timeout(wait) {
            Ok(piece) => self.heard.extend_from_slice(&piece),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => {
                self.is_closed = true;
                return false;
            }
        }
        true
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.is_deaf.store(false, Ordering::Relaxed);
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a complete message. `body` is the text between BodyLength(9) and CheckSum(10).
pub(super) fn framed(begin_string: &str, body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    with_sum(format!("8={begin_string}\x019={}\x01{body}", body.len()).into_bytes())
}

/// Appends the CheckSum(10) of the bytes, and returns them.
pub(super) fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>() % 256;
    bytes.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    bytes
}

/// Returns the current time in the format of SendingTime(52).
pub(super) fn utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // The calculation is Howard Hinnant's algorithm, which converts days to a civil date.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = year + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{h:02}:{m:02}:{s:02}.{:03}", since.subsec_millis())
}

/// Returns true if the received bytes end with a whole message.
fn is_whole(heard: &[u8]) -> bool {
    heard
        .strip_suffix(b"\x01")
        .is_some_and(|rest| rest.len() > 7 && rest[rest.len() - 7..].starts_with(b"\x0110="))
}

fn shown(bytes: &[u8]) -> String {
    // The result begins with a delimiter, so that a search for `|tag=` also finds the first field.
    let text = String::from_utf8_lossy(bytes).replace('\x01', "|");
    if text.is_empty() { text } else { format!("|{text}") }
}

/// Returns the last part of a text that may be long, for error messages.
fn tail(text: &str) -> String {
    let start = text.len().saturating_sub(300);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(start);
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length_and_sum() {
        let text = String::from_utf8(framed("FIX.4.4", "35=0|34=1|")).unwrap();
        assert_eq!(text.replace('\x01', "|"), "8=FIX.4.4|9=10|35=0|34=1|10=165|");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let now = utc();
        assert_eq!((now.len(), &now[..2]), (21, "20"));
    }
}
