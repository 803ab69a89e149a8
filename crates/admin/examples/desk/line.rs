//! A counterparty on a plain socket: loses messages, sends them again, and sends messages that the
//! venue must reject.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use jiff::Timestamp;
use transfix::clock;

use crate::counterparties::order;

/// Runs the counterparty until the venue closes the connection.
pub(crate) fn run(address: &str) -> io::Result<()> {
    let socket = TcpStream::connect(address)?;
    let mut line = Line { input: BufReader::new(socket.try_clone()?), output: socket };
    line.send("A", 1, "98=0|108=300|141=Y|")?;
    line.until("35=A")?;
    line.send("D", 2, &order("line2-1", "the first"))?;
    // The sequence number jumps over messages 3 to 5, and the venue requests them by a
    // ResendRequest(2).
    line.send("D", 6, &order("line6-1", "too early"))?;
    line.until("35=2")?;
    for seq in 3..=5 {
        let body = format!("43=Y|122={}|{}", now(), order(&format!("line{seq}-1"), "again"));
        line.send("D", seq, &body)?;
    }
    line.send("D", 6, &format!("43=Y|122={}|{}", now(), order("line6-1", "too early")))?;
    // The venue rejects both messages: the value of Side(54) is invalid, and News(B) is not
    // supported.
    line.send("D", 7, &order("line7-1", "a bad side").replace("|54=1|", "|54=bad|"))?;
    line.send("B", 8, "148=unwanted news|33=1|58=<b>bold</b>|")?;
    let mut seq = 9;
    while let Some(message) = line.next()? {
        if message.contains("\x0135=1\x01") {
            let id = message.split('\x01').find_map(|field| field.strip_prefix("112="));
            line.send("0", seq, &format!("112={}|", id.unwrap_or_default()))?;
            seq += 1;
        }
    }
    Ok(())
}

/// Returns the current time in the format of SendingTime(52).
fn now() -> String {
    let now = Timestamp::from_nanosecond(clock::now().utc.0.into()).unwrap_or(Timestamp::MAX);
    now.strftime("%Y%m%d-%H:%M:%S%.3f").to_string()
}

struct Line {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

impl Line {
    /// Sends a message in which `body` follows SendingTime(52); it may begin with header fields
    /// such as PossDupFlag(43).
    fn send(&mut self, msg_type: &str, seq: u64, body: &str) -> io::Result<()> {
        let head = format!("35={msg_type}|34={seq}|49=LINE|56=VENUE|52={}|", now());
        let body = (head + body).replace('|', "\x01");
        let mut frame = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
        let sum = frame.bytes().fold(0_u8, u8::wrapping_add);
        let _ = write!(frame, "10={sum:03}\x01");
        self.output.write_all(frame.as_bytes())
    }

    /// Returns the next message of the venue, or `None` after the venue has closed the connection.
    fn next(&mut self) -> io::Result<Option<String>> {
        let mut message = Vec::new();
        loop {
            let start = message.len();
            if self.input.read_until(1, &mut message)? == 0 {
                return Ok(None);
            }
            if message[start..].starts_with(b"10=") {
                return Ok(Some(String::from_utf8_lossy(&message).into_owned()));
            }
        }
    }

    fn until(&mut self, field: &str) -> io::Result<()> {
        while let Some(message) = self.next()? {
            if message.contains(&format!("\x01{field}\x01")) {
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("no {field} came")))
    }
}
