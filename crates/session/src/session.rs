//! A FIX session: its sequence numbers, its state, and the functions that the driver calls.

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

/// The protocol state of one FIX session. The [crate's page](crate) states the contract of the
/// driver.
#[derive(Debug)]
pub struct Session {
    pub(crate) config: Config,
    pub(crate) state: State,
    pub(crate) next_num_in: u64,
    pub(crate) next_num_out: u64,
    /// SenderCompID(49) and TargetCompID(56) of our messages, as encoded fields with their
    /// delimiters.
    pub(crate) comp_ids: Vec<u8>,
    /// SenderCompID(49) and TargetCompID(56) of the counterparty's messages. For each field, its
    /// index in the last message, and the expected encoded field with its delimiter.
    pub(crate) their_comp_ids: [(usize, Vec<u8>); 2],
    /// Other constant header fields of our messages: SubIDs, LocationIDs and the fields of the
    /// settings.
    pub(crate) own_header: Vec<u8>,
    /// True if each of our messages has LastMsgSeqNumProcessed(369).
    writes_last_processed: bool,
    /// The prepared header of our messages.
    header: Header,
    /// The precision of the timestamps that we send.
    pub(crate) precision: Precision,
    pub(crate) timers: Timers,
    /// Maximum accepted difference between SendingTime(52) and our clock, in nanoseconds; 0 means
    /// unlimited.
    pub(crate) tolerance_ns: u64,
    pub(crate) resets: Resets,
    pub(crate) gap: Gap,
    pub(crate) throttles: Throttles,
    /// Encoded fields of [`Session::set_logon_fields`], which are added to each of our Logon(A)
    /// messages.
    pub(crate) logon_fields: Vec<u8>,
    /// The received Logon(A) that the application has not answered yet.
    pub(crate) offer: Option<Offer>,
    /// True if Password(554) of this connection matches the configured hash.
    pub(crate) password_proof: bool,
    /// The DefaultApplVerID(1137) that applies now.
    pub(crate) appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408) of the counterparty.
    pub(crate) cstm_appl_ver_id: Option<Box<[u8]>>,
    /// The reason of our Logout(5), unless the application requested the logout or the counterparty
    /// sent Logout(5) first.
    pub(crate) ending: Option<Disconnect>,
    /// The rules that validate received messages.
    pub(crate) rules: RuleSet,
    pub(crate) scratch: Scratch,
    /// Parser of the SendingTime(52) of received messages.
    pub(crate) sent: TimestampReader,
    /// A remark on the last message, for the operator.
    pub(crate) remark: Option<Remark>,
    /// The next inbound and outbound numbers at the start of the connection; if an operator has set
    /// numbers since, those numbers.
    pub(crate) at_connection: (u64, u64),
    /// True if a Logon(A) was accepted in this connection.
    pub(crate) was_active: bool,
    /// The reason for which the session asked the driver to end the connection.
    pub(crate) ended: Option<Disconnect>,
    /// The highest MsgSeqNum(34) that we used in this connection before a reset of the numbers; 0
    /// means none.
    pub(crate) last_before_reset: u64,
    /// BeginSeqNo(7) and EndSeqNo(16) of the counterparty's last ResendRequest(2), and the number
    /// of times in a row that this request was received.
    pub(crate) asked: (u64, u64, u32),
    /// MaxMessageSize(383) of the counterparty in bytes, which limits the length of our application
    /// messages.
    pub(crate) message_bytes_max: usize,
    /// The hook that receives our administrative messages before they are encoded.
    pub(crate) before_admin: Option<Arc<dyn BeforeAdmin>>,
    /// True if the hook has vetoed a message in this connection. The veto ends the connection.
    pub(crate) is_vetoed: bool,
}

/// Header fields that an application may set for a single message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderChange {
    /// MsgSeqNum(34) of the message, in place of the next number.
    pub msg_seq_num: Option<u64>,
    /// OrigSendingTime(122) of the message, which is then sent with PossDupFlag(43)=Y.
    pub orig_sending_time: Option<Timestamp>,
}

impl Session {
    /// Creates a session that continues with the stored numbers. For a new session, both numbers
    /// are 1.
    ///
    /// HeartBtInt(108) is rounded up to whole seconds.
    ///
    /// # Panics
    /// If a number is 0.
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

    /// Returns the configuration of the session.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the state of the session.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the HeartBtInt(108) that applies now, in whole seconds; after a logon, the agreed
    /// value.
    #[must_use]
    pub const fn agreed_heart_bt_int(&self) -> Duration {
        self.timers.heart_bt_int()
    }

    /// Returns the MsgSeqNum(34) expected in the counterparty's next new message.
    #[must_use]
    pub const fn next_num_in(&self) -> u64 {
        self.next_num_in
    }

    /// Returns the MsgSeqNum(34) of our next new message.
    #[must_use]
    pub const fn next_num_out(&self) -> u64 {
        self.next_num_out
    }

    /// Returns the number of times in a row that the counterparty has sent its last
    /// ResendRequest(2).
    #[must_use]
    pub const fn same_resend_requests(&self) -> u32 {
        self.asked.2
    }

    /// Removes and returns the next remark on the last message that an operator should know. Call
    /// this method until it returns `None`.
    #[inline]
    pub fn take_remark(&mut self) -> Option<Remark> {
        match self.gap.take_passed_over() {
            0 => self.remark.take(),
            count => Some(Remark::PassedOver(count)),
        }
    }

    /// Returns the number of messages held above a gap, and their total size in bytes.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        self.gap.held()
    }

    /// Returns the DefaultApplVerID(1137) that applies now: agreed in the Logon(A), or configured.
    #[must_use]
    pub const fn appl_ver_id(&self) -> Option<ApplVerId> {
        self.appl_ver_id
    }

    /// Sets the rules that validate all messages; `None` turns validation off. An invalid message
    /// is answered with Reject(3) and never delivered. An invalid Logon(A) is answered with
    /// Logout(5), and the connection ends.
    pub fn set_rules(&mut self, rules: Option<Arc<Rules>>, checks: Checks) {
        self.rules.set_own(rules, checks);
    }

    /// Sets the rules for messages that name one of these versions in ApplVerID(1128) or
    /// CstmApplVerID(1129). These rules replace the rules of [`set_rules`](Self::set_rules) for
    /// such messages.
    ///
    /// A message may also name the session's own version, or a version of
    /// [`set_standard_rules`](Self::set_standard_rules). Any other version is rejected with
    /// SessionRejectReason(373)=18, unless the check `codes` is off. If the counterparty's
    /// DefaultCstmApplVerID(1408) names one of these versions, its rules also validate messages
    /// that name no version.
    pub fn set_version_rules(&mut self, rules: Vec<(Box<[u8]>, Arc<Rules>)>) {
        self.rules.set_listed(rules, self.cstm_appl_ver_id.as_deref());
    }

    /// Sets the provider of rules for messages that name any other standard version; with `None`,
    /// no other version is supported. The session calls `standard` when a message names a version
    /// for the first time.
    pub fn set_standard_rules(&mut self, standard: Option<StandardRules>) {
        self.rules.set_standard(standard);
    }

    /// Returns the rules that validate received messages.
    #[must_use]
    pub const fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Sets additional fields for each of our Logon(A) messages, besides the configured fields.
    /// Call this method before [`Session::connected`]. For an acceptor, it may be called until
    /// [`Session::accept_logon`].
    ///
    /// # Errors
    /// The first [`Misuse`]; the fields are unchanged.
    pub fn set_logon_fields(&mut self, fill: impl FnOnce(&mut Body<'_>)) -> Result<(), Misuse> {
        let mut fields = Vec::new();
        Body::detached(&mut fields, self.precision, fill)?;
        // The fields are kept as long as the session exists and are usually empty, so unused memory
        // is released.
        fields.shrink_to_fit();
        self.logon_fields = fields;
        Ok(())
    }

    /// Sets the hook that receives each of our new administrative messages before it is encoded.
    /// Resent messages, and the gap fills between them, are not passed to the hook.
    pub fn set_before_admin(&mut self, look: Option<Arc<dyn BeforeAdmin>>) {
        self.before_admin = look;
    }

    /// Returns the memory outside of the session object that handling a message needs: CompIDs and
    /// header fields. A driver of many sessions prefetches this memory.
    #[must_use]
    pub fn outlying(&self) -> [&[u8]; 4] {
        let [(_, sender), (_, target)] = &self.their_comp_ids;
        [sender, target, &self.comp_ids, &self.own_header]
    }

    /// Releases memory that validation allocates again for the next message. Call this method
    /// between two messages, when a pause is expected.
    pub fn rest(&mut self) {
        self.scratch = Scratch::default();
    }

    /// Begins the session on a new connection: the initiator writes its Logon(A), and the acceptor
    /// waits for a Logon(A).
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
        // An initiator requests a reset in each Logon(A) until the counterparty answers, because
        // any Logon(A) may be lost.
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

    /// Handles the end of the connection: stops the timers and drops the content of `out`. Messages
    /// held above a gap are dropped too, and requested again after the next logon. If the end of
    /// the connection resets the numbers, `out` then contains the reset, which the driver must
    /// journal with the next numbers.
    pub fn disconnected(&mut self, out: &mut Outbox) {
        self.lose_reset();
        self.transition(Event::LinkClosed);
        self.gap.clear();
        self.offer = None;
        self.ending = None;
        out.clear();
        let policy = self.config.protocol.reset_on;
        let ended = self.ended.take();
        // A counterparty whose Logon(A) was refused may be unauthorized, and must not cause a
        // reset: it would discard sent messages, and numbers that an operator has set. If both
        // numbers were 1 before, a reset discards nothing, and only frees the number that the
        // refusal used.
        let is_known = self.was_active || self.config.role == Role::Initiator;
        let fault = self.was_active && ended.is_some_and(|why| why.is_error());
        if (policy.disconnect && (is_known || self.at_connection == (1, 1)))
            || (policy.logout && ended == Some(Disconnect::LoggedOut))
            || (policy.error && fault)
        {
            self.reset_numbers(ResetCause::Disconnected, out);
        }
    }

    /// Writes a new application message and returns its MsgSeqNum(34). `fill` adds the fields after
    /// the standard header. If it adds further header fields, such as SenderSubID(50), these must
    /// come first.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
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

    /// Writes an application message with changed header values.
    ///
    /// If `change` sets MsgSeqNum(34), the message does not count as new: it is not stored, and the
    /// next number is unchanged. Set the number only for repair, or to test a counterparty.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
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

    /// Gives a number to a new application message while the session cannot write messages: without
    /// a connection, during the logon, or after Logout(5). The driver must journal the message,
    /// which the counterparty requests after the next logon. This method fails while a Logon(A)
    /// that requests a reset is unanswered, because the reset would invalidate the number.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written.
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

    /// Returns an error if application messages cannot be sent in the current state of the session.
    ///
    /// # Errors
    /// [`SendError::NotLoggedOn`] or [`SendError::LoggingOut`].
    pub const fn ready(&self) -> Result<(), SendError> {
        self.state.ready()
    }

    /// Begins an orderly logout: writes a Logout(5), if the session is logged on and the settings
    /// permit it. Returns true if the driver must wait for the counterparty's Logout(5).
    pub fn logout(&mut self, now: Now, text: &str, out: &mut Outbox) -> bool {
        if self.state == State::Active && !self.config.protocol.silent_disconnect {
            self.write_logout(now, text, None, out);
        }
        self.state == State::LogoutSent
    }

    /// Begins a frame with a number that was used before: a resent message, or a gap fill in place
    /// of messages.
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

    /// Writes a new application message, or returns an error if the message exceeds the
    /// counterparty's length limit.
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

    /// Removes the last frame if its length exceeds MaxMessageSize(383) of the counterparty.
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

    /// Encodes a frame with our next number; [`Self::note_written`] then marks the number as used.
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

    /// Adds a new frame to the entries for the journal, and marks its number as used.
    #[inline(always)]
    fn note_written(&mut self, now: Now, kind: Kind, range: Range<usize>, out: &mut Outbox) -> u64 {
        let seq = self.next_num_out;
        out.enter(seq, kind, range);
        self.next_num_out += 1;
        self.timers.sent(now);
        seq
    }
}

/// Checks that an application may send messages of this MsgType(35).
fn check_msg_type(msg_type: &[u8]) -> Result<(), Misuse> {
    if MsgType::of(msg_type).is_application() { Ok(()) } else { Err(Misuse::MsgType) }
}
