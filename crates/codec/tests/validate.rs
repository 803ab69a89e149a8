//! Validation against the standard dictionaries: the test cases of the standard, groups, and
//! switches.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::OnceLock;

use proptest::prelude::*;
use transfix_codec::RejectReason::{self, *};
use transfix_codec::validate::malformed_tag;
use transfix_codec::{CheckSumPolicy, FieldIndex, Message, Reject, Rules, Scratch, Switches, Tag};
use transfix_dictionary::standard;

const VERSIONS: [&str; 8] =
    ["FIX40", "FIX41", "FIX42", "FIX43", "FIX44", "FIX50", "FIX50SP1", "FIX50SP2"];
const FROM_42: [&str; 6] = ["FIX42", "FIX43", "FIX44", "FIX50", "FIX50SP1", "FIX50SP2"];
const FIX50: [&str; 3] = ["FIX50", "FIX50SP1", "FIX50SP2"];

/// All checks except the conditions, which depend on agreements of the parties and have their own
/// tests.
const PLAIN: Switches = Switches { conditions: false, ..Switches::ALL };

/// Returns the rules of a version, compiled once for all tests.
fn rules(version: &str) -> &'static Rules {
    static ALL: [OnceLock<Rules>; VERSIONS.len()] = [const { OnceLock::new() }; VERSIONS.len()];
    let at = VERSIONS.iter().position(|known| *known == version).unwrap();
    ALL[at].get_or_init(|| {
        let application = standard(version).unwrap();
        if version.starts_with("FIX5") {
            Rules::new(&standard("FIXT11").unwrap(), &application)
        } else {
            Rules::new(&application, &application)
        }
    })
}

/// Returns a frame around `fields`, which are written with `|` as delimiter; BodyLength(9) and
/// CheckSum(10) are correct.
fn frame(version: &str, fields: &str) -> Vec<u8> {
    let begin_string = match version {
        "FIX40" => "FIX.4.0",
        "FIX41" => "FIX.4.1",
        "FIX42" => "FIX.4.2",
        "FIX43" => "FIX.4.3",
        "FIX44" => "FIX.4.4",
        _ => "FIXT.1.1",
    };
    // In FIX 4.0 and 4.1, an order has no TransactTime(60).
    let fields = match version {
        "FIX40" | "FIX41" => fields.replace("60=20261121-09:28:25|", ""),
        _ => fields.to_owned(),
    };
    let body = fields.replace('|', "\u{1}");
    let mut bytes = format!("8={begin_string}\u{1}9={}\u{1}{body}", body.len()).into_bytes();
    let sum = transfix_codec::scan::sum(&bytes);
    bytes.extend_from_slice(format!("10={sum:03}\u{1}").as_bytes());
    bytes
}

fn check_with(rules: &Rules, bytes: &[u8], switches: Switches) -> Result<(), Reject> {
    let mut index = FieldIndex::default();
    let message = Message::parse(bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    rules.check(&message, &switches, &mut Scratch::default())
}

fn check(version: &str, fields: &str, expected: Result<(), Reject>) {
    let bytes = frame(version, fields);
    let found = check_with(rules(version), &bytes, Switches::default());
    assert_eq!(found, expected, "{version}: {fields}");
}

fn good(version: &str, fields: &str) {
    check(version, fields, Ok(()));
}

fn bad(version: &str, fields: &str, reason: RejectReason, tag: u32) {
    check(version, fields, Err(Reject::new(reason, Tag(tag))));
}

const HEADER: &str = "34=2|49=TW|52=20261121-09:28:25|56=ISLD|";

/// Returns the fields of an order that is valid in each version, with `more` appended.
fn order(more: &str) -> String {
    format!("35=D|{HEADER}11=1|21=1|55=IBM|54=1|60=20261121-09:28:25|38=100|40=1|{more}")
}

fn heartbeat(more: &str) -> String {
    format!("35=0|{HEADER}{more}")
}

#[test]
fn an_order_and_a_heartbeat_are_good() {
    for version in VERSIONS {
        good(version, &order(""));
        good(version, &heartbeat(""));
        good(version, &heartbeat("112=HELLO|"));
    }
    let logon = format!("35=A|{HEADER}98=0|108=30|");
    VERSIONS[..5].iter().for_each(|version| good(version, &logon));
    for version in FIX50 {
        bad(version, &logon, RequiredTagMissing, 1137);
        good(version, &format!("{logon}1137=9|"));
    }
}

#[test]
fn case_14a_undefined_tags() {
    for version in VERSIONS {
        bad(
            version,
            &order("999=HI|"),
            if version < "FIX50" { InvalidTagNumber } else { TagNotDefinedForMessage },
            999,
        );
        bad(version, &heartbeat("999=HI|"), InvalidTagNumber, 999);
        bad(version, &order("0=HI|"), InvalidTagNumber, 0);
        bad(version, &order("5000=HI|"), InvalidTagNumber, 5000);
        bad(version, &order("058=HI|"), InvalidTagNumber, 58);
        for text in ["-1=HI|", "+58=HI|", "x=HI|", "HI|", "=HI|", "99999999999=HI|"] {
            let expected = Reject { reason: InvalidTagNumber, tag: None };
            check(version, &order(text), Err(expected));
        }
    }
}

#[test]
fn a_negative_tag_is_found_for_the_answer() {
    for (fields, expected) in [("-1=x|", Some("-1")), ("a=x|-07=x|", Some("-07")), ("a=x|", None)] {
        let bytes = frame("FIX44", &heartbeat(fields));
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        assert_eq!(malformed_tag(&message), expected.map(str::as_bytes), "{fields}");
    }
}

#[test]
fn case_14b_required_tags() {
    for version in VERSIONS {
        let (tag, field) = match version {
            "FIX40" | "FIX41" | "FIX42" => (55, "55=IBM|"),
            "FIX43" | "FIX44" => (11, "11=1|"),
            _ => (54, "54=1|"),
        };
        bad(version, &order("").replace(field, ""), RequiredTagMissing, tag);
        bad(version, &order("").replace("56=ISLD|", ""), RequiredTagMissing, 56);
    }
}

#[test]
fn required_groups() {
    let request = format!("35=V|{HEADER}262=1|263=0|264=0|");
    let entries = "267=1|269=0|146=1|55=IBM|";
    for version in FROM_42 {
        bad(version, &request, RequiredTagMissing, 267);
        bad(version, &format!("{request}267=1|269=0|"), RequiredTagMissing, 146);
        bad(version, &format!("{request}146=1|55=IBM|"), RequiredTagMissing, 267);
        good(version, &format!("{request}{entries}"));
        let list = format!("35=E|{HEADER}66=1|394=3|68=1|");
        bad(version, &list, RequiredTagMissing, 73);
    }
    // A required group is missing, which belongs to a required component.
    for (fields, tag) in [
        ("35=AE|571=1|570=N|55=X|32=1|31=1|75=20261121|60=20261121-09:28:25|", 552),
        ("35=B|148=x|", 33),
        ("35=X|", 268),
        ("35=W|55=X|779=20261121-09:28:25|", 268),
        ("35=i|117=1|", 296),
        ("35=BJ|", 386),
        ("35=R|131=1|", 146),
        ("35=DJ|2423=1|", 2428),
    ] {
        let (msg_type, body) = fields.split_once('|').unwrap();
        bad("FIX50SP2", &format!("{msg_type}|{HEADER}{body}"), RequiredTagMissing, tag);
    }
}

#[test]
fn what_is_missing_is_blamed_before_what_is_wrong() {
    for version in VERSIONS {
        let fields = order("5000=x|").replace("11=1|", "").replace("21=1", "21=4");
        bad(version, &fields, RequiredTagMissing, 11);
        bad(version, &(fields + "57=SUB|"), TagOutOfOrder, 57);
        bad(version, &order("57=|"), TagWithoutValue, 57);
    }
    for version in ["FIX40", "FIX41"] {
        let fields = format!("35=D|{HEADER}40=1|60=20261121-09:28:26|54=1|21=3|11=id|");
        bad(version, &fields, RequiredTagMissing, 55);
    }
}

#[test]
fn case_14c_tags_of_other_messages() {
    for version in VERSIONS {
        let tag = if FIX50.contains(&version) { 58 } else { 55 };
        bad(version, &heartbeat(&format!("{tag}=X|")), TagNotDefinedForMessage, tag);
        bad(version, &order("108=30|"), TagNotDefinedForMessage, 108);
    }
    // Only FIXT 1.1 defines the fields of administrative messages.
    FIX50.iter().for_each(|version| bad(version, &heartbeat("55=X|"), InvalidTagNumber, 55));
}

#[test]
fn case_14d_values_that_are_empty() {
    for version in VERSIONS {
        let no_target = order("").replace("56=ISLD", "56=");
        bad(version, &no_target, TagWithoutValue, 56);
        bad(version, &order("999=|"), TagWithoutValue, 999);
        bad(version, &order("44=|"), TagWithoutValue, 44);
        bad(version, &order("").replace("35=D", "35="), TagWithoutValue, 35);
        let switches = Switches { empty_values: false, ..PLAIN };
        let lenient = |fields: &str| check_with(rules(version), &frame(version, fields), switches);
        assert_eq!(lenient(&heartbeat("112=|")), Ok(()));
        assert_eq!(lenient(&order("44=|")), Ok(()));
    }
    for routing in ["115=", "128="] {
        for version in VERSIONS {
            let fields = format!("35=0|{HEADER}{routing}|");
            bad(version, &fields, TagWithoutValue, routing[..3].parse().unwrap());
        }
    }
}

#[test]
fn case_14e_values_that_are_no_codes() {
    for version in VERSIONS {
        bad(version, &order("").replace("21=1", "21=4"), ValueOutOfRange, 21);
        good(version, &order("").replace("38=100", "38=002000.00"));
        good(version, &order("18=1 2|"));
        bad(version, &order("18=1 ~|"), ValueOutOfRange, 18);
    }
    for version in FROM_42 {
        bad(version, &order("167=BOO|"), ValueOutOfRange, 167);
        good(version, &order("167=CS|"));
    }
}

#[test]
fn case_14f_values_of_another_type() {
    for version in VERSIONS {
        bad(version, &order("").replace("38=100", "38=+200.00"), IncorrectDataFormat, 38);
        bad(version, &order("").replace("34=2", "34=x"), IncorrectDataFormat, 34);
        bad(version, &order("").replace("25|56", "25x|56"), IncorrectDataFormat, 52);
        // The format of a value is checked before its code; HandlInst(21) is a char from FIX 4.2
        // on.
        let reason = if version < "FIX42" { ValueOutOfRange } else { IncorrectDataFormat };
        bad(version, &order("").replace("21=1", "21=44"), reason, 21);
    }
}

#[test]
fn case_14g_sections_out_of_order() {
    for version in VERSIONS {
        let late = format!("{}57=SUB|", order(""));
        bad(version, &late, TagOutOfOrder, 57);
        let late = order("").replace("34=2|", "") + "34=2|";
        bad(version, &late, TagOutOfOrder, 34);
        bad(version, &order("93=1|89=x|59=0|"), TagOutOfOrder, 59);
        let switches = Switches { section_order: false, ..PLAIN };
        assert_eq!(check_with(rules(version), &frame(version, &late), switches), Ok(()));
    }
}

#[test]
fn case_14h_a_tag_twice() {
    for version in VERSIONS {
        bad(version, &order("40=1|"), TagAppearsMoreThanOnce, 40);
        bad(version, &heartbeat("112=A|112=B|"), TagAppearsMoreThanOnce, 112);
        let twice = order("").replace("34=2|", "34=2|34=2|");
        bad(version, &twice, TagAppearsMoreThanOnce, 34);
    }
}

#[test]
fn case_14i_and_21_group_counts() {
    for version in FROM_42 {
        let entries = "336=PRE-OPEN|336=AFTER-HOURS|";
        let entries = if version < "FIX50SP1" { entries } else { "336=1|336=3|" };
        let sessions = |count: u32| order("") + &format!("386={count}|{entries}");
        good(version, &sessions(2));
        bad(version, &sessions(3), IncorrectNumInGroup, 386);
        bad(version, &sessions(1), IncorrectNumInGroup, 386);
        bad(version, &sessions(0), IncorrectNumInGroup, 386);
        // The number of entries is checked before the codes, some of which the version does not
        // define.
        bad(version, &order("386=3|336=PRE-OPEN|336=AFTER-HOURS|"), IncorrectNumInGroup, 386);
        good(version, &order("386=0|"));
        good(version, &order("386=0|44=1|"));
        let definition =
            format!("35=d|{HEADER}320=x|322=y|323=6|55=TBS|22=8|167=CS|58=none|454=0|");
        let definition = match version {
            "FIX42" => definition.replace("454=0|", "336=ONE_MAIN|393=0|146=0|"),
            "FIX43" | "FIX44" => definition.replace("454=0|", "336=ONE_MAIN|454=0|"),
            _ => definition,
        };
        good(version, &definition);
        bad(version, &order("386=1|44=1|"), IncorrectNumInGroup, 386);
        bad(version, &order("386=x|"), IncorrectDataFormat, 386);
    }
}

#[test]
fn case_15_any_order_within_header_and_body() {
    for version in VERSIONS {
        let fields = "35=D|56=ISLD|52=20261121-09:28:25|49=TW|34=2|\
            40=1|38=100|60=20261121-09:28:25|54=1|55=IBM|21=1|11=1|";
        good(version, fields);
    }
}

#[test]
fn case_2q_unknown_message_types() {
    for version in VERSIONS {
        for msg_type in ["ZZ", "~", "\u{e9}", "DDD"] {
            let fields = heartbeat("").replace("35=0", &format!("35={msg_type}"));
            check(version, &fields, Err(Reject { reason: InvalidMsgType, tag: None }));
            let switches = Switches { msg_types: false, ..PLAIN };
            assert_eq!(check_with(rules(version), &frame(version, &fields), switches), Ok(()));
        }
    }
}

#[test]
fn nested_groups() {
    let party = |subs: &str| order(&format!("453=2|448=A|447=D|452=1|{subs}448=B|452=3|"));
    for version in ["FIX44", "FIX50SP2"] {
        good(version, &party(""));
        good(version, &party("802=2|523=x|803=1|523=y|803=2|"));
        good(version, &(party("") + "44=1|"));
        bad(version, &party("802=1|523=x|523=y|"), IncorrectNumInGroup, 802);
        bad(version, &party("802=2|523=x|"), IncorrectNumInGroup, 802);
        bad(version, &party("802=1|803=1|523=x|"), GroupFieldsOutOfOrder, 803);
        bad(version, &party("802=1|523=x|803=q|"), IncorrectDataFormat, 803);
        bad(version, &party("447=D|"), GroupFieldsOutOfOrder, 447);
        bad(version, &order("453=1|447=D|448=A|"), GroupFieldsOutOfOrder, 447);
        bad(version, &order("453=1|448=A|452=1|447=D|"), GroupFieldsOutOfOrder, 447);
        bad(version, &order("453=1|448=A|9999=x|"), InvalidTagNumber, 9999);
        bad(version, &order("453=1|448=|"), TagWithoutValue, 448);
        bad(version, &order("448=A|"), TagNotDefinedForMessage, 448);
    }
}

#[test]
fn market_data_groups() {
    let snapshot = |entries: &str| format!("35=W|{HEADER}55=IBM|{entries}");
    // In this message, FIX 5.0 SP2 also requires LastUpdateTime(779), so this version is not
    // tested.
    for version in &FROM_42[..5] {
        good(version, &snapshot("268=2|269=0|270=1.5|271=10|269=1|270=1.6|271=20|"));
        bad(version, &snapshot("268=2|269=0|270=1.5|270=1.6|"), GroupFieldsOutOfOrder, 270);
        bad(version, &snapshot("268=1|270=1.5|269=0|"), GroupFieldsOutOfOrder, 270);
        bad(version, &snapshot("268=1|269=0|270=x|"), IncorrectDataFormat, 270);
        bad(version, &snapshot(""), RequiredTagMissing, 268);
        let refresh = format!("35=X|{HEADER}268=2|279=0|269=0|55=A|270=1|279=1|278=x|");
        match *version {
            "FIX42" => good(version, &refresh.replace("269=0|55=A|", "269=0|278=y|55=A|")),
            _ => good(version, &refresh),
        }
        bad(version, &format!("35=X|{HEADER}268=1|269=0|279=0|"), GroupFieldsOutOfOrder, 269);
        bad(
            version,
            &format!("35=V|{HEADER}262=1|263=0|264=1|267=1|269=0|146=1|65=x|"),
            GroupFieldsOutOfOrder,
            65,
        );
    }
    // The group entry lacks MDEntryPx(270), which the dictionary requires.
    bad("FIX42", &snapshot("268=1|269=0|271=10|"), RequiredTagMissing, 270);
}

#[test]
fn hops_stand_in_the_header() {
    for version in ["FIX44", "FIX50SP2"] {
        let header = "627=2|628=HUB|629=20261121-09:28:25|628=B|630=7|";
        good(version, &format!("35=0|{HEADER}{header}112=x|"));
        bad(version, &format!("35=0|{HEADER}112=x|{header}"), TagOutOfOrder, 627);
    }
}

#[test]
fn tolerant_groups() {
    let switches = Switches { group_order: false, ..PLAIN };
    let check = |fields: &str| check_with(rules("FIX44"), &frame("FIX44", fields), switches);
    assert_eq!(check(&order("453=2|447=D|448=A|447=D|448=B|")), Ok(()));
    assert_eq!(check(&order("453=2|448=A|452=1|447=D|448=B|44=1|")), Ok(()));
    let twice = check(&order("453=1|448=A|447=D|447=D|"));
    assert_eq!(twice, Err(Reject::new(TagAppearsMoreThanOnce, Tag(447))));
    let few = check(&order("453=2|447=D|448=A|"));
    assert_eq!(few, Err(Reject::new(IncorrectNumInGroup, Tag(453))));
}

#[test]
fn each_switch_turns_its_check_off() {
    type Turn = fn(&mut Switches);
    let table: [(&str, String, Turn); 9] = [
        ("FIX44", order("999=x|-1=y|"), |s| s.undefined_tags = false),
        ("FIX44", order("5001=x|"), |s| s.user_defined_tags = false),
        ("FIX44", order("453=1|448=A|5001=x|447=D|"), |s| s.user_defined_tags = false),
        ("FIX44", order("108=30|"), |s| s.tags_of_message = false),
        ("FIX44", order("").replace("11=1|", ""), |s| s.required_tags = false),
        ("FIX44", order("59=~|"), |s| s.codes = false),
        ("FIX44", order("44=x|"), |s| s.formats = false),
        ("FIX44", order("44=1|44=1|"), |s| s.repeated_tags = false),
        ("FIX44", order("453=3|448=A|"), |s| s.group_counts = false),
    ];
    for (version, fields, turn) in table {
        let bytes = frame(version, &fields);
        let mut switches = PLAIN;
        assert!(check_with(rules(version), &bytes, switches).is_err(), "{fields}");
        turn(&mut switches);
        assert_eq!(check_with(rules(version), &bytes, switches), Ok(()), "{fields}");
    }
}

#[test]
fn data_fields_are_read_by_their_length() {
    for version in VERSIONS {
        good(version, &heartbeat("93=5|89=a|1=b|"));
        bad(version, &heartbeat("93=3|89=abcd|"), IncorrectDataFormat, 93);
    }
}

/// The message as the standard publishes it, with `|` as delimiter; its BodyLength(9) and
/// CheckSum(10) are correct.
const S4B: &str = "8=FIX.4.2|9=153|35=D|49=BLP|56=SCHB|34=01|50=30737|97=Y|52=20000809-20:20:50|\
    11=90001008|1=10030003|21=2|55=TESTA|54=1|38=4000|40=2|59=0|44=30|47=I|60=20000809-18:20:32|\
    10=061|";

#[test]
fn the_order_of_the_validation_benchmark() {
    let bytes = S4B.replace('|', "\u{1}").into_bytes();
    assert_eq!(check_with(rules("FIX42"), &bytes, Switches::default()), Ok(()));
    let reject = check_with(rules("FIX44"), &bytes, Switches::default()).unwrap_err();
    assert_eq!(reject.tag, Some(Tag(47)));
    assert!(matches!(reject.reason, InvalidTagNumber | TagNotDefinedForMessage), "{reject}");
}

#[test]
fn rules_are_shared_by_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Rules>();
}

/// Generates fields; many are meaningful, some never are.
fn fields() -> impl Strategy<Value = String> {
    let tag = prop_oneof![
        prop::sample::select(vec![
            "453",
            "448",
            "447",
            "452",
            "802",
            "523",
            "803",
            "268",
            "269",
            "270",
            "279",
            "55",
            "54",
            "627",
            "628",
            "386",
            "336",
            "711",
            "311",
            "95",
            "96",
            "93",
            "89",
            "34",
            "35",
            "49",
            "0",
            "-1",
            "5000",
            "4294967295",
            "65536",
            "999999999",
        ])
        .prop_map(str::to_owned),
        "[0-9]{1,5}",
    ];
    let value = prop_oneof!["[0-9]{0,2}", "[ -~]{0,8}", "20261121-[0-9:.]{0,12}"];
    let field = (tag, value).prop_map(|(tag, value)| format!("{tag}={value}|"));
    prop::collection::vec(field, 0..40).prop_map(|fields| fields.concat())
}

proptest! {
    #[test]
    fn the_first_error_is_the_first_of_all(
        msg_type in "D|W|X|V|8|E|0|A|AE|[0-9A-Z]{1,2}",
        fields in fields(),
        at in 0..VERSIONS.len(),
        switches in switches(),
    ) {
        let version = VERSIONS[at];
        let bytes = frame(version, &format!("35={msg_type}|{fields}"));
        same_first(version, &bytes, switches);
    }

    #[test]
    fn the_first_error_is_the_first_of_all_in_nearly_good_messages(
        of in 0..5_usize,
        at in 0..VERSIONS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, fields()), 0..3),
        switches in switches(),
    ) {
        let version = VERSIONS[at];
        let message = [
            order("44=1.5|453=2|448=A|447=D|452=1|802=1|523=x|803=1|448=B|447=D|452=3|58=t|"),
            order("386=2|336=a|336=b|95=3|96=a|b|"),
            heartbeat("112=x|"),
            format!("35=W|{HEADER}262=1|55=X|268=2|269=0|270=1|271=5|269=1|270=2|271=6|"),
            format!("35=V|{HEADER}262=1|263=1|264=0|267=2|269=0|269=1|146=2|55=A|55=B|"),
        ];
        let mut parts: Vec<String> =
            message[of].split_terminator('|').map(|field| format!("{field}|")).collect();
        for (index, edit, other) in edits {
            let n = index.index(parts.len() - 1) + 1;
            match edit {
                0 => drop(parts.remove(n)),
                1 => parts.insert(n, other.split_inclusive('|').take(1).collect()),
                2 => parts.push(parts[n].clone()),
                _ => parts[n] = parts[n].split('=').next().unwrap().to_owned() + "=|",
            }
            if parts.len() < 2 {
                break;
            }
        }
        same_first(version, &frame(version, &parts.concat()), switches);
    }
}

proptest! {
    /// For a sequence of messages of a few types, with tags of other types added, a used
    /// [`Scratch`] gives the same results as a new one.
    #[test]
    fn what_was_learned_from_other_messages_changes_nothing(
        edits in prop::collection::vec((0..5_usize, any::<prop::sample::Index>(), 0..6_u8,
            fields(), 0..VERSIONS.len()), 1..12),
        switches in prop_oneof![
            Just(Switches { conditions: false, ..Switches::ALL }),
            Just(Switches::STANDARD),
            switches(),
        ],
    ) {
        let messages = [
            order("44=1.5|59=1|"),
            order("44=1.5|453=1|448=A|447=D|452=1|"),
            heartbeat("112=x|"),
            heartbeat(""),
            order("354=3|355=a|b|"),
        ];
        let mut scratch = Scratch::default();
        // In longer sequences, the scratch first learns the shape of each message.
        let versions = VERSIONS.iter().filter(|_| edits.len() > 4);
        for (version, message) in versions.flat_map(|v| messages.iter().map(move |m| (v, m))) {
            (0..9).for_each(|_| same_as_new(version, message, switches, &mut scratch));
        }
        for (of, index, edit, other, at) in edits {
            let mut parts: Vec<String> =
                messages[of].split_terminator('|').map(|field| format!("{field}|")).collect();
            let n = index.index(parts.len() - 1) + 1;
            let other: String = other.split_inclusive('|').take(1).collect();
            match edit {
                0 => drop(parts.remove(n)),
                1 => parts.insert(n, other),
                2 => parts.push(parts[n].clone()),
                3 => parts.swap(n, 1),
                4 => parts[n] = parts[n].split('=').next().unwrap().to_owned() + "=|",
                _ => {
                    let value = other.split('=').nth(1).unwrap_or("x|").to_owned();
                    parts[n] = parts[n].split('=').next().unwrap().to_owned() + "=" + &value;
                }
            }
            for _ in 0..4 {
                same_as_new(VERSIONS[at], &parts.concat(), switches, &mut scratch);
            }
            same_as_new(VERSIONS[at], &messages[of], switches, &mut scratch);
        }
    }
}

/// Checks that the scratch `used` gives the same result as a new scratch.
fn same_as_new(version: &str, fields: &str, switches: Switches, used: &mut Scratch) {
    let bytes = frame(version, fields);
    let mut index = FieldIndex::default();
    let Ok(message) = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify) else { return };
    let rules = rules(version);
    let expected = rules.check(&message, &switches, &mut Scratch::default());
    assert_eq!(rules.check(&message, &switches, used), expected, "{version} {message}");
}

/// If an entry lacks a conditionally required field, that error is reported before a repeated tag
/// that follows the entry.
#[test]
fn a_condition_of_an_entry_is_blamed_before_what_follows_it() {
    let fields = order("453=1|448=A|11=1|");
    let bytes = frame("FIX44", &fields);
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    let mut scratch = Scratch::default();
    let first = rules("FIX44").check(&message, &Switches::ALL, &mut scratch).err();
    assert_eq!(first, Some(Reject::new(RequiredTagMissing, Tag(447))));
    same_first("FIX44", &bytes, Switches::ALL);
}

fn switches() -> impl Strategy<Value = Switches> {
    prop_oneof![3 => Just(0), 1 => any::<u16>()].prop_map(|bits| {
        let on = |n: u16| bits & (1 << n) == 0;
        Switches {
            undefined_tags: on(0),
            tags_of_message: on(1),
            required_tags: on(2),
            empty_values: on(3),
            codes: on(4),
            formats: on(5),
            repeated_tags: on(6),
            section_order: on(7),
            group_order: on(8),
            group_counts: on(9),
            required_in_groups: on(10),
            empty_groups: on(11),
            user_defined_tags: on(12),
            msg_types: on(13),
            conditional_tags: on(14),
            conditions: on(15),
        }
    })
}

/// `check` returns the first error of `check_all`, and no input makes either function panic.
fn same_first(version: &str, bytes: &[u8], switches: Switches) {
    let mut index = FieldIndex::default();
    let Ok(message) = Message::parse(bytes, &mut index, CheckSumPolicy::Verify) else { return };
    let mut scratch = Scratch::default();
    let mut all = Vec::new();
    let rules = rules(version);
    rules.check_all(&message, &switches, &mut scratch, |finding| all.push(finding));
    let first = rules.check(&message, &switches, &mut scratch).err();
    assert_eq!(first, all.first().map(|finding| finding.reject), "{version} {message} {all:?}");
    // A scratch that was used with other rules gives the same result.
    let _ = self::rules("FIX40").check(&message, &switches, &mut scratch);
    assert_eq!(first, rules.check(&message, &switches, &mut scratch).err());
    for finding in all {
        let blamed = finding.at.map(|at| message.at(at).expect("a field that there is").tag);
        let tag = finding.reject.tag;
        let missing = finding.reject.reason == RequiredTagMissing;
        assert!(missing || tag.is_none() || blamed == tag || blamed == Some(Tag(0)), "{finding:?}");
    }
}

/// FIX data types do not limit the number of digits: a long number is valid and keeps its text.
/// Only a getter whose type is too small for the number fails.
#[test]
fn numbers_have_as_many_digits_as_they_like() {
    const LONG: &str = "0.12345678901234567890123";
    const MANY: &str = "98765432109876543210";
    for version in FROM_42 {
        let sized = order(&format!("44={LONG}|110={MANY}.5|59=1|"));
        let fields = sized.replace("38=100", &format!("38={MANY}{MANY}"));
        good(version, &fields);
        let bytes = frame(version, &fields);
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        assert_eq!(message.raw(Tag(44)), Some(LONG.as_bytes()));
        let refused = Reject::new(IncorrectDataFormat, Tag(44));
        assert_eq!(message.decimal(Tag(44)), Err(refused));
        bad(version, &fields.replace(LONG, &format!("{LONG}x")), IncorrectDataFormat, 44);
        good(version, &format!("35=3|{HEADER}45={MANY}|"));
        // Up to FIX 4.2, RefSeqNum(45) is an int and may be negative.
        if version != "FIX42" {
            bad(version, &format!("35=3|{HEADER}45=-{MANY}|"), IncorrectDataFormat, 45);
        }
        good(version, &order("").replace("28:25|38", "28:25.123456789012|38"));
        let longer = order("").replace("28:25|38", "28:25.1234567890123|38");
        bad(version, &longer, IncorrectDataFormat, 60);
        // The value of NumInGroup exceeds the number of entries of any message.
        let list = format!("35=V|{HEADER}262=1|263=0|264=0|267={MANY}|269=0|146=1|55=IBM|");
        bad(version, &list, IncorrectNumInGroup, 267);
    }
}
