//! Tests that each standard dictionary must pass.

use std::collections::BTreeSet;

use super::{STANDARD, standard};
use crate::{Category, DataType, Dictionary, Draft, Flat, Layout, Member, Problem};

fn read(name: &str) -> Dictionary {
    standard(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn names_are_taken_in_any_spelling() {
    let names = ["FIX44", "fix44", "FIX.4.4", "fix.4.4"];
    assert!(names.iter().all(|name| read(name).name() == "FIX.4.4"));
    let versions: Vec<String> = STANDARD.iter().map(|name| read(name).name().into()).collect();
    let expected = [
        "FIX.4.0",
        "FIX.4.1",
        "FIX.4.2",
        "FIX.4.3",
        "FIX.4.4",
        "FIX.5.0",
        "FIX.5.0SP1",
        "FIX.5.0SP2",
        "FIXT.1.1",
        "FIX.Latest",
    ];
    assert_eq!(versions, expected);
    assert!(versions.iter().all(|version| read(version).name() == version));
    let error = standard("FIXT1.2").unwrap_err();
    assert_eq!(error.problem, Problem::UnknownStandard { nearest: Some("FIXT11".into()) });
    let shown = error.to_string();
    assert!(shown.contains("'FIXT1.2'") && shown.ends_with("did you mean 'FIXT11'?"), "{shown}");
}

#[test]
fn what_an_order_requires() {
    let common = [11, 54, 40];
    let cases: [(&str, &[u32], &[u32]); 10] = [
        ("FIX40", &[55], &[60]),
        ("FIX41", &[55], &[60, 38]),
        ("FIX42", &[55], &[38]),
        ("FIX43", &[55], &[38]),
        ("FIX44", &[55], &[38]),
        ("FIX50", &[], &[38]),
        ("FIX50SP1", &[], &[38]),
        ("FIX50SP2", &[], &[38]),
        ("FIXLatest", &[], &[38]),
        ("FIX44", &[60], &[21]),
    ];
    for (name, more, fewer) in cases {
        let dictionary = read(name);
        let order = dictionary.message("D").unwrap();
        assert_eq!((order.name.as_str(), order.category), ("NewOrderSingle", Category::App));
        let layout = Layout::of(&order.members);
        let required: BTreeSet<u32> = layout.required().iter().copied().collect();
        assert!(common.iter().chain(more).all(|tag| required.contains(tag)), "{name} {required:?}");
        assert!(!fewer.iter().any(|tag| required.contains(tag)), "{name} {required:?}");
        assert_eq!(dictionary.field(11).unwrap().name, "ClOrdID");
        assert!(layout.place(11).is_some());
    }
}

#[test]
fn groups_nest() {
    let fix44 = read("FIX44");
    let order = Layout::of(&fix44.message("D").unwrap().members);
    let parties = order.place(453).unwrap().group.as_ref().unwrap();
    assert_eq!(parties.first(), Some(448));
    let sub_ids = parties.place(802).unwrap().group.as_ref().unwrap();
    assert_eq!(sub_ids.first(), Some(523));
    assert!(order.place(448).is_none());
    let latest = read("FIXLatest");
    let deepest = latest.messages().iter().map(|m| depth(&m.members)).max().unwrap();
    assert!(deepest >= 4, "{deepest}");
}

fn depth(members: &[Member]) -> usize {
    Flat::of(members)
        .filter_map(|member| member.group)
        .map(|group| 1 + depth(group))
        .max()
        .unwrap_or(0)
}

#[test]
fn the_session_layer() {
    let fixt = read("FIXT11");
    let header = Layout::of(fixt.header());
    assert_eq!(header.required(), [8, 9, 35, 49, 56, 34, 52]);
    assert!([1128, 1129, 1156, 369, 627, 115, 145].iter().all(|tag| header.place(*tag).is_some()));
    assert_eq!(header.place(627).unwrap().group.as_ref().unwrap().first(), Some(628));
    let logon = Layout::of(&fixt.message("A").unwrap().members);
    assert_eq!(logon.required(), [98, 108, 1137]);
    assert!([384, 789, 553, 554, 464, 141, 95, 96].iter().all(|tag| logon.place(*tag).is_some()));
    let types = logon.place(384).unwrap().group.as_ref().unwrap();
    assert!([372, 385, 1130, 1131, 1406, 1410].iter().all(|tag| types.place(*tag).is_some()));
    let versions = fixt.field(1137).unwrap();
    assert!((0..=10).all(|v: u32| versions.admits(v.to_string().as_bytes())));
    assert!(!versions.admits(b"11") && !versions.admits(b"77"));
    assert!(fixt.field(35).unwrap().admits(b"D") && fixt.field(372).unwrap().admits(b"U1"));
    let admin: Vec<&str> = fixt.messages().iter().map(|m| m.msg_type.as_str()).collect();
    assert_eq!(admin, ["0", "1", "2", "3", "4", "5", "A", "n"]);
    assert!(fixt.messages().iter().all(|message| message.category == Category::Admin));
    assert!(Layout::of(read("FIX44").header()).place(369).is_some());
}

#[test]
fn fields_mean_what_the_version_means() {
    let cases = [
        ("FIX40", 38, DataType::Qty),
        ("FIX41", 11, DataType::String),
        ("FIX40", 18, DataType::MultipleStringValue),
        ("FIX40", 52, DataType::UtcTimestamp),
        ("FIX40", 75, DataType::LocalMktDate),
        ("FIX42", 54, DataType::Char),
        ("FIX44", 44, DataType::Price),
        ("FIX50SP2", 1079, DataType::TzTimeOnly),
        ("FIXLatest", 453, DataType::NumInGroup),
    ];
    for (name, tag, expected) in cases {
        assert_eq!(read(name).field(tag).unwrap().data_type, expected, "{name} {tag}");
    }
    let quantities = ["FIX40", "FIX42", "FIX44", "FIX50SP2", "FIXLatest"];
    assert!(quantities.iter().all(|name| read(name).field(27).unwrap().admits(b"1000")));
    let fix42 = read("FIX42");
    assert!(!fix42.field(21).unwrap().admits(b"4") && !fix42.field(167).unwrap().admits(b"BOO"));
    assert!(fix42.field(18).unwrap().admits(b"1 2 W"));
    assert!(!fix42.field(18).unwrap().admits(b"1 ~"));
}

#[test]
fn each_data_field_has_its_length() {
    for name in STANDARD {
        let dictionary = read(name);
        for field in dictionary.fields().iter().filter(|field| field.data_type.is_data()) {
            let length = dictionary.length_tag(field.tag).and_then(|tag| dictionary.field(tag));
            let length = length.unwrap_or_else(|| panic!("{name}: {} has no length", field.name));
            assert_eq!(length.data_type, DataType::Length, "{name}: {}", length.name);
        }
        if let Some(raw) = dictionary.length_tag(96) {
            assert_eq!(raw, 95, "{name}");
        }
    }
}

#[test]
fn lookups_find_everything_there_is() {
    for name in STANDARD {
        let dictionary = read(name);
        for field in dictionary.fields() {
            assert!(std::ptr::eq(dictionary.field(field.tag).unwrap(), field));
            assert!(std::ptr::eq(dictionary.field_named(&field.name).unwrap(), field));
            assert!(field.codes.iter().all(|code| field.code(&code.value) == Some(code)));
        }
        for message in dictionary.messages() {
            assert!(std::ptr::eq(dictionary.message(&message.msg_type).unwrap(), message));
            assert!(std::ptr::eq(dictionary.message_named(&message.name).unwrap(), message));
        }
        for component in dictionary.components() {
            assert!(std::ptr::eq(dictionary.component(&component.name).unwrap(), component));
        }
        assert!(dictionary.message("no such type").is_none());
    }
}

#[test]
fn the_files_are_in_the_canonical_form() {
    for (name, text) in STANDARD.iter().zip(super::TEXTS) {
        let written = Draft::from_quickfix_xml(text, name).unwrap().to_quickfix_xml();
        assert!(written == *text, "{name}.xml: run cargo xtask dictionaries");
    }
}
