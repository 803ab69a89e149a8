//! Tests the session layer alone, with a driver that checks what the session requests.

use std::collections::BTreeMap;
use std::time::Duration;

use transfix_codec::{
    CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, Message, Timestamp, frame, tag,
};
use transfix_session::{
    ApplVerId, BeginString, Config, Entry, Kind, MSG_SEQ_NUM_MAX, Now, Outbox, ResetPolicy, Role,
    Session, SessionId, State, Verdict,
};

use crate::Input;

/// The types of the generated messages; the last two are application messages.
const TYPES: [&[u8]; 10] = [b"0", b"1", b"2", b"3", b"4", b"5", b"A", b"A", b"D", b"ZZ"];
const HELD_MESSAGES_MAX: usize = 8;
const HELD_BYTES_MAX: usize = 2_000;

pub(crate) fn run(mut input: Input<'_>) {
    let mut driver = Driver::new(&mut input);
    while !input.0.is_empty() {
        driver.step(&mut input);
        driver.check();
    }
}

/// The driver of one session, which fulfils the contract of the session crate.
struct Driver {
    session: Session,
    out: Outbox,
    now: Now,
    inbox: Vec<u8>,
    /// Every frame sent since the last reset, by its MsgSeqNum(34).
    sent: BTreeMap<u64, (Kind, Vec<u8>)>,
}

impl Driver {
    fn new(input: &mut Input<'_>) -> Self {
        let choices = input.byte();
        let begin_string = BeginString::ALL[usize::from(choices) % BeginString::ALL.len()];
        let role = if choices & 64 == 0 { Role::Acceptor } else { Role::Initiator };
        let mut config = Config::new(SessionId::new(begin_string, "US", "THEM"), role);
        config.protocol.default_appl_ver_id =
            (begin_string == BeginString::Fixt11).then_some(ApplVerId(9));
        let policies = [ResetPolicy::NEVER, ResetPolicy::LOGON, ResetPolicy::DISCONNECT];
        config.protocol.reset_on = policies[usize::from(input.byte()) % 3];
        config.protocol.sending_time_tolerance =
            Duration::from_secs(120) * u32::from(choices & 128 == 0);
        config.protocol.held_messages_max = HELD_MESSAGES_MAX;
        config.protocol.held_bytes_max = HELD_BYTES_MAX;
        let now = Now { utc: Timestamp(1_795_262_400_000_000_000), monotonic_ns: 1 };
        let session = Session::new(config, 1, 1);
        let (inbox, sent) = (Vec::new(), BTreeMap::new());
        Self { session, out: Outbox::default(), now, inbox, sent }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let down = self.session.state() == State::Disconnected;
        match input.byte() % 16 {
            0 if down => self.session.connected(self.now, &mut self.out),
            0 => self.disconnect(),
            1 => {
                let n = usize::from(input.byte());
                let bytes = input.take(n);
                self.arrive(bytes);
            }
            2 => self.tick(input.number()),
            3 => {
                let _ = self.session.send(self.now, b"D", &mut self.out, |body| {
                    body.uint(tag::CL_ORD_ID, 1);
                });
            }
            4 if down => {
                let _ = self.session.send_offline(self.now, b"D", &mut self.out, |_| ());
            }
            4 => _ = self.session.logout(self.now, "bye", &mut self.out),
            5 => {
                let (begin, end) = (input.number(), input.number());
                let _ = self.session.request_resend(self.now, begin, end, &mut self.out);
            }
            6 => _ = self.session.test_request(self.now, "T", &mut self.out),
            7 => {
                let next = input.number();
                let _ = self.session.sequence_reset(self.now, next, &mut self.out);
            }
            8 => self.session.reset_at_next_logon(),
            9 => {
                let next = input.number().clamp(1, MSG_SEQ_NUM_MAX);
                self.session.set_next_num_in(next);
            }
            _ => {
                let message = self.message(input);
                self.arrive(&message);
            }
        }
        self.journal();
    }

    fn tick(&mut self, seconds: u64) {
        let ns = seconds.min(100) * 1_000_000_000;
        self.now.monotonic_ns += ns;
        self.now.utc.0 += ns as i64;
        if let Verdict::Disconnect(_) = self.session.tick(self.now, &mut self.out) {
            self.disconnect();
        }
    }

    /// Returns a frame with a valid header and arbitrary fields.
    fn message(&self, input: &mut Input<'_>) -> Vec<u8> {
        let id = &self.session.config().id;
        let mut out = Vec::new();
        let msg_type = TYPES[usize::from(input.byte()) % TYPES.len()];
        let version = id.begin_string.as_str().as_bytes();
        let mut frame = FrameWriter::new(&mut out, version, msg_type);
        frame.raw(b"49=THEM\x0156=US\x01");
        let expected = self.session.next_num_in();
        let seq = match input.byte() {
            n @ 0..8 => expected.saturating_add(n.into()),
            n @ 8..12 => expected.saturating_sub(u64::from(n) - 7),
            12 => input.number(),
            _ => expected,
        };
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.header_timestamp(tag::SENDING_TIME, self.now.utc, id.begin_string.precision());
        let n = usize::from(input.byte() % 64);
        let fields: Vec<u8> =
            input.take(n).iter().map(|&b| if b == b'|' { 1 } else { b }).collect();
        frame.raw(&fields);
        if !fields.is_empty() && !fields.ends_with(&[1]) {
            frame.raw(b"\x01");
        }
        // If the encoder refuses a field, no bytes are returned.
        if frame.finish().is_err() {
            out.clear();
        }
        out
    }

    fn arrive(&mut self, bytes: &[u8]) {
        if self.session.state() == State::Disconnected {
            return;
        }
        self.inbox.extend_from_slice(bytes);
        let mut inbox = std::mem::take(&mut self.inbox);
        loop {
            let written = self.out.bytes().len();
            match frame::split(&inbox, Limits { message_bytes_max: 4_000 }) {
                Frame::Whole(end) => {
                    let went_on = self.receive(&inbox[..end], Held::No);
                    inbox.drain(..end);
                    if !went_on {
                        self.disconnect();
                        return;
                    }
                }
                Frame::Partial => break,
                Frame::Garbled { skip, .. } => _ = inbox.drain(..skip),
                // In this fuzz target, each message arrives as a whole.
                Frame::TooLong { end } => {
                    let head = &inbox[..inbox.len().min(1_000)];
                    let verdict = self.session.receive_too_long(self.now, head, &mut self.out);
                    if matches!(verdict, Verdict::Disconnect(_)) {
                        self.disconnect();
                        return;
                    }
                    inbox.drain(..end.min(inbox.len()));
                }
            }
            self.take_held();
            let grown = self.out.bytes().len() - written.min(self.out.bytes().len());
            assert!(grown <= 60_000, "{grown} bytes answer one message");
        }
        self.inbox = inbox;
    }

    fn take_held(&mut self) {
        while let Some(held) = self.session.take_held() {
            if !self.receive(&held, Held::Yes) {
                self.disconnect();
                return;
            }
        }
    }

    /// Passes a frame to the session; returns true if the session continues.
    fn receive(&mut self, frame: &[u8], held: Held) -> bool {
        let mut index = FieldIndex::default();
        let Ok(message) = Message::parse(frame, &mut index, CheckSumPolicy::Verify) else {
            return true;
        };
        let verdict = match held {
            Held::No => self.session.receive(self.now, &message, &mut self.out),
            Held::Yes => self.session.receive_held(self.now, &message, &mut self.out),
        };
        let verdict = match verdict {
            Verdict::LogonOffered => self.session.accept_logon(self.now, &mut self.out),
            verdict => verdict,
        };
        match verdict {
            Verdict::Deliver => {
                let administrative = matches!(message.msg_type().as_bytes(), [b'0'..=b'5' | b'A']);
                assert!(!administrative, "an administrative message is nobody's to read");
            }
            Verdict::Resend { begin, end } | Verdict::LoggedOnThenResend { begin, end } => {
                self.resend(begin, end);
            }
            Verdict::Disconnect(_) => return false,
            _ => {}
        }
        true
    }

    fn resend(&mut self, begin: u64, end: u64) {
        assert!(0 < begin && begin <= end && end < self.session.next_num_out());
        self.journal();
        let mut out = Outbox::default();
        let mut gap = begin;
        for (&seq, (kind, bytes)) in self.sent.range(begin..=end) {
            let mut index = FieldIndex::default();
            let stored = Message::parse(bytes, &mut index, CheckSumPolicy::Verify);
            let stored = stored.expect("what the session has written is a message");
            if *kind == Kind::Application {
                if gap < seq {
                    self.session.gap_fill(self.now, gap, seq, &mut out);
                }
                self.session.resend(self.now, &stored, &mut out);
                gap = seq + 1;
            }
        }
        if gap <= end {
            self.session.gap_fill(self.now, gap, end + 1, &mut out);
        }
        assert!(out.entries().is_empty(), "what is sent again is not journalled again");
    }

    fn disconnect(&mut self) {
        self.journal();
        self.session.disconnected(&mut self.out);
        self.journal();
        self.inbox.clear();
    }

    /// Stores the entries for the journal, and discards the bytes of the outbox.
    fn journal(&mut self) {
        for entry in self.out.entries() {
            match entry {
                Entry::Frame { seq, kind, range } => {
                    let bytes = self.out.frame(range).to_vec();
                    let old = self.sent.insert(*seq, (*kind, bytes));
                    assert!(old.is_none(), "MsgSeqNum(34) {seq} is used twice");
                }
                Entry::Reset(_) => self.sent.clear(),
            }
        }
        self.out.clear_entries();
        self.out.consume(self.out.bytes().len());
    }

    fn check(&self) {
        let (messages, bytes) = self.session.held();
        assert!(messages <= HELD_MESSAGES_MAX && bytes <= HELD_BYTES_MAX);
        let (next_in, next_out) = (self.session.next_num_in(), self.session.next_num_out());
        assert!(0 < next_in && next_in <= MSG_SEQ_NUM_MAX + 1);
        assert!(self.sent.keys().next_back().is_none_or(|last| *last < next_out));
    }
}

/// The origin of a message: received directly, or held above a gap until now.
#[derive(Clone, Copy)]
enum Held {
    No,
    Yes,
}
