//! The events of the core, except received and sent messages.
//!
//! Invariant: an event is a value without borrows. The core queues events and does not know who
//! receives them.

use std::borrow::Cow;
use std::time::Duration;

use transfix_codec::{Garbled, Misuse};

use crate::rolled_back::RolledBack;
use crate::{Remark, SendError};

/// An event in a session, for logs and counters.
#[derive(Clone, Debug)]
pub enum CoreEvent {
    /// The counterparty has logged on, or has accepted our Logon(A), with this HeartBtInt(108).
    LoggedOn {
        heart_bt_int: Duration,
    },
    /// The application has refused the Logon(A).
    LogonRefused {
        why: Cow<'static, str>,
    },
    /// The application has not answered the question about the Logon(A) in time.
    LogonUnanswered,
    JudgingPanicked,
    LogonFieldsLeftOut(Misuse),
    /// A window of the schedule has opened, and the sequence numbers restart at 1.
    WindowOpened,
    /// The sequence numbers restart at 1 while the session is logged on.
    NumbersBeginAgain,
    /// The session continues with the sequence numbers that its store contains.
    NumbersTaken {
        next_in: u64,
        next_out: u64,
    },
    /// The numbers were reset, so messages that were stored with these numbers without a logon
    /// cannot be resent.
    StoredMessagesLost {
        first: u64,
        last: u64,
    },
    /// The session is resending its messages `begin` to `end`.
    Resending {
        begin: u64,
        end: u64,
    },
    /// The counterparty has sent the same ResendRequest(2) `times` times in a row.
    AskedAgain {
        times: u32,
    },
    /// The store does not contain some of the requested messages.
    NotStored {
        missing: u64,
    },
    /// The session has skipped received bytes that are not a message.
    Skipped {
        reason: Garbled,
        bytes: usize,
    },
    /// The session layer reports a remark on a message of the counterparty.
    Remark(Remark),
    /// A message of the counterparty was rejected with BusinessMessageReject(j), or with Reject(3)
    /// up to FIX 4.1.
    NotTaken {
        seq: u64,
        reason: u16,
        text: Cow<'static, str>,
    },
    /// A message addressed to a third party could not be passed to another session.
    NotRouted {
        why: String,
    },
    /// The application's answer to this message could not be sent.
    NotAnswered {
        seq: u64,
        why: SendError,
    },
    /// A queued message was returned to the application.
    GivenBack {
        why: SendError,
    },
    /// The store has failed. `count` messages that were to be returned may be in the store, and
    /// stay in the queue.
    NotGivenBack {
        count: usize,
    },
    /// The application's queue is full, and the session stops reading.
    ApplicationFull {
        messages: usize,
        bytes: usize,
    },
    /// The application's queue has room again, and the session continues to read.
    ApplicationHasRoom {
        messages: usize,
        bytes: usize,
    },
    /// The counterparty reads too slowly: too many bytes have waited too long.
    SlowConsumer {
        bytes: usize,
    },
    /// The counterparty reads fast enough again: the number of waiting bytes is acceptable.
    CaughtUp {
        bytes: usize,
    },
    RolledBack(RolledBack),
}
