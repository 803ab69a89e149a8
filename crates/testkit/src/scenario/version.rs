//! The FIX versions in which scenarios are played, and the differences between these versions on
//! the wire.

use std::fmt;

/// A FIX version of a scenario: the version of the session layer and, with FIXT.1.1, also the
/// application version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(usize);

/// The name in scenario files, the BeginString(8), and the DefaultApplVerID(1137) of each version.
const VERSIONS: [(&str, &str, Option<u8>); 9] = [
    ("4.0", "FIX.4.0", None),
    ("4.1", "FIX.4.1", None),
    ("4.2", "FIX.4.2", None),
    ("4.3", "FIX.4.3", None),
    ("4.4", "FIX.4.4", None),
    ("5.0", "FIXT.1.1", Some(7)),
    ("5.0SP1", "FIXT.1.1", Some(8)),
    ("5.0SP2", "FIXT.1.1", Some(9)),
    ("latest", "FIXT.1.1", Some(10)),
];

impl Version {
    /// Returns all versions, beginning with the oldest.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..VERSIONS.len()).map(Self)
    }

    /// Parses `all`, or a list of versions such as `4.0 4.2-4.4 5.0+`.
    ///
    /// # Errors
    /// The word that is not a version.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let named = |name: &str| {
            let found = VERSIONS.iter().position(|(known, ..)| *known == name);
            found.ok_or_else(|| format!("{name:?} is no version"))
        };
        let mut versions = Vec::new();
        for word in text.split_whitespace() {
            let (from, to) = match (word, word.strip_suffix('+'), word.split_once('-')) {
                ("all", ..) => (0, VERSIONS.len() - 1),
                (_, Some(from), _) => (named(from)?, VERSIONS.len() - 1),
                (_, _, Some((from, to))) => (named(from)?, named(to)?),
                _ => (named(word)?, named(word)?),
            };
            versions.extend((from..=to).map(Self));
        }
        if versions.is_empty() { Err("no version".to_owned()) } else { Ok(versions) }
    }

    /// Returns BeginString(8).
    #[must_use]
    pub fn begin_string(self) -> &'static str {
        VERSIONS[self.0].1
    }

    /// Returns the DefaultApplVerID(1137) of a FIXT.1.1 session, and `None` for earlier versions.
    #[must_use]
    pub fn appl_ver_id(self) -> Option<u8> {
        VERSIONS[self.0].2
    }

    /// Returns true for FIX 4.0 and 4.1. In these versions, Reject(3) has no reason, times have no
    /// fractions, and EndSeqNo(16) 999999 means an open end.
    pub(super) fn is_old(self) -> bool {
        self.0 < 2
    }

    /// Returns true if the version defines this value of SessionRejectReason(373).
    pub(super) fn has_reason(self, reason: u32) -> bool {
        self.0 > 2 || (self.0 == 2 && reason <= 11)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSIONS[self.0].0)
    }
}
