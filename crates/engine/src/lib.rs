//! Transfix, a FIX engine: sessions, stores, threads and sockets put together.
//!
//! An [`Engine`] runs the sessions that [`Settings`] name, each with an [`Application`] of its own.
//!
//! ```
//! use transfix::{
//!     Application, BeginString, BusinessReject, Durability, Engine, Message, Role, SessionId,
//!     SessionRef, SessionSettings, Settings, tag,
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
//!         let _ = session.send("B", |news| _ = news.str(tag::TEXT, &id));
//!         Ok(())
//!     }
//! }
//!
//! let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
//! let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
//! session.durability = Durability::Memory;
//! let engine = Engine::start(&Settings::of(session), |_| Box::new(Echo))?;
//! println!("listening at {}", engine.listening()[0]);
//! let outcomes = engine.stop(1_000);
//! assert_eq!(outcomes.len(), 1);
//! # Ok::<(), transfix::EngineError>(())
//! ```
//!
//! # What happened?
//! The engine prints nothing. What concerns one session's messages it says to the [`Application`];
//! all else, such as a connection that was refused and why, are events of the crate [`tracing`].
//! **Without a subscriber nobody sees them.** Install one first in `main`, for instance
//! that of the crate `tracing-subscriber`, which writes a line for each event:
//!
//! ```
//! tracing_subscriber::fmt().with_writer(std::io::stderr).init();
//! ```
//!
//! The page "What happened?" of the book (`book/src/what-happened.md`) lists all events and says
//! what to do about the usual ones. An engine writes a few for each connection and none for each
//! message.
#![forbid(unsafe_code)]

mod admission;
mod application;
mod builder;
pub mod clock;
mod cpus;
mod deferred;
mod descriptors;
mod desk;
mod dictionary_source;
mod engine;
mod handle;
mod inbox;
mod link;
mod listening;
mod lobby;
mod mask;
mod network;
mod operate;
pub mod probe;
mod protocol_log;
mod queue;
mod reopening;
mod repeats;
mod replay;
mod retention;
pub mod rig;
mod rule_book;
pub mod schedule;
mod settings;
mod settings_check;
mod settings_file;
mod settings_tables;
mod settings_words;
pub mod simulated;
mod slot;
mod stranger_lines;
mod supervised;
mod template;
mod told;
mod waiting;
mod waiting_room;
mod worker;

pub use application::{Application, BusinessReject, Direction, LogonRefusal, Resend, SessionRef};
pub use builder::EngineBuilder;
pub use desk::Counters;
pub use dictionary_source::DictionarySource;
pub use engine::{Engine, EngineError, pin_to_cpu};
pub use handle::{Sent, SessionHandle};
pub use mask::{Mask, masked};
pub use protocol_log::{LogDirection, LogSettings};
pub use retention::{BeyondLimit, RetentionSettings};
pub use settings::{
    AfterPanic, Durability, EngineSettings, GarbledPolicy, Mode, Offline, SendMode,
    SessionSettings, Settings, ThreadLost, Unavailable, UnavailableAction, Unsent,
};
pub use settings_file::SettingsError;
pub use slot::{Outcome, SessionOutcome};
pub use told::{Disconnection, Rejected, RejectedBy, Undone};

pub use transfix_codec as codec;
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
    Body, Decimal, Field, Message, Misuse, Precision, Reject, RejectReason, Tag, Template,
    Timestamp, tag,
};
pub use transfix_dictionary as dictionary;
pub use transfix_session::{
    ApplVerId, BeginString, Disconnect, HeaderChange, LogonConfig, MSG_SEQ_NUM_MAX, Now,
    NumbersConfig, Remark, ResendConfig, ResetPolicy, Role, Secret, SendError, SessionId, State,
    SubIds, Throttle, ThrottleAction, TimingConfig, TooLow, TooLowAtLogon, check_msg_type,
};
pub use transfix_store as store;
