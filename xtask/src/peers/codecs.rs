//! Builds the codecs that only the codec benchmark uses: QuickFIX/J, hffix, fixpp, and some crates
//! from crates.io.
//!
//! All of these codecs are optional: a codec that cannot be built is reported as missing, also by
//! the benchmark.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, root, run, target};

/// Builds the codecs in `folder`. Returns one line for each codec that could not be built.
pub(super) fn build(folder: &Path) -> Vec<String> {
    let missing =
        |name: &str, error: &String, needs: &str| format!("missing: {name}: {error}; {needs}");
    let java = quickfixj(folder).err().map(|error| {
        missing("QuickFIX/J", &error, "it needs a JDK of 17 or later, mvn and Maven Central")
    });
    let rust = registry(folder)
        .err()
        .map(|error| missing("the codecs of the Rust registry", &error, "they need crates.io"));
    let sources = SOURCES.iter().filter_map(|source| {
        let error = source.build(folder).err()?;
        let needs =
            format!("this check needs either git and {}, or {}", source.url, source.variable);
        Some(missing(source.name, &error, &needs))
    });
    java.into_iter().chain(sources).chain(rust).collect()
}

/// A C++ codec that no package provides: its sources are fetched at a fixed commit.
struct Source {
    name: &'static str,
    url: &'static str,
    commit: &'static str,
    version: &'static str,
    /// Name of an environment variable that may give the path of existing sources.
    variable: &'static str,
}

const SOURCES: [Source; 2] = [
    Source {
        name: "hffix",
        url: "https://github.com/jamesdbrock/hffix",
        commit: "e50b76466469617df8be834a180794357b8eda38",
        version: "1.4.0",
        variable: "HFFIX",
    },
    Source {
        name: "fixpp",
        url: "https://github.com/sashamakarenko/fixpp",
        commit: "1c6afa693661f8d90739c71a467a56aba97a8e1b",
        version: "1c6afa6",
        variable: "FIXPP",
    },
];

impl Source {
    fn build(&self, folder: &Path) -> Outcome<()> {
        let sources = match env::var_os(self.variable) {
            Some(there) => PathBuf::from(there),
            None => self.fetch()?,
        };
        let mut make = Command::new("make");
        make.arg("-C").arg(root().join("bench/peers/cpp"));
        make.arg(format!("OUT={}", folder.display()));
        make.arg(format!("{}={}", self.variable, sources.display()));
        make.arg(format!("{}_VERSION={}", self.variable, self.version));
        run(make.arg(self.name))
    }

    /// Fetches the sources at the fixed commit, if they do not exist yet.
    fn fetch(&self) -> Outcome<PathBuf> {
        let folder = target().join("sources").join(self.name).join(self.commit);
        if !folder.exists() {
            let part = folder.with_extension("part");
            // An earlier, interrupted attempt may have left files behind.
            let _ = fs::remove_dir_all(&part);
            let git =
                |arguments: &[&str]| run(Command::new("git").arg("-C").arg(&part).args(arguments));
            fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
            git(&["init", "--quiet"])?;
            git(&["fetch", "--quiet", "--depth", "1", self.url, self.commit])?;
            git(&["checkout", "--quiet", "FETCH_HEAD"])?;
            fs::rename(&part, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(folder)
    }
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

/// Copies a program into the directory.
pub(super) fn copy(program: &Path, folder: &Path) -> Outcome<()> {
    let name = program.file_name().ok_or("no file name")?;
    fs::copy(program, folder.join(name))
        .map(|_| ())
        .map_err(|error| format!("{}: {error}", program.display()))
}
