//! Bytes to messages and back: framing, zero-copy views, encoding, validation.
//!
//! The way in: [`frame::split`] finds one message in a receive buffer, [`Message::parse`] indexes
//! its fields and verifies CheckSum(10) in place, and the typed getters of [`Message`] read values
//! on demand. The way out: [`encode::FrameWriter`] writes header, body and trailer straight into a
//! buffer that the caller owns.
//!
//! Invariants: nothing here allocates per message once the caller's buffers have grown; no input,
//! however damaged, makes it panic; values are never copied.
//!
//! ```
//! use transfix_codec::{FieldIndex, Frame, Limits, Message, frame, tag};
//!
//! let bytes = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";
//! let Frame::Whole(end) = frame::split(bytes, Limits::default()) else { panic!("not whole") };
//! let mut index = FieldIndex::default();
//! let message = Message::parse(&bytes[..end], &mut index, Default::default())?;
//! assert_eq!(message.raw(tag::MSG_TYPE), Some(&b"0"[..]));
//! # Ok::<(), transfix_codec::Garbled>(())
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod data;
pub mod date;
pub mod decimal;
mod digits;
pub mod draft;
pub mod encode;
pub mod error;
pub mod fields;
pub mod frame;
pub mod group;
pub mod json;
pub mod message;
#[cfg(feature = "typed")]
mod messages;
pub mod prepared;
pub mod print;
pub mod raw;
#[allow(unsafe_code, reason = "vectors: see the safety notes there")]
pub mod scan;
pub mod tag;
pub mod template;
pub mod time;
pub mod time_of_day;
pub mod typed;
pub mod validate;
pub mod value;

pub use date::{Date, MonthYear, PartOfMonth};
pub use decimal::{Decimal, OutOfRange};
pub use draft::{DraftEntry, DraftGroup, MessageDraft};
pub use encode::{Body, FrameWriter};
pub use error::{Garbled, GroupError, GroupFault, Misuse, Reject, RejectReason};
pub use fields::{Field, Fields};
pub use frame::{Frame, Limits};
pub use group::{Members, MessageLayout};
pub use message::Message;
#[cfg(feature = "typed")]
pub use messages::*;
pub use prepared::Prepared;
pub use scan::{CheckSumPolicy, FieldIndex};
pub use tag::Tag;
pub use template::Template;
pub use time::{Precision, Timestamp};
pub use time_of_day::{Offset, TimeOfDay, TzTimeOnly, TzTimestamp};
pub use validate::{Rules, Scratch, Switches};
pub use value::{Tenor, TenorUnit};

/// The field delimiter of tag=value encoding, ASCII 1.
pub const SOH: u8 = 1;
