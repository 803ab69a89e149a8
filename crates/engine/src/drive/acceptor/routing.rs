//! Routing of a connection to the session that its first message names.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tracing::field::display;
use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, Message, raw, tag};
use transfix_observe::tell;
use transfix_session::{BeginString, Offer, Secret};
use transfix_settings::Subnet;
use transfix_transport::Stream;

use super::{Acceptor, Judged, NOBODY};
use crate::drive::admission::Made;
use crate::drive::destination::Key;
use crate::drive::driven::drain;
use crate::drive::new_connections::NewConnection;
use crate::drive::passwords::Guess;
use crate::drive::session_waker::PendingConnection;
use crate::drive::template::Applicant;
use crate::drive::tls::{PeerCertificate, certificate_of};
use crate::io::Waker;
use crate::link::Arrival;
use crate::link::failed_logons::{AskedFor, LogonWatch, Source};
use crate::link::refusal::Refusal;

/// The time, in nanoseconds, added to the application's time limit for judging a Logon(A).
const ANSWER_MARGIN_NS: u64 = 1_000_000_000;
/// The maximum time, in nanoseconds, that a connection waits for its password check behind earlier
/// checks.
const CHECK_WAIT_NS: u64 = 60_000_000_000;
/// The interval, in nanoseconds, at which a Logon(A) that arrived during a reload looks for its
/// session again.
const RELOAD_LOOK_NS: u64 = 20_000_000;
/// The maximum length of a refusal's reason in a log line.
const REASON_BYTES_MAX: usize = 300;

/// The routing result of a connection.
enum Found {
    /// The connection belongs to this session, and the watch counts a failed logon.
    Session(PendingConnection, LogonWatch),
    /// The connection must wait until this monotonic time, because many logons have failed.
    Held(u64),
    /// The session already has a connection that waits for its worker.
    Busy,
    /// A session that is about to restart with other settings.
    Renewed,
    /// A counterparty whose password must be checked.
    Unproven(Guess),
    /// The connection must wait, because the password of another connection from the same source is
    /// being checked.
    WaitsForCheck,
    /// The counterparty fits a template, and is judged under this ticket, within this time in
    /// nanoseconds.
    Candidate(u64, u64),
    /// A counterparty whose earlier Logon(A) is being judged.
    Judged,
    /// The session's `allow_from` does not include the address.
    AddressRefused,
    /// The counterparty presents a different certificate than the session requires; the text
    /// describes it.
    Another(String),
    /// The connection must be closed, and the reason has been logged.
    Reported,
    /// No session.
    Nobody,
}

impl Acceptor {
    /// Passes a connection to the session that its first message names.
    pub(super) fn route(&mut self, token: usize, mut waiting: NewConnection, end: usize) {
        // Applies pending changes first, because a counterparty may connect right after a change
        // was requested.
        self.make_changes();
        // Only type and identity of the message are logged, because the whole Logon(A) may contain
        // a password.
        let mut asked = String::from("a garbled message");
        let mut index = std::mem::take(&mut self.index);
        let first = &waiting.read[..end];
        let (summed, trailer) = first.split_at(end.saturating_sub(7));
        let is_sound = trailer.get(3..6) == Some(&raw::check_sum(summed)[..]);
        let mut named = None;
        let found = match Message::parse(first, &mut index, CheckSumPolicy::Ignore) {
            Ok(message) => {
                asked = asked_for(&message);
                named = key(waiting.group, &message);
                let shown = certificate_of(&*waiting.stream);
                let shown = shown.as_ref();
                let known = named.as_ref();
                known.map_or(Found::Nobody, |key| {
                    self.destination((key, &asked), &message, is_sound, (&waiting, shown))
                })
            }
            Err(_) => Found::Nobody,
        };
        self.index = index;
        match (found, named) {
            (Found::Session(pending, watch), _) => {
                self.hand_over((waiting, None), pending, Some(watch));
            }
            (Found::Held(at_ns), _) => self.hold(token, waiting, at_ns, &asked),
            (Found::Renewed, _) => self.hold_for_reload(token, waiting),
            (Found::Unproven(guess), _) => self.prove(token, waiting, guess),
            (Found::WaitsForCheck, _) => {
                waiting.in_line = true;
                self.waits_for_check(token, waiting);
            }
            (Found::Candidate(ticket, answer_ns), Some(key)) => {
                // This time suffices for the application's answer, or for ours in its place.
                let until_ns = self.io.monotonic_ns() + answer_ns + ANSWER_MARGIN_NS;
                waiting.until_ns = waiting.until_ns.max(until_ns);
                // Further bytes belong to the session, so the acceptor stops reading. A connection
                // that waited is already deregistered, which is no error.
                let _ = waiting.stream.deregister(self.poll.registry());
                self.making.insert(ticket, key.clone());
                self.judged.insert(ticket, Judged { waiting, key, asked });
            }
            (Found::Reported, _) => {}
            (found, _) => {
                if matches!(found, Found::AddressRefused | Found::Another(_) | Found::Nobody) {
                    self.failed.failed_as(self.io.monotonic_ns(), waiting.source(), &asked);
                }
                self.tell_unwanted(waiting.address, &asked, found);
            }
        }
    }

    /// Holds a connection until `at_ns`, because many logons from its source, or for its session,
    /// have failed.
    fn hold(&mut self, token: usize, mut waiting: NewConnection, at_ns: u64, asked: &str) {
        let now_ns = self.io.monotonic_ns();
        if waiting.held.is_none() {
            // Computes the remaining time, because some time has passed since `at_ns` was
            // determined.
            let wait_ms = at_ns.saturating_sub(now_ns).div_ceil(1_000_000);
            let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
            tell!(self.lines, at, Held, warn, LogonWaits, peer = peer, asked, wait_ms);
            // Extends the deadline, because the Logon(A) arrived in time and the acceptor causes
            // the delay.
            waiting.until_ns = waiting.until_ns.max(at_ns + ANSWER_MARGIN_NS);
        }
        let since_ns = waiting.held.map_or(now_ns, |(since_ns, _)| since_ns);
        waiting.held = Some((since_ns, at_ns));
        self.put_aside(token, waiting);
    }

    /// Holds a connection until its session has restarted.
    fn hold_for_reload(&mut self, token: usize, mut waiting: NewConnection) {
        let now_ns = self.io.monotonic_ns();
        let since_ns = waiting.held.map_or(now_ns, |(since_ns, _)| since_ns);
        waiting.held = Some((since_ns, now_ns + RELOAD_LOOK_NS));
        self.put_aside(token, waiting);
    }

    /// Keeps a waiting connection without reading from it, because the bytes after its Logon(A)
    /// belong to the session.
    fn put_aside(&mut self, token: usize, mut waiting: NewConnection) {
        // An error is ignored, because the connection may already be deregistered.
        let _ = waiting.stream.deregister(self.poll.registry());
        self.room.put_back(token, waiting);
    }

    /// Starts the password check of a connection, which waits for the result.
    fn prove(&mut self, token: usize, waiting: NewConnection, guess: Guess) {
        let (source, waker) = (waiting.source(), Waker::clone(&self.handle.waker));
        let proofs = self.proofs.0.clone();
        let checked = self.passwords.check(guess, &self.io, move |is_right| {
            // The send fails only if the engine has ended and no longer needs the result.
            let _ = proofs.send((token, source, is_right));
            waker();
        });
        if let Err(error) = checked {
            return self.tell_no_thread(&error);
        }
        self.proving.insert(source);
        self.waits_for_check(token, waiting);
    }

    /// Lets a connection wait for a password check, which extends its deadline.
    fn waits_for_check(&mut self, token: usize, mut waiting: NewConnection) {
        waiting.until_ns = waiting.until_ns.max(self.io.monotonic_ns() + CHECK_WAIT_NS);
        waiting.no_more_looks();
        self.put_aside(token, waiting);
    }

    /// Logs that no thread could be started. A later attempt may succeed.
    fn tell_no_thread(&mut self, error: &io::Error) {
        tell!(self.lines, self.at(None), Remark, error, ClosedForThread, peer = NOBODY, %error);
    }

    /// Records the result of a password check, and continues with the connection unless it was
    /// closed meanwhile.
    pub(super) fn proven(&mut self, token: usize, source: Source, is_right: bool) {
        self.proving.remove(&source);
        if let Some(mut waiting) = self.room.take(token) {
            waiting.password_proof = Some(is_right);
            self.room.put_back(token, waiting);
            self.look_again(token);
        }
        // Continues with the next connections from this source until one of them starts a password
        // check.
        while !self.proving.contains(&source)
            && let Some(next) = self.room.first_in_line(source)
        {
            self.look_again(next);
        }
    }

    /// Returns `Ok` if a Logon(A) may be judged now, with a known result of its password check.
    ///
    /// # Errors
    /// The step that must come first.
    fn has_its_turn(
        &self,
        who: &NewConnection,
        message: &Message<'_>,
        hash: Option<&Secret>,
        asked: AskedFor<'_>,
    ) -> Result<(), Found> {
        // A connection with a checked password has passed all these steps before.
        if who.password_proof.is_some() {
            return Ok(());
        }
        let (source, now_ns) = (who.source(), self.io.monotonic_ns());
        if hash.is_some() && self.proving.contains(&source) {
            return Err(Found::WaitsForCheck);
        }
        let since_ns = who.held.map_or(now_ns, |(since_ns, _)| since_ns);
        self.failed.turn((now_ns, since_ns), source, asked).map_err(Found::Held)?;
        let Some(hash) = hash.cloned() else { return Ok(()) };
        let password = message.raw(tag::PASSWORD).unwrap_or_default().to_vec();
        let is_known = asked.is_known(source);
        Err(Found::Unproven(Guess { hash, password, source, is_known }))
    }

    /// Logs why the acceptor closes a connection that no session takes.
    fn tell_unwanted(&mut self, address: Option<IpAddr>, asked: &str, found: Found) {
        let (at, peer) = (self.at(address), address.map(display));
        match found {
            Found::Busy => {
                tell!(self.lines, at, Refused, warn, ClosedForOther, peer = peer, asked);
            }
            Found::Judged => {
                tell!(self.lines, at, Refused, warn, ClosedBeingJudged, peer = peer, asked);
            }
            Found::AddressRefused => {
                tell!(self.lines, at, Refused, warn, ClosedForAddress, peer = peer, asked);
            }
            Found::Another(certificate) => {
                tell!(
                    self.lines,
                    at,
                    Refused,
                    warn,
                    ClosedForCertificate,
                    peer = peer,
                    asked,
                    certificate
                );
            }
            Found::Nobody
            | Found::Session(..)
            | Found::Held(_)
            | Found::Renewed
            | Found::Unproven(_)
            | Found::WaitsForCheck
            | Found::Reported
            | Found::Candidate(..) => {
                tell!(self.lines, at, Refused, warn, ClosedForNobody, peer = peer, asked);
            }
        }
    }

    fn hand_over(
        &self,
        (mut waiting, offer): (NewConnection, Option<Offer>),
        pending: PendingConnection,
        watch: Option<LogonWatch>,
    ) {
        // An error is ignored: a connection whose Logon(A) was judged is already deregistered.
        let _ = waiting.stream.deregister(self.poll.registry());
        let password_proof = waiting.password_proof == Some(true);
        let NewConnection { stream, read, .. } = waiting;
        let arrival = Arrival { stream, read, offer, password_proof, watch };
        pending.hand_over(arrival);
    }

    /// Returns the destination of a Logon(A): the session whose SubIDs fit best, or else a
    /// template. `asked` names the session in log lines. `is_sound` is true if CheckSum(10) is
    /// correct. `who` is the connection, and `shown` is its certificate.
    fn destination(
        &mut self,
        (key, asked): (&Key, &str),
        message: &Message<'_>,
        is_sound: bool,
        (who, shown): (&NewConnection, Option<&PeerCertificate>),
    ) -> Found {
        let (address, source) = (who.address, who.source());
        let known = self.sessions.get(key).into_iter().flatten();
        let best = known
            .filter(|to| is_sound || to.check_sum == CheckSumPolicy::Ignore)
            .filter_map(|to| Some((to.fit(message)?, to)))
            .max_by_key(|(fit, _)| *fit)
            .map(|(_, to)| {
                let found = match is_wanted(&to.tls_peers, shown) {
                    _ if !Subnet::allow(&to.allowed, address) => Found::AddressRefused,
                    false => Found::Another(text_of(shown)),
                    true => match self.has_its_turn(
                        who,
                        message,
                        to.password_hash.as_ref(),
                        AskedFor::Session(&to.record),
                    ) {
                        Ok(()) => PendingConnection::at(&to.session_waker).map_or(
                            Found::Busy,
                            |pending| {
                                let (failed, record) =
                                    (Arc::clone(&self.failed), Arc::clone(&to.record));
                                Found::Session(pending, LogonWatch { source, failed, record })
                            },
                        ),
                        Err(before) => before,
                    },
                };
                if matches!(found, Found::AddressRefused | Found::Another(_) | Found::Busy) {
                    to.published.counters.logons_refused.add_beside_others(1);
                }
                found
            });
        if let Some(best) = best {
            return best;
        }
        match self.sessions.get(key) {
            Some(known) if known.is_empty() => return Found::Renewed,
            None if is_sound => {}
            _ => return Found::Nobody,
        }
        let Some(template) = self.creator.template(key) else { return Found::Nobody };
        if !Subnet::allow(&template.allowed(), address) {
            return Found::AddressRefused;
        }
        if self.making.values().any(|other| other == key) {
            return Found::Judged;
        }
        if !is_wanted(template.tls_peers(), shown) {
            return Found::Another(text_of(shown));
        }
        let hash = template.logon.expected_password_hash.as_ref();
        if let Err(before) = self.has_its_turn(who, message, hash, AskedFor::Name(asked)) {
            return before;
        }
        let password_proof = who.password_proof == Some(true);
        let (logon, peer) = (message.bytes(), who.stream.peer_addr());
        self.candidate(key, Applicant { logon, password_proof, peer })
    }

    /// Starts to judge a counterparty without a session, if a template fits.
    fn candidate(&mut self, key: &Key, applicant: Applicant<'_>) -> Found {
        match self.creator.candidate(key, applicant) {
            Ok(candidate) => {
                let (answer_ns, ticket) = (candidate.answer_ns(), self.next_ticket);
                self.next_ticket += 1;
                match self.admission.give(ticket, Box::new(candidate)) {
                    Ok(()) => Found::Candidate(ticket, answer_ns),
                    Err(error) => {
                        self.tell_no_thread(&error);
                        Found::Reported
                    }
                }
            }
            Err(is_full) => {
                if is_full {
                    let max = self.creator.places.max;
                    tell!(
                        self.lines,
                        self.at(None),
                        NotRouted,
                        warn,
                        NoFurtherSession,
                        peer = NOBODY,
                        max
                    );
                }
                Found::Nobody
            }
        }
    }

    /// Handles the judgement of a counterparty that fits a template: hands over the connection or
    /// refuses it.
    pub(super) fn judged(&mut self, ticket: u64, made: Made) {
        let key = self.making.remove(&ticket);
        match (made, self.judged.remove(&ticket)) {
            (Ok((shared, offer)), Some(Judged { waiting, key, .. })) => {
                let Some(to) = self.creator.place(shared) else { return };
                if let Some(pending) = PendingConnection::at(&to.session_waker) {
                    self.hand_over((waiting, Some(offer)), pending, None);
                }
                self.sessions.insert(key, vec![to]);
            }
            (Err(refusal), Some(judged)) => {
                if refusal.is_failed_logon {
                    let (source, name) = (judged.waiting.source(), &judged.asked);
                    self.failed.failed_as(self.io.monotonic_ns(), source, name);
                }
                self.refuse(judged, &refusal);
            }
            // The judgement took too long, and the connection is already closed.
            (made, None) => {
                if made.is_ok() {
                    self.creator.forget();
                }
                let theirs = key.map(|(.., theirs)| theirs).unwrap_or_default();
                let theirs = Shown::new(theirs.as_bytes());
                tell!(
                    self.lines, self.at(None), Refused, warn, JudgingTooLong, peer = NOBODY,
                    counterparty = %theirs
                );
            }
        }
    }

    fn refuse(&mut self, judged: Judged, refusal: &Refusal) {
        let Judged { mut waiting, asked, .. } = judged;
        write_and_close(&mut *waiting.stream, &refusal.answer);
        // The reason is shortened, because it may contain CompIDs and a text of the application.
        let reason = Shown::cut(refusal.why.as_bytes(), REASON_BYTES_MAX);
        tell!(
            self.lines, self.at(waiting.address), Refused, warn, ClosedLogonRefused,
            peer = waiting.address.map(display), asked, %reason
        );
    }
}

/// Returns true if the counterparty presented one of these certificates. An empty list accepts any
/// certificate, and also none.
fn is_wanted(peers: &[String], shown: Option<&PeerCertificate>) -> bool {
    peers.is_empty() || shown.is_some_and(|shown| peers.iter().any(|wanted| shown.is(wanted)))
}

fn text_of(shown: Option<&PeerCertificate>) -> String {
    shown.map_or_else(
        || "none".to_owned(),
        |shown| Shown::cut(shown.to_string().as_bytes(), REASON_BYTES_MAX).to_string(),
    )
}

/// Writes as much of the answer as the socket accepts without waiting, and closes the connection.
fn write_and_close(stream: &mut dyn Stream, answer: &[u8]) {
    // An error is ignored: a disconnected counterparty needs no answer.
    let _ = stream.write(answer);
    let _ = stream.shutdown();
    drain(stream);
}

fn key(group: usize, message: &Message<'_>) -> Option<Key> {
    let begin_string = BeginString::parse(message.begin_string())?;
    let ours = message.text(tag::TARGET_COMP_ID).ok()?.to_owned();
    let theirs = message.text(tag::SENDER_COMP_ID).ok()?.to_owned();
    (message.msg_type() == b"A").then_some((group, begin_string, ours, theirs))
}

/// Returns the type and identity of a first message, for the log.
fn asked_for(message: &Message<'_>) -> String {
    let text = |tag| Shown::new(message.raw(tag).unwrap_or(b"?")).to_string();
    let (msg_type, version) = (text(tag::MSG_TYPE), text(tag::BEGIN_STRING));
    let (sender, target) = (text(tag::SENDER_COMP_ID), text(tag::TARGET_COMP_ID));
    format!("MsgType(35) {msg_type} {version}:{sender}->{target}")
}
