//! Writes requests that were refused for a missing role into the audit, in a bounded number of
//! lines.
//!
//! Invariants: each refusal has its own line, or a later line of the same user counts the refusal.
//! The number of lines of a user grows with time, not with requests, over HTTP and FIX together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::sleep;
use transfix::{Actor, Admin};

use crate::app::blocking;
use crate::seldom::{ONE_MORE, Seldom};

/// Action name in lines that count refusals without their own line.
const COUNTED: &str = "refused requests";

/// Refusals of one user or token.
struct OfUser {
    lines: Seldom,
    /// User and address of the last refused request.
    last: Actor,
}

/// Refusals of all users and tokens, by name.
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

    /// Counts a refusal. Returns the text for its audit line if a line may be written now.
    pub(crate) fn count(&self, actor: &Actor, why: &str) -> Option<String> {
        let mut users = self.users();
        if !users.contains_key(&actor.who) {
            // Names that were removed from the users file must not accumulate.
            users.retain(|_, one| !one.lines.is_as_new());
        }
        let new = || OfUser { lines: Seldom::default(), last: actor.clone() };
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

    /// Writes a refusal into the audit, or counts the refusal. May wait for the disk.
    pub(crate) fn note(&self, actor: &Actor, what: &str, why: &str) {
        if let Some(why) = self.count(actor, why) {
            self.write(actor, what, &why);
        }
    }

    /// Writes a line of the audit. May wait for the disk.
    pub(crate) fn write(&self, actor: &Actor, what: &str, why: &str) {
        // The request is refused already, so an error of the audit changes nothing here. The log
        // reports the error.
        let _ = self.admin.note(actor, what, Err(why));
    }

    /// Writes the counts whenever a line is allowed. Never returns.
    pub(crate) async fn write_counts(self: Arc<Self>) {
        loop {
            self.has_left_out.notified().await;
            while self.users().values().any(|one| one.lines.has_left_out()) {
                sleep(ONE_MORE).await;
                let refusals = Arc::clone(&self);
                // A panic is reported elsewhere; the next pass retries.
                let _ = blocking(move || refusals.write_those(Seldom::tell_left_out)).await;
            }
        }
    }

    /// Writes all remaining counts at shutdown. May wait for the disk.
    pub(crate) fn write_rest(&self) {
        self.write_those(Seldom::take_left_out);
    }

    fn write_those(&self, counted_by: impl Fn(&Seldom) -> Option<u64>) {
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
