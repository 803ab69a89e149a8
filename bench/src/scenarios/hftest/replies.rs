//! The server's replies: decides how many reports answer an order, and writes them.
//!
//! The first report confirms, cancels or rejects the order, each with probability 1/3. A confirmed
//! order is filled by trades of random sizes.

use transfix::{Body, Decimal, Message, Reject, Timestamp, tag};

use super::orders::{Id, LAST_CAPACITY, REPORT_TO_EXCH, Random};

/// The OrdStatus(39) values among which the first report of an order chooses.
const FIRST: [u8; 3] = [NEW, CANCELED, REJECTED];
const NEW: u8 = b'0';
const PARTIALLY_FILLED: u8 = b'1';
const FILLED: u8 = b'2';
const CANCELED: u8 = b'4';
const REJECTED: u8 = b'8';

/// The server's state for its replies: random numbers and the numbers in its identifiers.
#[derive(Debug)]
pub(super) struct Replies {
    random: Random,
    /// Number of received orders, used in OrderID(37).
    orders: u64,
    /// Number of trades so far, used in ExecID(17).
    trades: u64,
    /// LastCapacity(29).
    capacity: u8,
}

/// The fields that a report copies from its order.
#[derive(Clone, Copy, Debug)]
struct Read<'a> {
    id: &'a [u8],
    symbol: &'a [u8],
    side: u8,
    quantity: u64,
    price: Decimal,
    time_in_force: u8,
    made: Timestamp,
    handl_inst: u8,
}

impl<'a> Read<'a> {
    fn of(order: &Message<'a>) -> Result<Self, Reject> {
        Ok(Self {
            id: order.required(tag::CL_ORD_ID)?,
            symbol: order.required(tag::SYMBOL)?,
            side: order.char(tag::SIDE)?,
            quantity: order.uint(tag::ORDER_QTY)?,
            price: order.decimal(tag::PRICE)?,
            time_in_force: order.char(tag::TIME_IN_FORCE)?,
            made: order.timestamp(tag::TRANSACT_TIME)?,
            handl_inst: order.char(tag::HANDL_INST)?,
        })
    }
}

/// The values of one ExecutionReport(8).
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<'a> {
    order: Read<'a>,
    order_id: Id,
    exec_id: Id,
    status: u8,
    /// The unfilled quantity of the order.
    left: u64,
    /// LastCapacity(29), only in the first report of an order.
    capacity: Option<u8>,
}

impl Report<'_> {
    /// Writes the fields of the report in the order of the published page.
    pub(super) fn write(&self, body: &mut Body<'_>) {
        self.write_made(body, self.order.made);
    }

    /// Writes the fields of the report with `made` as TransactTime(60).
    pub(super) fn write_made(&self, body: &mut Body<'_>, made: Timestamp) {
        let Self { order, left, .. } = self;
        body.bytes(tag::ORDER_ID, self.order_id.as_bytes())
            .bytes(tag::CL_ORD_ID, order.id)
            .bytes(tag::EXEC_ID, self.exec_id.as_bytes())
            .char(tag::EXEC_TRANS_TYPE, b'0')
            .char(tag::EXEC_TYPE, b'0')
            .char(tag::ORD_STATUS, self.status)
            .bytes(tag::SYMBOL, order.symbol)
            .char(tag::SIDE, order.side)
            .uint(tag::ORDER_QTY, order.quantity)
            .decimal(tag::PRICE, order.price)
            .char(tag::TIME_IN_FORCE, order.time_in_force);
        let mut average = order.price;
        if let Some(capacity) = self.capacity {
            body.char(LAST_CAPACITY, capacity);
            average = Decimal::new(0, 0);
        }
        body.uint(tag::LEAVES_QTY, *left)
            .uint(tag::CUM_QTY, order.quantity - left)
            .decimal(tag::AVG_PX, average)
            .timestamp(tag::TRANSACT_TIME, made);
        if self.capacity.is_some() {
            body.boolean(REPORT_TO_EXCH, true);
        }
        body.char(tag::HANDL_INST, order.handl_inst);
    }
}

impl Replies {
    /// Creates the state from a seed. If `is_valid`, all fields have values of FIX 4.2. Otherwise
    /// LastCapacity(29) is 5 as on the published page, a value that FIX 4.2 does not define.
    pub(super) const fn new(seed: u64, is_valid: bool) -> Self {
        let capacity = if is_valid { b'4' } else { b'5' };
        Self { random: Random::new(seed), orders: 0, trades: 0, capacity }
    }

    /// Creates the reports for an order and passes each to `send`; stops at the first error of
    /// `send`.
    ///
    /// # Errors
    /// [`Reject`] if a field of the order is missing; the inner result is that of `send`.
    pub(super) fn answer<'a, E>(
        &mut self,
        order: &Message<'a>,
        mut send: impl FnMut(&Report<'a>) -> Result<(), E>,
    ) -> Result<Result<(), E>, Reject> {
        let order = Read::of(order)?;
        self.orders += 1;
        let order_id = Id::new("ord", self.orders);
        let status = FIRST[self.random.below(FIRST.len() as u32) as usize];
        let (mut left, capacity) = (order.quantity, Some(self.capacity));
        let mut report = Report { order, order_id, exec_id: order_id, status, left, capacity };
        if let Err(why) = send(&report) {
            return Ok(Err(why));
        }
        if status != NEW {
            left = 0;
        }
        report.capacity = None;
        while left > 0 {
            let most = u32::try_from(left).unwrap_or(u32::MAX);
            left -= 1 + u64::from(self.random.below(most));
            self.trades += 1;
            report.exec_id = Id::new("exec", self.trades);
            report.status = if left > 0 { PARTIALLY_FILLED } else { FILLED };
            report.left = left;
            if let Err(why) = send(&report) {
                return Ok(Err(why));
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix::Precision;
    use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter};

    use crate::scenarios::hftest::orders::Order;

    /// Returns the reports of 400 consecutive orders, as text.
    fn reports(is_valid: bool) -> Vec<Vec<String>> {
        let made = Timestamp::parse(b"20181227-11:20:14.000").unwrap();
        let order =
            Order { made, id: 509_647, together: 500_000, price_millis: 298_075, quantity: 57 };
        let mut frame = Vec::new();
        let mut writer = FrameWriter::new(&mut frame, b"FIX.4.2", b"D");
        order.write(writer.body(Precision::Millis));
        writer.finish().unwrap();
        let mut index = FieldIndex::default();
        let message = Message::parse(&frame, &mut index, CheckSumPolicy::Verify).unwrap();
        let mut replies = Replies::new(4, is_valid);
        let mut answer = || {
            let mut all = Vec::new();
            let answered = replies.answer(&message, |report| {
                let mut bytes = Vec::new();
                Body::detached(&mut bytes, Precision::Millis, |body| report.write(body))?;
                all.push(String::from_utf8(bytes).unwrap().replace('\x01', "|"));
                Ok::<(), transfix_codec::Misuse>(())
            });
            answered.unwrap().unwrap();
            all
        };
        (0..30).map(|_| answer()).collect()
    }

    #[test]
    fn reports_have_the_fields_of_the_page() {
        let all = reports(false);
        let first = "37=ord1|11=ord509647-500000|17=ord1|20=0|150=0|39=";
        let rest = "|55=BHP|54=1|38=57|44=298.075|59=4|29=5|151=57|14=0|6=0|\
                    60=20181227-11:20:14.000|113=Y|21=1|";
        let status = all[0][0].strip_prefix(first).and_then(|text| text.strip_suffix(rest));
        assert!(matches!(status, Some("0" | "4" | "8")), "{}", all[0][0]);
        let filled = all.iter().find(|reports| reports.len() > 2).unwrap();
        for trade in &filled[1..] {
            assert!(trade.contains("|17=exec") && trade.contains("|6=298.075|"), "{trade}");
            assert!(!trade.contains("|29=") && !trade.contains("|113="), "{trade}");
        }
        let (last, middle) = filled[1..].split_last().unwrap();
        assert!(last.contains("|39=2|") && last.contains("|151=0|14=57|"), "{last}");
        assert!(middle.iter().all(|trade| trade.contains("|39=1|")), "{middle:?}");
    }

    #[test]
    fn each_status_comes_and_only_confirmed_orders_are_filled() {
        let all = reports(true);
        for status in ["0", "4", "8"] {
            assert!(all.iter().any(|reports| reports[0].contains(&format!("|39={status}|"))));
        }
        for reports in &all {
            let is_confirmed = reports[0].contains("|39=0|");
            assert_eq!(reports.len() > 1, is_confirmed, "{reports:?}");
            assert!(reports[0].contains("|29=4|"), "{}", reports[0]);
        }
    }
}
