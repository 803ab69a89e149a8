//! The application version of a single message on a FIXT session.

use transfix_codec::{Body, tag};
use transfix_session::{ApplVerId, BeginString, SendError, SessionId};

/// The application version of a message on a FIXT.1.1 session; by default, the version of the
/// session (FIXT 1.1, "ApplVerID").
///
/// ```
/// use transfix::{ApplVerId, MessageVersion};
///
/// // A message of FIX 4.2 among those of FIX 5.0.
/// let fix42 = MessageVersion { appl_ver_id: Some(ApplVerId(4)), ..MessageVersion::default() };
/// # assert_eq!(fix42.appl_ext_id, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageVersion<'a> {
    /// ApplVerID(1128).
    pub appl_ver_id: Option<ApplVerId>,
    /// ApplExtID(1156): the number of an extension pack.
    pub appl_ext_id: Option<u32>,
    /// CstmApplVerID(1129): a version that both sides have agreed on.
    pub cstm_appl_ver_id: Option<&'a str>,
}

impl MessageVersion<'_> {
    pub(crate) fn check(&self, id: &SessionId) -> Result<(), SendError> {
        match id.begin_string == BeginString::Fixt11 || *self == Self::default() {
            true => Ok(()),
            false => Err(SendError::NoApplVerId),
        }
    }

    pub(crate) fn write(&self, body: &mut Body<'_>) {
        if let Some(version) = self.appl_ver_id {
            body.uint(tag::APPL_VER_ID, version.0.into());
        }
        if let Some(pack) = self.appl_ext_id {
            body.uint(tag::APPL_EXT_ID, pack.into());
        }
        if let Some(version) = self.cstm_appl_ver_id {
            body.str(tag::CSTM_APPL_VER_ID, version);
        }
    }
}
