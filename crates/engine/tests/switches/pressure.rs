//! Tests counterparties that do not read, full queues, and the states that the application learns
//! of.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Engine, Message, QueueWhenFull, Role,
    SendError, SendMode, Sent, SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef,
    SessionSettings, SessionView, Settings, SlowConsumer, tag,
};

use crate::switches::wire::Wire;
use crate::switches::{LONG, logged_on, venue};

/// A number of bytes larger than the buffers of two sockets.
const FLOOD: usize = 24 << 20;
const TEXT_BYTES: usize = 64 << 10;
const TEXTS: usize = FLOOD / TEXT_BYTES;

/// An application that reports states, slow counterparties and disconnects. On request, it sends a
/// flood into its own session.
struct Teller(Sender<String>);

impl Teller {
    fn tell(&self, what: impl Into<String>) {
        // The send fails only if the test has ended.
        let _ = self.0.send(what.into());
    }
}

impl Application for Teller {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let text = "x".repeat(TEXT_BYTES);
        let mut refused = None;
        for _ in 0..TEXTS {
            let sent = session.send("B", |news| _ = news.str(tag::TEXT, &text));
            refused = refused.or(sent.err());
        }
        self.tell(match refused {
            None => "all sent".to_owned(),
            Some(SendError::WouldBlock { .. }) => "refused".to_owned(),
            Some(error) => error.to_string(),
        });
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        match event {
            SessionEvent::LoggedOn => {
                self.tell("logon");
            }
            SessionEvent::SlowConsumer | SessionEvent::CaughtUp => {
                let is_slow = matches!(event, SessionEvent::SlowConsumer);
                // The callback may send.
                let sent = session.send("B", |news| _ = news.str(tag::TEXT, "hurry"));
                self.tell(if is_slow { "slow" } else { "caught up" });
                assert!(sent.is_ok());
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::StateChanged { from, to } => {
                self.tell(format!("{from:?} to {to:?}"));
            }
            SessionNotice::Disconnected(end) => {
                self.tell(format!("end: {}", end.reason));
            }
            _ => {}
        }
    }
}

struct Venue {
    engine: Engine,
    told: Receiver<String>,
}

impl Venue {
    fn open(application_threads: usize, change: impl FnOnce(&mut SessionSettings)) -> Self {
        let mut settings = Settings::of(venue(change));
        settings.engine.application_threads = application_threads;
        let (teller, told) = channel();
        let engine = Engine::start(&settings, |_| Box::new(Teller(teller.clone()))).unwrap();
        Self { engine, told }
    }

    fn wire(&self) -> Wire {
        let wire = logged_on(self.engine.listening()[0]);
        self.expect("Disconnected to LogonAwaited");
        self.expect("LogonAwaited to Active");
        self.expect("logon");
        wire
    }

    fn handle(&self) -> SessionHandle {
        self.engine.sessions().next().unwrap()
    }

    #[track_caller]
    fn expect(&self, what: &str) {
        assert_eq!(self.told.recv_timeout(LONG).unwrap(), what);
    }
}

fn send_text(handle: &SessionHandle) -> Result<Sent, SendError> {
    let text = "x".repeat(TEXT_BYTES);
    handle.send("B", |news| _ = news.str(tag::TEXT, &text))
}

/// Sends until a message is refused, or until a fixed number is sent.
fn flood(handle: &SessionHandle) -> Result<(), SendError> {
    (0..TEXTS).try_for_each(|_| send_text(handle).map(drop))
}

/// Reads all messages of a flood. Returns the number of `hurry` messages among them.
fn read(wire: &mut Wire) -> usize {
    let (mut texts, mut hurries) = (0, 0);
    while texts < TEXTS {
        let line = wire.next();
        let is_text = line.len() > TEXT_BYTES;
        assert!(is_text || line.ends_with("58=hurry"), "{}", &line[..line.len().min(200)]);
        texts += usize::from(is_text);
        hurries += usize::from(!is_text);
    }
    hurries
}

#[test]
fn a_slow_consumer_is_told_until_it_has_caught_up() {
    for (send, application_threads) in
        [(SendMode::Direct, 0), (SendMode::Queued, 0), (SendMode::Direct, 1)]
    {
        let hall = Venue::open(application_threads, |s| {
            s.threads.send = send;
            s.queue.queued_bytes_max = 2 * FLOOD;
            s.queue.slow_consumer_bytes = 1 << 20;
            s.queue.slow_consumer_after = Duration::from_millis(20);
        });
        let mut wire = hall.wire();
        flood(&hall.handle()).unwrap();
        hall.expect("slow");
        assert!(hall.told.recv_timeout(Duration::from_millis(60)).is_err(), "told once");
        let hurries = read(&mut wire);
        hall.expect("caught up");
        for _ in hurries..2 {
            assert!(wire.next().ends_with("58=hurry"));
        }
        assert!(hall.handle().is_logged_on());
    }
}

#[test]
fn a_slow_consumer_is_disconnected_if_wanted() {
    for (send, application_threads) in [(SendMode::Direct, 0), (SendMode::Queued, 1)] {
        let hall = Venue::open(application_threads, |s| {
            s.threads.send = send;
            s.queue.queued_bytes_max = 2 * FLOOD;
            s.queue.slow_consumer_bytes = 1 << 20;
            s.queue.slow_consumer_after = Duration::from_millis(20);
            s.queue.slow_consumer = SlowConsumer::Disconnect;
        });
        let _wire = hall.wire();
        // The connection may end before all messages are sent.
        let _ = flood(&hall.handle());
        hall.expect("Active to Disconnected");
        hall.expect("end: the counterparty does not read our messages");
    }
    // A counterparty that reads in time stays connected, however much is sent.
    let hall = Venue::open(0, |s| {
        s.queue.slow_consumer_bytes = 1 << 20;
        s.queue.slow_consumer = SlowConsumer::Disconnect;
        s.queue.slow_consumer_after = LONG;
        s.queue.queued_bytes_max = 2 * FLOOD;
    });
    let mut wire = hall.wire();
    flood(&hall.handle()).unwrap();
    read(&mut wire);
    assert!(hall.told.try_recv().is_err());
}

#[test]
fn a_full_queue_refuses_waits_or_disconnects() {
    for send in [SendMode::Direct, SendMode::Queued] {
        let open = |when_full, wait| {
            Venue::open(0, |s| {
                s.threads.send = send;
                s.queue.queued_bytes_max = 1 << 20;
                s.queue.queue_when_full = when_full;
                s.queue.queue_wait = wait;
            })
        };
        let hall = open(QueueWhenFull::Refuse, Duration::ZERO);
        let _wire = hall.wire();
        assert!(matches!(flood(&hall.handle()), Err(SendError::WouldBlock { .. })));
        assert!(hall.handle().is_logged_on());

        let hall = open(QueueWhenFull::Wait, Duration::from_millis(1));
        let _wire = hall.wire();
        assert!(matches!(flood(&hall.handle()), Err(SendError::WouldBlock { .. })), "in vain");
        assert!(hall.handle().is_logged_on());

        let hall = open(QueueWhenFull::Wait, LONG);
        let mut wire = hall.wire();
        let handle = hall.handle();
        let sender = std::thread::spawn(move || flood(&handle));
        read(&mut wire);
        assert_eq!(sender.join().unwrap(), Ok(()), "there is room in the end");

        let hall = open(QueueWhenFull::Disconnect, Duration::ZERO);
        let _wire = hall.wire();
        assert!(flood(&hall.handle()).is_err());
        hall.expect("Active to Disconnected");
        hall.expect("end: the counterparty does not read our messages");
    }
}

#[test]
fn a_callback_sends_however_much_waits() {
    for (application_threads, when_full) in [
        (0, QueueWhenFull::Refuse),
        (0, QueueWhenFull::Wait),
        (1, QueueWhenFull::Refuse),
        (1, QueueWhenFull::Wait),
    ] {
        let hall = Venue::open(application_threads, |s| {
            s.queue.queued_bytes_max = 1 << 20;
            s.queue.queue_when_full = when_full;
            s.queue.queue_wait = LONG;
        });
        let mut wire = hall.wire();
        wire.send("35=D|34=2|11=flood");
        if (application_threads, when_full) == (1, QueueWhenFull::Wait) {
            read(&mut wire);
        }
        hall.expect("all sent");
        assert!(hall.handle().is_logged_on());
    }
    for application_threads in [0, 1] {
        let hall = Venue::open(application_threads, |s| {
            s.queue.queued_bytes_max = 1 << 20;
            s.queue.queue_when_full = QueueWhenFull::Disconnect;
        });
        let mut wire = hall.wire();
        wire.send("35=D|34=2|11=flood");
        let told: Vec<_> = (0..3).map(|_| hall.told.recv_timeout(LONG).unwrap()).collect();
        assert_eq!(told.last().unwrap(), "end: the counterparty does not read our messages");
    }
}

#[test]
fn each_change_of_the_state_is_told_in_its_order() {
    for application_threads in [0, 1] {
        let hall = Venue::open(application_threads, |_| ());
        let mut wire = hall.wire();
        wire.send("35=5|34=2");
        assert_eq!(wire.next(), "35=5|34=2");
        hall.expect("Active to LogoutSent");
        hall.expect("LogoutSent to Disconnected");
        hall.expect("end: logged out");

        // A connection that never logs on, and a connection that our side logs out.
        let stranger = Wire::connect(hall.engine.listening()[0], BeginString::Fix44);
        stranger.end();
        let mut wire = logged_on_at(&hall, 3);
        hall.handle().operate(&Action::LogOut { text: "enough".to_owned() }).unwrap();
        assert_eq!(wire.next(), "35=5|34=4|58=enough");
        hall.expect("Active to LogoutSent");
        wire.send("35=5|34=4");
        hall.expect("LogoutSent to Disconnected");
        hall.expect("end: logged out");
    }
}

fn logged_on_at(hall: &Venue, seq: u64) -> Wire {
    let mut wire = Wire::connect(hall.engine.listening()[0], BeginString::Fix44);
    wire.send(&format!("35=A|34={seq}|98=0|108=30"));
    assert!(wire.next().starts_with("35=A|"));
    hall.expect("Disconnected to LogonAwaited");
    hall.expect("LogonAwaited to Active");
    hall.expect("logon");
    wire
}

#[test]
fn an_initiator_tells_its_states_too() {
    let hall = Venue::open(0, |_| ());
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let address = hall.engine.listening()[0].to_string();
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address);
    settings.store.durability = transfix::Durability::Memory;
    let (teller, told) = channel();
    let settings = Settings::of(settings);
    let engine = Engine::start(&settings, |_| Box::new(Teller(teller.clone()))).unwrap();
    let expect = |what: &str| assert_eq!(told.recv_timeout(LONG).unwrap(), what);
    expect("Disconnected to LogonSent");
    expect("LogonSent to Active");
    expect("logon");
    let _ = engine.stop(LONG);
    expect("Active to LogoutSent");
    expect("LogoutSent to Disconnected");
    expect("end: logged out");
}
