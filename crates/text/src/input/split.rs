//! Detects messages in captures and logs, with any delimiter between the fields.
//!
//! Invariants: each step except [`Step::More`] consumes bytes. Text around messages is skipped,
//! such as the time at the beginning of a log line. A step never asks for more than
//! [`MESSAGE_BYTES_MAX`] bytes.

use std::fmt;
use std::sync::LazyLock;

use memchr::{memchr, memmem};
use transfix_codec::{Garbled, Limits, SOH, frame, frame::Frame, shown};

use super::within::restore;

/// The maximum length of a recognized message, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;

const START: &[u8] = b"8=FIX";
/// The maximum length of a BeginString(8) value, in bytes.
const BEGIN_STRING_MAX: usize = 16;

/// The delimiter between the fields of a message in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// SOH, the byte 1, as on the wire.
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

/// The result of one step, which examines the start of the unread bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The bytes do not suffice for a decision. Read more bytes and repeat the step.
    More,
    /// The first `bytes` bytes contain no message. `wrong` is set if they are the remains of a
    /// damaged message.
    Skip { bytes: usize, wrong: Option<InputError> },
    /// The first `bytes` bytes are a message. [`Splitter::message`] contains the message with SOH
    /// as the delimiter.
    ///
    /// If BodyLength(9) or CheckSum(10) is wrong, `wrong` contains the error.
    Message { bytes: usize, wrong: Option<InputError> },
    /// The first `bytes` bytes are a message according to BodyLength(9), with the byte `by` in
    /// place of SOH.
    ///
    /// Call [`Splitter::take`] to store the message in [`Splitter::message`].
    Frame { bytes: usize, by: u8 },
}

/// An error of a message in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputError {
    /// BodyLength(9), CheckSum(10) or another framing field is wrong.
    Garbled(Garbled),
    /// The input ends within the message.
    Cut,
    /// The CheckSum(10) shows that some values contain the delimiter, but not which delimiters
    /// belong to values.
    Delimiter {
        /// The delimiter.
        by: u8,
        /// The number of delimiters that belong to values.
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

/// The state of the input after the given bytes: more bytes may follow, or the input has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Unknown,
    Nothing,
}

/// Splits a stream of bytes into messages.
pub(super) struct Splitter {
    /// The delimiter that the user has given. `None` means that the delimiter of each message is
    /// detected.
    delimiter: Option<Delimiter>,
    /// The last message found, with SOH as the delimiter.
    pub(super) message: Vec<u8>,
    /// True if the last skipped bytes were reported as a garbled message.
    in_junk: bool,
    /// The remaining budget for searches of messages with wrong lengths, in bytes.
    ///
    /// Each processed byte adds to the budget. Nested wrong lengths therefore cost only a few
    /// searches per byte.
    looks: usize,
}

/// The average number of times that each byte may be searched because of damage.
const LOOKS: usize = 4;

impl Splitter {
    pub(super) fn new(delimiter: Option<Delimiter>) -> Self {
        Self { delimiter, message: Vec::new(), in_junk: false, looks: LOOKS * MESSAGE_BYTES_MAX }
    }

    /// Examines the start of `bytes`. `rest` states if more bytes may follow.
    pub(super) fn step(&mut self, bytes: &[u8], rest: Rest) -> Step {
        let before = self.looks;
        let step = self.look(bytes, rest);
        self.looks = match step {
            // The step is repeated when more bytes are available, so the budget is restored.
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

    /// Copies the frame to [`Splitter::message`], and replaces the delimiter `by` with SOH.
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

    /// Skips the bytes before the next message. Skipped bytes that are not text count as the
    /// remains of a damaged message.
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
        // The fold has no branch per byte, so that the compiler can vectorize the loop.
        let is_junk = bytes[..end].iter().fold(false, |is_junk, b| is_junk | is_other(b));
        let wrong = (is_junk && !self.in_junk).then_some(InputError::Garbled(Garbled::BeginString));
        self.in_junk |= is_junk;
        Step::Skip { bytes: end, wrong }
    }

    /// Returns the delimiter of the message, which is the one after BeginString(8).
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

    /// Examines a message whose delimiter is SOH.
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

    /// Restores a message that a protocol log has escaped to fit into one line. Returns the length
    /// of the line.
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

    /// Examines a message with a readable delimiter. The message is one line, or several lines if a
    /// value contains line breaks.
    fn text(&mut self, bytes: &[u8], delimiter: Delimiter, rest: Rest) -> Step {
        self.message.clear();
        let limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX };
        let mut at = 0;
        let needed = needed(bytes, delimiter);
        loop {
            // Bytes beyond the message's declared length never belong to the message.
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
                // The bytes end with `^`, which may be the first half of the delimiter `^A`.
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
            // Some logs omit the delimiter after the last field.
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

    /// Recovers a message with a wrong BodyLength(9). The message ends with the first CheckSum(10)
    /// before the next message.
    ///
    /// A message counts as truncated only if no further bytes follow.
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

/// Returns the end of the field `10=ddd`, including the delimiter if one follows.
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

/// Returns the offset of the next `8=FIX` at or after `from`.
fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    static STARTS: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(START));
    Some(from + STARTS.find(bytes.get(from..)?)?)
}

/// Appends `text` to `message`, and replaces each delimiter with SOH.
fn convert(text: &[u8], delimiter: Delimiter, message: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = find(rest, delimiter.text()) {
        message.extend_from_slice(&rest[..at]);
        message.push(SOH);
        rest = &rest[at + delimiter.text().len()..];
    }
    message.extend_from_slice(rest);
}

/// Returns the number of bytes in `text` that give `length` bytes after the delimiters are replaced
/// with SOH.
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

/// Returns the length of the message at the start of `bytes`, in which the byte `by` stands for
/// SOH.
///
/// Returns `None` if no CheckSum(10) follows at the distance that BodyLength(9) states.
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

/// Returns the maximum number of bytes that a message with this start can occupy in the input.
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

/// The maximum length of BeginString(8) and BodyLength(9) together, in bytes.
const HEAD_MAX: usize = 64;
/// The maximum number of digits in the BodyLength(9) of a recognized message.
const LENGTH_DIGITS_MAX: usize = 8;
/// The length of `10=ddd` with its delimiter, in bytes.
const TRAILER: usize = 7;

fn find(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    memmem::find(bytes, sought)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE: &[u8] = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";

    /// Splits `stream` in chunks of every size. Returns the messages and the errors, which must not
    /// depend on the size.
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

    /// Returns the number of steps up to the end of the bytes, and the number of messages found.
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
