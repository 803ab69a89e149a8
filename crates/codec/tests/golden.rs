//! Golden messages: each message is decoded, and encoding it again gives identical bytes.
//!
//! A file in testdata/messages contains a byte stream with its delimiters. In addition, messages of
//! every type of every version are generated from the dictionaries.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use transfix_codec::{
    CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, Message, Precision, Rules, Scratch,
    Switches, Tag, frame, tag,
};
use transfix_dictionary::{Flat, Member, standard};
use transfix_testkit::random::Random;
use transfix_testkit::sample::{Extent, Sample};

fn messages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/messages")
}

fn read(name: &str) -> Vec<u8> {
    let path = messages().join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the messages with a correct CheckSum(10), and the number of garbled pieces.
fn decode(stream: &[u8]) -> (Vec<&[u8]>, usize) {
    let (mut found, mut garbled, mut rest) = (Vec::new(), 0, stream);
    loop {
        match frame::split(rest, Limits::default()) {
            Frame::Whole(end) => {
                let (bytes, later) = rest.split_at(end);
                let mut index = FieldIndex::default();
                match Message::parse(bytes, &mut index, CheckSumPolicy::Verify) {
                    Ok(_) => found.push(bytes),
                    Err(_) => garbled += 1,
                }
                rest = later;
            }
            Frame::Garbled { skip, .. } => {
                garbled += 1;
                rest = &rest[skip..];
            }
            Frame::Partial => return (found, garbled),
            Frame::TooLong { .. } => unreachable!("no golden message is so long"),
        }
    }
}

/// Encodes the message again: its header as raw bytes, its body field by field.
fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = FrameWriter::new(&mut out, message.begin_string(), message.msg_type());
    let fields: Vec<_> = message.fields().collect();
    for n in 3..fields.len() - 1 {
        let (before, field, after) = (fields[n - 1], fields[n], fields[n + 1]);
        let precedes_data = transfix_codec::data::length_of(after.tag) == Some(field.tag);
        if tag::is_session_owned(field.tag) {
            writer.raw(message.encoded(n));
        } else if transfix_codec::data::length_of(field.tag) == Some(before.tag) {
            writer.body(Precision::Millis).data(before.tag, field.tag, field.value);
        } else if !precedes_data {
            writer.body(Precision::Millis).bytes(field.tag, field.value);
        }
    }
    writer.finish().unwrap();
    out
}

#[test]
fn decode_and_encode_are_inverse() {
    let mut files = 0;
    for entry in fs::read_dir(messages()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stream = read(&name);
        let (found, garbled) = decode(&stream);
        let expected = if name == "garbage-between.fix" { (3, 6) } else { (1, 0) };
        assert_eq!((found.len(), garbled), expected, "{name}");
        for bytes in found {
            let mut index = FieldIndex::default();
            let message = Message::parse(bytes, &mut index, CheckSumPolicy::Verify).unwrap();
            let encoded = encode(&message);
            assert_eq!(encoded.escape_ascii().to_string(), bytes.escape_ascii().to_string());
        }
        files += 1;
    }
    assert_eq!(files, 13);
}

fn with(name: &str, check: impl FnOnce(&Message<'_>)) {
    let bytes = read(name);
    let mut index = FieldIndex::default();
    check(&Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap());
}

#[test]
fn values_are_read_as_meant() {
    with("fix42-execution-report.fix", |message| {
        assert_eq!(message.decimal(tag::LAST_PX).unwrap().to_string(), "1.08415");
        assert_eq!(message.uint(tag::CUM_QTY), Ok(1_000_000));
    });
    with("fix42-news-raw-data.fix", |message| {
        let data = &b"a\x0110=000\x018=FIX.4.2\x019=5"[..];
        assert_eq!(message.raw(tag::RAW_DATA), Some(data));
    });
    with("fix44-encoded-text.fix", |message| {
        assert_eq!(message.text(Tag(359)), Ok("Überschrift\u{1}neu"));
    });
    with("fix44-market-data.fix", |message| {
        let prices: Vec<_> = message
            .group(Tag(268), Tag(269))
            .map(|entry| (entry.raw(Tag(269)).unwrap()[0], entry.raw(Tag(270)).unwrap().to_vec()))
            .collect();
        assert_eq!(prices.len(), 4);
        assert_eq!(prices[2], (b'1', b"1.08420".to_vec()));
    });
    with("fix44-multileg.fix", |message| {
        let members = [448, 447, 452, 802, 523, 803].map(Tag);
        let parties: Vec<_> = message.group(Tag(453), Tag(448)).members(&members).collect();
        assert_eq!(parties.len(), 2);
        let sub_ids: Vec<_> = parties[0].group(Tag(802), Tag(523)).collect();
        assert_eq!(sub_ids[0].raw(Tag(523)), Some(&b"TRADER7"[..]));
        assert_eq!(parties[1].raw(Tag(55)), None);
    });
}

/// The session dictionary and the application dictionary of each version.
const VERSIONS: [(&str, &str); 10] = [
    ("FIX40", "FIX40"),
    ("FIX41", "FIX41"),
    ("FIX42", "FIX42"),
    ("FIX43", "FIX43"),
    ("FIX44", "FIX44"),
    ("FIXT11", "FIXT11"),
    ("FIXT11", "FIX50"),
    ("FIXT11", "FIX50SP1"),
    ("FIXT11", "FIX50SP2"),
    ("FIXT11", "FIXLatest"),
];

/// Checks that the message is valid, and that encoding it again gives the same bytes. Returns its
/// tags.
fn judge(bytes: &[u8], rules: &Rules) -> BTreeSet<Tag> {
    assert_eq!(frame::split(bytes, Limits::default()), Frame::Whole(bytes.len()));
    let mut index = FieldIndex::default();
    let message = Message::parse(bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    // The values of a sample are random, and the value of one field may require another field.
    let switches = Switches { conditions: false, ..Switches::ALL };
    let judged = rules.check(&message, &switches, &mut Scratch::default());
    assert_eq!(judged, Ok(()), "{message}");
    assert_eq!(encode(&message), bytes, "{message}");
    message.tags().iter().copied().collect()
}

/// Collects the tags of all members, including the members of groups.
fn members(of: &[Member], tags: &mut BTreeSet<Tag>) {
    for member in Flat::of(of) {
        tags.insert(Tag(member.tag));
        member.group.into_iter().for_each(|entry| members(entry, tags));
    }
}

#[test]
fn every_message_of_every_version() {
    std::thread::scope(|scope| {
        for (session, application) in VERSIONS {
            scope.spawn(move || every_message(session, application));
        }
    });
}

fn every_message(session: &str, application: &str) {
    let session = standard(session).unwrap();
    let application = standard(application).unwrap();
    let rules = Rules::new(&session, &application);
    let mut sample = Sample::new(&session, &application, Random::new(7));
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    for message in sample.messages() {
        let mut own = BTreeSet::new();
        members(&message.members, &mut own);
        // A sample with all optional fields is made only if the message has new fields: samples of
        // the largest versions take seconds.
        let is_new = !own.is_subset(&known);
        known.append(&mut own);
        let full = is_new.then_some(Extent::Everything);
        for extent in [Extent::Required, Extent::Some].into_iter().chain(full) {
            seen.append(&mut judge(&sample.message(message, extent), &rules));
        }
    }
    members(session.header(), &mut known);
    members(session.trailer(), &mut known);
    let missing: Vec<_> = known.difference(&seen).collect();
    assert!(missing.is_empty(), "{}: {missing:?}", application.name());
}
