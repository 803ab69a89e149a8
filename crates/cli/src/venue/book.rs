//! The order book of a session: matches orders by price, then by time, and is deterministic.
//!
//! Invariants: the same orders in the same sequence give the same reports except for identifiers,
//! so that a restarted venue can rebuild its book from the journal. Identifiers are never used
//! twice, even across starts and sessions. No value in an order causes a panic.

use std::collections::HashMap;

use transfix::{BusinessReject, Decimal, Message, Timestamp, tag};

/// Generator for OrderID(37) and ExecID(17). An identifier consists of the start time, the session,
/// and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    prefix: String,
    used: u64,
}

impl Ids {
    /// Creates the generator of a session; `session` is the index of the session in this run.
    pub(crate) fn new(start: Timestamp, session: usize) -> Self {
        // The start time is written in microseconds since 1970, with ten base-36 digits.
        let (mut rest, mut letters) = (start.0.unsigned_abs() / 1_000, Vec::new());
        while rest > 0 {
            letters.extend(char::from_digit((rest % 36) as u32, 36));
            rest /= 36;
        }
        let start: String = letters.iter().rev().map(char::to_ascii_uppercase).collect();
        Self { prefix: format!("{start}-{session}-"), used: 0 }
    }

    /// Returns the next identifier.
    pub(crate) fn next(&mut self) -> String {
        self.used += 1;
        format!("{}{}", self.prefix, self.used)
    }
}

/// A change of an order, which a report communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The order is accepted; it then trades or rests in the book.
    New,
    /// A quantity of the order traded at a price.
    Trade {
        /// Traded units.
        quantity: i64,
        /// Price of the resting order, at which both orders trade.
        price: Decimal,
    },
    /// The order is removed from the book at its owner's request.
    Canceled,
    /// The order is rejected, with the reason.
    Rejected(&'static str),
}

/// A reply of the book: an ExecutionReport(8) or an OrderCancelReject(9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The order after the event, the event itself, and ExecID(17).
    Report(Order, Event, String),
    /// ClOrdID(11) of the cancel request, OrigClOrdID(41), and the reason.
    CancelReject(String, String, &'static str),
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) cl_ord_id: String,
    /// ClOrdID(11) before an accepted cancel request; `None` without such a request.
    pub(crate) orig_cl_ord_id: Option<String>,
    pub(crate) order_id: String,
    pub(crate) symbol: String,
    pub(crate) side: u8,
    pub(crate) price: Decimal,
    pub(crate) quantity: i64,
    pub(crate) leaves: i64,
    pub(crate) traded: i64,
    /// Sum of price × quantity over all trades, with the price in millionths; below 2^63 × 2^63.
    notional: i128,
}

impl Order {
    /// Creates an order from a NewOrderSingle(D), with this OrderID(37).
    pub(crate) fn reported(
        message: &Message<'_>,
        order_id: String,
    ) -> Result<Self, BusinessReject> {
        let limit = message.char(tag::ORD_TYPE)? == b'2';
        let price = if limit { message.decimal(tag::PRICE)? } else { Decimal::new(0, 0) };
        let quantity = whole(message.decimal(tag::ORDER_QTY)?).unwrap_or(0);
        Ok(Self {
            cl_ord_id: message.text(tag::CL_ORD_ID)?.to_owned(),
            orig_cl_ord_id: None,
            order_id,
            symbol: message.text(tag::SYMBOL)?.to_owned(),
            side: message.char(tag::SIDE)?,
            price,
            quantity,
            leaves: quantity,
            traded: 0,
            notional: 0,
        })
    }

    /// Returns AvgPx(6), the average price of all trades, with at most six decimals.
    pub(crate) fn avg_px(&self) -> Decimal {
        let Some(millionths) = self.notional.checked_div(i128::from(self.traded)) else {
            return Decimal::new(0, 0);
        };
        let (mut mantissa, mut scale) = (i64::try_from(millionths).unwrap_or(i64::MAX), 6);
        while scale > 0 && mantissa % 10 == 0 {
            (mantissa, scale) = (mantissa / 10, scale - 1);
        }
        Decimal::new(mantissa, scale)
    }
}

/// Resting orders of one session, oldest first.
#[derive(Debug)]
pub(crate) struct Book {
    resting: Vec<Order>,
    /// OrderID(37) of all orders of the session, by ClOrdID(11).
    order_ids: HashMap<String, String>,
    orders: u64,
    ids: Ids,
}

impl Book {
    /// Creates an empty book.
    pub(crate) fn new(ids: Ids) -> Self {
        Self { resting: Vec::new(), order_ids: HashMap::new(), orders: 0, ids }
    }

    /// Creates an empty book whose identifiers continue after those of this book.
    pub(crate) fn successor(&self) -> Self {
        Self::new(self.ids.clone())
    }

    /// Returns the OrderID(37) of all orders, by ClOrdID(11).
    pub(crate) const fn order_ids(&self) -> &HashMap<String, String> {
        &self.order_ids
    }

    /// Replaces the OrderID(37)s of orders by those that were reported before a restart, by
    /// ClOrdID(11).
    pub(crate) fn rename(&mut self, reported: &HashMap<String, String>) {
        for (cl_ord_id, order_id) in &mut self.order_ids {
            if let Some(reported) = reported.get(cl_ord_id) {
                order_id.clone_from(reported);
            }
        }
        for order in &mut self.resting {
            order.order_id.clone_from(&self.order_ids[&order.cl_ord_id]);
        }
    }

    /// Returns the number of orders accepted or rejected so far.
    pub(crate) const fn orders(&self) -> u64 {
        self.orders
    }

    /// Applies a NewOrderSingle(D) or an OrderCancelRequest(F). Returns the reports to send.
    pub(crate) fn take(&mut self, message: &Message<'_>) -> Result<Vec<Answer>, BusinessReject> {
        match message.msg_type().as_bytes() {
            b"D" => self.new_order(message),
            b"F" => self.cancel(message),
            _ => Err(BusinessReject::unsupported()),
        }
    }

    fn new_order(&mut self, message: &Message<'_>) -> Result<Vec<Answer>, BusinessReject> {
        let limit = message.char(tag::ORD_TYPE)? == b'2';
        let mut order = Order::reported(message, self.ids.next())?;
        order.leaves = 0;
        self.orders += 1;
        let is_new = !self.order_ids.contains_key(&order.cl_ord_id);
        if is_new {
            self.order_ids.insert(order.cl_ord_id.clone(), order.order_id.clone());
        }
        let wrong = match () {
            () if !is_new => Some("duplicate ClOrdID(11)"),
            () if order.quantity <= 0 => {
                Some("OrderQty(38) must be whole, above 0 and below 9 * 10^18")
            }
            () if !limit => Some("only limit orders are accepted: OrdType(40) must be 2"),
            () if order.price.mantissa() <= 0 => Some("Price(44) must be above 0"),
            () if !is_in_ticks(order.price) => {
                Some("Price(44) must have at most 6 digits after the point and be below 9 * 10^12")
            }
            () if !b"12".contains(&order.side) => Some("Side(54) must be 1 or 2"),
            () => None,
        };
        if let Some(why) = wrong {
            return Ok(vec![self.report(&order, Event::Rejected(why))]);
        }
        order.leaves = order.quantity;
        let mut answers = vec![self.report(&order, Event::New)];
        self.trade(&mut order, &mut answers);
        if order.leaves > 0 {
            self.resting.push(order);
        }
        Ok(answers)
    }

    /// Matches `order` against the resting orders: best price first, and at the same price the
    /// oldest order first.
    fn trade(&mut self, order: &mut Order, answers: &mut Vec<Answer>) {
        while order.leaves > 0 {
            let fits = |other: &&(usize, &Order)| {
                let (_, other) = other;
                let crosses = match order.side {
                    b'1' => ticks(other.price) <= ticks(order.price),
                    _ => ticks(other.price) >= ticks(order.price),
                };
                other.side != order.side && other.symbol == order.symbol && crosses
            };
            let candidates: Vec<_> = self.resting.iter().enumerate().collect();
            let best = candidates.iter().filter(fits).min_by_key(|(i, other)| {
                let price = ticks(other.price);
                (if order.side == b'1' { price } else { -price }, *i)
            });
            let Some(&(i, _)) = best else { return };
            let price = self.resting[i].price;
            let quantity = order.leaves.min(self.resting[i].leaves);
            let event = Event::Trade { quantity, price };
            for side in [&mut self.resting[i], order] {
                side.leaves -= quantity;
                side.traded += quantity;
                side.notional += ticks(price) * i128::from(quantity);
            }
            let other = self.resting[i].clone();
            answers.push(self.report(&other, event));
            answers.push(self.report(order, event));
            if other.leaves == 0 {
                self.resting.remove(i);
            }
        }
    }

    fn cancel(&mut self, message: &Message<'_>) -> Result<Vec<Answer>, BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        let orig = message.text(tag::ORIG_CL_ORD_ID)?.to_owned();
        let found = self.resting.iter().position(|order| order.cl_ord_id == orig);
        let Some(i) = found else {
            return Ok(vec![Answer::CancelReject(id, orig, "the book has no such order")]);
        };
        let mut order = self.resting.remove(i);
        order.leaves = 0;
        order.orig_cl_ord_id = Some(orig);
        order.cl_ord_id = id;
        Ok(vec![self.report(&order, Event::Canceled)])
    }

    fn report(&mut self, order: &Order, event: Event) -> Answer {
        Answer::Report(order.clone(), event, self.ids.next())
    }
}

/// Converts a price to millionths, so that prices with different scales can be compared.
fn ticks(price: Decimal) -> i128 {
    let (mantissa, scale) = (price.mantissa(), u32::from(price.scale()));
    if scale <= 6 { mantissa * 10_i128.pow(6 - scale) } else { mantissa / 10_i128.pow(scale - 6) }
}

/// Returns true if the price is a positive whole number of millionths that fits into 63 bits.
/// Quantities have 63 bits too, so the sum of all trades fits into 127 bits, and AvgPx(6) is exact.
fn is_in_ticks(price: Decimal) -> bool {
    let beyond = 10_i128.pow(u32::from(price.scale().saturating_sub(6)));
    price.mantissa() % beyond == 0 && (1..=i128::from(i64::MAX)).contains(&ticks(price))
}

fn whole(quantity: Decimal) -> Option<i64> {
    let unit = 10_i128.pow(u32::from(quantity.scale()));
    let (units, rest) = (quantity.mantissa() / unit, quantity.mantissa() % unit);
    if rest == 0 { i64::try_from(units).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venue::execution_report;
    use std::collections::HashSet;
    use transfix::{BeginString, Precision};
    use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter};

    fn take_raw(
        book: &mut Book,
        msg_type: &str,
        fields: &str,
    ) -> Result<Vec<Answer>, BusinessReject> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(fields.replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        let mut index = FieldIndex::default();
        let message = Message::parse(&out, &mut index, CheckSumPolicy::Verify).unwrap();
        book.take(&message)
    }

    fn take(book: &mut Book, msg_type: &str, fields: &str) -> Vec<String> {
        let shown = |answer: Answer| match answer {
            Answer::Report(o, event, _) => {
                let (id, left, avg) = (o.cl_ord_id.clone(), o.leaves, o.avg_px());
                format!("{id} {event:?} leaves {left} avg {avg}")
            }
            Answer::CancelReject(id, orig, why) => format!("{id} {orig}: {why}"),
        };
        take_raw(book, msg_type, fields).unwrap().into_iter().map(shown).collect()
    }

    fn order(book: &mut Book, id: &str, side: u8, quantity: &str, price: &str) -> Vec<String> {
        let fields = format!("11={id}|55=EU|54={side}|38={quantity}|40=2|44={price}|");
        take(book, "D", &fields)
    }

    #[test]
    fn price_before_time() {
        let mut book = Book::new(Ids::new(Timestamp(0), 0));
        order(&mut book, "a", 2, "10", "30.5");
        order(&mut book, "b", 2, "10", "30");
        order(&mut book, "c", 2, "10", "30.00");
        let got = order(&mut book, "d", 1, "25", "30.5");
        let trade = |q: i64, p: &str| {
            let price = Decimal::parse(p.as_bytes()).unwrap();
            format!("{:?}", Event::Trade { quantity: q, price })
        };
        assert_eq!(
            got,
            [
                "d New leaves 25 avg 0".to_owned(),
                format!("b {} leaves 0 avg 30", trade(10, "30")),
                format!("d {} leaves 15 avg 30", trade(10, "30")),
                format!("c {} leaves 0 avg 30", trade(10, "30.00")),
                format!("d {} leaves 5 avg 30", trade(10, "30.00")),
                format!("a {} leaves 5 avg 30.5", trade(5, "30.5")),
                format!("d {} leaves 0 avg 30.1", trade(5, "30.5")),
            ]
        );
    }

    #[test]
    fn cancels_and_refusals() {
        let mut book = Book::new(Ids::new(Timestamp(0), 0));
        order(&mut book, "a", 2, "10", "30");
        assert_eq!(take(&mut book, "F", "11=x|41=a|"), ["x Canceled leaves 0 avg 0"]);
        assert_eq!(take(&mut book, "F", "11=y|41=a|"), ["y a: the book has no such order"]);
        for (id, quantity, price, why) in [
            ("a", "1", "1", "duplicate ClOrdID(11)"),
            ("b", "0", "1", "OrderQty(38) must be whole, above 0"),
            ("c", "1.5", "1", "OrderQty(38) must be whole, above 0"),
            ("e", "18446744073709551615", "1", "OrderQty(38) must be whole, above 0"),
            ("d", "1", "-1", "Price(44) must be above 0"),
        ] {
            let got = order(&mut book, id, 1, quantity, price);
            assert!(got[0].contains(why), "{got:?}");
        }
        assert_eq!(book.orders(), 6);
    }
    #[test]
    fn no_id_is_given_out_twice() {
        let mut all = HashSet::new();
        let starts = [0, 1_764_000_000_000_000_000, 1_764_000_000_000_001_000].map(Timestamp);
        for (start, session) in starts.iter().flat_map(|start| [(start, 0), (start, 1)]) {
            let mut ids = Ids::new(*start, session);
            for _ in 0..20 {
                let id = ids.next();
                assert!(all.insert(id.clone()), "{id}");
            }
        }
    }

    /// Extreme values of a field, and texts that are not numbers.
    const EXTREMES: [&str; 29] = [
        "0",
        "-0",
        "1",
        "-1",
        "0.5",
        "00007",
        "0.000001",
        "0.0000001",
        "30.1234567",
        "0.000000000000000001",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
        "-18446744073709551615",
        "922337203685477580.7",
        "9.223372036854775807",
        "9223372036854.775807",
        "9223372036854.775808",
        "9223372036855",
        "4611686018427387904",
        "99999999999999999999999999999999",
        "0.00000000000000000000000001",
        "1e5",
        "+1",
        "NaN",
        "",
        ".",
        "1.0",
    ];

    #[test]
    fn no_value_makes_it_panic_or_report_nonsense() {
        let mut book = Book::new(Ids::new(Timestamp(0), 0));
        let (mut n, mut reports, mut trades) = (0, 0, 0);
        for price in EXTREMES {
            for quantity in EXTREMES {
                for (side, ord_type) in [("1", "2"), ("2", "2"), ("1", "1"), ("\u{7f}", "2")] {
                    n += 1;
                    let fields =
                        format!("11={n}|55=EU|54={side}|38={quantity}|40={ord_type}|44={price}|");
                    for answer in take_raw(&mut book, "D", &fields).unwrap_or_default() {
                        let Answer::Report(order, event, _) = &answer else { continue };
                        reports += 1;
                        trades += u32::from(matches!(event, Event::Trade { .. }));
                        let sum = order.leaves.checked_add(order.traded).unwrap();
                        assert!((0..=order.quantity.max(0)).contains(&sum), "{order:?}");
                        if order.traded > 0 {
                            // All traded prices are within the range in which AvgPx(6) is exact.
                            let average = order.avg_px();
                            assert!(average.mantissa() > 0 && is_in_ticks(average), "{order:?}");
                            let limit = ticks(order.price);
                            let is_within = match order.side {
                                b'1' => ticks(average) <= limit,
                                _ => ticks(average) >= limit,
                            };
                            assert!(is_within, "{average} of {order:?}");
                        }
                        for version in [BeginString::Fix40, BeginString::Fix44] {
                            let mut out = Vec::new();
                            let mut frame =
                                FrameWriter::new(&mut out, version.as_str().as_bytes(), b"8");
                            let (body, report) =
                                (frame.body(Precision::Millis), (order, *event, "1"));
                            execution_report(body, version, Timestamp(0), report);
                        }
                    }
                }
            }
        }
        assert!(reports > 1_000 && trades > 50, "{reports} reports, {trades} trades");
    }
}
