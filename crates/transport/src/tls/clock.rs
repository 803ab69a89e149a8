//! The clock for checking the validity of certificates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// A clock that returns Unix time in seconds. The default is the clock of the operating system.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> u64 + Send + Sync>>);

impl Clock {
    /// Creates a clock that calls `now_s` each time.
    pub fn of(now_s: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now_s)))
    }

    pub(super) fn now(&self) -> UnixTime {
        match &self.0 {
            Some(now_s) => UnixTime::since_unix_epoch(Duration::from_secs(now_s())),
            None => UnixTime::now(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(own)" } else { "Clock(system)" })
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}
