//! The tokens by which a server knows the owner of a session.

use transfix_store::StoreError;

use crate::failed;

/// The tokens of one process, each random and used by no other process. The server stores the token
/// of the owner, and refuses the commits of other tokens. If the answer to a take-over is lost, the
/// server may have either token, so a process that owned the session recognizes both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    /// The token with which this process owns or has owned the session. Before the first take-over,
    /// no server has it.
    pub(crate) own: i64,
    /// The token that the next take-over stores.
    pub(crate) next: i64,
}

impl Tokens {
    pub(crate) fn new() -> Result<Self, StoreError> {
        Ok(Self { own: random()?, next: random()? })
    }

    /// Returns the tokens after the server has stored the next one.
    pub(crate) fn taken(self) -> Result<Self, StoreError> {
        Ok(Self { own: self.next, next: random()? })
    }
}

/// Returns a random number above 0.
fn random() -> Result<i64, StoreError> {
    let number = getrandom::u64().map_err(failed)?;
    Ok((number >> 1).max(1).cast_signed())
}
