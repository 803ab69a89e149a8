//! A received message sent on: which of its fields go along.

use transfix_codec::{Body, Message, Tag, tag};

/// Writes the fields of a received message as they stand, but those of its own session.
pub(super) fn copy_fields(message: &Message<'_>, body: &mut Body<'_>) {
    for (n, field) in message.fields().enumerate() {
        if tag::stays_with_session(field.tag) {
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
