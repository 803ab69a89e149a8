//! `transfix bench` starts the separate program `transfix-bench`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use transfix_testkit::temp::TempDir;

/// A directory that contains only the program, as a hard link; the target directory is on the same
/// file system.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // An earlier failed test may have left the directory.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_transfix"), dir.join("transfix")).unwrap();
        Self(dir)
    }

    fn run(&self, args: &[&str], path: &Path) -> Output {
        let mut command = Command::new(self.0.join("transfix"));
        command.args(args).env("PATH", path).output().unwrap()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a program that prints its arguments and exits with code 7.
fn write_program(dir: &Path, says: &str) {
    let program = dir.join("transfix-bench");
    fs::write(&program, format!("#!/bin/sh\necho {says} \"$@\"\nexit 7\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_program_beside_it_is_run_or_else_that_in_the_path() {
    let (installed, elsewhere) = (Installed::new("bench_found"), TempDir::new());
    let said = |args: &[&str]| {
        let output = installed.run(args, elsewhere.path());
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    write_program(elsewhere.path(), "in PATH:");
    assert_eq!(said(&["bench", "latency", "--self"]), "in PATH: latency --self\n");
    write_program(&installed.0, "beside:");
    assert_eq!(said(&["bench"]), "beside:\n");
    assert_eq!(said(&["bench", "--help"]), "beside: --help\n");
    assert_eq!(said(&["bench", "codec", "--help", "-h"]), "beside: codec --help -h\n");
    assert_eq!(said(&["--verbose", "bench", "echo"]), "beside: echo --verbose\n");
}

#[test]
fn a_program_that_is_missing_is_told_with_the_remedy() {
    let (installed, nothing) = (Installed::new("bench_missing"), TempDir::new());
    for args in [&["bench"][..], &["bench", "--help"], &["bench", "latency", "--self"]] {
        let output = installed.run(args, nothing.path());
        let why = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        assert!(why.contains("the program transfix-bench is missing: it is neither /"), "{why}");
        assert!(why.contains("`cargo build --release -p transfix-bench`"), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }
    let output = installed.run(&["--events", "json", "bench", "latency"], nothing.path());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
