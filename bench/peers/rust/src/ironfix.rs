//! ironfix-tagvalue: decodes into a reusable index, without a dictionary.

use std::fmt::Write;
use std::hint::black_box;

use ironfix_core::Timestamp;
use ironfix_tagvalue::{Decoder, Encoder, FieldIndex};

use crate::hftest::Values;
use crate::order::{CHARS, TEXTS};
use crate::{Codec, Order};

pub(crate) struct Ironfix {
    index: FieldIndex,
    encoder: Encoder,
    encoder42: Encoder,
    /// The library has no decimals, so decimals are printed here.
    text: String,
}

impl Ironfix {
    pub(crate) fn new() -> Self {
        let index = FieldIndex::with_capacity(64);
        let [encoder, encoder42] = ["FIX.4.4", "FIX.4.2"].map(Encoder::new);
        Self { index, encoder, encoder42, text: String::new() }
    }
}

/// Writes a decimal, printed into `text`.
fn put_decimal(encoder: &mut Encoder, text: &mut String, tag: u32, value: rust_decimal::Decimal) {
    text.clear();
    if write!(text, "{value}").is_ok() {
        encoder.put_str(tag, text);
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
        // The library reads times only as text.
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
                put_decimal(encoder, text, tag, value);
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

    fn decode_hftest(&mut self, frame: &[u8]) -> bool {
        self.decode(frame)
    }

    fn build_hftest(&mut self, values: &Values, at_ms: i64) -> &[u8] {
        let Ok(now) = Timestamp::from_millis(at_ms as u64) else { return &[] };
        let Self { encoder42: encoder, text, .. } = self;
        encoder.clear();
        encoder.put_str(35, if values.report.is_some() { "8" } else { "D" });
        encoder.put_str(49, &values.sender);
        encoder.put_str(56, &values.target);
        encoder.put_uint(34, values.seq);
        encoder.put_str(52, &now.format_millis());
        if let Some(report) = &values.report {
            encoder.put_str(37, &report.order_id);
            encoder.put_str(17, &report.exec_id);
            encoder.put_char(20, '0');
            encoder.put_char(150, '0');
            encoder.put_char(39, report.status);
            if let Some(capacity) = report.capacity {
                encoder.put_char(29, capacity);
                encoder.put_bool(113, true);
            }
            encoder.put_uint(151, report.left);
            encoder.put_uint(14, report.traded);
            put_decimal(encoder, text, 6, report.average);
        } else {
            encoder.put_char(40, '2');
        }
        encoder.put_str(11, &values.cl_ord_id);
        encoder.put_char(21, '1');
        encoder.put_str(55, &values.symbol);
        encoder.put_char(54, values.side);
        encoder.put_str(60, &now.format_millis());
        encoder.put_uint(38, values.quantity);
        put_decimal(encoder, text, 44, values.price);
        encoder.put_char(59, values.time_in_force);
        encoder.finish().unwrap_or_default()
    }
}
