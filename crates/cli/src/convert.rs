//! `transfix convert`: messages to JSON and back, bit by bit, and to Parquet.

mod line;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use transfix::{Mask, Tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, SOH};
use transfix_dictionary::Dictionary;
use transfix_text::json::{self, JsonProblem};

use crate::input::{
    self, Choice, Delimiter, Dictionaries, Failure, Found, Place, Sink, Wrong, failed, parse,
};
use line::Refusal;

const EXAMPLES: &str = "\
Examples:
  transfix convert --to json today.log               one JSON object a line, with names
  transfix convert --to json --tags capture.bin      with tags instead of names
  transfix convert --to fix orders.json              the bytes of the messages
  transfix convert --to fix --delimiter pipe - <a.json   readable, one message a line
  transfix convert --to parquet log >log.parquet     all logs and stores in a directory, as a table
  transfix convert --to json a.fix | transfix convert --to fix - | cmp - a.fix

`--to parquet` needs a program built with `--features parquet`; the packages have it.

BodyLength(9) and CheckSum(10) stand in the JSON only if they are wrong; where they are left out
they are computed. Text of a log around its messages is not converted. A message with a value that
holds the requested delimiter is left out, and reported on the standard error.
The messages of a file are written as they are, passwords too, unless there is --mask; those of a
store, of a .seg file of it and of a directory have stars in place of passwords.

Exit code: 0 done, 1 something was garbled or left out, 2 wrong usage or input that cannot be
read.";

/// Converts messages to JSON and back, and to Parquet.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The output format.
    #[arg(long, value_enum)]
    to: Format,
    /// A file, or `-` for the standard input; for JSON and Parquet also the directory of a store;
    /// for Parquet also a directory of logs and stores.
    file: PathBuf,
    /// Delimiter between fields. If left out: SOH for `--to fix`, detected for `--to json`.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    /// Writes tags instead of names, and groups field by field.
    #[arg(long)]
    tags: bool,
    /// Writes stars in place of the values of these tags and of passwords; several with commas.
    #[arg(long, value_name = "TAG", value_delimiter = ',', value_parser = input::tag)]
    mask: Vec<Tag>,
    #[command(flatten)]
    dictionary: Choice,
}

impl Args {
    /// The fields whose values are hidden. A conversion of a file must give back what went in,
    /// unless the user wants something hidden; a store never shows its passwords here.
    fn mask(&self) -> Option<Mask> {
        let is_store = self.file.is_dir() || input::is_segment(&self.file);
        (is_store || !self.mask.is_empty()).then(|| Mask::of(self.mask.iter().copied()))
    }
}

/// A form of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One object a line.
    Json,
    /// Tag=value.
    Fix,
    /// A table for DuckDB, pandas and the like: a row for each message.
    Parquet,
}

/// Converts the messages.
pub(crate) fn run(args: &Args) -> ExitCode {
    let code = |wrong| if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    ended(match args.to {
        Format::Json => to_json(args).map(code),
        Format::Fix => to_fix(args).map(code),
        Format::Parquet => to_parquet(args),
    })
}

/// Writes messages as JSON; answers how many were garbled.
fn to_json(args: &Args) -> Result<u64, Failure> {
    let dictionaries = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
    let mut sink = ToJson::new(dictionaries, args.tags, BufWriter::new(io::stdout().lock()));
    let mask = args.mask();
    input::read(&args.file, args.delimiter, mask.as_ref(), &mut sink)?;
    sink.out.flush()?;
    Ok(sink.garbled)
}

fn ended(done: Result<ExitCode, Failure>) -> ExitCode {
    match done {
        // A closed pipe (`| head`) is the reader's choice.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Write(error)) => failed(&format!("cannot write: {error}")),
        Err(Failure::Read(error)) => failed(&error),
        Err(Failure::Enough) => ExitCode::SUCCESS,
        Ok(code) => code,
    }
}

#[cfg(feature = "parquet")]
fn to_parquet(args: &Args) -> Result<ExitCode, Failure> {
    use std::io::IsTerminal as _;

    if args.tags {
        let text = "--tags: --to parquet has the fields by tag; leave it out";
        return Err(Failure::Read(text.to_owned()));
    }
    let out = io::stdout();
    if out.is_terminal() {
        let text = "--to parquet is for a file: write `>FILE.parquet` behind the command";
        return Err(Failure::Read(text.to_owned()));
    }
    let Args { file, delimiter, dictionary, .. } = args;
    crate::logs::parquet::write(file, *delimiter, args.mask(), dictionary, out)
}

#[cfg(not(feature = "parquet"))]
fn to_parquet(_: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::Read(
        "--to parquet: this program was built without it; take that of the Debian package or the \
         container, or build one: `cargo build --release -p transfix-cli --features parquet`"
            .to_owned(),
    ))
}

/// Writes messages as JSON.
pub(crate) struct ToJson<W> {
    out: W,
    dictionaries: Dictionaries,
    /// By the number of the pair.
    writers: Vec<json::Writer<Arc<Dictionary>>>,
    tags: bool,
    index: FieldIndex,
    text: String,
    pub(crate) garbled: u64,
}

impl<W: Write> ToJson<W> {
    /// With tags instead of names if `tags`.
    pub(crate) fn new(dictionaries: Dictionaries, tags: bool, out: W) -> Self {
        let (writers, index, text) = (Vec::new(), dictionaries.index(), String::new());
        Self { out, dictionaries, writers, tags, index, text, garbled: 0 }
    }
}

impl<W: Write> Sink for ToJson<W> {
    fn message(&mut self, found: &Found<'_>) -> Result<(), Failure> {
        self.judge(found)?;
        if self.text(found.bytes)?.is_some() {
            self.text.push('\n');
            self.out.write_all(self.text.as_bytes())?;
        }
        Ok(())
    }

    fn garbled(&mut self, place: Place, wrong: Wrong) -> Result<(), Failure> {
        self.garbled += 1;
        let _ = writeln!(io::stderr(), "{place}: {wrong}");
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

impl<W: Write> ToJson<W> {
    /// Counts a message that is not sound, and says why.
    pub(crate) fn judge(&mut self, found: &Found<'_>) -> Result<(), Failure> {
        match found.fault(&mut self.index) {
            Some(wrong) => self.garbled(found.place, wrong),
            None => Ok(()),
        }
    }

    /// The object of a message; none if the bytes are no message.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Result<Option<&str>, Failure> {
        let Ok(message) = parse(bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            return Ok(None);
        };
        self.text.clear();
        // Writing to a String never fails.
        let _ = if self.tags {
            json::Writer::plain().write(&message, &mut self.text)
        } else {
            let number = self.dictionaries.find(&message).map_err(Failure::Read)?;
            while self.writers.len() <= number {
                let pair = self.dictionaries.pair(self.writers.len()).clone();
                self.writers.push(json::Writer::named(pair.session, pair.application));
            }
            self.writers[number].write(&message, &mut self.text)
        };
        Ok(Some(&self.text))
    }
}

/// Longest text of one message, in bytes.
const OBJECT_BYTES_MAX: usize = 64 << 20;

/// Reads JSON objects, with any white space between them, and writes the messages; answers how many
/// were left out.
fn to_fix(args: &Args) -> Result<u64, Failure> {
    let dictionaries = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
    let out = BufWriter::new(io::stdout().lock());
    let mask = args.mask();
    let form = (args.delimiter, mask.as_ref());
    if args.file == Path::new("-") {
        return objects(&mut io::stdin().lock(), form, dictionaries, out);
    }
    let path = args.file.display();
    if args.file.is_dir() {
        return Err(Failure::Read(format!("{path}: a directory; --to fix reads a file of JSON")));
    }
    let mut file =
        File::open(&args.file).map_err(|error| Failure::Read(format!("{path}: {error}")))?;
    objects(&mut file, form, dictionaries, out)
}

fn objects(
    input: &mut dyn Read,
    (delimiter, mask): (Option<Delimiter>, Option<&Mask>),
    mut dictionaries: Dictionaries,
    mut out: impl Write,
) -> Result<u64, Failure> {
    let (mut buffer, mut message) = (Vec::<u8>::new(), Vec::new());
    let (mut begin, mut line, mut at_end) = (0, 1, false);
    let (data_fields, mut left_out) = (dictionaries.data_fields(), 0);
    // A text that is not whole is not read again before it has doubled.
    let mut enough = 0;
    loop {
        let text = &buffer[begin..];
        let blanks = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        line += lines(&text[..blanks]);
        begin += blanks;
        let text = &buffer[begin..];
        let is_over = at_end && text.is_empty();
        if is_over {
            out.flush()?;
            return Ok(left_out);
        }
        message.clear();
        let names = std::cell::RefCell::new(&mut dictionaries);
        let tag_of = |name: &str| names.borrow_mut().tag_named(name).map(Tag);
        let outcome = if text.len() < enough && !at_end {
            Err(None)
        } else {
            line::read(text, tag_of, &data_fields, &mut message).map_err(Some)
        };
        match outcome {
            Ok(length) if message.is_empty() => {
                left_out += 1;
                let _ = writeln!(io::stderr(), "line {line}: left out: no message in it");
                line += lines(&text[..length]);
                begin += length;
                enough = 0;
            }
            Ok(length) => {
                let shown = mask.map_or(Cow::Borrowed(&message[..]), |mask| mask.message(&message));
                if let Err(refusal) = write(&shown, delimiter, &mut out)? {
                    left_out += 1;
                    let _ = writeln!(io::stderr(), "line {line}: left out: {refusal}");
                }
                line += lines(&text[..length]);
                begin += length;
                enough = 0;
            }
            Err(Some(error)) if at_end || error.problem != JsonProblem::Unfinished => {
                out.flush()?;
                return Err(Failure::Read(refused(text, line, &error)));
            }
            Err(_) if text.len() > OBJECT_BYTES_MAX => {
                return Err(Failure::Read(format!("line {line}: the object is too long")));
            }
            Err(error) => {
                enough = if error.is_some() { text.len() * 2 } else { enough };
                buffer.drain(..begin);
                begin = 0;
                out.flush()?;
                at_end = input::read_some(input, &mut buffer).map_err(Failure::Read)? == 0;
            }
        }
    }
}

/// Describes the error of a text that begins in that line, and its place.
fn refused(text: &[u8], line: usize, error: &Refusal) -> String {
    let (before, rest) = text.split_at(error.at.min(text.len()));
    let column = before.rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len) + 1;
    let line = line + lines(before);
    let mut strings = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
    let problem = match (&error.problem, strings.next()) {
        (JsonProblem::UnknownName, Some(Ok(name))) => {
            format!("no dictionary has a field '{name}'; write its tag")
        }
        (problem, _) => problem.to_string(),
    };
    format!("line {line}, column {column}: {problem}")
}

fn lines(text: &[u8]) -> usize {
    text.iter().filter(|&&b| b == b'\n').count()
}

/// One message; a line of its own if its delimiters are made readable. Returns why it cannot be
/// written so, if a field holds what would be taken for a delimiter.
fn write(
    message: &[u8],
    delimiter: Option<Delimiter>,
    out: &mut impl Write,
) -> io::Result<Result<(), String>> {
    let Some(delimiter) = delimiter.filter(|delimiter| *delimiter != Delimiter::Soh) else {
        return out.write_all(message).map(Ok);
    };
    let by = delimiter.text();
    let holds = |field: &[u8]| field.windows(by.len()).any(|bytes| bytes == by);
    if let Some(field) = message.split(|&b| b == SOH).find(|field| holds(field)) {
        let tag = field.split(|&b| b == b'=').next().unwrap_or_default().escape_ascii();
        let by = by.escape_ascii();
        return Ok(Err(format!("field {tag} holds '{by}'; write it with another --delimiter")));
    }
    for field in message.split_inclusive(|&b| b == SOH) {
        let text = field.strip_suffix(&[SOH]).unwrap_or(field);
        out.write_all(text)?;
        out.write_all(by)?;
    }
    out.write_all(b"\n").map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_json(log: &[u8], tags: bool) -> String {
        let mut sink =
            ToJson::new(Dictionaries::new(&Choice::default()).unwrap(), tags, Vec::new());
        assert!(input::stream(&mut &log[..], None, None, &mut sink).is_ok());
        String::from_utf8(sink.out).unwrap()
    }

    fn to_fix(text: &str, delimiter: Option<Delimiter>) -> Result<String, String> {
        let mut out = Vec::new();
        let dictionaries = Dictionaries::new(&Choice::default()).unwrap();
        match objects(&mut text.as_bytes(), (delimiter, None), dictionaries, &mut out) {
            Ok(_) => Ok(String::from_utf8(out).unwrap()),
            Err(Failure::Read(error)) => Err(error),
            Err(Failure::Write(error)) => panic!("{error}"),
            Err(Failure::Enough) => panic!("it wants all of it"),
        }
    }

    const LOG: &str = "8=FIX.4.2|9=12|35=8|54=1|x|10=000|\n8=FIXT.1.1|9=5|35=0|10=000|\n";

    #[test]
    fn there_and_back() {
        for tags in [false, true] {
            let text = to_json(LOG.as_bytes(), tags);
            assert_eq!(text.lines().count(), 2);
            assert_eq!(text.contains("\"Side\":\"1\""), !tags, "{text}");
            assert_eq!(to_fix(&text, Some(Delimiter::Pipe)).unwrap(), LOG);
            assert_eq!(to_fix(&text, None).unwrap(), LOG.replace('|', "\x01").replace('\n', ""));
            let spread = text.replace(',', " ,\n\t").replace('\n', "\r\n");
            assert_eq!(to_fix(&spread, Some(Delimiter::Pipe)).unwrap(), LOG);
        }
    }

    #[test]
    fn a_line_of_logs_has_its_message_in_it() {
        let message = to_json(LOG.as_bytes(), false).lines().next().unwrap().to_owned();
        let expected = LOG.lines().next().unwrap().to_owned() + "\n";
        for line in [
            format!(r#"{{"time":null,"direction":"in","session":"a\"}}","message":{message}}}"#),
            // As `jq -S` sorts it.
            format!(r#"{{"direction":null,"message":{message},"session":null,"time":"x"}}"#),
            format!("{{ \"message\" :\n {message} \n}}"),
        ] {
            assert_eq!(to_fix(&line, Some(Delimiter::Pipe)).unwrap(), expected, "{line}");
            let mut dictionaries = Dictionaries::new(&Choice::default()).unwrap();
            let names = std::cell::RefCell::new(&mut dictionaries);
            let tag_of = |name: &str| names.borrow_mut().tag_named(name).map(Tag);
            for cut in 1..line.len() {
                let mut out = Vec::new();
                let refusal = line::read(&line.as_bytes()[..cut], tag_of, &[], &mut out);
                let problem = refusal.err().map(|refusal| refusal.problem);
                assert_eq!(problem, Some(JsonProblem::Unfinished), "{}", &line[..cut]);
                assert!(out.is_empty());
            }
        }
        // Text that is no message is left out, and counted.
        let garbled = r#"{"time":null,"garbled":"8=FIX"}"#;
        let both = format!("{garbled}\n{message}");
        assert_eq!(to_fix(&both, Some(Delimiter::Pipe)).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let table = [
            (
                "{\"8\":\"x\",\"35\":0}\n\n {\"8\":\n\"x\",\"Prise\":1}",
                "line 4, column 5: no dictionary has a field 'Prise'",
            ),
            ("{\"8\":\"x\",\"35\":0} x", "line 1, column 1: expected an object"),
            ("\n {}", "line 2, column 1: a message begins with BeginString(8) and MsgType(35)"),
            (
                "{\"8\":\"x\",\"35\":0,\n\"Text\":\"a\\u0001b\"}",
                "line 2, column 1: the value of field 58 holds SOH",
            ),
            ("{\"8\":\"x\",\"35\":0,\"NoLegs\":{\"a\":1}}", "line 1, column 30: expected"),
            ("{\"8\":\"x\"", "line 1, column 9: the text ends within the message"),
            (
                "{\"time\":null,\n\"message\":{\"8\":\"x\",\"Prise\":1}}",
                "line 2, column 20: no dictionary has a field 'Prise'",
            ),
            ("{\"time\":null,\n\"x\" 1}", "line 2, column 4: expected a message, or a line as"),
        ];
        for (text, expected) in table {
            let error = to_fix(text, None).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
