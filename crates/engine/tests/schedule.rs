//! Two engines over loopback that follow a schedule with windows of a few seconds.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::schedule::{NumbersAtOpening, Outside, Schedule, ScheduleSettings, WindowSettings};
use transfix::{
    Application, BeginString, BusinessReject, Direction, Disconnect, Durability, Engine, Message,
    Role, SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView,
    Settings, Timestamp, clock, tag,
};

/// A time limit that suffices on the slowest machine; only a failing test waits this long.
const LONG: Duration = Duration::from_secs(300);
const SECOND: i64 = 1_000_000_000;

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The session has logged on, with these next inbound and outbound numbers.
    Logon(u64, u64),
    Message,
    Frame(String),
    Disconnect(Disconnect),
}

struct Recorder(Sender<Seen>);

impl Application for Recorder {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.0.send(Seen::Message).unwrap();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            let (next_in, next_out) = session.next_numbers();
            self.0.send(Seen::Logon(next_in, next_out)).unwrap();
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.0.send(Seen::Disconnect(end.reason));
        }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], _: &SessionView<'_>) {
        let text = String::from_utf8_lossy(frame).replace('\u{1}', "|");
        if direction == Direction::Inbound && text.contains("|35=j|") {
            self.0.send(Seen::Frame(text)).unwrap();
        }
    }
}

fn start(settings: SessionSettings) -> (Engine, Receiver<Seen>) {
    let (sender, seen) = channel();
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(Recorder(sender.clone())));
    (engine.unwrap(), seen)
}

fn settings(role: Role, address: &str, schedule: Option<ScheduleSettings>) -> SessionSettings {
    let (sender, target) =
        if role == Role::Acceptor { ("VENUE", "CLIENT") } else { ("CLIENT", "VENUE") };
    let id = SessionId::new(BeginString::Fix44, sender, target);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    settings.socket.reconnect_interval = Duration::from_millis(50);
    settings.schedule = schedule;
    settings
}

/// Returns two windows of three seconds, the first in three seconds. The second opens `apart`
/// seconds after the end of the first.
fn soon(apart: i64) -> ScheduleSettings {
    let start = clock::now().utc.0 / SECOND * SECOND;
    let time = |seconds: i64| {
        let moment = Timestamp(start + seconds * SECOND);
        Some(moment.to_string()[9..17].to_owned())
    };
    let window = |from, to| WindowSettings { from, to, ..WindowSettings::default() };
    let windows = vec![window(time(3), time(6)), window(time(6 + apart), time(9 + apart))];
    ScheduleSettings { windows, ..ScheduleSettings::in_zone("UTC") }
}

/// Returns a schedule with a window of one hour that opens in six hours, so that the session stays
/// closed during the test.
fn later() -> ScheduleSettings {
    let time = |hours: i64| {
        let moment = Timestamp(clock::now().utc.0 + hours * 3_600_000_000_000);
        Some(moment.to_string()[9..14].to_owned())
    };
    let (from, to) = (time(6), time(7));
    ScheduleSettings { from, to, ..ScheduleSettings::in_zone("UTC") }
}

#[test]
fn connects_and_logs_out_by_its_windows_and_begins_at_1_in_each() {
    let schedule = soon(3);
    let (venue, at_venue) = start(settings(Role::Acceptor, "127.0.0.1:0", Some(schedule.clone())));
    let address = venue.listening()[0].to_string();
    let hours = Schedule::new(&schedule).unwrap();
    let (_client, at_client) = start(settings(Role::Initiator, &address, Some(schedule)));
    let next = |seen: &Receiver<Seen>| seen.recv_timeout(LONG).unwrap();
    for _ in 0..2 {
        assert_eq!(next(&at_client), Seen::Logon(2, 2));
        assert_eq!(next(&at_venue), Seen::Logon(2, 2));
        assert_eq!(next(&at_client), Seen::Disconnect(Disconnect::LoggedOut));
        assert_eq!(next(&at_venue), Seen::Disconnect(Disconnect::LoggedOut));
        let closed = hours.at(clock::now().utc).is_none();
        assert!(closed, "logged out at the end, not before");
    }
}

#[test]
fn windows_that_touch_are_two_all_the_same() {
    let schedule = soon(0);
    let (venue, _at_venue) = start(settings(Role::Acceptor, "127.0.0.1:0", Some(schedule.clone())));
    let address = venue.listening()[0].to_string();
    let (_client, at_client) = start(settings(Role::Initiator, &address, Some(schedule)));
    let next = || at_client.recv_timeout(LONG).unwrap();
    assert_eq!(next(), Seen::Logon(2, 2));
    assert_eq!(next(), Seen::Disconnect(Disconnect::LoggedOut));
    assert_eq!(next(), Seen::Logon(2, 2), "numbers have started again");
}

#[test]
fn outside_of_its_window_an_acceptor_takes_no_logon() {
    let (venue, at_venue) = start(settings(Role::Acceptor, "127.0.0.1:0", Some(later())));
    let mut stream = TcpStream::connect(venue.listening()[0]).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let body = format!(
        "35=A|34=1|49=CLIENT|52={}|56=VENUE|98=0|108=30|",
        &clock::now().utc.to_string()[..17]
    );
    let head = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\u{1}");
    let sum = head.bytes().fold(0_u8, u8::wrapping_add);
    stream.write_all(format!("{head}10={sum:03}\u{1}").as_bytes()).unwrap();
    assert_eq!(stream.read(&mut [0; 64]).unwrap(), 0, "closed without a word");
    drop(venue);
    assert!(at_venue.try_recv().is_err());
}

#[test]
fn messages_outside_are_rejected_if_the_session_stays() {
    let schedule = ScheduleSettings {
        numbers: NumbersAtOpening::Keep,
        outside: Outside::Reject("Business messages are not accepted now".to_owned()),
        ..later()
    };
    let (venue, at_venue) = start(settings(Role::Acceptor, "127.0.0.1:0", Some(schedule)));
    let address = venue.listening()[0].to_string();
    let client = settings(Role::Initiator, &address, None);
    let id = client.id();
    let (client, at_client) = start(client);
    assert_eq!(at_client.recv_timeout(LONG).unwrap(), Seen::Logon(2, 2));
    let handle = client.session(&id).unwrap();
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "1")).unwrap();
    let Seen::Frame(reject) = at_client.recv_timeout(LONG).unwrap() else { panic!("no reject") };
    let expected = "|45=2|372=D|380=4|58=Business messages are not accepted now|";
    assert!(reject.contains(expected), "{reject}");
    assert_eq!(at_client.recv_timeout(LONG).unwrap(), Seen::Message, "it is of the application");
    assert_eq!(at_venue.recv_timeout(LONG).unwrap(), Seen::Logon(2, 2));
    assert!(at_venue.try_recv().is_err(), "nothing is delivered");
}
