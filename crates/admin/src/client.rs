//! A client of the administration over FIX. Its session sends commands as XML in XMLnonFIX(n)
//! messages and waits for the answers.

use std::collections::VecDeque;
use std::fmt;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, Message, Role, Secret,
    SessionEvent, SessionHandle, SessionId, SessionNotice, SessionRef, SessionSettings,
    SessionView, Settings, Tag, TlsSettings, clock, tag,
};

use crate::users::random_hex;

/// MonitoringRequestId(9207).
const MONITORING_REQUEST_ID: Tag = Tag(9207);
/// Time limit for the TCP connection, and again for the logon.
const LOGON_MAX: Duration = Duration::from_secs(15);
/// Time limit for the server's answer to the client's Logout(5).
const LOGOUT_TIME: Duration = Duration::from_secs(2);
/// Maximum length of an accepted answer, in bytes.
const ANSWER_MAX: usize = 32 << 20;

/// Address of the administration and credentials of the user.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FixLogin {
    /// Address of the administration, as `host:port`.
    pub address: String,
    /// BeginString(8).
    pub begin_string: BeginString,
    /// SenderCompID(49) of the client; concurrent clients need different values.
    pub sender_comp_id: String,
    /// SenderCompID(49) of the administration, which is `sender_comp_id` in the administration's
    /// settings.
    pub target_comp_id: String,
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: Secret,
    /// TLS settings of the connection; `None` for a connection without TLS.
    pub tls: Option<TlsSettings>,
}

impl FixLogin {
    /// Creates a login with the default settings of the administration and a random
    /// SenderCompID(49).
    #[must_use]
    pub fn new(address: impl Into<String>, user: impl Into<String>, password: Secret) -> Self {
        let own = random_hex().unwrap_or_else(|_| std::process::id().to_string());
        Self {
            address: address.into(),
            begin_string: BeginString::Fix44,
            // Servers log the SenderCompID(49), so it does not contain the user name, which may be
            // a mistyped password.
            sender_comp_id: format!("ADMIN-{own:.12}"),
            target_comp_id: "FIXADMIN".to_owned(),
            user: user.into(),
            password,
            tls: None,
        }
    }
}

/// Events of the client's session, for the thread that waits for an answer.
enum ClientEvent {
    LoggedOn,
    /// An answer: its MonitoringRequestId(9207), and the XML.
    Answer(Option<String>, String),
    Ended(String),
}

struct EventForwarder(Sender<ClientEvent>);

impl EventForwarder {
    fn tell(&self, news: ClientEvent) {
        // The send may fail, because the client may have stopped waiting.
        let _ = self.0.send(news);
    }
}

impl Application for EventForwarder {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let id = message.raw(MONITORING_REQUEST_ID).map(text);
        self.tell(ClientEvent::Answer(id, text(message.raw(tag::XML_DATA).unwrap_or_default())));
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.tell(ClientEvent::LoggedOn);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.tell(ClientEvent::Ended(end.to_string()));
        }
    }
}

/// A session with the administration. Dropping the client ends the session.
pub struct FixClient {
    engine: Option<Engine>,
    session: SessionHandle,
    news: Receiver<ClientEvent>,
    /// Messages without request, such as notifications, that arrived while the client waited for an
    /// answer.
    unasked: VecDeque<String>,
    asked: u64,
}

impl fmt::Debug for FixClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixClient({})", self.session.id())
    }
}

impl FixClient {
    /// Connects to the administration and logs on.
    ///
    /// # Errors
    /// Returns the reason as text: the connection fails, or the server refuses the logon.
    pub fn log_on(login: &FixLogin) -> Result<Self, String> {
        let wrong = |error: &dyn fmt::Display| format!("{}: {error}", login.address);
        let found = login.address.to_socket_addrs().map_err(|error| wrong(&error))?.next();
        let found = found.ok_or_else(|| wrong(&"no such address"))?;
        // This test connection reports a wrong address at once; the engine would only retry.
        TcpStream::connect_timeout(&found, LOGON_MAX).map_err(|error| wrong(&error))?;
        let id = SessionId::new(login.begin_string, &login.sender_comp_id, &login.target_comp_id);
        let mut session = SessionSettings::new(Role::Initiator, &id, &login.address);
        session.tls.clone_from(&login.tls);
        session.logon.username = Some(login.user.clone());
        session.logon.password = Some(login.password.clone());
        session.store.durability = Durability::Memory;
        session.store.keep_outbound = false;
        session.protocol.reset_on.logon = true;
        if login.begin_string == BeginString::Fixt11 {
            session.protocol.default_appl_ver_id = Some(transfix::ApplVerId(9));
        }
        session.validation.validate = false;
        session.validation.message_bytes_max = ANSWER_MAX;
        session.socket.reconnect_attempts_max = 1;
        let (sender, news) = channel();
        let mut settings = Settings::of(session);
        settings.engine.workers = 1;
        let engine = Engine::start(&settings, |_| Box::new(EventForwarder(sender.clone())));
        let engine = engine.map_err(|error| wrong(&error))?;
        let session = engine.session(&id).ok_or_else(|| wrong(&"no session"))?;
        match news.recv_timeout(LOGON_MAX) {
            Ok(ClientEvent::LoggedOn) => {}
            Ok(ClientEvent::Ended(why)) => return Err(wrong(&format!("not logged on: {why}"))),
            Ok(ClientEvent::Answer(..)) | Err(_) => {
                return Err(wrong(
                    &"no logon; make sure that the address is that of the \
                                   administration over FIX",
                ));
            }
        }
        let (engine, unasked) = (Some(engine), VecDeque::new());
        Ok(Self { engine, session, news, unasked, asked: 0 })
    }

    /// Sends a command and waits at most `wait` for its answer.
    ///
    /// # Errors
    /// Returns the reason as text: the command was not sent, the connection has ended, or no answer
    /// arrived in time.
    pub fn ask(&mut self, xml: &str, wait: Duration) -> Result<String, String> {
        self.asked += 1;
        let id = self.asked.to_string();
        let sent = self.session.send("n", |body| {
            body.data(tag::XML_DATA_LEN, tag::XML_DATA, xml.as_bytes());
            body.str(MONITORING_REQUEST_ID, &id);
        });
        sent.map_err(|error| error.to_string())?;
        let until_ns = clock::monotonic_ns().saturating_add(wait.as_nanos() as u64);
        loop {
            match self.hear(until_ns)? {
                (Some(other), answer) if other == id => return Ok(answer),
                (_, news) => self.unasked.push_back(news),
            }
        }
    }

    /// Returns the next message of a subscription, or `None` if no message arrives within `wait`.
    ///
    /// # Errors
    /// Returns the reason why the connection ended.
    pub fn next(&mut self, wait: Duration) -> Result<Option<String>, String> {
        if let Some(news) = self.unasked.pop_front() {
            return Ok(Some(news));
        }
        let until_ns = clock::monotonic_ns().saturating_add(wait.as_nanos() as u64);
        match self.hear(until_ns) {
            Ok((_, news)) => Ok(Some(news)),
            Err(why) if why == LATE => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn hear(&self, until_ns: u64) -> Result<(Option<String>, String), String> {
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
        match self.news.recv_timeout(left) {
            Ok(ClientEvent::Answer(id, xml)) => Ok((id, xml)),
            Ok(ClientEvent::LoggedOn) => {
                Err("the connection was interrupted, and the session has \
                logged on again"
                    .to_owned())
            }
            Ok(ClientEvent::Ended(why)) => Err(format!("the connection ended: {why}")),
            Err(RecvTimeoutError::Timeout) => Err(LATE.to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("the connection ended".to_owned()),
        }
    }
}

const LATE: &str = "the administration did not answer in time; it may still carry out the command";

impl Drop for FixClient {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop(LOGOUT_TIME);
        }
    }
}
