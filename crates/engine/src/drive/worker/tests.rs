//! A worker whose rounds the test takes one by one.

use std::io::Write;
use std::sync::Arc;

use transfix_codec::{FrameWriter, Precision, tag};
use transfix_session::{BeginString, Role, SessionId};
use transfix_transport::{SocketOptions, TcpStream};

use super::*;
use crate::api::application::{Application, SessionRef};
use crate::api::owner::Owner;
use crate::assemble::open;
use crate::drive::registry::Registry as Sessions;
use crate::io::System;
use crate::link::answers::BusinessReject;
use crate::link::rule_book::RuleBook;
use crate::settings::{Durability, SessionSettings};

struct Deaf;

impl Application for Deaf {
    fn on_message(
        &mut self,
        _: &transfix_codec::Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

fn frame(msg_type: &[u8], seq: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type);
    frame.raw(b"49=THEM\x0156=US\x01");
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, System.now().utc, Precision::Millis);
    frame.raw(body);
    frame.finish().unwrap();
    out
}

/// More comes in each round than a turn takes: the session is in the list once all the same, or it
/// would have one more turn a round with each event.
#[test]
fn a_session_that_is_flooded_has_one_turn_a_round() {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "");
    settings.store.durability = Durability::Memory;
    settings.threads.turn_messages_max = 1;
    let sessions = Arc::new(Sessions::new(Arc::new(RuleBook::default())));
    let shared =
        Arc::new(open(&settings, Owner::of(Box::new(Deaf), &sessions), &sessions).unwrap());
    let mut worker =
        Worker::new(vec![DrivenSession::new(shared, None)], false, &sessions.io).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut far = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let near = listener.accept().unwrap().0;
    let stream = Box::new(TcpStream::from_std(near, &SocketOptions::default()).unwrap());
    let read = frame(b"A", 1, b"98=0\x01108=30\x01");
    let arrival = Arrival { read, ..Arrival::fresh(stream) };
    let knock = Knock::at(&Arc::default()).unwrap();
    worker.mailbox().post(Command::Attach { slot: 0, arrival, knock });
    worker.run_once(true);
    let mut seq = 2;
    for round in 0..100 {
        let orders = (0..4).flat_map(|n| frame(b"D", seq + n, b"11=a\x01"));
        far.write_all(&orders.collect::<Vec<_>>()).unwrap();
        seq += 4;
        worker.run_once(true);
        assert!(worker.again.len() <= 1, "{} turns in round {round}", worker.again.len());
    }
    let came = worker.slots[0].shared.published.counters.messages_in.get();
    assert!((20..=102).contains(&came), "{came} messages in a hundred rounds of one");
}
