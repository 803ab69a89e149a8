//! What happens to a session besides messages that come and go: [`Event`].
//!
//! Invariant: an event is a value. Whoever makes one knows nothing of those that receive it, the
//! [`Sinks`](crate::link::sinks::Sinks).

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use transfix_codec::{Garbled, Misuse};
use transfix_session::{Remark, SendError};
use transfix_store::StoreError;

use crate::link::told::{Disconnection, Rejected, Undone};

/// Something that has happened to a session.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    /// The counterparty has logged on, or has accepted our Logon(A), with this HeartBtInt(108).
    LoggedOn {
        heart_bt_int: Duration,
    },
    /// A connection has ended.
    Disconnected(&'a Disconnection<'a>),
    /// No connection could be made.
    ConnectionFailed(&'a io::Error),
    /// The connection broke: [`Event::Disconnected`] follows.
    ConnectionBroke(&'a io::Error),
    /// The attempts to connect have reached `reconnect_attempts_max`.
    AttemptsGivenUp {
        attempts: u32,
    },
    /// Another connection of this session was closed.
    ConnectionRefused {
        peer: Option<SocketAddr>,
        why: &'a str,
    },
    /// The application has refused the Logon(A).
    LogonRefused {
        why: Cow<'a, str>,
    },
    /// The application has not judged the Logon(A) in time.
    LogonUnanswered,
    JudgingPanicked,
    LogonFieldsLeftOut(Misuse),
    /// There is no dictionary to validate messages with, for this reason.
    NoValidation {
        error: String,
    },
    /// The counterparty speaks TLS, and this session does not.
    SpeaksTls,
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
    /// The counterparty has rejected a message of ours.
    Rejected(&'a Rejected<'a>),
    /// A message of the counterparty was answered by BusinessMessageReject(j), or by Reject(3) up
    /// to FIX 4.1, with this reason and text.
    NotTaken {
        seq: u64,
        reason: u16,
        text: Cow<'a, str>,
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
    /// Whether so many bytes of messages are in the store is known when it is open again.
    SentInDoubt {
        bytes: usize,
    },
    /// The engine ends, and only the store can tell whether it has so many bytes of messages.
    LeftInDoubt {
        bytes: usize,
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
    /// So many messages of the queue in the store are damaged.
    QueueDamaged {
        damaged: u64,
    },
    StoreNotRead(&'a StoreError),
    /// The store was to be opened again, and could not be.
    StoreNotOpened(&'a StoreError),
    /// The session goes on after a failure.
    ReadyAgain,
    Undone(Undone),
    /// A turn has panicked at the message with this MsgSeqNum(34).
    Panicked {
        seq: u64,
    },
    /// Opening the store again has panicked.
    ReopeningPanicked,
}
