//! For arbitrary bytes, every index implementation of this processor agrees with a second, simple
//! parser.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfix_codec::scan::Simd;
use transfix_codec::{CheckSumPolicy, FieldIndex, Garbled, Limits, Message, raw};
use transfix_fuzz::{take_apart, wrap};
use transfix_testkit::plain;

fn same(frame: &[u8]) {
    let expected = plain::parse(frame);
    for simd in Simd::ALL {
        let mut index = FieldIndex::with(simd);
        let parsed = Message::parse(frame, &mut index, CheckSumPolicy::Ignore);
        let Some((fields, holds)) = &expected else {
            assert!(parsed.is_err(), "{simd:?}");
            continue;
        };
        let message = parsed.expect("the plain parser takes it");
        assert_eq!(message.len(), fields.len(), "{simd:?}");
        for (n, (tag, text, value)) in fields.iter().enumerate() {
            let field = message.at(n).expect("as many fields");
            assert_eq!((field.tag.0, field.value), (*tag, &value[..]), "{simd:?}");
            assert_eq!(message.tag_text(n), text, "{simd:?}");
        }
        assert!(raw::fields(frame).eq(message.fields()), "{simd:?}");
        let verified = Message::parse(frame, &mut index, CheckSumPolicy::Verify).err();
        assert_eq!(verified, (!holds).then_some(Garbled::CheckSum), "{simd:?}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    same(&wrap(bytes));
    for frame in take_apart(bytes, &[usize::MAX], Limits::default()).frames {
        same(&frame);
    }
});
