//! Records requests that were refused for a missing role in the audit, in a bounded number of
//! lines.
//!
//! Invariants: each refusal has its own line, or a later line of the same user counts it. The
//! number of a user's lines is bounded by time, not by requests, over HTTP and FIX together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::sleep;
use transfix::{Actor, Admin};

use crate::app::blocking;
use crate::seldom::{ONE_MORE, RateLimit};

/// Action name of the audit lines that count refusals without their own lines.
const COUNTED: &str = "refused requests";

/// The refusals of one user or token.
struct OfUser {
    lines: RateLimit,
    /// User and client address of the last refused request.
    last: Actor,
}

/// The refusals of all users and tokens, by name.
pub(crate) struct Refusals {
    admin: Admin,
    users: Mutex<BTreeMap<String, OfUser>>,
    has_left_out: Notify,
}

impl Refusals {
    pub(crate) fn new(admin: &Admin) -> Self {
        Self { admin: admin.clone(), users: Mutex::default(), has_left_out: Notify::new() }
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<String, OfUser>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a refusal. Returns the text of its audit line if the rate limit allows a line now.
    pub(crate) fn count(&self, actor: &Actor, why: &str) -> Option<String> {
        let mut users = self.users();
        if !users.contains_key(&actor.who) {
            // Entries without recent refusals are removed, so that names removed from the users
            // file do not accumulate.
            users.retain(|_, one| !one.lines.is_as_new());
        }
        let new = || OfUser { lines: RateLimit::default(), last: actor.clone() };
        let one = users.entry(actor.who.clone()).or_insert_with(new);
        one.last.clone_from(actor);
        match one.lines.tell() {
            Some(0) => Some(why.to_owned()),
            Some(left_out) => Some(format!("{why}; {}", counted(left_out))),
            None => {
                self.has_left_out.notify_one();
                None
            }
        }
    }

    /// Writes a refusal into the audit, or only counts the refusal. May wait for the disk.
    pub(crate) fn note(&self, actor: &Actor, what: &str, why: &str) {
        if let Some(why) = self.count(actor, why) {
            self.write(actor, what, &why);
        }
    }

    /// Writes a line into the audit. May wait for the disk.
    pub(crate) fn write(&self, actor: &Actor, what: &str, why: &str) {
        // The request is refused even if the audit cannot be written; the log reports that error.
        let _ = self.admin.note(actor, what, Err(why));
    }

    /// Writes the counts of refusals without lines as soon as the rate limit allows. Never returns.
    pub(crate) async fn write_counts(self: Arc<Self>) {
        loop {
            self.has_left_out.notified().await;
            while self.users().values().any(|one| one.lines.has_left_out()) {
                sleep(ONE_MORE).await;
                let refusals = Arc::clone(&self);
                // A panic is reported elsewhere, and the next iteration tries again.
                let _ = blocking(move || refusals.write_those(RateLimit::tell_left_out)).await;
            }
        }
    }

    /// Writes all remaining counts at shutdown, regardless of the rate limit. May wait for the
    /// disk.
    pub(crate) fn write_rest(&self) {
        self.write_those(RateLimit::take_left_out);
    }

    fn write_those(&self, counted_by: impl Fn(&RateLimit) -> Option<u64>) {
        let count_of = |one: &OfUser| Some((one.last.clone(), counted_by(&one.lines)?));
        let counts: Vec<_> = self.users().values().filter_map(count_of).collect();
        for (actor, left_out) in counts {
            self.write(&actor, COUNTED, &counted(left_out));
        }
    }
}

fn counted(left_out: u64) -> String {
    format!("{left_out} earlier refusals have no line of their own")
}
