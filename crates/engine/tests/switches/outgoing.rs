//! Tests messages that are sent without a logon, and messages that are returned unsent.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Durability, Message, Offline, Resend,
    SendError, Sent, SessionEvent, SessionHandle, SessionNotice, SessionRef, SessionView, Unsent,
    tag,
};
use transfix_testkit::app::App;

use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{echo, start, venue};

fn send(handle: &SessionHandle, id: &str) -> Result<Sent, SendError> {
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id))
}

#[test]
fn messages_wait_for_the_logon_in_order() {
    for queue_pause_ms in [0, 5] {
        let settings = venue(|s| {
            s.queue.offline = Offline::Queue;
            s.queue.queue_pause = Duration::from_millis(queue_pause_ms);
        });
        let (engine, address) = start(vec![settings], echo);
        let handle = engine.sessions().next().unwrap();
        for id in ["a", "b"] {
            assert!(matches!(send(&handle, id), Ok(Sent::Queued { .. })));
        }
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30");
        assert!(wire.next().starts_with("35=A|34=1|"));
        // A message sent right after the logon still follows the waiting ones.
        send(&handle, "c").unwrap();
        for expected in ["35=D|34=2|11=a", "35=D|34=3|11=b", "35=D|34=4|11=c"] {
            assert_eq!(wire.next(), expected);
        }
    }
    let (engine, _) = start(vec![venue(|_| ())], echo);
    let refused = send(&engine.sessions().next().unwrap(), "a");
    assert_eq!(refused, Err(SendError::NotLoggedOn));
}

/// Threads that send at the same time without a logon lose no message, although only the session's
/// lock orders them.
#[test]
fn threads_that_send_offline_at_once_lose_nothing() {
    const EACH: u64 = 500;
    for offline in [Offline::Store, Offline::Queue] {
        let (engine, address) = start(vec![venue(|s| s.queue.offline = offline)], echo);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let handle = engine.sessions().next().unwrap();
                scope.spawn(move || {
                    for n in 0..EACH {
                        send(&handle, &format!("{thread}-{n:03}")).unwrap();
                    }
                });
            }
        });
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30");
        assert!(wire.next().starts_with("35=A|34="));
        if offline == Offline::Store {
            wire.send("35=2|34=2|7=1|16=0");
        }
        // The lines are sorted by MsgSeqNum(34). A message that was still queued at the logon
        // arrives before the resent ones, and a second time among them.
        let mut by_number = BTreeMap::new();
        while by_number.len() < 2 * EACH as usize {
            let order = wire.next();
            let field = |tag| order.split('|').find_map(|field| field.strip_prefix(tag));
            if let Some(id) = field("11=") {
                let seq: u64 = field("34=").unwrap().parse().unwrap();
                by_number.insert(seq, id.to_owned());
            }
        }
        let ids: Vec<_> = by_number.into_values().collect();
        for thread in ["0-", "1-"] {
            let of_thread: Vec<_> = ids.iter().filter(|id| id.starts_with(thread)).collect();
            assert_eq!(of_thread.len(), EACH as usize);
            assert!(of_thread.is_sorted(), "the order of a thread is kept");
        }
    }
}

/// Returns an application that reports the messages which are returned unsent.
fn unsent_recorder(sender: Sender<(String, SendError)>) -> App {
    App::new(|_, _| Ok(())).on_notice(move |notice, _| {
        if let SessionNotice::Unsent(unsent) = notice {
            let line = format!("{}|{}", unsent.msg_type, unsent.body.escape_ascii());
            sender.send((line, unsent.why)).unwrap();
        }
    })
}

#[test]
fn what_was_not_sent_comes_back_at_the_end() {
    for (unsent, expected) in [(Unsent::Keep, 0), (Unsent::Return, 2)] {
        let (sender, returned) = channel();
        let settings = venue(|s| {
            s.queue.offline = Offline::Queue;
            s.queue.unsent = unsent;
        });
        let (engine, _) = start(vec![settings], || unsent_recorder(sender.clone()));
        let handle = engine.sessions().next().unwrap();
        send(&handle, "a").unwrap();
        send(&handle, "b").unwrap();
        drop(handle);
        let _ = engine.stop(Duration::from_secs(1));
        let line = |id: &str| (format!("D|11={id}\\x01"), SendError::Closed);
        let lines = [line("a"), line("b")];
        assert_eq!(returned.try_iter().collect::<Vec<_>>(), lines[..expected]);
    }
}

/// Messages that wait only in memory are returned at the end of the engine, whatever `unsent` says,
/// because they would be lost.
#[test]
fn what_waits_in_memory_alone_comes_back_at_the_end() {
    for (offline, unsent, expected) in [
        (Offline::Refuse, Unsent::Keep, 2),
        (Offline::Refuse, Unsent::Return, 2),
        (Offline::Store, Unsent::Keep, 2),
        (Offline::Queue, Unsent::Keep, 0),
    ] {
        let (sender, returned) = channel();
        let settings = venue(|s| (s.queue.offline, s.queue.unsent) = (offline, unsent));
        let (engine, address) = start(vec![settings], || unsent_recorder(sender.clone()));
        let handle = engine.sessions().next().unwrap();
        let _wire = crate::switches::logged_on(address);
        handle.operate(&Action::HoldSending {}).unwrap();
        for id in ["a", "b"] {
            assert!(matches!(send(&handle, id), Ok(Sent::Queued { .. })));
        }
        let _ = engine.stop(Duration::from_millis(1));
        let back: Vec<_> = returned.try_iter().map(|(line, _)| line).collect();
        let lines = ["a", "b"].map(|id| format!("D|11={id}\\x01"));
        assert_eq!(back, lines[..expected], "{offline:?} {unsent:?}");
        assert_eq!(send(&handle, "c"), Err(SendError::Closed));
    }
}

/// Returns an application that reports each returned message, and panics then.
fn fragile(sender: Sender<String>) -> App {
    App::new(|_, _| Ok(())).on_notice(move |notice, _| {
        if let SessionNotice::Unsent(unsent) = notice {
            sender.send(unsent.body.escape_ascii().to_string()).unwrap();
            panic!("at each message");
        }
    })
}

#[test]
fn a_panic_at_a_message_that_comes_back_hides_none_of_the_others() {
    let expected = ["a", "b", "c"].map(|id| format!("11={id}\\x01"));
    let ways = [Offline::Refuse, Offline::Queue];
    // With `power`, messages become durable while the engine waits for the device at its end.
    let ways = ways.map(|way| [(way, Durability::Process), (way, Durability::Power)]);
    for (offline, durability) in ways.into_iter().flatten() {
        let dir = TempDir::new();
        let (sender, returned) = channel();
        let settings = venue(|s| {
            (s.queue.offline, s.queue.unsent) = (offline, Unsent::Return);
            s.store.durability = durability;
            s.store.store_dir = dir.path().to_owned();
        });
        let (engine, address) = start(vec![settings], || fragile(sender.clone()));
        let handle = engine.sessions().next().unwrap();
        let wire = (offline == Offline::Refuse).then(|| crate::switches::logged_on(address));
        if wire.is_some() {
            handle.operate(&Action::HoldSending {}).unwrap();
        }
        for id in ["a", "b", "c"] {
            send(&handle, id).unwrap();
        }
        let _ = engine.stop(Duration::from_millis(1));
        let returned: Vec<_> = returned.try_iter().collect();
        assert_eq!(returned, expected, "{offline:?}, {durability:?}");
    }
}

/// A message does not overtake messages that are held back, even without a connection and with
/// `offline = "store"`.
#[test]
fn what_is_held_back_keeps_its_order_without_a_connection() {
    let settings = venue(|s| s.queue.offline = Offline::Store);
    let (engine, address) = start(vec![settings], echo);
    let handle = engine.sessions().next().unwrap();
    let wire = crate::switches::logged_on(address);
    handle.operate(&Action::HoldSending {}).unwrap();
    send(&handle, "a").unwrap();
    drop(wire);
    while handle.is_logged_on() {
        std::thread::yield_now();
    }
    assert!(matches!(send(&handle, "b"), Ok(Sent::Queued { .. })));
    handle.operate(&Action::ReleaseSending {}).unwrap();
    // Sending `c` also stores `a` and `b`, if the worker has not stored them yet.
    send(&handle, "c").unwrap();
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=2|98=0|108=30");
    assert!(wire.next().starts_with("35=A|34="));
    wire.send("35=2|34=3|7=2|16=0");
    for id in ["a", "b", "c"] {
        let order = wire.next();
        assert!(order.ends_with(&format!("|11={id}")), "{order}");
    }
}

/// A message that exceeds the counterparty's size limit is returned at once; it was accepted before
/// the limit was known.
#[test]
fn what_cannot_be_sent_comes_back_at_once() {
    let (sender, returned) = channel();
    let settings = venue(|s| s.queue.offline = Offline::Queue);
    let (engine, address) = start(vec![settings], || unsent_recorder(sender.clone()));
    send(&engine.sessions().next().unwrap(), &"x".repeat(100)).unwrap();
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30|383=100");
    assert!(wire.next().starts_with("35=A|"));
    let (_, why) = returned.recv_timeout(crate::switches::LONG).unwrap();
    assert_eq!(why, SendError::TooLong { bytes_max: 100 });
}

#[test]
fn sending_is_held_back_and_goes_on() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let handle = engine.sessions().next().unwrap();
    let mut wire = crate::switches::logged_on(address);
    handle.operate(&Action::HoldSending {}).unwrap();
    for id in ["a", "b"] {
        assert!(matches!(send(&handle, id), Ok(Sent::Queued { .. })));
    }
    let waiting = handle.queued();
    assert_eq!(waiting[0], ("D".to_owned(), b"11=a\x01".to_vec()));
    assert_eq!(waiting.len(), 2);
    wire.send("35=D|34=2|11=echo");
    assert_eq!(wire.next(), "35=D|34=2|11=echo", "out of turn");
    handle.operate(&Action::ReleaseSending {}).unwrap();
    assert_eq!((wire.next(), wire.next()), ("35=D|34=3|11=a".into(), "35=D|34=4|11=b".into()));
    handle.operate(&Action::HoldSending {}).unwrap();
    send(&handle, "c").unwrap();
    assert_eq!(handle.queued().len(), 1);
    assert_eq!((handle.operate(&Action::ClearQueued {}), handle.queued().len()), (Ok(()), 0));
    handle.operate(&Action::ReleaseSending {}).unwrap();
    send(&handle, "d").unwrap();
    assert_eq!(wire.next(), "35=D|34=5|11=d");
}

/// Returns an application that skips stale messages in resends.
fn skips_resends() -> App {
    App::new(|_, _| Ok(())).on_resend(|message, _| {
        if message.raw(tag::CL_ORD_ID) == Some(b"stale") { Resend::Skip } else { Resend::Send }
    })
}

#[test]
fn the_application_chooses_what_is_sent_again() {
    let (engine, address) = start(vec![venue(|_| ())], skips_resends);
    let handle = engine.sessions().next().unwrap();
    let mut wire = crate::switches::logged_on(address);
    for id in ["fresh", "stale", "last"] {
        send(&handle, id).unwrap();
        wire.next();
    }
    wire.send("35=2|34=2|7=2|16=0");
    assert!(wire.next().starts_with("35=D|34=2|43=Y"));
    assert!(wire.next().starts_with("35=4|34=3|43=Y"));
    assert!(wire.next().starts_with("35=D|34=4|43=Y"));
}

#[test]
fn during_the_pause_after_a_logon_messages_keep_their_order() {
    let (engine, address) =
        start(vec![venue(|s| s.queue.queue_pause = Duration::from_secs(300))], echo);
    let handle = engine.sessions().next().unwrap();
    let _wire = crate::switches::logged_on(address);
    for id in ["a", "b"] {
        assert!(matches!(send(&handle, id), Ok(Sent::Queued { .. })));
    }
    assert_eq!(handle.queued().len(), 2);
}

/// Reports how often the same messages were requested, and disconnects at the third time.
fn patient(sender: Sender<u32>) -> App {
    App::new(|_, _| Ok(())).on_event(move |event, session| {
        if let SessionEvent::ResendLoop { times } = event {
            sender.send(times).unwrap();
            if times == 3 {
                session.disconnect();
            }
        }
    })
}

#[test]
fn the_application_hears_of_a_resend_loop_and_may_end_it() {
    for same_requests_max in [0, 1] {
        let (sender, told) = channel();
        let settings = venue(|s| s.resend.same_requests_max = same_requests_max);
        let (_engine, address) = start(vec![settings], || patient(sender.clone()));
        let mut wire = crate::switches::logged_on(address);
        for seq in 2..5 {
            wire.send(&format!("35=2|34={seq}|7=1|16=1"));
        }
        while !wire.next().is_empty() {}
        let expected = if same_requests_max == 0 { vec![2, 3] } else { vec![2] };
        assert_eq!(told.try_iter().collect::<Vec<_>>(), expected);
    }
}

/// Kept messages that the counterparty covers with a gap fill are discarded and counted.
#[test]
fn kept_messages_that_are_covered_are_counted() {
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let mut wire = crate::switches::logged_on(address);
    wire.send("35=D|34=3|11=a");
    assert!(wire.next().starts_with("35=2|"));
    wire.send("35=4|34=2|123=Y|36=4");
    wire.send("35=1|34=4|112=x");
    assert!(wire.next().starts_with("35=0|"));
    assert_eq!(engine.sessions().next().unwrap().counters().passed_over, 1);
}

/// An application that sends through a handle in its callbacks, while its thread holds the
/// session's lock.
struct FromWithin(std::sync::mpsc::Receiver<SessionHandle>, Option<SessionHandle>);

impl Application for FromWithin {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.1 = self.0.try_recv().ok().or(self.1.take());
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(_) = notice
            && let Some(handle) = &self.1
        {
            assert!(matches!(send(handle, "within"), Ok(Sent::Queued { .. })));
        }
    }
}

#[test]
fn a_callback_queues_into_its_own_session() {
    let (sender, handles) = channel();
    let handles = std::cell::Cell::new(Some(handles));
    let settings = venue(|s| s.queue.offline = Offline::Queue);
    let (engine, address) = start(vec![settings], || FromWithin(handles.take().unwrap(), None));
    sender.send(engine.sessions().next().unwrap()).unwrap();
    drop(crate::switches::logged_on(address));
    let mut wire = Wire::connect(address, BeginString::Fix44);
    loop {
        // The first connection may not have ended yet.
        wire.send("35=A|34=2|98=0|108=30");
        match wire.next().as_str() {
            "" => wire = Wire::connect(address, BeginString::Fix44),
            logon => break assert!(logon.starts_with("35=A|")),
        }
    }
    assert!(wire.next().ends_with("|11=within"));
}
