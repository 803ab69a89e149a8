//! A client of a gateway, configured by a settings file. The client sends each order after the
//! answer to the previous order; with `async`, it sends all orders first.
//!
//! ```text
//! cargo run -p transfix --example acceptor
//! cargo run -p transfix --example gateway_client SETTINGS [async]
//! ```
//!
//! SETTINGS is the path of the settings: `crates/engine/examples/gateway_client/settings.toml`, or
//! your own file.
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Application, BusinessReject, Engine, Message, SendError, SessionEvent, SessionHandle,
    SessionNotice, SessionRef, SessionView, Settings, clock, msg_type, tag,
};

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
const ORDERS: u64 = 10;

/// The application of the session: forwards each answer and each event to the program as a line of
/// text.
struct Client {
    events: Sender<String>,
}

impl Client {
    fn tell(&self, event: String) {
        // The send fails only if the program no longer waits for events.
        let _ = self.events.send(event);
    }
}

impl Application for Client {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        match message.msg_type() {
            msg_type::EXECUTION_REPORT => {
                let (id, status) = (message.text(tag::CL_ORD_ID)?, message.text(tag::ORD_STATUS)?);
                self.tell(format!("order {id} has OrdStatus(39) {status}"));
                Ok(())
            }
            // `on_event` has already reported this reject as `SessionEvent::Rejected`.
            msg_type::BUSINESS_MESSAGE_REJECT => Ok(()),
            _ => Err(BusinessReject::unsupported()),
        }
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        match event {
            SessionEvent::Rejected(rejected) => {
                self.tell(format!("not taken: {rejected}"));
            }
            SessionEvent::LoggedOn => {
                self.tell(format!("{} is logged on", session.id()));
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.tell(format!("{end}"));
        }
    }
}

/// The running engine and its session with the gateway.
pub(crate) struct Gateway {
    engine: Engine,
    session: SessionHandle,
    events: Receiver<String>,
}

impl Gateway {
    /// Connects and waits for the logon.
    ///
    /// # Errors
    /// If the settings contain no session, the engine does not start, or the gateway does not
    /// answer in time.
    pub(crate) fn log_on(settings: &Settings) -> Result<Self, Box<dyn Error>> {
        let id = settings.sessions.first().ok_or("the settings have no session")?.id();
        let (sender, events) = channel();
        let application =
            |_: &_| -> Box<dyn Application> { Box::new(Client { events: sender.clone() }) };
        let engine = Engine::start(settings, application)?;
        let session = engine.session(&id).ok_or("no such session")?;
        let gateway = Self { engine, session, events };
        while !gateway.session.is_logged_on() {
            // The engine retries a refused connection, so the program only waits for the first
            // event.
            println!("{}", gateway.events.recv_timeout(PATIENCE)?);
        }
        Ok(gateway)
    }

    /// Sends an order without waiting for its answer.
    pub(crate) fn send(&self, number: u64) -> Result<(), SendError> {
        let sent = self.session.send(msg_type::NEW_ORDER_SINGLE, |order| {
            order.uint(tag::CL_ORD_ID, number).str(tag::SYMBOL, "EUR/USD");
            order.char(tag::SIDE, b'1').timestamp(tag::TRANSACT_TIME, clock::now().utc);
            order.uint(tag::ORDER_QTY, 100).char(tag::ORD_TYPE, b'1');
        });
        sent.map(drop)
    }

    /// Returns the next report or event.
    ///
    /// # Errors
    /// If no report or event arrives in time.
    pub(crate) fn next(&self) -> Result<String, Box<dyn Error>> {
        Ok(self.events.recv_timeout(PATIENCE)?)
    }

    /// Sends an order and waits for its answer.
    ///
    /// # Errors
    /// If the order cannot be sent, or no answer arrives in time.
    pub(crate) fn ask(&self, number: u64) -> Result<String, Box<dyn Error>> {
        self.send(number)?;
        loop {
            let told = self.next()?;
            if told.starts_with(&format!("order {number} ")) || told.starts_with("not taken") {
                return Ok(told);
            }
            println!("{told}");
        }
    }

    /// Logs out and waits for the answer.
    pub(crate) fn log_out(self) {
        self.engine.stop(Duration::from_secs(5));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: gateway_client SETTINGS [async]")?;
    let settings = Settings::load(path)?;
    let waits = args.next().is_none_or(|word| word != "async");
    let gateway = Gateway::log_on(&settings)?;
    for number in 1..=ORDERS {
        match waits {
            true => println!("{}", gateway.ask(number)?),
            false => gateway.send(number)?,
        }
    }
    for _ in 1..=if waits { 0 } else { ORDERS } {
        println!("{}", gateway.next()?);
    }
    gateway.log_out();
    Ok(())
}
