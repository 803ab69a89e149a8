//! A whole run: rounds in which floor, engine and, if asked for, the codecs of others take turns;
//! what they say together.

use serde::Serialize;

use super::super::codec::start_peers;
use super::super::contest::{Repeated, Round as Which, repeat};
use super::super::report::{Machine, RoundCount};
use super::super::shared::{bar, save_json};
use super::super::summary::{Estimate, median};
use super::super::turns::{self, Turns};
use super::book::Check;
use super::both::{self, Run};
use super::figures::{EXPLAINED, Side};
use super::floor::{self, Floor};
use super::{Args, say};
use crate::measure::{OURS, Plan, Slice};
use crate::operation::{Operation, Set};
use crate::ours::Ours;

/// Microseconds of the published page, the mean of both sides.
const ENCODE_US: f64 = 2.83;
const DECODE_US: f64 = 5.57;
/// What the codecs do in memory, with the messages of this scenario.
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

/// One round.
struct Round {
    floor: floor::Slice,
    run: Run,
    codecs: turns::Round,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    passed: bool,
    faults: Vec<String>,
    rounds: RoundCount,
    /// Of the middle round by its orders a second, or of the one that has failed: from here on.
    check: Check,
    /// From the first order to the last report.
    secs: f64,
    orders_per_s: f64,
    client: Side,
    server: Side,
    /// Means of both sides in microseconds, beside those of the published page.
    encode_us: f64,
    decode_us: f64,
    encode_p50_us: f64,
    decode_p50_us: f64,
    page_encode_us: f64,
    page_decode_us: f64,
    /// What all rounds say; none if one has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<All>,
    machine: Machine,
    settings: serde_json::Value,
}

/// Medians over the rounds.
#[derive(Serialize)]
struct All {
    /// Orders a second over bare sockets.
    floor_orders_per_s: f64,
    /// One pass over the bytes of a message.
    floor_ns: f64,
    orders_per_s: f64,
    /// How many times the floor's.
    orders_ratio: Estimate,
    rows: Vec<Row>,
    not_run: Vec<String>,
    #[serde(skip)]
    sentences: Vec<String>,
}

/// One operation of one engine, on the messages of this scenario.
#[derive(Serialize)]
struct Row {
    framework: String,
    operation: &'static str,
    ns: f64,
    /// How many times the floor's.
    floor_ratio: Estimate,
    /// How many times ours inside the whole engine, of a codec of another engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_ratio: Option<Estimate>,
}

/// Encoding and decoding inside the engine.
const ENCODE: &str = "encode in the engine";
const DECODE: &str = "decode in the engine";

/// Plays all rounds, and reports. Returns whether all checks have passed.
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
        let codecs = turns.round()?;
        bar.inc(1);
        if !run.faults.is_empty() {
            failed = Some(run);
            return Err(String::new());
        }
        Ok(Round { floor, run, codecs })
    };
    let played = repeat(rounds, one, |round: &Round| round.floor.p99_ns);
    bar.finish_and_clear();
    if let Some(run) = failed {
        let count = RoundCount { kept: 1, repeated: 0, disturbed: 0 };
        return tell(args, &Report::of(args, run, count, None));
    }
    let Repeated { mut rounds, count } = played?;
    let all = All::of(&rounds, count, &turns, not_run);
    rounds.sort_by(|a, b| a.run.orders_per_s().total_cmp(&b.run.orders_per_s()));
    let middle = rounds.swap_remove(rounds.len() / 2).run;
    tell(args, &Report::of(args, middle, count, Some(all)))
}

impl All {
    fn of(rounds: &[Round], count: RoundCount, turns: &Turns<'_>, not_run: Vec<String>) -> Self {
        let codecs = turns.measured(rounds.iter().map(|round| &round.codecs), count);
        let each = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
        let orders = each(|round| round.run.orders_per_s());
        let counted = rounds.first().map_or(0, |round| round.run.client.check.counts.orders);
        let floor_secs = each(|round| round.floor.secs);
        let floor_orders: Vec<f64> = floor_secs.iter().map(|secs| counted as f64 / secs).collect();
        let encode = each(|round| 1e3 * round.run.encode_us());
        let decode = each(|round| 1e3 * round.run.decode_us());
        let row = |framework: &str, operation, ns: &[f64], ours: Option<&[f64]>| Row {
            framework: framework.to_owned(),
            operation,
            ns: median(ns),
            floor_ratio: turns::over(ns, &codecs.floor),
            ours_ratio: ours.map(|ours| turns::over(ns, ours)),
        };
        let mut rows = vec![row(OURS, ENCODE, &encode, None), row(OURS, DECODE, &decode, None)];
        for series in &codecs.series {
            let (operation, ours) = match series.operation {
                Operation::BuildEncode => ("encode, the codec alone", &encode),
                Operation::Decode => ("decode, the codec alone", &decode),
                _ => ("decode and validate, the codec alone", &decode),
            };
            let ours = (series.engine != OURS).then_some(&ours[..]);
            rows.push(row(&series.engine, operation, &series.ns, ours));
        }
        let mut all = Self {
            floor_orders_per_s: median(&floor_orders).round(),
            floor_ns: median(&codecs.floor),
            orders_per_s: median(&orders).round(),
            orders_ratio: turns::over(&orders, &floor_orders),
            rows,
            not_run,
            sentences: Vec::new(),
        };
        all.sentences = all.sentences(count);
        all
    }

    fn sentences(&self, count: RoundCount) -> Vec<String> {
        let Self { orders_per_s: orders, floor_orders_per_s: floor_orders, floor_ns, .. } = self;
        let mut sentences = vec![format!(
            "Orders a second: {orders:.0}, {} those of bare sockets ({floor_orders:.0})",
            self.orders_ratio.words()
        )];
        sentences.extend(self.rows.iter().map(|row| {
            let who = format!("{}, {}, {:.0} ns", row.framework, row.operation, row.ns);
            turns::sentence(&who, row.floor_ratio, row.ours_ratio)
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

/// Saves and shows it. Returns whether all is as it should be.
fn tell(args: &Args, report: &Report) -> Result<bool, String> {
    let json = save_json(&args.out, "hftest", report)?;
    if args.json {
        say(&json)?;
        return Ok(report.passed);
    }
    show(args, report)?;
    let of_the_check = report.check.faults();
    for fault in report.faults.iter().filter(|fault| !of_the_check.contains(fault)) {
        say(&format!("Self-check: FAILED: {fault}"))?;
    }
    Ok(report.passed)
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    let kept = report.rounds.kept;
    if kept > 1 {
        say(&format!("Of {kept} rounds the middle one by its orders a second:"))?;
    }
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
    all.sentences.iter().try_for_each(|sentence| say(sentence))
}
