//! A received message on its way to another session: which fields go along.

use transfix::{Body, Message, Tag, tag};

/// Fields of the standard header that are not the session's own.
const OF_HEADER: [u32; 20] = [
    50, 57, 97, 115, 116, 128, 129, 142, 143, 144, 145, 212, 213, 347, 627, 628, 629, 630, 1128,
    1129,
];

fn is_of_header(tag: Tag) -> bool {
    OF_HEADER.contains(&tag.0) || tag.0 == 1156
}

/// For whom a message is: these end here.
const DELIVER_TO: [Tag; 3] = [tag::DELIVER_TO_COMP_ID, Tag(129), Tag(145)];
/// For whom the sender speaks.
const ON_BEHALF_OF: [Tag; 3] = [tag::ON_BEHALF_OF_COMP_ID, Tag(116), Tag(144)];

/// The treatment of OnBehalfOfCompID(115), and of the ids below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnBehalf {
    /// They end here: nobody has checked what the sender says.
    #[default]
    Drop,
    /// They go along.
    Keep,
    /// OnBehalfOfCompID(115) is the counterparty that the message came from.
    Sender,
}

/// How a message is changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) on_behalf: OnBehalf,
    /// Fields that are written in place of those of the message.
    pub(super) set: Vec<(Tag, String)>,
    /// Fields that are left out.
    pub(super) remove: Vec<Tag>,
}

/// Data about a message that are not in the message itself.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The counterparty that it came from.
    pub(super) sender: &'a str,
    /// It may have been sent under another number before: PossResend(97).
    pub(super) repeats: bool,
    /// RefSeqNum(45) of a BusinessMessageReject(j), which names a number of the session that it
    /// came on: what it is to whom it goes, or nothing.
    pub(super) ref_seq: Option<u64>,
}

impl Change {
    /// Writes the fields of a message as this wants them, all others as they came.
    pub(super) fn write(&self, message: &Message<'_>, beside: Beside<'_>, body: &mut Body<'_>) {
        let is_reject = message.msg_type() == b"j";
        if beside.repeats {
            body.str(tag::POSS_RESEND, "Y");
        }
        if self.on_behalf == OnBehalf::Sender {
            body.str(tag::ON_BEHALF_OF_COMP_ID, beside.sender);
        }
        // Each set has its place: in the header, or before all of the body.
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
            // The index says where a field ends, also one whose data contain the delimiter. A field
            // that may not be sent again causes an error that names the field.
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
