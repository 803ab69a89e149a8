//! `transfix audit`: proves that the audit file is unchanged, and that both journals of a session
//! contain the same messages.

pub(crate) mod journals;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use transfix_observe::audit::{self, AuditError};

use crate::foreign;
use crate::input::failed;

/// Check that the file of operators' actions was not changed, or that a session lost no message.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Verify(Verify),
    Journals(journals::Args),
}

/// Check the chain of hashes in an audit file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix audit verify audit.jsonl
  transfix audit verify audit.jsonl --has 5f0c…      checks that a line has this hash

The file is `audit_file` of `[engine]` in the settings. Each line contains the hash of the previous
line, so the check finds each changed, removed, inserted or moved line. To find lines cut off at the
end, use `--has` with `audit_hash` of the last event `operated` in the log. The check also works
while the engine writes the file.
Exit code: 0 unchanged, 1 a line was changed, 2 wrong usage or a file that cannot be read.")]
struct Verify {
    /// The audit file to check.
    file: PathBuf,
    /// A hash that was recorded earlier; a line of the file must have this hash.
    #[arg(long, value_name = "HASH")]
    has: Option<String>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.verb {
        Verb::Verify(args) => verify(args),
        Verb::Journals(args) => journals::run(args),
    }
}

fn verify(args: &Verify) -> ExitCode {
    let path = args.file.display();
    let file = match File::open(&args.file) {
        Ok(file) => file,
        Err(error) => return failed(&format!("{path}: {error}")),
    };
    let verified = match audit::verify(BufReader::new(file), args.has.as_deref()) {
        Ok(verified) => verified,
        Err(AuditError::Line { line, why }) => {
            refused(&format!("{path}:{line}: {why}"));
            return ExitCode::FAILURE;
        }
        Err(cut @ AuditError::Cut(_)) => {
            refused(&format!("{path}: {cut}"));
            return ExitCode::FAILURE;
        }
        Err(error) => return failed(&format!("{path}: {error}")),
    };
    println!("{} lines, none changed; the hash of the last line is:", verified.lines);
    println!("{}", verified.last_hash);
    if !verified.unfinished.is_empty() {
        let lines: Vec<_> = verified.unfinished.iter().map(u64::to_string).collect();
        println!(
            "actions without a result, by line: {}; the engine ended during these actions or \
                  still carries them out",
            lines.join(", ")
        );
    }
    if verified.torn_bytes > 0 {
        println!("the last {} bytes are an incomplete line", verified.torn_bytes);
    }
    ExitCode::SUCCESS
}

/// Prints the reason why the proof failed.
fn refused(why: &str) {
    eprintln!("transfix audit verify: {}", foreign::lines(why));
}
