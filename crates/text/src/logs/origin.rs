//! Finds the time, direction and session of a message, from the log text, the file name and the
//! message's own fields.

use transfix_codec::{Date, SOH, TimeOfDay, Timestamp};

use super::quick::Quick;
use super::sources::{Direction, Source};

/// Finders for the fields and words that reveal the origin of a message.
#[derive(Debug)]
pub(super) struct Origins {
    sending_time: Quick,
    sender: Quick,
    target: Quick,
    begin_string: Quick,
}

/// The BeginString(8), SenderCompID(49) and TargetCompID(56) of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends<'m> {
    pub(super) begin_string: &'m [u8],
    pub(super) sender: &'m [u8],
    pub(super) target: &'m [u8],
}

impl Origins {
    pub(super) fn new() -> Self {
        let [sending_time, sender, target, begin_string] = [52, 49, 56, 8].map(Quick::field);
        Self { sending_time, sender, target, begin_string }
    }

    /// Returns the time in the log text, or SendingTime(52) if the log text has no time.
    pub(super) fn time(&self, bytes: &[u8], by: u8, head: &[u8]) -> Option<Timestamp> {
        logged_time(head).or_else(|| Timestamp::parse(self.sending_time.value(bytes, by)?))
    }

    pub(super) fn ends<'m>(&'m self, bytes: &'m [u8], by: u8) -> Ends<'m> {
        let value = |quick: &'m Quick| quick.value(bytes, by).unwrap_or(UNKNOWN);
        Ends {
            begin_string: value(&self.begin_string),
            sender: value(&self.sender),
            target: value(&self.target),
        }
    }

    /// Returns the direction that the log text or the source states.
    ///
    /// If neither states a direction, the file name decides: QuickFIX puts the log owner's CompID
    /// first.
    pub(super) fn way(
        &self,
        bytes: &[u8],
        by: u8,
        head: &[u8],
        source: &Source,
    ) -> Option<Direction> {
        logged_way(head).or(source.way).or_else(|| self.ends(bytes, by).way(&source.file_name))
    }
}

impl Ends<'_> {
    /// Returns the direction of the message in a log whose file name begins with the owner's
    /// CompID, followed by the counterparty's CompID.
    fn way(&self, file_name: &str) -> Option<Direction> {
        let rest = file_name.as_bytes().strip_prefix(self.begin_string)?.strip_prefix(b"-")?;
        let begins = |ours: &[u8], theirs: &[u8]| {
            let rest = rest.strip_prefix(ours)?;
            // The file name may contain SenderSubID(50) and SenderLocationID(142) between the
            // CompIDs.
            let at = memchr::memmem::find(rest, &[b"-", theirs].concat())?;
            (at == 0 || rest.starts_with(b"_")).then_some(at)
        };
        match (begins(self.sender, self.target), begins(self.target, self.sender)) {
            (Some(_), None) => Some(Direction::Out),
            (None, Some(_)) => Some(Direction::In),
            _ => None,
        }
    }

    /// Returns true if the message states both CompIDs.
    pub(super) fn are_known(&self) -> bool {
        self.sender != UNKNOWN && self.target != UNKNOWN
    }

    /// Returns the session as `FIX.4.4:VENUE->DESK`. The owner of the log comes first if the
    /// direction is known.
    pub(super) fn session(&self, way: Option<Direction>) -> String {
        let (ours, theirs) = match way {
            Some(Direction::In) => (self.target, self.sender),
            _ => (self.sender, self.target),
        };
        let [version, ours, theirs] = [self.begin_string, ours, theirs]
            .map(|text| transfix_codec::shown::Shown::whole(text).to_string());
        format!("{version}:{ours}->{theirs}")
    }

    /// Returns true if the message belongs to the session that `named` describes.
    ///
    /// `named` is one CompID, or both CompIDs in either order, separated by `-` or `->`. The FIX
    /// version may precede the CompIDs.
    pub(super) fn is_of(&self, named: &[u8]) -> bool {
        if named == self.sender || named == self.target {
            return true;
        }
        let rest = named.strip_prefix(self.begin_string);
        let rest =
            rest.and_then(|rest| rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b":")));
        [Some(named), rest].into_iter().flatten().any(|named| {
            [(self.sender, self.target), (self.target, self.sender)].into_iter().any(|(a, b)| {
                let rest = named.strip_prefix(a).and_then(|rest| rest.strip_prefix(b"-"));
                rest.is_some_and(|rest| rest.strip_prefix(b">").unwrap_or(rest) == b)
            })
        })
    }
}

/// Placeholder for a missing BeginString(8) or CompID.
const UNKNOWN: &[u8] = b"?";

/// Characters that may enclose words in the log text before a message.
const AROUND: &[u8] = b"<>()[],";

fn words(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = head.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.map(|mut word| {
        while let Some(rest) = word.first().filter(|b| AROUND.contains(b)).map(|_| &word[1..]) {
            word = rest;
        }
        while let Some((last, rest)) = word.split_last().filter(|(b, _)| AROUND.contains(b)) {
            debug_assert!(AROUND.contains(last), "it was looked for");
            word = rest;
        }
        word
    })
}

/// Returns the time in the log text before a message.
///
/// The accepted formats are `20261121-09:28:25.623` (most engines), `2026/11/21 09:28:25.623`
/// (QuickFIX/Go) and `2026-11-21 09:28:25,623` (general logging libraries).
pub(super) fn logged_time(head: &[u8]) -> Option<Timestamp> {
    let mut words = words(head).peekable();
    while let Some(word) = words.next() {
        if let Some(time) = Timestamp::parse(word.strip_suffix(b"Z").unwrap_or(word)) {
            return Some(time);
        }
        let Some(day) = day(word) else { continue };
        let time = word.get(10..).and_then(|rest| rest.strip_prefix(b"T"));
        let time = time.or_else(|| words.peek().copied())?;
        return Timestamp::from_parts(day, time_of_day(time)?);
    }
    None
}

/// Parses `2026-11-21` or `2026/11/21` at the beginning of a word.
fn day(word: &[u8]) -> Option<Date> {
    let [y1, y2, y3, y4, first, m1, m2, second, d1, d2] = *word.first_chunk::<10>()?;
    let is_day = matches!((first, second), (b'-', b'-') | (b'/', b'/'));
    is_day.then(|| Date::parse(&[y1, y2, y3, y4, m1, m2, d1, d2])).flatten()
}

/// Parses `09:28:25`, with an optional fraction after `.` or `,`, and an optional `Z`.
fn time_of_day(word: &[u8]) -> Option<TimeOfDay> {
    let word = word.strip_suffix(b"Z").unwrap_or(word);
    match word.get(8) {
        Some(b',') => TimeOfDay::parse(&[&word[..8], b".", &word[9..]].concat()),
        _ => TimeOfDay::parse(word),
    }
}

/// Returns the direction that the log text before a message states.
fn logged_way(head: &[u8]) -> Option<Direction> {
    words(head).find_map(|word| match word.trim_ascii_end() {
        b"in" | b"IN" | b"In" | b"incoming" | b"INCOMING" | b"<-" | b"recv" | b"RECV" => {
            Some(Direction::In)
        }
        b"out" | b"OUT" | b"Out" | b"outgoing" | b"OUTGOING" | b"->" | b"sent" | b"SENT" => {
            Some(Direction::Out)
        }
        _ => None,
    })
}

/// The delimiter byte of messages in wire form.
pub(super) const WIRE: u8 = SOH;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn heads_of_all_engines() {
        let time = "20261121-09:28:25.623";
        for (head, is_timed, way) in [
            ("20261121-09:28:25.623000000 : ", true, None),
            ("20261121-09:28:25.623 in : ", true, Some(Direction::In)),
            ("20261121-09:28:25.623 out : ", true, Some(Direction::Out)),
            ("20261121-09:28:25.623 in garbled : ", true, Some(Direction::In)),
            ("out 17 20261121-09:28:25.623", true, Some(Direction::Out)),
            ("2026/11/21 09:28:25.623 ", true, None),
            ("2026-11-21 09:28:25,623 INFO quickfix.msg - ", true, None),
            ("2026-11-21T09:28:25.623Z ", true, None),
            ("0000003 A 2026-11-21 09:28:25.623 out ", true, Some(Direction::Out)),
            ("<20261121-09:28:25.623, FIX.4.4:A->B, incoming> (", true, Some(Direction::In)),
            ("", false, None),
            ("no time : ", false, None),
            ("2026-11-21 noon", false, None),
        ] {
            let expected = is_timed.then(|| Timestamp::parse(time.as_bytes()).unwrap());
            assert_eq!(logged_time(head.as_bytes()), expected, "{head}");
            assert_eq!(logged_way(head.as_bytes()), way, "{head}");
        }
    }

    #[test]
    fn directions_by_the_name_of_a_log() {
        let origins = Origins::new();
        let message = |sender: &str, target: &str| {
            format!("8=FIX.4.4\x019=5\x0135=0\x0149={sender}\x0156={target}\x0110=000\x01")
        };
        for (name, sender, target, way) in [
            ("FIX.4.4-A-B.messages.current.log", "A", "B", Some(Direction::Out)),
            ("FIX.4.4-A-B.messages.current.log", "B", "A", Some(Direction::In)),
            ("FIX.4.4-A-B-C.messages.log", "A-B", "C", Some(Direction::Out)),
            ("FIX.4.4-A_SUB-B.messages.log", "A", "B", Some(Direction::Out)),
            ("FIX.4.4-A-B.messages.current.log", "C", "D", None),
            ("FIX.4.4-A-A.messages.current.log", "A", "A", None),
            ("FIX.4.2-A-B.messages.current.log", "A", "B", None),
            ("today.log", "A", "B", None),
        ] {
            let source = Source::new(Path::new(name));
            let bytes = message(sender, target);
            assert_eq!(origins.way(bytes.as_bytes(), SOH, b"", &source), way, "{name} {sender}");
        }
    }

    #[test]
    fn sessions_as_they_are_named() {
        let ends = Ends { begin_string: b"FIX.4.4", sender: b"A-1", target: b"B" };
        for (named, expected) in [
            ("A-1", true),
            ("B", true),
            ("A-1-B", true),
            ("B-A-1", true),
            ("A-1->B", true),
            ("FIX.4.4-A-1-B", true),
            ("FIX.4.4:B->A-1", true),
            ("FIX.4.2-A-1-B", false),
            ("A", false),
            ("1-B", false),
            ("", false),
        ] {
            assert_eq!(ends.is_of(named.as_bytes()), expected, "{named}");
        }
        assert_eq!(ends.session(Some(Direction::In)), "FIX.4.4:B->A-1");
        assert_eq!(ends.session(None), "FIX.4.4:A-1->B");
    }
}
