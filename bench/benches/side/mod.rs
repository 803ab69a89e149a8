//! Parts that several benchmarks share: applications of the venue and its settings, frames of a
//! plain socket client, and medians.
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use transfix::{
    Application, BeginString, BusinessReject, Durability, Message, Precision, Role, SessionId,
    SessionRef, SessionSettings, clock, tag,
};
use transfix_codec::FrameWriter;

/// The CPU of the client, if the machine has enough CPUs.
pub(crate) const CLIENT_CPU: usize = 0;
/// The CPU of the venue, if the machine has enough CPUs.
pub(crate) const VENUE_CPU: usize = 1;

/// The fields of a News(B).
pub(crate) const NEWS: &[u8] = b"58=a text of some forty bytes, as they are\x01";

/// The fields of a NewOrderSingle(D).
pub(crate) const ORDER: &[u8] = b"11=5000\x0121=1\x0155=EU\x0154=1\x01\
    60=20261121-12:00:00.123\x0140=2\x0138=5\x0159=0\x0144=30\x01";

/// Echoes the text of each News(B).
pub(crate) struct Echo;

impl Application for Echo {
    fn on_message(
        &mut self,
        news: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        echo(news, session)
    }
}

/// Answers a News(B) with a News(B) of the same text.
pub(crate) fn echo(news: &Message<'_>, session: &mut SessionRef<'_>) -> Result<(), BusinessReject> {
    let text = news.required(tag::TEXT)?;
    session.send("B", |report| _ = report.bytes(tag::TEXT, text))?;
    Ok(())
}

/// Answers each order with a report that has the same ClOrdID(11).
pub(crate) struct Reports;

impl Application for Reports {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = order.required(tag::CL_ORD_ID)?;
        let now = session.now().utc;
        session.send("8", |report| {
            report.bytes(tag::CL_ORD_ID, id).uint(tag::ORDER_ID, 1).uint(tag::EXEC_ID, 1);
            report.char(tag::EXEC_TYPE, b'0').char(tag::ORD_STATUS, b'0').char(tag::SIDE, b'1');
            report.uint(tag::LEAVES_QTY, 5).uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
            report.timestamp(tag::TRANSACT_TIME, now);
        })?;
        Ok(())
    }
}

/// Returns the settings of an acceptor session for `client`, at a port that the system chooses.
pub(crate) fn acceptor(client: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", client);
    SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0")
}

/// Returns the settings of an acceptor session for `client`, with a memory store and without
/// validation.
pub(crate) fn bare_acceptor(client: &str) -> SessionSettings {
    let mut settings = acceptor(client);
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    settings
}

/// Appends a message from `client` with the MsgSeqNum(34) `seq`.
pub(crate) fn frame(out: &mut Vec<u8>, client: &str, msg_type: &str, seq: u64, fields: &[u8]) {
    let mut frame = FrameWriter::new(out, b"FIX.4.4", msg_type.as_bytes());
    for piece in [b"49=", client.as_bytes(), b"\x0156=VENUE\x01"] {
        frame.raw(piece);
    }
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
    frame.raw(fields);
    frame.finish().unwrap();
}

pub(crate) fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns the median in microseconds.
pub(crate) fn median_us(ns: &mut [u64]) -> f64 {
    ns.sort_unstable();
    ns[ns.len() / 2] as f64 / 1_000.0
}
