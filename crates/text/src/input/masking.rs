//! Replaces the values that a [`Mask`] hides in messages and store entries.

use std::borrow::Cow;

use transfix_codec::{CheckSumPolicy, FieldIndex, Mask};
use transfix_store::journal::{Entry, Event, Message};

use super::parse;

/// Returns the masked message. If the bytes are not a message, masks the values that can be
/// recognized.
///
/// The content of `index` does not matter; the buffer is only reused.
#[must_use]
pub fn covered<'b>(mask: &Mask, bytes: &'b [u8], index: &mut FieldIndex) -> Cow<'b, [u8]> {
    match parse(bytes, index, CheckSumPolicy::Ignore) {
        Ok(_) => mask.message(bytes),
        Err(_) => Cow::Owned(mask.garbled(bytes)),
    }
}

/// Returns the store entry with masked values, or the unchanged entry without a mask.
#[must_use]
pub fn covered_entry(mask: Option<&Mask>, mut entry: Entry) -> Entry {
    if let Some(mask) = mask
        && let Event::Outbound(Message { bytes, .. })
        | Event::Inbound(Message { bytes, .. })
        | Event::Queued { bytes, .. } = &mut entry.event
        && let Cow::Owned(masked) = mask.message(bytes)
    {
        *bytes = masked;
    }
    entry
}

#[cfg(test)]
mod tests {
    use transfix_codec::Tag;

    use super::*;

    #[test]
    fn a_message_and_what_is_none() {
        let mut index = FieldIndex::default();
        for (bytes, expected) in [
            (
                "8=FIX.4.4|9=5|35=D|1=DESK|554=hush|55=EU|10=000|",
                "8=FIX.4.4|9=5|35=D|1=****|554=****|55=EU|10=113|",
            ),
            ("8=FIX.4.4|9=5|1=DESK|35=D|554=hush", "8=FIX.4.4|9=5|1=****|35=D|554=****"),
        ] {
            let bytes = bytes.replace('|', "\x01");
            let shown = covered(&Mask::of([Tag(1)]), bytes.as_bytes(), &mut index);
            assert_eq!(String::from_utf8_lossy(&shown).replace('\x01', "|"), expected);
        }
    }
}
