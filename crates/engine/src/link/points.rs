//! Where a session looks at the time while its messages take their way, and what it makes of it.
//!
//! Invariants: one look a message and stage, and none if nobody wants to know; nothing that the
//! session does depends on what was measured. A session in a simulated world takes the time that
//! the world has told it.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::ops::Range;
use std::sync::Arc;

use transfix_codec::{Message, raw, tag};
use transfix_session::{Entry, Kind, Now, Outbox};

use crate::clock::Ticks;
use crate::observe::latency::{LatencyStage, Recorder};
use crate::observe::published::Published;

/// Times that are kept until the turn has written: counting them there holds up no answer, and
/// takes half the time of counting each by itself.
const MEASURED: usize = 16;
/// Room for messages that wait to be written, which is kept when a burst is over.
const WAITING_KEPT: usize = 64;

/// Where the time of the points comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Source {
    /// Nothing is measured.
    #[default]
    Off,
    /// The world says what time it is, and it stands still for the length of a turn.
    Told,
    /// The machine.
    Machine(Ticks),
}

impl Source {
    /// This moment, in ticks; 0 if nothing is measured.
    #[inline]
    pub(crate) fn at(self, now: Now) -> u64 {
        match self {
            Self::Machine(ticks) => ticks.read(),
            Self::Told => now.monotonic_ns,
            Self::Off => 0,
        }
    }

    /// The same where nobody has said what time it is; 0 too if only a world could.
    #[inline]
    pub(crate) fn here(self) -> u64 {
        match self {
            Self::Machine(ticks) => ticks.read(),
            Self::Told | Self::Off => 0,
        }
    }

    /// What makes nanoseconds of ticks.
    const fn scale(self) -> Ticks {
        match self {
            Self::Machine(ticks) => ticks,
            Self::Off | Self::Told => Ticks::NANOSECONDS,
        }
    }
}

/// Frames in the outbox of which is to be measured when the socket has taken them.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Offset of their end in the outgoing stream.
    end: u64,
    since: Since,
}

#[derive(Clone, Copy, Debug)]
enum Since {
    /// When it was handed over.
    Put(u64),
    /// When the turn was committed, and when it had read.
    Turn(u64, u64),
}

/// The last TestRequest(1) of ours.
#[derive(Debug, Default)]
struct Asked {
    /// Its TestReqID(112).
    id: Vec<u8>,
    /// Where it ends, as [`Waiting::end`] says; 0 once it is written.
    end: u64,
    /// When it was written; 0 if none waits for its answer.
    at: u64,
}

/// The points of one session. A time of 0 stands for one that is not known.
pub(crate) struct Points {
    source: Source,
    recorder: Option<Arc<Recorder>>,
    /// When the turn has read.
    read: u64,
    /// The last point of the turn.
    last: u64,
    /// When the message was found that has no other point yet.
    found: u64,
    /// When the application was called.
    called: u64,
    /// The turn has had a sound message.
    had_message: bool,
    /// End of the outgoing stream at the begin of the turn or at the last commit, and the bytes
    /// that messages of other threads have added since.
    begun_at: u64,
    put_bytes: u64,
    /// The oldest one, and those behind it; no more than there are messages in the outbox.
    first: Option<Waiting>,
    waiting: VecDeque<Waiting>,
    asked: Asked,
    /// Times in ticks that are not counted yet.
    measured: [(LatencyStage, u64); MEASURED],
    measured_len: usize,
}

impl Points {
    pub(crate) fn of(source: Source) -> Self {
        Self {
            source,
            recorder: None,
            read: 0,
            last: 0,
            found: 0,
            called: 0,
            had_message: false,
            begun_at: 0,
            put_bytes: 0,
            first: None,
            waiting: VecDeque::new(),
            asked: Asked::default(),
            measured: [(LatencyStage::Found, 0); MEASURED],
            measured_len: 0,
        }
    }

    pub(crate) const fn source(&self) -> Source {
        self.source
    }

    /// Where times are counted.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    const fn is_off(&self) -> bool {
        matches!(self.source, Source::Off)
    }

    /// A turn begins: it has read, and asks the clock. The outgoing stream ends at `end`.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        published: &Published,
        end: u64,
        clock: impl FnOnce() -> Now,
    ) -> Now {
        let read = self.source.here();
        let now = clock();
        if !self.is_off() {
            self.read = if read == 0 { self.source.at(now) } else { read };
            (self.last, self.found, self.had_message) = (self.read, 0, false);
            (self.begun_at, self.put_bytes) = (end, 0);
            if self.recorder.is_none() {
                cold_path();
                self.recorder = Some(published.recorder());
            }
        }
        now
    }

    /// A sound message is found.
    #[inline]
    pub(crate) fn found(&mut self, now: Now) {
        self.found = self.source.at(now);
    }

    /// The application is called with a message.
    #[inline]
    pub(crate) fn called(&mut self, now: Now) {
        let at = self.source.at(now);
        if self.found > 0 {
            self.judged(at);
            self.record(LatencyStage::ReadToCallback, self.read, at);
        }
        (self.called, self.last) = (at, at);
    }

    /// A message that was sent in a callback is encoded.
    #[inline]
    pub(crate) fn encoded(&mut self, now: Now) {
        if self.called > 0 {
            let at = self.source.at(now);
            self.record(LatencyStage::Encoded, self.last, at);
            self.last = at;
        }
    }

    /// The application has returned.
    #[inline]
    pub(crate) fn returned(&mut self, now: Now) {
        let at = self.source.at(now);
        self.record(LatencyStage::Callback, self.called, at);
        (self.called, self.last) = (0, at);
    }

    /// The message is dealt with.
    #[inline]
    pub(crate) fn acted(&mut self, now: Now) {
        if self.found > 0 {
            self.judged(self.source.at(now));
        }
    }

    #[inline(never)]
    fn judged(&mut self, at: u64) {
        self.record(LatencyStage::Found, self.last, self.found);
        self.record(LatencyStage::Session, self.found, at);
        (self.last, self.found, self.had_message) = (at, 0, true);
    }

    /// The turn is committed so far. It may go on behind the write.
    #[inline]
    pub(crate) fn committed(&mut self, now: Now, out: &Outbox) {
        if self.had_message {
            let at = self.source.at(now);
            self.record(LatencyStage::Committed, self.last, at);
            let end = out.end();
            if self.begun_at + self.put_bytes < end {
                self.wait(Waiting { end, since: Since::Turn(at, self.read) });
            }
            (self.last, self.had_message) = (at, false);
            (self.begun_at, self.put_bytes) = (end, 0);
        }
        if out.is_empty() {
            self.count();
        }
    }

    /// A message handed over at `put`, and taken up at `taken`, is `frame` of the outgoing stream.
    /// Returns when it was encoded.
    pub(crate) fn put(&mut self, now: Now, (put, taken): (u64, u64), frame: Range<u64>) -> u64 {
        if frame.is_empty() {
            return taken;
        }
        self.put_bytes += frame.end - frame.start;
        let at = self.source.at(now);
        self.record(LatencyStage::Encoded, taken, at);
        // Where a turn takes it from the queue, its next time begins here.
        if self.last > 0 {
            self.last = at;
        }
        if put > 0 {
            self.wait(Waiting { end: frame.end, since: Since::Put(put) });
        }
        at
    }

    /// Most of the time only one waits, for the write that follows at once.
    #[inline]
    fn wait(&mut self, waiting: Waiting) {
        if self.first.is_none() {
            self.first = Some(waiting);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// The socket has taken the outgoing stream up to here.
    #[inline]
    pub(crate) fn written(&mut self, now: Now, written: u64) {
        if self.first.is_none() && self.asked.end == 0 {
            return;
        }
        let at = self.source.at(now);
        // Where the turn goes on, its next time begins here.
        self.last = at;
        while let Some(first) = self.first.filter(|first| first.end <= written) {
            self.first = if self.waiting.is_empty() { None } else { self.next_waiting() };
            match first.since {
                Since::Put(put) => self.record(LatencyStage::PutToWritten, put, at),
                Since::Turn(committed, read) => {
                    self.record(LatencyStage::Written, committed, at);
                    self.record(LatencyStage::ReadToWritten, read, at);
                }
            }
        }
        if self.asked.end > 0 && self.asked.end <= written {
            (self.asked.end, self.asked.at) = (0, at);
        }
        self.count();
    }

    /// Messages that other threads have sent wait one by one.
    #[inline(never)]
    fn next_waiting(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// Looks for a TestRequest(1) among what the session layer has written and nobody has put into
    /// the store yet.
    #[inline]
    pub(crate) fn note_requests(&mut self, out: &Outbox) {
        if self.is_off() {
            return;
        }
        for written in out.entries() {
            if let Entry::Frame { kind: Kind::Admin, range, .. } = written {
                self.note_request(out.frame(range), range.end);
            }
        }
    }

    #[cold]
    fn note_request(&mut self, frame: &[u8], end: u64) {
        let mut fields = raw::fields(frame).skip(2);
        if fields.next().is_some_and(|field| field.tag == tag::MSG_TYPE && field.value == b"1")
            && let Some(id) = fields.find(|field| field.tag == tag::TEST_REQ_ID)
        {
            self.asked.id.clear();
            self.asked.id.extend_from_slice(id.value);
            (self.asked.end, self.asked.at) = (end, 0);
        }
    }

    /// A message of the session layer has come: it may be the answer to our TestRequest(1).
    pub(crate) fn heard(&mut self, message: &Message<'_>) {
        if self.asked.at > 0
            && message.msg_type() == b"0"
            && message.raw(tag::TEST_REQ_ID) == Some(&self.asked.id[..])
        {
            self.record(LatencyStage::TestRequest, self.asked.at, self.read);
            self.asked.at = 0;
        }
    }

    /// The outbox is empty, and what was measured of the last connection is over.
    pub(crate) fn reset(&mut self) {
        self.count();
        (self.read, self.last, self.found, self.called) = (0, 0, 0, 0);
        self.had_message = false;
        self.first = None;
        self.waiting.clear();
        (self.asked.end, self.asked.at) = (0, 0);
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&mut self) {
        self.waiting.shrink_to(WAITING_KEPT);
    }

    /// Keeps a time both of whose ends are known.
    // Called at many places of a turn: inlined, each of them would hold a copy.
    #[inline(never)]
    fn record(&mut self, stage: LatencyStage, from: u64, to: u64) {
        if from == 0 {
            return;
        }
        // The counters of two processors may differ by a few ticks.
        let time = (stage, to.saturating_sub(from));
        if let Some(place) = self.measured.get_mut(self.measured_len) {
            *place = time;
            self.measured_len += 1;
        } else {
            self.count();
            self.measured[0] = time;
            self.measured_len = 1;
        }
    }

    /// Counts what was kept.
    #[inline(never)]
    fn count(&mut self) {
        let measured = &self.measured[..std::mem::take(&mut self.measured_len)];
        if let Some(recorder) = &self.recorder {
            let scale = self.source.scale();
            for (stage, ticks) in measured {
                recorder.record(*stage, scale.ns(*ticks));
            }
        }
    }
}
