//! Typed messages of FIX 4.2, whose dictionary defines nested groups inside the messages, not in
//! components.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use transfix_codec::encode::FrameWriter;
use transfix_codec::fix42::NewOrderList;
use transfix_codec::fix42::codes::{OpenClose, Side};
use transfix_codec::fix42::new_order_list::no_orders::{no_allocs, no_trading_sessions};
use transfix_codec::fix42::new_order_list::{Required, no_orders};
use transfix_codec::{
    CheckSumPolicy, Decimal, FieldIndex, Message, Precision, Rules, Scratch, Switches,
};

/// Returns a list of orders; each order has the given number of allocations and one trading
/// session.
fn list(allocations: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.2", NewOrderList::MSG_TYPE);
    // These are the header fields that a session would write.
    frame.raw(b"49=A\x0156=B\x0134=1\x0152=20260101-00:00:00\x01");
    let required = Required { list_id: "L", bid_type: 1, tot_no_orders: allocations.len() as i64 };
    required.write(frame.body(Precision::Seconds), |orders| {
        for (n, &allocations) in allocations.iter().enumerate() {
            let id = n.to_string();
            let mut order = orders.entry(no_orders::Required {
                cl_ord_id: &id,
                list_seq_no: n as i64 + 1,
                symbol: "S",
                side: Side::Sell,
            });
            order.open_close(OpenClose::Close);
            order.no_trading_sessions(|sessions| {
                sessions.entry(no_trading_sessions::Required { trading_session_id: "T" });
            });
            order.no_allocs(|all| {
                for share in 0..allocations {
                    let account = share.to_string();
                    let mut one = all.entry(no_allocs::Required { alloc_account: &account });
                    one.alloc_shares(Decimal::from(share as i64));
                }
            });
            order.account("ACC");
        }
    });
    frame.finish().unwrap();
    out
}

#[test]
fn nested_groups_are_written_in_order_and_read_back() {
    let fix42 = transfix_dictionary::standard("FIX42").unwrap();
    let rules = Rules::new(&fix42, &fix42);
    for allocations in [&[0_usize][..], &[1], &[2, 0, 11], &[0, 10, 3, 0]] {
        let frame = list(allocations);
        let mut index = FieldIndex::default();
        let message = Message::parse(&frame, &mut index, CheckSumPolicy::Verify).unwrap();
        // Validation against the dictionary also checks the order of all fields in the entries.
        let judged = rules.check(&message, &Switches::STANDARD, &mut Scratch::default());
        assert_eq!(judged, Ok(()), "{message}");
        let list = NewOrderList::try_from(&message).unwrap();
        assert_eq!(list.no_orders().announced(), allocations.len());
        let mut counts = Vec::new();
        for (n, order) in list.no_orders().enumerate() {
            assert_eq!(order.cl_ord_id().unwrap(), n.to_string());
            assert_eq!(order.account(), Ok(Some("ACC")));
            assert_eq!(order.open_close(), Ok(Some(OpenClose::Close)));
            assert_eq!(order.no_trading_sessions().count(), 1);
            let shares = order.no_allocs().map(|one| one.alloc_shares().unwrap().unwrap());
            assert!(shares.clone().eq((0..shares.count() as i64).map(Decimal::from)));
            counts.push(order.no_allocs().count());
        }
        assert_eq!(counts, allocations);
    }
}
