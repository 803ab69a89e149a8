//! How long messages take on their way through a session: the points, and what was measured
//! between them.
//!
//! Invariant: the holder of the session's lock records; anybody takes a snapshot, and waits for
//! nothing.

mod histogram;
mod recorder;
mod told;
pub mod usual;

use std::fmt;

pub use histogram::LatencyHistogram;
pub use recorder::{Recorder, Times};

/// A part of a message's way that is measured.
///
/// The points of a turn follow each other:
///
/// ```text
/// read > found > session > callback > committed > written      one message in the turn
/// read > found > session > callback > found > session > callback > committed > written    two
/// ```
///
/// A time ends where the next one begins, so nothing of a turn is left out. The work between two
/// points belongs to the later one, but for messages of the queue: they are
/// [`LatencyStage::Encoded`]. The time of a message sent in a callback is a part of
/// [`LatencyStage::Callback`]. [`LatencyStage::ReadToCallback`] and [`LatencyStage::ReadToWritten`]
/// are sums that count the wait behind the other messages of the turn. The time before the read
/// returns (the network, the kernel, the wake-up of a thread) is not seen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LatencyStage {
    /// The time of each sound message from the read, or from the message before it in the turn,
    /// until it is framed. Its fields are indexed and CheckSum(10) is verified then.
    Found,
    /// The time of each sound message from there until the session layer and the dictionary have
    /// judged it and the application is called. A message that the application does not get counts
    /// until the session has carried it out, with `on_event`.
    Session,
    /// The time of each call of `on_message`.
    Callback,
    /// The time of each message sent in that callback: from the call, or from the message sent
    /// before in the same call, until it has its number and is encoded. The work of the application
    /// before it sends is counted. And of each message sent by a
    /// `SessionHandle`: from the moment at which the session takes it up,
    /// its fields encoded already, until it has its number, header and trailer.
    Encoded,
    /// The time of each turn that had a message: from its last message, received or taken from the
    /// queue, until the store has committed all of the turn. With `durability = "power"` until the
    /// store has taken it: the wait for the device counts in [`LatencyStage::Written`].
    Committed,
    /// The time of each turn that had a message and an answer: from the commit until the socket has
    /// taken all of the answers.
    Written,
    /// The time of each message that the application gets in the turn that read it: from the read
    /// until `on_message` is called.
    ReadToCallback,
    /// The time of each turn that had a message and an answer: from the read until the socket has
    /// taken all of the answers.
    ReadToWritten,
    /// The time of each message sent by a `SessionHandle` of a session that
    /// is logged on. It begins when the body is encoded and handed over, and ends when the socket
    /// has taken all of it. `send = "direct"` does all of it in the caller's thread; otherwise it
    /// waits in the queue for the session's thread.
    PutToWritten,
    /// The time of each TestRequest(1) of ours that is answered before the next one is sent. It
    /// begins when the socket has taken the request, and ends when the Heartbeat(0) with its
    /// TestReqID(112) is read.
    TestRequest,
}

impl LatencyStage {
    /// All stages, in the order of a message's way.
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

    /// The name for logs and tables. It never changes.
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
    /// In the order of [`LatencyStage::ALL`].
    stages: [LatencyHistogram; LatencyStage::ALL.len()],
}

impl Latency {
    /// These times, in the order of [`LatencyStage::ALL`].
    #[must_use]
    pub const fn new(stages: [LatencyHistogram; LatencyStage::ALL.len()]) -> Self {
        Self { stages }
    }

    /// The times of this stage.
    #[must_use]
    pub const fn stage(&self, stage: LatencyStage) -> &LatencyHistogram {
        &self.stages[stage as usize]
    }

    /// All stages with their times.
    pub fn stages(&self) -> impl Iterator<Item = (LatencyStage, &LatencyHistogram)> {
        LatencyStage::ALL.into_iter().zip(&self.stages)
    }

    /// The times measured since an earlier snapshot of the same session.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let stage = |n: usize| self.stages[n].since(&earlier.stages[n]);
        Self { stages: std::array::from_fn(stage) }
    }
}

/// A table for people, in nanoseconds: a line for each stage that has measured something.
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
