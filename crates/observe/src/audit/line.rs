//! Writes and checks lines of the audit file.
//!
//! A line is a JSON object. Its last two values are `prev`, the hash of the previous line, and
//! `hash`, the SHA-256 of the line's text before `,"hash":`. To change, remove or insert a line,
//! all following lines must therefore be changed too.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{self, BufRead, Read};

use sha2::{Digest, Sha256};
use transfix_codec::Timestamp;
use transfix_codec::shown::write_json;

/// The value of `prev` in the first line.
pub(crate) const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Limit on the length of a line, in bytes; the check rejects longer lines.
const LINE_MAX: u64 = 1 << 20;
/// The maximum length of a text in a line, in bytes; longer texts are shortened.
const TEXT_MAX: usize = 16 << 10;

const PREV: &str = ",\"prev\":\"";
const HASH: &str = ",\"hash\":\"";
/// The length in bytes of `prev` with its value, and below, of `hash` with its value and the end of
/// the line.
const PREV_LENGTH: usize = PREV.len() + NO_HASH.len() + 1;
const HASH_LENGTH: usize = HASH.len() + NO_HASH.len() + 2;

/// The values of a line, in order; empty texts are omitted.
pub struct AuditLine<'a> {
    /// The time of the record.
    pub at: Timestamp,
    /// Names and texts, such as `who` and `what`.
    pub texts: &'a [(&'static str, &'a str)],
    /// For the line with an action's result: the number of the line with its request.
    pub of: Option<u64>,
}

impl AuditLine<'_> {
    /// Returns the text of the line with its line break, and its hash.
    pub(crate) fn written(&self, n: u64, prev: &str) -> (String, String) {
        let mut line = format!("{{\"n\":{n},\"at\":\"{}\"", moment(self.at));
        if let Some(of) = self.of {
            let _ = write!(line, ",\"of\":{of}");
        }
        for (name, text) in self.texts.iter().filter(|(_, text)| !text.is_empty()) {
            let _ = write!(line, ",\"{name}\":");
            let _ = write_json(cut(text), &mut line);
        }
        let _ = write!(line, "{PREV}{prev}\"");
        let hash = hash_of(line.as_bytes());
        let _ = writeln!(line, "{HASH}{hash}\"}}");
        (line, hash)
    }
}

/// Shortens a text that exceeds the limit.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_MAX)).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// Returns a time in ISO 8601 format, with nanoseconds, in UTC.
fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(at.0)) {
        Ok(at) => format!("{at:.9}"),
        // A real clock never shows a time that cannot be formatted.
        Err(_) => at.0.to_string(),
    }
}

pub(crate) fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The values of a line by which the chain is checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chained<'l> {
    pub(crate) n: u64,
    /// The number of the line with the request, if this line is the result of an action.
    pub(crate) of: Option<u64>,
    /// True if a second line with the result must follow.
    pub(crate) is_asked: bool,
    pub(crate) prev: &'l str,
    pub(crate) hash: &'l str,
}

/// Parses a line without its end, and checks its hash.
pub(crate) fn chained(line: &[u8]) -> Result<Chained<'_>, &'static str> {
    let no_line = "the line is no record of an audit file";
    let text = str::from_utf8(line).map_err(|_| no_line)?;
    let split = |text: &'_ str, at: usize| text.is_char_boundary(at).then_some(at);
    let at = text.len().checked_sub(HASH_LENGTH).and_then(|at| split(text, at)).ok_or(no_line)?;
    let (head, tail) = text.split_at(at);
    let hash = tail.strip_prefix(HASH).and_then(|t| t.strip_suffix("\"}")).ok_or(no_line)?;
    let at = head.len().checked_sub(PREV_LENGTH).and_then(|at| split(head, at)).ok_or(no_line)?;
    let (said, tail) = head.split_at(at);
    let prev = tail.strip_prefix(PREV).and_then(|t| t.strip_suffix('"')).ok_or(no_line)?;
    if hash_of(head.as_bytes()) != hash {
        return Err("the record does not match its hash: the record was changed or is damaged");
    }
    let rest = said.strip_prefix("{\"n\":").ok_or(no_line)?;
    let (n, rest) = rest.split_once(',').ok_or(no_line)?;
    let n = n.parse().map_err(|_| no_line)?;
    let of = rest.split(',').nth(1).and_then(|of| of.strip_prefix("\"of\":"));
    let of = of.map(str::parse).transpose().map_err(|_| no_line)?;
    Ok(Chained { n, of, is_asked: said.contains(",\"step\":\"asked\""), prev, hash })
}

/// The result of checking a valid audit file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Number of lines in the file.
    pub lines: u64,
    /// The hash of the last line. If you keep a copy elsewhere, it shows later whether lines were
    /// removed from the end.
    pub last_hash: String,
    /// The numbers of lines that request an action for which no result was recorded. The program
    /// ended during the action, or the action is still running.
    pub unfinished: Vec<u64>,
    /// Number of bytes after the last whole line.
    pub torn_bytes: u64,
}

/// The reason why an audit file is not valid.
#[non_exhaustive]
pub enum AuditError {
    /// The file cannot be read.
    Io(io::Error),
    /// A line was changed, removed, inserted or moved.
    Line {
        /// Position of the line in the file, counted from 1.
        line: u64,
        /// The text of the error in the line.
        why: &'static str,
    },
    /// No line has this hash, so lines were removed from the end.
    Cut(String),
}

impl std::fmt::Display for AuditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Line { line, why } => write!(f, "line {line}: {why}"),
            Self::Cut(hash) => write!(
                f,
                "no record has the hash {hash}: records were cut off at \
                the end of the file"
            ),
        }
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl std::fmt::Debug for AuditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AuditError {}

/// Checks an audit file (`audit_file` of `[engine]`) from its first line to its last.
///
/// Each line contains the hash of the previous line, so the check detects lines that were changed,
/// removed, inserted or moved. To detect lines removed from the end, pass a hash as `kept` that was
/// kept elsewhere, such as that of the event `operated`; some line must have it.
///
/// # Errors
/// [`AuditError`] at the first invalid line, or if no line has the hash `kept`.
pub fn verify(mut file: impl BufRead, kept: Option<&str>) -> Result<Verified, AuditError> {
    let (mut lines, mut last_hash, mut torn_bytes) = (0, NO_HASH.to_owned(), 0);
    let mut unfinished = BTreeSet::new();
    let (mut line, mut lost) = (Vec::new(), kept);
    loop {
        line.clear();
        let read = (&mut file).take(LINE_MAX).read_until(b'\n', &mut line);
        if read.map_err(AuditError::Io)? == 0 {
            break;
        }
        let Some(whole) = line.strip_suffix(b"\n") else {
            let wrong = |why| AuditError::Line { line: lines + 1, why };
            if line.len() as u64 == LINE_MAX {
                return Err(wrong("the line is longer than any record of an audit file"));
            }
            torn_bytes = line.len() as u64;
            break;
        };
        lines += 1;
        let wrong = |why| AuditError::Line { line: lines, why };
        let chained = chained(whole).map_err(wrong)?;
        if chained.prev != last_hash {
            return Err(wrong(
                "the record does not follow the previous record: records were \
                              removed or inserted",
            ));
        }
        if chained.n != lines {
            return Err(wrong("the number of the record is not its position in the file"));
        }
        if let Some(of) = chained.of {
            unfinished.remove(&of);
        } else if chained.is_asked {
            unfinished.insert(chained.n);
        }
        chained.hash.clone_into(&mut last_hash);
        lost = lost.filter(|kept| !kept.eq_ignore_ascii_case(&last_hash));
    }
    if let Some(hash) = lost {
        return Err(AuditError::Cut(hash.to_owned()));
    }
    let unfinished = unfinished.into_iter().collect();
    Ok(Verified { lines, last_hash, unfinished, torn_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: u64) -> Vec<String> {
        let mut prev = NO_HASH.to_owned();
        let mut all = Vec::new();
        for n in 1..=lines {
            let step = if n % 2 == 1 { "asked" } else { "done" };
            let texts = [("who", "anna \"b\"\n"), ("what", "log_out text=ü"), ("step", step)];
            let of = (n % 2 == 0).then(|| n - 1);
            let at = Timestamp(1_764_000_000_000_000_007);
            let (line, hash) = AuditLine { at, texts: &texts, of }.written(n, &prev);
            prev = hash;
            all.push(line);
        }
        all
    }

    fn verified(lines: &[String]) -> Result<Verified, String> {
        verify(lines.concat().as_bytes(), None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sound_file_is_sound() {
        let lines = file(5);
        assert!(lines[0].starts_with("{\"n\":1,\"at\":\"2025-11-24T16:00:00.000000007Z\","));
        for line in &lines {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        let found = verified(&lines).unwrap();
        assert_eq!((found.lines, &found.unfinished[..]), (5, &[5][..]));
        assert!(lines[4].contains(&found.last_hash));
        assert_eq!(verified(&[]).unwrap().last_hash, NO_HASH);
    }

    #[test]
    fn every_changed_byte_is_found() {
        let sound = file(4).concat().into_bytes();
        for at in 0..sound.len() {
            for other in [sound[at] ^ 1, b'\n', 0xff] {
                let mut changed = sound.clone();
                changed[at] = other;
                if changed == sound {
                    continue;
                }
                let found = verify(&changed[..], None);
                // A last line without a line break is reported as incomplete.
                let is_torn = matches!(&found, Ok(v) if v.lines == 3 && v.torn_bytes > 0);
                assert!(found.is_err() || is_torn, "byte {at} as {other}");
            }
        }
    }

    #[test]
    fn lines_that_are_left_out_moved_or_cut_are_found() {
        let lines = file(6);
        for n in 0..5 {
            let mut fewer = lines.clone();
            fewer.remove(n);
            let error = verified(&fewer).unwrap_err();
            assert!(
                error.starts_with(&format!("line {}: the record does not follow", n + 1)),
                "{error}"
            );
            let mut moved = lines.clone();
            moved.swap(n, n + 1);
            verified(&moved).unwrap_err();
        }
        let hash = verified(&lines).unwrap().last_hash;
        let cut = |n: usize| verify(lines[..n].concat().as_bytes(), Some(&hash));
        assert!(matches!(cut(5), Err(AuditError::Cut(_))), "shown by the hash alone");
        cut(6).unwrap();
    }

    #[test]
    fn text_of_an_operator_cannot_pass_for_a_line() {
        let text = format!("x\"{PREV}{NO_HASH}\"{HASH}{NO_HASH}\"}}\n{{\"n\":2");
        let texts = [("what", &*text), ("step", "asked")];
        let (line, _) = AuditLine { at: Timestamp(1), texts: &texts, of: None }.written(1, NO_HASH);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(verified(&[line]).unwrap().lines, 1);
    }
}
