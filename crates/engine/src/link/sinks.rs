//! The receivers of a session's events: counters, log, protocol log and logon record.
//!
//! The log line of a failed store may precede the lines of earlier events of the same turn.

use std::sync::Arc;

use transfix_observe::protocol_log::Tap;
use transfix_observe::published::Published;
use transfix_observe::reasons::LiveReasons;
use transfix_session::core::event::CoreEvent;
use transfix_session::{Now, Remark, SessionId, Verdict};

use crate::link::event::Event;
use crate::link::event_log::EventLog;
use crate::link::failed_logons::{LogonWatch, is_failed_logon};

/// The receivers of one session's events.
pub(crate) struct Sinks {
    pub(crate) published: Arc<Published>,
    /// The counts of rejects and ended connections by reason, for all sessions together.
    pub(crate) reasons: Arc<LiveReasons>,
    pub(crate) event_log: EventLog,
    /// The protocol log, if there is one.
    pub(crate) log: Option<Tap>,
    /// The watch that records whether this connection's logon succeeds.
    pub(crate) watch: Option<LogonWatch>,
}

impl Sinks {
    pub(crate) fn of(id: SessionId, reasons: Arc<LiveReasons>, log: Option<Tap>) -> Self {
        let event_log = EventLog::of(id);
        Self { published: Arc::default(), reasons, event_log, log, watch: None }
    }

    /// Counts an event, and publishes what other threads may read about it.
    pub(crate) fn count(&mut self, now: Now, event: &Event<'_>) {
        match event {
            Event::Core(event) => self.count_of_core(event),
            Event::Disconnected(end) => {
                // Counts the reason before the ended connection, because readers expect the two
                // counts to agree.
                self.reasons.ended(end.reason);
                self.published.note_end(now.utc, end.reason, end.text);
            }
            Event::ConnectionRefused { .. } => self.published.counters.refused.add(1),
            _ => {}
        }
    }

    fn count_of_core(&mut self, event: &CoreEvent) {
        let counters = &self.published.counters;
        match event {
            CoreEvent::LoggedOn { heart_bt_int } => {
                counters.logons.add(1);
                self.published.note_heart_bt_int(*heart_bt_int);
                if let Some(watch) = self.watch.take() {
                    watch.succeeded();
                }
            }
            CoreEvent::Skipped { .. } => counters.garbled.add(1),
            CoreEvent::Remark(Remark::PassedOver(count)) => counters.passed_over.add(*count),
            CoreEvent::NotStored { missing } => counters.not_stored.add(*missing),
            CoreEvent::SlowConsumer { .. } => self.published.note_slow(true),
            CoreEvent::CaughtUp { .. } => self.published.note_slow(false),
            _ => {}
        }
    }

    /// Records a failed logon if the Logon(A) was refused because of wrong credentials.
    pub(crate) fn note_failed(&mut self, now: Now, verdict: &Verdict) {
        if let Verdict::Disconnect(why) = verdict
            && is_failed_logon(why)
            && let Some(watch) = self.watch.take()
        {
            watch.failed(now.monotonic_ns);
        }
    }
}
