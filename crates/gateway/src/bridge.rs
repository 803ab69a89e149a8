//! The application of each session of a gateway: forwards messages along the routes.
//!
//! Invariants:
//! - A message counts as taken once all its targets have it permanently: a session in its store, a
//!   file on the disk, a program by its confirmation.
//! - A message is refused only if no session and no file has or may have it. Otherwise it is held
//!   until its targets are available, and goes to no other target.
//! - A target that may already have the message gets it again with PossResend(97).

use std::sync::Arc;

use serde_json::{Value, json};
use transfix::{
    Application, BeginString, Body, BusinessReject, Message, MessageAnswer, Offline, Precision,
    Rejected, RejectedBy, SendError, SendOptions, SessionEvent, SessionHandle, SessionId,
    SessionNotice, SessionRef, SessionView, tag,
};

use super::Gateway;
use super::asked::{Asked, SharedPassed, lock};
use super::choices::{self, Choice, Fate, Incoming, OpenChoices};
use super::copy::{Beside, Change};
use super::held::HeldMessage;
use super::line;
use super::mark::mark;
use super::origins::Origin;
use super::routes::{Pick, Route, Target};
use super::stored;

/// BusinessRejectReason(380): DeliverTo firm not available.
const NO_SUCH_FIRM: u16 = 7;

/// The reason why a target does not have a message.
pub(super) enum Missed {
    /// The target never received the message; another target may get it.
    NotHandedOver(BusinessReject),
    /// The target can never accept the message, so no other target gets it.
    Final(BusinessReject),
    /// The target may have the message, or another target has it. The message must be tried again.
    Held,
}

impl Missed {
    pub(super) const fn is_held(&self) -> bool {
        matches!(self, Self::Held)
    }
}

impl From<Missed> for BusinessReject {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::NotHandedOver(reject) | Missed::Final(reject) => reject,
            Missed::Held => Self::not_available(),
        }
    }
}

fn not_there() -> Missed {
    Missed::NotHandedOver(BusinessReject::not_available())
}

/// Forwards the messages of one session.
pub(super) struct Bridge {
    gateway: Gateway,
    /// True while received messages may have been forwarded by an earlier process. The first
    /// message without PossDupFlag(43) resets the flag.
    may_repeat: bool,
    /// The last message that was received; `passed` is its delivery state.
    last: Option<Known>,
    passed: SharedPassed,
}

/// A received message, with a flag that is true if it has PossDupFlag(43)=Y.
struct Known {
    incoming: Incoming,
    is_again: bool,
}

impl Known {
    fn of(seq: u64, message: &Message<'_>) -> Self {
        let is_again = message.raw(tag::POSS_DUP_FLAG) == Some(b"Y");
        // The time distinguishes messages, because after a reset another one may have the same
        // number and fields.
        let time = if is_again { tag::ORIG_SENDING_TIME } else { tag::SENDING_TIME };
        let sent = message.raw(time).unwrap_or_default().to_vec();
        let mark = choices::mark_of_incoming(message.bytes());
        Self { incoming: Incoming { seq, sent, mark }, is_again }
    }

    /// Returns true if both are the same message.
    fn is(&self, last: &Self) -> bool {
        self.incoming == last.incoming && !self.incoming.sent.is_empty()
    }

    /// Returns true if both may be the same message. Some counterparties do not repeat the original
    /// time.
    fn may_be(&self, last: &Self) -> bool {
        let (own, last) = (&self.incoming, &last.incoming);
        (own.seq, own.mark) == (last.seq, last.mark) && self.is_again
    }
}

/// A message that is being forwarded.
pub(super) struct Passing<'a, 'm, 's> {
    pub(super) gateway: &'a Gateway,
    pub(super) message: &'a Message<'m>,
    /// The session that has received the message, if this is its callback.
    pub(super) session: Option<&'a mut SessionRef<'s>>,
    pub(super) id: &'a SessionId,
    pub(super) repeats: bool,
    pub(super) passed: &'a SharedPassed,
    pub(super) incoming: &'a Incoming,
    /// The deferred answer to the message, if the callback has returned.
    pub(super) answer: Option<MessageAnswer>,
}

impl Bridge {
    pub(super) fn new(gateway: &Gateway) -> Self {
        Self {
            gateway: gateway.clone(),
            may_repeat: true,
            last: None,
            passed: SharedPassed::default(),
        }
    }

    /// Returns true if this message, or a copy of it, may have been sent before. `from` is the
    /// session that has received the message.
    fn repeats(&mut self, known: Known, from: Option<&SessionHandle>) -> bool {
        self.may_repeat &= known.is_again;
        if !self.last.as_ref().is_some_and(|last| known.is(last)) {
            let in_doubt = self.last.as_ref().is_some_and(|last| known.may_be(last));
            // Creates a new state, because the old one may still be in use for the previous
            // message.
            self.passed = SharedPassed::default();
            let mut passed = lock(&self.passed);
            passed.in_doubt = in_doubt;
            let before = from
                .filter(|_| known.is_again)
                .and_then(|from| self.gateway.choices.before(from.settings(), &known.incoming));
            for (name, fate) in before.into_iter().flatten() {
                match fate {
                    Fate::Has => passed.had.push(name.clone()),
                    Fate::Unknown => passed.maybe_delivered.push(name.clone()),
                    Fate::Nowhere => {}
                }
            }
            drop(passed);
            self.last = Some(known);
        }
        self.may_repeat || lock(&self.passed).in_doubt
    }
}

impl Passing<'_, '_, '_> {
    fn from(&self) -> Origin {
        Origin::Session(self.id.clone(), self.incoming.seq)
    }

    /// Returns a handle to another session of the gateway.
    fn other(&self, id: &SessionId) -> Option<SessionHandle> {
        match &self.session {
            Some(session) => session.other(id),
            None => self.gateway.admin.get()?.handle(id),
        }
    }

    fn take_answer(&mut self) -> Option<MessageAnswer> {
        let later = || self.session.as_mut().and_then(|session| session.answer_later());
        self.answer.take().or_else(later)
    }

    /// Records the targets of the message in the file of choices, before any of them gets the
    /// message.
    fn choose(&self, targets: &[&Target], route: &Route) -> Result<Option<OpenChoices>, Missed> {
        let Some(own) = self.other(self.id) else { return Ok(None) };
        let beside = Beside { sender: &own.id().target_comp_id, repeats: false, ref_seq: None };
        let mut copy = Vec::new();
        // An error is ignored, because sending the message reports it too.
        let _ = Body::detached(&mut copy, Precision::Millis, |body| {
            route.change.write(self.message, beside, body);
        });
        let copy = mark(&stored::lasting_fields(&copy, &self.gateway.added));
        let to = targets.iter().map(|target| {
            let session = match target {
                Target::Session(id) => self.other(id),
                Target::ThirdParty => self.third_party().ok(),
                Target::File(_) | Target::Socket(_) => None,
            };
            (self.name(target), session)
        });
        let alone = route.pick != Pick::All;
        let choice = Choice { message: self.incoming, alone, to: to.collect(), copy };
        let kept = self.gateway.choices.of(own.settings()).and_then(|choices| {
            choices.as_ref().map_or(Ok(()), |choices| choices.choose(choice))?;
            Ok(choices)
        });
        kept.map_err(|error| {
            let session = self.id;
            tracing::error!(%session, %error, "the chosen target could not be recorded: the \
                message is not passed on");
            if self.is_somewhere() { Missed::Held } else { not_there() }
        })
    }

    /// Returns the name of a target in the file of choices.
    fn name(&self, target: &Target) -> String {
        match target {
            Target::ThirdParty => {
                let to = self.third_party().map(|to| to.id().to_string());
                to.unwrap_or_else(|_| target.to_string())
            }
            _ => target.to_string(),
        }
    }

    /// Sends a copy of the message through the session `to`. Returns when the copy is durable in
    /// that session's store.
    fn to_session(
        &self,
        to: &SessionHandle,
        (change, choices): (&Change, Option<&OpenChoices>),
        ref_seq: Option<u64>,
    ) -> Result<(), Missed> {
        let sender = &self.id.target_comp_id;
        let mut origin = self.gateway.origins.note(to.id(), Some(self.from()));
        let number = choices.map(|choices| choices.numbered(self.incoming.seq, to.id()));
        let beside = Beside { sender, repeats: self.repeats, ref_seq };
        let mut note = |sent| {
            origin(sent);
            if let Some(number) = &number {
                number(sent);
            }
        };
        let options = SendOptions { note: Some(&mut note), ..SendOptions::default() };
        let fill = |body: &mut Body<'_>| change.write(self.message, beside, body);
        let sent = to.send_with(options, self.message.msg_type(), fill);
        match sent {
            Ok(_) => Ok(()),
            // An error of the message itself would recur at each try.
            Err(
                error @ (SendError::Misuse(_)
                | SendError::Invalid(_)
                | SendError::TooLong { .. }
                | SendError::Vetoed),
            ) => Err(Missed::Final(BusinessReject::other(error.to_string()))),
            Err(SendError::Failed) => {
                let mut passed = lock(self.passed);
                passed.in_doubt = true;
                passed.maybe_delivered.push(to.id().to_string());
                Err(Missed::Held)
            }
            Err(_) => Err(not_there()),
        }
    }

    /// Returns the session named by DeliverToCompID(128).
    fn third_party(&self) -> Result<SessionHandle, Missed> {
        let from = self.id;
        let firm = self.message.raw(tag::DELIVER_TO_COMP_ID).unwrap_or_default();
        // Only a session of the same version is suitable, because messages are not translated.
        let version = |one: &SessionHandle| {
            (one.id().begin_string, one.settings().protocol.default_appl_ver_id)
        };
        let own = self.other(from).map(|own| version(&own));
        let is_it = |one: &SessionHandle| {
            let id = one.id();
            id.target_comp_id.as_bytes() == firm && id != from && Some(version(one)) == own
        };
        let found =
            self.gateway.admin.get().and_then(|admin| admin.handles().into_iter().find(is_it));
        let no_such = || BusinessReject::new(NO_SUCH_FIRM, "DeliverTo firm not available");
        found.ok_or_else(|| Missed::Final(no_such()))
    }

    /// Passes the message to a target that is not a program.
    fn to_one(&self, target: &Target, how: (&Change, Option<&OpenChoices>)) -> Result<(), Missed> {
        match target {
            Target::Session(id) => {
                let to = self.other(id).ok_or_else(not_there)?;
                self.to_session(&to, how, self.ref_seq_for(id))
            }
            Target::ThirdParty => {
                let to = self.third_party()?;
                let ref_seq = self.ref_seq_for(to.id());
                self.to_session(&to, how, ref_seq)
            }
            Target::File(name) => {
                let session = self.id.to_string();
                let line = line::without_id(&session, self.message, self.repeats);
                // The log already contains the reason.
                self.gateway.drains.write(name, &line).map_err(|_| not_there())
            }
            // Programs get messages only through `ask`.
            Target::Socket(_) => Err(not_there()),
        }
    }

    /// Returns the RefSeqNum(45) for a BusinessMessageReject(j) that is forwarded to the session
    /// `to`: the number of the original message there.
    fn ref_seq_for(&self, to: &SessionId) -> Option<u64> {
        match self.rejected()? {
            Origin::Session(id, seq) if id == *to => Some(seq),
            Origin::Session(..) | Origin::Program(..) => None,
        }
    }

    /// Returns the origin of the message that is rejected, if this message is a
    /// BusinessMessageReject(j).
    fn rejected(&self) -> Option<Origin> {
        if self.message.msg_type() != b"j" {
            return None;
        }
        let seq = self.message.uint(tag::REF_SEQ_NUM).ok()?;
        self.gateway.origins.find(self.id, seq)
    }

    /// Returns true if the target is the session from which the message came. A message is never
    /// sent back.
    fn is_sender(&self, target: &Target) -> bool {
        matches!(target, Target::Session(id) if id == self.id)
    }

    /// Returns true if the target has already accepted the message, so that it must not get it
    /// again.
    fn has_had(&self, target: &Target) -> bool {
        lock(self.passed).had.contains(&self.name(target))
    }

    /// Returns true if a target has, or may have, the message.
    fn is_somewhere(&self) -> bool {
        let passed = lock(self.passed);
        !passed.had.is_empty() || !passed.maybe_delivered.is_empty()
    }

    /// Returns true if the target would probably take the message now.
    fn is_there(&self, target: &Target) -> bool {
        let takes = |to: &SessionHandle| {
            to.is_logged_on() || to.settings().queue.offline != Offline::Refuse
        };
        match target {
            Target::Socket(name) => self.gateway.ports.has_program(name),
            Target::Session(id) => self.other(id).as_ref().is_some_and(takes),
            Target::ThirdParty => self.third_party().as_ref().is_ok_and(takes),
            Target::File(_) => true,
        }
    }

    /// Passes the message to the programs at these targets. The message is answered when all of
    /// them have answered.
    fn ask(&mut self, programs: &[&Target]) -> Result<(), Missed> {
        let from = self.other(self.id);
        let Some(answer) = self.take_answer() else { return Err(not_there()) };
        lock(self.passed).in_doubt = true;
        let asked = Asked::new(answer, programs.len(), Arc::clone(self.passed));
        // If another target already has the message, holds it until a program is available again.
        let is_elsewhere = !lock(self.passed).had.is_empty();
        let asked = match from.filter(|_| is_elsewhere) {
            Some(from) => asked.or_hold(Box::new(self.hold(from))),
            None => asked,
        };
        for target in programs {
            let Target::Socket(name) = target else { continue };
            let message = (self.message, self.repeats);
            if !self.gateway.ports.ask(name, self.id, message, &asked) {
                // The program has just disconnected.
                asked.answered(target, Err(BusinessReject::not_available()));
            }
        }
        Ok(())
    }

    /// Returns a function that holds the message with its deferred answer, to try it again later.
    fn hold(&self, from: SessionHandle) -> impl FnOnce(MessageAnswer) + Send + use<> {
        let (gateway, bytes) = (self.gateway.clone(), self.message.bytes().to_vec());
        let (incoming, passed) = (self.incoming.clone(), Arc::clone(self.passed));
        let repeats = self.repeats;
        move |answer| {
            let held = gateway.held.clone();
            held.hold(HeldMessage { gateway, from, bytes, incoming, repeats, passed, answer });
        }
    }

    /// Passes the message to the first of these targets that accepts it.
    fn give_first<'t>(
        &mut self,
        route: &Route,
        targets: impl Iterator<Item = &'t Target>,
    ) -> Result<(), Missed> {
        if !lock(self.passed).had.is_empty() {
            return Ok(());
        }
        let mut last = not_there();
        let targets: Vec<_> = targets.filter(|target| !self.is_sender(target)).collect();
        // If a target may already have the message, only this target is tried again.
        let maybe_delivered = lock(self.passed).maybe_delivered.clone();
        let only = targets.iter().copied().find(|to| maybe_delivered.contains(&self.name(to)));
        for target in targets.into_iter().filter(|to| only.is_none_or(|one| one == *to)) {
            let choices = self.choose(&[target], route)?;
            let done = match target {
                Target::Socket(name) if self.gateway.ports.has_program(name) => {
                    // From here on the program may have the message, so only this target may be
                    // tried again.
                    lock(self.passed).maybe_delivered = vec![self.name(target)];
                    self.ask(&[target])
                }
                target => {
                    let done = self.to_one(target, (&route.change, choices.as_ref()));
                    if done.is_ok() {
                        lock(self.passed).had.push(self.name(target));
                    }
                    done
                }
            };
            match done {
                Err(Missed::NotHandedOver(_)) if only.is_some() => return Err(Missed::Held),
                Err(missed @ Missed::NotHandedOver(_)) => {
                    lock(self.passed).maybe_delivered.clear();
                    last = missed;
                }
                done => return done,
            }
        }
        Err(last)
    }

    /// Passes the message to each target of the route, and to programs last, because they determine
    /// the answer. No target gets the message before all are available. If one becomes unavailable
    /// meanwhile, the message is held.
    fn give_all(&mut self, route: &Route) -> Result<(), Missed> {
        let left =
            route.to.iter().filter(|target| !self.has_had(target) && !self.is_sender(target));
        let left: Vec<_> = left.collect();
        if !left.iter().all(|target| self.is_there(target)) {
            return Err(if self.is_somewhere() { Missed::Held } else { not_there() });
        }
        let choices = if left.is_empty() { None } else { self.choose(&left, route)? };
        let (programs, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|target| matches!(target, Target::Socket(_)));
        for target in others {
            match self.to_one(target, (&route.change, choices.as_ref())) {
                Ok(()) => {}
                Err(Missed::NotHandedOver(_)) if self.is_somewhere() => return Err(Missed::Held),
                // This target will never accept the message, but others already have it, which
                // cannot be undone.
                Err(Missed::Final(reject)) if self.is_somewhere() => {
                    let (to, why) = (target.to_string(), &*reject.text);
                    let session = self.id;
                    tracing::error!(%session, to, why, "one of several targets does not accept \
                        the message");
                }
                Err(missed) => return Err(missed),
            }
            let name = self.name(target);
            let mut passed = lock(self.passed);
            passed.maybe_delivered.retain(|one| *one != name);
            passed.had.push(name);
        }
        if programs.is_empty() { Ok(()) } else { self.ask(&programs) }
    }

    /// Forwards the message along its route. After [`Missed::Held`], the message must be tried
    /// again.
    pub(super) fn pass(&mut self) -> Result<(), Missed> {
        // A message that may have been delivered before gets PossResend(97)=Y.
        self.repeats |= lock(self.passed).in_doubt;
        // A reject goes to the sender of the rejected message, whatever the routes are.
        match self.rejected() {
            Some(Origin::Session(id, seq)) => {
                if let Some(to) = self.other(&id) {
                    return self.to_session(&to, (&Change::default(), None), Some(seq));
                }
            }
            Some(Origin::Program(socket, reference)) => {
                let message = self.message;
                let seq = message.uint(tag::REF_SEQ_NUM).ok();
                let reason = message.uint(tag::BUSINESS_REJECT_REASON).ok();
                let text = message.raw(tag::TEXT).unwrap_or_default();
                let line = rejected(self.id, &reference, (seq, reason, text));
                self.gateway.ports.tell(&socket, &line);
                return Ok(());
            }
            None => {}
        }
        let routes = self.gateway.routes();
        let Some(route) = routes.find(self.id, self.message) else {
            // If a target already has the message, it counts as delivered, even though new routes
            // do not include it.
            let reject = Missed::Final(BusinessReject::unsupported());
            return if lock(self.passed).had.is_empty() { Err(reject) } else { Ok(()) };
        };
        match route.pick {
            Pick::All => self.give_all(route),
            Pick::First => self.give_first(route, route.to.iter()),
            Pick::Hash => {
                self.give_first(route, route.to.get(route.hashed(self.message)).into_iter())
            }
        }
    }
}

/// Returns the line that informs a program about the rejection of its message: number, reason and
/// text.
fn rejected(
    by: &SessionId,
    reference: &Value,
    (seq, reason, text): (Option<u64>, Option<u64>, &[u8]),
) -> Value {
    json!({ "rejected": {
        "ref": reference, "session": by.to_string(), "seq": seq, "reason": reason,
        "text": String::from_utf8_lossy(text),
    } })
}

impl Application for Bridge {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let known = Known::of(message.msg_seq_num().unwrap_or(0), message);
        let (id, incoming) = (session.id().clone(), known.incoming.clone());
        let from = session.other(&id);
        let repeats = self.repeats(known, from.as_ref());
        let (gateway, passed, answer) = (&self.gateway, &self.passed, None);
        let (id, incoming, session) = (&id, &incoming, Some(session));
        let mut passing =
            Passing { gateway, message, session, id, repeats, passed, incoming, answer };
        match (passing.pass(), from) {
            (Err(Missed::Held), Some(from)) => {
                let hold = passing.hold(from);
                let answer = passing.take_answer().ok_or_else(BusinessReject::not_available)?;
                let seq = incoming.seq;
                let why = "a target has the message, or may have it";
                tracing::warn!(session = %id, seq, why, "a message is held");
                hold(answer);
                Ok(())
            }
            (done, _) => Ok(done?),
        }
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        let (gateway, id) = (&self.gateway, session.id());
        match event {
            SessionEvent::LoggedOn => self.logged_on(session),
            SessionEvent::NumbersReset => {
                gateway.origins.forget_from(id, session.next_numbers().1);
            }
            SessionEvent::Rejected(rejected) if rejected.by == RejectedBy::Session => {
                self.pass_rejection_on(&rejected, session);
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        let (gateway, id) = (&self.gateway, session.id());
        match notice {
            SessionNotice::Disconnected(end) => {
                gateway.told.say(format!("{id} ended: {end}"));
                gateway.ports.tell_all(id, false);
            }
            // A message that was forwarded before the rollback arrives again.
            SessionNotice::RolledBack(_) => self.may_repeat = true,
            // Forwarded messages never cause this notice, because they get their numbers at once.
            SessionNotice::Unsent(message) => {
                tracing::warn!(session = %id, why = %message.why, "a message could not be sent");
            }
            _ => {}
        }
    }
}

impl Bridge {
    fn logged_on(&self, session: &SessionRef<'_>) {
        let (gateway, id) = (&self.gateway, session.id());
        let count = gateway.origins.take_stored(id);
        let (_, next_out) = session.next_numbers();
        gateway.origins.forget_from(id, next_out);
        // A next number of at most 2 shows a reset, because our Logon(A) has used number 1.
        if count > 0 && next_out <= 2 {
            let why = "the sequence numbers were reset at the logon";
            tracing::error!(session = %id, count, why, "messages were not sent");
        }
        gateway.told.say(format!("{id} logged on"));
        gateway.ports.tell_all(id, true);
    }

    /// Passes a Reject(3) on to the origin of the rejected message.
    fn pass_rejection_on(&self, rejected: &Rejected<'_>, session: &SessionRef<'_>) {
        let (text, by) = (String::from_utf8_lossy(rejected.text), session.id());
        match self.gateway.origins.find(by, rejected.seq) {
            Some(Origin::Session(id, seq)) => {
                let Some(to) = session.other(&id).filter(|_| id.begin_string >= BeginString::Fix42)
                else {
                    return;
                };
                let fill = |body: &mut Body<'_>| {
                    body.uint(tag::REF_SEQ_NUM, seq);
                    body.bytes(tag::REF_MSG_TYPE, rejected.msg_type.as_bytes());
                    body.uint(tag::BUSINESS_REJECT_REASON, 0);
                    body.str(tag::TEXT, &format!("rejected by {}: {text}", by.target_comp_id));
                };
                let mut note = self.gateway.origins.note(to.id(), None);
                let options = SendOptions { note: Some(&mut note), ..SendOptions::default() };
                if let Err(error) = to.send_with(options, "j", fill) {
                    tracing::warn!(session = %id, seq, %error, "a reject could not be passed on");
                }
            }
            Some(Origin::Program(socket, reference)) => {
                let said = (Some(rejected.seq), rejected.reason, rejected.text);
                let line = self::rejected(by, &reference, said);
                self.gateway.ports.tell(&socket, &line);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A resent message is recognized, although its header differs.
    #[test]
    fn a_message_that_is_sent_again_is_known() {
        let of = |fields: &str| {
            let text = format!("8=FIX.4.4|9=1|35=D|{fields}|10=000|").replace('|', "\u{1}");
            choices::mark_of_incoming(text.as_bytes())
        };
        let first = of("49=DESK|56=GATE|34=5|52=20260101-00:00:00|369=7|11=a|55=EU");
        let again = "49=DESK|56=GATE|34=5|43=Y|52=20260101-00:01:00|122=20260101-00:00:00|369=9";
        assert_eq!(of(&format!("{again}|11=a|55=EU")), first);
        assert_ne!(of(&format!("{again}|11=b|55=EU")), first);
    }
}
