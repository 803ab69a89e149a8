//! Actions of operators on a running session, such as logging in and out, disconnecting, requesting
//! resends and setting numbers.
//!
//! An action waits until the session has finished its current turn. Do not use one in a
//! latency-critical path or in a callback, where it would wait for itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use transfix_session::{BeginString, Disconnect, MSG_SEQ_NUM_MAX, Now, OperateError};

use crate::admin::action::{Action, body};
use crate::api::handle::SessionHandle;
use crate::link::{Down, Link};

impl SessionHandle {
    /// Applies an operator's action to the session, without a record in the audit file;
    /// [`Admin::act`](crate::Admin::act) writes one. Waits until the session has finished its
    /// current turn: never call this method from a callback.
    ///
    /// ```
    /// use transfix::{Action, OperateError, SessionHandle};
    ///
    /// fn end_the_day(session: &SessionHandle) -> Result<(), OperateError> {
    ///     session.operate(&Action::LogOut { text: "the day is over".to_owned() })
    /// }
    /// ```
    ///
    /// # Errors
    /// [`OperateError`]: why it was not done. An action that sends a message of the session layer
    /// needs a session that is logged on. [`OperateError::Failed`] also if the application is told
    /// of something in this thread, and panics: that costs its session, and not the caller.
    pub fn operate(&self, action: &Action) -> Result<(), OperateError> {
        let done = catch_unwind(AssertUnwindSafe(|| self.act(action)));
        done.unwrap_or_else(|_| {
            // The worker finds out which part has panicked.
            self.shared.call_worker();
            Err(OperateError::Failed)
        })
    }

    fn act(&self, action: &Action) -> Result<(), OperateError> {
        match action {
            Action::LogOn {} => self.log_on(),
            Action::LogOut { text } => self.log_out(text),
            Action::Disconnect {} => self.disconnect(),
            Action::ConnectTo { destination } => self.connect_to(*destination),
            Action::Revive {} => self.revive(),
            Action::SetNumbers { next_in, next_out } => {
                check_numbers(*next_in, *next_out)?;
                self.check_open()?;
                self.note(&set_by_hand(*next_in, *next_out));
                self.act_on_session(action)
            }
            Action::ResetAtNextLogon {}
            | Action::ResetInSession {}
            | Action::SequenceReset { .. }
            | Action::Heartbeat {}
            | Action::TestRequest { .. }
            | Action::ResendRequest { .. } => self.act_on_session(action),
            Action::Send { msg_type, fields } => {
                let fields = body(fields);
                let sent = self.send(msg_type, |message| _ = message.fields(&fields));
                sent.map(drop).map_err(OperateError::Send)
            }
            Action::HoldSending {} => self.hold_sending(),
            Action::ReleaseSending {} => self.release_sending(),
            Action::ClearQueued {} => self.clear_queued(),
        }
    }

    fn log_on(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.shared.enabled.store(true, Ordering::Release);
        self.shared.hurry.store(true, Ordering::Release);
        self.shared.call_worker();
        Ok(())
    }

    fn log_out(&self, text: &str) -> Result<(), OperateError> {
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
            // Messages that the caller has queued earlier must precede the Logout(5).
            link.executor().send_queued(self.shared.io.now(), &self.shared.queue);
            // If the link fails here, the next turn of its worker closes it.
            let waits = link.logout(self.shared.io.now(), text).unwrap_or(false);
            if !waits && link.is_up() {
                link.core_mut().cut = Some(Disconnect::Operator);
            }
        });
    }

    fn connect_to(&self, destination: usize) -> Result<(), OperateError> {
        if destination >= self.shared.destinations.len() {
            return Err(OperateError::NoDestination(destination));
        }
        self.check_open()?;
        self.shared.wanted_destination.store(destination, Ordering::Release);
        if !self.shared.link.is_poisoned() {
            self.log_out_with("the operator wants another destination");
        }
        self.log_on()
    }

    fn disconnect(&self) -> Result<(), OperateError> {
        let was_up = self.with_link(|link| {
            if link.is_up() {
                link.core_mut().cut = Some(Disconnect::Operator);
            }
            link.is_up()
        });
        self.shared.call_worker();
        if was_up { Ok(()) } else { Err(OperateError::NotConnected) }
    }

    fn revive(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.shared.hurry.store(true, Ordering::Release);
        self.shared.call_worker();
        Ok(())
    }

    fn hold_sending(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.with_link(|link| link.core_mut().outgoing.is_held_back = true);
        self.shared.holds_sending.store(true, Ordering::Release);
        Ok(())
    }

    fn release_sending(&self) -> Result<(), OperateError> {
        self.check_open()?;
        self.with_link(|link| link.core_mut().outgoing.is_held_back = false);
        self.shared.holds_sending.store(false, Ordering::Release);
        self.shared.call_worker();
        Ok(())
    }

    fn clear_queued(&self) -> Result<(), OperateError> {
        self.with_settled_link(|link| {
            link.executor().clear_queued(&self.shared.queue);
            // The worker closes a link that fails, and also handles a failed store.
            match link.flush(self.shared.io.now()) {
                Err(Down::Store(_)) => Err(OperateError::Failed),
                _ => Ok(()),
            }
        })
    }

    fn check_open(&self) -> Result<(), OperateError> {
        match self.shared.closed.load(Ordering::Acquire) {
            true => Err(OperateError::Closed),
            false => Ok(()),
        }
    }

    fn act_on_session(&self, action: &Action) -> Result<(), OperateError> {
        self.check_open()?;
        if self.shared.link.is_poisoned() {
            return Err(OperateError::Failed);
        }
        let done =
            self.with_settled_link(|link| act_on_session(link, self.shared.io.now(), action));
        if done == Err(OperateError::Vetoed) {
            // A refused session message ends the connection, which the worker closes.
            self.shared.call_worker();
        }
        done
    }

    fn note(&self, text: &str) {
        if !self.shared.link.is_poisoned() {
            // An error is ignored: a failed store fails again when the numbers are stored.
            let now = || self.shared.io.now();
            let _ = self.with_settled_link(|link| {
                link.executor().journal.note(now(), text).map_err(|_| OperateError::Failed)
            });
        }
    }
}

/// Applies an action that affects only the session layer. All other actions have no effect.
pub(crate) fn act_on_session(
    link: &mut Link,
    now: Now,
    action: &Action,
) -> Result<(), OperateError> {
    if link.has_failed() {
        return Err(OperateError::Failed);
    }
    let core = link.core_mut();
    let (session, out) = (&mut core.session, &mut core.out);
    let done = match action {
        Action::SetNumbers { next_in, next_out } => {
            check_numbers(*next_in, *next_out)?;
            next_in.iter().for_each(|next| session.set_next_num_in(*next));
            next_out.iter().for_each(|next| session.set_next_num_out(*next));
            Ok(())
        }
        Action::ResetAtNextLogon {} => {
            if session.config().id.begin_string == BeginString::Fix40 {
                return Err(OperateError::NoResetFlag);
            }
            session.reset_at_next_logon();
            Ok(())
        }
        Action::ResetInSession {} => session.reset_in_session(now, out),
        Action::SequenceReset { new_seq_no } => session.sequence_reset(now, *new_seq_no, out),
        Action::Heartbeat {} => session.heartbeat(now, out),
        Action::TestRequest { id } => session.test_request(now, id, out),
        Action::ResendRequest { begin, end } => session.request_resend(now, *begin, *end, out),
        _ => Ok(()),
    };
    // The outbound filter may refuse a message after the session has reset its numbers, so the
    // changes are stored in this case too.
    if !matches!(done, Ok(()) | Err(OperateError::Vetoed)) {
        return done;
    }
    // The worker closes a link that fails, as in `log_out_with`.
    match link.flush(now) {
        Err(Down::Store(_)) => Err(OperateError::Failed),
        _ => done,
    }
}

fn check_numbers(next_in: Option<u64>, next_out: Option<u64>) -> Result<(), OperateError> {
    let mut all = [next_in, next_out].into_iter().flatten();
    match all.find(|next| !(1..=MSG_SEQ_NUM_MAX).contains(next)) {
        Some(wrong) => Err(OperateError::MsgSeqNum(wrong)),
        None => Ok(()),
    }
}

/// The note in the journal about numbers that an operator sets.
fn set_by_hand(next_in: Option<u64>, next_out: Option<u64>) -> String {
    let mut text = "numbers set while the engine runs:".to_owned();
    for (name, next) in [("next_in", next_in), ("next_out", next_out)] {
        if let Some(next) = next {
            text += &format!(" {name} {next}");
        }
    }
    text
}
