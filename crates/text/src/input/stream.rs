//! Reads the messages of a capture or a log in input order.
//!
//! Invariant: after the end of the input, a reader can resume at the same position, so that a
//! growing file can be followed.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use memchr::{memchr_iter, memrchr};
use transfix_codec::shown::Shown;
use transfix_codec::{FieldIndex, Mask};

use super::masking::covered;
use super::split::{Delimiter, Rest, Splitter, Step};
use super::{Failure, InputMessage, MessageView, Place, Sink, Wanted, read_some};

/// The meaning of the end of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The input is complete, so an incomplete message at the end is damaged.
    Final,
    /// The input may grow, so an incomplete message at the end may be completed later.
    Open,
}

/// A reader of the messages in one input, which may grow.
pub struct Stream {
    splitter: Splitter,
    buffer: Vec<u8>,
    /// The offset of the first unprocessed byte in the buffer.
    begin: usize,
    at: Position,
    index: FieldIndex,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Stream {
    /// Creates a reader at the start of an input. With `None`, the reader detects the delimiter of
    /// each message.
    #[must_use]
    pub fn new(delimiter: Option<Delimiter>) -> Self {
        Self {
            splitter: Splitter::new(delimiter),
            buffer: Vec::new(),
            begin: 0,
            at: Position { line: 1, ..Position::default() },
            index: FieldIndex::default(),
        }
    }

    /// Passes all messages up to the end of the input to the sink.
    ///
    /// # Errors
    /// If the input cannot be read, and the errors of the sink.
    pub fn read(
        &mut self,
        input: &mut dyn Read,
        end: End,
        mask: Option<&Mask>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let mut rest = Rest::Unknown;
        loop {
            let bytes = match self.splitter.step(&self.buffer[self.begin..], rest) {
                Step::More if rest == Rest::Nothing => return Ok(()),
                Step::More => {
                    self.at.drain(&self.buffer[..self.begin]);
                    self.buffer.drain(..self.begin);
                    self.begin = 0;
                    sink.pause()?;
                    if read_some(input, &mut self.buffer).map_err(Failure::Read)? == 0 {
                        match end {
                            End::Final => rest = Rest::Nothing,
                            End::Open => return Ok(()),
                        }
                    }
                    continue;
                }
                Step::Skip { bytes, wrong } => {
                    if let Some(wrong) = wrong {
                        sink.garbled(self.at.place(&self.buffer, self.begin), wrong)?;
                    }
                    self.at.pass(&self.buffer[self.begin..self.begin + bytes]);
                    self.begin += bytes;
                    continue;
                }
                Step::Frame { bytes, by } => {
                    let frame = &self.buffer[self.begin..self.begin + bytes];
                    let glance = MessageView { bytes: frame, by, head: &self.at.head };
                    if sink.glance(&glance) == Wanted::Perhaps {
                        let wrong = self.splitter.take(frame, by);
                        self.found(wrong, mask, sink)?;
                    }
                    bytes
                }
                Step::Message { bytes, wrong } => {
                    self.found(wrong, mask, sink)?;
                    bytes
                }
            };
            // The text after a line break in a value is part of the message, and must not become
            // the head of the next message.
            self.at.head.clear();
            self.begin += bytes;
        }
    }

    /// Passes the message that the splitter has found to the sink.
    fn found(
        &mut self,
        wrong: Option<super::InputError>,
        mask: Option<&Mask>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let message = &self.splitter.message[..];
        let shown =
            mask.map_or(Cow::Borrowed(message), |mask| covered(mask, message, &mut self.index));
        let place = self.at.place(&self.buffer, self.begin);
        let head = text(&self.at.head);
        let head = head.trim().trim_end_matches([':', '(']).trim_end();
        sink.message(&InputMessage { bytes: &shown, place, head, wrong })
    }
}

/// The current position in a stream. Lines are counted only when a position is needed.
#[derive(Default)]
struct Position {
    /// The line number at the offset `counted` of the buffer.
    line: u64,
    /// The number of input bytes before the buffer.
    byte: u64,
    /// The number of buffer bytes whose lines have been counted.
    counted: usize,
    /// The text of the current line before the message, for the head.
    head: Vec<u8>,
}

/// The maximum length of the text before a message on its line, in bytes.
const HEAD_BYTES_MAX: usize = 256;

impl Position {
    /// Returns the input position of the buffer offset `begin`.
    fn place(&mut self, buffer: &[u8], begin: usize) -> Place {
        self.line += memchr_iter(b'\n', &buffer[self.counted..begin]).count() as u64;
        self.counted = begin;
        Place::Stream { line: self.line, byte: self.byte + begin as u64 }
    }

    /// Advances the position past bytes that are removed from the buffer.
    fn drain(&mut self, bytes: &[u8]) {
        self.place(bytes, bytes.len());
        self.byte += bytes.len() as u64;
        self.counted = 0;
    }

    /// Processes the text between two messages, of which the last line becomes the head of the next
    /// message.
    fn pass(&mut self, bytes: &[u8]) {
        let line = memrchr(b'\n', bytes);
        let last = &bytes[line.map_or(0, |at| at + 1)..];
        let begins_message = bytes.starts_with(b"8=FIX");
        match line {
            Some(at) => self.end_line(&bytes[..at]),
            None if begins_message => self.head.clear(),
            None => {}
        }
        let is_message = line.is_none() && begins_message;
        if !is_message && self.head.len() + last.len() <= HEAD_BYTES_MAX {
            self.head.extend_from_slice(last);
        }
    }
}

impl Position {
    /// Handles a line end in the text between messages.
    ///
    /// A line such as `<20261121-09:28:25, FIX.4.4:A->B, incoming>` is kept as the head of the
    /// message in the next line. The screen logs of QuickFIX C++ and QuickFIX/Go have this form.
    fn end_line(&mut self, bytes: &[u8]) {
        let begin = memrchr(b'\n', bytes);
        if begin.is_some() {
            self.head.clear();
        }
        let rest = &bytes[begin.map_or(0, |at| at + 1)..];
        let is_short = self.head.len() + rest.len() < HEAD_BYTES_MAX;
        if is_short && rest.trim_ascii_end().ends_with(b">") {
            self.head.extend_from_slice(rest.trim_ascii_end());
            if self.head.trim_ascii_start().starts_with(b"<") {
                return self.head.push(b' ');
            }
        }
        self.head.clear();
    }
}

/// Returns a head as readable text, without control characters and bytes that are not UTF-8.
fn text(head: &[u8]) -> Cow<'_, str> {
    let is_plain = |b: &u8| (b' '..0x7f).contains(b) && *b != b'\\';
    if let Ok(text) = std::str::from_utf8(head)
        && head.iter().all(is_plain)
    {
        return Cow::Borrowed(text);
    }
    let is_text = |c: &char| !c.is_control() && *c != char::REPLACEMENT_CHARACTER;
    let text: String = String::from_utf8_lossy(head).chars().filter(is_text).collect();
    Cow::Owned(Shown::whole(text.as_bytes()).to_string())
}
