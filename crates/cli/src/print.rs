//! `transfix print`: messages with the names of the dictionary.
//!
//! Invariant: a message that is damaged is shown as far as it can be, and said to be.

mod select;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use transfix::Mask;
use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_text::print::{self, Palette};

use crate::input::{
    self, Choice, Delimiter, Dictionaries, Failure, Found, Masking, Place, Sink, Wrong, failed,
    parse,
};
use crate::show::count;
use select::Selection;

const EXAMPLES: &str = "\
Examples:
  transfix print FIX.4.4-VENUE-CLIENT.messages.log   a log, delimited by SOH, |, ; or ^A
  transfix print --one-line --summary *.log          one line a message, and counts at the end
  transfix print --type 8 --where 55=EU --where Side=BUY today.log
  transfix print --from 20261121-09:28:00 --to 20261121-09:30:00 today.log
  transfix print store/venue/FIX.4.4-VENUE-CLIENT    the journal of a store
  transfix print --mask 1,448 today.log              with stars in place of two fields
  transfix print --dictionary venue.xml order.txt    with the names of your own dictionary
  tail -f today.log | transfix print -               what comes in

A delimiter that stands within a value is read as part of it where CheckSum(10) proves that; where
nothing tells which one it is the message is marked, and counts as garbled.
Values are shown as they are, but for what could not be seen or would forge a line: a line break
is \\n, other control characters and bytes that are no UTF-8 are \\xNN, marks of direction are
\\u{NNNN}, a backslash is \\\\. Tags and types in Text(58) of a reject have their names: Side(54).

Exit code: 0 done, 1 something was garbled, 2 wrong usage or input that cannot be read.";

/// Shows messages of captures, logs or stores with names instead of tags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, directories of stores, their `.seg` files, or `-` for the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Delimiter between fields; detected for each message if left out.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    /// One line a message, without header and trailer.
    #[arg(long)]
    one_line: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    dictionary: Choice,
    #[command(flatten)]
    masking: Masking,
    /// Counts the messages by type at the end.
    #[arg(long)]
    summary: bool,
    /// Use of colours; `auto` uses colours on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn palette(self) -> &'static Palette {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let wants_none = set("NO_COLOR") || is_dumb;
        self.palette_for(io::stdout().is_terminal(), wants_none)
    }

    /// Returns the palette for an output that is a terminal or not, and for a user who refuses
    /// colours or not.
    const fn palette_for(self, is_terminal: bool, wants_none: bool) -> &'static Palette {
        match self {
            Self::Always => &Palette::ANSI,
            Self::Auto if is_terminal && !wants_none => &Palette::ANSI,
            Self::Auto | Self::Never => &Palette::PLAIN,
        }
    }
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
    let printer = Printer::new(&args.dictionary, form, BufWriter::new(io::stdout().lock()));
    let printer = printer.and_then(|printer| printer.choosing(&args.selection));
    let mut printer = match printer {
        Ok(printer) => printer,
        Err(error) => return failed(&error),
    };
    printer.palette = args.color.palette();
    printer.mask = args.masking.mask();
    let done = printer.files(&args.files, args.delimiter);
    printer.end(form, done)
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
    printer.palette = Color::Auto.palette();
    let done = read(&mut printer);
    printer.end(form, done)
}

/// Reasons that the report lists before it only counts.
const REASONS_MAX: usize = 5;

struct Printer<W> {
    out: W,
    dictionaries: Dictionaries,
    one_line: bool,
    palette: &'static Palette,
    selection: Selection,
    mask: Option<Mask>,
    /// The prefix of places, if there are several files.
    file: String,
    index: FieldIndex,
    text: String,
    /// MsgType(35), name and count.
    counts: BTreeMap<Vec<u8>, (String, u64)>,
    messages: u64,
    /// Messages that are not wanted.
    others: u64,
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
            palette: &Palette::PLAIN,
            selection: Selection::default(),
            mask: None,
            file: String::new(),
            text: String::new(),
            counts: BTreeMap::new(),
            messages: 0,
            others: 0,
            garbled: 0,
            reasons: Vec::new(),
        })
    }

    /// The same for these messages only.
    fn choosing(mut self, selection: &Selection) -> Result<Self, String> {
        self.selection = selection.clone();
        self.selection.resolve(&mut self.dictionaries)?;
        Ok(self)
    }

    /// Prints all files; one that cannot be read does not keep the others from it.
    fn files(&mut self, files: &[PathBuf], delimiter: Option<Delimiter>) -> Result<(), Failure> {
        let mut unreadable = Vec::new();
        for path in files {
            if files.len() > 1 {
                let name = Shown::whole(path.as_os_str().as_encoded_bytes()).to_string();
                let Palette { heading, end, .. } = self.palette;
                writeln!(self.out, "{heading}==> {name} <=={end}")?;
                self.file = format!("{name}: ");
            }
            let mask = self.mask.take();
            let done = input::read(path, delimiter, mask.as_ref(), self);
            self.mask = mask;
            match done {
                Err(Failure::Read(error)) => unreadable.push(error),
                other => other?,
            }
        }
        match unreadable.is_empty() {
            true => Ok(()),
            false => Err(Failure::Read(unreadable.join("\ntransfix: "))),
        }
    }

    /// Prints what stands at the end, and says how it went.
    fn end(mut self, form: Form, done: Result<(), Failure>) -> ExitCode {
        let done = done.and_then(|()| {
            if form.summary {
                let summary = self.summary();
                self.out.write_all(summary.as_bytes())?;
            }
            Ok(self.out.flush()?)
        });
        match done {
            // A closed pipe (`| head`) is the reader's choice.
            Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Err(Failure::Write(error)) => return failed(&format!("cannot write: {error}")),
            Err(Failure::Read(error)) => {
                let _ = self.out.flush();
                if self.messages + self.garbled > 0 {
                    self.report();
                }
                return failed(&error);
            }
            Ok(()) | Err(Failure::Enough) => {}
        }
        self.report();
        if self.garbled > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS }
    }

    fn count_garbled(&mut self, place: Place, wrong: Wrong) {
        self.garbled += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("{}{place}: {wrong}", self.file));
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
        let _ = match self.selection.is_all() {
            true => writeln!(err, "{}", count(self.messages, "message")),
            false => writeln!(
                err,
                "{} of {}",
                self.messages,
                count(self.messages + self.others, "message")
            ),
        };
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

/// Returns the log's text before a message.
fn head(found: &Found<'_>, one_line: bool) -> String {
    let gap = if one_line { "  " } else { "\n" };
    if found.head.is_empty() { String::new() } else { format!("{}{gap}", found.head) }
}

impl<W: Write> Sink for Printer<W> {
    fn message(&mut self, found: &Found<'_>) -> Result<(), Failure> {
        let wrong = found.fault(&mut self.index);
        let Ok(message) = parse(found.bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            if let Some(wrong) = wrong {
                self.count_garbled(found.place, wrong);
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
            self.others += 1;
            return Ok(());
        }
        self.text.clear();
        self.text.push_str(&head(found, self.one_line));
        if let Some(wrong) = wrong {
            let _ = writeln!(self.text, "note: {wrong}");
        }
        let dictionaries = [&*pair.session, &*pair.application];
        // Writing to a String never fails.
        let _ = if self.one_line {
            print::one_line(&message, dictionaries, self.palette, &mut self.text)
        } else {
            print::readable(&message, dictionaries, self.palette, &mut self.text)
        };
        self.text.push('\n');
        self.messages += 1;
        if let Some((_, count)) = self.counts.get_mut(message.msg_type().as_bytes()) {
            *count += 1;
        } else {
            let msg_type = message.msg_type();
            let name = pair.message(msg_type).map_or("?", |known| known.name.as_str()).to_owned();
            self.counts.insert(msg_type.as_bytes().to_vec(), (name, 1));
        }
        if let Some(wrong) = wrong {
            self.count_garbled(found.place, wrong);
        }
        Ok(self.out.write_all(self.text.as_bytes())?)
    }

    fn garbled(&mut self, place: Place, wrong: Wrong) -> Result<(), Failure> {
        self.count_garbled(place, wrong);
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
    use super::*;
    use std::path::Path;
    use transfix_store::journal;

    fn printer() -> Printer<Vec<u8>> {
        let form = Form { one_line: true, summary: true };
        Printer::new(&Choice::default(), form, Vec::new()).unwrap()
    }

    const LOG: &[u8] = b"20261121-09:28:25.623 : 8=FIX.4.4|9=5|35=0|10=163| x\n\
        in 8=FIX.4.4|9=5|35=0|10=164|\n8=FIX.4.4|9=5|35=0\n";

    #[test]
    fn colours_by_terminal_and_wish() {
        for (color, is_terminal, wants_none, is_ansi) in [
            (Color::Auto, true, false, true),
            (Color::Auto, true, true, false),
            (Color::Auto, false, false, false),
            (Color::Always, false, true, true),
            (Color::Never, true, false, false),
        ] {
            let palette = color.palette_for(is_terminal, wants_none);
            assert_eq!(*palette == Palette::ANSI, is_ansi, "{color:?} {is_terminal} {wants_none}");
        }
    }

    #[test]
    fn a_log_with_damage() {
        let mut printer = printer();
        assert!(input::stream(&mut &LOG[..], None, None, &mut printer).is_ok());
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
