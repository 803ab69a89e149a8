//! Writes bytes to the socket, and reports frames to the application and the protocol log.
//!
//! Invariant: each frame is passed on once and as a whole, either before its first byte is written
//! or right after.

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
    /// Writes as many bytes as the socket accepts, with a replay at its position between the live
    /// frames.
    ///
    /// Writes at most one chunk of a replay, so that other sessions of the worker get their turns.
    /// Returns true if the socket may accept more bytes.
    pub(crate) fn write(
        &mut self,
        now: Now,
        stream: &mut dyn Stream,
        unlogged: &mut Unlogged<'_>,
    ) -> Result<bool, Down> {
        self.probe.committed(now, &self.core.out);
        self.look_what_is_safe(now).map_err(Down::Store)?;
        // The application receives the calls of a commit before the committed bytes are written.
        self.make_calls(now, None);
        let more = self.write_what_is_safe(now, stream, unlogged)?;
        // Number of bytes that the socket has not accepted.
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
                // Releases the application, because the socket may stay full for a long time.
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
            // Log after the write, so that logging does not delay the counterparty.
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

    /// Encodes the next chunk of a replay, and asks the application about each message. Returns
    /// false if the application is busy or the store does not have the messages yet; either wakes
    /// the worker later.
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
        // Update the counters before the counterparty receives the chunk.
        self.tell_events(now);
        let Self { core, sinks, application, wants_wire, .. } = self;
        match filled {
            Ok(()) => {}
            // The store wakes the worker when the message is fetched.
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

    /// Logs received bytes that are not logged yet.
    pub(crate) fn log_received(&mut self, now: Now, unlogged: &mut Unlogged<'_>) {
        let counters = &self.sinks.published.counters;
        log_received(self.sinks.log.as_mut(), counters, now, unlogged);
    }
}

/// Reads messages from the journal to resend them, until the store must fetch one or the chunk is
/// full. Messages that the application skips are covered by a gap fill.
///
/// # Errors
/// [`StoreError::NotYet`] if the store must fetch the first message; otherwise an error of the
/// store.
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
        // The frame is ours and was checked by the store. If it cannot be parsed nevertheless, a
        // gap fill covers it.
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

/// Postpones the replay while the application or the store is slow, so that TestRequest(1)s are
/// still answered. Returns true if other bytes are written before the replay.
fn put_off_replay(core: &mut Core) -> bool {
    if core.out.is_empty() {
        return false;
    }
    core.replay.put_off(core.session.next_num_out() - 1, core.out.end());
    true
}

/// Returns the bytes to write next. They are durable, and end where the next replay begins.
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
    // No length limit applies to frames that we have encoded.
    let limits = Limits { message_bytes_max: usize::MAX };
    while let Frame::Whole(end) = frame::split(bytes, limits) {
        application.show(now, (Direction::Outbound, &bytes[..end]), (session, delivery));
        bytes = &bytes[end..];
    }
}
