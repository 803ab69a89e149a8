//! The table of the errors that validation finds. Tests cover each row, and a page of the book is
//! generated from the table.

use crate::{RejectReason, Tag};

/// A kind of error that validation finds.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// SessionRejectReason(373).
    pub reason: RejectReason,
    /// The field of [`Switches`](super::Switches) that enables the check.
    pub switch: &'static str,
    /// Description of the fault.
    pub what: &'static str,
    /// FIX Antenna's name for this check; empty if there is none.
    pub antenna: &'static str,
    /// QuickFIX's name for this check; empty if there is none.
    pub quickfix: &'static str,
    /// A FIX 4.4 message with this error: MsgType(35), then the fields after the header, with `|`
    /// as delimiter.
    pub example: &'static str,
    /// RefTagID(371) of the Reject(3) that answers the example.
    pub tag: Option<Tag>,
}

macro_rules! reasons {
    ($($reason:ident $switch:ident $tag:expr, $what:literal, $antenna:literal, $quickfix:literal,
        $example:literal;)*) => {
        /// All kinds of errors that validation finds, ordered by SessionRejectReason(373).
        ///
        /// The session itself finds reasons 9 (CompID), 10 (SendingTime) and 18 (unsupported
        /// ApplVerID(1128)). Reason 3 (undefined tag) is never used, because an undefined tag is
        /// answered with reason 0. Reasons 7, 8, 12, 17, 19 and above concern encryption,
        /// signatures and XML, which validation does not examine.
        pub const REASONS: &[Reason] = &[$(
            Reason {
                reason: RejectReason::$reason,
                switch: stringify!($switch),
                what: $what,
                antenna: $antenna,
                quickfix: $quickfix,
                example: $example,
                tag: $tag,
            },
        )*];
    };
}

/// Returns `tag` for a row of the table.
const fn some(tag: u32) -> Option<Tag> {
    Some(Tag(tag))
}

reasons! {
    InvalidTagNumber undefined_tags some(4999), "a tag that the version does not define",
        "ProhibitUnknownTags", "AllowUnknownMsgFields", "0|4999=x|";
    InvalidTagNumber undefined_tags some(58), "a tag with leading zeros, or a tag that is no \
        number",
        "", "", "0|058=x|";
    InvalidTagNumber user_defined_tags some(5001), "a tag of 5000 or above that is not defined",
        "ProhibitUnknownTags", "ValidateUserDefinedFields", "0|5001=x|";
    RequiredTagMissing required_tags some(11), "a required tag is missing",
        "requiredFieldsValidation", "", "D|55=X|54=1|60=20261121-09:28:25|38=1|40=1|";
    RequiredTagMissing required_in_groups some(54), "a required tag is missing in a group entry",
        "Validation.CheckRequiredGroupFields", "", "E|66=1|394=1|68=1|73=1|11=1|67=1|55=X|";
    RequiredTagMissing conditions some(44), "a tag that the standard requires under a condition",
        "", "", "D|11=1|55=X|54=1|60=20261121-09:28:25|38=1|40=2|";
    TagNotDefinedForMessage tags_of_message some(44), "a tag that the message type does not have",
        "allowedFieldsValidation", "", "0|44=1|";
    TagWithoutValue empty_values some(112), "a tag without a value",
        "Validation.ProhibitTagsWithoutValue", "ValidateFieldsHaveValues", "0|112=|";
    ValueOutOfRange codes some(98), "a value that is not one of the codes",
        "Validation.VerifyTagsValues", "AllowUnknownEnumValues", "A|98=9|108=30|";
    IncorrectDataFormat formats some(108), "a value without the form of its type",
        "Validation.VerifyTagsValues", "", "A|98=0|108=x|";
    InvalidMsgType msg_types None, "a MsgType(35) that the version does not define",
        "", "", "zz|112=x|";
    TagAppearsMoreThanOnce repeated_tags some(112), "a repeated tag outside of groups",
        "ProhibitDuplicatedTags", "", "0|112=x|112=y|";
    TagOutOfOrder section_order some(57), "a header field after the body, or a body field after \
        the trailer",
        "fieldOrderValidation", "ValidateFieldsOutOfOrder", "0|112=x|57=SUB|";
    GroupFieldsOutOfOrder group_order some(447), "a group entry that begins with another field",
        "groupValidation", "ValidateUnorderedGroupFields", "R|131=1|146=1|55=X|453=1|447=D|448=A|";
    IncorrectNumInGroup group_counts some(384), "a number of entries that differs from NumInGroup",
        "VerifyRepeatingGroupBounds", "", "A|98=0|108=30|384=2|372=D|385=S|";
    IncorrectNumInGroup empty_groups some(384), "a group without entries",
        "AllowZeroNumInGroup", "", "A|98=0|108=30|384=0|";
}
