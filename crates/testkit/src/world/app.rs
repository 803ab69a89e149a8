//! The application of one side, which numbers its messages and records all messages that it sends
//! and receives.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::{
    Application, BeginString, Body, BusinessReject, LogonAnswer, LogonAttempt, LogonRefusal,
    Message, SessionEvent, SessionNotice, SessionRef, SessionView, tag,
};

use crate::random::Random;

/// The Password(554) of both sides.
pub(super) const PASSWORD: &str = "open sesame";

/// A message that the session has accepted for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) id: u64,
    seq: u64,
    /// The epoch of the message. A new epoch begins when the sequence numbers are reset or an
    /// operator skips numbers. Messages of earlier epochs may be lost.
    pub(super) epoch: u64,
}

/// The settings of a test application, and the messages that it has sent and received.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) sent: Vec<Sent>,
    pub(super) delivered: Vec<u64>,
    /// The MsgSeqNum(34) of our messages that were answered with a BusinessMessageReject(j),
    /// because the counterparty's application was not available or a limit was exceeded.
    pub(super) rejected: BTreeSet<u64>,
    /// The IDs of our messages that the session returned before they had a MsgSeqNum(34).
    pub(super) returned: Vec<u64>,
    /// The IDs of our messages that were queued when the process ended.
    pub(super) forgotten: BTreeSet<u64>,
    /// The messages from the counterparty whose last delivery attempt failed because our
    /// application was not available.
    pub(super) declined: BTreeSet<u64>,
    next_id: u64,
    pub(super) epoch: u64,
    random: Random,
    /// The odds that the application answers a delivered message: one in `answer_one_in`.
    pub(super) answer_one_in: usize,
    /// The odds that the application rejects a delivered message: one in `refuse_one_in`.
    pub(super) refuse_one_in: usize,
    /// The odds that the application is not available for a message: one in `decline_one_in`.
    pub(super) decline_one_in: usize,
    /// The odds that the application refuses a Logon(A): one in `deny_one_in`.
    pub(super) deny_one_in: usize,
    /// The odds that the application answers a Logon(A) later instead of at once: one in
    /// `later_one_in`.
    pub(super) later_one_in: usize,
    /// The pending answer to a Logon(A), and true if the application will accept the Logon(A).
    pub(super) answer: Option<(LogonAnswer, bool)>,
    /// True if the application accepted the last Logon(A).
    admitted: bool,
    pub(super) text_bytes_max: usize,
}

/// The log of an application, which the application and the world share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Log>>);

impl Shared {
    pub(super) fn new(random: Random) -> Self {
        Self(Arc::new(Mutex::new(Log {
            sent: Vec::new(),
            delivered: Vec::new(),
            rejected: BTreeSet::new(),
            returned: Vec::new(),
            forgotten: BTreeSet::new(),
            declined: BTreeSet::new(),
            next_id: 1,
            epoch: 0,
            random,
            answer_one_in: 0,
            refuse_one_in: 0,
            decline_one_in: 0,
            deny_one_in: 0,
            later_one_in: 0,
            answer: None,
            admitted: false,
            text_bytes_max: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn chance(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    /// Returns the ID of the next message from this source and the length of its Text(58).
    pub(super) fn draw(&mut self, source: Source) -> (u64, usize) {
        let id = self.next_id + u64::from(self.next_id % 2 != source as u64);
        self.next_id = id + 1;
        (id, self.random.below(self.text_bytes_max + 1))
    }

    /// Records that the session accepted message `id` with the number `seq`.
    pub(super) fn accepted(&mut self, id: u64, seq: u64) {
        if self.sent.last().is_some_and(|last| seq <= last.seq) {
            self.epoch += 1;
        }
        self.sent.push(Sent { id, seq, epoch: self.epoch });
    }

    /// Records that message `id` is queued and has no MsgSeqNum(34) yet.
    pub(super) fn queued(&mut self, id: u64) {
        let seq = self.sent.last().map_or(0, |last| last.seq);
        self.sent.push(Sent { id, seq, epoch: self.epoch });
    }

    /// Marks the messages that the session was returning when the process ended, because the return
    /// may not have been recorded.
    pub(super) fn undo_returns(&mut self, before: usize) {
        let undone = self.returned.split_off(before);
        self.forgotten.extend(undone);
    }

    /// Records the queued messages of a process that ended. Each of these messages is lost or was
    /// sent just before the end.
    pub(super) fn forget(&mut self, bodies: &[Vec<u8>]) {
        self.forgotten.extend(bodies.iter().map(|body| id_of(body)));
    }

    /// Answers the pending Logon(A). One answer in six is dropped, which refuses the Logon(A).
    pub(super) fn give_answer(&mut self) {
        let Some((answer, admitted)) = self.answer.take() else { return };
        let is_lost = self.chance(6);
        self.admitted = admitted && !is_lost;
        match admitted {
            _ if is_lost => drop(answer),
            true => answer.accept(),
            false => answer.refuse(LogonRefusal::new("not now")),
        }
    }

    /// Records a BusinessMessageReject(j) of our message, if the reason is an unavailable
    /// application or an exceeded limit.
    fn note_reject(&mut self, message: &Message<'_>) -> Result<(), BusinessReject> {
        let seq = message.uint(tag::REF_SEQ_NUM)?;
        if matches!(message.raw(tag::BUSINESS_REJECT_REASON), Some(b"0" | b"4")) {
            self.rejected.insert(seq);
        }
        Ok(())
    }
}

/// The source of a message; messages of one source keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The message is sent from outside the session's callbacks.
    Outside,
    /// The message is an answer, which a callback sends.
    Callback,
}

/// Returns the message ID from a message's body.
fn id_of(body: &[u8]) -> u64 {
    let digits = body.iter().skip(3).take_while(|byte| **byte != 1);
    digits.fold(0, |id, digit| 10 * id + u64::from(digit - b'0'))
}

/// Writes the fields of message `id`, with a Text(58) of `text_bytes` bytes.
pub(super) fn fill(body: &mut Body<'_>, (id, text_bytes): (u64, usize)) {
    static TEXT: [u8; 2_000] = [b'x'; 2_000];
    body.uint(tag::CL_ORD_ID, id);
    if text_bytes > 0 {
        body.bytes(tag::TEXT, &TEXT[..text_bytes]);
    }
}

impl Application for Shared {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let mut log = self.lock();
        match message.msg_type().as_bytes() {
            b"D" => {}
            b"j" => return log.note_reject(message),
            _ => return Ok(()),
        }
        let id = message.uint(tag::CL_ORD_ID)?;
        let one_in = log.decline_one_in;
        if log.chance(one_in) {
            log.declined.insert(id);
            return Err(BusinessReject::not_available());
        }
        log.declined.remove(&id);
        log.delivered.push(id);
        let one_in = log.answer_one_in;
        if log.chance(one_in) {
            let drawn = log.draw(Source::Callback);
            if let Ok(seq) = session.send("D", |body| fill(body, drawn)) {
                log.accepted(drawn.0, seq);
            }
        }
        let one_in = log.refuse_one_in;
        if log.chance(one_in) { Err(BusinessReject::unsupported()) } else { Ok(()) }
    }

    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        let id = attempt.id();
        let mut log = self.lock();
        let (deny, later) = (log.deny_one_in, log.later_one_in);
        let known = logon.raw(tag::PASSWORD) == Some(PASSWORD.as_bytes());
        let known = known || id.begin_string < BeginString::Fix43;
        let admitted = known && !log.chance(deny);
        if log.chance(later) {
            log.admitted = false;
            log.answer = Some((attempt.answer_later(), admitted));
            return Ok(());
        }
        log.answer = None;
        log.admitted = admitted;
        if admitted { Ok(()) } else { Err(LogonRefusal::new("not now")) }
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            assert!(self.lock().admitted, "a session is logged on that was not admitted");
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Unsent(unsent) = notice {
            self.lock().returned.push(id_of(unsent.body));
        }
    }
}
