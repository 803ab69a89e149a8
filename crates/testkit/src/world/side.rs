//! A side of a world: a session with its store, application and clock. A side survives crashes
//! and restarts.
//!
//! Law: after a crash, the store contains a prefix of the commits that includes all durable
//! commits. A single call of the session may commit several times.

use std::collections::VecDeque;

use transfix::schedule::{Interval, Outside, Schedule};
use transfix::simulated::rig::{Ended, Rig, Rules};
use transfix::{Body, Disconnect, Now, SendError, Sent, SessionSettings, State, Timestamp};
use transfix_session::{Config, Outbox, Session};
use transfix_store::Store;

use crate::disk::Crash;

use super::app::{self, Shared as App, Source};
use super::disk::{Commit, Disk, Fuse};

/// The start time of the simulated wall clocks: 2026-11-21 12:00:00 UTC, in nanoseconds since 1970.
pub(super) const START_UTC_NS: i64 = 1_795_262_400_000_000_000;

/// The outcome of a call of the session.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The session continues.
    Fine,
    /// The session has ended, and the connection must be closed.
    Ended(Ended),
    /// The process has crashed during the call.
    Died,
}

/// The limits for messages held behind a gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) messages_max: usize,
    pub(super) bytes_max: usize,
}

/// The state of a side before a call.
struct Before {
    /// The next inbound and outbound sequence numbers that a new process would find in the store.
    kept: (u64, u64),
    resets: u64,
    epoch: u64,
    queued: Vec<Vec<u8>>,
    returned: usize,
}

/// A side of the world: the session and everything that belongs to its process.
pub(super) struct Side {
    pub(super) rig: Rig,
    pub(super) settings: SessionSettings,
    held: Held,
    pub(super) app: App,
    pub(super) disk: Disk,
    rules: Rules,
    hours: Option<Schedule>,
    /// The schedule window in which the sequence numbers were last reset.
    restarted: Option<Interval>,
    /// The difference between the wall clock and the true time, in nanoseconds.
    pub(super) ahead_ns: i64,
    /// The time at which bytes last arrived, and the number of messages received by then.
    pub(super) received: (u64, u64),
    /// The session's state, and the time at which the session entered the state.
    pub(super) since: (State, u64),
    /// The time at which the expected inbound sequence number last changed, and the number itself.
    pub(super) moved: (u64, u64),
    /// The commits that are not durable yet, preceded by the last durable commit.
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

    /// Calls the session. If the process crashes during the call, the side starts a new process.
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
            // A message that was sent after the reset already belongs to the new epoch.
            let mut log = self.app.lock();
            log.epoch = log.epoch.max(before.epoch + 1);
        }
        if self.disk.is_lost() {
            self.recover(now, &before);
            return Outcome::Died;
        }
        outcome.map_or_else(Outcome::Ended, |()| Outcome::Fine)
    }

    /// Runs the session's turns until no further turn is due at this time.
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

    /// Checks that a schedule resets the sequence numbers once per window.
    fn check_restart(&mut self, now: u64) {
        let Some(hours) = &self.hours else { return };
        let window = hours.at(self.moment(now).utc);
        assert!(window.is_some(), "the numbers start again outside of all windows");
        assert!(self.restarted != window, "the numbers start again within {window:?}");
        // A crash may also undo the reset.
        self.restarted = window.filter(|_| !self.disk.is_lost());
    }

    /// Returns true if the schedule allows a session to be logged on now.
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

    /// Waits until all commits are durable, as a process does before it exits.
    pub(super) fn settle(&mut self, now: u64) -> Outcome {
        let Some(pace) = &self.disk.pace else { return Outcome::Fine };
        pace.allow(u64::MAX);
        self.operate(now, |_, _, _| ())
    }

    /// Starts a new process after a crash, and checks the state that the old process left.
    fn recover(&mut self, now: u64, before: &Before) {
        let after = self.kept();
        {
            let mut log = self.app.lock();
            log.forget(&before.queued);
            log.undo_returns(before.returned);
        }
        self.restart(now, self.disk.worst());
        // The store may contain the commit during which the process crashed, so this commit counts
        // as possible.
        self.commits.push_back(Commit::now(u64::MAX, after, &self.app));
        self.go_back_to(self.numbers());
    }

    /// Records, for each new commit, the state that a new process would find.
    fn note_commits(&mut self) {
        let mut made = self.disk.take_commits();
        let is_lost = self.disk.is_lost();
        // The application's log records a message sent from outside only after the commit, so the
        // count is corrected here.
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
        // A commit that becomes durable after the crash does not count.
        let Some(pace) = self.disk.pace.as_ref().filter(|_| !is_lost) else { return };
        while self.commits.get(1).is_some_and(|second| second.ticket <= pace.safe()) {
            self.commits.pop_front();
        }
    }

    /// Checks that the numbers in the store belong to a recorded commit, none earlier than the last
    /// durable one, and restores the application's log to that commit.
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

    /// Restarts the list of commits for a new process, whose tickets begin again. All data in the
    /// store is durable at this time.
    pub(super) fn begin_commits(&mut self) {
        self.commits = VecDeque::from([Commit::now(0, self.kept(), &self.app)]);
    }

    /// Starts a new process, which knows only the contents of the store.
    pub(super) fn restart(&mut self, now: u64, crash: Crash) {
        self.app.lock().forget(&self.rig.queued());
        // The fault ends here, because a store cannot be opened on a disk that cannot sync.
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

    /// Sends one application message. The session may refuse the message.
    pub(super) fn send(&mut self, now: u64) -> Outcome {
        let app = self.app.clone();
        self.call(now, |rig, now| {
            let drawn = app.lock().draw(Source::Outside);
            let fill = |body: &mut Body<'_>| app::fill(body, drawn);
            let next = rig.look().next_num_out;
            match rig.send(now, b"D", fill) {
                Ok(Sent::Queued { .. }) => app.lock().queued(drawn.0),
                Ok(Sent::Direct(seq) | Sent::Stored(seq)) => app.lock().accepted(drawn.0, seq),
                // The outcome is unknown until the store is reopened.
                Err(SendError::Failed) => {
                    let has_number = rig.look().next_num_out > next;
                    let mut log = app.lock();
                    log.accepted(drawn.0, next);
                    // A message that was to be queued counts as refused unless the store contains
                    // the message.
                    if !has_number {
                        log.forgotten.extend([drawn.0]);
                    }
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Carries out an operator's action on the session.
    pub(super) fn operate(
        &mut self,
        now: u64,
        act: impl FnOnce(&mut Session, Now, &mut Outbox),
    ) -> Outcome {
        self.call(now, |rig, now| rig.operate(now, act))
    }

    /// Closes the connection for this reason. The close may also write to the store.
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
