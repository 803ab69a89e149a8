//! Creates a temporary directory for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A new, empty directory that is removed with its contents on drop.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates a directory under the system's directory for temporary files.
    ///
    /// # Panics
    /// If the directory cannot be created.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("transfix-{}-{count}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Self { path },
                // A killed process with the same process ID may have left this directory, so the
                // next name is tried.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("temporary directory {}: {error}", path.display()),
            }
        }
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}
