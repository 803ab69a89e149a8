//! `transfix print`: prints messages with the names from their dictionary.
//!
//! Invariant: a damaged message is printed as far as possible, and marked as damaged.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use transfix::Timestamp;
use transfix_dictionary::nearest;
use transfix_text::print::Palette;
use transfix_text::printer::{self, Printer};

use crate::input::{
    self, Choice, Delimiter, Dictionaries, Failure, Masking, Sink, ended, failed, msg_types,
};

const EXAMPLES: &str = "\
Examples:
  transfix print FIX.4.4-VENUE-CLIENT.messages.log   a log, delimited by SOH, |, ; or ^A
  transfix print --one-line --summary *.log          one line for each message, and counts at the
end
  transfix print --type 8 --where 55=EU --where Side=BUY today.log
  transfix print --from 20261121-09:28:00 --to 20261121-09:30:00 today.log
  transfix print store/venue/FIX.4.4-VENUE-CLIENT    the journal of a store
  transfix print --mask 1,448 today.log              with the values of two fields as stars
  transfix print --dictionary venue.xml order.txt    with the names of your own dictionary
  tail -f today.log | transfix print -               new messages as they are written

If CheckSum(10) proves that a delimiter belongs to a value, the delimiter is read as part of the
value. If this cannot be decided, the message is marked and counts as garbled. Values are shown
unchanged, except for invisible or misleading characters: a line break is \\n, other control
characters and bytes that are not UTF-8 are \\xNN, direction marks are \\u{NNNN}, and a backslash is
\\\\. Tags and types in Text(58) of a reject are shown with their names: Side(54).

Exit code: 0 done, 1 a message was garbled, 2 wrong usage or input that cannot be read.";

/// Shows messages of captures, logs or stores with names instead of tags.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, directories of stores, their `.seg` files, or `-` for the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Delimiter between fields. Default: detected for each message.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    /// Prints each message in one line, without header and trailer.
    #[arg(long)]
    one_line: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    dictionary: Choice,
    #[command(flatten)]
    masking: Masking,
    /// Also prints the number of messages by type at the end.
    #[arg(long)]
    summary: bool,
    /// Use of colours; `auto` uses colours on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

/// Choice when the output is colored.
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

    /// Returns the colors of the output. `is_terminal` is true if the output is a terminal,
    /// `wants_none` if the user disables colors.
    const fn palette_for(self, is_terminal: bool, wants_none: bool) -> &'static Palette {
        match self {
            Self::Always => &Palette::ANSI,
            Self::Auto if is_terminal && !wants_none => &Palette::ANSI,
            Self::Auto | Self::Never => &Palette::PLAIN,
        }
    }
}

/// Which messages.
#[derive(clap::Args, Clone, Debug, Default)]
struct Selection {
    /// Only messages of this type, such as D or NewOrderSingle; several with commas.
    #[arg(long = "type", value_name = "MSGTYPE", value_delimiter = ',')]
    msg_types: Vec<String>,
    /// Only messages from this time on, in UTC, such as 20261121-09:28:25. The time of a message is
    /// that of its log line or store record, otherwise SendingTime(52).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Only messages up to this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Only messages with this value in this field, such as 55=EU, Side=BUY or 54=1; a message must
    /// meet all conditions.
    #[arg(long = "where", value_name = "TAG=VALUE", value_parser = condition)]
    conditions: Vec<Condition>,
}

/// A field and a value as written by the user, before their names are looked up.
#[derive(Clone, Debug)]
struct Condition {
    name: String,
    value: String,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let time = Timestamp::parse(text.as_bytes());
    time.ok_or_else(|| "write a time in UTC, such as 20261121-09:28:25".to_owned())
}

fn condition(text: &str) -> Result<Condition, String> {
    let (name, value) = text.split_once('=').ok_or("write TAG=VALUE, such as 55=EU")?;
    Ok(Condition { name: name.to_owned(), value: value.to_owned() })
}

/// Returns the error for a name that belongs to no field.
fn unknown(name: &str, dictionaries: &mut Dictionaries) -> String {
    let names = dictionaries.field_names();
    let near = nearest(name, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    format!("--where: no dictionary has a field '{name}'{near}")
}

impl Selection {
    /// Looks up the field and message names of the options in the dictionaries.
    fn resolved(&self, dictionaries: &mut Dictionaries) -> Result<printer::Selection, String> {
        let mut fields = Vec::new();
        for Condition { name, value } in &self.conditions {
            let tag = name.parse().ok().or_else(|| dictionaries.tag_named(name));
            let tag = tag.ok_or_else(|| unknown(name, dictionaries))?;
            fields.push((tag, value.clone()));
        }
        let msg_types = msg_types(&self.msg_types, dictionaries)?;
        Ok(printer::Selection { msg_types, from: self.from, to: self.to, fields })
    }
}

/// Prints the messages of all files that the user names.
pub(crate) fn run(args: &Args) -> ExitCode {
    let selected = args.dictionary.load().and_then(|mut dictionaries| {
        let selection = args.selection.resolved(&mut dictionaries)?;
        Ok((dictionaries, selection))
    });
    let (dictionaries, selection) = match selected {
        Ok(selected) => selected,
        Err(error) => return failed(&error),
    };
    let out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer::new(out, dictionaries, args.color.palette()).choosing(selection);
    printer.one_line = args.one_line;
    let done = files(args, &mut printer);
    end(printer, args.summary, done)
}

/// Prints the messages that `read` passes to the printer, and returns the exit code.
pub(crate) fn print(
    dictionary: &Choice,
    (one_line, summary): (bool, bool),
    read: impl FnOnce(&mut dyn Sink) -> Result<(), Failure>,
) -> ExitCode {
    let dictionaries = match dictionary.load() {
        Ok(dictionaries) => dictionaries,
        Err(error) => return failed(&error),
    };
    let out = BufWriter::new(io::stdout().lock());
    let mut printer = Printer::new(out, dictionaries, Color::Auto.palette());
    printer.one_line = one_line;
    let done = read(&mut printer);
    end(printer, summary, done)
}

/// Prints all files; after an unreadable file, the next file is printed.
fn files(args: &Args, printer: &mut Printer<impl Write>) -> Result<(), Failure> {
    let (mask, delimiter) = (args.masking.mask(), args.delimiter.map(Into::into));
    let mut unreadable = Vec::new();
    for path in &args.files {
        if args.files.len() > 1 {
            printer.begin_file(path.as_os_str().as_encoded_bytes())?;
        }
        match input::read(path, delimiter, mask.as_ref(), printer) {
            Err(Failure::Read(error)) => unreadable.push(error),
            other => other?,
        }
    }
    match unreadable.is_empty() {
        true => Ok(()),
        false => Err(Failure::Read(unreadable.join("\ntransfix: "))),
    }
}

/// Prints the summary and the report, and returns the exit code.
fn end(mut printer: Printer<impl Write>, has_summary: bool, done: Result<(), Failure>) -> ExitCode {
    let done = done.and_then(|()| {
        if has_summary {
            let summary = printer.summary();
            printer.out.write_all(summary.as_bytes())?;
        }
        Ok(printer.out.flush()?)
    });
    let garbled = printer.garbled_messages();
    let report = printer.report();
    let say = || _ = io::stderr().write_all(report.as_bytes());
    match done {
        Ok(()) | Err(Failure::Enough) => {
            say();
            if garbled > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS }
        }
        Err(Failure::Read(error)) => {
            let _ = printer.out.flush();
            if printer.messages + garbled > 0 {
                say();
            }
            failed(&error)
        }
        done => ended(done.map(|()| ExitCode::SUCCESS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
