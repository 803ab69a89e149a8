//! `transfix demo`: a venue and a client trade, lose the connection, recover, and are measured.

mod fleet;
mod floor;
mod picture;
mod relay;
mod round_trip;

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clap::value_parser;
use transfix::clock::monotonic_ns;
use transfix::{
    Application, BeginString, Body, BusinessReject, Decimal, Direction, Disconnect, Engine, Mask,
    Message, Role, SendError, SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef,
    SessionSettings, SessionView, Settings, tag,
};

use crate::audit::journals::Audit;
use crate::show::Show;
use crate::venue::book::Ids;
use crate::venue::{Venue, Watch};

/// Show how a venue and a client trade, lose the connection and recover; measure their latency.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Example:
  transfix demo

Uses only loopback and takes about half a minute. Writes latency.csv (raw values) and
latency.svg (their distribution) into the current directory.
Exit code: 0 all checks succeeded, 1 a check failed, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Number of orders in the burst during which the connection is cut.
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    #[arg(value_parser = value_parser!(u64).range(200..=1_000_000))]
    burst: u64,
    /// Number of measured round trips in each waiting mode (sleep, spin), at 1,000 a second.
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    messages: usize,
}

impl Args {
    /// Returns true for `transfix demo fleet` and its gateways.
    pub(crate) const fn is_of_fleet(&self) -> bool {
        self.part.is_some()
    }
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    Fleet(fleet::Args),
    /// A gateway of `transfix demo fleet`.
    #[cfg(feature = "fleet")]
    #[command(hide = true)]
    FleetGateway {
        settings: std::path::PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.part {
        Some(Part::Fleet(args)) => return fleet::run(args),
        #[cfg(feature = "fleet")]
        Some(Part::FleetGateway { settings }) => return fleet::gateway(settings),
        None => {}
    }
    match trade(args).and_then(|()| round_trip::measure(args.messages)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// The venue's application, which prints nothing because the client prints the conversation.
struct Silent;

impl Watch for Silent {}

/// The client's application: prints messages while printing is enabled, and reports events to the
/// demo.
struct Client {
    show: Show,
    talks: Receiver<bool>,
    talking: bool,
    events: Sender<Happened>,
}

#[derive(Debug, PartialEq, Eq)]
enum Happened {
    Logon,
    Report,
    Disconnect(Disconnect),
}

impl Application for Client {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let _ = self.events.send(Happened::Report);
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            let _ = self.events.send(Happened::Logon);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.events.send(Happened::Disconnect(end.reason));
        }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], _: &SessionView<'_>) {
        self.talking = self.talks.try_iter().last().unwrap_or(self.talking);
        if self.talking {
            self.show.frame(transfix::clock::now().utc, direction, frame);
        }
    }
}

/// The demo's control of the client session.
struct DemoClient {
    handle: SessionHandle,
    happened: Receiver<Happened>,
    talk: Sender<bool>,
    next_order: u64,
}

fn trade(args: &Args) -> Result<(), String> {
    let dir = std::env::temp_dir().join(format!("transfix-demo-{}", std::process::id()));
    let done = trade_in(args, &dir);
    // If the removal fails, the files stay in the system's temporary directory.
    let _ = std::fs::remove_dir_all(&dir);
    done
}

fn trade_in(args: &Args, dir: &Path) -> Result<(), String> {
    let venue_settings = session(Role::Acceptor, "127.0.0.1:0", dir);
    let venue_store = venue_settings.store_path();
    let mut venue = Some(Venue::new(Ids::new(transfix::clock::now().utc, 0), Silent));
    let venue = Engine::start(&Settings::of(venue_settings), |_| match venue.take() {
        Some(venue) => Box::new(venue),
        None => unreachable!("the settings have exactly one session"),
    })
    .map_err(|error| error.to_string())?;
    let relay = relay::Relay::start(venue.listening()[0]).map_err(|error| error.to_string())?;
    let client_settings = session(Role::Initiator, &relay.address().to_string(), dir);
    let client_store = client_settings.store_path();
    let (events, happened) = channel();
    let (talk, talks) = channel();
    let show = Show::new(&client_settings, "  ")?;
    let mut client = Some(Client { show, talks, talking: true, events });
    println!("A venue and a client log on and trade, over loopback (FIX.4.4):\n");
    let client_engine = Engine::start(&Settings::of(client_settings), |_| match client.take() {
        Some(client) => Box::new(client),
        None => unreachable!("the settings have exactly one session"),
    })
    .map_err(|error| error.to_string())?;
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let handle = client_engine.session(&id).ok_or("no session")?;
    let mut desk = DemoClient { handle, happened, talk, next_order: 1 };
    desk.conversation()?;
    desk.burst(args.burst, &relay)?;
    let sent = desk.next_order - 1;
    println!("\nBoth sides log out.");
    let outcomes =
        [client_engine.stop(Duration::from_secs(5)), venue.stop(Duration::from_secs(5))].concat();
    if let Some(bad) = outcomes.iter().find(|o| matches!(o.outcome, transfix::Outcome::Failed)) {
        return Err(format!("{}: {}", bad.id, bad.outcome));
    }
    let audit = Audit::of(&client_store, &venue_store)?;
    println!("\n{audit}");
    if audit.orders() as u64 != sent {
        return Err(format!("{sent} messages were sent, but the journal has {}", audit.orders()));
    }
    audit.check(&Mask::default())
}

fn session(role: Role, address: &str, dir: &Path) -> SessionSettings {
    let (ours, theirs) =
        if role == Role::Initiator { ("CLIENT", "VENUE") } else { ("VENUE", "CLIENT") };
    let id = SessionId::new(BeginString::Fix44, ours, theirs);
    let mut session = SessionSettings::new(role, &id, address);
    session.store.store_dir = dir.join(ours);
    session.store.keep_inbound = true;
    session.socket.reconnect_interval = Duration::from_millis(100);
    session
}

impl DemoClient {
    fn wait_for(&self, wanted: impl Fn(&Happened) -> bool, what: &str) -> Result<(), String> {
        loop {
            match self.happened.recv_timeout(PATIENCE) {
                Ok(happened) if wanted(&happened) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(format!("{what} did not happen")),
            }
        }
    }

    fn reports(&self, n: usize) -> Result<(), String> {
        for _ in 0..n {
            self.wait_for(|h| *h == Happened::Report, "a report")?;
        }
        Ok(())
    }

    fn order(&mut self, side: u8, quantity: i64, price: Decimal) -> Result<(), SendError> {
        let n = self.next_order;
        self.handle.send("D", |body| new_order(body, n, side, (quantity, price)))?;
        self.next_order += 1;
        Ok(())
    }

    fn conversation(&mut self) -> Result<(), String> {
        self.wait_for(|h| *h == Happened::Logon, "the logon")?;
        let text = |error: SendError| error.to_string();
        let price = Decimal::new(305, 1);
        self.order(b'1', 100, price).map_err(text)?;
        self.reports(1)?;
        self.order(b'2', 40, price).map_err(text)?;
        self.reports(3)?;
        self.order(b'2', 0, price).map_err(text)?;
        self.reports(1)?;
        let n = self.next_order;
        self.next_order += 1;
        let cancel = |body: &mut Body<'_>| {
            body.uint(tag::ORIG_CL_ORD_ID, 1).uint(tag::CL_ORD_ID, n).str(tag::SYMBOL, "EU");
            body.char(tag::SIDE, b'1').timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
            body.uint(tag::ORDER_QTY, 100);
        };
        self.handle.send("F", cancel).map_err(text)?;
        self.reports(1)
    }

    /// Sends all orders while the relay interrupts the connection.
    fn burst(&mut self, orders: u64, relay: &relay::Relay) -> Result<(), String> {
        println!(
            "\nA burst of {orders} orders; the connection is cut in the middle of a message:\n"
        );
        let _ = self.talk.send(false);
        let mut refused = 0_u64;
        let until = self.next_order + orders;
        relay.cut_after(orders as usize * 80);
        while self.next_order < until {
            if self.next_order.is_multiple_of(20) {
                // The pauses lengthen the burst, so that the connection is interrupted before the
                // burst ends.
                self.pause();
            }
            // The sides alternate, so that every second order trades with the order before.
            let side = if self.next_order.is_multiple_of(2) { b'2' } else { b'1' };
            match self.order(side, 5, Decimal::new(30, 0)) {
                Ok(()) => {}
                Err(SendError::NotLoggedOn | SendError::WouldBlock { .. }) => {
                    refused += 1;
                    self.pause();
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        self.settle()?;
        let cuts = relay.cuts();
        if cuts == 0 {
            return Err(
                "the burst ended before the connection was cut; use a larger --burst".to_owned()
            );
        }
        println!(
            "  the connection was cut {cuts} time(s) while orders were in transit; meanwhile \
             {refused} send(s)\n  were refused and tried again; after the next logon both sides \
             requested their lost messages"
        );
        Ok(())
    }

    /// Pauses for one millisecond, and discards the events that arrive meanwhile.
    fn pause(&self) {
        let until = monotonic_ns() + 1_000_000;
        while let left @ 1.. = until.saturating_sub(monotonic_ns()) {
            let _ = self.happened.recv_timeout(Duration::from_nanos(left));
        }
    }

    /// Waits until the session is logged on and its sequence numbers no longer change.
    fn settle(&self) -> Result<(), String> {
        let mut before = (0, 0);
        loop {
            let numbers = self.handle.next_numbers();
            if numbers == before && self.handle.is_logged_on() {
                return Ok(());
            }
            before = numbers;
            // Waits until no event arrives for 250 ms.
            while self.happened.recv_timeout(Duration::from_millis(250)).is_ok() {}
        }
    }
}

fn new_order(body: &mut Body<'_>, n: u64, side: u8, (quantity, price): (i64, Decimal)) {
    body.uint(tag::CL_ORD_ID, n).str(tag::SYMBOL, "EU").char(tag::SIDE, side);
    body.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc).int(tag::ORDER_QTY, quantity);
    body.char(tag::ORD_TYPE, b'2').decimal(tag::PRICE, price);
}
