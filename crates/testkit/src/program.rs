//! A program of somebody else beside a test.

use std::process::{Child, Command, Stdio};

/// A program that ends with the test.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts it; what it writes goes nowhere. `package`: what has it in Debian.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn start(name: &str, package: &str, args: &[&str]) -> Self {
        let mut command = Command::new(name);
        let started = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(started.unwrap_or_else(|error| {
            panic!("{name}: {error}; it is in Debian's package {package}: apt-get install it")
        }))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
