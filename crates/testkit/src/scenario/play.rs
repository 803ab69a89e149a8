//! Plays a scenario in a world; the player acts as the counterparty of the session under test.
//!
//! Every scenario also checks these laws: the frames of the session under test are well-formed and
//! carry the right CompIDs. New messages have consecutive sequence numbers. No unexpected event
//! occurs.

use std::collections::BTreeMap;
use std::time::Duration;

use transfix_codec::{CheckSumPolicy, FieldIndex, Message, Timestamp, tag};

use super::line::{self, OURS, THEIRS, Words};
use super::{Failure, Line, Scenario, Side, Step, Version};

/// The number of transcript entries in a failure report.
const TRANSCRIPT_ENTRIES: usize = 12;
/// The highest sequence number that the counterparty continues from. A SequenceReset(4) to a higher
/// number is part of an attack in the scenario.
const NUMBER_MAX: u64 = 1_000_000_000_000;

/// An event that the counterparty observes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A complete message has arrived.
    Message(Vec<u8>),
    /// The session under test has closed the connection.
    Closed,
    /// No event has occurred within the world's waiting time.
    Nothing,
}

/// An operator's action on the session under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Logs out with this text as Text(58).
    Logout(String),
    /// Disconnects without a Logout(5).
    Disconnect,
    /// Sends a TestRequest(1) with this TestReqID(112).
    TestRequest(String),
    /// Sends a ResendRequest(2) with this BeginSeqNo(7) and EndSeqNo(16).
    ResendRequest(u64, u64),
    /// Sends a SequenceReset(4) in Reset mode, with this number as NewSeqNo(36).
    SequenceReset(u64),
    /// Makes the next Logon(A) of the session under test reset the sequence numbers.
    ResetAtLogon,
    /// Resets the sequence numbers while the session is logged on.
    ResetInSession,
    /// Sets the inbound MsgSeqNum(34) that our session expects next.
    NextIn(u64),
    /// Sets the next outbound MsgSeqNum(34).
    NextOut(u64),
    /// Ends the session under test without a Logout(5), and restarts it from its store.
    Restart,
}

/// The environment in which a scenario runs: the session under test, its application, a connection
/// and a clock.
pub trait World {
    /// Returns the time of the wall clock in this environment.
    fn now(&self) -> Timestamp;

    /// Establishes a connection between the counterparty and the session under test; the initiator
    /// among the two connects.
    ///
    /// # Errors
    /// If no connection comes up.
    fn connect(&mut self) -> Result<(), String>;

    /// Closes the connection from the counterparty's end.
    fn close(&mut self);

    /// Sends bytes from the counterparty to the session under test.
    ///
    /// # Errors
    /// If the connection is closed.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// Sends these bytes over a second connection while the first connection stays open. Returns
    /// the next event on the second connection.
    ///
    /// # Errors
    /// If this world supports only one connection.
    fn intrude(&mut self, bytes: &[u8]) -> Result<Answer, String>;

    /// Returns the next event that the counterparty observes. If `hopes` is true, an event is
    /// expected, so the world may wait longer.
    fn next(&mut self, hopes: bool) -> Answer;

    /// Lets the given time pass.
    fn wait(&mut self, time: Duration);

    /// Makes the application of the session under test send an order, such as `35=D|11=a`.
    ///
    /// # Errors
    /// The reason for the refusal.
    fn order(&mut self, fields: &str) -> Result<(), String>;

    /// Carries out an operator's action on the session under test.
    ///
    /// # Errors
    /// If this world does not support the action.
    fn operate(&mut self, operation: &Operation) -> Result<(), String>;

    /// Returns the next message that the application has received. `hopes` is true if a message is
    /// expected, as in [`World::next`].
    fn delivered(&mut self, hopes: bool) -> Option<Vec<u8>>;

    /// Returns MsgType(35) and the fields of the next unsent message that the application got back;
    /// `None` if this world has no such information.
    fn returned(&mut self) -> Option<Vec<u8>>;

    /// Returns the reason why the session closed the last connection; `None` if this world cannot
    /// find out.
    fn reason(&mut self) -> Option<String>;

    /// Returns the next inbound and outbound sequence numbers; `None` if this world cannot find
    /// out.
    fn numbers(&mut self) -> Option<(u64, u64)>;
}

/// Plays `scenario` in one FIX version.
///
/// # Errors
/// The first step that failed.
pub fn play(scenario: &Scenario, version: Version, world: &mut dyn World) -> Result<(), Failure> {
    let mut player = Player {
        side: scenario.side,
        version,
        world,
        waited: Duration::ZERO,
        next: 1,
        next_out: None,
        sent: BTreeMap::new(),
        transcript: Vec::new(),
        unread: None,
    };
    let applies = |line: &&Line| line.versions.as_ref().is_none_or(|v| v.contains(&version));
    for line in scenario.steps.iter().filter(applies) {
        player.step(&line.step).map_err(|what| player.failure(line, what))?;
    }
    let end = Line { number: 0, text: "the end".to_owned(), versions: None, step: Step::Silence };
    player.nothing_more().map_err(|what| player.failure(&end, what))
}

struct Player<'w> {
    side: Side,
    version: Version,
    world: &'w mut dyn World,
    /// The total waiting time of the scenario so far.
    waited: Duration,
    /// The next MsgSeqNum(34) of the counterparty.
    next: u64,
    /// The MsgSeqNum(34) expected in the next new message of the session under test. `None` if the
    /// number is not known yet or a step has changed it.
    next_out: Option<u64>,
    /// The SendingTime(52) of each message that the session under test has sent for the first time,
    /// by MsgSeqNum(34).
    sent: BTreeMap<u64, String>,
    transcript: Vec<String>,
    /// An event that the player has received but not yet checked.
    unread: Option<Answer>,
}

impl Player<'_> {
    fn failure(&self, line: &Line, what: String) -> Failure {
        let from = self.transcript.len().saturating_sub(TRANSCRIPT_ENTRIES);
        let transcript = self.transcript[from..].to_vec();
        let (line, text) = (line.number, line.text.clone());
        Failure { line, text, what, transcript, waited: self.waited }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Connect => self.connect(),
            Step::Logon(fields) => self.logon(fields),
            Step::In(text) => self.send(text),
            Step::Raw(text) => {
                let bytes = line::raw(&self.expand(text)?);
                self.next += u64::from(text.contains("34={n}"));
                self.put(&bytes)
            }
            Step::Out(text) => {
                let expected = self.expand(text)?;
                self.expect(&expected)
            }
            Step::Rejects(text) => {
                let expected = line::reject(&self.expand(text)?, self.version);
                self.expect(&expected)
            }
            Step::App(text) => self.expect_delivered(text),
            Step::Returned(text) => self.expect_returned(text),
            Step::Silence => self.silence(),
            Step::Closed(words) => self.expect_closed(words),
            Step::Close => {
                self.transcript.push("  the counterparty closes".to_owned());
                self.world.close();
                self.unread = None;
                Ok(())
            }
            Step::Intrude(text) => self.intrude(text),
            Step::Wait(time) => {
                self.transcript.push(format!("  {time:?} pass"));
                self.world.wait(*time);
                self.waited += *time;
                Ok(())
            }
            Step::Send(text, refusal) => self.order(text, refusal.as_deref()),
            Step::Operate(operation) => {
                self.transcript.push(format!("  operator: {operation:?}"));
                if matches!(
                    operation,
                    Operation::NextOut(_) | Operation::SequenceReset(_) | Operation::ResetInSession
                ) {
                    self.next_out = None;
                }
                self.world.operate(operation)
            }
            Step::Numbers(next_in, next_out) => match self.world.numbers() {
                Some(found) if found != (*next_in, *next_out) => {
                    Err(format!("the next numbers in and out are {found:?}"))
                }
                _ => Ok(()),
            },
        }
    }

    fn expand(&self, text: &str) -> Result<String, String> {
        self.words().expand(text)
    }

    fn words(&self) -> Words<'_> {
        let Self { version, next, .. } = *self;
        Words { version, next, now: self.world.now(), sent: &self.sent }
    }

    fn connect(&mut self) -> Result<(), String> {
        self.transcript.push("  a connection comes up".to_owned());
        self.unread = None;
        self.world.connect()
    }

    /// Exchanges Logon(A) with the default fields, except where `fields` overrides them.
    fn logon(&mut self, fields: &str) -> Result<(), String> {
        let given = |tag: &str| fields.split('|').any(|f| f.split('=').next() == Some(tag));
        let usual = self.expand("{logon}")?;
        let terms = usual.split('|').filter(|f| f.split('=').next().is_some_and(|t| !given(t)));
        let mut line = String::from("35=A");
        for field in terms.chain(fields.split('|')).filter(|field| !field.is_empty()) {
            line.push('|');
            line.push_str(field);
        }
        self.connect()?;
        match self.side {
            Side::Acceptor => {
                self.send(&line)?;
                self.expect("35=A")
            }
            Side::Initiator => {
                self.expect("35=A")?;
                self.send(&line)
            }
        }
    }

    fn send(&mut self, text: &str) -> Result<(), String> {
        let resets = text.starts_with("35=A|") && text.contains("|141=Y");
        if resets && !text.contains("|34=") {
            self.next = 1;
        }
        let line = self.expand(text)?;
        let outgoing = line::frame(&line, &self.words());
        self.count(&line, outgoing.number);
        self.put(&outgoing.bytes)
    }

    /// Sends a message over a second connection. The message does not change the counterparty's
    /// next sequence number.
    fn intrude(&mut self, text: &str) -> Result<(), String> {
        let line = self.expand(text)?;
        let bytes = line::frame(&line, &self.words()).bytes;
        self.transcript.push(format!("  another connection: {}", line::shown(&bytes)));
        match self.world.intrude(&bytes)? {
            Answer::Closed => Ok(()),
            Answer::Nothing => Err("the other connection is still up".to_owned()),
            Answer::Message(bytes) => Err(format!("it got {}", line::shown(&bytes))),
        }
    }

    /// Makes the counterparty continue after the highest sequence number that it has used or
    /// announced.
    fn count(&mut self, line: &str, number: Option<u64>) {
        let Some(number) = number.filter(|number| *number < NUMBER_MAX) else { return };
        let field = |tag: &str| {
            line.split('|').find_map(|f| f.strip_prefix(tag)?.strip_prefix('=')?.parse().ok())
        };
        if line.starts_with("35=A") {
            self.next = number + 1;
        } else if line.starts_with("35=4") {
            let new: Option<u64> = field("36").filter(|new| *new < NUMBER_MAX);
            self.next = self.next.max(new.unwrap_or(number + 1));
        } else if number >= self.next {
            self.next = number + 1;
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.transcript.push(format!("< {}", line::shown(bytes)));
        self.world.send(bytes)
    }

    fn answer(&mut self, hopes: bool) -> Answer {
        self.unread.take().unwrap_or_else(|| self.world.next(hopes))
    }

    fn expect(&mut self, expected: &str) -> Result<(), String> {
        let bytes = match self.answer(true) {
            Answer::Message(bytes) => bytes,
            Answer::Closed => return Err(format!("expected {expected}, but it is closed")),
            Answer::Nothing => return Err(format!("expected {expected}, but nothing came")),
        };
        self.transcript.push(format!("> {}", line::shown(&bytes)));
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify)
            .map_err(|garbled| format!("what we sent is garbled: {garbled}"))?;
        match line::mismatch(expected, &message) {
            Some(what) => Err(what),
            None => self.check_laws(&message),
        }
    }

    fn check_laws(&mut self, message: &Message<'_>) -> Result<(), String> {
        let laws = format!("8={}|49={OURS}|56={THEIRS}|52", self.version.begin_string());
        if let Some(what) = line::mismatch(&laws, message) {
            return Err(what);
        }
        if message.flag(tag::POSS_DUP_FLAG) == Ok(true) {
            return Ok(());
        }
        let number = message.msg_seq_num().map_err(|reject| reject.to_string())?;
        let begins = message.msg_type() == b"A";
        if let Some(expected) = self.next_out.filter(|expected| *expected != number && !begins) {
            return Err(format!("MsgSeqNum(34) {number} of a new message should be {expected}"));
        }
        self.next_out = match message.msg_type().as_bytes() {
            b"4" => message.uint(tag::NEW_SEQ_NO).ok(),
            _ => Some(number + 1),
        };
        let time = message.text(tag::SENDING_TIME).unwrap_or_default().to_owned();
        self.sent.insert(number, time);
        Ok(())
    }

    fn expect_delivered(&mut self, text: &str) -> Result<(), String> {
        let expected = self.expand(text)?;
        let bytes = self.world.delivered(true);
        let bytes = bytes.ok_or_else(|| format!("the application did not get {expected}"))?;
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore)
            .map_err(|garbled| format!("what was delivered is garbled: {garbled}"))?;
        match line::mismatch(&expected, &message) {
            Some(what) => Err(format!("the application got another message: {what}")),
            None => Ok(()),
        }
    }

    fn expect_returned(&mut self, text: &str) -> Result<(), String> {
        let expected = self.expand(text)?;
        match self.world.returned().map(|bytes| line::shown(&bytes)) {
            Some(found) if found.trim_end_matches('|') == expected => Ok(()),
            Some(found) => Err(format!("the application got back {found}")),
            None => Err("the application got nothing back".to_owned()),
        }
    }

    fn silence(&mut self) -> Result<(), String> {
        match self.answer(false) {
            Answer::Nothing => self.nothing_delivered(),
            Answer::Closed => Err("the connection is closed".to_owned()),
            Answer::Message(bytes) => Err(format!("there came {}", line::shown(&bytes))),
        }
    }

    fn expect_closed(&mut self, words: &str) -> Result<(), String> {
        match self.answer(true) {
            Answer::Closed => {}
            Answer::Nothing => return Err("the connection is still up".to_owned()),
            Answer::Message(bytes) => {
                return Err(format!("still open; there came {}", line::shown(&bytes)));
            }
        }
        self.transcript.push("  we have closed".to_owned());
        self.unread = Some(Answer::Closed);
        match self.world.reason() {
            Some(reason) if !reason.contains(words) => Err(format!("the reason is {reason:?}")),
            _ => Ok(()),
        }
    }

    fn order(&mut self, text: &str, refusal: Option<&str>) -> Result<(), String> {
        let line = self.expand(text)?;
        self.transcript.push(format!("  application: {line}"));
        match (self.world.order(&line), refusal) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(_)) => Err("it was not refused".to_owned()),
            (Err(error), None) => Err(format!("it was refused: {error}")),
            (Err(error), Some(words)) if error.contains(words) => Ok(()),
            (Err(error), Some(_)) => Err(format!("it was refused otherwise: {error}")),
        }
    }

    fn nothing_delivered(&mut self) -> Result<(), String> {
        if let Some(bytes) = self.world.delivered(false) {
            return Err(format!("the application got {}", line::shown(&bytes)));
        }
        match self.world.returned() {
            None => Ok(()),
            Some(bytes) => Err(format!("the application got back {}", line::shown(&bytes))),
        }
    }

    /// Checks that no unexpected event is pending, whether the connection is open or closed.
    fn nothing_more(&mut self) -> Result<(), String> {
        match self.answer(false) {
            Answer::Message(bytes) => Err(format!("there came {}", line::shown(&bytes))),
            Answer::Nothing | Answer::Closed => self.nothing_delivered(),
        }
    }
}
