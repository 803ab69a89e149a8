//! `transfix check`: checks the messages of a log, a capture or a store against a dictionary.
//!
//! Invariant: each finding states the position in the input and the remedy.

pub(crate) mod explain;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use transfix::{Mask, Message, tag};
use transfix_codec::validate::Finding;
use transfix_codec::{CheckSumPolicy, FieldIndex, MessageLayout, Rules, Scratch, Switches};

use crate::input::{
    self, Choice, Delimiter, Dictionaries, Failure, InputError, InputMessage, Masking, Pair, Place,
    Sink, failed, parse,
};
use crate::show::count;
use explain::Explain;

const EXAMPLES: &str = "\
Examples:
  transfix check FIX.4.4-VENUE-CLIENT.messages.log   the first error of each message
  transfix check --all capture.bin                   all errors
  transfix check --dictionary venue.xml today.log    with your own dictionary
  transfix check --dictionary FIX44 --overlay venue.xml today.log
  transfix check --off codes,formats today.log       without two of the checks
  transfix check store/venue/FIX.4.4-VENUE-CLIENT    the journal of a store

Exit code: 0 all messages are valid, 1 errors were found or a file has no message, 2 wrong usage or
input that cannot be read.";

/// Checks the messages of a capture, a log or a store against a dictionary.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, directories of stores, their `.seg` files, or `-` for the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Delimiter between fields. Default: detected for each message.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    #[command(flatten)]
    dictionary: Choice,
    #[command(flatten)]
    masking: Masking,
    /// Shows all errors of a message, not only the error that a Reject(3) would report.
    #[arg(long)]
    all: bool,
    /// Checks to switch off.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = names())]
    off: Vec<String>,
    /// Checks to switch on; only empty_groups is off by default. Unlike in sessions, conditions is
    /// on.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = names())]
    on: Vec<String>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(Switches::NAMES)
}

/// Checks the messages and prints the findings.
pub(crate) fn run(args: &Args) -> ExitCode {
    let mut checker = match Checker::new(args, BufWriter::new(io::stdout().lock())) {
        Ok(checker) => checker,
        Err(error) => return failed(&error),
    };
    let (mut unreadable, mut has_empty) = (false, false);
    for file in &args.files {
        if args.files.len() > 1 {
            checker.file = format!("{}: ", file.display());
        }
        let before = checker.found();
        match input::read(file, args.delimiter.map(Into::into), None, &mut checker) {
            Ok(()) if checker.found() == before => {
                let _ = failed(&format!("{}: no message found", file.display()));
                has_empty = true;
            }
            Ok(()) | Err(Failure::Enough) => {}
            // A closed pipe (`| head`) is not an error.
            Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Err(Failure::Write(error)) => return failed(&format!("cannot write: {error}")),
            Err(Failure::Read(error)) => {
                let _ = failed(&error);
                unreadable = true;
            }
        }
    }
    let summary = if checker.found() > 0 { checker.summary() } else { String::new() };
    let written = checker.out.write_all(summary.as_bytes()).and_then(|()| checker.out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            failed(&format!("cannot write: {error}"))
        }
        _ if unreadable => ExitCode::from(2),
        _ if has_empty || checker.wrong > 0 || checker.garbled > 0 => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    }
}

/// The rules and layouts of one pair of dictionaries.
struct Version {
    rules: Rules,
    /// Layouts of the message types in which errors were found, by MsgType(35), at most
    /// [`LAYOUTS_MAX`].
    layouts: BTreeMap<Vec<u8>, MessageLayout>,
}

struct Checker<W> {
    out: W,
    /// Name of the current file, put before each position if there are several files; otherwise
    /// empty.
    file: String,
    dictionaries: Dictionaries,
    /// Rules and layouts by the index of their pair of dictionaries.
    versions: BTreeMap<usize, Version>,
    switches: Switches,
    all: bool,
    /// Fields whose values are hidden in the output; hidden values are checked too. `None` hides
    /// nothing.
    mask: Option<Mask>,
    index: FieldIndex,
    scratch: Scratch,
    findings: Vec<Finding>,
    messages: u64,
    /// Number of messages with errors.
    wrong: u64,
    garbled: u64,
    /// Number of findings by reason.
    reasons: BTreeMap<&'static str, u64>,
}

impl<W: Write> Checker<W> {
    fn new(args: &Args, out: W) -> Result<Self, String> {
        // `check` reports conditional fields too, although sessions do not reject them by default.
        let mut switches = Switches { conditions: true, ..Switches::default() };
        for (names, value) in [(&args.on, true), (&args.off, false)] {
            for name in names {
                *switches.named(name).ok_or_else(|| format!("no check '{name}'"))? = value;
            }
        }
        let dictionaries = args.dictionary.load()?;
        Ok(Self {
            out,
            file: String::new(),
            index: dictionaries.index(),
            dictionaries,
            versions: BTreeMap::new(),
            switches,
            all: args.all,
            mask: args.masking.mask(),
            scratch: Scratch::default(),
            findings: Vec::new(),
            messages: 0,
            wrong: 0,
            garbled: 0,
            reasons: BTreeMap::new(),
        })
    }

    /// Returns the number of all messages read so far, including garbled messages.
    const fn found(&self) -> u64 {
        self.messages + self.garbled
    }

    /// Returns the numbers of messages and errors, followed by the errors by reason, most frequent
    /// first.
    fn summary(&self) -> String {
        let Self { messages, wrong, garbled, .. } = self;
        let mut text =
            format!("{}, {wrong} with errors, {garbled} garbled\n", count(*messages, "message"));
        let mut rows: Vec<_> = self.reasons.iter().collect();
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in rows {
            let _ = writeln!(text, "{count:>10}  {reason}");
        }
        text
    }
}

/// Maximum number of cached layouts; when it is reached, all layouts are discarded.
const LAYOUTS_MAX: usize = 1_024;

impl Version {
    fn layout(&mut self, pair: &Pair, msg_type: &[u8]) -> Option<&MessageLayout> {
        if self.layouts.len() >= LAYOUTS_MAX {
            self.layouts.clear();
        }
        if !self.layouts.contains_key(msg_type) {
            let layout = MessageLayout::new(&pair.session, &pair.application, msg_type)?;
            self.layouts.insert(msg_type.to_vec(), layout);
        }
        self.layouts.get(msg_type)
    }
}

/// Returns the title line of a message: name, type and MsgSeqNum(34).
fn title(message: &Message<'_>, pair: &Pair) -> String {
    let msg_type = message.msg_type();
    let name = pair.message(msg_type).map_or("?", |known| known.name.as_str());
    let seq = message.raw(tag::MSG_SEQ_NUM).unwrap_or(b"?");
    format!("{name}({}) MsgSeqNum(34)={}", msg_type.as_bytes().escape_ascii(), seq.escape_ascii())
}

impl<W: Write> Sink for Checker<W> {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        if let Some(wrong) = found.fault(&mut self.index) {
            self.garbled += 1;
            let right = explain::right(found.bytes, wrong);
            writeln!(self.out, "{}{}: {wrong}{right}", self.file, found.place)?;
        }
        let Ok(message) = parse(found.bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            return Ok(());
        };
        self.messages += 1;
        let number = self.dictionaries.find(&message).map_err(Failure::Read)?;
        let pair = self.dictionaries.pair(number);
        let version = self.versions.entry(number).or_insert_with(|| Version {
            rules: Rules::new(&pair.session, &pair.application),
            layouts: BTreeMap::new(),
        });
        let (switches, scratch) = (&self.switches, &mut self.scratch);
        if version.rules.check(&message, switches, scratch).is_ok() {
            return Ok(());
        }
        let findings = &mut self.findings;
        findings.clear();
        version.rules.check_all(&message, switches, scratch, |finding| findings.push(finding));
        findings.truncate(if self.all { findings.len() } else { 1 });
        self.wrong += 1;
        write!(self.out, "{}{}: {}", self.file, found.place, title(&message, pair))?;
        let head = if found.head.is_empty() { "" } else { "  " };
        writeln!(self.out, "{head}{}", found.head)?;
        let layout = version.layout(pair, message.msg_type().as_bytes());
        let (findings, mask) = (&self.findings[..], self.mask.as_ref());
        let explain = Explain { message: &message, pair, layout, findings, mask };
        for finding in &self.findings {
            *self.reasons.entry(finding.reject.reason.text()).or_default() += 1;
            writeln!(self.out, "    {}", explain.finding(finding))?;
        }
        Ok(())
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.garbled += 1;
        Ok(writeln!(self.out, "{}{place}: {wrong}", self.file)?)
    }

    fn pause(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(log: &str, all: bool, off: &[&str]) -> (String, String) {
        let args = Args {
            files: Vec::new(),
            delimiter: None,
            dictionary: Choice::default(),
            masking: Masking::default(),
            all,
            off: off.iter().map(|&name| name.to_owned()).collect(),
            on: vec!["empty_groups".to_owned()],
        };
        let mut checker = Checker::new(&args, Vec::new()).unwrap();
        assert!(
            transfix_text::input::stream(&mut log.as_bytes(), None, None, &mut checker).is_ok()
        );
        (String::from_utf8(checker.out.clone()).unwrap(), checker.summary())
    }

    /// Returns a FIX 4.4 message with a wrong CheckSum(10), as a line of a log.
    fn line(msg_type: &str, body: &str) -> String {
        let fields = format!("35={msg_type}|34=7|49=A|56=B|52=20261121-09:28:25|{body}");
        format!("8=FIX.4.4|9={}|{fields}10=000|\n", fields.len())
    }

    /// Returns the findings for a message, without its title line and the finding for its
    /// CheckSum(10).
    fn explained(msg_type: &str, body: &str) -> Vec<String> {
        let (text, _) = checked(&line(msg_type, body), true, &[]);
        let lines = text.lines().skip(2).map(|line| line.trim().to_owned());
        lines.collect()
    }

    const ORDER: &str = "11=1|55=EU|54=1|60=20261121-09:28:25|38=5|40=1|";

    #[test]
    fn each_error_is_explained() {
        let wrong_side =
            "Side(54)=Z: Value is incorrect (out of range) for this tag; use 1 (BUY), ";
        let table = [
            (ORDER.to_owned(), ""),
            (ORDER.replace("54=1", "54=Z"), wrong_side),
            (ORDER.replace("55=EU|", ""), "Symbol(55): Required tag missing; add it, a String"),
            (
                ORDER.replace("38=5", "38=5x"),
                "OrderQty(38)=5x: Incorrect data format for value; a Qty is a number",
            ),
            (ORDER.replace("55=EU", "55="), "Symbol(55)=: Tag specified without a value; give"),
            (
                format!("{ORDER}108=30|"),
                "HeartBtInt(108)=30: Tag not defined for this message type; NewOrderSingle(D) does",
            ),
            (
                format!("{ORDER}4444=9|"),
                "4444=9: Invalid tag number; FIX.4.4 has no field with \
                                         this tag",
            ),
            (
                format!("{ORDER}058=x|"),
                "058=x: Invalid tag number; the tag has leading zeros: write 58 for Text(58)",
            ),
            (
                format!("{ORDER}bare|"),
                "bare: Invalid tag number; the field has no '=' after its \
                                       tag",
            ),
            (format!("{ORDER}-1=x|"), "-1=x: Invalid tag number; a tag must be a number above 0"),
            (
                format!("{ORDER}354=9|355=abc|"),
                "EncodedTextLen(354)=9: Incorrect data format for value; the value is 9, but \
                 EncodedText(355) has 3 bytes",
            ),
            (
                format!("{ORDER}448=A|"),
                "PartyID(448)=A: Tag not defined for this message type; the field is accepted \
                 only in an entry of the group NoPartyIDs(453)",
            ),
            (format!("{ORDER}5001=9|"), "5001=9: Invalid tag number; name the venue's dictionary"),
            (ORDER.replace("40=1", "140=1"), "OrdType(40): Required tag missing"),
            (
                format!("{ORDER}11=2|"),
                "ClOrdID(11)=2: Tag appears more than once; field 8 has the same tag; remove one",
            ),
            (
                format!("{ORDER}57=X|"),
                "TargetSubID(57)=X: Tag specified out of required order; the field belongs to \
                 the header",
            ),
            (
                format!("{ORDER}453=2|448=A|447=D|452=1|"),
                "NoPartyIDs(453)=2: Incorrect NumInGroup count for repeating group; \
                 group 453, entry 2: tag 10 is in place of the delimiter 448",
            ),
            (format!("{ORDER}453=0|"), "NoPartyIDs(453)=0: Incorrect NumInGroup"),
        ];
        for (body, expected) in table {
            let found = explained("D", &body);
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{body}\n{found:#?}");
            assert!(found.iter().all(|line| line.starts_with(expected)), "{found:#?}\n{expected}");
        }
    }

    #[test]
    fn errors_that_follow_from_another_say_so() {
        let twisted = explained("D", &format!("{ORDER}453=1|447=D|448=A|"));
        let expected = [
            "PartyIDSource(447)=D: Repeating group fields out of order; \
             group 453, entry 1: tag 447 is in place of the delimiter 448",
            "PartyIDSource(447)=D: Tag not defined for this message type; this error is a \
             consequence of the group's error above",
            "PartyID(448)=A: Tag not defined for this message type; this error is a consequence \
             of the group's error above",
        ];
        assert_eq!(twisted, expected);
        let unknown = explained("ZZ", "");
        assert!(
            unknown[0].starts_with("ZZ: Invalid MsgType; FIX.4.4 has no message"),
            "{unknown:?}"
        );
    }

    #[test]
    fn what_would_be_right_is_said() {
        let table = [
            ("8=FIX.4.4|9=5|35=0|10=164|\n", "; 10=163 would be right"),
            ("8=FIX.4.4|9=6|35=0|10=163|\n", "; 9=5 would be right"),
            ("8=FIX.4.4|9=5|35=0|10=1", ": the input ends within the message"),
        ];
        for (log, expected) in table {
            let (text, _) = checked(log, false, &["required_tags"]);
            assert!(text.lines().next().unwrap().ends_with(expected), "{text}");
        }
    }

    #[test]
    fn conditions_are_explained_in_the_words_of_the_standard() {
        let table = [
            (
                ORDER.replace("40=1", "40=2"),
                "Price(44): Required tag missing; add it, a Price; FIX: Required for limit",
            ),
            (
                format!("{ORDER}453=1|448=A|452=1|"),
                "PartyIDSource(447): Required tag missing; add it, a char, to the group entry \
                 that begins with PartyID(448)=A, field 15; FIX: Required if NoPartyIDs > 0.",
            ),
        ];
        for (body, expected) in table {
            let found = explained("D", &body);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{found:#?}\n{expected}");
            let (_, summary) = checked(&line("D", &body), false, &["conditions"]);
            assert!(summary.starts_with("1 message, 0 with errors"), "{summary}");
        }
    }

    #[test]
    fn places_counts_and_switches() {
        let good = "8=FIX.4.4|9=62|35=0|34=2|49=TW44|56=ISLD|52=20261121-09:28:25.623|10=000|\n";
        let log = format!("# a log\n09:28 in: {}{good}8=FIX.4.4|9=5", line("D", "54=Z|44=x|"));
        let (text, summary) = checked(&log, false, &[]);
        let lines: Vec<&str> = text.lines().collect();
        let sum = "line 2, byte 18: CheckSum(10) differs from the sum of the bytes; 10=";
        assert!(lines[0].starts_with(sum) && lines[0].ends_with(" would be right"), "{text}");
        assert_eq!(lines[1], "line 2, byte 18: NewOrderSingle(D) MsgSeqNum(34)=7  09:28 in");
        assert!(lines[2].contains("Required tag missing"), "{text}");
        assert!(lines.last().unwrap().ends_with("the input ends within the message"), "{text}");
        assert!(summary.starts_with("2 messages, 1 with errors, "), "{summary}");
        let off = ["required_tags", "conditions", "codes", "formats"];
        let (text, summary) = checked(&log, false, &off);
        assert!(summary.starts_with("2 messages, 0 with errors, "), "{text}{summary}");
    }
}
