//! Properties of framing and encoding: round trips, splits at every byte, and garbage between
//! messages.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use transfix_codec::{
    CheckSumPolicy, FieldIndex, Frame, FrameWriter, Garbled, Limits, Message, Misuse, Precision,
    SOH, Tag,
    frame::{self, TooLong},
    group::entry_end,
    tag,
};

type Fields = Vec<(u32, Vec<u8>)>;

fn encode(fields: &Fields) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
    for (tag, value) in fields {
        frame.body(Precision::Millis).bytes(Tag(*tag), value);
    }
    frame.finish().unwrap();
    out
}

/// Encodes an order with these fields, and with RawData(96) that contains `data`.
fn encode_with(fields: &Fields, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
    let body = frame.body(Precision::Millis);
    for (tag, value) in fields {
        body.bytes(Tag(*tag), value);
    }
    body.data(tag::RAW_DATA_LENGTH, tag::RAW_DATA, data);
    frame.finish().unwrap();
    out
}

fn fields() -> impl Strategy<Value = Fields> {
    let value = prop::collection::vec(2_u8..=255, 1..40);
    let tag = (1_u32..10_000).prop_filter("written by the session, or read by a length", |t| {
        !tag::is_session_owned(Tag(*t)) && transfix_codec::data::length_of(Tag(*t)).is_none()
    });
    prop::collection::vec((tag, value), 0..60)
}

/// Reads `stream` in chunks of `chunk` bytes, as a connection does, and collects the frames.
fn frames(stream: &[u8], chunk: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    for part in stream.chunks(chunk) {
        buffer.extend_from_slice(part);
        loop {
            match frame::split(&buffer, Limits::default()) {
                Frame::Whole(end) => found.push(buffer.drain(..end).collect()),
                Frame::Partial => break,
                Frame::Garbled { skip, .. } => {
                    assert!(skip > 0 && skip <= buffer.len());
                    drop(buffer.drain(..skip));
                }
                Frame::TooLong { .. } => unreachable!("no stream here has so long a message"),
            }
        }
    }
    found
}

/// Reads a stream as a connection with a size limit does. Returns the frames, and the outcome of
/// each oversized message.
fn limited(
    stream: &[u8],
    chunk: usize,
    message_bytes_max: usize,
) -> (Vec<Vec<u8>>, Vec<Result<(), Garbled>>) {
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    let (mut buffer, mut too_long) = (Vec::new(), None::<TooLong>);
    for part in stream.chunks(chunk) {
        buffer.extend_from_slice(part);
        loop {
            if let Some(message) = &mut too_long {
                drop(buffer.drain(..message.take(&buffer)));
                let Some(outcome) = message.outcome() else { break };
                skipped.push(outcome);
                too_long = None;
            }
            match frame::split(&buffer, Limits { message_bytes_max }) {
                Frame::Whole(end) => found.push(buffer.drain(..end).collect()),
                Frame::Partial => break,
                Frame::Garbled { skip, .. } => drop(buffer.drain(..skip)),
                Frame::TooLong { end } => too_long = Some(TooLong::new(end)),
            }
        }
    }
    (found, skipped)
}

proptest! {
    #[test]
    fn decode_of_encode_is_identity(fields in fields()) {
        let bytes = encode(&fields);
        prop_assert_eq!(frame::split(&bytes, Limits::default()), Frame::Whole(bytes.len()));
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        let read: Fields = message.fields().map(|f| (f.tag.0, f.value.to_vec())).collect();
        prop_assert_eq!(&read[3..read.len() - 1], &fields[..]);
        let mut delimiters = bytes.iter().enumerate().filter(|b| *b.1 == SOH);
        let counted = bytes.len() - 7 - delimiters.nth(1).unwrap().0 - 1;
        prop_assert_eq!(message.uint(tag::BODY_LENGTH).unwrap() as usize, counted);
    }

    /// No byte within a declared body starts a message, for any limit and any split. In particular,
    /// an order inside the data of an oversized message is ignored.
    #[test]
    fn nothing_within_a_body_is_a_message(
        orders in prop::collection::vec((fields(), fields(), 0_u8..3), 1..5),
        limit in 40_usize..1_200,
        chunk in 1_usize..400,
    ) {
        let (mut stream, mut whole, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for (outer, inner, fault) in &orders {
            let hidden = encode(inner);
            let mut bytes = encode_with(outer, &hidden);
            let end = bytes.len();
            let is_long = end > limit;
            match (is_long, fault) {
                (true, 1) => bytes[end - 2] = if bytes[end - 2] == b'0' { b'1' } else { b'0' },
                (true, 2) => bytes[end - 7] = b'9',
                _ => {}
            }
            stream.extend_from_slice(&bytes);
            match (is_long, fault) {
                (false, _) => whole.push(bytes),
                (true, 1) => skipped.push(Err(Garbled::CheckSum)),
                (true, 2) => skipped.push(Err(Garbled::BodyLength)),
                (true, _) => skipped.push(Ok(())),
            }
        }
        prop_assert_eq!(limited(&stream, chunk, limit), (whole, skipped));
    }

    #[test]
    fn any_split_gives_the_same_frames(
        parts in prop::collection::vec((fields(), prop::collection::vec(any::<u8>(), 0..20)), 1..6),
        chunk in 1_usize..50,
    ) {
        let mut stream = Vec::new();
        for (fields, junk) in &parts {
            stream.extend_from_slice(junk);
            stream.extend_from_slice(&encode(fields));
        }
        prop_assert_eq!(frames(&stream, chunk), frames(&stream, stream.len()));
    }

    #[test]
    fn junk_between_messages_loses_none(fields in fields(), junk in "[a-z=|\u{1}]{0,30}") {
        let bytes = encode(&fields);
        let mut stream = bytes.clone();
        stream.extend_from_slice(junk.as_bytes());
        stream.extend_from_slice(&bytes);
        prop_assert_eq!(frames(&stream, 7), vec![bytes.clone(), bytes]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = frames(&bytes, 3);
        bytes.splice(0..0, *b"8=FIX.4.4\x01");
        let mut index = FieldIndex::default();
        if let Frame::Whole(end) = frame::split(&bytes, Limits::default()) {
            let _ = Message::parse(&bytes[..end], &mut index, CheckSumPolicy::Ignore);
        }
    }

    #[test]
    fn one_wrong_byte_is_noticed(
        fields in fields(), at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let good = encode(&fields);
        let mut bad = good.clone();
        let i = at.index(bad.len());
        bad[i] = to;
        prop_assume!(bad != good);
        let sound = frame::split(&bad, Limits::default()) == Frame::Whole(bad.len())
            && Message::parse(&bad, &mut FieldIndex::default(), CheckSumPolicy::Verify).is_ok();
        prop_assert!(!sound);
    }
}

/// Returns the tags of each entry of a group, as [`entry_end`] delimits the entries.
fn entries_by_end(tags: &[Tag], mut begin: usize, count: usize, members: &[Tag]) -> Vec<Vec<Tag>> {
    let mut entries = Vec::new();
    while entries.len() < count && tags.get(begin) == members.first() {
        let end = entry_end(tags, begin, members);
        entries.push(tags[begin..end].to_vec());
        begin = end;
    }
    entries
}

proptest! {
    /// An entry with the tags of the previous entry ends where it would end if parsed alone.
    #[test]
    fn entries_end_where_their_members_say(
        tags in prop::collection::vec(
            prop_oneof![3 => Just(269), 4 => 270_u32..272, 1 => Just(55)],
            0..24,
        ),
        count in 0_usize..10,
        repeated in 1_usize..4,
    ) {
        let members = [269, 270, 271].map(Tag);
        let body: String = tags.repeat(repeated).iter().map(|tag| format!("{tag}=1\x01")).collect();
        let bytes = message_with(format!("268={count}\x01{body}").as_bytes());
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        let begin = message.position(Tag(268)).unwrap() + 1;
        let expected = entries_by_end(message.tags(), begin, count, &members);
        let found = message.entries(Tag(268), &members[..]).map(|entry| entry.tags().to_vec());
        prop_assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    /// A message can be parsed exactly if `frame::verified` accepts it.
    #[test]
    fn verified_is_what_can_be_read(fields in fields(), at in 0_usize..400, byte in any::<u8>()) {
        let mut bytes = encode(&fields);
        let at = at % bytes.len();
        bytes[at] = byte;
        let found = frame::verified(&bytes, Limits::default());
        let Frame::Whole(end) = frame::split(&bytes, Limits::default()) else {
            prop_assert_eq!(found, frame::split(&bytes, Limits::default()));
            return Ok(());
        };
        let mut index = FieldIndex::default();
        let read = Message::parse(&bytes[..end], &mut index, CheckSumPolicy::Verify);
        let skipped = Frame::Garbled { skip: end, reason: Garbled::CheckSum };
        let is_wrong = matches!(read, Err(Garbled::CheckSum));
        // A message with a wrong sum may have another fault, which is then reported instead.
        let is_judged = found == if is_wrong { skipped } else { Frame::Whole(end) };
        prop_assert!(is_judged || (read.is_err() && !is_wrong));
    }
}

fn message_with(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"W");
    frame.raw(body);
    frame.finish().unwrap();
    out
}

#[test]
fn nested_groups() {
    let bytes = message_with(
        b"268=2\x01269=0\x01270=10.5\x01453=2\x01448=A\x01447=D\x01448=B\x01\
        269=1\x01270=11\x0158=end\x01",
    );
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    let members = [269, 270, 453, 448, 447].map(Tag);
    let entries: Vec<_> = message.group(Tag(268), Tag(269)).members(&members).collect();
    assert_eq!(entries.len(), 2);
    let parties: Vec<_> =
        entries[0].group(Tag(453), Tag(448)).map(|p| p.raw(Tag(448)).unwrap()).collect();
    assert_eq!(parties, [b"A", b"B"]);
    assert_eq!(entries[1].raw(Tag(270)), Some(&b"11"[..]));
    assert_eq!(entries[1].raw(Tag(58)), None);
    assert_eq!(entries[1].group(Tag(453), Tag(448)).count(), 0);
}

#[test]
fn data_fields_may_hold_the_delimiter() {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"B");
    let raw = b"a\x0110=000\x01b";
    frame
        .body(Precision::Millis)
        .data(tag::RAW_DATA_LENGTH, tag::RAW_DATA, raw)
        .str(tag::TEXT, "x");
    let range = frame.finish().unwrap();
    assert_eq!(frame::split(&out, Limits::default()), Frame::Whole(range.end));
    let mut index = FieldIndex::default();
    let message = Message::parse(&out, &mut index, CheckSumPolicy::Verify).unwrap();
    assert_eq!(message.raw(tag::RAW_DATA), Some(&raw[..]));
    assert_eq!(message.text(tag::TEXT), Ok("x"));
}

#[test]
fn which_data_fields_may_be_written() {
    let written = |length: u32, data: u32, value: &[u8]| {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
        frame.body(Precision::Millis).data(Tag(length), Tag(data), value);
        frame.finish().map(drop)
    };
    assert_eq!(written(95, 96, b"a\x01b"), Ok(()));
    assert_eq!(written(9001, 9002, b"a\x01b"), Ok(()));
    assert_eq!(written(95, 58, b"a"), Err(Misuse::DelimiterInValue(Tag(58))));
    assert_eq!(written(95, 9002, b"a"), Err(Misuse::DelimiterInValue(Tag(9002))));
    assert_eq!(written(95, 96, b""), Err(Misuse::EmptyValue(Tag(96))));
}

#[test]
fn misuse_leaves_the_buffer_as_before() {
    let cases: [(&[u8], u32, Misuse); 3] = [
        (b"a\x01b", 58, Misuse::DelimiterInValue(Tag(58))),
        (b"", 58, Misuse::EmptyValue(Tag(58))),
        (b"7", 34, Misuse::SessionOwned(Tag(34))),
    ];
    for (value, tag, expected) in cases {
        let mut out = b"before".to_vec();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
        frame.body(Precision::Millis).str(Tag(55), "EU").bytes(Tag(tag), value);
        assert_eq!(frame.finish(), Err(expected));
        assert_eq!(out, b"before");
    }
}

#[test]
fn body_length_of_any_number_of_digits() {
    for len in [1, 80, 95, 96, 980, 990, 9_990, 99_990] {
        let bytes = message_with(&[b"58=", &vec![b'x'; len][..], b"\x01"].concat());
        assert_eq!(frame::split(&bytes, Limits::default()), Frame::Whole(bytes.len()), "{len}");
        Message::parse(&bytes, &mut FieldIndex::default(), CheckSumPolicy::Verify).unwrap();
    }
}

#[test]
fn bad_tags_are_kept_for_the_validation() {
    let bytes = message_with(b"-1=a\x010=b\x01035=c\x01x=d\x01nothing\x01\x0155=EU\x01");
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    let bad: Vec<_> = message.all(Tag(0)).collect();
    assert_eq!(bad, [&b"a"[..], b"b", b"c", b"d", b"", b""]);
    assert_eq!(message.tag_text(3), b"-1");
    assert_eq!(message.tag_text(5), b"035");
    assert_eq!(message.raw(tag::SYMBOL), Some(&b"EU"[..]));
}

#[test]
fn garbled_kinds() {
    let good = message_with(b"55=EU\x01");
    let mut wrong_sum = good.clone();
    let last = wrong_sum.len() - 2;
    wrong_sum[last] ^= 1;
    let mut index = FieldIndex::default();
    assert_eq!(
        Message::parse(&wrong_sum, &mut index, CheckSumPolicy::Verify).err(),
        Some(Garbled::CheckSum)
    );
    Message::parse(&wrong_sum, &mut index, CheckSumPolicy::Ignore).unwrap();
    let misplaced = b"8=FIX.4.4\x019=12\x0149=ab\x0135=0\x0110=000\x01";
    assert_eq!(
        Message::parse(misplaced, &mut index, CheckSumPolicy::Ignore).err(),
        Some(Garbled::MsgType)
    );
}
