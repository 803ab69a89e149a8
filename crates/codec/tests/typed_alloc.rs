//! Typed messages allocate nothing once the caller's buffers have grown.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix_codec::encode::FrameWriter;
use transfix_codec::fix44::codes::{ExecInst, OrdType, PartyRole, Side};
use transfix_codec::fix44::components::parties::no_party_ids;
use transfix_codec::fix44::{NewOrderSingle, new_order_single};
use transfix_codec::{CheckSumPolicy, Decimal, FieldIndex, Message, Precision, Timestamp};
use transfix_testkit::alloc::thread_allocations;

/// Writes an order with more than nine parties, whose fields are set in the wrong order.
fn write(out: &mut Vec<u8>) {
    let mut frame = FrameWriter::new(out, b"FIX.4.4", NewOrderSingle::MSG_TYPE);
    let mut order = new_order_single::Required {
        cl_ord_id: "17",
        symbol: "S",
        side: Side::Buy,
        transact_time: Timestamp(0),
        ord_type: OrdType::Market,
    }
    .write(frame.body(Precision::Millis));
    order.price(Decimal::new(5, 1)).exec_inst(&[ExecInst::Held, ExecInst::Work]);
    order.parties().no_party_ids(|parties| {
        for _ in 0..12 {
            let mut party = parties.entry(no_party_ids::Required { party_id: "P" });
            party.party_role(PartyRole::ClientId);
            party.party_id_source(transfix_codec::fix44::codes::PartyIdSource::Bic);
        }
    });
    frame.finish().unwrap();
}

#[test]
fn typed_messages_do_not_allocate() {
    let (mut out, mut index) = (Vec::new(), FieldIndex::default());
    let mut round = || {
        out.clear();
        write(&mut out);
        let message = Message::parse(&out, &mut index, CheckSumPolicy::Verify).unwrap();
        let order = NewOrderSingle::try_from(&message).unwrap();
        assert_eq!(order.exec_inst().unwrap().unwrap().count(), 2);
        let roles = order.parties().no_party_ids().map(|party| party.party_role().unwrap());
        assert_eq!(roles.filter(|role| *role == Some(PartyRole::ClientId)).count(), 12);
    };
    round();
    let before = thread_allocations();
    (0..100).for_each(|_| round());
    assert_eq!(thread_allocations() - before, 0);
}
