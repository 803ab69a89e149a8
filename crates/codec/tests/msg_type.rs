//! Message types: the constants match the standard, and all notations of a type are equivalent.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix_codec::msg_type::{self, STANDARD};
use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, Message, Misuse, MsgType};
use transfix_dictionary::{Category, standard};

#[test]
fn the_constants_are_those_of_the_standard() {
    let latest = standard("FIXLatest").unwrap();
    let mut known: Vec<_> = latest.messages().iter().collect();
    known.sort_by_key(|message| (message.msg_type.len(), message.msg_type.clone()));
    let known: Vec<_> = known.iter().map(|m| (MsgType::new(&m.msg_type), &*m.name)).collect();
    assert_eq!(STANDARD, known);
    for version in ["FIX42", "FIX44", "FIX50SP2", "FIXT11"] {
        for message in standard(version).unwrap().messages() {
            let of = MsgType::new(&message.msg_type);
            assert!(of.name().is_some() && of.is_valid(), "{version}: {of}");
            let of_session = message.category == Category::Admin && of != msg_type::XML_NON_FIX;
            assert_eq!(of.is_administrative(), of_session, "{version}: {of}");
        }
    }
    assert_eq!(
        (msg_type::NEW_ORDER_SINGLE.as_str(), msg_type::LOGON.as_str()),
        (Some("D"), Some("A"))
    );
    assert_eq!(MsgType::new("U1").name(), None);
}

/// Encodes a message of this type with an empty body.
fn begun(msg_type: impl AsRef<[u8]>) -> Result<Vec<u8>, Misuse> {
    let mut out = Vec::new();
    FrameWriter::new(&mut out, b"FIX.4.4", msg_type).finish()?;
    Ok(out)
}

#[test]
fn one_type_is_said_in_many_ways() {
    let expected = begun("AE").unwrap();
    let owned = ("AE".to_owned(), b"AE".to_vec());
    for frame in [begun(b"AE"), begun(&b"AE"[..]), begun(&owned.0), begun(&owned.1), begun(owned.0)]
    {
        assert_eq!(frame.as_deref(), Ok(&*expected));
    }
    let mut index = FieldIndex::default();
    let message = Message::parse(&expected, &mut index, CheckSumPolicy::Verify).unwrap();
    let read = message.msg_type();
    assert_eq!(begun(read), Ok(expected.clone()));
    assert_eq!(read, msg_type::TRADE_CAPTURE_REPORT);
    assert!(read == "AE" && read == *"AE" && read == b"AE" && read == b"AE"[..] && read != "A");
    assert!(matches!(read, msg_type::TRADE_CAPTURE_REPORT));
}

#[test]
fn what_is_no_type_is_a_mistake_of_the_caller() {
    let long = "T".repeat(17);
    for wrong in ["", "A\x01", "a b", "\u{e9}", &long] {
        assert!(!MsgType::new(wrong).is_valid());
        assert_eq!(begun(wrong), Err(Misuse::MsgType), "{wrong:?}");
    }
    assert!(msg_type::NEWS.is_application() && !msg_type::LOGON.is_application());
    assert!(!MsgType::new("").is_application());
    assert_eq!(format!("{} {:?}", MsgType::of(b"\n"), msg_type::NEWS), r"\n MsgType(B)");
}
