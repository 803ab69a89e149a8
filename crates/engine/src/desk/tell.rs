//! What the log and the application hear of a session that no message to the application says.
//!
//! Invariant: whatever the counterparty can repeat is told in a bounded number of lines (see
//! `repeats.rs`); its words are cut and escaped.

use std::borrow::Cow;

use transfix_codec::{Garbled, Message, raw, tag};
use transfix_session::{Now, Remark, Verdict};
use transfix_store::Store;

use super::Desk;
use crate::repeats::Cause;
use crate::told::{Disconnection, Rejected, Undone};

/// Longest Text(58) of a Logout(5) that is kept for the application.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Writes a line about something that can repeat itself, with the number of those left out.
macro_rules! tell {
    ($desk:expr, $now:expr, $cause:ident, $level:ident, $($fields:tt)*) => {
        if let Some(left_out) = $desk.repeats.tell($now.monotonic_ns, Cause::$cause) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::$level!(session = %$desk.session.config().id, left_out, $($fields)*);
        }
    };
}

impl Desk {
    /// Takes the words of the counterparty out of a Reject(3), BusinessMessageReject(j) or
    /// Logout(5), and passes them on.
    pub(super) fn heed(&mut self, now: Now, message: &Message<'_>, verdict: Verdict) {
        if message.msg_type() == b"5" {
            let text = message.raw(tag::TEXT).filter(|text| !text.is_empty());
            self.logout_text = text.map(|text| text[..text.len().min(TEXT_BYTES_MAX)].to_vec());
            return;
        }
        // A duplicate has been told before.
        let next = self.session.next_num_in();
        let seq = message.msg_seq_num();
        let is_new = seq.is_ok_and(|seq| self.expected <= seq && seq < next);
        if !is_new || !matches!(verdict, Verdict::Handled | Verdict::Deliver) {
            return;
        }
        let Some(mut rejected) = Rejected::of(message) else { return };
        let stored = match rejected.msg_type {
            b"" => self.stored_msg_type(rejected.seq),
            known => Cow::Borrowed(known),
        };
        rejected.msg_type = &stored;
        tell!(self, now, Rejected, warn, "{rejected}");
        self.with_application(now, |app, session| app.on_reject(&rejected, session));
    }

    /// MsgType(35) of a message that was sent: FIX 4.0 and 4.1 have no RefMsgType(372).
    fn stored_msg_type(&mut self, seq: u64) -> Cow<'static, [u8]> {
        let Ok(Some(stored)) = self.store.outbound(seq) else { return Cow::Borrowed(b"") };
        // It stands third: nothing else of a long message need be looked at.
        let msg_type = raw::fields(stored.bytes).nth(2).filter(|field| field.tag == tag::MSG_TYPE);
        msg_type.map_or(Cow::Borrowed(b""), |field| Cow::Owned(field.value.to_vec()))
    }

    /// Another connection of this session was closed.
    pub(crate) fn refused_connection(&mut self, now: Now, why: &str) {
        self.counters.refused += 1;
        tell!(self, now, Refused, warn, why, "refused a connection");
    }

    /// The connection broke: what follows is told as its end.
    pub(crate) fn tell_broken(&mut self, now: Now, error: &std::io::Error) {
        tell!(self, now, Ended, warn, %error, "the connection broke");
    }

    pub(super) fn tell_logon(&mut self, now: Now) {
        tell!(self, now, LoggedOn, info, "logged on");
    }

    pub(super) fn tell_resend(&mut self, now: Now, begin: u64, end: u64) {
        tell!(self, now, Resend, info, begin, end, "resending");
    }

    pub(super) fn tell_resend_loop(&mut self, now: Now, times: u32) {
        tell!(self, now, ResendLoop, warn, times, "the same ResendRequest(2) again");
    }

    pub(super) fn tell_garbled(&mut self, now: Now, reason: Garbled, bytes: usize) {
        tell!(self, now, Garbled, warn, bytes, %reason, "skipped");
    }

    pub(super) fn tell_remark(&mut self, now: Now, remark: Remark) {
        tell!(self, now, Remark, warn, "{remark}");
    }

    pub(super) fn tell_not_routed(&mut self, now: Now, why: &str) {
        tell!(self, now, NotRouted, warn, why, "a message could not be passed on");
    }

    /// What was left out since the last line of its kind.
    pub(super) fn tell_untold(&mut self, now: Now) {
        for (what, left_out) in self.repeats.take_untold(now.monotonic_ns) {
            tracing::warn!(session = %self.id(), left_out, what, "lines were left out");
        }
    }

    /// The session goes on from its store, after it had these next numbers, inbound and outbound.
    pub(super) fn tell_undone(&mut self, had: (u64, u64)) {
        let kept = (self.session.next_num_in(), self.session.next_num_out());
        let undone =
            Undone { received: kept.0..had.0.max(kept.0), sent: kept.1..had.1.max(kept.1) };
        tracing::warn!(session = %self.id(), "{undone}");
        self.application.on_undone(&self.session.config().id, &undone);
    }

    /// The connection has ended: by a fault of either side it is a warning.
    pub(super) fn tell_end(&mut self, now: Now, end: &Disconnection<'_>) {
        if end.reason.is_error() {
            tell!(self, now, Ended, warn, reason = %end, "disconnected");
        } else {
            tell!(self, now, Ended, info, reason = %end, "disconnected");
        }
    }
}
