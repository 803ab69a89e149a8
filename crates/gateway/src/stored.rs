//! Searches the store of a target session for copies of messages, by their fields.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use transfix::{Durability, Settings, Tag, tag};
use transfix_store::journal::{self, Direction, Event};
use transfix_store::{Kind, StoreError};

use super::mark::mark;
use super::written::named;

/// The messages that a session has sent from a certain number on, as its store contains them.
pub(super) struct StoredCopies {
    /// The numbers of sent messages, by the hash of their fields.
    by_copy: HashMap<u64, Vec<u64>>,
    by_number: BTreeMap<u64, u64>,
    /// The last reset among the records read.
    reset_ns: Option<u64>,
}

impl StoredCopies {
    /// Reads a store back to number `least`. `added` are the fields that sessions add to outbound
    /// messages.
    ///
    /// # Errors
    /// If the store cannot be read, so that its messages are unknown.
    pub(super) fn read(dir: &Path, least: u64, added: &BTreeSet<Tag>) -> Result<Self, StoreError> {
        let (mut by_number, mut reset_ns) = (BTreeMap::new(), None);
        for segment in journal::segments(dir)?.iter().rev() {
            let mut first = None;
            for entry in journal::read_file(segment)? {
                let entry = entry?;
                if entry.event == Event::Reset {
                    reset_ns = reset_ns.max(Some(entry.time_ns));
                }
                let Some((Direction::Outbound, message)) = entry.message() else { continue };
                first = first.or(Some(message.seq));
                if message.kind == Kind::Application && message.seq >= least {
                    let copy = mark(&lasting_fields(&message.bytes, added));
                    by_number.entry(message.seq).or_insert(copy);
                }
            }
            if first.is_some_and(|first| first < least) {
                break;
            }
        }
        let mut by_copy: HashMap<u64, Vec<u64>> = HashMap::new();
        for (number, copy) in &by_number {
            by_copy.entry(*copy).or_default().push(*number);
        }
        Ok(Self { by_copy, by_number, reset_ns })
    }

    pub(super) fn was_reset_since(&self, at_ns: u64) -> bool {
        self.reset_ns.is_some_and(|reset_ns| reset_ns >= at_ns)
    }

    /// Returns true if the message with this number has the hash `copy`.
    pub(super) fn is(&self, number: u64, copy: u64) -> bool {
        self.by_number.get(&number) == Some(&copy)
    }

    /// Returns the numbers, from `least` on, of messages with the hash `copy`.
    pub(super) fn numbers(&self, copy: u64, least: u64) -> impl Iterator<Item = u64> {
        let numbers = self.by_copy.get(&copy).into_iter().flatten().copied();
        numbers.filter(move |number| *number >= least)
    }
}

/// Returns the path of a target's store. Returns `None` if the store is not on disk, or does not
/// keep all outbound messages.
pub(super) fn store_of(settings: &Settings, name: &str) -> Option<PathBuf> {
    settings.sessions.iter().find_map(|session| {
        let id = named(&session.id(), name)?;
        let keeps = session.store.durability != Durability::Memory
            && session.store.keep_outbound
            && !session.failover.own_store;
        let mut own = session.clone();
        own.target_comp_id = id.target_comp_id.to_string();
        keeps.then(|| own.store_path())
    })
}

/// Returns the tags of fields that sessions add to outbound messages by their settings.
pub(super) fn added_tags(settings: &Settings) -> BTreeSet<Tag> {
    let of_session = settings.sessions.iter().map(|session| &session.protocol);
    of_session
        .flat_map(|own| own.header_fields.iter().chain(&own.body_fields))
        .map(|f| f.0)
        .collect()
}

/// Returns those fields of a message, or of a part of one, that stay the same in other sessions and
/// in resends. Leaves out fields of the session layer, PossResend(97), RefSeqNum(45), and the
/// fields `left_out`.
pub(super) fn lasting_fields(bytes: &[u8], left_out: &BTreeSet<Tag>) -> Vec<u8> {
    let mut lasting = Vec::with_capacity(bytes.len());
    for field in bytes.split_inclusive(|byte| *byte == 1) {
        let digits = field.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0_u32, |number, digit| {
            number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
        });
        let own = Tag(number);
        let is_left_out = tag::stays_with_session(own)
            || own == tag::POSS_RESEND
            || own == tag::REF_SEQ_NUM
            || left_out.contains(&own);
        if !is_left_out {
            lasting.extend_from_slice(field);
        }
    }
    lasting
}
