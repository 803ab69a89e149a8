//! Reads arbitrary text as a dictionary or an overlay. If it is accepted, it can be described, and
//! Rust code can be generated from it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfix_dictionary::generate::{Options, generate};
use transfix_dictionary::{Draft, describe};

/// The dictionary to which the overlays are applied.
const BASE: &str = include_str!("../../testdata/dictionaries/quickfix.xml");

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let base = Draft::from_xml(BASE, "base.xml").expect("the base is sound");
    let drafts = [Draft::from_xml(&text, "fuzz.xml"), base.overlay(&text, "fuzz.xml")];
    for draft in drafts.into_iter().flatten() {
        let written = draft.to_quickfix_xml();
        if let Ok(dictionary) = draft.resolve() {
            assert!(Draft::from_xml(&written, "written.xml").is_ok(), "{written}");
            assert!(generate(&dictionary, &Options::new("own")).is_ok());
            for field in dictionary.fields() {
                assert!(describe(&dictionary, &field.tag.to_string()).is_ok());
            }
        }
    }
});
