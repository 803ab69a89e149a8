//! Tests of overlays over FIX 4.4 and over custom dictionaries.

use crate::{Category, Dictionary, DictionaryError, Draft, Flat, Member};

const BASE: &str = "<fix major='4' minor='4'><header><field name='A' required='Y'/></header>\
    <trailer><field name='B' required='Y'/></trailer><messages>\
    <message name='M' msgtype='M'><field name='A' required='Y'/><component name='C'/>\
    <group name='NoG'><field name='B'/></group></message>\
    <message name='N' msgtype='N'/></messages>\
    <components><component name='C'><field name='D' required='Y'/></component></components>\
    <fields><field number='1' name='A' type='CHAR'><value enum='x' description='X'/>\
    <value enum='y' description='Y'/></field><field number='2' name='B' type='INT'/>\
    <field number='3' name='D' type='INT'/><field number='10' name='NoG' type='NUMINGROUP'/>\
    </fields></fix>";

fn laid(overlay: &str) -> Result<Dictionary, DictionaryError> {
    let base = Draft::from_xml(BASE, "base.xml")?;
    base.overlay(&format!("<fix>\n{overlay}</fix>"), "over.xml")?.resolve()
}

/// Formats members such as `1* 3 10(2)`: tags, with a star after a required member and with the
/// members of a group in parentheses.
fn shown(members: &[Member]) -> String {
    let all = Flat::of(members).map(|member| {
        let star = if member.required { "*" } else { "" };
        let condition = if member.required_if.is_some() { "?" } else { "" };
        let group = member.group.map_or(String::new(), |group| format!("({})", shown(group)));
        format!("{}{star}{condition}{group}", member.tag)
    });
    all.collect::<Vec<_>>().join(" ")
}

#[test]
fn members_are_added_changed_and_removed() {
    let message = |inner: &str| {
        let overlay = format!("<messages><message name='M'>{inner}</message></messages>");
        shown(&laid(&overlay).unwrap().message("M").unwrap().members)
    };
    let cases = [
        ("", "1* 3 10(2)"),
        ("<field name='B'/>", "1* 3 10(2) 2"),
        ("<field name='B' required='Y' after='A'/>", "1* 2* 3 10(2)"),
        ("<field name='B' before='NoG'/>", "1* 3 2 10(2)"),
        ("<field name='B' after='C' action='add'/>", "1* 3 2 10(2)"),
        ("<field name='A' required='N'/>", "1 3 10(2)"),
        ("<field name='A' after='NoG' action='change'/>", "3 10(2) 1*"),
        ("<field name='A' required='N' requiredIf='exists B'/>", "1? 3 10(2)"),
        ("<field name='A' action='remove'/>", "3 10(2)"),
        ("<component name='C' required='Y'/>", "1* 3* 10(2)"),
        ("<component name='C' action='remove'/>", "1* 10(2)"),
        ("<group name='NoG'><field name='D'/></group>", "1* 3 10(2 3)"),
        (
            "<group name='NoG' required='Y'><field name='B' action='remove'/><field name='D'/>\
             </group>",
            "1* 3 10*(3)",
        ),
        ("<group name='NoG' action='remove'/>", "1* 3"),
    ];
    for (inner, expected) in cases {
        assert_eq!(message(inner), expected, "{inner}");
    }
}

#[test]
fn fields_codes_messages_and_components_too() {
    let overlay = "<fields><field number='9001' name='Own' type='BOOLEAN'/>\
        <field name='A' allowOtherValues='Y'><value enum='z' description='Z'/>\
        <value enum='x' action='remove'/><value enum='y' description='YES'/></field>\
        <field name='B' action='remove'/></fields>\
        <messages><message name='U' msgtype='U1' msgcat='admin'><field name='Own'/></message>\
        <message name='M'><group name='NoG'><field name='D'/></group></message>\
        <message name='N' action='remove'/></messages>\
        <components><component name='C'><field name='Own'/></component></components>\
        <header><field name='Own'/></header>";
    let dictionary = laid(overlay).unwrap();
    let codes = &dictionary.field(1).unwrap().codes;
    let codes: Vec<_> = codes.iter().map(|c| (c.value.as_str(), c.name.as_str())).collect();
    assert_eq!(codes, [("y", "YES"), ("z", "Z")]);
    assert!(dictionary.field(1).unwrap().open);
    assert!(dictionary.field(2).is_none() && dictionary.message("N").is_none());
    assert_eq!(dictionary.message("U1").unwrap().category, Category::Admin);
    assert_eq!(shown(&dictionary.message("M").unwrap().members), "1* 3 9001 10(3)");
    assert_eq!(shown(dictionary.header()), "1* 9001");
    assert_eq!(shown(dictionary.trailer()), "", "B is removed from everything that had it");
}

#[test]
fn a_file_names_its_base() {
    let text = "<fix base='FIX44' name='VENUE'><fields><field number='9001' name='Own' \
                type='INT'/></fields><messages><message name='NewOrderSingle'><field name='Own' \
                required='Y' after='Side'/></message></messages></fix>";
    let dictionary = Dictionary::from_xml(text, "venue.xml").unwrap();
    assert_eq!(dictionary.name(), "VENUE");
    let order = shown(&dictionary.message("D").unwrap().members);
    assert!(order.contains(" 54* 9001* "), "{order}");
    let unknown = Dictionary::from_xml("<fix base='FIX45'/>", "venue.xml").unwrap_err();
    assert!(unknown.to_string().starts_with("venue.xml:1: fix: no standard"), "{unknown}");
}

#[test]
fn what_does_not_fit_is_refused_with_its_line() {
    let message = |inner: &str| format!("<messages><message name='M'>{inner}</message></messages>");
    let no = "does not exist, so it cannot be changed or removed";
    let cases = [
        (message("<field name='B' action='remove'/>"), format!("over.xml:2: field 'B': {no}")),
        (
            "<messages><message name='m' action='change'/></messages>".to_owned(),
            format!("over.xml:2: message 'm': {no}; did you mean 'M'?"),
        ),
        (
            message("<field name='A' action='add'/>"),
            "over.xml:2: field 'A': defined twice; remove one definition".to_owned(),
        ),
        (
            message("<field name='A' action='drop'/>"),
            "over.xml:2: field 'A': attribute 'action' can't be 'drop'; use 'add', 'change' or \
             'remove'"
                .to_owned(),
        ),
        (
            message("<field name='B' after='D'/>"),
            "over.xml:2: field 'B': attribute 'after' can't be 'D'; name an existing member"
                .to_owned(),
        ),
        (
            message("<field name='D' required='N'/>"),
            "over.xml:2: field 'D': is a member of the component 'C'; change it there".to_owned(),
        ),
        (
            "<fields><field name='A' number='7'/></fields>".to_owned(),
            "over.xml:2: field 'A': its name belongs to A(1); use another".to_owned(),
        ),
        (
            "<fields><field name='Z' number='1' type='INT'/></fields>".to_owned(),
            "over.xml:2: field 'Z': its tag belongs to A(1); use another".to_owned(),
        ),
        (
            message("<component name='X'/>"),
            "over.xml:2: component 'X': component 'X' is not defined; define it; \
             did you mean 'C'?"
                .to_owned(),
        ),
        (
            message("<field name='A' requiredIf='exist B'/>"),
            "over.xml:2: condition 'exist B': no field has the name 'exist' (character 1)"
                .to_owned(),
        ),
    ];
    for (overlay, expected) in cases {
        assert_eq!(laid(&overlay).unwrap_err().to_string(), expected, "{overlay}");
    }
}

#[test]
fn what_means_nothing_is_refused() {
    let message = |inner: &str| format!("<messages><message name='M'>{inner}</message></messages>");
    let cases = [
        (
            message("<group name='B'/>"),
            "over.xml:2: group 2: has no members; name the first field of an entry".to_owned(),
        ),
        (
            message("<field name='A' requred='Y'/>"),
            "over.xml:2: field 'A': 'requred' means nothing here; did you mean 'required'?"
                .to_owned(),
        ),
        (
            message("<field name='A' required='yes'/>"),
            "over.xml:2: field 'A': attribute 'required' can't be 'yes'; use 'Y' or 'N'".to_owned(),
        ),
        (
            "<field name='A'/>".to_owned(),
            "over.xml:2: field 'A': 'field' means nothing here; did you mean 'fields'?".to_owned(),
        ),
        (
            message("<feild name='A'/>"),
            "over.xml:2: feild 'A': 'feild' means nothing here; did you mean 'field'?".to_owned(),
        ),
    ];
    for (overlay, expected) in cases {
        assert_eq!(laid(&overlay).unwrap_err().to_string(), expected, "{overlay}");
    }
}
