//! Drafts: setting, removing, copying, sorting and writing of fields and group entries.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::LazyLock;

use proptest::prelude::*;
use transfix_codec::{
    Body, CheckSumPolicy, DraftEntry, DraftGroup, FieldIndex, Fields, FrameWriter, GroupFault,
    Members, Message, MessageDraft, MessageLayout, Misuse, Precision, Reject, RejectReason, Rules,
    Scratch, Switches, Tag, raw, tag,
};
use transfix_dictionary::{Dictionary, Layout, standard};
use transfix_testkit::alloc::thread_allocations;

static FIX44: LazyLock<Dictionary> = LazyLock::new(|| standard("FIX44").unwrap());

const PARTIES: Tag = Tag(453);
const PARTY: Tag = Tag(448);
const SUB_IDS: Tag = Tag(802);
const SUB_ID: Tag = Tag(523);

fn layout(msg_type: &str) -> MessageLayout {
    MessageLayout::new(&FIX44, &FIX44, msg_type.as_bytes()).unwrap()
}

/// Returns a draft with the fields in `body`, which are written with `|` as delimiter.
fn draft(msg_type: &str, body: &str) -> MessageDraft {
    let bytes = message(msg_type, body);
    let mut draft = MessageDraft::default();
    with(&bytes, |message| draft.load(message));
    draft
}

fn message(msg_type: &str, body: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", msg_type.as_bytes());
    frame.raw(body.replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    bytes
}

fn with(bytes: &[u8], look: impl FnOnce(&Message<'_>)) {
    let mut index = FieldIndex::default();
    look(&Message::parse(bytes, &mut index, CheckSumPolicy::Verify).unwrap());
}

fn text(draft: &MessageDraft) -> String {
    assert_index(draft);
    String::from_utf8(draft.fields().bytes().to_vec()).unwrap().replace('\x01', "|")
}

/// Checks that the draft's index equals a new parse of its bytes.
fn assert_index(draft: &MessageDraft) {
    let fields = draft.fields();
    let read: Vec<_> = raw::fields(fields.bytes()).collect();
    assert_eq!(fields.fields().collect::<Vec<_>>(), read);
    for (n, field) in read.iter().enumerate() {
        assert_eq!(fields.tag_text(n), field.tag.to_string().as_bytes());
    }
}

const ORDER: &str =
    "11=1|453=2|448=A|447=D|802=1|523=X|803=4|448=B|452=1|55=EU|354=3|355=a|b|58=t|";

#[test]
fn fields_outside_of_groups() {
    type Row = (&'static str, fn(&mut MessageDraft), &'static str);
    let table: [Row; 8] = [
        ("11=1|55=EU|", |draft| draft.set(Tag(55), b"USD").unwrap(), "11=1|55=USD|"),
        ("11=1|55=EU|", |draft| draft.set(Tag(55), b"E").unwrap(), "11=1|55=E|"),
        ("11=1|", |draft| draft.set(Tag(9_999), b"x").unwrap(), "11=1|9999=x|"),
        ("", |draft| draft.set(Tag(55), b"EU").unwrap(), "55=EU|"),
        ("11=1|55=EU|54=1|", |draft| assert!(draft.remove(Tag(55))), "11=1|54=1|"),
        ("11=1|", |draft| assert!(!draft.remove(Tag(55))), "11=1|"),
        ("58=x|354=2|355=ab|11=1|", |draft| assert!(draft.remove(Tag(355))), "58=x|11=1|"),
        (
            "58=x|354=2|355=ab|11=1|",
            |draft| {
                let put = |fields: &mut Body<'_>| {
                    fields.data(Tag(354), Tag(355), b"\x01\x01\x01").str(Tag(55), "EU");
                };
                draft.edit(&layout("D")).put(put).unwrap();
            },
            "58=x|354=3|355=||||11=1|55=EU|",
        ),
    ];
    for (before, change, after) in table {
        let mut draft = draft("D", before);
        change(&mut draft);
        assert_eq!(text(&draft), after, "{before}");
    }
}

#[test]
fn what_the_session_layer_writes_is_not_kept() {
    let draft = draft("D", "49=A|56=B|34=7|52=20261121-09:28:25|57=DESK|11=1|x=y|043=Y|");
    assert_eq!(text(&draft), "57=DESK|11=1|");
    assert_eq!(draft.msg_type(), b"D");
}

#[test]
fn what_the_dictionary_does_not_know_is_dropped() {
    let mut draft = draft("D", &format!("{ORDER}555=0|9999=x|448=Z|108=30|57=DESK|"));
    draft.keep_known(&layout("D"));
    assert_eq!(text(&draft), format!("{ORDER}57=DESK|"));
}

#[test]
fn a_length_that_lies_is_corrected() {
    let mut draft = draft("D", "354=9|355=ab|11=1|95=7|58=x|96=abc|");
    assert_eq!(text(&draft), "354=2|355=ab|11=1|95=7|58=x|96=abc|");
    assert!(draft.remove(Tag(58)));
    assert_eq!(text(&draft), "354=2|355=ab|11=1|95=3|96=abc|");
}

/// A change to the group of parties in [`ORDER`]; the test's table pairs each change with its
/// result.
type Change = fn(DraftGroup<'_, Layout>);

#[test]
fn half_of_a_data_field_leaves_the_other_half() {
    let mut draft = draft("D", "354=2|355=ab|11=1|");
    draft.set(Tag(355), b"abc").unwrap();
    assert_eq!(text(&draft), "354=3|355=abc|11=1|");
    draft.set(Tag(354), b"9").unwrap();
    assert_eq!(text(&draft), "354=3|355=abc|11=1|");
}

#[test]
fn a_data_field_and_its_length_go_together() {
    const PAIR: &str = "11=1|354=3|355=a|b|55=EU|";
    type Row = (&'static str, fn(&mut DraftEntry<'_, MessageLayout>), &'static str);
    let table: [Row; 11] = [
        (PAIR, |order| order.set(Tag(354), b"99").unwrap(), PAIR),
        (PAIR, |order| order.set(Tag(355), b"longer").unwrap(), "11=1|354=6|355=longer|55=EU|"),
        (PAIR, |order| assert_eq!(order.remove(Tag(354)), Ok(true)), "11=1|55=EU|"),
        (PAIR, |order| assert_eq!(order.remove(Tag(355)), Ok(true)), "11=1|55=EU|"),
        ("11=1|", |order| order.set(Tag(355), b"abc").unwrap(), "11=1|354=3|355=abc|"),
        (
            "11=1|",
            |order| {
                order.set(Tag(354), b"9").unwrap();
                order.set(Tag(55), b"EU").unwrap();
                order.set(Tag(355), b"abc").unwrap();
            },
            "11=1|354=3|355=abc|55=EU|",
        ),
        (
            "11=1|",
            |order| {
                let put = |fields: &mut Body<'_>| {
                    fields.bytes(Tag(355), b"abc").uint(Tag(354), 9).str(Tag(55), "EU");
                };
                order.put(put).unwrap();
            },
            "11=1|354=3|355=abc|55=EU|",
        ),
        ("354=9|55=EU|355=ab|", |order| order.set(Tag(355), b"c").unwrap(), "354=1|355=c|55=EU|"),
        (
            "55=EU|355=ab|11=1|",
            |order| order.set(Tag(355), b"c").unwrap(),
            "55=EU|354=1|355=c|11=1|",
        ),
        ("354=9|55=EU|355=ab|", |order| assert_eq!(order.remove(Tag(355)), Ok(true)), "55=EU|"),
        ("354=9|55=EU|355=ab|", |order| assert_eq!(order.remove(Tag(354)), Ok(true)), "55=EU|"),
    ];
    let layout = layout("D");
    for (before, change, after) in table {
        let mut draft = draft("D", before);
        change(&mut draft.edit(&layout));
        assert_eq!(text(&draft), after, "{before}");
    }
    // The pair stays intact also without a layout.
    let mut draft = draft("D", PAIR);
    draft.set(Tag(354), b"99").unwrap();
    assert_eq!(text(&draft), PAIR);
    draft.set(Tag(355), b"longer").unwrap();
    assert_eq!(text(&draft), "11=1|354=6|355=longer|55=EU|");
    assert!(draft.remove(Tag(354)));
    assert_eq!(text(&draft), "11=1|55=EU|");
}

#[test]
fn a_venue_has_data_fields_of_its_own() {
    let mut draft = MessageDraft::default();
    draft.set_data_fields([(Tag(5_001), Tag(5_002))]);
    draft.clear(b"D");
    draft.set(Tag(55), b"EU").unwrap();
    let layout = layout("D");
    let mut order = draft.edit(&layout);
    order.put(|fields| _ = fields.data(Tag(5_001), Tag(5_002), b"a\x0158=x")).unwrap();
    assert_eq!(order.fields().raw(Tag(5_002)), Some(&b"a\x0158=x"[..]));
    assert_eq!(order.fields().len(), 3);
    order.set(Tag(5_002), b"abc").unwrap();
    draft.arrange(&layout);
    assert_eq!(text(&draft), "55=EU|5001=3|5002=abc|");
    assert!(draft.remove(Tag(5_001)));
    draft.clear(b"D");
    draft.set(Tag(5_002), b"abcd").unwrap();
    assert_eq!(text(&draft), "5001=4|5002=abcd|");
}

#[test]
fn fields_of_entries_are_not_the_messages_own() {
    let layout = layout("D");
    for body in ["11=1|453=2|448=A|802=1|523=X|448=B|", "11=1|453=1|448=A|55=EU|", "11=1|"] {
        let mut draft = draft("D", body);
        let mut order = draft.edit(&layout);
        let refused = [(PARTY, PARTIES), (SUB_IDS, PARTIES), (SUB_ID, SUB_IDS)];
        for (tag, group) in refused {
            let misuse = Misuse::GroupMember { tag, group };
            assert_eq!(order.set(tag, b"1"), Err(misuse), "{body}");
            assert_eq!(order.remove(tag), Err(misuse), "{body}");
        }
        assert_eq!(order.set(PARTIES, b"1"), Err(Misuse::NumInGroup(PARTIES)));
        assert_eq!(order.remove(Tag(58)), Ok(false));
        assert_eq!(text(&draft), body);
        let there = draft.fields().raw(PARTIES).is_some();
        assert_eq!(draft.edit(&layout).remove(PARTIES), Ok(there));
        let left = if body.contains("55=EU") { "11=1|55=EU|" } else { "11=1|" };
        assert_eq!(text(&draft), left);
    }
}

/// A layout of a message that permits Text(58) both in the body and in the entries of its only
/// group.
struct TextTwice;

const TEXT_MEMBERS: [Tag; 2] = [PARTY, Tag(58)];

impl Members for TextTwice {
    type Entry = [Tag];

    fn delimiter(&self) -> Option<Tag> {
        None
    }

    fn position(&self, tag: Tag) -> Option<u32> {
        [Tag(58), PARTIES].position(tag)
    }

    fn group(&self, count: Tag) -> Option<&[Tag]> {
        (count == PARTIES).then_some(&TEXT_MEMBERS)
    }

    fn group_of(&self, tag: Tag) -> Option<Tag> {
        TEXT_MEMBERS.contains(&tag).then_some(PARTIES)
    }
}

#[test]
fn a_field_of_the_message_is_not_taken_for_an_entrys() {
    for (body, after) in [
        ("11=1|453=1|448=A|", "11=1|58=x|453=1|448=A|"),
        ("453=1|448=A|58=e|", "58=x|453=1|448=A|58=e|"),
        ("453=1|448=A|11=1|", "453=1|448=A|11=1|58=x|"),
    ] {
        let mut draft = draft("D", body);
        draft.edit(&TextTwice).set(Tag(58), b"x").unwrap();
        assert_eq!(text(&draft), after);
    }
}

#[test]
fn a_list_of_groups_is_enough_to_refuse() {
    let members = [PARTY, Tag(447)];
    let groups = [(PARTIES, &members[..])];
    let mut draft = draft("D", "11=1|453=1|448=A|");
    let mut message = draft.edit(&groups[..]);
    let misuse = Misuse::GroupMember { tag: Tag(447), group: PARTIES };
    assert_eq!(message.set(Tag(447), b"x"), Err(misuse));
    assert_eq!(misuse.to_string(), "tag 447 belongs to the entries of group 453; change it there");
    message.set(Tag(9_999), b"y").unwrap();
    assert_eq!(text(&draft), "11=1|453=1|448=A|9999=y|");
}

#[test]
fn entries() {
    let table: [(Change, &str); 10] = [
        (|_| (), "453=2|448=A|447=D|802=1|523=X|803=4|448=B|452=1|"),
        (|mut group| assert!(group.remove(0)), "453=1|448=B|452=1|"),
        (|mut group| assert!(group.remove(1)), "453=1|448=A|447=D|802=1|523=X|803=4|"),
        (|mut group| assert!(group.remove(0) && group.remove(0) && !group.remove(0)), ""),
        (|mut group| group.clear(), ""),
        (
            |mut group| {
                let mut party = group.add(b"C").unwrap();
                // The fields of the entry are in the published order, regardless of the order of
                // the calls.
                party.set(Tag(452), b"3").unwrap();
                party.group(SUB_IDS).unwrap().add(b"Y").unwrap();
                party.set(Tag(447), b"G").unwrap();
            },
            "453=3|448=A|447=D|802=1|523=X|803=4|448=B|452=1|448=C|447=G|452=3|802=1|523=Y|",
        ),
        (
            |mut group| {
                let mut party = group.entry(0).unwrap();
                party.set(PARTY, b"AA").unwrap();
                party.group(SUB_IDS).unwrap().add(b"Z").unwrap();
                assert_eq!(party.remove(Tag(447)), Ok(true));
                assert_eq!(party.fields().raw(Tag(452)), None);
            },
            "453=2|448=AA|802=2|523=X|803=4|523=Z|448=B|452=1|",
        ),
        (
            |mut group| {
                let mut party = group.duplicate(0).unwrap();
                assert!(party.group(SUB_IDS).unwrap().remove(0));
            },
            "453=3|448=A|447=D|802=1|523=X|803=4|448=B|452=1|448=A|447=D|",
        ),
        (
            |mut group| {
                assert_eq!(group.add(b"").err(), Some(Misuse::EmptyValue(PARTY)));
                let mut party = group.entry(1).unwrap();
                assert_eq!(party.set(Tag(55), b"x"), Err(Misuse::NotInEntry(Tag(55))));
                assert_eq!(party.set(SUB_IDS, b"1"), Err(Misuse::NumInGroup(SUB_IDS)));
                assert_eq!(party.remove(PARTY), Err(Misuse::EntryDelimiter(PARTY)));
                assert!(party.group(Tag(555)).is_none() && group.entry(2).is_none());
            },
            "453=2|448=A|447=D|802=1|523=X|803=4|448=B|452=1|",
        ),
        (
            |mut group| {
                for n in 0..9 {
                    group.add(format!("P{n}").as_bytes()).unwrap();
                }
                while group.len() > 1 {
                    assert!(group.remove(group.len() - 1));
                }
            },
            "453=1|448=A|447=D|802=1|523=X|803=4|",
        ),
    ];
    for (change, parties) in table {
        let mut draft = draft("D", ORDER);
        change(draft.edit(&layout("D")).group(PARTIES).unwrap());
        assert_eq!(text(&draft), format!("11=1|{parties}55=EU|354=3|355=a|b|58=t|"));
    }
}

#[test]
fn a_group_that_is_not_there_is_made() {
    let mut draft = draft("D", "11=1|");
    let layout = layout("D");
    let mut order = draft.edit(&layout);
    let mut group = order.group(PARTIES).unwrap();
    assert!(group.is_empty() && !group.remove(0));
    group.add(b"A").unwrap().group(SUB_IDS).unwrap().add(b"X").unwrap();
    order.set(Tag(55), b"EU").unwrap();
    assert_eq!(text(&draft), "11=1|453=1|448=A|802=1|523=X|55=EU|");
}

#[test]
fn what_another_message_has_no_place_for_is_left_out() {
    let (order, report) = (layout("D"), layout("8"));
    let source = draft("D", &format!("{ORDER}44=9|9999=x|110=5|"));
    let mut target = draft("8", "37=O1|55=old|453=1|448=Z|");
    target.edit(&report).copy_from(&source.fields(), &order);
    assert_eq!(
        text(&target),
        "37=O1|55=EU|453=2|448=A|447=D|802=1|523=X|803=4|448=B|452=1|11=1|354=3|355=a|b|58=t|44=9|\
         110=5|"
    );
    let mut source = source;
    let mut cancel = draft("F", "41=0|");
    cancel.edit(&layout("F")).move_from(&mut source, &order);
    assert!(text(&cancel).starts_with("41=0|11=1|453=2|448=A|"), "{}", text(&cancel));
    assert_eq!(text(&source), "44=9|9999=x|110=5|");

    let mut other = draft("8", "37=O1|");
    let entry = target.fields().entries(PARTIES, report.group(PARTIES).unwrap()).nth(1).unwrap();
    let mut edited = other.edit(&report);
    let mut group = edited.group(PARTIES).unwrap();
    group.add_copy(&entry, report.group(PARTIES).unwrap()).unwrap();
    assert_eq!(text(&other), "37=O1|453=1|448=B|452=1|");
}

#[test]
fn the_order_of_the_dictionary() {
    let mut draft = draft(
        "D",
        "9999=x|58=t|93=3|89=abc|354=3|355=a|b|55=EU|453=2|448=A|802=1|523=X|803=4|447=D|448=B|\
         452=1|447=G|60=20261121-09:28:25|54=1|11=1|57=DESK|40=1|21=1|38=5|",
    );
    draft.arrange(&layout("D"));
    let arranged = "57=DESK|11=1|453=2|448=A|447=D|802=1|523=X|803=4|448=B|447=G|452=1|21=1|55=EU|\
        54=1|60=20261121-09:28:25|38=5|40=1|58=t|354=3|355=a|b|9999=x|93=3|89=abc|";
    assert_eq!(text(&draft), arranged);
    draft.arrange(&layout("D"));
    assert_eq!(text(&draft), arranged);
}

#[test]
fn a_data_field_behind_an_entry_is_there_once() {
    let mut draft = draft("D", "453=1|448=A|354=1|355=x|58=t|");
    draft.arrange(&[(PARTIES, &[PARTY, Tag(354)][..])][..]);
    assert_eq!(text(&draft), "453=1|448=A|354=1|355=x|58=t|");
}

#[test]
fn faults_of_groups_are_named() {
    let parties = layout("D");
    let parties = parties.group(PARTIES).unwrap();
    let table = [
        ("453=2|448=A|447=D|448=B|55=EU|", None),
        ("55=EU|", None),
        ("453=0|55=EU|", None),
        ("453=x|448=A|", Some("group 453: its NumInGroup is not a number")),
        (
            "453=1|447=D|448=A|",
            Some("group 453, entry 1: tag 447 is in place of the delimiter 448"),
        ),
        ("453=2|448=A|55=EU|", Some("group 453, entry 2: tag 55 is in place of the delimiter 448")),
        ("453=1|448=A|448=B|", Some("group 453, entry 2: NumInGroup gives fewer entries")),
        ("453=1|448=A|452=1|447=D|", Some("group 453, entry 1: tag 447 must not follow 452")),
        (
            "453=1|448=A|802=2|523=X|803=4|",
            Some("group 802, entry 2: the delimiter 523 is expected, but the message ends"),
        ),
    ];
    for (body, expected) in table {
        let draft = draft("D", body);
        let fault = draft.fields().check_group(PARTIES, parties).err();
        assert_eq!(fault.map(|fault| fault.to_string()).as_deref(), expected, "{body}");
    }
    let draft = draft("D", "453=1|448=A|452=1|447=D|");
    let fault = draft.fields().check_group(PARTIES, parties).unwrap_err();
    assert_eq!(fault.fault, GroupFault::Order { tag: Tag(447), after: Tag(452) });
    let reject = Reject::new(RejectReason::GroupFieldsOutOfOrder, Tag(447));
    assert_eq!(Reject::from(fault), reject);
}

#[test]
fn a_draft_that_is_used_again_allocates_nothing() {
    let bytes = message("D", ORDER);
    let layout = layout("D");
    let (mut draft, mut out) = (MessageDraft::default(), Vec::new());
    let mut index = FieldIndex::default();
    let mut turn = || {
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        draft.load(&message);
        let mut order = draft.edit(&layout);
        order.set(tag::SYMBOL, b"GBP").unwrap();
        order.group(PARTIES).unwrap().add(b"C").unwrap().set(Tag(452), b"3").unwrap();
        order.group(PARTIES).unwrap().duplicate(0).unwrap();
        assert!(order.group(PARTIES).unwrap().remove(1));
        assert_eq!(order.remove(tag::TEXT), Ok(true));
        draft.arrange(&layout);
        out.clear();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", draft.msg_type());
        draft.write(frame.body(Precision::Millis));
        frame.finish().unwrap();
    };
    turn();
    turn();
    let before = thread_allocations();
    turn();
    assert_eq!(thread_allocations() - before, 0);
}

/// Makes one change to the draft, chosen by the three numbers.
fn change(draft: &mut MessageDraft, layout: &MessageLayout, [what, n, m]: [usize; 3]) {
    let value = format!("v{n}");
    let mut order = draft.edit(layout);
    match what {
        0 => order.set([Tag(11), Tag(55), Tag(58)][n % 3], value.as_bytes()).unwrap(),
        1 => _ = order.remove([Tag(11), Tag(55), PARTIES, Tag(354)][n % 4]).unwrap(),
        2 if m == 0 => order.set([Tag(354), Tag(355)][n % 2], b"7").unwrap(),
        2 => order.put(|body| _ = body.data(Tag(354), Tag(355), &vec![1; n + 1])).unwrap(),
        3 => _ = order.group(PARTIES).unwrap().add(value.as_bytes()).unwrap(),
        4 => _ = order.group(PARTIES).unwrap().remove(n),
        5 => _ = order.group(PARTIES).unwrap().duplicate(n),
        _ => {
            let mut group = order.group(PARTIES).unwrap();
            let Some(mut party) = group.entry(n) else { return };
            match m {
                0 => party.set(Tag(452), b"1").unwrap(),
                1 => party.set(PARTY, value.as_bytes()).unwrap(),
                2 => _ = party.remove(Tag(452)).unwrap(),
                3 => _ = party.group(SUB_IDS).unwrap().remove(0),
                _ => _ = party.group(SUB_IDS).unwrap().add(value.as_bytes()).unwrap(),
            }
        }
    }
}

/// Fields to be combined at random, including data fields without Length fields and group members
/// without groups.
const SCRAPS: [&str; 10] = [
    "11=1|",
    "55=EU|",
    "354=2|",
    "355=ab|",
    "354=3|355=a|b|",
    "453=1|",
    "448=A|",
    "447=D|",
    "802=1|",
    "523=X|",
];

proptest! {
    #[test]
    fn what_is_set_is_there_whatever_was_loaded(
        scraps in prop::collection::vec(prop::sample::select(&SCRAPS), 0..12),
        changes in prop::collection::vec((any::<bool>(), 0_usize..6), 1..6),
    ) {
        let layout = layout("D");
        let mut draft = draft("D", &scraps.concat());
        for (is_set, n) in changes {
            let tag = [Tag(11), Tag(55), Tag(354), Tag(355), PARTIES, PARTY][n];
            let before = text(&draft);
            let mut order = draft.edit(&layout);
            let done = if is_set { order.set(tag, b"7").map(|()| true) } else { order.remove(tag) };
            let after = text(&draft);
            let fields = draft.fields();
            match (is_set, done) {
                (_, Err(_) | Ok(false)) => prop_assert_eq!(&after, &before),
                (true, _) if tag == Tag(354) => prop_assert!(fields.raw(tag).is_some()),
                (true, _) => prop_assert!(fields.fields().any(|f| f.tag == tag && f.value == b"7")),
                (false, _) => prop_assert!(after.len() < before.len()),
            }
            if is_set && tag == Tag(355) {
                prop_assert!(after.contains("354=1|355=7|"), "{before} {after}");
            }
        }
    }

    #[test]
    fn any_changes_leave_sound_groups(
        changes in prop::collection::vec([0_usize..9, 0_usize..5, 0_usize..6], 0..40),
    ) {
        let layout = layout("D");
        let mut draft = MessageDraft::default();
        draft.clear(b"D");
        for numbers in changes {
            change(&mut draft, &layout, numbers);
            assert_index(&draft);
            let fields = draft.fields();
            let length = fields.optional(Tag(354), Fields::uint).unwrap();
            if let Some(data) = fields.raw(Tag(355)) {
                prop_assert_eq!(length, Some(data.len() as u64));
            }
            let parties = layout.group(PARTIES).unwrap();
            prop_assert_eq!(fields.check_group(PARTIES, parties), Ok(()));
            let count = fields.entries(PARTIES, parties).count();
            let said = fields.raw(PARTIES).map(|count| count.to_vec());
            prop_assert_eq!(said, (count > 0).then(|| count.to_string().into_bytes()));
            let subs = fields.entries(PARTIES, parties).flat_map(|entry| {
                entry.entries(SUB_IDS, parties.place(SUB_IDS.0).unwrap().group.as_ref().unwrap())
            });
            prop_assert_eq!(subs.count(), fields.all(SUB_ID).count());
        }
        draft.arrange(&layout);
        assert_index(&draft);
        let mut bytes = Vec::new();
        let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", b"D");
        draft.write(frame.body(Precision::Millis));
        frame.finish().unwrap();
        let rules = Rules::new(&FIX44, &FIX44);
        let switches = Switches {
            required_tags: false,
            conditions: false,
            codes: false,
            formats: false,
            ..Switches::ALL
        };
        with(&bytes, |message| {
            let judged = rules.check(message, &switches, &mut Scratch::default());
            assert_eq!(judged, Ok(()), "{message}");
        });
    }
}
