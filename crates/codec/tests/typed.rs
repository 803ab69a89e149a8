//! Typed messages and generic messages are equivalent: they encode to the same bytes, and their
//! getters return the same values.

use transfix_codec::encode::FrameWriter;
use transfix_codec::fix44::codes::{
    ExecInst, OrdType, PartyIdSource, PartyRole, SecurityIdSource, Side, TimeInForce,
};
use transfix_codec::fix44::components::parties::no_party_ids;
use transfix_codec::fix44::components::{lines_of_text_grp, list_ord_grp};
use transfix_codec::fix44::{self, NewOrderList, NewOrderSingle};
use transfix_codec::fix44::{new_order_list, new_order_single, news};
use transfix_codec::typed::Writer;
use transfix_codec::{
    Body, CheckSumPolicy, Decimal, FieldIndex, Message, Misuse, Precision, Reject, RejectReason,
    Tag, Timestamp,
};

/// Encodes a message whose body the closure `fill` writes.
fn encode(msg_type: impl AsRef<[u8]>, fill: impl FnOnce(&mut Body<'_>)) -> Result<Vec<u8>, Misuse> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type);
    fill(frame.body(Precision::Millis));
    frame.finish()?;
    Ok(out)
}

fn shown(frame: &[u8]) -> String {
    String::from_utf8_lossy(frame).replace('\x01', "|")
}

/// Returns the fields of a message between MsgType(35) and CheckSum(10).
fn body_of(frame: &[u8]) -> String {
    let text = shown(frame);
    let begin = text.match_indices('|').nth(2).map_or(0, |(bar, _)| bar + 1);
    text[begin..text.len() - "10=000|".len()].to_owned()
}

fn parse<'a>(frame: &'a [u8], index: &'a mut FieldIndex) -> Message<'a> {
    Message::parse(frame, index, CheckSumPolicy::Verify).expect("the frame is sound")
}

const TIME: Timestamp = Timestamp(1_700_000_000_123_000_000);

fn order<'a>() -> new_order_single::Required<'a> {
    new_order_single::Required {
        cl_ord_id: "17",
        symbol: "EUR/USD",
        side: Side::Buy,
        transact_time: TIME,
        ord_type: OrdType::Limit,
    }
}

#[test]
fn typed_and_generic_messages_are_equal_bytes() {
    let typed = encode(NewOrderSingle::MSG_TYPE, |body| {
        let mut order = order().write(body);
        order.order_qty_data().order_qty(Decimal::new(10_000, 2));
        order.price(Decimal::new(298_075, 3)).time_in_force(TimeInForce::Day);
        order.exec_inst(&[ExecInst::Held, ExecInst::Work]);
        order.parties().no_party_ids(|parties| {
            let mut broker = parties.entry(no_party_ids::Required { party_id: "B" });
            broker.party_id_source(PartyIdSource::Proprietary).party_role(PartyRole::ExecutingFirm);
            parties.entry(no_party_ids::Required { party_id: "C" });
        });
        order.encoded_text(b"a\x01b").body().str(Tag(5001), "own");
    });
    let generic = encode("D", |body| {
        body.str(Tag(11), "17").str(Tag(55), "EUR/USD").char(Tag(54), b'1');
        body.timestamp(Tag(60), TIME).char(Tag(40), b'2').decimal(Tag(38), Decimal::new(10_000, 2));
        body.decimal(Tag(44), Decimal::new(298_075, 3)).char(Tag(59), b'0').str(Tag(18), "5 2");
        body.uint(Tag(453), 2).str(Tag(448), "B").char(Tag(447), b'D').uint(Tag(452), 1);
        body.str(Tag(448), "C").data(Tag(354), Tag(355), b"a\x01b").str(Tag(5001), "own");
    });
    assert_eq!(shown(&typed.unwrap()), shown(&generic.unwrap()));
}

#[test]
fn what_is_written_is_read() {
    let frame = encode(NewOrderSingle::MSG_TYPE, |body| {
        let mut order = order().write(body);
        order.price(Decimal::new(5, 1)).exec_inst(&[ExecInst::Work, ExecInst::Unlisted("ZZ")]);
        order.instrument().security_id("X").security_id_source(SecurityIdSource::Unlisted("ZZ"));
        order.parties().no_party_ids(|parties| {
            for id in ["A", "B"] {
                parties.entry(no_party_ids::Required { party_id: id });
            }
        });
        order.text("after the group");
    });
    let (frame, mut index) = (frame.unwrap(), FieldIndex::default());
    let order = NewOrderSingle::try_from(&parse(&frame, &mut index)).unwrap();
    assert_eq!(order.cl_ord_id(), Ok("17"));
    assert_eq!(order.side(), Ok(Side::Buy));
    assert_eq!(order.transact_time(), Ok(TIME));
    assert_eq!(order.price(), Ok(Some(Decimal::new(5, 1))));
    assert_eq!(order.stop_px(), Ok(None));
    assert_eq!(order.instrument().symbol(), Ok("EUR/USD"));
    let source = order.instrument().security_id_source().unwrap();
    assert_eq!(source, Some(SecurityIdSource::Unlisted("ZZ")));
    let codes: Vec<_> = order.exec_inst().unwrap().unwrap().collect();
    assert_eq!(codes, [ExecInst::Work, ExecInst::Unlisted("ZZ")]);
    assert!(order.exec_inst().unwrap().unwrap().contains(ExecInst::Work));
    let parties = order.parties().no_party_ids();
    assert_eq!(parties.announced(), 2);
    let ids: Vec<_> =
        parties.map(|party| (party.party_id().unwrap(), party.fields().len())).collect();
    assert_eq!(ids, [(Some("A"), 1), (Some("B"), 1)]);
    assert_eq!(order.header().msg_type(), Ok(fix44::codes::MsgType::NewOrderSingle));
}

/// FIX, repeating groups: the fields of an entry are in the published order, whatever the order of
/// the calls.
#[test]
fn entries_are_in_the_published_order_whatever_the_calls() {
    let frame = encode(NewOrderList::MSG_TYPE, |body| {
        new_order_list::Required {
            list_id: "L",
            bid_type: fix44::codes::BidType::NonDisclosed,
            tot_no_orders: 1,
        }
        .write(body, |orders| {
            let mut order = orders.entry(list_ord_grp::no_orders::Required {
                cl_ord_id: "1",
                list_seq_no: 1,
                symbol: "S",
                side: Side::Sell,
            });
            order.text("last");
            order.account("A").secondary_cl_ord_id("2");
            order.parties().no_party_ids(|parties| {
                let mut party = parties.entry(no_party_ids::Required { party_id: "P" });
                party.party_role(PartyRole::ClientId);
                party.party_id_source(PartyIdSource::Bic);
            });
            order.encoded_text(b"58=\x0158=\x01");
        });
    });
    let expected = "66=L|394=1|68=1|73=1|11=1|526=2|67=1|453=1|448=P|447=B|452=3|1=A|55=S|54=2|\
                    58=last|354=8|355=58=|58=||";
    assert_eq!(body_of(&frame.unwrap()), expected);
}

/// The encoded bytes do not show where a venue's custom data field ends, so the writer moves no
/// later field.
#[test]
fn fields_are_not_moved_into_a_data_field_of_a_venue() {
    const PARTY: &[u32] = &[448, 447, 802, 523, 9001, 9002, 452];
    const SUB: &[u32] = &[523, 9001, 9002];
    let data = b"452=\x01452=\x01";
    let bytes = encode("D", |body| {
        Writer::new(body).group(Tag(453), PARTY, |mut parties| {
            let mut party = parties.entry();
            party.put(Tag(448), "A");
            party.data(Tag(9001), Tag(9002), data);
            party.put(Tag(447), "late");
            let mut party = parties.entry();
            party.put(Tag(448), "B");
            party.put(Tag(452), 1_i64);
            party.put(Tag(447), "moved");
            party.group(Tag(802), SUB, |mut subs| subs.entry().data(Tag(9001), Tag(9002), data));
            party.put(Tag(447), "late");
        });
    });
    let expected = "453=2|448=A|9001=10|9002=452=|452=||447=late|\
                    448=B|447=moved|802=1|9001=10|9002=452=|452=||452=1|447=late|";
    assert_eq!(body_of(&bytes.unwrap()), expected);
}

#[test]
fn counts_of_any_size() {
    for count in [0_usize, 1, 9, 10, 123] {
        let frame = encode("B", |body| {
            news::Required { headline: "H" }.write(body, |lines| {
                for _ in 0..count {
                    lines.entry(lines_of_text_grp::no_lines_of_text::Required { text: "t" });
                }
            });
        });
        let (frame, mut index) = (frame.unwrap(), FieldIndex::default());
        let news = fix44::News::try_from(&parse(&frame, &mut index)).unwrap();
        let lines = news.lines_of_text_grp().no_lines_of_text();
        assert_eq!(lines.announced(), count);
        assert!(lines.clone().all(|line| line.text() == Ok("t")));
        assert_eq!(lines.count(), count);
    }
}

#[test]
fn the_last_entry_ends_at_the_first_foreign_field() {
    let bytes = encode("D", |body| {
        body.uint(Tag(453), 3).str(Tag(448), "A").str(Tag(5001), "own").str(Tag(448), "B");
        body.str(Tag(447), "D").str(Tag(55), "S").str(Tag(452), "1");
    });
    let (bytes, mut index) = (bytes.unwrap(), FieldIndex::default());
    let order = NewOrderSingle::try_from(&parse(&bytes, &mut index)).unwrap();
    let entries: Vec<_> = order.parties().no_party_ids().collect();
    assert_eq!(entries.len(), 2, "the count is too large");
    assert_eq!(entries[0].fields().raw(Tag(5001)), Some(&b"own"[..]));
    assert_eq!(shown(entries[1].fields().bytes()), "448=B|447=D|");
    assert_eq!(entries[1].party_role(), Ok(None));
}

#[test]
fn a_bad_value_is_a_reject() {
    let bytes = encode("D", |body| {
        body.str(Tag(54), "12").str(Tag(44), "x").str(Tag(18), "1  2");
    });
    let (bytes, mut index) = (bytes.unwrap(), FieldIndex::default());
    let message = parse(&bytes, &mut index);
    let order = NewOrderSingle::try_from(&message).unwrap();
    let reject = |reason, tag| Reject::new(reason, Tag(tag));
    let malformed = RejectReason::IncorrectDataFormat;
    assert_eq!(order.cl_ord_id(), Err(reject(RejectReason::RequiredTagMissing, 11)));
    assert_eq!(order.side(), Err(reject(malformed, 54)));
    assert_eq!(order.price(), Err(reject(malformed, 44)));
    assert_eq!(order.exec_inst().map(|_| ()), Err(reject(malformed, 18)));
    let wrong = fix44::News::try_from(&message).map(|_| ());
    assert_eq!(wrong, Err(reject(RejectReason::InvalidMsgType, 35)));
}

#[test]
fn a_mistake_of_the_caller_is_a_misuse() {
    let text = encode("D", |body| _ = order().write(body).text("a\x01b"));
    assert_eq!(text, Err(Misuse::DelimiterInValue(Tag(58))));
    let codes = encode("D", |body| _ = order().write(body).exec_inst(&[]));
    assert_eq!(codes, Err(Misuse::EmptyValue(Tag(18))));
    let codes = encode(NewOrderSingle::MSG_TYPE, |body| {
        _ = order().write(body).exec_inst(&[ExecInst::Unlisted("A B"), ExecInst::Work]);
    });
    assert_eq!(codes, Err(Misuse::DelimiterInValue(Tag(18))));
    let code = Side::Unlisted(1);
    let side = encode("D", |body| {
        new_order_single::Required { side: code, ..order() }.write(body);
    });
    assert_eq!(side, Err(Misuse::DelimiterInValue(Tag(54))));
}

#[test]
fn a_router_hands_on_by_type() {
    struct Seen;
    impl fix44::Router<Vec<String>> for Seen {
        type Answer = bool;

        fn unsupported(&mut self, message: &Message<'_>, seen: &mut Vec<String>) -> bool {
            seen.push(format!("no {}", message.msg_type()));
            false
        }

        fn on_new_order_single(
            &mut self,
            order: NewOrderSingle<'_>,
            seen: &mut Vec<String>,
        ) -> bool {
            seen.push(order.cl_ord_id().unwrap().to_owned());
            true
        }
    }
    let mut seen = Vec::new();
    for (msg_type, answer) in [("D", true), ("B", false), ("ZZ", false)] {
        let frame = encode(msg_type, |body| _ = body.str(Tag(11), "17")).unwrap();
        let mut index = FieldIndex::default();
        let message = parse(&frame, &mut index);
        assert_eq!(fix44::route(&message, &mut Seen, &mut seen), answer);
    }
    assert_eq!(seen, ["17", "no B", "no ZZ"]);
}
