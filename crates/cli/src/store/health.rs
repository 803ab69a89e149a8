//! Whether a store is sound, in a few words and in many.

use std::path::Path;

use transfix::store::{Fault, FileStore, Survey};

use super::size;

/// A few words.
pub(super) fn health(dir: &Path, survey: &Survey) -> String {
    if !survey.faults.is_empty() {
        let lost = survey.faults.iter().map(|fault| fault.lost_bytes).sum();
        return format!("damaged in {} places, {} lost", survey.faults.len(), size(lost));
    }
    match FileStore::is_open(dir) {
        Ok(true) => "sound, open in a process".to_owned(),
        Ok(false) if survey.unfinished_bytes > 0 => {
            format!("sound, {} of an unfinished batch", size(survey.unfinished_bytes))
        }
        Ok(false) => "sound".to_owned(),
        Err(error) => format!("sound, but {error}"),
    }
}

/// One fault: where it is and what it has cost.
pub(super) fn told(fault: &Fault) -> String {
    let (path, offset) = (fault.path.display(), fault.offset);
    let mut text = format!("{path}, byte {offset}: {}", fault.reason);
    if fault.lost_bytes > 0 {
        text += &format!("; {} in no sound batch", size(fault.lost_bytes));
    }
    match fault.lost_outbound {
        Some((first, last)) if first == last => text += &format!("; message sent {first} is lost"),
        Some((first, last)) => text += &format!("; messages sent {first} to {last} are lost"),
        None => {}
    }
    text
}
