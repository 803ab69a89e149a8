//! Tests that steady traffic allocates no memory per message, in either direction and in any mode.
//!
//! Only the beginning of a store segment allocates memory. Segments begin seldom, at times that
//! depend on message sizes, so the test searches for a long run of round trips without an
//! allocation.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use transfix::{
    Application, BeginString, Body, BusinessReject, Durability, Engine, LogSettings, Message, Mode,
    Role, SessionEvent, SessionId, SessionRef, SessionSettings, Settings, Template, tag,
};
use transfix_testkit::alloc::{Counting, all_allocations};
use transfix_testkit::temp::TempDir;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LONG: Duration = Duration::from_secs(300);
/// The required length of a run: consecutive round trips during which the whole process allocates
/// no memory.
const STRETCH: u64 = 2_000;
/// The maximum number of round trips in the search for a run.
const REPORTS_MAX: u64 = 30_000;
/// Segments are large enough for many runs. With 1 MiB (3,700 messages), the segments of both sides
/// could begin alternately on a slow machine, and interrupt every run.
const SEGMENT_BYTES: usize = 4 << 20;

/// The application of the venue: answers each order with a report.
struct Venue {
    report: Template,
}

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let cl_ord_id = order.required(tag::CL_ORD_ID)?;
        let (number, now) = (order.msg_seq_num()?, session.now().utc);
        let sent = session.send("8", |body| {
            self.report.fill(body).uint(number).bytes(cl_ord_id).uint(number).timestamp(now).done();
        });
        sent.map(drop).map_err(|_| BusinessReject::unsupported())
    }
}

/// The way in which the client sends an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The client sends through the session in its callback.
    Callback,
    /// The client sends through a handle while the session is busy, so that the message goes
    /// through the queue.
    Queue,
}

/// The application of the client: sends the next order when a report arrives, and finally reports
/// the longest run without an allocation.
struct Client {
    order: Template,
    way: Way,
    /// The number of orders that the client sends at once.
    at_once: u64,
    reports: u64,
    /// The number of allocations at the last check; `since` is the number of reports when it last
    /// changed.
    allocations: u64,
    since: u64,
    longest: u64,
    done: SyncSender<u64>,
}

impl Client {
    fn send(&self, session: &mut SessionRef<'_>) {
        let now = session.now().utc;
        for n in self.reports..self.reports + self.at_once {
            let fill = |body: &mut Body<'_>| self.order.fill(body).uint(n).timestamp(now).done();
            let sent = match self.way {
                Way::Callback => session.send("D", fill).is_ok(),
                Way::Queue => session.other(session.id()).unwrap().send("D", fill).is_ok(),
            };
            assert!(sent);
        }
    }
}

impl Application for Client {
    fn on_message(
        &mut self,
        report: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        assert_eq!(report.uint(tag::CL_ORD_ID), Ok(self.reports));
        self.reports += 1;
        let allocations = all_allocations();
        if self.allocations != allocations {
            self.allocations = allocations;
            self.since = self.reports;
        }
        self.longest = self.longest.max(self.reports - self.since);
        if self.longest == STRETCH || self.reports == REPORTS_MAX {
            // The send fails if further reports of the same batch arrive after the result.
            let _ = self.done.try_send(self.longest);
        } else if self.reports.is_multiple_of(self.at_once) {
            self.send(session);
        }
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.send(session);
        }
    }
}

fn start(
    role: Role,
    address: &str,
    (mode, durability, application_threads): (Mode, Durability, usize),
    dir: &TempDir,
    application: Box<dyn Application>,
) -> Engine {
    let id = match role {
        Role::Acceptor => SessionId::new(BeginString::Fix44, "VENUE", "CLIENT"),
        Role::Initiator => SessionId::new(BeginString::Fix44, "CLIENT", "VENUE"),
    };
    let mut settings = SessionSettings::new(role, &id, address);
    settings.threads.mode = mode;
    settings.store.durability = durability;
    settings.store.segment_bytes = SEGMENT_BYTES;
    settings.store.store_dir = dir.path().to_owned();
    // The protocol log is on, because the log thread must not allocate either.
    settings.log = Some(LogSettings::in_dir(dir.path().join("log")));
    let mut application = Some(application);
    let mut settings = Settings::of(settings);
    settings.engine.application_threads = application_threads;
    Engine::start(&settings, |_| application.take().unwrap()).unwrap()
}

/// Returns the longest run of round trips without an allocation, at most `STRETCH`.
fn longest(how: (Mode, Durability, usize), (way, at_once): (Way, u64)) -> u64 {
    let dir = TempDir::new();
    let report = Template::new("8", |t| {
        t.slot(tag::ORDER_ID).slot(tag::CL_ORD_ID).slot(tag::EXEC_ID);
        t.fields(b"150=0\x0139=0\x0155=EUR/USD\x0154=1\x0138=100\x01151=100\x0114=0\x016=0\x01");
        t.slot(tag::TRANSACT_TIME);
    });
    let venue = start(Role::Acceptor, "127.0.0.1:0", how, &dir, Box::new(Venue { report }));
    let address = venue.listening()[0].to_string();
    let order = Template::new("D", |t| {
        t.slot(tag::CL_ORD_ID).fields(b"55=EUR/USD\x0154=1\x01").slot(tag::TRANSACT_TIME);
        t.fields(b"38=100\x0140=2\x0144=1.08415\x01");
    });
    let (done, longest) = sync_channel(1);
    let (reports, allocations, since, longest_yet) = (0, 0, 0, 0);
    let client =
        Client { order, way, at_once, reports, allocations, since, longest: longest_yet, done };
    let client = start(Role::Initiator, &address, how, &dir, Box::new(client));
    let longest = longest.recv_timeout(LONG).unwrap();
    client.stop(Duration::from_secs(20));
    venue.stop(Duration::from_secs(20));
    longest
}

// All cases are in one test, because the allocation counter counts the whole process.
#[test]
fn nothing_is_allocated_in_steady_state() {
    let cases = [
        ((Mode::Pool, Durability::Memory, 0), (Way::Callback, 1)),
        ((Mode::Pool, Durability::Process, 0), (Way::Callback, 1)),
        ((Mode::Pool, Durability::Memory, 0), (Way::Queue, 1)),
        ((Mode::Dedicated, Durability::Process, 0), (Way::Callback, 1)),
        ((Mode::Spin, Durability::Process, 0), (Way::Callback, 1)),
        ((Mode::Pool, Durability::Process, 2), (Way::Callback, 1)),
        // Most of a turn waits for the application.
        ((Mode::Pool, Durability::Memory, 1), (Way::Callback, 100)),
    ];
    for (how, orders) in cases {
        let longest = longest(how, orders);
        assert_eq!(longest, STRETCH, "the longest stretch: {how:?}, {orders:?}");
    }
}
