//! The orders of the scenario hftest: their values and their encoding.
//!
//! A preloaded order is a value of 24 bytes. The order is encoded when sent, so the measured
//! encoding time is complete.

use std::time::Duration;

use transfix::{Body, Decimal, Tag, Timestamp, tag};

/// SenderCompID(49) of the client.
pub(super) const CLIENT: &str = "DLD_TEX";
/// SenderCompID(49) of the server.
pub(super) const SERVER: &str = "TEX_DLD";
/// The address of the server, as on the published page.
pub(super) const ADDRESS: &str = "127.0.0.1:11002";
/// HeartBtInt(108), as on the published page.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);
/// Largest OrderQty(38) of an order; the smallest is 1.
pub(super) const QUANTITY_MAX: u16 = 10_000;
/// The range of prices in thousandths: 1.000 to 500.000.
const PRICE_MILLIS: (u32, u32) = (1_000, 500_000);
/// Symbol(55) of all orders.
pub(super) const SYMBOL: &[u8] = b"BHP";
/// Number in the ClOrdID(11) of the first order.
pub(super) const FIRST_ID: u32 = 10_001;

/// Pseudorandom numbers, the same for a seed on every machine (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end`. The distribution is uniform to 1 in 2^32.
    pub(super) const fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (((mixed >> 32) * end as u64) >> 32) as u32
    }
}

/// The values of one NewOrderSingle(D).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Creation time, sent as TransactTime(60).
    pub(super) made: Timestamp,
    /// Number of the order, the first number in its ClOrdID(11).
    pub(super) id: u32,
    /// Number of orders in the order's batch, the second number in its ClOrdID(11).
    pub(super) together: u32,
    /// Price(44) in thousandths.
    pub(super) price_millis: u32,
    /// OrderQty(38).
    pub(super) quantity: u16,
}

impl Order {
    /// Writes the fields of the order, in the order of the published page.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        let mut id = Id::new("ord", self.id.into());
        id.push(b"-").number(self.together.into());
        body.bytes(tag::CL_ORD_ID, id.as_bytes())
            .char(tag::HANDL_INST, b'1')
            .bytes(tag::SYMBOL, SYMBOL)
            .char(tag::SIDE, b'1')
            .timestamp(tag::TRANSACT_TIME, self.made)
            .uint(tag::ORDER_QTY, self.quantity.into())
            .char(tag::ORD_TYPE, b'2')
            .decimal(tag::PRICE, price(self.price_millis))
            .char(tag::TIME_IN_FORCE, b'4');
    }
}

/// Converts thousandths into a Price(44).
pub(super) const fn price(millis: u32) -> Decimal {
    Decimal::new(millis as i64, 3)
}

/// Creates orders with unique ClOrdID(11)s.
#[derive(Debug)]
pub(super) struct Maker {
    random: Random,
    next_id: u32,
}

impl Maker {
    pub(super) const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), next_id: FIRST_ID }
    }

    /// Returns the next order of a batch of `together` orders.
    pub(super) const fn next(&mut self, together: u32, now: Timestamp) -> Order {
        let id = self.next_id;
        self.next_id += 1;
        let quantity = 1 + self.random.below(QUANTITY_MAX as u32) as u16;
        let (least, most) = PRICE_MILLIS;
        let price_millis = least + self.random.below(most - least + 1);
        Order { made: now, id, together, price_millis, quantity }
    }
}

/// The text of an identifier, a word followed by numbers, built without allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl Id {
    /// Capacity in bytes: enough for `exec` and a number of 20 digits, or `ord` and two numbers of
    /// 10.
    const ROOM: usize = 24;

    pub(super) fn new(word: &str, number: u64) -> Self {
        let mut id = Self { bytes: [0; Self::ROOM], len: 0 };
        id.push(word.as_bytes()).number(number);
        id
    }

    fn push(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut left = number;
        for digit in self.bytes[self.len..][..digits].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        self.len += digits;
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the number that follows `word` in `id`: 12 for `exec12`.
pub(super) fn number_of(id: &[u8], word: &str) -> Option<u64> {
    std::str::from_utf8(id.strip_prefix(word.as_bytes())?).ok()?.parse().ok()
}

/// LastCapacity(29); no other part of the project needs this constant.
pub(super) const LAST_CAPACITY: Tag = Tag(29);
/// ReportToExch(113); no other part of the project needs this constant.
pub(super) const REPORT_TO_EXCH: Tag = Tag(113);

#[cfg(test)]
mod tests {
    use super::*;
    use transfix::Precision;

    #[test]
    fn an_order_has_the_fields_of_the_page() {
        let made = Timestamp::parse(b"20181227-11:20:14").unwrap();
        let order =
            Order { made, id: 509_647, together: 500_000, price_millis: 298_075, quantity: 57 };
        let mut bytes = Vec::new();
        Body::detached(&mut bytes, Precision::Seconds, |body| order.write(body)).unwrap();
        let text = String::from_utf8(bytes).unwrap().replace('\x01', "|");
        let expected = "11=ord509647-500000|21=1|55=BHP|54=1|60=20181227-11:20:14|38=57|40=2|\
                        44=298.075|59=4|";
        assert_eq!(text, expected);
        assert_eq!(size_of::<Order>(), 24);
    }

    #[test]
    fn orders_of_a_seed_are_always_the_same_and_cover_their_ranges() {
        let orders = |seed| {
            let mut maker = Maker::new(seed);
            (0..100_000).map(|_| maker.next(5, Timestamp(0))).collect::<Vec<_>>()
        };
        let (all, again, others) = (orders(7), orders(7), orders(8));
        assert!(all == again && all != others);
        assert_eq!((all[0].id, all[99_999].id), (10_001, 110_000));
        let quantities: Vec<u16> = all.iter().map(|order| order.quantity).collect();
        assert_eq!(quantities.iter().min().zip(quantities.iter().max()), Some((&1, &10_000)));
        let mean = quantities.iter().map(|n| f64::from(*n)).sum::<f64>() / 100_000.0;
        // The mean of the quantities has a standard deviation of 9.1, so 50 is a safe limit.
        assert!((mean - 5_000.5).abs() < 50.0, "{mean}");
        let prices = all.iter().map(|order| order.price_millis);
        let (least, most) = prices.fold((u32::MAX, 0), |(a, b), p| (a.min(p), b.max(p)));
        assert!((1_000..1_100).contains(&least) && (499_900..=500_000).contains(&most));
    }

    #[test]
    fn numbers_of_identifiers_are_read_back() {
        for number in [0, 7, 10, 509_647, u64::MAX] {
            let id = Id::new("exec", number);
            assert_eq!(number_of(id.as_bytes(), "exec"), Some(number));
            assert_eq!(number_of(id.as_bytes(), "ord"), None);
        }
        assert_eq!(number_of(b"exec", "exec"), None);
    }
}
