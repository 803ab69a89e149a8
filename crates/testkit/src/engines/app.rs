//! The applications that run in the simulated engines.

use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};

use transfix::{
    Application, Body, BusinessReject, Direction, LogonAttempt, LogonRefusal, Message, SendError,
    Sent, SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef, SessionView, State,
    tag,
};

use super::ledger::{Board, CALLBACK, Lost};
use super::machine::MS;

/// The source number of the first session that routes messages to other sessions from its
/// callbacks; session n uses `ROUTED + n`.
const ROUTED: u64 = 8;

/// The application for one session on one side.
pub(super) struct App {
    pub(super) board: Arc<Board>,
    pub(super) side: usize,
    pub(super) session: usize,
    /// The identities of all sessions on this side, the targets of routed messages.
    pub(super) others: Arc<Vec<SessionId>>,
    /// True if callbacks run in an application thread. Wire callbacks are off in this case, because
    /// they would change the timing.
    pub(super) is_pooled: bool,
    /// The state of the session as last reported to the application.
    pub(super) state: State,
}

impl App {
    const fn mine(&self) -> (usize, usize) {
        (self.side, self.session)
    }

    fn answer(&self, session: &mut SessionRef<'_>) {
        let id = self.board.with(self.mine(), |ledger| ledger.draw(CALLBACK));
        let sent = session.send("D", |body| fill(body, id));
        self.board.machine.say(|| {
            format!("side {} answers by {id} in session {}: {sent:?}", self.side, self.session)
        });
        match sent {
            Ok(seq) => self.board.with(self.mine(), |ledger| ledger.accept(id, Some(seq))),
            Err(_) => self.board.with(self.mine(), |ledger| ledger.refuse(id)),
        }
    }

    fn route(&self, session: &SessionRef<'_>) {
        let to = self.board.machine.below(self.others.len());
        if to == self.session {
            return;
        }
        if let Some(handle) = session.other(&self.others[to]) {
            send(&self.board, (self.side, to), &handle, ROUTED + self.session as u64);
        }
    }
}

/// Sends the next message of this source through the session handle, and records the result in the
/// ledger.
pub(super) fn send(board: &Board, at: (usize, usize), handle: &SessionHandle, source: u64) {
    let id = board.with(at, |ledger| ledger.draw(source));
    // In one case of eight, the thread writes the body slowly, so that the engine may stop in the
    // meantime.
    let machine = &board.machine;
    let pause_ms = if machine.below(8) == 0 { machine.below(300) as u64 } else { 0 };
    let sent = handle.send("D", |body| {
        if pause_ms > 0 {
            machine.sleep(pause_ms * MS);
        }
        fill(body, id);
    });
    machine.say(|| format!("side {} sends {id} in session {}: {sent:?}", at.0, at.1));
    board.with(at, |ledger| match sent {
        Ok(Sent::Direct(seq) | Sent::Stored(seq)) => ledger.accept(id, Some(seq)),
        Ok(_) => ledger.accept(id, None),
        // The store may or may not contain the message.
        Err(SendError::Failed) => {}
        Err(_) => ledger.refuse(id),
    });
}

fn fill(body: &mut Body<'_>, id: u64) {
    body.uint(tag::CL_ORD_ID, id);
}

/// Returns the message ID, which the body holds as ClOrdID(11).
fn id_of(body: &[u8]) -> u64 {
    let digits = body.iter().skip(3).take_while(|byte| **byte != 1);
    digits.fold(0, |id, digit| 10 * id + u64::from(digit - b'0'))
}

impl Application for App {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if message.msg_type() != "D" {
            return Ok(());
        }
        let id = message.uint(tag::CL_ORD_ID)?;
        let seq = message.uint(tag::MSG_SEQ_NUM)?;
        if self.is_pooled && self.board.chance(self.board.odds().pause) {
            // Until the sleep ends, the message does not count as delivered, even if the session
            // rolls back in the meantime.
            self.board.machine.sleep(self.board.machine.below(200) as u64 * MS);
        }
        self.board
            .machine
            .say(|| format!("side {} gets {id} as {seq} in session {}", self.side, self.session));
        self.board.deliver(self.mine(), id, seq);
        let odds = self.board.odds();
        if self.board.chance(odds.answer) {
            self.answer(session);
        }
        if self.board.chance(odds.route) {
            self.route(session);
        }
        if self.board.chance(odds.panic) {
            self.board.machine.say(|| format!("side {} panics at {id}", self.side));
            // `resume_unwind` panics without printing a message.
            resume_unwind(Box::new(()));
        }
        Ok(())
    }

    fn judge_logon(
        &mut self,
        _: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        if self.board.chance(self.board.odds().later) {
            let questions = &self.board.questions[self.side];
            questions.lock().unwrap_or_else(PoisonError::into_inner).push(attempt.answer_later());
        }
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        // The engine must refuse a Logon(A) from an application.
        if session.send("A", |_| ()).is_ok() {
            self.board.machine.breaks(|| format!("a Logon(A) is sent at {event:?}"));
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        match notice {
            SessionNotice::RolledBack(undone) => {
                let mut numbers = session.next_numbers();
                if self.is_pooled {
                    // The session has already continued and may have recorded more messages, so the
                    // range in the notice counts.
                    let nothing = undone.received.is_empty();
                    numbers.0 = if nothing { u64::MAX } else { undone.received.start };
                }
                self.board.machine.say(|| {
                    format!(
                        "side {} goes on with {numbers:?} in session {}",
                        self.side, self.session
                    )
                });
                self.board.undo(self.mine(), numbers, Lost::Turn);
            }
            SessionNotice::StateChanged { from, to } => {
                let before = std::mem::replace(&mut self.state, to);
                if before != from || from == to {
                    let (side, session) = self.mine();
                    self.board.machine.breaks(|| {
                        let what = format!("{from:?} to {to:?} behind {before:?}");
                        format!("side {side} is told of {what} in session {session}")
                    });
                }
            }
            SessionNotice::Unsent(unsent) => {
                let id = id_of(unsent.body);
                self.board.machine.say(|| format!("side {} gets back {id}", self.side));
                self.board.give_back(self.mine(), id);
                let machine = &self.board.machine;
                if machine.below(16) == 0 {
                    // During the sleep, other threads run and find the session locked.
                    machine.sleep(machine.below(20) as u64 * MS);
                }
                if self.board.chance(self.board.odds().panic) {
                    resume_unwind(Box::new(()));
                }
            }
            SessionNotice::Disconnected(end) => {
                let reason = end.reason;
                self.board
                    .machine
                    .say(|| format!("side {}, session {}: {reason}", self.side, self.session));
                *self.board.ends.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
            _ => {}
        }
    }

    fn wants_wire(&self) -> bool {
        self.board.machine.is_traced() && !self.is_pooled
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], _: &SessionView<'_>) {
        self.board.machine.say(|| {
            let text = String::from_utf8_lossy(frame).replace('\x01', "|");
            format!("side {}, session {} {direction:?}: {text:.300}", self.side, self.session)
        });
    }
}
