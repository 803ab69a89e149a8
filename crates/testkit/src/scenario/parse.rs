//! Parses the text of a scenario.

use std::time::Duration;

use super::{Line, Operation, Scenario, Side, Step, Version};

pub(super) fn scenario(name: &str, text: &str) -> Result<Scenario, String> {
    let mut lines = (1..).zip(text.lines());
    let title = lines.next().map_or("", |(_, line)| line.trim()).to_owned();
    let mut why = Vec::new();
    for (_, line) in lines.by_ref().take_while(|(_, line)| !line.trim().is_empty()) {
        why.push(line.trim());
    }
    if title.is_empty() || why.is_empty() {
        return Err("line 1: begin with a title and a line that says why".to_owned());
    }
    let mut scenario = Scenario {
        name: name.to_owned(),
        title,
        why: why.join(" "),
        versions: Vec::new(),
        side: Side::Acceptor,
        both_sides: false,
        settings: String::new(),
        engine: String::new(),
        unset: Vec::new(),
        not_in: Vec::new(),
        steps: Vec::new(),
    };
    for (number, line) in lines {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |error: String| format!("line {number}: {error}");
        if !scenario.steps.is_empty() || !head(&mut scenario, line).map_err(at)? {
            scenario.steps.push(step(number, line).map_err(at)?);
        }
    }
    if scenario.versions.is_empty() {
        return Err("the line `versions:` is missing".to_owned());
    }
    // A scenario needs at least one expected event, because otherwise it tests nothing.
    let shows = |line: &Line| !matches!(line.step, Step::In(_) | Step::Connect | Step::Wait(_));
    if !scenario.steps.iter().any(shows) {
        return Err("it expects nothing".to_owned());
    }
    Ok(scenario)
}

/// Parses a line of the file's header. Returns false if the line does not belong to the header.
fn head(scenario: &mut Scenario, line: &str) -> Result<bool, String> {
    let Some((key, value)) = line.split_once(':') else { return Ok(false) };
    let value = value.trim();
    match key {
        "versions" => scenario.versions = Version::list(value)?,
        "role" => {
            scenario.side = match value {
                "acceptor" => Side::Acceptor,
                "initiator" => Side::Initiator,
                "both" => {
                    scenario.both_sides = true;
                    Side::Acceptor
                }
                _ => return Err(format!("{value:?} is no role")),
            }
        }
        "set" => {
            scenario.settings.push_str(value);
            scenario.settings.push('\n');
        }
        "engine" => {
            scenario.engine.push_str(value);
            scenario.engine.push('\n');
        }
        "unset" => scenario.unset.push(value.to_owned()),
        _ => match key.strip_prefix("not in ") {
            Some(world) => scenario.not_in.push((world.to_owned(), value.to_owned())),
            None => return Ok(false),
        },
    }
    Ok(true)
}

fn step(number: usize, line: &str) -> Result<Line, String> {
    let (versions, text) = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((versions, rest)) => (Some(Version::list(versions)?), rest.trim()),
        None => (None, line),
    };
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let owned = rest.to_owned();
    let step = match verb {
        "connect" => Step::Connect,
        "logon" => Step::Logon(owned),
        "in" => Step::In(owned),
        "raw" => Step::Raw(owned),
        "out" => Step::Out(owned),
        "rejects" => Step::Rejects(owned),
        "app" => Step::App(owned),
        "returned" => Step::Returned(owned),
        "silence" => Step::Silence,
        "closed" => Step::Closed(owned),
        "close" => Step::Close,
        "intrude" => Step::Intrude(owned),
        "wait" => Step::Wait(duration(rest)?),
        "send" => match rest.split_once(" => ") {
            Some((fields, words)) => Step::Send(fields.to_owned(), Some(words.to_owned())),
            None => Step::Send(owned, None),
        },
        "operator" => Step::Operate(operation(rest)?),
        "numbers" => {
            let (next_in, next_out) = rest.split_once(' ').ok_or("numbers IN OUT")?;
            Step::Numbers(whole(next_in)?, whole(next_out)?)
        }
        _ => return Err(format!("{verb:?} is no step")),
    };
    Ok(Line { number, text: line.to_owned(), versions, step })
}

fn operation(text: &str) -> Result<Operation, String> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok(match verb {
        "logout" => Operation::Logout(rest.to_owned()),
        "disconnect" => Operation::Disconnect,
        "test-request" => Operation::TestRequest(rest.to_owned()),
        "resend-request" => {
            let (begin, end) = rest.split_once(' ').ok_or("resend-request BEGIN END")?;
            Operation::ResendRequest(whole(begin)?, whole(end)?)
        }
        "sequence-reset" => Operation::SequenceReset(whole(rest)?),
        "reset-at-logon" => Operation::ResetAtLogon,
        "reset-in-session" => Operation::ResetInSession,
        "next-in" => Operation::NextIn(whole(rest)?),
        "next-out" => Operation::NextOut(whole(rest)?),
        "restart" => Operation::Restart,
        _ => return Err(format!("{verb:?} is nothing that an operator does")),
    })
}

fn whole(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

fn duration(text: &str) -> Result<Duration, String> {
    match (text.strip_suffix("ms"), text.strip_suffix('s'), text.strip_suffix("min")) {
        (Some(ms), ..) => Ok(Duration::from_millis(whole(ms)?)),
        (_, Some(s), _) => Ok(Duration::from_secs(whole(s)?)),
        (_, _, Some(min)) => Ok(Duration::from_mins(whole(min)?)),
        _ => Err(format!("{text:?} is no time; write 5s, 200ms or 2min")),
    }
}
