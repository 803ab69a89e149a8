//! A client: logs on, sends ten orders, prints their reports, and logs out.
//!
//! The client connects to the venue (`cargo run -p transfix --example acceptor`), or through the
//! router (`cargo run -p transfix --example router`):
//!
//! ```text
//! cargo run -p transfix --example initiator                            to VENUE
//! cargo run -p transfix --example initiator 127.0.0.1:9881 ROUTER      to ROUTER
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Decimal, Durability, Engine, Message, ResetPolicy,
    Role, SessionEvent, SessionId, SessionRef, SessionSettings, Settings, clock, msg_type, tag,
};

const ORDERS: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// The application of the session: forwards each answer and each event to the main thread as a line
/// of text.
struct Client {
    events: Sender<String>,
}

impl Client {
    fn tell(&self, event: String) {
        // The send fails only if the main thread no longer waits for events.
        let _ = self.events.send(event);
    }
}

impl Application for Client {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let event = match message.msg_type() {
            msg_type::EXECUTION_REPORT => format!(
                "{}: OrdStatus(39) {}, {} of {} {} left, OrderID(37) {}",
                message.text(tag::CL_ORD_ID)?,
                message.text(tag::ORD_STATUS)?,
                message.decimal(tag::LEAVES_QTY)?,
                message.decimal(tag::ORDER_QTY)?,
                message.text(tag::SYMBOL)?,
                message.text(tag::ORDER_ID)?,
            ),
            // `on_event` has already reported this reject as `SessionEvent::Rejected`.
            msg_type::BUSINESS_MESSAGE_REJECT => return Ok(()),
            _ => return Err(BusinessReject::unsupported()),
        };
        self.tell(event);
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        match event {
            SessionEvent::Rejected(rejected) => {
                self.tell(format!("not taken: {rejected}"));
            }
            SessionEvent::LoggedOn => {
                self.tell(format!("{} is logged on", session.id()));
            }
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:9880".to_owned());
    let counterparty = args.next().unwrap_or_else(|| "VENUE".to_owned());
    let id = SessionId::new(BeginString::Fix44, "CLIENT", &counterparty);
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address);
    settings.store.durability = Durability::Memory;
    settings.protocol.reset_on = ResetPolicy::LOGON;
    let (events, received) = channel();
    let engine =
        Engine::start(&Settings::of(settings), |_| Box::new(Client { events: events.clone() }))?;
    println!("{}", received.recv_timeout(PATIENCE)?);

    let session = engine.session(&id).ok_or("no such session")?;
    for n in 1..=ORDERS {
        session.send(msg_type::NEW_ORDER_SINGLE, |order| {
            order
                .str(tag::CL_ORD_ID, &format!("order{n}"))
                .str(tag::SYMBOL, "EUR/USD")
                .char(tag::SIDE, b'1')
                .timestamp(tag::TRANSACT_TIME, clock::now().utc)
                .uint(tag::ORDER_QTY, n * 1_000)
                .char(tag::ORD_TYPE, b'2')
                .decimal(tag::PRICE, Decimal::new(108_415, 5));
        })?;
    }
    for _ in 0..ORDERS {
        println!("{}", received.recv_timeout(PATIENCE)?);
    }
    for session in engine.stop(Duration::from_secs(5)) {
        println!("{}: {:?}", session.id, session.outcome);
    }
    Ok(())
}
