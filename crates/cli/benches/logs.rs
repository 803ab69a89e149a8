//! Measures the searches of `transfix logs`, beside two floors: reading the file, and `grep -c`.
//! `cargo bench -p transfix-cli --bench logs`.
//!
//! Each measurement runs a whole process. The programs alternate, and each figure is a median. The
//! log is in the page cache; half of its messages are orders, the other half reports.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use transfix_codec::FrameWriter;
use transfix_testkit::temp::TempDir;

const MESSAGES: u32 = 2_000_000;
const ROUNDS: usize = 7;

/// The searches: a name, the arguments of `transfix logs`, and the text for `grep` if the search is
/// for a text.
const SEARCHES: &[(&str, &[&str], Option<&str>)] = &[
    ("text, in 1 of 40", &["--text", "insufficient margin"], Some("insufficient margin")),
    ("text, nowhere", &["--text", "no such text"], Some("no such text")),
    ("field, in 1 of 40", &["--where", "OrdStatus=8"], None),
    ("field, in half", &["--where", "Side=BUY"], None),
    ("number, in 1 of 1,000", &["--where", "OrderQty=999"], None),
    ("type, half", &["--type", "D"], None),
    ("time, half", &["--from", "20261121-10:00:00"], None),
];

fn main() {
    let dir = TempDir::new();
    let path = dir.path().join("FIX.4.4-VENUE-CLIENT.messages.log");
    write_log(&path);
    let bytes = fs::metadata(&path).unwrap().len();
    println!("{MESSAGES} messages, {} MB, {ROUNDS} rounds", bytes / 1_000_000);
    println!("{:<24} {:>9} {:>8} {:>12} {:>9}", "", "ms", "GB/s", "messages/s", "to grep");
    let read = median(|| read_all(&path));
    line("reading alone", read, bytes, None);
    for (name, args, text) in SEARCHES {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(time(|| search(&path, args)));
            if let Some(text) = text {
                theirs.push(time(|| grep(&path, text)));
            }
        }
        let grep = middle(theirs);
        line(name, middle(ours).unwrap(), bytes, grep);
        if let Some(grep) = grep {
            line("  grep -c", grep, bytes, None);
        }
    }
    let gaps = median(|| search(&path, &["--gaps"]));
    line("gaps", gaps, bytes, None);
    let order = median(|| search(&path, &["--order", "ORD00050000"]));
    line("order (read twice)", order, bytes, None);
}

fn write_log(path: &Path) {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let mut message = Vec::new();
    for n in 0..MESSAGES {
        let seconds = u64::from(n) * 7_200 / u64::from(MESSAGES);
        let time = format!(
            "20261121-{:02}:{:02}:{:02}.{:03}",
            9 + seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            n % 1_000
        );
        message.clear();
        let (order, seq) = (n / 2, n / 2 + 1);
        let (msg_type, fields) = if n % 2 == 0 {
            let side = 1 + order % 2;
            let fields = format!(
                "34={seq}|49=CLIENT|56=VENUE|52={time}|11=ORD{order:08}|21=1|55=SYM{}|54={side}|\
                 60={time}|38={}|40=2|44={}.25|59=0|",
                order % 50,
                order % 1_000,
                order % 97
            );
            (&b"D"[..], fields)
        } else {
            let (status, text) = match order % 20 {
                7 => ("8", "58=insufficient margin|"),
                _ => ("0", ""),
            };
            let side = 1 + order % 2;
            let fields = format!(
                "34={seq}|49=VENUE|56=CLIENT|52={time}|37=X{order}|11=ORD{order:08}|17=E{order}|\
                 150={status}|39={status}|55=SYM{}|54={side}|151=0|14=0|6=0|60={time}|{text}",
                order % 50
            );
            (&b"8"[..], fields)
        };
        let mut frame = FrameWriter::new(&mut message, b"FIX.4.4", msg_type);
        frame.raw(fields.replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        write!(file, "{time}000000 : ").unwrap();
        file.write_all(&message).unwrap();
        file.write_all(b"\n").unwrap();
    }
    file.flush().unwrap();
}

fn read_all(path: &Path) {
    let (mut file, mut buffer) = (File::open(path).unwrap(), vec![0; 256 << 10]);
    while file.read(&mut buffer).unwrap() > 0 {}
}

fn search(path: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    let count = if args[0] == "--gaps" || args[0] == "--order" { &[][..] } else { &["--count"] };
    command.arg("logs").args(count).args(args).arg(path);
    assert!(command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code() < Some(2));
}

fn grep(path: &Path, text: &str) {
    let mut command = Command::new("grep");
    command.env("LC_ALL", "C").args(["-c", "-F", text]).arg(path);
    // The output is piped, because grep would stop at the first match if its output were discarded.
    assert!(command.output().unwrap().status.code() < Some(2));
}

fn time(run: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    run();
    begun.elapsed()
}

fn median(mut run: impl FnMut()) -> Duration {
    middle((0..ROUNDS).map(|_| time(&mut run)).collect()).unwrap()
}

fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

fn line(name: &str, time: Duration, bytes: u64, grep: Option<Duration>) {
    let seconds = time.as_secs_f64();
    let ratio = grep.map_or(String::new(), |grep| format!("{:.1}", seconds / grep.as_secs_f64()));
    println!(
        "{name:<24} {:>9.0} {:>8.2} {:>12.0} {ratio:>9}",
        seconds * 1_000.0,
        bytes as f64 / seconds / 1e9,
        f64::from(MESSAGES) / seconds
    );
}
