//! Which values are shown as stars: passwords always, other fields if the user names them.

use std::borrow::Cow;

use transfix::{Mask, Tag};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_store::journal::{Entry, Event, Message};

use super::parse;

/// Options that select the values shown as stars.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Masking {
    /// Shows stars in place of the values of these tags too, such as 1,448; several with commas.
    /// Password(554), NewPassword(925), EncryptedPassword(1402) and EncryptedNewPassword(1404)
    /// always have stars, and so has RawData(96) in Logon(A) and UserRequest(BE).
    #[arg(long, value_name = "TAG", value_delimiter = ',', value_parser = tag)]
    mask: Vec<Tag>,
    /// Shows passwords and other secrets, in place of stars.
    #[arg(long, conflicts_with = "mask")]
    unmasked: bool,
}

impl Masking {
    /// The fields whose values are hidden; `None` if everything is shown.
    pub(crate) fn mask(&self) -> Option<Mask> {
        (!self.unmasked).then(|| Mask::of(self.mask.iter().copied()))
    }
}

/// Reads a tag.
pub(crate) fn tag(text: &str) -> Result<Tag, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(Tag).ok_or_else(|| "write the number of a tag, such as 1".to_owned())
}

/// The message with stars, or the bytes if they are none.
pub(crate) fn covered<'b>(mask: &Mask, bytes: &'b [u8], index: &mut FieldIndex) -> Cow<'b, [u8]> {
    match parse(bytes, index, CheckSumPolicy::Ignore) {
        Ok(_) => mask.message(bytes),
        Err(_) => Cow::Owned(mask.garbled(bytes)),
    }
}

/// The entry of a store with stars.
pub(crate) fn covered_entry(mask: Option<&Mask>, mut entry: Entry) -> Entry {
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

    #[test]
    fn tags_are_numbers() {
        assert_eq!(tag("448"), Ok(Tag(448)));
        for text in ["", "0", "-1", "Account", "1.5"] {
            assert!(tag(text).is_err(), "{text}");
        }
    }
}
