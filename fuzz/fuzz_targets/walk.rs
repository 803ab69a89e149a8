//! Shared parts of the fuzz targets: splitting a stream in chunks, and examining a message in all
//! ways.
//!
//! Invariant: each property is an assertion, so a function that returns has found no violation.
#![forbid(unsafe_code)]

use transfix_codec::{
    CheckSumPolicy, Field, FieldIndex, Frame, FrameWriter, Garbled, Limits, Message, Precision,
    SOH, Tag, frame, frame::TooLong, tag,
};

/// The result of splitting a stream: its frames, and the bytes that are not frames.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The complete frames in order.
    pub frames: Vec<Vec<u8>>,
    /// Number of bytes that belong to no message.
    pub skipped: usize,
    /// The bytes of an incomplete message at the end.
    pub left: Vec<u8>,
    /// The first fields of each complete oversized message, and its fault, if any.
    pub too_long: Vec<(Vec<u8>, Result<(), Garbled>)>,
    /// The declared length of an oversized message that is incomplete at the end.
    pub end: Option<usize>,
}

/// Splits `stream` into frames as a connection does; reads return the numbers of bytes in `chunks`,
/// used repeatedly.
pub fn take_apart(stream: &[u8], chunks: &[usize], limits: Limits) -> Found {
    let (mut found, mut too_long) = (Found::default(), None);
    let mut rest = stream;
    for chunk in chunks.iter().cycle() {
        let (read, later) = rest.split_at((*chunk).clamp(1, rest.len().max(1)).min(rest.len()));
        found.left.extend_from_slice(read);
        rest = later;
        split_all(&mut found, &mut too_long, limits);
        found.end = too_long.as_ref().map(TooLong::end);
        if rest.is_empty() {
            return found;
        }
    }
    found
}

fn split_all(found: &mut Found, too_long: &mut Option<TooLong>, limits: Limits) {
    loop {
        // No byte within a declared body may start a message, so these bytes are skipped.
        if let Some(message) = too_long {
            let taken = message.take(&found.left);
            found.left.drain(..taken);
            found.skipped += taken;
            let Some(outcome) = message.outcome() else {
                assert!(found.left.is_empty(), "it takes all until it is over");
                return;
            };
            found.too_long.push((message.head().to_vec(), outcome));
            *too_long = None;
        }
        match frame::split(&found.left, limits) {
            Frame::TooLong { end } => {
                assert!(end > limits.message_bytes_max, "within the limit");
                *too_long = Some(TooLong::new(end));
            }
            Frame::Whole(end) => {
                assert!(end > 0 && end <= found.left.len() && end <= limits.message_bytes_max);
                found.frames.push(found.left.drain(..end).collect());
            }
            Frame::Partial => return,
            Frame::Garbled { skip, .. } => {
                assert!(skip > 0 && skip <= found.left.len(), "progress, within the bytes");
                found.skipped += skip;
                found.left.drain(..skip);
            }
        }
    }
}

/// Parses a whole frame without verifying CheckSum(10), because random input rarely has a correct
/// one.
///
/// # Errors
/// Returns the reason if the frame is garbled.
pub fn parse<'a>(bytes: &'a [u8], index: &'a mut FieldIndex) -> Result<Message<'a>, Garbled> {
    Message::parse(bytes, index, CheckSumPolicy::Ignore)
}

/// Checks that the fields are in order, and that they fill the frame together with tags and
/// delimiters.
pub fn check_spans(message: &Message<'_>) {
    let frame = message.bytes().as_ptr_range();
    let mut end = frame.start;
    let mut encoded = Vec::new();
    for (n, field) in message.fields().enumerate() {
        let value = field.value.as_ptr_range();
        assert!(value.start >= end && value.end < frame.end, "field {n} lies outside");
        end = value.end;
        encoded.extend_from_slice(message.encoded(n));
        let text = message.tag_text(n);
        assert!(field.tag == Tag(0) || text == field.tag.to_string().as_bytes(), "{text:?}");
    }
    assert_eq!(encoded, message.bytes());
}

/// Calls every getter for every tag of the message, and reads a group for each pair of adjacent
/// fields.
pub fn read_all(message: &Message<'_>) {
    let fields: Vec<Field<'_>> = message.fields().collect();
    for field in &fields {
        let tag = field.tag;
        assert!(message.raw(tag).is_some() && message.all(tag).any(|v| v == field.value));
        let read = [
            message.required(tag).is_ok(),
            message.text(tag).is_ok(),
            message.int(tag).is_ok(),
            message.uint(tag).is_ok(),
            message.char(tag).is_ok(),
            message.boolean(tag).is_ok(),
            message.flag(tag).is_ok(),
            message.decimal(tag).is_ok(),
            message.timestamp(tag).is_ok(),
        ];
        assert!(read[0] || read == [false; 9], "an empty value is of no type");
    }
    let tags: Vec<Tag> = fields.iter().map(|f| f.tag).collect();
    for pair in tags.windows(2) {
        let groups = message.group(pair[0], pair[1]);
        assert!(groups.clone().count() <= fields.len());
        for entry in groups.members(&tags[..tags.len() / 2]) {
            assert_eq!(entry.fields().next().map(|f| f.tag), Some(pair[1]));
            assert!(entry.group(pair[1], pair[0]).all(|inner| inner.raw(pair[0]).is_some()));
        }
    }
    let _ = (message.to_string(), message.msg_type(), message.msg_seq_num());
}

/// Copies the body as a resend does, and checks that the copy is valid and has the same fields.
pub fn copy(message: &Message<'_>) {
    let mut out = Vec::new();
    let mut writer = FrameWriter::new(&mut out, message.begin_string(), message.msg_type());
    let body = writer.body(Precision::Millis);
    for n in 3..message.fields().len() - 1 {
        body.fields_unchecked(message.encoded(n));
    }
    if writer.finish().is_err() {
        let sound = message.msg_type().is_valid();
        assert!(!sound, "a copy fails for want of a MsgType(35) only");
        return;
    }
    let mut index = FieldIndex::default();
    let again = Message::parse(&out, &mut index, CheckSumPolicy::Verify);
    let again = again.unwrap_or_else(|garbled| panic!("{garbled}: {}", out.escape_ascii()));
    let kept = |f: &Field<'_>| ![tag::BODY_LENGTH, tag::CHECK_SUM].contains(&f.tag);
    assert!(message.fields().filter(kept).eq(again.fields().filter(kept)));
}

/// Makes a message from `body`: adds BeginString(8), BodyLength(9) and MsgType(35) before it, and
/// CheckSum(10) after it.
pub fn wrap(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
    writer.raw(body);
    if !body.ends_with(&[SOH]) {
        writer.raw(&[SOH]);
    }
    if writer.finish().is_err() {
        unreachable!("raw bytes are not looked at");
    }
    out
}
