//! The order and the report of scenario S1, shared with other scenarios, and the two applications.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use transfix::clock::monotonic_ns;
use transfix::{
    Application, Body, BusinessReject, Decimal, Message, Precision, SessionRef, Tag, Template,
    Timestamp, tag,
};

const CLIENT_ID: Tag = Tag(109);

/// The form of the ExecutionReport(8) that answers an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReportForm {
    /// All fields that FIX 4.2 requires.
    Valid,
    /// The fields that the published page sets; the report is not valid under FIX 4.2.
    Page,
}

/// The fields of an order as on the published page; order `i` counts from 0.
pub(crate) struct Order {
    template: Option<Template>,
    client: bool,
}

/// The value of ClientID(109), in scenarios whose orders have this field.
pub(crate) const CLIENT: &str = "CLIENT-1";

impl Order {
    /// Creates the order. If `prepared`, the constant fields are encoded once. If `client`, orders
    /// have ClientID(109).
    pub(crate) fn new(prepared: bool, client: bool) -> Self {
        let template = prepared.then(|| {
            Template::new("D", |t| {
                t.slot(tag::CL_ORD_ID).fields(b"21=1\x0155=EU\x0154=1\x01");
                t.slot(tag::TRANSACT_TIME).fields(b"40=2\x01").slot(tag::ORDER_QTY);
                t.fields(b"59=0\x0144=30\x01");
                if client {
                    t.fields(format!("109={CLIENT}\x01").as_bytes());
                }
            })
        });
        Self { template, client }
    }

    pub(crate) fn write(&self, body: &mut Body<'_>, i: usize, now: Timestamp) {
        let (id, quantity) = (i as u64, 1 + i as u64 % 10);
        if let Some(template) = &self.template {
            template.fill(body).uint(id).timestamp(now).uint(quantity).done();
            return;
        }
        Self::write_rest(
            body.uint(tag::CL_ORD_ID, id),
            quantity,
            now,
            self.client.then_some(CLIENT),
        );
    }

    /// Writes all fields after ClOrdID(11).
    pub(crate) fn write_rest(
        body: &mut Body<'_>,
        quantity: u64,
        now: Timestamp,
        client: Option<&str>,
    ) {
        body.char(tag::HANDL_INST, b'1')
            .str(tag::SYMBOL, "EU")
            .char(tag::SIDE, b'1')
            .timestamp(tag::TRANSACT_TIME, now)
            .char(tag::ORD_TYPE, b'2')
            .uint(tag::ORDER_QTY, quantity)
            .char(tag::TIME_IN_FORCE, b'0')
            .decimal(tag::PRICE, Decimal::new(30, 0));
        if let Some(client) = client {
            body.str(CLIENT_ID, client);
        }
    }
}

/// The initiator's application: records the arrival time of each report.
pub(crate) struct Sender {
    pub(crate) arrivals: Arc<Arrivals>,
}

/// Arrival times of the reports, recorded in the callbacks and read by the pacing thread.
pub(crate) struct Arrivals {
    pub(crate) count: AtomicUsize,
    pub(crate) at_ns: Vec<AtomicU64>,
}

impl Arrivals {
    pub(crate) fn new(n: usize) -> Self {
        let at_ns = std::iter::repeat_with(AtomicU64::default).take(n).collect();
        Self { count: AtomicUsize::new(0), at_ns }
    }
}

impl Application for Sender {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let at = monotonic_ns();
        let i = message.uint(tag::CL_ORD_ID)? as usize;
        if let Some(slot) = self.arrivals.at_ns.get(i) {
            slot.store(at, Ordering::Relaxed);
            self.arrivals.count.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

/// The acceptor's application: reads the order's fields and sends a report.
pub(crate) struct Receiver {
    pub(crate) form: ReportForm,
    pub(crate) ids: u64,
    template: Option<Template>,
    client: bool,
}

impl Receiver {
    /// Creates an acceptor that sends reports of this form. If `prepared`, the constant fields are
    /// encoded once.
    pub(crate) fn new(prepared: bool, form: ReportForm) -> Self {
        Self::with_client(prepared, form, false)
    }

    /// Creates an acceptor as `new` does. If `client`, reports repeat the ClientID(109) of their
    /// orders.
    pub(crate) fn with_client(prepared: bool, form: ReportForm, client: bool) -> Self {
        let template = (prepared && form == ReportForm::Valid).then(|| {
            Template::new("8", |t| {
                t.slot(tag::ORDER_ID).slot(tag::EXEC_ID);
                t.fields(b"20=0\x01150=0\x0139=0\x01").slot(tag::CL_ORD_ID).slot(tag::SYMBOL);
                t.slot(tag::SIDE).slot(tag::PRICE).slot(tag::ORDER_QTY).slot(tag::LEAVES_QTY);
                t.fields(b"14=0\x016=0\x01").slot(tag::TRANSACT_TIME);
                if client {
                    t.slot(CLIENT_ID);
                }
            })
        });
        Self { form, ids: 0, template, client }
    }

    fn write(&self, body: &mut Body<'_>, order: &Read<'_>, now: Timestamp) {
        if let Some(template) = &self.template {
            let mut fill = template.fill(body);
            fill.uint(self.ids).uint(self.ids).bytes(order.id).bytes(order.symbol);
            fill.bytes(&[order.side]).decimal(order.price).decimal(order.quantity);
            fill.decimal(order.quantity).timestamp(now);
            if self.client {
                fill.bytes(order.client);
            }
            fill.done();
            return;
        }
        body.uint(tag::ORDER_ID, self.ids).uint(tag::EXEC_ID, self.ids);
        if self.form == ReportForm::Valid {
            body.char(tag::EXEC_TRANS_TYPE, b'0')
                .char(tag::EXEC_TYPE, b'0')
                .char(tag::ORD_STATUS, b'0');
        }
        body.bytes(tag::CL_ORD_ID, order.id);
        if self.form == ReportForm::Valid {
            body.bytes(tag::SYMBOL, order.symbol).char(tag::SIDE, order.side);
        }
        body.decimal(tag::PRICE, order.price)
            .decimal(tag::ORDER_QTY, order.quantity)
            .decimal(tag::LEAVES_QTY, order.quantity);
        if self.form == ReportForm::Valid {
            body.uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
        }
        body.timestamp(tag::TRANSACT_TIME, now);
        if self.client {
            body.bytes(CLIENT_ID, order.client);
        }
    }
}

/// The order's fields that the acceptor reads, as on the published page.
struct Read<'a> {
    id: &'a [u8],
    /// ClientID(109); empty in scenarios without this field.
    client: &'a [u8],
    symbol: &'a [u8],
    side: u8,
    price: Decimal,
    quantity: Decimal,
}

impl<'a> Read<'a> {
    fn of(message: &Message<'a>, client: bool) -> Result<Self, BusinessReject> {
        message.required(tag::SENDER_COMP_ID)?;
        message.required(tag::TARGET_COMP_ID)?;
        let limit = message.char(tag::ORD_TYPE)? == b'2';
        message.raw(tag::TIME_IN_FORCE).map(|_| message.char(tag::TIME_IN_FORCE)).transpose()?;
        Ok(Self {
            id: message.required(tag::CL_ORD_ID)?,
            client: if client { message.required(CLIENT_ID)? } else { b"" },
            symbol: message.required(tag::SYMBOL)?,
            side: message.char(tag::SIDE)?,
            price: if limit { message.decimal(tag::PRICE)? } else { Decimal::new(0, 0) },
            quantity: message.decimal(tag::ORDER_QTY)?,
        })
    }
}

impl Application for Receiver {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let order = Read::of(message, self.client)?;
        self.ids += 1;
        let now = session.now().utc;
        let sent = session.send("8", |body| self.write(body, &order, now));
        Ok(sent.map(drop)?)
    }
}

/// Returns an order and a report with the lengths of the scenario's messages, for the floor.
pub(crate) fn sample_frames(form: ReportForm, client: bool) -> (Vec<u8>, Vec<u8>) {
    let now = Timestamp::parse(b"20261121-12:00:00.123").unwrap_or_default();
    let frame = |msg_type: &[u8], ids: &[u8], fill: &dyn Fn(&mut Body<'_>)| {
        let mut out = Vec::new();
        let mut frame = transfix_codec::FrameWriter::new(&mut out, b"FIX.4.2", msg_type);
        frame.raw(ids);
        frame.raw(b"34=5000\x0152=20261121-12:00:00.123\x01");
        fill(frame.body(Precision::Millis));
        // Both frames have valid fields, so encoding cannot fail.
        let _ = frame.finish();
        out
    };
    let order = Order::new(false, client);
    let read = Read {
        id: b"5000",
        client: CLIENT.as_bytes(),
        symbol: b"EU",
        side: b'1',
        price: Decimal::new(30, 0),
        quantity: Decimal::new(5, 0),
    };
    let receiver = Receiver { ids: 5000, ..Receiver::with_client(false, form, client) };
    (
        frame(b"D", b"49=INCA\x0156=TW\x01", &|body| order.write(body, 5000, now)),
        frame(b"8", b"49=TW\x0156=INCA\x01", &|body| receiver.write(body, &read, now)),
    )
}
