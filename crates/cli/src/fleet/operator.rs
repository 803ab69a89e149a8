//! Carries out the requests of an operator.

use std::fmt::Write as _;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use transfix::{FleetSettings, StoreError};
use transfix_stores::{FleetOperator, GatewayStatus};

use super::Verb;
use crate::input::{answered, failed};

pub(super) fn run(verb: &Verb) -> ExitCode {
    let (Verb::Create { settings: path }
    | Verb::Status { settings: path, .. }
    | Verb::Drain { settings: path, .. }
    | Verb::Resume { settings: path, .. }
    | Verb::Move { settings: path, .. }) = verb;
    let fleet = match FleetSettings::load(path) {
        Ok(Some(fleet)) => fleet,
        Ok(None) => return failed(&format!("{} has no section [fleet]", path.display())),
        Err(error) => return failed(&error.to_string()),
    };
    let operator = match verb {
        Verb::Create { .. } => FleetOperator::create(&fleet),
        _ => FleetOperator::connect(&fleet),
    };
    match operator.and_then(|operator| act(verb, &operator)) {
        Ok(text) => answered(&text),
        Err(error) => {
            eprintln!("transfix fleet: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(verb: &Verb, operator: &FleetOperator) -> Result<String, StoreError> {
    match verb {
        Verb::Create { .. } => Ok("the stream is ready\n".to_owned()),
        Verb::Status { session, .. } => {
            let gateways = operator.gateways()?;
            if gateways.is_empty() {
                return Err(StoreError::Own(std::io::Error::other("no gateway answers")));
            }
            Ok(shown(&gateways, session))
        }
        Verb::Drain { gateway, .. } => {
            operator.drain(gateway)?;
            Ok(format!("{gateway} is drained\n"))
        }
        Verb::Resume { gateway, .. } => {
            operator.resume(gateway)?;
            Ok(format!("{gateway} takes sessions over\n"))
        }
        Verb::Move { session, gateway, .. } => {
            operator.move_session(session, gateway)?;
            Ok(format!("{session} was released to {gateway}\n"))
        }
    }
}

/// Returns the gateways and their sessions as tables.
pub(crate) fn shown(gateways: &[GatewayStatus], part: &str) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["SESSION", "GATEWAY", "STATE", "IN", "OUT"]);
    let mut text = String::new();
    for gateway in gateways {
        let owned = gateway.sessions.iter().filter(|session| session.is_owner).count();
        let drained = if gateway.is_drained { ", drained" } else { "" };
        let (name, all) = (&gateway.gateway, gateway.sessions.len());
        // Errors are ignored, because writing to a `String` cannot fail.
        let _ = writeln!(text, "{name}: owns {owned} of {all} sessions{drained}");
    }
    let mut rows = Vec::new();
    for gateway in gateways {
        for session in gateway.sessions.iter().filter(|one| one.session.contains(part)) {
            let is_elsewhere = gateways.iter().any(|other| {
                other.sessions.iter().any(|one| one.session == session.session && one.is_owner)
            });
            if session.is_owner || !is_elsewhere {
                let owner = if session.is_owner { gateway.gateway.as_str() } else { "-" };
                let state = match (session.is_logged_on, session.is_owner) {
                    (true, _) => "logged on",
                    (false, true) => "disconnected",
                    (false, false) => "no gateway",
                };
                rows.push([
                    session.session.clone(),
                    owner.to_owned(),
                    state.to_owned(),
                    session.next_num_in.to_string(),
                    session.next_num_out.to_string(),
                ]);
            }
        }
    }
    // A gateway that was cut off may not know yet that it has lost a session.
    rows.sort_by_key(|row| (row[0].clone(), row[2] != "logged on"));
    rows.dedup_by(|one, other| one[0] == other[0]);
    table.add_rows(rows);
    let _ = writeln!(text, "\n{table}");
    text
}
