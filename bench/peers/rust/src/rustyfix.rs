//! rustyfix: decodes with the version's dictionary into a message with random access.

use std::hint::black_box;

use chrono::{DateTime, NaiveDateTime};
use rust_decimal::Decimal;
use rustyfix::prelude::*;
use rustyfix::tagvalue::{Decoder, Encoder};

use crate::hftest::Values;
use crate::order::{CHARS, TEXTS};
use crate::{Codec, Order, Outcome};

pub(crate) struct Rustyfix {
    decoder: Decoder,
    decoder42: Decoder,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl Rustyfix {
    pub(crate) fn new() -> Outcome<Self> {
        let [decoder, decoder42] = [Dictionary::fix44(), Dictionary::fix42()]
            .map(|read| read.map(Decoder::new).map_err(|error| format!("{error:?}")));
        let (encoder, buffer) = (Encoder::default(), Vec::new());
        Ok(Self { decoder: decoder?, decoder42: decoder42?, encoder, buffer })
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

    fn decode_hftest(&mut self, frame: &[u8]) -> bool {
        self.decoder42.decode(frame).is_ok()
    }

    fn build_hftest(&mut self, values: &Values, at_ms: i64) -> &[u8] {
        let Some(now) = DateTime::from_timestamp_millis(at_ms) else { return &[] };
        let now = now.naive_utc();
        self.buffer.clear();
        let msg_type = if values.report.is_some() { b"8" } else { b"D" };
        let mut m = self.encoder.start_message(b"FIX.4.2", &mut self.buffer, msg_type);
        m.set(49, values.sender.as_str());
        m.set(56, values.target.as_str());
        m.set(34, values.seq);
        m.set(52, now);
        if let Some(report) = &values.report {
            m.set(37, report.order_id.as_str());
            m.set(17, report.exec_id.as_str());
            m.set(20, b"0");
            m.set(150, b"0");
            m.set(39, &[report.status as u8]);
            if let Some(capacity) = report.capacity {
                m.set(29, &[capacity as u8]);
                m.set(113, true);
            }
            m.set(151, report.left);
            m.set(14, report.traded);
            m.set(6, report.average);
        } else {
            m.set(40, b"2");
        }
        m.set(11, values.cl_ord_id.as_str());
        m.set(21, b"1");
        m.set(55, values.symbol.as_str());
        m.set(54, &[values.side as u8]);
        m.set(60, now);
        m.set(38, values.quantity);
        m.set(44, values.price);
        m.set(59, &[values.time_in_force as u8]);
        m.done().0
    }
}
