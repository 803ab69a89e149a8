//! A venue: accepts each NewOrderSingle(D) and answers with an ExecutionReport(8).
//!
//! The venue waits for the sessions CLIENT (`cargo run -p transfix --example initiator`) and ROUTER
//! (`cargo run -p transfix --example router`). To stop the venue, press Enter:
//!
//! ```text
//! cargo run -p transfix --example acceptor [ADDRESS]    default 127.0.0.1:9880
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, Message, ResetPolicy, Role,
    SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView, Settings,
    msg_type, tag,
};

/// The application of one session: counts its orders.
#[derive(Default)]
pub(crate) struct Venue {
    orders: u64,
}

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if order.msg_type() != msg_type::NEW_ORDER_SINGLE {
            return Err(BusinessReject::unsupported());
        }
        // Reads all required fields before writing a report, so that a missing field is rejected by
        // its name.
        let cl_ord_id = order.required(tag::CL_ORD_ID)?;
        let symbol = order.required(tag::SYMBOL)?;
        let side = order.char(tag::SIDE)?;
        let quantity = order.decimal(tag::ORDER_QTY)?;
        self.orders += 1;
        let number = self.orders;
        let transact_time = session.now().utc;
        let sent = session.send(msg_type::EXECUTION_REPORT, |report| {
            report
                .uint(tag::ORDER_ID, number)
                .bytes(tag::CL_ORD_ID, cl_ord_id)
                .uint(tag::EXEC_ID, number)
                .char(tag::EXEC_TYPE, b'0')
                .char(tag::ORD_STATUS, b'0')
                .bytes(tag::SYMBOL, symbol)
                .char(tag::SIDE, side)
                .decimal(tag::ORDER_QTY, quantity)
                .decimal(tag::LEAVES_QTY, quantity)
                .uint(tag::CUM_QTY, 0)
                .uint(tag::AVG_PX, 0)
                .timestamp(tag::TRANSACT_TIME, transact_time);
        });
        Ok(sent.map(drop)?)
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            println!("{} is logged on", session.id());
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            println!("{}: {end}; {} orders so far", session.id(), self.orders);
        }
    }
}

/// Returns the settings: VENUE listens at `address` for CLIENT and for ROUTER.
pub(crate) fn settings(address: &str) -> Settings {
    let session = |counterparty| {
        let id = SessionId::new(BeginString::Fix44, "VENUE", counterparty);
        let mut session = SessionSettings::new(Role::Acceptor, &id, address);
        // The store keeps nothing on disk, so each Logon(A) resets the numbers. The example can
        // then run any number of times.
        session.store.durability = Durability::Memory;
        session.protocol.reset_on = ResetPolicy::LOGON;
        session
    };
    let sessions = vec![session("CLIENT"), session("ROUTER")];
    Settings { sessions, ..Settings::default() }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9880".to_owned());
    let engine = Engine::start(&settings(&address), |_| Box::new(Venue::default()))?;
    println!("listening at {}; enter a line to stop", engine.listening()[0]);
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
