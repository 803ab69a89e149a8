//! A received message sent on: which of its fields go along.

use transfix_codec::{Body, Message, Tag, tag};

/// Fields of the header and trailer that belong to the session on which a message came, beside
/// those that the session layer writes: ids of the two sides, the last number processed, and
/// signature and encryption of this one message.
const OF_ITS_SESSION: [Tag; 9] = [
    tag::SENDER_SUB_ID,
    tag::SENDER_LOCATION_ID,
    tag::TARGET_SUB_ID,
    tag::TARGET_LOCATION_ID,
    tag::LAST_MSG_SEQ_NUM_PROCESSED,
    tag::SIGNATURE_LENGTH,
    tag::SIGNATURE,
    Tag(90), // SecureDataLen
    Tag(91), // SecureData
];

/// Writes the fields of a received message as they stand, but those of its own session.
pub(super) fn copy_fields(message: &Message<'_>, body: &mut Body<'_>) {
    for (n, field) in message.fields().enumerate() {
        if tag::is_session_owned(field.tag) || OF_ITS_SESSION.contains(&field.tag) {
            continue;
        }
        // The index says where a field ends, also one whose data contain the delimiter. What nobody
        // may send again is a mistake that names it.
        if field.tag == Tag(0) || field.value.is_empty() {
            body.fields(message.encoded(n));
        } else {
            body.fields_unchecked(message.encoded(n));
        }
    }
}
