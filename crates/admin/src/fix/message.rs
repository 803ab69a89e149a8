//! Reads and writes XMLnonFIX(n), the message of commands and answers.

use transfix::{Body, Message, Tag, tag};

/// MsgType(35) of XMLnonFIX(n).
pub(super) const TYPE: &str = "n";
/// MonitoringRequestId(9207), by which a client matches an answer to its command.
const MONITORING_REQUEST_ID: Tag = Tag(9207);
/// Maximum length of MonitoringRequestId(9207), in bytes.
const ID_MAX: usize = 256;

/// Returns the MonitoringRequestId(9207) of a message, if present; an invalid one is an error.
///
/// # Errors
/// Returns the reason if the field is invalid.
pub(super) fn monitoring_id<'m>(message: &Message<'m>) -> Result<Option<&'m str>, String> {
    let Some(id) = message.raw(MONITORING_REQUEST_ID) else { return Ok(None) };
    let id = std::str::from_utf8(id).ok().filter(|id| id.len() <= ID_MAX);
    id.map(Some).ok_or_else(|| format!("tag 9207 must be UTF-8 text of at most {ID_MAX} bytes"))
}

/// Writes the fields of an answer.
pub(super) fn write(body: &mut Body<'_>, xml: &str, monitoring_id: Option<&str>) {
    body.data(tag::XML_DATA_LEN, tag::XML_DATA, xml.as_bytes());
    if let Some(id) = monitoring_id.filter(|id| !id.is_empty()) {
        body.str(MONITORING_REQUEST_ID, id);
    }
}
