//! `transfix print`: messages with the names of the dictionary.
//!
//! Reads captures of a stream, logs, and the journal of a store. Invariants: memory is bounded by
//! the longest message, not by the file; a message that is damaged is shown as far as it can be,
//! and said to be.

mod split;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::codec::{CheckSumPolicy, FieldIndex, Frame, Garbled, Limits, SOH, frame, print};
use transfix::dictionary::{Dictionary, standard};
use transfix::store::StoreError;
use transfix::store::journal::{self, Entry, Event};
use transfix::{Message, Timestamp, tag};

use split::{Delimiter, MESSAGE_BYTES_MAX, Rest, Splitter, Step};

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
    /// A standard dictionary (FIX40 to FIX50SP2, FIXT11, FIXLatest) or the path of an XML file;
    /// chosen by BeginString(8), ApplVerID(1128) and DefaultApplVerID(1137) if left out.
    #[arg(long, value_name = "NAME|FILE")]
    dictionary: Option<String>,
    /// Counts the messages by type at the end.
    #[arg(long)]
    summary: bool,
}

/// Prints the messages.
pub(crate) fn run(args: &Args) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut printer = match Printer::new(args) {
        Ok(printer) => printer,
        Err(error) => return failed(&error),
    };
    let done = printer.print(args, &mut out).and_then(|()| {
        if args.summary {
            out.write_all(printer.summary().as_bytes())?;
        }
        out.flush().map_err(Failure::from)
    });
    match done {
        // A closed pipe (`| head`) is the reader's choice.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Write(error)) => return failed(&format!("cannot write: {error}")),
        Err(Failure::Read(error)) => {
            let _ = out.flush();
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

fn failed(error: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "transfix: {error}");
    ExitCode::from(2)
}

/// Why nothing more is printed.
enum Failure {
    Read(String),
    Write(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Reasons that the report lists before it only counts.
const REASONS_MAX: usize = 5;
/// Bytes read at once.
const CHUNK: usize = 256 << 10;

struct Printer {
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

impl Printer {
    fn new(args: &Args) -> Result<Self, String> {
        let chosen = args.dictionary.as_deref().map(read_dictionary).transpose()?;
        Ok(Self {
            dictionaries: Dictionaries { chosen, loaded: Vec::new(), default: None },
            one_line: args.one_line,
            index: FieldIndex::default(),
            text: String::new(),
            counts: BTreeMap::new(),
            messages: 0,
            garbled: 0,
            reasons: Vec::new(),
        })
    }

    fn print(&mut self, args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
        let path = &args.file;
        if path == Path::new("-") {
            return self.stream(&mut io::stdin().lock(), args.delimiter, out);
        }
        let unreadable = |error: StoreError| Failure::Read(error.to_string());
        if path.is_dir() {
            if !holds_store(path) {
                let path = path.display();
                return Err(Failure::Read(format!(
                    "{path}: no .seg file here; name the directory of one session's store"
                )));
            }
            let entries = journal::read(path).map_err(unreadable)?;
            return self.journal(entries, out);
        }
        if path.extension().is_some_and(|end| end == "seg") {
            let entries = journal::read_file(path).map_err(unreadable)?;
            return self.journal(entries, out);
        }
        let mut file = File::open(path)
            .map_err(|error| Failure::Read(format!("{}: {error}", path.display())))?;
        self.stream(&mut file, args.delimiter, out)
    }

    /// Messages of a capture or a log.
    fn stream(
        &mut self,
        input: &mut dyn Read,
        delimiter: Option<Delimiter>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut splitter = Splitter::new(delimiter);
        let mut buffer = Vec::new();
        let (mut begin, mut position, mut rest) = (0, 0_u64, Rest::Unknown);
        loop {
            match splitter.step(&buffer[begin..], rest) {
                Step::More if rest == Rest::Nothing => return Ok(()),
                Step::More => {
                    buffer.drain(..begin);
                    begin = 0;
                    // What follows may take its time: show what is there.
                    out.flush()?;
                    if read_some(input, &mut buffer).map_err(Failure::Read)? == 0 {
                        rest = Rest::Nothing;
                    }
                }
                Step::Skip { bytes, garbled } => {
                    if let Some(reason) = garbled {
                        self.count_garbled(&format!("at byte {position}: {reason}"));
                    }
                    begin += bytes;
                    position += bytes as u64;
                }
                Step::Message { bytes, wrong } => {
                    let at = format!("at byte {position}");
                    self.message(&splitter.message, &at, wrong, out)?;
                    begin += bytes;
                    position += bytes as u64;
                }
            }
        }
    }

    /// Messages and marks of a store.
    fn journal(
        &mut self,
        entries: impl Iterator<Item = Result<Entry, StoreError>>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        for entry in entries {
            let entry = entry.map_err(|error| Failure::Read(error.to_string()))?;
            let time = Timestamp(i64::try_from(entry.time_ns).unwrap_or(i64::MAX));
            let (head, message) = match &entry.event {
                Event::Outbound(message) => (format!("out {} {time}", message.seq), Some(message)),
                Event::Inbound(message) => (format!("in {} {time}", message.seq), Some(message)),
                Event::NextIn(seq) => (format!("next_in {seq} {time}"), None),
                Event::NextOut(seq) => (format!("next_out {seq} {time}"), None),
                Event::Reset => (format!("reset {time}"), None),
            };
            let gap = if self.one_line && message.is_some() { "  " } else { "\n" };
            write!(out, "{head}{gap}")?;
            let Some(message) = message else { continue };
            let at = format!("segment {} at byte {}", entry.segment, entry.offset);
            let limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX };
            let is_whole =
                frame::split(&message.bytes, limits) == Frame::Whole(message.bytes.len());
            self.message(&message.bytes, &at, (!is_whole).then_some(Garbled::BodyLength), out)?;
        }
        Ok(())
    }

    /// One message; `wrong` is what was seen of it so far.
    fn message(
        &mut self,
        bytes: &[u8],
        at: &str,
        wrong: Option<Garbled>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let sound = parse(bytes, &mut self.index, CheckSumPolicy::Verify).map(|_| ());
        let wrong = wrong.or(sound.err());
        if let Some(reason) = wrong {
            self.count_garbled(&format!("{at}: {reason}"));
        }
        let parsed = parse(bytes, &mut self.index, CheckSumPolicy::Ignore);
        let Ok(message) = parsed else {
            writeln!(out, "not a message: {}", bytes.escape_ascii())?;
            return Ok(());
        };
        let (session, application) = self.dictionaries.of(&message).map_err(Failure::Read)?;
        self.text.clear();
        if let Some(reason) = wrong {
            let _ = writeln!(self.text, "note: {reason}");
        }
        // Writing to a String never fails.
        let _ = if self.one_line {
            print::one_line(&message, session, application, &mut self.text)
        } else {
            print::readable(&message, session, application, &mut self.text)
        };
        self.text.push('\n');
        self.messages += 1;
        if let Some((_, count)) = self.counts.get_mut(message.msg_type()) {
            *count += 1;
        } else {
            let msg_type = message.msg_type();
            let known = session.message(msg_type).or_else(|| application.message(msg_type));
            let name = known.map_or("?", |known| known.name.as_str()).to_owned();
            self.counts.insert(msg_type.to_vec(), (name, 1));
        }
        Ok(out.write_all(self.text.as_bytes())?)
    }

    fn count_garbled(&mut self, reason: &str) {
        self.garbled += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason.to_owned());
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

/// Whether the directory has a segment of a store.
fn holds_store(path: &Path) -> bool {
    let is_segment = |path: PathBuf| path.extension().is_some_and(|end| end == "seg");
    // A directory that cannot be read is for the journal to complain about.
    path.read_dir().map_or(true, |all| all.flatten().any(|entry| is_segment(entry.path())))
}

/// Indexes bytes that were not found by their BodyLength(9).
fn parse<'a>(
    bytes: &'a [u8],
    index: &'a mut FieldIndex,
    check_sum: CheckSumPolicy,
) -> Result<Message<'a>, Garbled> {
    // What Message::parse takes for granted of a frame.
    if bytes.last() != Some(&SOH) {
        return Err(Garbled::BodyLength);
    }
    Message::parse(bytes, index, check_sum)
}

/// Appends what can be read at once; 0 at the end.
fn read_some(input: &mut dyn Read, buffer: &mut Vec<u8>) -> Result<usize, String> {
    let filled = buffer.len();
    buffer.resize(filled + CHUNK, 0);
    let read = loop {
        match input.read(&mut buffer[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
    read.map_err(|error| format!("cannot read on: {error}"))
}

fn read_dictionary(name: &str) -> Result<Dictionary, String> {
    let is_path = name.contains(['/', '\\'])
        || Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"));
    if !is_path {
        return standard(name).map_err(|error| error.to_string());
    }
    let text = std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
    Dictionary::from_xml(&text, name).map_err(|error| error.to_string())
}

/// The dictionaries that the messages need, read once.
struct Dictionaries {
    /// The one that the user names.
    chosen: Option<Dictionary>,
    loaded: Vec<(&'static str, Dictionary)>,
    /// The version that the last Logon(A) named.
    default: Option<&'static str>,
}

impl Dictionaries {
    /// The dictionary of the session layer and that of the application.
    fn of(&mut self, message: &Message<'_>) -> Result<(&Dictionary, &Dictionary), String> {
        let version = |tag| message.raw(tag).and_then(by_appl_ver_id);
        self.default = version(tag::DEFAULT_APPL_VER_ID).or(self.default);
        let (session, application) = match by_begin_string(message.begin_string()) {
            Some(name) => (name, name),
            None => {
                let named = version(tag::APPL_VER_ID).or(self.default);
                ("FIXT11", named.unwrap_or("FIX50SP2"))
            }
        };
        let needs_application = self.chosen.is_none();
        let needs_session = self.chosen.as_ref().is_none_or(|chosen| chosen.header().is_empty());
        for (name, is_needed) in [(session, needs_session), (application, needs_application)] {
            if is_needed && !self.loaded.iter().any(|(loaded, _)| *loaded == name) {
                self.loaded.push((name, standard(name).map_err(|error| error.to_string())?));
            }
        }
        let loaded = |name: &str| {
            let found = self.loaded.iter().find(|(loaded, _)| *loaded == name);
            found.map(|(_, dictionary)| dictionary)
        };
        let chosen = self.chosen.as_ref();
        let own_header = chosen.filter(|chosen| !chosen.header().is_empty());
        match (own_header.or_else(|| loaded(session)), chosen.or_else(|| loaded(application))) {
            (Some(session), Some(application)) => Ok((session, application)),
            _ => Err(format!("no dictionary for {session}; name one with --dictionary")),
        }
    }
}

/// The dictionary of a version that has its own session layer; none for FIXT 1.1.
fn by_begin_string(begin_string: &[u8]) -> Option<&'static str> {
    match begin_string {
        b"FIX.4.0" => Some("FIX40"),
        b"FIX.4.1" => Some("FIX41"),
        b"FIX.4.2" => Some("FIX42"),
        b"FIX.4.3" => Some("FIX43"),
        b"FIX.4.4" => Some("FIX44"),
        _ => None,
    }
}

/// The dictionary of an ApplVerID(1128).
fn by_appl_ver_id(value: &[u8]) -> Option<&'static str> {
    match value {
        b"2" => Some("FIX40"),
        b"3" => Some("FIX41"),
        b"4" => Some("FIX42"),
        b"5" => Some("FIX43"),
        b"6" => Some("FIX44"),
        b"7" => Some("FIX50"),
        b"8" => Some("FIX50SP1"),
        b"9" => Some("FIX50SP2"),
        b"10" => Some("FIXLatest"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(input: &[u8], dictionary: Option<&str>) -> (String, Printer) {
        let args = Args {
            file: "-".into(),
            delimiter: None,
            one_line: true,
            dictionary: dictionary.map(str::to_owned),
            summary: true,
        };
        let mut printer = Printer::new(&args).unwrap();
        let mut out = Vec::new();
        assert!(printer.stream(&mut &input[..], args.delimiter, &mut out).is_ok());
        (String::from_utf8(out).unwrap(), printer)
    }

    const LOG: &[u8] = b"20261121-09:28:25.623 : 8=FIX.4.4|9=5|35=0|10=163|\n\
        8=FIX.4.4|9=5|35=0|10=164|\n8=FIX.4.4|9=5|35=0\n";

    #[test]
    fn a_log_with_damage() {
        let (text, printer) = printed(LOG, None);
        let line = "Heartbeat(0) seq ? ?->?\n";
        let note = "note: CheckSum(10) differs from the sum of the bytes\n";
        assert_eq!(text, format!("{line}{note}{line}"));
        assert_eq!((printer.messages, printer.garbled), (2, 2));
        assert_eq!(printer.summary(), "         2  Heartbeat(0)\n");
        assert!(printer.reasons[1].starts_with("at byte 78: "), "{:?}", printer.reasons);
    }

    #[test]
    fn the_version_is_found() {
        let cases: [(&str, &str); 4] = [
            ("8=FIX.4.2|9=10|35=E|54=1|10=000|", "FIX42"),
            ("8=FIXT.1.1|9=12|35=AE|1128=7|10=000|", "FIX50"),
            ("8=FIXT.1.1|9=12|35=A|1137=8|10=000|8=FIXT.1.1|9=5|35=D|10=000|", "FIX50SP1"),
            ("8=FIXT.1.1|9=5|35=D|10=000|", "FIX50SP2"),
        ];
        for (log, expected) in cases {
            let (_, printer) = printed(log.as_bytes(), None);
            let loaded: Vec<&str> =
                printer.dictionaries.loaded.iter().map(|(name, _)| *name).collect();
            assert_eq!(loaded.last(), Some(&expected), "{log}: {loaded:?}");
        }
        let (_, printer) = printed(LOG, Some("FIX50SP2"));
        assert_eq!(printer.dictionaries.loaded.len(), 1);
    }

    #[test]
    fn the_journal_of_a_store() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/store/sound.seg");
        let (_, mut printer) = printed(b"", None);
        let mut out = Vec::new();
        assert!(printer.journal(journal::read_file(&path).unwrap(), &mut out).is_ok());
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("out 1 1970"), "{text}");
        assert!(text.contains("\nin 1 1970") && text.contains("\nnext_in 2 1970"), "{text}");
        assert!(text.contains("Logon(A) seq 1 A->B  EncryptMethod=NONE HeartBtInt=30\n"), "{text}");
        assert!(!holds_store(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }

    #[test]
    fn unknown_dictionaries_are_refused() {
        for (name, expected) in [("FIX45", "did you mean"), ("no/such.xml", "no/such.xml: ")] {
            let error = read_dictionary(name).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
