//! Tests our certificates that expire, with simulated clocks: the log lines, and the status that
//! programs can read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use transfix::simulated::io::{Connecting, Io, Listener, Poll, Ready, System, Thread, Waker};
use transfix::{CertificateStatus, Now, Timestamp};
use transfix_transport::{Registry, SocketOptions, Token};

use super::*;

const DAY_S: u64 = 24 * 60 * 60;
/// The interval at which a waiting thread checks the simulated clock.
const LOOK: Duration = Duration::from_millis(2);

/// The environment of the real machine, but with clocks that the test sets forward.
#[derive(Clone)]
struct SettableClock(Arc<AtomicU64>);

impl SettableClock {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    /// Returns the time in seconds of Unix time.
    fn now_s(&self) -> u64 {
        u64::try_from(self.now().utc.0 / 1_000_000_000).unwrap()
    }

    /// Sets the clocks forward by `days` days.
    fn turn(&self, days: u64) {
        self.0.fetch_add(days * DAY_S * 1_000_000_000, Ordering::SeqCst);
    }
}

impl Io for SettableClock {
    fn now(&self) -> Now {
        let (now, by) = (System.now(), self.0.load(Ordering::SeqCst));
        Now { utc: Timestamp(now.utc.0 + by as i64), monotonic_ns: now.monotonic_ns + by }
    }

    fn monotonic_ns(&self) -> u64 {
        self.now().monotonic_ns
    }

    fn poll(&self) -> io::Result<Box<dyn Poll>> {
        Ok(Box::new(Impatient(System.poll()?)))
    }

    fn connect(&self, to: SocketAddr, options: &SocketOptions) -> io::Result<Box<dyn Connecting>> {
        System.connect(to, options)
    }

    fn listen(&self, at: SocketAddr, options: &SocketOptions) -> io::Result<Box<dyn Listener>> {
        System.listen(at, options)
    }

    fn spawn(&self, name: String, run: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>> {
        System.spawn(name, run)
    }

    fn sleep(&self, time: Duration) {
        System.sleep(time);
    }
}

struct Impatient(Box<dyn Poll>);

impl Poll for Impatient {
    fn registry(&self) -> Registry<'_> {
        self.0.registry()
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()> {
        self.0.wait(ready, Some(time.map_or(LOOK, |time| time.min(LOOK))))
    }

    fn waker(&self, token: Token) -> io::Result<Waker> {
        self.0.waker(token)
    }
}

fn start(settings: &Settings, clock: &SettableClock) -> Engine {
    let builder = Engine::builder(settings).io(Arc::new(clock.clone()));
    builder.start(|_| Box::new(recorder(channel().0))).unwrap()
}

/// Returns the status of the only certificate.
fn only(engine: &Engine) -> CertificateStatus {
    let mut all = engine.certificates().all();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Returns the log lines about expiry, up to a line with this text.
fn ends_told_until(text: &str) -> Vec<String> {
    let (begin, mut lines) = (Instant::now(), Vec::<String>::new());
    while begin.elapsed() < LONG {
        lines.extend(events::take());
        if lines.iter().any(|line| line.contains(text)) {
            lines.retain(|line| line.contains("our certificate"));
            return lines;
        }
        std::thread::yield_now();
    }
    panic!("{text:?} is not told: {lines:#?}");
}

#[test]
fn a_running_engine_tells_each_threshold_once_though_nobody_connects() {
    let _alone = alone();
    // Tests an engine that already has a thread to check for slow callbacks, and one that has no
    // such thread.
    for slow_callback in [Duration::from_secs(1), Duration::ZERO] {
        let mut firms = Firms::new();
        let clock = SettableClock::new();
        let end_s = clock.now_s() + 40 * DAY_S + DAY_S / 2;
        firms.venue = firms.authority.sign(&["venue.example"], 10, Valid::Until(end_s));
        let mut settings = Settings::of(firms.acceptor("CLIENT"));
        settings.engine.slow_callback = slow_callback;
        let venue = start(&settings, &clock);
        let status = only(&venue);
        assert_eq!((status.file, status.days_left), (firms.venue.certificate.clone(), 40));
        assert_eq!(
            (status.not_after_s, status.shown_by),
            (end_s as i64, vec!["127.0.0.1:0".into()])
        );
        assert!(!events::take().iter().any(|line| line.contains("our certificate")));
        for (days, told, left) in [
            (11, "days=29", 29),
            (23, "days=6", 6),
            (6, "days=0", 0),
            (1, "our certificate has expired", -1),
        ] {
            clock.turn(days);
            let lines = ends_told_until(told);
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].contains("CN=venue.example (sha256:"), "{lines:?}");
            assert_eq!(only(&venue).days_left, left);
        }
        // A changed file with the same certificate is not logged; another certificate is.
        fs::copy(&firms.venue.certificate, firms.dir.path().join("same")).unwrap();
        fs::rename(firms.dir.path().join("same"), &firms.venue.certificate).unwrap();
        clock.turn(1);
        assert_eq!(ends_told_until("a file has changed").len(), 0);
        let next = Valid::Until(clock.now_s() + 5 * DAY_S + DAY_S / 2);
        let next = firms.authority.sign(&["venue.example"], 11, next);
        fs::copy(&next.certificate, &firms.venue.certificate).unwrap();
        clock.turn(1);
        // The key of the new certificate is still missing.
        ends_told_until("changed certificates are unusable");
        let status = only(&venue);
        assert!(
            status.refused.unwrap().ends_with("the certificate and the key do not belong together")
        );
        assert!(status.days_left < 0, "the old one stays");
        fs::copy(&next.key, &firms.venue.key).unwrap();
        clock.turn(1);
        let lines = ends_told_until("days=3");
        assert_eq!((lines.len(), only(&venue).refused), (1, None), "{lines:?}");
        assert_eq!(only(&venue).days_left, 3);
    }
}

#[test]
fn sessions_that_show_the_same_certificate_share_a_line() {
    let _alone = alone();
    let mut firms = Firms::new();
    let clock = SettableClock::new();
    let soon = Valid::Until(clock.now_s() + 5 * DAY_S + DAY_S / 2);
    firms.client = firms.authority.sign(&["client.example"], 10, soon);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sessions = ["A", "B", "C"].map(|to| {
        let mut settings = firms.initiator(nobody);
        settings.target_comp_id = to.to_owned();
        settings
    });
    let client =
        start(&Settings { sessions: sessions[..2].to_vec(), ..Settings::default() }, &clock);
    let lines = ends_told_until("days=5");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let handle = client.certificates();
    let shown_by = ["FIX.4.4:CLIENT->A", "FIX.4.4:CLIENT->B"];
    assert_eq!(only(&client).shown_by, shown_by);
    // Removing a session leaves the status unchanged, and a stopped engine has no certificates.
    let mut client = client;
    client.add(&sessions[2], Box::new(recorder(channel().0))).unwrap();
    assert_eq!(handle.all()[0].shown_by.len(), 3);
    clock.turn(5);
    assert_eq!(ends_told_until("days=0").len(), 1);
    drop(client.stop(Duration::ZERO));
    assert_eq!(handle.all(), []);
}

#[test]
fn settings_that_are_only_looked_at_are_told_of_by_nobody() {
    let _alone = alone();
    let firms = Firms::new();
    let clock = SettableClock::new();
    let from = Settings::of(firms.acceptor("CLIENT"));
    let mut venue = start(&from, &clock);
    let old = firms.authority.sign(&["venue.example"], 12, Valid::Before);
    let mut to = from.clone();
    let door = tls(&mut to.sessions[0]);
    (door.certificate, door.key) = (Some(old.certificate), Some(old.key));
    let mut wrong = firms.initiator(venue.listening()[0]);
    tls(&mut wrong).ca = vec![firms.dir.path().join("nowhere.pem")];
    to.sessions.push(wrong);
    events::take();
    let error =
        venue.reload(&from, &to, Duration::ZERO, |_| Box::new(recorder(channel().0))).unwrap_err();
    assert!(error.to_string().contains("nowhere.pem: "), "{error}");
    assert!(!events::take().iter().any(|line| line.contains("our certificate")));
    assert_eq!(only(&venue).file, firms.venue.certificate);
}

#[test]
fn the_clock_of_the_engine_says_when_a_counterparty_is_too_late() {
    let _alone = alone();
    let mut firms = Firms::new();
    let clock = SettableClock::new();
    let soon = Valid::Until(clock.now_s() + DAY_S);
    firms.client = firms.authority.sign(&["client.example"], 10, soon);
    let venue = start(&Settings::of(firms.acceptor("CLIENT")), &clock);
    let mut settings = firms.initiator(venue.listening()[0]);
    settings.protocol.reset_on.logon = true;
    let client = Side::start(settings.clone());
    assert_eq!(client.next(), "logon");
    drop(client.engine.stop(Duration::from_secs(10)));
    clock.turn(2);
    let _late = Side::start(settings);
    all_told(["the counterparty's certificate has expired", "our certificate has expired"]);
}
