//! Custom names that collide with names of the standard are rejected.

use super::{Options, generate};
use crate::{Draft, STANDARD, standard};

/// Applies an overlay with these parts to FIX 4.4; returns the error of reading or of code
/// generation, if any.
fn wrong(fields: &str, messages: &str) -> Option<String> {
    let overlay = format!("<fix><fields>{fields}</fields><messages>{messages}</messages></fix>");
    let draft = Draft::standard("FIX44").expect("a standard dictionary");
    let dictionary = draft.overlay(&overlay, "venue.xml").and_then(|draft| draft.resolve());
    match dictionary {
        Ok(dictionary) => {
            generate(&dictionary, &Options::new("venue")).err().map(|e| e.to_string())
        }
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn a_name_of_the_standard_is_named_with_its_number() {
    let field =
        |number: u32, name: &str| format!("<field number='{number}' name='{name}' type='STRING'/>");
    let message = |msg_type: &str, name: &str| {
        format!("<message name='{name}' msgtype='{msg_type}'><field name='Text'/></message>")
    };
    let add = |text: String| text.replacen(' ', " action='add' ", 1);
    for (fields, messages, expected) in [
        (field(9001, "Price"), "", "field 'Price': its name belongs to Price(44); use another"),
        (add(field(9001, "Price")), "", "field 'Price': its name belongs to Price(44)"),
        (field(44, "OwnPrice"), "", "field 'OwnPrice': its tag belongs to Price(44)"),
        (
            field(9001, "ClOrdId"),
            "",
            "field ClOrdId(9001): its name in Rust, `CL_ORD_ID`, belongs to ClOrdID(11) of the \
             standard",
        ),
        (field(9001, "cl_ord_id"), "", "field cl_ord_id(9001): its name in Rust, `CL_ORD_ID`"),
        (
            String::new(),
            &*message("U1", "NewOrderSingle"),
            "message 'NewOrderSingle': its name belongs to NewOrderSingle(D)",
        ),
        (
            String::new(),
            &*message("U1", "New_Order_Single"),
            "message New_Order_Single(U1): its name in Rust, `NewOrderSingle`, belongs to \
             NewOrderSingle(D) of the standard",
        ),
        (
            String::new(),
            &*message("D", "VenueOrder"),
            "message 'VenueOrder': its MsgType(35) belongs to NewOrderSingle(D)",
        ),
    ] {
        let said = wrong(&fields, messages).unwrap_or_default();
        assert!(said.contains(expected), "{fields}{messages}: {said}");
    }
    for (fields, messages) in [
        // A custom field may have the name of a message. If two custom fields share a name, the
        // generated name of one gets a number.
        (field(9001, "NewOrderSingle"), String::new()),
        (field(9001, "OwnID") + &field(9002, "OwnId"), String::new()),
        (field(9001, "VenueFlag"), message("U1", "VenueNotice")),
        // An overlay may change the type of a standard message.
        (String::new(), "<message action='change' name='News' msgtype='U1'/>".to_owned()),
    ] {
        assert_eq!(wrong(&fields, &messages), None, "{fields}{messages}");
    }
}

#[test]
fn names_of_the_standard_versions_are_no_fault() {
    for name in STANDARD {
        let made = generate(&standard(name).unwrap(), &Options::new("all"));
        assert!(made.is_ok(), "{name}: {:?}", made.err());
    }
}
