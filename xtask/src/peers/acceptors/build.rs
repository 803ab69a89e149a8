//! Builds the acceptor of each engine, and describes its features.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::codecs::copy;
use super::super::{Outcome, root, run, target};
use super::Engine;

const FILE_AND_MEMORY: &[&str] = &["memory", "file"];
const BOTH: &[bool] = &[true, false];
const DEFAULT: &[&str] = &["default"];
const DEFAULT_AND_POLLING: &[&str] = &["default", "polling"];

/// Name of a file that marks a completely built jar.
const BUILT: &str = "built";

/// Maven options for QuickFIX/J 1.6.3, whose modules have other names.
const QUICKFIXJ_OF_THE_PAGE: &[&str] =
    &["-Dquickfixj.messages=quickfixj-messages-fix42", "-Dslf4j.version=1.7.36"];

/// Returns all engines, each with its start command or the reason why it has none.
pub(super) fn all(folder: &Path) -> Vec<(Engine, Outcome<Vec<String>>)> {
    let mut all = vec![
        quickfix(folder),
        quickfix_of_the_page(folder),
        quickfixj(folder, "3.0.0", &[]),
        quickfixj(folder, "1.6.3", QUICKFIXJ_OF_THE_PAGE),
        artio(folder),
        philadelphia(folder),
    ];
    all.extend(registry(folder));
    all.push(quickfixgo(folder));
    all.push(quickfixn());
    for (_, command) in &mut all {
        // The script `pinned` handles the option `--cpu` and pins the process.
        *command = pinned(folder).and_then(|pinned| {
            let mut words = vec![pinned];
            words.append(command.as_mut().map_err(|error| error.clone())?);
            Ok(words)
        });
    }
    all
}

/// Returns the two engines from crates.io, which share one program.
fn registry(folder: &Path) -> [(Engine, Outcome<Vec<String>>); 2] {
    let built = target().join("rust_acceptors");
    let program = run(Command::new(env!("CARGO"))
        .current_dir(root().join("bench/peers/rust_acceptors"))
        .args(["build", "--release", "--locked"])
        .env("CARGO_TARGET_DIR", &built))
    .and_then(|()| copy(&built.join("release/rust_acceptors"), folder))
    .map(|()| folder.join("rust_acceptors").display().to_string())
    .map_err(|error| format!("{error}; it needs crates.io"));
    let engine = |name, version: &str, durability, note| Engine {
        name,
        version: version.to_owned(),
        stores: FILE_AND_MEMORY,
        resends: FILE_AND_MEMORY,
        validation: BOTH,
        modes: DEFAULT,
        durability,
        note,
    };
    let ironfix = engine(
        "ironfix",
        "0.5.1",
        "write(2) of each message and of each number, no fsync (SyncPolicy::Never)",
        "its default flushes the disk for each message of either direction",
    );
    let tokio = engine(
        "quickfix-tokio",
        "0.2.0",
        "write(2) of each message and of each number, no fsync (FileStoreSync=N)",
        "a callback may not wait for its session: an answer comes from a second task",
    );
    [ironfix, tokio].map(|engine| {
        let command = program.clone().map(|program| vec![program, engine.name.to_owned()]);
        (engine, command)
    })
}

fn quickfixgo(folder: &Path) -> (Engine, Outcome<Vec<String>>) {
    let engine = Engine {
        name: "quickfixgo",
        version: "0.9.10".to_owned(),
        stores: FILE_AND_MEMORY,
        resends: FILE_AND_MEMORY,
        validation: BOTH,
        modes: DEFAULT,
        durability: "write(2) of each message and of each number, no fsync (FileStoreSync=N)",
        note: "its default flushes the disk for each message that is sent",
    };
    let program = folder.join("go_acceptor");
    let built = run(Command::new("go")
        .current_dir(root().join("bench/peers/go"))
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg("."));
    let command = built
        .map(|()| vec![program.display().to_string()])
        .map_err(|error| format!("{error}; it needs Go 1.23 or later and the Go module proxy"));
    (engine, command)
}

/// Returns an entry without a start command, because this engine is not built.
fn quickfixn() -> (Engine, Outcome<Vec<String>>) {
    let engine = Engine {
        name: "QuickFIX/n",
        version: String::new(),
        stores: &[],
        resends: &[],
        validation: &[],
        modes: &[],
        durability: "",
        note: "",
    };
    let why =
        "no program is written for it: install a .NET SDK, which is not among Debian's packages";
    (engine, Err(why.to_owned()))
}

/// Copies the script that pins a process to a CPU. Returns the path of the copy.
fn pinned(folder: &Path) -> Outcome<String> {
    let to = folder.join("pinned");
    let failed = |error| format!("{}: {error}", to.display());
    fs::copy(root().join("bench/peers/pinned.sh"), &to).map_err(failed)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(to.display().to_string())
}

/// Returns the first line that a program prints, or an empty string.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Returns the QuickFIX C++ engine installed on the system, whose acceptor is built together with
/// the counterparties.
fn quickfix(folder: &Path) -> (Engine, Outcome<Vec<String>>) {
    let package = first_line("dpkg-query", &["-W", "-f", "${Version}", "libquickfix-dev"]);
    let version = package.split(['+', '-']).next().unwrap_or_default().to_owned();
    let note = "select(2); more than 180 sessions in the mode default get a thread each";
    let command = vec![folder.join("qf_throughput").display().to_string()];
    (quickfix_engine(&version, note), Ok(command))
}

fn quickfix_engine(version: &str, note: &'static str) -> Engine {
    Engine {
        name: "QuickFIX C++",
        version: version.to_owned(),
        stores: FILE_AND_MEMORY,
        resends: FILE_AND_MEMORY,
        validation: BOTH,
        modes: DEFAULT_AND_POLLING,
        durability: "write(2) of each message and of each number, no fsync",
        note,
    }
}

/// Builds the QuickFIX version of a published benchmark page, from the sources in the Python
/// package.
fn quickfix_of_the_page(folder: &Path) -> (Engine, Outcome<Vec<String>>) {
    let version = "1.14.3";
    let note = "sources of the Python package, with the installed QuickFIX's message classes";
    let built = quickfix_sources(folder, version).and_then(|sources| {
        let out = folder.join(format!("quickfix-{version}"));
        let program = out.join("qf_throughput");
        run(Command::new("make")
            .args(["-s", "-j2", "-C"])
            .arg(root().join("bench/peers/quickfix"))
            .args(["-f", "sources.mk"])
            .arg(format!("SOURCES={}", sources.display()))
            .arg(format!("OUT={}", out.display())))?;
        Ok(vec![program.display().to_string()])
    });
    let needs = "it needs pip, make, g++ and the headers of libquickfix-dev";
    (quickfix_engine(version, note), built.map_err(|error| format!("{error}; {needs}")))
}

/// Returns the folder of the C++ sources, which are downloaded only once.
fn quickfix_sources(folder: &Path, version: &str) -> Outcome<PathBuf> {
    let downloads = folder.join(format!("quickfix-{version}/download"));
    if let Some(sources) = find(&downloads, "C++", 3) {
        return Ok(sources);
    }
    let failed = |error| format!("{}: {error}", downloads.display());
    fs::create_dir_all(&downloads).map_err(failed)?;
    // The setup script of the package is for Python 2, so pip fails after unpacking the sources.
    // `--no-clean` keeps the sources.
    let output = Command::new("python3")
        .args(["-m", "pip", "download", "--no-clean", "--no-deps", "--no-binary", ":all:", "-d"])
        .arg(&downloads)
        .arg(format!("quickfix=={version}"))
        .env("TMPDIR", &downloads)
        .output()
        .map_err(|error| format!("cannot run python3: {error}"))?;
    find(&downloads, "C++", 3).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("no sources: {}", said.lines().last().unwrap_or_default())
    })
}

/// Finds a folder with this name, at most `levels` levels below `folder`.
fn find(folder: &Path, name: &str, levels: usize) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).find_map(|path| {
        if path.file_name().is_some_and(|found| found == name) {
            return Some(path);
        }
        (levels > 1).then(|| find(&path, name, levels - 1)).flatten()
    })
}

fn quickfixj(folder: &Path, version: &str, options: &[&str]) -> (Engine, Outcome<Vec<String>>) {
    let engine = Engine {
        name: "QuickFIX/J",
        version: version.to_owned(),
        stores: FILE_AND_MEMORY,
        resends: FILE_AND_MEMORY,
        validation: BOTH,
        modes: DEFAULT,
        durability: "write(2) of each message and of each number, no fsync (FileStoreSync=N)",
        note: "one thread for all sessions besides those of the sockets",
    };
    let version = format!("-Dquickfixj.version={version}");
    let options: Vec<&str> = options.iter().copied().chain([&version[..]]).collect();
    let out = folder.join(format!("quickfixj-{}", engine.version));
    let command = maven("quickfixj.xml", &options, &out);
    (engine, command)
}

/// Returns the command that runs QuickFIX/J as a counterparty with a settings file.
pub(in crate::peers) fn quickfixj_peer(folder: &Path) -> Outcome<Vec<String>> {
    let (_, command) = quickfixj(folder, "3.0.0", &[]);
    let jar = command?.pop().unwrap_or_default();
    Ok(["java", "-cp", &jar, "QuickfixjPeer"].map(str::to_owned).to_vec())
}

fn artio(folder: &Path) -> (Engine, Outcome<Vec<String>>) {
    let engine = Engine {
        name: "Artio",
        version: "0.175".to_owned(),
        stores: FILE_AND_MEMORY,
        resends: &["file"],
        validation: BOTH,
        modes: DEFAULT_AND_POLLING,
        durability: "an archive of both directions, written by a thread of its own, no fsync",
        note: "the dictionary is compiled in, the program calls its check; threads that poll yield",
    };
    let command = artio_dictionary(folder).and_then(|dictionary| {
        let dictionary = format!("-Ddictionary={}", dictionary.display());
        maven("artio.xml", &[&dictionary], &folder.join("artio"))
    });
    (engine, command)
}

/// Writes the dictionary without the Transfix element for conditions, which Artio would read as a
/// field.
fn artio_dictionary(folder: &Path) -> Outcome<PathBuf> {
    let from = root().join("dictionaries/FIX42.xml");
    let to = folder.join("artio-FIX42.xml");
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&from).map_err(|error| failed(&from, error))?;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("<condition "));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    if fs::read_to_string(&to).is_ok_and(|found| found == text) {
        return Ok(to);
    }
    // Removing the marker forces a rebuild of the codec, because the dictionary has changed.
    let _ = fs::remove_file(folder.join("artio").join(BUILT));
    fs::write(&to, text).map_err(|error| failed(&to, error))?;
    Ok(to)
}

fn philadelphia(folder: &Path) -> (Engine, Outcome<Vec<String>>) {
    let engine = Engine {
        name: "Philadelphia",
        version: "2.0.0".to_owned(),
        stores: &["memory"],
        resends: &[],
        validation: &[false],
        modes: DEFAULT_AND_POLLING,
        durability: "none: it keeps no messages, not even in memory",
        note: "no resends, no dictionary; the loop over the connections is the program's own",
    };
    (engine, maven("philadelphia.xml", &[], &folder.join("philadelphia")))
}

/// Builds the jar of a Maven project, and returns its start command. The file `built` records the
/// options, because Maven would otherwise rebuild the jar each time.
fn maven(project: &str, options: &[&str], out: &Path) -> Outcome<Vec<String>> {
    let sources = root().join("bench/peers/java");
    let jar = out.join("acceptor.jar").display().to_string();
    let command = ["java", "-jar", &jar].map(str::to_owned).to_vec();
    let stamp = out.join(BUILT);
    let of_options = fs::read_to_string(&stamp).is_ok_and(|found| found == options.join("\n"));
    if of_options && is_newer(&stamp, &[sources.join("src"), sources.join(project)]) {
        return Ok(command);
    }
    run(Command::new("mvn")
        .current_dir(sources)
        .args(["-q", "-B", "-f", project, "package"])
        .args(options)
        .arg(format!("-Dout={}", out.display())))
    .map_err(|error| format!("{error}; it needs a JDK of 17 or later, mvn and Maven Central"))?;
    fs::write(&stamp, options.join("\n"))
        .map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(command)
}

/// Returns true if the file is newer than all of these paths, including the content of folders.
fn is_newer(file: &Path, than: &[PathBuf]) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let made = changed(file);
    let is_older = |path: &Path| changed(path) < made;
    than.iter().all(|path| {
        let mut inside = fs::read_dir(path).into_iter().flatten().flatten();
        is_older(path) && inside.all(|entry| is_older(&entry.path()))
    })
}
