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

use transfix_observe::clock::Ticks;
use transfix_observe::latency::{LatencyStage, Recorder, Times};
use transfix_observe::published::Published;

/// Room for messages that wait to be written, which is kept when a burst is over.
const WAITING_KEPT: usize = 64;

/// Where the time of the points comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Source {
    /// Nothing is measured.
    #[default]
    Off,
    /// The world says what time it is, and it stands still for the length of a turn.
    Given,
    /// The machine.
    Machine(Ticks),
}

impl Source {
    /// This moment, in ticks; 0 if nothing is measured.
    #[inline]
    pub(crate) fn at(self, now: Now) -> u64 {
        self.counter().unwrap_or_else(|| self.without_counter(now.monotonic_ns))
    }

    /// The same where nobody has said what time it is; 0 too if only a world could.
    #[inline]
    pub(crate) fn here(self) -> u64 {
        self.counter().unwrap_or_else(|| self.without_counter(0))
    }

    /// Most machines have one: then it takes one comparison to know.
    #[inline]
    fn counter(self) -> Option<u64> {
        match self {
            Self::Machine(ticks) => ticks.counter(),
            Self::Off | Self::Given => None,
        }
    }

    #[inline(never)]
    fn without_counter(self, told_ns: u64) -> u64 {
        match self {
            Self::Machine(ticks) => ticks.read(),
            Self::Given => told_ns,
            Self::Off => 0,
        }
    }

    /// The factor from ticks to nanoseconds.
    const fn scale(self) -> Ticks {
        match self {
            Self::Machine(ticks) => ticks,
            Self::Off | Self::Given => Ticks::NANOSECONDS,
        }
    }
}

/// Frames in the outbox that are measured when the socket has taken them.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Offset of their end in the outgoing stream; 0 if there are none.
    end: u64,
    /// When the turn was committed, or the message was handed over.
    since: u64,
    /// When the turn had read; 0 for a message that was handed over.
    read: u64,
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
pub(crate) struct LatencyProbe {
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
    /// End of the outgoing stream without what the turn has answered since the last commit: more
    /// by each message of another thread.
    unanswered_to: u64,
    /// The oldest one, and those behind it; no more than there are messages in the outbox.
    first: Waiting,
    waiting: VecDeque<Waiting>,
    asked: Asked,
    /// Kept until the turn has written: counting holds up no answer.
    times: Times,
}

impl LatencyProbe {
    pub(crate) fn of(source: Source) -> Self {
        Self {
            source,
            recorder: None,
            read: 0,
            last: 0,
            found: 0,
            called: 0,
            had_message: false,
            unanswered_to: 0,
            first: Waiting::default(),
            waiting: VecDeque::new(),
            asked: Asked::default(),
            times: Times::default(),
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
            self.unanswered_to = end;
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
            self.record([
                (LatencyStage::Found, self.last, self.found),
                (LatencyStage::Session, self.found, at),
                (LatencyStage::ReadToCallback, self.read, at),
            ]);
            (self.found, self.had_message) = (0, true);
        }
        (self.called, self.last) = (at, at);
    }

    /// A message that was sent in a callback is encoded.
    #[inline]
    pub(crate) fn encoded(&mut self, now: Now) {
        if self.called > 0 {
            let at = self.source.at(now);
            self.record([(LatencyStage::Encoded, self.last, at)]);
            self.last = at;
        }
    }

    /// The application has returned.
    #[inline]
    pub(crate) fn returned(&mut self, now: Now) {
        let at = self.source.at(now);
        if self.called > 0 {
            self.record([(LatencyStage::Callback, self.called, at)]);
        }
        (self.called, self.last) = (0, at);
    }

    /// The message is dealt with.
    #[inline]
    pub(crate) fn acted(&mut self, now: Now) {
        if self.found > 0 {
            self.acted_without_call(now);
        }
    }

    #[inline(never)]
    fn acted_without_call(&mut self, now: Now) {
        let at = self.source.at(now);
        self.record([
            (LatencyStage::Found, self.last, self.found),
            (LatencyStage::Session, self.found, at),
        ]);
        (self.last, self.found, self.had_message) = (at, 0, true);
    }

    /// The turn is committed so far. It may go on behind the write.
    #[inline]
    pub(crate) fn committed(&mut self, now: Now, out: &Outbox) {
        if self.had_message {
            let at = self.source.at(now);
            self.record([(LatencyStage::Committed, self.last, at)]);
            let end = out.end();
            if self.unanswered_to < end {
                self.wait(Waiting { end, since: at, read: self.read });
            }
            (self.last, self.had_message, self.unanswered_to) = (at, false, end);
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
        self.unanswered_to += frame.end - frame.start;
        let at = self.source.at(now);
        if taken > 0 {
            self.record([(LatencyStage::Encoded, taken, at)]);
        }
        // Where a turn takes it from the queue, its next time begins here.
        if self.last > 0 {
            self.last = at;
        }
        if put > 0 {
            self.wait(Waiting { end: frame.end, since: put, read: 0 });
        }
        at
    }

    /// Most of the time only one waits, for the write that follows at once.
    #[inline]
    fn wait(&mut self, waiting: Waiting) {
        if self.first.end == 0 {
            self.first = waiting;
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// The socket has taken the outgoing stream up to here.
    #[inline]
    pub(crate) fn written(&mut self, now: Now, written: u64) {
        if self.first.end == 0 && self.asked.end == 0 {
            return;
        }
        let at = self.source.at(now);
        // Where the turn goes on, its next time begins here.
        self.last = at;
        while (1..=written).contains(&self.first.end) {
            let Waiting { since, read, .. } = self.first;
            self.first.end = 0;
            if !self.waiting.is_empty() {
                self.next_waiting();
            }
            if read > 0 {
                self.record([
                    (LatencyStage::Written, since, at),
                    (LatencyStage::ReadToWritten, read, at),
                ]);
            } else {
                self.record([(LatencyStage::PutToWritten, since, at)]);
            }
        }
        if (1..=written).contains(&self.asked.end) {
            cold_path();
            (self.asked.end, self.asked.at) = (0, at);
        }
        self.count();
    }

    /// Messages that other threads have sent wait one by one.
    #[inline(never)]
    fn next_waiting(&mut self) {
        self.first = self.waiting.pop_front().unwrap_or_default();
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
            self.record([(LatencyStage::TestRequest, self.asked.at, self.read)]);
            self.asked.at = 0;
        }
    }

    /// The outbox is empty, and what was measured of the last connection is over.
    pub(crate) fn reset(&mut self) {
        self.count();
        (self.read, self.last, self.found, self.called) = (0, 0, 0, 0);
        self.had_message = false;
        self.first = Waiting::default();
        self.waiting.clear();
        (self.asked.end, self.asked.at) = (0, 0);
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&mut self) {
        self.waiting.shrink_to(WAITING_KEPT);
    }

    /// Keeps times of which both ends are known.
    #[inline(always)]
    fn record<const N: usize>(&mut self, times: [(LatencyStage, u64, u64); N]) {
        if times.iter().any(|(stage, ..)| self.times.has(*stage)) {
            self.count_all();
        }
        for (stage, from, to) in times {
            self.times.put(stage, from, to);
        }
    }

    /// Counts the times that are kept.
    #[inline]
    fn count(&mut self) {
        if !self.times.is_empty() {
            self.count_all();
        }
    }

    #[inline(never)]
    fn count_all(&mut self) {
        if let Some(recorder) = &self.recorder {
            recorder.record_all(&self.times, self.source.scale());
        }
        self.times.clear();
    }
}
