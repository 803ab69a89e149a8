//! The messages that scenarios S2a and S4b encode, decode and validate.
//!
//! Scenario S2a uses the NewOrderSingle(D) of the published page and [`VARIED`] other orders of
//! similar size, so that a branch predictor cannot learn one message. Invariant: the messages are
//! the same in every run and on every machine.

use transfix::{Body, Decimal, Precision, Tag, Timestamp, tag};
use transfix_codec::FrameWriter;

/// Number of orders in the varied set.
pub const VARIED: usize = 64;

/// The message of scenario S4b. It has MsgSeqNum(34) with a leading zero, PossResend(97) `Y`
/// without PossDupFlag(43), and tag 47, which FIX 4.4 does not define for this message.
pub const S4B: &[u8] = b"8=FIX.4.2\x019=153\x0135=D\x0149=BLP\x0156=SCHB\x0134=01\x0150=30737\x01\
    97=Y\x0152=20000809-20:20:50\x0111=90001008\x011=10030003\x0121=2\x0155=TESTA\x0154=1\x01\
    38=4000\x0140=2\x0159=0\x0144=30\x0147=I\x0160=20000809-18:20:32\x0110=061\x01";

const SECURITY_DESC: Tag = Tag(107);
const SECURITY_TYPE: Tag = Tag(167);

/// The earliest time in the messages: 2026-11-21 12:00:00.123 UTC.
pub const EPOCH: Timestamp = Timestamp(1_795_262_400_123_000_000);

/// Returns a Heartbeat(0) of 80 bytes.
///
/// # Panics
/// Never: the values are ours and well formed.
#[must_use]
pub fn heartbeat() -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"0");
    frame.raw(b"34=1078\x0149=A12345B\x0152=20261121-12:00:00.123\x0156=COMPARO\x01");
    frame.finish().expect("a workload of ours cannot be wrong");
    out
}

/// Number of entries of the [`snapshot`].
pub const ENTRIES: usize = 20;

/// Returns a MarketDataSnapshotFullRefresh(W) of [`ENTRIES`] entries with six fields each.
///
/// # Panics
/// Never: the values are ours and well formed.
#[must_use]
pub fn snapshot() -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"W");
    frame.raw(b"34=1078\x0149=A12345B\x0152=20261121-12:00:00.123\x0156=COMPARO\x01");
    frame.raw(b"262=R1\x0155=EUR/USD\x01268=20\x01");
    for i in 0..ENTRIES {
        let (side, level) = (i % 2, i / 2);
        let entry = format!(
            "269={side}\x01270=1.0{}\x0115=EUR\x01271={}000000\x01273=12:00:00.1{level:02}\x01\
             290={}\x01",
            850 - 3 * level + side,
            1 + i % 7,
            level + 1
        );
        frame.raw(entry.as_bytes());
    }
    frame.finish().expect("a workload of ours cannot be wrong");
    out
}

/// The fields of the order, and the header fields that differ between the messages.
#[derive(Clone, Debug)]
pub struct Order {
    /// MsgSeqNum(34).
    pub msg_seq_num: u64,
    /// SenderSubID(50), the name of the trader.
    pub sender_sub_id: String,
    /// Account(1).
    pub account: String,
    /// ClOrdID(11).
    pub cl_ord_id: String,
    /// OrderQty(38).
    pub order_qty: Decimal,
    /// Price(44); `None` for a market order.
    pub price: Option<Decimal>,
    /// Side(54).
    pub side: u8,
    /// Symbol(55).
    pub symbol: String,
    /// Text(58).
    pub text: Option<String>,
    /// TimeInForce(59).
    pub time_in_force: u8,
    /// SecurityDesc(107).
    pub security_desc: String,
    /// SecurityType(167).
    pub security_type: &'static str,
    /// Value of SendingTime(52) and TransactTime(60) in the encoded message.
    pub at: Timestamp,
    /// True if the sender sorts the body fields by tag, as some engines do; false for the field
    /// order of the published page.
    by_tag: bool,
}

impl Order {
    /// Returns the order of the published page: 222 bytes, 24 fields.
    #[must_use]
    pub fn of_page() -> Self {
        Self {
            msg_seq_num: 78,
            sender_sub_id: "2DEFGH4".to_owned(),
            account: "01234567".to_owned(),
            cl_ord_id: "4".to_owned(),
            order_qty: Decimal::new(50, 0),
            price: Some(Decimal::new(4_005, 1)),
            side: b'1',
            symbol: "OC".to_owned(),
            text: Some("NIGEL".to_owned()),
            time_in_force: b'0',
            security_desc: "AOZ3 C02000".to_owned(),
            security_type: "OPT",
            at: EPOCH,
            by_tag: false,
        }
    }

    /// Returns [`VARIED`] realistic orders. Their ids, instruments, prices and lengths differ, some
    /// have no price or text, and the fields are in one of two orders.
    #[must_use]
    pub fn varied() -> Vec<Self> {
        let mut draw = Draw(0x9E37_79B9_7F4A_7C15);
        (0..VARIED as u64).map(|i| Self::drawn(&mut draw, i)).collect()
    }

    fn drawn(draw: &mut Draw, i: u64) -> Self {
        const SYMBOLS: [&str; 8] = ["OC", "IBM", "MSFT", "EUR/USD", "VOD.L", "7203", "A", "SAP"];
        const TEXTS: [&str; 5] = ["NIGEL", "desk 4", "cross", "VWAP", "x"];
        const TYPES: [&str; 4] = ["OPT", "FUT", "CS", "FOR"];
        let limit = draw.below(5) > 0;
        let scale = draw.below(5) as u8;
        let months = b"FGHJKMNQUVXZ";
        let month = months[draw.below(12) as usize] as char;
        Self {
            msg_seq_num: 10_u64.pow(1 + draw.below(5) as u32) + draw.below(10),
            sender_sub_id: text_of(draw, 1, 8),
            account: format!("{:0width$}", draw.below(9_999), width = 4 + draw.below(5) as usize),
            cl_ord_id: text_of(draw, 1, 12),
            order_qty: Decimal::new(1 + draw.below(10_i64.pow(1 + i as u32 % 6) as u64) as i64, 0),
            // The price has no trailing zero, because an engine that keeps prices as f64 would not
            // write it back.
            price: limit.then(|| {
                let mantissa = 10 * draw.below(999_999) + 1 + draw.below(9);
                Decimal::new(mantissa as i64, scale)
            }),
            side: b'1' + draw.below(2) as u8,
            symbol: SYMBOLS[draw.below(8) as usize].to_owned(),
            text: (draw.below(4) > 0).then(|| TEXTS[draw.below(5) as usize].to_owned()),
            time_in_force: *draw.pick(b"0134"),
            security_desc: format!("AO{month}{} C{:05}", draw.below(10), draw.below(99_999)),
            security_type: TYPES[draw.below(4) as usize],
            at: Timestamp(EPOCH.0 + draw.below(86_400_000_000_000) as i64),
            by_tag: draw.below(2) == 0,
        }
    }

    /// Returns the encoded message, with the fields in the order that the sender uses.
    ///
    /// # Panics
    /// Never: the values are ours and well formed.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
        frame.header_uint(tag::MSG_SEQ_NUM, self.msg_seq_num);
        frame.raw(b"49=A12345B\x01");
        frame.body(Precision::Millis).str(tag::SENDER_SUB_ID, &self.sender_sub_id);
        frame.header_timestamp(tag::SENDING_TIME, self.at, Precision::Millis);
        frame.raw(b"56=COMPARO\x0157=G\x01142=AU,SY\x01");
        let body = frame.body(Precision::Millis);
        if self.by_tag {
            self.write_by_tag(body)
        } else {
            self.write(body, self.at)
        }
        frame.finish().expect("a workload of ours cannot be wrong");
        out
    }

    /// Writes the body, with the fields in the order of the published page.
    #[inline]
    pub fn write(&self, body: &mut Body<'_>, now: Timestamp) {
        body.timestamp(tag::TRANSACT_TIME, now)
            .str(tag::ACCOUNT, &self.account)
            .decimal(tag::ORDER_QTY, self.order_qty);
        if let Some(price) = self.price {
            body.decimal(tag::PRICE, price);
        }
        body.str(tag::CL_ORD_ID, &self.cl_ord_id)
            .char(tag::HANDL_INST, b'1')
            .char(tag::ORD_TYPE, self.ord_type())
            .char(tag::SIDE, self.side)
            .str(tag::SYMBOL, &self.symbol);
        if let Some(text) = &self.text {
            body.str(tag::TEXT, text);
        }
        body.char(tag::TIME_IN_FORCE, self.time_in_force)
            .str(SECURITY_DESC, &self.security_desc)
            .str(SECURITY_TYPE, self.security_type);
    }

    fn write_by_tag(&self, body: &mut Body<'_>) {
        body.str(tag::ACCOUNT, &self.account)
            .str(tag::CL_ORD_ID, &self.cl_ord_id)
            .char(tag::HANDL_INST, b'1')
            .decimal(tag::ORDER_QTY, self.order_qty)
            .char(tag::ORD_TYPE, self.ord_type());
        if let Some(price) = self.price {
            body.decimal(tag::PRICE, price);
        }
        body.char(tag::SIDE, self.side).str(tag::SYMBOL, &self.symbol);
        if let Some(text) = &self.text {
            body.str(tag::TEXT, text);
        }
        body.char(tag::TIME_IN_FORCE, self.time_in_force)
            .timestamp(tag::TRANSACT_TIME, self.at)
            .str(SECURITY_DESC, &self.security_desc)
            .str(SECURITY_TYPE, self.security_type);
    }

    /// Returns the value of OrdType(40): limit if the order has a price, otherwise market.
    const fn ord_type(&self) -> u8 {
        if self.price.is_some() { b'2' } else { b'1' }
    }
}

fn text_of(draw: &mut Draw, min: usize, max: usize) -> String {
    let len = min + draw.below((max - min + 1) as u64) as usize;
    (0..len).map(|_| *draw.pick(b"0123456789ABCDEFGHJKLMNPQRSTUVWXYZ-") as char).collect()
}

/// A pseudorandom number generator (xorshift) with the same sequence in every run.
struct Draw(u64);

impl Draw {
    const fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix::Message;
    use transfix_codec as codec;
    use transfix_codec::{CheckSumPolicy, FieldIndex};

    #[test]
    fn the_order_of_the_page() {
        let frame = Order::of_page().frame();
        let text = String::from_utf8(frame.clone()).expect("ASCII").replace('\u{1}', "|");
        assert_eq!(frame.len(), 222);
        assert_eq!(frame.iter().filter(|&&b| b == 1).count(), 24);
        let expected = "8=FIX.4.4|9=199|35=D|34=78|49=A12345B|50=2DEFGH4|\
            52=20261121-12:00:00.123|56=COMPARO|57=G|142=AU,SY|60=20261121-12:00:00.123|\
            1=01234567|38=50|44=400.5|11=4|21=1|40=2|54=1|55=OC|58=NIGEL|59=0|107=AOZ3 C02000|\
            167=OPT|";
        assert_eq!(text.rsplit_once("10=").map(|(covered, _)| covered), Some(expected));
    }

    #[test]
    fn the_varied_orders_differ_and_are_as_long_on_average() {
        let frames: Vec<_> = Order::varied().iter().map(Order::frame).collect();
        let bytes: usize = frames.iter().map(Vec::len).sum();
        assert!((214..=230).contains(&(bytes / VARIED)), "{} bytes on average", bytes / VARIED);
        let mut distinct = frames.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), VARIED);
        let shortest = frames.iter().map(Vec::len).min().unwrap_or_default();
        let longest = frames.iter().map(Vec::len).max().unwrap_or_default();
        assert!(longest - shortest >= 30, "{shortest} to {longest} bytes");
    }

    #[test]
    fn the_message_of_s4b_is_whole() {
        assert_eq!(S4B.len(), 176);
        let whole = codec::frame::split(S4B, codec::Limits::default());
        assert_eq!(whole, codec::Frame::Whole(176));
        assert!(Message::parse(S4B, &mut FieldIndex::default(), CheckSumPolicy::Verify).is_ok());
    }
}
