//! Reads the file stores of the QuickFIX family, whose files for bodies, headers, numbers and
//! session have five formats.
//!
//! Invariant: the reader guesses nothing. Missing or contradictory data are reported as
//! differences, and the user decides.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use transfix_codec::shown::Shown;
use transfix_codec::{FieldIndex, Garbled, Message, SOH, Timestamp, TzTimestamp, tag};
use transfix_session::MSG_SEQ_NUM_MAX;

use crate::Dialect;

/// The messages and numbers of a session in a file store.
#[derive(Debug, Default)]
pub struct StoredSession {
    /// The bytes of the file `.body`.
    pub body: Vec<u8>,
    /// The range of each valid message in `body`, by MsgSeqNum(34).
    pub messages: BTreeMap<u64, Range<usize>>,
    /// The MsgSeqNum(34) of the next message to send, if the files contain it.
    pub next_out: Option<u64>,
    /// The MsgSeqNum(34) of the next expected message, if the files contain it.
    pub next_in: Option<u64>,
    /// The time of the last reset of the numbers, if the files contain it.
    pub created: Option<Timestamp>,
    /// Contradictions between the files.
    pub differences: Vec<String>,
}

/// Returns the sessions whose files are in a directory, by the common name of the files without
/// extensions.
///
/// # Errors
/// If the directory cannot be read.
pub fn sessions(dir: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "body")
            && let Some(name) = path.file_stem()
        {
            found.push(name.to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the files of a session.
///
/// # Errors
/// If the file `.body` or `.header` cannot be read.
pub fn read(dialect: Dialect, dir: &Path, session: &str) -> io::Result<StoredSession> {
    let file = |ending: &str| dir.join(format!("{session}.{ending}"));
    let mut foreign = StoredSession { body: fs::read(file("body"))?, ..StoredSession::default() };
    let header = fs::read(file("header"))?;
    let entries = match dialect {
        Dialect::Java => foreign.binary_header(&header),
        Dialect::Cpp => foreign.text_header(&header, b' '),
        Dialect::Net | Dialect::Go => foreign.text_header(&header, b'\n'),
    };
    foreign.take(&entries);
    foreign.numbers(dialect, &file);
    foreign.read_created(dialect, &file("session"));
    foreign.compare();
    Ok(foreign)
}

/// MsgSeqNum(34), offset and length of a message.
type Line = (u64, u64, u64);

impl StoredSession {
    /// Reads a header in text form, which has numbers such as `1,0,26` and a terminator for each
    /// message. An entry without a terminator is incomplete.
    fn text_header(&mut self, header: &[u8], terminator: u8) -> Vec<Line> {
        let mut lines = Vec::new();
        let text = String::from_utf8_lossy(header);
        let mut entries = text.split_inclusive(char::from(terminator));
        for (n, entry) in entries.by_ref().enumerate() {
            let whole = entry.strip_suffix(char::from(terminator));
            let Some(line) = whole.and_then(|entry| line(entry.trim_end_matches('\r'))) else {
                let entry = begin_of(entry);
                self.differences.push(format!("header: entry {} is incomplete: '{entry}'", n + 1));
                break;
            };
            lines.push(line);
        }
        lines
    }

    /// Reads a binary header of 16 bytes for each message, big-endian: number (4), offset (8),
    /// length (4).
    fn binary_header(&mut self, header: &[u8]) -> Vec<Line> {
        let (entries, rest) = header.as_chunks::<16>();
        if !rest.is_empty() {
            self.differences
                .push(format!("header: the last entry is incomplete ({} bytes)", rest.len()));
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let line = |e: &[u8; 16]| (number(&e[..4]), number(&e[4..12]), number(&e[12..]));
        entries.iter().map(line).collect()
    }

    /// Keeps the messages that agree with the header. If a number occurs several times, its last
    /// message is kept.
    fn take(&mut self, lines: &[Line]) {
        let mut index = FieldIndex::default();
        let mut end_max = 0;
        for &(seq, offset, length) in lines {
            let range = usize::try_from(offset).ok().zip(usize::try_from(length).ok());
            let range = range.and_then(|(at, length)| Some(at..at.checked_add(length)?));
            let Some((range, bytes)) = range.and_then(|r| Some((r.clone(), self.body.get(r)?)))
            else {
                self.differences.push(format!(
                    "message {seq}: the body file ends before this \
                    message"
                ));
                continue;
            };
            // An overlap is an error, because each byte of the body belongs to one message.
            if range.start < end_max {
                self.differences.push(format!(
                    "message {seq}: the message overlaps the previous \
                    one"
                ));
                continue;
            }
            end_max = range.end;
            if !(1..=MSG_SEQ_NUM_MAX).contains(&seq) {
                self.differences.push(format!("message {seq}: no MsgSeqNum(34)"));
                continue;
            }
            // `Message::parse` requires the frame to end with the delimiter.
            let ends = if bytes.last() == Some(&SOH) { Ok(()) } else { Err(Garbled::BodyLength) };
            let message = ends.and_then(|()| Message::parse(bytes, &mut index, Default::default()));
            let wrong = match message {
                Ok(message) => {
                    let held = message.raw(tag::MSG_SEQ_NUM).unwrap_or_default();
                    (held != seq.to_string().as_bytes()).then(|| {
                        format!(
                            "at this position the body file has MsgSeqNum(34) '{}'",
                            held.escape_ascii()
                        )
                    })
                }
                Err(reason) => Some(reason.to_string()),
            };
            match wrong {
                None => drop(self.messages.insert(seq, range)),
                Some(wrong) => self.differences.push(format!("message {seq}: {wrong}")),
            }
        }
        let unknown = self.body.len() - end_max;
        if unknown > 0 {
            self.differences.push(format!(
                "{unknown} bytes of the body file are missing from the \
                header file"
            ));
        }
    }

    fn numbers(&mut self, dialect: Dialect, file: &impl Fn(&str) -> PathBuf) {
        let both = file("seqnums");
        let two_files = match dialect {
            Dialect::Go => true,
            // The cached store of QuickFIX/J has both numbers in one file.
            Dialect::Java => !both.exists(),
            Dialect::Cpp | Dialect::Net => false,
        };
        if two_files {
            self.next_out = self.number(dialect, &file("senderseqnums"));
            self.next_in = self.number(dialect, &file("targetseqnums"));
            return;
        }
        let numbers = contents(&both).and_then(|bytes| {
            let text = String::from_utf8_lossy(text_of(dialect, &bytes).unwrap_or_default());
            let numbers = text.split_once(':').and_then(|(out, next_in)| {
                let [out, next_in] = [out.trim(), next_in.trim()];
                // Numbers with leading zeros have the same length, unless the file was truncated.
                let is_cut = out.starts_with('0') && out.len() != next_in.len();
                sequence(out).zip(sequence(next_in)).filter(|_| !is_cut)
            });
            numbers.ok_or_else(|| format!("'{}' does not consist of two numbers", begin_of(&text)))
        });
        match numbers {
            Ok((next_out, next_in)) => {
                (self.next_out, self.next_in) = (Some(next_out), Some(next_in));
            }
            Err(error) => self.differences.push(format!("{}: {error}", shown(&both))),
        }
    }

    /// Reads the time of the last reset. The file may be missing, but a time that cannot be parsed
    /// is a difference.
    fn read_created(&mut self, dialect: Dialect, path: &Path) {
        if !path.exists() {
            return;
        }
        let created = contents(path).and_then(|bytes| {
            let text = text_of(dialect, &bytes).map(String::from_utf8_lossy).unwrap_or_default();
            creation(&text).ok_or_else(|| format!("'{}' is not a time", begin_of(&text)))
        });
        match created {
            Ok(created) => self.created = Some(created),
            Err(error) => self.differences.push(format!("{}: {error}", shown(path))),
        }
    }

    fn number(&mut self, dialect: Dialect, path: &Path) -> Option<u64> {
        let number = contents(path).and_then(|bytes| {
            let text = String::from_utf8_lossy(text_of(dialect, &bytes).unwrap_or_default());
            let is_cut = text.starts_with('0') && text.trim().len() != DIGITS_GO;
            let number = sequence(&text).filter(|_| !is_cut);
            number.ok_or_else(|| format!("'{}' is not a number", begin_of(&text)))
        });
        match number {
            Ok(number) => Some(number),
            Err(error) => {
                self.differences.push(format!("{}: {error}", shown(path)));
                None
            }
        }
    }

    /// Compares the numbers with the last message.
    fn compare(&mut self) {
        let last = self.messages.last_key_value().map_or(0, |(&seq, _)| seq);
        if let Some(next_out) = self.next_out
            && next_out != last + 1
        {
            let text = format!(
                "next_out is {next_out}, but the last message sent has number \
                                {last}"
            );
            self.differences.push(text);
        }
        let missing: u64 = self.messages.keys().zip(self.messages.keys().skip(1)).fold(
            self.messages.first_key_value().map_or(0, |(&first, _)| first - 1),
            |missing, (&seq, &next)| missing + (next - seq - 1),
        );
        if missing > 0 {
            self.differences.push(format!(
                "{missing} messages with numbers below {last} are \
                missing"
            ));
        }
    }
}

/// Returns the beginning of a file's text, escaped to one line.
fn begin_of(text: &str) -> String {
    let begin: String = text.chars().take(40).collect();
    Shown::whole(begin.as_bytes()).to_string()
}

/// Returns a path, escaped to one line, because its name may contain anything.
fn shown(path: &Path) -> String {
    Shown::whole(path.to_string_lossy().as_bytes()).to_string()
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => Err("empty".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

fn line(entry: &str) -> Option<Line> {
    let mut numbers = entry.split(',').map(parsed);
    let line = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(line)
}

/// The number of digits of a sequence number in QuickFIX/Go, which pads it with zeros.
const DIGITS_GO: usize = 19;

/// Parses the text of a next MsgSeqNum(34).
fn sequence(text: &str) -> Option<u64> {
    parsed(text).filter(|number| (1..=MSG_SEQ_NUM_MAX).contains(number))
}

fn parsed(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the text of a small file. In Java, the text follows its length as two big-endian bytes.
fn text_of(dialect: Dialect, bytes: &[u8]) -> Option<&[u8]> {
    if dialect != Dialect::Java {
        return Some(bytes);
    }
    let (length, text) = bytes.split_first_chunk::<2>()?;
    text.get(..u16::from_be_bytes(*length).into())
}

/// Parses a time such as `20261121-09:28:25`, which may have a fraction and an offset, or a time in
/// RFC 3339 form.
fn creation(text: &str) -> Option<Timestamp> {
    let mut text: String = text.split_whitespace().collect();
    if let Some((day, time)) = text.split_once('T') {
        text = format!("{}-{time}", day.replace('-', ""));
    }
    let utc = Timestamp::parse(text.as_bytes());
    utc.or_else(|| TzTimestamp::parse(text.as_bytes())?.utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creation_times_of_all_forms() {
        let table = [
            ("20261121-09:28:25", "20261121-09:28:25.000000000"),
            ("20261121-09:28:25.623", "20261121-09:28:25.623000000"),
            ("20261121-09:28:25.623118 Z", "20261121-09:28:25.623118000"),
            ("20261121-09:28:25.623118 ", "20261121-09:28:25.623118000"),
            ("2026-11-21T09:30:02.891435172Z", "20261121-09:30:02.891435172"),
            ("2026-11-21T10:30:02.891435172+01:00", "20261121-09:30:02.891435172"),
        ];
        for (text, expected) in table {
            assert_eq!(creation(text).map(|t| t.to_string()).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(creation("20261121-09:28"), None);
        assert_eq!(creation(""), None);
    }

    #[test]
    fn no_byte_of_the_body_is_read_for_two_messages() {
        let mut foreign = StoredSession { body: vec![b'x'; 1 << 20], ..StoredSession::default() };
        let all = foreign.body.len() as u64;
        // All 50,000 entries claim the same body, whose reading takes about a millisecond.
        let lines: Vec<_> = (1..=50_000).map(|seq| (seq, 0, all)).collect();
        foreign.take(&lines);
        assert_eq!(foreign.differences.len(), lines.len());
        let read = |text: &&String| !text.ends_with("the message overlaps the previous one");
        assert_eq!(foreign.differences.iter().filter(read).count(), 1, "one was read");
    }

    #[test]
    fn a_cut_header_is_a_difference() {
        let table = [
            ("1,0,26 2,26,26 ", 2, false),
            ("1,0,26 2,26,26", 1, true),
            ("1,0,26 2,26", 1, true),
            ("1,0,26 x ", 1, true),
            ("", 0, false),
        ];
        for (text, lines, differs) in table {
            let mut foreign = StoredSession::default();
            assert_eq!(foreign.text_header(text.as_bytes(), b' ').len(), lines, "{text}");
            assert_eq!(!foreign.differences.is_empty(), differs, "{text}");
        }
        let mut foreign = StoredSession::default();
        let entry = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 26, 0, 0, 1, 0, 9];
        assert_eq!(foreign.binary_header(&entry), [(2, 26, 256)]);
        assert_eq!(foreign.differences.len(), 1);
    }
}
