//! Transfix, a FIX engine: sessions, stores, threads and sockets.
//!
//! An [`Engine`] runs the sessions of its [`Settings`], each with its own [`Application`].
//!
//! ```
//! use std::time::Duration;
//!
//! use transfix::{
//!     Application, BeginString, BusinessReject, Durability, Engine, Message, Role, SessionId,
//!     SessionRef, SessionSettings, Settings, msg_type, tag,
//! };
//!
//! struct Echo;
//!
//! impl Application for Echo {
//!     fn on_message(
//!         &mut self,
//!         message: &Message<'_>,
//!         session: &mut SessionRef<'_>,
//!     ) -> Result<(), BusinessReject> {
//!         let id = message.text(tag::CL_ORD_ID)?.to_owned();
//!         let _ = session.send(msg_type::NEWS, |news| _ = news.str(tag::TEXT, &id));
//!         Ok(())
//!     }
//! }
//!
//! let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
//! let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
//! session.store.durability = Durability::Memory;
//! let engine = Engine::start(&Settings::of(session), |_| Box::new(Echo))?;
//! println!("listening at {}", engine.listening()[0]);
//! let outcomes = engine.stop(Duration::from_secs(1));
//! assert_eq!(outcomes.len(), 1);
//! # Ok::<(), transfix::EngineError>(())
//! ```
//!
//! # What happened?
//! The engine prints nothing. The [`Application`] receives the messages of one session. Everything
//! else, such as a refused connection and its reason, is an event of the crate [`tracing`].
//! **Without a subscriber these events are lost.** Install one first in `main`, for instance from
//! the crate `tracing-subscriber`, which writes a line for each event:
//!
//! ```
//! tracing_subscriber::fmt().with_writer(std::io::stderr).init();
//! ```
//!
//! The page "What happened?" of the book (`book/src/what-happened.md`) lists all log events, and
//! explains how to react to the common ones. An engine logs a few events for each connection, and
//! none for a message.
#![forbid(unsafe_code)]

mod admin;
mod api;
mod assemble;
mod drive;
mod engine;
mod error;
#[cfg_attr(
    not(feature = "rig"),
    expect(unreachable_pub, reason = "only simulated worlds replace it")
)]
mod io;
mod link;
mod review;
pub mod simulated;
#[cfg(feature = "tls")]
pub mod tls;

pub use admin::action::{Action, Actor, EngineAction};
pub use admin::request::Request;
pub use api::admin::{Admin, AdminError, Done};
pub use api::answer::MessageAnswer;
pub use api::application::{Application, SessionRef, SessionView};
pub use api::batch::{Batch, BatchSent};
pub use api::builder::EngineBuilder;
pub use api::certificates::{CertificateStatus, Certificates};
pub use api::handle::SessionHandle;
pub use api::logon::{LogonAnswer, LogonAttempt};
pub use api::options::{AnswerOptions, SendOptions};
pub use api::reload::{Changes, Reloaded};
pub use api::status::{LastEnd, SessionStatus};
pub use api::version::MessageVersion;
pub use drive::outcome::{Outcome, SessionOutcome};
pub use engine::Engine;
pub use error::EngineError;
pub use link::before_send::{BeforeSend, OutgoingMessage, Veto};
pub use link::session_event::{
    Disconnection, Rejected, RejectedBy, SessionEvent, SessionNotice, Undeliverable,
};
pub use review::Review;
/// Schedules of sessions: when a session may be connected.
pub mod schedule {
    pub use transfix_settings::schedule::{
        Interval, NumbersAtOpening, Outside, Schedule, ScheduleError, ScheduleSettings,
        WindowSettings, is_zone,
    };
}

/// The clocks of the machine.
pub mod clock {
    pub use transfix_observe::clock::{monotonic_ns, now, process_cpu_ns};
}

/// The codec types that signatures and generated messages use, except those at the root. The crate
/// `transfix-codec` has further types for messages, such as drafts, frames and validation.
pub mod codec {
    pub use transfix_codec::draft::DraftEntry;
    pub use transfix_codec::group::Groups;
    pub use transfix_codec::{
        CheckSumPolicy, FieldIndex, Fields, FrameWriter, Garbled, Members, MessageLayout, typed,
    };
}
#[cfg(feature = "fix40")]
pub use transfix_codec::fix40;
#[cfg(feature = "fix41")]
pub use transfix_codec::fix41;
#[cfg(feature = "fix42")]
pub use transfix_codec::fix42;
#[cfg(feature = "fix43")]
pub use transfix_codec::fix43;
#[cfg(feature = "fix44")]
pub use transfix_codec::fix44;
#[cfg(feature = "fix50")]
pub use transfix_codec::fix50;
#[cfg(feature = "fix50sp1")]
pub use transfix_codec::fix50sp1;
#[cfg(feature = "fix50sp2")]
pub use transfix_codec::fix50sp2;
#[cfg(feature = "fixlatest")]
pub use transfix_codec::fixlatest;
#[cfg(feature = "fixt11")]
pub use transfix_codec::fixt11;
pub use transfix_codec::{
    Body, Decimal, Field, Mask, Message, Misuse, MsgType, OwnedMessage, Precision, Reject,
    RejectReason, Tag, Template, Timestamp, masked, msg_type, tag,
};
pub use transfix_dictionary::Dictionary;
pub use transfix_observe::EventCode;
pub use transfix_observe::counters::Counters;
pub use transfix_observe::latency::{Latency, LatencyHistogram, LatencyStage};
pub use transfix_observe::reasons::ReasonCounts;
pub use transfix_observe::supervised::pin_to_cpu;
pub use transfix_session::{
    ApplVerId, BeginString, BusinessReject, Direction, Disconnect, HeaderChange, Key, LogonConfig,
    LogonFault, LogonRefusal, MSG_SEQ_NUM_MAX, Now, NumbersConfig, OperateError, OutOfRange,
    ProtocolConfig, Remark, Resend, ResendConfig, ResetPolicy, Role, RolledBack, Secret, SendError,
    Sent, SessionId, State, SubIds, Throttle, ThrottleAction, TimingConfig, TooLow, TooLowAtLogon,
};
pub use transfix_settings::{
    AdminSettings, AfterPanic, ApplicationSettings, Backoff, BeyondLimit, CertificateFiles,
    ClientCertificate, DictionarySource, Durability, EngineSettings, EventForm, EventLevel,
    EventLevels, EventLevelsError, EventSettings, FailoverOrder, FailoverSettings,
    FixAdminSettings, FleetSettings, GarbledPolicy, LogDirection, LogSettings, Mode, Offline,
    Origin, ProxyKind, ProxySettings, QueueSettings, QueueWhenFull, RetentionSettings, SendMode,
    SessionDictionaries, SessionSettings, Settings, SettingsError, ShownKey, ShownSettings,
    SlowConsumer, SocketSettings, StoreSettings, Subnet, SyslogFacility, ThreadLost,
    ThreadSettings, TlsSettings, TlsVersion, TooLongPolicy, Unavailable, UnavailableAction, Unsent,
    ValidateOut, ValidationSettings, WhenFull, hash_password, is_password_of,
};
pub use transfix_store::{Store, StoreError};

/// Pages of the book, included so that their snippets are compiled and run.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../book/src/first-program.md")]
    pub struct YourFirstProgram;
    #[doc = include_str!("../../../book/src/sending.md")]
    pub struct SendingFromAnywhere;
    #[doc = include_str!("../../../book/src/groups.md")]
    pub struct RepeatingGroups;
    #[doc = include_str!("../../../book/src/dictionaries.md")]
    pub struct ADictionaryOfYourOwn;
    #[doc = include_str!("../../../book/src/testing.md")]
    pub struct TestingAnApplication;
    #[doc = include_str!("../../../book/src/drop-copy.md")]
    pub struct DropCopy;
    #[doc = include_str!("../../../book/src/coming-from-quickfix.md")]
    pub struct ComingFromQuickFix;
    #[doc = include_str!("../../../book/src/before-send.md")]
    pub struct BeforeAMessageIsSent;
    #[doc = include_str!("../../../book/src/administration.md")]
    pub struct Administration;
    #[doc = include_str!("../../../book/src/own_store.md")]
    pub struct AStoreOfYourOwn;
    #[doc = include_str!("../../../book/src/crates.md")]
    pub struct TheCratesBelow;
    #[doc = include_str!("../../../book/src/changes.md")]
    pub struct Changes;
    #[doc = include_str!("../../../book/src/latency.md")]
    pub struct Latency;
    #[doc = include_str!("../../../book/src/threads.md")]
    pub struct Threads;
    #[doc = include_str!("../../../book/src/what-happened.md")]
    pub struct WhatHappened;
}
