//! The colours of a message in readable form.

/// The escape sequences around each part of a message, for colour terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// The sequence before the name of a message or section.
    pub heading: &'static str,
    /// The sequence before the name of a field or group.
    pub name: &'static str,
    /// The sequence before a value.
    pub value: &'static str,
    /// The sequence after each coloured part.
    pub end: &'static str,
}

impl Palette {
    /// No colours.
    pub const PLAIN: Self = Self { heading: "", name: "", value: "", end: "" };
    /// The palette for colour terminals: the ANSI escape sequences (ECMA-48) for bold, cyan and
    /// yellow.
    pub const ANSI: Self =
        Self { heading: "\x1b[1m", name: "\x1b[36m", value: "\x1b[33m", end: "\x1b[0m" };
}
