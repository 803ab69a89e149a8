//! `cargo xtask console`: tests the console of real engines in a browser, with the actions of an
//! operator.
//!
//! The engines run in the example `desk` of the crate transfix-admin. The browser is Debian's
//! Chromium, which chromedriver controls. Screenshots of all pages are stored in `target/console`.

mod browser;
mod desk;
mod look;
mod many;
mod operate;

use std::fs;
use std::path::PathBuf;

use crate::{Outcome, root};
use browser::Browser;
use desk::Desk;

/// The browser and the engines that one part of the test uses.
struct Stage<'s> {
    browser: &'s Browser,
    desk: &'s Desk,
}

/// A part of the test: its name, the number of sessions, and its function, which returns a text
/// with measurements.
type Part = (&'static str, usize, fn(&Stage<'_>) -> Result<String, String>);

/// The parts of the test in order of execution. The last part stops the engine.
const PARTS: &[Part] = &[
    ("log-in", 40, operate::log_in),
    ("table", 40, operate::table),
    ("text of a counterparty", 40, operate::hostile_text),
    ("actions", 40, operate::actions),
    ("dangerous actions", 40, operate::dangerous),
    ("what is refused", 40, operate::refused),
    ("messages", 40, look::messages),
    ("life of an order", 40, look::order),
    ("events", 40, look::events),
    ("other pages", 40, look::others),
    ("levels and logs", 40, operate::levels),
    ("roles", 40, operate::roles),
    ("keyboard alone", 40, operate::keyboard),
    ("pictures", 40, look::pictures),
    ("log-in ends", 40, operate::expired),
    ("2,000 sessions", 2_000, many::sessions),
    ("a session is removed", 40, operate::remove),
    ("the engine stops", 40, operate::stop),
];

/// Returns the directory for the screenshots.
fn pictures() -> PathBuf {
    root().join("target/console")
}

/// Runs the parts of the test; see [`crate`] for the options.
///
/// # Errors
/// Returns the first fault. The screenshot of that moment is `target/console/failed.png`.
pub fn run(args: &[String]) -> Outcome {
    let (mut only, mut is_shown) = (None, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match &**arg {
            "--only" => only = Some(args.next().ok_or("--only needs a text")?),
            "--show" => is_shown = true,
            other => return Err(format!("unknown option {other}; known are --only and --show")),
        }
    }
    let failed = |error: std::io::Error| format!("target/console: {error}");
    fs::create_dir_all(pictures()).map_err(failed)?;
    let browser = Browser::start(is_shown)?;
    let (mut desk, mut report) = (None::<Desk>, Vec::new());
    for (name, count, play) in PARTS {
        if only.is_some_and(|only| !name.contains(&**only)) {
            continue;
        }
        let kept = desk.take().filter(|desk| desk.count == *count);
        let now = match kept {
            Some(kept) => kept,
            None => Desk::start(*count)?,
        };
        let stage = Stage { browser: &browser, desk: &now };
        let measured = play(&stage).and_then(|said| browser.has_no_complaint().map(|()| said));
        let measured = measured.map_err(|why| {
            let _ = browser.picture("failed");
            let complaint = browser.has_no_complaint().err().unwrap_or_default();
            format!("{name}: {why}; {complaint}\nsee target/console/failed.png")
        })?;
        report.push(format!("{name}: good{measured}"));
        desk = Some(now);
    }
    if report.is_empty() {
        return Err("no part has this name".to_owned());
    }
    Ok(report.join("\n"))
}
