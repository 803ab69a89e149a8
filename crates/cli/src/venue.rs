//! A small matching venue, used as the acceptor of `demo` and `serve`.

pub(crate) mod book;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use transfix::{
    Application, BeginString, Body, BusinessReject, Decimal, Disconnect, Message, SessionEvent,
    SessionId, SessionNotice, SessionRef, SessionView, Timestamp, tag,
};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_store::journal;

use book::{Answer, Book, Event, Ids, Order};

/// Receives the venue's events, to print or count them.
pub(crate) trait Watch: Send {
    /// Called for each received or sent message.
    fn message(&mut self, direction: transfix::Direction, frame: &[u8]) {
        let _ = (direction, frame);
    }

    /// Called after the order book was rebuilt from the journal; `orders` is the number of orders.
    fn recovered(&mut self, id: &SessionId, orders: u64) {
        let _ = (id, orders);
    }

    /// Called if the order book could not be rebuilt. Until it is rebuilt, orders are rejected.
    fn not_recovered(&mut self, id: &SessionId, why: &str) {
        let _ = (id, why);
    }

    /// Called after a logon from the address `peer`.
    fn logged_on(&mut self, id: &SessionId, peer: Option<SocketAddr>) {
        let _ = (id, peer);
    }

    /// Called after the end of a connection, with its reason.
    fn ended(&mut self, id: &SessionId, why: Disconnect) {
        let _ = (id, why);
    }
}

/// The application of one of the venue's sessions.
pub(crate) struct Venue<W> {
    book: Book,
    /// Messages that the book was built from, in order: MsgSeqNum(34) and the message.
    taken: Vec<(u64, Vec<u8>)>,
    watch: W,
    /// Path of the journal, if the book must be rebuilt before orders are accepted; otherwise
    /// `None`.
    unread: Option<PathBuf>,
}

impl<W: Watch> Venue<W> {
    /// Creates a venue with an empty book.
    pub(crate) fn new(ids: Ids, watch: W) -> Self {
        Self { book: Book::new(ids), taken: Vec::new(), watch, unread: None }
    }

    /// Creates a venue, and rebuilds its book from the orders in the session's journal, which
    /// requires `keep_inbound`. Without a journal the book is empty. A resting order keeps its
    /// reported OrderID(37), if the journal contains the report.
    ///
    /// If the journal is unreadable, the book is rebuilt at the next logon, because the engine has
    /// opened the store by then.
    pub(crate) fn recover(id: &SessionId, store_path: PathBuf, ids: Ids, watch: W) -> Self {
        let mut venue = Self::new(ids, watch);
        venue.unread = Some(store_path);
        venue.read_journal(id);
        venue
    }

    /// Rebuilds the book from the journal, if this failed before.
    fn read_journal(&mut self, id: &SessionId) {
        let Some(path) = self.unread.take() else { return };
        match self.rebuild(&path) {
            Ok(()) if self.orders() > 0 => self.watch.recovered(id, self.orders()),
            Ok(()) => {}
            Err(why) => {
                self.watch.not_recovered(id, &why);
                self.taken.clear();
                self.book = self.book.successor();
                self.unread = Some(path);
            }
        }
    }

    fn rebuild(&mut self, store_path: &Path) -> Result<(), String> {
        if !store_path.exists() {
            return Ok(());
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
                // The answers are discarded, because the venue sent them before the restart.
                let _ = self.take(stored.seq, &message);
            } else if let (Ok(id), Ok(order_id)) =
                (message.text(tag::CL_ORD_ID), message.text(tag::ORDER_ID))
            {
                reported.entry(id.to_owned()).or_insert_with(|| order_id.to_owned());
            }
        }
        self.book.rename(&reported);
        Ok(())
    }

    /// Applies an order or a cancel request to the book. Returns the reports to send.
    fn take(&mut self, seq: u64, message: &Message<'_>) -> Result<Vec<Answer>, BusinessReject> {
        self.taken.push((seq, message.bytes().to_vec()));
        self.book.take(message)
    }

    /// Rebuilds the book without the messages whose MsgSeqNum(34) is `from` or higher, because they
    /// will arrive again.
    fn undo(&mut self, from: u64) {
        while self.taken.pop_if(|(seq, _)| *seq >= from).is_some() {}
        let mut book = self.book.successor();
        let mut index = FieldIndex::default();
        for (_, bytes) in &self.taken {
            if let Ok(message) = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore) {
                let _ = book.take(&message);
            }
        }
        book.rename(self.book.order_ids());
        self.book = book;
    }

    /// Returns the number of accepted and rejected orders so far.
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
        if self.unread.is_some() {
            return Err(BusinessReject::not_available());
        }
        let begin_string = session.id().begin_string;
        let now = session.now().utc;
        for answer in self.take(message.msg_seq_num()?, message)? {
            let sent = match &answer {
                Answer::Report(order, event, id) => session.send("8", |body| {
                    execution_report(body, begin_string, now, (order, *event, id));
                }),
                Answer::CancelReject(id, orig, why) => session.send("9", |body| {
                    cancel_reject(body, begin_string, (id, orig, why));
                }),
            };
            sent?;
        }
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.read_journal(session.id());
            let peer = session.other(session.id()).and_then(|own| own.status().peer);
            self.watch.logged_on(session.id(), peer);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        match notice {
            SessionNotice::RolledBack(undone) => {
                self.undo(undone.received.start);
            }
            SessionNotice::Disconnected(end) => {
                self.watch.ended(session.id(), end.reason);
            }
            _ => {}
        }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: transfix::Direction, frame: &[u8], _: &SessionView<'_>) {
        self.watch.message(direction, frame);
    }
}

/// Returns OrdStatus(39) and ExecType(150) of a report, in the form of the FIX version.
const fn status(order: &Order, event: Event, begin_string: BeginString) -> (u8, u8) {
    let status = match event {
        Event::New => b'0',
        Event::Trade { .. } if order.leaves > 0 => b'1',
        Event::Trade { .. } => b'2',
        Event::Canceled => b'4',
        Event::Rejected(_) => b'8',
    };
    // Since FIX 4.3, fills and partial fills have the ExecType(150) F (Trade).
    let old = matches!(begin_string, BeginString::Fix40 | BeginString::Fix41 | BeginString::Fix42);
    let trade = matches!(event, Event::Trade { .. }) && !old;
    (status, if trade { b'F' } else { status })
}

/// Writes an ExecutionReport(8) with the fields that each FIX version requires.
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
    // FIX 4.0 and 4.1 require LastQty(32) and LastPx(31) in each report.
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

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::FrameWriter;

    struct Nobody;

    impl Watch for Nobody {}

    fn take(venue: &mut Venue<Nobody>, seq: u64, fields: &str) -> Vec<(String, Event, i64)> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
        frame.raw(fields.replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        let mut index = FieldIndex::default();
        let message = Message::parse(&out, &mut index, CheckSumPolicy::Verify).unwrap();
        let answers = venue.take(seq, &message).unwrap().into_iter();
        let shown = |answer| match answer {
            Answer::Report(order, event, _) => (order.order_id, event, order.leaves),
            Answer::CancelReject(..) => unreachable!("nothing is cancelled here"),
        };
        answers.map(shown).collect()
    }

    #[test]
    fn what_a_failure_has_undone_may_come_again() {
        let mut venue = Venue::new(Ids::new(Timestamp(0), 0), Nobody);
        let first = take(&mut venue, 7, "11=a|55=EU|54=1|38=5|40=2|44=30|");
        let sold = "11=b|55=EU|54=2|38=5|40=2|44=30|";
        let lost = take(&mut venue, 8, sold);
        assert_eq!(lost.len(), 3, "{lost:?}");
        venue.undo(8);
        let again = take(&mut venue, 8, sold);
        // After the undo, the report on the resting order has the OrderID(37) that was reported
        // before.
        assert_eq!((&again[1].0, again[1].1, again[1].2), (&first[0].0, lost[1].1, 0));
        assert_eq!(again[2].1, lost[2].1);
        assert!(matches!(again[0].1, Event::New), "{again:?}");
        // An undo from a higher number changes nothing.
        venue.undo(9);
        let more = take(&mut venue, 9, "11=c|55=EU|54=2|38=5|40=2|44=30|");
        assert_eq!((more.len(), more[0].2), (1, 5));
    }
}
