//! What the log and the application hear of a session that no message to the application says.
//!
//! Invariant: whatever the counterparty can repeat is told in a bounded number of lines (see
//! `repeats.rs`); its words are cut and escaped.

use std::borrow::Cow;

use transfix_codec::{Garbled, Message, raw, tag};
use transfix_session::{Now, Remark, SendError, Verdict};
use transfix_store::{Store, StoreError};

use super::Core;
use crate::link::told::{Disconnection, Rejected, Undone};
use crate::observe::repeats::tell;

/// Longest Text(58) of a Logout(5) that is kept for the application.
const TEXT_BYTES_MAX: usize = 4 << 10;

impl Core {
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
        tell!(
            self.repeats,
            now.monotonic_ns,
            Rejected,
            warn,
            session = display(self.id()),
            "{rejected}"
        );
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
        self.published.counters.refused.add(1);
        tell!(
            self.repeats,
            now.monotonic_ns,
            Refused,
            warn,
            session = display(self.id()),
            why,
            "refused a connection"
        );
    }

    /// The connection broke: what follows is told as its end.
    pub(crate) fn tell_broken(&mut self, now: Now, error: &std::io::Error) {
        tell!(
            self.repeats, now.monotonic_ns, Ended, warn,
            session = display(self.id()), %error, "the connection broke"
        );
    }

    pub(super) fn tell_logon(&mut self, now: Now) {
        tell!(
            self.repeats,
            now.monotonic_ns,
            LoggedOn,
            info,
            session = display(self.id()),
            "logged on"
        );
    }

    pub(super) fn tell_resend(&mut self, now: Now, begin: u64, end: u64) {
        tell!(
            self.repeats,
            now.monotonic_ns,
            Resend,
            info,
            session = display(self.id()),
            begin,
            end,
            "resending"
        );
    }

    pub(super) fn tell_resend_loop(&mut self, now: Now, times: u32) {
        tell!(
            self.repeats,
            now.monotonic_ns,
            ResendLoop,
            warn,
            session = display(self.id()),
            times,
            "the same ResendRequest(2) again"
        );
    }

    pub(super) fn tell_garbled(&mut self, now: Now, reason: Garbled, bytes: usize) {
        tell!(
            self.repeats, now.monotonic_ns, Garbled, warn,
            session = display(self.id()), bytes, %reason, "skipped"
        );
    }

    pub(super) fn tell_remark(&mut self, now: Now, remark: Remark) {
        tell!(
            self.repeats,
            now.monotonic_ns,
            Remark,
            warn,
            session = display(self.id()),
            "{remark}"
        );
    }

    pub(super) fn tell_not_routed(&mut self, now: Now, why: &str) {
        tell!(
            self.repeats,
            now.monotonic_ns,
            NotRouted,
            warn,
            session = display(self.id()),
            why,
            "a message could not be passed on"
        );
    }

    /// What was left out since the last line of its kind.
    pub(crate) fn tell_untold(&mut self, now: Now) {
        let untold = self.repeats.take_untold(now.monotonic_ns);
        self.tell_counts(untold);
    }

    /// When [`Core::tell_untold`] has something to tell, on the monotonic clock.
    pub(crate) const fn untold_deadline(&self) -> Option<u64> {
        self.repeats.deadline()
    }

    /// The engine ends: all that was left out.
    pub(crate) fn tell_rest(&mut self) {
        let rest = self.repeats.take_rest();
        self.tell_counts(rest);
    }

    fn tell_counts(&self, counts: Vec<(&'static str, u64)>) {
        for (what, left_out) in counts {
            tracing::warn!(session = %self.id(), left_out, what, "lines were left out");
        }
    }

    /// No connection could be made.
    pub(crate) fn tell_unconnected(&mut self, now: Now, error: &std::io::Error) {
        tell!(
            self.repeats, now.monotonic_ns, Ended, warn,
            session = display(self.id()), %error, "connection failed"
        );
    }

    /// A message that waited in the queue goes back to the application.
    pub(super) fn tell_unsent(&mut self, now: Now, why: SendError) {
        tell!(
            self.repeats, now.monotonic_ns, NotSent, warn,
            session = display(self.id()), %why, "not sent, and given back"
        );
    }

    pub(crate) fn tell_panicked(&mut self, now: Now) {
        let seq = self.handled();
        let what = "panicked: the connection ends; the last message counts, and is not repeated";
        tell!(
            self.repeats,
            now.monotonic_ns,
            Panicked,
            error,
            session = display(self.id()),
            seq,
            what
        );
    }

    /// The store was to be opened again, and could not be.
    pub(crate) fn tell_unopened(&mut self, now_ns: u64, error: &StoreError) {
        tell!(
            self.repeats, now_ns, Store, error,
            session = display(self.id()), %error, "the store does not open again"
        );
    }

    /// Opening the store again has panicked.
    pub(crate) fn tell_reopening_panicked(&mut self, now_ns: u64) {
        tell!(
            self.repeats,
            now_ns,
            Panicked,
            error,
            session = display(self.id()),
            "panicked while it was brought back"
        );
    }

    /// The session goes on from its store, after it had these next numbers, inbound and outbound.
    pub(super) fn tell_undone(&mut self, now: Now, had: (u64, u64)) {
        let kept = (self.session.next_num_in(), self.session.next_num_out());
        let undone =
            Undone { received: kept.0..had.0.max(kept.0), sent: kept.1..had.1.max(kept.1) };
        tell!(
            self.repeats,
            now.monotonic_ns,
            Store,
            warn,
            session = display(self.id()),
            "{undone}"
        );
        self.application.on_undone(&self.session.config().id, &undone);
    }

    /// The connection has ended: by a fault of either side it is a warning.
    pub(super) fn tell_end(&mut self, now: Now, end: &Disconnection<'_>) {
        if end.reason.is_error() {
            tell!(
                self.repeats, now.monotonic_ns, Ended, warn,
                session = display(self.id()), reason = %end, "disconnected"
            );
        } else {
            tell!(
                self.repeats, now.monotonic_ns, Ended, info,
                session = display(self.id()), reason = %end, "disconnected"
            );
        }
    }
}
