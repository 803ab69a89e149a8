//! Measures the latency of a session's messages by stage.
//!
//! Invariants: the clock is read once per message and stage, or not at all if measurement is off.
//! Measured values never affect the session's behaviour. A simulated session uses simulated time.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::ops::Range;
use std::sync::Arc;

use transfix_codec::{Message, raw, tag};
use transfix_session::{Entry, Kind, Now, Outbox};

use transfix_observe::clock::Ticks;
use transfix_observe::latency::{LatencyStage, Recorder, Times};
use transfix_observe::published::Published;

/// The capacity, in entries, of the queue of unwritten frames that stays after a burst.
const WAITING_KEPT: usize = 64;

/// The clock from which the probe reads the time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Source {
    /// Nothing is measured.
    #[default]
    Off,
    /// The environment's clock, whose time stays the same during a turn.
    Given,
    /// The processor's cycle counter.
    Machine(Ticks),
}

impl Source {
    /// Returns the current time in ticks; 0 if nothing is measured.
    #[inline]
    pub(crate) fn at(self, now: Now) -> u64 {
        self.counter().unwrap_or_else(|| self.without_counter(now.monotonic_ns))
    }

    /// Returns the time in ticks where no `Now` is available; 0 unless the processor has a counter.
    #[inline]
    pub(crate) fn here(self) -> u64 {
        self.counter().unwrap_or_else(|| self.without_counter(0))
    }

    /// Returns the value of the processor's counter, if it is the source. Most machines have one,
    /// so one comparison suffices.
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

    /// Returns the factor from ticks to nanoseconds.
    const fn scale(self) -> Ticks {
        match self {
            Self::Machine(ticks) => ticks,
            Self::Off | Self::Given => Ticks::NANOSECONDS,
        }
    }
}

/// Frames in the outbox whose latency is measured when the socket accepts them.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// The offset in the outgoing stream at which the frames end; 0 if there are none.
    end: u64,
    /// The time at which the turn committed, or at which a handle sent the message.
    since: u64,
    /// The time at which the turn read its bytes; 0 for a message of a handle.
    read: u64,
}

/// The last TestRequest(1) that we have sent, to measure the round trip.
#[derive(Debug, Default)]
struct Asked {
    /// Its TestReqID(112).
    id: Vec<u8>,
    /// The offset at which the request ends, as in [`Waiting::end`]; 0 after the request was
    /// written.
    end: u64,
    /// The time at which the request was written; 0 if no answer is awaited.
    at: u64,
}

/// The latency probe of one session. A time of 0 means unknown.
pub(crate) struct LatencyProbe {
    source: Source,
    recorder: Option<Arc<Recorder>>,
    /// The time at which the turn read its bytes.
    read: u64,
    /// The time at which the turn's last stage ended.
    last: u64,
    /// Time at which the current message was found; 0 after its next stage.
    found: u64,
    /// The time at which the application was called with the current message.
    called: u64,
    /// True if the turn has had a valid message.
    had_message: bool,
    /// The offset at which the outgoing stream would end if it contained no answer since the last
    /// commit. A message of another thread moves this offset on.
    unanswered_to: u64,
    /// The oldest unwritten frames; `waiting` has the later ones. Their number is limited by the
    /// messages in the outbox.
    first: Waiting,
    waiting: VecDeque<Waiting>,
    asked: Asked,
    /// The measured times, kept until the turn has written, so that counting delays no answer.
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

    /// Returns the recorder that counts times.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_deref()
    }

    const fn is_off(&self) -> bool {
        matches!(self.source, Source::Off)
    }

    /// Begins a turn after its read, and reads the clock. `end` is the end of the outgoing stream.
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

    /// Notes the time at which a valid message was found.
    #[inline]
    pub(crate) fn found(&mut self, now: Now) {
        self.found = self.source.at(now);
    }

    /// Notes the time at which the application is called with a message.
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

    /// Measures how long a callback took to encode a message.
    #[inline]
    pub(crate) fn encoded(&mut self, now: Now) {
        if self.called > 0 {
            let at = self.source.at(now);
            self.record([(LatencyStage::Encoded, self.last, at)]);
            self.last = at;
        }
    }

    /// Measures how long the application's callback took.
    #[inline]
    pub(crate) fn returned(&mut self, now: Now) {
        let at = self.source.at(now);
        if self.called > 0 {
            self.record([(LatencyStage::Callback, self.called, at)]);
        }
        (self.called, self.last) = (0, at);
    }

    /// Notes that the current message was processed.
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

    /// Notes the time of a commit. The turn may continue after the write.
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

    /// Records a message of a handle, sent at `put` and taken from the queue at `taken`. `frame` is
    /// its range in the outgoing stream. Returns the time at which the message was encoded.
    pub(crate) fn put(&mut self, now: Now, (put, taken): (u64, u64), frame: Range<u64>) -> u64 {
        if frame.is_empty() {
            return taken;
        }
        self.unanswered_to += frame.end - frame.start;
        let at = self.source.at(now);
        if taken > 0 {
            self.record([(LatencyStage::Encoded, taken, at)]);
        }
        // The turn's next stage begins here if a turn takes the message from the queue.
        if self.last > 0 {
            self.last = at;
        }
        if put > 0 {
            self.wait(Waiting { end: frame.end, since: put, read: 0 });
        }
        at
    }

    /// Adds frames that wait to be written. Usually only one entry waits, for the write that
    /// follows at once.
    #[inline]
    fn wait(&mut self, waiting: Waiting) {
        if self.first.end == 0 {
            self.first = waiting;
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// Measures the frames that the socket has accepted; `written` is the offset up to which it has
    /// accepted the outgoing stream.
    #[inline]
    pub(crate) fn written(&mut self, now: Now, written: u64) {
        if self.first.end == 0 && self.asked.end == 0 {
            return;
        }
        let at = self.source.at(now);
        // The turn's next stage begins here if the turn continues.
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

    /// Moves the next entry to `first`. There are several entries only if messages of other threads
    /// wait.
    #[inline(never)]
    fn next_waiting(&mut self) {
        self.first = self.waiting.pop_front().unwrap_or_default();
    }

    /// Searches the session layer's new frames for a TestRequest(1), to measure the time until its
    /// answer.
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

    /// Measures the answer if `message` answers our TestRequest(1).
    pub(crate) fn heard(&mut self, message: &Message<'_>) {
        if self.asked.at > 0
            && message.msg_type() == b"0"
            && message.raw(tag::TEST_REQ_ID) == Some(&self.asked.id[..])
        {
            self.record([(LatencyStage::TestRequest, self.asked.at, self.read)]);
            self.asked.at = 0;
        }
    }

    /// Counts the measured times and discards the state of the last connection.
    pub(crate) fn reset(&mut self) {
        self.count();
        (self.read, self.last, self.found, self.called) = (0, 0, 0, 0);
        self.had_message = false;
        self.first = Waiting::default();
        self.waiting.clear();
        (self.asked.end, self.asked.at) = (0, 0);
    }

    /// Frees the memory of a past burst.
    pub(crate) fn trim(&mut self) {
        self.waiting.shrink_to(WAITING_KEPT);
    }

    /// Records the durations of stages whose beginning and end are known.
    #[inline(always)]
    fn record<const N: usize>(&mut self, times: [(LatencyStage, u64, u64); N]) {
        if times.iter().any(|(stage, ..)| self.times.has(*stage)) {
            self.count_all();
        }
        for (stage, from, to) in times {
            self.times.put(stage, from, to);
        }
    }

    /// Passes the recorded times to the recorder.
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
