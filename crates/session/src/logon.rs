//! Logon(A) and Logout(5): how a session begins and ends.

use transfix_codec::{Message, tag};

use crate::config::{ApplVerId, BeginString, MSG_SEQ_NUM_MAX, Now, ResetPolicy, Role};
use crate::outbox::Outbox;
use crate::session::Session;
use crate::state::{Event, State};
use crate::verdict::{Disconnect, Verdict};

/// Terms that a Logon(A) proposes or confirms.
struct Terms {
    seq: u64,
    heart_bt_int_s: u32,
    appl_ver_id: Option<ApplVerId>,
    resets: bool,
}

/// Why a Logon(A) is refused.
enum Refusal {
    /// The counterparty is not who it should be: close without a word.
    Silent(Disconnect),
    /// Answer with Logout(5) that gives the reason.
    Spoken(Disconnect),
}

const fn spoken(why: &'static str) -> Refusal {
    Refusal::Spoken(Disconnect::LogonRefused(why))
}

const fn silent(why: &'static str) -> Refusal {
    Refusal::Silent(Disconnect::LogonRefused(why))
}

impl Session {
    pub(crate) fn on_logon(
        &mut self,
        now: Now,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Verdict {
        let live = matches!(self.state, State::Active | State::LogoutSent);
        // FIX Session: on a live session only a reset of both numbers may begin with a Logon(A).
        let resettable = self.state == State::Active;
        let terms = match self.terms(now, message) {
            Ok(terms) if !live || (resettable && terms.resets && terms.seq == 1) => terms,
            _ if live => return Verdict::Disconnect(Disconnect::SecondLogon),
            Ok(_) => unreachable!("a session that is not live takes every good Logon(A)"),
            Err(Refusal::Silent(why)) => return Verdict::Disconnect(why),
            Err(Refusal::Spoken(why)) => return self.end(now, why, out),
        };
        self.apply_reset(&terms, live, out);
        if terms.seq < self.next_num_in {
            let why =
                Disconnect::MsgSeqNumTooLow { expected: self.next_num_in, received: terms.seq };
            return self.end(now, why, out);
        }
        self.log_on(now, &terms, live, out);
        Verdict::LoggedOn
    }

    fn apply_reset(&mut self, terms: &Terms, live: bool, out: &mut Outbox) {
        let unasked = terms.resets && !self.reset_sent;
        let by_policy = self.config.reset == ResetPolicy::Logon
            && self.config.role == Role::Acceptor
            && (self.next_num_in != 1 || self.next_num_out != 1);
        if live || unasked || by_policy {
            self.reset_numbers(out);
            // Our own Logon(A), already sent, counts as the first message of the new numbering.
            self.next_num_out = if self.state == State::LogonSent { 2 } else { 1 };
        }
    }

    fn log_on(&mut self, now: Now, terms: &Terms, live: bool, out: &mut Outbox) {
        self.appl_ver_id = terms.appl_ver_id;
        if self.config.role == Role::Acceptor {
            self.timers.set_heart_bt_int(terms.heart_bt_int_s);
        }
        let answers = self.config.role == Role::Acceptor || live;
        self.reset_sent = false;
        self.reset_wanted = false;
        self.transition(Event::LogonAccepted);
        if answers {
            self.write_logon(now, terms.resets, out);
        }
        if terms.seq == self.next_num_in {
            self.next_num_in += 1;
        } else {
            // The answer to the request covers the Logon(A) itself by a gap fill.
            self.request_gap(now, terms.seq, out);
        }
    }

    fn terms(&self, now: Now, message: &Message<'_>) -> Result<Terms, Refusal> {
        let seq = message.msg_seq_num().ok().filter(|seq| *seq <= MSG_SEQ_NUM_MAX);
        let seq = seq.ok_or_else(|| silent("MsgSeqNum(34) is missing"))?;
        self.check_comp_ids(message).map_err(|_| silent("CompID problem"))?;
        self.check_sending_time(now, message).map_err(|_| silent("SendingTime(52) is off"))?;
        if message.raw(tag::ENCRYPT_METHOD).is_some_and(|v| v != b"0") {
            return Err(spoken("EncryptMethod(98) must be 0, encryption is not supported"));
        }
        let heart_bt_int_s = message
            .uint(tag::HEART_BT_INT)
            .ok()
            .and_then(|s| u32::try_from(s).ok())
            .ok_or_else(|| spoken("HeartBtInt(108) must be seconds, 0 or more"))?;
        let resets = message
            .flag(tag::RESET_SEQ_NUM_FLAG)
            .map_err(|_| spoken("ResetSeqNumFlag(141) must be Y or N"))?;
        let appl_ver_id = self.agreed_appl_ver_id(message)?;
        Ok(Terms { seq, heart_bt_int_s, appl_ver_id, resets })
    }

    fn agreed_appl_ver_id(&self, message: &Message<'_>) -> Result<Option<ApplVerId>, Refusal> {
        if self.config.id.begin_string != BeginString::Fixt11 {
            return Ok(None);
        }
        let named = message
            .uint(tag::DEFAULT_APPL_VER_ID)
            .map_err(|_| silent("DefaultApplVerID(1137) is missing"))?;
        let named = u8::try_from(named).ok().map(ApplVerId).filter(|id| id.dictionary().is_some());
        match (named, self.config.default_appl_ver_id) {
            (None, _) => Err(spoken("DefaultApplVerID(1137) is unknown")),
            (Some(named), Some(ours)) if named != ours => {
                Err(spoken("DefaultApplVerID(1137) is not the one of this session"))
            }
            (named, _) => Ok(named),
        }
    }

    pub(crate) fn write_logon(&mut self, now: Now, resets: bool, out: &mut Outbox) {
        let heart_bt_int_s = self.timers.heart_bt_int_s();
        let appl_ver_id = self.appl_ver_id;
        let fixt = self.config.id.begin_string == BeginString::Fixt11;
        self.write_admin(now, b"A", out, |body| {
            body.uint(tag::ENCRYPT_METHOD, 0).uint(tag::HEART_BT_INT, heart_bt_int_s);
            if resets {
                body.boolean(tag::RESET_SEQ_NUM_FLAG, true);
            }
            if let Some(id) = appl_ver_id.filter(|_| fixt) {
                body.uint(tag::DEFAULT_APPL_VER_ID, u64::from(id.0));
            }
        });
    }

    /// Logout(5) ends the session even from above a gap, which is asked for after the next logon.
    pub(crate) fn on_logout(&mut self, now: Now, seq: u64, out: &mut Outbox) -> Verdict {
        if seq == self.next_num_in {
            self.next_num_in += 1;
        }
        match self.state {
            State::LogoutSent => Verdict::Disconnect(self.ending.unwrap_or(Disconnect::LoggedOut)),
            State::Active => {
                self.write_logout(now, "", None, out);
                Verdict::Disconnect(Disconnect::LoggedOut)
            }
            State::LogonSent | State::LogonAwaited | State::Disconnected => Verdict::Disconnect(
                Disconnect::LogonRefused("the counterparty answered with Logout(5)"),
            ),
        }
    }
}
