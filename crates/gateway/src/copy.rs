//! Selects the fields that a message keeps when it is forwarded to another session.

use transfix::{Body, Message, Tag, tag};

/// The fields of the standard header that a forwarded message keeps.
const OF_HEADER: [u32; 20] = [
    50, 57, 97, 115, 116, 128, 129, 142, 143, 144, 145, 212, 213, 347, 627, 628, 629, 630, 1128,
    1129,
];

fn is_of_header(tag: Tag) -> bool {
    OF_HEADER.contains(&tag.0) || tag.0 == 1156
}

/// The header fields that name the recipient; a forwarded message does not keep them.
const DELIVER_TO: [Tag; 3] = [tag::DELIVER_TO_COMP_ID, Tag(129), Tag(145)];
/// The fields that name the firm on whose behalf the sender acts.
const ON_BEHALF_OF: [Tag; 3] = [tag::ON_BEHALF_OF_COMP_ID, Tag(116), Tag(144)];

/// The treatment of OnBehalfOfCompID(115) and its sub-IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnBehalf {
    /// The fields are dropped, because the sender's claim is unchecked.
    #[default]
    Drop,
    /// The fields are kept.
    Keep,
    /// OnBehalfOfCompID(115) is set to the counterparty that sent the message.
    Sender,
}

/// The changes that a route makes to a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) on_behalf: OnBehalf,
    /// Fields that replace those of the message, or are added.
    pub(super) set: Vec<(Tag, String)>,
    /// Fields to leave out.
    pub(super) remove: Vec<Tag>,
}

/// The data that the copy of a message needs besides the message itself.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The counterparty that sent the message.
    pub(super) sender: &'a str,
    /// True if the message may have been sent before under another number, so that the copy gets
    /// PossResend(97)=Y.
    pub(super) repeats: bool,
    /// RefSeqNum(45) of a BusinessMessageReject(j), translated to the recipient's numbers. `None`
    /// if unknown.
    pub(super) ref_seq: Option<u64>,
}

impl Change {
    /// Writes the copy of a message with these changes. All other fields are copied unchanged.
    pub(super) fn write(&self, message: &Message<'_>, beside: Beside<'_>, body: &mut Body<'_>) {
        let is_reject = message.msg_type() == b"j";
        if beside.repeats {
            body.str(tag::POSS_RESEND, "Y");
        }
        if self.on_behalf == OnBehalf::Sender {
            body.str(tag::ON_BEHALF_OF_COMP_ID, beside.sender);
        }
        // Writes the fields of `set` that belong into the header, or those that belong before the
        // body.
        let set = |body: &mut Body<'_>, in_header: bool| {
            if let Some(seq) = beside.ref_seq.filter(|_| is_reject && !in_header) {
                body.uint(tag::REF_SEQ_NUM, seq);
            }
            for (tag, value) in self.set.iter().filter(|(tag, _)| is_of_header(*tag) == in_header) {
                body.str(*tag, value);
            }
        };
        set(body, true);
        let mut is_in_header = true;
        for (n, field) in message.fields().enumerate() {
            let tag = field.tag;
            if is_in_header && !is_of_header(tag) && !tag::stays_with_session(tag) {
                is_in_header = false;
                set(body, false);
            }
            let is_left_out = tag::stays_with_session(tag)
                || DELIVER_TO.contains(&tag)
                || (ON_BEHALF_OF.contains(&tag) && self.on_behalf != OnBehalf::Keep)
                || (tag == tag::POSS_RESEND && beside.repeats)
                || (tag == tag::REF_SEQ_NUM && is_reject)
                || self.set.iter().any(|(set, _)| *set == tag)
                || self.remove.contains(&tag);
            if is_left_out {
                continue;
            }
            // Copies a field from the index, which knows its end even if data contain the
            // delimiter. A field that must not be forwarded causes an error with its tag.
            if tag == Tag(0) || field.value.is_empty() {
                body.fields(message.encoded(n));
            } else {
                body.fields_unchecked(message.encoded(n));
            }
        }
        if is_in_header {
            set(body, false);
        }
    }
}
