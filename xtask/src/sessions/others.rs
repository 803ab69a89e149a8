//! The clients of idle sessions, which only send heartbeats.

use std::time::{Duration, Instant};

use super::client::Client;

/// The idle clients of one server.
#[derive(Default)]
pub(super) struct Others {
    pub(super) all: Vec<Client>,
    /// Index of the client that sends the next heartbeat.
    next: usize,
    due: Option<Instant>,
    heart_bt_int_s: u64,
}

impl Others {
    /// Logs on all sessions except the first, which is busy.
    pub(super) fn log_on(
        address: &str,
        sessions: usize,
        heart_bt_int_s: u64,
    ) -> Result<Self, String> {
        let log_on = |n| Client::log_on(address, &format!("C{n}"), heart_bt_int_s);
        let all: Result<Vec<_>, _> = (1..sessions).map(log_on).collect();
        Ok(Self { all: all?, next: 0, due: Some(Instant::now()), heart_bt_int_s })
    }

    /// Sends the heartbeats that are due. The heartbeats of all clients are spread evenly over the
    /// interval.
    pub(super) fn send_due(&mut self) -> Result<(), String> {
        let Some(mut due) = self.due.filter(|_| !self.all.is_empty()) else { return Ok(()) };
        let step = Duration::from_secs(self.heart_bt_int_s) / self.all.len() as u32;
        while due <= Instant::now() {
            self.all[self.next].beat()?;
            self.next = (self.next + 1) % self.all.len();
            due += step;
        }
        self.due = Some(due);
        Ok(())
    }
}
