//! The part of a link that knows no socket: session, store, application, and what is to be sent.
//!
//! Invariant: [`Core::write`] finds everything journalled and committed.

mod backlog;
mod delivery;
mod journal;
mod outgoing;
mod tell;
mod watched;

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use transfix_codec::frame::{self, SearchBudget};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Garbled, Limits, Message, Tag};
use transfix_session::{
    ApplVerId, Checks, Disconnect, Now, Outbox, Remark, Role, SendError, Session, SessionId, State,
    Verdict, check_msg_type,
};
use transfix_store::Store;
use transfix_transport::Stream;

use backlog::Backlog;
use delivery::{Fate, Postponed};
pub(crate) use journal::asked_to_reset;
use watched::WatchedStore;

use crate::link::answers::{Direction, LogonRefusal};
use crate::link::callbacks::{Access, Callbacks};
use crate::link::down::Down;
use crate::link::inbox::Inbox;
use crate::link::queue::{SendQueue, is_bulky};
use crate::link::refusal::Refusal;
use crate::link::replay::Replay;
use crate::link::rule_book::RuleBook;
use crate::link::told::Disconnection;
use crate::observe::counters::LiveCounters;
use crate::observe::mask::masked;
use crate::observe::protocol_log::{Tap, Unlogged};
use crate::observe::published::Published;
use crate::observe::repeats::{Repeats, tell};
use crate::schedule::Hours;
use crate::settings::dictionary_source::DictionarySource;
use crate::settings::{GarbledPolicy, Offline, Unavailable, Unsent};

/// Answers of the session layer that may wait beyond the limit of applications.
const STALLED_BYTES: usize = 4 << 20;
/// First size of the send buffer; it grows up to the limit of queued bytes.
const OUTBOX_BYTES: usize = 64 << 10;

/// Limits and switches of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkOptions {
    pub(crate) limits: Limits,
    pub(crate) check_sum: CheckSumPolicy,
    pub(crate) garbled: GarbledPolicy,
    /// Whether what a garbled message covers is searched for whole messages.
    pub(crate) search_garbled: bool,
    pub(crate) queued_bytes_max: usize,
    pub(crate) turn_messages_max: u32,
    pub(crate) keep_outbound: bool,
    pub(crate) keep_inbound: bool,
    pub(crate) offline: Offline,
    /// Whether somebody else may have written the store since the last connection.
    pub(crate) refresh_on_logon: bool,
    /// When the session may be connected; `None` for always.
    pub(crate) hours: Option<Hours>,
    pub(crate) queue_pause_ms: u32,
    pub(crate) queue_expires_s: u32,
    pub(crate) unsent: Unsent,
    pub(crate) unavailable: Unavailable,
    /// Whether messages for third parties are passed on.
    pub(crate) routes: bool,
    /// Whether messages are validated; `dictionary` stands in for the standard one.
    pub(crate) checks: Checks,
    pub(crate) dictionary: Option<DictionarySource>,
    /// See [`crate::SessionSettings::appl_versions`].
    pub(crate) appl_versions: BTreeMap<String, DictionarySource>,
    /// Data fields that these dictionaries define, each after its Length field.
    pub(crate) data_fields: Vec<(Tag, Tag)>,
}

impl LinkOptions {
    /// Memory for the index of messages of this session.
    pub(crate) fn index(&self) -> FieldIndex {
        let mut index = FieldIndex::default();
        index.set_data_fields(self.data_fields.iter().copied());
        index
    }
}

/// Session, store and application of one link.
pub(crate) struct Core {
    pub(crate) session: Session,
    pub(crate) out: Outbox,
    pub(crate) options: LinkOptions,
    pub(crate) published: Arc<Published>,
    store: WatchedStore,
    /// The next numbers as the store has them.
    stored: (u64, u64),
    application: Box<dyn Callbacks>,
    rule_book: Arc<RuleBook>,
    replay: Replay,
    held_index: FieldIndex,
    wants_wire: bool,
    /// The protocol log, if there is one.
    pub(crate) log: Option<Tap>,
    /// Bytes of the outbox that application and log have seen.
    shown: usize,
    /// The journal has a note of this connection's logon.
    notes_end: bool,
    /// The operator wants the link to go down.
    pub(crate) cut: Option<Disconnect>,
    /// Messages of other threads, taken from the queue and not sent yet.
    backlog: Backlog,
    /// What waits is given back for this reason when the store is open again.
    returns: Option<SendError>,
    /// The last turn has ended before the queue did: the next one begins with it, or a
    /// counterparty that sends without a pause would keep it from being sent.
    pub(crate) queue_first: bool,
    /// An operator holds back what waits in the queue.
    pub(crate) holds: bool,
    /// Until when they wait after a logon.
    pause_until_ns: Option<u64>,
    postponed: Postponed,
    /// A Logon(A) that the application has judged already, before this session was made.
    pub(crate) judged: Vec<u8>,
    /// The number expected before the message that is being handled.
    expected: u64,
    /// Text(58) of the counterparty's Logout(5) in this connection.
    logout_text: Option<Vec<u8>>,
    repeats: Repeats,
    /// What searches in garbled messages may still cost.
    search_budget: SearchBudget,
    /// When memory is given back, on the monotonic clock.
    pub(crate) trim_at_ns: Option<u64>,
    /// A turn has panicked: what it has left in memory is not to be trusted.
    panicked: bool,
}

impl Core {
    pub(crate) fn new(
        session: Session,
        store: Box<dyn Store>,
        application: Box<dyn Callbacks>,
        rule_book: Arc<RuleBook>,
        options: LinkOptions,
    ) -> Self {
        Self {
            stored: (session.next_num_in(), session.next_num_out()),
            store: WatchedStore::new(store, session.config().id.clone()),
            session,
            out: Outbox::with_capacity(OUTBOX_BYTES),
            replay: Replay::new(options.index()),
            held_index: options.index(),
            search_budget: SearchBudget::new(options.limits),
            options,
            published: Arc::default(),
            wants_wire: application.wants_wire(),
            log: None,
            application,
            rule_book,
            shown: 0,
            notes_end: false,
            cut: None,
            backlog: Backlog::default(),
            returns: None,
            queue_first: false,
            holds: false,
            pause_until_ns: None,
            postponed: Postponed::default(),
            judged: Vec::new(),
            expected: 0,
            logout_text: None,
            repeats: Repeats::default(),
            trim_at_ns: None,
            panicked: false,
        }
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.session.config().id
    }

    /// Memory for the index of messages of this session.
    pub(crate) fn index(&self) -> FieldIndex {
        self.options.index()
    }

    /// Whether something waits to be sent, and can be as soon as the socket takes it.
    pub(crate) fn waits(&self) -> bool {
        !self.out.bytes().is_empty()
            || self.replay.active
            || self.sends_more()
            || self.cut.is_some()
    }

    /// Whether a burst has left far more memory than is used.
    #[inline]
    pub(crate) fn is_bulky(&self) -> bool {
        let replayed = &self.replay.out;
        is_bulky(self.out.capacity(), self.out.bytes().len())
            || is_bulky(replayed.capacity(), replayed.bytes().len())
            || self.backlog.is_bulky()
            || self.held_index.is_bulky()
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&mut self) {
        for out in [&mut self.out, &mut self.replay.out] {
            if is_bulky(out.capacity(), out.bytes().len()) {
                out.shrink_to(OUTBOX_BYTES.max(out.bytes().len()));
            }
        }
        self.backlog.trim();
        self.held_index.trim();
    }

    /// MsgSeqNum(34) of the message that is being handled, or was last.
    pub(crate) const fn handled(&self) -> u64 {
        self.expected
    }

    /// Bytes that wait in memory: to be sent, or to be handed to the application.
    pub(crate) fn waiting_bytes(&self, queue: &SendQueue) -> usize {
        let (_, held) = self.session.held();
        let out = self.out.bytes().len() + self.replay.out.bytes().len();
        out + self.queued_bytes(queue) + held + self.postponed.bytes()
    }

    /// Whether far more waits than applications may queue: a counterparty that makes us answer and
    /// never reads.
    pub(crate) fn is_stalled(&self) -> bool {
        let max = self.options.queued_bytes_max;
        self.out.bytes().len() > max.saturating_mul(2).max(max.saturating_add(STALLED_BYTES))
    }

    /// Lets the numbers start again if a window has opened since they began.
    fn open_window(&mut self, now: Now) {
        let since_ns = self.store.numbers().created_ns;
        let hours = self.options.hours.as_mut();
        if hours.is_some_and(|hours| hours.restarts(now.utc, since_ns)) {
            tell!(
                self.repeats,
                now.monotonic_ns,
                Numbers,
                info,
                session = display(self.id()),
                "numbers start again: a window has opened"
            );
            self.session.restart_numbers(&mut self.out);
        }
    }

    /// A link is up.
    pub(crate) fn connected(&mut self, now: Now) -> Result<(), Down> {
        self.logout_text = None;
        // An acceptor does so when it has found the Logon(A) good: what a stranger begins must not
        // take the store from the process that has it.
        if !self.options.refresh_on_logon {
            self.open_window(now);
        } else if self.session.config().role == Role::Initiator {
            self.refresh(now).map_err(Down::Store)?;
        }
        if self.session.config().role == Role::Initiator {
            self.fill_logon(now);
        }
        self.session.connected(now, &mut self.out);
        Ok(())
    }

    /// Gives a message to the session; a good Logon(A) to the application first.
    #[inline]
    pub(crate) fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        if message.msg_type() == b"A" && self.is_good_logon(now, message) {
            let is_judged = !self.judged.is_empty() && self.judged == message.bytes();
            if !is_judged && let Err(refused) = self.judge_logon(now, message) {
                return refused;
            }
            self.judged.clear();
            let begins = self.session.state() == State::LogonAwaited;
            if begins
                && self.options.refresh_on_logon
                && let Err(error) = self.refresh(now)
            {
                tell!(
                    self.repeats, now.monotonic_ns, Store, error,
                    session = display(self.id()), %error, "the store cannot be read again"
                );
                return Verdict::Disconnect(Disconnect::StoreFailed);
            }
            if self.session.config().role == Role::Acceptor {
                self.fill_logon(now);
            }
        }
        self.expected = self.session.next_num_in();
        self.session.receive(now, message, &mut self.out)
    }

    /// Lets the application judge a good Logon(A); answers with the verdict if it refuses.
    fn judge_logon(&mut self, now: Now, logon: &Message<'_>) -> Result<(), Verdict> {
        let id = &self.session.config().id;
        let application = &mut self.application;
        // Whoever knows two CompIDs can bring this about: it costs the connection, not the session.
        let judged = catch_unwind(AssertUnwindSafe(|| application.judge_logon(logon, id)));
        let judged = judged.unwrap_or_else(|_| {
            tell!(
                self.repeats,
                now.monotonic_ns,
                Refused,
                error,
                session = display(self.id()),
                "judging a Logon(A) panicked: it is refused"
            );
            Err(LogonRefusal::new("not available"))
        });
        let Err(refusal) = judged else { return Ok(()) };
        tell!(
            self.repeats, now.monotonic_ns, Refused, warn,
            session = display(self.id()), why = %refusal.text, "Logon(A) refused"
        );
        Err(self.session.deny_logon(now, logon, &refusal.text, &mut self.out))
    }

    /// What a session that is to be made for this Logon(A) would make of it, but for its numbers.
    ///
    /// # Errors
    /// What is to be sent to somebody who is refused, and why.
    pub(crate) fn try_logon(
        mut self,
        now: Now,
        logon: &Message<'_>,
    ) -> Result<Box<dyn Callbacks>, Refusal> {
        // The lines about strangers are counted where they come in.
        self.repeats.fall_silent(now.monotonic_ns);
        // Its store is made for this alone, and has nothing to read again.
        self.connected(now).map_err(|_| Refusal::silent("its store has failed"))?;
        let refused = match self.is_good_logon(now, logon) {
            true => self.judge_logon(now, logon).err(),
            false => Some(self.session.receive(now, logon, &mut self.out)),
        };
        let Some(verdict) = refused else { return Ok(self.application) };
        let why = match verdict {
            Verdict::Disconnect(reason) => reason.to_string(),
            _ => String::new(),
        };
        Err(Refusal { answer: self.out.bytes().to_vec(), why })
    }

    /// Whether the session layer would accept this Logon(A), which may say itself by which version
    /// it is to be judged.
    fn is_good_logon(&mut self, now: Now, message: &Message<'_>) -> bool {
        if matches!(self.session.state(), State::LogonAwaited | State::LogonSent) {
            let proposed = self.session.proposed_appl_ver_id(message);
            self.choose_rules(now, proposed.or(self.session.appl_ver_id()));
        }
        self.session.is_good_logon(now, message)
    }

    fn fill_logon(&mut self, now: Now) {
        let (application, id) = (&mut self.application, self.session.config().id.clone());
        let filled = self.session.set_logon_fields(|body| application.fill_logon(body, &id));
        if let Err(error) = filled {
            tell!(
                self.repeats, now.monotonic_ns, Logon, error,
                session = display(self.id()), %error, "fields of the Logon(A) are left out"
            );
        }
    }

    /// Carries out the session's verdict on `message`, then on the held messages it has freed.
    pub(crate) fn act(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: Verdict,
        left: &mut u32,
    ) -> Result<(), Down> {
        self.published.received(now.utc);
        if self.wants_wire {
            self.application.on_wire(Direction::Inbound, &masked(message.bytes()));
        }
        self.note_remarks(now);
        self.act_on_one(now, message, verdict)?;
        self.act_on_held(now, left)
    }

    /// Carries out what the session makes of messages that were kept above a gap and have their
    /// turn now, as far as this turn still takes messages.
    #[inline]
    pub(crate) fn act_on_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        if self.cut.is_none() && !self.session.holds_next() {
            return Ok(());
        }
        self.act_on_all_held(now, left)
    }

    fn act_on_all_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        while *left > 0
            && let Some(held) = self.session.take_held()
        {
            *left -= 1;
            let mut index = std::mem::take(&mut self.held_index);
            let mut acted = Ok(());
            // It was whole and sound when it was kept.
            if let Ok(message) = Message::parse(&held, &mut index, CheckSumPolicy::Ignore) {
                self.expected = self.session.next_num_in();
                let verdict = self.session.receive_held(now, &message, &mut self.out);
                self.note_remarks(now);
                acted = self.act_on_one(now, &message, verdict);
            }
            self.held_index = index;
            acted?;
        }
        self.cut.take().map_or(Ok(()), |reason| Err(Down::Session(reason)))
    }

    fn act_on_one(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: Verdict,
    ) -> Result<(), Down> {
        if matches!(message.msg_type(), b"3" | b"5" | b"j") {
            self.heed(now, message, verdict);
        }
        match verdict {
            Verdict::Deliver => self.deliver(now, message, Fate::Offered)?,
            Verdict::Throttled => self.deliver(now, message, Fate::Refused)?,
            Verdict::Held => {}
            // Not the application's: duplicates and rejected messages end here.
            Verdict::Handled if check_msg_type(message.msg_type()).is_ok() => {}
            Verdict::Handled => self.with_application(now, |app, s| app.on_admin(message, s)),
            Verdict::LoggedOn => self.logged_on(now, message)?,
            Verdict::Reset => self.reset(now, message)?,
            Verdict::LoggedOnThenResend { begin, end } => {
                // Before the application sends more, which is not asked for.
                self.start_replay(now, begin, end);
                self.logged_on(now, message)?;
            }
            Verdict::Resend { begin, end } => {
                self.with_application(now, |app, s| app.on_admin(message, s));
                self.note_request(now);
                self.start_replay(now, begin, end);
            }
            Verdict::Disconnect(reason) => {
                self.with_application(now, |app, s| app.on_admin(message, s));
                if reason == Disconnect::ResendLoop {
                    self.note_request(now);
                }
                return Err(Down::Session(reason));
            }
        }
        self.put_entries(now).map_err(Down::Store)
    }

    fn logged_on(&mut self, now: Now, message: &Message<'_>) -> Result<(), Down> {
        // A reset that came with the Logon(A) stands before it.
        self.put_entries(now).and_then(|()| self.note(now, "logged on")).map_err(Down::Store)?;
        self.notes_end = true;
        self.published.counters.logons.add(1);
        self.begin_pause(now);
        self.note_state();
        // Once more: DefaultCstmApplVerID(1408) is agreed now.
        self.choose_rules(now, self.session.appl_ver_id());
        self.tell_logon(now);
        self.with_application(now, |app, mut s| {
            app.on_admin(message, s.again());
            app.on_logon(s);
        });
        Ok(())
    }

    /// The numbers have begun again while the session is logged on.
    fn reset(&mut self, now: Now, message: &Message<'_>) -> Result<(), Down> {
        self.put_entries(now).map_err(Down::Store)?;
        self.choose_rules(now, self.session.appl_ver_id());
        tell!(
            self.repeats,
            now.monotonic_ns,
            Numbers,
            info,
            session = display(self.id()),
            "the numbers begin again at 1"
        );
        self.with_application(now, |app, mut s| {
            app.on_admin(message, s.again());
            app.on_reset(s);
        });
        Ok(())
    }

    fn start_replay(&mut self, now: Now, begin: u64, end: u64) {
        self.tell_resend(now, begin, end);
        let last = self.session.next_num_out() - 1;
        self.replay.start(begin, end, last, self.out.bytes().len());
    }

    /// The rules of the version in force, which a FIXT.1.1 acceptor may learn from the Logon(A).
    pub(crate) fn choose_rules(&mut self, now: Now, version: Option<ApplVerId>) {
        let begin_string = self.id().begin_string;
        let source = self.options.dictionary.as_ref();
        let book = &self.rule_book;
        let own = book.rules(begin_string, version, source);
        let versions = self.options.appl_versions.iter();
        let others = versions.map(|(version, source)| {
            let rules = book.rules(begin_string, None, Some(source))?;
            Ok((version.as_bytes().into(), rules))
        });
        match own.and_then(|own| Ok((own, others.collect::<Result<Vec<_>, String>>()?))) {
            Ok((own, others)) => {
                self.session.set_rules(Some(own), self.options.checks);
                self.session.set_version_rules(others);
            }
            // The files were there at the start.
            Err(error) => {
                tell!(
                    self.repeats,
                    now.monotonic_ns,
                    Logon,
                    error,
                    session = display(self.id()),
                    error,
                    "no validation"
                );
            }
        }
    }

    fn with_application(&mut self, now: Now, call: impl FnOnce(&mut dyn Callbacks, Access<'_>)) {
        // Whoever hears of a message from the application finds its number taken.
        self.note_state();
        let access = Access {
            session: &mut self.session,
            out: &mut self.out,
            now,
            queued_bytes_max: self.options.queued_bytes_max,
            cut: &mut self.cut,
        };
        call(&mut *self.application, access);
    }

    /// How many of the `covered` bytes that begin with a garbled message go with it.
    pub(crate) fn lost_with(&mut self, inbox: &mut Inbox, covered: usize) -> usize {
        if !self.options.search_garbled {
            return covered;
        }
        self.search_budget.earn(inbox.take_received());
        let (limits, budget) = (self.options.limits, &mut self.search_budget);
        frame::message_within(inbox.bytes(), covered, limits, budget).unwrap_or(covered)
    }

    pub(crate) fn garbled(&mut self, now: Now, reason: Garbled, bytes: usize) {
        self.published.counters.garbled.add(1);
        self.tell_garbled(now, reason, bytes);
    }

    /// Logs what was received and is not logged yet.
    pub(crate) fn log_received(&mut self, now: Now, unlogged: &mut Unlogged<'_>) {
        log_received(self.log.as_mut(), &self.published.counters, now, unlogged);
    }

    /// A frame that is no sound message: skipped, unless the session rejects such ones.
    pub(crate) fn garbled_frame(
        &mut self,
        now: Now,
        frame: &[u8],
        reason: Garbled,
    ) -> Result<(), Down> {
        self.garbled(now, reason, frame.len());
        if self.options.garbled == GarbledPolicy::Skip {
            return Ok(());
        }
        match self.session.receive_garbled(now, frame, reason, &mut self.out) {
            Verdict::Disconnect(reason) => Err(Down::Session(reason)),
            _ => self.put_entries(now).map_err(Down::Store),
        }
    }

    /// When [`Core::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let session = self.session.next_deadline();
        let (offers, tells) = (self.postponed.deadline(), self.repeats.deadline());
        let others = [self.pause_until_ns, offers, self.trim_at_ns, tells];
        session.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Does what is due, with at most `left` messages of the application.
    pub(crate) fn tick(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        self.tell_untold(now);
        self.offer_again(now, left)?;
        match self.session.tick(now, &mut self.out) {
            Verdict::Disconnect(reason) => Err(Down::Session(reason)),
            _ => Ok(()),
        }
    }

    fn note_remarks(&mut self, now: Now) {
        while let Some(remark) = self.session.take_remark() {
            self.tell_remark(now, remark);
            if let Remark::PassedOver(count) = remark {
                self.published.counters.passed_over.add(count);
            }
        }
    }

    /// The counterparty has asked for messages: tells the application if it does so again and
    /// again.
    fn note_request(&mut self, now: Now) {
        let times = self.session.same_resend_requests();
        if times > 1 {
            self.tell_resend_loop(now, times);
            self.with_application(now, |app, s| app.on_resend_loop(times, s));
        }
    }

    /// Lets others see where the session stands.
    pub(crate) fn note_state(&self) {
        self.published.note(&self.session);
    }

    /// Writes as much as the socket takes, a replay in its place between the live frames.
    ///
    /// Of a replay one chunk: then it is the turn of the worker's other sessions. Returns whether
    /// the socket may take more.
    pub(crate) fn write(
        &mut self,
        now: Now,
        stream: &mut dyn Stream,
        unlogged: &mut Unlogged<'_>,
    ) -> Result<bool, Down> {
        let mut filled = false;
        loop {
            let replays = self.replay.active && self.replay.barrier == 0;
            if replays && self.replay.out.bytes().is_empty() {
                if filled {
                    return Ok(true);
                }
                filled = true;
                let application = &mut *self.application;
                let filled = self.replay.fill(now, &mut self.session, &mut self.store, application);
                filled.map_err(Down::Store)?;
                self.note_missing(now);
                if self.wants_wire {
                    show_frames(&mut *self.application, self.replay.out.bytes());
                }
                if let Some(log) = &mut self.log {
                    let lost = log.outbound(now.utc, self.replay.out.bytes());
                    self.published.counters.not_logged.add(lost);
                }
                continue;
            }
            let bytes = match (replays, self.replay.active) {
                (true, _) => self.replay.out.bytes(),
                (false, true) => &self.out.bytes()[..self.replay.barrier],
                (false, false) => self.out.bytes(),
            };
            if bytes.is_empty() {
                return Ok(false);
            }
            if self.wants_wire && !replays {
                show_frames(&mut *self.application, &bytes[self.shown..]);
            }
            let written = stream.write(bytes);
            // Behind the write: the log costs the counterparty nothing.
            log_received(self.log.as_mut(), &self.published.counters, now, unlogged);
            if !replays {
                if let Some(log) = &mut self.log {
                    let lost = log.outbound(now.utc, &bytes[self.shown..]);
                    self.published.counters.not_logged.add(lost);
                }
                self.shown = bytes.len();
            }
            let n = match written {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Down::Io(e)),
            };
            if replays {
                self.replay.out.consume(n);
            } else {
                let is_all = n == self.out.bytes().len();
                self.out.consume(n);
                self.shown = self.shown.saturating_sub(n);
                if is_all && !self.replay.active {
                    return Ok(false);
                }
                self.replay.barrier = self.replay.barrier.saturating_sub(n);
            }
        }
    }

    pub(crate) fn closed(&mut self, now: Now, queue: &SendQueue, reason: Disconnect) {
        let reason = match (reason, self.session.state()) {
            (Disconnect::LinkLost, State::LogonSent) => Disconnect::LogonUnanswered,
            _ => reason,
        };
        self.forget_postponed();
        self.session.disconnected(&mut self.out);
        self.note_state();
        // Attempts that come to nothing would fill the journal.
        let noted = match std::mem::take(&mut self.notes_end) {
            true => self.note(now, &format!("disconnected: {reason}")),
            false => Ok(()),
        };
        // A reset that this end brings; a store that has failed keeps the session down anyway.
        self.send_queued(now, queue);
        let kept = noted.and_then(|()| self.put_queued(now, queue));
        // A store error is not lost here: `has_failed` reports it, and the slot closes the session.
        let _ = kept.and_then(|()| self.journal(now));
        self.cut = None;
        self.pause_until_ns = None;
        self.shown = 0;
        self.replay.clear();
        let text = self.logout_text.take();
        let end = Disconnection::new(reason, text.as_deref());
        self.tell_end(now, &end);
        self.application.on_disconnect(&self.session.config().id, &end);
    }
}

fn log_received(
    log: Option<&mut Tap>,
    counters: &LiveCounters,
    now: Now,
    unlogged: &mut Unlogged<'_>,
) {
    let Some(log) = log else { return };
    for (what, bytes) in unlogged.take() {
        counters.not_logged.add(log.received(now.utc, what, bytes));
    }
}

fn show_frames(application: &mut dyn Callbacks, mut bytes: &[u8]) {
    // Our own frames: as long as they are.
    let limits = Limits { message_bytes_max: usize::MAX };
    while let Frame::Whole(end) = frame::split(bytes, limits) {
        application.on_wire(Direction::Outbound, &masked(&bytes[..end]));
        bytes = &bytes[end..];
    }
}
