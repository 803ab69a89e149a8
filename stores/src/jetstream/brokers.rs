//! The connection to the brokers: one for all sessions of a process.
//!
//! **Invariant:** a record at the same place causes no more elections than there are replicas.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{
    self, Config, DirectGetErrorKind, DiscardPolicy, RawMessage, RetentionPolicy, StorageType,
};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectOptions, HeaderMap, Request, StatusCode, header};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use transfix_store::StoreError;

use super::server;
use super::stream::{Appended, Message, Stream};
use crate::failed;

/// Code of JetStream for a subject whose last message is not the expected one. The code 10164 only
/// says that another append is under way, perhaps our own.
const NOT_LAST: u64 = 10_071;
/// Code of JetStream for a message that does not exist.
const NOT_FOUND: u64 = 10_037;
/// Code of JetStream for a broker that knows no leader of the cluster.
const UNAVAILABLE: u64 = 10_008;
/// Time limit for one request. A broker that leads the stream and dies is replaced within 9 s.
pub(super) const PATIENCE: Duration = Duration::from_secs(12);
/// Time after which a request without an answer is repeated.
const TRY: Duration = Duration::from_secs(1);
/// Pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// Interval at which a silent broker is tested. A broker that misses two tests is left for another.
const PING: Duration = Duration::from_secs(2);
/// Time limit for opening the stream. After a start of all brokers, they elect two leaders.
const STARTING: Duration = Duration::from_secs(24);
/// Direct gets for each replica that compare the last record of a session. A broker is chosen at
/// random for each. Suppose a damaged leader has lost the record and the two other replicas have
/// it. All gets miss it with a probability of 3^-24, or 3^-12 if only a half is answered.
const DIRECT_GETS: usize = 8;
/// Time for which a leader that has not answered is not asked again.
const SILENT: Duration = Duration::from_secs(5);
/// Time limit for the answer of the leader, before the replicas are asked.
const LEADER_PATIENCE: Duration = Duration::from_millis(500);
/// Time limit for the next record of a batch, because a broker whose file is broken answers no
/// request for a batch. Also for the leader's answer after that of a broker that knows no leader.
const ANSWER_PATIENCE: Duration = Duration::from_millis(300);
/// Maximum number of faulty places for which a leader is asked to step down.
const PLACES_MAX: usize = 1_024;
/// Bytes of a message beside its payload: subject and headers.
const OVERHEAD: usize = 1 << 10;

/// The reaction to a missing stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfMissing {
    Create,
    /// Brokers that have lost a stream must not begin an empty one, in which all numbers are 1.
    Refuse,
}

/// A stream of JetStream with the sessions of a fleet.
pub(super) struct Brokers {
    runtime: Background,
    client: Client,
    stream: stream::Stream,
    name: String,
    replicas: usize,
    /// Number of requests to step down, by the place of the record that was missing or wrong.
    asked_to_step_down: Mutex<BTreeMap<u64, usize>>,
    progress: Mutex<Progress>,
    /// The time at which the leader last did not answer.
    silent: Mutex<Option<tokio::time::Instant>>,
}

/// The success of appends, for the decision whether the leader must be replaced.
#[derive(Default)]
struct Progress {
    /// The time of the last append that had an outcome.
    succeeded: Option<Instant>,
    /// The time at which a leader was last asked to step down because it appends nothing.
    replaced: Option<Instant>,
    /// Number of such requests since the last success.
    replacements: usize,
}

/// The runtime of the connection. Dropping it waits for nothing, so a task of it may drop it.
struct Background(Option<Runtime>);

impl Background {
    fn get(&self) -> &Runtime {
        match &self.0 {
            Some(runtime) => runtime,
            None => unreachable!("only `drop` takes the runtime"),
        }
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.get().block_on(future)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Brokers {
    pub(super) fn connect(
        urls: &str,
        stream: &str,
        options: ConnectOptions,
        (replicas, if_missing): (usize, IfMissing),
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store-brokers")
            .enable_all()
            .build()
            .map_err(failed)?;
        let addresses: Vec<String> = urls.split(',').map(|url| url.trim().to_owned()).collect();
        let (client, found) = runtime.block_on(async {
            let options = options.name("transfix").ping_interval(PING);
            let client = options.connect(addresses).await.map_err(failed)?;
            let own = client.server_info();
            server::check_version(&own.server_name, &own.version)?;
            let mut context = jetstream::new(client.clone());
            context.set_timeout(TRY);
            let found = open(&context, stream, (replicas, if_missing)).await?;
            server::check_reports(&client, &found).await?;
            Ok::<_, StoreError>((client, found))
        })?;
        check(&found.cached_info().config, replicas)?;
        let (name, asked_to_step_down) = (stream.to_owned(), Mutex::default());
        let runtime = Background(Some(runtime));
        Ok(Self {
            runtime,
            client,
            stream: found,
            name,
            replicas,
            asked_to_step_down,
            progress: Mutex::default(),
            silent: Mutex::default(),
        })
    }

    #[cfg(feature = "fleet")]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    #[cfg(feature = "fleet")]
    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    #[cfg(feature = "fleet")]
    pub(super) fn runtime(&self) -> &Runtime {
        self.runtime.get()
    }

    /// Notes the end of an append. Asks the leader to step down if it appends nothing: a leader
    /// that cannot write its files may lead for minutes otherwise.
    ///
    /// An election stops all sessions. So a connection that is lost, or one session that cannot
    /// append while others can, causes none, and without a success there are no more elections than
    /// replicas.
    fn note_append(&self, has_succeeded: bool) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        #[expect(clippy::disallowed_methods, reason = "only the number of elections depends on it")]
        let now = Instant::now();
        if has_succeeded {
            *progress = Progress { succeeded: Some(now), ..Progress::default() };
            return;
        }
        let is_past = |at: Option<Instant>| at.is_none_or(|at| now.duration_since(at) >= PATIENCE);
        let is_connected = self.client.connection_state() == State::Connected;
        let may_replace = progress.replacements < self.replicas;
        if is_connected && may_replace && is_past(progress.succeeded) && is_past(progress.replaced)
        {
            progress.replaced = Some(now);
            progress.replacements += 1;
            drop(progress);
            self.ask_to_step_down();
        }
    }

    /// Reads a message from the leader. If the leader does not answer, `choose` chooses among the
    /// answers of all replicas: the leader judges the next append all the same.
    fn ask(&self, request: &Value, choose: Choose) -> Result<Option<Message>, StoreError> {
        let request = request.to_string();
        self.runtime.block_on(repeated(|| async {
            if self.leader_was_silent() {
                return self.ask_replicas(&request, choose).await;
            }
            match self.ask_leader(&request).await {
                Err(error) => {
                    self.note_silent();
                    self.ask_replicas(&request, choose).await.map_err(|_| error)
                }
                answer => answer,
            }
        }))
    }

    /// Notes that the leader has not answered.
    fn note_silent(&self) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        *silent = Some(tokio::time::Instant::now());
    }

    /// Returns true if the leader has not answered a short time ago. Each question would wait.
    fn leader_was_silent(&self) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.is_some_and(|at| at.elapsed() < SILENT)
    }

    async fn ask_leader(&self, request: &str) -> Result<Option<Message>, StoreError> {
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(failed)?;
        let subject = format!("$JS.API.STREAM.MSG.GET.{}", self.name);
        let sent = self.client.publish_with_reply(subject, inbox, request.to_owned().into());
        sent.await.map_err(failed)?;
        let mut limit = LEADER_PATIENCE;
        loop {
            let Ok(Some(answer)) = tokio::time::timeout(limit, answers.next()).await else {
                return Err(refused("no broker leads the stream".to_owned()));
            };
            if let Some(status) = answer.status {
                return Err(refused(format!("no broker takes the request: {status}")));
            }
            let answer: Value = serde_json::from_slice(&answer.payload).map_err(failed)?;
            // A broker that has lost the others says so, before the leader answers.
            if answer.pointer("/error/err_code").and_then(Value::as_u64) != Some(UNAVAILABLE) {
                return found(answer);
            }
            limit = ANSWER_PATIENCE;
        }
    }

    async fn ask_replicas(
        &self,
        request: &str,
        choose: Choose,
    ) -> Result<Option<Message>, StoreError> {
        let asked = DIRECT_GETS * self.replicas;
        let ask = |_| {
            let get = Request::new().payload(request.to_owned().into());
            let get = get.timeout(Some(ANSWER_PATIENCE));
            self.client.send_request(format!("$JS.API.DIRECT.GET.{}", self.name), get)
        };
        let mut answers: FuturesUnordered<_> = (0..asked).map(ask).collect();
        let (mut count, mut messages) = (0, Vec::new());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(answer) if answer.status == Some(StatusCode::NOT_FOUND) => count += 1,
                Ok(answer) if answer.status.is_none() => {
                    count += 1;
                    messages.push(copied(answer)?);
                }
                Ok(_) | Err(_) => {}
            }
        }
        if count < asked / 2 {
            return Err(refused("too few brokers answer".to_owned()));
        }
        Ok(choose(messages))
    }

    fn ask_to_step_down(&self) {
        let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{}", self.name);
        let request = Request::new().timeout(Some(PATIENCE));
        let _ = self.runtime.block_on(self.client.send_request(subject, request));
    }
}

impl Stream for Brokers {
    /// Every byte other than a letter, a digit, `-` or `_` is written as `%` with two hexadecimal
    /// digits, because dots and wildcards separate subjects.
    fn subject(&self, session: &str) -> String {
        let mut subject = format!("{}.", self.name);
        for byte in session.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
                subject.push(char::from(byte));
            } else {
                subject.push_str(&format!("%{byte:02X}"));
            }
        }
        subject
    }

    fn bytes_max(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(OVERHEAD)
    }

    fn append(&self, subject: &str, last: u64, bytes: Vec<u8>) -> Result<Appended, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_EXPECTED_STREAM, self.name.as_str());
        let last = last.to_string();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.as_str());
        let mut was_repeated = false;
        let appended = self.runtime.block_on(repeated(|| {
            let request = Request::new().payload(bytes.clone().into()).headers(headers.clone());
            let answer = self.client.send_request(subject.to_owned(), request.timeout(Some(TRY)));
            let is_repeated = std::mem::replace(&mut was_repeated, true);
            async move {
                let answer = answer.await.map_err(failed)?;
                Ok((appended(&answer.payload)?, is_repeated))
            }
        }));
        self.note_append(appended.is_ok());
        match appended? {
            // The first request may have been carried out, without an answer.
            (Appended::Refused, true) => match self.last(subject)? {
                Some(last) if last.bytes == bytes => Ok(Appended::At(last.place)),
                _ => Ok(Appended::Refused),
            },
            (appended, _) => Ok(appended),
        }
    }

    fn last(&self, subject: &str) -> Result<Option<Message>, StoreError> {
        let newest = |messages: Vec<Message>| messages.into_iter().max_by_key(|one| one.place);
        self.ask(&json!({ "last_by_subj": subject }), newest)
    }

    fn newest(&self, subject: &str) -> Result<u64, StoreError> {
        self.runtime.block_on(async {
            let asked = DIRECT_GETS * self.replicas;
            let until = tokio::time::Instant::now() + PATIENCE;
            let mut places = Vec::new();
            loop {
                let ask = |_| self.stream.direct_get_last_for_subject(subject);
                let mut answers: FuturesUnordered<_> = (places.len()..asked).map(ask).collect();
                let collect = async {
                    while let Some(answer) = answers.next().await {
                        match answer {
                            Ok(found) => places.push(found.sequence),
                            Err(error) if error.kind() == DirectGetErrorKind::NotFound => {
                                places.push(0);
                            }
                            Err(_) => {}
                        }
                    }
                };
                let _ = tokio::time::timeout(TRY, collect).await;
                // A half is enough, so a broker that does not answer prevents no take-over.
                if places.len() >= asked / 2 {
                    return Ok(places.into_iter().max().unwrap_or(0));
                }
                if tokio::time::Instant::now() >= until {
                    return Err(refused(format!("{subject}: too few brokers answer")));
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    fn next(&self, subject: &str, place: u64) -> Result<Option<Message>, StoreError> {
        // A replica may miss records, but has none that the others miss.
        let first = |messages: Vec<Message>| messages.into_iter().min_by_key(|one| one.place);
        self.ask(&json!({ "seq": place, "next_by_subj": subject }), first)
    }

    fn following(
        &self,
        subject: &str,
        place: u64,
        count: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let request = json!({ "seq": place, "batch": count, "next_by_subj": subject });
        let messages = self.runtime.block_on(async {
            let inbox = self.client.new_inbox();
            let mut answers = self.client.subscribe(inbox.clone()).await.map_err(failed)?;
            let get = format!("$JS.API.DIRECT.GET.{}", self.name);
            let request = request.to_string().into();
            self.client.publish_with_reply(get, inbox, request).await.map_err(failed)?;
            let mut messages = Vec::new();
            loop {
                // The last answer has a status: the end of the batch, or the reason of a refusal.
                match tokio::time::timeout(ANSWER_PATIENCE, answers.next()).await {
                    Ok(Some(message)) if message.status.is_none() => messages.push(message),
                    _ => return Ok::<_, StoreError>(messages),
                }
            }
        })?;
        messages.into_iter().map(copied).collect()
    }

    fn purge(&self, subject: &str, before: u64) -> Result<(), StoreError> {
        let purge = self.stream.purge().filter(subject).sequence(before);
        self.runtime.block_on(async { purge.await }).map(|_| ()).map_err(failed)
    }

    /// An election stops all sessions. A record that is wrong at all brokers therefore causes no
    /// more elections than there are replicas.
    fn step_down(&self, place: u64) {
        let mut asked = self.asked_to_step_down.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= PLACES_MAX && !asked.contains_key(&place) {
            return;
        }
        let times = asked.entry(place).or_default();
        *times += 1;
        if *times > self.replicas {
            return;
        }
        drop(asked);
        self.ask_to_step_down();
    }
}

pub(super) fn refused(why: String) -> StoreError {
    StoreError::Own(std::io::Error::other(why))
}

/// Repeats a request until it succeeds or [`PATIENCE`] ends. A request to a leader that dies has no
/// answer, and the next leader does not know of it.
async fn repeated<T, F: Future<Output = Result<T, StoreError>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, StoreError> {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let asked = tokio::time::timeout(TRY, ask()).await;
        match asked.unwrap_or_else(|late| Err(failed(late))) {
            Err(_) if tokio::time::Instant::now() < until => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// Returns the outcome of an append.
///
/// # Errors
/// The brokers have not carried the request out now, or the answer is unknown.
fn appended(answer: &[u8]) -> Result<Appended, StoreError> {
    let answer: Value = serde_json::from_slice(answer).map_err(failed)?;
    if let Some(error) = answer.get("error") {
        let code = error.get("err_code").and_then(Value::as_u64);
        if code == Some(NOT_LAST) {
            return Ok(Appended::Refused);
        }
        return Err(refused(error.to_string()));
    }
    let place = answer.get("seq").and_then(Value::as_u64);
    place.map(Appended::At).ok_or_else(|| refused(format!("an unknown answer: {answer}")))
}

/// Chooses among the messages with which replicas have answered.
type Choose = fn(Vec<Message>) -> Option<Message>;

/// Returns the message with which a replica has answered.
fn copied(answer: async_nats::Message) -> Result<Message, StoreError> {
    let place = answer.headers.as_ref().and_then(|headers| headers.get(header::NATS_SEQUENCE));
    let place = place.and_then(|place| place.as_str().parse().ok());
    let place = place.ok_or_else(|| refused("an answer has no sequence".to_owned()))?;
    Ok(Message { place, bytes: answer.payload.into() })
}

/// Returns the message of an answer; `None` if the leader has none.
fn found(answer: Value) -> Result<Option<Message>, StoreError> {
    if let Some(error) = answer.get("error") {
        let code = error.get("err_code").and_then(Value::as_u64);
        return if code == Some(NOT_FOUND) { Ok(None) } else { Err(refused(error.to_string())) };
    }
    let raw = answer.get("message").cloned().unwrap_or_default();
    let raw: RawMessage = serde_json::from_value(raw).map_err(failed)?;
    let message = StreamMessage::try_from(raw).map_err(|error| refused(error.to_string()))?;
    Ok(Some(Message { place: message.sequence, bytes: message.payload.into() }))
}

async fn open(
    context: &Context,
    name: &str,
    (replicas, if_missing): (usize, IfMissing),
) -> Result<stream::Stream, StoreError> {
    let config = Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        num_replicas: replicas,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        allow_direct: true,
        ..Config::default()
    };
    let until = tokio::time::Instant::now() + STARTING;
    loop {
        let missing = match context.get_stream(name).await {
            Ok(found) => return Ok(found),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) => match error.error_code() {
                    ErrorCode::STREAM_NOT_FOUND => true,
                    ErrorCode::CLUSTER_NOT_AVAILABLE => false,
                    _ => return Err(failed(error)),
                },
                GetStreamErrorKind::Request => false,
                _ => return Err(failed(error)),
            },
        };
        if missing && if_missing == IfMissing::Refuse {
            return Err(refused(format!(
                "the stream {name} does not exist; if it never did, create it (`transfix fleet \
                 create`, `JetStream::create`); if the brokers have lost it, restore a backup"
            )));
        }
        // Another program may create the stream at the same time, with the same settings.
        if missing && let Ok(created) = context.create_stream(config.clone()).await {
            return Ok(created);
        }
        if tokio::time::Instant::now() >= until {
            return Err(refused(
                "no answer about the stream: a majority of the brokers is missing, or the user \
                 lacks the permission to publish to $JS.API.> or to subscribe to _INBOX.>"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Refuses a stream that could lose messages.
fn check(config: &Config, replicas: usize) -> Result<(), StoreError> {
    let name = &config.name;
    let wrong = |what: String| Err(refused(format!("the stream {name} {what}")));
    if config.num_replicas != replicas {
        let found = config.num_replicas;
        return wrong(format!(
            "has {found} replicas instead of {replicas}; change the stream or the setting"
        ));
    }
    if config.storage != StorageType::File {
        return wrong("is in memory; create it with the storage `file`".to_owned());
    }
    let wanted = format!("{name}.>");
    if config.subjects != [wanted.as_str()] {
        let found = config.subjects.join(", ");
        return wrong(format!("has the subjects {found}; it must have {wanted} only"));
    }
    if config.retention != RetentionPolicy::Limits {
        return wrong("deletes messages that were read; its retention must be `limits`".to_owned());
    }
    if !config.max_age.is_zero() || config.max_messages_per_subject > 0 {
        return wrong(
            "deletes old messages, even the last one of a session; remove max_age and \
             max_msgs_per_subject"
                .to_owned(),
        );
    }
    if config.discard != DiscardPolicy::New {
        return wrong(
            "deletes old messages when it is full; set its discard policy to `new`".to_owned(),
        );
    }
    if !config.allow_direct {
        return wrong("does not allow direct gets; set allow_direct".to_owned());
    }
    if config.no_ack || config.sealed {
        return wrong(
            "does not acknowledge or accept messages; remove no_ack and sealed".to_owned(),
        );
    }
    Ok(())
}
