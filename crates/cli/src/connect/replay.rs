//! Sends the application messages of a log again.

use std::path::Path;

use transfix::{Tag, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex};

use super::vocabulary::Vocabulary;
use crate::input::{self, Failure, InputError, InputMessage, Place, Sink, parse};

/// MsgType(35) of the session-level messages, which a replay skips because the session sends its
/// own.
pub(super) const SESSION_TYPES: [&[u8]; 7] = [b"0", b"1", b"2", b"3", b"4", b"5", b"A"];

/// Function that sends one message, given its MsgType(35) and fields.
pub(super) type Send<'s> = dyn FnMut(&str, &[(Tag, Vec<u8>)]) -> Result<(), String> + 's;

/// Counts of the messages in the replayed log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) sent: u64,
    /// Number of skipped messages: session-level messages, and messages of the counterparty.
    pub(super) left_out: u64,
    /// Number of unreadable messages.
    pub(super) garbled: u64,
}

/// Sends those application messages of a log, a capture or a store whose SenderCompID(49) is the
/// session's own. Each message receives a new header and trailer.
pub(super) fn replay(
    path: &Path,
    (words, sender_comp_id): (&Vocabulary, &str),
    send: &mut Send<'_>,
) -> Result<Replayed, String> {
    // The file may grow during the replay, for instance by this session, so only the messages
    // present at the start are sent.
    let mut whole = Player::new(words, sender_comp_id);
    let first = input::read(path, None, None, &mut whole);
    let sends_max = whole.done.sent;
    let mut player = Player { send: Some(send), sends_max, ..Player::new(words, sender_comp_id) };
    match first.and_then(|()| input::read(path, None, None, &mut player)) {
        Ok(()) | Err(Failure::Enough) => {
            Ok(Replayed { left_out: whole.done.left_out, ..player.done })
        }
        Err(Failure::Read(error)) => Err(format!("{error} ({} sent)", player.done.sent)),
        Err(Failure::Write(error)) => Err(format!("{error} ({} sent)", player.done.sent)),
    }
}

struct Player<'p, 's> {
    words: &'p Vocabulary,
    sender_comp_id: &'p str,
    /// Function that sends each message; `None` only counts the messages.
    send: Option<&'p mut Send<'s>>,
    sends_max: u64,
    index: FieldIndex,
    done: Replayed,
}

impl<'p> Player<'p, '_> {
    /// Creates a player that counts the messages without sending them.
    fn new(words: &'p Vocabulary, sender_comp_id: &'p str) -> Self {
        let (index, done) = (words.index(), Replayed::default());
        Self { words, sender_comp_id, send: None, sends_max: u64::MAX, index, done }
    }
}

impl Sink for Player<'_, '_> {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        if self.done.sent == self.sends_max {
            return Err(Failure::Enough);
        }
        let Ok(message) = parse(found.bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            self.done.garbled += 1;
            return Ok(());
        };
        let msg_type = message.msg_type();
        let is_ours = message.raw(tag::SENDER_COMP_ID) == Some(self.sender_comp_id.as_bytes());
        if !is_ours || SESSION_TYPES.contains(&msg_type.as_bytes()) {
            self.done.left_out += 1;
            return Ok(());
        }
        let Some(send) = &mut self.send else {
            self.done.sent += 1;
            return Ok(());
        };
        let fields = (0..message.tags().len()).filter_map(|at| message.at(at));
        let fields = fields.filter(|field| !self.words.is_of_session(field.tag.0));
        let fields: Vec<_> = fields.map(|field| (field.tag, field.value.to_vec())).collect();
        let msg_type = String::from_utf8_lossy(msg_type.as_bytes());
        send(&msg_type, &fields).map_err(Failure::Read)?;
        self.done.sent += 1;
        Ok(())
    }

    fn garbled(&mut self, _: Place, _: InputError) -> Result<(), Failure> {
        self.done.garbled += 1;
        Ok(())
    }
}
