//! Messages as rows of an Apache Parquet file, for DuckDB, pandas and other analysis programs.
//!
//! Invariants: rows have the order in which the logs are read. Column `raw` contains the exact
//! bytes of each message, even if the other columns cannot. Memory is bounded by one row group.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Mask, Message, Tag, tag};

use super::origin::{Origins, WIRE};
use super::report::Report;
use super::sources::{Direction, Source};
use super::{Reader, each};
use crate::input::{
    Delimiter, Dictionaries, Failure, InputError, InputMessage, Place, Sink, covered, parse,
};

/// The columns of the table, in the schema language of Parquet.
///
/// `fields` maps each tag to a list of values, because a tag may occur in several group entries.
const SCHEMA: &str = "message transfix {
  optional int64 time (TIMESTAMP(NANOS,true));
  optional binary direction (STRING);
  optional binary session (STRING);
  optional int64 msg_seq_num;
  optional binary msg_type (STRING);
  optional binary msg_name (STRING);
  required boolean poss_dup;
  optional binary cl_ord_id (STRING);
  required group fields (MAP) {
    repeated group key_value {
      required int32 key;
      required group value (LIST) { repeated group list { required binary element (STRING); } }
    }
  }
  required binary raw;
  optional binary garbled (STRING);
  required binary file (STRING);
}";

/// Maximum number of rows, and of message bytes, in a row group.
const GROUP_ROWS: usize = 122_880;
const GROUP_BYTES: usize = 32 << 20;

const CL_ORD_ID: Tag = Tag(11);

/// Writes the messages of these sources as one table, and adds counts and errors to the report.
///
/// An unreadable source is reported, and the remaining sources are still read.
///
/// # Errors
/// If a dictionary cannot be read, or the output cannot be written.
pub fn write(
    sources: &[Source],
    delimiter: Option<Delimiter>,
    (dictionaries, mask): (Dictionaries, Option<Mask>),
    report: &mut Report,
    out: impl Write + Send,
) -> Result<(), Failure> {
    let mut table = Table::new(out, dictionaries, mask, std::mem::take(report))?;
    // The collected rows are written even if a source is unreadable, so that the file is valid.
    each(sources, delimiter, &mut table)?;
    table.flush()?;
    let Table { writer, report: done, .. } = table;
    *report = done;
    writer.close().map_err(unwritten)?;
    Ok(())
}

/// Converts an error of the Parquet writer; an IO error, such as a closed pipe, stays an IO error.
fn unwritten(error: ParquetError) -> Failure {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => Failure::Write(*error),
            Err(other) => Failure::Write(io::Error::other(other.to_string())),
        },
        other => Failure::Write(io::Error::other(other.to_string())),
    }
}

/// The values of one column of a row group, with their Parquet definition and repetition levels.
#[derive(Default)]
struct Column<T> {
    values: Vec<T>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl<T> Column<T> {
    /// Adds the value of a row; `None` is a null.
    fn push(&mut self, value: Option<T>) {
        self.defined.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    /// Adds a value inside a map or list, or the placeholder of an empty map or list, with its
    /// definition and repetition level.
    fn push_at(&mut self, value: Option<T>, defined: i16, repeated: i16) {
        self.values.extend(value);
        self.defined.push(defined);
        self.repeated.push(repeated);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.defined.clear();
        self.repeated.clear();
    }
}

/// A column of text or byte values.
type Texts = Column<ByteArray>;

/// The columns of the row group that is being collected.
#[derive(Default)]
struct Rows {
    count: usize,
    bytes: usize,
    time: Column<i64>,
    direction: Texts,
    session: Texts,
    msg_seq_num: Column<i64>,
    msg_type: Texts,
    msg_name: Texts,
    poss_dup: Column<bool>,
    cl_ord_id: Texts,
    tags: Column<i32>,
    values: Texts,
    raw: Texts,
    garbled: Texts,
    file: Texts,
}

struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    rows: Rows,
    report: Report,
    source: Source,
    file: ByteArray,
    origins: Origins,
    dictionaries: Dictionaries,
    mask: Option<Mask>,
    index: FieldIndex,
    /// Index of each tag in column `fields` for the current message.
    places: HashMap<Tag, usize>,
}

impl<W: Write + Send> Table<W> {
    fn new(
        out: W,
        dictionaries: Dictionaries,
        mask: Option<Mask>,
        report: Report,
    ) -> Result<Self, Failure> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(unwritten)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties.build()));
        Ok(Self {
            writer: writer.map_err(unwritten)?,
            rows: Rows::default(),
            report,
            source: Source::new("-".as_ref()),
            file: ByteArray::from("-"),
            origins: Origins::new(),
            index: dictionaries.index(),
            dictionaries,
            mask,
            places: HashMap::new(),
        })
    }

    /// Writes the collected rows as a row group.
    fn flush(&mut self) -> Result<(), Failure> {
        if self.rows.count > 0 {
            write_group(&mut self.writer, &self.rows).map_err(unwritten)?;
            self.rows.clear();
        }
        Ok(())
    }

    fn row(&mut self, found: &InputMessage<'_>, wrong: Option<InputError>) -> Result<(), Failure> {
        let bytes = match &self.mask {
            Some(mask) => covered(mask, found.bytes, &mut self.index),
            None => found.bytes.into(),
        };
        let head = found.head.as_bytes();
        let way = self.origins.way(&bytes, WIRE, head, &self.source);
        let ends = self.origins.ends(&bytes, WIRE);
        let rows = &mut self.rows;
        rows.count += 1;
        rows.bytes += bytes.len();
        rows.time.push(self.origins.time(&bytes, WIRE, head).map(|time| time.0));
        rows.direction.push(way.map(Direction::word).map(ByteArray::from));
        let session = ends.are_known().then(|| ends.session(way));
        rows.session.push(session.map(|session| session.into_bytes().into()));
        rows.raw.values.push(bytes.to_vec().into());
        rows.garbled.push(wrong.map(|wrong| wrong.to_string().into_bytes().into()));
        rows.file.values.push(self.file.clone());
        let mut index = std::mem::take(&mut self.index);
        let done = match parse(&bytes, &mut index, CheckSumPolicy::Ignore) {
            Ok(message) => self.message(&message),
            Err(_) => {
                self.rows.no_message();
                Ok(())
            }
        };
        self.index = index;
        done?;
        match self.rows.count >= GROUP_ROWS || self.rows.bytes >= GROUP_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Adds the column values of a parsed message.
    fn message(&mut self, message: &Message<'_>) -> Result<(), Failure> {
        let msg_type = message.msg_type();
        let pair = self.dictionaries.find(message).map_err(Failure::Read)?;
        let known = self.dictionaries.pair(pair).message(msg_type);
        let rows = &mut self.rows;
        let number = message.msg_seq_num().ok();
        rows.msg_seq_num.push(number.and_then(|number| i64::try_from(number).ok()));
        rows.msg_type.push(Some(text(msg_type.as_bytes())));
        rows.msg_name.push(known.map(|known| ByteArray::from(&*known.name)));
        rows.poss_dup.values.push(message.raw(tag::POSS_DUP_FLAG) == Some(b"Y"));
        rows.cl_ord_id.push(message.raw(CL_ORD_ID).map(text));
        rows.fields(message, &mut self.places);
        Ok(())
    }
}

impl Rows {
    /// Adds empty column values for bytes that are not a valid message.
    fn no_message(&mut self) {
        self.msg_seq_num.push(None);
        self.msg_type.push(None);
        self.msg_name.push(None);
        self.poss_dup.values.push(false);
        self.cl_ord_id.push(None);
        self.tags.push_at(None, 0, 0);
        self.values.push_at(None, 0, 0);
    }

    /// Adds the message's tags in order of first occurrence, each with all its values.
    ///
    /// A field without a valid tag is written only in column `raw`.
    fn fields(&mut self, message: &Message<'_>, places: &mut HashMap<Tag, usize>) {
        places.clear();
        let mut fields: Vec<(Tag, Vec<&[u8]>)> = Vec::new();
        for n in 0..message.len() {
            let Some(field) = message.at(n).filter(|field| field.tag.0 > 0) else { continue };
            let at = *places.entry(field.tag).or_insert(fields.len());
            match fields.get_mut(at) {
                Some((_, values)) => values.push(field.value),
                None => fields.push((field.tag, vec![field.value])),
            }
        }
        for (n, (tag, values)) in fields.into_iter().enumerate() {
            // The repetition level is 0 for the first value of a message, 1 for the first value of
            // a tag, and 2 for each further value of the tag.
            let repeated = i16::from(n > 0);
            self.tags.push_at(Some(i32::try_from(tag.0).unwrap_or(i32::MAX)), 1, repeated);
            for (m, value) in values.into_iter().enumerate() {
                self.values.push_at(Some(text(value)), 2, if m > 0 { 2 } else { repeated });
            }
        }
    }

    fn clear(&mut self) {
        (self.count, self.bytes) = (0, 0);
        let Self { time, msg_seq_num, poss_dup, tags, .. } = self;
        time.clear();
        msg_seq_num.clear();
        poss_dup.clear();
        tags.clear();
        let Self { direction, session, msg_type, msg_name, cl_ord_id, values, .. } = self;
        let texts = [direction, session, msg_type, msg_name, cl_ord_id, values];
        texts.into_iter().for_each(Column::clear);
        let texts = [&mut self.raw, &mut self.garbled, &mut self.file];
        texts.into_iter().for_each(Column::clear);
    }
}

/// Returns a value as text; non-UTF-8 bytes are written as `\xNN`.
fn text(value: &[u8]) -> ByteArray {
    match std::str::from_utf8(value) {
        Ok(_) => value.to_vec().into(),
        Err(_) => Shown::whole(value).to_string().into_bytes().into(),
    }
}

/// Writes a row group, column by column.
fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    rows: &Rows,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let texts = |column: &Texts, into: &mut SerializedColumnWriter<'_>| {
        let levels = |levels: &Vec<i16>| (!levels.is_empty()).then(|| levels.clone());
        let (defined, repeated) = (levels(&column.defined), levels(&column.repeated));
        let into = into.typed::<ByteArrayType>();
        into.write_batch(&column.values, defined.as_deref(), repeated.as_deref()).map(|_| ())
    };
    let numbers = |column: &Column<i64>, into: &mut SerializedColumnWriter<'_>| {
        into.typed::<Int64Type>()
            .write_batch(&column.values, Some(&column.defined), None)
            .map(|_| ())
    };
    let mut n = 0;
    while let Some(mut column) = group.next_column()? {
        let into = &mut column;
        match n {
            0 => numbers(&rows.time, into)?,
            1 => texts(&rows.direction, into)?,
            2 => texts(&rows.session, into)?,
            3 => numbers(&rows.msg_seq_num, into)?,
            4 => texts(&rows.msg_type, into)?,
            5 => texts(&rows.msg_name, into)?,
            6 => {
                into.typed::<BoolType>().write_batch(&rows.poss_dup.values, None, None)?;
            }
            7 => texts(&rows.cl_ord_id, into)?,
            8 => {
                let Column { values, defined, repeated } = &rows.tags;
                into.typed::<Int32Type>().write_batch(values, Some(defined), Some(repeated))?;
            }
            9 => texts(&rows.values, into)?,
            10 => texts(&rows.raw, into)?,
            11 => texts(&rows.garbled, into)?,
            _ => texts(&rows.file, into)?,
        }
        column.close()?;
        n += 1;
    }
    group.close().map(|_| ())
}

impl<W: Write + Send> Reader for Table<W> {
    fn begin(&mut self, source: &Source) {
        self.source.clone_from(source);
        self.file = ByteArray::from(&*source.name);
        self.report.file = format!("{}: ", source.name);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl<W: Write + Send> Sink for Table<W> {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.report.messages += 1;
        let wrong = found.fault(&mut self.index);
        if let Some(wrong) = wrong {
            self.report.garbled(found.place, wrong);
        }
        self.row(found, wrong)
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.report.garbled(place, wrong);
        Ok(())
    }
}
