//! Describes the health of a store as text.

use std::fs;
use std::path::Path;

use transfix::SessionSettings;
use transfix_store::{Fault, FileStore, Survey};

use super::{count, size};
use crate::foreign::Foreign;

/// Returns the health of a store in a few words.
pub(super) fn health(dir: &Path, survey: &Survey) -> String {
    if !survey.faults.is_empty() {
        let places = count(survey.faults.len() as u64, "place");
        return format!("damaged in {places}, {}", lost(&survey.faults));
    }
    match FileStore::is_open(dir) {
        Ok(true) => "sound, in use by a process".to_owned(),
        Ok(false) if survey.unfinished_bytes > 0 => {
            format!("sound, with {} of an unfinished batch", size(survey.unfinished_bytes))
        }
        Ok(false) => "sound".to_owned(),
        Err(error) => format!("sound, but {error}"),
    }
}

/// Returns a note if the name of the directory does not match the name of the session in the store.
pub(super) fn misnamed(dir: &Path, survey: &Survey) -> Option<String> {
    // The directory of a longer session name has a shortened name with a checksum, so longer names
    // are not compared.
    const WHOLE_MAX: usize = 140;
    let session = &survey.session;
    let path = fs::canonicalize(dir).ok()?;
    let names = [dir.file_name(), path.file_name()];
    let is_named = names.into_iter().flatten().any(|name| name == session.as_str());
    let is_told = !session.is_empty() && session.len() < WHOLE_MAX && !is_named;
    is_told.then(|| {
        let (dir, session) = (dir.display(), Foreign(session));
        format!("{dir} belongs to the session {session}, but the directory has another name")
    })
}

/// Returns the session's name in the form of settings, logs and the administration. The stored name
/// is returned unchanged if no engine wrote it, or if it was shortened.
pub(super) fn session(survey: &Survey) -> String {
    let id = SessionSettings::id_of_store(&survey.session);
    id.map_or_else(|| survey.session.clone(), |id| id.to_string())
}

/// Describes the number of received messages in the store. If the number is 0, the store does not
/// record the cause: either `keep_inbound` is off, or no application message has arrived.
pub(super) fn received(survey: &Survey) -> String {
    match survey.numbers {
        Some(numbers) if survey.inbound == 0 && numbers.next_in > 1 => "none kept".to_owned(),
        _ => survey.inbound.to_string(),
    }
}

/// Summarizes the data lost by damage.
pub(super) fn lost(faults: &[Fault]) -> String {
    let sent: u64 =
        faults.iter().filter_map(|fault| fault.lost_outbound).map(|(a, b)| b - a + 1).sum();
    let bytes: u64 = faults.iter().map(|fault| fault.lost_bytes).sum();
    let mut parts = Vec::new();
    if sent > 0 {
        parts.push(format!("{} sent lost", count(sent, "message")));
    }
    if bytes > 0 {
        parts.push(format!("{} lost", size(bytes)));
    }
    if faults.iter().any(|fault| !fault.is_all_known) {
        parts.push(if parts.is_empty() { "loss not known" } else { "more not known" }.to_owned());
    }
    if parts.is_empty() { "nothing lost".to_owned() } else { parts.join(", ") }
}

/// Describes one damaged place and the data lost there.
pub(super) fn told(fault: &Fault) -> String {
    let (path, offset) = (fault.path.display(), fault.offset);
    let mut text = format!("{path}, byte {offset}: {}", fault.reason);
    if !fault.seen.is_empty() {
        text += &format!(": {}", fault.seen);
    }
    if fault.lost_bytes > 0 {
        text += &format!("; {} outside sound batches", size(fault.lost_bytes));
    }
    match fault.lost_outbound {
        Some((first, last)) if first == last => {
            text += &format!(
                "; the sent message {first} is \
            lost"
            )
        }
        Some((first, last)) => text += &format!("; the sent messages {first} to {last} are lost"),
        None => {}
    }
    if !fault.is_all_known {
        text += match fault.lost_outbound {
            Some(_) => "; further losses are unknown",
            None => "; the loss is unknown",
        };
    }
    text
}
