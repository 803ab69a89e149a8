//! One FIX session: its numbers, its state, and what the driver calls.

use std::sync::Arc;

use transfix_codec::encode::{Header, is_msg_type};
use transfix_codec::{Body, Misuse, Precision, Rules, Scratch, Switches};

use crate::config::{ApplVerId, Config, Now, ResetPolicy, Role};
use crate::gap::Gap;
use crate::outbox::{Entry, Kind, Outbox};
use crate::state::{Event, State};
use crate::timer::Timers;
use crate::verdict::{Disconnect, SendError};

/// The session layer of one session. See the crate's page for the contract of its driver.
#[derive(Debug)]
pub struct Session {
    pub(crate) config: Config,
    pub(crate) state: State,
    pub(crate) next_num_in: u64,
    pub(crate) next_num_out: u64,
    /// SenderCompID(49), TargetCompID(56) and their delimiters, as every message carries them.
    pub(crate) comp_ids: Vec<u8>,
    /// What each message of ours begins with.
    header: Header,
    pub(crate) timers: Timers,
    pub(crate) gap: Gap,
    /// DefaultApplVerID(1137) agreed in the Logon(A).
    pub(crate) appl_ver_id: Option<ApplVerId>,
    /// Why we sent Logout(5), if it was not a wish of the application.
    pub(crate) ending: Option<Disconnect>,
    /// Our Logon(A) carried ResetSeqNumFlag(141)=Y, so that the same in the answer is no new reset.
    pub(crate) reset_sent: bool,
    /// The dictionary's rules, if messages are validated.
    pub(crate) rules: Option<Arc<Rules>>,
    /// The rules of other versions, by ApplVerID(1128) or CstmApplVerID(1129).
    pub(crate) version_rules: Vec<(Box<[u8]>, Arc<Rules>)>,
    pub(crate) checks: Checks,
    pub(crate) scratch: Scratch,
    /// The message being received was kept above a gap.
    pub(crate) from_held: bool,
    /// The operator wants the next Logon(A) to reset the numbers.
    pub(crate) reset_wanted: bool,
}

/// Which checks are made of whose messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Of messages that go to the application.
    pub application: Switches,
    /// Of messages that the session layer handles.
    pub session: Switches,
}

impl Session {
    /// A session that goes on with these numbers, as its store has them; both 1 for a new one.
    #[must_use]
    pub fn new(config: Config, next_num_in: u64, next_num_out: u64) -> Self {
        assert!(next_num_in > 0 && next_num_out > 0, "MsgSeqNum(34) counts from 1");
        let id = &config.id;
        let comp_ids = format!("49={}\x0156={}\x01", id.sender_comp_id, id.target_comp_id);
        let gap = Gap::new(config.held_messages_max, config.held_bytes_max);
        Self {
            header: Header::new(id.begin_string.as_str().as_bytes(), comp_ids.as_bytes()),
            comp_ids: comp_ids.into_bytes(),
            appl_ver_id: config.default_appl_ver_id,
            timers: Timers::new(config.heart_bt_int_s),
            config,
            state: State::Disconnected,
            next_num_in,
            next_num_out,
            gap,
            ending: None,
            reset_sent: false,
            rules: None,
            version_rules: Vec::new(),
            checks: Checks::default(),
            scratch: Scratch::default(),
            from_held: false,
            reset_wanted: false,
        }
    }

    /// What the session was told at its start.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Where the session stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
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

    /// Validates all messages after the Logon(A) by these rules; `None` for no validation. What
    /// they reject is answered by Reject(3) and never delivered.
    pub fn set_rules(&mut self, rules: Option<Arc<Rules>>, checks: Checks) {
        self.rules = rules;
        self.checks = checks;
    }

    /// Rules of the messages that name one of these versions by ApplVerID(1128) or
    /// CstmApplVerID(1129), in place of those of [`set_rules`](Self::set_rules).
    pub fn set_version_rules(&mut self, rules: Vec<(Box<[u8]>, Arc<Rules>)>) {
        self.version_rules = rules;
    }

    /// A link is up: the initiator writes its Logon(A), the acceptor begins to wait for one.
    pub fn connected(&mut self, now: Now, out: &mut Outbox) {
        self.timers.link_up(now, self.config.heart_bt_int_s);
        self.reset_sent = false;
        self.ending = None;
        // Until a Logon(A) is answered: the one that asked may be lost on the way.
        let wanted = self.reset_wanted && self.config.role == Role::Initiator;
        let resets = match self.config.reset {
            ResetPolicy::Never => wanted,
            ResetPolicy::Logon | ResetPolicy::Disconnect => {
                self.next_num_in != 1 || self.next_num_out != 1
            }
        };
        if resets {
            self.reset_numbers(out);
        }
        match self.config.role {
            Role::Acceptor => self.transition(Event::LinkAccepted),
            Role::Initiator => {
                self.transition(Event::LogonSent);
                self.reset_sent = wanted || self.config.reset == ResetPolicy::Logon;
                self.write_logon(now, self.reset_sent, out);
            }
        }
    }

    /// The link is closed: timers stop, messages above a gap are forgotten and asked for again.
    pub fn disconnected(&mut self) {
        self.transition(Event::LinkClosed);
        self.gap.clear();
        self.ending = None;
    }

    /// Writes a new application message; `fill` adds its fields behind the standard header, header
    /// fields of its own (such as SenderSubID(50)) first. Returns its MsgSeqNum(34).
    ///
    /// # Errors
    /// [`SendError`]; nothing was written then.
    pub fn send(
        &mut self,
        now: Now,
        msg_type: &[u8],
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.ready()?;
        check_msg_type(msg_type)?;
        self.write(now, msg_type, Kind::Application, out, fill)
    }

    /// Gives a new application message its number while no link is up: it must be journalled, is
    /// never written, and goes out when the counterparty asks for it after the next logon.
    ///
    /// # Errors
    /// [`SendError`]; nothing was written then.
    pub fn send_offline(
        &mut self,
        now: Now,
        msg_type: &[u8],
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        if self.state != State::Disconnected {
            return Err(SendError::NotLoggedOn);
        }
        check_msg_type(msg_type)?;
        self.write(now, msg_type, Kind::Application, out, fill)
    }

    /// Whether the session takes application messages now.
    ///
    /// # Errors
    /// Why not.
    pub const fn ready(&self) -> Result<(), SendError> {
        match self.state {
            State::Active => Ok(()),
            State::LogoutSent => Err(SendError::LoggingOut),
            State::Disconnected | State::LogonAwaited | State::LogonSent => {
                Err(SendError::NotLoggedOn)
            }
        }
    }

    /// Begins an orderly end: writes Logout(5) if logged on.
    /// Answers whether the counterparty's Logout(5) is to be waited for.
    pub fn logout(&mut self, now: Now, text: &str, out: &mut Outbox) -> bool {
        if self.state == State::Active {
            self.write_logout(now, text, None, out);
        }
        self.state == State::LogoutSent
    }

    /// Journals that both numbers start again at 1.
    pub(crate) fn reset_numbers(&mut self, out: &mut Outbox) {
        self.next_num_in = 1;
        self.next_num_out = 1;
        self.gap.clear();
        out.entries.push(Entry::Reset);
    }

    pub(crate) fn transition(&mut self, event: Event) {
        let next = self.state.on(event);
        self.state = next.unwrap_or_else(|| panic!("{event:?} cannot happen in {:?}", self.state));
    }

    /// Writes an administrative message of our own making, which cannot be wrong.
    pub(crate) fn write_admin(
        &mut self,
        now: Now,
        msg_type: &[u8],
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) {
        let written = self.write(now, msg_type, Kind::Admin, out, fill);
        assert!(written.is_ok(), "an administrative message of ours is wrong: {written:?}");
    }

    pub(crate) fn write(
        &mut self,
        now: Now,
        msg_type: &[u8],
        kind: Kind,
        out: &mut Outbox,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let seq = self.next_num_out;
        let precision: Precision = self.config.precision;
        let sending_time = (now.utc, precision);
        let mut frame = self.header.frame(&mut out.bytes, msg_type, seq, sending_time);
        fill(frame.body(precision));
        let range = frame.finish()?;
        out.entries.push(Entry::Frame { seq, kind, range });
        self.next_num_out += 1;
        self.timers.sent(now);
        Ok(seq)
    }
}

/// Whether the session layer sends and handles messages of this MsgType(35) itself.
pub(crate) const fn is_administrative(msg_type: &[u8]) -> bool {
    matches!(msg_type, [b'0'..=b'5' | b'A'])
}

/// Whether an application may send this MsgType(35): not one of the session layer's own.
///
/// # Errors
/// [`Misuse::MsgType`].
pub fn check_msg_type(msg_type: &[u8]) -> Result<(), Misuse> {
    if is_administrative(msg_type) || !is_msg_type(msg_type) {
        Err(Misuse::MsgType)
    } else {
        Ok(())
    }
}
