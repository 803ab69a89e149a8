//! Tests of the reader of FIX Orchestra.

use super::upper_snake;
use crate::{Category, Comparison, Condition, DataType, Dictionary, Draft, Flat, Operand, Problem};

const SMALL: &str = r#"<?xml version="1.0"?>
<fixr:repository xmlns:fixr="http://fixprotocol.io/2020/orchestra/repository"
  name="FIX.Latest" version="FIX.Latest_EP269">
 <fixr:codeSets>
  <fixr:codeSet name="SideCodeSet" id="54" type="char">
   <fixr:code name="Buy" id="1" value="1"/><fixr:code name="BuyMinus" id="2" value="3"/>
  </fixr:codeSet>
  <fixr:codeSet name="ReasonCodeSet" id="103" type="int">
   <fixr:code name="Other" id="1" value="99"/>
  </fixr:codeSet>
 </fixr:codeSets>
 <fixr:fields>
  <fixr:field id="54" name="Side" type="SideCodeSet"/>
  <fixr:field id="103" name="OrdRejReason" type="ReasonCodeSet" unionDataType="Reserved100Plus"/>
  <fixr:field id="35" name="MsgType" type="String"/>
  <fixr:field id="10" name="CheckSum" type="String"/>
  <fixr:field id="453" name="NoPartyIDs" type="NumInGroup"/>
  <fixr:field id="448" name="PartyID" type="String"/>
 </fixr:fields>
 <fixr:components>
  <fixr:component name="StandardHeader" id="1"><fixr:fieldRef id="35" presence="required"/>
  </fixr:component>
  <fixr:component name="StandardTrailer" id="2"><fixr:fieldRef id="10" presence="required"/>
  </fixr:component>
 </fixr:components>
 <fixr:groups>
  <fixr:group name="Parties" id="3"><fixr:numInGroup id="453"/><fixr:fieldRef id="448"/>
  </fixr:group>
 </fixr:groups>
 <fixr:messages>
  <fixr:message name="Order" id="1" msgType="D" category="SingleGeneralOrderHandling">
   <fixr:structure>
    <fixr:componentRef id="1" presence="required"/>
    <fixr:groupRef id="3" presence="required"/>
    <fixr:fieldRef id="54" presence="required"/>
    <fixr:fieldRef id="103" presence="optional"/>
    <fixr:componentRef id="2" presence="required"/>
   </fixr:structure>
  </fixr:message>
  <fixr:message name="Logon" id="2" msgType="A" category="Session"><fixr:structure/>
  </fixr:message>
 </fixr:messages>
</fixr:repository>"#;

#[test]
fn a_repository_becomes_a_dictionary() {
    let dictionary = Dictionary::from_xml(SMALL, "o.xml").unwrap();
    assert_eq!((dictionary.name(), dictionary.extension_pack()), ("FIX.Latest", Some(269)));
    let side = dictionary.field_named("Side").unwrap();
    assert_eq!((side.data_type, side.open), (DataType::Char, false));
    assert_eq!(side.code("3").unwrap().name, "BUY_MINUS");
    assert!(dictionary.field(103).unwrap().admits(b"100"), "a union leaves the codes open");
    let order = dictionary.message("D").unwrap();
    let flat: Vec<_> =
        Flat::of(&order.members).map(|m| (m.tag, m.required, m.group.is_some())).collect();
    assert_eq!(flat, [(453, true, true), (54, true, false), (103, false, false)]);
    assert_eq!(order.category, Category::App);
    assert_eq!(dictionary.message("A").unwrap().category, Category::Admin);
    assert_eq!((dictionary.header().len(), dictionary.trailer().len()), (1, 1));
    assert!(dictionary.component("StandardHeader").is_none());
}

#[test]
fn rules_become_conditions() {
    let rule = "<fixr:fieldRef id=\"103\" presence=\"conditional\">\
        <fixr:rule name=\"r\" presence=\"required\"><fixr:when>Side == ^Buy</fixr:when></fixr:rule>\
        <fixr:rule name=\"s\" presence=\"required\"><fixr:when>exists MsgType</fixr:when>\
        </fixr:rule><fixr:rule name=\"t\" presence=\"forbidden\"><fixr:when>x</fixr:when>\
        </fixr:rule></fixr:fieldRef>";
    let plain = "<fixr:fieldRef id=\"103\" presence=\"optional\"/>";
    let dictionary = Dictionary::from_xml(&SMALL.replace(plain, rule), "o.xml").unwrap();
    let order = dictionary.message("D").unwrap();
    let condition = Flat::of(&order.members).find(|m| m.tag == 103).unwrap().required_if.unwrap();
    let buys = Comparison::Equal;
    let buys = Condition::Compare(54, buys, Operand::Value("1".into()));
    assert_eq!(**condition, Condition::Any(vec![buys, Condition::Exists(35)]));
    let wrong = SMALL.replace(plain, &rule.replace("^Buy", "^Bye"));
    let error = Dictionary::from_xml(&wrong, "o.xml").unwrap_err().to_string();
    assert!(error.contains("Side(54) has no code 'Bye'"), "{error}");
}

#[test]
fn of_several_scenarios_one_is_taken() {
    let text = SMALL
        .replace(
            " </fixr:codeSets>",
            " <fixr:codeSet name=\"SideCodeSet\" id=\"54\" type=\"char\" scenario=\"own\">\
             <fixr:code name=\"Cross\" id=\"9\" value=\"8\"/></fixr:codeSet></fixr:codeSets>",
        )
        .replace(
            " </fixr:groups>",
            " <fixr:group name=\"Parties\" id=\"3\" scenario=\"own\"><fixr:numInGroup id=\"453\"/>\
             <fixr:fieldRef id=\"448\"/><fixr:fieldRef id=\"54\"/></fixr:group></fixr:groups>",
        )
        .replace(
            " </fixr:messages>",
            " <fixr:message name=\"Order\" id=\"9\" msgType=\"D\" scenario=\"own\">\
             <fixr:structure><fixr:groupRef id=\"3\" scenario=\"own\"/></fixr:structure>\
             </fixr:message><fixr:message name=\"Only\" id=\"10\" msgType=\"X\" \
             scenario=\"other\"><fixr:structure/></fixr:message></fixr:messages>",
        );
    let shown = |dictionary: &Dictionary| {
        let order: Vec<_> = Flat::of(&dictionary.message("D").unwrap().members)
            .map(|m| (m.tag, m.group.map_or(0, |group| group.len())))
            .collect();
        (order, dictionary.field(54).unwrap().codes.len(), dictionary.messages().len())
    };
    let base = Dictionary::from_xml(&text, "o.xml").unwrap();
    assert_eq!(shown(&base), (vec![(453, 1), (54, 0), (103, 0)], 2, 3));
    let own = Draft::from_orchestra_scenario(&text, "o.xml", "own").unwrap().resolve().unwrap();
    assert_eq!(shown(&own), (vec![(453, 2)], 1, 3));
    let wrong = Draft::from_orchestra_scenario(&text, "o.xml", "owm").unwrap_err();
    let expected = "o.xml:2: repository 'FIX.Latest': no element belongs to the scenario 'owm'; \
                    did you mean 'own'?";
    assert_eq!(wrong.to_string(), expected);
}

#[test]
fn a_reference_that_leads_nowhere_is_refused() {
    let cases = [
        ("<fixr:groupRef id=\"3\"", "<fixr:groupRef id=\"4\""),
        ("<fixr:fieldRef id=\"54\"", "<fixr:fieldRef id=\"55\""),
    ];
    for (right, wrong) in cases {
        let error = Dictionary::from_xml(&SMALL.replace(right, wrong), "o.xml").unwrap_err();
        let unknown = matches!(
            error.problem,
            Problem::UnknownComponent { .. } | Problem::UnknownField { .. }
        );
        assert!(unknown && error.line > 30, "{error}");
    }
}

#[test]
fn code_names_in_one_form() {
    let cases = [
        ("BuyMinus", "BUY_MINUS"),
        ("PKCSDES", "PKCSDES"),
        ("FIX50SP2", "FIX50SP2"),
        ("FIXLatest", "FIX_LATEST"),
        ("InvalidTagNumber", "INVALID_TAG_NUMBER"),
        ("ISO2022JP", "ISO2022JP"),
        ("Day1Trade", "DAY1_TRADE"),
        ("No", "NO"),
        ("CompIDProblem", "COMP_ID_PROBLEM"),
        ("", ""),
    ];
    for (name, expected) in cases {
        assert_eq!(upper_snake(name), expected);
    }
}
