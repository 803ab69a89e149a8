//! Runs this engine at one end of a round trip, in a separate process.

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix::clock::{monotonic_ns, process_cpu_ns};
use transfix::{
    Action, Application, BusinessReject, Engine, LogSettings, Message, Role, SessionHandle,
    SessionId, SessionRef, State, pin_to_cpu, tag,
};

use super::super::column::Column;
use super::super::page::{Answer, Page};
use super::super::s1::{Arrivals, Order, Receiver, ReportForm, Sender};
use super::super::shared::{StoreDir, print_line};
use super::pace::Pace;
use super::process::{Task, Work};

/// Time limit for the logon, in nanoseconds.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Time limit for an answer, in nanoseconds; long, because the other side's machine may be busy.
const ANSWER_NS: u64 = 300_000_000_000;

/// The measurements of the initiator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Times {
    /// Time of each round trip in nanoseconds, in the order of sending.
    pub(super) ns: Vec<u64>,
    /// Delay of each sending after its planned time, in nanoseconds; empty without a pace.
    pub(super) late_ns: Vec<u64>,
    /// CPU time of the initiator's process in nanoseconds, including threads that have ended.
    pub(super) cpu_ns: u64,
}

/// Runs `ask` for each task on standard input, one per line, and prints the measurements.
pub(super) fn obey(mut ask: impl FnMut(Task) -> Result<Times, String>) -> Result<(), String> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let task = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let before = process_cpu_ns();
        let mut times = ask(task)?;
        times.cpu_ns = process_cpu_ns() - before;
        print_line(&serde_json::to_string(&times).map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

fn engine(
    column: &Column,
    (role, address): (Role, &str),
    work: &Work,
    application: Box<dyn Application>,
) -> Result<(Engine, StoreDir), String> {
    let dir = StoreDir::new()?;
    let mut settings = column.side(role);
    for session in &mut settings.sessions {
        address.clone_into(&mut session.address);
        session.store.store_dir.clone_from(&dir.0);
        // An acceptor on another host may still have the sequence numbers of an earlier run.
        session.protocol.reset_on.logon = role == Role::Initiator;
        session.log = work.log.then(|| LogSettings::in_dir(dir.0.join("log")));
        // The page's report lacks fields that FIX 4.2 requires, so the initiator does not validate.
        if work.report == ReportForm::Page && role == Role::Initiator {
            session.validation.validate = false;
        }
    }
    let mut application = Some(application);
    let engine = Engine::start(&settings, |_| match application.take() {
        Some(application) => application,
        None => unreachable!("there is one session"),
    });
    Ok((engine.map_err(|error| error.to_string())?, dir))
}

/// Runs the acceptor: prints the listening address, and serves until standard input ends.
pub(super) fn acceptor(
    page: &Page,
    column: &Column,
    address: &str,
    work: &Work,
) -> Result<(), String> {
    let application: Box<dyn Application> = match page.answer {
        Answer::Report => {
            let prepared = column.beside.prepared;
            Box::new(Receiver::with_client(prepared, work.report, page.client_id))
        }
        Answer::Echo => {
            let id = column.session(Role::Acceptor).id();
            let sender = id.target_comp_id.as_bytes().to_owned();
            Box::new(Echo { by_sender: HashMap::from([(sender, id)]) })
        }
    };
    let (engine, _dir) = engine(column, (Role::Acceptor, address), work, application)?;
    print_line(&engine.listening()[0].to_string())?;
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    engine.stop(Duration::from_secs(1));
    Ok(())
}

/// Sends each message back. The application finds the session by the message's SenderCompID(49).
struct Echo {
    by_sender: HashMap<Vec<u8>, SessionId>,
}

impl Application for Echo {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let to = self.by_sender.get(message.required(tag::SENDER_COMP_ID)?);
        if to != Some(session.id()) {
            return Err(BusinessReject::not_available());
        }
        Ok(session.send(message.msg_type(), |copy| _ = copy.copy(message)).map(drop)?)
    }
}

/// Runs the initiator: logs on, and measures on request.
pub(super) fn initiator(
    page: &Page,
    column: &Column,
    address: &str,
    work: &Work,
) -> Result<(), String> {
    let mut trader = Trader::start(page, column, address, work)?;
    if let Some(cpu) = column.beside.sender_cpu {
        // The thread is pinned after the start, because the settings place the engine's threads.
        pin_to_cpu(cpu).map_err(|error| format!("CPU {cpu} cannot be used: {error}"))?;
    }
    obey(|task| {
        if !trader.handle.is_logged_on() {
            trader.log_on(address)?;
        }
        trader.round_trips(task.warm_up)?;
        let times = trader.round_trips(task.orders)?;
        if !work.stays {
            trader.log_out()?;
        }
        Ok(times)
    })?;
    trader.engine.stop(Duration::from_secs(5));
    Ok(())
}

/// The initiator's engine and its measurements.
struct Trader {
    engine: Engine,
    handle: SessionHandle,
    arrivals: Arc<Arrivals>,
    order: Order,
    rate: Option<u64>,
    /// Number of sent orders, which is also the next ClOrdID(11) and the index of its arrival time.
    sent: usize,
    /// True after the logon; a later disconnect is then an error.
    has_begun: bool,
    _dir: StoreDir,
}

impl Trader {
    fn start(page: &Page, column: &Column, address: &str, work: &Work) -> Result<Self, String> {
        let arrivals = Arc::new(Arrivals::new(work.orders_max()));
        let sender = Sender { arrivals: Arc::clone(&arrivals) };
        let (engine, dir) = engine(column, (Role::Initiator, address), work, Box::new(sender))?;
        let handle = engine.session(&column.session(Role::Initiator).id()).ok_or("no session")?;
        let order = Order::new(column.beside.prepared, page.client_id);
        let (rate, sent, has_begun) = (work.rate, 0, false);
        Ok(Self { engine, handle, arrivals, order, rate, sent, has_begun, _dir: dir })
    }

    /// Polls the engine, if its session has no thread, until `done` returns true.
    fn drive_until(
        &mut self,
        done: impl Fn(&Self) -> bool,
        patience_ns: u64,
        otherwise: impl FnOnce(&Self) -> String,
    ) -> Result<(), String> {
        /// Number of polls between two clock reads. The clock is read rarely, because the floor
        /// does not read the clock while it waits.
        const LOOKS: u32 = 1_000;
        let give_up = monotonic_ns() + patience_ns;
        loop {
            for _ in 0..LOOKS {
                if done(self) {
                    return Ok(());
                }
                self.engine.poll();
            }
            if self.has_begun && self.handle.state() == State::Disconnected {
                return Err("the acceptor has ended the session".to_owned());
            }
            if monotonic_ns() > give_up {
                return Err(otherwise(self));
            }
        }
    }

    fn log_on(&mut self, address: &str) -> Result<(), String> {
        self.handle.operate(&Action::LogOn {}).map_err(|error| error.to_string())?;
        self.drive_until(
            |this| this.handle.state() != State::Disconnected,
            PATIENCE_NS,
            |_| format!("no connection to {address}; start the acceptor first"),
        )?;
        self.drive_until(
            |this| this.handle.is_logged_on() || this.handle.state() == State::Disconnected,
            ANSWER_NS,
            |this| format!("no logon at {address}: the session is {:?}", this.handle.state()),
        )?;
        self.has_begun = self.handle.is_logged_on();
        let refused = || format!("{address} has refused the logon; -v shows why");
        self.has_begun.then_some(()).ok_or_else(refused)
    }

    fn log_out(&mut self) -> Result<(), String> {
        self.has_begun = false;
        self.handle
            .operate(&Action::LogOut { text: String::new() })
            .map_err(|error| error.to_string())?;
        self.drive_until(
            |this| this.handle.state() == State::Disconnected,
            ANSWER_NS,
            |_| "the acceptor did not log out".to_owned(),
        )
    }

    fn arrived(&self) -> usize {
        self.arrivals.count.load(Ordering::Acquire)
    }

    /// Sends `n` orders, at the pace or each after the previous answer, and waits for all answers.
    fn round_trips(&mut self, n: usize) -> Result<Times, String> {
        let first = self.sent;
        let mut sent_at = Vec::with_capacity(n);
        let mut times = Times::default();
        let pace = self.rate.map(Pace::start);
        for i in 0..n {
            match pace {
                Some(pace) => {
                    while !pace.is_due(i) {
                        self.engine.poll();
                    }
                    times.late_ns.push(pace.late_ns(i));
                }
                None => self.wait_for(first + i)?,
            }
            sent_at.push(monotonic_ns());
            let now = transfix::clock::now().utc;
            let order = &self.order;
            let sent = self.handle.send("D", |body| order.write(body, first + i, now));
            sent.map_err(|error| format!("order {}: {error}", first + i))?;
            self.sent += 1;
        }
        self.wait_for(first + n)?;
        let got_at = self.arrivals.at_ns[first..first + n].iter();
        let got_at = got_at.map(|at| at.load(Ordering::Relaxed));
        times.ns =
            sent_at.iter().zip(got_at).map(|(sent, got)| got.saturating_sub(*sent)).collect();
        Ok(times)
    }

    /// Waits until `answers` answers have arrived in total.
    fn wait_for(&mut self, answers: usize) -> Result<(), String> {
        self.drive_until(
            |this| this.arrived() >= answers,
            ANSWER_NS,
            |this| format!("{} of {answers} answers came", this.arrived()),
        )
    }
}
