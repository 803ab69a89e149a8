//! A small matching venue: the acceptor of `demo` and `serve`.

pub(crate) mod book;

use std::collections::HashMap;
use std::path::Path;

use transfix::codec::{CheckSumPolicy, FieldIndex};
use transfix::store::journal;
use transfix::{
    Application, BeginString, Body, BusinessReject, Decimal, Disconnect, Disconnection, Message,
    SessionId, SessionRef, Timestamp, tag,
};

use book::{Answer, Book, Event, Ids, Order};

/// Sees what the venue sees, for printing and counting.
pub(crate) trait Watch: Send {
    /// A message came in or went out.
    fn message(&mut self, direction: transfix::Direction, frame: &[u8]) {
        let _ = (direction, frame);
    }

    /// The session logged on (`None`) or ended its connection.
    fn session(&mut self, id: &SessionId, ended: Option<Disconnect>) {
        let _ = (id, ended);
    }
}

/// The application of one session of the venue.
pub(crate) struct Venue<W> {
    book: Book,
    watch: W,
}

impl<W: Watch> Venue<W> {
    /// A venue with an empty book.
    pub(crate) fn new(ids: Ids, watch: W) -> Self {
        Self { book: Book::new(ids), watch }
    }

    /// A venue whose book is rebuilt from the orders that its session's journal holds; needs
    /// `keep_inbound` in the settings. A session without a journal has an empty book. Resting
    /// orders have the OrderID(37)s that were reported of them, if the journal has the reports.
    pub(crate) fn recover(store_path: &Path, ids: Ids, watch: W) -> Result<Self, String> {
        let mut venue = Self::new(ids, watch);
        if !store_path.exists() {
            return Ok(venue);
        }
        let entries = journal::read(store_path).map_err(|error| error.to_string())?;
        let mut index = FieldIndex::default();
        let mut reported = HashMap::new();
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let Some((direction, stored)) = entry.message() else { continue };
            let message = Message::parse(&stored.bytes, &mut index, CheckSumPolicy::Ignore);
            let Ok(message) = message else { continue };
            if direction == journal::Direction::Inbound {
                // The answers are in the journal already.
                let _ = venue.book.take(&message);
            } else if let (Ok(id), Ok(order_id)) =
                (message.text(tag::CL_ORD_ID), message.text(tag::ORDER_ID))
            {
                reported.entry(id.to_owned()).or_insert_with(|| order_id.to_owned());
            }
        }
        venue.book.rename(&reported);
        Ok(venue)
    }

    /// Orders taken so far.
    pub(crate) const fn orders(&self) -> u64 {
        self.book.orders()
    }
}

impl<W: Watch> Application for Venue<W> {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let begin_string = session.id().begin_string;
        let now = session.now().utc;
        for answer in self.book.take(message)? {
            let sent = match &answer {
                Answer::Report(order, event, id) => session.send("8", |body| {
                    execution_report(body, begin_string, now, (order, *event, id));
                }),
                Answer::CancelReject(id, orig, why) => session.send("9", |body| {
                    cancel_reject(body, begin_string, (id, orig, why));
                }),
            };
            sent.map_err(|error| BusinessReject::other(error.to_string()))?;
        }
        Ok(())
    }

    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        self.watch.session(session.id(), None);
    }

    fn on_disconnect(&mut self, id: &SessionId, end: &Disconnection<'_>) {
        self.watch.session(id, Some(end.reason));
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: transfix::Direction, frame: &[u8]) {
        self.watch.message(direction, frame);
    }
}

/// OrdStatus(39) and ExecType(150) of the version.
const fn status(order: &Order, event: Event, begin_string: BeginString) -> (u8, u8) {
    let status = match event {
        Event::New => b'0',
        Event::Trade { .. } if order.leaves > 0 => b'1',
        Event::Trade { .. } => b'2',
        Event::Canceled => b'4',
        Event::Rejected(_) => b'8',
    };
    // FIX 4.3: fills and partial fills became ExecType(150) F, Trade.
    let old = matches!(begin_string, BeginString::Fix40 | BeginString::Fix41 | BeginString::Fix42);
    let trade = matches!(event, Event::Trade { .. }) && !old;
    (status, if trade { b'F' } else { status })
}

/// Writes an ExecutionReport(8) that is valid in each version.
pub(crate) fn execution_report(
    body: &mut Body<'_>,
    begin_string: BeginString,
    now: Timestamp,
    (order, event, id): (&Order, Event, &str),
) {
    let (ord_status, exec_type) = status(order, event, begin_string);
    body.str(tag::ORDER_ID, &order.order_id).str(tag::CL_ORD_ID, &order.cl_ord_id);
    if let Some(orig) =
        order.orig_cl_ord_id.as_deref().filter(|_| begin_string > BeginString::Fix40)
    {
        body.str(tag::ORIG_CL_ORD_ID, orig);
    }
    body.str(tag::EXEC_ID, id);
    if begin_string < BeginString::Fix43 {
        body.char(tag::EXEC_TRANS_TYPE, b'0');
    }
    if begin_string > BeginString::Fix40 {
        body.char(tag::EXEC_TYPE, exec_type);
    }
    body.char(tag::ORD_STATUS, ord_status);
    if let Event::Rejected(_) = event {
        let reason = if begin_string < BeginString::Fix43 { 0 } else { 99 };
        body.uint(tag::ORD_REJ_REASON, reason);
    }
    body.str(tag::SYMBOL, &order.symbol).char(tag::SIDE, order.side);
    body.int(tag::ORDER_QTY, order.quantity).decimal(tag::PRICE, order.price);
    let (last_qty, last_px) = match event {
        Event::Trade { quantity, price } => (quantity, price),
        _ => (0, Decimal::new(0, 0)),
    };
    // Required in each report up to FIX 4.1.
    if last_qty > 0 || begin_string < BeginString::Fix42 {
        body.int(tag::LAST_QTY, last_qty).decimal(tag::LAST_PX, last_px);
    }
    if begin_string > BeginString::Fix40 {
        body.int(tag::LEAVES_QTY, order.leaves);
    }
    body.int(tag::CUM_QTY, order.traded).decimal(tag::AVG_PX, order.avg_px());
    body.timestamp(tag::TRANSACT_TIME, now);
    if let Event::Rejected(why) = event {
        body.str(tag::TEXT, why);
    }
}

fn cancel_reject(
    body: &mut Body<'_>,
    begin_string: BeginString,
    (id, orig, why): (&str, &str, &str),
) {
    body.str(tag::ORDER_ID, "NONE").str(tag::CL_ORD_ID, id);
    if begin_string > BeginString::Fix40 {
        body.str(tag::ORIG_CL_ORD_ID, orig).char(tag::ORD_STATUS, b'8');
    }
    if begin_string >= BeginString::Fix42 {
        body.char(tag::CXL_REJ_RESPONSE_TO, b'1');
    }
    body.uint(tag::CXL_REJ_REASON, 1).str(tag::TEXT, why);
}
