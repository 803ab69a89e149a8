//! Message templates: constant fields encoded once, with slots for variable values.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::encode::{Body, Head, piece::Piece};
use crate::raw::check_constant;
use crate::{Decimal, Misuse, MsgType, Tag, Timestamp, tag};

/// An encoded message body with slots for variable values.
#[derive(Clone, Debug)]
pub struct Template {
    msg_type: Vec<u8>,
    slots: Vec<Slot>,
    rest: Piece,
    /// The first misuse in the layout; filling the template then fails for each message.
    misuse: Option<Misuse>,
}

#[derive(Clone, Debug)]
struct Slot {
    tag: Tag,
    /// Constant bytes before the slot's value, including `tag=`.
    before: Piece,
}

impl Template {
    /// Creates a template for messages of type `msg_type`; `layout` adds constant fields and slots
    /// in wire order.
    ///
    /// A misuse in the layout is reported for each message that is filled from the template.
    #[must_use]
    pub fn new(msg_type: impl AsRef<[u8]>, layout: impl FnOnce(&mut TemplateLayout)) -> Self {
        let mut laid_out = TemplateLayout::default();
        layout(&mut laid_out);
        let TemplateLayout { slots, open, misuse } = laid_out;
        let msg_type = msg_type.as_ref().to_vec();
        Self { msg_type, slots, rest: Piece::new(&open), misuse }
    }

    /// Returns MsgType(35) of the message.
    #[must_use]
    pub fn msg_type(&self) -> MsgType<'_> {
        MsgType::of(&self.msg_type)
    }

    /// Begins writing the template into `body`; the values follow in the order of the slots.
    #[inline(always)]
    #[must_use = "end with done(); otherwise the message is incomplete"]
    pub fn fill<'t, 'b, 'o>(&'t self, body: &'b mut Body<'o>) -> Fill<'t, 'b, 'o> {
        if let Some(misuse) = self.misuse {
            body.blame(misuse);
        }
        Fill { slots: self.slots.iter(), rest: &self.rest, body }
    }
}

/// Builder for the layout of a [`Template`]: constant fields and slots, in wire order.
#[derive(Debug, Default)]
pub struct TemplateLayout {
    slots: Vec<Slot>,
    /// Constant bytes appended since the last slot.
    open: Vec<u8>,
    misuse: Option<Misuse>,
}

impl TemplateLayout {
    /// Appends whole constant fields, each with its delimiter.
    ///
    /// A data field and its Length field must be passed in the same call.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        let misuse = check_constant(encoded, tag::is_session_owned);
        self.misuse = self.misuse.or(misuse);
        self.open.extend_from_slice(encoded);
        self
    }

    /// Appends a field whose value is given anew for each message, through [`Template::fill`].
    pub fn slot(&mut self, tag: Tag) -> &mut Self {
        self.open.extend_from_slice(tag.to_string().as_bytes());
        self.open.push(b'=');
        self.slots.push(Slot { tag, before: Piece::new(&self.open) });
        self.open.clear();
        self
    }
}

/// A template that is being filled with values, in the order of its slots.
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

    /// Writes a String value.
    #[inline(always)]
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// Writes any encoded value.
    #[inline(always)]
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.next(|body, tag| body.put_bytes(Head::NONE, tag, value))
    }

    /// Writes a SeqNum, Length or quantity without fraction.
    #[inline(always)]
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.next(|body, _| body.put_uint(Head::NONE, value, 1))
    }

    /// Writes an unsigned number with leading zeros up to `digits_min` digits, at most 8.
    ///
    /// With padding, a value has the same length in each message.
    #[inline(always)]
    pub fn padded(&mut self, value: u64, digits_min: usize) -> &mut Self {
        self.next(|body, _| body.put_uint(Head::NONE, value, digits_min))
    }

    /// Writes a float, Qty, Price, Amt or Percentage value.
    #[inline(always)]
    pub fn decimal(&mut self, value: Decimal) -> &mut Self {
        self.next(|body, _| body.put_decimal(Head::NONE, value))
    }

    /// Writes a UTCTimestamp value, with the precision of the session.
    #[inline(always)]
    pub fn timestamp(&mut self, value: Timestamp) -> &mut Self {
        self.next(|body, _| body.put_timestamp(Head::NONE, value, body.precision))
    }

    /// Writes the constant bytes after the last slot; reports a missing value as a misuse.
    #[inline(always)]
    pub fn done(&mut self) {
        if !self.slots.as_slice().is_empty() {
            self.body.blame(Misuse::SlotCount);
        }
        self.body.put_piece(self.rest);
    }
}
