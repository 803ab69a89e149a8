//! A reader of FIX messages from captures, logs and store journals.
//!
//! [`read`] passes each message to a [`Sink`], whether the message is valid or not. In a stream,
//! the reader detects the delimiter of each message. The text before a message on its line is the
//! [`head`](InputMessage::head).
//!
//! ```
//! use transfix_text::input::{self, Failure, InputError, InputMessage, Place, Sink};
//!
//! struct Count(u64, u64);
//!
//! impl Sink for Count {
//!     fn message(&mut self, _: &InputMessage<'_>) -> Result<(), Failure> {
//!         self.0 += 1;
//!         Ok(())
//!     }
//!
//!     fn garbled(&mut self, _: Place, _: InputError) -> Result<(), Failure> {
//!         self.1 += 1;
//!         Ok(())
//!     }
//! }
//!
//! let log = b"20261121-09:28:25.623 : 8=FIX.4.4|9=5|35=0|10=163|\n8=FIX.4.4|9=5|35";
//! let mut count = Count(0, 0);
//! input::stream(&mut &log[..], None, None, &mut count)?;
//! assert_eq!((count.0, count.1), (1, 1));
//! # Ok::<(), Failure>(())
//! ```
//!
//! Invariant: the longest message limits the memory in use; the size of the file does not matter.

mod dictionaries;
mod masking;
mod open;
mod split;
mod stream;
mod types;
mod within;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{error, fmt};

use transfix_codec::shown::Shown;
use transfix_codec::{
    CheckSumPolicy, FieldIndex, Frame, Garbled, Limits, Mask, Message, SOH, Timestamp, frame,
};
use transfix_store::StoreError;
use transfix_store::journal::{self, Entry, Event};

pub use dictionaries::{Dictionaries, Pair};
pub use masking::{covered, covered_entry};
pub use open::open;
use split::MESSAGE_BYTES_MAX;
pub use split::{Delimiter, InputError};
pub use stream::{End, Stream};
pub use types::msg_types;

/// The reason why reading stops.
pub enum Failure {
    /// The input cannot be read.
    Read(String),
    /// The output cannot be written.
    Write(io::Error),
    /// The sink has requested the end, because it needs no more messages.
    Enough,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => f.write_str(error),
            Self::Write(error) => write!(f, "cannot write: {error}"),
            Self::Enough => f.write_str("the reader wants no further messages"),
        }
    }
}

/// The output equals that of [`fmt::Display`], so that an error that `main` returns is printed as
/// readable text.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// A position in the input, for error reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A position in a stream, such as a log file.
    Stream {
        /// The line number, counted from 1.
        line: u64,
        /// The byte offset, counted from 0.
        byte: u64,
    },
    /// A position in a store's journal.
    Store {
        /// The number of the store's segment.
        segment: u64,
        /// The byte offset within the segment.
        byte: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { line, byte } => write!(f, "line {line}, byte {byte}"),
            Self::Store { segment, byte } => write!(f, "segment {segment}, byte {byte}"),
        }
    }
}

/// A message that was read from the input.
#[derive(Clone, Copy, Debug)]
pub struct InputMessage<'i> {
    /// The bytes of the message as on the wire, with SOH as the delimiter.
    pub bytes: &'i [u8],
    /// The position of the message in the input.
    pub place: Place,
    /// The text before the message on its line, such as time, direction and number.
    pub head: &'i str,
    /// The error that the reader has found in the message, if any.
    pub wrong: Option<InputError>,
}

impl InputMessage<'_> {
    /// Returns the error of the message as a frame, such as a wrong BodyLength(9).
    ///
    /// The content of `index` does not matter; the buffer is only reused.
    pub fn fault(&self, index: &mut FieldIndex) -> Option<InputError> {
        let sound = parse(self.bytes, index, CheckSumPolicy::Verify).map(|_| ());
        self.wrong.or(sound.err().map(InputError::Garbled))
    }
}

/// A message of a stream, before its bytes are copied or its delimiters are replaced.
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'i> {
    /// The bytes as they are in the stream. BodyLength(9) is correct.
    pub bytes: &'i [u8],
    /// The byte that stands for SOH in this message. If the byte is not SOH, values may also
    /// contain it.
    pub by: u8,
    /// The text before the message on its line.
    pub head: &'i [u8],
}

/// The result of a sink's quick check of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The sink does not need the message.
    No,
    /// The sink must receive the whole message to decide.
    Perhaps,
}

/// A receiver of the messages that the reader finds.
pub trait Sink {
    /// Checks quickly if this sink may need the next message. The reader calls this method only for
    /// messages of a stream that have a correct BodyLength(9).
    fn glance(&mut self, _: &MessageView<'_>) -> Wanted {
        Wanted::Perhaps
    }

    /// Receives a message, which may be valid or not.
    ///
    /// # Errors
    /// Any error ends the reading; the same holds for the other methods.
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure>;

    /// Receives the position and error of a damaged message that could not be read.
    ///
    /// # Errors
    /// As [`Sink::message`].
    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure>;

    /// Receives a store record that is not a message, such as `reset 20261121-09:28:25`.
    ///
    /// # Errors
    /// As [`Sink::message`].
    fn mark(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// Called before the next message if that message may take a while, for example so that the
    /// sink can flush its output.
    ///
    /// # Errors
    /// As [`Sink::message`].
    fn pause(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Reads the messages of a file, of the standard input (`-`), or of a store.
///
/// Values that the mask hides are replaced by asterisks. If no delimiter is given, the reader
/// detects the delimiter of each message.
///
/// # Errors
/// If the input cannot be read, and the errors of the sink.
pub fn read(
    path: &Path,
    delimiter: Option<Delimiter>,
    mask: Option<&Mask>,
    sink: &mut dyn Sink,
) -> Result<(), Failure> {
    if path == Path::new("-") {
        return stream(&mut io::stdin().lock(), delimiter, mask, sink);
    }
    let unreadable = |error: StoreError| Failure::Read(error.to_string());
    let covered = |entry: Result<Entry, _>| entry.map(|entry| covered_entry(mask, entry));
    if path.is_dir() {
        if !holds_store(path) {
            let path = path.display();
            return Err(Failure::Read(format!(
                "{path}: no .seg file here; name the store directory of one session, or a file \
                 (`transfix logs` reads whole directories)"
            )));
        }
        let entries = journal::read(path).map_err(unreadable)?;
        return store(entries.map(covered), sink);
    }
    if is_segment(path) {
        let entries = journal::read_file(path).map_err(unreadable)?;
        return store(entries.map(covered), sink);
    }
    let mut file = open(path).map_err(Failure::Read)?;
    stream(&mut *file, delimiter, mask, sink)
}

/// Reads the messages of a capture or a log from a byte stream.
///
/// # Errors
/// As [`read`].
pub fn stream(
    input: &mut dyn Read,
    delimiter: Option<Delimiter>,
    mask: Option<&Mask>,
    sink: &mut dyn Sink,
) -> Result<(), Failure> {
    Stream::new(delimiter).read(input, End::Final, mask, sink)
}

/// Reads the messages and other records of a store.
///
/// # Errors
/// As [`read`].
pub fn store(
    entries: impl Iterator<Item = Result<Entry, StoreError>>,
    sink: &mut dyn Sink,
) -> Result<(), Failure> {
    for entry in entries {
        let entry = entry.map_err(|error| Failure::Read(error.to_string()))?;
        let time = Timestamp(i64::try_from(entry.time_ns).unwrap_or(i64::MAX));
        let (head, message) = match &entry.event {
            Event::Outbound(message) => (format!("out {} {time}", message.seq), Some(message)),
            Event::Inbound(message) => (format!("in {} {time}", message.seq), Some(message)),
            Event::NextIn(seq) => (format!("next_in {seq} {time}"), None),
            Event::NextOut(seq) => (format!("next_out {seq} {time}"), None),
            Event::Reset => (format!("reset {time}"), None),
            Event::Note(text) => (format!("note {time} {}", Shown::whole(text.as_bytes())), None),
            Event::Queued { ticket, bytes } => {
                (format!("queued {ticket} {time} {}", shown(bytes)), None)
            }
            Event::Unqueued(ticket) => (format!("unqueued {ticket} {time}"), None),
        };
        let Some(message) = message else {
            sink.mark(&head)?;
            continue;
        };
        let bytes = &message.bytes;
        let limits = Limits { message_bytes_max: MESSAGE_BYTES_MAX };
        let is_whole = frame::split(bytes, limits) == Frame::Whole(bytes.len());
        let wrong = (!is_whole).then_some(InputError::Garbled(Garbled::BodyLength));
        let place = Place::Store { segment: entry.segment, byte: entry.offset };
        sink.message(&InputMessage { bytes, place, head: &head, wrong })?;
    }
    Ok(())
}

/// Formats the fields of an incomplete message as text, separated by `|`.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    let fields = bytes.strip_suffix(b"\x01").unwrap_or(bytes).split(|&byte| byte == SOH);
    fields.map(|field| Shown::whole(field).to_string()).collect::<Vec<_>>().join("|")
}

/// Returns true if the file has the name of a store segment, compressed or not.
#[must_use]
pub fn is_segment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(".seg") || name.ends_with(".seg.zst"))
}

/// Returns true if the directory contains a store segment.
#[must_use]
pub fn holds_store(path: &Path) -> bool {
    // An unreadable directory counts as a store, so that opening its journal reports the error.
    path.read_dir().map_or(true, |all| all.flatten().any(|entry| is_segment(&entry.path())))
}

/// Returns the directory of the store to which a `.numbers` file belongs.
#[must_use]
pub fn store_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(".numbers")?;
    let store = path.with_file_name(name);
    (path.is_file() && store.is_dir()).then_some(store)
}

/// Parses the bytes of a message whose end was found without BodyLength(9).
///
/// # Errors
/// If the bytes are not a message.
pub fn parse<'a>(
    bytes: &'a [u8],
    index: &'a mut FieldIndex,
    check_sum: CheckSumPolicy,
) -> Result<Message<'a>, Garbled> {
    // `Message::parse` requires SOH at the end of a frame, so a missing SOH is added.
    if bytes.last() != Some(&SOH) {
        return Err(Garbled::BodyLength);
    }
    Message::parse(bytes, index, check_sum)
}

/// The number of bytes requested by one read call.
const CHUNK: usize = 256 << 10;

/// Appends the bytes of one read call to `buffer`. Returns the number of bytes, which is 0 at the
/// end of the input.
pub(crate) fn read_some(input: &mut dyn Read, buffer: &mut Vec<u8>) -> Result<usize, String> {
    let filled = buffer.len();
    buffer.resize(filled + CHUNK, 0);
    let read = loop {
        match input.read(&mut buffer[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
    read.map_err(|error| format!("cannot read on: {error}"))
}
