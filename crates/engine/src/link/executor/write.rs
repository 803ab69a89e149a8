//! The way of bytes to the socket, past the application and the protocol log.
//!
//! Invariant: a frame is shown and logged once, whole, at the first write that takes of it.

use std::hint::cold_path;
use std::io;

use transfix_codec::{CheckSumPolicy, Frame, Limits, Message, frame};
use transfix_observe::counters::LiveCounters;
use transfix_observe::protocol_log::{Tap, Unlogged};
use transfix_session::core::Core;
use transfix_session::core::delivery::Delivery;
use transfix_session::{Direction, Found, Now, Outbox, Replay, Resend, Session, Watermarks};
use transfix_store::{Kind, StoreError};
use transfix_transport::Stream;

use super::Executor;
use crate::link::access::SessionAccess;
use crate::link::app_executor::AppExecutor;
use crate::link::down::Down;
use crate::link::journal::Journal;

impl Executor {
    /// Writes as much as the socket takes, a replay in its place between the live frames.
    ///
    /// One chunk of a replay is written: then it is the turn of the worker's other sessions.
    /// Returns whether the socket may take more.
    pub(crate) fn write(
        &mut self,
        now: Now,
        stream: &mut dyn Stream,
        unlogged: &mut Unlogged<'_>,
    ) -> Result<bool, Down> {
        self.probe.committed(now, &self.core.out);
        self.look_what_is_safe(now).map_err(Down::Store)?;
        // The calls of the commit come before anything that is written behind it.
        self.make_calls(now, None);
        let more = self.write_what_is_safe(now, stream, unlogged)?;
        // How much the socket has not taken of it.
        let left = self.core.watermarks.writable(&self.core.out);
        self.core.slow.note(now, left + self.core.replay.out.len());
        Ok(more)
    }

    fn write_what_is_safe(
        &mut self,
        now: Now,
        stream: &mut dyn Stream,
        unlogged: &mut Unlogged<'_>,
    ) -> Result<bool, Down> {
        let mut filled = false;
        loop {
            let replays = self.core.replay.is_next(self.core.out.written());
            if replays && !self.core.replays_now() {
                cold_path();
                return Ok(false);
            }
            if replays && self.core.replay.out.is_empty() {
                cold_path();
                if filled {
                    return Ok(true);
                }
                if self.fill_replay(now)? {
                    filled = true;
                    continue;
                }
                if !put_off_replay(&mut self.core) {
                    return Ok(false);
                }
                // The application does not wait for a socket that may be full for long.
                self.application.release();
                continue;
            }
            let bytes = next_bytes(&self.core.out, &self.core.replay, &self.core.watermarks);
            if bytes.is_empty() {
                return Ok(false);
            }
            let unshown = self.core.shown.saturating_sub(self.core.out.written()) as usize;
            if self.wants_wire && !replays {
                cold_path();
                let to = (&mut self.application, &self.core.session, &mut self.core.delivery);
                show_frames(now, &bytes[unshown..], to);
            }
            let written = stream.write(bytes);
            // Behind the write: the log costs the counterparty nothing.
            log_received(self.sinks.log.as_mut(), &self.sinks.published.counters, now, unlogged);
            if !replays {
                if let Some(log) = &mut self.sinks.log {
                    let lost = log.outbound(now.utc, &bytes[unshown..]);
                    self.sinks.published.counters.not_logged.add(lost);
                }
                self.core.shown = self.core.out.written() + bytes.len() as u64;
            }
            let n = match written {
                Ok(n) => n,
                Err(error) => {
                    cold_path();
                    match error.kind() {
                        io::ErrorKind::WouldBlock => return Ok(false),
                        io::ErrorKind::Interrupted => continue,
                        _ => return Err(Down::Io(error)),
                    }
                }
            };
            if replays {
                self.core.replay.out.consume(n);
            } else {
                self.core.out.consume(n);
                self.probe.written(now, self.core.out.written());
                if self.core.out.is_empty() && !self.core.replay.active {
                    return Ok(false);
                }
            }
        }
    }

    /// Encodes the next chunk of a replay. The application is asked about each message: returns
    /// whether it is free, and the store has the messages. The worker is called when an application
    /// that is called in threads of its own is free, or the store has fetched them.
    fn fill_replay(&mut self, now: Now) -> Result<bool, Down> {
        let Self { core, journal, sinks, application, .. } = self;
        let asks = core.replay.has_more();
        if asks && !application.is_free(&mut core.delivery) {
            return Ok(false);
        }
        let filled = fill_chunk(now, core, journal, application);
        application.release();
        sinks.published.counters.resent.add(std::mem::take(&mut core.replay.resent));
        core.note_missing(now);
        // The counters are right before the counterparty has it.
        self.tell_events(now);
        let Self { core, sinks, application, wants_wire, .. } = self;
        match filled {
            Ok(()) => {}
            // It calls the worker when it has the message.
            Err(StoreError::NotYet) => return Ok(false),
            Err(error) => return Err(Down::Store(error)),
        }
        if *wants_wire {
            let to = (application, &core.session, &mut core.delivery);
            show_frames(now, core.replay.out.bytes(), to);
        }
        if let Some(log) = &mut sinks.log {
            let lost = log.outbound(now.utc, core.replay.out.bytes());
            sinks.published.counters.not_logged.add(lost);
        }
        Ok(true)
    }

    /// Logs what was received and is not logged yet.
    pub(crate) fn log_received(&mut self, now: Now, unlogged: &mut Unlogged<'_>) {
        let counters = &self.sinks.published.counters;
        log_received(self.sinks.log.as_mut(), counters, now, unlogged);
    }
}

/// Reads from the journal what is to be sent again, as far as it has the messages at once, and as
/// far as the application wants them to be.
///
/// # Errors
/// [`StoreError::NotYet`] if nothing could be encoded before the store has fetched a message; any
/// other error of the store.
fn fill_chunk(
    now: Now,
    core: &mut Core,
    journal: &mut Journal,
    application: &mut AppExecutor,
) -> Result<(), StoreError> {
    let Core { replay, session, held_index, .. } = core;
    let mut is_awaited = false;
    while let Some(seq) = replay.next_number(session) {
        let stored = match journal.store().outbound(seq) {
            Err(StoreError::NotYet) => {
                is_awaited = replay.out.is_empty();
                break;
            }
            stored => stored?,
        };
        let Some(stored) = stored else {
            replay.put(now, session, Found::Missing);
            continue;
        };
        let sent = Some(&stored).filter(|stored| stored.kind == Kind::Application);
        // Our own frame, checked by the store: what can't be read is covered by a gap fill.
        let message = sent.and_then(|stored| {
            Message::parse(stored.bytes, held_index, CheckSumPolicy::Ignore).ok()
        });
        let wanted = message.filter(|message| {
            let access = SessionAccess::to_see(session, now);
            application.ask(|application| application.on_resend(message, access)) == Resend::Send
        });
        replay.put(now, session, wanted.as_ref().map_or(Found::Skipped, Found::Message));
    }
    replay.end_chunk(now, session);
    if is_awaited { Err(StoreError::NotYet) } else { Ok(()) }
}

/// The application or the store takes its time, and the session goes on meanwhile: the counterparty
/// may ask whether it is alive. Returns whether something goes out before the replay.
fn put_off_replay(core: &mut Core) -> bool {
    if core.out.is_empty() {
        return false;
    }
    core.replay.put_off(core.session.next_num_out() - 1, core.out.end());
    true
}

/// The bytes that may be written next: before a replay those in front of it, and none that are not
/// safe.
fn next_bytes<'a>(out: &'a Outbox, replay: &'a Replay, watermarks: &Watermarks) -> &'a [u8] {
    if replay.is_next(out.written()) {
        return replay.out.bytes();
    }
    let before_replay = replay.begins_at().saturating_sub(out.written()) as usize;
    &out.bytes()[..watermarks.writable(out).min(before_replay)]
}

fn log_received(
    log: Option<&mut Tap>,
    counters: &LiveCounters,
    now: Now,
    unlogged: &mut Unlogged<'_>,
) {
    let Some(log) = log else { return };
    for (what, bytes) in unlogged.take() {
        counters.not_logged.add(log.received(now.utc, what, bytes));
    }
}

fn show_frames(
    now: Now,
    mut bytes: &[u8],
    (application, session, delivery): (&mut AppExecutor, &Session, &mut Delivery),
) {
    // Our own frames: as long as they are.
    let limits = Limits { message_bytes_max: usize::MAX };
    while let Frame::Whole(end) = frame::split(bytes, limits) {
        application.show(now, (Direction::Outbound, &bytes[..end]), (session, delivery));
        bytes = &bytes[end..];
    }
}
