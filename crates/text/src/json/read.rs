//! Parses JSON text and builds the bytes of a FIX message.
//!
//! Invariants: no text causes a panic. Objects and arrays may nest up to a depth of [`DEPTH_MAX`].
//! After an error, the output is unchanged.

use std::fmt;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use transfix_codec::{SOH, Tag, data, raw, tag, value};

use super::{BASE64, SECTIONS};

/// The reason why a text is not the JSON form of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonError {
    /// The offset of the error in the text, in bytes.
    pub at: usize,
    /// The kind of error at this offset.
    pub problem: JsonProblem,
}

/// The kind of an error in the JSON text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonProblem {
    /// The text ends before the object ends; the rest may still arrive.
    Unfinished,
    /// The text has a different element in place of the expected one, which the string names.
    Expected(&'static str),
    /// The name of a member is neither a tag nor the name of a field.
    UnknownName,
    /// Objects and arrays are nested too deeply.
    TooDeep,
    /// Not base64.
    Base64,
    /// A string is not valid UTF-8 or contains an invalid escape sequence.
    BadString,
    /// The value of this field contains SOH, so that a receiver would read several fields.
    Delimiter(Tag),
    /// The Length field of this data field is too large, so that the data field would swallow the
    /// fields after it.
    Swallows(Tag),
    /// BeginString(8) or MsgType(35) is missing or in the wrong position.
    Head,
}

impl JsonProblem {
    /// Returns the numeric code of this problem, for logs and other programming languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::Unfinished => 1101,
            Self::Expected(_) => 1102,
            Self::UnknownName => 1103,
            Self::TooDeep => 1104,
            Self::Base64 => 1105,
            Self::BadString => 1106,
            Self::Delimiter(_) => 1107,
            Self::Swallows(_) => 1108,
            Self::Head => 1109,
        }
    }
}

impl JsonError {
    /// Returns the numeric code of this error, for logs and other programming languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        self.problem.as_u16()
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.at, self.problem)
    }
}

impl fmt::Display for JsonProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished => f.write_str("the text ends within the message"),
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::UnknownName => {
                f.write_str("the dictionary has no field of that name; write its tag")
            }
            Self::TooDeep => f.write_str("groups are nested too deeply"),
            Self::Base64 => f.write_str("not base64"),
            Self::BadString => f.write_str("not a valid string"),
            Self::Delimiter(tag) => write!(
                f,
                "the value of field {tag} holds SOH; only a data field may hold SOH, within the \
                 length that its Length field right before it gives"
            ),
            Self::Swallows(tag) => write!(
                f,
                "the Length field before field {tag} exceeds the value, and would include the \
                 next fields"
            ),
            Self::Head => f.write_str(
                "a message begins with BeginString(8) and MsgType(35); BodyLength(9) between them \
                 is optional",
            ),
        }
    }
}

/// The output equals that of [`fmt::Display`], so that an error that `main` returns is printed as
/// readable text.
impl fmt::Debug for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for JsonError {}

/// The maximum nesting depth of objects and arrays, which is far above the depth of any dictionary.
const DEPTH_MAX: usize = 64;

/// Appends the message from the JSON object at the beginning of `text` to `out`. Returns the end of
/// the object.
///
/// `tag_of` returns the tag of a name; [`tags_of`](super::tags_of) creates such a function from
/// dictionaries. The text has the form that [`Writer`](super::Writer) writes. In addition, numbers
/// are accepted unquoted, and `true` and `false` stand for `Y` and `N`. A BodyLength(9) or
/// CheckSum(10) in the text is kept, correct or not; a missing one is computed.
///
/// Only a data field may contain SOH, and only if the preceding Length field states the right
/// length. `data_fields` are custom pairs of tags, as in
/// [`FieldIndex::set_data_fields`](transfix_codec::FieldIndex::set_data_fields). A Length field
/// that is too large is kept, unless the data field would swallow the following fields.
///
/// # Errors
/// If the text is not such an object; `out` then has its previous content.
pub fn read(
    text: &[u8],
    tag_of: impl Fn(&str) -> Option<Tag>,
    data_fields: &[(Tag, Tag)],
    out: &mut Vec<u8>,
) -> Result<usize, JsonError> {
    let begin = out.len();
    let mut reader = Reader {
        text,
        at: 0,
        tag_of,
        data_fields,
        begin,
        body: begin,
        last: begin,
        last_tag: Tag(0),
        head: [Tag(0); 3],
        count: 0,
        overlong: Vec::new(),
        out,
    };
    match reader.message() {
        Ok(()) => Ok(reader.at),
        Err(problem) => {
            let at = reader.at;
            out.truncate(begin);
            Err(JsonError { at, problem })
        }
    }
}

struct Reader<'t, 'o, N> {
    text: &'t [u8],
    at: usize,
    tag_of: N,
    data_fields: &'t [(Tag, Tag)],
    out: &'o mut Vec<u8>,
    /// The offset of the message in `out`.
    begin: usize,
    /// The offset of the message's second field in `out`.
    body: usize,
    /// The offset of the message's last field in `out`.
    last: usize,
    last_tag: Tag,
    /// The tags of the first three fields.
    head: [Tag; 3],
    /// The number of fields written so far.
    count: usize,
    /// The data fields that are shorter than their Length fields state.
    overlong: Vec<Overlong>,
}

/// A data field that is shorter than its Length field states.
struct Overlong {
    tag: Tag,
    /// The offset of the data field's member in the JSON text.
    member_at: usize,
    /// The offset of the data field's value in the output.
    value_at: usize,
    /// The length that the Length field states, in bytes.
    said: usize,
}

type Outcome<T = ()> = Result<T, JsonProblem>;

impl<N: Fn(&str) -> Option<Tag>> Reader<'_, '_, N> {
    fn message(&mut self) -> Outcome {
        self.blank()?;
        let object_at = self.at;
        self.object(DEPTH_MAX)?;
        let lacks_length = self.head[1] == tag::MSG_TYPE;
        if self.head[0] != tag::BEGIN_STRING || !lacks_length && self.head[2] != tag::MSG_TYPE {
            self.at = object_at;
            return Err(JsonProblem::Head);
        }
        let is_whole = self.count > 1 && self.out[self.last..].starts_with(b"10=");
        let end = if is_whole { self.last } else { self.out.len() };
        // A FIX parser accepts the too large length if the data would then end at a delimiter.
        let is_believed = |field: &&Overlong| {
            let until = field.value_at.checked_add(field.said);
            until.and_then(|until| self.out[..end].get(until)) == Some(&SOH)
        };
        if let Some(field) = self.overlong.iter().find(is_believed) {
            self.at = field.member_at;
            return Err(JsonProblem::Swallows(field.tag));
        }
        if lacks_length {
            let field = format!("9={}\x01", end - self.body);
            self.out.splice(self.body..self.body, field.into_bytes());
        }
        if !is_whole {
            let sum = raw::check_sum(&self.out[self.begin..]);
            self.out.extend_from_slice(b"10=");
            self.out.extend_from_slice(&sum);
            self.out.push(SOH);
        }
        Ok(())
    }

    /// Parses a JSON object whose members are fields.
    fn object(&mut self, depth: usize) -> Outcome {
        self.expect(b'{', "an object")?;
        if self.takes(b'}')? {
            return Ok(());
        }
        loop {
            self.member(depth)?;
            if self.takes(b'}')? {
                return Ok(());
            }
            self.expect(b',', "a comma or the end of the object")?;
        }
    }

    /// Parses a member: a name and its value.
    fn member(&mut self, depth: usize) -> Outcome {
        let depth = depth.checked_sub(1).ok_or(JsonProblem::TooDeep)?;
        self.blank()?;
        let name_at = self.at;
        // The end of the output serves as temporary memory for the name.
        let end = self.out.len();
        self.string()?;
        let name = std::str::from_utf8(&self.out[end..]).map_err(|_| JsonProblem::BadString)?;
        let is_section = depth == DEPTH_MAX - 1 && SECTIONS.contains(&name);
        let tag = if name.is_empty() {
            Some(Tag(0))
        } else {
            number(name).or_else(|| (self.tag_of)(name))
        };
        self.out.truncate(end);
        self.expect(b':', "a colon")?;
        if is_section {
            return self.object(depth);
        }
        let Some(tag) = tag else {
            self.at = name_at;
            return Err(JsonProblem::UnknownName);
        };
        let length = self.length_of(tag);
        self.begin_field(tag);
        let value_at = self.out.len();
        match self.blank()? {
            b'[' => return self.entries(depth),
            b'{' => self.bytes()?,
            _ => self.scalar()?,
        }
        let value = &self.out[value_at..self.out.len() - 1];
        if value.contains(&SOH) && length != Some(value.len() as u64) {
            self.at = name_at;
            return Err(JsonProblem::Delimiter(tag));
        }
        if let Some(said) = length.and_then(|length| usize::try_from(length).ok())
            && said > value.len()
        {
            self.overlong.push(Overlong { tag, member_at: name_at, value_at, said });
        }
        Ok(())
    }

    /// Returns the value of the previous field if that field is the Length field of the data field
    /// `tag`.
    fn length_of(&self, tag: Tag) -> Option<u64> {
        let is_pair = data::length_of(tag) == Some(self.last_tag)
            || self.data_fields.contains(&(self.last_tag, tag));
        let field = self.out[self.last..].strip_suffix(&[SOH]).filter(|_| is_pair)?;
        let at = field.iter().position(|&b| b == b'=')?;
        value::uint(&field[at + 1..])
    }

    fn begin_field(&mut self, tag: Tag) {
        (self.last, self.last_tag) = (self.out.len(), tag);
        if let Some(place) = self.head.get_mut(self.count) {
            *place = tag;
        }
        self.count += 1;
        if self.count == 2 {
            self.body = self.last;
        }
        if tag != Tag(0) {
            // The result is ignored, because writing to a `Vec` cannot fail.
            let _ = write!(self.out, "{tag}=");
        }
    }

    /// Parses the entries of a repeating group, and inserts the number of entries before them.
    fn entries(&mut self, depth: usize) -> Outcome {
        let depth = depth.checked_sub(1).ok_or(JsonProblem::TooDeep)?;
        self.expect(b'[', "an array")?;
        let count_at = self.out.len();
        self.out.push(SOH);
        let mut count = 0_usize;
        let mut is_done = self.takes(b']')?;
        while !is_done {
            self.object(depth)?;
            count += 1;
            is_done = self.takes(b']')?;
            if !is_done {
                self.expect(b',', "a comma or the end of the array")?;
            }
        }
        let text = count.to_string();
        self.out.splice(count_at..count_at, text.bytes());
        let values = self.overlong.iter_mut().map(|field| &mut field.value_at);
        for place in [&mut self.last, &mut self.body].into_iter().chain(values) {
            *place += if *place > count_at { text.len() } else { 0 };
        }
        Ok(())
    }

    /// Parses a base64 string, and appends the decoded value.
    fn bytes(&mut self) -> Outcome {
        const ONLY: JsonProblem =
            JsonProblem::Expected("\"base64\"; the entries of a group are an array of objects");
        self.expect(b'{', "an object")?;
        if self.blank()? != b'"' {
            return Err(ONLY);
        }
        let end = self.out.len();
        self.string()?;
        let is_known = &self.out[end..] == BASE64.as_bytes();
        self.out.truncate(end);
        if !is_known {
            return Err(ONLY);
        }
        self.expect(b':', "a colon")?;
        self.blank()?;
        let begin = self.at + 1;
        self.string()?;
        self.out.truncate(end);
        // Base64 needs no escape sequences, so the text is decoded without unescaping.
        let text = &self.text[begin..self.at - 1];
        STANDARD.decode_vec(text, self.out).map_err(|_| JsonProblem::Base64)?;
        self.out.push(SOH);
        self.expect(b'}', "the end of the object")
    }

    /// Parses a string, a number, `true` or `false` as a field value.
    fn scalar(&mut self) -> Outcome {
        let first = self.blank()?;
        if first == b'"' {
            self.string()?;
        } else {
            let rest = &self.text[self.at..];
            let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.');
            let length = rest.iter().position(|b| !is_word(b)).ok_or(JsonProblem::Unfinished)?;
            match &rest[..length] {
                b"true" => self.out.push(b'Y'),
                b"false" => self.out.push(b'N'),
                word if first == b'-' || first.is_ascii_digit() => self.out.extend_from_slice(word),
                _ => return Err(JsonProblem::Expected("a string, a number, true or false")),
            }
            self.at += length;
        }
        self.out.push(SOH);
        Ok(())
    }

    /// Parses a string and appends its content to the output.
    fn string(&mut self) -> Outcome {
        self.expect(b'"', "a string")?;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|&b| b == b'"' || b == b'\\' || b < b' ');
            let plain = plain.ok_or(JsonProblem::Unfinished)?;
            let text = std::str::from_utf8(&rest[..plain]).map_err(|_| JsonProblem::BadString)?;
            self.out.extend_from_slice(text.as_bytes());
            self.at += plain + 1;
            match rest[plain] {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                _ => return Err(JsonProblem::BadString),
            }
        }
    }

    fn escape(&mut self) -> Outcome {
        let kind = *self.text.get(self.at).ok_or(JsonProblem::Unfinished)?;
        self.at += 1;
        let plain = match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.unicode()?;
                let mut text = [0; 4];
                self.out.extend_from_slice(character.encode_utf8(&mut text).as_bytes());
                return Ok(());
            }
            _ => return Err(JsonProblem::BadString),
        };
        self.out.push(plain);
        Ok(())
    }

    fn unicode(&mut self) -> Outcome<char> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or(JsonProblem::BadString);
        }
        for expected in *b"\\u" {
            let found = *self.text.get(self.at).ok_or(JsonProblem::Unfinished)?;
            if found != expected {
                return Err(JsonProblem::BadString);
            }
            self.at += 1;
        }
        let second = self.hex()?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
        let code = 0x1_0000 + ((first - 0xd800) << 10) + low.ok_or(JsonProblem::BadString)?;
        char::from_u32(code).ok_or(JsonProblem::BadString)
    }

    fn hex(&mut self) -> Outcome<u32> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(JsonProblem::Unfinished)?;
        let digit = |b: &u8| char::from(*b).to_digit(16);
        let number = digits.iter().try_fold(0, |number, b| Some(number << 4 | digit(b)?));
        self.at += 4;
        number.ok_or(JsonProblem::BadString)
    }

    /// Skips white space and returns the next byte.
    fn blank(&mut self) -> Outcome<u8> {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count();
        self.at += blanks;
        rest.get(blanks).copied().ok_or(JsonProblem::Unfinished)
    }

    fn takes(&mut self, byte: u8) -> Outcome<bool> {
        let is_next = self.blank()? == byte;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Outcome {
        if self.takes(byte)? { Ok(()) } else { Err(JsonProblem::Expected(what)) }
    }
}

/// Parses a tag number in the form that [`Writer`](super::Writer) writes, without leading zeros.
fn number(name: &str) -> Option<Tag> {
    let is_canonical = name.bytes().all(|b| b.is_ascii_digit()) && !name.starts_with('0');
    name.parse().ok().filter(|_| is_canonical).map(Tag)
}
