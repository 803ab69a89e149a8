//! One side of a world: a session with its store, application and clock, through crashes and
//! restarts.
//!
//! Law: a process that ends at any moment leaves a prefix of its commits that includes all safe
//! commits, and nothing else. A call may commit several times.

use std::collections::VecDeque;

use transfix::schedule::{Interval, Outside, Schedule};
use transfix::simulated::rig::{Ended, Rig, Rules};
use transfix::{Body, Disconnect, Now, SendError, Sent, SessionSettings, State, Timestamp};
use transfix_session::{Config, Outbox, Session};
use transfix_store::Store;

use crate::disk::Crash;

use super::app::{self, Shared as App, Source};
use super::disk::{Commit, Disk, Fuse};

/// The start of the simulated wall clocks: 2026-11-21 12:00:00.
pub(super) const START_UTC_NS: i64 = 1_795_262_400_000_000_000;

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The session continues.
    Fine,
    /// The link must be closed.
    Ended(Ended),
    /// The process ended.
    Died,
}

/// Limits of messages that are kept above a gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) messages_max: usize,
    pub(super) bytes_max: usize,
}

/// The state before a call.
struct Before {
    /// The numbers that a new process would find.
    kept: (u64, u64),
    resets: u64,
    epoch: u64,
    queued: Vec<Vec<u8>>,
    returned: usize,
}

/// One side.
pub(super) struct Side {
    pub(super) rig: Rig,
    pub(super) settings: SessionSettings,
    held: Held,
    pub(super) app: App,
    pub(super) disk: Disk,
    rules: Rules,
    hours: Option<Schedule>,
    /// The window in which the numbers were last reset.
    restarted: Option<Interval>,
    /// Offset of the wall clock.
    pub(super) ahead_ns: i64,
    /// Time of the last received message, and the count of messages then.
    pub(super) received: (u64, u64),
    /// The current state, and when it began.
    pub(super) since: (State, u64),
    /// Time at which the expected number last moved, and the number.
    pub(super) moved: (u64, u64),
    /// Commits that are not safe yet, preceded by the last safe commit.
    commits: VecDeque<Commit>,
}

impl Side {
    pub(super) fn new(
        settings: SessionSettings,
        held: Held,
        app: App,
        disk: Disk,
        rules: &Rules,
    ) -> Self {
        let schedule = settings.schedule.as_ref();
        let first = Commit::now(0, (1, 1), &app);
        Self {
            hours: schedule.map(|schedule| Schedule::new(schedule).expect("the hours are good")),
            restarted: None,
            rig: start(&settings, held, &app, disk.open(Crash::Process), rules),
            settings,
            held,
            app,
            disk,
            rules: rules.clone(),
            ahead_ns: 0,
            received: (0, 0),
            since: (State::Disconnected, 0),
            moved: (0, 1),
            commits: VecDeque::from([first]),
        }
    }

    pub(super) fn moment(&self, now: u64) -> Now {
        Now { utc: Timestamp(START_UTC_NS + now as i64 + self.ahead_ns), monotonic_ns: now }
    }

    pub(super) fn numbers(&self) -> (u64, u64) {
        let seen = self.rig.look();
        (seen.next_num_in, seen.next_num_out)
    }

    fn kept(&self) -> (u64, u64) {
        self.rig.look().kept_numbers
    }

    pub(super) fn state(&self) -> State {
        self.rig.look().state
    }

    /// Calls into the session. If its process ends during the call, a new process takes over.
    pub(super) fn call(
        &mut self,
        now: u64,
        call: impl FnOnce(&mut Rig, Now) -> Result<(), Ended>,
    ) -> Outcome {
        let before = {
            let log = self.app.lock();
            Before {
                kept: self.kept(),
                resets: self.disk.resets(),
                epoch: log.epoch,
                queued: self.rig.queued(),
                returned: log.returned.len(),
            }
        };
        let moment = self.moment(now);
        let outcome = call(&mut self.rig, moment);
        self.note(now);
        self.note_commits();
        let (after, reset) = (self.numbers(), self.disk.resets() > before.resets);
        let ahead = after.0 >= before.kept.0 && after.1 >= before.kept.1;
        assert!(ahead || reset || self.disk.is_lost(), "numbers go back to {after:?}");
        if reset {
            self.check_restart(now);
            // A message sent after the reset already belongs to the new epoch.
            let mut log = self.app.lock();
            log.epoch = log.epoch.max(before.epoch + 1);
        }
        if self.disk.is_lost() {
            self.recover(now, &before);
            return Outcome::Died;
        }
        outcome.map_or_else(Outcome::Ended, |()| Outcome::Fine)
    }

    /// Runs turns while one is due at once.
    pub(super) fn turn(&mut self, now: u64) -> Outcome {
        loop {
            let mut again = false;
            let outcome = self.call(now, |rig, now| {
                again = rig.turn(now)?;
                Ok(())
            });
            if !again || !matches!(outcome, Outcome::Fine) {
                return outcome;
            }
        }
    }

    /// Checks that a schedule resets the numbers once in each window.
    fn check_restart(&mut self, now: u64) {
        let Some(hours) = &self.hours else { return };
        let window = hours.at(self.moment(now).utc);
        assert!(window.is_some(), "the numbers start again outside of all windows");
        assert!(self.restarted != window, "the numbers start again within {window:?}");
        // The end of the process may undo the reset.
        self.restarted = window.filter(|_| !self.disk.is_lost());
    }

    /// Returns true if a session may be logged on now.
    pub(super) fn is_open(&self, now: u64) -> bool {
        let stays = |hours: &Schedule| *hours.outside() != Outside::Disconnect;
        let open = |hours: &Schedule| hours.at(self.moment(now).utc).is_some();
        self.hours.as_ref().is_none_or(|hours| stays(hours) || open(hours))
    }

    fn note(&mut self, now: u64) {
        let seen = self.rig.look();
        let (count, next_in) = (seen.counters.messages_in, seen.next_num_in);
        if count != self.received.1 {
            self.received = (now, count);
        }
        if seen.state != self.since.0 {
            self.since = (seen.state, now);
        }
        if next_in != self.moved.1 {
            self.moved = (now, next_in);
        }
    }

    /// Waits until all commits are safe, as a process does before it stops.
    pub(super) fn settle(&mut self, now: u64) -> Outcome {
        let Some(pace) = &self.disk.pace else { return Outcome::Fine };
        pace.allow(u64::MAX);
        self.operate(now, |_, _, _| ())
    }

    /// Checks the state that a new process finds.
    fn recover(&mut self, now: u64, before: &Before) {
        let after = self.kept();
        {
            let mut log = self.app.lock();
            log.forget(&before.queued);
            log.undo_returns(before.returned);
        }
        self.restart(now, self.disk.worst());
        // The commit during which the process ended may be stored.
        self.commits.push_back(Commit::now(u64::MAX, after, &self.app));
        self.go_back_to(self.numbers());
    }

    /// Records the states that a new process may find.
    fn note_commits(&mut self) {
        let mut made = self.disk.take_commits();
        let is_lost = self.disk.is_lost();
        // A message sent from outside is logged only now.
        if let Some(last) = made.last_mut().filter(|_| !is_lost) {
            assert_eq!(last.kept, self.kept(), "the store has other numbers than the session");
            *last = Commit::now(last.ticket, last.kept, &self.app);
        }
        for commit in made {
            if self.disk.pace.is_none() && !commit.is_last {
                self.commits.clear();
            }
            self.commits.push_back(commit);
        }
        // Commits that a dead process made safe do not count.
        let Some(pace) = self.disk.pace.as_ref().filter(|_| !is_lost) else { return };
        while self.commits.get(1).is_some_and(|second| second.ticket <= pace.safe()) {
            self.commits.pop_front();
        }
    }

    /// Rolls back to the found prefix of commits, which must include all safe commits.
    fn go_back_to(&mut self, found: (u64, u64)) {
        let commit = self.commits.iter().rev().find(|commit| commit.kept == found);
        let commit = *commit.unwrap_or_else(|| {
            panic!("{found:?} was found, and committed were {:?}", self.commits)
        });
        let mut log = self.app.lock();
        log.sent.truncate(commit.sent);
        log.delivered.truncate(commit.delivered);
        drop(log);
        self.begin_commits();
    }

    /// Restarts the tickets for a new process: everything found is safe.
    pub(super) fn begin_commits(&mut self) {
        self.commits = VecDeque::from([Commit::now(0, self.kept(), &self.app)]);
    }

    /// Starts a new process, with only the store left.
    pub(super) fn restart(&mut self, now: u64, crash: Crash) {
        self.app.lock().forget(&self.rig.queued());
        // A disk that cannot sync cannot open a store.
        self.disk.set_fault(None);
        let store = self.disk.open(crash);
        self.rig = start(&self.settings, self.held, &self.app, store, &self.rules);
        self.received = (now, 0);
        self.since = (State::Disconnected, now);
        self.moved = (now, self.numbers().0);
    }

    pub(super) fn connected(&mut self, now: u64) {
        let seen = self.rig.look();
        self.received = (now, seen.counters.messages_in);
        self.since = (seen.state, now);
        self.moved = (now, seen.next_num_in);
    }

    /// Sends one message from the application, if the session accepts it.
    pub(super) fn send(&mut self, now: u64) -> Outcome {
        let app = self.app.clone();
        self.call(now, |rig, now| {
            let drawn = app.lock().draw(Source::Outside);
            let fill = |body: &mut Body<'_>| app::fill(body, drawn);
            let next = rig.look().next_num_out;
            match rig.send(now, b"D", fill) {
                Ok(Sent::Queued { .. }) => app.lock().queued(drawn.0),
                Ok(Sent::Direct(seq) | Sent::Stored(seq)) => app.lock().accepted(drawn.0, seq),
                // Only reopening the store shows whether the message is stored.
                Err(SendError::Failed) => {
                    let has_number = rig.look().next_num_out > next;
                    let mut log = app.lock();
                    log.accepted(drawn.0, next);
                    // A message for the queue counts as refused, unless the store has it.
                    if !has_number {
                        log.forgotten.extend([drawn.0]);
                    }
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Performs an operator action.
    pub(super) fn operate(
        &mut self,
        now: u64,
        act: impl FnOnce(&mut Session, Now, &mut Outbox),
    ) -> Outcome {
        self.call(now, |rig, now| rig.operate(now, act))
    }

    /// Closes the connection; the close may be recorded in the journal.
    pub(super) fn close(&mut self, now: u64, reason: Disconnect) -> Outcome {
        let outcome = self.call(now, |rig, now| {
            rig.close(now, reason);
            Ok(())
        });
        self.since = (State::Disconnected, now);
        outcome
    }

    pub(super) fn arm(&mut self, fuse: Fuse) {
        self.disk.arm(fuse);
    }
}

fn start(
    settings: &SessionSettings,
    held: Held,
    app: &App,
    store: Box<dyn Store>,
    rules: &Rules,
) -> Rig {
    let adjust = |config: &mut Config| {
        config.protocol.held_messages_max = held.messages_max;
        config.protocol.held_bytes_max = held.bytes_max;
    };
    let rig = Rig::new(settings, adjust, store, Box::new(app.clone()), rules);
    rig.unwrap_or_else(|why| panic!("the settings of a world are good: {why}"))
}
