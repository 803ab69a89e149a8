//! A message of every type in every version can be converted to JSON and back, and can be printed.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use transfix_codec::{CheckSumPolicy, FieldIndex, Message};
use transfix_dictionary::{Dictionary, Flat, Member, standard};
use transfix_testkit::random::Random;
use transfix_testkit::sample::{Extent, Sample};
use transfix_text::json::{self, Writer};
use transfix_text::print::{self, Palette};

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

/// Adds the tags of all members, including the members of groups, to `tags`.
fn members(of: &[Member], tags: &mut BTreeSet<u32>) {
    for member in Flat::of(of) {
        tags.insert(member.tag);
        member.group.into_iter().for_each(|entry| members(entry, tags));
    }
}

/// Checks the printed form of the message: its name, a line for each field, and the three section
/// headings.
fn print(message: &Message<'_>, session: &Dictionary, application: &Dictionary, name: &str) {
    let mut text = String::new();
    print::readable(message, [session, application], &Palette::PLAIN, &mut text).unwrap();
    assert!(text.contains(&format!("\n{name} (\"")), "{text}");
    assert!(text.lines().count() >= message.len() + 3, "{text}");
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
    let (session, application) = (standard(session).unwrap(), standard(application).unwrap());
    let names = json::tags_of(&session, &application);
    let mut json = Writer::named(&session, &application);
    let mut sample = Sample::new(&session, &application, Random::new(7));
    let mut index = FieldIndex::default();
    let mut known = BTreeSet::new();
    for of_type in sample.messages() {
        let mut own = BTreeSet::new();
        members(&of_type.members, &mut own);
        // A full message is made only if it has a field that no earlier message had, because full
        // messages of the largest versions take seconds.
        let full = (!own.is_subset(&known)).then_some(Extent::Everything);
        known.append(&mut own);
        for extent in [Extent::Required, Extent::Some].into_iter().chain(full) {
            let bytes = sample.message(of_type, extent);
            let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
            let (mut text, mut again) = (String::new(), Vec::new());
            json.write(&message, &mut text).unwrap();
            let read = json::read(text.as_bytes(), names, &[], &mut again);
            assert_eq!((read, &again), (Ok(text.len()), &bytes), "{text}");
            if extent == Extent::Required {
                print(&message, &session, &application, &of_type.name);
            }
        }
    }
}
