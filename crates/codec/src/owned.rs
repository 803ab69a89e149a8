//! A received message that owns its bytes and its index.

use alloc::vec::Vec;

use crate::fields::Fields;
use crate::{Message, Tag};

/// A message that owns its bytes and its index.
///
/// An owned message outlives its receive buffer and can be sent to another thread.
/// [`OwnedMessage::keep`] reuses the memory of an earlier message.
/// ```
/// use transfix_codec::{CheckSumPolicy, FieldIndex, Message, tag};
///
/// let bytes = b"8=FIX.4.4\x019=16\x0135=D\x0111=order-1\x0110=000\x01";
/// let mut index = FieldIndex::default();
/// let owned = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?.to_owned();
/// let id = move || owned.message().raw(tag::CL_ORD_ID).map(<[u8]>::to_vec);
/// assert_eq!(std::thread::spawn(id).join().unwrap(), Some(b"order-1".to_vec()));
/// # Ok::<(), transfix_codec::Garbled>(())
/// ```
#[derive(Clone)]
pub struct OwnedMessage {
    bytes: Vec<u8>,
    tags: Vec<Tag>,
    values: Vec<u32>,
    starts: Vec<u32>,
}

impl OwnedMessage {
    /// Returns a view of the message.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message::of(Fields::new(&self.bytes, &self.tags, &self.values, &self.starts))
    }

    /// Replaces the stored message by a copy of `message`, reusing the memory.
    ///
    /// This method allocates only if the buffers are too small.
    pub fn keep(&mut self, message: &Message<'_>) {
        let (tags, values, starts) = message.places();
        self.bytes.clear();
        self.bytes.extend_from_slice(message.bytes());
        self.tags.clear();
        self.tags.extend_from_slice(tags);
        self.values.clear();
        self.values.extend_from_slice(values);
        self.starts.clear();
        self.starts.extend_from_slice(starts);
    }
}

impl Message<'_> {
    /// Returns a copy that owns its bytes and its index.
    ///
    /// The index is copied, not rebuilt.
    #[must_use]
    pub fn to_owned(&self) -> OwnedMessage {
        let (tags, values, starts) = self.places();
        OwnedMessage {
            bytes: self.bytes().to_vec(),
            tags: tags.to_vec(),
            values: values.to_vec(),
            starts: starts.to_vec(),
        }
    }
}

impl core::fmt::Display for OwnedMessage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.message().fmt(f)
    }
}

impl core::fmt::Debug for OwnedMessage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckSumPolicy, FieldIndex, tag};

    fn parsed<T>(body: &str, look: impl FnOnce(&Message<'_>) -> T) -> T {
        let bytes = alloc::format!("8=FIX.4.4|9=0|{body}|10=000|").replace('|', "\x01");
        let mut index = FieldIndex::default();
        look(&Message::parse(bytes.as_bytes(), &mut index, CheckSumPolicy::Ignore).unwrap())
    }

    #[test]
    fn a_copy_reads_as_its_original_did() {
        let mut owned = parsed("35=D|11=a|11=b|58=x", |message| message.to_owned());
        assert_eq!(alloc::format!("{owned}"), "8=FIX.4.4|9=0|35=D|11=a|11=b|58=x|10=000|");
        assert_eq!(owned.message().fields().len(), 7);
        assert_eq!(owned.message().msg_type(), "D");
        let capacities = |owned: &OwnedMessage| (owned.bytes.capacity(), owned.tags.capacity());
        let before = capacities(&owned);
        parsed("35=8|37=z", |shorter| owned.keep(shorter));
        assert_eq!(owned.message().text(tag::ORDER_ID), Ok("z"));
        assert_eq!(owned.message().raw(tag::CL_ORD_ID), None);
        assert_eq!(capacities(&owned), before, "its memory is used again");
    }
}
