//! `transfix settings`: checks, shows and explains settings files.

mod show;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use transfix::{Review, Settings, clock};

use crate::administered;
use crate::foreign;
use crate::input::{answered, failed};
use crate::schedule;
use crate::suits::suited;

const EXAMPLES: &str = "\
Examples:
  transfix settings check venue.toml
  transfix settings check venue.toml --strict    for a pipeline: warnings are errors too
  transfix settings check venue.toml --program   for your own program

The last lines of the output name the verbs that can run a file without errors. Run the check on the
engine's machine and as its user, because the check examines certificates, dictionaries, CPUs,
addresses and directories. The check opens no port and no store, so it finds no port in use and no
damaged store (use `transfix store verify`). Example of the output:
  error: venue.toml:7: unknown key `heart_bt_int`; did you mean `heart_bt_int_s`?
  warning: venue.toml:4: FIX.4.4:A->B: address: messages and passwords go over the network as ...

Exit code: 0 no errors, 1 errors, or with --strict warnings, 2 wrong usage or a file that cannot be
read.";

const SCHEMA: &str = "\
Example:
  transfix settings schema > settings.schema.json

Editors with Taplo, such as Visual Studio Code with Even Better TOML, complete and check a settings
file that begins with this line:
  #:schema ./settings.schema.json

Exit code: 0 done, 2 wrong usage, or standard output cannot be written.";

/// Check, show and explain settings files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 done, 1 an error was found, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Report all errors and dangerous settings of a settings file, and the times at which its
    /// sessions open next.
    Check(Check),
    /// Show each key with the value in force, and where the value comes from.
    Show(show::Args),
    /// Explain the keys of a settings file: all of them, one table, or one key.
    Reference(Reference),
    /// Write a JSON Schema, with which editors complete and check settings files.
    #[command(after_help = SCHEMA)]
    Schema,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix settings reference                    everything, in the order of the book
  transfix settings reference tls                one table
  transfix settings reference heart_bt_int_s     one key
  transfix settings reference tls.min_version    one key of one table

Exit code: 0 done, 1 there is no such key or table, 2 wrong usage.")]
struct Reference {
    /// A table or a key.
    #[arg(value_name = "TABLE or KEY")]
    of: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct Check {
    /// Settings file.
    settings: PathBuf,
    /// Return exit code 1 also for warnings.
    #[arg(long)]
    strict: bool,
    /// Check the file for your own program, which may poll its sessions and use its own stores.
    #[arg(long)]
    program: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.verb {
        Verb::Check(args) => check(args),
        Verb::Show(args) => show::run(args),
        Verb::Schema => answered(&Settings::schema()),
        Verb::Reference(args) => match transfix_quickfix::reference(args.of.as_deref()) {
            Ok(text) => answered(&text),
            Err(why) => {
                eprintln!("transfix: {}", foreign::lines(&why.to_string()));
                ExitCode::FAILURE
            }
        },
    }
}

fn check(check: &Check) -> ExitCode {
    let (mut text, mut errors, mut warnings) = (String::new(), Vec::new(), Vec::new());
    match Settings::load_or_all_errors(&check.settings) {
        Ok(settings) => {
            let review = Review::of(&settings);
            (errors, warnings) = (review.errors, review.warnings);
            // The check of the engine does not read the users file, so the administration checks it
            // here.
            let of_admin = administered::errors(&settings);
            let new = of_admin.into_iter().filter(|error| !errors.contains(error));
            errors.extend(new.collect::<Vec<_>>());
            if !check.program {
                errors.extend(review.needs_program);
            }
            text = opens(&settings);
            if errors.is_empty() && !check.program {
                let calls = suited(&check.settings, &settings);
                text += &format!("starts with {}\n", calls.join(" or "));
            }
        }
        Err(found) => {
            // A single error without a line means that the file cannot be read.
            if let [error] = &found[..]
                && error.line().is_none()
            {
                return failed(&error.to_string());
            }
            errors.extend(found.iter().map(ToString::to_string));
        }
    }
    let said = |kind, all: &[String]| {
        all.iter().fold(String::new(), |text, one| format!("{text}{kind}: {one}\n"))
    };
    let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let text = format!(
        "{}{}{text}{}: {}, {}\n",
        said("error", &errors),
        said("warning", &warnings),
        check.settings.display(),
        counted(errors.len(), "error"),
        counted(warnings.len(), "warning"),
    );
    let done = answered(&text);
    let is_good = errors.is_empty() && (warnings.is_empty() || !check.strict);
    if is_good { done } else { ExitCode::FAILURE }
}

/// Returns the times at which the sessions open or close next; sessions with the same time share a
/// line.
fn opens(settings: &Settings) -> String {
    let now = clock::now().utc;
    let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for session in &settings.sessions {
        // The check of the file already reports an invalid schedule.
        let next = schedule::next(session, now).unwrap_or_default();
        alike.entry(next).or_default().push(session.id().to_string());
    }
    alike.iter().fold(String::new(), |mut text, (next, ids)| {
        let others = match ids.len() {
            1 => String::new(),
            2 => " and 1 other".to_owned(),
            n => format!(" and {} others", n - 1),
        };
        // Writing to a `String` never fails.
        let _ = writeln!(text, "{}{others}: {next}", ids[0]);
        text
    })
}
