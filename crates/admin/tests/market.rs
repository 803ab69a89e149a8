//! A venue with an administration, and a client that trades with it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use transfix::{
    AdminSettings, Application, BeginString, BusinessReject, Durability, Engine, Message, Role,
    SessionId, SessionRef, SessionSettings, Settings, Tag, clock, msg_type, tag,
};
use transfix_admin::users::{Role as Rights, Users};
use transfix_admin::{AdminServer, EventFilter, EventRing, Extras, FleetStatus};
use transfix_testkit::temp::TempDir;

use crate::http::{Client, LONG};

pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const ID: &str = "FIX.4.4:VENUE->CLIENT";
/// Path of the venue's session in URLs.
pub(crate) const PATH: &str = "/api/sessions/FIX.4.4:VENUE-%3ECLIENT";

/// Content of the settings file that the administration shows.
const SETTINGS: &str = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
                        sender_comp_id = \"VENUE\"\ntarget_comp_id = \"CLIENT\"\n\
                        address = \"127.0.0.1:9880\"\nlogon.expected_password = \"sesame\"\n";

/// ClOrdID(11) of an order that blocks the venue's callback.
pub(crate) const HELD: &str = "held";

/// The channel on which a callback reports the blocking order, and the channel on which the
/// callback then waits.
type Held = (Sender<()>, Receiver<()>);

/// The gateways of a fleet, or the reason why they are unknown.
type Gateways = Arc<Mutex<Result<Vec<Value>, String>>>;

#[derive(Clone, Default)]
struct Echo {
    held: Arc<Mutex<Option<Held>>>,
}

impl Application for Echo {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if message.msg_type() == b"D" {
            let id = message.text(tag::CL_ORD_ID)?.to_owned();
            let held = self.held.lock().unwrap().take_if(|_| id == HELD);
            if let Some((is_here, goes_on)) = held {
                is_here.send(()).unwrap();
                // If a test fails, the sender is dropped, which ends the wait as well.
                let _ = goes_on.recv_timeout(2 * LONG);
            }
            let _ = session.send(msg_type::NEWS, |news| _ = news.str(Tag(148), &id));
        }
        Ok(())
    }
}

/// The venue, its client and its administration.
pub(crate) struct Market {
    pub(crate) dir: TempDir,
    pub(crate) venue: Engine,
    pub(crate) client: Engine,
    pub(crate) server: AdminServer,
    pub(crate) events: EventRing,
    /// Tokens of a viewer, an operator and an administrator.
    pub(crate) tokens: [String; 3],
    /// The gateways of the fleet, as the administration learns them.
    pub(crate) gateways: Gateways,
    echo: Echo,
}

pub(crate) fn users(dir: &Path) -> (PathBuf, [String; 3]) {
    let mut users = Users::default();
    let roles = [Rights::Viewer, Rights::Operator, Rights::Administrator];
    for role in roles {
        users.set_user(&format!("{role}-person"), role, PASSWORD).unwrap();
    }
    let tokens = roles.map(|role| users.add_token(&format!("{role}-program"), role).unwrap());
    let path = dir.join("users.toml");
    users.save(&path).unwrap();
    (path, tokens)
}

impl Market {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut AdminSettings, &Path)) -> Self {
        Self::with_session(change, |_, _| ())
    }

    /// Starts a market after changes to the settings of the administration and of the venue's
    /// session.
    pub(crate) fn with_session(
        change: impl FnOnce(&mut AdminSettings, &Path),
        session_too: impl FnOnce(&mut SessionSettings, &Path),
    ) -> Self {
        let dir = TempDir::new();
        let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
        let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        session.store.store_dir = dir.path().join("store");
        session.store.durability = Durability::Process;
        session.store.keep_inbound = true;
        session.validation.validate = false;
        session_too(&mut session, dir.path());
        let mut settings = Settings::of(session);
        let audit = dir.path().join("audit.jsonl");
        settings.engine.audit_file = audit.clone();
        let echo = Echo::default();
        let venue = Engine::start(&settings, |_| Box::new(echo.clone())).unwrap();
        let (users_file, tokens) = users(dir.path());
        let address = "127.0.0.1:0".to_owned();
        let mut admin = AdminSettings { address, users_file, ..AdminSettings::default() };
        change(&mut admin, dir.path());
        let events = EventRing::default();
        let mut extras = Extras::new(events.clone());
        extras.audit_file = Some(audit);
        extras.filter = Some(EventFilter::new("info".parse().unwrap()));
        let settings_file = dir.path().join("venue.toml");
        std::fs::write(&settings_file, SETTINGS).unwrap();
        extras.settings_file = Some(settings_file);
        let gateways = Gateways::new(Mutex::new(Ok(Vec::new())));
        let of_fleet = Arc::clone(&gateways);
        extras.fleet = Some(FleetStatus::new(move || of_fleet.lock().unwrap().clone()));
        let server = AdminServer::start(&admin, &venue.admin(), extras).unwrap();
        let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
        let at = venue.listening()[0].to_string();
        let mut session = SessionSettings::new(Role::Initiator, &id, &at);
        session.protocol.heart_bt_int = Duration::from_secs(12);
        session.store.durability = Durability::Memory;
        session.validation.validate = false;
        let client = Engine::start(&Settings::of(session), |_| Box::new(Echo::default())).unwrap();
        let market = Self { dir, venue, client, server, events, tokens, gateways, echo };
        until(|| market.client.sessions().all(|session| session.is_logged_on()));
        until(|| market.venue.sessions().all(|session| session.is_logged_on()));
        market
    }

    /// Returns a client without credentials.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(self.server.address())
    }

    /// Makes the venue's callback block at the order [`HELD`]. The returned receiver reports the
    /// block; dropping the sender ends it.
    pub(crate) fn hold(&self) -> (Receiver<()>, Sender<()>) {
        let ((is_here, comes), (goes_on, waits)) = (channel(), channel());
        *self.echo.held.lock().unwrap() = Some((is_here, waits));
        (comes, goes_on)
    }

    fn by_token(&self, n: usize) -> Client {
        self.stranger().with("Authorization", &format!("Bearer {}", self.tokens[n]))
    }

    pub(crate) fn viewer(&self) -> Client {
        self.by_token(0)
    }

    pub(crate) fn operator(&self) -> Client {
        self.by_token(1)
    }

    pub(crate) fn administrator(&self) -> Client {
        self.by_token(2)
    }

    /// Sends `orders` orders from the client and waits for all answers.
    pub(crate) fn trade(&self, orders: u64) {
        let session = self.client.sessions().next().unwrap();
        let before = session.next_numbers().0;
        for n in 0..orders {
            let order = |body: &mut transfix::Body<'_>| {
                body.str(tag::CL_ORD_ID, &format!("order-{n}"));
            };
            session.send(msg_type::NEW_ORDER_SINGLE, order).unwrap();
        }
        until(|| session.next_numbers().0 >= before + orders);
    }
}

#[track_caller]
pub(crate) fn until(mut what: impl FnMut() -> bool) {
    let end = clock::monotonic_ns() + LONG.as_nanos() as u64;
    while !what() {
        assert!(clock::monotonic_ns() < end, "it has not come about");
        std::thread::yield_now();
    }
}
