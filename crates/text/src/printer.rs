//! Prints the messages of logs, captures and stores.
//!
//! Invariant: the readable part of a damaged message is printed, and marked as damaged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Message, Timestamp, tag};

use crate::input::{Dictionaries, Failure, InputError, InputMessage, Pair, Place, Sink, parse};
use crate::logs::{Report, count};
use crate::print::{self, Palette};

/// The criteria that select the messages to print. A message must meet all of them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The accepted values of MsgType(35). An empty list accepts all types.
    pub msg_types: Vec<String>,
    /// The earliest accepted time. The time of a message is the time of its log line or store
    /// record, or else its SendingTime(52).
    pub from: Option<Timestamp>,
    /// The latest accepted time; see `from` for the time of a message.
    pub to: Option<Timestamp>,
    /// Pairs of a tag and a value or code name. For each pair, the message must have a field with
    /// this tag and value.
    pub fields: Vec<(u32, String)>,
}

impl Selection {
    /// Returns true if the criteria accept every message.
    const fn is_all(&self) -> bool {
        let Self { msg_types, from, to, fields } = self;
        msg_types.is_empty() && from.is_none() && to.is_none() && fields.is_empty()
    }

    /// Returns true if the message meets the criteria.
    fn takes(&self, message: &Message<'_>, found: &InputMessage<'_>, pair: &Pair) -> bool {
        self.takes_type(message.msg_type().as_bytes())
            && self.takes_time(message, found.head)
            && self.fields.iter().all(|(tag, value)| holds(message, pair, *tag, value))
    }

    fn takes_type(&self, msg_type: &[u8]) -> bool {
        let is_it = |wanted: &String| wanted.as_bytes() == msg_type;
        self.msg_types.is_empty() || self.msg_types.iter().any(is_it)
    }

    fn takes_time(&self, message: &Message<'_>, head: &str) -> bool {
        if self.from.is_none() && self.to.is_none() {
            return true;
        }
        let logged = head.split_whitespace().find_map(|word| Timestamp::parse(word.as_bytes()));
        let time = logged.or_else(|| message.timestamp(tag::SENDING_TIME).ok());
        // If a time is required, a message whose time is unknown is not accepted.
        time.is_some_and(|time| {
            self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time <= to)
        })
    }
}

/// Returns true if any field with this tag has the value, or the code whose name is the value.
fn holds(message: &Message<'_>, pair: &Pair, tag: u32, value: &str) -> bool {
    let known = pair.field(tag);
    let code = |value: &[u8]| known.and_then(|known| known.code(value));
    let mut fields = message.fields().filter(|field| field.tag.0 == tag);
    fields.any(|field| {
        field.value == value.as_bytes()
            || code(field.value).is_some_and(|code| code.name.eq_ignore_ascii_case(value))
    })
}

/// A [`Sink`] that prints the messages that it receives.
/// ```
/// use transfix_text::input::{self, Dictionaries};
/// use transfix_text::print::Palette;
/// use transfix_text::printer::Printer;
///
/// let log = b"20261121-09:28:25.623 : 8=FIX.4.4|9=5|35=0|10=163|\n";
/// let mut printer = Printer::new(Vec::new(), Dictionaries::default(), &Palette::PLAIN);
/// printer.one_line = true;
/// input::stream(&mut &log[..], None, None, &mut printer)?;
/// assert_eq!(printer.out, b"20261121-09:28:25.623  Heartbeat(0) seq ? ?->?\n");
/// # Ok::<(), input::Failure>(())
/// ```
#[derive(Debug)]
pub struct Printer<W> {
    /// The output.
    pub out: W,
    /// If true, each message is printed as one line without header and trailer fields.
    pub one_line: bool,
    /// The number of messages printed so far.
    pub messages: u64,
    dictionaries: Dictionaries,
    palette: &'static Palette,
    selection: Selection,
    index: FieldIndex,
    text: String,
    /// The name and the number of printed messages, by MsgType(35).
    counts: BTreeMap<Vec<u8>, (String, u64)>,
    report: Report,
}

impl<W: Write> Printer<W> {
    /// Creates a printer that prints all messages.
    pub fn new(out: W, dictionaries: Dictionaries, palette: &'static Palette) -> Self {
        Self {
            out,
            one_line: false,
            messages: 0,
            index: dictionaries.index(),
            dictionaries,
            palette,
            selection: Selection::default(),
            text: String::new(),
            counts: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// Makes the printer print only the selected messages.
    #[must_use]
    pub fn choosing(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Begins the next file, and prints its name as a heading.
    ///
    /// # Errors
    /// The errors of the output.
    pub fn begin_file(&mut self, name: &[u8]) -> Result<(), Failure> {
        let (Palette { heading, end, .. }, name) = (self.palette, Shown::whole(name));
        writeln!(self.out, "{heading}==> {name} <=={end}")?;
        self.report.file = format!("{name}: ");
        Ok(())
    }

    /// Returns the number of damaged messages.
    #[must_use]
    pub const fn garbled_messages(&self) -> u64 {
        self.report.garbled_messages()
    }

    /// Returns the number of messages of each type, beginning with the most frequent type.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut rows: Vec<_> = self.counts.iter().collect();
        rows.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
        let mut text = String::new();
        for (msg_type, (name, count)) in rows {
            let _ = writeln!(text, "{count:>10}  {name}({})", msg_type.escape_ascii());
        }
        text
    }

    /// Returns a summary of the counts and errors for the end of the output.
    #[must_use]
    pub fn report(&self) -> String {
        let first = match self.selection.is_all() {
            true => count(self.messages, "message"),
            false => self.report.share(self.messages),
        };
        format!("{first}\n{}", self.report)
    }
}

/// Returns the text before a message in its log line, formatted for the output.
fn head(found: &InputMessage<'_>, one_line: bool) -> String {
    let gap = if one_line { "  " } else { "\n" };
    if found.head.is_empty() { String::new() } else { format!("{}{gap}", found.head) }
}

impl<W: Write> Sink for Printer<W> {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        let wrong = found.fault(&mut self.index);
        let Ok(message) = parse(found.bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            if let Some(wrong) = wrong {
                self.report.garbled(found.place, wrong);
            }
            if !self.selection.is_all() {
                return Ok(());
            }
            let bytes = found.bytes.escape_ascii();
            return Ok(writeln!(self.out, "{}not a message: {bytes}", head(found, self.one_line))?);
        };
        let pair = self.dictionaries.find(&message).map_err(Failure::Read)?;
        let pair = self.dictionaries.pair(pair);
        if !self.selection.takes(&message, found, pair) {
            self.report.messages += 1;
            return Ok(());
        }
        self.text.clear();
        self.text.push_str(&head(found, self.one_line));
        if let Some(wrong) = wrong {
            let _ = writeln!(self.text, "note: {wrong}");
        }
        let dictionaries = [&*pair.session, &*pair.application];
        // The result is ignored, because writing to a `String` never fails.
        let _ = if self.one_line {
            print::one_line(&message, dictionaries, self.palette, &mut self.text)
        } else {
            print::readable(&message, dictionaries, self.palette, &mut self.text)
        };
        self.text.push('\n');
        self.messages += 1;
        self.report.messages += 1;
        if let Some((_, count)) = self.counts.get_mut(message.msg_type().as_bytes()) {
            *count += 1;
        } else {
            let msg_type = message.msg_type();
            let name = pair.message(msg_type).map_or("?", |known| known.name.as_str()).to_owned();
            self.counts.insert(msg_type.as_bytes().to_vec(), (name, 1));
        }
        if let Some(wrong) = wrong {
            self.report.garbled(found.place, wrong);
        }
        Ok(self.out.write_all(self.text.as_bytes())?)
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.report.garbled(place, wrong);
        Ok(())
    }

    fn mark(&mut self, text: &str) -> Result<(), Failure> {
        if !self.selection.is_all() {
            return Ok(());
        }
        Ok(writeln!(self.out, "{text}")?)
    }

    fn pause(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use transfix_store::journal;

    use super::*;
    use crate::input;

    fn printer() -> Printer<Vec<u8>> {
        let mut printer = Printer::new(Vec::new(), Dictionaries::default(), &Palette::PLAIN);
        printer.one_line = true;
        printer
    }

    const LOG: &[u8] = b"20261121-09:28:25.623 : 8=FIX.4.4|9=5|35=0|10=163| x\n\
        in 8=FIX.4.4|9=5|35=0|10=164|\n8=FIX.4.4|9=5|35=0\n";

    #[test]
    fn a_log_with_damage() {
        let mut printer = printer();
        assert!(input::stream(&mut &LOG[..], None, None, &mut printer).is_ok());
        let text = String::from_utf8(printer.out.clone()).unwrap();
        let line = "Heartbeat(0) seq ? ?->?\n";
        let note = "note: CheckSum(10) differs from the sum of the bytes\n";
        assert_eq!(text, format!("20261121-09:28:25.623  {line}in  {note}{line}"));
        assert_eq!((printer.messages, printer.garbled_messages()), (2, 2));
        assert_eq!(printer.summary(), "         2  Heartbeat(0)\n");
        let report = "2 messages\n2 garbled:\n  line 2, byte 56: CheckSum(10) differs from the sum \
                      of the bytes\n  line 3, byte 83: the input ends within the message\n";
        assert_eq!(printer.report(), report);
    }

    #[test]
    fn the_journal_of_a_store() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/store/sound.seg");
        let mut printer = printer();
        assert!(input::store(journal::read_file(&path).unwrap(), &mut printer).is_ok());
        let text = String::from_utf8(printer.out).unwrap();
        assert!(text.starts_with("out 1 1970"), "{text}");
        assert!(text.contains("\nin 1 1970") && text.contains("\nnext_in 2 1970"), "{text}");
        assert!(text.contains("Logon(A) seq 1 A->B  EncryptMethod=NONE HeartBtInt=30\n"), "{text}");
    }
}
