//! Codecs of the Rust registry: `rust_codecs LIBRARY FOLDER` executes lines `OPERATION SET N` from
//! standard input, and answers each with its nanoseconds. The messages are in the folder.

mod hftest;
mod ironfix;
mod order;
mod rustyfix;

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use order::Order;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The operations of a library on an order.
trait Codec {
    /// Library and version.
    const NAME: &'static str;
    /// Splits, indexes and verifies CheckSum(10). Returns true if the frame is valid.
    fn decode(&mut self, frame: &[u8]) -> bool;
    /// Decodes, and returns the number of body fields that could be read with their types.
    fn decode_read(&mut self, frame: &[u8]) -> usize;
    /// Builds the order again, with both times at `at_ms` (ms since 1970). Returns the number of
    /// bytes.
    fn build(&mut self, order: &Order, at_ms: i64) -> usize;
    /// Like `decode`, for a message of S2b in FIX 4.2.
    fn decode_hftest(&mut self, frame: &[u8]) -> bool;
    /// Builds the same message again, with both times at `at_ms`.
    fn build_hftest(&mut self, values: &hftest::Values, at_ms: i64) -> &[u8];
}

struct Messages {
    frames: Vec<Vec<u8>>,
    orders: Vec<Order>,
}

impl Messages {
    fn read(path: &Path) -> Outcome<Self> {
        let frames = read_frames(path)?;
        let orders = frames.iter().map(|frame| Order::of(frame)).collect::<Outcome<_>>()?;
        Ok(Self { frames, orders })
    }

    fn check<C: Codec>(&self, codec: &mut C) -> Outcome<()> {
        for (frame, order) in self.frames.iter().zip(&self.orders) {
            let read = codec.decode_read(frame);
            if !codec.decode(frame) || read != order.fields() {
                return Err(format!("{read} fields of {}", frame.escape_ascii()).into());
            }
            // A fixed-width BodyLength(9) may be longer.
            let built = codec.build(order, at_ms(0));
            if built < frame.len() || built > frame.len() + 5 {
                return Err(format!("{built} bytes for {}", frame.escape_ascii()).into());
            }
        }
        Ok(())
    }
}

/// Reads the messages of a file, one per line.
fn read_frames(path: &Path) -> Outcome<Vec<Vec<u8>>> {
    let text = std::fs::read(path)?;
    let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

/// The time advances, so that digits change.
fn at_ms(i: u64) -> i64 {
    1_795_262_400_000 + i as i64
}

fn timed<T>(n: u64, mut work: impl FnMut(u64) -> T) -> u64 {
    let start = Instant::now();
    for i in 0..n {
        black_box(work(i));
    }
    start.elapsed().as_nanos() as u64
}

fn serve<C: Codec>(mut codec: C, folder: &Path) -> Outcome<()> {
    let fixed = Messages::read(&folder.join("fixed"))?;
    let varied = Messages::read(&folder.join("varied"))?;
    fixed.check(&mut codec)?;
    varied.check(&mut codec)?;
    let hftest = hftest::Messages::read(&folder.join("hftest"), &mut codec)?;
    let mut out = std::io::stdout();
    writeln!(out, "ready {} decode decode-read build-encode", C::NAME)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [operation, set, n] = words[..] else { return Err("OPERATION SET N".into()) };
        let n = n.parse()?;
        if set == "hftest" {
            writeln!(out, "{}", run_hftest(&mut codec, &hftest, operation, n)?)?;
            continue;
        }
        let Messages { frames, orders } = if set == "fixed" { &fixed } else { &varied };
        let frame = |i: u64| &frames[i as usize % frames.len()][..];
        let order = |i: u64| &orders[i as usize % orders.len()];
        let ns = match operation {
            "decode" => timed(n, |i| codec.decode(black_box(frame(i)))),
            "decode-read" => timed(n, |i| codec.decode_read(black_box(frame(i)))),
            "build-encode" => timed(n, |i| codec.build(black_box(order(i)), at_ms(i))),
            _ => return Err(format!("unknown operation {operation}").into()),
        };
        writeln!(out, "{ns}")?;
    }
    Ok(())
}

fn run_hftest<C: Codec>(
    codec: &mut C,
    hftest::Messages { frames, values }: &hftest::Messages,
    operation: &str,
    n: u64,
) -> Outcome<u64> {
    let frame = |i: u64| &frames[i as usize % frames.len()][..];
    let values = |i: u64| &values[i as usize % values.len()];
    match operation {
        "decode" => Ok(timed(n, |i| codec.decode_hftest(black_box(frame(i))))),
        "build-encode" => {
            Ok(timed(n, |i| codec.build_hftest(black_box(values(i)), at_ms(i)).len()))
        }
        _ => Err(format!("unknown operation {operation}").into()),
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, folder] = &arguments[..] else {
        return Err("usage: rust_codecs rustyfix|ironfix FOLDER".into());
    };
    let folder = Path::new(folder);
    match library.as_str() {
        "rustyfix" => serve(rustyfix::Rustyfix::new()?, folder),
        "ironfix" => serve(ironfix::Ironfix::new(), folder),
        _ => Err(format!("no library {library}").into()),
    }
}
