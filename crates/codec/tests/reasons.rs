//! The documentation page and the results of validation match each row of the table of reasons.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fmt::Write;

use transfix_codec::validate::REASONS;
use transfix_codec::{
    CheckSumPolicy, FieldIndex, FrameWriter, Message, Reject, Rules, Scratch, Switches,
};
use transfix_dictionary::{Dictionary, standard};

fn verdict(rules: &Rules, example: &str, switches: &Switches) -> Result<(), Reject> {
    let (msg_type, fields) = example.split_once('|').unwrap();
    let mut bytes = Vec::new();
    let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", msg_type.as_bytes());
    frame.raw(b"34=2\x0149=TW\x0152=20261121-09:28:25\x0156=ISLD\x01");
    frame.raw(fields.replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    rules.check(&message, switches, &mut Scratch::default())
}

#[test]
fn each_reason_is_found_and_can_be_switched_off() {
    let fix44 = standard("FIX44").unwrap();
    let rules = Rules::new(&fix44, &fix44);
    for row in REASONS {
        let expected = Err(Reject { reason: row.reason, tag: row.tag });
        assert_eq!(verdict(&rules, row.example, &Switches::ALL), expected, "{row:?}");
        let mut without = Switches::ALL;
        *without.named(row.switch).unwrap() = false;
        assert_eq!(verdict(&rules, row.example, &without), Ok(()), "{row:?}");
        let mut alone = Switches::NONE;
        *alone.named(row.switch).unwrap() = true;
        alone.undefined_tags |= row.switch == "user_defined_tags";
        assert_eq!(verdict(&rules, row.example, &alone), expected, "{row:?}");
    }
    let named: Vec<&str> = REASONS.iter().map(|row| row.switch).collect();
    for name in Switches::NAMES {
        assert!(named.contains(name) || *name == "conditional_tags", "{name} has a row");
    }
}

/// All checks except the conditions of the standard, which would be reported before the venue's
/// conditions.
const VENUE: Switches = Switches { conditions: false, ..Switches::ALL };

#[test]
fn what_a_condition_requires() {
    let (_, text) = transfix_dictionary::standard_text("FIX44").unwrap();
    let price = "<field name='Price' required='N'/>";
    let conditional = "<field name='Price' required='N' requiredIf='OrdType == ^LIMIT'/>";
    let begin = text.find("<message name='NewOrderSingle'").unwrap();
    let at = begin + text[begin..].find(price).unwrap();
    let text = format!("{}{conditional}{}", &text[..at], &text[at + price.len()..]);
    let dictionary = Dictionary::from_xml(&text, "conditional.xml").unwrap();
    let rules = Rules::new(&dictionary, &dictionary);
    let order = "D|11=1|55=X|54=1|60=20261121-09:28:25|38=1|40=";
    let says = |end: &str, switches: &Switches| verdict(&rules, &format!("{order}{end}"), switches);
    let missing = Reject {
        reason: transfix_codec::RejectReason::RequiredTagMissing,
        tag: Some(transfix_codec::Tag(44)),
    };
    assert_eq!(says("1|", &VENUE), Ok(()));
    assert_eq!(says("2|44=5|", &VENUE), Ok(()));
    assert_eq!(says("2|", &VENUE), Err(missing));
    let off = Switches { conditional_tags: false, ..VENUE };
    assert_eq!(says("2|", &off), Ok(()));
}

#[test]
fn a_condition_of_an_entry_is_about_that_entry() {
    let overlay = "<fix base='FIX44'><components><component name='Parties'>
        <group name='NoPartyIDs'>
        <field name='PartyRole' requiredIf='exists PartyIDSource and Side == ^BUY'/>
        </group></component></components></fix>";
    let dictionary = Dictionary::from_xml(overlay, "overlay.xml").unwrap();
    let rules = Rules::new(&dictionary, &dictionary);
    let says = |side: &str, entries: &str| {
        let order = format!("D|11=1|{entries}55=X|54={side}|60=20261121-09:28:25|38=1|40=1|");
        verdict(&rules, &order, &VENUE)
    };
    let missing = Reject {
        reason: transfix_codec::RejectReason::RequiredTagMissing,
        tag: Some(transfix_codec::Tag(452)),
    };
    assert_eq!(says("1", "453=2|448=A|447=D|452=1|448=B|"), Ok(()));
    assert_eq!(says("1", "453=2|448=A|447=D|452=1|448=B|447=D|"), Err(missing));
    assert_eq!(says("2", "453=2|448=A|447=D|452=1|448=B|447=D|"), Ok(()));
}

#[test]
fn a_condition_of_an_inner_entry_sees_the_entry_around() {
    let overlay = "<fix base='FIX44'><components><component name='PtysSubGrp'>
        <group name='NoPartySubIDs'>
        <field name='PartySubIDType' requiredIf='PartyRole == 1'/>
        </group></component></components></fix>";
    let dictionary = Dictionary::from_xml(overlay, "overlay.xml").unwrap();
    let rules = Rules::new(&dictionary, &dictionary);
    let says = |entries: &str| {
        let order = format!("D|11=1|453=2|{entries}55=X|54=1|60=20261121-09:28:25|38=1|40=1|");
        verdict(&rules, &order, &VENUE)
    };
    let missing = Reject {
        reason: transfix_codec::RejectReason::RequiredTagMissing,
        tag: Some(transfix_codec::Tag(803)),
    };
    let (first, second) = ("448=A|447=D|452=1|802=1|523=x|", "448=B|447=D|452=3|802=1|523=y|");
    assert_eq!(says(&format!("{second}{second}")), Ok(()));
    assert_eq!(says(&format!("{first}{second}")), Err(missing));
    assert_eq!(says(&format!("{}{second}", first.replace("523=x|", "523=x|803=1|"))), Ok(()));
    assert_eq!(says(&format!("{second}{first}")), Err(missing));
}

#[test]
fn a_count_beyond_all_measure_ends() {
    let fix44 = standard("FIX44").unwrap();
    let rules = Rules::new(&fix44, &fix44);
    let found = verdict(&rules, "A|98=0|108=30|384=18446744073709551615|372=D|", &VENUE);
    assert_eq!(
        found,
        Err(Reject {
            reason: transfix_codec::RejectReason::IncorrectNumInGroup,
            tag: Some(transfix_codec::Tag(384)),
        })
    );
}

const HEAD: &str = "# What validation finds

Made from `transfix_codec::validate::REASONS` by `cargo xtask docs`; each row is a test.

A message is checked against the dictionary of its version. Each check has a switch of its own, in
the settings as `checks = { NAME = false }`, in the library as a field of `Switches`; all are on but
`conditions` and `empty_groups`. The first error is answered with Reject(3): sections out of order
first, then required tags that are missing, then the fields in wire order.

| 373 | what is wrong | switch | example (FIX 4.4, behind the header) | 371 |
|---|---|---|---|---|
";

const TAIL: &str = "
`conditional_tags` finds reason 1 where a dictionary requires a tag under a condition that holds, as
venues write it; the standard dictionaries have none. `conditions` finds what the standard says in
words: FIX42, FIX44 and FIX50SP2 have such conditions, and `transfix dictionary FIX44 D` shows them
with these words. Only `transfix check` looks for them unless it is told otherwise: parties may
agree on something else.

Found by the session, not here: 9 (CompID problem), 10 (SendingTime accuracy) and 18
(ApplVerID(1128) or CstmApplVerID(1129) of a version that the session does not have; switch
`codes`). Never given: 3, as an undefined tag is answered with 0.

## Names in other engines

| switch | FIX Antenna | QuickFIX |
|---|---|---|
";

/// Returns the documentation page as generated from the table.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for row in REASONS {
        let (msg_type, fields) = row.example.split_once('|').unwrap();
        let example = format!("35={msg_type} {}", fields.trim_end_matches('|').replace('|', " "));
        let tag = row.tag.map_or("-".to_owned(), |tag| tag.to_string());
        let (code, what) = (row.reason as u8, row.what);
        writeln!(page, "| {code} | {what} | `{}` | `{example}` | {tag} |", row.switch).unwrap();
    }
    page.push_str(TAIL);
    for row in REASONS.iter().filter(|row| !row.antenna.is_empty() || !row.quickfix.is_empty()) {
        let name = |text: &str| if text.is_empty() { "-".into() } else { format!("`{text}`") };
        let (antenna, quickfix) = (name(row.antenna), name(row.quickfix));
        writeln!(page, "| `{}` | {antenna} | {quickfix} |", row.switch).unwrap();
    }
    page
}

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/validation.md");
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page(), "docs/validation.md is old; run `cargo xtask docs`");
}
