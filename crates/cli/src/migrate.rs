//! `transfix migrate`: converts QuickFIX settings to Transfix settings, with a report on each key.
//!
//! Invariant: no file is overwritten without `--force`. If any output file exists already, no file
//! is written.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix_quickfix::{Dialect, Migration};

use crate::foreign::lines;
use crate::input::{answered, failed};
use crate::store;

/// Convert QuickFIX settings to Transfix settings, with a report on each key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix migrate desk.cfg                            settings to standard output
  transfix migrate desk.cfg --out desk.toml            and to a file
  transfix migrate venue.cfg --dialect j --out venue.toml --report venue.report
  transfix migrate desk.cfg --out desk.toml --import-stores

The report has a line for each key: honoured, mapped with the difference, ignored with the reason,
dangerous, not carried over. The program writes the report to standard error or to the file of
--report, also after an error. In the new settings, a comment replaces each key that is not carried
over. With --out, a DataDictionary that differs little from the standard becomes an overlay beside
the new settings. Without --out, or if the dictionary differs much, the settings name the dictionary
itself. Relative paths start at the current directory, as in QuickFIX; a dictionary that is missing
there is searched beside the settings.
`transfix run desk.toml` runs the new settings, acceptors and initiators alike.
Exit code: 0 done, 1 done, but a key is dangerous or not carried over, or a store is inconsistent,
2 wrong usage, a file that cannot be read or written, or no session that can be carried over.")]
pub(crate) struct Args {
    /// Settings file of QuickFIX.
    file: PathBuf,
    /// The QuickFIX engine of the settings. Default: the engine that knows most of the keys.
    #[arg(long, value_enum, value_name = "DIALECT", ignore_case = true)]
    dialect: Option<SourceEngine>,
    /// Write the settings to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the report to this file instead of standard error.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Import the store files that the settings name.
    #[arg(long, requires = "out")]
    import_stores: bool,
}

/// An engine of the QuickFIX family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SourceEngine {
    /// QuickFIX C++
    #[value(aliases = ["c", "c++", "quickfix", "quickfix-cpp", "quickfix/c++"])]
    Cpp,
    /// QuickFIX/J
    #[value(aliases = ["java", "quickfixj", "quickfix-j", "quickfix/j"])]
    J,
    /// QuickFIX/n
    #[value(aliases = ["net", ".net", "dotnet", "csharp", "quickfixn", "quickfix-n", "quickfix/n"])]
    N,
    /// QuickFIX/Go
    #[value(aliases = ["g", "golang", "quickfixgo", "quickfix-go", "quickfix/go"])]
    Go,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let dialect = args.dialect.map(|whose| match whose {
        SourceEngine::Cpp => Dialect::Cpp,
        SourceEngine::J => Dialect::Java,
        SourceEngine::N => Dialect::Net,
        SourceEngine::Go => Dialect::Go,
    });
    let read = match &args.out {
        Some(out) => {
            let dir = out.parent().unwrap_or(Path::new(""));
            Migration::read_with_overlays(&args.file, dialect, dir)
        }
        None => Migration::read(&args.file, dialect),
    };
    let migration = match read {
        Ok(migration) => migration,
        Err(error) => return failed(&error.to_string()),
    };
    let written = write(args, &migration);
    // After an error the report is printed in any case, because it explains the error.
    if args.report.is_none() || written.is_err() {
        let _ = io::stderr().write_all(lines(&migration.report()).as_bytes());
    }
    if let Err(error) = written {
        return failed(&error);
    }
    if migration.is_empty() {
        let error = migration.settings().err().map(|error| error.to_string());
        return failed(&error.unwrap_or_default());
    }
    if args.out.is_none() && answered(&migration.toml()) != ExitCode::SUCCESS {
        return ExitCode::from(2);
    }
    let stores = stores(args, &migration);
    match stores {
        ExitCode::SUCCESS if !migration.is_sound() => ExitCode::FAILURE,
        code => code,
    }
}

/// Checks that all files can be written, and then writes them. Without a session, no settings are
/// written.
fn write(args: &Args, migration: &Migration) -> Result<(), String> {
    // An existing overlay is kept, because it has the same text and other settings may refer to it.
    let overlays = migration.overlays().iter().filter(|overlay| !overlay.path.exists());
    let overlays = overlays.map(|o| (o.path.clone(), o.text.clone()));
    let out = args.out.iter().filter(|_| !migration.is_empty());
    let out = out.map(|path| (path.clone(), migration.toml()));
    let report = args.report.iter().map(|path| (path.clone(), migration.report()));
    let files: Vec<(PathBuf, String)> = overlays.chain(out).chain(report).collect();
    check_apart(&args.file, &files)?;
    let there = files.iter().find(|(path, _)| path.exists() && !args.force);
    if let Some((path, _)) = there {
        return Err(format!("{} already exists; add --force to overwrite it", path.display()));
    }
    for (path, text) in &files {
        // Without `--force`, a file that was created after the check above is not overwritten.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(!args.force).create(true).truncate(args.force);
        // If the file contains a password, only its owner may read it, as `transfix settings check`
        // requires.
        if text.contains("password = \"") {
            options.mode(0o600);
        }
        let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns an error if two outputs are the same file, or an output is the input.
fn check_apart(from: &Path, files: &[(PathBuf, String)]) -> Result<(), String> {
    let whole = |path: &Path| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = fs::canonicalize(dir.unwrap_or(Path::new("."))).unwrap_or_default();
        fs::canonicalize(path).unwrap_or_else(|_| dir.join(path.file_name().unwrap_or_default()))
    };
    let mut known = vec![whole(from)];
    for (path, _) in files {
        let path = whole(path);
        if known.contains(&path) {
            let path = path.display();
            let why = "the file is already the input or another output";
            return Err(format!("{path}: {why}; name another one"));
        }
        known.push(path);
    }
    Ok(())
}

/// With `--import-stores`, imports the stores that the settings name; otherwise reports that they
/// can be imported.
fn stores(args: &Args, migration: &Migration) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for found in migration.stores() {
        let (dir, session) = (found.dir.display(), &found.session);
        if !found.dir.join(format!("{session}.body")).exists() {
            if args.import_stores {
                let _ = writeln!(io::stderr(), "transfix: {dir} has no store files of {session}");
            }
            continue;
        }
        if args.import_stores {
            let imported = store::import_found(migration.dialect(), found);
            code = if imported == ExitCode::SUCCESS { code } else { imported };
            continue;
        }
        let to = found.to.display();
        let _ = writeln!(
            io::stderr(),
            "transfix: {dir} has the store of {session}; add --import-stores to import it into {to}"
        );
    }
    code
}
