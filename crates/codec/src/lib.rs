//! Codec between bytes and messages: framing, zero-copy views, encoding and validation.
//!
//! Decoding: [`frame::split`] finds one message in a receive buffer. [`Message::parse`] indexes the
//! fields in place and verifies CheckSum(10). The typed getters of [`Message`] parse values on
//! demand. Encoding: [`encode::FrameWriter`] writes header, body and trailer into a buffer of the
//! caller.
//!
//! Invariants: once the caller's buffers have grown, decoding and encoding allocate nothing per
//! message. No input makes a function panic. Values are never copied during decoding.
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
//!
//! Each FIX version has a Cargo feature, such as `fix44`, that adds a type for each message of the
//! version. `transfix_dictionary::generate` generates these types; [`typed`] contains their
//! building blocks:
//!
//! ```
//! # #[cfg(feature = "fix44")] {
//! use transfix_codec::fix44::codes::{OrdType, Side};
//! use transfix_codec::fix44::{NewOrderSingle, new_order_single};
//! use transfix_codec::{Decimal, FieldIndex, FrameWriter, Message, Precision, Timestamp};
//!
//! let mut out = Vec::new();
//! let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", NewOrderSingle::MSG_TYPE);
//! let required = new_order_single::Required {
//!     cl_ord_id: "17",
//!     symbol: "EUR/USD",
//!     side: Side::Buy,
//!     transact_time: Timestamp(0),
//!     ord_type: OrdType::Limit,
//! };
//! let mut order = required.write(frame.body(Precision::Millis));
//! order.price(Decimal::new(10_875, 4)).order_qty_data().order_qty(Decimal::from(100));
//! frame.finish()?;
//!
//! let mut index = FieldIndex::default();
//! let message = Message::parse(&out, &mut index, Default::default())?;
//! let order = NewOrderSingle::try_from(&message)?;
//! assert_eq!(order.side()?, Side::Buy);
//! assert_eq!(order.price()?, Some(Decimal::new(10_875, 4)));
//! assert_eq!(order.instrument().symbol()?, "EUR/USD");
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
pub mod mask;
pub mod message;
// Unit tests omit the typed messages, which halves the build time; the tests in tests/ cover these
// types.
#[cfg(all(feature = "typed", not(test)))]
mod messages;
pub mod msg_type;
pub mod owned;
mod precision;
pub mod prepared;
pub mod raw;
#[allow(unsafe_code, reason = "vectors: see the safety notes there")]
pub mod scan;
pub mod shown;
pub mod tag;
pub mod template;
pub mod time;
pub mod time_of_day;
pub mod typed;
pub mod validate;
pub mod value;

pub use date::{Date, MonthYear, PartOfMonth};
pub use decimal::{Decimal, NotADecimal, OutOfRange};
pub use draft::{DraftEntry, DraftGroup, MessageDraft};
pub use encode::{Body, FrameWriter};
pub use error::{Garbled, GroupError, GroupFault, Misuse, Reject, RejectReason};
pub use fields::{Field, Fields};
pub use frame::{Frame, Limits};
pub use group::{Members, MessageLayout};
pub use mask::{Mask, masked};
pub use message::Message;
#[cfg(all(feature = "typed", not(test)))]
pub use messages::*;
pub use msg_type::MsgType;
pub use owned::OwnedMessage;
pub use precision::Precision;
pub use prepared::{Prepared, PreparedLayout};
pub use scan::{CheckSumPolicy, FieldIndex};
pub use tag::Tag;
pub use template::{Template, TemplateLayout};
pub use time::{Timestamp, TimestampReader};
pub use time_of_day::{Offset, TimeOfDay, TzTimeOnly, TzTimestamp};
pub use validate::{Rules, Scratch, Switches};
pub use value::{Tenor, TenorUnit};

/// The user guide, included here so that its examples run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/messages.md")]
pub struct Guide;

/// The field delimiter of tag=value encoding: ASCII 1.
pub const SOH: u8 = 1;
