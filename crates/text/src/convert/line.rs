//! A reader of the JSON objects that contain messages: a message itself, or a line of
//! `transfix logs --json` or `transfix store export`.

use serde::de::{DeserializeOwned, IgnoredAny};
use transfix_codec::Tag;

use crate::json::{self, JsonError, JsonProblem};

/// The reason why a text is not a JSON object with a message.
pub(super) struct Refusal {
    /// The offset of the error in the text, in bytes.
    pub(super) at: usize,
    pub(super) problem: JsonProblem,
}

impl From<JsonError> for Refusal {
    fn from(JsonError { at, problem, .. }: JsonError) -> Self {
        Self { at, problem }
    }
}

/// The names of members that may begin a log line, in any member order. A message never begins with
/// such a name.
const MEMBERS: [&str; 5] = ["time", "direction", "session", "message", "garbled"];

const EXPECTED: JsonProblem =
    JsonProblem::Expected("a message, or a line as `transfix logs --json` writes it");

/// Appends the message in the first JSON object of the text to `out`. Returns the end of the
/// object.
///
/// For a log line without a message, appends nothing.
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
                // The other members of the log line are skipped, because they are not fields of the
                // message.
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
