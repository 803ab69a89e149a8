//! Builds the library that counts socket calls, and reads its counts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs};

/// The environment variable with the path of the file in which the library counts.
pub(crate) const CALLS: &str = "TRANSFIX_CALLS";
/// Bytes of the name in an entry; two numbers follow the name.
const NAME_BYTES: usize = 16;
const ENTRY_BYTES: usize = NAME_BYTES + 16;

/// Compiles the library into `dir`.
pub(crate) fn build(dir: &Path) -> PathBuf {
    let library = dir.join("libcount.so");
    let compiler = env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/count.c");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library);
    let built = command.arg(source).arg("-ldl").status().expect("a C compiler, as for linking");
    assert!(built.success());
    library
}

/// The number of calls of one name, and the number of those that found nothing to do.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) calls: u64,
    pub(crate) empty: u64,
}

/// The calls that a process has made, by the name of the function.
pub(crate) struct Calls(BTreeMap<String, Count>);

impl Calls {
    pub(crate) fn of(&self, name: &str) -> Count {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Returns the names of the calls that were made.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, count)| count.calls > 0).map(|(name, _)| &**name)
    }

    /// Returns the calls made after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = |(name, count): (&String, &Count)| {
            let before = before.of(name);
            let (calls, empty) = (count.calls - before.calls, count.empty - before.empty);
            (name.clone(), Count { calls, empty })
        };
        Self(self.0.iter().map(since).collect())
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Count { calls, empty }) in self.0.iter().filter(|(_, count)| count.calls > 0) {
            write!(f, "{name} {calls} ({empty})  ")?;
        }
        Ok(())
    }
}

/// The file in which a process counts its calls.
pub(crate) struct Counter(PathBuf);

impl Counter {
    /// Creates an empty count file.
    pub(crate) fn in_dir(dir: &Path) -> Self {
        let path = dir.join("calls");
        fs::write(&path, []).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the calls so far.
    pub(crate) fn calls(&self) -> Calls {
        let bytes = fs::read(&self.0).unwrap();
        assert!(!bytes.is_empty(), "the library was not loaded");
        let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let entry = |bytes: &[u8]| {
            let name = String::from_utf8_lossy(&bytes[..NAME_BYTES]);
            let [calls, empty] = [16..24, 24..32].map(|place| number(&bytes[place]));
            (name.trim_end_matches('\0').to_owned(), Count { calls, empty })
        };
        Calls(bytes.chunks_exact(ENTRY_BYTES).map(entry).collect())
    }
}
