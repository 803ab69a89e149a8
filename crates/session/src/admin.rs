//! Writes the administrative messages of a session, after a call of the application's hook for each
//! message.
//!
//! Invariant: if the hook vetoes a message, the connection ends. The vetoed message consumes no
//! sequence number and is not stored.

use std::hint::cold_path;

use transfix_codec::{Body, MsgType, tag};

use crate::before_admin::NewAdmin;
use crate::config::Now;
use crate::outbox::{Kind, Outbox};
use crate::session::Session;

impl Session {
    /// Writes an administrative message of this side; `fill` must produce a valid message.
    pub(crate) fn write_admin(
        &mut self,
        now: Now,
        msg_type: &[u8],
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) {
        self.write_own(now, (msg_type, Kind::Admin), out, fill);
    }

    /// Writes an administrative message of this side; `kind` determines how a later resend treats
    /// the message.
    pub(crate) fn write_own(
        &mut self,
        now: Now,
        (msg_type, kind): (&[u8], Kind),
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) {
        let written = if self.before_admin.is_none() {
            self.write(now, msg_type, kind, out, fill)
        } else {
            cold_path();
            let Some(body) = self.look_at_admin(now, msg_type, fill) else { return };
            self.write(now, msg_type, kind, out, |whole| _ = whole.fields_unchecked(&body))
        };
        assert!(written.is_ok(), "an administrative message of ours is wrong: {written:?}");
    }

    /// Calls the hook; returns the fields of the message as the hook leaves them, or `None` after a
    /// veto.
    fn look_at_admin(
        &mut self,
        now: Now,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Option<Vec<u8>> {
        let look = self.before_admin.clone()?;
        let (mut body, mut time) = (Vec::new(), Vec::new());
        let encoded = Body::detached(&mut body, self.precision, fill);
        assert!(encoded.is_ok(), "an administrative message of ours is wrong: {encoded:?}");
        let encoded = Body::detached(&mut time, self.precision, |time| {
            // The tag does not matter, because only the value is used: any UTCTimestamp field has
            // the same text.
            time.timestamp(tag::TRANSACT_TIME, now.utc);
        });
        assert!(encoded.is_ok(), "a time of ours is wrong: {encoded:?}");
        let time = String::from_utf8_lossy(&time);
        let sending_time = time.trim_start_matches("60=").trim_end_matches('\x01');
        let is_sent = !self.is_vetoed
            && look.before_admin(NewAdmin {
                msg_type: MsgType::of(msg_type),
                msg_seq_num: self.next_num_out,
                sending_time,
                body: &mut body,
            });
        self.is_vetoed |= !is_sent;
        is_sent.then_some(body)
    }
}
