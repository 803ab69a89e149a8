//! Commands that observe and control a running engine.

use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::admin::shown;
use crate::foreign;
use crate::input::answered;

mod actions;
mod dynamic;
mod fix;
mod to;

pub(crate) use fix::FixTo;
use to::{ANSWER_MAX, Answer, encoded};
pub(crate) use to::{Failure, To};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Sessions(Sessions),
    Session(Session),
    Latency(Latency),
    Do(Do),
    Add(dynamic::Add),
    Change(dynamic::Change),
    Remove(dynamic::Remove),
    Messages(Messages),
    Events(Events),
    Audit(Audit),
    Certificates(Certificates),
    Ready(Ready),
    Levels(Levels),
    Reload(Reload),
    RotateLogs(RotateLogs),
    Stop(Stop),
    Xml(Xml),
}

/// Show all sessions, those with problems first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin sessions
  transfix admin sessions --problems --json | jq -r '.[].id'

Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Sessions {
    /// Show only sessions with a problem.
    #[arg(long)]
    problems: bool,
    #[command(flatten)]
    to: To,
}

/// Show one session with its latency and the next windows of its schedule.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin session 'FIX.4.4:VENUE->DESK'

Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Session {
    /// The session's identity, such as `FIX.4.4:VENUE->DESK`.
    id: String,
    #[command(flatten)]
    to: To,
}

/// Write the latency of one stage of a session in the format `.hgrm`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin latency 'FIX.4.4:VENUE->DESK' read_to_written > desk.hgrm

The plotter of HdrHistogram can draw the file. `transfix admin session` shows all stages as a table;
the page \"Latency\" of the book describes each stage.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Latency {
    /// The session's identity.
    id: String,
    /// The stage: found, session, callback, encoded, committed, written, read_to_callback,
    /// read_to_written, put_to_written, test_request.
    stage: String,
    #[command(flatten)]
    to: To,
}

/// Perform an action on a session, such as a logout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin do 'FIX.4.4:VENUE->DESK' log_out text='end of day'
  transfix admin do 'FIX.4.4:VENUE->DESK' log_on
  transfix admin do 'FIX.4.4:VENUE->DESK' resend_request begin=17
  transfix admin do 'FIX.4.4:VENUE->DESK' set_numbers next_in=5 next_out=9 \\
      --confirm 'FIX.4.4:VENUE->DESK'

Actions: log_on, log_out text=, disconnect, connect_to destination=, revive, heartbeat,
test_request id=, resend_request begin= end=, hold_sending, release_sending. With --confirm, and
only for an administrator: set_numbers next_in= next_out=, reset_at_next_logon, reset_in_session,
sequence_reset new_seq_no=, send msg_type= fields=, clear_queued.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Do {
    /// The session's identity.
    id: String,
    /// The action.
    action: String,
    /// Arguments of the action.
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
    /// The session's identity again, to confirm a dangerous action.
    #[arg(long, value_name = "ID")]
    confirm: Option<String>,
    #[command(flatten)]
    to: To,
}

/// Search the messages of a session's store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin messages 'FIX.4.4:VENUE->DESK' --limit 20
  transfix admin messages 'FIX.4.4:VENUE->DESK' --type D --field 55=EUR/USD

Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Messages {
    /// The session's identity.
    id: String,
    /// Only this MsgType(35).
    #[arg(long = "type", value_name = "MSG_TYPE")]
    msg_type: Option<String>,
    /// Only messages with this field.
    #[arg(long, value_name = "TAG=VALUE")]
    field: Option<String>,
    /// Only messages that contain this text.
    #[arg(long)]
    text: Option<String>,
    /// Only received messages (`in`) or sent messages (`out`).
    #[arg(long, value_parser = ["in", "out"])]
    direction: Option<String>,
    /// Only messages from this MsgSeqNum(34) on.
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Only messages up to this MsgSeqNum(34).
    #[arg(long, value_name = "SEQ")]
    to_seq: Option<u64>,
    /// Show at most this number, the newest.
    #[arg(long, short = 'n', default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    to: To,
}

/// Show the last events of the engine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin events --follow
  transfix admin events --session 'FIX.4.4:VENUE->DESK' -n 20

Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Events {
    /// Only events of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Show at most this number, the newest.
    #[arg(long, short = 'n', default_value_t = 100)]
    limit: u32,
    /// Continue with new events, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    to: To,
}

/// Show the last actions of operators.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin audit -n 20

`transfix audit verify FILE` checks that the file was not changed.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Audit {
    /// Show at most this number of lines, the newest.
    #[arg(long, short = 'n', default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    to: To,
}

/// Show the engine's own certificates and their last valid days.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin certificates

Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Certificates {
    #[command(flatten)]
    to: To,
}

/// Ask whether the engine is ready: its stores can be written and it accepts connections.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin ready

The command needs no token.
Exit code: 0 ready, 1 not ready or not reached, 2 wrong usage.")]
pub(crate) struct Ready {
    #[command(flatten)]
    to: To,
}

/// Make the program read its settings file again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin reload

Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Reload {
    #[command(flatten)]
    to: To,
}

/// Show the levels of the program's events, or set them until the next start or reload.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin levels
  transfix admin levels info,transfix::link=debug

Levels are off, error, warn, info, debug, trace; a part of the program is a module of its code. Only
an administrator may set levels. Each destination of [events] may have its own level, and never
receives events below it. The same holds for standard error, and for the console, which shows
`info`.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Levels {
    /// The new levels: one level, or also levels for parts of the program.
    set: Option<String>,
    #[command(flatten)]
    to: To,
}

/// Rotate the protocol logs and the event log now: begin new files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin rotate-logs

Exit code: 0 done, 1 refused, not reached, or a log was not rotated, 2 wrong usage.")]
pub(crate) struct RotateLogs {
    #[command(flatten)]
    to: To,
}

/// Log out all sessions and end the program.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin stop --confirm stop

Exit code: 0 the program is stopping, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Stop {
    /// Confirmation: the word `stop`.
    #[arg(long)]
    confirm: String,
    #[command(flatten)]
    to: To,
}

/// Send a command as XML over FIX, and print the answer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin --fix 127.0.0.1:9891 --user anna --password-file pw xml '<Help/>'
  transfix admin --fix 127.0.0.1:9891 --user anna xml '<SessionsList/>' < pw

The page \"FIX administration\" of the book describes all commands.
Exit code: 0 answered, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Xml {
    /// The command, as XML.
    xml: String,
    #[command(flatten)]
    to: To,
}

pub(super) fn run(verb: &Verb, over_fix: &FixTo) -> ExitCode {
    if over_fix.fix.is_some() {
        return ended(fix::run(verb, over_fix));
    }
    let text = match verb {
        Verb::Xml(_) => Err(Failure::Usage(
            "--fix HOST:PORT is missing; name the address of the \
                                administration over FIX"
                .to_owned(),
        )),
        Verb::Sessions(args) => sessions(args),
        Verb::Session(args) => {
            let path = format!("/api/sessions/{}", encoded(&args.id));
            shown(&args.to, &path, shown::session)
        }
        Verb::Latency(args) => {
            let (id, stage) = (encoded(&args.id), encoded(&args.stage));
            args.to.text(&format!("/api/sessions/{id}/latency/{stage}"))
        }
        Verb::Do(args) => perform(args),
        Verb::Add(args) => dynamic::add(args),
        Verb::Change(args) => dynamic::change(args),
        Verb::Remove(args) => dynamic::remove(args),
        Verb::Messages(args) => shown(&args.to, &messages(args), shown::messages),
        Verb::Events(args) => return events(args),
        Verb::Audit(args) => {
            shown(&args.to, &format!("/api/audit?limit={}", args.limit), shown::audit)
        }
        Verb::Certificates(args) => shown(&args.to, "/api/certificates", shown::certificates),
        Verb::Ready(args) => shown(&args.to, "/health/ready", |_| "ready\n".to_owned()),
        Verb::Levels(args) => levels(args),
        Verb::Reload(args) => asked(&args.to, "/api/engine/reload", &json!({})),
        Verb::RotateLogs(args) => asked(&args.to, "/api/engine/rotate-logs", &json!({})),
        Verb::Stop(args) => {
            asked(&args.to, "/api/engine/stop", &json!({ "confirm": args.confirm }))
        }
    };
    ended(text)
}

fn ended(text: Answer) -> ExitCode {
    match text {
        Ok(text) => answered(&text),
        Err(failure) => failure.exit(),
    }
}

/// Sends a GET request for `path`, and formats the answer with `show`.
fn shown(to: &To, path: &str, show: impl FnOnce(&Value) -> String) -> Answer {
    let answer = to.json("GET", path, None)?;
    Ok(if to.json { foreign::json(&answer) + "\n" } else { show(&answer) })
}

fn sessions(args: &Sessions) -> Answer {
    let mut sessions = args.to.sessions()?;
    sessions.retain(|one| !args.problems || !one["problem"].is_null());
    sessions.sort_by_key(|one| one["problem"].is_null());
    match args.to.json {
        true => Ok(foreign::json(&Value::Array(sessions)) + "\n"),
        false => Ok(shown::sessions(&sessions)),
    }
}

fn perform(args: &Do) -> Answer {
    let mut body = actions::object(args)?;
    if let Some(confirm) = &args.confirm {
        body.insert("confirm".to_owned(), confirm.clone().into());
    }
    let path = format!("/api/sessions/{}/actions", encoded(&args.id));
    let done = args.to.json("POST", &path, Some(&Value::Object(body)))?;
    Ok(match args.to.json {
        true => foreign::json(&done) + "\n",
        false => format!("done\n{}", shown::sessions(std::slice::from_ref(&done["session"]))),
    })
}

fn levels(args: &Levels) -> Answer {
    let path = "/api/events/levels";
    let answer = match &args.set {
        None => args.to.json("GET", path, None)?,
        Some(levels) => args.to.json("PUT", path, Some(&json!({ "levels": levels })))?,
    };
    Ok(match args.to.json {
        true => foreign::json(&answer) + "\n",
        false => format!("{}\n", answer["said"].as_str().unwrap_or_default()),
    })
}

fn asked(to: &To, path: &str, body: &Value) -> Answer {
    Ok(said(&to.json("POST", path, Some(body))?))
}

/// Returns the description in the program's answer as one line.
fn said(done: &Value) -> String {
    format!("{}\n", done["said"].as_str().unwrap_or("done"))
}

fn messages(args: &Messages) -> String {
    let mut path = format!("/api/sessions/{}/messages?limit={}", encoded(&args.id), args.limit);
    let texts = [
        ("msg_type", &args.msg_type),
        ("field", &args.field),
        ("text", &args.text),
        ("direction", &args.direction),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            path += &format!("&{name}={}", encoded(value));
        }
    }
    for (name, value) in [("seq_from", args.from), ("seq_to", args.to_seq)] {
        if let Some(value) = value {
            path += &format!("&{name}={value}");
        }
    }
    path
}

fn events(args: &Events) -> ExitCode {
    let mut last = 0;
    loop {
        // The loop first prints the kept events, which include those that occurred while no stream
        // was open.
        let goes_on = kept_events(args, &mut last).and_then(|goes_on| match goes_on {
            true if args.follow => coming_events(args, &mut last),
            _ => Ok(false),
        });
        match goes_on {
            Ok(true) => {}
            Ok(false) => return ExitCode::SUCCESS,
            Err(error) => return ended(Err(error)),
        }
    }
}

/// Prints an event. Returns `false` if standard output is closed.
fn show_event(args: &Events, event: &Value) -> bool {
    let line = match args.to.json {
        true => foreign::json_line(event) + "\n",
        false => shown::event(event),
    };
    stdout().write_all(line.as_bytes()).is_ok()
}

/// Prints the kept events after the event `last`. Returns `false` if standard output is closed.
fn kept_events(args: &Events, last: &mut u64) -> Result<bool, Failure> {
    let mut path = format!("/api/events?limit={}&after={last}", args.limit);
    if let Some(session) = &args.session {
        path += &format!("&session={}", encoded(session));
    }
    let answer = args.to.json("GET", &path, None)?;
    for event in answer["events"].as_array().into_iter().flatten() {
        *last = event["n"].as_u64().unwrap_or_default();
        if !show_event(args, event) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Prints events as they occur, until the engine closes the stream. Returns `false` if standard
/// output is closed.
fn coming_events(args: &Events, last: &mut u64) -> Result<bool, Failure> {
    let mut answer = args.to.ask("GET", "/api/events/stream", None, None)?;
    for line in BufReader::new(answer.body_mut().as_reader()).lines() {
        let Ok(line) = line else { break };
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let Ok(event @ Value::Object(_)) = serde_json::from_str(data) else { continue };
        let n = event["n"].as_u64().unwrap_or_default();
        let is_wanted = args.session.as_ref().is_none_or(|id| event["session"] == **id);
        if n > *last && is_wanted && !show_event(args, &event) {
            return Ok(false);
        }
        *last = n.max(*last);
    }
    Ok(true)
}
