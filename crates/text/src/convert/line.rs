//! Reader of JSON objects: messages, and lines of `transfix logs --json` and `transfix store
//! export`, which contain the message.

use serde::de::{DeserializeOwned, IgnoredAny};
use transfix_codec::Tag;

use crate::json::{self, JsonError, JsonProblem};

/// The reason why a text is not such an object.
pub(super) struct Refusal {
    /// Offset of the error from the beginning of the text, in bytes.
    pub(super) at: usize,
    pub(super) problem: JsonProblem,
}

impl From<JsonError> for Refusal {
    fn from(JsonError { at, problem, .. }: JsonError) -> Self {
        Self { at, problem }
    }
}

/// Members that may begin a line, even after sorting. No message begins with these names.
const MEMBERS: [&str; 5] = ["time", "direction", "session", "message", "garbled"];

const EXPECTED: JsonProblem =
    JsonProblem::Expected("a message, or a line as `transfix logs --json` writes it");

/// Appends the message at the beginning of the text to `out`; returns the end of the object.
///
/// A line without a message appends nothing.
pub(super) fn read(
    text: &[u8],
    tag_of: impl Fn(&str) -> Option<Tag>,
    data_fields: &[(Tag, Tag)],
    out: &mut Vec<u8>,
) -> Result<usize, Refusal> {
    let mut cursor = Cursor { text, at: 0 };
    let is_line = cursor.takes(b'{')
        && cursor.value::<String>().is_ok_and(|name| MEMBERS.contains(&name.as_str()));
    if !is_line {
        return Ok(json::read(text, tag_of, data_fields, out)?);
    }
    cursor = Cursor { text, at: 0 };
    let read = cursor.line(|text, out| json::read(text, &tag_of, data_fields, out), out);
    read.map(|()| cursor.at).inspect_err(|_| out.clear())
}

struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl Cursor<'_> {
    fn line(
        &mut self,
        read: impl Fn(&[u8], &mut Vec<u8>) -> Result<usize, JsonError>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.expect(b'{')?;
        loop {
            let name: String = self.value()?;
            self.expect(b':')?;
            if name == "message" && out.is_empty() {
                let length = read(&self.text[self.at..], out)
                    .map_err(|JsonError { at, problem, .. }| self.refusal(at, problem))?;
                self.at += length;
            } else {
                // Other members of the log line are not fields of the message.
                self.value::<IgnoredAny>()?;
            }
            if self.takes(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    const fn refusal(&self, at: usize, problem: JsonProblem) -> Refusal {
        Refusal { at: self.at + at, problem }
    }

    fn takes(&mut self, byte: u8) -> bool {
        let blanks = self.text[self.at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        let is_it = self.text.get(self.at + blanks) == Some(&byte);
        self.at += if is_it { blanks + 1 } else { 0 };
        is_it
    }

    fn expect(&mut self, byte: u8) -> Result<(), Refusal> {
        let is_over = self.text[self.at..].trim_ascii_start().is_empty();
        match self.takes(byte) {
            true => Ok(()),
            false if is_over => {
                Err(Refusal { at: self.text.len(), problem: JsonProblem::Unfinished })
            }
            false => Err(self.refusal(0, EXPECTED)),
        }
    }

    fn value<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        let mut values = serde_json::Deserializer::from_slice(&self.text[self.at..]).into_iter();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            Some(Err(error)) if !error.is_eof() => Err(self.refusal(0, EXPECTED)),
            _ => Err(Refusal { at: self.text.len(), problem: JsonProblem::Unfinished }),
        }
    }
}
