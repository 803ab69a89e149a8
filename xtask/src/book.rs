//! `cargo xtask book`: builds the book with mdBook, and checks the result.
//!
//! Checks: mdBook reports no error. Each page of the summary becomes an HTML page and is in the
//! search index. Each Rust snippet is compiled as part of a crate's documentation. The links are
//! checked by `cargo xtask tidy`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, root};

const USAGE: &str = "usage: cargo xtask book

Builds the book into target/book. Needs mdbook; without it, it is installed into target/tools.";

/// The parts that the book must have.
const PARTS: [&str; 3] = ["Developer's guide", "Operator's guide", "Reference"];

/// The crates whose documentation includes pages of the book, so that their snippets are compiled.
const LIBRARIES: [&str; 3] =
    ["crates/engine/src/lib.rs", "crates/admin/src/lib.rs", "stores/src/lib.rs"];

/// Builds and checks the book.
///
/// # Errors
/// Returns the first check that fails.
pub fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err(USAGE.to_owned());
    }
    check()?;
    let pages = pages()?;
    let (mdbook, to) = (mdbook()?, root().join("target/book"));
    let built = Command::new(&mdbook)
        .args(["build", "book", "--dest-dir"])
        .arg(&to)
        .current_dir(root())
        .output()
        .map_err(|error| format!("{}: {error}", mdbook.display()))?;
    let said = String::from_utf8_lossy(&built.stderr);
    if !built.status.success() || said.contains("WARN") || said.contains("ERROR") {
        return Err(said.into_owned());
    }
    let index = index(&to)?;
    for page in &pages {
        let html = Path::new(page).with_extension("html");
        if !to.join(&html).is_file() {
            return Err(format!("{}: mdBook has not built it", html.display()));
        }
        if !index.contains(&format!("{}#", html.display())) {
            return Err(format!("{}: the search does not know it", html.display()));
        }
    }
    Ok(format!("{} pages, each in the search: {}", pages.len(), to.join("index.html").display()))
}

/// Checks without mdBook that each Rust snippet is compiled, and that the summary has its three
/// parts.
///
/// # Errors
/// The first snippet that is not compiled, or the missing part.
pub fn check() -> Outcome {
    let summary = read("book/src/SUMMARY.md")?;
    for part in PARTS {
        if !summary.lines().any(|line| line == format!("# {part}")) {
            return Err(format!("book/src/SUMMARY.md has no part '{part}'"));
        }
    }
    snippets(&pages()?)?;
    Ok("each snippet of the book is compiled".to_owned())
}

/// Returns the paths of all pages in the summary, relative to book/src.
fn pages() -> Result<Vec<String>, String> {
    let summary = read("book/src/SUMMARY.md")?;
    let page = |line: &str| Some(line.rsplit_once("](")?.1.split_once(')')?.0.to_owned());
    Ok(summary.lines().filter_map(page).collect())
}

/// Checks that each page with Rust snippets is included in the documentation of one of the
/// `LIBRARIES`.
fn snippets(pages: &[String]) -> Result<(), String> {
    let mut compiled = BTreeSet::new();
    for library in LIBRARIES {
        let text = read(library)?;
        let pages = text.split("../book/src/").skip(1);
        compiled.extend(pages.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    for page in pages {
        let text = read(&format!("book/src/{page}"))?;
        let fences = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("```rust"));
        for (line, fence) in fences {
            let at = format!("book/src/{page}:{line}");
            if fence.contains("ignore") {
                return Err(format!("{at}: `ignore`: nobody compiles this snippet"));
            }
            if !compiled.contains(page) {
                let libraries = LIBRARIES.join(" or ");
                return Err(format!("{at}: include the page in {libraries}, which compiles it"));
            }
        }
    }
    Ok(())
}

/// Returns the text of the search index that mdBook has generated.
fn index(book: &Path) -> Result<String, String> {
    let files = fs::read_dir(book).map_err(|error| format!("{}: {error}", book.display()))?;
    let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let name = names.find(|name| name.starts_with("searchindex"));
    let name = name.ok_or("mdBook has built no index for the search")?;
    fs::read_to_string(book.join(&name)).map_err(|error| format!("{name}: {error}"))
}

/// Returns the path of mdBook. Installs mdBook if it is missing.
fn mdbook() -> Result<PathBuf, String> {
    let is_there = |program: &Path| {
        Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success())
    };
    let own = root().join("target/tools/bin/mdbook");
    for program in [PathBuf::from("mdbook"), own.clone()] {
        if is_there(&program) {
            return Ok(program);
        }
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["install", "--locked", "mdbook", "--root"])
        .arg(root().join("target/tools"))
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    match status.success() && is_there(&own) {
        true => Ok(own),
        false => Err("mdbook cannot be installed: cargo install --locked mdbook".to_owned()),
    }
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
}
