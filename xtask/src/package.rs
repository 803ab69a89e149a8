//! `cargo xtask package`: builds the packages for users and tests them. The Debian package is
//! installed, run and removed in a separate system. The package includes a list of its components
//! (SBOM).

mod container;
mod install;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pgo::{self, Profiled};
use crate::{Outcome, root, served, shown};

const USAGE: &str = "usage: cargo xtask package [--unprofiled] [--without-test] | --container

Makes the Debian package, its manual pages and completions, the list of its parts (SBOM) and the
notes of the release under target/package. Then installs the package in a Debian of its own
(target/package/system), runs its service as systemd would, and removes it: that needs root and
debootstrap (Debian: apt-get install debootstrap). With buildah it builds the container file too,
and runs the image. --without-test leaves all that out; --container does that of the container
alone. The package has the programs that `cargo xtask pgo` builds, whose round trips are shorter
(book, Latency); it needs `rustup component add llvm-tools`. With --unprofiled it has programs
without a profile, which take a third of the time to build.";

/// The second program of the package, which runs benchmarks.
const BENCH: &str = "transfix-bench";

/// Cargo tools that the package build needs, with their tested versions.
const TOOLS: [(&str, &str); 2] = [("cargo-deb", "3.8.0"), ("cargo-cyclonedx", "0.5.9")];

/// Builds and tests all packages.
///
/// # Errors
/// If a part cannot be built, or the package fails a test.
pub fn run(args: &[String]) -> Outcome {
    let (plain, rest): (Vec<_>, Vec<_>) = args.iter().partition(|arg| *arg == "--unprofiled");
    let is_tested = match (plain.len(), &rest[..]) {
        (0 | 1, []) => true,
        (0 | 1, [flag]) if *flag == "--without-test" => false,
        (0, [flag]) if *flag == "--container" => return container_alone(),
        _ => return Err(USAGE.to_owned()),
    };
    if is_tested {
        install::check_means()?;
    }
    let to = root().join("target/package");
    fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", shown(&to)))?;
    let profiled = if plain.is_empty() { Some(pgo::profiled()?) } else { None };
    let program = match &profiled {
        None => served::dist_program()?,
        Some(profiled) => profiled.program(),
    };
    pages(&program, &to)?;
    notes(&to)?;
    let tools = root().join("target/tools");
    for (tool, version) in TOOLS {
        if !tools.join("bin").join(tool).exists() {
            let to = tools.display().to_string();
            cargo(&["install", "--quiet", "--locked", "--root", &to, "--version", version, tool])?;
        }
    }
    sbom(&tools, &to)?;
    let package = deb(&tools, &to, profiled.as_ref())?;
    let mut report = format!("made: {}", shown(&package));
    if is_tested {
        report += &install::test(&package, &program, &to.join("system"))?;
        report += &container::test(&program, &to)?;
    }
    Ok(report)
}

/// Builds and runs only the container image. A `transfix` that already runs on this machine is not
/// disturbed.
fn container_alone() -> Outcome {
    install::check_means()?;
    if !container::has_buildah() {
        return Err("buildah is not installed (Debian: apt-get install buildah)".to_owned());
    }
    let to = root().join("target/package");
    fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", shown(&to)))?;
    container::test(&served::program()?, &to).map(|said| said.trim_start().to_owned())
}

fn cargo(args: &[&str]) -> Result<(), String> {
    done(Command::new(env!("CARGO")).args(args).current_dir(root()))
}

/// Runs the command. If it fails, returns its output as the error.
fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&said)))
}

/// Writes the manual pages and shell completions, which the programs generate.
fn pages(program: &Path, to: &Path) -> Result<(), String> {
    let man = to.join("man");
    // Old pages are removed, because the new version may lack some of them.
    let _ = fs::remove_dir_all(&man);
    // The second program overwrites the page of `transfix bench`, because its version is more
    // complete.
    for name in ["transfix", BENCH] {
        let program = program.with_file_name(name);
        done(Command::new(&program).arg("man").arg("--to").arg(&man))?;
        for shell in ["bash", "zsh", "fish"] {
            let output = Command::new(&program).args(["completions", shell]).output();
            let output = output.map_err(|error| format!("{name} completions: {error}"))?;
            if !output.status.success() || output.stdout.is_empty() {
                return Err(format!("{name} has no completions for {shell}"));
            }
            let file = if shell == "zsh" { format!("_{name}") } else { format!("{name}.{shell}") };
            fs::write(to.join(&file), output.stdout).map_err(|error| format!("{file}: {error}"))?;
        }
    }
    Ok(())
}

/// Writes the release notes of this version: the first section of the changelog.
fn notes(to: &Path) -> Result<(), String> {
    let log = fs::read_to_string(root().join("CHANGELOG.md"));
    let log = log.map_err(|error| format!("CHANGELOG.md: {error}"))?;
    let mut sections = log.split("\n## ");
    let _head = sections.next();
    let first = sections.next().ok_or("CHANGELOG.md has no section")?;
    let notes = format!("## {}\n", first.trim_end());
    fs::write(to.join("release-notes.md"), notes)
        .map_err(|error| format!("release-notes.md: {error}"))
}

/// Writes a list of all crates in the program, with versions and licenses, in CycloneDX format.
fn sbom(tools: &Path, to: &Path) -> Result<(), String> {
    let tool = tools.join("bin/cargo-cyclonedx");
    done(
        Command::new(tool)
            .args(["cyclonedx", "--format", "json", "--manifest-path"])
            .arg(root().join("crates/cli/Cargo.toml")),
    )?;
    let mut found = None;
    // cargo-cyclonedx writes a list beside each manifest; the lists that the package does not need
    // are removed.
    for manifest in ["bench", "xtask"].into_iter().map(PathBuf::from).chain(crates()?) {
        let dir = root().join(&manifest);
        for file in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if !name.ends_with(".cdx.json") {
                continue;
            }
            if name.starts_with("transfix-cli") {
                found = Some(fs::read(file.path()).map_err(|error| format!("{name}: {error}"))?);
            }
            fs::remove_file(file.path()).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    let text = found.ok_or("cargo cyclonedx has written no list of transfix-cli")?;
    let parsed: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| format!("the list of parts: {error}"))?;
    let parts = parsed["components"].as_array().map_or(0, Vec::len);
    if parts < 50 {
        return Err(format!("the list of parts has {parts}: some are missing"));
    }
    fs::write(to.join("transfix.cdx.json"), text)
        .map_err(|error| format!("transfix.cdx.json: {error}"))
}

fn crates() -> Result<Vec<PathBuf>, String> {
    let all = fs::read_dir(root().join("crates")).map_err(|error| format!("crates: {error}"))?;
    Ok(all.flatten().map(|one| PathBuf::from("crates").join(one.file_name())).collect())
}

/// Builds the Debian package for this architecture, from programs of the profile `dist` or from
/// profile-guided builds.
fn deb(tools: &Path, to: &Path, profiled: Option<&Profiled>) -> Result<PathBuf, String> {
    for old in fs::read_dir(to).into_iter().flatten().flatten() {
        if old.path().extension().is_some_and(|end| end == "deb") {
            let _ = fs::remove_file(old.path());
        }
    }
    let tool = tools.join("bin/cargo-deb");
    let mut makes = Command::new(tool);
    makes.args(["--no-build", "--no-strip", "--profile", "dist", "--package", "transfix-cli"]);
    makes.arg("--output");
    makes.arg(to).current_dir(root());
    if let Some(Profiled { target, host }) = profiled {
        makes.args(["--target", host]).env("CARGO_TARGET_DIR", target);
    }
    done(&mut makes)?;
    let made = fs::read_dir(to).into_iter().flatten().flatten().map(|file| file.path());
    let mut made = made.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    made.next().ok_or_else(|| "cargo deb has made no package".to_owned())
}
