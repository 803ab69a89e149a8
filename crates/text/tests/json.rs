//! JSON of messages: every frame survives the round trip unchanged, and invalid JSON is refused.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, Limits, Message, Tag, raw};
use transfix_dictionary::{Dictionary, standard};
use transfix_text::json::{JsonProblem, Writer, read, tags_of};

static FIX44: LazyLock<Dictionary> = LazyLock::new(|| standard("FIX44").unwrap());

fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", b"D");
    frame.raw(body);
    frame.finish().unwrap();
    bytes
}

/// Returns the JSON texts of a frame, with and without names. Checks that each text converts back
/// to the same frame.
fn texts(bytes: &[u8]) -> [String; 2] {
    let mut index = FieldIndex::default();
    let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
    let mut texts = [String::new(), String::new()];
    Writer::named(&*FIX44, &*FIX44).write(&message, &mut texts[0]).unwrap();
    Writer::plain().write(&message, &mut texts[1]).unwrap();
    for text in &texts {
        serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        let mut again = b"before".to_vec();
        let length = read(text.as_bytes(), tags_of(&FIX44, &FIX44), &[], &mut again);
        assert_eq!(length, Ok(text.len()), "{text}");
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(shown(&again[6..]), shown(bytes), "{text}");
    }
    texts
}

#[test]
fn golden_messages() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/messages");
    let mut count = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let stream = fs::read(entry.unwrap().path()).unwrap();
        for piece in raw::pieces(&stream, Limits::default()) {
            count += piece.message().map_or(0, |message| texts(message).len());
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn what_it_looks_like() {
    let table: [(&[u8], &str, &str); 8] = [
        (b"54=1\x01", r#""Side":"1""#, r#""54":"1""#),
        (b"58=a\"\\\x02\x7f\xc3\xa9\x01", "\"Text\":\"a\\\"\\\\\\u0002\\u007fé\"", r#""58":"a\""#),
        (b"58=\xff\xfe\x01", r#""Text":{"base64":"//4="}"#, r#""58":{"base64":"//4="}"#),
        (b"9999=x\x01", r#""9999":"x""#, r#""9999":"x""#),
        ("58=\u{9b}\u{202e}\u{e0041}\x01".as_bytes(), r#""Text":"\u009b\u202e\udb40\udc41""#, ""),
        (b"-1=x\x01bare\x01", r#""":"-1=x","":"bare""#, r#""":"-1=x","":"bare""#),
        (
            b"453=2\x01448=A\x01802=1\x01523=X\x01448=B\x01",
            r#"[{"PartyID":"A","NoPartySubIDs":[{"PartySubID":"X"}]},{"PartyID":"B"}]"#,
            r#""453":"2","448":"A","802":"1","523":"X","448":"B""#,
        ),
        (
            b"453=3\x01448=A\x01453=02\x01448=B\x01448=C\x01453=0\x01",
            "\"NoPartyIDs\":\"3\",\"PartyID\":\"A\",\"NoPartyIDs\":\"02\",\"PartyID\":\"B\",\
             \"PartyID\":\"C\",\"NoPartyIDs\":[]",
            r#""453":"3","448":"A""#,
        ),
    ];
    for (body, named, plain) in table {
        let texts = texts(&frame(body));
        assert!(texts[0].contains(named), "{named}: {}", texts[0]);
        assert!(texts[1].contains(plain), "{plain}: {}", texts[1]);
        assert!(!texts.iter().any(|text| text.contains("CheckSum") || text.contains("\"10\"")));
    }
}

#[test]
fn wrong_lengths_and_sums_are_kept() {
    for (bytes, named) in [
        (&b"8=FIX.4.4\x019=5\x0135=0\x0110=164\x01"[..], r#""CheckSum":"164""#),
        (b"8=FIX.4.4\x019=005\x0135=0\x0110=163\x01", r#""BodyLength":"005""#),
        (b"8=FIX.4.4\x019=9\x0135=0\x0110=163\x01", r#""BodyLength":"9""#),
        (b"8=FIX.4.4\x01x=9\x0135=0\x0110=163\x01", r#""":"x=9""#),
        (b"8=FIX.4.4\x019=12\x0135=0\x0110=163\x0110=230\x01", r#""CheckSum":"163""#),
    ] {
        let texts = texts(bytes);
        assert!(texts[0].contains(named), "{}", texts[0]);
    }
}

#[test]
fn texts_of_others() {
    let table = [
        (r#"{"8":"FIX.4.4","35":"0"}"#, "8=FIX.4.4|9=5|35=0|10=163|"),
        (" { \"8\" :\n\"FIX.4.4\",\"MsgType\":0 } ", "8=FIX.4.4|9=5|35=0|10=163|"),
        (
            r#"{"Header":{"BeginString":"FIX.4.4","MsgType":"D"},"Body":{"Price":-1.50,
            "PossDupFlag":true, "LocateReqd":false,
            "Text":"\/\n\u00e9\ud83d\ude00","NoPartyIDs":[]}}"#,
            "8=FIX.4.4|9=43|35=D|44=-1.50|43=Y|114=N|58=/\né😀|453=0|10=",
        ),
    ];
    for (text, expected) in table {
        let mut out = Vec::new();
        let length = read(text.as_bytes(), tags_of(&FIX44, &FIX44), &[], &mut out).unwrap();
        assert!(text[length..].trim().is_empty());
        let shown = String::from_utf8(out.clone()).unwrap().replace('\x01', "|");
        assert!(shown.starts_with(expected), "{shown}");
        assert_eq!(raw::verify(&out), Ok(()), "{shown}");
    }
}

#[test]
fn what_is_no_message_is_refused() {
    use JsonProblem::{BadString, Base64, Expected, TooDeep, Unfinished, UnknownName};
    const GROUP: &str = "\"base64\"; the entries of a group are an array of objects";
    let deep = format!("{{\"1\":{}", "[{\"1\":".repeat(100));
    let table: [(&str, usize, JsonProblem); 17] = [
        ("", 0, Unfinished),
        ("{\"8\":\"FIX", 6, Unfinished),
        ("{\"8\":1", 5, Unfinished),
        ("[]", 0, Expected("an object")),
        ("{\"8\" \"x\"}", 5, Expected("a colon")),
        ("{\"8\":\"x\" \"9\"}", 9, Expected("a comma or the end of the object")),
        ("{\"8\":null}", 5, Expected("a string, a number, true or false")),
        ("{\"8\":{\"x\":\"\"}}", 9, Expected(GROUP)),
        ("{\"8\":{}}", 6, Expected(GROUP)),
        ("{\"1\":\"x\",\"Prise\":\"9\"}", 9, UnknownName),
        ("{\"01\":\"x\"}", 1, UnknownName),
        ("{\"8\":{\"base64\":\"Zh==\"}}", 21, Base64),
        ("{\"8\":\"a\x02\"}", 8, BadString),
        ("{\"8\":\"\\x\"}", 8, BadString),
        ("{\"8\":\"\\ud800x\"}", 12, BadString),
        ("{\"8\":\"\\udc00\"}", 12, BadString),
        (&deep, 193, TooDeep),
    ];
    for padding in ["Zg=", "Zg", "Zg==Zg==", "Z===", "Zm9?"] {
        let text = format!("{{\"8\":{{\"base64\":\"{padding}\"}}}}");
        let error = read(text.as_bytes(), tags_of(&FIX44, &FIX44), &[], &mut Vec::new());
        assert_eq!(error.unwrap_err().problem, Base64, "{padding}");
    }
    for (text, at, problem) in table {
        let mut out = b"before".to_vec();
        let error = read(text.as_bytes(), tags_of(&FIX44, &FIX44), &[], &mut out).unwrap_err();
        assert_eq!((error.at, error.problem), (at, problem), "{text}: {error}");
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_message_begins_as_it_must() {
    let table = [
        "{}",
        r#" {"Body":{}}"#,
        r#"{"8":"FIX.4.4"}"#,
        r#"{"35":"0"}"#,
        r#"{"35":"0","8":"FIX.4.4"}"#,
        r#"{"8":"FIX.4.4","34":"1","49":"A","35":"0"}"#,
    ];
    for text in table {
        let mut out = Vec::new();
        let error = read(text.as_bytes(), tags_of(&FIX44, &FIX44), &[], &mut out).unwrap_err();
        let begin = usize::from(text.starts_with(' '));
        assert_eq!((error.at, error.problem), (begin, JsonProblem::Head), "{text}");
        assert_eq!(out, b"");
    }
}

#[test]
fn only_data_fields_hold_the_delimiter() {
    let soh = "\\u0001";
    let own = [(Tag(9002), Tag(9003))];
    let table = [
        (format!(r#""95":"3","96":"a{soh}b""#), None),
        (format!(r#""95":3,"96":"a{soh}b","58":"x""#), None),
        (r#""95":"3","96":{"base64":"YQH/"}"#.to_owned(), None),
        (format!(r#""9002":"3","9003":"a{soh}b""#), None),
        (format!(r#""453":[{{"448":"A"}},{{"95":"03","96":"a{soh}b"}}]"#), None),
        (format!(r#""58":"a{soh}55=b""#), Some((29, 58))),
        (r#""58":{"base64":"YQH/"}"#.to_owned(), Some((29, 58))),
        (format!(r#""":"a{soh}b""#), Some((29, 0))),
        (format!(r#""96":"a{soh}b""#), Some((29, 96))),
        (format!(r#""95":"2","96":"a{soh}b""#), Some((38, 96))),
        (format!(r#""95":"3","1":"x","96":"a{soh}b""#), Some((46, 96))),
        (format!(r#""9001":"3","9003":"a{soh}b""#), Some((40, 9003))),
        (format!(r#""95":"3{soh}","96":"a{soh}b""#), Some((29, 95))),
    ];
    for (fields, expected) in table {
        let text = format!(r#"{{"8":"FIX.4.4", "35":"B"    ,{fields}}}"#);
        let mut out = Vec::new();
        let outcome = read(text.as_bytes(), |_| None, &own, &mut out);
        let problem = outcome.map(|_| ()).map_err(|error| (error.at, error.problem));
        let expected =
            expected.map_or(Ok(()), |(at, tag)| Err((at, JsonProblem::Delimiter(Tag(tag)))));
        assert_eq!(problem, expected, "{text}");
    }
}

#[test]
fn a_data_field_swallows_nothing() {
    // A length that is too large is refused if the data would then end at a delimiter within the
    // following fields.
    let table = [
        (r#""95":"5","96":"a","1":"x""#, Some(29 + 9)),
        (r#""95":"6","96":"a","1":"x""#, None),
        (r#""95":"4","96":"a","1":"x""#, None),
        (r#""95":"18446744073709551615","96":"a""#, None),
        (r#""95":"5","96":"a","10":"123""#, None),
        (r#""95":"7","96":"a","453":[]"#, Some(29 + 9)),
        (r#""453":[{"95":"5","96":"a","1":"x"},{"1":"y"}]"#, Some(29 + 17)),
        (r#""453":[{"95":"9","96":"a","1":"x"},{"1":"y"}]"#, Some(29 + 17)),
        (r#""453":[{"95":"10","96":"a","1":"x"},{"1":"y"}]"#, None),
        (r#""95":"11","96":"a","453":[{"1":"x"}]"#, Some(29 + 10)),
    ];
    for (fields, expected) in table {
        let text = format!(r#"{{"8":"FIX.4.4", "35":"B"    ,{fields}}}"#);
        let mut out = Vec::new();
        let outcome = read(text.as_bytes(), |_| None, &[], &mut out);
        let problem = outcome.map(|_| ()).map_err(|error| (error.at, error.problem));
        let expected = expected.map_or(Ok(()), |at| Err((at, JsonProblem::Swallows(Tag(96)))));
        assert_eq!(problem, expected, "{text}");
    }
}

/// Generates a field of any kind: a known field, a group field, a malformed field, or arbitrary
/// bytes.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop_oneof![
        Just("453"),
        Just("448"),
        Just("447"),
        Just("802"),
        Just("523"),
        Just("58"),
        Just("54"),
        Just("93"),
        Just("89"),
        Just("10"),
        Just("9"),
        Just("95"),
        Just("96"),
        Just("8"),
        Just("627"),
        Just("628"),
        Just("5001"),
        Just("-1"),
        Just("035"),
        Just(""),
    ];
    let values = prop_oneof!["[0-3]", "0[0-3]", "[a-z]{0,5}"].prop_map(String::into_bytes);
    let any = prop::collection::vec(any::<u8>(), 0..6);
    (tags, prop_oneof![4 => values, 1 => any], prop::bool::weighted(0.95)).prop_map(
        |(tag, value, has_equals)| {
            [tag.as_bytes(), if has_equals { b"=" } else { b"" }, &value, b"\x01"].concat()
        },
    )
}

proptest! {
    /// A message converted from arbitrary JSON fields contains exactly the same fields when parsed.
    #[test]
    fn fields_stay_what_they_are(
        lengths in prop::collection::vec(0_usize..20, 1..4),
        values in prop::collection::vec("[a-z]{0,3}", 4),
    ) {
        let mut text = String::from(r#"{"8":"FIX.4.4","35":"B""#);
        for (length, value) in lengths.iter().zip(&values) {
            text += &format!(r#","95":"{length}","96":"{value}","453":[{{"448":"{value}"}}]"#);
        }
        text.push('}');
        let mut out = Vec::new();
        if read(text.as_bytes(), |_| None, &[], &mut out).is_ok() {
            let mut index = FieldIndex::default();
            let message = Message::parse(&out, &mut index, CheckSumPolicy::Verify).unwrap();
            prop_assert_eq!(message.len(), 4 + 4 * lengths.len(), "{}", text);
        }
    }

    #[test]
    fn every_frame_comes_back(
        fields in prop::collection::vec(field(), 0..25), wrong in prop::bool::weighted(0.1),
    ) {
        let mut bytes = frame(&fields.concat());
        if wrong {
            let at = bytes.len() - 2;
            bytes[at] ^= 1;
        }
        texts(&bytes);
    }

    #[test]
    fn no_text_makes_it_panic(
        text in "[\\[\\]{}:,\"\\\\u0-9a-fA-F \u{1}é]{0,60}", at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let _ = read(text.as_bytes(), |_| Some(Tag(1)), &[], &mut Vec::new());
        let texts = texts(&frame(b"453=1\x01448=A\x0158=\xff\x01"));
        let [mut named, _] = texts.map(String::into_bytes);
        let at = at.index(named.len());
        let _ = read(&named[..at], tags_of(&FIX44, &FIX44), &[], &mut Vec::new());
        named[at] = byte;
        let _ = read(&named, tags_of(&FIX44, &FIX44), &[], &mut Vec::new());
    }
}
