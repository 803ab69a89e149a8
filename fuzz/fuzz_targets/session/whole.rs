//! Tests a session with its store and application, assembled as an engine does it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use transfix::simulated::rig::{Ended, Rig, Rules};
use transfix::{BeginString, Disconnect, MSG_SEQ_NUM_MAX, Now, SessionSettings, Timestamp, tag};
use transfix_codec::{Frame, FrameWriter, Limits, frame};
use transfix_store::MemoryStore;
use transfix_transport::Stream;
use transfix_transport::memory::{MemoryStream, pipe};

use crate::Input;
use crate::application::{RandomApplication, Actions};
use crate::settings;

/// The types of the generated messages.
const TYPES: [&[u8]; 14] =
    [b"0", b"1", b"2", b"3", b"4", b"5", b"A", b"A", b"D", b"8", b"B", b"j", b"BE", b"ZZ"];
const NOON_NS: i64 = 1_795_262_400_000_000_000;

/// Returns the validation rules, which are compiled once for all runs.
fn rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(Rules::default)
}

pub(crate) fn run(mut input: Input<'_>) {
    let settings = settings::any(&mut input);
    let wishes: Actions = Arc::new(Mutex::new(VecDeque::new()));
    let application = Box::new(RandomApplication(Arc::clone(&wishes)));
    let store = Box::new(MemoryStore::new(1 << 16, NOON_NS as u64));
    let Ok(rig) = Rig::new(&settings, |_| (), store, application, rules()) else { return };
    let now = Now { utc: Timestamp(NOON_NS), monotonic_ns: 1 };
    let mut world = World { rig, settings, wishes, far: None, now };
    while !input.0.is_empty() {
        world.step(&mut input);
    }
    world.close(Disconnect::Operator);
}

struct World {
    rig: Rig,
    settings: SessionSettings,
    wishes: Actions,
    /// The counterparty's end of the connection; `None` without a connection.
    far: Option<MemoryStream>,
    now: Now,
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) {
        let wishes = input.take(4);
        self.wishes.lock().expect("one thread").extend(wishes);
        let now = self.now;
        match input.byte() % 20 {
            0 => self.close(Disconnect::LinkLost),
            1 => {
                let n = usize::from(input.byte());
                let bytes = input.take(n);
                self.arrive(bytes);
            }
            2 => self.tick(input.number()),
            3 => _ = self.rig.send(now, b"D", |order| _ = order.uint(tag::CL_ORD_ID, 1)),
            4 => {
                let fields = input.fields();
                let _ = self.rig.send(now, b"B", |news| _ = news.bytes(tag::TEXT, &fields));
            }
            5 => {
                let (begin, end) = (input.number(), input.number());
                self.operate(|s, now, out| _ = s.request_resend(now, begin, end, out));
            }
            6 => self.operate(|s, now, out| _ = s.test_request(now, "T", out)),
            7 => {
                let next = input.number();
                self.operate(|s, now, out| _ = s.sequence_reset(now, next, out));
            }
            8 => self.operate(|s, _, _| s.reset_at_next_logon()),
            9 => {
                let next = input.number().clamp(1, MSG_SEQ_NUM_MAX);
                self.operate(|s, _, _| s.set_next_num_in(next));
            }
            10 => self.operate(|s, now, out| _ = s.reset_in_session(now, out)),
            11 => self.operate(|s, now, out| _ = s.logout(now, "bye", out)),
            _ => {
                let count = input.byte() % 3 + 1;
                let messages: Vec<u8> = (0..count).flat_map(|_| self.message(input)).collect();
                self.arrive(&messages);
            }
        }
        self.turns();
    }

    fn tick(&mut self, seconds: u64) {
        let ns = seconds.min(4_000) * 1_000_000_000;
        self.now.monotonic_ns += ns;
        self.now.utc.0 += ns as i64;
        let ticked = self.rig.tick(self.now);
        self.settle(ticked);
    }

    fn operate(
        &mut self,
        act: impl FnOnce(&mut transfix_session::Session, Now, &mut transfix_session::Outbox),
    ) {
        let done = self.rig.operate(self.now, act);
        self.settle(done);
    }

    fn arrive(&mut self, bytes: &[u8]) {
        if self.far.is_none() {
            let (near, far) = pipe(1 << 16);
            self.far = Some(far);
            let attached = self.rig.attach(self.now, Box::new(near));
            self.settle(attached);
        }
        if let Some(far) = &mut self.far {
            let _ = far.write(bytes);
        }
    }

    /// Runs turns of the session until nothing is left to do, and checks that its output consists
    /// of whole messages.
    fn turns(&mut self) {
        for _ in 0..1_000 {
            if self.far.is_none() {
                return;
            }
            let turned = self.rig.turn(self.now);
            let again = matches!(turned, Ok(true));
            self.settle(turned.map(drop));
            if let Some(far) = &mut self.far {
                let mut buffer = vec![0; 1 << 16];
                let n = far.read(&mut buffer).unwrap_or(0);
                let mut sent = &buffer[..n];
                while let Frame::Whole(end) = frame::split(sent, Limits::default()) {
                    sent = &sent[end..];
                }
                // The pipe has room for the output of one turn, so no message is incomplete.
                assert!(sent.is_empty() || n == buffer.len(), "{}", sent.escape_ascii());
            }
            if !again {
                return;
            }
        }
        panic!("the session never comes to rest");
    }

    fn settle(&mut self, outcome: Result<(), Ended>) {
        match outcome {
            Ok(()) => {}
            Err(Ended::Session(reason)) => self.close(reason),
            Err(Ended::Io(_)) => self.close(Disconnect::LinkLost),
            Err(Ended::Store(error)) => panic!("a store in memory fails: {error}"),
        }
    }

    fn close(&mut self, reason: Disconnect) {
        if self.far.take().is_some() {
            self.rig.close(self.now, reason);
        }
    }

    /// Returns a frame with a mostly valid header and arbitrary fields.
    fn message(&self, input: &mut Input<'_>) -> Vec<u8> {
        let begin_string = self.settings.begin_string;
        let msg_type = TYPES[usize::from(input.byte()) % TYPES.len()];
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, begin_string.as_str().as_bytes(), msg_type);
        frame.raw(b"49=THEM\x0156=US\x01");
        let expected = self.rig.look().next_num_in;
        let seq = match input.byte() {
            n @ 0..8 => expected.saturating_add(n.into()),
            n @ 8..12 => expected.saturating_sub(u64::from(n) - 7),
            12 => input.number(),
            _ => expected,
        };
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.header_timestamp(tag::SENDING_TIME, self.now.utc, begin_string.precision());
        let mut fields = match (msg_type, input.byte() % 4) {
            (b"A", 1..) => {
                let terms = "98=0|108=30|554=sesame|464=Y|";
                let fixt = begin_string == BeginString::Fixt11;
                let terms = if fixt { format!("{terms}1137=9|") } else { terms.to_owned() };
                terms.replace('|', "\x01").into_bytes()
            }
            (b"2", 1..) => {
                format!("7={}\x0116={}\x01", input.number(), input.number()).into_bytes()
            }
            (b"4", 1..) => format!("36={}\x01123=Y\x01", input.number()).into_bytes(),
            _ => Vec::new(),
        };
        fields.extend(input.fields());
        if !fields.is_empty() && !fields.ends_with(&[1]) {
            fields.push(1);
        }
        frame.raw(&fields);
        // If the encoder refuses a field, no bytes are returned.
        if frame.finish().is_err() {
            out.clear();
        }
        // The damage includes a MsgType(35) without a value, and other changes that keep the
        // length.
        if input.byte() % 16 == 0 {
            let at = usize::from(input.byte()) % out.len().max(1);
            if let Some(byte) = out.get_mut(at) {
                *byte = input.byte();
            }
        }
        out
    }
}
