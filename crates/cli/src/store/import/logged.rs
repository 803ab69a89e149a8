//! Compares the sequence numbers of a store with the last messages in a log.

use std::path::Path;

use transfix::{Message, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_quickfix::store::StoredSession;

use crate::input::{self, Failure, InputError, InputMessage, Place, Sink, parse};

/// Reads the log, and appends a text to the differences for each number that does not match.
pub(super) fn compare(
    log: &Path,
    session: &str,
    foreign: &mut StoredSession,
) -> Result<(), String> {
    let index = FieldIndex::default();
    let mut last = Last { session: session.to_owned(), index, next_in: None, next_out: None };
    match input::read(log, None, None, &mut last) {
        Ok(()) | Err(Failure::Enough) => {}
        Err(Failure::Read(error)) => return Err(error),
        Err(Failure::Write(error)) => return Err(error.to_string()),
    }
    let numbers =
        [("next_in", foreign.next_in, last.next_in), ("next_out", foreign.next_out, last.next_out)];
    for (name, stored, logged) in numbers {
        if let (Some(stored), Some(logged)) = (stored, logged)
            && stored != logged
        {
            let text = format!("{name} is {stored} in the store, but {logged} in the log");
            foreign.differences.push(text);
        }
    }
    if last.next_out.is_none() {
        let text = format!("{}: the log has no message that this session sent", log.display());
        foreign.differences.push(text);
    }
    Ok(())
}

/// Next sequence numbers of both sides, as far as the log has been read.
struct Last {
    session: String,
    index: FieldIndex,
    next_in: Option<u64>,
    next_out: Option<u64>,
}

impl Last {
    /// Returns true if the session sent the message, and false if it received the message. Returns
    /// `None` if the message belongs to another session.
    fn is_sent(&self, message: &Message<'_>) -> Option<bool> {
        let names = |sender: &[u8], target: &[u8]| {
            let sender = String::from_utf8_lossy(sender);
            let target = String::from_utf8_lossy(target);
            // In the session's name, SubIDs may follow each CompID, and a qualifier may follow at
            // the end.
            let rest = self.session.split_once('-').map_or("", |(_, rest)| rest);
            rest.strip_prefix(&*sender).is_some_and(|rest| {
                rest.starts_with(['-', '_']) && rest.contains(&format!("-{target}"))
            })
        };
        let sender = message.raw(tag::SENDER_COMP_ID)?;
        let target = message.raw(tag::TARGET_COMP_ID)?;
        match (names(sender, target), names(target, sender)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }
}

impl Sink for Last {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        let mut index = std::mem::take(&mut self.index);
        if let Ok(message) = parse(found.bytes, &mut index, CheckSumPolicy::Verify) {
            let number = |tag| {
                let text = std::str::from_utf8(message.raw(tag)?).ok()?;
                text.parse::<u64>().ok()
            };
            // Resent messages are skipped, because they have old sequence numbers.
            let again = message.raw(tag::POSS_DUP_FLAG) == Some(b"Y");
            let next = match message.msg_type().as_bytes() {
                b"4" => number(tag::NEW_SEQ_NO),
                _ if again => None,
                _ => number(tag::MSG_SEQ_NUM).and_then(|seq| seq.checked_add(1)),
            };
            match (self.is_sent(&message), next) {
                (Some(true), Some(next)) if !again => self.next_out = Some(next),
                (Some(false), Some(next)) if !again || self.next_in < Some(next) => {
                    self.next_in = Some(next);
                }
                _ => {}
            }
        }
        self.index = index;
        Ok(())
    }

    fn garbled(&mut self, _: Place, _: InputError) -> Result<(), Failure> {
        Ok(())
    }
}
