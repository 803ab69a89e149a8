//! The latency of messages within a session, by stages of their processing.
//!
//! Invariant: the holder of the session's lock records times. Any thread takes a snapshot without
//! waiting.

mod histogram;
mod recorder;
mod told;
pub mod usual;

use std::fmt;

pub use histogram::LatencyHistogram;
pub use recorder::{Recorder, Times};

/// A measured stage in the processing of a message.
///
/// The points of a turn follow each other:
///
/// ```text
/// read > found > session > callback > committed > written      one message in the turn
/// read > found > session > callback > found > session > callback > committed > written    two
/// ```
///
/// Each stage begins where the previous one ends, so that the stages cover the whole turn. Work
/// between two points in time belongs to the later point. Messages of the queue are an exception,
/// because their work is [`LatencyStage::Encoded`]. The time of a message sent in a callback is a
/// part of [`LatencyStage::Callback`]. [`LatencyStage::ReadToCallback`] and
/// [`LatencyStage::ReadToWritten`] are sums, which include waiting for other messages of the turn.
/// The time before the read returns (network, kernel, wake-up of the thread) is not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LatencyStage {
    /// From the read, or from the previous message of the turn, until the next valid message is
    /// found. Includes indexing the fields and verifying CheckSum(10). Measured once for each valid
    /// message.
    Found,
    /// From the end of [`LatencyStage::Found`] until the session layer and the dictionary have
    /// checked the message, and the application is called. For a message that is not delivered, the
    /// stage ends when the session has processed it, including `on_event`. Measured once for each
    /// valid message.
    Session,
    /// The duration of `on_message`. Measured once for each call.
    Callback,
    /// For a message sent in `on_message`: from the call, or from the previous message sent in the
    /// call, until the message is encoded with its number. Includes the application's work before
    /// the send. For a message sent through a `SessionHandle`, whose body is already encoded: from
    /// taking the message out of the queue until it has its number, header and trailer. Measured
    /// once for each message.
    Encoded,
    /// From the last message of a turn, received or taken out of the queue, until the store has
    /// committed the turn. With `durability = "power"`, the stage ends when the store has accepted
    /// the turn; waiting for the device counts as [`LatencyStage::Written`]. Measured once for each
    /// turn with a message.
    Committed,
    /// From the commit until the socket has accepted all answers of the turn. Measured once for
    /// each turn with a message and an answer.
    Written,
    /// From the read until `on_message` is called. Measured once for each message that the
    /// application receives in the turn which has read it.
    ReadToCallback,
    /// From the read until the socket has accepted all answers of the turn. Measured once for each
    /// turn with a message and an answer.
    ReadToWritten,
    /// From the end of the body's encoding until the socket has accepted the whole message.
    /// Measured once for each message sent through a `SessionHandle` of a logged-on session. With
    /// `send = "direct"`, all work happens in the caller's thread; otherwise the message waits in
    /// the queue for the session's thread.
    PutToWritten,
    /// The round trip of a TestRequest(1): from the time at which the socket has accepted the
    /// request until the Heartbeat(0) with its TestReqID(112) is read. Measured once for each
    /// TestRequest(1) of ours that is answered before the next one is sent.
    TestRequest,
}

impl LatencyStage {
    /// All stages, in the order of processing.
    pub const ALL: [Self; 10] = [
        Self::Found,
        Self::Session,
        Self::Callback,
        Self::Encoded,
        Self::Committed,
        Self::Written,
        Self::ReadToCallback,
        Self::ReadToWritten,
        Self::PutToWritten,
        Self::TestRequest,
    ];

    /// Returns the name for logs and tables, which never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Session => "session",
            Self::Callback => "callback",
            Self::Encoded => "encoded",
            Self::Committed => "committed",
            Self::Written => "written",
            Self::ReadToCallback => "read_to_callback",
            Self::ReadToWritten => "read_to_written",
            Self::PutToWritten => "put_to_written",
            Self::TestRequest => "test_request",
        }
    }
}

impl fmt::Display for LatencyStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A snapshot of the latencies of one session: since the start of the engine, or since
/// [an earlier snapshot](Latency::since).
///
/// ```no_run
/// # use transfix::{LatencyStage, SessionHandle};
/// # fn show(handle: &SessionHandle) {
/// let latency = handle.latency();
/// println!("p99 {} ns", latency.stage(LatencyStage::ReadToCallback).percentile_ns(99.0));
/// print!("{latency}");
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The times of each stage, in the order of [`LatencyStage::ALL`].
    stages: [LatencyHistogram; LatencyStage::ALL.len()],
}

impl Latency {
    /// Returns a snapshot with these histograms, in the order of [`LatencyStage::ALL`].
    #[must_use]
    pub const fn new(stages: [LatencyHistogram; LatencyStage::ALL.len()]) -> Self {
        Self { stages }
    }

    /// Returns the times of `stage`.
    #[must_use]
    pub const fn stage(&self, stage: LatencyStage) -> &LatencyHistogram {
        &self.stages[stage as usize]
    }

    /// Returns all stages with their times.
    pub fn stages(&self) -> impl Iterator<Item = (LatencyStage, &LatencyHistogram)> {
        LatencyStage::ALL.into_iter().zip(&self.stages)
    }

    /// Returns the times measured since `earlier`, a snapshot of the same session.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let stage = |n: usize| self.stages[n].since(&earlier.stages[n]);
        Self { stages: std::array::from_fn(stage) }
    }
}

/// Writes a table to be read by people, in nanoseconds, with a line for each stage that was
/// measured.
impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["count", "min", "p50", "p90", "p99", "p99.9", "max"];
        write!(f, "{:<16}", "stage, ns")?;
        for name in head {
            write!(f, " {name:>10}")?;
        }
        writeln!(f)?;
        for (stage, times) in self.stages().filter(|(_, times)| times.count() > 0) {
            let [p50, p90, p99, p999] = [50.0, 90.0, 99.0, 99.9].map(|p| times.percentile_ns(p));
            write!(f, "{stage:<16}")?;
            for value in [times.count(), times.min_ns(), p50, p90, p99, p999, times.max_ns()] {
                write!(f, " {value:>10}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
