//! The way of bytes to the socket, past the application and the protocol log.
//!
//! Invariant: a frame is shown and logged once, whole, at the first write that takes of it.

use std::hint::cold_path;
use std::io;

use transfix_codec::{Frame, Limits, frame};
use transfix_session::{Now, Outbox};
use transfix_store::StoreError;
use transfix_transport::Stream;

use super::Core;
use crate::link::answers::Direction;
use crate::link::callbacks::View;
use crate::link::delivery::Delivery;
use crate::link::down::Down;
use crate::link::replay::Replay;
use crate::link::watermarks::Watermarks;
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
        self.points.committed(now, &self.out);
        self.look_what_is_safe(now).map_err(Down::Store)?;
        let more = self.write_what_is_safe(now, stream, unlogged)?;
        // How much the socket has not taken of it.
        let left = self.watermarks.writable(&self.out);
        self.slow.note(now, left + self.replay.out.len());
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
            let replays = self.replay.is_next(self.out.written());
            if replays && !self.replays_now() {
                cold_path();
                return Ok(false);
            }
            if replays && self.replay.out.is_empty() {
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
            let bytes = next_bytes(&self.out, &self.replay, &self.watermarks);
            if bytes.is_empty() {
                return Ok(false);
            }
            let unshown = self.shown.saturating_sub(self.out.written()) as usize;
            if self.delivery.wants_wire() && !replays {
                cold_path();
                let view = View::of(&mut self.session, now);
                show_frames(&mut self.delivery, &bytes[unshown..], view);
            }
            let written = stream.write(bytes);
            // Behind the write: the log costs the counterparty nothing.
            log_received(self.log.as_mut(), &self.published.counters, now, unlogged);
            if !replays {
                if let Some(log) = &mut self.log {
                    let lost = log.outbound(now.utc, &bytes[unshown..]);
                    self.published.counters.not_logged.add(lost);
                }
                self.shown = self.out.written() + bytes.len() as u64;
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
                self.out.consume(n);
                self.points.written(now, self.out.written());
                if self.out.is_empty() && !self.replay.active {
                    return Ok(false);
                }
            }
        }
    }

    /// Encodes the next chunk of a replay. The application is asked about each message: returns
    /// whether it is free, and the store has the messages. The worker is called when an application
    /// that is called in threads of its own is free, or the store has fetched them.
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
        self.note_missing(now);
        match filled {
            Ok(()) => {}
            // It calls the worker when it has the message.
            Err(StoreError::NotYet) => return Ok(false),
            Err(error) => return Err(Down::Store(error)),
        }
        if self.delivery.wants_wire() {
            let view = View::of(&mut self.session, now);
            show_frames(&mut self.delivery, self.replay.out.bytes(), view);
        }
        if let Some(log) = &mut self.log {
            let lost = log.outbound(now.utc, self.replay.out.bytes());
            self.published.counters.not_logged.add(lost);
        }
        Ok(true)
    }

    /// The application or the store takes its time, and the session goes on meanwhile: the
    /// counterparty may ask whether it is alive. Returns whether something goes out before the
    /// replay.
    fn put_off_replay(&mut self) -> bool {
        if self.out.is_empty() {
            return false;
        }
        self.replay.put_off(self.session.next_num_out() - 1, self.out.end());
        if let Some(desk) = self.delivery.desk() {
            // The socket may be full, and then nothing is asked for long.
            desk.release();
        }
        true
    }

    /// Logs what was received and is not logged yet.
    pub(crate) fn log_received(&mut self, now: Now, unlogged: &mut Unlogged<'_>) {
        log_received(self.log.as_mut(), &self.published.counters, now, unlogged);
    }
}

/// What may be written next: before a replay what comes before it, and nothing that is not safe.
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

fn show_frames(delivery: &mut Delivery, mut bytes: &[u8], mut view: View<'_>) {
    // Our own frames: as long as they are.
    let limits = Limits { message_bytes_max: usize::MAX };
    while let Frame::Whole(end) = frame::split(bytes, limits) {
        delivery.show(Direction::Outbound, &bytes[..end], view.again());
        bytes = &bytes[end..];
    }
}
