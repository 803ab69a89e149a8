//! Queues messages without a logon, and ends the process at each possible disk operation. Each
//! accepted message is sent under one number, and each sent message was accepted once.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use transfix::simulated::rig::{Rig, Rules};
use transfix::{
    BeginString, Disconnect, Message, Now, Offline, Precision, Role, SessionId, SessionSettings,
    Timestamp, tag,
};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, frame};
use transfix_store::{Durability, FileStore, Options};
use transfix_testkit::app::App;
use transfix_testkit::disk::{Crash, End, SimDisk};
use transfix_testkit::random::Random;
use transfix_transport::Stream;
use transfix_transport::memory::{MemoryStream, pipe};

const NOON: Now = Now { utc: Timestamp(1_795_262_400_000_000_000), monotonic_ns: 0 };

/// The counterparty's end of the connection, with the bytes that it has read.
#[derive(Default)]
struct Far {
    stream: Option<MemoryStream>,
    read: Vec<u8>,
    sent: u64,
}

impl Far {
    fn collect(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            self.read.extend_from_slice(&buffer[..n]);
        }
    }

    fn send(&mut self, msg_type: &[u8], fields: &[u8]) {
        self.sent += 1;
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type);
        frame.raw(b"49=CLIENT\x0156=VENUE\x01");
        frame.header_uint(tag::MSG_SEQ_NUM, self.sent);
        frame.header_timestamp(tag::SENDING_TIME, NOON.utc, Precision::Millis);
        frame.raw(fields);
        frame.finish().unwrap();
        if let Some(stream) = &mut self.stream {
            assert_eq!(stream.write(&out).unwrap(), out.len());
        }
    }

    /// Returns the received orders with their numbers.
    fn orders(&self) -> Vec<(u64, String)> {
        let (mut rest, mut index, mut orders) = (&self.read[..], FieldIndex::default(), Vec::new());
        while let Frame::Whole(end) = frame::split(rest, Limits::default()) {
            let message = Message::parse(&rest[..end], &mut index, CheckSumPolicy::Verify).unwrap();
            if message.msg_type() == b"D" {
                let id = message.text(tag::CL_ORD_ID).unwrap().to_owned();
                orders.push((message.msg_seq_num().unwrap(), id));
            }
            rest = &rest[end..];
        }
        orders
    }
}

/// A case of the test: the disk, the counterparty, and the messages that were accepted.
struct Case {
    disk: SimDisk,
    far: Arc<Mutex<Far>>,
    accepted: Vec<String>,
    next: u32,
    rules: Rules,
}

impl Case {
    fn new(seed: u64, rules: &Rules) -> Self {
        let far = Arc::new(Mutex::new(Far::default()));
        let at_the_end = Arc::clone(&far);
        let on_end = move || {
            let mut far = at_the_end.lock().unwrap();
            far.collect();
            far.stream = None;
        };
        let disk = SimDisk::new(Random::new(seed), Box::new(on_end));
        Self { disk, far, accepted: Vec::new(), next: 0, rules: rules.clone() }
    }

    fn open(&self, durability: Durability) -> Option<Rig> {
        let options = Options { durability, segment_bytes_first: 300, segment_bytes_max: 900 };
        let opened = FileStore::open_on(self.disk.clone(), Path::new("/store"), options, 1);
        let (store, _) = opened.ok()?;
        let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
        let mut settings = SessionSettings::new(Role::Acceptor, &id, "");
        settings.queue.offline = Offline::Queue;
        settings.validation.validate = false;
        let (store, nothing) = (Box::new(store), Box::new(App::silent()));
        Some(Rig::new(&settings, |_| (), store, nothing, &self.rules).unwrap())
    }

    /// Sends `count` messages while the session is not logged on.
    fn queue(&mut self, rig: &Rig, count: u32) {
        for _ in 0..count {
            let id = format!("order {}", self.next);
            self.next += 1;
            let sent = rig.send(NOON, b"D", |order| _ = order.str(tag::CL_ORD_ID, &id));
            if sent.is_ok() && !self.disk.has_ended() {
                self.accepted.push(id);
            }
        }
    }

    /// Logs the counterparty on, lets it request all messages if `asks` is true, and disconnects.
    fn connect(&self, rig: &mut Rig, asks: bool) {
        if self.disk.has_ended() {
            return;
        }
        let (near, far) = pipe(100_000);
        self.far.lock().unwrap().stream = Some(far);
        let mut attached = rig.attach(NOON, Box::new(near)).is_ok();
        let words: [(&[u8], &[u8]); 2] =
            [(b"A", b"98=0\x01108=30\x01"), (b"2", b"7=1\x0116=0\x01")];
        for (msg_type, fields) in &words[..1 + usize::from(asks)] {
            self.far.lock().unwrap().send(msg_type, fields);
            while attached && !self.disk.has_ended() {
                match rig.turn(NOON) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) => attached = false,
                }
            }
        }
        self.far.lock().unwrap().collect();
        if !self.disk.has_ended() {
            rig.close(NOON, Disconnect::LinkLost);
        }
        self.far.lock().unwrap().stream = None;
    }

    /// Runs one process until the simulated disk ends it or its work is done.
    fn live(&mut self, durability: Durability) {
        let Some(mut rig) = self.open(durability) else { return };
        for count in [3, 2] {
            self.queue(&rig, count);
            self.connect(&mut rig, false);
        }
        self.queue(&rig, 1);
    }

    fn check(&self, what: &str) {
        let (mut numbers, mut ids) = (BTreeMap::new(), BTreeMap::new());
        for (seq, id) in self.far.lock().unwrap().orders() {
            let before = ids.insert(seq, id.clone()).unwrap_or_else(|| id.clone());
            assert_eq!(before, id, "{what}: number {seq} stands for two");
            let before = *numbers.entry(id.clone()).or_insert(seq);
            assert_eq!(before, seq, "{what}: {id} was sent twice");
        }
        for id in &self.accepted {
            assert!(numbers.contains_key(id), "{what}: {id} is lost");
        }
        assert!(ids.values().is_sorted(), "{what}: {ids:?}");
    }
}

fn crash_everywhere(durability: Durability, crash: Crash, seeds: u64) {
    let rules = Rules::default();
    let mut whole = Case::new(0, &rules);
    whole.live(durability);
    let events = whole.disk.events();
    assert!(events > 15 && whole.accepted.len() == 6, "{events} operations");
    for event in 1..=events {
        for end in [End::Before, End::Torn, End::After] {
            for seed in 0..seeds {
                let mut case = Case::new(seed, &rules);
                case.disk.arm(event, end);
                case.live(durability);
                let what = format!("{durability:?} {crash:?} event {event} {end:?} seed {seed}");
                assert!(case.disk.has_ended(), "{what}");
                case.disk.restart(crash);
                let mut rig = case.open(durability).unwrap();
                case.connect(&mut rig, true);
                case.check(&what);
            }
        }
    }
}

#[test]
fn a_killed_process_loses_and_repeats_nothing() {
    crash_everywhere(Durability::Process, Crash::Process, 4);
}

#[test]
fn a_power_cut_loses_and_repeats_nothing() {
    crash_everywhere(Durability::Power, Crash::Power, 12);
}
