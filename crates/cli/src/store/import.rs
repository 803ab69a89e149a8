//! `transfix store import`: converts the store of another engine into a new store.
//!
//! Invariant: the new store has a temporary name until it is complete.

mod logged;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::{MsgType, Timestamp, clock, tag};
use transfix_quickfix::store::{self as quickfix, StoredSession};
use transfix_quickfix::{Dialect, ForeignStore};
use transfix_store::{Durability, FileStore, Kind, Options, Record, Store, StoreError};

use super::select::value;
use super::{count, ended, refused, say, set_next};
use crate::foreign;
use crate::input::{failed, holds_store};

/// Convert the store of another engine to a Transfix store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix store import --from quickfix-cpp old/store --to store/FIX.4.4-VENUE-CLIENT
  transfix store import --from quickfixj old/store --session FIX.4.4-VENUE-CLIENT \\
    --log old/log/FIX.4.4-VENUE-CLIENT.messages.log --to store/FIX.4.4-VENUE-CLIENT
  transfix store import --from quickfixgo old/store --to store/new --in 17 --out 6

Reads the .body, .header, .session and number files of a FileStore (QuickFIX/J: also of a
CachedFileStore). These files contain only the sent messages, not the received messages. The import
checks the header, CheckSum(10) and MsgSeqNum(34) of each message. It also compares the next numbers
with the messages and, with --log, with the last messages in the log. After a difference nothing is
written, unless --in and --out set the next numbers. The engine finds the store if it is in
`store_dir` and called BeginString-SenderCompID-TargetCompID.
Exit code: 0 done, 1 a difference was found, 2 wrong usage or a file that cannot be read or
written.")]
pub(crate) struct Args {
    /// The engine that wrote the store.
    #[arg(long, value_enum)]
    from: Origin,
    /// The directory with the store files of that engine.
    dir: PathBuf,
    /// The session, if the directory has several: the name of its files without the extension.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The message log of that engine, to compare with the store.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The directory of the new store, which must not exist yet.
    #[arg(long, value_name = "STORE")]
    to: PathBuf,
    /// MsgSeqNum(34) expected next from the counterparty, instead of the number in the files.
    #[arg(long = "in", value_name = "N", value_parser = set_next::number(), requires = "next_out")]
    next_in: Option<u64>,
    /// MsgSeqNum(34) of the next message sent, instead of the number in the files.
    #[arg(long = "out", value_name = "M", value_parser = set_next::number(), requires = "next_in")]
    next_out: Option<u64>,
}

/// The engine that wrote the file store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Origin {
    /// QuickFIX C++, FileStore.
    QuickfixCpp,
    /// QuickFIX/J, FileStore and CachedFileStore.
    Quickfixj,
    /// QuickFIX/n, FileStore.
    Quickfixn,
    /// QuickFIX/Go, file store.
    Quickfixgo,
}

impl Origin {
    /// Returns the value of the option `--from` for this engine.
    const fn name(self) -> &'static str {
        match self {
            Self::QuickfixCpp => "quickfix-cpp",
            Self::Quickfixj => "quickfixj",
            Self::Quickfixn => "quickfixn",
            Self::Quickfixgo => "quickfixgo",
        }
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::QuickfixCpp => Dialect::Cpp,
            Self::Quickfixj => Dialect::Java,
            Self::Quickfixn => Dialect::Net,
            Self::Quickfixgo => Dialect::Go,
        }
    }
}

/// Maximum number of printed differences; further differences are only counted.
const DIFFERENCES_MAX: usize = 10;

pub(super) fn run(args: &Args) -> ExitCode {
    let (session, mut store) = match read(args) {
        Ok(read) => read,
        Err(error) => return failed(&error),
    };
    let shown = foreign::Foreign(&session);
    if let Some(log) = &args.log
        && let Err(error) = logged::compare(log, &session, &mut store)
    {
        return failed(&error);
    }
    for difference in store.differences.iter().take(DIFFERENCES_MAX) {
        eprintln!("{shown}: {}", foreign::lines(difference));
    }
    let more = store.differences.len().saturating_sub(DIFFERENCES_MAX);
    if more > 0 {
        eprintln!("{shown}: and {more} more");
    }
    let (next_in, next_out) =
        match (args.next_in.zip(args.next_out), store.next_in.zip(store.next_out)) {
            (Some(said), _) => said,
            (None, Some(found)) if store.differences.is_empty() => found,
            _ => {
                let text =
                    |number: Option<u64>| number.map_or("unknown".to_owned(), |n| n.to_string());
                return refused(format!(
                    "{shown}: next_in {} and next_out {} are not certain, so nothing was written. \
                     Agree on the numbers with the counterparty, then add --in N --out M",
                    text(store.next_in),
                    text(store.next_out),
                ));
            }
        };
    let note = format!(
        "imported by {} from {} {}/{session}, {}",
        set_next::author(),
        args.from.name(),
        args.dir.display(),
        count(store.differences.len() as u64, "difference"),
    );
    match write(&args.to, &store, (next_in, next_out), &note) {
        Ok(()) => ended(
            say(format!(
                "{}: {}, next_in {next_in}, next_out {next_out}",
                args.to.display(),
                count(store.messages.len() as u64, "message"),
            ))
            .map(|()| ExitCode::SUCCESS),
        ),
        Err(error) => failed(&error.to_string()),
    }
}

/// Imports a store of QuickFIX whose location comes from converted settings, if its numbers are
/// consistent.
pub(super) fn found(dialect: Dialect, found: &ForeignStore) -> ExitCode {
    run(&Args {
        from: match dialect {
            Dialect::Cpp => Origin::QuickfixCpp,
            Dialect::Java => Origin::Quickfixj,
            Dialect::Net => Origin::Quickfixn,
            Dialect::Go => Origin::Quickfixgo,
        },
        dir: found.dir.clone(),
        session: Some(found.session.clone()),
        log: None,
        to: found.to.clone(),
        next_in: None,
        next_out: None,
    })
}

/// Reads the store files. Returns the name of the session and the content of its store.
fn read(args: &Args) -> Result<(String, StoredSession), String> {
    let dir = args.dir.display();
    if args.to.exists() {
        return Err(format!("{} already exists; name a new directory", args.to.display()));
    }
    if !args.dir.is_dir() {
        return Err(format!("{dir}: no such directory; name the directory with the store files"));
    }
    if holds_store(&args.dir) {
        return Err(format!("{dir}: this is already a store of Transfix"));
    }
    let unreadable = |error: io::Error| format!("{dir}: {error}");
    let all = quickfix::sessions(&args.dir).map_err(unreadable)?;
    let session = match (&args.session, &all[..]) {
        (Some(named), all) if all.contains(named) => named.clone(),
        (None, [only]) => only.clone(),
        (_, []) => return Err(format!("{dir}: the directory has no .body file")),
        (_, all) => {
            let all: Vec<_> = all.iter().map(|one| foreign::Foreign(one).to_string()).collect();
            return Err(format!("{dir}: choose a session with --session: {}", all.join(", ")));
        }
    };
    let store = quickfix::read(args.from.dialect(), &args.dir, &session).map_err(unreadable)?;
    Ok((session, store))
}

/// Number of messages that are committed together.
const BATCH: usize = 1024;

/// Writes the store under a temporary name, then renames its directory.
fn write(
    to: &Path,
    foreign: &StoredSession,
    (next_in, next_out): (u64, u64),
    note: &str,
) -> Result<(), StoreError> {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".importing");
    let unfinished = to.with_file_name(name);
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StoreError::Io { path, source }
    };
    let mut dirs = DirBuilder::new();
    dirs.mode(0o700).recursive(true);
    dirs.create(to.parent().unwrap_or(Path::new(""))).map_err(io(to))?;
    dirs.recursive(false).create(&unfinished).map_err(io(&unfinished))?;
    let now = clock::now().utc;
    let created = foreign.created.unwrap_or(now);
    let options = Options { durability: Durability::Power, ..Options::default() };
    let (mut store, _) = FileStore::open(&unfinished, options, ns(created))?;
    for (n, (&seq, range)) in foreign.messages.iter().enumerate() {
        let bytes = &foreign.body[range.clone()];
        let msg_type = value(bytes, tag::MSG_TYPE.0).unwrap_or_default();
        let application = MsgType::of(msg_type).is_application();
        let kind = if application { Kind::Application } else { Kind::Admin };
        let sent = value(bytes, tag::SENDING_TIME.0).and_then(Timestamp::parse);
        store.put(ns(sent.unwrap_or(created)), Record::Outbound { seq, kind, bytes })?;
        if n % BATCH == BATCH - 1 {
            store.commit()?;
        }
    }
    store.put(ns(now), Record::Note(note))?;
    store.put(ns(now), Record::NextIn(next_in))?;
    store.put(ns(now), Record::NextOut(next_out))?;
    store.commit()?;
    drop(store);
    fs::rename(&unfinished, to).map_err(io(to))?;
    let parent = to.parent().filter(|path| !path.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(io(parent))
}

const fn ns(time: Timestamp) -> u64 {
    time.0.unsigned_abs()
}
