//! When numbers start again at 1.

/// The events after which MsgSeqNum(34) starts again at 1 in both directions, besides a
/// ResetSeqNumFlag(141)=Y of the counterparty. None of them by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetPolicy {
    /// The initiator sends ResetSeqNumFlag(141)=Y with each Logon(A) (from FIX 4.1 on); the
    /// acceptor resets at each Logon(A), whose own number is still checked against 1.
    pub logon: bool,
    /// After an exchange of Logout(5).
    pub logout: bool,
    /// After each connection, however it ended.
    pub disconnect: bool,
    /// After a connection that was logged on and ended by a fault of either side: a bad header, a
    /// number too low, silence (see [`crate::Disconnect::is_error`]). Not after a refused Logon(A):
    /// whoever is refused may be a stranger.
    pub error: bool,
}

impl ResetPolicy {
    /// No reset by itself.
    pub const NEVER: Self = Self { logon: false, logout: false, disconnect: false, error: false };
    /// With each Logon(A).
    pub const LOGON: Self = Self { logon: true, ..Self::NEVER };
    /// After each connection.
    pub const DISCONNECT: Self = Self { disconnect: true, ..Self::NEVER };
    /// The names of the events, as settings write them.
    pub const NAMES: &[&str] = &["logon", "logout", "disconnect", "error"];

    /// The switch of the event of that name.
    pub fn named(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "logon" => &mut self.logon,
            "logout" => &mut self.logout,
            "disconnect" => &mut self.disconnect,
            "error" => &mut self.error,
            _ => return None,
        })
    }
}
