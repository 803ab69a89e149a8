//! Finds the location of the package transfix on which a generated program depends.
//!
//! Invariant: the location does not depend on where this program was built or installed.

use std::path::{Component, Path, PathBuf};

/// The package transfix as a dependency of the generated program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dependency {
    /// Directory of the package's `Cargo.toml`. The path is relative to the program's directory,
    /// unless the user gave an absolute path.
    Path(String),
    /// URL of a git repository.
    Git(String),
    /// Version of the package in a registry.
    Version(String),
}

impl Dependency {
    /// Returns the dependency that the user names. By default, searches for a checkout above the
    /// output or above the current directory `here`, and otherwise uses this program's version.
    pub(super) fn of(named: Option<&str>, output: &Path, here: &Path) -> Result<Self, String> {
        let Some(named) = named else {
            let places = [output, here].map(real);
            let above = places.iter().flat_map(|place| place.ancestors());
            let found = above.map(|place| place.join("crates/engine")).find(|dir| is_transfix(dir));
            let version = || Self::Version(env!("CARGO_PKG_VERSION").to_owned());
            return Ok(found.map_or_else(version, |dir| Self::Path(relative(output, &dir))));
        };
        let path = Path::new(named);
        if is_transfix(path) {
            let is_whole = path.is_absolute();
            return Ok(Self::Path(if is_whole {
                named.to_owned()
            } else {
                relative(output, path)
            }));
        }
        if named.contains("://") || named.starts_with("git@") {
            return Ok(Self::Git(named.to_owned()));
        }
        if named.starts_with(|c: char| c.is_ascii_digit() || "^=~*<>".contains(c)) && !path.exists()
        {
            return Ok(Self::Version(named.to_owned()));
        }
        Err(format!(
            "--transfix {named} has no package transfix; name the directory of its Cargo.toml, \
             such as crates/engine of a checkout, the URL of a git repository, or a version"
        ))
    }

    /// Returns the dependency line for `Cargo.toml`.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Path(path) => format!("transfix = {{ path = {path:?} }}\n"),
            Self::Git(url) => format!("transfix = {{ git = {url:?} }}\n"),
            Self::Version(version) => format!("transfix = {version:?}\n"),
        }
    }

    /// Returns the line that informs the user which package the program depends on.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Path(path) => format!("the package transfix: {path}\n"),
            Self::Git(url) => format!("the package transfix: {url}\n"),
            Self::Version(version) => format!(
                "the package transfix: version {version} of the registry; if the registry does \
                 not have this version, add --transfix DIR with crates/engine of a checkout\n"
            ),
        }
    }
}

/// Returns true if the output directory is below a Cargo workspace, which would include the
/// generated program.
pub(super) fn is_in_workspace(output: &Path) -> bool {
    let is_root = |dir: &Path| {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
    };
    real(output).ancestors().skip(1).any(is_root)
}

/// Returns true if the directory contains the package transfix. Only the first `name` in
/// `Cargo.toml` is the package's name; the later ones name its programs.
fn is_transfix(directory: &Path) -> bool {
    let Ok(manifest) = std::fs::read_to_string(directory.join("Cargo.toml")) else { return false };
    let mut names = manifest.lines().map(str::trim).filter(|line| line.starts_with("name = "));
    names.next() == Some("name = \"transfix\"")
}

/// Resolves the symbolic links in the part of the path that exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for above in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            // Joining an empty path would add a trailing slash.
            return if rest.as_os_str().is_empty() { found } else { found.join(rest) };
        }
    }
    path
}

/// Returns the relative path from the directory `from` to the directory `to`.
fn relative(from: &Path, to: &Path) -> String {
    let (from, to) = (real(from), real(to));
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(common)).collect();
    if way.as_os_str().is_empty() { ".".to_owned() } else { way.display().to_string() }
}

#[cfg(test)]
mod tests {
    use transfix_testkit::temp::TempDir;

    use super::*;

    #[test]
    fn the_package_is_found_by_what_the_user_says_and_where_he_stands() {
        let dir = TempDir::new();
        let checkout = dir.path().join("checkout");
        let engine = checkout.join("crates/engine");
        std::fs::create_dir_all(&engine).unwrap();
        std::fs::write(engine.join("Cargo.toml"), "name = \"transfix\"\n").unwrap();
        let (elsewhere, at) = (dir.path().join("else"), |path: &str| Dependency::Path(path.into()));
        let whole = engine.display().to_string();
        let version = || Dependency::Version(env!("CARGO_PKG_VERSION").to_owned());
        for (named, output, here, expected) in [
            (None, elsewhere.join("venue"), &elsewhere, version()),
            (None, checkout.join("venue"), &elsewhere, at("../crates/engine")),
            (None, elsewhere.join("a/b"), &checkout, at("../../../checkout/crates/engine")),
            (None, elsewhere.join("a"), &engine, at("../../checkout/crates/engine")),
            (Some(&*whole), checkout.join("venue"), &checkout, at(&whole)),
            (Some("0.3"), elsewhere.clone(), &elsewhere, Dependency::Version("0.3".into())),
            (Some("=0.3.1"), elsewhere.clone(), &elsewhere, Dependency::Version("=0.3.1".into())),
            (
                Some("https://git.example/transfix"),
                elsewhere.clone(),
                &checkout,
                Dependency::Git("https://git.example/transfix".into()),
            ),
        ] {
            let found = Dependency::of(named, &output, here);
            assert_eq!(found, Ok(expected), "{named:?} {}", output.display());
        }
        // The directory of transfix-cli is rejected, because it contains a different package.
        let own = env!("CARGO_MANIFEST_DIR");
        for named in [own, elsewhere.to_str().unwrap(), "nowhere", "./9", ""] {
            let error = Dependency::of(Some(named), &elsewhere, &checkout).unwrap_err();
            assert!(error.contains("has no package transfix"), "{error}");
        }
    }
}
