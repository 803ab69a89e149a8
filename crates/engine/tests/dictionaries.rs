//! Sessions with their own dictionaries: an alias with an overlay, and several versions together.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Application, BusinessReject, Engine, Message, SessionEvent, SessionHandle, SessionRef,
    Settings, Tag, tag,
};
use transfix_testkit::temp::TempDir;

const LONG: Duration = Duration::from_secs(300);

/// An application that forwards received messages to the test, and answers orders.
struct Side {
    events: Sender<String>,
}

impl Side {
    fn tell(&self, message: &Message<'_>) {
        let shown = [tag::MSG_TYPE, tag::REF_TAG_ID, tag::SESSION_REJECT_REASON];
        let fields = message.fields().filter(|field| shown.contains(&field.tag));
        let fields = fields.map(|f| format!("{}={}", f.tag, f.value.escape_ascii()));
        // The send fails on the venue's side, which has no receiver.
        let _ = self.events.send(fields.collect::<Vec<_>>().join("|"));
    }
}

impl Application for Side {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if message.msg_type() == b"D" {
            let text = |body: &mut transfix::Body<'_>| _ = body.str(Tag(148), "taken");
            session.send("B", text).unwrap();
            return Ok(());
        }
        self.tell(message);
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        match event {
            SessionEvent::AdminMessage(message) if message.msg_type() == b"3" => {
                self.tell(message);
            }
            SessionEvent::LoggedOn => {
                let _ = self.events.send("logon".to_owned());
            }
            _ => {}
        }
    }
}

/// Starts a venue with these settings, and a client that does not validate messages.
fn connected(head: &str, session: &str) -> ((Engine, Engine), SessionHandle, Receiver<String>) {
    let common = format!("{session}\ndurability = \"memory\"\nreset_on = [\"logon\"]\n");
    let venue = format!(
        "{head}\n[[session]]\nrole = \"acceptor\"\nsender_comp_id = \"V\"\n\
         target_comp_id = \"C\"\naddress = \"127.0.0.1:0\"\n{common}"
    );
    let venue = Settings::parse("venue.toml", &venue).unwrap();
    let unheard = channel().0;
    let venue = Engine::start(&venue, |_| Box::new(Side { events: unheard.clone() })).unwrap();
    let address = venue.listening()[0];
    let own = common.lines().filter(|line| !line.contains("dictionary"));
    let own = own.filter(|line| !line.contains("appl_versions")).collect::<Vec<_>>().join("\n");
    let client = format!(
        "[[session]]\nrole = \"initiator\"\nsender_comp_id = \"C\"\ntarget_comp_id = \"V\"\n\
         address = \"{address}\"\nvalidate = false\nreconnect_interval_ms = 10\n{own}\n"
    );
    let client = Settings::parse("client.toml", &client).unwrap();
    let (events, received) = channel();
    let client = Engine::start(&client, |_| Box::new(Side { events: events.clone() })).unwrap();
    let session = client.sessions().next().unwrap();
    assert_eq!(received.recv_timeout(LONG).unwrap(), "logon");
    ((venue, client), session, received)
}

/// Sends an order with additional fields.
fn order(session: &SessionHandle, more: &[(u32, &str)]) {
    let sent = session.send("D", |order| {
        for (tag, value) in more {
            order.str(Tag(*tag), value);
        }
        order.str(tag::CL_ORD_ID, "1").char(Tag(21), b'1').str(tag::SYMBOL, "S");
        order.char(tag::SIDE, b'1').uint(tag::ORDER_QTY, 1).char(tag::ORD_TYPE, b'1');
        order.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
    });
    sent.unwrap();
}

#[test]
fn an_overlay_makes_a_field_legal_and_required() {
    let dir = TempDir::new();
    let overlay = dir.path().join("venue.xml");
    let text = "<fix><fields><field number='9001' name='VenueFlag' type='BOOLEAN'/></fields>\
                <messages><message name='NewOrderSingle'><field name='VenueFlag' required='Y'/>\
                </message></messages></fix>";
    fs::write(&overlay, text).unwrap();
    let head = format!("[dictionaries]\nVENUE = {{ base = \"FIX44\", overlays = [{overlay:?}] }}");
    let session = "begin_string = \"FIX.4.4\"\ndictionary = \"VENUE\"";
    let (engines, session, events) = connected(&head, session);
    let next = || events.recv_timeout(LONG).unwrap();
    order(&session, &[(9001, "Y")]);
    assert_eq!(next(), "35=B");
    order(&session, &[]);
    assert_eq!(next(), "35=3|371=9001|373=1");
    order(&session, &[(9001, "x")]);
    assert_eq!(next(), "35=3|371=9001|373=6");
    drop(engines);
}

#[test]
fn messages_name_their_version() {
    let session = "begin_string = \"FIXT.1.1\"\ndefault_appl_ver_id = 9\n\
                   appl_versions = { 4 = \"FIX42\" }";
    let (engines, session, events) = connected("", session);
    let next = || events.recv_timeout(LONG).unwrap();
    // FIX 4.4 has removed MaturityDay(205), so only an older version allows it.
    order(&session, &[(1128, "4"), (205, "15")]);
    assert_eq!(next(), "35=B");
    order(&session, &[(205, "15")]);
    assert_eq!(next(), "35=3|371=205|373=0");
    drop(engines);
}

/// A value out of range that code sets makes the start fail; in a file, the reader refuses it.
#[test]
fn what_is_out_of_range_in_code_is_an_error_of_the_start() {
    let mut settings = Settings::default();
    settings.engine.latency_unusual_percent = 100;
    let started = Engine::start(&settings, |_| Box::new(Side { events: channel().0 }));
    let Err(error) = started else { panic!("started") };
    let why = "[engine]: latency_unusual_percent must be at least 101, not 100";
    assert!(error.to_string().ends_with(why), "{error}");
}

#[test]
fn a_wrong_overlay_is_an_error_of_the_start() {
    let dir = TempDir::new();
    let overlay = dir.path().join("venue.xml");
    fs::write(&overlay, "<fix>\n<header><field name='Nowhere'/></header></fix>").unwrap();
    let text = format!(
        "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"V\"\n\
         target_comp_id = \"C\"\naddress = \"127.0.0.1:0\"\ndurability = \"memory\"\n\
         dictionary = {{ base = \"FIX44\", overlays = [{overlay:?}] }}\n"
    );
    let settings = Settings::parse("venue.toml", &text).unwrap();
    let started = Engine::start(&settings, |_| Box::new(Side { events: channel().0 }));
    let Err(error) = started else { panic!("started with a wrong overlay") };
    let shown = error.to_string();
    assert!(shown.starts_with("venue.toml:8: FIX.4.4:V->C: dictionary: "), "{shown}");
    assert!(shown.contains("venue.xml:2: field 'Nowhere': "), "{shown}");
}

#[test]
fn a_dictionary_that_is_not_there_names_file_key_and_line() {
    let head = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIXT.1.1\"\n\
                sender_comp_id = \"V\"\ntarget_comp_id = \"C\"\naddress = \"127.0.0.1:0\"\n\
                durability = \"memory\"\ndefault_appl_ver_id = 9\n";
    for (keys, expected) in [
        ("dictionary = \"no/such.xml\"\n", "9: FIXT.1.1:V->C: dictionary: no/such.xml: "),
        (
            "dictionary = { base = \"FIX50SP2\", overlays = [\"gone.xml\"] }\n",
            "9: FIXT.1.1:V->C: dictionary: gone.xml: ",
        ),
        (
            "\nappl_versions = { 4 = \"gone.xml\" }\n",
            "10: FIXT.1.1:V->C: appl_versions: gone.xml: ",
        ),
    ] {
        let settings = Settings::parse("venue.toml", &format!("{head}{keys}")).unwrap();
        let started = Engine::start(&settings, |_| Box::new(Side { events: channel().0 }));
        let Err(error) = started else { panic!("started without its dictionary") };
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("venue.toml:{expected}")), "{shown}");
    }
}

/// Returns the log events that this thread causes while `run` runs.
fn logged(run: impl FnOnce()) -> String {
    let file = tempfile();
    let writer = file.1.try_clone().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.try_clone().unwrap())
        .finish();
    tracing::subscriber::with_default(subscriber, run);
    fs::read_to_string(file.0.path().join("log")).unwrap()
}

fn tempfile() -> (TempDir, fs::File) {
    let dir = TempDir::new();
    let file = fs::File::create(dir.path().join("log")).unwrap();
    (dir, file)
}

#[test]
fn a_dictionary_of_another_version_warns() {
    for (keys, expected) in [
        (
            "dictionary = \"FIX42\"\n",
            "venue.toml:8: FIX.4.4:V->C: dictionary: the messages are of FIX44",
        ),
        ("dictionary = \"FIX44\"\n", ""),
        ("", ""),
    ] {
        let text = format!(
            "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
             sender_comp_id = \"V\"\ntarget_comp_id = \"C\"\naddress = \"127.0.0.1:0\"\n\
             durability = \"memory\"\n{keys}"
        );
        let settings = Settings::parse("venue.toml", &text).unwrap();
        let text = logged(|| {
            drop(Engine::start(&settings, |_| Box::new(Side { events: channel().0 })).unwrap());
        });
        assert_eq!(text.contains(" WARN "), !expected.is_empty(), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}
