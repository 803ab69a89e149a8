//! Detection of messages in captures and logs, with any delimiter.
//!
//! Invariants: each step except [`Step::More`] makes progress. Text around messages is skipped,
//! such as the time at the beginning of a log line. A step asks for at most [`MESSAGE_BYTES_MAX`].

use std::fmt;
use std::sync::LazyLock;

use memchr::{memchr, memmem};
use transfix_codec::{Garbled, Limits, SOH, frame, frame::Frame, shown};

use super::within::restore;

/// Maximum length of a recognized message, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;

const START: &[u8] = b"8=FIX";
/// Maximum length of BeginString(8), in bytes.
const BEGIN_STRING_MAX: usize = 16;

/// The delimiter between the fields of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// The byte 1, as on the wire.
    Soh,
    /// The character `|`.
    Pipe,
    /// The character `;`.
    Semicolon,
    /// The two characters `^A`.
    Caret,
}

impl Delimiter {
    /// Returns the bytes of the delimiter.
    #[must_use]
    pub const fn text(self) -> &'static [u8] {
        match self {
            Self::Soh => &[SOH],
            Self::Pipe => b"|",
            Self::Semicolon => b";",
            Self::Caret => b"^A",
        }
    }
}

/// The finding at the start of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Undecided. Read more bytes and call again.
    More,
    /// No message in the first `bytes`; `wrong` is set for the remains of a message.
    Skip { bytes: usize, wrong: Option<InputError> },
    /// The first `bytes` are a message, stored in [`Splitter::message`] as on the wire.
    ///
    /// `wrong` is set if BodyLength(9) or CheckSum(10) is wrong.
    Message { bytes: usize, wrong: Option<InputError> },
    /// The first `bytes` are a message by its BodyLength(9), with `by` in place of SOH.
    ///
    /// [`Splitter::take`] stores the message in [`Splitter::message`].
    Frame { bytes: usize, by: u8 },
}

/// The error of a message of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputError {
    /// BodyLength(9), CheckSum(10) or another framing field is wrong.
    Garbled(Garbled),
    /// The input ends within the message.
    Cut,
    /// CheckSum(10) shows that `count` delimiters belong to values, but not which delimiters.
    Delimiter {
        /// The delimiter.
        by: u8,
        /// Number of delimiters that belong to values.
        count: usize,
    },
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbled(garbled) => garbled.fmt(f),
            Self::Cut => f.write_str("the input ends within the message"),
            Self::Delimiter { by, count } => write!(
                f,
                "CheckSum(10) is right only if {count} of the '{}' belong to values, and nothing \
                 shows which; write the message with another delimiter",
                by.escape_ascii()
            ),
        }
    }
}

/// The knowledge about further bytes: unknown, or nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Unknown,
    Nothing,
}

/// Splits a stream of bytes into messages.
pub(super) struct Splitter {
    /// The delimiter given by the user; otherwise each message's own delimiter is detected.
    delimiter: Option<Delimiter>,
    /// The last message found.
    pub(super) message: Vec<u8>,
    /// True if the last skipped bytes were counted as garbled.
    in_junk: bool,
    /// Number of bytes that may be searched for messages with wrong lengths.
    ///
    /// Each processed byte adds to this budget. Nested wrong lengths therefore cost only a few
    /// searches per byte.
    looks: usize,
}

/// Average number of searches per byte that damage may cost.
const LOOKS: usize = 4;

impl Splitter {
    pub(super) fn new(delimiter: Option<Delimiter>) -> Self {
        Self { delimiter, message: Vec::new(), in_junk: false, looks: LOOKS * MESSAGE_BYTES_MAX }
    }

    /// Classifies the start of `bytes`.
    pub(super) fn step(&mut self, bytes: &[u8], rest: Rest) -> Step {
        let before = self.looks;
        let step = self.look(bytes, rest);
        self.looks = match step {
            // Reading more bytes restarts the step, so the budget is restored.
            Step::More => before,
            Step::Skip { bytes, .. } | Step::Message { bytes, .. } | Step::Frame { bytes, .. } => {
                (self.looks + LOOKS * bytes).min(LOOKS * MESSAGE_BYTES_MAX)
            }
        };
        step
    }

    fn look(&mut self, bytes: &[u8], rest: Rest) -> Step {
        let is_full = bytes.len() >= MESSAGE_BYTES_MAX;
        let rest = if is_full { Rest::Nothing } else { rest };
        if bytes.is_empty() {
            return Step::More;
        }
        if !bytes.starts_with(START) {
            return self.skip(bytes, rest);
        }
        self.in_junk = false;
        let Some(delimiter) = self.delimiter_of(bytes) else {
            if bytes.len() < 2 + BEGIN_STRING_MAX && rest == Rest::Unknown {
                return Step::More;
            }
            let bytes = next_start(bytes, 1).unwrap_or(START.len());
            return Step::Skip { bytes, wrong: Some(InputError::Garbled(Garbled::BeginString)) };
        };
        match *delimiter.text() {
            [SOH] => self.raw(bytes, rest),
            [by] if let Some(bytes) = framed(bytes, by) => Step::Frame { bytes, by },
            _ => self.text(bytes, delimiter, rest),
        }
    }

    /// Stores the frame in [`Splitter::message`] as on the wire.
    pub(super) fn take(&mut self, frame: &[u8], by: u8) -> Option<InputError> {
        self.message.clear();
        self.message.extend_from_slice(frame);
        let delimiter = match by {
            SOH => return None,
            b'|' => Delimiter::Pipe,
            _ => Delimiter::Semicolon,
        };
        self.message.iter_mut().filter(|byte| **byte == by).for_each(|byte| *byte = SOH);
        restore(&mut self.message, frame, delimiter)
    }

    /// Skips to the next message; bytes that are not text are the remains of a message.
    fn skip(&mut self, bytes: &[u8], rest: Rest) -> Step {
        let end = next_start(bytes, 0).unwrap_or_else(|| {
            let may_start = |n: &usize| bytes.ends_with(&START[..*n]);
            let kept = (1..START.len()).rev().find(may_start).unwrap_or(0);
            if rest == Rest::Nothing { bytes.len() } else { bytes.len() - kept }
        });
        if end == 0 {
            return Step::More;
        }
        let is_other = |b: &u8| *b < b' ' && !matches!(b, b'\t' | b'\r' | b'\n');
        // The loop has no branch per byte.
        let is_junk = bytes[..end].iter().fold(false, |is_junk, b| is_junk | is_other(b));
        let wrong = (is_junk && !self.in_junk).then_some(InputError::Garbled(Garbled::BeginString));
        self.in_junk |= is_junk;
        Step::Skip { bytes: end, wrong }
    }

    /// Returns the delimiter after BeginString(8).
    fn delimiter_of(&self, bytes: &[u8]) -> Option<Delimiter> {
        let value = &bytes[2..bytes.len().min(2 + BEGIN_STRING_MAX)];
        let delimiter = |at: usize| match value[at] {
            SOH => Some(Delimiter::Soh),
            b'|' => Some(Delimiter::Pipe),
            b';' => Some(Delimiter::Semicolon),
            b'^' if value.get(at + 1) == Some(&b'A') => Some(Delimiter::Caret),
            _ => None,
        };
        let mut found = (0..value.len()).filter_map(delimiter);
        found.find(|found| self.delimiter.is_none_or(|only| only == *found))
    }

    /// Classifies a message with SOH as delimiter.
    fn raw(&mut self, bytes: &[u8], rest: Rest) -> Step {
        match frame::split(bytes, Limits { message_bytes_max: MESSAGE_BYTES_MAX }) {
            Frame::Whole(bytes) => Step::Frame { bytes, by: SOH },
            Frame::Partial if rest == Rest::Unknown && memchr(b'\n', bytes).is_none() => Step::More,
            _ if let Some(end) = self.unescaped(bytes) => Step::Message { bytes: end, wrong: None },
            Frame::Partial if rest == Rest::Unknown => Step::More,
            Frame::Partial => self.salvage(bytes, Delimiter::Soh, rest, InputError::Cut),
            Frame::TooLong { .. } => {
                self.salvage(bytes, Delimiter::Soh, rest, InputError::Garbled(Garbled::TooLong))
            }
            Frame::Garbled { reason, .. } => {
                self.salvage(bytes, Delimiter::Soh, rest, InputError::Garbled(reason))
            }
        }
    }

    /// Restores a message that a protocol log has escaped to one line; returns the length of the
    /// line.
    fn unescaped(&mut self, bytes: &[u8]) -> Option<usize> {
        let near = &bytes[..bytes.len().min(self.looks)];
        let end = match memchr(b'\n', near) {
            Some(end) => end,
            None if near.len() == bytes.len() => bytes.len(),
            None => {
                self.looks -= near.len();
                return None;
            }
        };
        self.looks -= end;
        let message = shown::unescape_line(&bytes[..end])?;
        let limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX };
        if frame::split(&message, limits) != Frame::Whole(message.len()) {
            return None;
        }
        self.message = message;
        Some(end)
    }

    /// Classifies a message with a readable delimiter: one line, or more if a value contains line
    /// breaks.
    fn text(&mut self, bytes: &[u8], delimiter: Delimiter, rest: Rest) -> Step {
        self.message.clear();
        let limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX };
        let mut at = 0;
        let needed = needed(bytes, delimiter);
        loop {
            // A message never extends beyond its declared length.
            let within = bytes.len().min(needed.max(at));
            let is_short = within == bytes.len();
            let near = &bytes[at..within.min(at + self.looks)];
            let line_end = memchr(b'\n', near).map(|n| at + n);
            let end = line_end.unwrap_or(within);
            if end - at > self.looks {
                self.looks -= near.len();
                return self.salvage(
                    bytes,
                    delimiter,
                    rest,
                    InputError::Garbled(Garbled::BodyLength),
                );
            }
            self.looks -= end - at;
            let line = &bytes[at..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            convert(line, delimiter, &mut self.message);
            let is_open = line_end.is_none() && is_short && rest == Rest::Unknown;
            match frame::split(&self.message, limits) {
                Frame::Whole(length) => {
                    self.message.truncate(length);
                    let wrong = restore(&mut self.message, bytes, delimiter);
                    let bytes = source_length(bytes, delimiter, length);
                    return Step::Message { bytes, wrong };
                }
                // The first half of the delimiter `^A` is not yet a delimiter.
                Frame::Garbled { .. } if is_open && bytes.ends_with(b"^") => return Step::More,
                Frame::TooLong { .. } => {
                    return self.salvage(
                        bytes,
                        delimiter,
                        rest,
                        InputError::Garbled(Garbled::TooLong),
                    );
                }
                Frame::Garbled { reason, .. } => {
                    return self.salvage(bytes, delimiter, rest, InputError::Garbled(reason));
                }
                Frame::Partial if is_open => return Step::More,
                Frame::Partial => {}
            }
            // Some logs omit the last delimiter.
            self.message.push(SOH);
            if frame::split(&self.message, limits) == Frame::Whole(self.message.len()) {
                let wrong = restore(&mut self.message, bytes, delimiter);
                return Step::Message { bytes: end, wrong };
            }
            self.message.pop();
            let follows = line_end.map(|end| &bytes[end + 1..]).unwrap_or_default();
            if follows.is_empty() && rest == Rest::Unknown {
                return Step::More;
            }
            let next = follows.split(|&b| b == b'\n').next().unwrap_or_default();
            if follows.is_empty() || find(next, START).is_some() {
                return self.salvage(bytes, delimiter, rest, InputError::Cut);
            }
            self.message.extend_from_slice(&bytes[at + line.len()..=end]);
            at = end + 1;
        }
    }

    /// Recovers a message with a wrong length: up to its first CheckSum(10) before the next
    /// message.
    ///
    /// A message counts as cut only if nothing follows.
    fn salvage(&mut self, bytes: &[u8], by: Delimiter, rest: Rest, wrong: InputError) -> Step {
        let start = next_start(bytes, 1);
        let piece = &bytes[..start.unwrap_or(bytes.len())];
        let found = check_sum_end(piece, by);
        let is_cut = wrong == InputError::Cut && found.is_none() && start.is_none();
        let wrong = match wrong {
            InputError::Cut if !is_cut => InputError::Garbled(Garbled::BodyLength),
            other => other,
        };
        let may_go_on = start.is_none() && rest == Rest::Unknown;
        if let Some(end) = found
            && !(may_go_on && !piece[..end].ends_with(by.text()) && piece.len() - end < 2)
        {
            self.message.clear();
            convert(&piece[..end], by, &mut self.message);
            if self.message.last() != Some(&SOH) {
                self.message.push(SOH);
            }
            return Step::Message { bytes: end, wrong: Some(wrong) };
        }
        if may_go_on {
            return Step::More;
        }
        Step::Skip { bytes: piece.len(), wrong: Some(wrong) }
    }
}

/// Returns the end of the closing field `10=ddd`, including its delimiter if present.
fn check_sum_end(piece: &[u8], delimiter: Delimiter) -> Option<usize> {
    let by = delimiter.text();
    let mut from = 0;
    while let Some(at) = find(&piece[from..], by) {
        let field = from + at + by.len();
        from = field;
        let digits = piece.get(field..field + 6)?;
        if digits.starts_with(b"10=") && digits[3..].iter().all(u8::is_ascii_digit) {
            let rest = &piece[field + 6..];
            return Some(field + 6 + if rest.starts_with(by) { by.len() } else { 0 });
        }
    }
    None
}

/// Returns the offset of the next `8=FIX` from `from` on.
fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    static STARTS: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(START));
    Some(from + STARTS.find(bytes.get(from..)?)?)
}

/// Appends `text` with its delimiters replaced by SOH.
fn convert(text: &[u8], delimiter: Delimiter, message: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = find(rest, delimiter.text()) {
        message.extend_from_slice(&rest[..at]);
        message.push(SOH);
        rest = &rest[at + delimiter.text().len()..];
    }
    message.extend_from_slice(rest);
}

/// Returns how many bytes of `text` correspond to `length` converted bytes.
fn source_length(text: &[u8], delimiter: Delimiter, length: usize) -> usize {
    if delimiter.text().len() == 1 {
        return length;
    }
    let mut at = 0;
    for _ in 0..length {
        at += if text[at..].starts_with(delimiter.text()) { delimiter.text().len() } else { 1 };
    }
    at
}

/// Returns the length of the message at the start of `bytes`, with `by` in place of SOH.
///
/// `None` if BodyLength(9) does not lead to a CheckSum(10).
fn framed(bytes: &[u8], by: u8) -> Option<usize> {
    let first = 2 + memchr(by, bytes.get(2..2 + BEGIN_STRING_MAX)?)?;
    let length = bytes[first + 1..].strip_prefix(b"9=")?;
    let digits = length.iter().take(LENGTH_DIGITS_MAX + 1).take_while(|b| b.is_ascii_digit());
    let digits = digits.count();
    if !(1..=LENGTH_DIGITS_MAX).contains(&digits) || length.get(digits) != Some(&by) {
        return None;
    }
    let body = length[..digits].iter().fold(0, |number, b| number * 10 + usize::from(b - b'0'));
    let trailer = first + 1 + 2 + digits + 1 + body;
    let field = bytes.get(trailer..trailer + TRAILER)?;
    let is_trailer = body > 0
        && bytes[trailer - 1] == by
        && field.starts_with(b"10=")
        && field[3..6].iter().all(u8::is_ascii_digit)
        && field[6] == by;
    is_trailer.then_some(trailer + TRAILER)
}

/// Returns the maximum length of a message that begins here, with readable delimiters.
fn needed(bytes: &[u8], delimiter: Delimiter) -> usize {
    let by = delimiter.text();
    let head = &bytes[..bytes.len().min(HEAD_MAX)];
    let length = || {
        let at = find(head, by)? + by.len();
        let digits = head.get(at..)?.strip_prefix(b"9=")?;
        let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        std::str::from_utf8(&digits[..count]).ok()?.parse::<usize>().ok()
    };
    let body = length().unwrap_or(0).min(MESSAGE_BYTES_MAX);
    HEAD_MAX + by.len() * (body + TRAILER)
}

/// Maximum length of BeginString(8) and BodyLength(9) together, in bytes.
const HEAD_MAX: usize = 64;
/// Maximum number of digits of BodyLength(9) of a recognized message.
const LENGTH_DIGITS_MAX: usize = 8;
/// Length of `10=ddd` and its delimiter, in bytes.
const TRAILER: usize = 7;

fn find(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    memmem::find(bytes, sought)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";

    /// Splits `stream`, fed in chunks of every size; returns the messages and the errors.
    fn split(stream: &[u8], delimiter: Option<Delimiter>) -> (Vec<Vec<u8>>, Vec<InputError>) {
        let whole = split_by(stream, delimiter, stream.len().max(1));
        for chunk in 1..stream.len() {
            assert_eq!(split_by(stream, delimiter, chunk), whole, "chunks of {chunk}");
        }
        whole
    }

    fn split_by(
        stream: &[u8],
        delimiter: Option<Delimiter>,
        chunk: usize,
    ) -> (Vec<Vec<u8>>, Vec<InputError>) {
        let mut splitter = Splitter::new(delimiter);
        let (mut found, mut garbled) = (Vec::new(), Vec::new());
        let (mut begin, mut end) = (0, 0);
        loop {
            let rest = if end == stream.len() { Rest::Nothing } else { Rest::Unknown };
            match splitter.step(&stream[begin..end], rest) {
                Step::More if rest == Rest::Nothing => break,
                Step::More => end = (end + chunk).min(stream.len()),
                Step::Skip { bytes, wrong } => {
                    assert!(bytes > 0);
                    garbled.extend(wrong);
                    begin += bytes;
                }
                Step::Message { bytes, wrong } => {
                    garbled.extend(wrong);
                    found.push(splitter.message.clone());
                    begin += bytes;
                }
                Step::Frame { bytes, by } => {
                    garbled.extend(splitter.take(&stream[begin..begin + bytes], by));
                    found.push(splitter.message.clone());
                    begin += bytes;
                }
            }
        }
        (found, garbled)
    }

    fn check(stream: &[u8], messages: usize, garbled: &[InputError]) {
        let (found, reasons) = split(stream, None);
        let shown = stream.escape_ascii();
        assert_eq!(found, vec![WIRE.to_vec(); messages], "{shown}");
        assert_eq!(reasons, garbled, "{shown}");
    }

    #[test]
    fn streams_and_logs() {
        let log = b"20261121-09:28:25.623118000 : 8=FIX.4.4\x019=5\x0135=0\x0110=163\x01\n";
        check(WIRE, 1, &[]);
        check(&WIRE.repeat(3), 3, &[]);
        check(&log.repeat(2), 2, &[]);
        check(b"8=FIX.4.4|9=5|35=0|10=163|\r\n# a line\n8=FIX.4.4|9=5|35=0|10=163|", 2, &[]);
        check(b"8=FIX.4.4;9=5;35=0;10=163;\n8=FIX.4.4;9=5;35=0;10=163", 2, &[]);
        check(b"in: 8=FIX.4.4^A9=5^A35=0^A10=163^A out\n", 1, &[]);
        check(b"8=FIX.4.4|9=5|35=0|10=163\n8=FIX.4.4|9=5|35=0|10=163\r\n", 2, &[]);
        check(b"8=FIX.4.4|9=5|35=0|10=163", 1, &[]);
        check(b"no message here\n", 0, &[]);
        check(b"", 0, &[]);
    }

    #[test]
    fn damage() {
        let [short, junk] = [Garbled::BodyLength, Garbled::BeginString].map(InputError::Garbled);
        check(&[b"\x00\x01\x02", WIRE, b"\x02"].concat(), 1, &[junk, junk]);
        check(&[&WIRE[..20], WIRE].concat(), 1, &[short]);
        check(&[WIRE, &WIRE[..20]].concat(), 1, &[InputError::Cut]);
        check(b"8=FIX.4.4|9=5|35=0|10=163|\n8=FIX.4.4|9=5|35=0\n", 1, &[InputError::Cut]);
        check(b"8=FIX.4.4|9=5|35=0\n8=FIX.4.4|9=5|35=0|10=163|\n", 1, &[short]);
        check(b"58=FIXED 8=FIXXXXXXXXXXXXXXXXXXXXX", 0, &[junk, junk]);
    }

    #[test]
    fn a_wrong_length_is_noted() {
        let (found, garbled) = split(b"8=FIX.4.4|9=9|35=0|10=163|\n", None);
        assert_eq!(found, [b"8=FIX.4.4\x019=9\x0135=0\x0110=163\x01"]);
        assert_eq!(garbled, [InputError::Garbled(Garbled::BodyLength)]);
    }

    #[test]
    fn values_hold_line_breaks_and_bars() {
        let text = b"8=FIX.4.4|9=14|35=B|58=a\r\n|b|10=000|\n";
        let (found, garbled) = split(text, None);
        assert_eq!(found, [b"8=FIX.4.4\x019=14\x0135=B\x0158=a\r\n\x01b\x0110=000\x01"]);
        assert_eq!(garbled, []);
        let wire = b"8=FIX.4.4\x019=11\x0135=B\x0158=a|b\x0110=000\x01";
        assert_eq!(split(wire, None).0, [wire]);
        assert_eq!(split(wire, Some(Delimiter::Pipe)).0, [b""; 0]);
    }

    /// Returns the number of steps to the end of the bytes, and the number of messages found.
    fn steps(bytes: &[u8]) -> (usize, usize) {
        let mut splitter = Splitter::new(None);
        let (mut begin, mut steps, mut found) = (0, 0, 0);
        loop {
            steps += 1;
            match splitter.step(&bytes[begin..], Rest::Nothing) {
                Step::More => return (steps, found),
                Step::Skip { bytes, .. } => begin += bytes,
                Step::Message { bytes, .. } | Step::Frame { bytes, .. } => {
                    begin += bytes;
                    found += 1;
                }
            }
        }
    }

    #[test]
    fn lies_within_lies_hide_no_message() {
        for by in ["\x01", "|", ";", "^A"] {
            for length in ["9", "99999", "9999999", "99999999"] {
                let lie = format!("8=FIX.4.4{by}9={length}{by}");
                let sound = String::from_utf8(WIRE.to_vec()).unwrap().replace('\x01', by);
                let bytes = lie.repeat(10_000) + "\n" + &sound;
                assert_eq!(steps(bytes.as_bytes()).1, 1, "{by:?} {length}");
            }
        }
    }

    #[test]
    fn a_long_message_comes_in_pieces() {
        for by in ["\x01", "|", "^A"] {
            let text = "x".repeat(10 << 20);
            let body = format!("35=B{by}58={text}{by}");
            let wire = body.replace(by, "\x01").len();
            let message = format!("8=FIX.4.4{by}9={wire}{by}{body}10=000{by}");
            let mut splitter = Splitter::new(None);
            let chunks = (1..).map(|n| (n * (512 << 10)).min(message.len()));
            let step = chunks.map(|end| splitter.step(&message.as_bytes()[..end], Rest::Unknown));
            let found = step.into_iter().find(|step| *step != Step::More);
            let found = match found {
                Some(Step::Frame { bytes, .. }) => Some((bytes, None)),
                Some(Step::Message { bytes, wrong }) => Some((bytes, wrong)),
                _ => None,
            };
            assert_eq!(found, Some((message.len(), None)), "{by:?}");
        }
    }
}
