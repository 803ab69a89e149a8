//! Escapes foreign text, such as text from counterparties, servers and files, so that a terminal
//! can show the text safely.
//!
//! Invariant: the result contains no character that a terminal interprets or hides. An escaped
//! value has no line breaks; an escaped text keeps its own line breaks.

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};

use serde_json::Value;
use transfix_codec::shown::{Shown, is_hidden};

/// A foreign value that is displayed in one line. Control and invisible characters become `\n`,
/// `\x1B` or `\u{202E}`.
pub(crate) struct Foreign<'a>(pub(crate) &'a str);

impl Display for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown::whole(self.0.as_bytes()).fmt(f)
    }
}

/// Escapes a text that contains foreign values, but keeps its line breaks and tabs.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_bad(c) {
            // Writing to a `String` never fails.
            true => _ = write!(plain, "{}", Foreign(c.encode_utf8(&mut [0; 4]))),
            false => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

/// Formats JSON in several lines. Control and invisible characters become escapes such as `\u202e`.
pub(crate) fn json(value: &Value) -> String {
    hidden_as_json(&format!("{value:#}"))
}

/// Formats JSON in one line. Control and invisible characters become escapes such as `\u202e`.
pub(crate) fn json_line(value: &Value) -> String {
    hidden_as_json(&value.to_string())
}

fn hidden_as_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        match is_hidden(c) && c != '\n' {
            true => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                units.iter().for_each(|unit| _ = write!(plain, "\\u{unit:04x}"));
            }
            false => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_hidden_is_left() {
        let all: String = ('\0'..=char::MAX).filter(|c| is_hidden(*c)).collect();
        assert!(!Foreign(&all).to_string().contains(is_hidden));
        assert!(!lines(&all).contains(|c| is_hidden(c) && !matches!(c, '\n' | '\t')));
        assert_eq!(lines("a\n\tb \u{9b}2J \\"), "a\n\tb \\u{009B}2J \\");
        let value = json!({ "key": all });
        for text in [json(&value), json_line(&value)] {
            assert!(!text.contains(|c| is_hidden(c) && c != '\n'));
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
