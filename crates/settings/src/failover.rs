//! The table `failover`: an initiator's backup destinations, and the order in which they are tried.

use serde::{Deserialize, Serialize};
use transfix_session::{Offline, settings_table};

/// The maximum number of destinations of a session, including `address`.
const DESTINATIONS_MAX: usize = 16;

/// The destination that an initiator tries after an established connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailoverOrder {
    /// The initiator tries the same destination again.
    Stay,
    /// The initiator returns to `address`, the primary destination.
    First,
    /// The initiator tries the next destination of the list; after the last one follows `address`.
    Next,
    /// A random destination, also after a failed attempt. The other orders try the next destination
    /// after a failed attempt.
    Random,
}

settings_table! {
    /// `failover`: backup destinations of an initiator that cannot reach `address`, or cannot log
    /// on there.
    #[derive(PartialEq, Eq)]
    pub struct FailoverSettings {
        /// Backup destinations, each as `host:port`, at most 15. `address` follows the last one.
        pub addresses: Vec<String> = Vec::new(),
        /// Destination after an established connection has ended: `stay` (the same), `first`
        /// (`address`), `next` (the next of the list) or `random`.
        pub order: FailoverOrder = FailoverOrder::Stay,
        /// Consecutive failed attempts at one destination before the initiator tries the next
        /// destination. A rejected Logon(A) is a failed attempt. 0 = never: only an operator
        /// changes the destination.
        pub attempts: u32 = 1,
        /// If true, the first logon at a backup after a logon elsewhere resets both numbers to 1,
        /// by a Logon(A) with ResetSeqNumFlag(141)=Y.
        pub reset_on_backup: bool = false,
        /// If true, the first logon at `address` after a logon elsewhere resets both numbers to 1,
        /// by a Logon(A) with ResetSeqNumFlag(141)=Y.
        pub reset_on_primary: bool = false,
        /// If true, all backups share a second store in the folder `backup` of `store_dir`. Its
        /// numbers continue from the last connection to a backup. Messages sent to `address` are
        /// not resent to a backup, and vice versa.
        pub own_store: bool = false,
    }
}

impl FailoverSettings {
    /// Checks keys that depend on each other.
    pub(crate) fn check(&self, offline: Offline) -> Result<(), String> {
        if self.addresses.is_empty() && *self != Self::default() {
            return Err(
                "failover requires failover.addresses, the list of backup addresses".to_owned()
            );
        }
        if self.addresses.len() >= DESTINATIONS_MAX {
            let most = DESTINATIONS_MAX - 1;
            return Err(format!("failover.addresses may have at most {most} addresses"));
        }
        if self.own_store && (self.reset_on_backup || self.reset_on_primary) {
            return Err("failover.own_store excludes reset_on_backup and reset_on_primary: they \
                        are for a primary and backups that share one store"
                .to_owned());
        }
        if self.own_store && offline == Offline::Queue {
            return Err(
                "failover.own_store excludes offline = \"queue\": messages would wait in the \
                 store of one destination while another is connected; use \"store\" or \
                 \"refuse\""
                    .to_owned(),
            );
        }
        Ok(())
    }
}
