//! Arbitrary bytes give the same frames however they are split, and each frame is parsed without a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfix_codec::{FieldIndex, Limits};
use transfix_fuzz::{check_spans, parse, take_apart};

/// Maximum length in bytes of streams that are split at every byte; for longer streams, this would
/// cost more than it finds.
const CUT_BYTES_MAX: usize = 160;

fuzz_target!(|bytes: &[u8]| {
    // The last bytes of the input determine the lengths of the chunks, and a limit.
    let (stream, choice) = bytes.split_at(bytes.len() - bytes.len().min(3));
    let chunks: Vec<usize> = choice.iter().map(|&b| usize::from(b)).chain([1]).collect();
    for message_bytes_max in [20 + 2 * chunks[0], 1 << 20] {
        let limits = Limits { message_bytes_max };
        let whole = take_apart(stream, &[stream.len()], limits);
        assert_eq!(whole, take_apart(stream, &chunks, limits));
        let cuts = if stream.len() <= CUT_BYTES_MAX { stream.len() } else { 1 };
        for cut in 1..cuts {
            assert_eq!(whole, take_apart(stream, &[cut, stream.len()], limits), "cut at {cut}");
        }
        let mut index = FieldIndex::default();
        for frame in &whole.frames {
            if let Ok(message) = parse(frame, &mut index) {
                check_spans(&message);
            }
        }
    }
});
