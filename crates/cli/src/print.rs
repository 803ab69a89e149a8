//! `transfix print`: messages with the names of the dictionary.
//!
//! Invariant: a message that is damaged is shown as far as it can be, and said to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use transfix::codec::{CheckSumPolicy, FieldIndex, print};

use crate::input::{
    self, Choice, Delimiter, Dictionaries, Failure, Found, Place, Sink, Wrong, failed, parse,
};

const EXAMPLES: &str = "\
Examples:
  transfix print FIX.4.4-VENUE-CLIENT.messages.log   a log, delimited by SOH, | or ^A
  transfix print --one-line --summary capture.bin    one line a message, and counts at the end
  transfix print store/venue/FIX.4.4-VENUE-CLIENT                  the journal of a store
  transfix print --dictionary venue.xml order.txt    with the names of your own dictionary
  tail -f today.log | transfix print -               what comes in

Exit status: 0 fine, 1 something was garbled, 2 the input cannot be read.";

/// Shows messages of a capture, a log or a store with names instead of tags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A file, the directory of a store, one of its `.seg` files, or `-` for the standard input.
    file: PathBuf,
    /// What stands between fields; found out for each message if left out.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    /// One line a message, without header and trailer.
    #[arg(long)]
    one_line: bool,
    #[command(flatten)]
    dictionary: Choice,
    /// Counts the messages by type at the end.
    #[arg(long)]
    summary: bool,
}

/// How messages are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// One line a message, without header and trailer.
    pub(crate) one_line: bool,
    /// Counts the messages by type at the end.
    pub(crate) summary: bool,
}

/// Prints the messages.
pub(crate) fn run(args: &Args) -> ExitCode {
    let form = Form { one_line: args.one_line, summary: args.summary };
    print(&args.dictionary, form, |printer| input::read(&args.file, args.delimiter, printer))
}

/// Prints what `read` gives to the printer.
pub(crate) fn print(
    dictionary: &Choice,
    form: Form,
    read: impl FnOnce(&mut dyn Sink) -> Result<(), Failure>,
) -> ExitCode {
    let mut printer = match Printer::new(dictionary, form, BufWriter::new(io::stdout().lock())) {
        Ok(printer) => printer,
        Err(error) => return failed(&error),
    };
    let done = read(&mut printer).and_then(|()| {
        if form.summary {
            let summary = printer.summary();
            printer.out.write_all(summary.as_bytes())?;
        }
        Ok(printer.out.flush()?)
    });
    match done {
        // A closed pipe (`| head`) is the reader's choice.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Write(error)) => return failed(&format!("cannot write: {error}")),
        Err(Failure::Read(error)) => {
            let _ = printer.out.flush();
            if printer.messages + printer.garbled > 0 {
                printer.report();
            }
            return failed(&error);
        }
        Ok(()) => {}
    }
    printer.report();
    if printer.garbled > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

/// Reasons that the report lists before it only counts.
const REASONS_MAX: usize = 5;

struct Printer<W> {
    out: W,
    dictionaries: Dictionaries,
    one_line: bool,
    index: FieldIndex,
    text: String,
    /// MsgType(35), name and count.
    counts: BTreeMap<Vec<u8>, (String, u64)>,
    messages: u64,
    garbled: u64,
    reasons: Vec<String>,
}

impl<W: Write> Printer<W> {
    fn new(dictionary: &Choice, form: Form, out: W) -> Result<Self, String> {
        let dictionaries = Dictionaries::new(dictionary)?;
        Ok(Self {
            out,
            index: dictionaries.index(),
            dictionaries,
            one_line: form.one_line,
            text: String::new(),
            counts: BTreeMap::new(),
            messages: 0,
            garbled: 0,
            reasons: Vec::new(),
        })
    }

    fn count_garbled(&mut self, place: Place, wrong: Wrong) {
        self.garbled += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("{place}: {wrong}"));
        }
    }

    /// The counts by type, the most frequent first.
    fn summary(&self) -> String {
        let mut rows: Vec<_> = self.counts.iter().collect();
        rows.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
        let mut text = String::new();
        for (msg_type, (name, count)) in rows {
            let _ = writeln!(text, "{count:>10}  {name}({})", msg_type.escape_ascii());
        }
        text
    }

    /// Says on the standard error how much there was, and what was wrong.
    fn report(&self) {
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "{} messages", self.messages);
        if self.garbled > 0 {
            let _ = writeln!(err, "{} garbled:", self.garbled);
            self.reasons.iter().for_each(|reason| _ = writeln!(err, "  {reason}"));
            let more = self.garbled - self.reasons.len() as u64;
            if more > 0 {
                let _ = writeln!(err, "  and {more} more");
            }
        }
    }
}

impl<W: Write> Sink for Printer<W> {
    fn message(&mut self, found: &Found<'_>) -> Result<(), Failure> {
        let wrong = found.fault(&mut self.index);
        if let Some(wrong) = wrong {
            self.count_garbled(found.place, wrong);
        }
        self.text.clear();
        if !found.head.is_empty() {
            let gap = if self.one_line { "  " } else { "\n" };
            let _ = write!(self.text, "{}{gap}", found.head);
        }
        let Ok(message) = parse(found.bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            let _ = writeln!(self.text, "not a message: {}", found.bytes.escape_ascii());
            return Ok(self.out.write_all(self.text.as_bytes())?);
        };
        let pair = self.dictionaries.find(&message).map_err(Failure::Read)?;
        let pair = self.dictionaries.pair(pair);
        if let Some(wrong) = wrong {
            let _ = writeln!(self.text, "note: {wrong}");
        }
        // Writing to a String never fails.
        let _ = if self.one_line {
            print::one_line(&message, &pair.session, &pair.application, &mut self.text)
        } else {
            print::readable(&message, &pair.session, &pair.application, &mut self.text)
        };
        self.text.push('\n');
        self.messages += 1;
        if let Some((_, count)) = self.counts.get_mut(message.msg_type()) {
            *count += 1;
        } else {
            let msg_type = message.msg_type();
            let name = pair.message(msg_type).map_or("?", |known| known.name.as_str()).to_owned();
            self.counts.insert(msg_type.to_vec(), (name, 1));
        }
        Ok(self.out.write_all(self.text.as_bytes())?)
    }

    fn garbled(&mut self, place: Place, wrong: Wrong) -> Result<(), Failure> {
        self.count_garbled(place, wrong);
        Ok(())
    }

    fn mark(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{text}")?)
    }

    fn pause(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use transfix::store::journal;

    fn printer() -> Printer<Vec<u8>> {
        let form = Form { one_line: true, summary: true };
        Printer::new(&Choice::default(), form, Vec::new()).unwrap()
    }

    const LOG: &[u8] = b"20261121-09:28:25.623 : 8=FIX.4.4|9=5|35=0|10=163| x\n\
        in 8=FIX.4.4|9=5|35=0|10=164|\n8=FIX.4.4|9=5|35=0\n";

    #[test]
    fn a_log_with_damage() {
        let mut printer = printer();
        assert!(input::stream(&mut &LOG[..], None, &mut printer).is_ok());
        let text = String::from_utf8(printer.out.clone()).unwrap();
        let line = "Heartbeat(0) seq ? ?->?\n";
        let note = "note: CheckSum(10) differs from the sum of the bytes\n";
        assert_eq!(text, format!("20261121-09:28:25.623  {line}in  {note}{line}"));
        assert_eq!((printer.messages, printer.garbled), (2, 2));
        assert_eq!(printer.summary(), "         2  Heartbeat(0)\n");
        let reasons = [
            "line 2, byte 56: CheckSum(10) differs from the sum of the bytes",
            "line 3, byte 83: the input ends within the message",
        ];
        assert_eq!(printer.reasons, reasons);
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
