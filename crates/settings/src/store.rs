//! Keys about the store of a session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

settings_table! {
    /// Storage of a session's messages and next numbers.
    #[derive(PartialEq, Eq)]
    pub struct StoreSettings {
        /// Failures that the store survives. `memory`: none; each start begins at 1. `process`: the
        /// end of the process, such as by `kill -9`. `power`: a power cut; the store syncs before
        /// each write to the socket.
        pub durability: Durability = Durability::Process,
        /// Directory of the stores; each session has its own folder.
        pub store_dir: PathBuf = "store".into(),
        /// If true, the store may be on a network file system such as NFS or SMB. Danger: another
        /// host may write the store at the same time, and a lost connection to the file system ends
        /// the process. If false, such a store is rejected.
        pub allow_network_store: bool = false,
        /// If true, the store keeps sent application messages for resends. If false, it keeps only
        /// their numbers, and a resend covers them by a SequenceReset-GapFill(4).
        pub keep_outbound: bool = true,
        /// If true, the store also keeps received application messages.
        pub keep_inbound: bool = false,
        /// If true, the session reads the next numbers from the store before each logon. An
        /// acceptor does so after it has accepted the Logon(A). Use it for a custom store that
        /// another process may have written. The engine's own stores have one writer.
        pub refresh_on_logon: bool = false,
        /// Size of the store's first segment in bytes. The following segments are up to 16 and 256
        /// times as large, and so on, at most 64 MiB. A segment exceeds 1 MiB only if half a second
        /// fills it, or if the store already holds as much. Separate threads create segments in
        /// advance. A sufficient size avoids the creation of segments while trading.
        #[least(4_096)]
        pub segment_bytes: usize = 8 << 10,
    }
}

/// The kind of failure that a store survives without losing messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The store survives no failure: it is in memory, and the numbers begin at 1 with each start.
    Memory,
    /// The end of the process, such as by `kill -9`. The store is in files.
    Process,
    /// The store survives a power failure. It is in files, and syncs before each write to the
    /// socket.
    Power,
}
