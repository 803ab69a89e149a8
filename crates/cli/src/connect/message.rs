//! A typed message: a MsgType(35) and fields, in order.

use super::values::MISSING;
use super::vocabulary::Vocabulary;
use crate::foreign::Foreign;

/// A message that the user typed or saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) msg_type: String,
    /// Tags and values, in order. A repeating group is its NumInGroup field, followed by the fields
    /// of each entry.
    pub(super) fields: Vec<(u32, String)>,
}

impl Typed {
    /// Parses `TAG=VALUE|TAG=VALUE`; tags and values may also be names. A data field after its
    /// Length field may contain `|`.
    pub(super) fn parse(msg_type: &str, fields: &str, words: &Vocabulary) -> Result<Self, String> {
        let (mut rest, mut found) = (fields, Vec::new());
        while !rest.is_empty() {
            let bar = rest.find('|').unwrap_or(rest.len());
            let end = end_of_data(rest, found.last(), words).unwrap_or(bar);
            let field = &rest[..end];
            if !field.is_empty() {
                found.push(pair(field, words)?);
            }
            rest = rest[end..].strip_prefix('|').unwrap_or_default();
        }
        Ok(Self { msg_type: words.msg_type(msg_type)?, fields: found })
    }

    /// Parses a typed line. Without a `|` in the line, spaces separate the fields.
    pub(super) fn from_line(
        msg_type: &str,
        fields: &str,
        words: &Vocabulary,
    ) -> Result<Self, String> {
        if fields.contains('|') {
            return Self::parse(msg_type, fields, words);
        }
        let fields = spaced(fields)?;
        let fields = fields.iter().map(|field| pair(field, words)).collect::<Result<_, _>>()?;
        Ok(Self { msg_type: words.msg_type(msg_type)?, fields })
    }

    /// Returns the fields in the form of [`Typed::line`], with secret values replaced by stars.
    pub(super) fn seen(&self, words: &Vocabulary) -> String {
        let seen = |tag, value: &str| (tag, words.seen(&self.msg_type, tag, value));
        let fields = self.fields.iter().map(|(tag, value)| seen(*tag, value)).collect();
        Self { msg_type: self.msg_type.clone(), fields }.line()
    }

    /// Returns the fields in the form that [`Typed::parse`] reads.
    pub(super) fn line(&self) -> String {
        let fields = self.fields.iter().map(|(tag, value)| format!("{tag}={value}"));
        fields.collect::<Vec<_>>().join("|")
    }

    /// Sets the first field with this tag, or appends the field if there is none.
    pub(super) fn set(&mut self, tag: u32, value: String) {
        match self.fields.iter_mut().find(|(known, _)| *known == tag) {
            Some((_, old)) => *old = value,
            None => self.fields.push((tag, value)),
        }
    }

    /// Removes all fields with this tag. Returns true if there was such a field.
    pub(super) fn unset(&mut self, tag: u32) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(known, _)| *known != tag);
        self.fields.len() < before
    }

    /// Describes the fields that still have no value, each with its possible values.
    pub(super) fn missing(&self, words: &Vocabulary) -> Vec<String> {
        let missing = self.fields.iter().filter(|(_, value)| value == MISSING);
        missing.map(|(tag, _)| format!("{}: {}", words.name(*tag), words.choice(*tag))).collect()
    }

    /// Returns the message as one readable line.
    pub(super) fn brief(&self, words: &Vocabulary) -> String {
        let fields = self.fields.iter();
        let fields = fields.map(|(tag, value)| {
            let seen = words.seen(&self.msg_type, *tag, value);
            format!(" {}={}", words.name(*tag), Foreign(&seen))
        });
        words.message_name(&self.msg_type) + &fields.collect::<String>()
    }

    /// Returns the message as readable text, with one field on each line.
    pub(super) fn shown(&self, words: &Vocabulary) -> String {
        let mut text = words.message_name(&self.msg_type);
        for (tag, value) in &self.fields {
            let seen = words.seen(&self.msg_type, *tag, value);
            text += &format!("\n  {}={}", words.name(*tag), Foreign(&seen));
            if value == MISSING {
                text += &format!("   {}", words.choice(*tag));
            } else if let Some(code) = words.code(*tag, value) {
                text += &format!("   {code}");
            }
        }
        text
    }
}

/// Returns the end of the data field at the start of `text`. Returns `None` unless `before` is its
/// Length field with a length that matches.
fn end_of_data(text: &str, before: Option<&(u32, String)>, words: &Vocabulary) -> Option<usize> {
    let (name, _) = text.split_once('=')?;
    let (length, count) = before?;
    let is_its_length = words.tag(name).is_ok_and(|tag| words.length_of(tag) == Some(*length));
    let bytes = count.parse::<usize>().ok().filter(|_| is_its_length)?;
    let end = bytes.checked_add(name.len() + 1)?;
    let behind = text.get(end..)?;
    (behind.is_empty() || behind.starts_with('|')).then_some(end)
}

/// Parses `TAG=VALUE`, where the tag may be a field name and the value the name of a code.
pub(super) fn pair(field: &str, words: &Vocabulary) -> Result<(u32, String), String> {
    let (name, value) =
        field.split_once('=').ok_or_else(|| format!("write FIELD=VALUE, not {field}"))?;
    let tag = words.tag(name)?;
    Ok((tag, words.value(tag, value)))
}

/// Splits a line at whitespace, except within quotes.
pub(super) fn quoted(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    if is_quoted { Err("a quote is open".to_owned()) } else { Ok(words) }
}

/// Splits a line into fields at spaces. A word without `=` belongs to the value before it. If the
/// line contains quotes, quotes group the words instead.
fn spaced(line: &str) -> Result<Vec<String>, String> {
    if line.contains('"') {
        return quoted(line);
    }
    let begins = |word: &str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let mut fields: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match fields.last_mut() {
            Some(field) if !begins(word) => *field += &format!(" {word}"),
            _ => fields.push(word.to_owned()),
        }
    }
    fields.iter_mut().for_each(|field| field.truncate(field.trim_end().len()));
    fields.retain(|field| !field.is_empty());
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use transfix::{BeginString, Role, SessionId, SessionSettings};

    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(quoted("a=1  b=\"x y\" c=").unwrap(), ["a=1", "b=x y", "c="]);
        assert_eq!(quoted("a=\"1"), Err("a quote is open".to_owned()));
    }

    #[test]
    fn a_data_field_is_read_by_its_length() {
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        let session = SessionSettings::new(Role::Initiator, &id, "127.0.0.1:1");
        let words = Vocabulary::new(&session).unwrap();
        let read = |fields: &str| {
            let typed = Typed::parse("B", fields, &words).unwrap();
            // A saved message parses to the same message.
            assert_eq!(Typed::parse("B", &typed.line(), &words).as_ref(), Ok(&typed), "{fields}");
            typed.fields.iter().map(|(tag, value)| format!("{tag}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(read("95=7|96=a|37=|b|58=x"), ["95=7", "96=a|37=|b", "58=x"]);
        assert_eq!(read("RawDataLength=3|RawData=|||"), ["95=3", "96=|||"]);
        assert_eq!(read("95=2|96=\u{e9}|58=x"), ["95=2", "96=\u{e9}", "58=x"]);
        // If the length does not match, the text is parsed as ordinary fields.
        for length in ["0", "1", "4", "9", "18446744073709551615", "x"] {
            let fields = [format!("95={length}"), "96=ab".to_owned(), "58=x".to_owned()];
            assert_eq!(read(&fields.join("|")), fields);
        }
        // A length counts only if it is in the data field's own Length field, directly before the
        // data field.
        assert_eq!(read("354=3|96=a|58=x"), ["354=3", "96=a", "58=x"]);
        assert_eq!(read("95=3|58=x|96=a|44=1"), ["95=3", "58=x", "96=a", "44=1"]);
        let wrong = Typed::parse("B", "95=3|nonsense|96=a", &words).unwrap_err();
        assert!(wrong.contains("nonsense"), "{wrong}");
    }

    #[test]
    fn spaces_part_fields_where_the_next_begins() {
        for (line, fields) in [
            ("", &[][..]),
            ("a=1 b=2", &["a=1", "b=2"]),
            ("58=two  words 55=EU ", &["58=two  words", "55=EU"]),
            ("58=1 + 1 = 2", &["58=1 + 1 = 2"]),
            ("58=\"a=b c\" 55=EU", &["58=a=b c", "55=EU"]),
            ("nonsense a=1", &["nonsense", "a=1"]),
        ] {
            assert_eq!(spaced(line).unwrap(), fields, "{line}");
        }
    }
}
