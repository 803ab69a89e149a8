//! The application of each session of a gateway: passes messages on.
//!
//! Invariants: a message counts as taken when all of its targets have it for good: in the store of
//! a session, on the disk, or by the word of a program. Where one may have it already, it comes
//! again with PossResend(97).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use transfix::{
    Application, BeginString, Body, BusinessReject, Disconnection, Message, MessageAnswer,
    Rejected, RejectedBy, SendError, SessionHandle, SessionId, SessionRef, Undone, Unsendable, tag,
};

use super::asked::{Asked, SharedPassed, lock};
use super::copy::{Beside, Change, is_of_its_session};
use super::line;
use super::origins::Origin;
use super::routes::{Pick, Route, Target};
use super::{Gateway, InForce};

/// BusinessRejectReason(380): DeliverTo firm not available.
const NO_SUCH_FIRM: u16 = 7;

/// Why a target does not have a message.
enum Missed {
    /// It never got it: another one may.
    NotHandedOver(BusinessReject),
    /// It may have it, or cannot have it: nobody else gets it.
    Final(BusinessReject),
}

impl From<Missed> for BusinessReject {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::NotHandedOver(reject) | Missed::Final(reject) => reject,
        }
    }
}

fn not_there() -> Missed {
    Missed::NotHandedOver(BusinessReject::not_available())
}

/// Passes the messages of one session on.
pub(super) struct Bridge {
    gateway: Gateway,
    /// What comes may have been passed on by a process of before: up to the first message that the
    /// counterparty sends for the first time.
    may_repeat: bool,
    /// The last message, and what has become of it.
    last: Option<Known>,
    passed: SharedPassed,
}

/// What tells a message apart from all others.
struct Known {
    seq: u64,
    /// Of its fields.
    hash: u64,
    /// SendingTime(52) of the first time: after a reset the same number and fields are another
    /// message.
    sent: Option<Vec<u8>>,
    /// It says that it is sent again.
    is_again: bool,
}

impl Known {
    fn of(seq: u64, message: &Message<'_>) -> Self {
        let is_again = message.raw(tag::POSS_DUP_FLAG) == Some(b"Y");
        let time = if is_again { tag::ORIG_SENDING_TIME } else { tag::SENDING_TIME };
        let sent = message.raw(time).map(<[u8]>::to_vec);
        Self { seq, hash: hash(message), sent, is_again }
    }

    /// Whether both are the same.
    fn is(&self, last: &Self) -> bool {
        (self.seq, self.hash) == (last.seq, last.hash)
            && self.sent.is_some()
            && self.sent == last.sent
    }

    /// Whether both may be the same: not everybody says the time of before as it was.
    fn may_be(&self, last: &Self) -> bool {
        (self.seq, self.hash) == (last.seq, last.hash) && self.is_again
    }
}

/// A message on its way.
struct Passing<'a, 'm, 's> {
    gateway: &'a Gateway,
    message: &'a Message<'m>,
    session: &'a mut SessionRef<'s>,
    seq: u64,
    repeats: bool,
    passed: &'a SharedPassed,
    /// The answer, when a program is to give it.
    answer: Option<MessageAnswer>,
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

    /// Whether this message, or what was made of it, may have gone out before.
    fn repeats(&mut self, seq: u64, message: &Message<'_>) -> bool {
        self.may_repeat &= message.raw(tag::POSS_DUP_FLAG) == Some(b"Y");
        let known = Known::of(seq, message);
        if !self.last.as_ref().is_some_and(|last| known.is(last)) {
            let in_doubt = self.last.as_ref().is_some_and(|last| known.may_be(last));
            // Who still has the old one speaks of another message.
            self.passed = SharedPassed::default();
            lock(&self.passed).in_doubt = in_doubt;
            self.last = Some(known);
        }
        self.may_repeat || lock(&self.passed).in_doubt
    }
}

/// Of all fields that stay the same when a message is sent again.
fn hash(message: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in message.fields().filter(|field| !is_of_its_session(field.tag)) {
        (field.tag.0, field.value).hash(&mut hasher);
    }
    hasher.finish()
}

impl Passing<'_, '_, '_> {
    fn from(&self) -> Origin {
        Origin::Session(self.session.id().clone(), self.seq)
    }

    /// Sends a copy into this session. Returns when it is safe in its store.
    fn to_session(
        &self,
        to: &SessionHandle,
        change: &Change,
        ref_seq: Option<u64>,
    ) -> Result<(), Missed> {
        let sender = self.session.id().target_comp_id.clone();
        let beside = Beside { sender: &sender, repeats: self.repeats, ref_seq };
        let sent = to.send_stored_noting(
            self.message.msg_type(),
            |body| change.write(self.message, beside, body),
            self.gateway.origins.note(to.id(), Some(self.from())),
        );
        match sent {
            Ok(_) => Ok(()),
            // What is wrong with the message stays wrong.
            Err(
                error @ (SendError::Misuse(_)
                | SendError::Invalid(_)
                | SendError::TooLong { .. }
                | SendError::Vetoed),
            ) => Err(Missed::Final(BusinessReject::other(error.to_string()))),
            Err(SendError::Failed) => {
                lock(self.passed).in_doubt = true;
                Err(Missed::Final(BusinessReject::not_available()))
            }
            Err(_) => Err(not_there()),
        }
    }

    /// The session that DeliverToCompID(128) names.
    fn third_party(&self) -> Result<SessionHandle, Missed> {
        let from = self.session.id();
        let firm = self.message.raw(tag::DELIVER_TO_COMP_ID).unwrap_or_default();
        // Messages are not translated.
        let version = |one: &SessionHandle| {
            (one.id().begin_string, one.settings().protocol.default_appl_ver_id)
        };
        let own = self.session.other(from).map(|own| version(&own));
        let is_it = |one: &SessionHandle| {
            let id = one.id();
            id.target_comp_id.as_bytes() == firm && id != from && Some(version(one)) == own
        };
        let found =
            self.gateway.admin.get().and_then(|admin| admin.handles().into_iter().find(is_it));
        let no_such = || BusinessReject::new(NO_SUCH_FIRM, "DeliverTo firm not available");
        found.ok_or_else(|| Missed::Final(no_such()))
    }

    /// Gives it to a target that is no program.
    fn to_one(&self, target: &Target, change: &Change) -> Result<(), Missed> {
        match target {
            Target::Session(id) => {
                let to = self.session.other(id).ok_or_else(not_there)?;
                self.to_session(&to, change, self.ref_seq_for(id))
            }
            Target::ThirdParty => {
                let to = self.third_party()?;
                let ref_seq = self.ref_seq_for(to.id());
                self.to_session(&to, change, ref_seq)
            }
            Target::File(name) => {
                let session = self.session.id().to_string();
                let line = line::without_id(&session, self.message, self.repeats);
                // The log has the reason.
                self.gateway.drains.write(name, &line).map_err(|_| not_there())
            }
            // They are asked.
            Target::Socket(_) => Err(not_there()),
        }
    }

    /// RefSeqNum(45) of a BusinessMessageReject(j), as it is for this session: the number of its
    /// message that was passed on.
    fn ref_seq_for(&self, to: &SessionId) -> Option<u64> {
        match self.rejected()? {
            Origin::Session(id, seq) if id == *to => Some(seq),
            Origin::Session(..) | Origin::Program(..) => None,
        }
    }

    /// From whom the message is that a BusinessMessageReject(j) rejects.
    fn rejected(&self) -> Option<Origin> {
        if self.message.msg_type() != b"j" {
            return None;
        }
        let seq = self.message.uint(tag::REF_SEQ_NUM).ok()?;
        self.gateway.origins.find(self.session.id(), seq)
    }

    /// Nothing goes back to the session that it came on.
    fn is_sender(&self, target: &Target) -> bool {
        matches!(target, Target::Session(id) if id == self.session.id())
    }

    /// A target that has had the message does not get it again.
    fn has_had(&self, target: &Target) -> bool {
        lock(self.passed).had.contains(target)
    }

    /// Asks the programs at these targets, of which each is there. The answer comes from them.
    fn ask(&mut self, programs: &[&Target]) -> Result<(), Missed> {
        let answer = self.answer.take().or_else(|| self.session.answer_later());
        let Some(answer) = answer else { return Err(not_there()) };
        lock(self.passed).in_doubt = true;
        let asked = Asked::new(answer, programs.len(), Arc::clone(self.passed));
        for target in programs {
            let Target::Socket(name) = target else { continue };
            let message = (self.message, self.repeats);
            if !self.gateway.ports.ask(name, self.session.id(), message, &asked) {
                // It has gone this moment.
                asked.answered(target, Err(BusinessReject::not_available()));
            }
        }
        Ok(())
    }

    /// Gives it to the first of its targets that takes it.
    fn give_first<'t>(
        &mut self,
        route: &Route,
        targets: impl Iterator<Item = &'t Target>,
    ) -> Result<(), BusinessReject> {
        let mut last = BusinessReject::not_available();
        let targets: Vec<_> = targets.filter(|target| !self.is_sender(target)).collect();
        // Who may have it already is asked again, and nobody else.
        let doubtful = lock(self.passed).doubtful.clone();
        let only = doubtful.filter(|one| targets.contains(&one));
        for target in targets.into_iter().filter(|to| only.as_ref().is_none_or(|one| one == *to)) {
            lock(self.passed).doubtful = Some(target.clone());
            let done = match target {
                Target::Socket(name) if self.gateway.ports.has_program(name) => self.ask(&[target]),
                target => self.to_one(target, &route.change),
            };
            if matches!(done, Err(Missed::NotHandedOver(_))) && only.is_none() {
                lock(self.passed).doubtful = None;
            }
            match done {
                Ok(()) => return Ok(()),
                Err(Missed::Final(reject)) => return Err(reject),
                Err(Missed::NotHandedOver(reject)) => last = reject,
            }
        }
        Err(last)
    }

    /// Gives it to each of its targets: programs last, who give the answer.
    fn give_all(&mut self, route: &Route) -> Result<(), BusinessReject> {
        let left =
            route.to.iter().filter(|target| !self.has_had(target) && !self.is_sender(target));
        let left: Vec<_> = left.collect();
        let (programs, others): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|target| matches!(target, Target::Socket(_)));
        let is_there = |target: &&Target| match target {
            Target::Socket(name) => self.gateway.ports.has_program(name),
            _ => true,
        };
        if !programs.iter().all(is_there) {
            return Err(BusinessReject::not_available());
        }
        for target in others {
            self.to_one(target, &route.change)?;
            lock(self.passed).had.push(target.clone());
        }
        match programs.is_empty() {
            true => Ok(()),
            false => Ok(self.ask(&programs)?),
        }
    }

    fn pass(&mut self, routes: &InForce) -> Result<(), BusinessReject> {
        // A reject goes to whom it is about, whatever the routes say.
        match self.rejected() {
            Some(Origin::Session(id, seq)) => {
                if let Some(to) = self.session.other(&id) {
                    return Ok(self.to_session(&to, &Change::default(), Some(seq))?);
                }
            }
            Some(Origin::Program(socket, reference)) => {
                let message = self.message;
                let seq = message.uint(tag::REF_SEQ_NUM).ok();
                let reason = message.uint(tag::BUSINESS_REJECT_REASON).ok();
                let text = message.raw(tag::TEXT).unwrap_or_default();
                let line = rejected(self.session.id(), &reference, (seq, reason, text));
                self.gateway.ports.tell(&socket, &line);
                return Ok(());
            }
            None => {}
        }
        let routes = Arc::clone(&routes.read().unwrap_or_else(PoisonError::into_inner));
        let Some(route) = routes.find(self.session.id(), self.message) else {
            return Err(BusinessReject::unsupported());
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

/// What a program is told of a message of its own that the counterparty of a session has rejected:
/// its number, the reason and the words.
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
        let seq = message.msg_seq_num().unwrap_or(0);
        let repeats = self.repeats(seq, message);
        let (gateway, passed) = (&self.gateway, &self.passed);
        Passing { gateway, message, session, seq, repeats, passed, answer: None }
            .pass(&gateway.routes)
    }

    /// A Reject(3) is told to whom the message comes from.
    fn on_reject(&mut self, rejected: &Rejected<'_>, session: &mut SessionRef<'_>) {
        if rejected.by != RejectedBy::Session {
            return;
        }
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
                let note = self.gateway.origins.note(to.id(), None);
                let told = to.send_stored_noting("j", fill, note);
                if let Err(error) = told {
                    tracing::warn!(session = %id, seq, %error, "a rejection is not passed on");
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

    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        let stored = self.gateway.origins.take_stored(session.id());
        let (_, next_out) = session.next_numbers();
        self.gateway.origins.forget_from(session.id(), next_out);
        // Numbers have begun again, and our Logon(A) is the first.
        if stored > 0 && next_out <= 2 {
            let why = "the numbers were reset at the logon";
            tracing::error!(session = %session.id(), count = stored, why, "messages are not sent");
        }
        self.gateway.told.say(format!("{} logged on", session.id()));
        self.gateway.ports.tell_all(session.id(), true);
    }

    fn on_reset(&mut self, session: &mut SessionRef<'_>) {
        self.gateway.origins.forget_from(session.id(), session.next_numbers().1);
    }

    /// What was passed on, and does not count any more, comes again.
    fn on_undone(&mut self, _: &Undone, _: &mut SessionRef<'_>) {
        self.may_repeat = true;
    }

    /// Not for what is passed on, which has its number at once.
    fn on_unsent(&mut self, message: &Unsendable<'_>, session: &mut SessionRef<'_>) {
        tracing::warn!(session = %session.id(), why = %message.why, "a message is not sent");
    }

    fn on_disconnect(&mut self, end: &Disconnection<'_>, session: &mut SessionRef<'_>) {
        self.gateway.told.say(format!("{} ended: {end}", session.id()));
        self.gateway.ports.tell_all(session.id(), false);
    }
}

#[cfg(test)]
mod tests {
    use transfix::codec::{CheckSumPolicy, FieldIndex};

    use super::*;

    /// Sent again, a message is the same, whatever its header says then.
    #[test]
    fn a_message_that_is_sent_again_is_known() {
        let of = |fields: &str| {
            let text = format!("8=FIX.4.4|9=1|35=D|{fields}|10=000|").replace('|', "\u{1}");
            let mut index = FieldIndex::default();
            hash(&Message::parse(text.as_bytes(), &mut index, CheckSumPolicy::Ignore).unwrap())
        };
        let first = of("49=DESK|56=GATE|34=5|52=20260101-00:00:00|369=7|11=a|55=EU");
        let again = "49=DESK|56=GATE|34=5|43=Y|52=20260101-00:01:00|122=20260101-00:00:00|369=9";
        assert_eq!(of(&format!("{again}|11=a|55=EU")), first);
        assert_ne!(of(&format!("{again}|11=b|55=EU")), first);
    }
}
