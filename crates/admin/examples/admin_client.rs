//! A client of the administration over FIX: logs on, requests the list of sessions by XMLnonFIX(n),
//! prints the answer, and logs out.
//!
//! ```text
//! TRANSFIX_ADMIN_PASSWORD=... cargo run -p transfix-admin --example admin_client \
//!     127.0.0.1:9891 anna
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, Message, ResetPolicy, Role,
    Secret, SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView,
    Settings, Tag, tag,
};

const PATIENCE: Duration = Duration::from_secs(10);
/// MonitoringRequestId(9207); an answer repeats the id of its request.
const MONITORING_REQUEST_ID: Tag = Tag(9207);

/// The application of the session; it forwards answers and events to the main thread.
struct Client(Sender<Result<String, String>>);

impl Application for Client {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let xml = String::from_utf8_lossy(message.raw(tag::XML_DATA).unwrap_or_default());
        let id = String::from_utf8_lossy(message.raw(MONITORING_REQUEST_ID).unwrap_or_default());
        // The send may fail, because the main thread may have stopped waiting.
        let _ = self.0.send(Ok(format!("{id}: {xml}")));
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            let _ = self.0.send(Ok(format!("{} is logged on", session.id())));
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.0.send(Err(end.to_string()));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(user)) = (args.next(), args.next()) else {
        return Err("usage: admin_client HOST:PORT USER".into());
    };
    let id = SessionId::new(BeginString::Fix44, "MONITOR", "FIXADMIN");
    let mut session = SessionSettings::new(Role::Initiator, &id, &address);
    session.logon.username = Some(user);
    session.logon.password = Some(Secret::new(std::env::var("TRANSFIX_ADMIN_PASSWORD")?));
    // The sequence numbers of an administration session begin at 1 with each Logon(A), so no store
    // on disk is needed.
    session.store.durability = Durability::Memory;
    session.protocol.reset_on = ResetPolicy::LOGON;
    // Validation is off, because no standard dictionary contains tag 9207.
    session.validation.validate = false;
    session.socket.reconnect_attempts_max = 1;
    let (sender, news) = channel();
    let engine = Engine::start(&Settings::of(session), |_| Box::new(Client(sender.clone())))?;
    println!("{}", news.recv_timeout(PATIENCE)??);
    let session = engine.session(&id).ok_or("no such session")?;
    session.send("n", |body| {
        body.data(tag::XML_DATA_LEN, tag::XML_DATA, b"<SessionsList RequestID=\"1\"/>");
        body.str(MONITORING_REQUEST_ID, "list-1");
    })?;
    println!("{}", news.recv_timeout(PATIENCE)??);
    engine.stop(Duration::from_secs(5));
    Ok(())
}
