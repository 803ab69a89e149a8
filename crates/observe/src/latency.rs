//! Latency of messages within a session: the measured stages and their times.
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

/// A measured part of a message's processing.
///
/// The points of a turn follow each other:
///
/// ```text
/// read > found > session > callback > committed > written      one message in the turn
/// read > found > session > callback > found > session > callback > committed > written    two
/// ```
///
/// Each time begins where the previous one ends, so that the times cover the whole turn. The work
/// between two points belongs to the later point. Messages of the queue are an exception: their
/// work is [`LatencyStage::Encoded`]. The time of a message sent in a callback is a part of
/// [`LatencyStage::Callback`]. [`LatencyStage::ReadToCallback`] and [`LatencyStage::ReadToWritten`]
/// are sums, which include the wait behind other messages of the turn. The time before the read
/// returns (network, kernel, wake-up of the thread) is not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LatencyStage {
    /// From the read, or from the previous message of the turn, until a sound message is framed.
    /// Framing indexes the fields and verifies CheckSum(10). One time for each sound message.
    Found,
    /// From the end of [`LatencyStage::Found`] until the session layer and the dictionary have
    /// checked the message and the application is called. A message that is not delivered counts
    /// until the session has processed it, including `on_event`. One time for each sound message.
    Session,
    /// The duration of `on_message`. One time for each call.
    Callback,
    /// One time for each message sent in `on_message`: from the call, or from the previous message
    /// sent in the call, until the message has its number and is encoded. The application's work
    /// before the send is included. Also one time for each message sent by a `SessionHandle`. This
    /// time begins when the session dequeues the message, whose fields are already encoded. It ends
    /// when the message has its number, header and trailer.
    Encoded,
    /// From the last message of a turn, received or dequeued, until the store has committed the
    /// turn. With `durability = "power"` it ends when the store has accepted the turn: the wait for
    /// the device counts in [`LatencyStage::Written`]. One time for each turn with a message.
    Committed,
    /// From the commit until the socket has accepted all answers. One time for each turn with a
    /// message and an answer.
    Written,
    /// From the read until `on_message` is called. One time for each message that the application
    /// receives in the turn that read it.
    ReadToCallback,
    /// From the read until the socket has accepted all answers. One time for each turn with a
    /// message and an answer.
    ReadToWritten,
    /// From the end of the encoding of the body until the socket has accepted the whole message.
    /// One time for each message sent by a `SessionHandle` of a logged-on session. With `send =
    /// "direct"` all work is done in the caller's thread; otherwise the message waits in the queue
    /// for the session's thread.
    PutToWritten,
    /// The round trip of a TestRequest(1): from the moment at which the socket has accepted the
    /// request until the Heartbeat(0) with its TestReqID(112) is read. One time for each own
    /// TestRequest(1) that is answered before the next one is sent.
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

/// The times of one session, as they were at one moment: since the engine was started, or since
/// [an earlier moment](Latency::since).
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
    /// Returns the latency of these stages, in the order of [`LatencyStage::ALL`].
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

/// Writes a table for human readers, in nanoseconds: a line for each stage with measurements.
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
