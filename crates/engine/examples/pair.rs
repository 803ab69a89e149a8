//! A test of both sides of a session, in virtual time: no socket, thread or clock.
//!
//! `cargo run -p transfix --example pair`
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::sync::mpsc::{Sender, channel};

use transfix::simulated::Pair;
use transfix::{Application, Body, BusinessReject, Message, SessionRef, Timestamp, msg_type, tag};

/// The application of the venue: accepts every order.
struct Venue;

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let number = order.msg_seq_num()?;
        let (id, symbol) = (order.required(tag::CL_ORD_ID)?, order.required(tag::SYMBOL)?);
        session.send(msg_type::EXECUTION_REPORT, |report| {
            report.uint(tag::ORDER_ID, number).bytes(tag::CL_ORD_ID, id).uint(tag::EXEC_ID, number);
            report.char(tag::EXEC_TYPE, b'0').char(tag::ORD_STATUS, b'0');
            report.bytes(tag::SYMBOL, symbol).char(tag::SIDE, b'1');
            report.uint(tag::LEAVES_QTY, 100).uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
        })?;
        Ok(())
    }
}

/// Forwards the ClOrdID(11) of each order that the venue has accepted.
struct Client {
    accepted: Sender<String>,
}

impl Application for Client {
    fn on_message(
        &mut self,
        report: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = report.text(tag::CL_ORD_ID)?.to_owned();
        // The send fails only if the test has ended.
        let _ = self.accepted.send(id);
        Ok(())
    }
}

fn order(id: &'static str, at: Timestamp) -> impl Fn(&mut Body<'_>) {
    move |order| {
        order.str(tag::CL_ORD_ID, id).str(tag::SYMBOL, "EU").char(tag::SIDE, b'1');
        order.timestamp(tag::TRANSACT_TIME, at).uint(tag::ORDER_QTY, 100);
        order.char(tag::ORD_TYPE, b'1');
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (to, accepted) = channel();
    let mut pair = Pair::fix44(Box::new(Client { accepted: to }), Box::new(Venue))?;
    pair.connect();
    println!("{}: logged on: {}", pair.now().utc, pair.is_logged_on());

    let first = order("first", pair.now().utc);
    pair.initiator.send(pair.now(), msg_type::NEW_ORDER_SINGLE, first)?;
    pair.run();
    println!("accepted: {:?}", accepted.try_iter().collect::<Vec<_>>());

    // The order arrives, and its report is lost with the connection.
    let second = order("second", pair.now().utc);
    pair.initiator.send(pair.now(), msg_type::NEW_ORDER_SINGLE, second)?;
    pair.step();
    pair.cut();
    println!("after the cut: {:?}", accepted.try_iter().collect::<Vec<_>>());
    pair.connect();
    println!("after the resend: {:?}", accepted.try_iter().collect::<Vec<_>>());

    // Loses all bytes without closing the connection. Missing heartbeats reveal the loss.
    pair.silence();
    pair.advance(120_000);
    println!("{}: ended: {:?}", pair.now().utc, pair.initiator.ended());
    Ok(())
}
