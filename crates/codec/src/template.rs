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

use alloc::vec::Vec;

use crate::encode::Body;
use crate::{Decimal, Misuse, SOH, Tag, Timestamp};

/// The body of a message with places left for values.
#[derive(Clone, Debug)]
pub struct Template {
    msg_type: Vec<u8>,
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: Tag,
    /// Constant bytes that stand before the slot's field: up to here in `bytes`.
    until: usize,
}

impl Template {
    /// Lays out a message of type `msg_type`: constant fields and slots, in wire order.
    #[must_use]
    pub fn new(msg_type: &str, layout: impl FnOnce(&mut Self)) -> Self {
        let msg_type = msg_type.as_bytes().to_vec();
        let mut template = Self { msg_type, bytes: Vec::new(), slots: Vec::new() };
        layout(&mut template);
        template
    }

    /// Appends constant fields, each ended by its delimiter.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(encoded);
        self
    }

    /// Appends a field whose value is given at each [`Template::fill`].
    pub fn slot(&mut self, tag: Tag) -> &mut Self {
        self.slots.push(Slot { tag, until: self.bytes.len() });
        self
    }

    /// MsgType(35) of the message.
    #[must_use]
    pub fn msg_type(&self) -> &[u8] {
        &self.msg_type
    }

    /// Writes the template into `body`; the values follow in the order of the slots.
    #[must_use = "end with done(), or the message is incomplete"]
    pub const fn fill<'t, 'b, 'o>(&'t self, body: &'b mut Body<'o>) -> Fill<'t, 'b, 'o> {
        Fill { template: self, body, slot: 0, written: 0 }
    }
}

/// A template being filled.
pub struct Fill<'t, 'b, 'o> {
    template: &'t Template,
    body: &'b mut Body<'o>,
    slot: usize,
    written: usize,
}

impl Fill<'_, '_, '_> {
    fn next(&mut self, write: impl FnOnce(&mut Body<'_>, Tag)) -> &mut Self {
        let Some(&Slot { tag, until }) = self.template.slots.get(self.slot) else {
            self.body.blame(Misuse::SlotCount);
            return self;
        };
        self.body.fields(&self.template.bytes[self.written..until]);
        self.written = until;
        self.slot += 1;
        write(self.body, tag);
        self
    }

    /// A String value.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.next(|body, tag| _ = body.str(tag, value))
    }

    /// Any value in its wire form.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.next(|body, tag| _ = body.bytes(tag, value))
    }

    /// A SeqNum, Length or quantity without fraction.
    pub fn uint(&mut self, value: u64) -> &mut Self {
        self.next(|body, tag| _ = body.uint(tag, value))
    }

    /// A float, Qty, Price, Amt or Percentage value.
    pub fn decimal(&mut self, value: Decimal) -> &mut Self {
        self.next(|body, tag| _ = body.decimal(tag, value))
    }

    /// A UTCTimestamp value, with the precision of the session.
    pub fn timestamp(&mut self, value: Timestamp) -> &mut Self {
        self.next(|body, tag| _ = body.timestamp(tag, value))
    }

    /// Writes what follows the last slot.
    pub fn done(&mut self) {
        if self.slot != self.template.slots.len() {
            self.body.blame(Misuse::SlotCount);
        }
        let rest = &self.template.bytes[self.written..];
        debug_assert!(rest.is_empty() || rest.ends_with(&[SOH]));
        self.body.fields(rest);
    }
}
