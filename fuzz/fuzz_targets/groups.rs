//! Changes a draft as the input determines; its index and its groups stay consistent.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use transfix_codec::{
    DraftEntry, FieldIndex, Limits, Members, MessageDraft, MessageLayout, Tag, raw,
};
use transfix_dictionary::{Layout, standard};
use transfix_fuzz::{parse, take_apart, wrap};

static ORDER: LazyLock<MessageLayout> = LazyLock::new(|| {
    let fix44 = standard("FIX44").expect("a standard dictionary");
    MessageLayout::new(&fix44, &fix44, b"D").expect("a message of FIX 4.4")
});

const PARTIES: Tag = Tag(453);
const SUB_IDS: Tag = Tag(802);

fn change_party(party: &mut DraftEntry<'_, Layout>, what: u8, value: &[u8]) {
    match what % 5 {
        0 => _ = party.set(Tag(448), value),
        1 => _ = party.set(Tag(452), value),
        2 => _ = party.remove(Tag(452)),
        3 => _ = party.group(SUB_IDS).map(|mut group| _ = group.add(value)),
        _ => _ = party.group(SUB_IDS).map(|mut group| group.remove(0)),
    }
}

fn change(draft: &mut MessageDraft, [what, n, m]: [u8; 3], value: &[u8]) {
    let mut order = draft.edit(&*ORDER);
    let at = usize::from(n % 4);
    match what % 8 {
        0 => _ = order.set(Tag(11), value),
        1 => _ = order.remove([Tag(11), PARTIES, Tag(55), Tag(354)][at]),
        2 => _ = order.put(|body| _ = body.data(Tag(354), Tag(355), value)),
        3 => _ = order.group(PARTIES).map(|mut group| _ = group.add(value)),
        4 => _ = order.group(PARTIES).map(|mut group| group.remove(at)),
        5 => _ = order.group(PARTIES).map(|mut group| _ = group.duplicate(at)),
        6 => draft.arrange(&*ORDER),
        _ => {
            let Some(mut group) = order.group(PARTIES) else { return };
            if let Some(mut party) = group.entry(at) {
                change_party(&mut party, m, value);
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (choices, body) = bytes.split_at(bytes.len().min(24));
    let mut draft = MessageDraft::default();
    let mut index = FieldIndex::default();
    let frames = take_apart(&wrap(body), &[usize::MAX], Limits::default()).frames;
    let Some(message) = frames.first().and_then(|frame| parse(frame, &mut index).ok()) else {
        return;
    };
    draft.load(&message);
    let parties = ORDER.group(PARTIES).expect("a group of the order");
    for choice in choices.as_chunks::<3>().0 {
        change(&mut draft, *choice, &body[..body.len().min(usize::from(choice[2] % 16))]);
        let fields = draft.fields();
        let encoded = |n| fields.encoded(n).iter().copied();
        assert!((0..fields.len()).flat_map(encoded).eq(fields.bytes().iter().copied()));
        assert!(
            raw::fields(fields.bytes()).eq(fields.fields()),
            "{}",
            fields.bytes().escape_ascii()
        );
        let entries = fields.entries(PARTIES, parties).count();
        assert!(entries <= fields.len());
        let _ = fields.check_group(PARTIES, parties);
    }
});
