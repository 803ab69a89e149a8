//! Finds the messages of an order under all of its identifiers.
//!
//! A replacement gives an order a new ClOrdID(11) and names the previous ClOrdID(11) in
//! OrigClOrdID(41). The venue assigns OrderID(37).

use std::collections::BTreeSet;
use std::path::PathBuf;

use transfix::{Message, Tag, clock};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_store::StoreError;
use transfix_store::journal::Event;

use crate::journals::each_entry;

/// Tags of the fields that identify an order: ClOrdID(11), OrigClOrdID(41) and OrderID(37).
const NAMES: [Tag; 3] = [Tag(11), Tag(41), Tag(37)];
/// Maximum number of identifiers of an order.
const NAMES_MAX: usize = 200;
/// Maximum number of passes over the journal; each pass can find more identifiers.
const READINGS_MAX: usize = 8;

/// The known identifiers of an order.
pub(crate) struct Order {
    names: BTreeSet<Vec<u8>>,
}

impl Order {
    pub(crate) fn of(name: &str) -> Self {
        Self { names: BTreeSet::from([name.as_bytes().to_vec()]) }
    }

    /// Searches the segments for further identifiers of the order, until a pass finds none. Returns
    /// false if the time limit or the maximum number of passes was reached first.
    pub(crate) fn complete(
        &mut self,
        segments: &[PathBuf],
        until_ns: u64,
        index: &mut FieldIndex,
    ) -> Result<bool, StoreError> {
        for _ in 0..READINGS_MAX {
            let before = self.names.len();
            for path in segments {
                let is_whole = each_entry(path, until_ns, |entry| match entry.event {
                    Event::Inbound(message) | Event::Outbound(message) => {
                        self.learn(&message.bytes, index);
                    }
                    _ => {}
                })?;
                if !is_whole || clock::monotonic_ns() > until_ns {
                    return Ok(false);
                }
            }
            if self.names.len() == before {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the message belongs to the order.
    pub(crate) fn has(&self, frame: &[u8], index: &mut FieldIndex) -> bool {
        names(frame, index).iter().any(|name| self.names.contains(name))
    }

    fn learn(&mut self, frame: &[u8], index: &mut FieldIndex) {
        let found = names(frame, index);
        if found.iter().any(|name| self.names.contains(name)) {
            let room = NAMES_MAX.saturating_sub(self.names.len());
            self.names.extend(found.into_iter().take(room));
        }
    }
}

/// Returns the order identifiers in a message, except `NONE`, which venues write for an unknown
/// order.
fn names(frame: &[u8], index: &mut FieldIndex) -> Vec<Vec<u8>> {
    let Ok(message) = Message::parse(frame, index, CheckSumPolicy::Ignore) else {
        return Vec::new();
    };
    let fields = message.fields().filter(|field| NAMES.contains(&field.tag));
    let named = fields.filter(|field| !field.value.is_empty() && field.value != b"NONE");
    named.map(|field| field.value.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(fields: &str) -> Vec<u8> {
        let body = format!("35=8|34=1|{fields}|").replace('|', "\x01");
        format!("8=FIX.4.4\x019={}\x01{body}10=000\x01", body.len()).into_bytes()
    }

    #[test]
    fn an_order_has_the_names_of_its_replacements() {
        let (mut order, mut index) = (Order::of("c"), FieldIndex::default());
        let life = ["11=a|37=7", "11=b|41=a|37=7", "11=c|41=b", "11=d|37=NONE", "11=e|37=8"];
        // The search starts at the last identifier, and each pass finds an earlier one.
        for _ in 0..2 {
            life.iter().for_each(|fields| order.learn(&frame(fields), &mut index));
        }
        let has = life.map(|fields| order.has(&frame(fields), &mut index));
        assert_eq!(has, [true, true, true, false, false]);
        let mut none = Order::of("NONE");
        none.learn(&frame("11=d|37=NONE"), &mut index);
        assert_eq!(none.names.len(), 1, "what a venue writes for nothing joins no orders");
    }
}
