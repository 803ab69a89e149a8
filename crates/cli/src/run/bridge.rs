//! The application of each session of a gateway: passes messages on.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use transfix::{
    Application, BusinessReject, Disconnection, Message, SendError, Sent, SessionHandle, SessionId,
    SessionRef, Tag, clock, tag,
};

use super::InForce;
use super::port::{Missed, Ports};
use super::routes::{Pick, Target};
use crate::show::say;

/// How long a message may wait for its number, in nanoseconds.
const NUMBER_NS_MAX: u64 = 5_000_000_000;
const NUMBER_LOOK: Duration = Duration::from_micros(50);
/// BusinessRejectReason(380): DeliverTo firm not available.
const NO_SUCH_FIRM: u16 = 7;
/// Whom a message is for: these go when it goes there.
const DELIVER_TO: [Tag; 3] = [tag::DELIVER_TO_COMP_ID, Tag(129), Tag(145)];
/// From whom it is: we say so anew.
const ON_BEHALF_OF: [Tag; 3] = [tag::ON_BEHALF_OF_COMP_ID, Tag(116), Tag(144)];

/// Passes the messages of one session on.
pub(super) struct Bridge {
    routes: InForce,
    ports: Ports,
}

impl Bridge {
    pub(super) fn new(routes: &InForce, ports: &Ports) -> Self {
        Self { routes: Arc::clone(routes), ports: ports.clone() }
    }

    fn is_there(&self, target: &Target, session: &SessionRef<'_>) -> bool {
        match target {
            Target::Socket(name) => self.ports.has_program(name),
            Target::Session(id) => session.other(id).is_some_and(|other| other.is_logged_on()),
        }
    }

    fn to_one(
        &self,
        target: &Target,
        message: &Message<'_>,
        session: &SessionRef<'_>,
    ) -> Result<(), Missed> {
        match target {
            Target::Socket(name) => self.ports.ask(name, session.id(), message),
            Target::Session(id) => {
                let not_there = || Missed::NotHandedOver(BusinessReject::not_available());
                let other = session.other(id).ok_or_else(not_there)?;
                sent(&other, other.send_copy(message))
            }
        }
    }

    /// To the counterparty that the message names, from the one that it comes from.
    fn to_third_party(
        &self,
        firm: &[u8],
        message: &Message<'_>,
        session: &SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let from = session.id();
        let found = self.ports.admin().and_then(|admin| {
            let mut all = admin.handles().into_iter();
            all.find(|one| is_with(one, firm, from))
        });
        let Some(other) = found else {
            return Err(BusinessReject::new(NO_SUCH_FIRM, "DeliverTo firm not available"));
        };
        let done = other.send(message.msg_type(), |body| {
            body.str(tag::ON_BEHALF_OF_COMP_ID, &from.target_comp_id);
            for (n, field) in message.fields().enumerate() {
                let is_left_out = tag::is_session_owned(field.tag)
                    || [&OF_ITS_SESSION[..], &DELIVER_TO, &ON_BEHALF_OF]
                        .concat()
                        .contains(&field.tag);
                if !is_left_out {
                    body.fields(message.encoded(n));
                }
            }
        });
        Ok(sent(&other, done)?)
    }
}

/// What belongs to the session that a message came on, beside what each session writes: ids below
/// the two sides.
const OF_ITS_SESSION: [Tag; 4] =
    [tag::SENDER_SUB_ID, tag::SENDER_LOCATION_ID, tag::TARGET_SUB_ID, tag::TARGET_LOCATION_ID];

fn is_with(one: &SessionHandle, firm: &[u8], from: &SessionId) -> bool {
    let id = one.id();
    id.target_comp_id.as_bytes() == firm && id.begin_string == from.begin_string && id != from
}

/// What has become of a message. One that waits in memory for its number is waited for, since the
/// message that it is a copy of counts as taken when this returns. A crash may still lose it: a
/// number is no commit, and of a target that has logged off it stays in memory.
fn sent(to: &SessionHandle, sent: Result<Sent, SendError>) -> Result<(), Missed> {
    match sent {
        Ok(Sent::Queued { .. }) => {
            let until_ns = clock::monotonic_ns() + NUMBER_NS_MAX;
            while to.is_logged_on() && to.queued_bytes() > 0 {
                if clock::monotonic_ns() > until_ns {
                    return Err(Missed::Final(BusinessReject::not_available()));
                }
                std::thread::park_timeout(NUMBER_LOOK);
            }
            Ok(())
        }
        Ok(_) => Ok(()),
        // What is wrong with the message stays wrong.
        Err(error @ (SendError::Misuse(_) | SendError::Invalid(_) | SendError::TooLong { .. })) => {
            Err(Missed::Final(BusinessReject::other(error.to_string())))
        }
        Err(_) => Err(Missed::NotHandedOver(BusinessReject::not_available())),
    }
}

impl Application for Bridge {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let routes = Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner));
        let Some(route) = routes.find(&session.id().to_string(), message) else {
            return match message.raw(tag::DELIVER_TO_COMP_ID) {
                Some(firm) => self.to_third_party(firm, message, session),
                None => Err(BusinessReject::unsupported()),
            };
        };
        match route.pick {
            Pick::All => {
                Ok(route.to.iter().try_for_each(|one| self.to_one(one, message, session))?)
            }
            Pick::First => {
                // Where nobody is there, the first one that keeps it for later has it.
                let (there, others): (Vec<_>, Vec<_>) =
                    route.to.iter().partition(|one| self.is_there(one, session));
                let mut last = BusinessReject::not_available();
                for target in there.into_iter().chain(others) {
                    match self.to_one(target, message, session) {
                        Ok(()) => return Ok(()),
                        Err(Missed::Final(reject)) => return Err(reject),
                        Err(Missed::NotHandedOver(reject)) => last = reject,
                    }
                }
                Err(last)
            }
        }
    }

    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        say(&format!("{} logged on", session.id()));
        self.ports.tell_all(session.id(), true);
    }

    fn on_disconnect(&mut self, end: &Disconnection<'_>, session: &mut SessionRef<'_>) {
        say(&format!("{} ended: {end}", session.id()));
        self.ports.tell_all(session.id(), false);
    }
}
