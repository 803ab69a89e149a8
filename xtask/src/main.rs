//! The program behind `cargo xtask`: runs the command that its first argument names.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use xtask::{
    Outcome, book, campaign, clocks, console, crash, dictionaries, docs, figures, fleet, fuzz,
    hostile, instructions, journald, metrics, openapi, package, peers, pgo, sanitize, scenarios,
    sessions, simulate, tidy,
};

const USAGE: &str = "usage: cargo xtask VERB

verbs:
  book                                   build the book with mdBook, and look whether all is there
  campaign [--short [--since REVISION]] [NAME...]
                                         run all long checks: processes killed, worlds, faults,
                                         fuzzing, sanitizers, benchmarks; or a short form of
                                         those whose subject has changed
  clocks [--short]                       run the tests that ask for the time at bad times of day
  console [--only TEXT] [--show]         drive Chromium through the console of real engines;
                                         screenshots go to target/console
  crash [--loops N] [--seed S]           kill real processes under load, compare their journals
  dictionaries [--check] [--source DIR]  write dictionaries/*.xml from the published files,
                                         and list where the sources disagree
  docs                                   write the pages that are made from tables
  figures [--write | --record all|NAME... [--short]]
                                         compare README.md, BENCHMARKS.md and COMPARE.md with
                                         what was recorded; write them; measure anew
  fleet [--short] [OPTIONS]              measure the recovery from each fault, with real NATS
                                         servers and PostgreSQL; OPTIONS are those of `transfix
                                         demo fleet`
  fuzz [--seconds 60] [TARGET...]        run the fuzz targets, each for so many seconds
  hostile [--list] [--only TEXT] [--plain | --tls] [--short]
                                         attack a real server in many ways, over TCP and TLS,
                                         while an honest counterparty trades
  instructions [--record | hostile | profile [--record]]
                                         count the instructions of one turn of a link and of its
                                         parts, of bytes that are made to cost much; say where
                                         those of a turn are spent
  journald                               let a real journald take the events of a venue
  package [--unprofiled] [--without-test] | package --container
                                         make the Debian package, pages, SBOM and release notes;
                                         install, run and remove it in a system of its own; build
                                         the container file and run the image, with buildah
  metrics                                let a real Prometheus read the metrics of a venue, and
                                         evaluate the dashboard and the alerts of packaging/
  openapi [--time SECONDS] [--seed N]    let a fuzzer ask a venue all that its openapi.json allows
  peers build | peers acceptors [--only PART] | peers test [OPTIONS] | peers stores
                                         build other engines; prove those that benchmarks ask; play
                                         sessions with QuickFIX C++; test the stores in databases
  peers programs                         run the tests whose counterparty is a program such as
                                         haproxy or openssl
  pgo                                    build `transfix` with a profile of its own work
  sanitize [--short]                     run the codec's tests under AddressSanitizer and others
  scenarios [--world W]... [--filter F]  play the scenarios of testdata/scenarios, in the worlds
                                         pure, loopback and quickfix
  sessions [N] [--seconds S] [--durability memory|process]
                                         measure a venue with many sessions that do little
  simulate [--seed N] [--worlds M] [--kind KIND] | --faults | --fault NAME
                                         run simulated worlds; show that faults are seen
  tidy [--prose [PATH]]                  check the rules of the project's style, or list the
                                         sentences that are hard to read";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (verb, args) = args.split_first().map_or(("", &[][..]), |(verb, rest)| (verb, rest));
    let outcome: Outcome = match verb {
        // These commands print their own progress and results.
        "peers" => return peers::main(args),
        "scenarios" => return scenarios::main(args),
        "book" => book::run(args),
        "campaign" => campaign::run(args),
        "clocks" => clocks::run(args),
        "console" => console::run(args),
        "crash" => crash::run(args),
        "dictionaries" => dictionaries::run(args),
        "docs" => docs::run(),
        "figures" => figures::run(args),
        "fleet" => fleet::run(args),
        "fuzz" => fuzz::run(args),
        "hostile" => hostile::run(args),
        "instructions" => instructions::run(args),
        "journald" => journald::run(args),
        "package" => package::run(args),
        "metrics" => metrics::run(args),
        "openapi" => openapi::run(args),
        "pgo" => pgo::run(args),
        "sanitize" => sanitize::run(args),
        "sessions" => sessions::run(args),
        "simulate" => simulate::run(args),
        "tidy" => tidy::run_with(args),
        _ => Err(USAGE.to_owned()),
    };
    // The error is ignored, because the reader has closed the pipe.
    match outcome {
        Ok(report) => {
            let _ = writeln!(std::io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
