//! Events of the core besides messages that come and go: [`CoreEvent`].
//!
//! Invariant: an event is a value that borrows nothing. The core queues it and knows nothing of
//! those that receive it.

use std::borrow::Cow;
use std::time::Duration;

use transfix_codec::{Garbled, Misuse};

use crate::rolled_back::RolledBack;
use crate::{Remark, SendError};

/// Something that the core has brought about in a session.
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
    /// A window of the schedule has opened, and the numbers start again.
    WindowOpened,
    /// The numbers start again while the session is logged on.
    NumbersBeginAgain,
    /// The session goes on with the numbers that it found in its store.
    NumbersTaken {
        next_in: u64,
        next_out: u64,
    },
    /// Messages with these numbers were stored without a logon, and are not sent.
    StoredGone {
        first: u64,
        last: u64,
    },
    /// Messages are sent again.
    Resending {
        begin: u64,
        end: u64,
    },
    /// The same ResendRequest(2) has come so many times in a row.
    AskedAgain {
        times: u32,
    },
    /// So many messages were asked for, and are not in the store.
    NotStored {
        missing: u64,
    },
    /// Bytes were skipped.
    Skipped {
        reason: Garbled,
        bytes: usize,
    },
    /// The session layer has something to say about a message of the counterparty.
    Remark(Remark),
    /// A message of the counterparty was answered by BusinessMessageReject(j), or by Reject(3) up
    /// to FIX 4.1, with this reason and text.
    NotTaken {
        seq: u64,
        reason: u16,
        text: Cow<'static, str>,
    },
    /// A message for a third party could not be passed on.
    NotRouted {
        why: String,
    },
    /// The answer of the application to this message could not be sent.
    NotAnswered {
        seq: u64,
        why: SendError,
    },
    /// A message that waited in the queue goes back to the application.
    GivenBack {
        why: SendError,
    },
    /// The store has failed, and may have so many messages: they stay in the queue.
    NotGivenBack {
        count: usize,
    },
    /// So much waits for the application that nothing more is read.
    ApplicationFull {
        messages: usize,
        bytes: usize,
    },
    /// So much still waits, and reading goes on.
    ApplicationHasRoom {
        messages: usize,
        bytes: usize,
    },
    /// So many bytes have waited for the counterparty for too long.
    SlowConsumer {
        bytes: usize,
    },
    /// So many bytes still wait for it, which is no longer too much.
    CaughtUp {
        bytes: usize,
    },
    RolledBack(RolledBack),
}
