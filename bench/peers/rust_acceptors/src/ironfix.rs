//! ironfix: one acceptor per session behind a registry. The callback queues its answer, and the
//! session does not wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ironfix_core::message::{MsgType, RawMessage};
use ironfix_core::types::{CompId, Timestamp};
use ironfix_dictionary::Dictionary;
use ironfix_engine::{
    Acceptor, AcceptorRegistry, Application, Connection, InboundValidation, OutboundMessage,
    RejectReason, SessionId, ValidationPolicy,
};
use ironfix_session::SessionConfig;
use ironfix_store::{FileStore, FileStoreConfig, MemoryStore, MessageStore, SyncPolicy};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::options::{Options, Outcome};

/// Number of reports, used in ExecID(17) and OrderID(37).
static REPORTS: AtomicU64 = AtomicU64::new(0);

/// A session's application.
struct Venue {
    echo: bool,
    /// Set once the Logon(A) has been answered; an order may be read slightly earlier.
    connection: watch::Sender<Option<Connection>>,
}

impl Venue {
    async fn connection(&self) -> Option<Connection> {
        if let Some(connection) = self.connection.borrow().as_ref() {
            return Some(connection.clone());
        }
        let mut later = self.connection.subscribe();
        later.wait_for(Option::is_some).await.ok().and_then(|found| found.clone())
    }
}

#[async_trait::async_trait]
impl Application for Venue {
    async fn on_create(&self, _: &SessionId) {}
    async fn on_logon(&self, _: &SessionId) {}
    async fn on_logout(&self, _: &SessionId) {}
    async fn to_admin(&self, _: &mut OutboundMessage, _: &SessionId) {}
    async fn to_app(&self, _: &mut OutboundMessage, _: &SessionId) {}

    async fn from_admin(&self, _: &RawMessage<'_>, _: &SessionId) -> Result<(), RejectReason> {
        Ok(())
    }

    async fn from_app(&self, order: &RawMessage<'_>, _: &SessionId) -> Result<(), RejectReason> {
        let Some(connection) = self.connection().await else { return Ok(()) };
        let answer = if self.echo { back(order, &connection) } else { report(order, &connection) };
        if let Err(error) = connection.send(answer).await {
            eprintln!("ironfix: {error}");
        }
        Ok(())
    }
}

pub async fn start(options: &Options) -> Outcome<u16> {
    let validation = options.dictionary.as_ref().map(|file| {
        let text = std::fs::read_to_string(file)?;
        let dictionary = Dictionary::from_quickfix_xml(&text)?;
        Outcome::Ok(InboundValidation::new(Arc::new(dictionary), ValidationPolicy::Reject))
    });
    let validation = validation.transpose()?;
    let registry = AcceptorRegistry::new();
    let mut venues = HashMap::new();
    for n in 0..options.sessions {
        let name = format!("C{n}");
        let config = SessionConfig::new(CompId::new("VENUE")?, CompId::new(&name)?, "FIX.4.2");
        let venue = Arc::new(Venue { echo: options.echo, connection: watch::Sender::new(None) });
        let mut acceptor =
            Acceptor::new(config, venue.clone()).with_store(store(options, &name).await?);
        if let Some(validation) = &validation {
            acceptor = acceptor.with_inbound_validation(validation.clone());
        }
        registry.register(acceptor)?;
        venues.insert(name, venue);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(accept(listener, Arc::new(registry), Arc::new(venues)));
    Ok(port)
}

/// With the default policy each message in either direction waits for a disk flush.
async fn store(options: &Options, name: &str) -> Outcome<Arc<dyn MessageStore>> {
    let Some(folder) = &options.store else { return Ok(Arc::new(MemoryStore::new())) };
    let config = FileStoreConfig::try_new(folder, name)?
        .with_create_if_missing(true)
        .with_sync_policy(SyncPolicy::Never);
    Ok(Arc::new(FileStore::open(config).await?))
}

async fn accept(
    listener: TcpListener,
    registry: Arc<AcceptorRegistry<Venue>>,
    venues: Arc<HashMap<String, Arc<Venue>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (registry, venues) = (registry.clone(), venues.clone());
        tokio::spawn(async move {
            match registry.serve(stream).await {
                Ok(connection) => {
                    let venue = &venues[&connection.session_id().target_comp_id];
                    venue.connection.send_replace(Some(connection.clone()));
                    connection.wait_closed().await;
                    venue.connection.send_replace(None);
                }
                Err(error) => eprintln!("ironfix: {error}"),
            }
        });
    }
}

/// Returns the same body; the session writes the standard header.
fn back(order: &RawMessage<'_>, connection: &Connection) -> OutboundMessage {
    let mut back = connection.acquire(order.msg_type().clone());
    for field in order.fields() {
        let tag = field.tag;
        if !matches!(tag, 8 | 9 | 10 | 34 | 35 | 49 | 52 | 56) {
            back.push_bytes(tag, field.value);
        }
    }
    back
}

/// Reads the order's fields, and returns the report that FIX 4.2 requires.
fn report(order: &RawMessage<'_>, connection: &Connection) -> OutboundMessage {
    let number = REPORTS.fetch_add(1, Ordering::Relaxed) + 1;
    let field = |tag| order.get_field(tag).map(|field| field.value).unwrap_or_default();
    let mut report = connection.acquire(MsgType::ExecutionReport);
    report.push_uint(37, number).push_bytes(11, field(11)).push_uint(17, number);
    // ExecTransType(20), ExecType(150) and OrdStatus(39): New.
    report.push_char(20, '0').push_char(150, '0').push_char(39, '0');
    report.push_bytes(55, field(55)).push_bytes(54, field(54)).push_bytes(38, field(38));
    if field(40) == b"2" {
        report.push_bytes(44, field(44));
    }
    report.push_bytes(151, field(38)).push_uint(14, 0).push_uint(6, 0);
    report.push_str(60, &Timestamp::now().format_millis());
    report
}
