//! Received messages and the logon state, for the commands `expect` and `wait`.
//!
//! Invariants: the number of messages is bounded, and the oldest messages are dropped first. A data
//! field is parsed by its Length field, so text in its value is never mistaken for a field.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::{clock, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, raw};

use super::replay::SESSION_TYPES;
use crate::input::parse;

/// Maximum number of received messages that are kept.
const MESSAGES_MAX: usize = 10_000;

/// Tags and values of a message, in their order.
pub(super) type Fields = Vec<(u32, String)>;

/// Circumstances in which a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    words: String,
    /// True if the counterparty refused the logon, and is expected to refuse the next logon too.
    is_refusal: bool,
}

#[derive(Default)]
struct Inner {
    /// Received messages that no command has read yet.
    messages: VecDeque<Fields>,
    /// Unread messages that arrived before the last message was sent. `expect` does not accept
    /// them.
    earlier: VecDeque<Fields>,
    /// Fields of the last sent application message.
    out: Fields,
    /// Index that parses the data fields of the session's dictionaries.
    index: FieldIndex,
    is_logged_on: bool,
    /// End of the last connection. `None` after a logon, or when a new logon is requested.
    end: Option<End>,
}

/// Received messages and the logon state. Clones share the state.
#[derive(Clone, Default)]
pub(super) struct Received {
    inner: Arc<(Mutex<Inner>, Condvar)>,
}

/// Result of an unsuccessful search for a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NoMessage {
    /// Messages received during the search that did not match.
    pub(super) others: Vec<Fields>,
    /// True if a matching message arrived before the last message was sent.
    pub(super) came_earlier: bool,
    /// Description of the connection's end, if the connection has ended.
    pub(super) end: Option<String>,
}

impl Received {
    /// Creates an empty state that parses messages with `index`.
    pub(super) fn of(index: FieldIndex) -> Self {
        let inner = Inner { index, ..Inner::default() };
        Self { inner: Arc::new((Mutex::new(inner), Condvar::new())) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a received message.
    pub(super) fn add(&self, frame: &[u8]) {
        let mut inner = self.inner();
        if inner.messages.len() == MESSAGES_MAX {
            inner.messages.pop_front();
        }
        let fields = fields(frame, &mut inner.index);
        inner.messages.push_back(fields);
        self.inner.1.notify_all();
    }

    /// Records a sent application message.
    pub(super) fn leaves(&self, frame: &[u8]) {
        let msg_type = raw::first(frame, tag::MSG_TYPE);
        if msg_type.is_none_or(|one| SESSION_TYPES.contains(&one)) {
            return;
        }
        let mut inner = self.inner();
        let fields = fields(frame, &mut inner.index);
        // A message with PossDupFlag(43)=Y is a resend and therefore not the last sent message.
        if value(&fields, tag::POSS_DUP_FLAG.0) == Some("Y") {
            return;
        }
        inner.out = fields;
        self.inner.1.notify_all();
    }

    /// Waits until the message with these fields is sent. Returns all fields of the message, or
    /// `None` after the time `within`.
    pub(super) fn whole(&self, sent: &Fields, within: Duration) -> Option<Fields> {
        let until_ns = clock::monotonic_ns().saturating_add(within.as_nanos() as u64);
        let mut inner = self.inner();
        loop {
            if sent.iter().all(|field| inner.out.contains(field)) {
                return Some(inner.out.clone());
            }
            let left = until_ns.saturating_sub(clock::monotonic_ns());
            if left == 0 {
                return None;
            }
            let waited = self.inner.1.wait_timeout(inner, Duration::from_nanos(left));
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records a logon.
    pub(super) fn logged_on(&self) {
        let mut inner = self.inner();
        (inner.is_logged_on, inner.end) = (true, None);
        self.inner.1.notify_all();
    }

    /// Records the end of a connection. The end is a refusal if the session never logged on and the
    /// counterparty has answered.
    pub(super) fn ended(&self, words: &str, is_answered: bool) {
        let mut inner = self.inner();
        let is_refusal = !std::mem::take(&mut inner.is_logged_on) && is_answered;
        inner.end = Some(End { words: words.to_owned(), is_refusal });
        self.inner.1.notify_all();
    }

    /// Sets the unread messages apart as earlier ones, because they cannot answer the message about
    /// to be sent.
    pub(super) fn begin_anew(&self) {
        let mut inner = self.inner();
        inner.earlier = std::mem::take(&mut inner.messages);
    }

    /// Clears the end of the last connection when the user requests a new logon.
    pub(super) fn forget_end(&self) {
        self.inner().end = None;
    }

    pub(super) fn is_logged_on(&self) -> bool {
        self.inner().is_logged_on
    }

    /// Removes and returns the first matching message; the messages before that message are
    /// dropped. The end of the connection also ends the wait, unless `beyond_ends` is true.
    ///
    /// # Errors
    /// Returns [`NoMessage`] if no matching message arrived in time.
    pub(super) fn take(
        &self,
        within: Duration,
        beyond_ends: bool,
        fits: impl Fn(&Fields) -> bool,
    ) -> Result<Fields, NoMessage> {
        let until_ns = clock::monotonic_ns().saturating_add(within.as_nanos() as u64);
        let mut inner = self.inner();
        let mut others = Vec::new();
        loop {
            while let Some(one) = inner.messages.pop_front() {
                if fits(&one) {
                    return Ok(one);
                }
                others.push(one);
            }
            let end = inner.end.as_ref().filter(|_| !beyond_ends).map(|end| end.words.clone());
            let left = until_ns.saturating_sub(clock::monotonic_ns());
            if left == 0 || end.is_some() {
                let came_earlier = inner.earlier.iter().any(&fits);
                return Err(NoMessage { others, came_earlier, end });
            }
            let waited = self.inner.1.wait_timeout(inner, Duration::from_nanos(left));
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the session is logged on.
    ///
    /// # Errors
    /// Returns the end of the last connection, if any. The wait fails after `within`, or, with
    /// `ends_refused`, when the counterparty refuses the logon. A refusal is reported once: the
    /// next call waits for the next connection.
    pub(super) fn wait(&self, within: Duration, ends_refused: bool) -> Result<(), Option<String>> {
        let until_ns = clock::monotonic_ns().saturating_add(within.as_nanos() as u64);
        let mut inner = self.inner();
        while !inner.is_logged_on {
            if ends_refused && let Some(end) = inner.end.take_if(|end| end.is_refusal) {
                return Err(Some(end.words));
            }
            let left = until_ns.saturating_sub(clock::monotonic_ns());
            if left == 0 {
                return Err(inner.end.as_ref().map(|end| end.words.clone()));
            }
            let waited = self.inner.1.wait_timeout(inner, Duration::from_nanos(left));
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// Returns the value of the first field with this tag.
pub(super) fn value(fields: &Fields, tag: u32) -> Option<&str> {
    fields.iter().find(|(known, _)| *known == tag).map(|(_, value)| &**value)
}

/// Returns the MsgSeqNum(34) of a Logout(5), or `None` for other messages.
pub(super) fn logout_number(frame: &[u8]) -> Option<u64> {
    if raw::first(frame, tag::MSG_TYPE) != Some(b"5") {
        return None;
    }
    std::str::from_utf8(raw::first(frame, tag::MSG_SEQ_NUM)?).ok()?.parse().ok()
}

/// Returns the fields of a message. An invalid message yields the fields that can be recognized.
fn fields(frame: &[u8], index: &mut FieldIndex) -> Fields {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    match parse(frame, index, CheckSumPolicy::Ignore) {
        Ok(message) => message.fields().map(|field| (field.tag.0, text(field.value))).collect(),
        Err(_) => raw::fields(frame).map(|field| (field.tag.0, text(field.value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use transfix::Tag;
    use transfix_codec::FrameWriter;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn report(fields: &Fields) -> bool {
        value(fields, 35) == Some("8")
    }

    fn take(heard: &Received, within: Duration) -> Result<Fields, NoMessage> {
        heard.take(within, false, report)
    }

    #[test]
    fn takes_what_fits_and_says_what_else_came() {
        let heard = Received::default();
        for msg_type in ["0", "8", "8"] {
            heard.add(format!("8=FIX.4.4\x0135={msg_type}\x0137=V-{msg_type}\x01").as_bytes());
        }
        let found = take(&heard, Duration::ZERO).unwrap();
        assert_eq!(value(&found, 37), Some("V-8"));
        let missed = heard.take(Duration::ZERO, false, |fields| value(fields, 35) == Some("9"));
        let others = missed.unwrap_err().others;
        assert_eq!(others.iter().map(|one| value(one, 35)).collect::<Vec<_>>(), [Some("8")]);
        assert_eq!(take(&heard, Duration::ZERO), Err(NoMessage::default()));
    }

    /// Returns a frame with these fields; `fields` separates them with `|`.
    fn frame(msg_type: &str, fields: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(fields.replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        out
    }

    #[test]
    fn what_stands_in_a_data_field_is_no_field() {
        let index = || {
            let mut index = FieldIndex::default();
            index.set_data_fields([(Tag(9001), Tag(9002))]);
            index
        };
        // The first Length and data pair is standard; the second belongs to the session's own
        // dictionary.
        for [length, data] in [[95, 96], [9001, 9002]] {
            let inner = "a|37=inner|43=Y|34=99|39=8";
            let body = format!("34=2|{length}={}|{data}={inner}|37=outer|", inner.len());
            for whole in [frame("8", &body), body.replace('|', "\x01").into_bytes()] {
                let is_whole = whole.starts_with(b"8=");
                if !is_whole && data == 9002 {
                    continue;
                }
                let heard = Received::of(index());
                heard.add(&whole);
                let found = heard.take(Duration::ZERO, false, |_| true).unwrap();
                let of = |tag| value(&found, tag);
                assert_eq!(of(data), Some(&*inner.replace('|', "\x01")), "{length}");
                assert_eq!(
                    (of(37), of(43), of(39), of(34)),
                    (Some("outer"), None, None, Some("2"))
                );
            }
            // The text `43=Y` in a data field does not mark the message as a resend.
            let heard = Received::of(index());
            heard.leaves(&frame("D", &body));
            let out = heard.whole(&vec![(37, "outer".to_owned())], Duration::ZERO).unwrap();
            assert_eq!(value(&out, 39), None, "{out:?}");
        }
        assert_eq!(logout_number(&frame("5", "90=5|91=|34=9|34=7|")), Some(7));
    }

    #[test]
    fn what_came_before_the_last_message_does_not_count() {
        let heard = Received::default();
        heard.add(b"35=8\x0137=1\x01");
        heard.begin_anew();
        let missed = take(&heard, Duration::ZERO).unwrap_err();
        assert!(missed.came_earlier && missed.others.is_empty(), "{missed:?}");
        heard.add(b"35=8\x0137=2\x01");
        assert_eq!(value(&take(&heard, LONG).unwrap(), 37), Some("2"));
        heard.begin_anew();
        assert!(!take(&heard, Duration::ZERO).unwrap_err().came_earlier, "long ago");
    }

    #[test]
    fn waits_for_what_comes_later() {
        let heard = Received::default();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| take(&heard, LONG));
            heard.add(b"35=8\x01");
            assert_eq!(taker.join().unwrap(), Ok(vec![(35, "8".to_owned())]));
        });
    }

    #[test]
    fn the_end_of_the_connection_ends_it_behind_the_last_message() {
        let heard = Received::default();
        heard.logged_on();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| take(&heard, LONG));
            heard.ended("bye", true);
            assert_eq!(taker.join().unwrap().unwrap_err().end.as_deref(), Some("bye"));
        });
        heard.add(b"35=8\x01");
        assert!(take(&heard, LONG).is_ok());
        assert!(take(&heard, LONG).is_err());
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| heard.take(LONG, true, report));
            heard.logged_on();
            heard.add(b"35=8\x01");
            assert!(taker.join().unwrap().is_ok());
        });
        assert_eq!(take(&heard, Duration::ZERO).unwrap_err().end, None, "logged on again");
    }

    #[test]
    fn a_refused_logon_ends_the_wait_and_a_lost_one_does_not() {
        let heard = Received::default();
        let words = |text: &str| Err(Some(text.to_owned()));
        heard.logged_on();
        assert_eq!(heard.wait(Duration::ZERO, true), Ok(()));
        heard.ended("lost", true);
        assert_eq!(heard.wait(Duration::from_millis(1), true), words("lost"));
        heard.ended("wrong password", true);
        assert_eq!(heard.wait(LONG, true), words("wrong password"));
        assert_eq!(heard.wait(Duration::ZERO, true), Err(None), "it was told");
        for (is_answered, ends_refused) in [(true, false), (false, true)] {
            heard.ended("no", is_answered);
            std::thread::scope(|scope| {
                // With several destinations, another address may accept the logon; a counterparty
                // that does not answer may not be ready yet.
                let waiter = scope.spawn(|| heard.wait(LONG, ends_refused));
                heard.logged_on();
                assert_eq!(waiter.join().unwrap(), Ok(()));
            });
            heard.ended("lost", true);
        }
        heard.ended("wrong password", true);
        heard.forget_end();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| heard.wait(LONG, true));
            heard.logged_on();
            assert_eq!(waiter.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn what_was_sent_is_found_when_it_leaves() {
        let heard = Received::default();
        let sent = vec![(35, "D".to_owned()), (11, "a".to_owned())];
        std::thread::scope(|scope| {
            let looker = scope.spawn(|| heard.whole(&sent, LONG));
            for frame in ["35=D\x0134=6\x0111=z", "35=D\x0134=7\x0111=a", "35=0\x0134=8"] {
                heard.leaves(format!("8=FIX.4.4\x01{frame}\x01").as_bytes());
            }
            let whole = looker.join().unwrap().unwrap();
            assert_eq!(value(&whole, 34), Some("7"));
        });
        heard.leaves(b"8=FIX.4.4\x0135=D\x0134=1\x0143=Y\x0111=b\x01");
        assert!(heard.whole(&sent, Duration::ZERO).is_some(), "that is sent again");
        let other = vec![(35, "D".to_owned()), (11, "b".to_owned())];
        assert_eq!(heard.whole(&other, Duration::ZERO), None);
    }

    #[test]
    fn forgets_the_oldest() {
        let heard = Received::default();
        (0..=MESSAGES_MAX).for_each(|n| heard.add(format!("34={n}\x01").as_bytes()));
        let found = heard.take(Duration::ZERO, false, |_| true);
        assert_eq!(found, Ok(vec![(34, "1".to_owned())]));
    }
}
