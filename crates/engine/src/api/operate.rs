//! What operators do to a running session: log out and in, cut, ask again, set numbers.
//!
//! Each call waits for the end of the session's turn: none belongs on a hot path, nor into a
//! callback, where it would wait for itself. Each says why it is not done.

use std::sync::atomic::Ordering;

use transfix_session::{
    BeginString, Disconnect, MSG_SEQ_NUM_MAX, Now, OperateError, Outbox, Session,
};

use crate::api::handle::SessionHandle;
use crate::link::{Down, Link};

impl SessionHandle {
    /// Logs out with this Text(58) and stays disconnected until [`SessionHandle::log_on`], also a
    /// session that is not connected now, or has failed.
    ///
    /// # Errors
    /// [`OperateError::Closed`].
    pub fn log_out(&self, text: &str) -> Result<(), OperateError> {
        self.check_open()?;
        self.shared.enabled.store(false, Ordering::Release);
        if self.shared.link.is_poisoned() {
            return Ok(());
        }
        self.log_out_with(text);
        self.shared.call_worker();
        Ok(())
    }

    fn log_out_with(&self, text: &str) {
        self.with_link(|link| {
            // What the caller has sent before goes out before.
            link.core.send_queued(self.shared.io.now(), &self.shared.queue);
            // A link that fails now is closed by its worker's next turn.
            let waits = link.logout(self.shared.io.now(), text).unwrap_or(false);
            if !waits && link.is_up() {
                link.core.cut = Some(Disconnect::Operator);
            }
        });
    }

    /// Why the session's store takes nothing now: it has failed, or could not be opened at the
    /// start. Meanwhile the session has no connection, and the store is tried again in growing
    /// intervals of up to a minute. `None` if all is well.
    #[must_use]
    pub fn store_failure(&self) -> Option<String> {
        self.with_link(|link| link.core.journal.failure().map(str::to_owned))
    }

    /// Allows the session to be connected again; an initiator tries at once, however often it was
    /// refused before. Whether it is logged on then, the counterparty and the schedule say.
    ///
    /// # Errors
    /// [`OperateError::Closed`].
    pub fn log_on(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.shared.enabled.store(true, Ordering::Release);
        self.shared.hurry.store(true, Ordering::Release);
        self.shared.call_worker();
        Ok(())
    }

    /// Where an initiator connects to, each as `host:port`: `address` first, then the backups
    /// ([`FailoverSettings`](crate::FailoverSettings)). Empty for an acceptor.
    #[must_use]
    pub fn destinations(&self) -> &[String] {
        &self.shared.destinations
    }

    /// Which of [`SessionHandle::destinations`] an initiator is connected to, or has tried last;
    /// `None` for an acceptor.
    #[must_use]
    pub fn destination(&self) -> Option<usize> {
        let current = self.shared.destination.load(Ordering::Acquire);
        (current < self.shared.destinations.len()).then_some(current)
    }

    /// Connects an initiator to this one of its [`SessionHandle::destinations`], counted from 0: at
    /// once, and as [`SessionHandle::log_on`] does if it was logged out by hand. One that is
    /// connected elsewhere, or there already, logs out first. If the destination does not take it,
    /// the next one is tried as the settings say.
    ///
    /// # Errors
    /// [`OperateError::NoDestination`] if it has none of that number, [`OperateError::Closed`].
    pub fn connect_to(&self, destination: usize) -> Result<(), OperateError> {
        if destination >= self.shared.destinations.len() {
            return Err(OperateError::NoDestination(destination));
        }
        self.check_open()?;
        self.shared.wanted_destination.store(destination, Ordering::Release);
        if !self.shared.link.is_poisoned() {
            self.log_out_with("another destination is wanted");
        }
        self.log_on()
    }

    /// Drops the connection without a word. An initiator connects again after its interval.
    ///
    /// # Errors
    /// [`OperateError::NotConnected`] if there is no connection.
    pub fn disconnect(&self) -> Result<(), OperateError> {
        let was_up = self.with_link(|link| {
            if link.is_up() {
                link.core.cut = Some(Disconnect::Operator);
            }
            link.is_up()
        });
        self.shared.call_worker();
        if was_up { Ok(()) } else { Err(OperateError::NotConnected) }
    }

    /// Brings a session back at once that has failed, since its store did or since it panicked:
    /// from what its store has. [`SessionNotice::Undone`](crate::SessionNotice::Undone) says what
    /// that does not have. Without effect on a session that is connected; while the cause is
    /// still there it fails again.
    ///
    /// # Errors
    /// [`OperateError::Closed`].
    pub fn revive(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.shared.hurry.store(true, Ordering::Release);
        self.shared.call_worker();
        Ok(())
    }

    /// Sends a ResendRequest(2) for the counterparty's messages `begin` to `end`, 0 for all that
    /// follow.
    ///
    /// # Errors
    /// If it was not sent: only a logged-on session does.
    pub fn request_resend(&self, begin: u64, end: u64) -> Result<(), OperateError> {
        self.operate(|session, now, out| session.request_resend(now, begin, end, out))
    }

    /// Sends a Heartbeat(0), out of its turn.
    ///
    /// # Errors
    /// If it was not sent: only a logged-on session does.
    pub fn heartbeat(&self) -> Result<(), OperateError> {
        self.operate(Session::heartbeat)
    }

    /// Sends a TestRequest(1) with this TestReqID(112).
    ///
    /// # Errors
    /// If it was not sent: only a logged-on session does.
    pub fn test_request(&self, id: &str) -> Result<(), OperateError> {
        self.operate(|session, now, out| session.test_request(now, id, out))
    }

    /// Sends SequenceReset-Reset(4): our next message has this number, which must be higher than
    /// the present one.
    ///
    /// # Errors
    /// If it was not sent: only a logged-on session does.
    pub fn sequence_reset(&self, new_seq_no: u64) -> Result<(), OperateError> {
        self.operate(|session, now, out| session.sequence_reset(now, new_seq_no, out))
    }

    /// Resets both numbers of a session that is logged on, by a Logon(A) with
    /// ResetSeqNumFlag(141)=Y; from FIX 4.1 on.
    ///
    /// # Errors
    /// If it was not sent.
    pub fn reset_in_session(&self) -> Result<(), OperateError> {
        self.operate(Session::reset_in_session)
    }

    /// Makes our next Logon(A) reset both numbers to 1, from FIX 4.1 on.
    ///
    /// # Errors
    /// If it will not: FIX 4.0 has no word for it, and a session that has failed forgets it.
    pub fn reset_at_next_logon(&self) -> Result<(), OperateError> {
        if self.id().begin_string == BeginString::Fix40 {
            return Err(OperateError::NoResetFlag);
        }
        self.operate(|session, _, _| {
            session.reset_at_next_logon();
            Ok(())
        })
    }

    /// Sets the next numbers without a word to the counterparty: expected from it, and of ours.
    /// Only for repair, when both operators have agreed on them; `None` leaves one as it is.
    ///
    /// # Errors
    /// If neither was set: one is 0 or above [`MSG_SEQ_NUM_MAX`], or the session has failed.
    pub fn set_next_numbers(
        &self,
        next_in: Option<u64>,
        next_out: Option<u64>,
    ) -> Result<(), OperateError> {
        for next in [next_in, next_out].into_iter().flatten() {
            if !(1..=MSG_SEQ_NUM_MAX).contains(&next) {
                return Err(OperateError::MsgSeqNum(next));
            }
        }
        self.check_open()?;
        self.note(&set_by_hand(next_in, next_out));
        self.operate(|session, _, _| {
            if let Some(next) = next_in {
                session.set_next_num_in(next);
            }
            if let Some(next) = next_out {
                session.set_next_num_out(next);
            }
            Ok(())
        })
    }

    /// Holds messages of handles back in the queue of a session that is logged on, until
    /// [`SessionHandle::release_sending`]. What the application sends inside its callbacks goes out
    /// of turn, before them.
    ///
    /// # Errors
    /// [`OperateError::Closed`].
    pub fn hold_sending(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.with_link(|link| link.core.outgoing.is_held_back = true);
        self.shared.holds_sending.store(true, Ordering::Release);
        Ok(())
    }

    /// Sends what was held back, in order.
    ///
    /// # Errors
    /// [`OperateError::Closed`].
    pub fn release_sending(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.with_link(|link| link.core.outgoing.is_held_back = false);
        self.shared.holds_sending.store(false, Ordering::Release);
        self.shared.call_worker();
        Ok(())
    }

    /// The messages that wait in the queue, oldest first: MsgType(35), and the encoded fields
    /// behind the header.
    #[must_use]
    pub fn queued(&self) -> Vec<(String, Vec<u8>)> {
        self.with_link(|link| link.core.outgoing.list(&self.shared.queue))
    }

    /// Drops the messages that wait in the queue; returns how many they were.
    ///
    /// # Errors
    /// [`OperateError::Failed`] if the store fails: it may still have them.
    pub fn clear_queued(&self) -> Result<usize, OperateError> {
        self.with_link(|link| {
            let count = link.core.outgoing.list(&self.shared.queue).len();
            link.core.outgoing.clear(&self.shared.queue);
            // A link that fails is closed by its worker, which sees a failed store too.
            match link.flush(self.shared.io.now()) {
                Err(Down::Store(_)) => Err(OperateError::Failed),
                _ => Ok(count),
            }
        })
    }

    fn check_open(&self) -> Result<(), OperateError> {
        match self.shared.closed.load(Ordering::Acquire) {
            true => Err(OperateError::Closed),
            false => Ok(()),
        }
    }

    fn operate(
        &self,
        act: impl FnOnce(&mut Session, Now, &mut Outbox) -> Result<(), OperateError>,
    ) -> Result<(), OperateError> {
        self.check_open()?;
        if self.shared.link.is_poisoned() {
            return Err(OperateError::Failed);
        }
        self.with_link(|link: &mut Link| {
            if link.core.journal.has_failed() {
                return Err(OperateError::Failed);
            }
            let now = self.shared.io.now();
            act(&mut link.core.session, now, &mut link.core.out)?;
            // As in log_out: the worker closes a link that fails.
            match link.flush(now) {
                Err(Down::Store(_)) => Err(OperateError::Failed),
                _ => Ok(()),
            }
        })
    }

    fn note(&self, text: &str) {
        if !self.shared.link.is_poisoned() {
            // A store that fails here fails again when the numbers are put.
            self.with_link(|link| drop(link.core.journal.note(self.shared.io.now(), text)));
        }
    }
}

/// What the journal says of numbers that an operator sets.
fn set_by_hand(next_in: Option<u64>, next_out: Option<u64>) -> String {
    let mut text = "numbers set while the engine runs:".to_owned();
    for (name, next) in [("next_in", next_in), ("next_out", next_out)] {
        if let Some(next) = next {
            text += &format!(" {name} {next}");
        }
    }
    text
}
