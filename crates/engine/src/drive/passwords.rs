//! Checks passwords against their hashes in a separate thread: for the Logon(A) of counterparties,
//! and for the administration.
//!
//! Invariants:
//! - One check runs at a time, and the next one reuses its memory.
//! - The thread has a low priority and rests after a wrong password, so guesses take a bounded part
//!   of one CPU.
//! - A counterparty that has logged on before does not wait for unknown sources.
//! - Unknown sources take turns, however many connections each has.
//! - The thread ends when nothing waits.
//! - A check that panics counts the password as wrong.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix_observe::supervised::lower_priority;
use transfix_session::Secret;
use transfix_settings::HashMemory;

use crate::io::Io;
use crate::link::failed_logons::Source;

/// After a wrong password, the thread rests for this multiple of the time that the check took.
/// Guessing therefore uses at most a quarter of a CPU.
const REST: u32 = 3;

/// A password to check, with the hash that it must match.
pub(crate) struct Guess {
    pub(crate) hash: Secret,
    pub(crate) password: Vec<u8>,
    /// The source of the connection or of the administrative request.
    pub(crate) source: Source,
    /// True if this session has logged on from the source before.
    pub(crate) is_known: bool,
}

/// A password to check, and the callback that receives the result.
type Check = (Guess, Box<dyn FnOnce(bool) + Send>);

#[derive(Default)]
struct Line {
    /// Guesses from known sources, which are checked first.
    known: VecDeque<Check>,
    strangers: VecDeque<Check>,
    /// The number of the last turn of each source. Cleared when no check waits.
    turns: HashMap<Source, u64>,
    is_running: bool,
    memory: HashMemory,
}

impl Line {
    /// Takes the next check: the oldest of a known source, or else of the source that was served
    /// least recently.
    fn next(&mut self) -> Option<Check> {
        if let Some(known) = self.known.pop_front() {
            return Some(known);
        }
        let last = |(guess, _): &Check| self.turns.get(&guess.source).copied().unwrap_or(0);
        let place = (0..self.strangers.len()).min_by_key(|n| last(&self.strangers[*n]));
        let Some(next) = place.and_then(|place| self.strangers.remove(place)) else {
            self.turns.clear();
            return None;
        };
        let turn = 1 + self.turns.values().max().copied().unwrap_or(0);
        self.turns.insert(next.0.source, turn);
        Some(next)
    }
}

/// The queue of password checks of one engine.
#[derive(Default)]
pub(crate) struct Passwords(Mutex<Line>);

impl Passwords {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a password check. `answer` is called with the result, in another thread.
    ///
    /// # Errors
    /// If the system has no further thread; nothing is checked then.
    pub(crate) fn check(
        self: &Arc<Self>,
        guess: Guess,
        io: &Arc<dyn Io>,
        answer: impl FnOnce(bool) + Send + 'static,
    ) -> io::Result<()> {
        let mut line = self.line();
        if !line.is_running {
            let (passwords, world) = (Arc::clone(self), Arc::clone(io));
            let run = Box::new(move || passwords.work(&*world));
            io.spawn("tfx-password".to_owned(), run)?;
            line.is_running = true;
        }
        let waiting = if guess.is_known { &mut line.known } else { &mut line.strangers };
        waiting.push_back((guess, Box::new(answer)));
        Ok(())
    }

    /// Checks a password, and waits for the result.
    ///
    /// # Errors
    /// If the system has no further thread; nothing is checked then.
    pub(crate) fn wait(self: &Arc<Self>, guess: Guess, io: &Arc<dyn Io>) -> io::Result<bool> {
        let (answer, answered) = channel();
        self.check(guess, io, move |is_right| _ = answer.send(is_right))?;
        // The channel closes without a result only if the thread was lost; the password then counts
        // as wrong.
        Ok(answered.recv().unwrap_or(false))
    }

    /// Runs queued password checks, and returns when none is left.
    fn work(&self, io: &dyn Io) {
        lower_priority();
        loop {
            let mut line = self.line();
            let Some((guess, answer)) = line.next() else {
                line.is_running = false;
                return;
            };
            let mut memory = std::mem::take(&mut line.memory);
            drop(line);
            let begun_ns = io.monotonic_ns();
            let check = || memory.is_of(guess.hash.reveal(), &guess.password);
            let is_right = catch_unwind(AssertUnwindSafe(check)).unwrap_or(false);
            let took_ns = io.monotonic_ns().saturating_sub(begun_ns);
            self.line().memory = memory;
            // A panic of the callback must not end this thread.
            let _ = catch_unwind(AssertUnwindSafe(|| answer(is_right)));
            if !is_right {
                io.sleep(Duration::from_nanos(took_ns) * REST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::System;
    use transfix_settings::hash_password;

    /// Many threads request checks at once, but only one check at a time uses memory.
    #[test]
    fn many_checks_take_the_memory_of_one() {
        let (passwords, io): (Arc<Passwords>, Arc<dyn Io>) = (Arc::default(), Arc::new(System));
        let hash = hash_password("sesame").unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let (passwords, io, hash) = (&passwords, &io, &hash);
                scope.spawn(move || {
                    let password = if n % 2 == 0 { "sesame" } else { "guess" };
                    let (hash, password) = (hash.clone(), password.into());
                    let guess = Guess { hash, password, source: None, is_known: n < 4 };
                    assert_eq!(passwords.wait(guess, io).unwrap(), n % 2 == 0);
                });
            }
        });
        let line = passwords.line();
        assert_eq!(line.memory.kib(), 19_456);
        assert!(line.known.is_empty() && line.strangers.is_empty());
    }

    #[test]
    fn a_known_counterparty_is_first_and_each_source_has_its_turn() {
        let (passwords, io): (Arc<Passwords>, Arc<dyn Io>) = (Arc::default(), Arc::new(System));
        let hash = hash_password("sesame").unwrap();
        // The flag simulates a running thread, so that the checks stay in the queue.
        passwords.line().is_running = true;
        let (told, order) = channel();
        for (who, host, is_known) in
            [("a", 1, false), ("b", 1, false), ("c", 1, false), ("d", 2, false), ("e", 1, true)]
        {
            let (hash, password) = (hash.clone(), b"sesame".to_vec());
            let guess = Guess { hash, password, source: Some([10, 0, 0, host].into()), is_known };
            let told = told.clone();
            passwords.check(guess, &io, move |_| told.send(who).unwrap()).unwrap();
        }
        std::thread::scope(|scope| _ = scope.spawn(|| passwords.work(&*io)));
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["e", "a", "d", "b", "c"]);
    }
}
