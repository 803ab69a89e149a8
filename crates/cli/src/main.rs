//! `transfix`: one program to try, run and test FIX sessions. Each command has its own file.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program prints its \
    output"
)]

mod admin;
mod administered;
mod audit;
mod bench;
#[cfg(test)]
mod book;
mod check;
mod codes;
mod connect;
mod convert;
mod demo;
mod dictionary;
mod events;
mod fleet;
mod foreign;
mod generate;
mod input;
mod logs;
mod migrate;
mod not_started;
mod pages;
mod password;
mod peer;
mod play;
mod print;
mod run;
mod schedule;
mod serve;
mod settings;
mod show;
mod store;
mod suits;
#[cfg(feature = "tls")]
mod tls;
mod top;
mod venue;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use events::{OnStderr, Rejects};

/// A FIX engine on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "transfix",
    version,
    after_help = "Examples:
  transfix demo
  transfix dictionary FIX44 NewOrderSingle
  transfix print today.log
  transfix bench latency --self --config optimized-hard-spin

Exit codes: 0 done, 1 failed, 2 wrong usage or input that cannot be read. `transfix VERB --help`
explains a verb; `transfix --version --verbose` shows how the program was built."
)]
struct Cli {
    /// Show all events of the engine on standard error, not only warnings.
    #[arg(long, short, global = true, display_order = 1_000)]
    verbose: bool,
    /// Format of events and warnings on standard error.
    #[arg(long, global = true, value_enum, value_name = "FORM", display_order = 1_001)]
    events: Option<events::Form>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show how a venue and a client trade, lose the connection and recover; measure their latency.
    Demo(demo::Args),
    /// Run a small matching venue from a settings file.
    Serve(serve::Args),
    Run(run::Args),
    /// Run a test client from a settings file, with commands from the keyboard or a script.
    Connect(connect::Args),
    Play(play::Args),
    Bench(bench::Args),
    /// Show the definitions of FIX: versions, messages, fields.
    Dictionary(dictionary::Args),
    Codes(codes::Args),
    /// Generate Rust code for the messages of a dictionary, and a program that uses them.
    Generate(generate::Args),
    /// Print messages from a capture, a Transfix journal or a QuickFIX log in readable form.
    Print(print::Args),
    /// Search logs, captures and journals by field, text, session or time; show orders, gaps and
    /// latency.
    Logs(logs::Args),
    /// Check the messages of a capture, a log or a Transfix journal against a dictionary.
    Check(check::Args),
    Settings(settings::Args),
    /// Show the times at which the sessions of a settings file open and close.
    Schedule(schedule::Args),
    /// Convert messages to JSON and back, and to Parquet.
    Convert(convert::Args),
    /// Convert QuickFIX settings to Transfix settings, with a report on each key.
    Migrate(migrate::Args),
    Password(password::Args),
    #[cfg(feature = "tls")]
    Tls(tls::Args),
    /// Show, check, repair, import and export the stores of sessions.
    Store(store::Args),
    Admin(admin::Args),
    Fleet(fleet::Args),
    Top(top::Args),
    Audit(audit::Args),
    Completions(pages::Completions),
    Man(pages::Man),
    /// A counterparty for tests, controlled by lines on standard input.
    #[command(hide = true)]
    Peer(peer::Args),
}

fn main() -> ExitCode {
    if let Some(code) = pages::version() {
        return code;
    }
    let cli = Cli::parse();
    // The event is suppressed for `connect`, which prints rejected messages itself.
    let rejects = match cli.verb {
        Verb::Connect(_) if !cli.verbose => Rejects::Elsewhere,
        _ => Rejects::Shown,
    };
    events::note(OnStderr { is_verbose: cli.verbose, rejects, form: cli.events });
    let opened = match cli.verb {
        // These commands open the event destinations after they have read their settings.
        Verb::Connect(_) | Verb::Serve(_) | Verb::Run(_) => {
            events::keep();
            Ok(())
        }
        // `peer` writes its own log file, and the benchmarks run as a separate program, so no
        // destinations are opened here.
        Verb::Peer(_) | Verb::Bench(_) => Ok(()),
        // The faults of `demo fleet` cause many warnings, which are its purpose.
        Verb::Demo(ref demo) if demo.is_of_fleet() && !cli.verbose => Ok(()),
        _ => events::open(None),
    };
    let code = match opened {
        Ok(()) if cli.events.is_some() && matches!(cli.verb, Verb::Bench(_)) => {
            eprintln!("transfix bench: --events has no effect here; remove --events");
            ExitCode::from(2)
        }
        Ok(()) => run(cli.verb, cli.verbose),
        Err(why) => {
            eprintln!("transfix: {}", foreign::lines(&why.to_string()));
            ExitCode::FAILURE
        }
    };
    events::finish();
    code
}

fn run(verb: Verb, is_verbose: bool) -> ExitCode {
    match verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Serve(args) => serve::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Connect(args) => connect::run(&args),
        Verb::Play(args) => play::run(&args),
        Verb::Bench(args) => bench::run(&args, is_verbose),
        Verb::Dictionary(args) => dictionary::run(&args),
        Verb::Codes(args) => codes::run(&args),
        Verb::Generate(args) => generate::run(&args),
        Verb::Print(args) => print::run(&args),
        Verb::Logs(args) => logs::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Settings(args) => settings::run(&args),
        Verb::Schedule(args) => schedule::run(&args),
        Verb::Convert(args) => convert::run(&args),
        Verb::Migrate(args) => migrate::run(&args),
        Verb::Password(args) => password::run(&args),
        #[cfg(feature = "tls")]
        Verb::Tls(args) => tls::run(&args),
        Verb::Store(args) => store::run(&args),
        Verb::Admin(args) => admin::run(&args),
        Verb::Fleet(args) => fleet::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Completions(args) => pages::completions(&args, Cli::command()),
        Verb::Man(args) => pages::man(&args, Cli::command()),
        Verb::Peer(args) => peer::run(&args),
    }
}
