//! The acceptor: accepts connections, and passes each one to the session that its first message
//! names.
//!
//! Invariants:
//! - At most the configured number of connections waits, each for a bounded time.
//! - A connection whose Logon(A) fits no session is closed without a message (FIX Session, case
//!   1c).
//! - At most one connection of a session waits for its worker.
//! - No listener delays the others.
//! - This thread never calls the application.

mod entering;
mod routing;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slab::Slab;
use tracing::field::DisplayValue;
use transfix_codec::FieldIndex;
use transfix_observe::{event, tell};
use transfix_session::SessionId;
use transfix_settings::{SessionSettings, Subnet};
use transfix_transport::Token;

use crate::drive::admission::Admission;
use crate::drive::destination::{Destination, Key, ListenSocket};
use crate::drive::handshakes::Handshakes;
use crate::drive::new_connections::{NewConnection, NewConnections, RoomLimits};
use crate::drive::passwords::Passwords;
use crate::drive::session_waker::SessionWaker;
use crate::drive::stranger_lines::Lines;
use crate::drive::template::{Creator, Maker};
use crate::io::{Io, Poll, Waker};
use crate::link::failed_logons::{FailedLogons, Source};

/// The maximum number of Logon(A)s judged at once; further ones wait.
const JUDGED_AT_ONCE: usize = 64;
const WAKE: Token = Token(usize::MAX);
/// The lowest token of a connection. Listeners have the tokens below it.
const FIRST_CONNECTION: usize = 1 << 31;
/// The address in log lines that concern no single address.
const NOBODY: Option<DisplayValue<IpAddr>> = None;

/// A change of the sessions or listeners of an acceptor.
pub(crate) enum Change {
    Open(ListenSocket),
    /// Closes the listeners of this group, and notifies the sender after their addresses have
    /// become free.
    Close(usize, Sender<()>),
    Add(Key, Destination),
    Remove(Removed),
    /// Removes the reserved places of sessions that were removed to restart but did not.
    Settle,
    AddTemplate(usize, Box<SessionSettings>),
    /// Removes the template, but keeps the sessions made from it.
    RemoveTemplate(SessionId),
}

/// A session that is removed from the acceptor, and gets no more connections.
pub(crate) struct Removed {
    /// The key under which the session is registered; `None` if the session was made from a
    /// template.
    pub(crate) key: Option<Key>,
    pub(crate) session_waker: Arc<SessionWaker>,
    /// True if a later [`Change::Add`] adds the session again. Until [`Change::Settle`], no
    /// template may make a session in its place.
    pub(crate) begins_anew: bool,
}

/// The handle through which other threads change or stop an acceptor.
pub(crate) struct AcceptorHandle {
    stop: AtomicBool,
    changes: Mutex<Vec<Change>>,
    waker: Waker,
}

impl AcceptorHandle {
    fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues changes, which the acceptor applies in order.
    pub(crate) fn change(&self, changes: impl IntoIterator<Item = Change>) {
        self.changes().extend(changes);
        (self.waker)();
    }

    pub(crate) fn close(&self) {
        self.stop.store(true, Ordering::Release);
        (self.waker)();
    }
}

/// The result of a password check: the token of the connection, its source, and whether the
/// password is correct.
type Proof = (usize, Source, bool);

/// A connection whose Logon(A) is being judged, because it fits only a template.
struct Judged {
    waiting: NewConnection,
    key: Key,
    asked: String,
}

/// Listens for connections, and keeps those that have not logged on yet.
pub(crate) struct Acceptor {
    io: Arc<dyn Io>,
    poll: Box<dyn Poll>,
    handle: Arc<AcceptorHandle>,
    /// Listeners by their tokens, which are below those of connections.
    listeners: Slab<ListenSocket>,
    sessions: HashMap<Key, Vec<Destination>>,
    creator: Creator,
    /// The allowed addresses of each group, cached since the last change; empty allows every
    /// address.
    allowed: HashMap<usize, Vec<Subnet>>,
    admission: Admission,
    next_ticket: u64,
    passwords: Arc<Passwords>,
    /// The results of password checks.
    proofs: (Sender<Proof>, Receiver<Proof>),
    /// The sources with a password check in progress; each source has at most one.
    proving: HashSet<Source>,
    /// The connections whose Logon(A) is being judged, by ticket. A connection is removed when its
    /// time is over.
    judged: HashMap<u64, Judged>,
    /// The session keys for which a session is being made from a template, by ticket; each key
    /// appears at most once.
    making: HashMap<u64, Key>,
    room: NewConnections,
    handshakes: Handshakes,
    failed: Arc<FailedLogons>,
    next_token: usize,
    index: FieldIndex,
    lines: Lines,
    /// The time at which to accept again without an event, because a connection that still waits is
    /// not reported again.
    accept_at: Option<u64>,
}

impl Acceptor {
    pub(crate) fn new(
        listeners: Vec<ListenSocket>,
        sessions: HashMap<Key, Vec<Destination>>,
        (creator, maker): (Creator, Maker),
        (limits, failed, passwords): (RoomLimits, FailedLogons, Arc<Passwords>),
        io: &Arc<dyn Io>,
    ) -> io::Result<Self> {
        let poll = io.poll()?;
        let (waker, changes) = (poll.waker(WAKE)?, Mutex::default());
        let maker = Arc::new(maker);
        let mut listeners: Slab<_> = listeners.into_iter().enumerate().collect();
        for (i, listener) in &mut listeners {
            listener.listener.register(poll.registry(), Token(i))?;
        }
        Ok(Self {
            io: Arc::clone(io),
            poll,
            admission: Admission::new(&maker, JUDGED_AT_ONCE, Waker::clone(&waker), io),
            next_ticket: 0,
            passwords,
            proofs: channel(),
            proving: HashSet::new(),
            handle: Arc::new(AcceptorHandle { stop: AtomicBool::new(false), changes, waker }),
            next_token: FIRST_CONNECTION,
            listeners,
            sessions,
            creator,
            allowed: HashMap::new(),
            judged: HashMap::new(),
            making: HashMap::new(),
            room: NewConnections::new(limits),
            handshakes: Handshakes::default(),
            failed: Arc::new(failed),
            index: FieldIndex::default(),
            lines: Lines::default(),
            accept_at: None,
        })
    }

    pub(crate) fn handle(&self) -> &Arc<AcceptorHandle> {
        &self.handle
    }

    /// Runs until [`AcceptorHandle::close`].
    ///
    /// # Errors
    /// If the system's wait fails. The caller may run the acceptor again.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        // After a panic, events that were already reported do not recur, so all listeners are
        // tried.
        self.accept_at = Some(0);
        while !self.handle.stop.load(Ordering::Acquire) {
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
            while let Some((ticket, made)) = self.admission.answer() {
                self.judged(ticket, *made);
            }
            while let Ok((token, source, is_right)) = self.proofs.1.try_recv() {
                self.proven(token, source, is_right);
            }
            let now = self.io.monotonic_ns();
            if self.accept_at.is_some_and(|at| now >= at) {
                self.accept_at = None;
                let all: Vec<_> = self.listeners.iter().map(|(i, _)| i).collect();
                all.into_iter().for_each(|i| self.accept(i));
            }
            self.room.expire(now);
            self.room.due(now).into_iter().for_each(|token| self.look_again(token));
            self.room.rested(now).into_iter().for_each(|token| self.read(token));
            for made in self.creator.look(now) {
                event!(info, GoneWithoutConnection, session = %made.id);
                self.creator.registry.remove(&made.id, &made.session_waker);
                self.remove(Removed {
                    key: None,
                    session_waker: made.session_waker,
                    begins_anew: false,
                });
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
        let changes = std::mem::take(&mut *self.handle.changes());
        changes.into_iter().for_each(|change| self.change(change));
    }

    fn change(&mut self, change: Change) {
        self.allowed.clear();
        match change {
            Change::Open(mut listener) => {
                let place = self.listeners.vacant_entry();
                let token = Token(place.key());
                match listener.listener.register(self.poll.registry(), token) {
                    Ok(()) => {
                        place.insert(listener);
                        // Connections that already wait at the new listener cause no event.
                        self.accept_at = Some(0);
                    }
                    Err(error) => {
                        tell!(
                            self.lines, self.at(None), Ended, error, NotWatched, peer = NOBODY,
                            %error
                        );
                    }
                }
            }
            Change::Close(group, closed) => {
                self.listeners.retain(|_, listener| listener.group != group);
                // The send fails only if the requester no longer waits.
                let _ = closed.send(());
            }
            Change::Add(key, to) => self.sessions.entry(key).or_default().push(to),
            Change::Remove(removed) => self.remove(removed),
            Change::Settle => self.sessions.retain(|_, known| !known.is_empty()),
            Change::AddTemplate(group, template) => {
                for (key, to) in self.creator.made_from(group, &template) {
                    self.sessions.entry(key).or_insert_with(|| vec![to]);
                }
                self.creator.templates.push((group, *template));
            }
            Change::RemoveTemplate(id) => {
                self.creator.templates.retain(|(_, template)| template.id() != id);
            }
        }
    }

    /// Removes a session, which then gets no more connections. After the removal, a template may
    /// make a session for the same counterparty.
    fn remove(&mut self, Removed { key, session_waker, begins_anew }: Removed) {
        let leave = |known: &mut Vec<Destination>| {
            let before = known.len();
            known.retain(|to| !Arc::ptr_eq(&to.session_waker, &session_waker));
            known.len() < before
        };
        let Some(key) = key else {
            let mut was_there = false;
            self.sessions.retain(|_, known| {
                let has_left = leave(known);
                was_there |= has_left;
                begins_anew || !has_left || !known.is_empty()
            });
            if was_there {
                self.allowed.clear();
                self.creator.forget();
            }
            return;
        };
        let is_left = self.sessions.get_mut(&key).is_some_and(|known| {
            leave(known);
            known.is_empty()
        });
        if is_left && !begins_anew {
            self.sessions.remove(&key);
        }
    }

    /// Returns the time, and the address by which log lines are counted.
    fn at(&self, address: Option<IpAddr>) -> (u64, Option<IpAddr>) {
        (self.io.monotonic_ns(), address)
    }

    /// Logs how many log lines about unknown peers were omitted.
    fn tell_untold(&mut self) {
        for (what, left_out) in self.lines.take_omitted() {
            event!(warn, StrangerLinesLeftOut, left_out, what);
        }
    }
}
