//! A client of the administration over FIX: a session that sends commands as XML in XMLnonFIX(n),
//! and waits for the answers.

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
/// How long the connection and the logon may take.
const LOGON_MAX: Duration = Duration::from_secs(15);
/// How long the server has to answer our Logout(5).
const LOGOUT_TIME: Duration = Duration::from_secs(2);
/// The longest answer that is taken.
const ANSWER_MAX: usize = 32 << 20;

/// The user who logs on, and the address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FixLogin {
    /// Where the administration listens, as `host:port`.
    pub address: String,
    /// BeginString(8).
    pub begin_string: BeginString,
    /// Our SenderCompID(49): two who are there at once have two.
    pub sender_comp_id: String,
    /// `sender_comp_id` of its settings.
    pub target_comp_id: String,
    /// The name of the user.
    pub user: String,
    /// The password.
    pub password: Secret,
    /// TLS settings of the connection; `None` for a connection without TLS.
    pub tls: Option<TlsSettings>,
}

impl FixLogin {
    /// A user who logs on there, with the settings that the administration has by default.
    #[must_use]
    pub fn new(address: impl Into<String>, user: impl Into<String>, password: Secret) -> Self {
        let own = random_hex().unwrap_or_else(|_| std::process::id().to_string());
        Self {
            address: address.into(),
            begin_string: BeginString::Fix44,
            // Logs of servers have it: never the name, which may be a password in the wrong place.
            sender_comp_id: format!("ADMIN-{own:.12}"),
            target_comp_id: "FIXADMIN".to_owned(),
            user: user.into(),
            password,
            tls: None,
        }
    }
}

/// Messages and events of the connection to the server.
enum News {
    LoggedOn,
    /// MonitoringRequestId(9207), and the XML.
    Answer(Option<String>, String),
    Ended(String),
}

struct Told(Sender<News>);

impl Told {
    fn tell(&self, news: News) {
        // The client may have given up waiting.
        let _ = self.0.send(news);
    }
}

impl Application for Told {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let id = message.raw(MONITORING_REQUEST_ID).map(text);
        self.tell(News::Answer(id, text(message.raw(tag::XML_DATA).unwrap_or_default())));
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.tell(News::LoggedOn);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            self.tell(News::Ended(end.to_string()));
        }
    }
}

/// A session with the administration, until it is dropped.
pub struct FixClient {
    engine: Option<Engine>,
    session: SessionHandle,
    news: Receiver<News>,
    /// Messages that arrived while the client waited for another answer.
    unasked: VecDeque<String>,
    asked: u64,
}

impl fmt::Debug for FixClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixClient({})", self.session.id())
    }
}

impl FixClient {
    /// Logs on.
    ///
    /// # Errors
    /// In words: nobody listens there, or the server refuses.
    pub fn log_on(login: &FixLogin) -> Result<Self, String> {
        let wrong = |error: &dyn fmt::Display| format!("{}: {error}", login.address);
        let found = login.address.to_socket_addrs().map_err(|error| wrong(&error))?.next();
        let found = found.ok_or_else(|| wrong(&"no such address"))?;
        // The engine would try again and again.
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
        let engine = Engine::start(&settings, |_| Box::new(Told(sender.clone())));
        let engine = engine.map_err(|error| wrong(&error))?;
        let session = engine.session(&id).ok_or_else(|| wrong(&"no session"))?;
        match news.recv_timeout(LOGON_MAX) {
            Ok(News::LoggedOn) => {}
            Ok(News::Ended(why)) => return Err(wrong(&format!("not logged on: {why}"))),
            Ok(News::Answer(..)) | Err(_) => {
                return Err(wrong(&"no logon; is this the administration over FIX?"));
            }
        }
        let (engine, unasked) = (Some(engine), VecDeque::new());
        Ok(Self { engine, session, news, unasked, asked: 0 })
    }

    /// Sends a command, and waits so long for its answer.
    ///
    /// # Errors
    /// In words: it was not sent, the connection has ended, or there is no answer yet.
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

    /// Returns the next message that the server sends to a subscriber. `None` if nothing comes for
    /// so long.
    ///
    /// # Errors
    /// In words, why the connection has ended.
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
            Ok(News::Answer(id, xml)) => Ok((id, xml)),
            Ok(News::LoggedOn) => Err("the session has begun anew".to_owned()),
            Ok(News::Ended(why)) => Err(format!("the connection has ended: {why}")),
            Err(RecvTimeoutError::Timeout) => Err(LATE.to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("the connection has ended".to_owned()),
        }
    }
}

const LATE: &str = "the administration has not answered in time; it may do it yet";

impl Drop for FixClient {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop(LOGOUT_TIME);
        }
    }
}
