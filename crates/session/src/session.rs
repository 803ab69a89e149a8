//! One FIX session: its numbers, its state, and what the driver calls.

use std::hint::cold_path;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use transfix_codec::encode::Header;
use transfix_codec::{
    Body, FrameWriter, Misuse, MsgType, Precision, Rules, Scratch, Timestamp, TimestampReader, tag,
};

use crate::before_admin::BeforeAdmin;
use crate::config::{ApplVerId, Config, Now, Role, Secs, nanos};
use crate::gap::Gap;
use crate::offer::Offer;
use crate::outbox::{Kind, Outbox, ResetCause};
use crate::renumber::Numbering;
use crate::reset::{ResetEvent, Resets};
use crate::rule_set::{Checks, RuleSet, StandardRules};
use crate::state::{Event, State};
use crate::throttle::Throttles;
use crate::timer::Timers;
use crate::verdict::{Disconnect, Remark, SendError};

/// The session layer of one session. See the crate's page for the contract of its driver.
#[derive(Debug)]
pub struct Session {
    pub(crate) config: Config,
    pub(crate) state: State,
    pub(crate) next_num_in: u64,
    pub(crate) next_num_out: u64,
    /// SenderCompID(49), TargetCompID(56) and their delimiters, as every message carries them.
    pub(crate) comp_ids: Vec<u8>,
    /// SenderCompID(49) and TargetCompID(56) of the counterparty's messages: the place of each in
    /// the last message, and the whole field as it must be.
    pub(crate) their_comp_ids: [(usize, Vec<u8>); 2],
    /// Further fields of the header of each message of ours: SubIDs, LocationIDs and the fields of
    /// the settings.
    pub(crate) own_header: Vec<u8>,
    /// True if each message has LastMsgSeqNumProcessed(369).
    writes_last_processed: bool,
    /// The beginning of each message of ours.
    header: Header,
    /// Digits of the times that we send.
    pub(crate) precision: Precision,
    pub(crate) timers: Timers,
    /// How far SendingTime(52) may be off, in nanoseconds; 0 for any.
    pub(crate) tolerance_ns: u64,
    pub(crate) resets: Resets,
    pub(crate) gap: Gap,
    pub(crate) throttles: Throttles,
    /// Further fields of the next Logon(A), whole.
    pub(crate) logon_fields: Vec<u8>,
    /// The Logon(A) that waits for the application's answer.
    pub(crate) offer: Option<Offer>,
    /// True if the Password(554) of this connection is that of which the settings have a hash.
    pub(crate) password_proof: bool,
    /// DefaultApplVerID(1137) agreed in the Logon(A).
    pub(crate) appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408) of the counterparty.
    pub(crate) cstm_appl_ver_id: Option<Box<[u8]>>,
    /// Why we sent Logout(5), if it was not a wish of the application.
    pub(crate) ending: Option<Disconnect>,
    /// By which messages are judged.
    pub(crate) rules: RuleSet,
    pub(crate) scratch: Scratch,
    /// Reads SendingTime(52) of all messages.
    pub(crate) sent: TimestampReader,
    /// Facts about the last message that an operator should know.
    pub(crate) remark: Option<Remark>,
    /// The next numbers, inbound and outbound, when the link came up, or as an operator has set
    /// them since.
    pub(crate) at_connection: (u64, u64),
    /// True if a Logon(A) was accepted in this connection.
    pub(crate) was_active: bool,
    /// Why the driver was told to close the link.
    pub(crate) ended: Option<Disconnect>,
    /// The highest MsgSeqNum(34) that we have used in this connection before a reset of the
    /// numbers; 0 for none.
    pub(crate) last_before_reset: u64,
    /// BeginSeqNo(7) and EndSeqNo(16) of the counterparty's last ResendRequest(2), and how often it
    /// came in a row.
    pub(crate) asked: (u64, u64, u32),
    /// MaxMessageSize(383) of the counterparty, for messages of the application.
    pub(crate) message_bytes_max: usize,
    /// Looks at our administrative messages.
    pub(crate) before_admin: Option<Arc<dyn BeforeAdmin>>,
    /// It has vetoed one in this connection, which is to end.
    pub(crate) is_vetoed: bool,
}

/// The change that an application may make in the header of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderChange {
    /// MsgSeqNum(34) in place of the next one.
    pub msg_seq_num: Option<u64>,
    /// PossDupFlag(43)=Y with this OrigSendingTime(122).
    pub orig_sending_time: Option<Timestamp>,
}

impl Session {
    /// A session that goes on with these numbers, as its store has them; both 1 for a new one.
    ///
    /// HeartBtInt(108) has whole seconds: a part of one in `config` counts as a whole one.
    #[must_use]
    pub fn new(config: Config, next_num_in: u64, next_num_out: u64) -> Self {
        assert!(next_num_in > 0 && next_num_out > 0, "MsgSeqNum(34) counts from 1");
        let mut config = config;
        let seconds = Secs::count(config.protocol.heart_bt_int);
        config.protocol.heart_bt_int = Duration::from_secs(seconds);
        let (id, protocol) = (&config.id, &config.protocol);
        let comp_ids = format!("49={}\x0156={}\x01", id.sender_comp_id, id.target_comp_id);
        let own_header = config.own_header();
        let constant = comp_ids.clone() + &own_header;
        let gap = Gap::new(config.resend, (protocol.held_messages_max, protocol.held_bytes_max));
        let resets = protocol.reset_on.disconnect && (next_num_in, next_num_out) != (1, 1);
        let throttles = Throttles::new(&protocol.throttles);
        let writes_last_processed =
            config.numbers.send_last_processed && id.begin_string.has_last_processed();
        Self {
            header: Header::new(id.begin_string.as_str().as_bytes(), constant.as_bytes()),
            own_header: own_header.into_bytes(),
            their_comp_ids: [
                (usize::MAX, format!("49={}\x01", id.target_comp_id).into_bytes()),
                (usize::MAX, format!("56={}\x01", id.sender_comp_id).into_bytes()),
            ],
            writes_last_processed,
            comp_ids: comp_ids.into_bytes(),
            logon_fields: Vec::new(),
            offer: None,
            password_proof: false,
            precision: config.precision(),
            appl_ver_id: protocol.default_appl_ver_id,
            cstm_appl_ver_id: None,
            timers: Timers::new(protocol.heart_bt_int, config.timing),
            tolerance_ns: nanos(protocol.sending_time_tolerance),
            resets: Resets::new(resets),
            config,
            state: State::Disconnected,
            next_num_in,
            next_num_out,
            gap,
            throttles,
            ending: None,
            rules: RuleSet::default(),
            scratch: Scratch::default(),
            sent: TimestampReader::default(),
            remark: None,
            at_connection: (next_num_in, next_num_out),
            was_active: false,
            ended: None,
            last_before_reset: 0,
            asked: (0, 0, 0),
            message_bytes_max: usize::MAX,
            before_admin: None,
            is_vetoed: false,
        }
    }

    /// The configuration that the session was given at its start.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Where the session stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// HeartBtInt(108) in force: after a logon, what was agreed, which is whole seconds.
    #[must_use]
    pub const fn agreed_heart_bt_int(&self) -> Duration {
        self.timers.heart_bt_int()
    }

    /// MsgSeqNum(34) that the next new message of the counterparty must have.
    #[must_use]
    pub const fn next_num_in(&self) -> u64 {
        self.next_num_in
    }

    /// MsgSeqNum(34) that our next new message will have.
    #[must_use]
    pub const fn next_num_out(&self) -> u64 {
        self.next_num_out
    }

    /// How often in a row the counterparty has sent its last ResendRequest(2).
    #[must_use]
    pub const fn same_resend_requests(&self) -> u32 {
        self.asked.2
    }

    /// Facts about the last message and its consequences that an operator should know. Call it
    /// until it returns `None`.
    #[inline]
    pub fn take_remark(&mut self) -> Option<Remark> {
        match self.gap.take_passed_over() {
            0 => self.remark.take(),
            count => Some(Remark::PassedOver(count)),
        }
    }

    /// Messages above a gap that are kept now: how many, and their bytes.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        self.gap.held()
    }

    /// DefaultApplVerID(1137) in force: agreed in the Logon(A), or configured.
    #[must_use]
    pub const fn appl_ver_id(&self) -> Option<ApplVerId> {
        self.appl_ver_id
    }

    /// Validates all messages by these rules; `None` for no validation. Reject(3) answers a message
    /// that they reject, and it is never delivered. Logout(5) answers a Logon(A), and the link is
    /// closed.
    pub fn set_rules(&mut self, rules: Option<Arc<Rules>>, checks: Checks) {
        self.rules.set_own(rules, checks);
    }

    /// Rules of the messages that name one of these versions by ApplVerID(1128) or
    /// CstmApplVerID(1129), in place of those of [`set_rules`](Self::set_rules). A message that
    /// names another version than these, the session's own and those of
    /// [`set_standard_rules`](Self::set_standard_rules) is rejected with reason 18, unless the
    /// check `codes` is off. The rules that the counterparty's DefaultCstmApplVerID(1408) names
    /// hold for all messages that name no version.
    pub fn set_version_rules(&mut self, rules: Vec<(Box<[u8]>, Arc<Rules>)>) {
        self.rules.set_listed(rules, self.cstm_appl_ver_id.as_deref());
    }

    /// Rules of the messages that name a standard version which is neither the session's nor one of
    /// [`set_version_rules`](Self::set_version_rules); `None` if there are no others. They are
    /// asked for when a message names the version for the first time.
    pub fn set_standard_rules(&mut self, standard: Option<StandardRules>) {
        self.rules.set_standard(standard);
    }

    /// By which rules messages are judged now.
    #[must_use]
    pub const fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Further fields of each Logon(A) of ours, besides those of the settings. Call it before
    /// [`Session::connected`], and for an acceptor before the Logon(A) is received.
    ///
    /// # Errors
    /// The first [`Misuse`]; the fields are as before then.
    pub fn set_logon_fields(&mut self, fill: impl FnOnce(&mut Body<'_>)) -> Result<(), Misuse> {
        let mut fields = Vec::new();
        Body::detached(&mut fields, self.precision, fill)?;
        // They last as long as the session; mostly there are none.
        fields.shrink_to_fit();
        self.logon_fields = fields;
        Ok(())
    }

    /// The look at each new administrative message of ours before it is encoded. Messages that are
    /// sent again, and the gap fills between them, are not looked at.
    pub fn set_before_admin(&mut self, look: Option<Arc<dyn BeforeAdmin>>) {
        self.before_admin = look;
    }

    /// The memory outside of the session that each of its messages needs: rules and headers. A
    /// driver of many sessions asks the processor for it ahead.
    #[must_use]
    pub fn outlying(&self) -> [&[u8]; 4] {
        let [(_, sender), (_, target)] = &self.their_comp_ids;
        [sender, target, &self.comp_ids, &self.own_header]
    }

    /// Gives back memory that the check of the next message makes anew. Call it between two
    /// messages, when a pause is expected.
    pub fn rest(&mut self) {
        self.scratch = Scratch::default();
    }

    /// A link is up: the initiator writes its Logon(A), the acceptor begins to wait for one.
    pub fn connected(&mut self, now: Now, out: &mut Outbox) {
        self.timers.link_up(now, self.config.protocol.heart_bt_int);
        self.resets.begins_at_ns = None;
        self.offer = None;
        self.password_proof = false;
        self.ending = None;
        self.ended = None;
        self.was_active = false;
        self.is_vetoed = false;
        self.message_bytes_max = usize::MAX;
        // An initiator asks in each Logon(A) until one is answered: any of them may be lost.
        let asks = self.config.role == Role::Initiator
            && self.config.id.begin_string.has_reset_flag()
            && self.resets.is_wanted;
        let wanted = self.config.protocol.reset_on.logon || asks;
        if wanted || self.resets.is_due {
            let cause = if wanted { ResetCause::Logon } else { ResetCause::Disconnected };
            self.reset_numbers(cause, out);
        }
        self.at_connection = (self.next_num_in, self.next_num_out);
        match self.config.role {
            Role::Acceptor => self.transition(Event::LinkAccepted),
            Role::Initiator => {
                self.transition(Event::LogonSent);
                let asks = wanted && self.config.id.begin_string.has_reset_flag();
                if asks {
                    self.resets.transition(ResetEvent::LogonAsks);
                }
                self.write_logon(now, Numbering::of(asks), out);
            }
        }
    }

    /// The link is closed: timers stop, messages above a gap are forgotten and asked for again, and
    /// so is what `out` holds. A reset that the end of a connection brings is in `out` afterwards,
    /// to be journalled with the next numbers.
    pub fn disconnected(&mut self, out: &mut Outbox) {
        self.lose_reset();
        self.transition(Event::LinkClosed);
        self.gap.clear();
        self.offer = None;
        self.ending = None;
        out.clear();
        let policy = self.config.protocol.reset_on;
        let ended = self.ended.take();
        // A counterparty that was refused may be a stranger. It must not make us forget what was
        // sent, or the numbers that an operator has set. If both numbers were 1 before, there is
        // nothing to forget, and the number that the refusal has used is free again.
        let is_known = self.was_active || self.config.role == Role::Initiator;
        let fault = self.was_active && ended.is_some_and(|why| why.is_error());
        if (policy.disconnect && (is_known || self.at_connection == (1, 1)))
            || (policy.logout && ended == Some(Disconnect::LoggedOut))
            || (policy.error && fault)
        {
            self.reset_numbers(ResetCause::Disconnected, out);
        }
    }

    /// Writes a new application message; `fill` adds its fields behind the standard header, header
    /// fields of its own (such as SenderSubID(50)) first. Returns its MsgSeqNum(34).
    ///
    /// # Errors
    /// [`SendError`]; nothing was written then.
    pub fn send(
        &mut self,
        now: Now,
        msg_type: impl AsRef<[u8]>,
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.ready()?;
        self.write_application(now, msg_type.as_ref(), out, fill)
    }

    /// Writes an application message with another header than the next in turn.
    ///
    /// With a MsgSeqNum(34) of its own it is no new message: it is not stored, and the next number
    /// stays as it is. Only for repair, and for tests of a counterparty.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written then.
    pub fn send_with(
        &mut self,
        now: Now,
        msg_type: impl AsRef<[u8]>,
        change: HeaderChange,
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.ready()?;
        let msg_type = msg_type.as_ref();
        check_msg_type(msg_type)?;
        let precision = self.precision;
        let seq = change.msg_seq_num.unwrap_or(self.next_num_out);
        let mut frame = self.header.frame(&mut out.bytes, msg_type, seq, (now.utc, precision));
        if self.writes_last_processed {
            frame.header_uint(tag::LAST_MSG_SEQ_NUM_PROCESSED, self.next_num_in - 1);
        }
        if let Some(original) = change.orig_sending_time {
            frame.raw(b"43=Y\x01");
            frame.header_timestamp(tag::ORIG_SENDING_TIME, original, precision);
        }
        fill(frame.body(precision));
        let range = frame.finish()?;
        self.check_length(range.clone(), out)?;
        if change.msg_seq_num.is_none() {
            out.enter(seq, Kind::Application, range);
            self.next_num_out += 1;
        }
        self.timers.sent(now);
        Ok(seq)
    }

    /// Gives a new application message its number while nothing of it can be written: no link is
    /// up, or the logon is under way, or Logout(5) was sent. It must be journalled, and goes out
    /// when the counterparty asks for it after the next logon. A Logon(A) that asks for a reset
    /// must be answered first: the number would mean nothing after it.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written then.
    pub fn send_offline(
        &mut self,
        now: Now,
        msg_type: impl AsRef<[u8]>,
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        match self.state {
            State::LogonSent if self.awaits_reset() => Err(SendError::NotLoggedOn),
            State::Active => Err(SendError::NotLoggedOn),
            State::Disconnected | State::LogonAwaited | State::LogonSent | State::LogoutSent => {
                self.write_application(now, msg_type.as_ref(), out, fill)
            }
        }
    }

    /// Checks that the session takes application messages now.
    ///
    /// # Errors
    /// Why not.
    pub const fn ready(&self) -> Result<(), SendError> {
        self.state.ready()
    }

    /// Begins an orderly end: writes Logout(5), if the session is logged on and the settings do not
    /// want a silent end. Returns whether the counterparty's Logout(5) is to be waited for.
    pub fn logout(&mut self, now: Now, text: &str, out: &mut Outbox) -> bool {
        if self.state == State::Active && !self.config.protocol.silent_disconnect {
            self.write_logout(now, text, None, out);
        }
        self.state == State::LogoutSent
    }

    /// Begins a frame with an old number: a message that is sent again, or a gap fill in place of
    /// messages.
    pub(crate) fn begin_old<'b>(
        &self,
        now: Now,
        (msg_type, seq): (&[u8], u64),
        out: &'b mut Outbox,
    ) -> FrameWriter<'b> {
        let begin_string = self.config.id.begin_string.as_str().as_bytes();
        let mut frame = FrameWriter::new(&mut out.bytes, begin_string, msg_type);
        frame.raw(&self.comp_ids);
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.raw(b"43=Y\x01");
        frame.header_timestamp(tag::SENDING_TIME, now.utc, self.precision);
        if self.writes_last_processed {
            frame.header_uint(tag::LAST_MSG_SEQ_NUM_PROCESSED, self.next_num_in - 1);
        }
        frame
    }

    pub(crate) fn transition(&mut self, event: Event) {
        let next = self.state.on(event);
        self.state = next.unwrap_or_else(|| panic!("{event:?} cannot happen in {:?}", self.state));
    }

    /// Writes a new message of the application, if the counterparty takes one so long.
    fn write_application(
        &mut self,
        now: Now,
        msg_type: &[u8],
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        check_msg_type(msg_type)?;
        let range = self.encode(now, msg_type, out, fill)?;
        self.check_length(range.clone(), out)?;
        Ok(self.note_written(now, Kind::Application, range, out))
    }

    /// Takes the last frame back if it is longer than MaxMessageSize(383) of the counterparty.
    fn check_length(&self, frame: Range<usize>, out: &mut Outbox) -> Result<(), SendError> {
        if frame.len() <= self.message_bytes_max {
            return Ok(());
        }
        cold_path();
        out.bytes.truncate(frame.start);
        Err(SendError::TooLong { bytes_max: self.message_bytes_max })
    }

    pub(crate) fn write(
        &mut self,
        now: Now,
        msg_type: &[u8],
        kind: Kind,
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let range = self.encode(now, msg_type, out, fill)?;
        Ok(self.note_written(now, kind, range, out))
    }

    /// Encodes a frame with our next number, which counts as used only by
    /// [`Self::note_written`].
    fn encode(
        &mut self,
        now: Now,
        msg_type: &[u8],
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Range<usize>, Misuse> {
        let seq = self.next_num_out;
        let precision: Precision = self.precision;
        let sending_time = (now.utc, precision);
        let mut frame = self.header.frame(&mut out.bytes, msg_type, seq, sending_time);
        if self.writes_last_processed {
            frame.header_uint(tag::LAST_MSG_SEQ_NUM_PROCESSED, self.next_num_in - 1);
        }
        fill(frame.body(precision));
        frame.finish()
    }

    /// Keeps the new frame: enters it for the journal, and uses its number.
    #[inline(always)]
    fn note_written(&mut self, now: Now, kind: Kind, range: Range<usize>, out: &mut Outbox) -> u64 {
        let seq = self.next_num_out;
        out.enter(seq, kind, range);
        self.next_num_out += 1;
        self.timers.sent(now);
        seq
    }
}

/// A type that an application may send.
fn check_msg_type(msg_type: &[u8]) -> Result<(), Misuse> {
    if MsgType::of(msg_type).is_application() { Ok(()) } else { Err(Misuse::MsgType) }
}
