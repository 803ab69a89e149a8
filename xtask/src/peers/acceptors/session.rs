//! The client side of a session over a plain socket, which writes and reads whole messages.
//!
//! **Invariant:** a message is returned only if its BodyLength(9), CheckSum(10), CompIDs and
//! MsgSeqNum(34) are correct.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::Outcome;
use super::super::message::Message;

/// Time limit for the arrival of a message.
const PATIENCE: Duration = Duration::from_secs(20);

/// A FIX 4.2 session with the acceptor, whose CompID is `VENUE`.
pub(super) struct Session {
    socket: TcpStream,
    name: String,
    next_num_out: u64,
    next_num_in: u64,
    /// Received bytes that have not been parsed yet.
    input: Vec<u8>,
}

impl Session {
    /// Connects and exchanges Logon(A) messages. The HeartBtInt(108) differs from the default of
    /// every engine.
    pub(super) fn log_on(address: &str, name: &str) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let socket = TcpStream::connect(address).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let name = name.to_owned();
        let mut session = Self { socket, name, next_num_out: 1, next_num_in: 1, input: Vec::new() };
        session.send(&[("A", "98=0|108=47|".to_owned())])?;
        let answer = session.receive()?;
        if !answer.is(35, "A") || !answer.is(108, "47") {
            return Err(format!("the Logon(A) was answered by {answer}"));
        }
        Ok(session)
    }

    /// Returns the MsgSeqNum(34) of the message that was sent last.
    pub(super) fn last_num_out(&self) -> u64 {
        self.next_num_out - 1
    }

    /// Sends messages in a single write. Each message is given by its MsgType(35) and its body.
    pub(super) fn send(&mut self, messages: &[(&str, String)]) -> Outcome<()> {
        let mut bytes = Vec::new();
        for (msg_type, body) in messages {
            bytes.extend(frame(msg_type, &self.name, self.next_num_out, &now(), body));
            self.next_num_out += 1;
        }
        self.socket.write_all(&bytes).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Returns the next message, or an error if the message is invalid.
    pub(super) fn receive(&mut self) -> Outcome<Message> {
        let message = self.receive_numbered(self.next_num_in)?;
        self.next_num_in += 1;
        Ok(message)
    }

    /// Returns the next message, whose MsgSeqNum(34) must be `seq`.
    pub(super) fn receive_numbered(&mut self, seq: u64) -> Outcome<Message> {
        let mut buffer = [0; 4096];
        let text = loop {
            if let Some(length) = length(&self.input)?.filter(|length| *length <= self.input.len())
            {
                let rest = self.input.split_off(length);
                break String::from_utf8_lossy(&std::mem::replace(&mut self.input, rest))
                    .replace('\x01', "|");
            }
            match self.socket.read(&mut buffer) {
                Ok(0) => return Err(format!("{}: the acceptor has closed it", self.name)),
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(error) => return Err(format!("{}: nothing has come: {error}", self.name)),
            }
        };
        let message = Message::parse(&text).ok_or_else(|| format!("not a message: {text}"))?;
        let sum = text.trim_end_matches(|c| c != '=').len() - "10=".len();
        let wanted = check_sum(text[..sum].replace('|', "\x01").as_bytes());
        for (tag, value) in
            [(8, "FIX.4.2"), (49, "VENUE"), (56, &self.name), (34, &seq.to_string()), (10, &wanted)]
        {
            if !message.is(tag, value) {
                return Err(format!("{tag} is not {value} in {text}"));
            }
        }
        Ok(message)
    }
}

/// Returns a message to `VENUE`. The body is given with `|` as delimiter.
fn frame(msg_type: &str, name: &str, seq: u64, time: &str, body: &str) -> Vec<u8> {
    let rest = format!("35={msg_type}|49={name}|56=VENUE|34={seq}|52={time}|{body}");
    let text = format!("8=FIX.4.2|9={}|{rest}", rest.len()).replace('|', "\x01");
    format!("{text}10={}\x01", check_sum(text.as_bytes())).into_bytes()
}

fn check_sum(bytes: &[u8]) -> String {
    format!("{:03}", bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>() % 256)
}

/// Returns the length of the message at the beginning; `None` if BodyLength(9) has not arrived
/// completely.
fn length(bytes: &[u8]) -> Outcome<Option<usize>> {
    let mut fields = bytes.splitn(3, |byte| *byte == 1);
    let (Some(begin), Some(body), Some(_)) = (fields.next(), fields.next(), fields.next()) else {
        return Ok(None);
    };
    let digits = body.strip_prefix(b"9=").and_then(|digits| std::str::from_utf8(digits).ok());
    let length: usize = digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| format!("no BodyLength(9) in {:?}", String::from_utf8_lossy(bytes)))?;
    Ok(Some(begin.len() + body.len() + 2 + length + "10=000|".len()))
}

/// Returns the current time in the format of SendingTime(52), with milliseconds.
#[expect(clippy::disallowed_methods, reason = "another engine compares it with its own clock")]
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp(since.as_millis() as u64)
}

fn timestamp(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    // Years start in March, so that the leap day is the last day of a year. The addition shifts the
    // origin to the start of a 400-year cycle of 146,097 days, 719,468 days before 1970.
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + next;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, ms) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}{month:02}{date:02}-{hour:02}:{minute:02}:{second:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_and_sum() {
        let bytes = frame("0", "C1", 2, "20260101-00:00:00", "");
        let text = String::from_utf8(bytes.clone()).unwrap().replace('\x01', "|");
        let body = "35=0|49=C1|56=VENUE|34=2|52=20260101-00:00:00|";
        assert_eq!(text, format!("8=FIX.4.2|9=46|{body}10=234|"));
        assert_eq!(length(&bytes), Ok(Some(bytes.len())));
        assert_eq!(length(&bytes[..14]), Ok(None));
        assert!(length(b"8=FIX.4.2\x0135=A\x01").is_err());
    }

    #[test]
    fn timestamps_of_known_days() {
        for (ms, text) in [
            (0, "19700101-00:00:00.000"),
            (951_782_400_000, "20000229-00:00:00.000"),
            (1_735_689_599_999, "20241231-23:59:59.999"),
            (1_795_460_843_007, "20261123-19:07:23.007"),
        ] {
            assert_eq!(timestamp(ms), text);
        }
    }
}
