//! Reads a message with every getter and copies it; the copy has the same fields as the original.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfix_codec::{FieldIndex, Limits};
use transfix_fuzz::{check_spans, copy, parse, read_all, take_apart, wrap};

fuzz_target!(|bytes: &[u8]| {
    let mut index = FieldIndex::default();
    let mut frames = take_apart(bytes, &[bytes.len()], Limits::default()).frames;
    if frames.is_empty() {
        frames = take_apart(&wrap(bytes), &[usize::MAX], Limits::default()).frames;
    }
    for frame in &frames {
        if let Ok(message) = parse(frame, &mut index) {
            check_spans(&message);
            read_all(&message);
            copy(&message);
        }
    }
});
