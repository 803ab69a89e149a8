//! The codec's operations with the typed messages of FIX 4.4 instead of tags.

use std::hint::black_box;

use transfix::fix44::codes::{HandlInst, OrdType, SecurityType, Side, TimeInForce};
use transfix::fix44::new_order_single::Required;
use transfix::fix44::{MarketDataSnapshotFullRefresh, NewOrderSingle};
use transfix::{Body, Message, Timestamp};
use transfix_bench::ours::Typed;
use transfix_bench::workload::Order;

/// The operations of the typed messages.
pub(crate) const TYPED: Typed = Typed { write, read, read_entries };

/// Writes the order with the typed builder of FIX 4.4, which writes the required fields first.
fn write(order: &Order, body: &mut Body<'_>, now: Timestamp) {
    let required = Required {
        cl_ord_id: &order.cl_ord_id,
        symbol: &order.symbol,
        side: if order.side == b'1' { Side::Buy } else { Side::Sell },
        transact_time: now,
        ord_type: if order.price.is_some() { OrdType::Limit } else { OrdType::Market },
    };
    let mut writer = required.write(body);
    writer.account(&order.account).handl_inst(HandlInst::AutomatedExecutionNoIntervention);
    writer.order_qty_data().order_qty(order.order_qty);
    if let Some(price) = order.price {
        writer.price(price);
    }
    if let Some(text) = &order.text {
        writer.text(text);
    }
    writer.time_in_force(match order.time_in_force {
        b'0' => TimeInForce::Day,
        b'1' => TimeInForce::GoodTillCancel,
        b'3' => TimeInForce::ImmediateOrCancel,
        _ => TimeInForce::FillOrKill,
    });
    let mut instrument = writer.instrument();
    instrument.security_desc(&order.security_desc);
    instrument.security_type(match order.security_type {
        "OPT" => SecurityType::Option,
        "FUT" => SecurityType::Future,
        "CS" => SecurityType::CommonStock,
        _ => SecurityType::ForeignExchangeContract,
    });
}

/// Reads all fields of the order's body, and counts the present fields.
fn read(message: &Message<'_>) -> usize {
    let Ok(order) = NewOrderSingle::try_from(message) else { return 0 };
    let mut there = 0_usize;
    let mut note = |is_there: bool| there = there.wrapping_add(usize::from(is_there));
    note(black_box(&order.transact_time()).is_ok());
    note(matches!(black_box(&order.order_qty_data().order_qty()), Ok(Some(_))));
    note(matches!(black_box(&order.price()), Ok(Some(_))));
    let instrument = order.instrument();
    note(matches!(black_box(&order.account()), Ok(Some(_))));
    note(black_box(&order.cl_ord_id()).is_ok());
    note(black_box(&instrument.symbol()).is_ok());
    note(matches!(black_box(&order.text()), Ok(Some(_))));
    note(matches!(black_box(&instrument.security_desc()), Ok(Some(_))));
    note(matches!(black_box(&instrument.security_type()), Ok(Some(_))));
    note(matches!(black_box(&order.handl_inst()), Ok(Some(_))));
    note(black_box(&order.ord_type()).is_ok());
    note(black_box(&order.side()).is_ok());
    note(matches!(black_box(&order.time_in_force()), Ok(Some(_))));
    there
}

/// Reads all fields of the snapshot's entries, and counts the present fields.
fn read_entries(message: &Message<'_>) -> usize {
    let Ok(snapshot) = MarketDataSnapshotFullRefresh::try_from(message) else { return 0 };
    let mut there = 0_usize;
    let mut note = |is_there: bool| there = there.wrapping_add(usize::from(is_there));
    for entry in snapshot.md_full_grp().no_md_entries() {
        note(black_box(&entry.md_entry_type()).is_ok());
        note(matches!(black_box(&entry.md_entry_px()), Ok(Some(_))));
        note(matches!(black_box(&entry.currency()), Ok(Some(_))));
        note(matches!(black_box(&entry.md_entry_size()), Ok(Some(_))));
        note(matches!(black_box(&entry.md_entry_time()), Ok(Some(_))));
        note(matches!(black_box(&entry.md_entry_position_no()), Ok(Some(_))));
    }
    there
}
