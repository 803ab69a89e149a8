//! The table `failover`: further destinations of an initiator, and when it turns to them.

use serde::{Deserialize, Serialize};
use transfix_session::{Offline, settings_table};

/// Destinations of one session, `address` among them.
const DESTINATIONS_MAX: usize = 16;

/// Which destination an initiator tries after a connection that stood has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailoverOrder {
    /// The same again.
    Stay,
    /// `address`, which is the primary one.
    First,
    /// The next one of the list, and `address` behind the last.
    Next,
    /// Any of them. So it is after an attempt that failed: with the other words the next one of
    /// the list follows then.
    Random,
}

settings_table! {
    /// `failover`: where else an initiator connects to if it does not reach `address`, or is not
    /// logged on there.
    #[derive(PartialEq, Eq)]
    pub struct FailoverSettings {
        /// The backups, each as `host:port`, 15 at most. Behind the last one `address` follows
        /// again.
        pub addresses: Vec<String> = Vec::new(),
        /// Which destination is tried once a connection that stood has ended: `stay` (the same
        /// again), `first` (`address`), `next` (the next one of the list) or `random`.
        pub order: FailoverOrder = FailoverOrder::Stay,
        /// Attempts in a row at one destination after which the next one follows; one whose
        /// Logon(A) is refused counts. 0 for never: only an operator changes it.
        pub attempts: u32 = 1,
        /// If true, both numbers begin at 1 again, by a Logon(A) with ResetSeqNumFlag(141)=Y, at
        /// the first logon at a backup after one at another destination.
        pub reset_on_backup: bool = false,
        /// The same at the first logon at `address`.
        pub reset_on_primary: bool = false,
        /// If true, the backups have a store of their own, all of them one. Their numbers go on
        /// from where the last connection to a backup has left them. Messages sent elsewhere are
        /// not sent again there. It lies in the folder `backup` of `store_dir`.
        pub own_store: bool = false,
    }
}

impl FailoverSettings {
    /// Checks across the keys.
    pub(crate) fn check(&self, offline: Offline) -> Result<(), String> {
        if self.addresses.is_empty() && *self != Self::default() {
            return Err("failover says nothing without failover.addresses, the backups".to_owned());
        }
        if self.addresses.len() >= DESTINATIONS_MAX {
            let most = DESTINATIONS_MAX - 1;
            return Err(format!("failover.addresses are {most} at most"));
        }
        if self.own_store && (self.reset_on_backup || self.reset_on_primary) {
            return Err("failover.own_store keeps the numbers of primary and backups apart: \
                 reset_on_backup and reset_on_primary are for those that share a store"
                .to_owned());
        }
        if self.own_store && offline == Offline::Queue {
            return Err(
                "failover.own_store: with offline = \"queue\" messages wait in the store of \
                 one destination while another one is connected; use \"store\" or \"refuse\""
                    .to_owned(),
            );
        }
        Ok(())
    }
}
