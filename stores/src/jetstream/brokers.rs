//! The connection to the brokers: one for all sessions of a process.
//!
//! **Invariant:** a missing message is never believed. An answer that contradicts another one is an
//! error, and the leader of the stream is asked to step down.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, HeaderMap, Message, Request, header};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use transfix_store::StoreError;

use super::record::{self, Stored};
use super::server;
use crate::failed;

/// Codes of JetStream for a subject whose last message is not the expected one.
const NOT_LAST: [u64; 2] = [10_071, 10_164];
/// Time limit for one request. A broker that leads the stream and dies is replaced within 9 s.
const PATIENCE: Duration = Duration::from_secs(12);
/// Maximum number of faulty places for which a leader is asked to step down.
const PLACES_MAX: usize = 1_024;
/// Bytes of a message beside its payload: subject and headers.
const OVERHEAD: usize = 1 << 10;

/// A stream of JetStream with the sessions of a fleet.
pub(super) struct Brokers {
    runtime: Background,
    client: Client,
    stream: Stream,
    name: String,
    replicas: usize,
    /// Number of requests to step down, by the place of the record that was missing or wrong.
    asked_to_step_down: Mutex<BTreeMap<u64, usize>>,
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

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// The record has this place.
    At(u64),
    /// Nothing was appended: another process has appended a record.
    Refused,
}

impl Brokers {
    pub(super) fn connect(
        urls: &str,
        stream: &str,
        options: ConnectOptions,
        replicas: usize,
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store-brokers")
            .enable_all()
            .build()
            .map_err(failed)?;
        let addresses: Vec<String> = urls.split(',').map(|url| url.trim().to_owned()).collect();
        let (client, found) = runtime.block_on(async {
            let client = options.name("transfix").connect(addresses).await.map_err(failed)?;
            let own = client.server_info();
            server::check_version(&own.server_name, &own.version)?;
            let mut context = jetstream::new(client.clone());
            context.set_timeout(PATIENCE);
            let found = find_or_create(&context, stream, replicas).await?;
            server::check_reports(&client, &found).await?;
            Ok::<_, StoreError>((client, found))
        })?;
        check(&found.cached_info().config, replicas)?;
        let (name, asked_to_step_down) = (stream.to_owned(), Mutex::default());
        let runtime = Background(Some(runtime));
        Ok(Self { runtime, client, stream: found, name, replicas, asked_to_step_down })
    }

    /// Returns the subject of a session. Every byte other than a letter, a digit, `-` or `_` is
    /// written as `%` with two hexadecimal digits, because dots and wildcards separate subjects.
    pub(super) fn subject(&self, session: &str) -> String {
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

    /// Returns the maximum length of a record in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.client.server_info().max_payload.saturating_sub(OVERHEAD)
    }

    /// Appends a record if the last one of the subject has the place `last`.
    pub(super) fn append(
        &self,
        subject: &str,
        last: u64,
        bytes: Vec<u8>,
    ) -> Result<Appended, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_EXPECTED_STREAM, self.name.as_str());
        let last = last.to_string();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.as_str());
        let request = Request::new().payload(bytes.into()).headers(headers).timeout(Some(PATIENCE));
        let answer = self.client.send_request(subject.to_owned(), request);
        let answer = self.runtime.block_on(answer).map_err(failed)?;
        let answer: Value = serde_json::from_slice(&answer.payload).map_err(failed)?;
        if let Some(error) = answer.get("error") {
            let code = error.get("err_code").and_then(Value::as_u64);
            if code.is_some_and(|code| NOT_LAST.contains(&code)) {
                return Ok(Appended::Refused);
            }
            return Err(refused(error.to_string()));
        }
        let place = answer.get("seq").and_then(Value::as_u64);
        place.map(Appended::At).ok_or_else(|| refused(format!("an unknown answer: {answer}")))
    }

    #[cfg(feature = "fleet")]
    pub(super) fn stream(&self) -> &str {
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

    /// Returns the last record of the session, as the leader of the stream knows it.
    #[cfg(feature = "fleet")]
    pub(super) fn newest(
        &self,
        session: &str,
        subject: &str,
    ) -> Result<Option<Stored>, StoreError> {
        let request = self.stream.raw_message_builder().last_by_subject(subject);
        let found = self.runtime.block_on(request.send());
        self.stored(session, found)
    }

    /// Returns the last record of the session, as the leader and the other replicas know it.
    pub(super) fn last(&self, session: &str, subject: &str) -> Result<Option<Stored>, StoreError> {
        let newest = self.runtime.block_on(async {
            let ask = || self.stream.direct_get_last_for_subject(subject);
            // A broker is chosen at random, so most of these requests reach all of them.
            let mut places = Vec::new();
            for _ in 0..2 * self.replicas {
                places.push(tokio::time::timeout(PATIENCE, ask()).await);
            }
            places.into_iter().flatten().flatten().map(|found| found.sequence).max()
        });
        let request = self.stream.raw_message_builder().last_by_subject(subject);
        let found = self.runtime.block_on(request.send());
        let stored = self.stored(session, found)?;
        let place = stored.as_ref().map_or(0, |stored| stored.place);
        match newest {
            Some(newest) if newest > place => {
                self.step_down(newest);
                Err(missing(session, newest))
            }
            _ => Ok(stored),
        }
    }

    /// Returns the first record of the session at this place of the stream or behind it.
    pub(super) fn next(
        &self,
        session: &str,
        subject: &str,
        place: u64,
    ) -> Result<Option<Stored>, StoreError> {
        let request = self.stream.raw_message_builder().sequence(place).next_by_subject(subject);
        let found = self.runtime.block_on(request.send());
        self.stored(session, found)
    }

    /// Returns up to `count` records of the session from this place on, ascending. A broker that is
    /// not the leader may answer, so the result may end early.
    pub(super) fn following(
        &self,
        session: &str,
        subject: &str,
        place: u64,
        count: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let request = json!({ "seq": place, "batch": count, "next_by_subj": subject });
        let messages = self.runtime.block_on(async {
            let inbox = self.client.new_inbox();
            let mut answers = self.client.subscribe(inbox.clone()).await.map_err(failed)?;
            let get = format!("$JS.API.DIRECT.GET.{}", self.name);
            let request = request.to_string().into();
            self.client.publish_with_reply(get, inbox, request).await.map_err(failed)?;
            let mut messages = Vec::new();
            loop {
                let answer = tokio::time::timeout(PATIENCE, answers.next()).await;
                // The last answer has a status: the end of the batch, or the reason of a refusal.
                match answer.map_err(failed)? {
                    Some(message) if message.status.is_none() => messages.push(message),
                    _ => return Ok::<_, StoreError>(messages),
                }
            }
        })?;
        let record = |message: Message| {
            let headers = message.headers.as_ref();
            let place = headers.and_then(|headers| headers.get(header::NATS_SEQUENCE));
            let place = place.and_then(|place| place.as_str().parse().ok());
            let place = place.ok_or_else(|| refused("an answer has no sequence".to_owned()))?;
            self.decoded(session, place, &message.payload)
        };
        messages.into_iter().map(record).collect()
    }

    fn stored(
        &self,
        session: &str,
        found: Result<jetstream::message::StreamMessage, jetstream::stream::RawMessageError>,
    ) -> Result<Option<Stored>, StoreError> {
        let found = match found {
            Ok(found) => found,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        self.decoded(session, found.sequence, &found.payload).map(Some)
    }

    fn decoded(&self, session: &str, place: u64, bytes: &[u8]) -> Result<Stored, StoreError> {
        record::decode(session, place, bytes).map_err(|reason| {
            self.step_down(place);
            refused(format!("{session}: the message at {place} of the stream is wrong: {reason}"))
        })
    }

    /// Deletes the records of the subject before this place.
    pub(super) fn purge(&self, subject: &str, before: u64) -> Result<(), StoreError> {
        let purge = self.stream.purge().filter(subject).sequence(before);
        self.runtime.block_on(async { purge.await }).map(|_| ()).map_err(failed)
    }

    /// Asks the leader of the stream to let another broker lead, because its record at this place
    /// is missing or wrong. A failure changes nothing: the next attempt finds the same fault.
    ///
    /// An election stops all sessions. A record that is wrong at all brokers therefore causes no
    /// more elections than there are replicas.
    pub(super) fn step_down(&self, place: u64) {
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
        let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{}", self.name);
        let request = Request::new().timeout(Some(PATIENCE));
        let _ = self.runtime.block_on(self.client.send_request(subject, request));
    }
}

/// Returns the error for a record that must exist, but that the leader of the stream does not have.
pub(super) fn missing(session: &str, place: u64) -> StoreError {
    refused(format!(
        "{session}: the leader of the stream has lost the record at {place}; another broker was \
         asked to lead, and the next attempt asks it"
    ))
}

pub(super) fn refused(why: String) -> StoreError {
    StoreError::Own(std::io::Error::other(why))
}

async fn find_or_create(
    context: &Context,
    name: &str,
    replicas: usize,
) -> Result<Stream, StoreError> {
    let config = Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        num_replicas: replicas,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        allow_direct: true,
        ..Config::default()
    };
    context.get_or_create_stream(config).await.map_err(|error| match error.kind() {
        CreateStreamErrorKind::TimedOut => refused(
            "no answer about the stream: a majority of the brokers is missing, or the user lacks \
             the permission to publish to $JS.API.> or to subscribe to _INBOX.>"
                .to_owned(),
        ),
        _ => failed(error),
    })
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
