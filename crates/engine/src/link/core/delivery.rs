//! Messages of the counterparty on their way to the application, or on to another session.
//!
//! Invariant: messages are delivered in order; while one waits for its application, those behind it
//! wait too, and the journal does not count it: after a crash or a disconnection it is asked for
//! again.

use std::collections::VecDeque;

use transfix_codec::{Body, CheckSumPolicy, Message, Tag, tag};
use transfix_session::{BeginString, Disconnect, Now};
use transfix_store::{Record, Store};

use super::Core;
use crate::link::answers::BusinessReject;
use crate::link::down::Down;
use crate::settings::UnavailableAction;

const MS: u64 = 1_000_000;

/// What becomes of a message when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Offered,
    /// One too many. Not before its turn: it is sent again with those before it, and then taken.
    Refused,
}

/// A message that waits, with its number; 0 if that means nothing any more.
#[derive(Debug)]
struct Waiting {
    seq: u64,
    bytes: Vec<u8>,
    fate: Fate,
}

/// Messages that wait for an application which was not available.
#[derive(Debug, Default)]
pub(super) struct Postponed {
    messages: VecDeque<Waiting>,
    bytes: usize,
    /// How often the first one was offered.
    offers: u32,
    /// When it is offered again.
    at_ns: u64,
}

impl Postponed {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What the application has made of a message.
enum Offer {
    /// It has had it, or will never have it.
    Taken,
    /// It is to be asked again.
    Later,
}

impl Postponed {
    /// The lowest number of a message that has not been taken yet; those of before a reset have
    /// none.
    pub(super) fn first_seq(&self) -> Option<u64> {
        self.messages.iter().map(|waiting| waiting.seq).find(|seq| *seq > 0)
    }

    /// Numbers have been reset: those of the messages mean nothing any more.
    pub(super) fn forget_numbers(&mut self) {
        self.messages.iter_mut().for_each(|waiting| waiting.seq = 0);
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        (!self.messages.is_empty()).then_some(self.at_ns)
    }
}

impl Core {
    pub(super) fn deliver(
        &mut self,
        now: Now,
        message: &Message<'_>,
        fate: Fate,
    ) -> Result<(), Down> {
        if !self.postponed.messages.is_empty() {
            return self.postpone(message, fate);
        }
        match self.decide(now, message, fate) {
            Ok(Offer::Taken) => Ok(()),
            Ok(Offer::Later) => {
                self.postponed.offers = 1;
                self.postponed.at_ns = self.next_offer_ns(now);
                self.postpone(message, fate)
            }
            Err(down) => {
                // Not taken: it comes again after the next logon.
                self.postpone(message, fate)?;
                Err(down)
            }
        }
    }

    /// Offers the messages again that wait for the application, as far as it takes them, and at
    /// most `left` of them, which are counted down. [`Postponed::deadline`] is over if some are
    /// left.
    pub(crate) fn offer_again(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        while *left > 0 && self.offers_more(now) {
            let Some(first) = self.postponed.messages.front() else { break };
            *left -= 1;
            let (bytes, fate) = (first.bytes.clone(), first.fate);
            let mut index = std::mem::take(&mut self.held_index);
            // It was whole and sound when it came.
            let offered = match Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore) {
                Ok(message) => self.decide(now, &message, fate),
                Err(_) => Ok(Offer::Taken),
            };
            self.held_index = index;
            match offered? {
                Offer::Taken => {
                    self.postponed.messages.pop_front();
                    self.postponed.bytes -= bytes.len();
                    self.postponed.offers = 0;
                    self.put_entries(now).map_err(Down::Store)?;
                }
                Offer::Later => {
                    self.postponed.offers += 1;
                    self.postponed.at_ns = self.next_offer_ns(now);
                }
            }
        }
        Ok(())
    }

    /// Whether messages are to be offered again now.
    pub(crate) fn offers_more(&self, now: Now) -> bool {
        self.postponed.deadline().is_some_and(|at| now.monotonic_ns >= at)
    }

    fn next_offer_ns(&self, now: Now) -> u64 {
        now.monotonic_ns + u64::from(self.options.unavailable.delay_ms) * MS
    }

    /// It is the turn of this message.
    fn decide(&mut self, now: Now, message: &Message<'_>, fate: Fate) -> Result<Offer, Down> {
        if fate == Fate::Refused {
            self.session.refuse_throttled(now, message, &mut self.out);
            return Ok(Offer::Taken);
        }
        self.offer(now, message)
    }

    fn offer(&mut self, now: Now, message: &Message<'_>) -> Result<Offer, Down> {
        let closed = self.options.hours.as_mut().and_then(|hours| hours.refusal(now.utc));
        // A reject cannot be rejected: who was refused must learn it at any hour.
        if let Some(text) = closed.filter(|_| message.msg_type() != b"j") {
            let text = text.to_owned().into();
            self.refuse(now, message, &BusinessReject { text, ..BusinessReject::not_available() });
            return Ok(Offer::Taken);
        }
        if self.options.routes
            && let Some(to) = message.raw(tag::DELIVER_TO_COMP_ID).filter(|to| !to.is_empty())
        {
            self.route(now, message, to);
            return self.keep_inbound(now, message);
        }
        let mut answer = Ok(());
        self.with_application(now, |app, session| answer = app.on_message(message, session));
        let policy = self.options.unavailable;
        match answer {
            Ok(()) => {}
            Err(reject) if !reject.is_not_available() => self.refuse(now, message, &reject),
            Err(_) if self.postponed.offers < policy.retries => return Ok(Offer::Later),
            Err(reject) => match policy.then {
                UnavailableAction::Reject => self.refuse(now, message, &reject),
                UnavailableAction::Silence => {}
                UnavailableAction::Disconnect => {
                    let why = Disconnect::ApplicationNotAvailable;
                    self.session.logout(now, &why.to_string(), &mut self.out);
                    return Err(Down::Session(why));
                }
            },
        }
        self.keep_inbound(now, message)
    }

    fn refuse(&mut self, now: Now, message: &Message<'_>, reject: &BusinessReject) {
        let why = (reject.reason, reject.text.as_ref());
        self.session.business_reject(now, message, why, &mut self.out);
    }

    fn keep_inbound(&mut self, now: Now, message: &Message<'_>) -> Result<Offer, Down> {
        if !self.options.keep_inbound {
            return Ok(Offer::Taken);
        }
        let seq = message.msg_seq_num().unwrap_or(0);
        let kind = transfix_store::Kind::Application;
        let record = Record::Inbound { seq, kind, bytes: message.bytes() };
        self.store.put(now.utc.0.unsigned_abs(), record).map_err(Down::Store)?;
        Ok(Offer::Taken)
    }

    fn postpone(&mut self, message: &Message<'_>, fate: Fate) -> Result<(), Down> {
        let (config, bytes) = (self.session.config(), message.bytes());
        let postponed = &mut self.postponed;
        if postponed.messages.len() >= config.held_messages_max.max(1)
            || postponed.bytes + bytes.len() > config.held_bytes_max.max(bytes.len())
        {
            return Err(Down::Session(Disconnect::ApplicationNotAvailable));
        }
        postponed.bytes += bytes.len();
        let seq = match self.session.awaits_reset() {
            true => 0,
            false => message.msg_seq_num().unwrap_or(1),
        };
        postponed.messages.push_back(Waiting { seq, bytes: bytes.to_vec(), fate });
        Ok(())
    }

    /// The connection is closed: what the application has not taken is asked for again.
    pub(super) fn forget_postponed(&mut self) {
        if let Some(seq) = self.postponed.first_seq() {
            self.session.set_next_num_in(seq);
            // Those of before a reset are nowhere else any more: they go on waiting.
            let postponed = &mut self.postponed;
            postponed.messages.retain(|waiting| waiting.seq == 0);
            postponed.offers = 0;
            postponed.bytes = postponed.messages.iter().map(|waiting| waiting.bytes.len()).sum();
        }
    }

    /// FIX, third-party routing: passes the message on to the session with that counterparty, as
    /// on behalf of its sender.
    fn route(&mut self, now: Now, message: &Message<'_>, to: &[u8]) {
        let version = self.id().begin_string;
        let msg_type = message.text(tag::MSG_TYPE).unwrap_or_default();
        let mut fill = |body: &mut Body<'_>| fill_routed(body, message);
        let sent = std::str::from_utf8(to)
            .ok()
            .and_then(|to| self.application.pass_on((version, to), msg_type, &mut fill));
        let why = match sent {
            Some(Ok(())) => return,
            Some(Err(error)) => error.to_string(),
            None => "no such counterparty".to_owned(),
        };
        self.tell_not_routed(now, &why);
        // BusinessRejectReason(380): 7 is "DeliverTo firm not available", from FIX 4.3 on; 4 is
        // "application not available".
        let reason = if version >= BeginString::Fix43 { 7 } else { 4 };
        let why = (reason, "DeliverToCompID(128) is not available at this time");
        self.session.business_reject(now, message, why, &mut self.out);
    }
}

/// Fields of the header that are replaced, each by the one behind, or left out.
const REPLACED: [(Tag, Option<Tag>); 12] = [
    (tag::SENDER_COMP_ID, Some(tag::ON_BEHALF_OF_COMP_ID)),
    (tag::SENDER_SUB_ID, Some(tag::ON_BEHALF_OF_SUB_ID)),
    (tag::SENDER_LOCATION_ID, Some(tag::ON_BEHALF_OF_LOCATION_ID)),
    (tag::DELIVER_TO_SUB_ID, Some(tag::TARGET_SUB_ID)),
    (tag::DELIVER_TO_LOCATION_ID, Some(tag::TARGET_LOCATION_ID)),
    (tag::DELIVER_TO_COMP_ID, None),
    (tag::TARGET_SUB_ID, None),
    (tag::TARGET_LOCATION_ID, None),
    (tag::ON_BEHALF_OF_COMP_ID, None),
    (tag::ON_BEHALF_OF_SUB_ID, None),
    (tag::ON_BEHALF_OF_LOCATION_ID, None),
    (tag::LAST_MSG_SEQ_NUM_PROCESSED, None),
];

fn fill_routed(body: &mut Body<'_>, message: &Message<'_>) {
    for (from, to) in REPLACED {
        if let (Some(to), Some(value)) = (to, message.raw(from).filter(|v| !v.is_empty())) {
            body.bytes(to, value);
        }
    }
    for (n, field) in message.fields().enumerate() {
        let replaced = REPLACED.iter().any(|(tag, _)| *tag == field.tag);
        if !replaced && !tag::is_session_owned(field.tag) {
            body.fields_unchecked(message.encoded(n));
        }
    }
}
