//! Tests the program's hook for administrative messages, which signs or refuses them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use transfix::codec::{CheckSumPolicy, FieldIndex};
use transfix::{
    Application, BeforeSend, BeginString, BusinessReject, Disconnect, Durability, Engine, Message,
    OutgoingMessage, Role, SessionId, SessionRef, SessionSettings, Settings, Tag, Veto, tag,
};

use crate::switches::dynamic::until;
use crate::switches::venue;
use crate::switches::wire::Wire;

/// The venue's own field for a signature.
const SIGNATURE: Tag = Tag(9001);

/// A hook that signs each administrative message. While `vetoes` is set, it refuses messages of one
/// type.
struct Signer {
    vetoes: AtomicBool,
    vetoed: &'static str,
    shown: Mutex<Vec<String>>,
}

impl Signer {
    fn new(vetoed: &'static str) -> Arc<Self> {
        let vetoes = AtomicBool::new(!vetoed.is_empty());
        Arc::new(Self { vetoes, vetoed, shown: Mutex::default() })
    }
}

impl BeforeSend for Signer {
    fn before_send(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto> {
        assert_eq!((message.msg_seq_num(), message.sending_time()), (None, None));
        Ok(())
    }

    fn before_admin(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto> {
        let msg_type = message.msg_type().to_string();
        self.shown.lock().unwrap().push(msg_type.clone());
        if self.vetoes.load(Ordering::Relaxed) && msg_type == self.vetoed {
            return Err(Veto);
        }
        let (number, time) = (message.msg_seq_num().unwrap(), message.sending_time().unwrap());
        let signature = format!("{number} {time}");
        message.set(SIGNATURE, signature.as_bytes()).map_err(|_| Veto)
    }
}

struct Desk(Arc<Signer>);

impl Application for Desk {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let _ = session.send("B", |news| _ = news.str(tag::TEXT, "x"));
        Ok(())
    }

    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        Some(Arc::clone(&self.0) as Arc<dyn BeforeSend>)
    }
}

fn start(settings: SessionSettings, signer: &Arc<Signer>, in_pool: bool) -> Engine {
    let mut settings = Settings::of(settings);
    settings.sessions[0].application.in_pool = in_pool;
    settings.engine.application_threads = usize::from(in_pool);
    Engine::start(&settings, |_| Box::new(Desk(Arc::clone(signer)))).unwrap()
}

/// Returns the type of the next message, and checks the signature over its number and time.
fn signed(wire: &mut Wire) -> String {
    let bytes = wire.next_frame();
    let mut index = FieldIndex::default();
    let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
    let (number, time) = (message.text(tag::MSG_SEQ_NUM), message.text(tag::SENDING_TIME));
    let expected = format!("{} {}", number.unwrap(), time.unwrap());
    assert_eq!(message.text(SIGNATURE).unwrap(), expected, "{}", bytes.escape_ascii());
    message.msg_type().to_string()
}

#[test]
fn an_acceptor_signs_what_its_session_layer_sends() {
    for in_pool in [false, true] {
        let signer = Signer::new("");
        let engine = start(venue(|_| ()), &signer, in_pool);
        let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30");
        assert_eq!(signed(&mut wire), "A");
        wire.send("35=1|34=2|112=x");
        assert_eq!(signed(&mut wire), "0");
        // The hook does not see application messages, resent messages, or gap fills.
        wire.send("35=D|34=3|11=a");
        assert_eq!(wire.next(), "35=B|34=3|58=x");
        wire.send("35=2|34=4|7=1|16=0");
        assert!(wire.next().starts_with("35=4|34=1|43=Y|"));
        assert!(wire.next().starts_with("35=B|34=3|43=Y|"));
        wire.send("35=1|34=5");
        assert_eq!(signed(&mut wire), "3");
        wire.send("35=0|34=9");
        assert_eq!(signed(&mut wire), "2");
        wire.send("35=A|34=1|98=0|108=30|141=Y");
        assert_eq!(signed(&mut wire), "A", "number 1 again");
        wire.send("35=5|34=2");
        assert_eq!(signed(&mut wire), "5");
        assert_eq!(*signer.shown.lock().unwrap(), ["A", "0", "3", "2", "A", "5"]);
    }
}

#[test]
fn an_initiator_signs_its_logon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let address = listener.local_addr().unwrap();
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address.to_string());
    settings.store.durability = Durability::Memory;
    settings.protocol.reset_on.logon = true;
    let signer = Signer::new("");
    let _engine = start(settings, &signer, false);
    let mut wire = Wire::of(listener.accept().unwrap().0, BeginString::Fix44);
    assert_eq!(signed(&mut wire), "A");
}

#[test]
fn a_vetoed_message_ends_the_connection_and_uses_no_number() {
    for in_pool in [false, true] {
        let signer = Signer::new("0");
        let engine = start(venue(|_| ()), &signer, in_pool);
        let handle = engine.sessions().next().unwrap();
        let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30");
        assert_eq!(signed(&mut wire), "A");
        wire.send("35=1|34=2|112=x");
        assert_eq!(wire.next(), "");
        until(|| handle.status().last_end.is_some_and(|end| end.reason == Disconnect::Vetoed));
        signer.vetoes.store(false, Ordering::Relaxed);
        let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
        wire.send("35=A|34=3|98=0|108=30");
        assert!(wire.next().starts_with("35=A|34=2|"));
    }
}

#[test]
fn a_session_whose_logon_is_vetoed_is_not_logged_on() {
    let signer = Signer::new("A");
    let engine = start(venue(|_| ()), &signer, false);
    let handle = engine.sessions().next().unwrap();
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30");
    assert_eq!(wire.next(), "");
    until(|| handle.status().last_end.is_some_and(|end| end.reason == Disconnect::Vetoed));
    assert_eq!((handle.counters().logons, handle.counters().logons_refused), (0, 1));
    signer.vetoes.store(false, Ordering::Relaxed);
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
    wire.send("35=A|34=2|98=0|108=30");
    assert!(wire.next().starts_with("35=A|34=1|"));
}
