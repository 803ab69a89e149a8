//! `transfix convert`: converts messages to JSON and back without loss, and to Parquet.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::{Mask, Tag};
use transfix_codec::FieldIndex;
use transfix_text::convert::{self, Objects};

use crate::input::{
    self, Choice, Delimiter, Dictionaries, Failure, InputError, InputMessage, Place, Sink, ended,
};

const EXAMPLES: &str = "\
Examples:
  transfix convert --to json today.log               one JSON object a line, with names
  transfix convert --to json --tags capture.bin      with tags instead of names
  transfix convert --to fix orders.json              the bytes of the messages
  transfix convert --to fix --delimiter pipe - <a.json   readable, one message a line
  transfix convert --to parquet log >log.parquet     all logs and stores in a directory, as a table
  transfix convert --to json a.fix | transfix convert --to fix - | cmp - a.fix

`--to parquet` needs a program built with `--features parquet`; the packages have it.

The JSON contains BodyLength(9) and CheckSum(10) only if they are wrong; `--to fix` computes them if
they are missing. Text around the messages of a log is not converted. A message whose value contains
the requested delimiter is omitted, and standard error reports this message. Messages of a file are
written unchanged, including passwords, unless --mask is given. For a store, its .seg files and a
directory, passwords are shown as stars.

Exit code: 0 done, 1 a message was garbled or omitted, 2 wrong usage or input that cannot be
read.";

/// Converts messages to JSON and back, and to Parquet.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The output format.
    #[arg(long, value_enum)]
    to: Format,
    /// A file, or `-` for standard input. JSON and Parquet also accept the directory of a store,
    /// and Parquet a directory of logs and stores.
    file: PathBuf,
    /// Delimiter between fields. Default: SOH for `--to fix`, detected for `--to json`.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    /// Writes tags instead of names, and writes groups as separate fields.
    #[arg(long)]
    tags: bool,
    /// Writes passwords and the values of these tags as stars; separate several tags by commas.
    #[arg(long, value_name = "TAG", value_delimiter = ',', value_parser = input::tag)]
    mask: Vec<Tag>,
    #[command(flatten)]
    dictionary: Choice,
}

impl Args {
    /// Returns the fields to hide. Without `--mask`, the conversion of a file hides nothing and is
    /// therefore lossless. A store always hides passwords.
    fn mask(&self) -> Option<Mask> {
        let is_store = self.file.is_dir() || input::is_segment(&self.file);
        (is_store || !self.mask.is_empty()).then(|| Mask::of(self.mask.iter().copied()))
    }
}

/// Output format of `convert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One JSON object in each line.
    Json,
    /// FIX messages in the form tag=value.
    Fix,
    /// A table for programs such as DuckDB or pandas, with a row for each message.
    Parquet,
}

/// Converts the messages of the input to the requested format.
pub(crate) fn run(args: &Args) -> ExitCode {
    let code = |wrong| if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    ended(match args.to {
        Format::Json => to_json(args).map(code),
        Format::Fix => to_fix(args).map(code),
        Format::Parquet => to_parquet(args),
    })
}

/// Writes the input messages as JSON. Returns the number of garbled messages.
fn to_json(args: &Args) -> Result<u64, Failure> {
    let dictionaries = args.dictionary.load().map_err(Failure::Read)?;
    let mut sink = ToJson::new(dictionaries, args.tags, BufWriter::new(io::stdout().lock()));
    let mask = args.mask();
    input::read(&args.file, args.delimiter.map(Into::into), mask.as_ref(), &mut sink)?;
    sink.out.flush()?;
    Ok(sink.garbled)
}

#[cfg(feature = "parquet")]
fn to_parquet(args: &Args) -> Result<ExitCode, Failure> {
    use std::io::IsTerminal as _;

    use transfix_text::logs::{Sources, parquet};

    use crate::show::count;

    if args.tags {
        let text = "--tags has no effect, because --to parquet always writes the fields by tag; \
                    remove --tags";
        return Err(Failure::Read(text.to_owned()));
    }
    let out = io::stdout();
    if out.is_terminal() {
        let text = "--to parquet cannot write to a terminal; add `>FILE.parquet` to the command";
        return Err(Failure::Read(text.to_owned()));
    }
    let dictionaries = args.dictionary.load().map_err(Failure::Read)?;
    let (delimiter, shown) = (args.delimiter.map(Into::into), (dictionaries, args.mask()));
    let mut report = crate::logs::report();
    let sources = Sources::of(std::slice::from_ref(&args.file));
    sources.tell(&mut report);
    parquet::write(&sources.all, delimiter, shown, &mut report, out)?;
    crate::logs::say(&report, Some(&count(report.messages(), "message")));
    Ok(match (report.has_failed(), report.garbled_messages()) {
        (true, _) => ExitCode::from(2),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

#[cfg(not(feature = "parquet"))]
fn to_parquet(_: &Args) -> Result<ExitCode, Failure> {
    Err(Failure::Read(
        "--to parquet: this program was built without Parquet; use the program of the Debian \
         package or the container, or build one: `cargo build --release -p transfix-cli \
         --features parquet`"
            .to_owned(),
    ))
}

/// Writes messages as JSON, and counts the garbled messages.
pub(crate) struct ToJson<W> {
    out: W,
    pub(crate) objects: Objects,
    index: FieldIndex,
    pub(crate) garbled: u64,
}

impl<W: Write> ToJson<W> {
    /// Creates a writer. If `tags` is true, the JSON has tags instead of names.
    pub(crate) fn new(dictionaries: Dictionaries, tags: bool, out: W) -> Self {
        let index = dictionaries.index();
        Self { out, objects: Objects::new(dictionaries, tags), index, garbled: 0 }
    }

    /// Reports a faulty input message, and counts it as garbled.
    pub(crate) fn judge(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        match found.fault(&mut self.index) {
            Some(wrong) => self.garbled(found.place, wrong),
            None => Ok(()),
        }
    }
}

impl<W: Write> Sink for ToJson<W> {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.judge(found)?;
        if let Some(text) = self.objects.text(found.bytes)? {
            self.out.write_all(text.as_bytes())?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.garbled += 1;
        let _ = writeln!(io::stderr(), "{place}: {wrong}");
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

/// Reads JSON objects and writes FIX messages. Returns the number of skipped objects.
fn to_fix(args: &Args) -> Result<u64, Failure> {
    let dictionaries = args.dictionary.load().map_err(Failure::Read)?;
    let mask = args.mask();
    let path = args.file.display();
    let mut file: Box<dyn Read> = if args.file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else if args.file.is_dir() {
        return Err(Failure::Read(format!(
            "{path} is a directory, but --to fix reads a file of \
            JSON; name a file"
        )));
    } else {
        let file = File::open(&args.file);
        Box::new(file.map_err(|error| Failure::Read(format!("{path}: {error}")))?)
    };
    let form = (args.delimiter.map(Into::into), mask.as_ref());
    let mut left_out = 0;
    let out = BufWriter::new(io::stdout().lock());
    convert::to_fix(&mut file, form, dictionaries, out, &mut |line, why| {
        left_out += 1;
        let _ = writeln!(io::stderr(), "line {line}: left out: {why}");
    })?;
    Ok(left_out)
}
