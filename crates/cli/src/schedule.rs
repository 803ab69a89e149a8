//! `transfix schedule`: prints the next times at which the sessions of a settings file open and
//! close.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use transfix::schedule::{Interval, NumbersAtOpening, Outside, Schedule};
use transfix::{SessionSettings, Settings, Timestamp, clock};

use crate::input::{answered, failed};

const EXAMPLES: &str = "\
Examples:
  transfix schedule venue.toml                           the next five windows of each session
  transfix schedule venue.toml --count 20 --session DESK
  transfix schedule venue.toml --from 20270328-00:00:00  around the start of daylight saving time

A session of the settings has, for instance:
  schedule = { zone = \"America/New_York\", days = \"mon-fri\", from = \"08:00\", to = \"17:00\" }
  schedule = { zone = \"UTC\", from = \"sun 17:00\", to = \"fri 17:00\", numbers = \"keep\" }
  schedule = { zone = \"Asia/Tokyo\", holidays = [\"2027-01-01\", \"jpx.txt\"], windows = [
    { days = \"mon-fri\", from = \"08:00\", to = \"11:30\" },
    { open = \"30 12 * * mon-fri\", close = \"0 15 * * *\" } ] }

Exit code: 0 done, 2 wrong usage or settings that cannot be read.";

/// Show the times at which the sessions of a settings file open and close.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Settings file.
    settings: PathBuf,
    /// Number of windows to show for each session.
    #[arg(long, short = 'n', default_value_t = 5, value_name = "N")]
    count: usize,
    /// Only sessions whose identity contains this text.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    session: String,
    /// Start time in UTC, such as 20270328-00:00:00. Default: now.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text.as_bytes()).ok_or_else(|| "write it as 20270328-00:00:00".to_owned())
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let text = match Settings::load(&args.settings) {
        Ok(settings) => answer(args, &settings),
        Err(error) => return failed(&error.to_string()),
    };
    match text {
        Ok(text) => answered(&text),
        Err(error) => failed(&error),
    }
}

fn answer(args: &Args, settings: &Settings) -> Result<String, String> {
    let from = args.from.unwrap_or_else(|| clock::now().utc);
    let sessions = settings.sessions.iter();
    let mut all = sessions.filter(|s| s.id().to_string().contains(&args.session)).peekable();
    if all.peek().is_none() {
        return Err(format!("no session has `{}` in its identity", args.session));
    }
    all.map(|session| describe(args, session, from)).collect()
}

/// Describes the next opening or closing of the session, in one line.
pub(crate) fn next(session: &SessionSettings, from: Timestamp) -> Result<String, String> {
    let Some(settings) = &session.schedule else {
        return Ok("always open".to_owned());
    };
    let schedule = Schedule::new(settings).map_err(|error| error.to_string())?;
    let Some(window) = schedule.intervals(from).next() else {
        return Ok("never opens again".to_owned());
    };
    let (what, at) = match schedule.at(from) {
        Some(_) => ("open, closes", window.close),
        None => ("closed, opens", window.open),
    };
    Ok(format!("{what} {} ({})", schedule.local_text(at), schedule.zone()))
}

fn describe(args: &Args, session: &SessionSettings, from: Timestamp) -> Result<String, String> {
    let id = session.id();
    let Some(settings) = &session.schedule else {
        return Ok(format!("{id}: no schedule, always open\n\n"));
    };
    let schedule = Schedule::new(settings).map_err(|error| format!("{id}: {error}"))?;
    let numbers = match schedule.numbers() {
        NumbersAtOpening::Restart => "numbers restart at 1 with each window",
        NumbersAtOpening::Keep => "numbers go on",
    };
    let outside = match schedule.outside() {
        Outside::Disconnect => "disconnected outside",
        Outside::Reject(_) => {
            "stays connected outside the windows, but then rejects application \
                               messages"
        }
    };
    let now = schedule.at(from).map_or("closed", |_| "open");
    let mut text = format!("{id}: {now}; {}; {numbers}; {outside}\n", schedule.zone());
    let mut table = Table::new();
    let header = ["opens", "closes", "opens (UTC)", "closes (UTC)", "lasts"];
    table.load_style(presets::NOTHING).set_header(header);
    for window in schedule.intervals(from).take(args.count) {
        let ends = [window.open, window.close];
        let [open, close] = ends.map(|moment| schedule.local_text(moment));
        let [open_utc, close_utc] = ends.map(|moment| moment.to_string()[..17].to_owned());
        table.add_row([open, close, open_utc, close_utc, lasts(window)]);
    }
    // Writing to a `String` never fails.
    let _ = writeln!(text, "{table}\n");
    Ok(text)
}

/// Formats the length of a session window, such as `8 h 30 min`.
fn lasts(window: Interval) -> String {
    let seconds = window.close.since(window.open) / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let parts = [(hours, "h"), (minutes, "min"), (seconds, "s")];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}"));
    parts.collect::<Vec<_>>().join(" ")
}
