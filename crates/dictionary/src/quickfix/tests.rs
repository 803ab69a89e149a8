//! Tests of the QuickFIX XML reader and of [`Draft::resolve`](crate::Draft::resolve).

use crate::{DataType, Dictionary, Draft, Flat, MemberKind, Problem};

/// Returns the XML of a dictionary with these messages and components, and with the fields A(1) to
/// D(4) and NoG(10).
fn wrapped(messages: &str, components: &str) -> String {
    format!(
        "<fix major='4' minor='4'>\n<messages>\n{messages}\n</messages>\n\
         <components>\n{components}\n\
         </components>\n<fields>\n<field number='1' name='A' type='STRING'/>\
         <field number='2' name='B' type='INT'/><field number='3' name='CLen' type='LENGTH'/>\
         <field number='4' name='C' type='DATA'/>\
         <field number='10' name='NoG' type='NUMINGROUP'/></fields></fix>"
    )
}

#[test]
fn attribute_variants_of_the_family_load() {
    let text = r#"<?xml version="1.0"?>
<!-- a comment -->
<fix minor="2" major='4' type="FIX">
 <fields>
  <field name="Side" type="CHAR" number="54">
   <value description="BUY" enum="1"/><value enum='2' description='SELL'/><value enum='10'/>
   <value enum="1" description="AGAIN"/>
  </field>
  <field number='20000' type='Price' name='Far' allowOtherValues='Y'><value enum='x'/></field>
 </fields>
 <header><field name='Side' required='y'/></header>
 <messages><message msgcat='APP' msgtype='ZZ' name='Z'><field required="N" name="Far"/></message>
 <message msgtype='Y' name='W'/></messages>
</fix>"#;
    let dictionary = Dictionary::from_xml(text, "a.xml").unwrap();
    assert_eq!(dictionary.name(), "FIX.4.2");
    let side = dictionary.field(54).unwrap();
    let codes: Vec<_> = side.codes.iter().map(|c| (c.value.as_str(), c.name.as_str())).collect();
    assert_eq!(codes, [("1", "BUY"), ("2", "SELL"), ("10", "10")]);
    assert!(side.admits(b"10") && !side.admits(b"3") && !side.admits(b""));
    assert!(dictionary.field(20_000).unwrap().admits(b"anything"));
    assert!(dictionary.header()[0].required);
    assert_eq!(dictionary.messages()[0].msg_type, "Y");
    assert_eq!(dictionary.message(b"ZZ").unwrap().name, "Z");
    assert!(dictionary.field(1).is_none() && dictionary.field(u32::MAX).is_none());
}

#[test]
fn far_tags_are_found_too() {
    let text = "<fix major='4' minor='4'><fields><field number='4000000000' name='F' type='INT'/>\
                <field number='5' name='E' type='INT'/></fields></fix>";
    let dictionary = Dictionary::from_quickfix_xml(text, "far.xml").unwrap();
    assert_eq!(dictionary.field(4_000_000_000).unwrap().name, "F");
    assert_eq!(dictionary.field_named("E").unwrap().tag, 5);
    assert!(dictionary.field(70_000).is_none());
}

#[test]
fn types_mean_what_the_version_means() {
    let cases = [
        ("4", "0", "CHAR", DataType::String),
        ("4", "1", "DATE", DataType::LocalMktDate),
        ("4", "1", "TIME", DataType::UtcTimestamp),
        ("4", "2", "CHAR", DataType::Char),
        ("4", "2", "UTCDATE", DataType::UtcDateOnly),
        ("4", "4", "MULTIPLEVALUESTRING", DataType::MultipleStringValue),
    ];
    for (major, minor, name, expected) in cases {
        let text = format!(
            "<fix major='{major}' minor='{minor}'><fields>\
             <field number='1' name='F' type='{name}'/></fields></fix>"
        );
        let dictionary = Dictionary::from_quickfix_xml(&text, "f.xml").unwrap();
        assert_eq!(dictionary.field(1).unwrap().data_type, expected, "{name} in {major}.{minor}");
    }
}

#[test]
fn groups_nest_and_components_are_shared() {
    let message = "<message name='M' msgtype='M'><component name='Outer' required='Y'/></message>";
    let components = "<component name='Outer'><field name='A' required='Y'/>\
         <group name='NoG' required='Y'><component name='Inner' required='N'/></group></component>\
         <component name='Inner'><field name='CLen' required='Y'/><field name='C' required='N'/>\
         </component>";
    let dictionary = Dictionary::from_quickfix_xml(&wrapped(message, components), "g.xml").unwrap();
    let flat: Vec<_> = Flat::of(&dictionary.message("M").unwrap().members).collect();
    assert_eq!((flat[0].tag, flat[0].required), (1, true));
    let entry: Vec<_> =
        Flat::of(flat[1].group.unwrap()).map(|member| (member.tag, member.required)).collect();
    assert_eq!(entry, [(3, false), (4, false)]);
    assert_eq!(dictionary.length_tag(4), Some(3));
    let MemberKind::Component(outer) = &dictionary.message("M").unwrap().members[0].kind else {
        panic!("the first member is a component");
    };
    assert!(std::ptr::eq(&raw const **outer, dictionary.component("Outer").unwrap()));
}

/// Returns the error of reading a dictionary with these messages and components.
fn error_of(messages: &str, components: &str) -> (u32, Problem, String) {
    let error = Dictionary::from_quickfix_xml(&wrapped(messages, components), "e.xml").unwrap_err();
    let shown = error.to_string();
    (error.line, error.problem, shown)
}

#[test]
fn what_is_wrong_is_refused_with_its_line() {
    let message = |members: &str| format!("<message name='M' msgtype='M'>\n{members}</message>");
    let unknown_field = message("<field name='a' required='Y'/>");
    let (line, problem, shown) = error_of(&unknown_field, "");
    assert_eq!(line, 4);
    assert_eq!(
        problem,
        Problem::UnknownField { name: "a".into(), nearest: Some("A".into()) },
        "{shown}"
    );
    assert!(shown.starts_with("e.xml:4: field 'a': "), "{shown}");

    let (line, problem, _) =
        error_of(&message("<component name='Inmer'/>"), "<component name='Inner'/>");
    let nearest = Some("Inner".into());
    assert_eq!((line, problem), (4, Problem::UnknownComponent { name: "Inmer".into(), nearest }));

    let cycle = "<component name='X'><component name='Y'/></component>\n\
                 <component name='Y'><component name='X'/></component>";
    assert_eq!(error_of("", cycle).1, Problem::Cycle);
    let own = "<component name='X'><group name='NoG'><component name='X'/></group></component>";
    assert_eq!(error_of("", own).1, Problem::Cycle);

    let twice = "<component name='X'/>\n<component name='X'/>";
    assert_eq!(error_of("", twice).1, Problem::DefinedTwice);
    let messages = "<message name='M' msgtype='M'/>\n<message name='N' msgtype='M'/>";
    let taken = Problem::TypeTaken { name: "M".into(), msg_type: "M".into() };
    assert_eq!(error_of(messages, "").1, taken);
    assert_eq!(error_of("<message name='M'/>", "").1, Problem::MissingAttribute("msgtype"));

    let deep = Problem::DEPTH_MAX + 2;
    let groups = format!("{}{}", "<group name='NoG'>".repeat(deep), "</group>".repeat(deep));
    assert_eq!(error_of(&message(&groups), "").1, Problem::TooDeep);
    let bottomless = message(&"<group name='NoG'>".repeat(100_000));
    assert!(matches!(error_of(&bottomless, "").1, Problem::NotXml(_)));
    let bottomless =
        format!("{}{}", "<group name='NoG'>".repeat(100_000), "</group>".repeat(100_000));
    assert_eq!(error_of(&message(&bottomless), "").1, Problem::TooDeep);
    let chain: String = (0..deep)
        .map(|i| format!("<component name='X{i:03}'><component name='X{:03}'/></component>", i + 1))
        .chain([format!("<component name='X{deep:03}'/>")])
        .collect();
    assert_eq!(error_of("", &chain).1, Problem::TooDeep);
}

#[test]
fn what_doubles_itself_is_refused_by_its_size() {
    // Forty components, each of which contains the next component twice, expand to 10^12 members.
    // Without any field, expanding them would take as many steps.
    for end in ["<field name='A'/>", ""] {
        let doubled = |i: usize| {
            let next = format!("<component name='X{:03}'/>", i + 1);
            format!("<component name='X{i:03}'>{next}{next}</component>")
        };
        let last = format!("<component name='X040'>{end}</component>");
        let chain: String = (0..40).map(doubled).chain([last]).collect();
        assert_eq!(error_of("", &chain).1, Problem::TooManyMembers);
    }
    let groups = format!("<component name='Y'>{}</component>", "<component name='Z'/>".repeat(200));
    let groups =
        groups + "<component name='Z'>" + &"<field name='A'/>".repeat(101) + "</component>";
    assert_eq!(error_of("", &groups).1, Problem::TooManyMembers);
}

#[test]
fn what_is_no_dictionary_is_refused() {
    let problem = |text: &str| Dictionary::from_xml(text, "x.xml").unwrap_err().problem;
    assert!(matches!(problem("<fix"), Problem::NotXml(_)));
    assert!(matches!(problem(""), Problem::NotXml(_)));
    assert_eq!(problem("<html/>"), Problem::NotADictionary);
    assert_eq!(problem("<fix/>"), Problem::MissingAttribute("major"));
    let field = |attributes: &str| {
        format!("<fix major='4' minor='4'><fields><field {attributes}/></fields></fix>")
    };
    let bad = problem(&field("number='0' name='A' type='INT'"));
    assert_eq!(bad, Problem::BadAttribute { attribute: "number", value: "0".into() });
    let bad = problem(&field("number='1' name='A' type='PRISE'"));
    let nearest = Some("Price".into());
    assert_eq!(bad, Problem::UnknownType { name: "PRISE".into(), nearest });
}

#[test]
fn written_and_read_again_it_is_the_same() {
    let message = "<message name='M' msgtype='M' msgcat='admin'><component name='X' required='Y'/>\
                   <field name='A' required='N'/></message>";
    let component = "<component name='X'><group name='NoG' required='Y'>\
                     <field name='B' required='N'/></group></component>";
    let draft = Draft::from_xml(&wrapped(message, component), "w.xml").unwrap();
    let written = draft.to_quickfix_xml();
    let again = Draft::from_xml(&written, "w.xml").unwrap();
    assert_eq!(again.to_quickfix_xml(), written);
    assert_eq!((&again.fields, &again.name), (&draft.fields, &draft.name));
    assert!(written.contains("\n  <message name='M' msgtype='M' msgcat='admin'>\n"), "{written}");
}

/// Dictionary files of QuickFIX C++, QuickFIX/J, QuickFIX/n, QuickFIX/Go and venues are accepted
/// with their peculiarities.
#[test]
fn whole_files_of_the_family_load() {
    let files = [
        // A byte order mark, an encoding, comments, sections in another order, and a service pack
        // are accepted.
        "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a -->\n\
         <fix type='FIX' major='5' minor='0' servicepack='2'><!-- b --><components>\
         <component name='Outer'><component name='Inner' required='n'/></component>\
         <component name='Inner'><!-- c --><group name='NoG' required='Y'><field name='A' \
         required='y'/></group></component></components><messages><message name='M' msgtype='M'>\
         <component name='Outer' required='Y'/></message></messages><header/><trailer/><fields>\
         <field number='1' name='A' type='STRING'/><field number='2' name='NoG' type='INT'/>\
         </fields></fix>",
        // Wrapped values without descriptions, a repeated field, a header in FIX 5, and unknown
        // attributes and elements are accepted.
        "<fix type='FIX' major='5' minor='0' extra='1'><header><field name='A' required='Y'/>\
         </header><fields><field number='1' name='A' type='String' comment='x'><values>\
         <value enum='a'/></values></field><field number='1' name='A' type='String'>\
         <value enum='b' description='B b'/></field><field number='2' name='NoG' \
         type='NumInGroup'/></fields><messages><message name='M' msgtype='M' msgcat='App'>\
         <group name='NoG'><field name='A' required='Y'/></group><note/></message></messages>\
         <notes/></fix>",
        // A file without header, trailer and components is accepted, and so are type names of old
        // or irregular files.
        "<fix major='4' minor='4'>\r\n<messages><message name='M' msgtype='M' msgcat='app'>\
         <group name='NoG' required='N'><field name='A' required='Y'/></group></message>\
         </messages><fields><field number='1' name='A' type='reserved100plus'/>\
         <field number='2' name='NoG' type='NUMINGROUP'/><field number='3' name='D' \
         type='day-of-month'/><field number='4' name='E' type='UTCDATE'/></fields></fix>",
    ];
    for text in files {
        let dictionary = Dictionary::from_xml(text, "f.xml").unwrap();
        let message = dictionary.message("M").unwrap();
        let flat: Vec<_> = Flat::of(&message.members).collect();
        assert_eq!(flat.len(), 1, "{text}");
        let entry: Vec<_> = Flat::of(flat[0].group.unwrap()).map(|m| (m.tag, m.required)).collect();
        assert_eq!((flat[0].tag, entry), (2, vec![(1, true)]), "{text}");
    }
    let codes = Dictionary::from_xml(files[1], "f.xml").unwrap().field(1).unwrap().codes.clone();
    assert_eq!(codes.len(), 2);
    let twice = "<fix major='4' minor='4'><fields><field number='1' name='A' type='INT'/>\n\
                 <field number='1' name='B' type='INT'/></fields></fix>";
    let error = Dictionary::from_xml(twice, "f.xml").unwrap_err().to_string();
    assert_eq!(error, "f.xml:2: field 'B': its tag belongs to A(1); use another");
    let twice = "<fix major='4' minor='4'><fields><field number='9001' name='A' type='INT'/>\n\
                 <field number='1' name='A' type='INT'/></fields></fix>";
    let error = Dictionary::from_xml(twice, "f.xml").unwrap_err().to_string();
    assert_eq!(error, "f.xml: field 9001: its name belongs to A(1); use another");
}
