//! Delivers inbound messages to the application, or forwards them to another session.

use std::hint::cold_path;

use transfix_codec::{Body, CheckSumPolicy, Message, Tag, tag};
use transfix_session::core::deliver::{Delivered, Numbers, Step};
use transfix_session::core::delivery::{Handling, Made};
use transfix_session::{BusinessReject, Now};

use super::Executor;
use crate::link::callbacks::PassedOn;
use crate::link::delivery_queue::{Had, Stopped};
use crate::link::down::Down;

impl Executor {
    pub(super) fn deliver(
        &mut self,
        now: Now,
        message: &Message<'_>,
        handling: Handling,
    ) -> Result<(), Down> {
        if self.core.delivery.has_postponed() {
            return Ok(self.core.postpone(message, handling)?);
        }
        match self.handle(now, (message, Numbers::Hold), handling) {
            Ok(delivered) => Ok(self.core.delivered(now, (message, handling), delivered)?),
            Err(down) => {
                // The message does not count as received, so the counterparty resends it after the
                // next logon.
                self.core.postpone(message, handling)?;
                Err(down)
            }
        }
    }

    /// Offers postponed messages to the application again: at most `left` messages, by which `left`
    /// is decreased. If messages remain, [`Core::next_deadline`] is due at once.
    ///
    /// [`Core::next_deadline`]: transfix_session::core::Core::next_deadline
    pub(super) fn offer_again(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        while *left > 0
            && let Some((seq, bytes, handling)) = self.core.delivery.next(now)
        {
            *left -= 1;
            let mut index = std::mem::take(&mut self.core.held_index);
            // The message can be parsed, because it was valid when it arrived.
            let handled = match Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore) {
                Ok(message) => self.handle(now, (&message, Numbers::of(seq)), handling),
                Err(_) => Ok(Delivered::Done),
            };
            self.core.held_index = index;
            let handled = handled?;
            match handled {
                Delivered::Done => {
                    self.core.delivery.first_is_taken();
                    self.put_entries(now).map_err(Down::Store)?;
                }
                Delivered::Later => self.core.delivery.offer_later(now),
                Delivered::Busy => self.core.delivery.offer_soon(now),
                Delivered::Behind => break,
            }
        }
        Ok(())
    }

    /// Processes the ended calls of an application in its own threads.
    #[inline]
    pub(crate) fn poll_application(&mut self, now: Now) -> Result<(), Down> {
        match self.application.deliveries() {
            Some(deliveries) if deliveries.take_news() => self.hear_from(now),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn hear_from(&mut self, now: Now) -> Result<(), Down> {
        let heard = self.hear_all(now);
        if matches!(heard, Err(Down::Store(_)))
            && let Some(deliveries) = self.application.deliveries()
        {
            // Sets the flag again, so that the remaining calls are processed later.
            deliveries.note_news();
        }
        heard
    }

    fn hear_all(&mut self, now: Now) -> Result<(), Down> {
        self.process_ended(now)?;
        let stopped = self.application.deliveries().and_then(|deliveries| deliveries.stopped());
        if stopped.is_some() {
            // Processes the calls that ended before the panic, and the call that panicked.
            self.process_ended(now)?;
        }
        match stopped {
            None => {}
            Some(Stopped::Panicked) => return Err(self.core.panicked().into()),
            Some(Stopped::NotAvailable(reject)) => {
                if let Some(made) = self.core.not_available(now, reject)? {
                    if let Some(deliveries) = self.application.deliveries() {
                        deliveries.pass_over(made);
                    }
                    self.process_ended(now)?;
                }
            }
        }
        self.put_entries(now).map_err(Down::Store)
    }

    fn process_ended(&mut self, now: Now) -> Result<(), Down> {
        while let Some(had) =
            self.application.deliveries().and_then(|deliveries| deliveries.take_ended_call())
        {
            let Had { bytes, made } = had;
            let put = match self.core.take_ended_call(&made) {
                Some(seq) => self.note_had(now, (seq, &bytes), &made),
                None => Ok(()),
            };
            if let Some(deliveries) = self.application.deliveries() {
                deliveries.give_back(bytes);
            }
            put?;
        }
        Ok(())
    }

    /// Processes the result of a call that has delivered a message in an application thread.
    fn note_had(&mut self, now: Now, (seq, bytes): (u64, &[u8]), made: &Made) -> Result<(), Down> {
        let mut put = Ok(());
        let reject = if let Made::Rejected(reject) = made { Some(reject) } else { None };
        if reject.is_some() || self.core.options.keeps.inbound {
            let mut index = std::mem::take(&mut self.core.held_index);
            if let Ok(message) = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore) {
                if let Some(reject) = reject {
                    self.core.reject(now, (&message, Numbers::of(seq)), reject);
                }
                put = self.journal.put_inbound(now, &message).map_err(Down::Store);
            }
            self.core.held_index = index;
        }
        self.core.note_had(seq);
        put
    }

    /// Processes a message that is in sequence: forwards it, or offers it to the application.
    #[inline]
    fn handle(
        &mut self,
        now: Now,
        (message, numbers): (&Message<'_>, Numbers),
        handling: Handling,
    ) -> Result<Delivered, Down> {
        if self.core.delivery.has_room() == Some(false) {
            cold_path();
            self.poll_application(now)?;
        }
        match self.core.step(now, (message, numbers), handling)? {
            Step::Over(delivered) => return Ok(delivered),
            Step::Call => {
                // An application in its own threads answers later.
                let Some(answer) = self.offer(now, message) else { return Ok(Delivered::Done) };
                if let Some(delivered) = self.core.answered(now, (message, numbers), answer)? {
                    return Ok(delivered);
                }
            }
            Step::Route(to) => {
                if !self.route(now, message, to) {
                    return Ok(Delivered::Busy);
                }
            }
        }
        self.journal.put_inbound(now, message).map_err(Down::Store)?;
        Ok(Delivered::Done)
    }

    /// Delivers a message to the application, or queues it for application threads. Returns the
    /// answer if the application has given it.
    #[inline]
    fn offer(&mut self, now: Now, message: &Message<'_>) -> Option<Result<(), BusinessReject>> {
        let is_called = self.application.deliveries().is_none();
        if is_called {
            self.probe.called(now);
        }
        // Publishes the number as received before the application can tell other threads about the
        // message. A changed state is reported to the application first.
        self.note_state(now);
        self.make_calls(now, None);
        let answer = self.application.offer(now, message, (&mut self.core, &mut self.probe));
        // An error is ignored, because the next write to the journal detects a failed store too.
        let _ = self.put_if_late(now);
        if is_called {
            self.probe.returned(now);
        }
        answer
    }

    /// Third-party routing of FIX: forwards the message, on behalf of its sender, to the session
    /// with the target counterparty. Returns true if the message was forwarded or refused.
    fn route(&mut self, now: Now, message: &Message<'_>, to: &[u8]) -> bool {
        let (id, msg_type) = (self.core.id(), message.msg_type());
        let mut fill = |body: &mut Body<'_>| fill_routed(body, message);
        let to = std::str::from_utf8(to).ok();
        let application = &mut self.application;
        let passed_on = to.map(|to| {
            application.ask(|application| application.pass_on((id, to), msg_type, &mut fill))
        });
        let why = match passed_on {
            Some(PassedOn::Sent) => return true,
            Some(PassedOn::Busy) => return false,
            Some(PassedOn::Refused(error)) => error.to_string(),
            Some(PassedOn::Nobody) | None => "no such counterparty".to_owned(),
        };
        self.core.not_routed(now, message, &why);
        true
    }
}

/// Header fields that forwarding replaces with the field at their side, or drops if there is none.
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
    // The message may have been forwarded before, by a process that was then killed.
    let repeats = message.raw(tag::POSS_DUP_FLAG) == Some(b"Y");
    if repeats {
        body.str(tag::POSS_RESEND, "Y");
    }
    for (from, to) in REPLACED {
        if let (Some(to), Some(value)) = (to, message.raw(from).filter(|v| !v.is_empty())) {
            body.bytes(to, value);
        }
    }
    for (n, field) in message.fields().enumerate() {
        let replaced = (repeats && field.tag == tag::POSS_RESEND)
            || REPLACED.iter().any(|(tag, _)| *tag == field.tag);
        if !replaced && !tag::is_session_owned(field.tag) {
            body.fields_unchecked(message.encoded(n));
        }
    }
}
