//! Orders of earlier runs of `connect`, read from the session's journal.

use std::collections::HashMap;
use std::path::Path;

use transfix::{Decimal, Message, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, SOH};
use transfix_store::journal::{self, Event};

/// Fields of a sent order that its cancel request repeats.
pub(super) struct PlacedOrder {
    pub(super) symbol: String,
    pub(super) side: u8,
    pub(super) quantity: Decimal,
}

/// Highest ClOrdID(11) in the journal that affects numbering. `connect` never generates a higher
/// value, and continuing from one would leave too few numbers.
const CL_ORD_ID_MAX: u64 = 1_000_000_000_000_000;

/// Reads the orders of all runs from the journal, including queued orders. Returns the orders and
/// the number for the next request.
pub(super) fn placed(store_path: &Path) -> Result<(HashMap<u64, PlacedOrder>, u64), String> {
    let (mut orders, mut next) = (HashMap::new(), 1);
    if !store_path.exists() {
        return Ok((orders, next));
    }
    let mut index = FieldIndex::default();
    for entry in journal::read(store_path).map_err(|error| error.to_string())? {
        let bytes = match entry.map_err(|error| error.to_string())?.event {
            Event::Outbound(stored) => stored.bytes,
            Event::Queued { bytes, .. } => match framed(&bytes) {
                Some(bytes) => bytes,
                None => continue,
            },
            _ => continue,
        };
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore);
        let Ok(message) = message else { continue };
        // Messages of the command `send` may have any ClOrdID(11), even text.
        let Ok(n) = message.uint(tag::CL_ORD_ID) else { continue };
        if n > CL_ORD_ID_MAX {
            continue;
        }
        next = next.max(n + 1);
        let order = || -> Result<PlacedOrder, transfix::Reject> {
            Ok(PlacedOrder {
                symbol: message.text(tag::SYMBOL)?.to_owned(),
                side: message.char(tag::SIDE)?,
                quantity: message.decimal(tag::ORDER_QTY)?,
            })
        };
        if message.msg_type() == b"D"
            && let Ok(order) = order()
        {
            orders.insert(n, order);
        }
    }
    Ok((orders, next))
}

/// Builds a frame from a queued message, which the journal stores as `35=D` and the body.
fn framed(queued: &[u8]) -> Option<Vec<u8>> {
    let fields = queued.strip_prefix(b"35=")?;
    let end = fields.iter().position(|&byte| byte == SOH)?;
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", &fields[..end]);
    frame.raw(&fields[end + 1..]);
    frame.finish().ok()?;
    Some(out)
}
