//! A session in its worker: the shared link, and the connector of an initiator.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use transfix_observe::event;
use transfix_session::{Disconnect, Now};
use transfix_settings::schedule::Interval;
use transfix_settings::{AfterPanic, Offline};
use transfix_store::StoreError;
use transfix_transport::{Registry, Stream, Token};

use crate::drive::connector::{Connector, Ended};
use crate::drive::outcome::{Outcome, SessionOutcome};
use crate::drive::reopening::Reopening;
use crate::drive::shared::{NO_WISH, Shared};
use crate::link::event::Event;
use crate::link::{Arrival, Down, INTEREST, Link, Turn};

const MS: u64 = 1_000_000;
/// A step of the wall clock after which the schedule is checked at once.
const CLOCK_JUMP_NS: u64 = 1_000 * MS;

/// The maximum number of consecutive turns that a spinning worker skips for other threads; together
/// about ten microseconds.
const GIVEN_WAY_MAX: u32 = 1_000;

/// The maximum number of reads before a connection is closed. The limit keeps a counterparty that
/// never stops sending from delaying the worker.
const DRAIN_READS: usize = 64;

/// Reads and discards the bytes that have arrived. Closing a socket with unread bytes resets the
/// connection, and the counterparty could lose the last Logout(5).
pub(crate) fn drain(stream: &mut dyn Stream) {
    let mut buffer = [0; 4096];
    for _ in 0..DRAIN_READS {
        if !matches!(stream.read(&mut buffer), Ok(1..)) {
            return;
        }
    }
}

/// Switches to another destination, if an operator requests it.
fn turn_to_wanted(shared: &Shared, connector: &mut Connector, now: Now) {
    let wanted = shared.wanted_destination.swap(NO_WISH, Ordering::AcqRel);
    if wanted != NO_WISH {
        connector.turn_to(now.monotonic_ns, wanted);
    }
}

/// A session as its worker sees it.
pub(crate) struct DrivenSession {
    pub(crate) shared: Arc<Shared>,
    connector: Option<Connector>,
    pub(crate) up: bool,
    /// True once the counterparty has closed its direction of the connection. Bytes that have
    /// arrived must still be read.
    pub(crate) read_closed: bool,
    /// True if an event has reported the end of the connection, and no turn has handled it yet.
    pub(crate) end_is_due: bool,
    /// True if the session is in the worker's list for the next round.
    pub(crate) due: bool,
    /// True if other sessions of the thread have had turns since the last turn of this session.
    was_away: bool,
    pub(crate) failed: bool,
    /// The number of consecutive turns left to other threads.
    given_way: u32,
    ended: Option<Disconnect>,
    /// A bit for each destination whose failure was logged since the last established connection.
    warned: u64,
    /// The time of the next check of the schedule, on the monotonic clock; `None` without a
    /// schedule.
    look_at: Option<u64>,
    /// True if the window has closed, and the session's logout has begun.
    closing: bool,
    /// The schedule window in which the connection was established, or in which the connector has
    /// stopped trying.
    window: Option<Interval>,
    /// The monotonic time of the next check of messages queued without a connection. At that time
    /// the first message expires, or messages left over by the last check continue.
    expires_at: Option<u64>,
    /// The time at which to report the number of omitted log lines, while there is no connection.
    untold_at: Option<u64>,
    /// True for an initiator that must not connect yet, because its application or second store has
    /// not finished with the last connection.
    is_behind: bool,
    reopening: Reopening,
    /// The session's number of logons when the connection was established, to detect whether it
    /// logged on.
    logons: u64,
    /// The link's next deadline, as of the last turn with progress.
    next_ns: Option<u64>,
    /// The difference between wall clock and monotonic clock at the last check of the schedule.
    clocks_ns: i64,
}

impl DrivenSession {
    pub(crate) fn new(shared: Arc<Shared>, connector: Option<Connector>) -> Self {
        let (up, failed, ended, warned, closing) = (false, false, None, 0, false);
        let (look_at, window, expires_at) = (None, None, None);
        let mut slot = Self {
            shared,
            connector,
            up,
            failed,
            ended,
            warned,
            look_at,
            closing,
            window,
            expires_at,
            untold_at: None,
            is_behind: false,
            reopening: Reopening::default(),
            read_closed: false,
            end_is_due: false,
            due: false,
            was_away: false,
            given_way: 0,
            logons: 0,
            next_ns: None,
            clocks_ns: 0,
        };
        let mut link = slot.lock();
        let (has_schedule, has_failed) = (link.executor().hours.is_some(), link.has_failed());
        drop(link);
        slot.look_at = has_schedule.then_some(0);
        if has_failed {
            // The store could not be opened at the start.
            slot.failed = true;
            slot.reopening.plan(slot.shared.io.monotonic_ns());
        }
        slot
    }

    /// Checks the schedule if a check is due, or if the clock has jumped. Logs the session out if
    /// it is connected outside its window.
    fn look_at_schedule(&mut self, now: Now) -> Result<(), Down> {
        // A change of the difference shows that the clock was set or the machine has slept, so
        // another window may apply.
        let clocks_ns = now.utc.0.wrapping_sub(now.monotonic_ns as i64);
        let jumped = self.clocks_ns.abs_diff(clocks_ns) > CLOCK_JUMP_NS;
        if self.look_at.is_none_or(|at| now.monotonic_ns < at && !jumped) {
            return Ok(());
        }
        self.clocks_ns = clocks_ns;
        let mut link = self.shared.sound_link().map_err(|_| Down::Panicked)?;
        let Some(hours) = &mut link.executor().hours else { return Ok(()) };
        // If windows are adjacent, the next window is open when this one ends; the session must
        // still log out.
        let same = hours.stays() || hours.at(now.utc) == self.window;
        let may_stay = hours.may_connect(now.utc) && same;
        self.look_at = Some(hours.look_again(now));
        if may_stay || !self.up {
            self.closing = false;
            return Ok(());
        }
        if std::mem::replace(&mut self.closing, true) {
            return Ok(());
        }
        // This line is logged once per window, because no connection is accepted outside the
        // window.
        event!(info, WindowClosed, session = %self.shared.id);
        link.executor().send_queued(now, &self.shared.queue);
        if link.logout(now, "the session is closed by its schedule")? {
            return Ok(());
        }
        Err(Down::Session(Disconnect::Schedule))
    }

    /// Does the work that a session has without a connection: its store, queued messages, and
    /// pending calls of the application.
    fn look_at_store(&mut self, now: Now) -> Result<(), Down> {
        let mut link = self.shared.sound_link().map_err(|_| Down::Panicked)?;
        link.executor().sinks.event_log.tell_untold(now);
        link.executor().look_what_is_safe(now).map_err(Down::Store)?;
        link.make_calls(now);
        link.executor().look_at_refresh(now)?;
        if link.executor().has_news() {
            link.executor().poll_application(now)?;
            link.flush(now)?;
        }
        if link.has_failed() {
            return Err(Down::Store(StoreError::Poisoned));
        }
        let mut left = link.core().options.turn_messages_max;
        let looked = match self.shared.offline {
            Offline::Store => {
                link.executor().send_some(now, &self.shared.queue, &mut left);
                // Messages may be left, so the next check is due at once.
                self.expires_at = (left == 0).then_some(now.monotonic_ns);
                link.flush(now)
            }
            Offline::Queue => {
                link.executor().expire_queued(now, &mut left);
                let kept = link.executor().keep_queued(now, &self.shared.queue);
                self.expires_at = link.core().outgoing.deadline(now);
                kept.map_err(Down::Store)
            }
            _ => Ok(()),
        };
        link.make_calls(now);
        self.untold_at = link.deadline_at_rest();
        // This step must come last, because the steps before may report unsent messages to the
        // application.
        let is_done = link.core_mut().delivery.ask_for_idle() && link.executor().may_change_store();
        self.is_behind = self.connector.is_some() && !is_done;
        looked
    }

    /// Returns the current window of the schedule, if any.
    fn window_at(&self, now: Now) -> Option<Interval> {
        self.lock().executor().hours.as_mut().and_then(|hours| hours.at(now.utc))
    }

    /// Returns true if the schedule allows a connection now.
    fn is_open(&self, now: Now) -> bool {
        self.look_at.is_none()
            || self.lock().executor().hours.as_mut().is_none_or(|h| h.may_connect(now.utc))
    }

    fn is_enabled(&self) -> bool {
        self.shared.enabled.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        self.shared.lock()
    }

    /// Returns true if a spinning worker should leave the session to a thread that waits for its
    /// lock. The number of consecutive turns is limited.
    pub(crate) fn gives_way(&mut self) -> bool {
        let gives_way = self.shared.is_wanted() && self.given_way < GIVEN_WAY_MAX;
        self.given_way = if gives_way { self.given_way + 1 } else { 0 };
        gives_way
    }

    /// Prefetches the memory that the next turn uses first, because other sessions have displaced
    /// it from the cache.
    #[inline]
    pub(crate) fn prefetch(&mut self) {
        self.was_away = true;
        transfix_transport::prefetch(&*self.shared);
    }

    pub(crate) fn turn(&mut self, is_alone: bool) -> Result<Turn, Down> {
        // A poisoned lock means that a turn or a send has panicked, perhaps with half a message in
        // the outbox.
        let mut link = self.shared.sound_link().map_err(|_| Down::Panicked)?;
        let shared = &self.shared;
        if shared.waiting.must_close() {
            return Err(Down::Session(Disconnect::MemoryLimit));
        }
        link.core_mut().was_away = std::mem::take(&mut self.was_away);
        let turn = link.turn(&shared.queue, is_alone, || shared.io.now())?;
        if turn.progress {
            // Reads the deadline here, because the lock is already held.
            self.next_ns = link.next_deadline();
        }
        if !turn.progress || !shared.waiting.note(link.waiting_bytes(&shared.queue)) {
            return Ok(turn);
        }
        let heaviest = shared.registry.heaviest();
        drop(link);
        match heaviest {
            Some(heaviest) if heaviest.id == shared.id => {
                Err(Down::Session(Disconnect::MemoryLimit))
            }
            Some(heaviest) => {
                heaviest.waiting.close();
                heaviest.call_worker();
                Ok(turn)
            }
            None => Ok(turn),
        }
    }

    /// Does the work that is due. Returns true if a turn must follow at once.
    pub(crate) fn tick(&mut self, now: Now) -> Result<bool, Down> {
        self.look_at_schedule(now)?;
        let mut link = self.shared.sound_link().map_err(|_| Down::Panicked)?;
        let is_due = link.next_deadline().is_some_and(|at| now.monotonic_ns >= at);
        if is_due { link.tick(now, &self.shared.queue) } else { Ok(false) }
    }

    /// Returns the deadline like [`DrivenSession::deadline`], but without locking the link. Valid
    /// only after a turn with progress.
    pub(crate) fn deadline_after_turn(&self) -> Option<u64> {
        self.next_ns.into_iter().chain(self.look_at).min()
    }

    /// Returns the time at which this session has work without inbound bytes.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let to_connect = match &self.connector {
            _ if self.failed => return self.reopening.deadline(),
            _ if self.up => {
                let link = self.lock();
                return link.next_deadline().into_iter().chain(self.look_at).min();
            }
            // The worker is called when the application has finished with the last connection.
            Some(_) if self.is_behind => None,
            // The connector starts again in the next window of the schedule.
            Some(connector) if connector.has_given_up() => self.look_at,
            Some(connector) => connector.deadline(self.is_enabled()),
            None => None,
        };
        [to_connect, self.expires_at, self.untold_at].into_iter().flatten().min()
    }

    /// Starts the session on an established connection, or closes the connection if the session is
    /// not allowed to connect. `registry` is given by a worker that waits for events.
    pub(crate) fn attach(
        &mut self,
        now: Now,
        mut arrival: Arrival,
        registry: Option<(Registry<'_>, Token)>,
    ) -> Result<(), Down> {
        if self.failed {
            if let Ok(mut link) = self.shared.link.try_lock() {
                let peer = arrival.stream.peer_addr();
                let why = "the session has failed";
                link.executor().tell(now, &Event::ConnectionRefused { peer, why });
            }
            return Ok(());
        }
        let is_open = self.is_open(now);
        let mut link = self.lock();
        if link.is_up() || !self.is_enabled() || !is_open {
            let why = match () {
                () if link.is_up() => "the session is already connected",
                () if !is_open => "the session is closed by its schedule",
                () => "the session is logged out by an operator",
            };
            let peer = arrival.stream.peer_addr();
            link.executor().tell(now, &Event::ConnectionRefused { peer, why });
            let untold_at = link.deadline_at_rest();
            drop(link);
            self.untold_at = untold_at;
            return Ok(());
        }
        // A send of another thread may have queued a notification since the last check, so the
        // application is not idle.
        if self.connector.is_some() && !link.core_mut().delivery.ask_for_idle() {
            drop(link);
            self.is_behind = true;
            return Ok(());
        }
        if let Some((registry, token)) = registry {
            arrival.stream.register(registry, token, INTEREST).map_err(Down::Io)?;
        }
        let logons = link.sinks().published.counters.logons.get();
        let attached = link.attach(now, arrival);
        drop(link);
        self.logons = logons;
        self.up = true;
        (self.read_closed, self.end_is_due) = (false, false);
        self.warned = 0;
        self.closing = false;
        self.look_at = self.look_at.map(|_| 0);
        self.window = self.window_at(now);
        self.ended = None;
        attached
    }

    /// Deregisters an established connection, before the session moves to another worker. Returns
    /// false if the session is not connected or has failed; the session then stays with this
    /// worker.
    pub(crate) fn leave(&mut self, registry: Registry<'_>) -> bool {
        self.up
            && !self.failed
            && self.shared.sound_link().is_ok_and(|mut link| link.leave(registry))
    }

    /// Registers the connection, if there is one, with the worker to which the session has moved.
    pub(crate) fn enter(&mut self, registry: Registry<'_>, token: Token) -> Result<(), Down> {
        if !self.up {
            return Ok(());
        }
        self.shared.sound_link().map_err(|_| Down::Panicked)?.enter(registry, token)
    }

    /// Advances a session without a connection: reopens its store, handles queued messages, and
    /// lets an initiator connect.
    pub(crate) fn connect(
        &mut self,
        now: Now,
        registry: Registry<'_>,
        token: Token,
        waits: bool,
    ) -> Result<(), Down> {
        let hurries = self.shared.hurry.swap(false, Ordering::AcqRel);
        if self.failed && hurries {
            self.reopening.hurry(now.monotonic_ns);
        }
        if self.failed && !self.reopening.advance(now, &self.shared) {
            // The attempt to reopen may hold the link's lock, so this method must not wait for it.
            return Ok(());
        }
        self.failed = false;
        self.look_at_schedule(now)?;
        self.look_at_store(now)?;
        let (is_open, is_enabled) = (self.is_open(now), self.is_enabled());
        let is_behind = self.is_behind;
        let has_given_up = self.connector.as_ref().is_some_and(Connector::has_given_up);
        let begins_anew = has_given_up && is_open && self.window_at(now) != self.window;
        let Some(connector) = self.connector.as_mut().filter(|_| !is_behind) else {
            return Ok(());
        };
        if hurries || begins_anew {
            connector.hurry(now.monotonic_ns);
        }
        turn_to_wanted(&self.shared, connector, now);
        if is_enabled && !is_open {
            connector.put_off(now.monotonic_ns, self.look_at);
        }
        let may_begin = is_enabled && is_open;
        let at = (registry, token);
        let connected = connector.advance(now.monotonic_ns, &self.shared, may_begin, at);
        if !matches!(connected, Ok(None)) {
            self.shared.lock().executor().sinks.event_log.goes_to(connector.routes.name());
        }
        let Some(stream) = connected.map_err(Down::Io)? else { return Ok(()) };
        let routes = &connector.routes;
        let (is_backup, resets) = (routes.current() > 0, routes.resets());
        self.shared.is_at_backup.store(is_backup, Ordering::Release);
        if resets {
            self.lock().core_mut().session.reset_at_next_logon();
        }
        self.attach(now, Arrival::fresh(stream), waits.then_some((registry, token)))?;
        if let Some(connector) = self.connector.as_mut().filter(|_| !self.up) {
            // The session was logged out while the connection was being established.
            connector.again(now.monotonic_ns);
        }
        Ok(())
    }

    /// Closes the link, reports the cause, and plans the next attempt to connect.
    pub(crate) fn down(&mut self, why: &Down, now: Now, registry: Registry<'_>) {
        match why {
            Down::Session(_) => {}
            // A failed connection is logged once per destination until a connection is established.
            Down::Io(error) if self.up => {
                self.lock().executor().tell(now, &Event::ConnectionBroke(error))
            }
            Down::Io(error) => {
                let bit = 1 << (self.shared.destination.load(Ordering::Acquire) % 64);
                if self.warned & bit == 0 {
                    self.warned |= bit;
                    self.lock().executor().tell(now, &Event::ConnectionFailed(error));
                }
            }
            Down::Store(error) => self.lock().executor().journal.fail(error),
            Down::Panicked => {
                let mut link = self.lock();
                let seq = link.core().handled();
                link.executor().tell(now, &Event::Panicked { seq });
            }
        }
        let reason = why.reason();
        if matches!(why, Down::Store(_) | Down::Panicked) {
            self.failed = true;
            // Clears an operator's earlier request, which did not concern this failure.
            self.shared.hurry.store(false, Ordering::Release);
        }
        match why {
            Down::Panicked if self.shared.after_panic == AfterPanic::End => {}
            Down::Store(_) | Down::Panicked => self.reopening.plan(now.monotonic_ns),
            _ => self.reopening.forget(),
        }
        self.ended = Some(reason);
        let (was_up, logons) = (self.up, self.shared.published.counters.logons.get());
        self.up = false;
        let mut given_up = None;
        if let Some(connector) = &mut self.connector {
            let ended = match (was_up, logons == self.logons) {
                (true, true) => Ended::Refused,
                (true, false) => Ended::AfterLogon,
                (false, _) => Ended::Unconnected,
            };
            if let Some(attempts) = connector.down(now.monotonic_ns, ended) {
                given_up = Some(attempts);
            }
            turn_to_wanted(&self.shared, connector, now);
        }
        if let Some(attempts) = given_up {
            self.window = self.window_at(now);
            self.lock().executor().tell(now, &Event::AttemptsGivenUp { attempts });
        }
        // Closing the link comes last, because the application is called and may panic.
        let mut link = self.lock();
        // Resets the waiting bytes under the lock, because a sender adds none after the link is
        // down.
        self.shared.waiting.note(0);
        if let Some(mut stream) = link.close(now, &self.shared.queue, reason) {
            drain(&mut *stream);
            // Deregistering fails if a spinning worker has not registered the stream, which is no
            // error.
            stream.deregister(registry).ok();
        }
        if matches!(why, Down::Panicked) {
            link.executor().abandon();
        }
        let (has_failed, untold_at) = (link.has_failed(), link.deadline_at_rest());
        drop(link);
        self.untold_at = untold_at;
        if has_failed && !std::mem::replace(&mut self.failed, true) {
            // The store failed while it stored the last records of the connection.
            self.reopening.plan(now.monotonic_ns);
        }
    }

    /// Abandons the session after closing it has panicked too, because its memory may be
    /// inconsistent.
    pub(crate) fn abandon(&mut self, now: Now) {
        self.lock().executor().abandon();
        self.up = false;
        self.failed = true;
        if self.shared.after_panic == AfterPanic::Revive {
            self.reopening.plan(now.monotonic_ns);
        }
    }

    /// Begins to stop the session: sends a Logout(5) if it is logged on, and prevents new
    /// connections.
    pub(crate) fn begin_stop(&mut self, now: Now, text: &str) -> Result<(), Down> {
        self.connector = None;
        self.shared.closed.store(true, Ordering::Release);
        if self.reopening.is_under_way() {
            // The session has failed and has no connection. The lock is not taken, because the
            // running attempt may never release it.
            return Ok(());
        }
        let mut link = self.lock();
        link.executor().send_queued(now, &self.shared.queue);
        link.make_calls(now);
        if !self.up || link.logout(now, text)? {
            return Ok(());
        }
        // The session is connected but not logged on, so there is no Logout(5) to wait for.
        Err(Down::Session(Disconnect::Operator))
    }

    /// Finishes the session at the end of the engine; see [`Link::finish`].
    pub(crate) fn finish(&mut self, until_ns: u64) {
        self.lock().finish(&*self.shared.io, &self.shared.queue, until_ns);
    }

    /// Waits, at the end of the engine, for a running `store-reopen` thread until `until_ns`.
    /// Returns true if the thread no longer uses the session.
    pub(crate) fn settle(&mut self, until_ns: u64) -> bool {
        self.reopening.settle(&*self.shared.io, until_ns);
        !self.reopening.is_left()
    }

    /// Returns true if all records of the store are durable, or if the store has failed.
    pub(crate) fn is_settled(&mut self) -> bool {
        let now = self.shared.io.now();
        !self.reopening.is_under_way() && self.lock().is_settled(now)
    }

    /// Returns the amount of work that [`DrivenSession::finish`] still has to do. The number
    /// decreases with each message.
    pub(crate) fn unsettled(&self) -> usize {
        self.lock().core().unsettled() + self.shared.queue.len()
    }

    pub(crate) fn outcome(&self, was_up: bool) -> Outcome {
        match self.ended {
            _ if self.failed || self.ended == Some(Disconnect::StoreFailed) => Outcome::Failed,
            _ if !was_up => Outcome::NotConnected,
            Some(reason) => Outcome::Ended(reason),
            None => Outcome::DeadlinePassed,
        }
    }

    /// Closes the store of the ended session, so that the store can be opened again while handles
    /// to the session still exist.
    pub(crate) fn retire(&self) {
        if !self.reopening.is_left() {
            drop(self.lock().executor().journal.retire());
        }
    }

    /// Returns the outcome together with the sequence numbers from which a later process continues.
    pub(crate) fn with_numbers(&self, outcome: Outcome) -> SessionOutcome {
        let id = self.shared.id.clone();
        if self.reopening.is_left() {
            let (next_num_in, next_num_out) = self.shared.published.next_numbers();
            return SessionOutcome { id, outcome: Outcome::Failed, next_num_in, next_num_out };
        }
        let link = self.lock();
        let outcome = if link.has_failed() { Outcome::Failed } else { outcome };
        let session = &link.core().session;
        let (next_num_in, next_num_out) = (session.next_num_in(), session.next_num_out());
        SessionOutcome { id, outcome, next_num_in, next_num_out }
    }
}

#[cfg(test)]
mod tests;
