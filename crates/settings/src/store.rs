//! Keys about the store of a session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

settings_table! {
    /// Where a session keeps its messages and next numbers.
    #[derive(PartialEq, Eq)]
    pub struct StoreSettings {
        /// The failures that the store survives: `memory`, `process`, `power`.
        pub durability: Durability = Durability::Process,
        /// Directory of the stores; each session has a folder of its own in it.
        pub store_dir: PathBuf = "store".into(),
        /// If true, the store may lie on a network file system such as NFS or SMB. There another
        /// host may write it at the same time, and a lost connection ends the process. If not, it
        /// is refused.
        pub allow_network_store: bool = false,
        /// If true, application messages sent are kept, to be sent again when they are asked for.
        /// If not, only their numbers are, and a SequenceReset-GapFill(4) covers them.
        pub keep_outbound: bool = true,
        /// If true, application messages received are kept too.
        pub keep_inbound: bool = false,
        /// If true, the next numbers are read from the store again before each logon; an acceptor
        /// does so once it has found the Logon(A) good. This is for a store of your own that
        /// another process may have written since. The engine's own stores have one writer.
        pub refresh_on_logon: bool = false,
        /// Size of the store's first segment in bytes. The next ones are up to 16 and 256 times as
        /// large, and so on. They are larger than 1 MiB only if half a second fills it, or if the
        /// store holds as much already, and 64 MiB at most. They are made ahead of time, in threads
        /// of their own. Large enough, no segment is ever made while trading.
        #[least(4_096)]
        pub segment_bytes: usize = 8 << 10,
    }
}

/// Where sent messages and the next numbers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// In memory: nothing outlives the process; each start begins at 1.
    Memory,
    /// In files: survives `kill -9` of the process.
    Process,
    /// In files, synced before each write to the socket: survives a power cut.
    Power,
}
