//! Reads and parses the sources of the library crates.

use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ExprLit, File, Lit, Meta};

/// Folders of the library crates whose errors have numeric codes: the crates of the package
/// `transfix`, and `text`.
pub(crate) const CRATES: [&str; 10] = [
    "dictionary",
    "codec",
    "session",
    "store",
    "transport",
    "settings",
    "quickfix",
    "observe",
    "text",
    "engine",
];

/// Returns each source file of a crate with its path relative to `src`, sorted by path.
pub(crate) fn files(krate: &str) -> Vec<(PathBuf, File)> {
    let src = xtask::root().join("crates").join(krate).join("src");
    let mut paths = Vec::new();
    collect(&src, &mut paths);
    paths.sort();
    let parse = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path.strip_prefix(&src).unwrap().to_owned(), file)
    };
    paths.into_iter().map(parse).collect()
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|end| end == "rs") {
            paths.push(path);
        }
    }
}

/// Returns the first paragraph of an item's documentation on one line, without link markup.
pub(crate) fn about(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &pair.value else { continue };
        let line = line.value();
        if line.trim().is_empty() {
            break;
        }
        text += &line;
    }
    while let Some((before, link)) = text.split_once("`](") {
        let (_, after) = link.split_once(')').unwrap();
        text = format!("{before}`]{after}");
    }
    let text = text.trim().replace("[`", "`").replace("`]", "`").replace("`crate::", "`");
    text.replace('|', "\\|")
}

/// Compares a page with its generated text; if requested, first rewrites the page. Returns true if
/// the page is up to date.
pub(crate) fn is_up_to_date(page: &str, wanted: &str) -> bool {
    let path = xtask::root().join(page);
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        fs::write(&path, wanted).unwrap();
    }
    fs::read_to_string(path).unwrap_or_default() == wanted
}
