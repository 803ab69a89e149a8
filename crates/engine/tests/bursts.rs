//! The memory that a burst needs is freed, whether or not its connection ends.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transfix::{
    Application, BeforeSend, BeginString, BusinessReject, Durability, Engine, Message, Offline,
    OutgoingMessage, Precision, Role, SendError, SessionId, SessionRef, SessionSettings, Settings,
    Unsent, Veto, clock, tag,
};
use transfix_codec::FrameWriter;
use transfix_testkit::alloc::{Counting, live_bytes};
use transfix_testkit::app::App;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LONG_NS: u64 = 300_000_000_000;
const MIB: usize = 1 << 20;

/// Returns an application that blocks at each message until the gate opens or is dropped.
fn waiting(gate: Receiver<()>) -> App {
    App::new(move |_, _| {
        // `recv` returns an error at once when the gate's sender was dropped.
        let _ = gate.recv();
        Ok(())
    })
}

struct Client {
    socket: TcpStream,
    name: String,
    seq: u64,
}

impl Client {
    fn log_on(to: SocketAddr, name: &str) -> Self {
        let socket = TcpStream::connect(to).unwrap();
        socket.set_read_timeout(Some(Duration::from_nanos(LONG_NS))).unwrap();
        let mut client = Self { socket, name: name.to_owned(), seq: 1 };
        // Heartbeats are off, so that no later message causes the memory to be freed.
        client.send("A", b"98=0\x01108=0\x01");
        let n = client.socket.read(&mut [0; 1_000]).unwrap();
        assert!(n > 0, "not let in");
        client
    }

    fn send(&mut self, msg_type: &str, body: &[u8]) {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(format!("49={}\x0156=VENUE\x01", self.name).as_bytes());
        frame.header_uint(tag::MSG_SEQ_NUM, self.seq);
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        frame.raw(body);
        frame.finish().unwrap();
        self.seq += 1;
        self.socket.write_all(&out).unwrap();
    }
}

/// Waits until `has_come` returns true, and fails with the text `what` after a long time.
fn wait_for(what: &str, mut has_come: impl FnMut() -> bool) {
    let until = clock::monotonic_ns() + LONG_NS;
    while !has_come() {
        assert!(clock::monotonic_ns() < until, "{what}");
        std::thread::yield_now();
    }
}

/// Waits until memory use is close to the value before the burst.
fn comes_back(what: &str, before: usize, highest: usize) {
    assert!(highest > before + MIB / 2, "{what}: {before} to {highest} bytes is no burst");
    let limit = before + (highest - before) / 10 + 100_000;
    let what = format!("{what}: {before} to {highest} bytes, and still more than {limit}");
    wait_for(&what, || live_bytes() <= limit);
}

#[test]
fn memory_comes_back() {
    let names: Vec<String> = (0..4).map(|n| format!("SLOW{n}")).collect();
    let sessions = names.iter().map(|name| {
        let id = SessionId::new(BeginString::Fix44, "VENUE", name);
        let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        // A memory store allocates all its memory at the start; a file store would grow with its
        // segments.
        settings.store.durability = Durability::Memory;
        settings.validation.validate = false;
        // Returns messages at the end of a connection; by default, they would wait for the next
        // logon.
        settings.queue.unsent = Unsent::Return;
        settings
    });
    let settings = Settings { sessions: sessions.collect(), ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    let mut clients: Vec<_> = names.iter().map(|name| Client::log_on(address, name)).collect();
    let before = live_bytes();

    // No client reads at first. Later, two clients disconnect and two begin to read.
    let text = "x".repeat(100_000);
    for session in engine.sessions() {
        while session.send("B", |news| _ = news.str(tag::TEXT, &text)).is_ok() {}
    }
    let highest = live_bytes();
    clients.truncate(2);
    let readers: Vec<_> = clients
        .iter()
        .map(|client| {
            let mut socket = client.socket.try_clone().unwrap();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while matches!(socket.read(&mut buffer), Ok(1..)) {}
            })
        })
        .collect();
    comes_back("what waited to be sent", before, highest);

    // Tests one long message, and one message with very many fields.
    let client = &mut clients[0];
    let mut highest = 0;
    for body in [format!("58={}\x01", "x".repeat(900_000)), "447=D\x01".repeat(150_000)] {
        let expected = engine.sessions().next().unwrap().next_numbers().0 + 1;
        client.send("B", body.as_bytes());
        wait_for("a long message is taken", || {
            highest = highest.max(live_bytes());
            engine.sessions().next().unwrap().next_numbers().0 >= expected
        });
        highest = highest.max(live_bytes());
        drop(body);
    }
    comes_back("what was received", before, highest);
    drop(clients);
    drop(engine);
    for reader in readers {
        reader.join().unwrap();
    }
    before_an_application();
    on_the_way_out();
}

/// An application whose hook makes each sent message long, and records the highest memory use.
struct Looking(Arc<AtomicUsize>);

impl Application for Looking {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        let highest = Arc::clone(&self.0);
        Some(Arc::new(move |message: &mut OutgoingMessage<'_>| {
            let long = "x".repeat(4 * MIB);
            message.set(tag::TEXT, long.as_bytes()).map_err(|_| Veto)?;
            highest.fetch_max(live_bytes(), Ordering::Relaxed);
            Err(Veto)
        }))
    }
}

/// The memory of a message that `before_send` makes very long and then refuses is freed.
fn on_the_way_out() {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    settings.queue.offline = Offline::Store;
    let highest = Arc::new(AtomicUsize::new(0));
    let of_look = Arc::clone(&highest);
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(Looking(of_look.clone())));
    let engine = engine.unwrap();
    let session = engine.sessions().next().unwrap();
    let before = live_bytes();
    let sent = session.send("B", |news| _ = news.str(tag::TEXT, "short"));
    assert_eq!(sent.unwrap_err(), SendError::Vetoed);
    comes_back("what was on its way out", before, highest.load(Ordering::Relaxed));
}

/// The memory of thousands of messages that wait for an application in its own thread is freed.
fn before_an_application() {
    const MESSAGES: usize = 8_000;
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    let mut settings = Settings::of(settings);
    settings.engine.application_threads = 1;
    let (go, may_go) = channel();
    let mut application = Some(waiting(may_go));
    let engine = Engine::start(&settings, |_| Box::new(application.take().unwrap())).unwrap();
    let mut client = Client::log_on(engine.listening()[0], "CLIENT");
    let before = live_bytes();
    let body = format!("58={}\x01", "x".repeat(200));
    (0..MESSAGES).for_each(|_| client.send("B", body.as_bytes()));
    let session = engine.sessions().next().unwrap();
    // The application holds one of the messages, which does not count as waiting.
    wait_for("all have come", || session.waiting_for_application().0 >= MESSAGES - 1);
    let highest = live_bytes();
    drop(go);
    comes_back("what waited for the application", before, highest);
    assert_eq!(session.waiting_for_application(), (0, 0));
}
