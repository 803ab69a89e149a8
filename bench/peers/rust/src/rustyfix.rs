//! rustyfix: decodes with its FIX 4.4 dictionary into a message with random access.

use std::hint::black_box;

use chrono::{DateTime, NaiveDateTime};
use rust_decimal::Decimal;
use rustyfix::prelude::*;
use rustyfix::tagvalue::{Decoder, Encoder};

use crate::order::{CHARS, TEXTS};
use crate::{Codec, Order, Outcome};

pub(crate) struct Rustyfix {
    decoder: Decoder,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl Rustyfix {
    pub(crate) fn new() -> Outcome<Self> {
        let dictionary = Dictionary::fix44().map_err(|error| format!("{error:?}"))?;
        let (encoder, buffer) = (Encoder::default(), Vec::new());
        Ok(Self { decoder: Decoder::new(dictionary), encoder, buffer })
    }
}

impl Codec for Rustyfix {
    const NAME: &'static str = "rustyfix-0.7.4";

    fn decode(&mut self, frame: &[u8]) -> bool {
        self.decoder.decode(frame).is_ok()
    }

    fn decode_read(&mut self, frame: &[u8]) -> usize {
        let Ok(message) = self.decoder.decode(frame) else { return 0 };
        let mut there = usize::from(black_box(message.get::<NaiveDateTime>(60)).is_ok());
        for decimal in [38, 44] {
            there += usize::from(black_box(message.get::<Decimal>(decimal)).is_ok());
        }
        for text in TEXTS {
            there += usize::from(black_box(message.get::<&str>(text)).is_ok());
        }
        for char in CHARS {
            there += usize::from(black_box(message.get::<[u8; 1]>(char)).is_ok());
        }
        there
    }

    fn build(&mut self, order: &Order, at_ms: i64) -> usize {
        let Some(now) = DateTime::from_timestamp_millis(at_ms) else { return 0 };
        let now = now.naive_utc();
        self.buffer.clear();
        let mut m = self.encoder.start_message(b"FIX.4.4", &mut self.buffer, b"D");
        m.set(34, order.seq);
        m.set(49, "A12345B");
        m.set(50, order.sender_sub_id.as_str());
        m.set(52, now);
        m.set(56, "COMPARO");
        m.set(57, "G");
        m.set(142, "AU,SY");
        m.set(60, now);
        m.set(1, order.account.as_str());
        m.set(38, order.order_qty);
        if let Some(price) = order.price {
            m.set(44, price);
        }
        m.set(11, order.cl_ord_id.as_str());
        m.set(21, b"1");
        m.set(40, &[order.ord_type as u8]);
        m.set(54, &[order.side as u8]);
        m.set(55, order.symbol.as_str());
        if let Some(text) = &order.text {
            m.set(58, text.as_str());
        }
        m.set(59, &[order.time_in_force as u8]);
        m.set(107, order.security_desc.as_str());
        m.set(167, order.security_type.as_str());
        m.done().0.len()
    }
}
