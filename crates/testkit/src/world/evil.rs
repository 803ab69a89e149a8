//! Frames of a hostile counterparty. Most frames are well-formed and have the expected sequence
//! number, but contain values that no honest counterparty sends.

use transfix::simulated::rig::Seen;
use transfix::{BeginString, Now, SessionSettings};
use transfix_codec::FrameWriter;

use super::app::PASSWORD;
use crate::random::Random;

/// Numeric field values at and beyond the limits of counters.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "30",
    "999999",
    "1000000",
    "4294967295",
    "4294967296",
    "999999999999999",
    "1000000000000000",
    "1000000000000001",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "+1",
    "007",
    "",
    "x",
];
const FLAGS: &[&str] = &["Y", "N", "", "y", "YY"];

/// The generator of the hostile counterparty's frames.
pub(super) struct Mallory {
    random: Random,
    begin_string: BeginString,
    comp_ids: String,
}

impl Mallory {
    pub(super) fn new(random: Random, settings: &SessionSettings) -> Self {
        let (ours, theirs) = (&settings.sender_comp_id, &settings.target_comp_id);
        let comp_ids = format!("49={ours}\x0156={theirs}\x01");
        Self { random, begin_string: settings.begin_string, comp_ids }
    }

    fn pick<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.random.below(all.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.random.below(n) == 0
    }

    /// Returns a Logon(A) that is usually valid.
    pub(super) fn logon(&mut self, now: Now, seen: &Seen) -> Vec<u8> {
        let mut body = self.logon_body();
        if self.begin_string == BeginString::Fixt11 {
            let version = if self.one_in(8) { self.pick(NUMBERS) } else { "9" };
            body.push_str(&format!("1137={version}\x01"));
        }
        self.message(now, seen, "A", &body)
    }

    fn logon_body(&mut self) -> String {
        let interval = if self.one_in(4) { self.pick(NUMBERS) } else { "30" };
        let encryption = if self.one_in(20) { "1" } else { "0" };
        let mut body = format!("98={encryption}\x01108={interval}\x01554={PASSWORD}\x01");
        if self.one_in(3) {
            body.push_str(&format!("141={}\x01", self.pick(FLAGS)));
        }
        body
    }

    /// Returns a Heartbeat(0), which triggers no answer.
    pub(super) fn heartbeat(&mut self, now: Now, seen: &Seen) -> Vec<u8> {
        self.sealed(now, &seen.next_num_in.to_string(), "0", "")
    }

    /// Returns a message to inject between honest messages. The session must not accept the
    /// message.
    pub(super) fn forge(&mut self, now: Now, next_num_in: u64) -> Vec<u8> {
        let low = 1 + self.random.below(next_num_in.saturating_sub(1).max(1) as usize) as u64;
        let low = low.min(next_num_in - 1).max(1);
        let time = self.pick(&["20261121-11:59:00", "20991231-23:59:59", "tomorrow", ""]);
        let mut out = Vec::new();
        let (begin_string, msg_type, fields) = match self.random.below(8) {
            0 => (self.begin_string.as_str(), "D", "11=0\x01".to_owned()),
            1 => ("FIX.9.9", "0", format!("34={next_num_in}\x01")),
            2 if next_num_in > 1 => (self.begin_string.as_str(), "D", format!("34={low}\x01")),
            3 => (self.begin_string.as_str(), "5", format!("34={}\x01", next_num_in + 1_000)),
            4 => (self.begin_string.as_str(), "A", format!("34={next_num_in}\x0198=0\x01")),
            _ if next_num_in == 1 => return Vec::new(),
            _ => {
                let kind = self.pick(&["0", "1", "2", "3", "4", "5", "A", "D", "j", "ZZ", "n"]);
                let evil = self.pick(NUMBERS);
                let body = match kind {
                    "4" => format!("123=Y\x0136={low}\x01"),
                    "2" => format!("7={evil}\x0116={evil}\x01"),
                    _ => format!("112={evil}\x0145={evil}\x01108={evil}\x01"),
                };
                let fields = format!("34={low}\x0143=Y\x01122={time}\x01{body}");
                (self.begin_string.as_str(), kind, fields)
            }
        };
        let mut frame = FrameWriter::new(&mut out, begin_string.as_bytes(), msg_type.as_bytes());
        frame.raw(if self.one_in(20) {
            b"49=MALLORY\x0156=VENUE\x01"
        } else {
            self.comp_ids.as_bytes()
        });
        frame.header_timestamp(transfix::tag::SENDING_TIME, now.utc, self.begin_string.precision());
        frame.raw(fields.as_bytes());
        // The writer refuses some fields, and the frame is sent without correction, as in
        // `message`.
        drop(frame.finish());
        out
    }

    /// Returns a random hostile message.
    pub(super) fn craft(&mut self, now: Now, seen: &Seen) -> Vec<u8> {
        match self.random.below(12) {
            0 => self.message(now, seen, "0", ""),
            1 => {
                let long = "y".repeat(self.random.below(5_000));
                let id = [long.as_str(), "T", ""][self.random.below(3)];
                let body = if self.one_in(5) { String::new() } else { format!("112={id}\x01") };
                self.message(now, seen, "1", &body)
            }
            2 | 3 => {
                let (begin, end) = match self.random.below(3) {
                    0 => ("1", "0"),
                    1 => ("1", self.pick(NUMBERS)),
                    _ => (self.pick(NUMBERS), self.pick(NUMBERS)),
                };
                self.message(now, seen, "2", &format!("7={begin}\x0116={end}\x01"))
            }
            4 => self.message(now, seen, "3", "45=1\x0158=no\x01"),
            5 | 6 => {
                let near = (seen.next_num_in + self.random.below(4) as u64).to_string();
                let next = if self.one_in(2) { near.as_str() } else { self.pick(NUMBERS) };
                let mut body = format!("36={next}\x01");
                if !self.one_in(3) {
                    body.insert_str(0, &format!("123={}\x01", self.pick(FLAGS)));
                }
                self.message(now, seen, "4", &body)
            }
            7 if self.one_in(3) => self.message(now, seen, "5", "58=bye\x01"),
            8 => self.logon(now, seen),
            9 => {
                let kind = self.pick(&["ZZ", "j", "AE", "n", "\u{7f}", "0 ", "00"]);
                self.message(now, seen, kind, "11=1\x01")
            }
            10 => {
                let body = self.pick(&[
                    "0=x\x01",
                    "-1=x\x01",
                    "99999999999=x\x01",
                    "11\x01",
                    "=\x01",
                    "11=\x01",
                    "95=100\x0196=x\x01",
                    "34=9\x0134=10\x01",
                    "43=Y\x01",
                    "122=x\x01",
                    "10=000\x01",
                    "8=FIX.4.2\x019=5\x0135=0\x01",
                ]);
                self.message(now, seen, "D", body)
            }
            _ => {
                let id = self.random.below(1_000_000);
                self.message(now, seen, "D", &format!("11={id}\x01"))
            }
        }
    }

    /// Returns a message of this type and body, with a header that is usually right.
    fn message(&mut self, now: Now, seen: &Seen, msg_type: &str, body: &str) -> Vec<u8> {
        let near = seen.next_num_in.saturating_add(self.random.below(5) as u64);
        let below = seen.next_num_in.saturating_sub(1 + self.random.below(5) as u64);
        let seq = match self.random.below(24) {
            0 => near.to_string(),
            1 => below.to_string(),
            2 => self.pick(NUMBERS).to_owned(),
            _ => seen.next_num_in.to_string(),
        };
        self.sealed(now, &seq, msg_type, body)
    }

    fn sealed(&mut self, now: Now, seq: &str, msg_type: &str, body: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let begin_string = match self.random.below(60) {
            0 => BeginString::ALL[self.random.below(BeginString::ALL.len())],
            _ => self.begin_string,
        };
        let mut frame =
            FrameWriter::new(&mut out, begin_string.as_str().as_bytes(), msg_type.as_bytes());
        match self.random.below(60) {
            0 => frame.raw(b"49=MALLORY\x0156=VENUE\x01"),
            1 => {}
            _ => frame.raw(self.comp_ids.as_bytes()),
        }
        if self.random.below(60) > 0 {
            frame.raw(format!("34={seq}\x01").as_bytes());
        }
        if self.one_in(8) {
            frame.raw(format!("43={}\x01", FLAGS[self.random.below(FLAGS.len())]).as_bytes());
        }
        let precision = self.begin_string.precision();
        match self.random.below(60) {
            0 => frame.raw(b"52=19700101-00:00:00\x01"),
            1 => frame.raw(b"52=tomorrow\x01"),
            2 => {}
            _ => frame.header_timestamp(transfix::tag::SENDING_TIME, now.utc, precision),
        }
        if self.one_in(8) {
            frame.raw(b"122=20200101-00:00:00\x01");
        }
        frame.raw(body.as_bytes());
        // The error is ignored: the writer refuses empty and misplaced values, and the frame is
        // sent nevertheless.
        drop(frame.finish());
        out
    }

    /// Damages the bytes so that they no longer form a valid message.
    pub(super) fn garble(&mut self, mut message: Vec<u8>) -> Vec<u8> {
        match self.random.below(4) {
            0 => (0..self.random.below(400)).map(|_| b'a' + self.random.below(20) as u8).collect(),
            1 => {
                message.truncate(self.random.below(message.len().max(1)));
                message
            }
            2 => {
                // The last digit of CheckSum(10) becomes wrong by one.
                if let Some(digit) = message.iter_mut().rev().nth(1) {
                    *digit = if *digit == b'9' { b'0' } else { *digit + 1 };
                }
                message
            }
            _ => {
                message.drain(..message.len().min(2));
                message
            }
        }
    }
}
