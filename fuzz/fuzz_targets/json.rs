//! Converts frames to JSON and back: the result is identical to the frame, and any text is read
//! without a panic.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use transfix_codec::{FieldIndex, Limits};
use transfix_dictionary::{Dictionary, standard};
use transfix_fuzz::{parse, take_apart, wrap};
use transfix_text::json::{Writer, read, tags_of};

static FIX44: LazyLock<Dictionary> =
    LazyLock::new(|| standard("FIX44").expect("a standard dictionary"));

fn there_and_back(frame: &[u8]) {
    let mut index = FieldIndex::default();
    let Ok(message) = parse(frame, &mut index) else { return };
    let mut texts = [String::new(), String::new()];
    let written = [
        Writer::named(&*FIX44, &*FIX44).write(&message, &mut texts[0]),
        Writer::plain().write(&message, &mut texts[1]),
    ];
    assert_eq!(written, [Ok(()), Ok(())]);
    for text in texts {
        let mut again = Vec::new();
        assert_eq!(read(text.as_bytes(), tags_of(&FIX44, &FIX44), &[], &mut again), Ok(text.len()));
        assert_eq!(again, frame, "{text}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut out = b"before".to_vec();
    match read(bytes, tags_of(&FIX44, &FIX44), &[], &mut out) {
        Ok(end) => {
            assert!(end <= bytes.len());
            for frame in take_apart(&out[6..], &[usize::MAX], Limits::default()).frames {
                there_and_back(&frame);
            }
        }
        Err(error) => assert!(out == b"before" && error.at <= bytes.len(), "{error}"),
    }
    there_and_back(&wrap(bytes));
    for frame in take_apart(bytes, &[usize::MAX], Limits::default()).frames {
        there_and_back(&frame);
    }
});
