//! Measures the cost of many messages of one session; `transfix bench throughput` runs the venue
//! and the client.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::server::{Server, disk_kib};

/// Length of a measured slice in nanoseconds. 64 orders are in transit during the slice.
const SLICE_NS: u64 = 500_000_000;

/// Sends at least `orders` orders, each answered by a report that the venue stores. Returns report
/// lines.
pub(super) fn measure(
    program: &Path,
    dir: &Path,
    orders: u64,
) -> Result<Vec<(String, String)>, String> {
    let stores = dir.join("million");
    let part = |part: &str, address: &str| {
        let mut command = Command::new(program);
        command.args(["throughput", "--sessions", "1"]);
        command.args(["--part", part, "--address", address]);
        command
    };
    let mut command = part("file", "127.0.0.1:0");
    command.arg("--store").arg(&stores);
    let mut venue = Server::start(command, "")?;
    let mut command = part("client", &venue.address);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().map_err(|error| error.to_string())?;
    let mut input = client.stdin.take().ok_or("no input")?;
    let mut lines = BufReader::new(client.stdout.take().ok_or("no output")?).lines();
    let mut line = || match lines.next() {
        Some(Ok(line)) => Ok(line),
        _ => Err("the client has ended".to_owned()),
    };
    line()?;
    let size = |venue: &Server| -> Result<[u64; 3], String> {
        Ok([disk_kib(&stores), venue.memory_kib("RssAnon")?, venue.mapped_kib("")?])
    };
    let (before, begun, mut answered, mut ns) = (size(&venue)?, venue.cpu()?, 0, 0);
    while answered < orders {
        writeln!(input, r#"{{"Full":{{"window":64,"ns":{SLICE_NS}}}}}"#)
            .map_err(|error| error.to_string())?;
        let load: serde_json::Value =
            serde_json::from_str(&line()?).map_err(|error| error.to_string())?;
        answered += load["answered"].as_u64().filter(|n| *n > 0).ok_or("no order was answered")?;
        ns += load["ns"].as_u64().unwrap_or(0);
    }
    let (after, cpu) = (size(&venue)?, venue.cpu()?.saturating_sub(begun));
    // Closing its standard input ends the client.
    drop(input);
    let _ = client.wait();
    venue.end();
    let millions = answered as f64 / 1e6;
    let [disk, anon, mapped] =
        [0, 1, 2].map(|n| after[n].saturating_sub(before[n]) as f64 / 1024.0 / millions);
    let text = format!("{disk:.0} MiB of disk, {anon:.1} MiB of memory, {mapped:.0} MiB mapped");
    let speed = format!(
        "{:.0} orders a second, {:.2} s of CPU time a million",
        answered as f64 / (ns as f64 / 1e9),
        cpu.as_secs_f64() / millions
    );
    Ok(vec![
        (format!("a million orders of {answered}, one session"), text),
        ("they came at".to_owned(), speed),
    ])
}
