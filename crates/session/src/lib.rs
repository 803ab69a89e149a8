//! The FIX session layer as a pure state machine: FIX.4.0 to FIX.4.4 and FIXT.1.1, both roles.
//!
//! The crate performs no I/O and has no clock, thread or store. The driver passes received bytes as
//! a [`Message`] and the current time as a [`Now`]. The session writes outbound frames into an
//! [`Outbox`] that the caller owns. The contract of the driver:
//!
//! ```text
//! loop {
//!     connected(now, outbox)                       when a link is up
//!     receive(now, message, outbox) -> Verdict     for each message, in the order of arrival
//!         LogonOffered       ask the application, then call accept_logon() or deny_logon()
//!         Deliver            pass the message to the application
//!         Resend{begin,end}  read the store; resend() each message, gap_fill() each gap
//!         Disconnect(reason) write the outbox, close the link, call disconnected(outbox)
//!     take_held()                                  after each receive, until it returns None
//!     take_remark()                                after each receive and tick, for the log
//!     tick(now, outbox) -> Verdict                 at the latest at next_deadline()
//!     store outbox.entries() and stored_num_in(), then write outbox.bytes() to the link
//! }
//! ```
//!
//! Invariants: the session lowers a sequence number only in a reset, or to accept a Logon(A) with a
//! low number (`too_low_at_logon`). Between two resets, each journalled outbound message has a
//! number of its own. Each application message is delivered once, in the order of MsgSeqNum(34).
#![forbid(unsafe_code)]

// The macro `settings_table!` refers to unit types by this path, both in this crate and in other
// crates.
extern crate self as transfix_session;

mod admin;
mod answers;
mod before_admin;
mod config;
// The session with its queues. The module is hidden, because only the crate `transfix` may use it
// and its interface is not stable.
#[doc(hidden)]
pub mod core;
mod gap;
mod garbled;
mod header;
mod logon;
mod logon_fault;
mod offer;
mod operate;
mod outbox;
mod receive;
mod received;
mod renumber;
mod replay;
mod resend;
pub mod reset;
mod rolled_back;
mod rule_set;
mod sent;
mod session;
pub mod state;
mod throttle;
mod tick;
mod timer;
mod verdict;
mod watermarks;

pub use answers::{BusinessReject, Direction, LogonRefusal, Resend};
pub use before_admin::{BeforeAdmin, NewAdmin};
pub use config::{
    ApplVerId, ApplicationSettings, BeginString, Config, GarbledPolicy, Key, LogonConfig,
    MSG_SEQ_NUM_MAX, Now, NumbersConfig, Offline, OutOfRange, ProtocolConfig, QueueSettings,
    QueueWhenFull, ResendConfig, ResetPolicy, Role, Secret, SessionId, SlowConsumer, SubIds,
    Throttle, ThrottleAction, TimingConfig, TooLongPolicy, TooLow, TooLowAtLogon, Unavailable,
    UnavailableAction, Unsent, WhenFull, nanos,
};

#[doc(hidden)]
pub use config::{Days, Hours, Micros, Millis, Mins, Secs, Unit};
pub use logon_fault::LogonFault;
pub use offer::Offer;
pub use outbox::{Entry, Kind, Outbox, ResetCause};
pub use replay::{Found, Replay};
pub use reset::{Reset, ResetEvent};
pub use rolled_back::RolledBack;
pub use rule_set::{Agreed, Checks, RuleSet, StandardRules};
pub use sent::Sent;
pub use session::{HeaderChange, Session};
pub use state::{Event, State};
pub use transfix_codec::Message;
pub use verdict::{Disconnect, OperateError, Remark, SendError, Verdict};
pub use watermarks::{Awaited, Watermarks};
