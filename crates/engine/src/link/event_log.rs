//! Writes the log lines of one session.
//!
//! Invariant: events that the counterparty can repeat cause a bounded number of lines (see
//! [`repeats`](transfix_observe::repeats)). Texts of the counterparty are truncated and escaped.

use std::net::SocketAddr;

use tracing::field::display;
use transfix_codec::shown::Shown;
use transfix_observe::repeats::Repeats;
use transfix_observe::{event, tell};
use transfix_session::core::event::CoreEvent;
use transfix_session::{Now, Remark, SessionId};

use crate::link::event::Event;

/// Writes a line about the session, unless its cause has reached the line limit.
macro_rules! line {
    ($to:ident, $cause:ident, $level:ident, $code:ident $($more:tt)*) => {{
        let (repeats, now_ns, id) = $to;
        tell!(repeats, now_ns, $cause, $level, $code, session = display(id) $($more)*)
    }};
}

/// Writes the log lines of one session, and counts the omitted lines.
#[derive(Debug)]
pub(crate) struct EventLog {
    id: SessionId,
    repeats: Repeats,
    /// The peer address of the present connection.
    peer: Option<SocketAddr>,
    /// The destination to which an initiator is connected or connecting.
    destination: Option<String>,
}

impl EventLog {
    pub(crate) fn of(id: SessionId) -> Self {
        Self { id, repeats: Repeats::default(), peer: None, destination: None }
    }

    /// Records the peer address of a new connection.
    pub(crate) const fn connected(&mut self, peer: Option<SocketAddr>) {
        self.peer = peer;
    }

    /// Returns the address of the peer.
    pub(crate) const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Records the destination of an initiator's connection attempt.
    pub(crate) fn goes_to(&mut self, destination: String) {
        self.destination = Some(destination);
    }

    /// Writes the line of an event, unless its cause has reached the line limit.
    pub(crate) fn write(&mut self, now: Now, event: &Event<'_>) {
        let (peer, destination) = (self.peer.map(display), self.destination.as_deref());
        let to = (&mut self.repeats, now.monotonic_ns, &self.id);
        match event {
            Event::Core(event) => self.write_of_core(now, event),
            // Logs a warning if either side has made an error.
            Event::Disconnected(end) if end.reason.is_error() => {
                line!(to, Ended, warn, Disconnected, peer, destination, reason = %end);
            }
            Event::Disconnected(end) => {
                line!(to, Ended, info, Disconnected, peer, destination, reason = %end);
            }
            Event::ConnectionFailed(error) => {
                line!(to, Ended, warn, ConnectionFailed, destination, %error);
            }
            Event::ConnectionBroke(error) => {
                line!(to, Ended, warn, ConnectionBroke, destination, %error);
            }
            Event::AttemptsGivenUp { attempts } => {
                line!(to, Ended, error, AttemptsGivenUp, attempts)
            }
            Event::ConnectionRefused { peer, why } => {
                line!(to, Refused, warn, ConnectionRefused, peer = peer.map(display), why);
            }
            Event::NoValidation { error } => line!(to, Logon, error, NoValidation, error),
            Event::SpeaksTls => line!(to, Ended, error, SpeaksTls),
            Event::Rejected(rejected) => {
                line!(to, Rejected, warn, RejectedByCounterparty; rejected)
            }
            Event::SentInDoubt { bytes } => line!(to, NotSent, error, SentInDoubt, bytes),
            Event::LeftInDoubt { bytes } => line!(to, NotSent, error, LeftInDoubt, bytes),
            Event::QueueDamaged { damaged } => line!(to, Store, error, QueueDamaged, damaged),
            Event::StoreNotRead(error) => line!(to, Store, error, StoreNotRead, %error),
            Event::StoreNotOpened(error) => line!(to, Store, error, StoreNotOpened, %error),
            Event::ReadyAgain => line!(to, Store, info, ReadyAgain),
            Event::Panicked { seq } => line!(to, Panicked, error, Panicked, seq),
            Event::ReopeningPanicked => line!(to, Panicked, error, ReopeningPanicked),
        }
    }

    fn write_of_core(&mut self, now: Now, event: &CoreEvent) {
        let (peer, destination) = (self.peer.map(display), self.destination.as_deref());
        let to = (&mut self.repeats, now.monotonic_ns, &self.id);
        match event {
            CoreEvent::LoggedOn { .. } => line!(to, LoggedOn, info, LoggedOn, peer, destination),
            CoreEvent::LogonRefused { why } => {
                line!(to, Refused, warn, LogonRefused, peer, why = %why)
            }
            CoreEvent::LogonUnanswered => line!(to, Refused, error, LogonUnanswered, peer),
            CoreEvent::JudgingPanicked => line!(to, Refused, error, JudgingPanicked),
            CoreEvent::LogonFieldsLeftOut(error) => {
                line!(to, Logon, error, LogonFieldsLeftOut, %error)
            }
            CoreEvent::WindowOpened => line!(to, Numbers, info, WindowOpened),
            CoreEvent::NumbersBeginAgain => line!(to, Numbers, info, NumbersBeginAgain),
            CoreEvent::NumbersTaken { next_in, next_out } => {
                line!(to, Numbers, info, NumbersTaken, next_in, next_out);
            }
            CoreEvent::StoredMessagesLost { first, last } => {
                line!(to, Numbers, warn, StoredMessagesLost, first, last)
            }
            CoreEvent::Resending { begin, end } => line!(to, Resend, info, Resending, begin, end),
            CoreEvent::AskedAgain { times } => line!(to, ResendLoop, warn, AskedAgain, times),
            CoreEvent::NotStored { missing } => line!(to, Resend, warn, NotStored, missing),
            CoreEvent::Skipped { reason, bytes } => {
                line!(to, Garbled, warn, Skipped, bytes, %reason)
            }
            CoreEvent::Remark(remark) => write_remark(to, *remark),
            CoreEvent::NotTaken { seq, reason, text } => {
                let text = Shown::new(text.as_bytes());
                line!(to, NotTaken, warn, NotTaken, seq, reason, %text);
            }
            CoreEvent::NotRouted { why } => line!(to, NotRouted, warn, NotRouted, why),
            CoreEvent::NotAnswered { seq, why } => line!(to, NotSent, warn, NotAnswered, seq, %why),
            CoreEvent::GivenBack { why } => line!(to, NotSent, warn, GivenBack, %why),
            CoreEvent::NotGivenBack { count } => line!(to, NotSent, error, NotGivenBack, count),
            CoreEvent::ApplicationFull { messages, bytes } => {
                line!(to, Full, warn, ApplicationFull, messages, bytes);
            }
            CoreEvent::ApplicationHasRoom { messages, bytes } => {
                line!(to, Full, info, ApplicationHasRoom, messages, bytes);
            }
            CoreEvent::SlowConsumer { bytes } => line!(to, Slow, warn, SlowConsumer, bytes),
            CoreEvent::CaughtUp { bytes } => line!(to, Slow, info, CaughtUp, bytes),
            CoreEvent::RolledBack(undone) => line!(to, Store, warn, RolledBack; undone),
        }
    }

    /// Logs how many lines of each kind were omitted since the last line of that kind.
    pub(crate) fn tell_untold(&mut self, now: Now) {
        lines_left_out(&self.id, self.repeats.take_omitted(now.monotonic_ns));
    }

    /// Returns the monotonic time at which [`EventLog::tell_untold`] must be called.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        self.repeats.deadline()
    }

    /// Logs all numbers of omitted lines, at the end of the engine.
    pub(crate) fn tell_rest(&mut self) {
        lines_left_out(&self.id, self.repeats.take_rest());
    }
}

fn write_remark(to: (&mut Repeats, u64, &SessionId), remark: Remark) {
    match remark {
        Remark::Rejected { .. } => line!(to, Remark, warn, MessageRejected; remark),
        Remark::FaultyReject(_) => line!(to, Remark, warn, FaultyReject; remark),
        Remark::FaultyLogout(_) => line!(to, Remark, warn, FaultyLogout; remark),
        Remark::UnaskedReset => line!(to, Numbers, warn, UnaskedReset),
        // Each other remark is about a received message that was not delivered.
        _ => line!(to, Remark, warn, NotDelivered; remark),
    }
}

/// Logs how many lines of each kind were omitted for a session.
pub(crate) fn lines_left_out(id: &SessionId, counts: Vec<(&'static str, u64)>) {
    for (what, left_out) in counts {
        event!(warn, LinesLeftOut, session = %id, left_out, what);
    }
}
