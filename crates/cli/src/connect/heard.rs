//! What the counterparty has sent, for the command `expect`.
//!
//! Invariant: bounded; who trades for hours without a look loses the oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use transfix::clock;
use transfix::codec::SOH;

/// Messages that are kept.
const MESSAGES_MAX: usize = 10_000;

/// The fields of a message, in their order.
pub(super) type Fields = Vec<(u32, String)>;

/// Messages that nobody has looked at yet. A clone is the same.
#[derive(Clone, Default)]
pub(super) struct Heard {
    inner: Arc<(Mutex<VecDeque<Fields>>, Condvar)>,
}

impl Heard {
    /// A message has come.
    pub(super) fn add(&self, frame: &[u8]) {
        let (messages, came) = &*self.inner;
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() == MESSAGES_MAX {
            messages.pop_front();
        }
        messages.push_back(fields(frame));
        came.notify_all();
    }

    /// Takes messages until one fits. The others are gone.
    ///
    /// # Errors
    /// The MsgType(35) of those that came and did not fit, if none has come in time.
    pub(super) fn take(
        &self,
        within: Duration,
        fits: impl Fn(&Fields) -> bool,
    ) -> Result<Fields, Vec<String>> {
        let until_ns = clock::monotonic_ns().saturating_add(within.as_nanos() as u64);
        let (messages, came) = &*self.inner;
        let mut messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = Vec::new();
        loop {
            while let Some(one) = messages.pop_front() {
                if fits(&one) {
                    return Ok(one);
                }
                others.extend(value(&one, 35).map(str::to_owned));
            }
            let left = until_ns.saturating_sub(clock::monotonic_ns());
            if left == 0 {
                return Err(others);
            }
            let waited = came.wait_timeout(messages, Duration::from_nanos(left));
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The first value of this tag.
pub(super) fn value(fields: &Fields, tag: u32) -> Option<&str> {
    fields.iter().find(|(known, _)| *known == tag).map(|(_, value)| &**value)
}

/// For a look: a data field that holds SOH is cut into pieces.
fn fields(frame: &[u8]) -> Fields {
    let fields = frame.split(|byte| *byte == SOH).filter_map(|field| {
        let field = String::from_utf8_lossy(field);
        let (tag, value) = field.split_once('=')?;
        Some((tag.parse().ok()?, value.to_owned()))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_fits_and_says_what_else_came() {
        let heard = Heard::default();
        for msg_type in ["0", "8", "8"] {
            heard.add(format!("8=FIX.4.4\x0135={msg_type}\x0137=V-{msg_type}\x01").as_bytes());
        }
        let is_report = |fields: &Fields| value(fields, 35) == Some("8");
        let found = heard.take(Duration::ZERO, is_report).unwrap();
        assert_eq!(value(&found, 37), Some("V-8"));
        let others = heard.take(Duration::ZERO, |fields| value(fields, 35) == Some("9"));
        assert_eq!(others, Err(vec!["8".to_owned()]));
        assert_eq!(heard.take(Duration::ZERO, is_report), Err(vec![]));
    }

    #[test]
    fn waits_for_what_comes_later() {
        let heard = Heard::default();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| heard.take(Duration::from_secs(20), |_| true));
            heard.add(b"35=8\x01");
            assert_eq!(taker.join().unwrap(), Ok(vec![(35, "8".to_owned())]));
        });
    }

    #[test]
    fn forgets_the_oldest() {
        let heard = Heard::default();
        (0..=MESSAGES_MAX).for_each(|n| heard.add(format!("34={n}\x01").as_bytes()));
        assert_eq!(heard.take(Duration::ZERO, |_| true), Ok(vec![(34, "1".to_owned())]));
    }
}
