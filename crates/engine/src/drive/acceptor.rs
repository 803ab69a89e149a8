//! Where accepted connections wait for their first message, which says to whom they belong.
//!
//! Invariants: at most the configured number of connections waits, each for a bounded time; a
//! connection whose Logon(A) fits no session is closed without a message (FIX Session, case 1c); at
//! most one connection of a session waits for its worker; no entrance holds up the others; nothing
//! of the application is called in this thread.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slab::Slab;
use tracing::field::{DisplayValue, display};
use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Message, frame, raw, tag};
use transfix_session::{BeginString, Offer, SessionId};
use transfix_transport::{Interest, Stream, Token};

use crate::drive::admission::{Admission, Answer};
use crate::drive::bell::{Bell, Knock};
use crate::drive::destination::{Destination, Entrance, Key};
use crate::drive::driven::drain;
use crate::drive::stranger_lines::Lines;
use crate::drive::template::{Creator, Maker};
use crate::drive::tls::{PeerCertificate, certificate_of};
use crate::drive::waiting_room::{Newcomer, RoomLimits, WaitingRoom};
use crate::io::{Io, Poll, Waker};
use crate::link::Arrival;
use crate::link::refusal::Refusal;
use crate::observe::repeats::tell;
use crate::settings::SessionSettings;
use crate::settings::allow_from::{Subnet, is_allowed};

const WAKE: Token = Token(usize::MAX);
/// Tokens below it are those of entrances.
const FIRST_CONNECTION: usize = 1 << 31;
/// Pause after the system refused to accept, for instance for want of open files.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// What an answer to a Logon(A) may take beyond the application's time.
const ANSWER_MARGIN_NS: u64 = 1_000_000_000;
/// Longest reason for a refusal in a line of the log.
const REASON_BYTES_MAX: usize = 300;
/// Connections taken in at one entrance before the acceptor looks at what else there is.
const ACCEPTED_AT_ONCE: usize = 64;
/// For a line of the log that is about no single address.
const NOBODY: Option<DisplayValue<IpAddr>> = None;
/// Longest first message; a Logon(A) is far shorter.
const FIRST_MESSAGE_BYTES: usize = 16 << 10;
/// The first byte of a connection over TLS (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Whose connection it is.
enum Found {
    /// That of a session, which is told by this.
    Session(Knock),
    /// That of a session where another one waits.
    Busy,
    /// That of somebody whom a template fits, who is judged under this ticket, for so long at most.
    Candidate(u64, u64),
    /// That of somebody whose first Logon(A) is being judged.
    Judged,
    /// That of a session whose counterparty does not come from there (`allow_from`).
    Elsewhere,
    /// That of a session whose counterparty shows another certificate than this.
    Another(String),
    /// Nobody's.
    Nobody,
}

/// A session, or a place to come in, that is there from now on, or not any more.
pub(crate) enum Change {
    Open(Entrance),
    /// The listeners of this group; who is told may listen at their addresses again.
    Close(usize, Sender<()>),
    Add(Key, Destination),
    /// The session with this bell.
    Remove(Key, Arc<Bell>),
    /// The session with this bell, which was made from a template.
    RemoveMade(Arc<Bell>),
    AddTemplate(usize, Box<SessionSettings>),
    /// The sessions made from it stay.
    RemoveTemplate(SessionId),
}

/// Changes or ends an acceptor from outside.
pub(crate) struct AcceptorDoor {
    stop: AtomicBool,
    changes: Mutex<Vec<Change>>,
    waker: Waker,
}

impl AcceptorDoor {
    fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The acceptor makes these changes, one after the other.
    pub(crate) fn change(&self, changes: impl IntoIterator<Item = Change>) {
        self.changes().extend(changes);
        (self.waker)();
    }

    pub(crate) fn close(&self) {
        self.stop.store(true, Ordering::Release);
        (self.waker)();
    }
}

/// A connection whose Logon(A) is being judged.
struct Judged {
    waiting: Newcomer,
    key: Key,
    asked: String,
}

/// Listeners and the connections that have not logged on yet.
pub(crate) struct Acceptor {
    io: Arc<dyn Io>,
    poll: Box<dyn Poll>,
    door: Arc<AcceptorDoor>,
    /// By their tokens, which are below those of connections.
    entrances: Slab<Entrance>,
    sessions: HashMap<Key, Vec<Destination>>,
    creator: Creator,
    /// Where the counterparties of each group may come from, as far as somebody has asked since the
    /// last change; empty for everywhere.
    allowed: HashMap<usize, Vec<Subnet>>,
    admission: Admission,
    /// By ticket; those that have waited too long are gone from here.
    judged: HashMap<u64, Judged>,
    /// Whose sessions are being made: one at a time.
    making: HashMap<u64, Key>,
    room: WaitingRoom,
    next_token: usize,
    index: FieldIndex,
    lines: Lines,
    /// When to accept again although no new connection is reported: those that waited already
    /// are reported only once.
    accept_at: Option<u64>,
}

impl Acceptor {
    pub(crate) fn new(
        entrances: Vec<Entrance>,
        sessions: HashMap<Key, Vec<Destination>>,
        (creator, maker): (Creator, Maker),
        limits: RoomLimits,
        io: &Arc<dyn Io>,
    ) -> io::Result<Self> {
        let poll = io.poll()?;
        let (waker, changes) = (poll.waker(WAKE)?, Mutex::default());
        let mut entrances: Slab<_> = entrances.into_iter().enumerate().collect();
        for (i, entrance) in &mut entrances {
            entrance.listener.register(poll.registry(), Token(i))?;
        }
        Ok(Self {
            io: Arc::clone(io),
            poll,
            admission: Admission::new(maker, Waker::clone(&waker), io),
            door: Arc::new(AcceptorDoor { stop: AtomicBool::new(false), changes, waker }),
            next_token: FIRST_CONNECTION,
            entrances,
            sessions,
            creator,
            allowed: HashMap::new(),
            judged: HashMap::new(),
            making: HashMap::new(),
            room: WaitingRoom::new(limits),
            index: FieldIndex::default(),
            lines: Lines::default(),
            accept_at: None,
        })
    }

    pub(crate) fn door(&self) -> &Arc<AcceptorDoor> {
        &self.door
    }

    /// Runs until the door is closed.
    ///
    /// # Errors
    /// If the system has failed at the wait. It may go on all the same.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        // After a panic: what was reported then is not reported again.
        self.accept_at = Some(0);
        while !self.door.stop.load(Ordering::Acquire) {
            let now = self.io.monotonic_ns();
            let judged = self.judged.values().map(|judged| judged.waiting.until_ns).min();
            let looks = self.creator.looks_at();
            let until =
                [self.room.deadline(), judged, self.accept_at, self.lines.deadline(), looks];
            let until = until.into_iter().flatten().min();
            let timeout = until.map(|at| Duration::from_nanos(at.saturating_sub(now)));
            self.poll.wait(&mut ready, timeout)?;
            self.make_changes();
            for event in ready.drain(..) {
                match event.token {
                    WAKE => {}
                    Token(i) if i < FIRST_CONNECTION => self.accept(i),
                    Token(token) => self.read(token),
                }
            }
            while let Some(answer) = self.admission.answer() {
                self.answered(answer);
            }
            let now = self.io.monotonic_ns();
            if self.accept_at.is_some_and(|at| now >= at) {
                self.accept_at = None;
                let all: Vec<_> = self.entrances.iter().map(|(i, _)| i).collect();
                all.into_iter().for_each(|i| self.accept(i));
            }
            self.room.expire(now);
            for made in self.creator.look(now) {
                tracing::info!(session = %made.id, "gone: without a connection for long");
                self.forget_made(&made.bell);
                self.creator.registry.remove(&made.id);
            }
            self.judged.retain(|_, judged| now < judged.waiting.until_ns);
            if self.lines.deadline().is_some_and(|at| now >= at) {
                self.tell_untold();
            }
        }
        self.tell_untold();
        Ok(())
    }

    fn make_changes(&mut self) {
        let changes = std::mem::take(&mut *self.door.changes());
        changes.into_iter().for_each(|change| self.change(change));
    }

    fn change(&mut self, change: Change) {
        self.allowed.clear();
        match change {
            Change::Open(mut entrance) => {
                let place = self.entrances.vacant_entry();
                let token = Token(place.key());
                match entrance.listener.register(self.poll.registry(), token) {
                    Ok(()) => {
                        place.insert(entrance);
                        // What waits there already is reported to nobody.
                        self.accept_at = Some(0);
                    }
                    Err(error) => {
                        let why = "nobody can come in at a new address";
                        tell!(self.lines, self.at(None), Ended, error, peer = NOBODY, %error, why);
                    }
                }
            }
            Change::Close(group, closed) => {
                self.entrances.retain(|_, entrance| entrance.group != group);
                // Whoever waited may have given up.
                let _ = closed.send(());
            }
            Change::Add(key, to) => self.sessions.entry(key).or_default().push(to),
            Change::Remove(key, bell) => {
                if let Some(known) = self.sessions.get_mut(&key) {
                    known.retain(|to| !Arc::ptr_eq(&to.bell, &bell));
                    if known.is_empty() {
                        self.sessions.remove(&key);
                    }
                }
            }
            Change::RemoveMade(bell) => self.forget_made(&bell),
            Change::AddTemplate(group, template) => self.creator.templates.push((group, *template)),
            Change::RemoveTemplate(id) => {
                self.creator.templates.retain(|(_, template)| template.id() != id);
            }
        }
    }

    /// A session that was made from a template has ended: one more may be made.
    fn forget_made(&mut self, bell: &Arc<Bell>) {
        let before = self.sessions.len();
        self.sessions.retain(|_, known| !known.iter().any(|to| Arc::ptr_eq(&to.bell, bell)));
        if self.sessions.len() < before {
            self.allowed.clear();
            self.creator.forget();
        }
    }

    /// The time, and the address by which the lines of the log are counted.
    fn at(&self, address: Option<IpAddr>) -> (u64, Option<IpAddr>) {
        (self.io.monotonic_ns(), address)
    }

    /// Says how many lines about strangers were left out.
    fn tell_untold(&mut self) {
        for (what, left_out) in self.lines.take_untold() {
            tracing::warn!(left_out, what, "lines about strangers were left out");
        }
    }

    /// Accepts what waits at this entrance, up to [`ACCEPTED_AT_ONCE`]: the other entrances have
    /// their turn too.
    fn accept(&mut self, i: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            // It may have been closed.
            let Some(entrance) = self.entrances.get(i) else { return };
            let (group, wait_ns) = (entrance.group, entrance.wait_ns);
            let accepted = entrance.listener.accept();
            let address = accepted.as_ref().ok().and_then(Option::as_ref);
            let address = address.and_then(|stream| stream.peer_addr()).map(|peer| peer.ip());
            if matches!(accepted, Ok(Some(_))) && !self.may_come(group, address) {
                let peer = address.map(display);
                let why = "closed: no session here has its address in allow_from";
                tell!(self.lines, self.at(address), Refused, warn, peer = peer, why);
                continue;
            }
            let tls = self.entrances.get(i).and_then(|entrance| entrance.tls.as_ref());
            let accepted = accepted.and_then(|stream| match (stream, tls) {
                (Some(stream), Some(tls)) => tls.accept(stream).map(Some),
                (stream, _) => Ok(stream),
            });
            let mut stream = match accepted {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(error) => {
                    let why = "a connection could not be accepted";
                    tell!(
                        self.lines, self.at(None),
                        Ended, error, peer = NOBODY, %error, why
                    );
                    self.accept_at = Some(self.io.monotonic_ns() + ACCEPT_PAUSE_NS);
                    return;
                }
            };
            let token = self.next_token;
            self.next_token += 1;
            if stream.register(self.poll.registry(), Token(token), Interest::READABLE).is_err() {
                continue;
            }
            let until_ns = self.io.monotonic_ns() + wait_ns;
            let waiting = Newcomer { stream, address, group, read: Vec::new(), until_ns };
            if let Some(gone) = self.room.add(token, waiting) {
                let why = "closed: too many connections without a Logon(A), and this one is old";
                tell!(
                    self.lines,
                    self.at(gone.address),
                    Refused,
                    warn,
                    peer = gone.address.map(display),
                    why
                );
            }
            self.read(token);
        }
        // There may be more of them, which no event reports again.
        self.accept_at = Some(0);
    }

    /// Whether a session or template of this group may have a counterparty with this address.
    fn may_come(&mut self, group: usize, address: Option<IpAddr>) -> bool {
        let (sessions, templates) = (&self.sessions, &self.creator.templates);
        let allowed = self.allowed.entry(group).or_insert_with(|| {
            let known = sessions.iter().filter(|(key, _)| key.0 == group).flat_map(|(_, all)| all);
            let known = known.map(|to| to.allowed.to_vec());
            let made = templates.iter().filter(|(at, _)| *at == group);
            let lists = known.chain(made.map(|(_, template)| template.allowed()));
            union(lists)
        });
        is_allowed(allowed, address)
    }

    /// Reads from a waiting connection until its first message is whole.
    fn read(&mut self, token: usize) {
        let Some(mut waiting) = self.room.take(token) else { return };
        let (mut buffer, mut ended) = ([0; 4096], false);
        loop {
            match waiting.stream.read(&mut buffer) {
                // The end does not make the bytes before it worthless.
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(n) => waiting.read.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Not by the network: by what the counterparty says, or who it is.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
                    let why = "closed: no TLS connection came about";
                    tell!(self.lines, at, Garbled, warn, peer = peer, reason = %error, why);
                    return;
                }
                Err(_) => return,
            }
            if waiting.read.len() > FIRST_MESSAGE_BYTES {
                break;
            }
        }
        let limits = Limits { message_bytes_max: FIRST_MESSAGE_BYTES };
        match frame::split(&waiting.read, limits) {
            Frame::Whole(end) => self.route(waiting, end),
            Frame::Partial if ended => {}
            Frame::Partial => self.room.put_back(token, waiting),
            Frame::Garbled { reason, .. } => {
                let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
                if waiting.read.first() == Some(&TLS_HANDSHAKE) {
                    let why = "closed: the counterparty speaks TLS, this port none";
                    tell!(self.lines, at, Garbled, warn, peer = peer, %reason, why);
                } else {
                    let why = "closed: the first bytes are no message";
                    tell!(self.lines, at, Garbled, warn, peer = peer, %reason, why);
                }
            }
        }
    }

    /// Hands a connection over to the session that its first message names.
    fn route(&mut self, mut waiting: Newcomer, end: usize) {
        // Who connects when they were asked for finds them made.
        self.make_changes();
        // Never the whole Logon(A): it may hold a password.
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
                    let from = (waiting.address, shown);
                    self.destination(key, &message, is_sound, from)
                })
            }
            Err(_) => Found::Nobody,
        };
        self.index = index;
        match (found, named) {
            (Found::Session(knock), _) => self.hand_over((waiting, None), knock),
            (Found::Candidate(ticket, answer_ns), Some(key)) => {
                // Long enough for the application's answer, or for ours in its place.
                let until_ns = self.io.monotonic_ns() + answer_ns + ANSWER_MARGIN_NS;
                waiting.until_ns = waiting.until_ns.max(until_ns);
                // Its further bytes are the session's.
                if waiting.stream.deregister(self.poll.registry()).is_ok() {
                    self.making.insert(ticket, key.clone());
                    self.judged.insert(ticket, Judged { waiting, key, asked });
                }
            }
            (found, _) => self.tell_unwanted(waiting.address, &asked, found),
        }
    }

    /// Says why a connection is closed that goes to no session; nothing else is done for it.
    fn tell_unwanted(&mut self, address: Option<IpAddr>, asked: &str, found: Found) {
        let (at, peer) = (self.at(address), address.map(display));
        match found {
            Found::Busy => {
                let why = "closed: there is one already, which has not been looked at yet";
                tell!(self.lines, at, Refused, warn, peer = peer, asked, why);
            }
            Found::Judged => {
                let why = "closed: its first Logon(A) is still being judged";
                tell!(self.lines, at, Refused, warn, peer = peer, asked, why);
            }
            Found::Elsewhere => {
                let why = "closed: its address is not one of those of this session (allow_from)";
                tell!(self.lines, at, Refused, warn, peer = peer, asked, why);
            }
            Found::Another(certificate) => {
                let why = "closed: its certificate is none of those of this session (tls.peer)";
                tell!(self.lines, at, Refused, warn, peer = peer, asked, certificate, why);
            }
            Found::Nobody | Found::Session(_) | Found::Candidate(..) => {
                let why = "closed: no Logon(A) of a session of these settings";
                tell!(self.lines, at, Refused, warn, peer = peer, asked, why);
            }
        }
    }

    fn hand_over(&self, (mut waiting, offer): (Newcomer, Option<Offer>), knock: Knock) {
        // One that was judged is not registered any more.
        let _ = waiting.stream.deregister(self.poll.registry());
        let arrival = Arrival { stream: waiting.stream, read: waiting.read, offer };
        knock.hand_over(arrival);
    }

    /// Whose Logon(A) it is: the session whose SubIDs fit best, of equals one, or a new one.
    /// `is_sound`: whether the CheckSum(10) is right. `address`, `shown`: who has connected.
    fn destination(
        &mut self,
        key: &Key,
        message: &Message<'_>,
        is_sound: bool,
        (address, shown): (Option<IpAddr>, Option<&PeerCertificate>),
    ) -> Found {
        let known = self.sessions.get(key).into_iter().flatten();
        let best = known
            .filter(|to| is_sound || to.check_sum == CheckSumPolicy::Ignore)
            .filter_map(|to| Some((to.fit(message)?, to)))
            .max_by_key(|(fit, _)| *fit)
            .map(|(_, to)| match is_wanted(&to.tls_peers, shown) {
                _ if !is_allowed(&to.allowed, address) => Found::Elsewhere,
                true => Knock::at(&to.bell).map_or(Found::Busy, Found::Session),
                false => Found::Another(text_of(shown)),
            });
        if let Some(best) = best {
            return best;
        }
        if !is_sound || self.sessions.contains_key(key) {
            return Found::Nobody;
        }
        if !is_allowed(&self.creator.allowed(key), address) {
            return Found::Elsewhere;
        }
        if self.making.values().any(|other| other == key) {
            return Found::Judged;
        }
        if !is_wanted(self.creator.tls_peers(key), shown) {
            return Found::Another(text_of(shown));
        }
        match self.creator.candidate(key, message.bytes()) {
            Ok(candidate) => {
                let answer_ns = candidate.answer_ns();
                let (ticket, started) = self.admission.judge(candidate);
                if let Err(error) = started {
                    let why = "a Logon(A) waits: no thread to judge it";
                    tell!(
                        self.lines, self.at(None),
                        Remark, error, peer = NOBODY, %error, why
                    );
                }
                Found::Candidate(ticket, answer_ns)
            }
            Err(is_full) => {
                if is_full {
                    let max = self.creator.created_max;
                    let why = "no further session is made";
                    tell!(self.lines, self.at(None), NotRouted, warn, peer = NOBODY, max, why);
                }
                Found::Nobody
            }
        }
    }

    /// Somebody whom a template fits has been judged.
    fn answered(&mut self, answer: Answer) {
        let Answer { ticket, made } = answer;
        let key = self.making.remove(&ticket);
        match (made, self.judged.remove(&ticket)) {
            (Ok((shared, offer)), Some(Judged { waiting, key, .. })) => {
                let Some(to) = self.creator.place(shared) else { return };
                if let Some(knock) = Knock::at(&to.bell) {
                    self.hand_over((waiting, Some(offer)), knock);
                }
                self.sessions.insert(key, vec![to]);
            }
            (Err(refusal), Some(judged)) => {
                self.creator.forget();
                self.refuse(judged, &refusal);
            }
            // The judgement took too long: the connection is closed already.
            (_, None) => {
                self.creator.forget();
                let theirs = key.map(|(.., theirs)| theirs).unwrap_or_default();
                let theirs = Shown::new(theirs.as_bytes());
                let why = "judging a Logon(A) took longer than its connection may wait";
                tell!(
                    self.lines, self.at(None),
                    Refused, warn, peer = NOBODY, counterparty = %theirs, why
                );
            }
        }
    }

    fn refuse(&mut self, judged: Judged, refusal: &Refusal) {
        let Judged { mut waiting, asked, .. } = judged;
        say_last(&mut *waiting.stream, &refusal.answer);
        // It may have the CompIDs in it, and what the application says.
        let reason = Shown::cut(refusal.why.as_bytes(), REASON_BYTES_MAX);
        let why = "closed: its Logon(A) was refused";
        tell!(
            self.lines, self.at(waiting.address), Refused, warn,
            peer = waiting.address.map(display), asked, %reason, why
        );
    }
}

/// All subnets of these lists, each once; none, which is everywhere, if one of them is empty.
fn union(lists: impl Iterator<Item = Vec<Subnet>>) -> Vec<Subnet> {
    let mut all = HashSet::new();
    for list in lists {
        if list.is_empty() {
            return Vec::new();
        }
        all.extend(list);
    }
    all.into_iter().collect()
}

/// Whether the counterparty has shown one of these certificates; none of them: any, and nothing
/// shown, will do.
fn is_wanted(peers: &[String], shown: Option<&PeerCertificate>) -> bool {
    peers.is_empty() || shown.is_some_and(|shown| peers.iter().any(|wanted| shown.is(wanted)))
}

fn text_of(shown: Option<&PeerCertificate>) -> String {
    shown.map_or_else(
        || "none".to_owned(),
        |shown| Shown::cut(shown.to_string().as_bytes(), REASON_BYTES_MAX).to_string(),
    )
}

/// Sends what fits into the socket, which is empty, and ends the connection behind it.
fn say_last(stream: &mut dyn Stream, answer: &[u8]) {
    // A counterparty that has gone already needs no answer.
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

/// Type and identity of a first message, for the log.
fn asked_for(message: &Message<'_>) -> String {
    let text = |tag| Shown::new(message.raw(tag).unwrap_or(b"?")).to_string();
    let (msg_type, version) = (text(tag::MSG_TYPE), text(tag::BEGIN_STRING));
    let (sender, target) = (text(tag::SENDER_COMP_ID), text(tag::TARGET_COMP_ID));
    format!("MsgType(35) {msg_type} {version}:{sender}->{target}")
}
