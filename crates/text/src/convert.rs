//! Lossless conversion of FIX messages to JSON and back, with the dictionary that fits each
//! message.

mod line;

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::sync::Arc;

use transfix_codec::{CheckSumPolicy, FieldIndex, Mask, SOH, Tag};
use transfix_dictionary::Dictionary;

use crate::input::{Delimiter, Dictionaries, Failure, parse, read_some};
use crate::json::{self, JsonProblem};
use line::Refusal;

/// A converter of messages to JSON objects, which uses the field names of each message's version.
#[derive(Debug)]
pub struct Objects {
    dictionaries: Dictionaries,
    /// The JSON writers, indexed by the number of the dictionary pair.
    writers: Vec<json::Writer<Arc<Dictionary>>>,
    tags: bool,
    index: FieldIndex,
    text: String,
}

impl Objects {
    /// Creates a converter that writes field names, or tag numbers if `tags` is true.
    #[must_use]
    pub fn new(dictionaries: Dictionaries, tags: bool) -> Self {
        let (writers, index, text) = (Vec::new(), dictionaries.index(), String::new());
        Self { dictionaries, writers, tags, index, text }
    }

    /// Returns the JSON object of a message, or `None` if the bytes are not a FIX message.
    ///
    /// # Errors
    /// If a dictionary cannot be read.
    pub fn text(&mut self, bytes: &[u8]) -> Result<Option<&str>, Failure> {
        let Ok(message) = parse(bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            return Ok(None);
        };
        self.text.clear();
        // The result is ignored, because writing to a `String` never fails.
        let _ = if self.tags {
            json::Writer::plain().write(&message, &mut self.text)
        } else {
            let number = self.dictionaries.find(&message).map_err(Failure::Read)?;
            while self.writers.len() <= number {
                let pair = self.dictionaries.pair(self.writers.len()).clone();
                self.writers.push(json::Writer::named(pair.session, pair.application));
            }
            self.writers[number].write(&message, &mut self.text)
        };
        Ok(Some(&self.text))
    }
}

/// The maximum length of one JSON object in the input, in bytes.
const OBJECT_BYTES_MAX: usize = 64 << 20;

/// Reads JSON objects separated by white space, and writes the corresponding FIX messages.
///
/// The delimiter defaults to SOH. `on_left_out` is called for each skipped message, with the line
/// number (from 1) and the reason.
///
/// A JSON object is a message in the form of [`Objects`], or a log line whose member `message` is
/// such a message.
///
/// # Errors
/// If a text is not such an object, or the input or output fails.
pub fn to_fix(
    input: &mut dyn Read,
    (delimiter, mask): (Option<Delimiter>, Option<&Mask>),
    mut dictionaries: Dictionaries,
    mut out: impl Write,
    on_left_out: &mut dyn FnMut(usize, &str),
) -> Result<(), Failure> {
    let (mut buffer, mut message) = (Vec::<u8>::new(), Vec::new());
    let (mut begin, mut line, mut at_end) = (0, 1, false);
    let data_fields = dictionaries.data_fields();
    // The length that the text must reach before the next attempt to parse it. An incomplete text
    // is parsed again only when its length has doubled.
    let mut enough = 0;
    loop {
        let text = &buffer[begin..];
        let blanks = text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        line += lines(&text[..blanks]);
        begin += blanks;
        let text = &buffer[begin..];
        let is_over = at_end && text.is_empty();
        if is_over {
            out.flush()?;
            return Ok(());
        }
        message.clear();
        let names = std::cell::RefCell::new(&mut dictionaries);
        let tag_of = |name: &str| names.borrow_mut().tag_named(name).map(Tag);
        let outcome = if text.len() < enough && !at_end {
            Err(None)
        } else {
            line::read(text, tag_of, &data_fields, &mut message).map_err(Some)
        };
        match outcome {
            Ok(length) if message.is_empty() => {
                on_left_out(line, "the object contains no message");
                line += lines(&text[..length]);
                begin += length;
                enough = 0;
            }
            Ok(length) => {
                let shown = mask.map_or(Cow::Borrowed(&message[..]), |mask| mask.message(&message));
                if let Err(refusal) = write(&shown, delimiter, &mut out)? {
                    on_left_out(line, &refusal);
                }
                line += lines(&text[..length]);
                begin += length;
                enough = 0;
            }
            Err(Some(error)) if at_end || error.problem != JsonProblem::Unfinished => {
                out.flush()?;
                return Err(Failure::Read(refused(text, line, &error)));
            }
            Err(_) if text.len() > OBJECT_BYTES_MAX => {
                return Err(Failure::Read(format!("line {line}: the object is too long")));
            }
            Err(error) => {
                enough = if error.is_some() { text.len() * 2 } else { enough };
                buffer.drain(..begin);
                begin = 0;
                out.flush()?;
                at_end = read_some(input, &mut buffer).map_err(Failure::Read)? == 0;
            }
        }
    }
}

/// Describes a parse error with its line and column. The text begins in line `line`.
fn refused(text: &[u8], line: usize, error: &Refusal) -> String {
    let (before, rest) = text.split_at(error.at.min(text.len()));
    let column = before.rsplit(|&b| b == b'\n').next().map_or(0, <[u8]>::len) + 1;
    let line = line + lines(before);
    let mut strings = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
    let problem = match (&error.problem, strings.next()) {
        (JsonProblem::UnknownName, Some(Ok(name))) => {
            format!("no dictionary has a field '{name}'; write its tag")
        }
        (problem, _) => problem.to_string(),
    };
    format!("line {line}, column {column}: {problem}")
}

fn lines(text: &[u8]) -> usize {
    text.iter().filter(|&&b| b == b'\n').count()
}

/// Writes one message. With a delimiter other than SOH, the message ends with a line feed.
///
/// Returns a reason, without writing, if a field contains the delimiter text.
fn write(
    message: &[u8],
    delimiter: Option<Delimiter>,
    out: &mut impl Write,
) -> io::Result<Result<(), String>> {
    let Some(delimiter) = delimiter.filter(|delimiter| *delimiter != Delimiter::Soh) else {
        return out.write_all(message).map(Ok);
    };
    let by = delimiter.text();
    let holds = |field: &[u8]| field.windows(by.len()).any(|bytes| bytes == by);
    if let Some(field) = message.split(|&b| b == SOH).find(|field| holds(field)) {
        let tag = field.split(|&b| b == b'=').next().unwrap_or_default().escape_ascii();
        let by = by.escape_ascii();
        return Ok(Err(format!("field {tag} holds '{by}'; write it with another --delimiter")));
    }
    for field in message.split_inclusive(|&b| b == SOH) {
        let text = field.strip_suffix(&[SOH]).unwrap_or(field);
        out.write_all(text)?;
        out.write_all(by)?;
    }
    out.write_all(b"\n").map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{self, InputError, InputMessage, Place, Sink};

    /// A sink that writes each message as a line of JSON.
    struct Lines(Objects, String);

    impl Sink for Lines {
        fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
            self.1 += self.0.text(found.bytes)?.unwrap();
            self.1 += "\n";
            Ok(())
        }

        fn garbled(&mut self, _: Place, _: InputError) -> Result<(), Failure> {
            panic!("all is sound")
        }
    }

    fn to_json(log: &[u8], tags: bool) -> String {
        let mut lines = Lines(Objects::new(Dictionaries::default(), tags), String::new());
        input::stream(&mut &log[..], None, None, &mut lines).unwrap();
        lines.1
    }

    fn to_fix(text: &str, delimiter: Option<Delimiter>) -> Result<String, String> {
        let mut out = Vec::new();
        let dictionaries = Dictionaries::default();
        let form = (delimiter, None);
        match super::to_fix(&mut text.as_bytes(), form, dictionaries, &mut out, &mut |_, _| ()) {
            Ok(()) => Ok(String::from_utf8(out).unwrap()),
            Err(Failure::Read(error)) => Err(error),
            Err(other) => panic!("{other}"),
        }
    }

    const LOG: &str = "8=FIX.4.2|9=12|35=8|54=1|x|10=000|\n8=FIXT.1.1|9=5|35=0|10=000|\n";

    #[test]
    fn there_and_back() {
        for tags in [false, true] {
            let text = to_json(LOG.as_bytes(), tags);
            assert_eq!(text.lines().count(), 2);
            assert_eq!(text.contains("\"Side\":\"1\""), !tags, "{text}");
            assert_eq!(to_fix(&text, Some(Delimiter::Pipe)).unwrap(), LOG);
            assert_eq!(to_fix(&text, None).unwrap(), LOG.replace('|', "\x01").replace('\n', ""));
            let spread = text.replace(',', " ,\n\t").replace('\n', "\r\n");
            assert_eq!(to_fix(&spread, Some(Delimiter::Pipe)).unwrap(), LOG);
        }
    }

    #[test]
    fn a_line_of_logs_has_its_message_in_it() {
        let message = to_json(LOG.as_bytes(), false).lines().next().unwrap().to_owned();
        let expected = LOG.lines().next().unwrap().to_owned() + "\n";
        for line in [
            format!(r#"{{"time":null,"direction":"in","session":"a\"}}","message":{message}}}"#),
            // The members are sorted by name, as `jq -S` does.
            format!(r#"{{"direction":null,"message":{message},"session":null,"time":"x"}}"#),
            format!("{{ \"message\" :\n {message} \n}}"),
        ] {
            assert_eq!(to_fix(&line, Some(Delimiter::Pipe)).unwrap(), expected, "{line}");
            let mut dictionaries = Dictionaries::default();
            let names = std::cell::RefCell::new(&mut dictionaries);
            let tag_of = |name: &str| names.borrow_mut().tag_named(name).map(Tag);
            for cut in 1..line.len() {
                let mut out = Vec::new();
                let refusal = line::read(&line.as_bytes()[..cut], tag_of, &[], &mut out);
                let problem = refusal.err().map(|refusal| refusal.problem);
                assert_eq!(problem, Some(JsonProblem::Unfinished), "{}", &line[..cut]);
                assert!(out.is_empty());
            }
        }
        // A line with text that is not a message is skipped and counted.
        let garbled = r#"{"time":null,"garbled":"8=FIX"}"#;
        let both = format!("{garbled}\n{message}");
        assert_eq!(to_fix(&both, Some(Delimiter::Pipe)).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let table = [
            (
                "{\"8\":\"x\",\"35\":0}\n\n {\"8\":\n\"x\",\"Prise\":1}",
                "line 4, column 5: no dictionary has a field 'Prise'",
            ),
            ("{\"8\":\"x\",\"35\":0} x", "line 1, column 1: expected an object"),
            ("\n {}", "line 2, column 1: a message begins with BeginString(8) and MsgType(35)"),
            (
                "{\"8\":\"x\",\"35\":0,\n\"Text\":\"a\\u0001b\"}",
                "line 2, column 1: the value of field 58 holds SOH",
            ),
            ("{\"8\":\"x\",\"35\":0,\"NoLegs\":{\"a\":1}}", "line 1, column 30: expected"),
            ("{\"8\":\"x\"", "line 1, column 9: the text ends within the message"),
            (
                "{\"time\":null,\n\"message\":{\"8\":\"x\",\"Prise\":1}}",
                "line 2, column 20: no dictionary has a field 'Prise'",
            ),
            ("{\"time\":null,\n\"x\" 1}", "line 2, column 4: expected a message, or a line as"),
        ];
        for (text, expected) in table {
            let error = to_fix(text, None).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
