//! Sessions that are added and removed while the engine runs.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use transfix::{
    Action, BeginString, Changes, Durability, Engine, EngineError, Mode, OperateError, Outcome,
    Role, SessionHandle, SessionId, SessionSettings, Settings, State, clock,
};
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{LONG, echo, logged_on, start, venue};

fn place(port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 77, 2, 1), port).into()
}

/// Returns the settings of an acceptor session at this address.
fn acceptor(
    at: SocketAddr,
    name: &str,
    change: impl FnOnce(&mut SessionSettings),
) -> SessionSettings {
    venue(|s| {
        s.address = at.to_string();
        s.target_comp_id = name.to_owned();
        change(s);
    })
}

fn add(engine: &mut Engine, settings: &SessionSettings) -> Result<SessionHandle, EngineError> {
    Ok(engine.add(settings, Box::new(echo()))?.unwrap())
}

/// Logs on as counterparty `name` and sends one order. Returns the two answers.
pub(super) fn day(at: SocketAddr, name: &str, seq: u64) -> [String; 2] {
    let mut wire = Wire::connect(at, BeginString::Fix44);
    wire.send(&format!("35=A|34={seq}|49={name}|98=0|108=30"));
    let logon = wire.next();
    wire.send(&format!("35=D|34={}|49={name}|11=a", seq + 1));
    [logon, wire.next()]
}

pub(super) fn until(mut what: impl FnMut() -> bool) {
    let end = clock::monotonic_ns() + LONG.as_nanos() as u64;
    while !what() {
        assert!(clock::monotonic_ns() < end, "it has not come about");
        thread::yield_now();
    }
}

#[test]
fn acceptors_are_added_and_removed_at_any_address() {
    let dir = TempDir::new();
    let (mut engine, known) = start(vec![venue(|_| ())], echo);
    let in_files = |s: &mut SessionSettings| {
        s.store.store_dir = dir.path().to_owned();
        s.store.durability = Durability::Process;
    };
    for at in [known, place(4_001)] {
        let mut settings = acceptor(at, "LATER", in_files);
        if at == known {
            // The settings still have port 0, for which the operating system has chosen a port.
            settings.address = "127.0.0.1:0".to_owned();
        }
        let id = settings.id();
        for round in 0..3 {
            let handle = add(&mut engine, &settings).unwrap();
            assert_eq!(engine.session(&id).unwrap().id(), &id);
            assert_eq!(engine.sessions().count(), 2);
            // The numbers continue after the removal, whose Logout(5) has also used one.
            let first = 1 + 3 * round + if at == known { 0 } else { 9 };
            let mut wire = Wire::connect(at, BeginString::Fix44);
            wire.send(&format!("35=A|34={first}|49=LATER|98=0|108=30"));
            assert_eq!(wire.next(), format!("35=A|34={first}|98=0|108=30"));
            wire.send(&format!("35=D|34={}|49=LATER|11=a", first + 1));
            assert_eq!(wire.next(), format!("35=D|34={}|11=a", first + 1));
            let answer = thread::spawn(move || {
                assert_eq!(wire.next(), format!("35=5|34={}|58=for the night", first + 2));
                wire.send(&format!("35=5|34={}|49=LATER", first + 2));
                wire.next()
            });
            let outcome =
                engine.remove(&id, "for the night", Duration::from_secs(60)).unwrap().unwrap();
            assert_eq!(answer.join().unwrap(), "");
            assert!(matches!(outcome.outcome, Outcome::Ended(_)), "{outcome:?}");
            assert_eq!((outcome.next_num_in, outcome.next_num_out), (first + 3, first + 3));
            assert!(engine.session(&id).is_none());
            assert_eq!(engine.sessions().count(), 1);
            assert!(matches!(handle.operate(&Action::LogOn {}), Err(OperateError::Closed)));
            assert_eq!(handle.next_numbers(), (first + 3, first + 3));
            assert!(engine.remove(&id, "", Duration::ZERO).is_err(), "it is gone");
            if at == known {
                let mut wire = Wire::connect(at, BeginString::Fix44);
                wire.send("35=A|34=1|49=LATER|98=0|108=30");
                assert_eq!(wire.next(), "", "nobody of that name");
            } else {
                assert!(TcpStream::connect(at).is_err(), "nobody listens there");
            }
            assert_eq!(engine.listening(), [known]);
        }
    }
    let mut first = logged_on(known);
    first.send("35=1|34=2|112=x");
    assert_eq!(first.next(), "35=0|34=2|112=x");
}

/// Returns settings of a polled initiator whose counterparty does not listen.
fn polled() -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "A", "B");
    let mut session = SessionSettings::new(Role::Initiator, &id, "127.0.0.1:1");
    (session.threads.mode, session.store.durability) = (Mode::Polled, Durability::Memory);
    session
}

/// Returns settings of an initiator that logs on to the venue at this address.
fn client(to: SocketAddr, mode: Mode) -> SessionSettings {
    venue(|s| {
        s.role = Role::Initiator;
        (s.sender_comp_id, s.target_comp_id) = ("CLIENT".to_owned(), "VENUE".to_owned());
        (s.address, s.threads.mode) = (to.to_string(), mode);
        s.protocol.reset_on.logon = true;
    })
}

/// Polls the engine until the session is logged on or off, as `is_logged_on` says.
fn poll_until(engine: &mut Engine, handle: &SessionHandle, is_logged_on: bool) {
    until(|| {
        engine.poll();
        handle.is_logged_on() == is_logged_on
    });
}

#[test]
fn a_polled_session_that_is_removed_leaves_the_others_their_turns() {
    let (_venue, to) = start(vec![venue(|s| s.protocol.reset_on.logon = true)], echo);
    let mut engine = Engine::start(&Settings::of(polled()), |_| Box::new(echo())).unwrap();
    let handle = add(&mut engine, &client(to, Mode::Polled)).unwrap();
    poll_until(&mut engine, &handle, true);
    engine.remove(&polled().id(), "", Duration::from_secs(60)).unwrap().unwrap();
    handle.operate(&Action::LogOut { text: String::new() }).unwrap();
    poll_until(&mut engine, &handle, false);
    handle.operate(&Action::LogOn {}).unwrap();
    poll_until(&mut engine, &handle, true);
}

#[test]
fn initiators_of_each_mode_are_added_to_an_engine_without_sessions_of_it() {
    let (_venue, to) = start(vec![venue(|s| s.protocol.reset_on.logon = true)], echo);
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin, Mode::Polled] {
        let settings = Settings::of(polled());
        let mut engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
        let session = client(to, mode);
        for _ in 0..3 {
            let handle = add(&mut engine, &session).unwrap();
            poll_until(&mut engine, &handle, true);
            let outcome = engine.remove(handle.id(), "", Duration::from_secs(60)).unwrap().unwrap();
            assert!(matches!(outcome.outcome, Outcome::Ended(_)), "{mode:?}: {outcome:?}");
            assert_eq!(handle.state(), State::Disconnected, "{mode:?}");
        }
        let outcomes = engine.stop(Duration::from_secs(1));
        assert_eq!(outcomes.len(), 1, "{mode:?}: {outcomes:?}");
    }
}

#[test]
fn what_cannot_be_added_leaves_nothing_behind() {
    let dir = TempDir::new();
    let (mut engine, known) = start(vec![venue(|_| ())], echo);
    let busy = std::net::TcpListener::bind(place(4_010)).unwrap();
    // A file with the name of the store directory, so that the store cannot open.
    std::fs::write(dir.path().join("file"), "").unwrap();
    let in_file = |s: &mut SessionSettings| {
        s.store.store_dir = dir.path().join("file");
        s.store.durability = Durability::Process;
    };
    for (settings, expected) in [
        (
            venue(|s| s.address = place(4_011).to_string()),
            "a session with this identity exists already",
        ),
        (
            acceptor(place(4_011), "LATER", |s| s.threads.mode = Mode::Polled),
            "without a session of",
        ),
        (acceptor(place(4_011), "*", |_| ()), "is a template"),
        (acceptor(place(4_010), "LATER", |_| ()), "listening at"),
        (acceptor(place(4_011), "LATER", in_file), "the store of"),
        (acceptor(place(4_011), "LATER", |s| s.socket.dscp = Some(64)), "dscp must be 0 to 63"),
        (acceptor(place(4_011), "LATER", |s| s.threads.cpu = Some(9_999)), "requires a thread"),
    ] {
        let error = engine.add(&settings, Box::new(echo())).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(engine.listening(), [known], "{expected}");
        assert_eq!(engine.sessions().count(), 1, "{expected}");
        assert!(TcpStream::connect(place(4_011)).is_err(), "{expected}");
    }
    drop(busy);
    add(&mut engine, &acceptor(place(4_010), "LATER", |_| ())).unwrap();
    assert_eq!(day(place(4_010), "LATER", 1)[1], "35=D|34=2|11=a");
}

#[test]
fn a_counterparty_that_does_not_answer_is_cut_at_the_deadline_and_others_go_on() {
    let other = acceptor(place(4_020), "OTHER", |s| s.address = "127.0.0.1:0".to_owned());
    let (mut engine, address) = start(vec![venue(|_| ()), other], echo);
    let mut silent = logged_on(address);
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let outcome = engine.remove(&id, "", Duration::from_millis(50)).unwrap().unwrap();
    assert_eq!(outcome.outcome, Outcome::DeadlinePassed);
    assert!(silent.next().starts_with("35=5|"));
    assert_eq!(silent.next(), "", "the connection is closed");
    assert_eq!(day(address, "OTHER", 1)[1], "35=D|34=2|11=a");
    // A session that is not connected or is still logging on is removed at once.
    let other = SessionId::new(BeginString::Fix44, "VENUE", "OTHER");
    engine.session(&other).unwrap().operate(&Action::LogOut { text: String::new() }).unwrap();
    engine.remove(&other, "", Duration::from_secs(60)).unwrap();
    assert_eq!(engine.sessions().count(), 0);
    assert!(engine.listening().is_empty());
}

#[test]
fn an_address_is_free_as_soon_as_its_last_session_is_removed() {
    let (mut engine, _) = start(vec![venue(|_| ())], echo);
    let first = engine.sessions().next().unwrap();
    let session = acceptor(place(4_070), "LATER", |_| ());
    let mut handles = Vec::new();
    for _ in 0..200 {
        handles.push(add(&mut engine, &session).unwrap());
        engine.remove(&session.id(), "", Duration::ZERO).unwrap();
    }
    // The identity becomes free again, even for a session of the start to which a handle exists.
    engine.remove(first.id(), "", Duration::ZERO).unwrap();
    add(&mut engine, &venue(|_| ())).unwrap();
}

#[test]
fn a_template_is_added_and_its_sessions_stay_when_it_goes() {
    let settings = Settings::of(venue(|_| ()));
    let builder = Engine::builder(&settings).admit(|_| Some(Box::new(echo())));
    let mut engine = builder.start(|_| Box::new(echo())).unwrap();
    let template = acceptor(place(4_030), "*", |_| ());
    assert!(engine.add(&template, Box::new(echo())).unwrap().is_none());
    assert_eq!(day(place(4_030), "ANYBODY", 1)[1], "35=D|34=2|11=a");
    assert_eq!(engine.sessions().count(), 2);
    let made = SessionId::new(BeginString::Fix44, "VENUE", "ANYBODY");
    assert!(engine.remove(&template.id(), "", Duration::ZERO).unwrap().is_none());
    assert_eq!(engine.sessions().count(), 2);
    let outcome = engine.remove(&made, "", Duration::from_secs(60)).unwrap().unwrap();
    assert!(outcome.next_num_in >= 3, "{outcome:?}");
    assert_eq!(engine.sessions().count(), 1);
    assert!(engine.listening().len() == 1, "with the template its listener went");
    assert!(engine.add(&template, Box::new(echo())).unwrap().is_none());
    // After each removal the session can be made again; its store is in memory, so it begins with
    // number 1.
    for _ in 0..3 {
        assert_eq!(day(place(4_030), "ANYBODY", 1)[1], "35=D|34=2|11=a");
        engine.remove(&made, "", Duration::from_secs(60)).unwrap().unwrap();
    }
}

#[test]
fn sessions_of_a_template_go_when_nobody_comes() {
    let dir = TempDir::new();
    let template = acceptor(place(4_060), "*", |s| {
        s.store.store_dir = dir.path().to_owned();
        s.store.durability = Durability::Process;
    });
    let mut settings = Settings::of(template);
    settings.engine.created_sessions_idle = Duration::from_secs(1);
    settings.engine.created_sessions_max = 1;
    let builder = Engine::builder(&settings).admit(|_| Some(Box::new(echo())));
    let engine = builder.start(|_| Box::new(echo())).unwrap();
    assert_eq!(day(place(4_060), "FIRST", 1)[1], "35=D|34=2|11=a");
    let mut refused = Wire::connect(place(4_060), BeginString::Fix44);
    refused.send("35=A|34=1|49=SECOND|98=0|108=30");
    assert_eq!(refused.next(), "", "there is room for one");
    until(|| engine.sessions().count() == 0);
    let mut wire = refused;
    // The acceptor sees the removal a little later than the list of sessions.
    until(|| {
        wire = Wire::connect(place(4_060), BeginString::Fix44);
        wire.send("35=A|34=1|49=SECOND|98=0|108=30");
        wire.next() == "35=A|34=1|98=0|108=30"
    });
    // Waits longer than the idle limit, which does not apply to a connected session.
    let long = clock::monotonic_ns() + 2_000_000_000;
    until(|| clock::monotonic_ns() > long);
    assert_eq!(engine.sessions().count(), 1);
    drop(wire);
    until(|| engine.sessions().count() == 0);
    // The new session continues with the numbers of its store.
    until(|| day(place(4_060), "FIRST", 3) == ["35=A|34=3|98=0|108=30", "35=D|34=4|11=a"]);
}

#[test]
fn other_settings_end_begin_and_leave_alone() {
    let dir = TempDir::new();
    let named = |name: &str, at: u16| {
        acceptor(place(at), name, |s| {
            s.store.store_dir = dir.path().to_owned();
            s.store.durability = Durability::Process;
        })
    };
    let of = |sessions: Vec<SessionSettings>| Settings { sessions, ..Settings::default() };
    let from = of(vec![named("STAYS", 4_040), named("GOES", 4_040), named("CHANGES", 4_041)]);
    let mut engine = Engine::start(&from, |_| Box::new(echo())).unwrap();
    let mut stays = Wire::connect(place(4_040), BeginString::Fix44);
    stays.send("35=A|34=1|49=STAYS|98=0|108=30");
    assert_eq!(stays.next(), "35=A|34=1|98=0|108=30");
    assert_eq!(day(place(4_041), "CHANGES", 1)[1], "35=D|34=2|11=a");
    // Without a connection, the session sends no Logout(5), which would use a number.
    let changes = engine.session(&named("CHANGES", 4_041).id()).unwrap();
    until(|| changes.state() == State::Disconnected);
    let mut to = of(vec![named("STAYS", 4_040), named("CHANGES", 4_042), named("COMES", 4_043)]);
    to.sessions[1].queue.queued_bytes_max = 1 << 20;
    to.engine.workers += 1;
    let changes = Changes::between(&from, &to);
    assert_eq!(
        changes.to_string(),
        "FIX.4.4:VENUE->GOES: removed\n\
         FIX.4.4:VENUE->CHANGES: restarts because these values changed: address, queued_bytes_max\n\
         FIX.4.4:VENUE->COMES: added\n\
         [engine]: workers will apply from the next start"
    );
    // Each attempt has one wrong setting, and must change nothing.
    type Spoil<'s> = &'s dyn Fn(&mut Settings);
    let busy = std::net::TcpListener::bind(place(4_044)).unwrap();
    let spoils: [(Spoil<'_>, &str); 5] = [
        (&|s| s.sessions[2].address = place(4_044).to_string(), "listening at"),
        (&|s| s.sessions[2].socket.dscp = Some(64), "dscp must be 0 to 63"),
        (
            &|s| s.sessions[2].target_comp_id = "STAYS".to_owned(),
            "a session with this identity exists already",
        ),
        (&|s| s.sessions[2].validation.dictionary = Some("nowhere.xml".into()), "nowhere.xml"),
        (&|s| s.sessions[2].target_comp_id = "*".to_owned(), "is a template"),
    ];
    for (spoil, expected) in spoils {
        let mut wrong = to.clone();
        spoil(&mut wrong);
        let error = engine
            .reload(&from, &wrong, Duration::ZERO, |_| Box::new(echo()))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        let ids: Vec<_> = engine.sessions().map(|s| s.id().target_comp_id.to_string()).collect();
        assert_eq!(ids, ["STAYS", "GOES", "CHANGES"], "{expected}");
    }
    drop(busy);
    let done = engine.reload(&from, &to, Duration::from_secs(10), |_| Box::new(echo())).unwrap();
    assert_eq!(done.changes, changes);
    assert!(done.failed.is_empty(), "{done:?}");
    assert_eq!(done.ended.len(), 2);
    stays.send("35=1|34=2|49=STAYS|112=x");
    assert_eq!(stays.next(), "35=0|34=2|112=x", "it has heard nothing of it");
    assert_eq!(day(place(4_043), "COMES", 1)[1], "35=D|34=2|11=a");
    // The numbers continue without a gap, because the session was not connected and sent no
    // Logout(5).
    let [logon, _] = day(place(4_042), "CHANGES", 3);
    assert_eq!(logon, "35=A|34=3|98=0|108=30");
    assert!(TcpStream::connect(place(4_041)).is_err());
    // A second reload with the same settings changes nothing.
    let again =
        engine.reload(&to, &to, Duration::ZERO, |_| unreachable!("nothing begins")).unwrap();
    assert!(again.changes.is_empty());
    assert_eq!(again.changes.to_string(), "nothing has changed");
}

#[test]
fn a_session_whose_new_settings_fail_goes_on_with_its_old_ones() {
    let dir = TempDir::new();
    let from = Settings::of(acceptor(place(4_050), "CHANGES", |_| ()));
    let mut engine = Engine::start(&from, |_| Box::new(echo())).unwrap();
    // A file with the name of the store directory, so that the store cannot open.
    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut to = from.clone();
    to.sessions[0].store.store_dir = dir.path().join("file");
    to.sessions[0].store.durability = Durability::Process;
    let done = engine.reload(&from, &to, Duration::ZERO, |_| Box::new(echo())).unwrap();
    assert!(done.failed[0].1.to_string().contains("the store of"), "{done:?}");
    assert_eq!(day(place(4_050), "CHANGES", 1)[1], "35=D|34=2|11=a");
}

#[test]
fn a_reload_leaves_added_sessions_alone_and_is_refused_with_one_of_them() {
    let from = Settings::of(acceptor(place(4_060), "OF-THE-FILE", |_| ()));
    let mut engine = Engine::start(&from, |_| Box::new(echo())).unwrap();
    let added = acceptor(place(4_060), "ADDED", |_| ());
    add(&mut engine, &added).unwrap();
    let mut wire = Wire::connect(place(4_060), BeginString::Fix44);
    wire.send("35=A|34=1|49=ADDED|98=0|108=30");
    assert_eq!(wire.next(), "35=A|34=1|98=0|108=30");
    let mut to = from.clone();
    to.sessions[0].queue.queued_bytes_max = 1 << 20;
    to.sessions.push(added.clone());
    let error =
        engine.reload(&from, &to, Duration::ZERO, |_| unreachable!("nothing begins")).unwrap_err();
    let expected = "FIX.4.4:VENUE->ADDED was added while the engine ran: remove the session before";
    assert!(error.to_string().starts_with(expected), "{error}");
    to.sessions.pop();
    let done = engine.reload(&from, &to, Duration::ZERO, |_| Box::new(echo())).unwrap();
    assert_eq!((done.changes.changed.len(), done.failed.len()), (1, 0));
    wire.send("35=1|34=2|49=ADDED|112=x");
    assert_eq!(wire.next(), "35=0|34=2|112=x", "it has heard nothing of either");
    // After its removal, the settings may contain the session that was added before.
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(wire.next(), "35=5|34=3|58=moves");
            wire.send("35=5|34=3|49=ADDED");
        });
        engine.remove(&added.id(), "moves", Duration::from_secs(10)).unwrap();
    });
    let both = Settings { sessions: vec![to.sessions[0].clone(), added], ..Settings::default() };
    let done = engine.reload(&done.settings, &both, Duration::ZERO, |_| Box::new(echo())).unwrap();
    assert_eq!((done.changes.added.len(), done.failed.len()), (1, 0));
}
