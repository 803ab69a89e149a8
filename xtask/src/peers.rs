//! `cargo xtask peers`: tests Transfix with other FIX engines (peers) as counterparties.
//!
//! - `build` compiles the programs under `bench/peers/`.
//! - `stores` tests the stores in databases with real servers.
//! - `migrate` trades with QuickFIX, using settings migrated from QuickFIX.
//! - `tls` trades over TLS with QuickFIX/J and `openssl`.
//! - `programs` runs the tests whose counterparty is a program such as haproxy.
//! - `acceptors` proves the claims of `acceptors.json` about other engines' acceptors.
//! - `test` plays one session between Transfix and such a program in both roles and in several
//!   versions, and compares every message field by field.
//!
//! Each side is a process that implements the protocol in `bench/peers/README.md`. **Invariant:**
//! no fixed port, no sleep; no child process outlives the test.

mod acceptors;
mod codecs;
mod compare;
mod message;
mod migrate;
mod play;
mod process;
mod programs;
mod tls;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use play::Case;

/// The result of a step, or an error text for the terminal.
type Outcome<T> = Result<T, String>;

const USAGE: &str = "\
usage: cargo xtask peers build [--without-acceptors]
       cargo xtask peers acceptors [--only PART-OF-A-LINE]
       cargo xtask peers stores
       cargo xtask peers migrate
       cargo xtask peers programs
       cargo xtask peers tls
       cargo xtask peers test [--ours transfix|quickfix|PROGRAM] [--dictionaries FOLDER]
                              [--orders N] [--only PART-OF-A-CASE]";

/// Path of a QuickFIX header if QuickFIX is installed from the system's package.
const QUICKFIX_HEADER: &str = "/usr/include/quickfix/Session.h";
const QUICKFIX_PACKAGE: &str = "libquickfix-dev";
/// The server for the tests of stores in NATS JetStream, as a Go module.
const NATS: &str = "github.com/nats-io/nats-server/v2@v2.15.3";

/// `BeginString(8)` and `DefaultApplVerID(1137)` of each tested version.
const VERSIONS: [(&str, &str); 3] = [("FIX.4.2", ""), ("FIX.4.4", ""), ("FIXT.1.1", "9")];

/// Runs `peers <arguments>`. The exit code is 1 if a test or build failed, and 2 if the arguments
/// were wrong.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    let (verb, rest) = arguments.split_first().map_or(("", &[][..]), |(v, r)| (v.as_str(), r));
    let outcome = match verb {
        "build" if rest.is_empty() => build(true),
        "build" if matches!(rest, [option] if option == "--without-acceptors") => build(false),
        "acceptors" if matches!(rest, []) => acceptors::prove(""),
        "acceptors" if matches!(rest, [key, _] if key == "--only") => acceptors::prove(&rest[1]),
        "stores" if rest.is_empty() => stores(),
        "migrate" if rest.is_empty() => migrate::prove(),
        "programs" if rest.is_empty() => programs::test(),
        "tls" if rest.is_empty() => tls::prove(),
        "test" => match Options::read(rest) {
            Ok(options) => test(&options),
            Err(text) => return misuse(&text),
        },
        _ => return misuse("no such verb"),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            say(&format!("error: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Builds all counterparties. A counterparty that cannot be built is reported and does not count as
/// a failure.
fn build(with_acceptors: bool) -> Outcome<()> {
    let folder = build_quickfix()?;
    let codecs = codecs::build(&folder);
    let acceptors = if with_acceptors { acceptors::build(&folder)? } else { Vec::new() };
    codecs.into_iter().chain(acceptors).for_each(|missing| say(&missing));
    say(&format!("{}", folder.display()));
    Ok(())
}

/// Runs the tests of the package `stores`, which is not part of the workspace.
fn stores() -> Outcome<()> {
    for (program, package) in [("pg_ctl", "postgresql"), ("redis-server", "redis-server")] {
        let debians = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = debians.map(|version| version.path().join("bin")).collect();
        folders.extend(path());
        if !folders.iter().any(|folder| folder.join(program).exists()) {
            return Err(format!("{program} is missing; apt-get install {package}"));
        }
    }
    let tools = root().join("target/tools/bin");
    install_nats(&tools)?;
    let path = env::join_paths(path().into_iter().chain([tools]));
    let path = path.map_err(|error| format!("PATH: {error}"))?;
    let manifest = root().join("stores/Cargo.toml");
    let mut command = Command::new("cargo");
    command.arg("test").arg("--manifest-path").arg(manifest).env("PATH", path);
    let status = command.env("CARGO_TARGET_DIR", target().join("stores")).status();
    match status.map_err(|error| format!("cargo: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("the tests of the stores: {status}")),
    }
}

/// Returns the path of the NATS server, which is installed unless it is there.
pub(crate) fn nats_server() -> Outcome<PathBuf> {
    let tools = root().join("target/tools/bin");
    install_nats(&tools)?;
    let all = iter::once(tools).chain(path()).map(|folder| folder.join("nats-server"));
    all.into_iter().find(|file| file.exists()).ok_or_else(|| "nats-server is missing".to_owned())
}

/// Installs the NATS server into `folder`, unless it is there or on the path.
fn install_nats(folder: &Path) -> Outcome<()> {
    let is_there = |folder: &Path| folder.join("nats-server").exists();
    if is_there(folder) || path().iter().any(|folder| is_there(folder)) {
        return Ok(());
    }
    let mut go = Command::new("go");
    go.args(["install", NATS]).env("GOBIN", folder);
    match go.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("go install {NATS}: {status}")),
        Err(error) => Err(format!(
            "go: {error}; install Go 1.25 or later, or put nats-server 2.12 or later on the PATH"
        )),
    }
}

/// Returns the folders of the environment variable PATH.
fn path() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

fn misuse(text: &str) -> ExitCode {
    say(&format!("error: {text}\n{USAGE}"));
    ExitCode::from(2)
}

/// Prints one line, and ignores errors such as a closed terminal.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

struct Options {
    ours: String,
    dictionaries: PathBuf,
    orders: usize,
    only: String,
}

impl Options {
    fn read(arguments: &[String]) -> Outcome<Self> {
        let mut options = Self {
            ours: "transfix".to_owned(),
            dictionaries: root().join("dictionaries"),
            orders: 1000,
            only: String::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(key) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("no value for {key}"))?;
            match key.as_str() {
                "--ours" => options.ours.clone_from(value),
                "--dictionaries" => options.dictionaries = absolute(value)?,
                "--orders" => options.orders = orders(value)?,
                "--only" => options.only.clone_from(value),
                _ => return Err(format!("unknown option {key}")),
            }
        }
        Ok(options)
    }
}

/// The number of orders must be a multiple of four, because they are sent in four parts.
fn orders(text: &str) -> Outcome<usize> {
    match text.parse() {
        Ok(count) if count >= 4 && count % 4 == 0 => Ok(count),
        _ => Err(format!("--orders is a multiple of 4, not {text}")),
    }
}

fn absolute(path: &str) -> Outcome<PathBuf> {
    fs::canonicalize(path).map_err(|error| format!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Compiles the QuickFIX counterparties into `target/peers/`. Returns the path of that directory.
pub(crate) fn build_quickfix() -> Outcome<PathBuf> {
    // If QUICKFIX_CFLAGS is set, the Makefile uses the user's own QuickFIX.
    if env::var_os("QUICKFIX_CFLAGS").is_none() && !Path::new(QUICKFIX_HEADER).exists() {
        install_quickfix()?;
    }
    let folder = target().join("peers");
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(root().join("bench/peers/quickfix"))
        .arg(format!("OUT={}", folder.display()));
    run(&mut make)?;
    Ok(folder)
}

fn install_quickfix() -> Outcome<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root || !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!(
            "QuickFIX C++ is missing: install {QUICKFIX_PACKAGE} (Debian, Ubuntu), or set \
             QUICKFIX_CFLAGS and QUICKFIX_LIBS to a QuickFIX of your own"
        ));
    }
    for arguments in [
        &["update", "-qq"][..],
        &["install", "-y", "-qq", "--no-install-recommends", "make", "g++", QUICKFIX_PACKAGE],
    ] {
        run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(arguments))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Outcome<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} failed: {status}")),
        Err(error) => Err(format!("cannot run {name}: {error}")),
    }
}

/// Runs every case, even after a failure. Fails at the end if any case failed.
fn test(options: &Options) -> Outcome<()> {
    let theirs = vec![build_quickfix()?.join("qf_peer").display().to_string()];
    let ours = our_program(options, &theirs)?;
    let mut played = 0;
    let mut failed = Vec::new();
    for (begin_string, appl_ver) in VERSIONS {
        for we_accept in [true, false] {
            let role = if we_accept { "acceptor" } else { "initiator" };
            let name = format!("{begin_string}, {} as {role}", options.ours);
            if !name.contains(&options.only) {
                continue;
            }
            let (acceptor, initiator) = if we_accept { (&ours, &theirs) } else { (&theirs, &ours) };
            let case = Case {
                begin_string,
                appl_ver,
                acceptor,
                initiator,
                dictionaries: &options.dictionaries,
                orders: options.orders,
                folder: target().join("peers/run").join(format!("{begin_string}-{role}")),
            };
            played += 1;
            match case.play() {
                Ok(compared) => say(&format!("{name}: ok, {compared} messages compared")),
                Err(text) => {
                    say(&format!("{name}: FAILED\n{text}"));
                    failed.push(name);
                }
            }
        }
    }
    match (played, failed.is_empty()) {
        (0, _) => Err(format!("no case contains {:?}", options.only)),
        (_, true) => Ok(()),
        _ => Err(format!("{} of {played} failed: {}", failed.len(), failed.join("; "))),
    }
}

/// Returns the command line that starts the Transfix side.
fn our_program(options: &Options, theirs: &[String]) -> Outcome<Vec<String>> {
    match options.ours.as_str() {
        // If the peer engine also plays the Transfix side, the run tests the test itself.
        "quickfix" => Ok(theirs.to_vec()),
        "transfix" => Ok(vec![our_binary()?, "peer".to_owned()]),
        program => Ok(program.split_whitespace().map(str::to_owned).collect()),
    }
}

/// Builds the Transfix program and returns its path.
fn our_binary() -> Outcome<String> {
    Ok(crate::served::dist_program()?.display().to_string())
}
