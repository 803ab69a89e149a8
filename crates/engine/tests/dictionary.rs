//! The effects of dictionaries on a session: venue fields, data fields, and checks that are on or
//! off.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::mpsc::{Sender, channel};

use transfix::simulated::Simulation;
use transfix::{
    Application, BusinessReject, Message, Now, SessionRef, Settings, Tag, Timestamp, msg_type, tag,
};
use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter};
use transfix_testkit::temp::TempDir;

/// An application that forwards the venue's own field Note(9002) of each message.
struct Venue {
    notes: Sender<Vec<u8>>,
}

impl Application for Venue {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let note = message.raw(Tag(9002)).unwrap_or(b"none").to_vec();
        self.notes.send(note).map_err(|_| BusinessReject::unsupported())
    }
}

const OVERLAY: &str = "<fix base='FIX44'>
  <fields>
    <field number='9001' name='NoteLen' type='LENGTH'/>
    <field number='9002' name='Note' type='DATA'/>
  </fields>
  <messages><message name='NewOrderSingle'>
    <field name='NoteLen'/><field name='Note'/>
  </message></messages>
</fix>";

fn frame(msg_type: &[u8], seq: u64, fields: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", msg_type);
    frame.raw(b"49=CLIENT\x0156=VENUE\x01");
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.raw(b"52=20261121-12:00:00\x01");
    frame.raw(fields.replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    bytes
}

#[test]
fn a_venues_data_field_and_its_checks() {
    let dir = TempDir::new();
    let overlay = dir.path().join("venue.xml");
    std::fs::write(&overlay, OVERLAY).unwrap();
    let text = format!(
        "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
         target_comp_id = \"CLIENT\"\naddress = \"127.0.0.1:0\"\nstore_dir = {:?}\n\
         dictionary = {{ base = \"FIX44\", overlays = [{overlay:?}] }}\n\
         checks = {{ codes = false, empty_groups = true }}\n",
        dir.path()
    );
    let settings = Settings::parse("venue.toml", &text).unwrap();
    let utc = Timestamp::parse(b"20261121-12:00:00").unwrap();
    let now = Now { utc, monotonic_ns: 1_000_000_000 };
    let (notes, received) = channel();
    let mut session =
        Simulation::default().session(&settings.sessions[0], Box::new(Venue { notes })).unwrap();
    session.connect(now);
    let mut turn = |bytes: &[u8]| {
        session.receive(now, bytes);
        session.take_output()
    };
    assert!(!turn(&frame(b"A", 1, "98=0|108=30|")).is_empty());
    let order = "11=1|55=EU|54=1|60=20261121-12:00:00|38=1|40=1|";
    assert!(turn(&frame(b"D", 2, &format!("{order}9001=3|9002=a|b|"))).is_empty());
    assert_eq!(received.try_recv().unwrap(), b"a\x01b");
    // An undefined code is accepted, because this session does not check codes. A group without
    // entries is refused.
    assert!(turn(&frame(b"D", 3, &order.replace("54=1", "54=~"))).is_empty());
    assert_eq!(received.try_recv().unwrap(), b"none");
    let refused = turn(&frame(b"D", 4, &format!("{order}453=0|")));
    assert!(received.try_recv().is_err());
    let mut index = FieldIndex::default();
    let reject = Message::parse(&refused, &mut index, CheckSumPolicy::Verify).unwrap();
    assert_eq!(
        (reject.msg_type(), reject.raw(tag::REF_TAG_ID)),
        (msg_type::REJECT, Some(&b"453"[..]))
    );
    let text = reject.text(tag::TEXT).unwrap();
    assert!(text.ends_with(", tag 453 [MsgSeqNum 4, MsgType D]"), "{text}");
}
