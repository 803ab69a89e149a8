//! The conditional requirements of the standard's descriptions: each rule of each dictionary is
//! tested with a valid and an invalid message.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use transfix_codec::{
    CheckSumPolicy, FieldIndex, FrameWriter, Message, Reject, RejectReason, Rules, Scratch,
    Switches, Tag,
};
use transfix_dictionary::{DataType, Dictionary, standard};
use transfix_testkit::random::Random;
use transfix_testkit::sample::{Extent, Sample};

const VERSIONS: [&str; 3] = ["FIX42", "FIX44", "FIX50SP2"];

/// Each condition of a whole message, with fields that fulfil it.
const TRIGGERS: &[(&str, &str)] = &[
    ("OrdType in {2, 4, 7, 8, \"B\", \"F\"}", "40=2|"),
    ("OrdType in {2, 4, 7, 8}", "40=2|"),
    ("OrdType in {3, 4}", "40=3|"),
    ("OrdType == \"E\"", "40=E|"),
    ("OrdType == \"D\"", "40=D|"),
    ("OrdType == \"P\"", "40=P|"),
    ("OrdType == \"Q\"", "40=Q|"),
    ("TimeInForce == 6 and not exists ExpireTime", "59=6|"),
    ("TimeInForce == \"A\"", "59=A|"),
    ("ForexReq == \"Y\"", "121=Y|"),
    ("Side in {5, 6}", "54=5|"),
    ("exists DiscretionOffset", "389=1|"),
    ("SettlmntTyp in {6, 8}", "63=6|"),
    ("exists SettlmntTyp and SettlmntTyp != 0", "63=1|"),
    ("not exists CashOrderQty", ""),
    ("not exists CashOrderQty and not exists OrderPercent", ""),
    ("not exists ClOrdID", ""),
    ("exists RefOrderID", "1080=x|"),
    ("TradePriceNegotiationMethod in {4, 5, 6}", "1740=4|"),
    ("ExecTransType in {1, 2}", "20=1|"),
    ("ExecType in {\"G\", \"H\"}", "150=H|"),
    ("ExecType == \"D\"", "150=D|"),
    ("ExecType in {\"F\", \"G\"}", "150=F|"),
    ("ExecType in {\"F\", \"G\"} and not exists NoFills and not exists NoOrderEvents", "150=F|"),
    (
        "ExecType in {\"F\", \"G\"} and not exists NoFills and not exists NoOrderEvents \
         and not exists NoTradePriceConditions",
        "150=F|",
    ),
    ("exists RefRiskLimitCheckID", "2334=x|"),
    ("exists SecondaryTrdType", "855=1|"),
    ("exists ExecRefID", "19=x|"),
    ("IOITransType in {\"C\", \"R\"}", "28=C|"),
    ("AdvTransType in {\"C\", \"R\"}", "5=R|"),
    ("QuoteRespType in {1, 2}", "694=1|"),
    ("SubscriptionRequestType == 1", "263=1|"),
    ("MassCancelResponse == 0", "531=0|"),
    ("MassActionResponse == 0", "1375=0|"),
    ("AllocTransType in {1, 2, 4}", "71=4|"),
    ("AllocTransType in {1, 2}", "71=2|"),
    ("AllocType == 8", "626=8|"),
    ("AllocReportType == 8", "794=8|"),
    ("exists AllocLinkID", "196=x|"),
    ("AllocNoOrdersType == 1", "857=1|"),
    ("AllocStatus == 1", "87=1|"),
    ("AffirmStatus == 2", "940=2|"),
    ("SettlInstMode in {2, 3}", "160=2|"),
    ("SettlInstMode == 4", "160=4|"),
    ("SettlInstMode == 5", "160=5|"),
    ("exists AllocAccount", "79=x|"),
    ("exists StandInstDbType", "169=1|"),
    ("CollAsgnRespType == 3", "905=3|"),
    ("NetworkStatusResponseType == 2", "937=2|"),
    ("exists MaturityDay", "205=4|"),
    ("SecurityType == \"FUT\"", "167=FUT|"),
    ("SecurityType == \"OPT\"", "167=OPT|"),
    ("exists SecurityID", "48=x|"),
    ("exists SecuritySubType", "762=x|"),
    ("exists BenchmarkPrice", "662=1|"),
    ("exists PegSecurityID", "1097=x|"),
];

/// Rules of group entries: dictionaries, MsgType(35), the required field, and an entry that fulfils
/// the condition. Other required fields stand at the end of the entry.
const ENTRIES: &[(&str, &str, u32, &str)] = &[
    ("FIX42 FIX50SP2", "E", 23, "11=1|67=1|54=1|40=E|"),
    ("FIX42 FIX50SP2", "E", 117, "11=1|67=1|54=1|40=D|"),
    ("FIX42 FIX50SP2", "E", 432, "11=1|67=1|54=1|59=6|"),
    ("FIX42", "E", 388, "11=1|67=1|54=1|389=1|"),
    ("FIX42", "E", 38, "11=1|67=1|54=1|"),
    ("FIX42", "E", 18, "11=1|67=1|54=1|40=P|"),
    ("FIX50SP2", "E", 114, "11=1|67=1|54=6|"),
    ("FIX50SP2", "E", 1080, "11=1|67=1|54=1|40=Q|"),
    ("FIX50SP2", "E", 1081, "11=1|67=1|54=1|1080=x|"),
    ("FIX50SP2", "E", 1629, "11=1|67=1|54=1|59=A|"),
    ("FIX42 FIX50SP2", "X", 269, "279=0|"),
    ("FIX42", "X", 270, "279=0|"),
    ("FIX42 FIX50SP2", "X", 271, "279=0|269=1|"),
    ("FIX42", "W", 271, "269=2|270=1|"),
    ("FIX42", "J", 120, "79=x|80=1|119=1|"),
    ("FIX44 FIX50SP2", "D", 447, "448=x|"),
    ("FIX44 FIX50SP2", "D", 452, "448=x|"),
    ("FIX44 FIX50SP2", "G", 447, "448=x|"),
    ("FIX44 FIX50SP2", "G", 452, "448=x|"),
    ("FIX44 FIX50SP2", "8", 447, "448=x|"),
    ("FIX44 FIX50SP2", "8", 452, "448=x|"),
];

/// The order of group members is covered by other tests, so its check is off here.
const WITH: Switches = Switches { conditions: true, group_order: false, ..Switches::STANDARD };
const WITHOUT: Switches = Switches { conditions: false, ..WITH };

/// The number of header fields after MsgType(35) in a sample message.
const HEADER_LEN: usize = 4;

/// A FIX version: its dictionaries and its validation rules.
struct Version {
    session: Dictionary,
    application: Dictionary,
    rules: Rules,
}

impl Version {
    fn new(name: &str) -> Self {
        let application = standard(name).unwrap();
        let is_latest = application.header().is_empty();
        let session = if is_latest { standard("FIXT11").unwrap() } else { application.clone() };
        let rules = Rules::new(&session, &application);
        Self { session, application, rules }
    }

    fn check(&self, msg_type: &str, fields: &[(u32, String)], switches: Switches) -> Answer {
        let mut bytes = Vec::new();
        let begin_string = self.session.name().as_bytes();
        let mut frame = FrameWriter::new(&mut bytes, begin_string, msg_type.as_bytes());
        for (tag, value) in fields {
            frame.raw(format!("{tag}={value}\x01").as_bytes());
        }
        frame.finish().unwrap();
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        self.rules.check(&message, &switches, &mut Scratch::default())
    }

    /// Returns the fields after MsgType(35) of the smallest valid message of a type.
    fn smallest(&self, msg_type: &str) -> Vec<(u32, String)> {
        let mut sample = Sample::new(&self.session, &self.application, Random::new(1));
        let message = self.application.message(msg_type).unwrap();
        let bytes = sample.message(message, Extent::Required);
        let text = String::from_utf8(bytes).unwrap();
        let fields = text.split_terminator('\x01').map(|field| field.split_once('=').unwrap());
        let fields = fields.map(|(tag, value)| (tag.parse().unwrap(), value.to_owned()));
        fields.filter(|(tag, _)| ![8, 9, 35, 10].contains(tag)).collect()
    }

    /// Returns the field with a valid value; a NumInGroup field is followed by its entries.
    fn value(&self, tag: u32) -> Vec<(u32, String)> {
        let field = self.application.field(tag).unwrap();
        let value = match (field.codes.first(), field.data_type) {
            (Some(code), _) => &code.value,
            (None, DataType::String | DataType::Char | DataType::Exchange) => "x",
            (None, DataType::UtcTimestamp) => "20261121-09:28:25",
            (None, DataType::LocalMktDate | DataType::UtcDateOnly) => "20261121",
            (None, DataType::MonthYear) => "202611",
            (None, DataType::Currency) => "EUR",
            (None, DataType::Boolean) => "Y",
            (None, _) => "1",
        };
        let mut fields = vec![(tag, value.to_owned())];
        // An entry of the group NoOrders(73) needs ClOrdID(11).
        fields.extend((tag == 73).then(|| (11, "x".to_owned())));
        fields
    }

    /// Adds the fields that other rules than the rule of `tag` require. Returns the result of the
    /// last check.
    fn completed(&self, msg_type: &str, fields: &mut Vec<(u32, String)>, tag: u32) -> Answer {
        loop {
            match self.check(msg_type, fields, WITH) {
                Err(Reject {
                    reason: RejectReason::RequiredTagMissing,
                    tag: Some(Tag(missing)),
                }) if missing != tag => {
                    // A missing field is inserted after the header, or at the end if a group entry
                    // requires the field.
                    let message = self.application.message(msg_type).unwrap();
                    let mut rules = message.conditions.iter().filter(|rule| rule.tag == missing);
                    let of_entry = rules.all(|rule| rule.group.is_some());
                    let at = if of_entry { fields.len() } else { HEADER_LEN };
                    fields.splice(at..at, self.value(missing));
                }
                answer => return answer,
            }
        }
    }
}

type Answer = Result<(), Reject>;

fn missing(tag: u32) -> Answer {
    Err(Reject::new(RejectReason::RequiredTagMissing, Tag(tag)))
}

/// Parses fields that are written with `|` as delimiter.
fn fields(text: &str) -> impl Iterator<Item = (u32, String)> {
    let fields = text.split_terminator('|').map(|field| field.split_once('=').unwrap());
    fields.map(|(tag, value)| (tag.parse().unwrap(), value.to_owned()))
}

#[test]
fn each_rule_of_a_message_is_kept_and_broken() {
    let mut tried = 0;
    let mut used = BTreeSet::new();
    for name in VERSIONS {
        let version = Version::new(name);
        for message in version.application.messages() {
            for rule in message.conditions.iter().filter(|rule| rule.group.is_none()) {
                let case = format!("{name} {}: {} if {}", message.name, rule.tag, rule.when);
                let found = TRIGGERS.iter().find(|(when, _)| *when == rule.when);
                let (when, trigger) = found.unwrap_or_else(|| panic!("{case}: no case"));
                used.insert(when);
                let msg_type = &*message.msg_type;
                let mut broken = version.smallest(msg_type);
                // Without the trigger fields, the message must be valid. This is checked only if
                // the sample, whose codes are random, does not contain them.
                let has = |tag| broken.iter().any(|(known, _)| *known == tag);
                if !trigger.is_empty() && fields(trigger).all(|(tag, _)| !has(tag)) {
                    let mut sound = broken.clone();
                    assert_eq!(version.completed(msg_type, &mut sound, rule.tag), Ok(()), "{case}");
                }
                for (tag, value) in fields(trigger) {
                    broken.retain(|(known, _)| *known != tag);
                    broken.push((tag, value));
                }
                let answer = version.completed(msg_type, &mut broken, rule.tag);
                assert_eq!(answer, missing(rule.tag), "{case}: {broken:?}");
                assert_eq!(version.check(msg_type, &broken, WITHOUT), Ok(()), "{case}");
                broken.extend(version.value(rule.tag));
                let answer = version.completed(msg_type, &mut broken, rule.tag);
                assert_eq!(answer, Ok(()), "{case}: {broken:?}");
                tried += 1;
            }
        }
    }
    assert_eq!(used.len(), TRIGGERS.len(), "a case belongs to no rule");
    assert!(tried >= 300, "{tried}");
}

#[test]
fn each_rule_of_an_entry_is_kept_and_broken() {
    let mut rows = BTreeSet::new();
    for name in VERSIONS {
        let version = Version::new(name);
        for message in version.application.messages() {
            for rule in &message.conditions {
                let Some(group) = rule.group else { continue };
                let msg_type = &*message.msg_type;
                let case = format!("{name} {}: {} if {}", message.name, rule.tag, rule.when);
                let is_meant = |row: &&(&str, &str, u32, &str)| {
                    row.0.contains(name) && row.1 == msg_type && row.2 == rule.tag
                };
                let row =
                    ENTRIES.iter().find(is_meant).unwrap_or_else(|| panic!("{case}: no case"));
                rows.insert(row);
                let mut broken = version.smallest(msg_type);
                // The group moves to the end of the message, so that fields can be appended to its
                // entry.
                let begin = broken.iter().position(|(tag, _)| *tag == group);
                broken.truncate(begin.unwrap_or(broken.len()));
                broken.push((group, "1".to_owned()));
                broken.extend(fields(row.3));
                let answer = version.completed(msg_type, &mut broken, rule.tag);
                assert_eq!(answer, missing(rule.tag), "{case}: {broken:?}");
                assert_eq!(version.check(msg_type, &broken, WITHOUT), Ok(()), "{case}");
                let unchecked = Switches { required_in_groups: false, ..WITH };
                assert_eq!(version.check(msg_type, &broken, unchecked), Ok(()), "{case}");
                broken.extend(version.value(rule.tag));
                // Fields that other rules require are added, because this test concerns only
                // `rule`.
                let answer = version.completed(msg_type, &mut broken, rule.tag);
                assert_eq!(answer, Ok(()), "{case}: {broken:?}");
            }
        }
    }
    assert_eq!(rows.len(), ENTRIES.len(), "a case belongs to no rule");
}

#[test]
fn a_rule_about_a_field_that_an_overlay_removes_says_nothing() {
    let fix44 = || transfix_dictionary::Draft::standard("FIX44").unwrap();
    let order =
        "34=2|49=A|56=B|52=20261121-09:28:25|11=1|55=X|54=1|60=20261121-09:28:25|38=1|40=2|";
    let order: Vec<_> = fields(order).collect();
    for (overlay, expected) in [
        ("", missing(44)),
        ("<fields><field name='Price' action='remove'/></fields>", Ok(())),
        (
            "<messages><message name='NewOrderSingle'><field name='Price' action='remove'/>\
             </message></messages>",
            Ok(()),
        ),
        // Removing ExpireTime(126) also removes the conditions that refer to this field.
        ("<fields><field name='ExpireTime' action='remove'/></fields>", missing(44)),
    ] {
        let overlay = format!("<fix>{overlay}</fix>");
        let application = fix44().overlay(&overlay, "o.xml").unwrap().resolve().unwrap();
        let rules = Rules::new(&application, &application);
        let version = Version { session: application.clone(), application, rules };
        assert_eq!(version.check("D", &order, WITH), expected, "{overlay}");
    }
}
