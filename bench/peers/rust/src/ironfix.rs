//! ironfix-tagvalue: decodes into an index that is used again, without a dictionary.

use std::fmt::Write;
use std::hint::black_box;

use ironfix_core::Timestamp;
use ironfix_tagvalue::{Decoder, Encoder, FieldIndex};

use crate::order::{CHARS, TEXTS};
use crate::{Codec, Order};

pub(crate) struct Ironfix {
    index: FieldIndex,
    encoder: Encoder,
    /// It has no decimals: they are printed here.
    text: String,
}

impl Ironfix {
    pub(crate) fn new() -> Self {
        let index = FieldIndex::with_capacity(64);
        Self { index, encoder: Encoder::new("FIX.4.4"), text: String::new() }
    }
}

impl Codec for Ironfix {
    const NAME: &'static str = "ironfix-0.5.1";

    fn decode(&mut self, frame: &[u8]) -> bool {
        Decoder::new(frame).decode_into(&mut self.index).is_ok()
    }

    fn decode_read(&mut self, frame: &[u8]) -> usize {
        let mut decoder = Decoder::new(frame);
        let Ok(message) = decoder.decode_into(&mut self.index) else { return 0 };
        // Of a time it reads the text alone.
        let mut there = usize::from(black_box(message.get_field_str(60)).is_some());
        for decimal in [38, 44] {
            let field = message.get_field(decimal);
            there += usize::from(black_box(field.map(|f| f.as_decimal())).is_some());
        }
        for text in TEXTS {
            there += usize::from(black_box(message.get_field_str(text)).is_some());
        }
        for char in CHARS {
            let field = message.get_field(char);
            there += usize::from(black_box(field.map(|f| f.as_char())).is_some());
        }
        there
    }

    fn build(&mut self, order: &Order, at_ms: i64) -> usize {
        let Ok(now) = Timestamp::from_millis(at_ms as u64) else { return 0 };
        let Self { encoder, text, .. } = self;
        encoder.clear();
        encoder.put_str(35, "D");
        encoder.put_uint(34, order.seq);
        encoder.put_str(49, "A12345B");
        encoder.put_str(50, &order.sender_sub_id);
        encoder.put_str(52, &now.format_millis());
        encoder.put_str(56, "COMPARO");
        encoder.put_str(57, "G");
        encoder.put_str(142, "AU,SY");
        encoder.put_str(60, &now.format_millis());
        encoder.put_str(1, &order.account);
        for (tag, value) in [(38, Some(order.order_qty)), (44, order.price)] {
            if let Some(value) = value {
                text.clear();
                if write!(text, "{value}").is_ok() {
                    encoder.put_str(tag, text);
                }
            }
        }
        encoder.put_str(11, &order.cl_ord_id);
        encoder.put_char(21, '1');
        encoder.put_char(40, order.ord_type);
        encoder.put_char(54, order.side);
        encoder.put_str(55, &order.symbol);
        if let Some(text) = &order.text {
            encoder.put_str(58, text);
        }
        encoder.put_char(59, order.time_in_force);
        encoder.put_str(107, &order.security_desc);
        encoder.put_str(167, &order.security_type);
        encoder.finish().map_or(0, <[u8]>::len)
    }
}
