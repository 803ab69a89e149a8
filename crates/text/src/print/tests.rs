//! The output of messages printed without colours.

use proptest::prelude::*;
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_dictionary::{Dictionary, standard};

use super::*;

fn frame(fields: &[u8]) -> Vec<u8> {
    let mut bytes = b"8=FIX.4.4\x019=1\x0135=D\x01".to_vec();
    bytes.extend(fields.iter().map(|&b| if b == b'|' { 1 } else { b }));
    bytes.extend_from_slice(b"10=000\x01");
    bytes
}

fn printed(fields: &[u8], dictionary: &Dictionary) -> (String, String) {
    let bytes = frame(fields);
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
    let (mut tree, mut line) = (String::new(), String::new());
    readable(&message, [dictionary; 2], &Palette::PLAIN, &mut tree).unwrap();
    one_line(&message, [dictionary; 2], &Palette::PLAIN, &mut line).unwrap();
    (tree, line)
}

const NESTED: &str = r#"header ("header")
    BeginString (8): FIX.4.4
    BodyLength (9): 1
    MsgType (35): ORDER_SINGLE (D)
    MsgSeqNum (34): 7
    SenderCompID (49): A
    TargetCompID (56): B
NewOrderSingle ("D")
    ClOrdID (11): ord10001
    NoPartyIDs (453): 2
        NoPartyIDs (Repeating group 1/2)
            PartyID (448): X
            PartyRole (452): EXECUTING_FIRM (1)
            NoPartySubIDs (802): 1
                NoPartySubIDs (Repeating group 1/1)
                    PartySubID (523): s
        NoPartyIDs (Repeating group 2/2)
            PartyID (448): Y
    Side (54): BUY (1)
    ExecInst (18): STAY_ON_OFFER_SIDE WORK (0 2)
trailer ("trailer")
    CheckSum (10): 000
"#;

#[test]
fn groups_nest() {
    let fix44 = standard("FIX44").unwrap();
    let fields = b"34=7|49=A|56=B|11=ord10001|453=2|448=X|452=1|802=1|523=s|448=Y|54=1|18=0 2|";
    let (tree, line) = printed(fields, &fix44);
    let code = |tag: u32, value: &str| fix44.field(tag).unwrap().code(value).unwrap().name.clone();
    let expected = NESTED
        .replace("ORDER_SINGLE", &code(35, "D"))
        .replace("EXECUTING_FIRM", &code(452, "1"))
        .replace("STAY_ON_OFFER_SIDE WORK", &format!("{} {}", code(18, "0"), code(18, "2")));
    assert_eq!(tree, expected);
    let expected = "NewOrderSingle(D) seq 7 A->B  ClOrdID=ord10001 NoPartyIDs=2 \
        [PartyID=X PartyRole=EXECUTING_FIRM NoPartySubIDs=1 [PartySubID=s]] [PartyID=Y] Side=BUY ";
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn what_does_not_fit_is_printed_flat() {
    let fix44 = standard("FIX44").unwrap();
    let cases: [(&[u8], &str); 10] = [
        (b"453=2|452=1|", "    NoPartyIDs (453): 2\n    PartyRole (452): EXECUTING_FIRM (1)\n"),
        (b"453=x|448=1|", "    NoPartyIDs (453): x\n    PartyID (448): 1\n"),
        (b"453=3|448=1|", "        NoPartyIDs (Repeating group 1/3)\n"),
        (b"54=~|", "    Side (54): ~\n"),
        (b"58=\x02\xff\xc3\xa9\xc2\x85|", "    Text (58): \\x02\\xFF\u{e9}\\u{0085}\n"),
        (b"58=a\nb\\x0a|", "    Text (58): a\\nb\\\\x0a\n"),
        ("58=1\u{202e}2\u{2028}\u{200b}|".as_bytes(), r"    Text (58): 1\u{202E}2\u{2028}\u{200B}"),
        (b"-1=x|", "    ? (-1): x\n"),
        (b"junk|", "    ? (junk): \n"),
        (b"89=late|54=1|", "    Signature (89): late\n    Side (54): BUY (1)\ntrailer"),
    ];
    for (fields, expected) in cases {
        let (tree, _) = printed(fields, &fix44);
        assert!(tree.contains(expected), "{tree}");
    }
}

/// Converts text that [`Shown`] has escaped back to bytes.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (mark, behind) = escaped.split_at(1);
        rest = behind;
        match mark {
            "n" => bytes.push(b'\n'),
            "r" => bytes.push(b'\r'),
            "t" => bytes.push(b'\t'),
            "\\" => bytes.push(b'\\'),
            "x" => {
                let (digits, behind) = rest.split_at(2);
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                rest = behind;
            }
            _ => {
                let (digits, behind) = rest[1..].split_once('}').unwrap();
                let c = char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap();
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn what_a_reject_speaks_of_has_a_name() {
    let fix44 = standard("FIX44").unwrap();
    let bytes = b"8=FIX.4.4\x019=1\x0135=3\x01371=54\x01372=D\x0158=Required tag missing, tag 54 \
        [MsgSeqNum 7, MsgType D], field=99999 and Tag 44\n\x0110=000\x01";
    let mut index = FieldIndex::default();
    let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
    let (mut tree, mut line) = (String::new(), String::new());
    readable(&message, [&fix44; 2], &Palette::PLAIN, &mut tree).unwrap();
    one_line(&message, [&fix44; 2], &Palette::PLAIN, &mut line).unwrap();
    let text = r"Required tag missing, tag Side(54) [MsgSeqNum 7, MsgType NewOrderSingle(D)], \
        field=99999 and Tag Price(44)\n";
    let text = text.replace("\\\n        ", "");
    for expected in [
        "    RefTagID (371): Side (54)\n",
        "    RefMsgType (372): NewOrderSingle (D)\n",
        &format!("    Text (58): {text}\n"),
    ] {
        assert!(tree.contains(expected), "{expected}{tree}");
    }
    let end = format!("  RefTagID=Side(54) RefMsgType=NewOrderSingle(D) Text={text}");
    assert!(line.ends_with(&end), "{line}");
    // In messages that are not rejects, the Text(58) is written unchanged.
    let (tree, _) = printed(b"58=tag 54|", &fix44);
    assert!(tree.contains("    Text (58): tag 54\n"), "{tree}");
}

#[test]
fn colours_are_all_that_a_palette_adds() {
    let fix44 = standard("FIX44").unwrap();
    let bytes = frame(b"34=7|49=A|56=B|453=1|448=X|54=1|58=a|");
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
    let plain = printed(b"34=7|49=A|56=B|453=1|448=X|54=1|58=a|", &fix44);
    let (mut tree, mut line) = (String::new(), String::new());
    readable(&message, [&fix44; 2], &Palette::ANSI, &mut tree).unwrap();
    one_line(&message, [&fix44; 2], &Palette::ANSI, &mut line).unwrap();
    assert!(tree.contains("\x1b[36mSide\x1b[0m (54): \x1b[33mBUY\x1b[0m (1)\n"), "{tree:?}");
    assert!(line.contains(" \x1b[36mSide\x1b[0m=\x1b[33mBUY\x1b[0m"), "{line:?}");
    let Palette { heading, name, value, end } = Palette::ANSI;
    let without = |mut text: String| {
        for mark in [heading, name, value, end] {
            text = text.replace(mark, "");
        }
        text
    };
    assert_eq!((without(tree), without(line)), plain);
}

#[test]
fn resent_messages_say_so() {
    let fix44 = standard("FIX44").unwrap();
    let (_, line) = printed(b"34=1|43=Y|97=Y|", &fix44);
    assert_eq!(line, "NewOrderSingle(D) seq 1 ?->? PossDup PossResend");
}

proptest! {
    #[test]
    fn values_can_be_read_back_and_stay_on_a_line(
        value in prop::collection::vec(any::<u8>(), 0..20)
    ) {
        let text = format!("{}", Shown::whole(&value));
        prop_assert!(!text.chars().any(char::is_control), "{text}");
        prop_assert_eq!(unescaped(&text), value);
    }

    #[test]
    fn texts_can_be_read_back(value in "\\PC{0,20}") {
        let text = format!("{}", Shown::whole(value.as_bytes()));
        prop_assert_eq!(unescaped(&text), value.as_bytes());
    }

    #[test]
    fn every_field_is_printed_once(fields in "([0-9]{1,3}=[ -~&&[^|]]{0,6}\\|){0,30}") {
        let fix44 = standard("FIX42").unwrap();
        let (tree, line) = printed(fields.as_bytes(), &fix44);
        let lines = tree.lines().filter(|line| line.contains("): ")).count();
        prop_assert_eq!(lines, fields.matches('|').count() + 4);
        prop_assert!(!line.contains('\n'));
    }
}
