//! Runs all rounds of the scenario hftest, in which floor, engine and optionally other codecs
//! alternate, and summarizes the rounds.

use serde::Serialize;

use super::super::codec::start_peers;
use super::super::contest::{Repeated, Round as Which, repeat};
use super::super::report::{Machine, RoundCount};
use super::super::shared::{bar, save_json};
use super::super::summary::{Estimate, median};
use super::super::turns::{self, Measured, Turns};
use super::book::Check;
use super::both::{self, Run};
use super::figures::{EXPLAINED, Side};
use super::floor::{self, Floor};
use super::{Args, say};
use crate::measure::{OURS, Plan, Slice};
use crate::operation::{Operation, Set};
use crate::ours::Ours;

/// Mean encoding time of both sides on the published page, in microseconds.
const ENCODE_US: f64 = 2.83;
const DECODE_US: f64 = 5.57;
/// The codec operations that run in memory on the messages of this scenario, one slice in each
/// round.
const PLAN: Plan<'_> = Plan {
    operations: &[
        Operation::Floor,
        Operation::BuildEncode,
        Operation::Decode,
        Operation::DecodeValidate,
    ],
    sets: &[Set::Hftest],
    slices: 0,
    slice: Slice::Ns(20_000_000),
};

/// A round.
struct Round {
    floor: floor::Slice,
    run: Run,
    codecs: turns::Round,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    passed: bool,
    faults: Vec<String>,
    rounds: RoundCount,
    /// `check` and the following fields belong to the round with the median orders per second, or
    /// to the failed round.
    check: Check,
    /// Time from the first order to the last report, in seconds.
    secs: f64,
    orders_per_s: f64,
    client: Side,
    server: Side,
    /// Mean encoding time of both sides in microseconds.
    encode_us: f64,
    decode_us: f64,
    encode_p50_us: f64,
    decode_p50_us: f64,
    page_encode_us: f64,
    page_decode_us: f64,
    /// Medians over all rounds; `None` if a round failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<All>,
    machine: Machine,
    settings: serde_json::Value,
}

/// Medians over all rounds.
#[derive(Serialize)]
struct All {
    /// Orders per second of the floor, which uses bare sockets.
    floor_orders_per_s: f64,
    /// Nanoseconds of one pass over the bytes of a message.
    floor_ns: f64,
    orders_per_s: f64,
    /// Orders per second of the engine, as a multiple of the floor.
    orders_ratio: Estimate,
    rows: Vec<Row>,
    not_run: Vec<String>,
}

/// A codec operation of one engine, on the messages of this scenario.
#[derive(Serialize)]
struct Row {
    framework: String,
    operation: &'static str,
    ns: f64,
    /// Time of the operation, as a multiple of one pass over the bytes.
    floor_ratio: Estimate,
    /// Time of another engine's codec, as a multiple of the time that our codec takes inside the
    /// running engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_ratio: Option<Estimate>,
}

/// The times that the running engine measures, one value per round.
struct Inside {
    orders_per_s: Vec<f64>,
    floor_orders_per_s: Vec<f64>,
    /// Mean time of an order and a report. Orders and reports have equal weights, because the
    /// codecs process the same mix.
    encode_ns: Vec<f64>,
    decode_ns: Vec<f64>,
}

/// Runs all rounds and prints the report. Returns true if all checks passed.
pub(super) fn run(args: &Args) -> Result<bool, String> {
    let rounds = usize::from(args.rounds);
    let bar = bar("hftest", rounds + 1);
    bar.set_message("starts");
    let floor = Floor::new(args.orders, args.seed)?;
    let mut ours = Ours::new()?;
    let mut peers = start_peers(args.peers.as_ref(), &ours)?;
    let not_run = peers.missing.clone();
    let mut turns = Turns::new(&mut ours, &mut peers, PLAN)?;
    let mut failed = None;
    let one = |which: Which| {
        bar.set_message(which.words(rounds));
        let floor = floor.slice()?;
        let run = bar.suspend(|| both::run(args, which == Which::Nth(1) && !args.json))?;
        if !run.faults.is_empty() {
            failed = Some((which.words(rounds), run));
            return Err(String::new());
        }
        let codecs = turns.round();
        bar.inc(1);
        Ok(Round { floor, run, codecs })
    };
    let played = repeat(rounds, one, |round: &Round| round.floor.p99_ns);
    bar.finish_and_clear();
    if let Some((which, run)) = failed {
        let report = Report::of(args, run, RoundCount::default(), None);
        return tell(args, &report, &format!("A check has failed, {which}:"));
    }
    let Repeated { mut rounds, count } = played?;
    let codecs = turns.measured(rounds.iter().map(|round| &round.codecs), count);
    let all = All::of(&Inside::of(&rounds), &codecs, not_run);
    rounds.sort_by(|a, b| a.run.orders_per_s().total_cmp(&b.run.orders_per_s()));
    let Run { client, server, .. } = &rounds[rounds.len() / 2].run;
    for (side, name) in [(&client.side, "client"), (&server.side, "server")] {
        side.write(&args.log_dir, name)?;
    }
    let middle = rounds.swap_remove(rounds.len() / 2).run;
    let report = Report::of(args, middle, count, Some(all));
    save_json(&args.out, "hftest", &report)?;
    let kept = count.kept;
    tell(args, &report, &format!("Of {kept} rounds the middle one by its orders a second:"))
}

impl Inside {
    fn of(rounds: &[Round]) -> Self {
        let each = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
        Self {
            orders_per_s: each(|round| round.run.orders_per_s()),
            floor_orders_per_s: each(|round| {
                round.run.client.check.counts.orders as f64 / round.floor.secs
            }),
            encode_ns: each(|round| round.run.ns(|side| side.encode)),
            decode_ns: each(|round| round.run.ns(|side| side.decode)),
        }
    }
}

impl All {
    fn of(inside: &Inside, codecs: &Measured, mut not_run: Vec<String>) -> Self {
        let Inside { orders_per_s, floor_orders_per_s, encode_ns, decode_ns } = inside;
        let row = |framework: &str, operation, ns: &[f64], engine: Option<&[f64]>| Row {
            framework: framework.to_owned(),
            operation,
            ns: median(ns),
            floor_ratio: turns::over(ns, &codecs.floor),
            engine_ratio: engine.map(|engine| turns::over(ns, engine)),
        };
        let mut rows = vec![
            row(OURS, "encode in the engine", encode_ns, None),
            row(OURS, "decode in the engine", decode_ns, None),
        ];
        for series in &codecs.series {
            let (operation, engine) = match series.operation {
                Operation::BuildEncode => ("encode, the codec alone", encode_ns),
                Operation::Decode => ("decode, the codec alone", decode_ns),
                _ => ("decode and validate, the codec alone", decode_ns),
            };
            let engine = (series.engine != OURS).then_some(&engine[..]);
            rows.push(row(&series.engine, operation, &series.ns, engine));
        }
        not_run.extend(codecs.lost.iter().cloned());
        Self {
            floor_orders_per_s: median(floor_orders_per_s).round(),
            floor_ns: median(&codecs.floor),
            orders_per_s: median(orders_per_s).round(),
            orders_ratio: turns::over(orders_per_s, floor_orders_per_s),
            rows,
            not_run,
        }
    }

    fn sentences(&self, count: RoundCount) -> Vec<String> {
        let Self { orders_per_s: orders, floor_orders_per_s: floor_orders, floor_ns, .. } = self;
        let mut sentences = vec![format!(
            "Orders a second: {orders:.0}, {} those of bare sockets ({floor_orders:.0})",
            self.orders_ratio.words()
        )];
        sentences.extend(self.rows.iter().map(|row| {
            let who = format!("{}, {}, {:.0} ns", row.framework, row.operation, row.ns);
            let engine = row.engine_ratio.map(|ratio| (ratio, "ours in the engine"));
            turns::sentence(&who, row.floor_ratio, engine)
        }));
        sentences.push(format!("floor of a message, one pass over its bytes: {floor_ns:.1} ns"));
        sentences.push(count.words());
        sentences.extend(self.not_run.iter().cloned());
        sentences
    }
}

impl Report {
    fn of(args: &Args, run: Run, rounds: RoundCount, all: Option<All>) -> Self {
        Self {
            scenario: "S2b",
            passed: run.faults.is_empty(),
            rounds,
            orders_per_s: run.orders_per_s(),
            secs: run.client.secs,
            encode_us: run.encode_us(),
            decode_us: run.decode_us(),
            encode_p50_us: run.mean(|side| side.encode_p50_us),
            decode_p50_us: run.mean(|side| side.decode_p50_us),
            page_encode_us: ENCODE_US,
            page_decode_us: DECODE_US,
            faults: run.faults,
            check: run.client.check,
            client: run.client.side,
            server: run.server.side,
            all,
            machine: Machine::this(),
            settings: serde_json::json!({
                "orders": args.orders,
                "seed": args.seed,
                "valid": args.valid,
                "check_sum_verified": true,
                "durability": "memory",
            }),
        }
    }
}

/// Prints the report of round `which`. Returns true if the report has no fault.
fn tell(args: &Args, report: &Report, which: &str) -> Result<bool, String> {
    if args.json {
        say(&serde_json::to_string(report).map_err(|why| why.to_string())?)?;
        return Ok(report.passed);
    }
    say(which)?;
    show(args, report)?;
    let of_the_check = report.check.faults();
    for fault in report.faults.iter().filter(|fault| !of_the_check.contains(fault)) {
        say(&format!("Self-check: FAILED: {fault}"))?;
    }
    Ok(report.passed)
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    say(&report.machine.words())?;
    say(&report.check.to_string())?;
    let sides = [(&report.client, "client:"), (&report.server, "server:")];
    for (side, prefix) in sides {
        say(side.lines(prefix).trim_end())?;
    }
    for (side, prefix) in sides {
        say(side.rest(prefix, args.histogram).trim_end())?;
    }
    let Report { encode_us: encode, decode_us: decode, orders_per_s, secs, .. } = report;
    let (to_encode, to_decode) = (ENCODE_US / encode, DECODE_US / decode);
    say(&format!(
        "Means of both sides: encode {encode:.3} µs, decode {decode:.3} µs; the published page has \
         {ENCODE_US} and {DECODE_US}: {to_encode:.1} and {to_decode:.1} times as much"
    ))?;
    let (c, s) = (&report.client, &report.server);
    say(&format!(
        "Sums of medians: encode {:.3} µs client, {:.3} server; decode {:.3} client, {:.3} server",
        c.encode_p50_us, s.encode_p50_us, c.decode_p50_us, s.decode_p50_us
    ))?;
    let orders = report.check.counts.orders;
    say(&format!(
        "{orders} orders and their reports in {secs:.3} s: {orders_per_s:.0} orders a second"
    ))?;
    say(EXPLAINED)?;
    let Some(all) = &report.all else { return Ok(()) };
    say("Medians of all rounds:")?;
    all.sentences(report.rounds).iter().try_for_each(|sentence| say(sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Series;

    #[test]
    fn each_is_held_against_its_own() {
        let series = |engine: &str, operation, ns: [f64; 3]| Series {
            engine: engine.to_owned(),
            operation,
            set: Set::Hftest,
            ns: ns.to_vec(),
        };
        let codecs = Measured {
            floor: vec![10.0, 20.0, 10.0],
            series: vec![
                series(OURS, Operation::BuildEncode, [50.0, 100.0, 50.0]),
                series("other", Operation::BuildEncode, [600.0, 600.0, 600.0]),
                series("other", Operation::DecodeValidate, [900.0, 1_800.0, 900.0]),
            ],
            rounds: RoundCount { kept: 3, repeated: 0, disturbed: 0 },
            lost: vec!["one has ended".to_owned()],
        };
        let inside = Inside {
            orders_per_s: vec![10.0, 30.0, 20.0],
            floor_orders_per_s: vec![40.0, 60.0, 80.0],
            encode_ns: vec![100.0, 200.0, 200.0],
            decode_ns: vec![300.0, 600.0, 300.0],
        };
        let all = All::of(&inside, &codecs, Vec::new());
        assert_eq!((all.orders_per_s, all.orders_ratio.median), (20.0, 0.25));
        let ratios: Vec<_> = all
            .rows
            .iter()
            .map(|row| (row.ns, row.floor_ratio.median, row.engine_ratio.map(|of| of.median)))
            .collect();
        let expected = [
            (200.0, 10.0, None),
            (300.0, 30.0, None),
            (50.0, 5.0, None),
            (600.0, 60.0, Some(3.0)),
            (900.0, 90.0, Some(3.0)),
        ];
        assert_eq!(ratios, expected);
        let words = all.sentences(codecs.rounds).join("\n");
        for expected in [
            "Orders a second: 20, 0.25 × (95 % between 0.25 and 0.50) those of bare sockets (60)",
            "\nother, encode, the codec alone, 600 ns: 3.00 × (95 % between 3.00 and 6.00) ours in \
             the engine\n",
            "\none has ended",
        ] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
    }
}
