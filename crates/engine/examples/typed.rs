//! The venue of the example `acceptor` with typed messages: fields have names and typed values, and
//! a report cannot be written without its required fields.
//!
//! ```text
//! cargo run -p transfix --features fix44 --example typed [ADDRESS]    default 127.0.0.1:9880
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::time::Duration;

use transfix::fix44::codes::{ExecType, OrdStatus};
use transfix::fix44::components::parties::no_party_ids;
use transfix::fix44::{ExecutionReport, NewOrderSingle, Router, execution_report, route};
use transfix::{
    Application, BeginString, BusinessReject, Decimal, Durability, Engine, Message, ResetPolicy,
    Role, SessionId, SessionRef, SessionSettings, Settings,
};

/// The application of one session: counts its orders.
#[derive(Default)]
pub(crate) struct Venue {
    orders: u64,
}

impl<'s> Router<SessionRef<'s>> for Venue {
    type Answer = Result<(), BusinessReject>;

    fn unsupported(&mut self, _: &Message<'_>, _: &mut SessionRef<'s>) -> Self::Answer {
        Err(BusinessReject::unsupported())
    }

    fn on_new_order_single(
        &mut self,
        order: NewOrderSingle<'_>,
        session: &mut SessionRef<'s>,
    ) -> Self::Answer {
        let quantity = order.order_qty_data().order_qty()?;
        let quantity = quantity.ok_or(BusinessReject::other("give OrderQty(38)"))?;
        let cl_ord_id = order.cl_ord_id()?;
        self.orders += 1;
        let number = self.orders.to_string();
        let required = execution_report::Required {
            order_id: &number,
            exec_id: &number,
            exec_type: ExecType::New,
            ord_status: OrdStatus::New,
            symbol: order.instrument().symbol()?,
            side: order.side()?,
            leaves_qty: quantity,
            cum_qty: Decimal::default(),
            avg_px: Decimal::default(),
        };
        let parties = order.parties().no_party_ids();
        let sent = session.send(ExecutionReport::MSG_TYPE, |body| {
            let mut report = required.write(body);
            report.cl_ord_id(cl_ord_id).order_qty_data().order_qty(quantity);
            report.parties().no_party_ids(|copies| {
                for id in parties.filter_map(|party| party.party_id().ok().flatten()) {
                    copies.entry(no_party_ids::Required { party_id: id });
                }
            });
        });
        Ok(sent.map(drop)?)
    }
}

impl Application for Venue {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        route(message, self, session)
    }
}

/// Returns the settings: VENUE listens at `address` for CLIENT.
pub(crate) fn settings(address: &str) -> Settings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut session = SessionSettings::new(Role::Acceptor, &id, address);
    session.store.durability = Durability::Memory;
    session.protocol.reset_on = ResetPolicy::LOGON;
    Settings::of(session)
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
