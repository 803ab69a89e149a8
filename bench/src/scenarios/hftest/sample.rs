//! The messages of scenario hftest for the codec benchmark: the first orders of a run and all their
//! reports, as both sides write them.
//!
//! Invariant: the messages are the same in every run and on every machine. There are 3.92 reports
//! per order; the expected number is 3.93.

use transfix::{Message, Precision, Timestamp};
use transfix_codec::{CheckSumPolicy, FieldIndex, encode::Header};

use super::orders::{Maker, Order};
use super::replies::{Replies, Report};

/// Number of orders.
const ORDERS: usize = 13;
const REPORTS: usize = 51;
/// Number of messages, a power of two.
const MESSAGES: usize = ORDERS + REPORTS;
/// A seed whose first orders have [`REPORTS`] reports with 4 completed orders, and no price that
/// ends in 0. Engines that keep prices as f64 would not write a final 0.
const SEED: u64 = 310;

/// The values of an order or of a report.
#[derive(Debug)]
enum Values {
    Order(Order),
    Report(Report<'static>),
}

/// The messages, and the values that both sides need to write them again.
#[derive(Debug)]
pub(crate) struct Samples {
    /// The messages as bytes. Message i has the sending time `moment(i)`.
    pub(crate) frames: Vec<Vec<u8>>,
    /// MsgSeqNum(34) and values of each message, in the order of `frames`.
    values: Vec<(u64, Values)>,
    client: Header,
    server: Header,
}

impl Samples {
    /// Creates the messages; `moment` returns the sending time of each.
    ///
    /// # Errors
    /// Returns the fault of a message as text.
    pub(crate) fn new(moment: impl Fn(u64) -> Timestamp) -> Result<Self, String> {
        let mut samples = Self {
            frames: Vec::new(),
            values: Vec::new(),
            client: Header::new(b"FIX.4.2", b"49=DLD_TEX\x0156=TEX_DLD\x01"),
            server: Header::new(b"FIX.4.2", b"49=TEX_DLD\x0156=DLD_TEX\x01"),
        };
        let (mut maker, mut replies) = (Maker::new(SEED), Replies::new(SEED + 1, true));
        // The Logon(A) of each side has MsgSeqNum(34) 1.
        let (mut order_seq, mut report_seq) = (1, 1);
        while samples.frames.len() < MESSAGES {
            order_seq += 1;
            let order = maker.next(ORDERS as u32, moment(0));
            samples.push((order_seq, Values::Order(order)), &moment);
            // The order is leaked, because its reports borrow from it until the program ends.
            let frame = samples.frames[samples.frames.len() - 1].clone().leak();
            let index = Box::leak(Box::<FieldIndex>::default());
            let order = Message::parse(frame, index, CheckSumPolicy::Verify);
            let order = order.map_err(|why| format!("an order of hftest: {why}"))?;
            let answered = replies.answer(&order, |report| {
                report_seq += 1;
                samples.push((report_seq, Values::Report(*report)), &moment);
                Ok::<(), std::convert::Infallible>(())
            });
            answered.map(drop).map_err(|why| format!("an order of hftest: {why}"))?;
        }
        Ok(samples)
    }

    fn push(&mut self, message: (u64, Values), moment: impl Fn(u64) -> Timestamp) {
        let (i, mut frame) = (self.values.len() as u64, Vec::new());
        self.values.push(message);
        self.build(i, &mut frame, moment(i));
        self.frames.push(frame);
    }

    /// Writes message `i` modulo [`MESSAGES`] like the session of its side. Both SendingTime(52)
    /// and TransactTime(60) are `now`. Returns the length.
    pub(crate) fn build(&mut self, i: u64, out: &mut Vec<u8>, now: Timestamp) -> usize {
        out.clear();
        let Self { values, client, server, .. } = self;
        let (seq, values) = std::hint::black_box(&values[i as usize % MESSAGES]);
        let sending_time = (now, Precision::Millis);
        let frame = match values {
            Values::Order(order) => {
                let mut frame = client.frame(out, b"D", *seq, sending_time);
                Order { made: now, ..*order }.write(frame.body(Precision::Millis));
                frame
            }
            Values::Report(report) => {
                let mut frame = server.frame(out, b"8", *seq, sending_time);
                report.write_made(frame.body(Precision::Millis), now);
                frame
            }
        };
        frame.finish().map_or(0, |range| range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_are_those_of_a_run_in_the_scenarios_proportion() {
        let samples = Samples::new(|i| Timestamp(i as i64 * 1_000_000)).unwrap();
        let texts: Vec<String> = samples
            .frames
            .iter()
            .map(|frame| String::from_utf8(frame.clone()).unwrap().replace('\x01', "|"))
            .collect();
        let with = |parts: &[&str]| {
            texts.iter().filter(|text| parts.iter().all(|part| text.contains(part))).count()
        };
        assert_eq!((with(&["|35=D|"]), with(&["|35=8|"])), (ORDERS, REPORTS));
        assert_eq!(with(&["|35=8|", "|29=4|", "|113=Y|", "|14=0|", "|6=0|"]), ORDERS);
        assert_eq!((with(&["|39=1|", "|17=exec"]), with(&["|39=2|", "|151=0|"])), (34, 4));
        let first = "8=FIX.4.2|9=142|35=D|49=DLD_TEX|56=TEX_DLD|34=2|52=19700101-00:00:00.000|\
                     11=ord10001-13|21=1|55=BHP|54=1|60=19700101-00:00:00.000|";
        assert!(texts[0].starts_with(first), "{}", texts[0]);
    }
}
