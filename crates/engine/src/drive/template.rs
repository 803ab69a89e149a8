//! Sessions made when a counterparty logs on for the first time.
//!
//! An acceptor with `target_comp_id = "*"` is a template, without a session of its own. The thread
//! that accepts connections finds the template and counts. [`Maker`] asks the application and opens
//! the store, in a separate thread.
//! Invariants: the application judges the Logon(A) before anything permanent is made. No more than
//! the configured number of sessions is made. A Logon(A) that is being judged, or is refused, does
//! not count as a session.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Weak};

use transfix_observe::event;
use transfix_session::{Offer, SessionId, State, nanos};
use transfix_settings::SessionSettings;

use crate::drive::balance::Shares;
use crate::drive::command_queue::{CommandQueue, Pool};
use crate::drive::destination::{Destination, Key};
use crate::drive::driven::DrivenSession;
use crate::drive::outcome::SessionOutcome;
use crate::drive::registry::Registry;
use crate::drive::session_waker::{Release, SessionWaker, UNDER_WAY};
use crate::drive::shared::Shared;
use crate::error::EngineError;
use crate::link::callbacks::Callbacks;
use crate::link::refusal::Refusal;

/// The number of checks within the time that a session may stay without a connection.
const LOOKS: u64 = 8;
/// The interval, in nanoseconds, at which leaving sessions are checked.
const LEAVING_LOOK_NS: u64 = 10_000_000;

/// A function that returns the application for an unknown counterparty, or `None` to refuse the
/// counterparty.
pub(crate) type Admit = Box<dyn Fn(&SessionId) -> Option<Box<dyn Callbacks>> + Send + Sync>;

/// A function that lets the session layer and the application judge a Logon(A), before a session is
/// made.
pub(crate) type Judge = Box<
    dyn Fn(&SessionSettings, &mut dyn Callbacks, Applicant<'_>) -> Result<Offer, Refusal>
        + Send
        + Sync,
>;

/// The counterparty whose Logon(A) is judged.
pub(crate) struct Applicant<'a> {
    /// The bytes of the whole Logon(A).
    pub(crate) logon: &'a [u8],
    /// True if its Password(554) matches the hash in the settings.
    pub(crate) password_proof: bool,
    /// The socket address of the counterparty, if known.
    pub(crate) peer: Option<SocketAddr>,
}

/// A function that assembles a session from settings and application.
pub(crate) type Open =
    Box<dyn Fn(&SessionSettings, Box<dyn Callbacks>) -> Result<Shared, EngineError> + Send + Sync>;

/// A counterparty that fits a template, queued to be judged.
pub(crate) struct Candidate {
    settings: SessionSettings,
    /// The whole Logon(A).
    logon: Vec<u8>,
    /// True if its Password(554) matches the hash in the settings.
    password_proof: bool,
    peer: Option<SocketAddr>,
}

impl Candidate {
    /// Returns the time limit, in nanoseconds, for the application to judge the Logon(A).
    pub(crate) fn answer_ns(&self) -> u64 {
        nanos(self.settings.logon_answer)
    }
}

/// The number of sessions made from templates, and its limit.
pub(crate) struct CreatedPlaces {
    taken: AtomicUsize,
    pub(crate) max: usize,
}

impl CreatedPlaces {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), max })
    }

    fn are_all_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.max
    }

    /// Counts one more session. Returns false if the limit is reached.
    fn take(&self) -> bool {
        let more = |taken: usize| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Judges counterparties that fit a template, and makes their sessions.
pub(crate) struct Maker {
    pub(crate) admit: Admit,
    pub(crate) judge: Judge,
    pub(crate) open: Open,
    pub(crate) places: Arc<CreatedPlaces>,
}

impl Maker {
    /// Makes the session if the application accepts it and `is_over` returns false. The new session
    /// accepts its Logon(A) without judging it again.
    pub(crate) fn make(
        &self,
        candidate: Candidate,
        is_over: impl Fn() -> bool,
    ) -> Result<(Shared, Offer), Refusal> {
        let Candidate { settings, logon, password_proof, peer } = candidate;
        let application = (self.admit)(&settings.id());
        let mut application = application.ok_or_else(|| Refusal::failed_logon("not admitted"))?;
        let applicant = Applicant { logon: &logon, password_proof, peer };
        let offer = (self.judge)(&settings, &mut *application, applicant)?;
        if is_over() {
            return Err(Refusal::silent("the engine ends"));
        }
        if !self.places.take() {
            return Err(Refusal::silent(
                "no further session can be created: created_sessions_max \
                                        is reached",
            ));
        }
        // Catches a panic of the store, to decrease the count of sessions.
        let shared = catch_unwind(AssertUnwindSafe(|| (self.open)(&settings, application)));
        match shared {
            Ok(Ok(shared)) => Ok((shared, offer)),
            Ok(Err(error)) => {
                self.places.give_back();
                Err(Refusal::not_made(&error))
            }
            Err(panic) => {
                self.places.give_back();
                resume_unwind(panic)
            }
        }
    }
}

/// Finds the templates that fit, and assigns the new sessions to workers.
pub(crate) struct Creator {
    /// Each template with the group of its listeners.
    pub(crate) templates: Vec<(usize, SessionSettings)>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) workers: Pool,
    /// The load of the pool's workers, to avoid overloaded ones.
    pub(crate) shares: Shares,
    /// The number of sessions made, and its limit.
    pub(crate) places: Arc<CreatedPlaces>,
    /// The maximum time, in nanoseconds, that a session made from a template may stay without a
    /// connection; 0 for no limit.
    pub(crate) idle_ns: u64,
    pub(crate) made: Vec<Made>,
    /// The monotonic time of the next check of the sessions in `made`.
    pub(crate) look_ns: u64,
}

/// A session that was made from a template.
pub(crate) struct Made {
    pub(crate) id: SessionId,
    pub(crate) session_waker: Arc<SessionWaker>,
    shared: Weak<Shared>,
    /// The time since which the session has no connection, and its number of logons at that time.
    idle: Option<(u64, u64)>,
    /// The receiver of the session's outcome, while the session is being released.
    leaving: Option<Receiver<SessionOutcome>>,
}

impl Made {
    /// Returns true if the session has ended. Begins to release a session that has been without a
    /// connection for `idle_ns`.
    fn is_over(&mut self, now_ns: u64, idle_ns: u64) -> bool {
        if let Some(leaving) = &self.leaving {
            return leaving.try_recv() != Err(TryRecvError::Empty);
        }
        let Some(shared) = self.shared.upgrade() else { return true };
        let logons = shared.published.counters.logons.get();
        if shared.published.state() != State::Disconnected {
            self.idle = None;
            return false;
        }
        let (since_ns, before) = *self.idle.get_or_insert((now_ns, logons));
        if before != logons {
            self.idle = Some((now_ns, logons));
        } else if now_ns.saturating_sub(since_ns) >= idle_ns {
            let (to, leaving) = channel();
            let (session_waker, text) = (Arc::clone(&shared.session_waker), String::new());
            Release { session_waker, until_ns: now_ns, text, to }.hand_over();
            self.leaving = Some(leaving);
        }
        false
    }
}

impl Creator {
    /// Returns the monotonic time of the next check, if sessions may be released at all.
    pub(crate) fn looks_at(&self) -> Option<u64> {
        (self.idle_ns > 0 && !self.made.is_empty()).then_some(self.look_ns)
    }

    /// Releases sessions that were without a connection for too long. Returns the sessions that
    /// have ended; their numbers are in their stores.
    pub(crate) fn look(&mut self, now_ns: u64) -> Vec<Made> {
        if self.looks_at().is_none_or(|at| now_ns < at) {
            return Vec::new();
        }
        let idle_ns = self.idle_ns;
        let over = |made: &mut Made| made.is_over(now_ns, idle_ns);
        let gone = self.made.extract_if(.., over).collect();
        let is_leaving = self.made.iter().any(|made| made.leaving.is_some());
        self.look_ns = now_ns + if is_leaving { LEAVING_LOOK_NS } else { idle_ns.div_ceil(LOOKS) };
        gone
    }

    /// Returns the candidate for a Logon(A), if a template fits and the limit of sessions allows
    /// one more.
    ///
    /// # Errors
    /// `true` if a template fits but the limit is reached.
    pub(crate) fn candidate(
        &mut self,
        key: &Key,
        Applicant { logon, password_proof, peer }: Applicant<'_>,
    ) -> Result<Candidate, bool> {
        let mut settings = self.template(key).ok_or(false)?.clone();
        settings.target_comp_id.clone_from(&key.3);
        settings.check().map_err(|_| false)?;
        if settings.is_template() {
            return Err(false);
        }
        if self.places.are_all_taken() {
            return Err(true);
        }
        Ok(Candidate { settings, logon: logon.to_vec(), password_proof, peer })
    }

    /// Returns existing sessions that belong to this template, with their keys at its address. A
    /// session made at another address counts only if its TLS settings are equal, so that its
    /// counterparty is authenticated in the same way.
    pub(crate) fn made_from(
        &self,
        group: usize,
        template: &SessionSettings,
    ) -> Vec<(Key, Destination)> {
        let mut made = self.registry.made();
        made.retain(|shared| {
            let SessionId { begin_string, sender_comp_id, .. } = &shared.id;
            let made = &shared.settings;
            let is_as_safe = made.address == template.address || made.tls == template.tls;
            *begin_string == template.begin_string
                && **sender_comp_id == *template.sender_comp_id
                && is_as_safe
        });
        let with_key = made.iter().map(|shared| {
            let (ours, theirs) = (&shared.id.sender_comp_id, &shared.id.target_comp_id);
            let key = (group, shared.id.begin_string, ours.to_string(), theirs.to_string());
            (key, Destination::of(shared))
        });
        with_key.collect()
    }

    /// Returns the template with this listener group, version and SenderCompID(49), if any.
    pub(crate) fn template(
        &self,
        (group, begin_string, ours, _): &Key,
    ) -> Option<&SessionSettings> {
        let fits = |(at, settings): &&(usize, SessionSettings)| {
            at == group
                && settings.begin_string == *begin_string
                && settings.sender_comp_id == *ours
        };
        self.templates.iter().find(fits).map(|(_, settings)| settings)
    }

    /// Decreases the count of sessions, because one made from a template has ended.
    pub(crate) fn forget(&self) {
        self.places.give_back();
    }

    /// Assigns a session to the worker with the fewest sessions, preferring workers that are not
    /// overloaded. Returns `None` if all workers are stopping.
    pub(crate) fn place(&mut self, shared: Shared) -> Option<Destination> {
        let shared = Arc::new(shared);
        let pool = self.workers.get()?;
        self.shares.look(self.registry.io.monotonic_ns(), pool);
        let shares = &self.shares;
        let key =
            |(n, worker): &(usize, &Arc<CommandQueue>)| (shares.is_hot(*n), worker.sessions());
        let (_, worker) = pool.iter().enumerate().min_by_key(key)?;
        shared.belongs_to(worker.handle(), UNDER_WAY);
        self.registry.add(&shared, true);
        // The line is logged at most `created_sessions_max` times.
        event!(info, MadeFromTemplate, session = %shared.id);
        let destination = Destination::of(&shared);
        if self.idle_ns > 0 {
            let (id, session_waker) = (shared.id.clone(), Arc::clone(&shared.session_waker));
            let made = Made {
                id,
                session_waker,
                shared: Arc::downgrade(&shared),
                idle: None,
                leaving: None,
            };
            self.made.push(made);
        }
        worker.add(Box::new(DrivenSession::new(shared, None))).ok()?;
        worker.wake();
        Some(destination)
    }
}
