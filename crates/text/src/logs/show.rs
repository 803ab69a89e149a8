//! Output forms of messages: readable text, raw bytes, CSV, JSON, or no output.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::Write;

use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Mask, Message, Tag, tag};

use super::condition::tag_of;
use super::origin::{Origins, WIRE};
use super::sources::{Direction, Source};
use crate::convert::Objects;
use crate::input::{Dictionaries, Failure, InputMessage, covered, parse};
use crate::print::{self, Palette};

/// A CSV column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Direction,
    Session,
    File,
    Field(u32),
    /// A column about the answer to a request.
    Answer(Answer),
}

/// The columns that describe the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Time,
    Type,
    LatencyNs,
}

impl Answer {
    /// Returns the character that marks this column in a row until the answer is known.
    ///
    /// This control character is unambiguous, because cells contain control characters only in
    /// escaped form.
    pub(super) const fn place(self) -> char {
        match self {
            Self::Time => '\u{1}',
            Self::Type => '\u{2}',
            Self::LatencyNs => '\u{3}',
        }
    }
}

/// The content of a CSV row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Messages.
    Messages,
    /// Each row is a request with its answer.
    Requests,
}

/// Names of the columns that are not FIX fields.
const COLUMNS: &[(&str, Column)] = &[
    ("time", Column::Time),
    ("direction", Column::Direction),
    ("session", Column::Session),
    ("file", Column::File),
    ("answer_time", Column::Answer(Answer::Time)),
    ("answer", Column::Answer(Answer::Type)),
    ("latency_ns", Column::Answer(Answer::LatencyNs)),
];

/// An output form of messages.
#[derive(Debug)]
pub enum Form {
    /// Readable text with the field and code names of the dictionary.
    Readable {
        /// If true, each message is one line, without header and trailer.
        one_line: bool,
        /// The colours.
        palette: &'static Palette,
    },
    /// The bytes of the message, followed by a line break.
    Raw,
    /// CSV rows with these columns.
    Csv(Csv),
    /// One JSON object per line: time, direction, session, and the message as [`Objects`] writes
    /// it.
    Json(Box<Objects>),
    /// No output.
    Count,
}

/// The columns of a CSV output (RFC 4180).
#[derive(Debug)]
pub struct Csv {
    columns: Vec<Column>,
    /// The header line with the column names; `None` after it has been written.
    names: Option<String>,
}

impl Csv {
    /// Parses the column names given by the user.
    ///
    /// A column is a field name or tag, `time`, `direction`, `session` or `file`. With
    /// [`Rows::Requests`], `answer_time`, `answer` and `latency_ns` are also available.
    ///
    /// # Errors
    /// If a column is unknown.
    pub fn of(
        words: &[String],
        rows: Rows,
        dictionaries: &mut Dictionaries,
    ) -> Result<Self, ColumnError> {
        let mut columns = Vec::new();
        for word in words {
            let known = COLUMNS.iter().find(|(name, _)| name == word).map(|(_, column)| *column);
            let column = match (known, word.parse()) {
                (Some(Column::Answer(_)), _) if rows == Rows::Messages => {
                    return Err(ColumnError::OfAnswers(word.clone()));
                }
                (Some(column), _) => column,
                (None, Ok(tag)) if tag > 0 => Column::Field(tag),
                _ => Column::Field(tag_of(word, dictionaries).map_err(ColumnError::Unknown)?),
            };
            columns.push(column);
        }
        let names = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(",");
        Ok(Self { columns, names: Some(names) })
    }

    /// Writes the header line with the column names before the first row.
    pub(super) fn begin(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        match self.names.take() {
            Some(names) => Ok(writeln!(out, "{names}")?),
            None => Ok(()),
        }
    }

    /// Returns the CSV row of a message.
    pub(super) fn row(
        &self,
        bytes: &[u8],
        message: Option<&Message<'_>>,
        head: &[u8],
        (origins, source): (&Origins, &Source),
    ) -> String {
        let way = origins.way(bytes, WIRE, head, source);
        let mut row = String::new();
        for (n, column) in self.columns.iter().enumerate() {
            let cell = match column {
                Column::Time => origins.time(bytes, WIRE, head).map(|time| time.to_string()),
                Column::Direction => way.map(|way| way.word().to_owned()),
                Column::Session => Some(origins.ends(bytes, WIRE).session(way)),
                Column::File => Some(source.name.clone()),
                Column::Field(tag) => message.map(|message| {
                    let values = message.all(Tag(*tag));
                    let values = values.map(|value| Shown::whole(value).to_string());
                    values.collect::<Vec<_>>().join(" ")
                }),
                Column::Answer(answer) => Some(answer.place().to_string()),
            };
            row.push_str(if n == 0 { "" } else { "," });
            row.push_str(&quoted(&cell.unwrap_or_default()));
        }
        row
    }
}

/// The reason why a column is invalid.
#[derive(PartialEq, Eq)]
pub enum ColumnError {
    /// The column describes an answer, but the rows are messages.
    OfAnswers(String),
    /// No dictionary defines the field; the text suggests the nearest name.
    Unknown(String),
}

impl fmt::Display for ColumnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfAnswers(word) => write!(
                f,
                "the column '{word}' exists only for answers to \
                requests"
            ),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for ColumnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ColumnError {}

/// Writer of messages in one output form. Asterisks replace the values that the mask hides.
#[derive(Debug)]
pub struct Show<W> {
    pub(super) out: W,
    pub(super) form: Form,
    dictionaries: Dictionaries,
    mask: Option<Mask>,
    origins: Origins,
    index: FieldIndex,
    text: String,
}

impl<W: Write> Show<W> {
    /// Creates a writer of messages to `out`.
    pub fn new(out: W, form: Form, dictionaries: Dictionaries, mask: Option<Mask>) -> Self {
        let index = dictionaries.index();
        let (origins, text) = (Origins::new(), String::new());
        Self { out, form, dictionaries, mask, origins, index, text }
    }

    /// Returns an empty field index that knows the custom data fields.
    pub(super) fn new_index(&self) -> FieldIndex {
        self.dictionaries.index()
    }

    /// Writes `mark` and then the message.
    pub(super) fn message(
        &mut self,
        mark: &str,
        found: &InputMessage<'_>,
        source: &Source,
    ) -> Result<(), Failure> {
        if matches!(self.form, Form::Count) {
            return Ok(());
        }
        let bytes = match &self.mask {
            Some(mask) => covered(mask, found.bytes, &mut self.index),
            None => Cow::Borrowed(found.bytes),
        };
        match &mut self.form {
            Form::Count => {}
            Form::Raw => {
                self.out.write_all(&bytes)?;
                self.out.write_all(b"\n")?;
            }
            Form::Json(_) => {
                let bytes = bytes.into_owned();
                self.json(&bytes, found, source)?;
            }
            Form::Csv(_) => {
                let bytes = bytes.into_owned();
                self.csv(&bytes, found, source)?;
            }
            Form::Readable { .. } => {
                let bytes = bytes.into_owned();
                self.readable(mark, &bytes, found)?;
            }
        }
        Ok(())
    }

    fn readable(
        &mut self,
        mark: &str,
        bytes: &[u8],
        found: &InputMessage<'_>,
    ) -> Result<(), Failure> {
        let Form::Readable { one_line, palette } = self.form else { return Ok(()) };
        let gap = if one_line { "  " } else { "\n" };
        self.text.clear();
        self.text.push_str(mark);
        if !found.head.is_empty() {
            let _ = write!(self.text, "{}{gap}", found.head);
        }
        let wrong = found.fault(&mut self.index);
        match parse(bytes, &mut self.index, CheckSumPolicy::Ignore) {
            Ok(message) => {
                if let Some(wrong) = wrong {
                    let _ =
                        write!(self.text, "note: {wrong}{}", if one_line { ": " } else { "\n" });
                }
                let pair = self.dictionaries.find(&message).map_err(Failure::Read)?;
                let pair = self.dictionaries.pair(pair);
                let dictionaries = [&*pair.session, &*pair.application];
                // Writing to a String never fails.
                let _ = if one_line {
                    print::one_line(&message, dictionaries, palette, &mut self.text)
                } else {
                    print::readable(&message, dictionaries, palette, &mut self.text)
                };
            }
            Err(_) => {
                let _ = write!(self.text, "not a message: {}", bytes.escape_ascii());
            }
        }
        self.text.push('\n');
        Ok(self.out.write_all(self.text.as_bytes())?)
    }

    /// Writes a JSON object with the time, direction and session of the message, and the message
    /// itself.
    fn json(
        &mut self,
        bytes: &[u8],
        found: &InputMessage<'_>,
        source: &Source,
    ) -> Result<(), Failure> {
        let Form::Json(json) = &mut self.form else { return Ok(()) };
        let head = found.head.as_bytes();
        let way = self.origins.way(bytes, WIRE, head, source);
        let ends = self.origins.ends(bytes, WIRE);
        let time = self.origins.time(bytes, WIRE, head).map(|time| time.to_string());
        let session = ends.are_known().then(|| ends.session(way));
        let quoted = |text: Option<&str>| serde_json::json!(text).to_string();
        let [time, way, session] =
            [time.as_deref(), way.map(Direction::word), session.as_deref()].map(quoted);
        write!(self.out, "{{\"time\":{time},\"direction\":{way},\"session\":{session},")?;
        match json.text(bytes)? {
            Some(message) => writeln!(self.out, "\"message\":{message}}}")?,
            None => {
                let garbled = quoted(Some(&bytes.escape_ascii().to_string()));
                writeln!(self.out, "\"garbled\":{garbled}}}")?;
            }
        }
        Ok(())
    }

    fn csv(
        &mut self,
        bytes: &[u8],
        found: &InputMessage<'_>,
        source: &Source,
    ) -> Result<(), Failure> {
        self.names()?;
        let Form::Csv(csv) = &self.form else { return Ok(()) };
        let message = parse(bytes, &mut self.index, CheckSumPolicy::Ignore).ok();
        let head = found.head.as_bytes();
        let row = csv.row(bytes, message.as_ref(), head, (&self.origins, source));
        Ok(writeln!(self.out, "{row}")?)
    }

    /// Writes the header line of a CSV output, if it has not been written yet.
    pub(super) fn names(&mut self) -> Result<(), Failure> {
        match &mut self.form {
            Form::Csv(csv) => csv.begin(&mut self.out),
            _ => Ok(()),
        }
    }
}

/// Returns the text as a CSV cell (RFC 4180), quoted if needed.
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")));
    }
    Cow::Borrowed(text)
}

/// Returns the name of a code, such as `FILLED`; returns the value itself if the dictionary does
/// not define the code.
pub(super) fn code_in_words(
    dictionaries: &Dictionaries,
    pair: usize,
    tag: Tag,
    value: &[u8],
) -> String {
    let field = dictionaries.pair(pair).field(tag.0);
    match field.and_then(|field| field.code(value)) {
        Some(code) => code.name.clone(),
        None => Shown::whole(value).to_string(),
    }
}

/// Returns the name and type of a message with this MsgType(35), such as `NewOrderSingle(D)`.
pub(super) fn name_of(dictionaries: &Dictionaries, pair: usize, msg_type: &[u8]) -> String {
    let pair = dictionaries.pair(pair);
    let known = std::str::from_utf8(msg_type).ok().and_then(|text| {
        let of = |dictionary: &transfix_dictionary::Dictionary| {
            dictionary.message(text).map(|message| message.name.clone())
        };
        of(&pair.session).or_else(|| of(&pair.application))
    });
    format!("{}({})", known.as_deref().unwrap_or("?"), Shown::whole(msg_type))
}

/// Returns the name and type of this message, such as `NewOrderSingle(D)`.
pub(super) fn type_of(dictionaries: &Dictionaries, pair: usize, message: &Message<'_>) -> String {
    let msg_type = message.raw(tag::MSG_TYPE).unwrap_or_default();
    name_of(dictionaries, pair, msg_type)
}
