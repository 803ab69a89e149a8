//! The filter that application messages pass before they are sent: adds configured fields, calls
//! the program's hook, and validates.
//!
//! The program's hook may check administrative messages too ([`BeforeAdmin`]), in the thread that
//! holds the session and writes the message.
//!
//! Invariants: an application message passes the filter in the sending thread, before the session
//! is locked, so that the sender gets the result at once. A message passes once, and not again when
//! it leaves a queue or is resent. Administrative messages get no configured fields and are not
//! validated. A session that needs none of these steps has no filter.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use transfix_codec::{
    Body, CheckSumPolicy, FieldIndex, FrameWriter, Message, MessageDraft, Misuse, MsgType,
    Precision, Reject, Scratch, Tag, Timestamp, tag,
};
use transfix_observe::event;
use transfix_observe::repeats::{Cause, Repeats};
use transfix_session::{
    Agreed, ApplVerId, BeforeAdmin, NewAdmin, RuleSet, SendError, Session, SessionId,
};
use transfix_settings::{SessionSettings, ValidateOut};

use crate::io::Io;
use crate::link::before_send::{BeforeSend, OutgoingMessage, Veto};
use crate::link::event_log::lines_left_out;

/// The outbound filter of one session.
pub(crate) struct OutboundFilter {
    id: SessionId,
    precision: Precision,
    body_fields: Vec<(Tag, String)>,
    /// Header fields of each message besides the CompIDs, in encoded form.
    own_header: String,
    validates: ValidateOut,
    before_send: Option<Arc<dyn BeforeSend>>,
    data_fields: Vec<(Tag, Tag)>,
    rules: RwLock<OutboundRules>,
    io: Arc<dyn Io>,
    lines: Mutex<Repeats>,
    /// Unused buffers, kept for the next messages.
    #[expect(clippy::vec_box, reason = "it is taken out and put back for each message")]
    spare: Mutex<Vec<Box<FilterBuffers>>>,
}

/// The rules for outgoing messages, which match the version agreed with the counterparty.
#[derive(Clone, Default)]
struct OutboundRules {
    /// The number of times that the rules have changed.
    number: u64,
    set: RuleSet,
    appl_ver_id: Option<ApplVerId>,
    cstm_appl_ver_id: Option<Box<[u8]>>,
}

/// The buffers that one message needs in the filter.
#[derive(Default)]
struct FilterBuffers {
    body: Vec<u8>,
    frame: Vec<u8>,
    added: Vec<u8>,
    index: FieldIndex,
    draft: MessageDraft,
    rules: OutboundRules,
    scratch: Scratch,
}

/// The maximum number of unused buffers.
const SPARE_MAX: usize = 8;
/// The maximum capacity, in bytes, of a buffer that is kept.
const BYTES_KEPT: usize = 64 << 10;
/// The length of the trailer: `10=ddd` and the delimiter.
const CHECK_SUM_LEN: usize = 7;

impl OutboundFilter {
    /// Returns the filter of a session, or `None` if the session needs none.
    pub(crate) fn of(
        settings: &SessionSettings,
        before_send: Option<Arc<dyn BeforeSend>>,
        data_fields: &[(Tag, Tag)],
        io: &Arc<dyn Io>,
    ) -> Option<Arc<Self>> {
        let protocol = &settings.protocol;
        let validates = settings.validation.validate_out;
        let is_open = before_send.is_none() && protocol.body_fields.is_empty();
        if is_open && validates == ValidateOut::Off {
            return None;
        }
        let config = settings.config();
        Some(Arc::new(Self {
            precision: config.precision(),
            own_header: config.own_header(),
            id: config.id,
            body_fields: protocol.body_fields.clone(),
            validates,
            before_send,
            data_fields: data_fields.to_vec(),
            rules: RwLock::default(),
            io: Arc::clone(io),
            lines: Mutex::default(),
            spare: Mutex::default(),
        }))
    }

    /// Takes over the session's current validation rules.
    pub(crate) fn set_rules(&self, session: &Session) {
        let custom = session.config().logon.default_cstm_appl_ver_id.as_ref();
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        *rules = OutboundRules {
            number: rules.number + 1,
            set: session.rules().clone(),
            appl_ver_id: session.appl_ver_id(),
            cstm_appl_ver_id: custom.map(|id| id.as_bytes().into()),
        };
    }

    /// Encodes a message with `fill`, lets it pass the filter, and calls `send` with its body.
    ///
    /// # Errors
    /// As [`OutboundFilter::pass`] and `send`.
    pub(crate) fn through<T>(
        &self,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
        send: impl FnOnce(&[u8]) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        let mut body = lock(&self.spare).last_mut().map(|m| std::mem::take(&mut m.body));
        let mut body = body.take().unwrap_or_default();
        body.clear();
        let encoded = Body::detached(&mut body, self.precision, fill).map_err(SendError::Misuse);
        let passed = encoded.and_then(|()| self.pass(msg_type, &mut body));
        let sent = passed.and_then(|()| send(&body));
        if body.capacity() <= BYTES_KEPT
            && let Some(memory) = lock(&self.spare).last_mut()
        {
            memory.body = body;
        }
        sent
    }

    /// Lets a message pass the filter, which replaces `body` by the body to send.
    ///
    /// # Errors
    /// [`SendError::Vetoed`], [`SendError::Invalid`] or a [`Misuse`]: the message must not be sent.
    pub(crate) fn pass(&self, msg_type: &[u8], body: &mut Vec<u8>) -> Result<(), SendError> {
        if !MsgType::of(msg_type).is_application() {
            return Err(Misuse::MsgType.into());
        }
        self.with_memory(|memory| {
            memory.take_rules(&self.rules);
            self.pass_by(memory, msg_type, body)
        })
    }

    fn with_memory<T>(&self, pass: impl FnOnce(&mut FilterBuffers) -> T) -> T {
        let mut memory = lock(&self.spare).pop().unwrap_or_else(|| self.memory());
        let passed = pass(&mut memory);
        memory.index.trim();
        // Keeps the buffers, unless a very long message has enlarged them.
        if memory.is_small() {
            let mut spare = lock(&self.spare);
            if spare.len() < SPARE_MAX {
                spare.push(memory);
            }
        }
        passed
    }

    /// Returns the hook for administrative messages, if the program has a hook.
    pub(crate) fn admin_look(self: &Arc<Self>) -> Option<Arc<dyn BeforeAdmin>> {
        self.before_send.as_ref().map(|_| Arc::clone(self) as Arc<dyn BeforeAdmin>)
    }

    fn memory(&self) -> Box<FilterBuffers> {
        let mut memory = Box::<FilterBuffers>::default();
        memory.index.set_data_fields(self.data_fields.iter().copied());
        memory.draft.set_data_fields(self.data_fields.iter().copied());
        memory.draft.set_precision(self.precision);
        memory
    }

    fn pass_by(
        &self,
        memory: &mut FilterBuffers,
        msg_type: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        if !self.body_fields.is_empty() {
            self.add_fields(memory, msg_type, body)?;
        }
        if let Some(before_send) = &self.before_send {
            self.show(memory, &**before_send, msg_type, body)?;
        }
        if self.validates != ValidateOut::Off
            && let Err(reject) = self.judge(memory, msg_type, body)?
        {
            if self.validates == ValidateOut::Refuse {
                return Err(SendError::Invalid(reject));
            }
            self.warn(msg_type, reject);
        }
        Ok(())
    }

    /// Adds the configured fields that the message does not contain and that its type allows.
    fn add_fields(
        &self,
        memory: &mut FilterBuffers,
        msg_type: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let FilterBuffers { frame, added, index, rules, .. } = memory;
        let begin = self.write(frame, msg_type, body, b"")?;
        let message = parsed(frame, index)?;
        // Skip a message that names an unknown version.
        let (set, agreed) = rules.parts(&self.id);
        let Ok(Some(rules)) = set.of_message(&message, agreed) else { return Ok(()) };
        let mut at = 0;
        for (n, field) in message.fields().enumerate() {
            let is_before = at < begin || rules.is_header_field(field.tag);
            if !is_before || field.tag == tag::CHECK_SUM {
                break;
            }
            at += message.encoded(n).len();
        }
        added.clear();
        for (tag, value) in &self.body_fields {
            if rules.is_body_field(msg_type, *tag) && message.raw(*tag).is_none() {
                // Writing to memory cannot fail.
                let _ = write!(added, "{tag}={value}\x01");
            }
        }
        let at = at - begin;
        body.splice(at..at, added.iter().copied());
        Ok(())
    }

    /// Calls the program's hook, which may change or veto the message.
    fn show(
        &self,
        memory: &mut FilterBuffers,
        before_send: &dyn BeforeSend,
        msg_type: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let FilterBuffers { frame, index, draft, .. } = memory;
        self.write(frame, msg_type, body, b"")?;
        let message = parsed(frame, index)?;
        draft.load(&message);
        let mut shown = OutgoingMessage::new(&self.id, draft);
        before_send.before_send(&mut shown).map_err(|Veto| SendError::Vetoed)?;
        if shown.is_changed {
            body.clear();
            body.extend_from_slice(shown.fields().bytes());
        }
        Ok(())
    }

    /// Validates the message by the same rules as the counterparty.
    fn judge(
        &self,
        memory: &mut FilterBuffers,
        msg_type: &[u8],
        body: &[u8],
    ) -> Result<Result<(), Reject>, SendError> {
        let FilterBuffers { frame, index, rules, scratch, .. } = memory;
        self.write(frame, msg_type, body, self.own_header.as_bytes())?;
        let message = parsed(frame, index)?;
        let (set, agreed) = rules.parts(&self.id);
        Ok(set.check_application(&message, agreed, scratch))
    }

    /// Writes the message in its final form, with `header` and placeholders for MsgSeqNum(34) and
    /// SendingTime(52). Returns the offset of the body.
    fn write(
        &self,
        frame: &mut Vec<u8>,
        msg_type: &[u8],
        body: &[u8],
        header: &[u8],
    ) -> Result<usize, SendError> {
        frame.clear();
        let id = &self.id;
        let begin_string = id.begin_string.as_str().as_bytes();
        let mut writer = FrameWriter::new(frame, begin_string, msg_type);
        for (tag, comp_id) in [("49=", &id.sender_comp_id), ("56=", &id.target_comp_id)] {
            writer.raw(tag.as_bytes());
            writer.raw(comp_id.as_bytes());
            writer.raw(b"\x01");
        }
        writer.raw(header);
        writer.header_uint(tag::MSG_SEQ_NUM, 1);
        writer.header_timestamp(tag::SENDING_TIME, Timestamp(0), self.precision);
        writer.body(self.precision).fields_unchecked(body);
        let whole = writer.finish()?;
        Ok(whole.end - CHECK_SUM_LEN - body.len())
    }

    fn warn(&self, msg_type: &[u8], reject: Reject) {
        let now_ns = self.io.monotonic_ns();
        let msg_type = MsgType::of(msg_type);
        // Releases the lock before the event is reported, because a listener of events may send
        // messages.
        let told = lock(&self.lines).tell(now_ns, Cause::Invalid);
        if let Some(left_out) = told {
            let left_out = (left_out > 0).then_some(left_out);
            event!(warn, WouldBeRejected, session = %self.id, left_out, %msg_type, %reject);
        }
    }
}

impl BeforeAdmin for OutboundFilter {
    fn before_admin(&self, message: NewAdmin<'_>) -> bool {
        let Some(before_send) = &self.before_send else { return true };
        let NewAdmin { msg_type, msg_seq_num, sending_time, body } = message;
        self.with_memory(|FilterBuffers { frame, index, draft, .. }| {
            // An administrative message of the session layer is already complete.
            let written = self.write(frame, msg_type.as_bytes(), body, b"");
            let Ok(whole) = written.and_then(|_| parsed(frame, index)) else { return false };
            draft.load(&whole);
            let mut shown = OutgoingMessage::new(&self.id, draft);
            shown.sent_as = Some((msg_seq_num, sending_time));
            let looked = before_send.before_admin(&mut shown);
            if shown.is_changed {
                body.clear();
                body.extend_from_slice(shown.fields().bytes());
            }
            looked.is_ok()
        })
    }
}

impl fmt::Debug for OutboundFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundFilter").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for OutboundFilter {
    fn drop(&mut self) {
        lines_left_out(&self.id, lock(&self.lines).take_rest());
    }
}

impl OutboundRules {
    fn parts(&mut self, id: &SessionId) -> (&mut RuleSet, Agreed<'_>) {
        let agreed = Agreed {
            begin_string: id.begin_string,
            appl_ver_id: self.appl_ver_id,
            cstm_appl_ver_id: self.cstm_appl_ver_id.as_deref(),
        };
        (&mut self.set, agreed)
    }
}

impl FilterBuffers {
    /// Takes over the current rules if they have changed.
    fn take_rules(&mut self, rules: &RwLock<OutboundRules>) {
        let rules = rules.read().unwrap_or_else(PoisonError::into_inner);
        if self.rules.number != rules.number {
            self.rules = rules.clone();
        }
    }

    /// Returns true if the buffers are small enough to be kept. The draft may be longer than the
    /// encoded message.
    fn is_small(&self) -> bool {
        let draft = self.draft.fields().bytes().len();
        self.frame.capacity().max(draft) <= BYTES_KEPT
    }
}

fn parsed<'m>(frame: &'m [u8], index: &'m mut FieldIndex) -> Result<Message<'m>, SendError> {
    // A frame that cannot be parsed, for instance because a field has no tag, is the fault of the
    // caller's body.
    Message::parse(frame, index, CheckSumPolicy::Ignore)
        .map_err(|_| SendError::Misuse(Misuse::NotWholeFields))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
