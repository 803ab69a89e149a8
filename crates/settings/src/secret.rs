//! Passwords of a settings file, and their hashes: a text, an environment variable, the first line
//! of a file, or the first line that a program writes.
//!
//! Invariant: the running time and the output of a program are limited.

use crate::text_file;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Time limit of a program that writes a password.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of bytes that are read from a program's output.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// The keys of `logon` whose values are a [`Secret`]: a text, or a table that names its source.
const KEYS: [&str; 4] = ["expected_password", "expected_password_hash", "password", "new_password"];

/// Replaces the sources of passwords by the passwords. Returns the files that contain a password:
/// this file, or those that it names. An error contains the offset of the value.
pub(crate) fn read(logon: &mut DeTable<'_>, path: &Path) -> Result<Vec<PathBuf>, (usize, String)> {
    let mut files = Vec::new();
    for key in KEYS {
        if let Some(value) = logon.get_mut(key) {
            let text = text(value.get_ref()).map_err(|what| (value.span().start, what))?;
            let named = value.get_ref().as_table().map(|table| table.get("file"));
            let file = named.map_or(Some(path), |file| file?.get_ref().as_str().map(Path::new));
            files.extend(file.map(Path::to_owned));
            *value = Spanned::new(value.span(), DeValue::String(text.into()));
        }
    }
    Ok(files)
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    let forms = || {
        "write the text itself, or { env = \"NAME\" }, { file = \"PATH\" } or { command = \
         [\"PROGRAM\", \"ARGUMENT\"] }"
            .to_owned()
    };
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let table = value.as_table().filter(|table| table.len() == 1).ok_or_else(forms)?;
    let named = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
    let (text, whence) = match (named("env"), named("file")) {
        (Some(name), _) => {
            let text = std::env::var(name).map_err(|error| {
                let is_missing = error == std::env::VarError::NotPresent;
                let why = if is_missing { "is not set" } else { "is no text" };
                format!("the environment variable {name} {why}")
            });
            (text?, format!("the environment variable {name}"))
        }
        (_, Some(file)) => {
            let text = text_file::read(file);
            let text = text.map_err(|error| format!("the file {file}: {error}"))?;
            (
                text.lines().next().unwrap_or_default().to_owned(),
                format!("the first line of the file {file}"),
            )
        }
        _ => {
            let words = words(table).ok_or_else(forms)?;
            let whence = format!("the first line of output of the program {}", words[0]);
            (of_command(words)?, whence)
        }
    };
    if text.is_empty() {
        return Err(format!("{whence} is empty, but a password must not be empty"));
    }
    Ok(text)
}

/// Returns the program and its arguments, or `None` if the table does not name a program.
fn words<'a>(table: &'a DeTable<'_>) -> Option<Vec<&'a str>> {
    let words = table.get("command")?.get_ref().as_array()?;
    let words: Option<Vec<_>> = words.iter().map(|word| word.get_ref().as_str()).collect();
    words.filter(|words| !words.is_empty())
}

/// Waits for the end of a program; `None` = time limit exceeded.
fn wait(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let Ok(process) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return wait_in_steps(child, patience);
    };
    let time = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: 0 };
    let mut end = [PollFd::new(&process, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut end, Some(&time)))? == 0 {
        return Ok(None);
    }
    child.wait().map(Some)
}

/// Waits by checking at intervals, for kernels and containers that do not support process file
/// descriptors.
fn wait_in_steps(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    for _ in 0..patience.as_millis() / 50 {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let _ = poll(&mut [], Some(&STEP));
    }
    Ok(None)
}

/// Returns the first line that a program writes. Its error output goes to the standard error of
/// this process.
fn of_command(words: Vec<&str>) -> Result<String, String> {
    let program = words[0];
    let failed = |error: &dyn std::fmt::Display| format!("the program {program}: {error}");
    let mut command = Command::new(program);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let (written, reading) = channel();
    if let Some(output) = child.stdout.take() {
        let read = move || {
            let mut bytes = Vec::new();
            let read = output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            // The send fails only after the time limit.
            let _ = written.send(read.map(|_| bytes));
        };
        let reader = thread::Builder::new().name("tfx-secret".to_owned()).spawn(read);
        if let Err(error) = reader {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(&error));
        }
    }
    let Some(status) = wait(&mut child, PATIENCE).map_err(|error| failed(&error))? else {
        // `kill` fails only if the program has just ended.
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(&format!(
            "the program did not end within {} seconds",
            PATIENCE.as_secs()
        )));
    };
    if !status.success() {
        return Err(failed(&status));
    }
    // A time limit applies here too, because a child of the program may keep the output open.
    let bytes = reading.recv_timeout(PATIENCE).map_err(|error| failed(&error))?;
    let bytes = bytes.map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        failed(
            &"the output of the program is not \
        valid UTF-8",
        )
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_writes_a_password_in_bounds() {
        let shell = |script| of_command(vec!["sh", "-c", script]);
        assert_eq!(shell("echo sesame; echo more").as_deref(), Ok("sesame"));
        assert_eq!(of_command(vec!["printf", "%s", "two words"]).as_deref(), Ok("two words"));
        assert_eq!(shell(":").as_deref(), Ok(""));
        let error = shell("echo sesame; exit 3").unwrap_err();
        assert!(error.contains("the program sh: exit status: 3"), "{error}");
        assert!(!error.contains("sesame"), "{error}");
        let error = of_command(vec!["no-such-program"]).unwrap_err();
        assert!(error.starts_with("the program no-such-program: "), "{error}");
        assert!(shell("printf '\\377'").unwrap_err().contains("not valid UTF-8"));
        // The program never stops writing, but only a limited number of bytes is read.
        assert!(shell("yes").is_err());
    }

    /// A program is also waited for on kernels without process file descriptors.
    #[test]
    fn a_program_is_waited_for_in_steps() {
        let waited = |script, patience| {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let status = wait_in_steps(&mut child, patience).unwrap();
            if status.is_none() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            status.and_then(|status| status.code())
        };
        assert_eq!(waited("exit 3", PATIENCE), Some(3));
        assert_eq!(waited("exec sleep 60", Duration::from_millis(100)), None);
    }
}
