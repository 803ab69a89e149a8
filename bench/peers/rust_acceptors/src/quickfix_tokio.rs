//! quickfix-tokio: one task per session. A callback must not wait for its own session, so orders go
//! to a second task, as in the engine's example.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use quickfix_tokio::store::FileStore;
use quickfix_tokio::{
    Application, ApplicationError, Engine, MemoryStoreFactory, Message, MessageStore,
    MessageStoreFactory, NullLogFactory, SessionHandle, SessionId, Settings, UtcTimestamp,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::options::{Options, Outcome};

/// Number of reports, used in ExecID(17) and OrderID(37).
static REPORTS: AtomicU64 = AtomicU64::new(0);

/// A folder per session. The engine's own factory drops the text after the last dot of
/// `FIX.4.2-VENUE-C0` and names all files `FIX.4.body` and so on. All sessions of a version would
/// share these files.
struct Files(PathBuf);

impl MessageStoreFactory for Files {
    fn create(&self, id: &SessionId) -> quickfix_tokio::Result<Box<dyn MessageStore>> {
        Ok(Box::new(FileStore::open(&self.0.join(&id.target_comp_id), id)?))
    }
}

/// Passes each order on, by TargetCompID(56).
#[derive(Default)]
struct Venue {
    orders: OnceLock<HashMap<String, UnboundedSender<Message>>>,
}

#[async_trait::async_trait]
impl Application for Venue {
    async fn from_app(&self, message: &Message, id: &SessionId) -> Result<(), ApplicationError> {
        let session = self.orders.get().and_then(|all| all.get(&id.target_comp_id));
        if let Some(session) = session {
            // Fails only when the process ends.
            let _ = session.send(message.clone());
        }
        Ok(())
    }
}

pub async fn start(options: &Options) -> Outcome<u16> {
    // The engine cannot let the system choose a port.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let stores: Arc<dyn MessageStoreFactory> = match &options.store {
        Some(folder) => Arc::new(Files(folder.clone())),
        None => Arc::new(MemoryStoreFactory::new()),
    };
    let venue = Arc::new(Venue::default());
    let settings = Settings::parse(&settings(options, port)?)?;
    let engine = Engine::start(&settings, venue.clone(), stores, Arc::new(NullLogFactory)).await?;
    let mut orders = HashMap::new();
    for n in 0..options.sessions {
        let name = format!("C{n}");
        let session = engine.session("FIX.4.2", "VENUE", &name).ok_or("a session is missing")?;
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(answer(session, receiver, options.echo));
        orders.insert(name, sender);
    }
    let _ = venue.orders.set(orders);
    // The engine's tasks end with the process.
    std::mem::forget(engine);
    Ok(port)
}

fn settings(options: &Options, port: u16) -> Outcome<String> {
    let mut text = format!(
        "[DEFAULT]\nConnectionType=acceptor\nBeginString=FIX.4.2\nSenderCompID=VENUE\n\
         SocketAcceptPort={port}\nNonStopSession=Y\n"
    );
    match &options.dictionary {
        Some(file) => {
            writeln!(text, "UseDataDictionary=Y\nDataDictionary={}", file.display())?;
        }
        None => text.push_str(
            "UseDataDictionary=N\nValidateFieldsOutOfOrder=N\nValidateFieldsHaveValues=N\n\
             ValidateUserDefinedFields=N\nCheckLatency=N\n",
        ),
    }
    for n in 0..options.sessions {
        writeln!(text, "[SESSION]\nTargetCompID=C{n}")?;
    }
    Ok(text)
}

async fn answer(session: SessionHandle, mut orders: UnboundedReceiver<Message>, echo: bool) {
    while let Some(order) = orders.recv().await {
        let answer = if echo { back(&order) } else { report(&order) };
        if let Err(error) = session.send(answer).await {
            eprintln!("quickfix-tokio: {error}");
        }
    }
}

fn back(order: &Message) -> Message {
    let mut message = Message::with_type(&order.msg_type().unwrap_or_default());
    message.body = order.body.clone();
    message
}

/// Reads the order's fields, and returns the report that FIX 4.2 requires.
fn report(order: &Message) -> Message {
    let number = REPORTS.fetch_add(1, Ordering::Relaxed) + 1;
    let field = |tag| order.body.get_raw(tag).unwrap_or_default();
    let mut report = Message::with_type("8");
    report.set(37, number);
    report.set(11, field(11));
    report.set(17, number);
    // ExecTransType(20), ExecType(150) and OrdStatus(39): New.
    report.set(20, '0');
    report.set(150, '0');
    report.set(39, '0');
    report.set(55, field(55));
    report.set(54, field(54));
    report.set(38, field(38));
    if field(40) == b"2" {
        report.set(44, field(44));
    }
    report.set(151, field(38));
    report.set(14, 0_u64);
    report.set(6, 0_u64);
    report.set(60, UtcTimestamp::now());
    report
}
