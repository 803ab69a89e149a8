//! The table `fix` of `[admin]`: the administration over FIX sessions.

use std::time::Duration;

use serde::{Serialize, Serializer};
use transfix_session::{BeginString, settings_table};

use crate::admin::is_of_this_machine;
use crate::allow_from::Subnet;
use crate::entries::all_of;

settings_table! {
    /// `fix` of `[admin]`: the administration over FIX sessions, with XML in XMLnonFIX(n) messages.
    /// It is on if this table is present.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct FixAdminSettings {
        /// Address at which the engine listens for administrators, as `host:port`. Trading sessions
        /// must use another address. An address that other machines can reach needs `certificate`
        /// and `key` of `[admin]`. With these keys, each connection is encrypted.
        pub address: String = "127.0.0.1:9891".into(),
        /// SenderCompID(49) of the answers, which an administrator writes as TargetCompID(56).
        /// Administrators choose their own SenderCompID(49) freely.
        pub sender_comp_id: String = "FIXADMIN".into(),
        /// BeginString(8) of the administrators' sessions: `FIX.4.3`, `FIX.4.4` or `FIXT.1.1`. By
        /// default `FIX.4.4`.
        #[serde(serialize_with = "as_text")]
        pub begin_string: BeginString = BeginString::Fix44,
        /// Addresses and subnets from which administrators may connect, such as `["10.1.0.0/16",
        /// "192.0.2.7"]`. By default all addresses.
        pub allow_from: Vec<String> = Vec::new(),
        /// Administrators that may be connected at the same time.
        #[least(1)]
        #[most(1000)]
        pub sessions_max: u32 = 16,
        /// Time without a command after which an administrator is logged out. An administrator with
        /// a subscription stays logged on. 0 = never.
        #[mins("idle_min")]
        pub idle: Duration = 30,
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn as_text<S: Serializer>(version: &BeginString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(version.as_str())
}

impl FixAdminSettings {
    /// Checks all keys of the table.
    pub(crate) fn check(&self, has_tls: bool) -> Result<(), String> {
        if !has_tls && !is_of_this_machine(&self.address) {
            return Err(format!(
                "address = \"{}\" of [admin.fix] is reachable from other machines: set \
                 certificate and key of [admin] too, or listen at 127.0.0.1",
                self.address
            ));
        }
        if self.begin_string < BeginString::Fix43 {
            return Err(format!(
                "begin_string of [admin.fix] must be FIX.4.3, FIX.4.4 or FIXT.1.1; {} has neither \
                 XMLnonFIX(n) nor Username(553)",
                self.begin_string.as_str()
            ));
        }
        if self.sender_comp_id.is_empty() || self.sender_comp_id == "*" {
            return Err("sender_comp_id of [admin.fix] must be a name, such as FIXADMIN".to_owned());
        }
        let wrong = self.allow_from.iter().filter_map(|text| Subnet::parse(text).err());
        all_of(wrong).map_err(|wrong| format!("allow_from of [admin.fix]: {wrong}"))?;
        self.check_ranges().map_err(|wrong| format!("[admin.fix]: {wrong}"))
    }
}
