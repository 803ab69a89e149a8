//! Prepared messages: the constant fields laid out once, the variable values patched in.
//!
//! ```
//! use transfix_codec::{Template, tag, encode::FrameWriter, Precision};
//!
//! let order = Template::new("D", |t| {
//!     t.slot(tag::CL_ORD_ID).fields(b"21=1\x0155=EU\x0154=1\x01").slot(tag::ORDER_QTY);
//! });
//! let mut out = Vec::new();
//! let mut frame = FrameWriter::new(&mut out, b"FIX.4.2", order.msg_type());
//! order.fill(frame.body(Precision::Millis)).str("17").uint(100).done();
//! frame.finish()?;
//! let text = String::from_utf8(out).unwrap();
//! assert!(text.contains("\x0135=D\x0111=17\x0121=1\x0155=EU\x0154=1\x0138=100\x0110="));
//! # Ok::<(), transfix_codec::Misuse>(())
//! ```

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::encode::{Body, Head, piece::Piece};
use crate::raw::check_constant;
use crate::{Decimal, Misuse, MsgType, Tag, Timestamp, tag};

/// The body of a message with places left for values.
#[derive(Clone, Debug)]
pub struct Template {
    msg_type: Vec<u8>,
    slots: Vec<Slot>,
    rest: Piece,
    /// The first mistake of the layout: no message comes of it.
    misuse: Option<Misuse>,
}

#[derive(Clone, Debug)]
struct Slot {
    tag: Tag,
    /// Constant bytes that stand before the slot's value, `tag=` included.
    before: Piece,
}

impl Template {
    /// Lays out a message of type `msg_type`: constant fields and slots, in wire order. A mistake
    /// is what each message filled from the template fails with.
    #[must_use]
    pub fn new(msg_type: impl AsRef<[u8]>, layout: impl FnOnce(&mut TemplateLayout)) -> Self {
        let mut laid_out = TemplateLayout::default();
        layout(&mut laid_out);
        let TemplateLayout { slots, open, misuse } = laid_out;
        let msg_type = msg_type.as_ref().to_vec();
        Self { msg_type, slots, rest: Piece::new(&open), misuse }
    }

    /// MsgType(35) of the message.
    #[must_use]
    pub fn msg_type(&self) -> MsgType<'_> {
        MsgType::of(&self.msg_type)
    }

    /// Writes the template into `body`; the values follow in the order of the slots.
    #[inline(always)]
    #[must_use = "end with done(), or the message is incomplete"]
    pub fn fill<'t, 'b, 'o>(&'t self, body: &'b mut Body<'o>) -> Fill<'t, 'b, 'o> {
        if let Some(misuse) = self.misuse {
            body.blame(misuse);
        }
        Fill { slots: self.slots.iter(), rest: &self.rest, body }
    }
}

/// The layout of a [`Template`] in the making: constant fields and slots, in wire order.
#[derive(Debug, Default)]
pub struct TemplateLayout {
    slots: Vec<Slot>,
    /// Constant bytes after the last slot.
    open: Vec<u8>,
    misuse: Option<Misuse>,
}

impl TemplateLayout {
    /// Appends constant fields, each ended by its delimiter; a data field in one call with its
    /// Length field.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        let misuse = check_constant(encoded, tag::is_session_owned);
        self.misuse = self.misuse.or(misuse);
        self.open.extend_from_slice(encoded);
        self
    }

    /// Appends a field whose value is given at each [`Template::fill`].
    pub fn slot(&mut self, tag: Tag) -> &mut Self {
        self.open.extend_from_slice(tag.to_string().as_bytes());
        self.open.push(b'=');
        self.slots.push(Slot { tag, before: Piece::new(&self.open) });
        self.open.clear();
        self
    }
}

/// A template being filled.
pub struct Fill<'t, 'b, 'o> {
    slots: core::slice::Iter<'t, Slot>,
    rest: &'t Piece,
    body: &'b mut Body<'o>,
}

impl Fill<'_, '_, '_> {
    #[inline(always)]
    fn next(&mut self, write: impl FnOnce(&mut Body<'_>, Tag)) -> &mut Self {
        match self.slots.next() {
            Some(Slot { tag, before }) => {
                self.body.check(*tag);
                self.body.put_piece(before);
                write(self.body, *tag);
            }
            None => self.body.blame(Misuse::SlotCount),
        }
        self
    }

    /// A String value.
    #[inline(always)]
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// Any value in its wire form.
    #[inline(always)]
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.next(|body, tag| body.put_bytes(Head::NONE, tag, value))
    }

    /// A SeqNum, Length or quantity without fraction.
    #[inline(always)]
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.next(|body, _| body.put_uint(Head::NONE, value, 1))
    }

    /// The same with leading zeros up to `digits_min` digits, at most 8: as long in each message.
    #[inline(always)]
    pub fn padded(&mut self, value: u64, digits_min: usize) -> &mut Self {
        self.next(|body, _| body.put_uint(Head::NONE, value, digits_min))
    }

    /// A float, Qty, Price, Amt or Percentage value.
    #[inline(always)]
    pub fn decimal(&mut self, value: Decimal) -> &mut Self {
        self.next(|body, _| body.put_decimal(Head::NONE, value))
    }

    /// A UTCTimestamp value, with the precision of the session.
    #[inline(always)]
    pub fn timestamp(&mut self, value: Timestamp) -> &mut Self {
        self.next(|body, _| body.put_timestamp(Head::NONE, value, body.precision))
    }

    /// Writes what follows the last slot.
    #[inline(always)]
    pub fn done(&mut self) {
        if !self.slots.as_slice().is_empty() {
            self.body.blame(Misuse::SlotCount);
        }
        self.body.put_piece(self.rest);
    }
}
