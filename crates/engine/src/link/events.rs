//! The lines of the log about one session.
//!
//! Invariant: whatever the counterparty can repeat is told in a bounded number of lines (see
//! `observe/repeats.rs`); its words are cut and escaped.

use std::io;
use std::net::SocketAddr;

use tracing::field::display;
use transfix_codec::shown::Shown;
use transfix_codec::{Garbled, Misuse};
use transfix_session::{Now, Remark, SendError, SessionId};
use transfix_store::StoreError;

use crate::link::told::{Disconnection, Rejected, Undone};
use crate::observe::event_codes::event;
use crate::observe::repeats::{Repeats, tell};

/// A line about the session, unless there were too many of its cause.
macro_rules! line {
    ($events:ident, $now:expr, $cause:ident, $level:ident, $code:ident; $words:expr) => {
        let now_ns = $now.monotonic_ns;
        tell!(
            $events.repeats, now_ns, $cause, $level, $code,
            session = display(&$events.id); $words
        );
    };
    ($events:ident, $now:expr, $cause:ident, $level:ident, $code:ident $(, $($fields:tt)+)?) => {
        let now_ns = $now.monotonic_ns;
        tell!(
            $events.repeats, now_ns, $cause, $level, $code,
            session = display(&$events.id) $(, $($fields)+)?
        );
    };
}

/// Writes the lines about one session, and knows how many were left out.
#[derive(Debug)]
pub(crate) struct Events {
    id: SessionId,
    repeats: Repeats,
    /// The other end of the connection.
    peer: Option<SocketAddr>,
    /// Which of its destinations an initiator is connected to, or tries.
    destination: Option<String>,
}

impl Events {
    pub(crate) fn of(id: SessionId) -> Self {
        Self { id, repeats: Repeats::default(), peer: None, destination: None }
    }

    /// A connection begins, whose other end is this one.
    pub(super) const fn connected(&mut self, peer: Option<SocketAddr>) {
        self.peer = peer;
    }

    /// The other end of the connection.
    pub(super) const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// An initiator tries this destination.
    pub(crate) fn goes_to(&mut self, destination: String) {
        self.destination = Some(destination);
    }

    pub(super) fn window_opened(&mut self, now: Now) {
        line!(self, now, Numbers, info, WindowOpened);
    }

    pub(super) fn numbers_begin_again(&mut self, now: Now) {
        line!(self, now, Numbers, info, NumbersBeginAgain);
    }

    pub(super) fn numbers_taken(&mut self, now: Now, (next_in, next_out): (u64, u64)) {
        line!(self, now, Numbers, info, NumbersTaken, next_in, next_out);
    }

    pub(super) fn judging_panicked(&mut self, now: Now) {
        line!(self, now, Refused, error, JudgingPanicked);
    }

    pub(super) fn logon_refused(&mut self, now: Now, why: &str) {
        let peer = self.peer.map(display);
        line!(self, now, Refused, warn, LogonRefused, peer, why = %why);
    }

    pub(super) fn logon_unanswered(&mut self, now: Now) {
        let peer = self.peer.map(display);
        line!(self, now, Refused, error, LogonUnanswered, peer);
    }

    /// Another connection of this session, from `peer`, was closed.
    pub(super) fn connection_refused(&mut self, now: Now, peer: Option<SocketAddr>, why: &str) {
        let peer = peer.map(display);
        line!(self, now, Refused, warn, ConnectionRefused, peer, why);
    }

    /// A message of the counterparty was answered by BusinessMessageReject(j), or by Reject(3) up
    /// to FIX 4.1.
    pub(super) fn business_rejected(&mut self, now: Now, seq: u64, (reason, text): (u16, &str)) {
        let text = Shown::new(text.as_bytes());
        line!(self, now, NotTaken, warn, NotTaken, seq, reason, %text);
    }

    pub(super) fn logon_fields_left_out(&mut self, now: Now, error: Misuse) {
        line!(self, now, Logon, error, LogonFieldsLeftOut, %error);
    }

    pub(super) fn no_rules(&mut self, now: Now, error: &str) {
        line!(self, now, Logon, error, NoValidation, error);
    }

    pub(super) fn logged_on(&mut self, now: Now) {
        let (peer, destination) = (self.peer.map(display), self.destination.as_deref());
        line!(self, now, LoggedOn, info, LoggedOn, peer, destination);
    }

    pub(super) fn resending(&mut self, now: Now, begin: u64, end: u64) {
        line!(self, now, Resend, info, Resending, begin, end);
    }

    pub(super) fn asked_again(&mut self, now: Now, times: u32) {
        line!(self, now, ResendLoop, warn, AskedAgain, times);
    }

    /// Messages with these numbers were stored without a logon.
    pub(super) fn stored_gone(&mut self, now: Now, first: u64, last: u64) {
        line!(self, now, Numbers, warn, StoredGone, first, last);
    }

    pub(super) fn not_stored(&mut self, now: Now, missing: u64) {
        line!(self, now, Resend, warn, NotStored, missing);
    }

    pub(super) fn skipped(&mut self, now: Now, reason: Garbled, bytes: usize) {
        line!(self, now, Garbled, warn, Skipped, bytes, %reason);
    }

    /// What has come is an alert of TLS, and the connection is not encrypted.
    pub(super) fn speaks_tls(&mut self, now: Now) {
        line!(self, now, Ended, error, SpeaksTls);
    }

    pub(super) fn remark(&mut self, now: Now, remark: Remark) {
        match remark {
            Remark::Rejected { .. } => {
                line!(self, now, Remark, warn, MessageRejected; remark);
            }
            Remark::FaultyReject(_) => {
                line!(self, now, Remark, warn, FaultyReject; remark);
            }
            Remark::FaultyLogout(_) => {
                line!(self, now, Remark, warn, FaultyLogout; remark);
            }
            Remark::UnaskedReset => {
                line!(self, now, Numbers, warn, UnaskedReset);
            }
            // Whatever else it is, messages are not delivered that had come.
            _ => {
                line!(self, now, Remark, warn, NotDelivered; remark);
            }
        }
    }

    pub(super) fn rejected(&mut self, now: Now, rejected: &Rejected<'_>) {
        line!(self, now, Rejected, warn, RejectedByCounterparty; rejected);
    }

    pub(super) fn not_routed(&mut self, now: Now, why: &str) {
        line!(self, now, NotRouted, warn, NotRouted, why);
    }

    /// A message that waited in the queue goes back to the application.
    pub(super) fn given_back(&mut self, now: Now, why: SendError) {
        line!(self, now, NotSent, warn, GivenBack, %why);
    }

    /// So many messages and bytes wait for the application, and nothing more is read.
    pub(super) fn application_full(&mut self, now: Now, (messages, bytes): (usize, usize)) {
        line!(self, now, Full, warn, ApplicationFull, messages, bytes);
    }

    /// So many still do, and reading goes on.
    pub(super) fn application_has_room(&mut self, now: Now, (messages, bytes): (usize, usize)) {
        line!(self, now, Full, info, ApplicationHasRoom, messages, bytes);
    }

    /// More has waited to be written than may, for too long; or no more.
    pub(super) fn slow_consumer(&mut self, now: Now, is_slow: bool, bytes: usize) {
        if is_slow {
            line!(self, now, Slow, warn, SlowConsumer, bytes);
        } else {
            line!(self, now, Slow, info, CaughtUp, bytes);
        }
    }

    /// A message of the counterparty is rejected, since its answer could not be sent.
    pub(super) fn not_answered(&mut self, now: Now, seq: u64, why: SendError) {
        line!(self, now, NotSent, warn, NotAnswered, seq, %why);
    }

    /// The store has failed, and may have these messages: they stay in the queue.
    pub(super) fn not_given_back(&mut self, now: Now, count: usize) {
        line!(self, now, NotSent, error, NotGivenBack, count);
    }

    /// Whether so many bytes of messages are in the store is known when it is open again.
    pub(super) fn sent_in_doubt(&mut self, now: Now, bytes: usize) {
        line!(self, now, NotSent, error, SentInDoubt, bytes);
    }

    /// The engine ends, and only the store can tell whether it has so many bytes of messages.
    pub(super) fn left_in_doubt(&mut self, now: Now, bytes: usize) {
        line!(self, now, NotSent, error, LeftInDoubt, bytes);
    }

    pub(super) fn queue_damaged(&mut self, now: Now, damaged: u64) {
        line!(self, now, Store, error, QueueDamaged, damaged);
    }

    pub(super) fn store_not_read(&mut self, now: Now, error: &StoreError) {
        line!(self, now, Store, error, StoreNotRead, %error);
    }

    /// The store was to be opened again, and could not be.
    pub(crate) fn store_not_opened(&mut self, now: Now, error: &StoreError) {
        line!(self, now, Store, error, StoreNotOpened, %error);
    }

    pub(super) fn ready_again(&mut self, now: Now) {
        line!(self, now, Store, info, ReadyAgain);
    }

    pub(super) fn undone(&mut self, now: Now, undone: &Undone) {
        line!(self, now, Store, warn, Undone; undone);
    }

    /// A turn has panicked at the message with this MsgSeqNum(34).
    pub(crate) fn panicked(&mut self, now: Now, seq: u64) {
        line!(self, now, Panicked, error, Panicked, seq);
    }

    /// Opening the store again has panicked.
    pub(crate) fn reopening_panicked(&mut self, now: Now) {
        line!(self, now, Panicked, error, ReopeningPanicked);
    }

    /// The connection broke: what follows is told as its end.
    pub(crate) fn broke(&mut self, now: Now, error: &io::Error) {
        let destination = self.destination.as_deref();
        line!(self, now, Ended, warn, ConnectionBroke, destination, %error);
    }

    /// No connection could be made.
    pub(crate) fn not_connected(&mut self, now: Now, error: &io::Error) {
        let destination = self.destination.as_deref();
        line!(self, now, Ended, warn, ConnectionFailed, destination, %error);
    }

    /// It was tried often enough, as the settings say.
    pub(crate) fn given_up(&mut self, now: Now, attempts: u32) {
        line!(self, now, Ended, error, AttemptsGivenUp, attempts);
    }

    /// The connection has ended: by a fault of either side it is a warning.
    pub(super) fn ended(&mut self, now: Now, end: &Disconnection<'_>) {
        let (peer, destination) = (self.peer.map(display), self.destination.as_deref());
        if end.reason.is_error() {
            line!(self, now, Ended, warn, Disconnected, peer, destination, reason = %end);
        } else {
            line!(self, now, Ended, info, Disconnected, peer, destination, reason = %end);
        }
    }

    /// Tells what was left out since the last line of its kind.
    pub(crate) fn tell_untold(&mut self, now: Now) {
        lines_left_out(&self.id, self.repeats.take_untold(now.monotonic_ns));
    }

    /// When [`Events::tell_untold`] has something to tell, on the monotonic clock.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        self.repeats.deadline()
    }

    /// The engine ends: tells all that was left out.
    pub(crate) fn tell_rest(&mut self) {
        lines_left_out(&self.id, self.repeats.take_rest());
    }
}

/// Tells how many lines of each kind about a session were left out.
pub(crate) fn lines_left_out(id: &SessionId, counts: Vec<(&'static str, u64)>) {
    for (what, left_out) in counts {
        event!(warn, LinesLeftOut, session = %id, left_out, what);
    }
}
