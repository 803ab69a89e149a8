//! Plays scenarios with a simulated session, without socket or thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transfix::simulated::{SimulatedSession, Simulation};
use transfix::{Durability, Now, SessionSettings, Timestamp};
use transfix_codec::{Frame, Limits, frame};
use transfix_testkit::scenario::{Answer, Operation, Scenario, Version, World};
use transfix_testkit::temp::TempDir;

use crate::application::{Event, Recorder, action, fill, split};

/// 2026-11-21 12:00:00.
const START_UTC_NS: i64 = 1_795_262_400_000_000_000;
/// The maximum number of timers that may be due at one moment; more of them mean an endless loop.
const TICKS_MAX: usize = 1_000;

/// The division of the counterparty's bytes into reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// Each read returns one message.
    Whole,
    /// Each read returns one byte.
    Bytes,
}

/// The state shared by all plays.
#[derive(Default)]
pub(crate) struct Pure {
    simulation: Simulation,
}

impl Pure {
    pub(crate) fn world(
        &self,
        scenario: &Scenario,
        version: Version,
        pieces: Pieces,
    ) -> PureWorld<'_> {
        let mut settings = crate::settings(scenario, version, "").sessions.remove(0);
        let store = scenario.restarts().then(TempDir::new);
        match &store {
            Some(folder) => settings.store.store_dir = folder.path().to_owned(),
            None => settings.store.durability = Durability::Memory,
        }
        let (session, events) = start(&self.simulation, &settings);
        PureWorld {
            simulation: &self.simulation,
            settings,
            pieces,
            session: Some(session),
            events,
            delivered: VecDeque::new(),
            returned: VecDeque::new(),
            _store: store,
            clock_ns: 0,
            unread: Vec::new(),
            is_up: false,
        }
    }
}

fn start(
    simulation: &Simulation,
    settings: &SessionSettings,
) -> (SimulatedSession, Receiver<Event>) {
    let (events, received) = channel();
    let application = Box::new(Recorder::new(events));
    (simulation.session(settings, application).unwrap(), received)
}

pub(crate) struct PureWorld<'s> {
    simulation: &'s Simulation,
    settings: SessionSettings,
    pieces: Pieces,
    /// `None` only during a restart.
    session: Option<SimulatedSession>,
    events: Receiver<Event>,
    delivered: VecDeque<Vec<u8>>,
    returned: VecDeque<Vec<u8>>,
    _store: Option<TempDir>,
    clock_ns: u64,
    unread: Vec<u8>,
    /// True until the counterparty closes the connection.
    is_up: bool,
}

impl PureWorld<'_> {
    fn moment(&self) -> Now {
        let utc = Timestamp(START_UTC_NS + self.clock_ns as i64);
        Now { utc, monotonic_ns: self.clock_ns }
    }

    fn session(&mut self) -> &mut SimulatedSession {
        self.session.as_mut().unwrap()
    }

    /// Collects the reports of the application.
    fn hear(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Delivered(bytes) => self.delivered.push_back(bytes),
                Event::Returned(bytes) => self.returned.push_back(bytes),
                Event::Ended(_) => {}
            }
        }
    }

    fn collect(&mut self) {
        let output = self.session().take_output();
        self.unread.extend_from_slice(&output);
    }
}

impl World for PureWorld<'_> {
    fn now(&self) -> Timestamp {
        self.moment().utc
    }

    fn connect(&mut self) -> Result<(), String> {
        let now = self.moment();
        self.unread.clear();
        self.is_up = true;
        self.session().connect(now);
        self.collect();
        Ok(())
    }

    fn close(&mut self) {
        let now = self.moment();
        self.session().close(now);
        self.is_up = false;
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let now = self.moment();
        let up = self.is_up && self.session().ended().is_none();
        match self.pieces {
            Pieces::Whole => self.session().receive(now, bytes),
            Pieces::Bytes => bytes.chunks(1).for_each(|byte| self.session().receive(now, byte)),
        }
        self.collect();
        if up { Ok(()) } else { Err("the connection is closed".to_owned()) }
    }

    fn intrude(&mut self, _: &[u8]) -> Result<Answer, String> {
        Err("there is one connection only".to_owned())
    }

    fn next(&mut self, _: bool) -> Answer {
        self.collect();
        match frame::split(&self.unread, Limits::default()) {
            Frame::Whole(end) => Answer::Message(self.unread.drain(..end).collect()),
            _ if !self.is_up || self.session().ended().is_some() => Answer::Closed,
            _ => Answer::Nothing,
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.clock_ns + time.as_nanos() as u64;
        let mut ticks = 0;
        while let Some(at) = self.session().next_deadline().filter(|at| *at <= end) {
            ticks = if at > self.clock_ns { 0 } else { ticks + 1 };
            assert!(ticks < TICKS_MAX, "a timer is due again and again at one moment");
            self.clock_ns = self.clock_ns.max(at);
            let now = self.moment();
            self.session().tick(now);
        }
        self.clock_ns = end;
        self.collect();
    }

    fn order(&mut self, fields: &str) -> Result<(), String> {
        let now = self.moment();
        let (msg_type, fields) = split(fields);
        let sent = self.session().send(now, msg_type, |body| fill(&fields, body));
        sent.map(drop).map_err(|error| error.to_string())
    }

    fn operate(&mut self, operation: &Operation) -> Result<(), String> {
        let now = self.moment();
        let session = self.session.as_mut().unwrap();
        let Some(action) = action(operation) else {
            self.session = None;
            let (session, events) = start(self.simulation, &self.settings);
            (self.session, self.events, self.is_up) = (Some(session), events, false);
            self.unread.clear();
            return Ok(());
        };
        session.operate(now, &action).map_err(|error| error.to_string())
    }

    fn delivered(&mut self, _: bool) -> Option<Vec<u8>> {
        self.hear();
        self.delivered.pop_front()
    }

    fn returned(&mut self) -> Option<Vec<u8>> {
        self.hear();
        self.returned.pop_front()
    }

    fn reason(&mut self) -> Option<String> {
        self.session().ended().map(|reason| reason.to_string())
    }

    fn numbers(&mut self) -> Option<(u64, u64)> {
        Some(self.session().next_numbers())
    }
}
