//! The way of bytes to the socket, past the application and the protocol log.
//!
//! Invariant: a frame is shown and logged once, whole, at the first write that takes of it.

use std::hint::cold_path;
use std::io;

use transfix_codec::{Frame, Limits, frame};
use transfix_session::{Now, Outbox};
use transfix_transport::Stream;

use super::Core;
use crate::link::answers::Direction;
use crate::link::callbacks::Access;
use crate::link::delivery::Delivery;
use crate::link::down::Down;
use crate::link::pending::Pending;
use crate::link::replay::Replay;
use crate::observe::counters::LiveCounters;
use crate::observe::protocol_log::{Tap, Unlogged};

impl Core {
    /// Writes as much as the socket takes, a replay in its place between the live frames.
    ///
    /// Of a replay one chunk: then it is the turn of the worker's other sessions. Returns whether
    /// the socket may take more.
    pub(crate) fn write(
        &mut self,
        now: Now,
        stream: &mut dyn Stream,
        unlogged: &mut Unlogged<'_>,
    ) -> Result<bool, Down> {
        self.points.committed(now, self.out.bytes().len());
        self.look_what_is_safe(now).map_err(Down::Store)?;
        let more = self.write_what_is_safe(now, stream, unlogged)?;
        // How much the socket has not taken of it.
        let left = self.pending.writable(self.out.bytes().len());
        self.slow.note(now, left + self.replay.out.bytes().len());
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
            let replays = self.replay.active && self.replay.barrier == 0;
            if replays && !self.replays_now() {
                cold_path();
                return Ok(false);
            }
            if replays && self.replay.out.bytes().is_empty() {
                cold_path();
                if filled {
                    return Ok(true);
                }
                if self.fill_replay(now)? {
                    filled = true;
                } else if !self.put_off_replay() {
                    return Ok(false);
                }
                continue;
            }
            let bytes = next_bytes(&self.out, &self.replay, &self.pending);
            if bytes.is_empty() {
                return Ok(false);
            }
            if self.delivery.wants_wire() && !replays {
                cold_path();
                let access = Access::look(&mut self.session, now);
                show_frames(&mut self.delivery, &bytes[self.shown..], access);
            }
            let written = stream.write(bytes);
            // Behind the write: the log costs the counterparty nothing.
            log_received(self.log.as_mut(), &self.published.counters, now, unlogged);
            if !replays {
                if let Some(log) = &mut self.log {
                    let lost = log.outbound(now.utc, &bytes[self.shown..]);
                    self.published.counters.not_logged.add(lost);
                }
                self.shown = bytes.len();
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
                self.replay.out.consume(n);
            } else {
                let is_all = n == self.out.bytes().len();
                self.note_written(now, n);
                if is_all && !self.replay.active {
                    return Ok(false);
                }
                self.replay.barrier = self.replay.barrier.saturating_sub(n);
            }
        }
    }

    /// Encodes the next chunk of a replay. The application is asked about each message: returns
    /// whether it is free. Where it is called in threads of its own, the worker is called when it
    /// is.
    fn fill_replay(&mut self, now: Now) -> Result<bool, Down> {
        let asks = self.replay.has_more();
        if asks && !self.delivery.desk().is_none_or(|desk| desk.want()) {
            return Ok(false);
        }
        let (store, application) = (self.journal.store(), self.delivery.application());
        let filled = self.replay.fill(now, &mut self.session, store, application);
        if let Some(desk) = self.delivery.desk() {
            desk.release();
        }
        filled.map_err(Down::Store)?;
        self.note_missing(now);
        if self.delivery.wants_wire() {
            let access = Access::look(&mut self.session, now);
            show_frames(&mut self.delivery, self.replay.out.bytes(), access);
        }
        if let Some(log) = &mut self.log {
            let lost = log.outbound(now.utc, self.replay.out.bytes());
            self.published.counters.not_logged.add(lost);
        }
        Ok(true)
    }

    /// The application takes its time, and the session goes on meanwhile: the counterparty may ask
    /// whether it is alive. Returns whether something goes out before the replay.
    fn put_off_replay(&mut self) -> bool {
        let live_bytes = self.out.bytes().len();
        if live_bytes == 0 {
            return false;
        }
        self.replay.put_off(self.session.next_num_out() - 1, live_bytes);
        if let Some(desk) = self.delivery.desk() {
            // The socket may be full, and then nothing is asked for long.
            desk.release();
        }
        true
    }

    /// The socket has taken so many bytes of new frames.
    #[inline]
    fn note_written(&mut self, now: Now, n: usize) {
        self.out.consume(n);
        self.pending.written(n);
        self.points.written(now, n);
        self.shown = self.shown.saturating_sub(n);
        self.burst = self.burst.saturating_sub(n);
    }

    /// Logs what was received and is not logged yet.
    pub(crate) fn log_received(&mut self, now: Now, unlogged: &mut Unlogged<'_>) {
        log_received(self.log.as_mut(), &self.published.counters, now, unlogged);
    }
}

/// What may be written next: before a replay what comes before it, and nothing that is not safe.
fn next_bytes<'a>(out: &'a Outbox, replay: &'a Replay, pending: &Pending) -> &'a [u8] {
    if replay.active && replay.barrier == 0 {
        return replay.out.bytes();
    }
    let bytes = out.bytes();
    let safe = pending.writable(bytes.len());
    &bytes[..if replay.active { safe.min(replay.barrier) } else { safe }]
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

fn show_frames(delivery: &mut Delivery, mut bytes: &[u8], mut access: Access<'_>) {
    // Our own frames: as long as they are.
    let limits = Limits { message_bytes_max: usize::MAX };
    while let Frame::Whole(end) = frame::split(bytes, limits) {
        delivery.show(Direction::Outbound, &bytes[..end], access.again());
        bytes = &bytes[end..];
    }
}
