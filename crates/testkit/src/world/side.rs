//! One side of a world: a session with its store, its application and its clock, through crashes
//! and restarts.
//!
//! Law: a process that ends at any commit leaves the numbers from before the call or those from
//! after it, and nothing else.

use std::collections::VecDeque;

use transfix::schedule::{Interval, Outside, Schedule};
use transfix::simulated::rig::{Ended, Rig, Rules};
use transfix::{
    Body, Disconnect, Now, SendError, Sent, SessionSettings, State, Timestamp, store::Store,
};
use transfix_session::{Config, Outbox, Session};

use crate::disk::Crash;

use super::app::{self, Shared as App, Source};
use super::disk::{Disk, Fuse};

/// 2026-11-21 12:00:00, where the simulated wall clocks begin.
pub(super) const START_UTC_NS: i64 = 1_795_262_400_000_000_000;

/// What a call has led to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All goes on.
    Fine,
    /// The link is to be closed.
    Ended(Ended),
    /// The process has ended.
    Died,
}

/// Messages above a gap that are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) messages_max: usize,
    pub(super) bytes_max: usize,
}

/// Where things stood before a call.
struct Before {
    /// As a new process would find them.
    kept: (u64, u64),
    sent: usize,
    delivered: usize,
    resets: u64,
    epoch: u64,
    queued: Vec<Vec<u8>>,
    returned: usize,
}

/// What a process finds that ends when this commit is the last that is safe.
#[derive(Clone, Copy, Debug)]
struct Commit {
    ticket: u64,
    kept: (u64, u64),
    sent: usize,
    delivered: usize,
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
    /// The window in which the numbers have started again last.
    restarted: Option<Interval>,
    /// How far the wall clock is ahead.
    pub(super) ahead_ns: i64,
    /// When anything was received last, and the count of messages then.
    pub(super) received: (u64, u64),
    /// When it came into the state it is in.
    pub(super) since: (State, u64),
    /// When the expected number moved last, and the number.
    pub(super) moved: (u64, u64),
    /// Commits that are not safe yet, and the last one that is.
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
            commits: VecDeque::from([Commit { ticket: 0, kept: (1, 1), sent: 0, delivered: 0 }]),
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

    /// Calls into the session; if its process ends meanwhile, a new one takes over.
    pub(super) fn call(
        &mut self,
        now: u64,
        call: impl FnOnce(&mut Rig, Now) -> Result<(), Ended>,
    ) -> Outcome {
        let before = {
            let log = self.app.lock();
            Before {
                kept: self.kept(),
                sent: log.sent.len(),
                delivered: log.delivered.len(),
                resets: self.disk.resets(),
                epoch: log.epoch,
                queued: self.rig.queued(),
                returned: log.returned.len(),
            }
        };
        let moment = self.moment(now);
        let outcome = call(&mut self.rig, moment);
        self.note(now);
        // What a process does that has ended in truth does not count.
        if !self.disk.is_lost() {
            self.note_commit();
        }
        let (after, reset) = (self.numbers(), self.disk.resets() > before.resets);
        let ahead = after.0 >= before.kept.0 && after.1 >= before.kept.1;
        assert!(ahead || reset || self.disk.is_lost(), "numbers go back to {after:?}");
        if reset {
            self.check_restart(now);
            // What was sent behind the reset has begun the new epoch already.
            let mut log = self.app.lock();
            log.epoch = log.epoch.max(before.epoch + 1);
        }
        if self.disk.is_lost() {
            self.recover(now, &before);
            return Outcome::Died;
        }
        outcome.map_or_else(Outcome::Ended, |()| Outcome::Fine)
    }

    /// Turns, as long as one is due at once.
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

    /// The numbers of a schedule start again once a window.
    fn check_restart(&mut self, now: u64) {
        let Some(hours) = &self.hours else { return };
        let window = hours.at(self.moment(now).utc);
        assert!(window.is_some(), "the numbers start again outside of all windows");
        assert!(self.restarted != window, "the numbers start again within {window:?}");
        // With the process the restart may be lost too.
        self.restarted = window.filter(|_| !self.disk.is_lost());
    }

    /// Whether a session may be logged on now.
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

    /// Waits until all that was committed is safe, as a process does before it ends.
    pub(super) fn settle(&mut self, now: u64) -> Outcome {
        let Some(pace) = &self.disk.pace else { return Outcome::Fine };
        pace.allow(u64::MAX);
        self.operate(now, |_, _, _| ())
    }

    /// A new process finds what the old one has left.
    fn recover(&mut self, now: u64, before: &Before) {
        let after = self.kept();
        {
            let mut log = self.app.lock();
            log.forget(&before.queued);
            log.undo_returns(before.returned);
        }
        self.restart(now, self.disk.worst());
        let found = self.numbers();
        // What waits in a queue may be sent in several batches.
        if self.disk.pace.is_some() {
            let log = self.app.lock();
            let (sent, delivered) = (log.sent.len(), log.delivered.len());
            drop(log);
            // Perhaps with the commit in which it has ended.
            self.commits.push_back(Commit { ticket: u64::MAX, kept: after, sent, delivered });
            return self.go_back_to(found);
        }
        let partly = !before.queued.is_empty()
            && (before.kept.1..=after.1).contains(&found.1)
            && (found.0 == before.kept.0 || found.0 == after.0);
        assert!(
            partly || found == after || found == before.kept,
            "a crash between {:?} and {after:?} leaves {found:?}",
            before.kept
        );
        if found == before.kept && found != after {
            // What the application did in that turn is undone with it.
            let mut log = self.app.lock();
            log.sent.truncate(before.sent);
            log.delivered.truncate(before.delivered);
        }
    }

    /// Remembers what a process finds that ends before more is safe.
    fn note_commit(&mut self) {
        let Some(pace) = &self.disk.pace else { return };
        let (ticket, safe, kept) = (pace.committed(), pace.safe(), self.kept());
        let log = self.app.lock();
        let (sent, delivered) = (log.sent.len(), log.delivered.len());
        drop(log);
        if self.commits.back().is_none_or(|last| last.ticket < ticket) {
            self.commits.push_back(Commit { ticket, kept, sent, delivered });
        }
        while self.commits.get(1).is_some_and(|second| second.ticket <= safe) {
            self.commits.pop_front();
        }
    }

    /// The process has ended: a prefix of its commits is there, with all that were safe.
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

    /// A new process has the store, which begins its tickets anew: all that it has is safe.
    pub(super) fn begin_commits(&mut self) {
        let log = self.app.lock();
        let (sent, delivered) = (log.sent.len(), log.delivered.len());
        drop(log);
        let kept = self.kept();
        self.commits = VecDeque::from([Commit { ticket: 0, kept, sent, delivered }]);
    }

    /// A new process takes over: only the store is left.
    pub(super) fn restart(&mut self, now: u64, crash: Crash) {
        self.app.lock().forget(&self.rig.queued());
        // No store opens on a disk that cannot sync.
        self.disk.ail(None);
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

    /// The application sends one message, if the session takes it.
    pub(super) fn send(&mut self, now: u64) -> Outcome {
        let app = self.app.clone();
        self.call(now, |rig, now| {
            let drawn = app.lock().draw(Source::Outside);
            let fill = |body: &mut Body<'_>| app::fill(body, drawn);
            let next = rig.look().next_num_out;
            match rig.send(now, b"D", fill) {
                Ok(Sent::Queued { .. }) => app.lock().queued(drawn.0),
                Ok(Sent::Direct(seq) | Sent::Stored(seq)) => app.lock().accepted(drawn.0, seq),
                // Nobody knows before the store has been opened again.
                Err(SendError::Failed) => {
                    let has_number = rig.look().next_num_out > next;
                    let mut log = app.lock();
                    log.accepted(drawn.0, next);
                    // One for the queue is refused, unless the store has it all the same.
                    if !has_number {
                        log.forgotten.extend([drawn.0]);
                    }
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// The operator does something.
    pub(super) fn operate(
        &mut self,
        now: u64,
        act: impl FnOnce(&mut Session, Now, &mut Outbox),
    ) -> Outcome {
        self.call(now, |rig, now| rig.operate(now, act))
    }

    /// The connection closes, which may be journalled too.
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
