//! XMLnonFIX(n), the message that commands and answers come in.

use transfix::{Body, Message, Tag, tag};

/// Its MsgType(35).
pub(super) const TYPE: &str = "n";
/// MonitoringRequestId(9207), by which administrators know the answer again.
const MONITORING_REQUEST_ID: Tag = Tag(9207);
/// The longest MonitoringRequestId(9207), in bytes.
const ID_MAX: usize = 256;

/// MonitoringRequestId(9207) of a message.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn monitoring_id<'m>(message: &Message<'m>) -> Result<Option<&'m str>, String> {
    let Some(id) = message.raw(MONITORING_REQUEST_ID) else { return Ok(None) };
    let id = std::str::from_utf8(id).ok().filter(|id| id.len() <= ID_MAX);
    id.map(Some).ok_or_else(|| format!("tag 9207 is a text of {ID_MAX} bytes at most"))
}

/// Writes an answer.
pub(super) fn write(body: &mut Body<'_>, xml: &str, monitoring_id: Option<&str>) {
    body.data(tag::XML_DATA_LEN, tag::XML_DATA, xml.as_bytes());
    if let Some(id) = monitoring_id.filter(|id| !id.is_empty()) {
        body.str(MONITORING_REQUEST_ID, id);
    }
}
