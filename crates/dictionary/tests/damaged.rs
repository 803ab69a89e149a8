//! Damaged files: reading any text gives a dictionary or an error, and never panics.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix_dictionary::generate::{Options, generate};
use transfix_dictionary::{Dictionary, Draft, Layout, describe};
use transfix_testkit::random::Random;

const QUICKFIX: &str = include_str!("../../../testdata/dictionaries/quickfix.xml");

const ORCHESTRA: &str = include_str!("../../../testdata/dictionaries/orchestra.xml");

const OVERLAY: &str = include_str!("../../../testdata/dictionaries/overlay.xml");

/// Returns the text with some parts removed, doubled or replaced.
fn damaged(text: &str, random: &mut Random) -> String {
    const PIECES: [&str; 12] =
        ["", "<", "/>", "'", "=", "N", "4294967296", "-1", "exists", "(((", "\u{e9}", "D"];
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let begin = random.below(bytes.len());
        let end = (begin + random.below(12)).min(bytes.len());
        let piece = match random.below(3) {
            0 => bytes[begin..end].repeat(2),
            _ => PIECES[random.below(PIECES.len())].as_bytes().to_vec(),
        };
        bytes.splice(begin..end, piece);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the text with the value of one attribute replaced by the value of another attribute.
fn mixed_up(text: &str, random: &mut Random) -> String {
    let mut pieces: Vec<&str> = text.split('\'').collect();
    // Every second piece between quotation marks is the value of an attribute.
    let mut value = || 1 + 2 * random.below(pieces.len() / 2);
    let (from, to) = (value(), value());
    pieces[to] = pieces[from];
    pieces.join("'")
}

/// Runs every operation on a dictionary, to show that none panics.
fn use_all(dictionary: &Dictionary) {
    let text = generate(dictionary, &Options::new("own")).unwrap();
    assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
    for message in dictionary.messages() {
        let layout = Layout::of(&message.members);
        assert!(layout.places().len() <= dictionary.fields().len());
        assert!(describe(dictionary, &message.name).is_ok());
    }
    for field in dictionary.fields() {
        assert!(describe(dictionary, &field.tag.to_string()).is_ok());
        assert!(field.codes.iter().all(|code| field.code(&code.value).is_some()));
    }
}

#[test]
fn no_text_makes_it_panic() {
    let mut random = Random::new(4711);
    let base = Draft::from_xml(QUICKFIX, "base.xml").unwrap();
    let (mut read, mut refused) = (0, 0);
    for round in 0..3_000 {
        let damage = if round % 2 == 0 { damaged } else { mixed_up };
        let results = [QUICKFIX, ORCHESTRA].map(|text| {
            let text = damage(text, &mut random);
            Dictionary::from_xml(&text, "damaged.xml")
        });
        let overlay = damage(OVERLAY, &mut random);
        let laid = base.clone().overlay(&overlay, "overlay.xml").and_then(Draft::resolve);
        for result in results.into_iter().chain([laid]) {
            match result {
                Ok(dictionary) => {
                    read += 1;
                    // Generating Rust code takes the longest, so it runs in every fifth round only.
                    if round % 5 == 0 {
                        use_all(&dictionary);
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().starts_with(&error.file));
                }
            }
        }
    }
    assert!(
        read > 1_000 && refused > 1_000,
        "{read} read, {refused} refused: too much or too little"
    );
}
