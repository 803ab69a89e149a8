//! The cost of a fleet: commits beside bare appends to the stream, orders a second, and the time in
//! which a gateway takes many sessions over.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use transfix::clock::monotonic_ns;
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, FleetSettings, Message, Role,
    SessionId, SessionRef, SessionSettings, Settings, tag,
};
use transfix_store::{Committed, Kind, Record, Store, StoreError};
use transfix_stores::{ConnectOptions, Fleet, JetStream, JetStreamStore};

use super::brokers::{Brokers, COUNT, STREAM};

/// Length of a message in bytes, as that of a report.
const BYTES: usize = 200;
/// Number of slices in which commits and bare appends alternate, and of appends in a slice.
const SLICES: usize = 10;
const APPENDS: usize = 100;
/// Number of sessions and of unanswered orders of each session, for the orders a second.
const SESSIONS: usize = 32;
const WINDOW: u64 = 64;
/// Duration of the orders.
const ORDERS: Duration = Duration::from_secs(5);
/// Number of sessions that a gateway takes over.
const TAKEN: usize = 1_000;

/// Measures all costs, and returns them as text.
pub(super) fn measure(brokers: &Brokers) -> Result<String, String> {
    let text = |error: StoreError| error.to_string();
    let urls = brokers.addresses().join(",");
    let stream = JetStream::connect(&urls, STREAM, ConnectOptions::new(), COUNT).map_err(text)?;
    let mut said = String::new();
    let [bare, commit] = appends(brokers, &stream)?;
    let ratio = commit.as_secs_f64() / bare.as_secs_f64();
    // Writing to a `String` never fails.
    let _ = writeln!(said, "bare append of {BYTES} bytes, p50: {} us", bare.as_micros());
    let _ = writeln!(said, "commit, p50: {} us, {ratio:.2} times as long", commit.as_micros());
    let orders = orders(brokers)?;
    let _ = writeln!(
        said,
        "{SESSIONS} sessions, {WINDOW} unanswered orders each: {orders} orders a second"
    );
    let taken = take_over(&stream).map_err(text)?;
    let _ = write!(said, "take-over of {TAKEN} sessions: {} ms", taken.as_millis());
    Ok(said)
}

/// Returns the medians of a bare append and of a commit.
fn appends(brokers: &Brokers, stream: &JetStream) -> Result<[Duration; 2], String> {
    let mut bare = Bare::connect(&brokers.addresses()[0]).map_err(|error| error.to_string())?;
    let mut store = JetStreamStore::open(stream, "cost", 0).map_err(|error| error.to_string())?;
    let message = [b'x'; BYTES];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..SLICES {
        for _ in 0..APPENDS {
            let begin = monotonic_ns();
            bare.append(&message).map_err(|error| format!("a bare append: {error}"))?;
            times[0].push(monotonic_ns() - begin);
        }
        for _ in 0..APPENDS {
            let begin = monotonic_ns();
            commit(&mut store, &message).map_err(|error| error.to_string())?;
            times[1].push(monotonic_ns() - begin);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        Duration::from_nanos(times[times.len() / 2])
    }))
}

fn commit(store: &mut JetStreamStore, message: &[u8]) -> Result<(), StoreError> {
    let seq = store.numbers().next_out;
    store.put(0, Record::Outbound { seq, kind: Kind::Application, bytes: message })?;
    if let Committed::Pending(ticket) = store.commit()? {
        while store.safe()? < ticket {
            std::thread::yield_now();
        }
    }
    Ok(())
}

/// A connection that appends messages by the text protocol of NATS, and does nothing else.
struct Bare {
    reader: BufReader<TcpStream>,
    last: u64,
}

impl Bare {
    fn connect(address: &str) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB answer 1\r\n")?;
        Ok(Self { reader: BufReader::new(stream), last: 0 })
    }

    fn append(&mut self, message: &[u8]) -> std::io::Result<()> {
        let expected = format!("Nats-Expected-Last-Subject-Sequence: {}", self.last);
        let headers = format!("NATS/1.0\r\n{expected}\r\n\r\n");
        let (of_headers, all) = (headers.len(), headers.len() + message.len());
        let mut request =
            format!("HPUB {STREAM}.bare answer {of_headers} {all}\r\n{headers}").into_bytes();
        request.extend_from_slice(message);
        request.extend_from_slice(b"\r\n");
        self.reader.get_mut().write_all(&request)?;
        let mut line = String::new();
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            match line.split_ascii_whitespace().next() {
                Some("PING") => self.reader.get_mut().write_all(b"PONG\r\n")?,
                Some("MSG") => break,
                Some(_) => {}
                None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = line.split_ascii_whitespace().last().and_then(|length| length.parse().ok());
        let mut answer = vec![0; length.unwrap_or(0) + 2];
        self.reader.read_exact(&mut answer)?;
        let json: serde_json::Value = serde_json::from_slice(&answer[..answer.len() - 2])?;
        let place = json.get("seq").and_then(serde_json::Value::as_u64);
        self.last = place.ok_or_else(|| std::io::Error::other(json.to_string()))?;
        Ok(())
    }
}

/// Answers orders, or sends them: each answer causes the next order.
struct Trader {
    sends: bool,
    answered: Arc<AtomicU64>,
}

impl Application for Trader {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.uint(tag::CL_ORD_ID)?;
        let (kind, id) = if self.sends { ("D", id + WINDOW) } else { ("8", id) };
        if self.sends {
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        let sent = session.send(kind, |body| _ = body.uint(tag::CL_ORD_ID, id));
        sent.map(drop).map_err(|_| BusinessReject::other("the answer cannot be sent"))
    }
}

fn session(role: Role, n: usize, address: &str) -> SessionSettings {
    let client = format!("COST{n}");
    let (us, them) = if role == Role::Acceptor { ("VENUE", &*client) } else { (&*client, "VENUE") };
    let mut session =
        SessionSettings::new(role, &SessionId::new(BeginString::Fix44, us, them), address);
    session.validation.validate = false;
    session.store.durability = Durability::Memory;
    session
}

/// Returns the number of orders that a gateway answers in a second.
fn orders(brokers: &Brokers) -> Result<u64, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let answered = Arc::<AtomicU64>::default();
    let trader = |sends| Box::new(Trader { sends, answered: Arc::clone(&answered) });
    let sessions = |role, address: &str| (0..SESSIONS).map(|n| session(role, n, address)).collect();
    let fleet = FleetSettings {
        gateway: "cost".to_owned(),
        brokers: brokers.addresses().to_vec(),
        stream: STREAM.to_owned(),
        ..FleetSettings::default()
    };
    let sessions_of_gateway = sessions(Role::Acceptor, "127.0.0.1:0");
    let mut settings =
        Settings { fleet: Some(fleet), sessions: sessions_of_gateway, ..Settings::default() };
    let fleet = Fleet::join(&mut settings).map_err(|error| text(&error))?;
    let gateway = Engine::builder(&settings).stores(fleet.stores()).start(|_| trader(false));
    let gateway = gateway.map_err(|error| text(&error))?;
    fleet.begin(&gateway).map_err(|error| text(&error))?;
    let address = gateway.listening()[0].to_string();
    let settings =
        Settings { sessions: sessions(Role::Initiator, &address), ..Settings::default() };
    let clients = Engine::start(&settings, |_| trader(true)).map_err(|error| text(&error))?;
    for handle in clients.sessions() {
        for order in 0..WINDOW {
            while handle.send("D", |body| _ = body.uint(tag::CL_ORD_ID, order)).is_err() {
                super::pause(Duration::from_millis(1));
            }
        }
    }
    let (first, begin) = (answered.load(Ordering::Relaxed), monotonic_ns());
    super::pause(ORDERS);
    let (last, nanos) = (answered.load(Ordering::Relaxed), monotonic_ns() - begin);
    clients.stop(Duration::ZERO);
    gateway.stop(Duration::ZERO);
    Ok((last - first) * 1_000_000_000 / nanos)
}

/// Returns the time in which stores of a second gateway take over the sessions of a first one.
fn take_over(stream: &JetStream) -> Result<Duration, StoreError> {
    let name = |n: usize| format!("taken{n}");
    let message = [b'x'; BYTES];
    let mut standby = Vec::new();
    for n in 0..TAKEN {
        let mut owner = JetStreamStore::open(stream, &name(n), 0)?;
        commit(&mut owner, &message)?;
        standby.push(JetStreamStore::stand_by(stream, &name(n), 0)?);
    }
    let begin = monotonic_ns();
    while !standby.is_empty() {
        let mut failure = None;
        standby.retain_mut(|store| match store.refresh() {
            Ok(()) => false,
            Err(StoreError::NotYet) => true,
            Err(error) => {
                failure = Some(error);
                false
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        super::pause(Duration::from_millis(1));
    }
    Ok(Duration::from_nanos(monotonic_ns() - begin))
}
