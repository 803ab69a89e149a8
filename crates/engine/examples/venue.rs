//! The venue that the README shows. A test checks that the code is the same in both places.
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::time::Duration;

use transfix::*;

pub(crate) struct Venue;

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if order.msg_type() != msg_type::NEW_ORDER_SINGLE {
            return Err(BusinessReject::unsupported());
        }
        let (number, id) = (order.msg_seq_num()?, order.required(tag::CL_ORD_ID)?);
        let (symbol, side) = (order.required(tag::SYMBOL)?, order.char(tag::SIDE)?);
        let quantity = order.decimal(tag::ORDER_QTY)?;
        session.send(msg_type::EXECUTION_REPORT, |report| {
            report.uint(tag::ORDER_ID, number).bytes(tag::CL_ORD_ID, id).uint(tag::EXEC_ID, number);
            report.char(tag::EXEC_TYPE, b'0').char(tag::ORD_STATUS, b'0');
            report.bytes(tag::SYMBOL, symbol).char(tag::SIDE, side);
            report.decimal(tag::LEAVES_QTY, quantity).uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
        })?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:9880");
    let engine = Engine::start(&Settings::of(session), |_| Box::new(Venue))?;
    println!("listening at {}; enter a line to stop", engine.listening()[0]);
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
