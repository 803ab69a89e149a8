//! Reads keys from standard input, and signals that end the program.
//!
//! Invariant: the terminal is restored when the program ends, even by a signal or a panic.

use std::io::{IsTerminal, Read, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// An event from the user: a key, the end of the input, or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Byte(u8),
    /// Standard input has ended.
    End,
    /// SIGINT, SIGTERM or SIGHUP arrived.
    Signal,
}

/// The channel of inputs from the thread that reads standard input.
pub(super) struct Inputs {
    received: Receiver<Input>,
    /// A sender that keeps the channel open after standard input has ended.
    _sender: Sender<Input>,
    signalled: Arc<AtomicBool>,
    terminal: Option<Terminal>,
}

impl Inputs {
    /// Switches a terminal to single keys, and starts the threads that read keys and signals.
    pub(super) fn open() -> Result<Self, String> {
        let terminal = if stdin().is_terminal() { Some(Terminal::single_keys()?) } else { None };
        let signalled = Arc::new(AtomicBool::new(false));
        let (seen, before) = (Arc::clone(&signalled), terminal.as_ref().map(|t| t.before.clone()));
        let handler = move || {
            if seen.swap(true, Ordering::Relaxed) {
                // A second signal ends the program, if the first signal did not.
                before.iter().for_each(restore);
                std::process::exit(1);
            }
        };
        ctrlc::set_handler(handler).map_err(|why| format!("signals: {why}"))?;
        let (sender, received) = channel();
        let to = sender.clone();
        let read = move || {
            for byte in stdin().lock().bytes() {
                let Ok(byte) = byte else { break };
                if to.send(Input::Byte(byte)).is_err() {
                    return;
                }
            }
            let _ = to.send(Input::End);
        };
        let thread = std::thread::Builder::new().name("keys".to_owned());
        thread.spawn(read).map_err(|why| format!("a thread for keys: {why}"))?;
        Ok(Self { received, _sender: sender, signalled, terminal })
    }

    /// Returns true if the keys come from a terminal.
    pub(super) const fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns true if a terminating signal has arrived.
    pub(super) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// Returns the next input, or `None` if none arrives within `wait_ms` milliseconds. After a
    /// signal, each call returns the signal.
    pub(super) fn next(&self, wait_ms: u64) -> Option<Input> {
        if self.is_signalled() {
            return Some(Input::Signal);
        }
        self.received.recv_timeout(Duration::from_millis(wait_ms)).ok()
    }
}

/// A terminal in single-key mode without echo, with the settings to restore.
struct Terminal {
    before: Termios,
}

impl Terminal {
    fn single_keys() -> Result<Self, String> {
        let failed = |why| format!("the terminal: {why}");
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut single = before.clone();
        // The other modes stay: Ctrl-C still sends a signal, and line ends are still translated on
        // output.
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &single).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(before: &Termios) {
    // Restoring fails only on a closed terminal, which needs no restoring.
    let _ = tcsetattr(stdin(), OptionalActions::Now, before);
}
