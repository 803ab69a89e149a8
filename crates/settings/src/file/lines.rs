//! The lines of a text.

use toml::de::DeTable;
use transfix_session::Key;

use crate::session::KeyLines;

/// The offsets at which the lines of a text end. They are computed once, because a search of the
/// whole text for each key would be slow.
pub(super) struct Lines {
    ends: Vec<usize>,
}

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.bytes().enumerate();
        Self { ends: bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect() }
    }

    /// Returns the number of the line that contains the byte at this offset, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at) + 1
    }

    pub(super) fn of_keys(&self, table: &DeTable<'_>, known: &[Key]) -> KeyLines {
        let of = |known: &Key| {
            let (key, _) = table.get_key_value(known.name)?;
            Some((known.name, self.line(key.span().start)))
        };
        known.iter().filter_map(of).collect()
    }
}

/// Returns the number of the line that contains the byte at this offset, counted from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.bytes().filter(|&b| b == b'\n').count() + 1
}
