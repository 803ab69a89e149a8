//! The tags remembered from earlier messages change no result of an index or a validator.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::OnceLock;

use proptest::prelude::*;
use transfix_codec::{
    CheckSumPolicy, FieldIndex, Message, Reject, RejectReason, Rules, Scratch, Switches, Tag,
    scan::Simd, validate::Finding,
};

/// A single field as encoded, without its delimiter.
type Text = String;

fn rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| {
        let fix44 = transfix_dictionary::standard("FIX44").unwrap();
        Rules::new(&fix44, &fix44)
    })
}

/// Generates the text before a field's `=`: known tags of all lengths, tags of groups and data, and
/// invalid tags.
fn tag_text() -> impl Strategy<Value = Text> {
    let known = prop::sample::select(vec![
        11, 21, 55, 54, 60, 40, 38, 59, 44, 1, 58, 15, 43, 97, 50, 453, 448, 447, 452, 78, 79, 80,
        95, 96, 354, 355, 64, 119, 128, 193, 10, 8, 35, 89, 93, 918, 9000, 10_001,
    ]);
    prop_oneof![
        12 => known.prop_map(|tag| tag.to_string()),
        2 => (1_u32..1_100).prop_map(|tag| tag.to_string()),
        1 => "0|05|x|4x|-1||999999999|12345678901".prop_map(String::from),
    ]
}

fn value() -> impl Strategy<Value = Text> {
    prop_oneof![
        6 => "[1-4]",
        2 => "[0-9]{1,7}(\\.[0-9]{1,3})?",
        2 => "[a-zA-Z ]{1,20}",
        2 => Just("20261121-09:28:25.623".to_owned()),
        1 => "",
        1 => "[=0-9]{1,3}",
        1 => "[a\u{1}=]{1,6}",
    ]
}

/// Generates the tag texts of one message; in some messages the first fields are valid.
fn layout() -> impl Strategy<Value = Vec<Text>> {
    let sound = ["11", "55", "54", "60", "38", "40", "44"].map(str::to_owned);
    let sound = (Just(sound.to_vec()), prop::collection::vec(tag_text(), 0..4));
    // A Length field, its data field, and a field that a wrong length may include in the data.
    let data = ["95", "96", "58"].map(str::to_owned).to_vec();
    let with_data = prop::collection::vec(tag_text(), 0..3);
    prop_oneof![
        2 => sound.prop_map(|(sound, more)| [sound, more].concat()),
        1 => with_data.prop_map(move |more| [data.clone(), more].concat()),
        2 => prop::collection::vec(tag_text(), 0..14),
        1 => prop::collection::vec(tag_text(), 14..40),
    ]
}

/// Generates the damage done to a message before parsing: none, or one changed byte.
fn damage() -> impl Strategy<Value = Option<(usize, u8)>> {
    let byte = prop_oneof![Just(b'='), Just(1), Just(0), b'0'..=b'9', any::<u8>()];
    prop_oneof![7 => Just(None), 1 => (0_usize..300, byte).prop_map(Some)]
}

#[derive(Clone, Debug)]
struct Sent {
    layout: prop::sample::Index,
    msg_type: &'static str,
    values: Vec<Text>,
    /// True if these values are valid.
    is_sound: bool,
    damage: Option<(usize, u8)>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let values = prop::collection::vec(value(), 1..8);
    let msg_type = prop_oneof![6 => Just("D"), 1 => Just("8"), 1 => Just("0"), 1 => Just("zz")];
    (any::<prop::sample::Index>(), msg_type, values, prop::bool::weighted(0.7), damage()).prop_map(
        |(layout, msg_type, values, is_sound, damage)| Sent {
            layout,
            msg_type,
            values,
            is_sound,
            damage,
        },
    )
}

fn bytes(layout: &[Text], sent: &Sent) -> Vec<u8> {
    let head = "34=2\u{1}49=A\u{1}56=B\u{1}52=20261121-09:28:25.623\u{1}";
    let mut text = format!("8=FIX.4.4\u{1}9=100\u{1}35={}\u{1}{head}", sent.msg_type);
    for (tag, value) in layout.iter().zip(sent.values.iter().cycle()) {
        let is_long = sent.values.len() % 2 == 1;
        let value = match tag.as_str() {
            "95" => {
                if is_long {
                    "6"
                } else {
                    "1"
                }
            }
            "96" => "a",
            "58" => "b",
            "60" if sent.is_sound => "20261121-09:28:25",
            "11" | "55" | "54" | "38" | "40" | "44" if sent.is_sound => "1",
            _ => value,
        };
        text.push_str(&format!("{tag}={value}\u{1}"));
    }
    let mut bytes = text.into_bytes();
    if let Some((at, byte)) = sent.damage {
        let at = at % bytes.len();
        bytes[at] = byte;
    }
    bytes.extend_from_slice(b"10=000\x01");
    bytes
}

/// All results for one message, from an index and a validator.
#[derive(Debug, PartialEq)]
struct Results {
    fields: Vec<(Tag, Vec<u8>, Vec<u8>)>,
    places: Vec<Option<usize>>,
    /// The positions of the searched tags among the fields from the third on.
    places_behind: Vec<Option<usize>>,
    verdict: Result<(), Reject>,
    findings: Vec<Finding>,
}

fn said(bytes: &[u8], index: &mut FieldIndex, scratch: &mut Scratch) -> Option<Results> {
    let message = Message::parse(bytes, index, CheckSumPolicy::Ignore).ok()?;
    let texts = (0..message.len()).map(|n| message.tag_text(n).to_vec());
    let fields = message.fields().zip(texts);
    let rest = message.slice(3, message.len());
    let tags = || (0..140).chain([193, 354, 355, 447, 448, 452, 453, 918, 9000, 10_001]).map(Tag);
    let mut findings = Vec::new();
    let switches = Switches::STANDARD;
    let verdict = rules().check(&message, &switches, scratch);
    rules().check_all(&message, &switches, scratch, |finding| findings.push(finding));
    Some(Results {
        fields: fields.map(|(field, text)| (field.tag, field.value.to_vec(), text)).collect(),
        places: tags().map(|tag| message.position(tag)).collect(),
        places_behind: tags().map(|tag| rest.position(tag)).collect(),
        verdict,
        findings,
    })
}

fn check(layouts: &[Vec<Text>], all: &[Sent]) {
    let kinds = Simd::ALL.into_iter().skip(1).filter(|simd| simd.is_available());
    let mut remembering: Vec<_> =
        kinds.map(|simd| (simd, FieldIndex::with(simd), Scratch::default())).collect();
    for sent in all {
        let bytes = bytes(&layouts[sent.layout.index(layouts.len())], sent);
        let fresh = &mut FieldIndex::with(Simd::Scalar);
        let expected = said(&bytes, fresh, &mut Scratch::default());
        for (simd, index, scratch) in &mut remembering {
            let found = said(&bytes, index, scratch);
            assert_eq!(found, expected, "{simd:?}: {}", bytes.escape_ascii());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]

    #[test]
    fn earlier_messages_change_nothing(
        layouts in prop::collection::vec(layout(), 1..4),
        all in prop::collection::vec(sent(), 1..30),
    ) {
        check(&layouts, &all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 8 }))]

    #[test]
    fn many_earlier_messages_change_nothing(
        layouts in prop::collection::vec(layout(), 2..12),
        all in prop::collection::vec(sent(), 200..400),
    ) {
        check(&layouts, &all);
    }
}

#[test]
fn an_empty_value_is_found_in_each_known_message() {
    let fields = ["34=2", "49=A", "56=B", "52=20261121-09:28:25", "11=x", "55=IBM", "54=1"];
    let more = ["60=20261121-09:28:25", "38=100", "40=2", "44=1.5", "58=x", "10=000"];
    let fields = [&["8=FIX.4.4", "9=100", "35=D"], &fields[..], &more].concat();
    let encoded = |fields: &[String]| (fields.join("\u{1}") + "\u{1}").into_bytes();
    let sound: Vec<_> = fields.iter().map(|&field| field.to_owned()).collect();
    let (mut index, mut scratch) = (FieldIndex::default(), Scratch::default());
    for n in (3..fields.len() - 1).cycle().take(60) {
        let expected = said(&encoded(&sound), &mut index, &mut scratch).unwrap();
        assert_eq!(expected.verdict, Ok(()));
        let mut changed = sound.clone();
        let tag = fields[n].split('=').next().unwrap();
        changed[n] = format!("{tag}=");
        let found = said(&encoded(&changed), &mut index, &mut scratch).unwrap();
        let reject = Reject::new(RejectReason::TagWithoutValue, Tag(tag.parse().unwrap()));
        assert_eq!(found.verdict, Err(reject), "{}", fields[n]);
    }
}
