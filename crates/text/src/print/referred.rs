//! Explains values that refer to another message: RefTagID(371), RefMsgType(372), and Text(58) of a
//! reject.
//!
//! Each tag and message type in such a value is printed with its name.

use std::fmt::{self, Write};

use transfix_codec::{Field, Tag, tag, value};

use super::{Names, write_value};

/// The phrases before a tag in the reject texts of common engines.
const TAG_WORDS: [&str; 8] =
    ["tag ", "tag=", "tag (", "Tag ", "Tag=", "field ", "field=", "RefTagID="];
/// The phrases before a MsgType(35) in the reject texts of common engines.
const TYPE_WORDS: [&str; 3] = ["MsgType ", "MsgType=", "MsgType(35)="];

/// Writes a value that refers to another message, with names added. For any other value, writes
/// nothing and returns false.
///
/// `gap` is the separator between a name and its number.
pub(super) fn write_referred(
    names: Names<'_>,
    field: Field<'_>,
    gap: &str,
    out: &mut dyn Write,
) -> Result<bool, fmt::Error> {
    match field.tag {
        tag::REF_TAG_ID => write_tag(names, field.value, gap, out),
        tag::REF_MSG_TYPE => write_type(names, field.value, gap, out),
        tag::TEXT if names.rejects => {
            let Ok(text) = std::str::from_utf8(field.value) else { return Ok(false) };
            write_text(names, text, out)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn write_tag(
    names: Names<'_>,
    digits: &[u8],
    gap: &str,
    out: &mut dyn Write,
) -> Result<bool, fmt::Error> {
    let number = value::uint(digits).and_then(|number| u32::try_from(number).ok());
    let Some(known) = number.and_then(|number| names.field(Tag(number))) else { return Ok(false) };
    write!(out, "{}{gap}({})", known.name, known.tag)?;
    Ok(true)
}

fn write_type(
    names: Names<'_>,
    msg_type: &[u8],
    gap: &str,
    out: &mut dyn Write,
) -> Result<bool, fmt::Error> {
    let known = names.session.message(msg_type).or_else(|| names.application.message(msg_type));
    let Some(known) = known else { return Ok(false) };
    write!(out, "{}{gap}(", known.name)?;
    write_value(msg_type, out)?;
    out.write_str(")")?;
    Ok(true)
}

/// Writes the text, and adds a name before each tag and message type that follows one of the known
/// phrases.
fn write_text(names: Names<'_>, text: &str, out: &mut dyn Write) -> fmt::Result {
    let mut rest = text;
    loop {
        let tags = TAG_WORDS.iter().map(|word| (word, true));
        let types = TYPE_WORDS.iter().map(|word| (word, false));
        let found = tags
            .chain(types)
            .filter_map(|(word, is_tag)| Some((rest.find(word)? + word.len(), is_tag)));
        let Some((at, is_tag)) = found.min() else { return write_value(rest.as_bytes(), out) };
        write_value(&rest.as_bytes()[..at], out)?;
        rest = &rest[at..];
        let is_part = |c: char| if is_tag { c.is_ascii_digit() } else { c.is_alphanumeric() };
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let named = match is_tag {
            true => write_tag(names, word.as_bytes(), "", out)?,
            false => write_type(names, word.as_bytes(), "", out)?,
        };
        if !named {
            write_value(word.as_bytes(), out)?;
        }
        rest = behind;
    }
}
