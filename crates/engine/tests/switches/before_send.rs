//! Tests what happens to a message before it is sent: fields from the settings, the program's hook,
//! and validation. Includes messages of another version than the session's.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use transfix::{
    AnswerOptions, ApplVerId, Application, BeforeSend, BeginString, BusinessReject, Engine,
    Message, MessageVersion, MsgType, Offline, OutgoingMessage, Reject, RejectReason, Role,
    SendError, SendMode, SendOptions, SessionId, SessionRef, SessionSettings, Tag, ValidateOut,
    Veto, msg_type, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{echo, logged_on, start, venue};

const ORDER: &str = "11=a|21=1|55=EU|54=1|60=20261121-12:00:00|38=5|40=2|44=30";

#[test]
fn fields_of_the_settings_stand_in_the_header_of_each_message() {
    let settings = venue(|s| {
        s.protocol.header_fields = vec![(Tag(115), "DESK".to_owned())];
        s.validation.validate = true;
    });
    let (engine, address) = start(vec![settings], echo);
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30");
    assert_eq!(wire.next(), "35=A|115=DESK|34=1|98=0|108=30");
    wire.send("35=1|34=2|112=x");
    assert_eq!(wire.next(), "35=0|115=DESK|34=2|112=x");
    let handle = engine.sessions().next().unwrap();
    handle.send("B", |news| _ = news.str(Tag(148), "n").uint(Tag(33), 0)).unwrap();
    assert_eq!(wire.next(), "35=B|115=DESK|34=3|148=n|33=0");
    wire.send("35=2|34=3|7=1|16=0");
    let gap = wire.next();
    assert!(gap.starts_with("35=4|34=1|43=Y|115=DESK|122="), "{gap}");
    let again = wire.next();
    assert!(again.starts_with("35=B|34=3|43=Y|122=") && again.contains("|115=DESK|"), "{again}");
    assert_eq!(again.matches("115=").count(), 1, "{again}");
}

#[test]
fn fields_of_the_settings_stand_in_the_bodies_that_have_a_place_for_them() {
    let account = || vec![(tag::ACCOUNT, "DESK7".to_owned())];
    let settings = venue(|s| s.protocol.body_fields = account());
    let (engine, address) = start(vec![settings], echo);
    let mut wire = logged_on(address);
    let handle = engine.sessions().next().unwrap();
    let order = |body: &[u8]| handle.send("D", |order| _ = order.fields(body)).unwrap();
    order(b"11=a\x0155=EU\x01");
    assert_eq!(wire.next(), "35=D|34=2|1=DESK7|11=a|55=EU");
    order(b"50=TRADER\x0111=b\x01");
    assert_eq!(wire.next(), "35=D|34=3|50=TRADER|1=DESK7|11=b", "behind the header");
    order(b"11=c\x011=OTHER\x01");
    assert_eq!(wire.next(), "35=D|34=4|11=c|1=OTHER", "it has one already");
    handle.send("B", |news| _ = news.str(Tag(148), "n")).unwrap();
    assert_eq!(wire.next(), "35=B|34=5|148=n", "News(B) has no account");
    wire.send("35=D|34=2|11=d");
    assert_eq!(wire.next(), "35=D|34=6|1=DESK7|11=d", "from a callback");
    handle.send("U7", |own| _ = own.str(tag::TEXT, "x")).unwrap();
    assert_eq!(wire.next(), "35=U7|34=7|58=x", "a type that the dictionary does not know");
    // A data field may contain any bytes, and no field is inserted between the Length field and its
    // data.
    order(b"90=3\x0191=\x011=\x0111=e\x01");
    assert_eq!(wire.next(), "35=D|34=8|90=3|91=\\x011=|1=DESK7|11=e");
}

#[test]
fn fields_that_nobody_would_take_are_an_error_of_the_start() {
    let fields = |tag, value: &str| vec![(Tag(tag), value.to_owned())];
    type Change = fn(&mut SessionSettings, Vec<(Tag, String)>);
    let header: Change = |s, fields| s.protocol.header_fields = fields;
    let body: Change = |s, fields| s.protocol.body_fields = fields;
    for (change, fields, expected) in [
        (header, fields(1, "ACC"), "header_fields: tag 1 is not in the standard header"),
        (
            header,
            fields(49, "X"),
            "header_fields: the session layer itself writes tag 49; \
                                   remove this entry",
        ),
        (header, fields(50, "X"), "header_fields: tag 50: use the setting sender_sub_id instead"),
        (header, fields(115, "a\x01b"), "header_fields: the value of tag 115 is empty or contains"),
        (body, fields(115, "DESK"), "body_fields: tag 115 is not in the body of any message"),
        (
            body,
            fields(34, "7"),
            "body_fields: the session layer itself writes tag 34; remove \
                                 this entry",
        ),
    ] {
        let mut settings = venue(|s| s.validation.validate = true);
        change(&mut settings, fields);
        let error = Engine::start(&transfix::Settings::of(settings), |_| Box::new(echo()));
        let error = error.err().expect("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// A hook that refuses messages for `NOT_THEM`, and adds an account to all others.
struct Look(AtomicU64);

impl BeforeSend for Look {
    fn before_send(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto> {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(&*message.session().target_comp_id, "CLIENT");
        if message.fields().raw(tag::CL_ORD_ID) == Some(b"bad") {
            return Err(Veto);
        }
        if message.msg_type() == msg_type::NEW_ORDER_SINGLE {
            message.set(tag::ACCOUNT, b"SEEN").map_err(|_| Veto)?;
            message.remove(tag::SYMBOL);
        }
        Ok(())
    }
}

/// Echoes each message. If the echo is refused, sends the reason.
struct Looking(Arc<Look>);

impl Application for Looking {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        match session.send(message.msg_type(), |copy| _ = copy.copy(message)) {
            Ok(_) => {}
            Err(why) => {
                let text = why.to_string();
                let _ = session.send("B", |news| _ = news.str(tag::TEXT, &text));
            }
        }
        Ok(())
    }

    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        Some(Arc::clone(&self.0) as Arc<dyn BeforeSend>)
    }
}

#[test]
fn the_program_looks_at_each_message_before_it_is_sent() {
    for (in_pool, send) in
        [(false, SendMode::Direct), (false, SendMode::Queued), (true, SendMode::Direct)]
    {
        let look = Arc::new(Look(AtomicU64::new(0)));
        let mut settings = transfix::Settings::of(venue(|s| {
            s.threads.send = send;
            s.application.in_pool = in_pool;
        }));
        settings.engine.application_threads = usize::from(in_pool);
        let engine = Engine::start(&settings, |_| Box::new(Looking(Arc::clone(&look)))).unwrap();
        let mut wire = logged_on(engine.listening()[0]);
        let handle = engine.sessions().next().unwrap();
        // This message is sent in a callback.
        wire.send("35=D|34=2|11=a|55=EU|54=1");
        assert_eq!(wire.next(), "35=D|34=2|11=a|54=1|1=SEEN");
        wire.send("35=D|34=3|11=bad|55=EU");
        let refused = "the hook `before_send` of the program refused the message";
        assert_eq!(wire.next(), format!("35=B|34=3|58={refused}"), "no number was used");
        // A message sent through a handle is refused at once, even if another thread runs the
        // session.
        let order = |id| handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id));
        order("b").unwrap();
        assert_eq!(wire.next(), "35=D|34=4|11=b|1=SEEN");
        assert_eq!(order("bad"), Err(SendError::Vetoed));
        assert_eq!(handle.send("D", |body| _ = body.fields(b"11=bad\x01")), Err(SendError::Vetoed));
        handle.send("D", |body| _ = body.fields(b"11=c\x0155=EU\x01")).unwrap();
        assert_eq!(wire.next(), "35=D|34=5|11=c|1=SEEN");
        let mut batch = handle.batch();
        for id in ["d", "e", "bad", "f"] {
            batch.add("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap();
        }
        let sent = handle.send_batch(&batch);
        assert_eq!((sent.sent.len(), sent.refused), (2, Some(SendError::Vetoed)));
        for expected in ["35=D|34=6|11=d|1=SEEN", "35=D|34=7|11=e|1=SEEN"] {
            assert_eq!(wire.next(), expected);
        }
        let looks = look.0.load(Ordering::Relaxed);
        // The hook does not receive resent messages or messages of the session layer.
        wire.send("35=2|34=4|7=7|16=7");
        assert!(wire.next().ends_with("|11=e|1=SEEN"));
        wire.send("35=1|34=5|112=x");
        assert_eq!(wire.next(), "35=0|34=8|112=x");
        assert_eq!(look.0.load(Ordering::Relaxed), looks);
    }
}

#[test]
fn a_message_that_waits_for_a_logon_is_looked_at_once() {
    for offline in [Offline::Queue, Offline::Store] {
        let look = Arc::new(Look(AtomicU64::new(0)));
        let (engine, address) =
            start(vec![venue(|s| s.queue.offline = offline)], || Looking(Arc::clone(&look)));
        let handle = engine.sessions().next().unwrap();
        let order = |id| handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id));
        assert_eq!(order("bad"), Err(SendError::Vetoed));
        order("a").unwrap();
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30");
        let logon = wire.next();
        if offline == Offline::Queue {
            assert_eq!(
                (&*logon, &*wire.next()),
                ("35=A|34=1|98=0|108=30", "35=D|34=2|11=a|1=SEEN")
            );
        } else {
            assert_eq!(logon, "35=A|34=2|98=0|108=30");
            wire.send("35=2|34=2|7=1|16=1");
            assert!(wire.next().ends_with("|11=a|1=SEEN"));
        }
        assert_eq!(look.0.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn what_the_counterparty_would_reject_is_refused_or_warned_of_or_sent() {
    let too_much = Reject::new(RejectReason::TagNotDefinedForMessage, Tag(44));
    for (validate_out, send, expected) in [
        (ValidateOut::Off, SendMode::Direct, Ok(())),
        (ValidateOut::Warn, SendMode::Direct, Ok(())),
        (ValidateOut::Refuse, SendMode::Direct, Err(SendError::Invalid(too_much))),
        (ValidateOut::Refuse, SendMode::Queued, Err(SendError::Invalid(too_much))),
    ] {
        let settings = venue(|s| {
            s.threads.send = send;
            s.validation.validate = true;
            s.validation.validate_out = validate_out;
            // Validation covers the header too.
            s.protocol.header_fields = vec![(Tag(115), "DESK".to_owned())];
        });
        let (engine, address) = start(vec![settings], echo);
        let mut wire = logged_on(address);
        let handle = engine.sessions().next().unwrap();
        let news = |further: &str| {
            handle.send("B", |news| {
                news.str(Tag(148), "n").uint(Tag(33), 1).str(tag::TEXT, "line");
                news.fields(format!("{further}\x01").as_bytes());
            })
        };
        news("61=1").unwrap();
        assert_eq!(wire.next(), "35=B|115=DESK|34=2|148=n|33=1|58=line|61=1");
        assert_eq!(news("44=7").map(drop), expected, "{validate_out:?}");
        let next = if expected.is_ok() { 4 } else { 3 };
        if expected.is_ok() {
            assert!(wire.next().ends_with("|44=7"));
        }
        news("61=2").unwrap();
        assert_eq!(wire.next(), format!("35=B|115=DESK|34={next}|148=n|33=1|58=line|61=2"));
        // An incomplete order is sent in a callback.
        wire.send(&format!("35=D|34=2|{ORDER}"));
        if expected.is_ok() {
            assert_eq!(wire.next(), format!("35=D|115=DESK|34={}|11=a", next + 1));
        }
        wire.send("35=1|34=3|112=x");
        assert!(wire.next().ends_with("|112=x"), "nothing else was sent");
    }
}

#[test]
fn warnings_about_what_goes_out_are_bounded_and_counted() {
    let settings = venue(|s| {
        s.validation.validate = true;
        s.validation.validate_out = ValidateOut::Warn;
    });
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || Lines(Arc::clone(&written)))
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let (engine, address) = start(vec![settings], echo);
        let mut wire = logged_on(address);
        let handle = engine.sessions().next().unwrap();
        for _ in 0..100 {
            handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "a")).unwrap();
            assert!(wire.next().starts_with("35=D|"));
        }
        drop(handle);
        engine.stop(Duration::ZERO);
    });
    let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    let would = "would reject";
    let of_them: Vec<_> = text.lines().filter(|line| line.contains(would)).collect();
    let one = "session=FIX.4.4:VENUE->CLIENT msg_type=D reject=Required tag missing, tag 55";
    assert!(of_them[0].contains(one), "{}", of_them[0]);
    assert_eq!(of_them.len(), 11, "{text}");
    assert!(of_them[10].contains("left_out=90"), "{}", of_them[10]);
}

/// A log writer that collects lines.
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn fixt(change: impl FnOnce(&mut SessionSettings)) -> SessionSettings {
    let id = SessionId::new(BeginString::Fixt11, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = transfix::Durability::Memory;
    settings.protocol.default_appl_ver_id = Some(ApplVerId(9));
    change(&mut settings);
    settings
}

fn fixt_logon(engine: &Engine, further: &str) -> (Wire, String) {
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fixt11);
    wire.send(&format!("35=A|34=1|98=0|108=30|1137=9{further}"));
    let answer = wire.next();
    (wire, answer)
}

/// Answers with the type of the received message.
fn names() -> App {
    App::new(|message, session| {
        let MsgType { .. } = message.msg_type();
        let version =
            MessageVersion { appl_ver_id: Some(ApplVerId(4)), ..MessageVersion::default() };
        let options = AnswerOptions { version, ..AnswerOptions::default() };
        let sent = session.send_with(options, "B", |news| {
            news.str(Tag(148), "taken").uint(Tag(33), 1).str(tag::TEXT, "x");
        });
        assert!(sent.is_ok(), "{sent:?}");
        Ok(())
    })
}

#[test]
fn a_message_of_another_standard_version_is_judged_by_its_own_dictionary() {
    let pack = || ("9+240".to_owned(), "FIX50SP1".into());
    let settings = fixt(|s| s.validation.appl_versions = [pack()].into());
    let (engine, _) = start(vec![settings], names);
    let (mut wire, logon) = fixt_logon(&engine, "");
    assert!(logon.starts_with("35=A|"), "{logon}");
    // The cases use fields that not all versions have. FIX 4.4 removed MaturityDay(205), FIX 5.0
    // added MatchIncrement(1089), and an extension pack added SelfMatchPreventionInstruction(2964).
    let cases = [
        ("", "205=4", "371=205"),
        ("1128=4|", "205=4", ""),
        ("1128=4|", "1089=1", "371=1089"),
        ("1128=7|", "1089=1", ""),
        ("1128=9|", "1089=1", ""),
        ("1128=8|", "2964=1", "371=2964"),
        ("1128=9|", "2964=1", ""),
        ("1128=9|1156=280|", "2964=1", ""),
        ("1128=9|1156=240|", "2964=1", "371=2964"),
        ("1156=240|", "2964=1", "371=2964"),
        ("1128=10|1156=240|", "1089=1", ""),
        ("1128=9|1156=x|", "1089=1", "371=1156"),
        (
            "1128=11|",
            "1089=1",
            "371=1128|372=D|373=18|58=Invalid or unsupported application version",
        ),
        ("1128=x|", "1089=1", "371=1128"),
        ("1129=MINE|", "1089=1", "371=1129"),
    ];
    for (number, (version, field, blamed)) in (2..).zip(cases) {
        wire.send(&format!("35=D|34={number}|{version}{ORDER}|{field}"));
        let answer = wire.next();
        if blamed.is_empty() {
            let taken = format!("35=B|34={number}|1128=4|148=taken|33=1|58=x");
            assert_eq!(answer, taken, "{version}{field}");
        } else {
            assert!(answer.starts_with("35=3|") && answer.contains(blamed), "{version}: {answer}");
        }
    }
}

#[test]
fn a_message_is_sent_as_of_another_version() {
    let settings = fixt(|s| s.validation.validate_out = ValidateOut::Refuse);
    let (engine, _) = start(vec![settings], names);
    let (mut wire, _) = fixt_logon(&engine, "");
    let handle = engine.sessions().next().unwrap();
    let version = |n| MessageVersion { appl_ver_id: Some(ApplVerId(n)), ..Default::default() };
    let as_of = |version| SendOptions { version, ..SendOptions::default() };
    let day = |version| {
        handle.send_with(as_of(version), "D", |order| {
            order.fields(format!("{ORDER}|205=4|").replace('|', "\x01").as_bytes());
        })
    };
    day(version(4)).unwrap();
    assert_eq!(wire.next(), format!("35=D|34=2|1128=4|{ORDER}|205=4"));
    let gone = Reject::new(RejectReason::TagNotDefinedForMessage, Tag(205));
    let refused = day(version(9)).unwrap_err();
    assert!(matches!(refused, SendError::Invalid(reject) if reject.tag == gone.tag), "{refused}");
    let mine =
        MessageVersion { cstm_appl_ver_id: Some("MINE"), appl_ext_id: Some(7), ..version(9) };
    let refused = day(mine).unwrap_err();
    assert!(refused.to_string().contains("1129"), "{refused}");
    let (engine, address) = start(vec![venue(|_| ())], echo);
    let _wire = logged_on(address);
    let sent = engine.sessions().next().unwrap().send_with(as_of(version(4)), "D", |_| ());
    assert_eq!(sent, Err(SendError::NoApplVerId));
}

#[test]
fn the_session_layer_of_fixt_has_fields_of_a_venues_own() {
    let dir = TempDir::new();
    let overlay = dir.path().join("venue-session.xml");
    let field = "<field number='9001' name='VenueDesk' type='STRING'/>";
    let of =
        |message: &str| format!("<message name='{message}'><field name='VenueDesk'/></message>");
    let xml = format!(
        "<fix><fields>{field}</fields><header><field name='VenueDesk'/></header>\
         <messages>{}{}</messages></fix>",
        of("Logon"),
        of("Heartbeat"),
    );
    write(&overlay, &xml);
    for has_overlay in [true, false] {
        let settings = fixt(|s| {
            if has_overlay {
                s.validation.session_dictionary = Some(transfix::DictionarySource {
                    overlays: vec![overlay.clone()],
                    ..transfix::DictionarySource::from("FIXT11")
                });
            }
        });
        let (engine, _) = start(vec![settings], names);
        let (mut wire, logon) = fixt_logon(&engine, "|9001=x");
        if !has_overlay {
            assert!(logon.starts_with("35=5|"), "{logon}");
            continue;
        }
        assert!(logon.starts_with("35=A|"), "{logon}");
        wire.send("35=0|34=2|9001=y");
        wire.send(&format!("35=D|34=3|9001=z|{ORDER}"));
        assert!(wire.next().ends_with("|148=taken|33=1|58=x"));
        wire.send("35=1|34=4|112=x|9001=y");
        let reject = wire.next();
        assert!(reject.starts_with("35=3|34=3|45=4|371=9001|"), "{reject}");
    }
}

fn write(path: &Path, text: &str) {
    std::fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}
