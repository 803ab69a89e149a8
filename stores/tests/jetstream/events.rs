//! The events with which gateways report that a session has moved.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};

use super::fleet::until;

/// The events of this process, as text.
static EVENTS: Mutex<String> = Mutex::new(String::new());

struct Sink;

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        events.push_str(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins to keep the events of this process.
pub(super) fn keep() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Sink).init());
}

/// Waits until this number of gateways has reported that the session has moved for this reason.
pub(super) fn expect(count: usize, session: &str, (from, to): (&str, &str), why: &str) {
    let wanted = format!("session={session:?} from={from:?} to={to:?} why={why:?}");
    until(&wanted, || {
        EVENTS.lock().unwrap_or_else(PoisonError::into_inner).matches(&wanted).count() == count
    });
}
