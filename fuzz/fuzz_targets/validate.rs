//! Validates arbitrary messages: `check` returns the first error of `check_all`, and switching
//! checks off only removes errors.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use transfix_codec::{FieldIndex, Limits, Rules, Scratch, Switches};
use transfix_dictionary::standard;
use transfix_fuzz::{parse, take_apart, wrap};

static RULES: LazyLock<[Rules; 3]> = LazyLock::new(|| {
    let rules = |session: &str, application: &str| {
        let [session, application] =
            [session, application].map(|name| standard(name).expect("a standard dictionary"));
        Rules::new(&session, &application)
    };
    [rules("FIX44", "FIX44"), rules("FIX40", "FIX40"), rules("FIXT11", "FIX50SP1")]
});

fuzz_target!(|bytes: &[u8]| {
    let mut index = FieldIndex::default();
    let mut scratch = Scratch::default();
    let mut frames = take_apart(bytes, &[bytes.len()], Limits::default()).frames;
    if frames.is_empty() {
        frames = take_apart(&wrap(bytes), &[usize::MAX], Limits::default()).frames;
    }
    for frame in &frames {
        let Ok(message) = parse(frame, &mut index) else { continue };
        for rules in RULES.iter() {
            for switches in [Switches::ALL, Switches::STANDARD] {
                let first = rules.check(&message, &switches, &mut scratch).err();
                let mut all = Vec::new();
                rules.check_all(&message, &switches, &mut scratch, |finding| all.push(finding));
                // Repeated checks let the validator learn the tags of this message, which must not
                // change the result.
                for _ in 0..8 {
                    assert_eq!(rules.check(&message, &switches, &mut scratch).err(), first);
                }
                assert_eq!(first, all.first().map(|finding| finding.reject), "{message}");
                assert!(all.iter().all(|f| f.at.is_none_or(|at| at < message.len())));
            }
            let none = rules.check(&message, &Switches::NONE, &mut scratch);
            assert_eq!(none, Ok(()), "{message}");
        }
    }
});
