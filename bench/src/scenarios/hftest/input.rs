//! Standard input, key by key, and the signals that end the program.
//!
//! Invariant: a terminal is as it was when the program ends, also by a signal or a panic.

use std::io::{IsTerminal, Read, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// An input of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Byte(u8),
    /// There is no more.
    End,
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
}

/// Standard input, read by a thread of its own.
pub(super) struct Inputs {
    received: Receiver<Input>,
    /// The channel stays open when the input has ended.
    _sender: Sender<Input>,
    signalled: Arc<AtomicBool>,
    terminal: Option<Terminal>,
}

impl Inputs {
    /// Makes a terminal give single keys, and listens to it and to signals.
    pub(super) fn open() -> Result<Self, String> {
        let terminal = if stdin().is_terminal() { Some(Terminal::single_keys()?) } else { None };
        let signalled = Arc::new(AtomicBool::new(false));
        let (seen, before) = (Arc::clone(&signalled), terminal.as_ref().map(|t| t.before.clone()));
        let handler = move || {
            if seen.swap(true, Ordering::Relaxed) {
                // The second one: the program does not end by itself.
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

    /// Returns true if keys come from a terminal.
    pub(super) const fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns true if a signal has come.
    pub(super) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// Returns the next input, or `None` if none comes within `wait_ms` milliseconds. A signal is
    /// returned each time.
    pub(super) fn next(&self, wait_ms: u64) -> Option<Input> {
        if self.is_signalled() {
            return Some(Input::Signal);
        }
        self.received.recv_timeout(Duration::from_millis(wait_ms)).ok()
    }
}

/// A terminal that gives single keys, and shows what this program shows alone.
struct Terminal {
    before: Termios,
}

impl Terminal {
    fn single_keys() -> Result<Self, String> {
        let failed = |why| format!("the terminal: {why}");
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut single = before.clone();
        // Ctrl-C stays a signal, and the end of a line what it was.
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
    // A terminal that is gone needs nothing.
    let _ = tcsetattr(stdin(), OptionalActions::Now, before);
}
