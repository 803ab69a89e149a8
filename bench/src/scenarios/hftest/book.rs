//! The client's record of its orders: counts and checks the reports of each order.
//!
//! Invariant: each report is counted either for its order, or as wrong with a reason.

use serde::{Deserialize, Serialize};
use transfix::{Message, tag};

use super::expected::{DEVIATIONS_MAX, Expected};
use super::orders::{FIRST_ID, Order, SYMBOL, number_of, price};

/// An order that was sent, with the progress of its execution.
#[derive(Clone, Copy, Debug)]
struct Sent {
    together: u32,
    price_millis: u32,
    quantity: u16,
    /// The quantity that is not yet filled.
    left: u16,
    stands: Stands,
}

/// The state of an order according to its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// No report has arrived.
    Open,
    /// The order was confirmed, but is not completely filled.
    Confirmed,
    /// All reports of the order have arrived.
    Done,
}

/// Counts of orders and reports in a `Book`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// NewOrderSingle(D)s sent.
    pub(super) orders: u64,
    /// ExecutionReport(8)s received.
    pub(super) reports: u64,
    /// Orders confirmed.
    pub(super) confirmed: u64,
    /// Orders canceled.
    pub(super) canceled: u64,
    /// Orders rejected.
    pub(super) rejected: u64,
    /// Number of reports that are trades.
    pub(super) fills: u64,
    /// Number of orders with missing reports.
    pub(super) open: u64,
    /// Wrong reports.
    pub(super) wrong: u64,
}

/// The orders of one client, with their states.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Sent orders by number; the first number is [`FIRST_ID`].
    sent: Vec<Sent>,
    counts: Counts,
    /// Numbers in the ExecID(17) of the latest order's first report, and of the latest trade.
    last_order: u64,
    last_trade: u64,
    first_wrong: Option<String>,
}

impl Book {
    /// Records an order that was passed to the engine for sending.
    pub(super) fn sent(&mut self, order: &Order) {
        // Numbers between the previous order and this order belong to orders that were created but
        // never sent.
        let Order { together, price_millis, quantity, .. } = *order;
        let stands = Stands::Done;
        let never = Sent { together: 0, price_millis: 0, quantity: 0, left: 0, stands };
        let place = order.id.saturating_sub(FIRST_ID) as usize;
        if self.sent.len() <= place {
            self.sent.resize(place + 1, never);
        }
        let (left, stands) = (quantity, Stands::Open);
        self.sent[place] = Sent { together, price_millis, quantity, left, stands };
        self.counts.orders += 1;
        self.counts.open += 1;
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Checks and counts a report.
    pub(super) fn reported(&mut self, report: &Message<'_>) {
        self.counts.reports += 1;
        if let Err(why) = self.judge(report) {
            self.wrong(&why);
        }
    }

    /// Counts a fault, and keeps the reason of the first fault.
    pub(super) fn wrong(&mut self, why: &str) {
        self.counts.wrong += 1;
        if self.first_wrong.is_none() {
            self.first_wrong = Some(why.to_owned());
        }
    }

    fn judge(&mut self, report: &Message<'_>) -> Result<(), String> {
        if report.msg_type() != b"8" {
            return Err(format!("a message of type {} has come", report.msg_type()));
        }
        let id = report.raw(tag::CL_ORD_ID).unwrap_or_default();
        let shown = id.escape_ascii();
        let order = Self::find(&mut self.sent, id)
            .ok_or_else(|| format!("a report of {shown}, which was never sent"))?;
        let uint = |tag| report.uint(tag).map_err(|why| format!("the report of {shown}: {why}"));
        let same = uint(tag::ORDER_QTY)? == u64::from(order.quantity)
            && report.raw(tag::SYMBOL) == Some(SYMBOL)
            && report.raw(tag::SIDE) == Some(b"1")
            && report.decimal(tag::PRICE).is_ok_and(|is| is == price(order.price_millis));
        if !same {
            return Err(format!("a report of {shown} has other values than the order"));
        }
        let (leaves, done) = (uint(tag::LEAVES_QTY)?, uint(tag::CUM_QTY)?);
        let exec_id = report.raw(tag::EXEC_ID).unwrap_or_default();
        let status = report.raw(tag::ORD_STATUS).unwrap_or_default();
        match (order.stands, status) {
            (Stands::Open, b"0" | b"4" | b"8") => {
                if (leaves, done) != (order.quantity.into(), 0) {
                    return Err(format!("the first report of {shown} says that it has traded"));
                }
                follows(&mut self.last_order, number_of(exec_id, "ord"), "report of an order")?;
                self.counts.confirmed += u64::from(status == b"0");
                self.counts.canceled += u64::from(status == b"4");
                self.counts.rejected += u64::from(status == b"8");
                order.stands = if status == b"0" { Stands::Confirmed } else { Stands::Done };
            }
            (Stands::Confirmed, b"1" | b"2") => {
                let is_last = leaves == 0;
                let [left, quantity] = [order.left, order.quantity].map(u64::from);
                if leaves >= left || leaves + done != quantity {
                    return Err(format!("a trade of {shown} has quantities that do not follow"));
                }
                if is_last != (status == b"2") {
                    return Err(format!("a trade of {shown} has a wrong OrdStatus(39)"));
                }
                follows(&mut self.last_trade, number_of(exec_id, "exec"), "trade")?;
                self.counts.fills += 1;
                order.left = leaves as u16;
                order.stands = if is_last { Stands::Done } else { Stands::Confirmed };
            }
            (stands, status) => {
                let status = status.escape_ascii();
                return Err(format!("{shown}: OrdStatus(39) {status}, while it is {stands:?}"));
            }
        }
        self.counts.open -= u64::from(order.stands == Stands::Done);
        Ok(())
    }

    /// Returns the order with this ClOrdID(11).
    fn find<'a>(sent: &'a mut [Sent], id: &[u8]) -> Option<&'a mut Sent> {
        let dash = id.iter().position(|byte| *byte == b'-')?;
        let number = u32::try_from(number_of(&id[..dash], "ord")?).ok()?;
        let together = number_of(&id[dash..], "-")?;
        let order = sent.get_mut(number.checked_sub(FIRST_ID)? as usize)?;
        (u64::from(order.together) == together).then_some(order)
    }

    /// Returns the self-check of all reports so far.
    pub(super) fn check(&self) -> Check {
        let expected = Expected::of_an_order();
        let Counts { orders, reports, .. } = self.counts;
        Check {
            counts: self.counts,
            expected_per_order: expected.mean,
            deviation_per_order: expected.deviation,
            deviations: expected.deviations(orders, reports),
            first_wrong: self.first_wrong.clone(),
        }
    }
}

/// Checks that `number` follows `last`. A gap or a repetition means that a report was lost or
/// duplicated.
fn follows(last: &mut u64, number: Option<u64>, what: &str) -> Result<(), String> {
    let number = number.ok_or_else(|| format!("the ExecID(17) of a {what} has no number"))?;
    match std::mem::replace(last, number) {
        before if before.checked_add(1) == Some(number) => Ok(()),
        before => Err(format!("{what} {number} came behind {what} {before}")),
    }
}

/// The self-check of a run: report counts, expectation and faults.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Check {
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Expected mean number of reports per order.
    pub(super) expected_per_order: f64,
    /// Standard deviation of the mean number of reports per order.
    pub(super) deviation_per_order: f64,
    /// Difference between the actual and the expected number of reports, in standard deviations.
    pub(super) deviations: f64,
    /// The reason of the first wrong report.
    pub(super) first_wrong: Option<String>,
}

impl Check {
    /// Returns the faults; empty if all reports are right.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let Counts { orders, open, wrong, .. } = self.counts;
        if open > 0 {
            faults.push(format!("{open} of {orders} orders have not all their reports"));
        }
        if let Some(first) = &self.first_wrong {
            faults.push(format!("{wrong} reports are wrong; the first: {first}"));
        }
        if self.deviations.abs() > DEVIATIONS_MAX {
            let deviations = self.deviations;
            faults.push(format!(
                "the number of reports is {deviations:.1} standard deviations from what it should \
                 be, more than {DEVIATIONS_MAX:.0}"
            ));
        }
        faults
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { orders, reports, confirmed, canceled, rejected, fills, .. } = self.counts;
        let per_order = reports as f64 / orders.max(1) as f64;
        let off = reports as f64 - self.expected_per_order * orders as f64;
        writeln!(
            f,
            "Self-check: {per_order:.4} reports an order, {:.4} expected: {off:+.0} reports, \
             {:+.2} standard deviations",
            self.expected_per_order, self.deviations
        )?;
        writeln!(
            f,
            "Self-check: {confirmed} orders confirmed, {canceled} canceled, {rejected} rejected; \
             {fills} fills"
        )?;
        let faults = self.faults();
        if faults.is_empty() {
            return write!(f, "Self-check: passed, each order has all its reports, in order");
        }
        write!(f, "Self-check: FAILED: {}", faults.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix::{Precision, Timestamp};
    use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter};

    use crate::scenarios::hftest::orders::Maker;
    use crate::scenarios::hftest::replies::Replies;

    /// Returns a book of sent orders, and the frames of all reports for these orders.
    fn answered(count: u32) -> (Book, Vec<Vec<u8>>) {
        let (mut maker, mut replies) = (Maker::new(1), Replies::new(2, true));
        let (mut book, mut reports) = (Book::default(), Vec::new());
        for _ in 0..count {
            let order = maker.next(count, Timestamp(0));
            book.sent(&order);
            let order = frame(b"D", |body| order.write(body));
            replies
                .answer(&parsed(&order, &mut FieldIndex::default()), |report| {
                    reports.push(frame(b"8", |body| report.write(body)));
                    Ok::<(), ()>(())
                })
                .unwrap()
                .unwrap();
        }
        (book, reports)
    }

    fn frame(msg_type: &[u8], fill: impl FnOnce(&mut transfix::Body<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.2", msg_type);
        fill(frame.body(Precision::Millis));
        frame.finish().unwrap();
        out
    }

    fn parsed<'a>(frame: &'a [u8], index: &'a mut FieldIndex) -> Message<'a> {
        Message::parse(frame, index, CheckSumPolicy::Verify).unwrap()
    }

    fn check_of(book: &mut Book, reports: &[Vec<u8>]) -> Check {
        for report in reports {
            book.reported(&parsed(report, &mut FieldIndex::default()));
        }
        book.check()
    }

    #[test]
    fn a_whole_run_passes() {
        let (mut book, reports) = answered(3_000);
        let check = check_of(&mut book, &reports);
        assert!(check.faults().is_empty(), "{check}");
        let counts = check.counts;
        assert_eq!((counts.orders, counts.open, counts.wrong), (3_000, 0, 0));
        assert_eq!(counts.confirmed + counts.canceled + counts.rejected, 3_000);
        assert_eq!(counts.reports, 3_000 + counts.fills);
        assert!(check.to_string().ends_with("passed, each order has all its reports, in order"));
    }

    #[test]
    fn each_report_that_is_dropped_or_repeated_is_noticed() {
        let (_, reports) = answered(60);
        for n in 0..reports.len() {
            let (mut book, mut fewer) = answered(60);
            fewer.remove(n);
            // If the last report is missing, only the open order reveals the loss.
            assert!(!check_of(&mut book, &fewer).faults().is_empty(), "without report {n}");
            let (mut book, mut more) = answered(60);
            more.insert(n, more[n].clone());
            assert!(!check_of(&mut book, &more).faults().is_empty(), "report {n} twice");
        }
    }

    #[test]
    fn reports_with_other_values_are_wrong() {
        let (_, reports) = answered(30);
        for (from, to) in [
            ("\x0111=ord", "\x0111=odr"),
            ("-30\x01", "-31\x01"),
            ("\x0155=BHP\x01", "\x0155=BHQ\x01"),
            ("\x0154=1\x01", "\x0154=2\x01"),
            ("\x0138=", "\x0138=9"),
            ("\x0144=", "\x0144=9"),
            ("\x01151=", "\x01151=9"),
            ("\x0114=", "\x0114=9"),
            ("\x0117=", "\x0117=x"),
            ("\x0139=", "\x0139=5"),
        ] {
            let (mut book, _) = answered(30);
            let text = String::from_utf8(reports[0].clone()).unwrap();
            let (_, body) = text.split_once("\x0135=8\x01").unwrap();
            let (body, _) = body.split_once("\x0110=").unwrap();
            let body = format!("\x01{body}\x01").replacen(from, to, 1);
            let changed = frame(b"8", |fill| _ = fill.fields(&body.as_bytes()[1..]));
            let check = check_of(&mut book, &[changed]);
            assert_eq!(check.counts.wrong, 1, "{from} to {to}: {check}");
        }
    }

    #[test]
    fn too_many_or_too_few_reports_fail() {
        for (orders, reports, passes) in [
            (500_000, 1_964_764, true),
            (500_000, 1_964_764 + 6 * 3_152, true),
            (500_000, 1_964_764 + 7 * 3_152, false),
            (500_000, 1_964_764 - 7 * 3_152, false),
        ] {
            let counts = Counts { orders, reports, ..Counts::default() };
            let book = Book { counts, ..Book::default() };
            assert_eq!(book.check().faults().is_empty(), passes, "{reports}");
        }
    }
}
