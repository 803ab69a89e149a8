//! The floor: the same number of bytes over a bare socket. The client's thread sends orders as the
//! client does. The server's thread splits orders by BodyLength(9), and writes the server's number
//! of reports once per read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use transfix::clock::monotonic_ns;
use transfix::{Message, Precision, Timestamp};
use transfix_codec::encode::Header;
use transfix_codec::{CheckSumPolicy, FieldIndex, Misuse};

use super::super::summary::quantile;
use super::super::throughput::Frames;
use super::client::{READS, TOGETHER, UNDER_WAY_MAX};
use super::orders::Maker;
use super::replies::Replies;

/// Size of the read buffer on both sides, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Number of different orders that the floor sends in turn.
const ORDERS: usize = 16;

/// The bytes that the floor sends in both directions.
pub(super) struct Floor {
    /// Complete orders, sent in turn.
    orders: Vec<Vec<u8>>,
    /// The first report for an order, sent once per order.
    first: Vec<u8>,
    trade: Vec<u8>,
    /// Number of reports for each order, by the order's position.
    reports: Vec<u8>,
}

/// The measurements of one slice of the floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// Time from the first order to the last report, in seconds.
    pub(super) secs: f64,
    /// The 99th percentile of the times between groups of finished orders, in nanoseconds.
    pub(super) p99_ns: f64,
}

impl Floor {
    /// Creates the orders of a client with this seed, and the server's number of reports for each
    /// order. Message lengths are those in the middle of the run.
    pub(super) fn new(orders: u32, seed: u64) -> Result<Self, String> {
        let mut client = Header::new(b"FIX.4.2", b"49=DLD_TEX\x0156=TEX_DLD\x01");
        let mut server = Header::new(b"FIX.4.2", b"49=TEX_DLD\x0156=DLD_TEX\x01");
        let (mut maker, mut replies) = (Maker::new(seed), Replies::new(seed.wrapping_add(1), true));
        let (moment, mut index) = ((Timestamp(0), Precision::Millis), FieldIndex::default());
        let mut floor = Self {
            orders: Vec::new(),
            first: Vec::new(),
            trade: Vec::new(),
            reports: Vec::with_capacity(orders as usize),
        };
        let (mut frame, mut reported) = (Vec::new(), 0);
        for n in 0..orders {
            frame.clear();
            let mut writer = client.frame(&mut frame, b"D", u64::from(n) + 2, moment);
            maker.next(orders, Timestamp(0)).write(writer.body(Precision::Millis));
            writer.finish().map_err(|misuse| misuse.to_string())?;
            let order = Message::parse(&frame, &mut index, CheckSumPolicy::Verify);
            let order = order.map_err(|why| why.to_string())?;
            let mut count = 0_u8;
            let answered = replies.answer(&order, |report| {
                let kept = if count == 0 { &mut floor.first } else { &mut floor.trade };
                if kept.is_empty() || n <= orders / 2 {
                    kept.clear();
                    let mut writer = server.frame(kept, b"8", reported + 2, moment);
                    report.write(writer.body(Precision::Millis));
                    writer.finish().map(drop)?;
                }
                (count, reported) = (count + 1, reported + 1);
                Ok::<(), Misuse>(())
            });
            answered.map_err(|why| why.to_string())?.map_err(|misuse| misuse.to_string())?;
            floor.reports.push(count);
            if n >= orders / 2 && floor.orders.len() < ORDERS {
                floor.orders.push(frame.clone());
            }
        }
        Ok(floor)
    }

    /// Sends all orders, and waits for all reports.
    pub(super) fn slice(&self) -> Result<Slice, String> {
        self.play().map_err(|error| format!("the floor: {error}"))
    }

    fn play(&self) -> io::Result<Slice> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let (other, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        for one in [&stream, &other] {
            one.set_nodelay(true)?;
        }
        thread::scope(|threads| {
            let name = thread::Builder::new().name("floor".to_owned());
            let server = name.spawn_scoped(threads, || self.answer(other))?;
            let sent = self.send(stream);
            let answered = server.join().unwrap_or_else(|_| Err(io::Error::other("panic")));
            answered.and(sent)
        })
    }

    /// Plays the server until the client disconnects.
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let (mut frames, mut reports) = (Frames::default(), self.reports.iter());
        let (mut input, mut output) = (vec![0; READ_BYTES], Vec::new());
        loop {
            let n = stream.read(&mut input)?;
            if n == 0 {
                return Ok(());
            }
            output.clear();
            let orders = frames.count(&input[..n])?;
            for more in reports.by_ref().take(orders) {
                output.extend_from_slice(&self.first);
                (1..*more).for_each(|_| output.extend_from_slice(&self.trade));
            }
            stream.write_all(&output)?;
        }
    }

    /// Plays the client: sends all orders and counts the reports.
    fn send(&self, mut stream: TcpStream) -> io::Result<Slice> {
        let orders = self.reports.len();
        let (mut sent, mut done) = (0, 0);
        // Number of reports received for the oldest unfinished order.
        let mut come = 0;
        let (mut frames, mut input) = (Frames::default(), vec![0; READ_BYTES]);
        let (mut output, mut left) = (Vec::new(), 0);
        let (mut gaps, mut group) = (Vec::with_capacity(orders / TOGETHER + 1), 0);
        let begun_ns = monotonic_ns();
        let mut last_ns = begun_ns;
        while done < orders {
            let mut moved = false;
            if left == 0 && sent < orders && sent - done < UNDER_WAY_MAX as usize {
                output.clear();
                let together = TOGETHER.min(orders - sent);
                let next = self.orders.iter().cycle().skip(sent % self.orders.len());
                next.take(together).for_each(|order| output.extend_from_slice(order));
                (sent, left) = (sent + together, output.len());
            }
            if left > 0 {
                let taken = unless_blocked(stream.write(&output[output.len() - left..]))?;
                left -= taken.unwrap_or(0);
                moved |= taken.is_some();
            }
            for _ in 0..READS {
                let Some(n) = unless_blocked(stream.read(&mut input))? else { break };
                if n == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                moved = true;
                come += frames.count(&input[..n])?;
                while let Some(needed) = self.reports.get(done)
                    && come >= usize::from(*needed)
                {
                    come -= usize::from(*needed);
                    done += 1;
                }
                if done / TOGETHER > group {
                    let now_ns = monotonic_ns();
                    gaps.push((now_ns - last_ns) as f64);
                    (last_ns, group) = (now_ns, done / TOGETHER);
                }
            }
            if !moved {
                thread::yield_now();
            }
        }
        let secs = (monotonic_ns() - begun_ns) as f64 / 1e9;
        // With few orders there are no gaps between groups, so the total time is used instead.
        let p99_ns = if gaps.is_empty() { secs * 1e9 } else { quantile(&gaps, 0.99) };
        Ok(Slice { secs, p99_ns })
    }
}

/// Returns the number of transferred bytes, or `None` if the call would block.
fn unless_blocked(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_of_a_run_have_their_reports() {
        let floor = Floor::new(1_000, 1).unwrap();
        assert_eq!((floor.orders.len(), floor.reports.len()), (16, 1_000));
        let has = |frame: &[u8], text: &str| {
            String::from_utf8_lossy(frame).replace('\x01', "|").contains(text)
        };
        assert!(has(&floor.orders[0], "|34=502|") && has(&floor.orders[0], "|11=ord10501-1000|"));
        assert!(has(&floor.first, "|17=ord501|") && has(&floor.trade, "|17=exec"));
        let sum: u64 = floor.reports.iter().map(|n| u64::from(*n)).sum();
        assert!((3_400..4_500).contains(&sum), "{sum}");
        let slice = floor.slice().unwrap();
        assert!(slice.secs > 0.0 && slice.p99_ns > 0.0, "{slice:?}");
    }
}
