//! Events of the core, apart from received and sent messages: [`CoreEvent`].
//!
//! Invariant: an event is a value without borrows. The core queues events and does not know their
//! receivers.

use std::borrow::Cow;
use std::time::Duration;

use transfix_codec::{Garbled, Misuse};

use crate::rolled_back::RolledBack;
use crate::{Remark, SendError};

/// An event in a session.
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
    /// The application has not judged the Logon(A) in time.
    LogonUnanswered,
    JudgingPanicked,
    LogonFieldsLeftOut(Misuse),
    /// A window of the schedule has opened, and the numbers restart.
    WindowOpened,
    /// The numbers restart while the session is logged on.
    NumbersBeginAgain,
    /// The session continues with the numbers of its store.
    NumbersTaken {
        next_in: u64,
        next_out: u64,
    },
    /// Messages with these numbers were stored without a logon, and a reset of the numbers prevents
    /// their resend.
    StoredGone {
        first: u64,
        last: u64,
    },
    /// Our messages `begin` to `end` are being resent.
    Resending {
        begin: u64,
        end: u64,
    },
    /// The same ResendRequest(2) was received `times` times in a row.
    AskedAgain {
        times: u32,
    },
    /// Some requested messages are missing from the store.
    NotStored {
        missing: u64,
    },
    /// Received bytes were skipped.
    Skipped {
        reason: Garbled,
        bytes: usize,
    },
    /// The session layer reports a fact about a message of the counterparty.
    Remark(Remark),
    /// A message of the counterparty was answered with BusinessMessageReject(j), or with Reject(3)
    /// up to FIX 4.1.
    NotTaken {
        seq: u64,
        reason: u16,
        text: Cow<'static, str>,
    },
    /// A message for a third party could not be passed to another session.
    NotRouted {
        why: String,
    },
    /// The application's answer to this message could not be sent.
    NotAnswered {
        seq: u64,
        why: SendError,
    },
    /// A queued message is returned to the application.
    GivenBack {
        why: SendError,
    },
    /// The store has failed, and may contain `count` returned messages, which stay in the queue.
    NotGivenBack {
        count: usize,
    },
    /// The application's queue is full, and reading stops.
    ApplicationFull {
        messages: usize,
        bytes: usize,
    },
    /// The application's queue has room again, and reading continues.
    ApplicationHasRoom {
        messages: usize,
        bytes: usize,
    },
    /// Too many bytes have waited too long for the counterparty.
    SlowConsumer {
        bytes: usize,
    },
    /// The counterparty has caught up: the number of waiting bytes is acceptable.
    CaughtUp {
        bytes: usize,
    },
    RolledBack(RolledBack),
}
