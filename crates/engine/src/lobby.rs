//! Where accepted connections wait for their first message, which says to whom they belong.
//!
//! Invariants: at most the configured number of connections waits, each for a bounded time; a
//! connection whose Logon(A) fits no session is closed without a message (FIX Session, case 1c).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Message, frame, raw, tag};
use transfix_session::{BeginString, SubIds};
use transfix_transport::{Events, Interest, Listener, Poll, Stream, TcpStream, Token, Waker};

use crate::clock;
use crate::slot::drain;
use crate::template::{Creation, Creator};
use crate::worker::{Command, Mailbox};

const WAKE: Token = Token(usize::MAX);
/// Pause after the system refused to accept, for instance for want of open files.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// Longest first message; a Logon(A) is far shorter.
const FIRST_MESSAGE_BYTES: usize = 16 << 10;

/// Where it came in (the group of the listener), and BeginString(8), TargetCompID(56) and
/// SenderCompID(49) of the Logon(A).
pub(crate) type Key = (usize, BeginString, String, String);

/// Where the connections of one acceptor session go.
pub(crate) struct Destination {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) slot: usize,
    /// The session's SubIDs and LocationIDs.
    pub(crate) sub_ids: Arc<SubIds>,
    /// Whether its messages must have the right CheckSum(10), the first one too.
    pub(crate) check_sum: CheckSumPolicy,
}

impl Destination {
    /// How well the SubIDs and LocationIDs of a Logon(A) fit: one more for each that is the same,
    /// `None` if one is another. What either side does not name fits anything.
    fn fit(&self, message: &Message<'_>) -> Option<usize> {
        let ids = &self.sub_ids;
        let pairs = [
            (tag::TARGET_SUB_ID, &ids.sender_sub_id),
            (tag::TARGET_LOCATION_ID, &ids.sender_location_id),
            (tag::SENDER_SUB_ID, &ids.target_sub_id),
            (tag::SENDER_LOCATION_ID, &ids.target_location_id),
        ];
        let mut fit = 0;
        for (tag, ours) in pairs {
            match message.raw(tag) {
                Some(named) if !ours.is_empty() && named != ours.as_bytes() => return None,
                Some(_) if !ours.is_empty() => fit += 1,
                _ => {}
            }
        }
        Some(fit)
    }
}

/// The listeners of one setting: an address may name several.
pub(crate) struct Entrance {
    pub(crate) group: usize,
    pub(crate) listener: Listener,
    /// How long a connection may wait for its first message.
    pub(crate) wait_ns: u64,
}

/// Whose connection it is.
enum Found {
    /// That of a session in this slot of a worker.
    Session(Arc<Mailbox>, usize),
    /// Nobody's, and this is the answer.
    Refused(Vec<u8>),
    /// Nobody's.
    Nobody,
}

/// Ends a lobby from outside.
pub(crate) struct LobbyDoor {
    stop: AtomicBool,
    waker: Waker,
}

impl LobbyDoor {
    pub(crate) fn close(&self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.waker.wake();
    }
}

struct Waiting {
    stream: TcpStream,
    group: usize,
    read: Vec<u8>,
    until_ns: u64,
}

/// Listeners and the connections that have not logged on yet.
pub(crate) struct Lobby {
    poll: Poll,
    door: Arc<LobbyDoor>,
    entrances: Vec<Entrance>,
    sessions: HashMap<Key, Vec<Destination>>,
    creator: Creator,
    waiting: HashMap<usize, Waiting>,
    waiting_max: usize,
    next_token: usize,
    index: FieldIndex,
    /// When to accept again although no new connection is reported: those that waited already
    /// are reported only once.
    accept_at: Option<u64>,
}

impl Lobby {
    pub(crate) fn new(
        mut entrances: Vec<Entrance>,
        sessions: HashMap<Key, Vec<Destination>>,
        creator: Creator,
        waiting_max: usize,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        for (i, entrance) in entrances.iter_mut().enumerate() {
            entrance.listener.register(poll.registry(), Token(i))?;
        }
        Ok(Self {
            poll,
            door: Arc::new(LobbyDoor { stop: AtomicBool::new(false), waker }),
            next_token: entrances.len(),
            entrances,
            sessions,
            creator,
            waiting: HashMap::new(),
            waiting_max,
            index: FieldIndex::default(),
            accept_at: None,
        })
    }

    pub(crate) fn door(&self) -> &Arc<LobbyDoor> {
        &self.door
    }

    /// Runs until the door is closed.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(64);
        while !self.door.stop.load(Ordering::Acquire) {
            let now = clock::monotonic_ns();
            let until = self.waiting.values().map(|w| w.until_ns).chain(self.accept_at).min();
            let timeout = until.map(|at| Duration::from_nanos(at.saturating_sub(now)));
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "waiting for connections failed");
                return;
            }
            for event in &events {
                match event.token() {
                    WAKE => {}
                    Token(i) if i < self.entrances.len() => self.accept(i),
                    Token(token) => self.read(token),
                }
            }
            let now = clock::monotonic_ns();
            if self.accept_at.is_some_and(|at| now >= at) {
                self.accept_at = None;
                (0..self.entrances.len()).for_each(|i| self.accept(i));
            }
            self.waiting.retain(|_, w| now < w.until_ns);
        }
    }

    fn accept(&mut self, i: usize) {
        loop {
            let Entrance { group, listener, wait_ns } = &self.entrances[i];
            let (group, wait_ns) = (*group, *wait_ns);
            let mut stream = match listener.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "a connection could not be accepted");
                    self.accept_at = Some(clock::monotonic_ns() + ACCEPT_PAUSE_NS);
                    return;
                }
            };
            if self.waiting.len() >= self.waiting_max {
                tracing::warn!("too many connections without a Logon(A); one more was closed");
                continue;
            }
            let token = self.next_token;
            self.next_token += 1;
            if stream.register(self.poll.registry(), Token(token), Interest::READABLE).is_err() {
                continue;
            }
            let until_ns = clock::monotonic_ns() + wait_ns;
            self.waiting.insert(token, Waiting { stream, group, read: Vec::new(), until_ns });
            self.read(token);
        }
    }

    /// Reads from a waiting connection until its first message is whole.
    fn read(&mut self, token: usize) {
        let Some(mut waiting) = self.waiting.remove(&token) else { return };
        let mut buffer = [0; 4096];
        loop {
            match waiting.stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => waiting.read.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
            if waiting.read.len() > FIRST_MESSAGE_BYTES {
                break;
            }
        }
        let limits = Limits { message_bytes_max: FIRST_MESSAGE_BYTES };
        match frame::split(&waiting.read, limits) {
            Frame::Whole(end) => self.usher(waiting, end),
            Frame::Partial => _ = self.waiting.insert(token, waiting),
            Frame::Garbled { reason, .. } => {
                let peer = waiting.stream.peer_addr();
                tracing::warn!(?peer, %reason, "closed: the first bytes are no message");
            }
        }
    }

    /// Hands a connection over to the session that its first message names.
    fn usher(&mut self, mut waiting: Waiting, end: usize) {
        let peer = waiting.stream.peer_addr();
        // Never the whole Logon(A): it may hold a password.
        let mut asked = String::from("a garbled message");
        let mut index = std::mem::take(&mut self.index);
        let first = &waiting.read[..end];
        let (summed, trailer) = first.split_at(end.saturating_sub(7));
        let is_sound = trailer.get(3..6) == Some(&raw::check_sum(summed)[..]);
        let found = match Message::parse(first, &mut index, CheckSumPolicy::Ignore) {
            Ok(message) => {
                asked = asked_for(&message);
                let key = key(waiting.group, &message);
                key.map_or(Found::Nobody, |key| self.destination(key, &message, is_sound))
            }
            Err(_) => Found::Nobody,
        };
        self.index = index;
        let peer = peer.map_or_else(String::new, |peer| peer.to_string());
        let (mailbox, slot) = match found {
            Found::Session(mailbox, slot) => (mailbox, slot),
            Found::Refused(answer) => {
                tracing::warn!(peer, asked, "closed: its Logon(A) was refused");
                say_last(&mut waiting.stream, &answer);
                return;
            }
            Found::Nobody => {
                tracing::warn!(peer, asked, "closed: no Logon(A) of a session of these settings");
                return;
            }
        };
        if waiting.stream.deregister(self.poll.registry()).is_err() {
            return;
        }
        mailbox.post(Command::Attach {
            slot,
            stream: Box::new(waiting.stream),
            read: waiting.read,
        });
    }

    /// Whose Logon(A) it is: the session whose SubIDs fit best, of equals one, or a new one.
    /// `is_sound`: whether the CheckSum(10) is right.
    fn destination(&mut self, key: Key, message: &Message<'_>, is_sound: bool) -> Found {
        let known = self.sessions.get(&key).into_iter().flatten();
        let best = known
            .filter(|to| is_sound || to.check_sum == CheckSumPolicy::Ignore)
            .filter_map(|to| Some((to.fit(message)?, to)))
            .max_by_key(|(fit, _)| *fit)
            .map(|(_, to)| Found::Session(Arc::clone(&to.mailbox), to.slot));
        if let Some(best) = best {
            return best;
        }
        if !is_sound || self.sessions.contains_key(&key) {
            return Found::Nobody;
        }
        match self.creator.create(&key, message) {
            Creation::Made(made) => {
                let found = Found::Session(Arc::clone(&made.mailbox), made.slot);
                self.sessions.insert(key, vec![made]);
                found
            }
            Creation::Refused(answer) => Found::Refused(answer),
            Creation::None => Found::Nobody,
        }
    }
}

/// Sends what fits into the socket, which is empty, and ends the connection behind it.
fn say_last(stream: &mut TcpStream, answer: &[u8]) {
    // Who is refused and has gone already misses nothing.
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
    let text = |tag| message.text(tag).unwrap_or("?");
    let (msg_type, version) = (text(tag::MSG_TYPE), text(tag::BEGIN_STRING));
    let (sender, target) = (text(tag::SENDER_COMP_ID), text(tag::TARGET_COMP_ID));
    format!("MsgType(35) {msg_type} {version}:{sender}->{target}")
}
