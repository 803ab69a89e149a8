//! For any frame, every index implementation that the processor supports agrees with a simple
//! parser.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use transfix_codec::scan::Simd;
use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, Garbled, Message, raw};
use transfix_testkit::plain;

fn assert_same(frame: &[u8]) {
    let expected = plain::parse(frame);
    for simd in Simd::ALL {
        let mut index = FieldIndex::with(simd);
        let parsed = Message::parse(frame, &mut index, CheckSumPolicy::Ignore);
        let Some((fields, holds)) = &expected else {
            assert!(parsed.is_err(), "{simd:?}: {}", frame.escape_ascii());
            continue;
        };
        let message = parsed.unwrap_or_else(|e| panic!("{simd:?}: {e}: {}", frame.escape_ascii()));
        let read: Vec<_> = (0..message.len())
            .map(|n| (message.tags()[n].0, message.tag_text(n), message.at(n).unwrap().value))
            .collect();
        let plain: Vec<_> =
            fields.iter().map(|(tag, text, value)| (*tag, &text[..], &value[..])).collect();
        assert_eq!(read, plain, "{simd:?}: {}", frame.escape_ascii());
        assert!(
            raw::fields(frame).map(|f| (f.tag.0, f.value)).eq(plain.iter().map(|f| (f.0, f.2)))
        );
        let verified = Message::parse(frame, &mut index, CheckSumPolicy::Verify).err();
        assert_eq!(verified, (!holds).then_some(Garbled::CheckSum));
    }
}

/// Generates fields, most of them nearly valid, and some arbitrary bytes.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        8 => "[1-9][0-9]{0,9}=[ -~]{0,70}",
        2 => "9[0-9]=[0-9]{1,3}\u{1}9[0-9]=[a-c\u{1}=]{0,40}",
        1 => "95=[0-9]\u{1}96=[a-c\u{1}]{0,9}",
        1 => "[0-9=a\u{1}-]{0,20}",
    ];
    let any = prop::collection::vec(any::<u8>(), 0..90);
    prop_oneof![
        6 => prop::collection::vec(field, 0..30).prop_map(|all| all.join("\u{1}").into_bytes()),
        1 => any,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_frame(body in fields(), wrong in prop::bool::weighted(0.1)) {
        let mut bytes = Vec::new();
        let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", b"D");
        frame.raw(&body);
        frame.raw(b"\x01");
        frame.finish().unwrap();
        if wrong {
            let at = bytes.len() - 3;
            bytes[at] = b'0' + (bytes[at] - b'0' + 1) % 10;
        }
        assert_same(&bytes);
    }
}
