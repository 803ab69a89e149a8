//! A FIX message in the form that the peers print: `tag=value|tag=value|`.
//!
//! **Invariant:** the fields keep their wire order.

use std::fmt;

/// A printed message, split into its fields.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Message {
    fields: Vec<(u32, String)>,
}

impl Message {
    /// Parses a printed message; returns `None` if a field has no valid tag.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = Vec::new();
        for field in text.strip_suffix('|').unwrap_or(text).split('|') {
            let (tag, value) = field.split_once('=')?;
            fields.push((tag.parse().ok()?, value.to_owned()));
        }
        Some(Self { fields })
    }

    /// Returns the value of the first field with this tag.
    pub(super) fn value(&self, tag: u32) -> Option<&str> {
        self.fields.iter().find(|field| field.0 == tag).map(|field| field.1.as_str())
    }

    /// Returns the value of the first field with this tag as a number.
    pub(super) fn number(&self, tag: u32) -> Option<u64> {
        self.value(tag)?.parse().ok()
    }

    /// Returns true if the first field with this tag has the value.
    pub(super) fn is(&self, tag: u32, value: &str) -> bool {
        self.value(tag) == Some(value)
    }

    /// Returns true if `PossDupFlag(43)` is `Y`.
    pub(super) fn is_poss_dup(&self) -> bool {
        self.is(43, "Y")
    }

    /// Returns true if the message is a `SequenceReset(4)` that fills a gap.
    pub(super) fn is_gap_fill(&self) -> bool {
        self.is(35, "4") && self.is(123, "Y")
    }

    /// Returns all fields except those in `ignored`, sorted by tag. Fields with the same tag keep
    /// their order, so the order of group entries is preserved.
    pub(super) fn sorted_without(&self, ignored: &[u32]) -> Vec<(u32, &str)> {
        let mut fields: Vec<(u32, &str)> = self
            .fields
            .iter()
            .filter(|field| !ignored.contains(&field.0))
            .map(|field| (field.0, field.1.as_str()))
            .collect();
        fields.sort_by_key(|field| field.0);
        fields
    }
}

impl fmt::Display for Message {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields.iter().try_for_each(|(tag, value)| write!(out, "{tag}={value}|"))
    }
}
