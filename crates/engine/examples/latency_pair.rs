//! Two programs that measure a round trip: the sender sends each order when the report of the
//! previous order arrives.
//!
//! First, echoed market data warms up both sides. Orders and reports are prepared messages. In two
//! terminals:
//!
//! ```text
//! cargo run --release -p transfix --example latency_pair server 127.0.0.1:9890
//! cargo run --release -p transfix --example latency_pair sender 127.0.0.1:9890 [WARM-UP ORDERS]
//! ```
//!
//! BENCHMARKS.md explains the figures and compares engines.
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::clock::{self, monotonic_ns};
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineError, Message, Mode,
    ResetPolicy, Role, SendError, SessionEvent, SessionId, SessionRef, SessionSettings, Settings,
    Tag, Template, tag,
};

const CLIENT_ID: Tag = Tag(109);
const MARKET_DATA: &str = "W";

/// Answers each order with a report, and echoes all other messages.
pub(crate) struct Server {
    report: Template,
    reports: u64,
}

impl Server {
    pub(crate) fn new() -> Self {
        let report = Template::new("8", |t| {
            t.slot(tag::ORDER_ID).slot(tag::CL_ORD_ID).slot(CLIENT_ID).slot(tag::EXEC_ID);
            t.fields(b"20=0\x01150=0\x0139=0\x0155=EU\x0154=1\x01").slot(tag::ORDER_QTY);
            t.slot(tag::PRICE).slot(tag::LEAVES_QTY).fields(b"14=0\x016=0\x01");
            t.slot(tag::TRANSACT_TIME);
        });
        Self { report, reports: 0 }
    }
}

impl Application for Server {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if message.msg_type() != "D" {
            return Ok(session
                .send(message.msg_type(), |copy| _ = copy.copy(message))
                .map(drop)?);
        }
        self.reports += 1;
        let (id, client) = (message.required(tag::CL_ORD_ID)?, message.required(CLIENT_ID)?);
        let (quantity, price) = (message.required(tag::ORDER_QTY)?, message.required(tag::PRICE)?);
        let time = message.required(tag::TRANSACT_TIME)?;
        session.send(self.report.msg_type(), |body| {
            let mut fill = self.report.fill(body);
            fill.uint(self.reports).bytes(id).bytes(client).uint(self.reports);
            fill.bytes(quantity).bytes(price).bytes(quantity).bytes(time).done();
        })?;
        Ok(())
    }
}

/// The sender: sends each message after the answer to the previous message.
struct Client {
    order: Template,
    /// Warm-up messages still to be sent.
    warm_up: usize,
    orders: usize,
    /// The monotonic time in nanoseconds at which the last order was sent; `None` during the
    /// warm-up.
    sent_at: Option<u64>,
    /// The round-trip times in nanoseconds.
    times: Vec<u64>,
    done: Sender<Vec<u64>>,
}

impl Client {
    fn send_next(&mut self, session: &mut SessionRef<'_>) -> Result<(), SendError> {
        if self.warm_up > 0 {
            self.warm_up -= 1;
            let market_data = |body: &mut transfix::Body<'_>| {
                body.str(tag::SYMBOL, "EU").fields(b"268=1\x01269=0\x01270=30\x01271=100\x01");
            };
            return session.send(MARKET_DATA, market_data).map(drop);
        }
        if self.times.len() == self.orders {
            // The send fails only at the end of the program, when the receiver no longer exists.
            let _ = self.done.send(std::mem::take(&mut self.times));
            return Ok(());
        }
        self.sent_at = Some(monotonic_ns());
        let (number, now) = (self.times.len() as u64, clock::now().utc);
        let sent = session.send(self.order.msg_type(), |body| {
            self.order.fill(body).uint(number).timestamp(now).uint(1 + number % 10).done();
        });
        sent.map(drop)
    }
}

impl Application for Client {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let now = monotonic_ns();
        self.times.extend(self.sent_at.take().map(|at| now - at));
        Ok(self.send_next(session)?)
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event
            && let Err(error) = self.send_next(session)
        {
            println!("not sent: {error}");
        }
    }
}

/// Returns the settings of one side: store in memory, no validation, and a thread for the session
/// alone. If `spins` is true, this thread never sleeps.
pub(crate) fn settings(role: Role, address: &str, spins: bool) -> Settings {
    let (sender, target) = match role {
        Role::Acceptor => ("SERVER", "SENDER"),
        Role::Initiator => ("SENDER", "SERVER"),
    };
    let id = SessionId::new(BeginString::Fix42, sender, target);
    let mut session = SessionSettings::new(role, &id, address);
    session.store.durability = Durability::Memory;
    session.protocol.reset_on = ResetPolicy::LOGON;
    session.validation.validate = false;
    session.threads.mode = if spins { Mode::Spin } else { Mode::Dedicated };
    Settings::of(session)
}

/// Starts the sender. The receiver gets the round-trip times after the last answer.
pub(crate) fn start_sender(
    settings: &Settings,
    warm_up: usize,
    orders: usize,
) -> Result<(Engine, Receiver<Vec<u64>>), EngineError> {
    let (done, times) = channel();
    let application = |_: &SessionId| -> Box<dyn Application> {
        let order = Template::new("D", |t| {
            t.slot(tag::CL_ORD_ID).fields(b"109=C\x0121=1\x0155=EU\x0154=1\x01");
            t.slot(tag::TRANSACT_TIME).slot(tag::ORDER_QTY).fields(b"40=2\x0144=30\x01");
        });
        let times = Vec::with_capacity(orders);
        Box::new(Client { order, warm_up, orders, sent_at: None, times, done: done.clone() })
    };
    Ok((Engine::start(settings, application)?, times))
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let spins = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", address] => {
            let settings = settings(Role::Acceptor, address, spins);
            let engine = Engine::start(&settings, |_| Box::new(Server::new()))?;
            println!("listening at {}; enter a line to stop", engine.listening()[0]);
            std::io::stdin().read_line(&mut String::new())?;
            engine.stop(Duration::from_secs(5));
        }
        ["sender", address, ref counts @ ..] => {
            let counts = counts.iter().map(|n| n.parse()).collect::<Result<Vec<usize>, _>>()?;
            let warm_up = counts.first().copied().unwrap_or(50_000);
            let orders = counts.get(1).copied().unwrap_or(100_000).max(1);
            let settings = settings(Role::Initiator, address, spins);
            let (engine, times) = start_sender(&settings, warm_up, orders)?;
            let mut times = times.recv()?;
            times.sort_unstable();
            let mean = times.iter().sum::<u64>() / times.len() as u64;
            println!("{} round trips, ns: average {mean}, max {}", orders, times[orders - 1]);
            for percent in [50, 95, 99] {
                println!("{percent} %: {}", times[(orders * percent).div_ceil(100) - 1]);
            }
            engine.stop(Duration::from_secs(5));
        }
        _ => return Err("usage: server ADDRESS | sender ADDRESS [WARM-UP ORDERS]".into()),
    }
    Ok(())
}
