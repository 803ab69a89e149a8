//! One end of the simulated connection: a session, its store in memory and its application.
//!
//! It drives the session by the contract of its crate. Invariant: all that the session wants to be
//! stored is stored before a byte of it leaves.

use std::collections::BTreeMap;
use std::fmt;

use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Message, Timestamp, frame, tag};
use transfix_session::{Config, Disconnect, Entry, Kind, Now, Outbox, Session, State, Verdict};

use crate::random::Random;

/// 2026-11-21 12:00:00, where the simulated wall clock begins.
const START_UTC_NS: i64 = 1_795_262_400_000_000_000;

pub(super) const fn moment(now: u64) -> Now {
    Now { utc: Timestamp(START_UTC_NS + now as i64), monotonic_ns: now }
}

/// One end.
pub(super) struct Peer {
    pub(super) session: Session,
    config: Config,
    out: Outbox,
    /// Bytes that the link takes now.
    pub(super) leaving: Vec<u8>,
    inbox: Vec<u8>,
    store: BTreeMap<u64, (Kind, Vec<u8>)>,
    /// Next numbers in and out as the store has them.
    stored: (u64, u64),
    /// Ids of the application messages that the session has accepted, and that it has delivered.
    pub(super) sent: Vec<u64>,
    pub(super) delivered: Vec<u64>,
    next_id: u64,
    /// Each delivered message is answered by another one with this chance, one in so many.
    pub(super) answer_one_in: usize,
    pub(super) resets: u64,
}

impl Peer {
    pub(super) fn new(config: Config) -> Self {
        Self {
            session: Session::new(config.clone(), 1, 1),
            config,
            out: Outbox::default(),
            leaving: Vec::new(),
            inbox: Vec::new(),
            store: BTreeMap::new(),
            stored: (1, 1),
            sent: Vec::new(),
            delivered: Vec::new(),
            next_id: 1,
            answer_one_in: 0,
            resets: 0,
        }
    }

    pub(super) fn connected(&mut self, now: u64) {
        self.session.connected(moment(now), &mut self.out);
        self.journal();
    }

    /// The link is gone, with all that has not left.
    pub(super) fn disconnected(&mut self) {
        self.session.disconnected(&mut self.out);
        self.journal();
        self.leaving.clear();
        self.inbox.clear();
    }

    /// A new process takes over: only the store is left.
    pub(super) fn restart(&mut self) {
        self.disconnected();
        self.session = Session::new(self.config.clone(), self.stored.0, self.stored.1);
    }

    /// The application sends one message, if the session takes it.
    pub(super) fn send(&mut self, now: u64) {
        let id = self.next_id;
        let fill = |body: &mut transfix_codec::Body<'_>| _ = body.uint(tag::CL_ORD_ID, id);
        if self.session.send(moment(now), b"D", &mut self.out, fill).is_ok() {
            self.sent.push(id);
            self.next_id += 1;
        }
        self.journal();
    }

    pub(super) fn logout(&mut self, now: u64) {
        self.session.logout(moment(now), "the end of the day", &mut self.out);
        self.journal();
    }

    pub(super) fn tick(&mut self, now: u64) -> Result<(), Disconnect> {
        let verdict = self.session.tick(moment(now), &mut self.out);
        self.journal();
        match verdict {
            Verdict::Disconnect(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    /// Bytes have come: handles all that is whole.
    pub(super) fn read(
        &mut self,
        now: u64,
        bytes: &[u8],
        random: &mut Random,
    ) -> Result<(), Disconnect> {
        self.inbox.extend_from_slice(bytes);
        let mut inbox = std::mem::take(&mut self.inbox);
        let mut outcome = Ok(());
        while outcome.is_ok() {
            match frame::split(&inbox, Limits::default()) {
                Frame::Whole(end) => {
                    outcome = self.receive(now, &inbox[..end], random);
                    inbox.drain(..end);
                }
                Frame::Partial => break,
                Frame::Garbled { skip, .. } => _ = inbox.drain(..skip),
            }
        }
        self.inbox = inbox;
        outcome
    }

    fn receive(&mut self, now: u64, frame: &[u8], random: &mut Random) -> Result<(), Disconnect> {
        self.receive_one(now, frame, random)?;
        while let Some(held) = self.session.take_held() {
            self.receive_one(now, &held, random)?;
        }
        Ok(())
    }

    fn receive_one(
        &mut self,
        now: u64,
        frame: &[u8],
        random: &mut Random,
    ) -> Result<(), Disconnect> {
        let mut index = FieldIndex::default();
        let Ok(message) = Message::parse(frame, &mut index, CheckSumPolicy::Verify) else {
            return Ok(());
        };
        let verdict = self.session.receive(moment(now), &message, &mut self.out);
        self.journal();
        match verdict {
            Verdict::Deliver if message.msg_type() == b"D" => {
                self.delivered.push(message.uint(tag::CL_ORD_ID).unwrap_or(0));
                if self.answer_one_in > 0 && random.below(self.answer_one_in) == 0 {
                    self.send(now);
                }
            }
            Verdict::Resend { begin, end } | Verdict::LoggedOnThenResend { begin, end } => {
                self.resend(now, begin, end);
            }
            Verdict::Disconnect(reason) => return Err(reason),
            _ => {}
        }
        Ok(())
    }

    /// Answers a ResendRequest(2) from the store; administrative messages become gap fills.
    fn resend(&mut self, now: u64, begin: u64, end: u64) {
        let now = moment(now);
        let mut out = Outbox::default();
        let mut gap = None;
        for seq in begin..=end {
            let Some((Kind::Application, stored)) = self.store.get(&seq) else {
                gap.get_or_insert(seq);
                continue;
            };
            if let Some(begin) = gap.take() {
                self.session.gap_fill(now, begin, seq, &mut out);
            }
            let mut index = FieldIndex::default();
            match Message::parse(stored, &mut index, CheckSumPolicy::Verify) {
                Ok(stored) => self.session.resend(now, &stored, &mut out),
                Err(garbled) => panic!("the session has written a message that is none: {garbled}"),
            }
        }
        if let Some(begin) = gap {
            self.session.gap_fill(now, begin, end + 1, &mut out);
        }
        assert_eq!(out.entries(), [], "what is sent again is not journalled again");
        self.leaving.extend_from_slice(out.bytes());
    }

    /// Stores what the session wants to be stored, and lets the bytes go.
    fn journal(&mut self) {
        for entry in self.out.entries() {
            match entry {
                Entry::Frame { seq, kind, range } => {
                    let bytes = self.out.bytes()[range.clone()].to_vec();
                    let old = self.store.insert(*seq, (*kind, bytes));
                    assert_eq!(old, None, "MsgSeqNum(34) {seq} is used twice");
                }
                Entry::Reset => {
                    self.store.clear();
                    self.stored = (1, 1);
                    self.resets += 1;
                }
            }
        }
        self.out.clear_entries();
        self.leaving.extend_from_slice(self.out.bytes());
        self.out.consume(self.out.bytes().len());
        let numbers = (self.session.next_num_in(), self.session.next_num_out());
        assert!(
            numbers.0 >= self.stored.0 && numbers.1 >= self.stored.1,
            "numbers go back from {:?} to {numbers:?}",
            self.stored
        );
        self.stored = numbers;
    }

    /// Whether nothing is half done.
    pub(super) fn is_quiet(&self) -> bool {
        self.session.state() == State::Active && self.inbox.is_empty() && self.leaving.is_empty()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, begin_string) = (self.session.state(), self.config.id.begin_string);
        let (next_in, next_out) = (self.session.next_num_in(), self.session.next_num_out());
        write!(f, "{begin_string} {state:?}, next numbers {next_in} in and {next_out} out, ")?;
        write!(f, "unread {:?}", self.inbox.escape_ascii().to_string())
    }
}
