//! Builds the codecs that only the codec benchmark knows: QuickFIX/J and some of the Rust registry.
//!
//! They are not needed for anything else: one that cannot be built is said to be missing, and the
//! benchmark says so too.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Outcome, root, run, target};

/// Builds them into `folder`; one line for each that is missing.
pub(super) fn build(folder: &Path) -> Vec<String> {
    let missing =
        |name: &str, error: &String, needs: &str| format!("missing: {name}: {error}; {needs}");
    let java = quickfixj(folder).err().map(|error| {
        missing("QuickFIX/J", &error, "it needs a JDK of 17 or later, mvn and Maven Central")
    });
    let rust = registry(folder)
        .err()
        .map(|error| missing("the codecs of the Rust registry", &error, "they need crates.io"));
    java.into_iter().chain(rust).collect()
}

fn quickfixj(folder: &Path) -> Outcome<()> {
    let out = folder.join("quickfixj");
    run(Command::new("mvn")
        .current_dir(root().join("bench/peers/quickfixj"))
        .args(["-q", "-B", "package"])
        .arg(format!("-Dout={}", out.display())))?;
    copy(&out.join("quickfixj.jar"), folder)
}

fn registry(folder: &Path) -> Outcome<()> {
    let built = target().join("rust_codecs");
    run(Command::new(env!("CARGO"))
        .current_dir(root().join("bench/peers/rust"))
        .args(["build", "--release", "--locked"])
        .env("CARGO_TARGET_DIR", &built))?;
    copy(&built.join("release/rust_codecs"), folder)
}

/// Copies a program into the folder.
pub(super) fn copy(program: &Path, folder: &Path) -> Outcome<()> {
    let name = program.file_name().ok_or("no file name")?;
    fs::copy(program, folder.join(name))
        .map(|_| ())
        .map_err(|error| format!("{}: {error}", program.display()))
}
