//! The findings of validation, as a table. The tests try each row, and the page of the
//! documentation is made from it.

use crate::{RejectReason, Tag};

/// One kind of error that validation finds.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// SessionRejectReason(373).
    pub reason: RejectReason,
    /// The switch of [`Switches`](super::Switches) that makes the check.
    pub switch: &'static str,
    /// The fault.
    pub what: &'static str,
    /// FIX Antenna's name of the check; empty if it has none.
    pub antenna: &'static str,
    /// QuickFIX's name of the check; empty if it has none.
    pub quickfix: &'static str,
    /// A body with this error, in a message of FIX 4.4: MsgType(35) and then the fields behind the
    /// header, with `|` for the delimiter.
    pub example: &'static str,
    /// RefTagID(371) of the answer.
    pub tag: Option<Tag>,
}

macro_rules! reasons {
    ($($reason:ident $switch:ident $tag:expr, $what:literal, $antenna:literal, $quickfix:literal,
        $example:literal;)*) => {
        /// Everything that validation finds, by SessionRejectReason(373).
        ///
        /// Of the other reasons, 9 (CompID), 10 (SendingTime) and 18 (ApplVerID(1128) of a version
        /// that the session does not have) are found by the session; 3 (undefined tag) is never
        /// used, as an undefined tag is answered with 0; 7, 8, 12, 17, 19 and above belong to
        /// encryption, signatures and XML, which validation does not look into.
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

/// Tags of the answer.
const fn some(tag: u32) -> Option<Tag> {
    Some(Tag(tag))
}

reasons! {
    InvalidTagNumber undefined_tags some(4999), "a tag that the version does not define",
        "ProhibitUnknownTags", "AllowUnknownMsgFields", "0|4999=x|";
    InvalidTagNumber undefined_tags some(58), "a tag with leading zeros, or no number at all",
        "", "", "0|058=x|";
    InvalidTagNumber user_defined_tags some(5001), "a tag of 5000 or above that is not defined",
        "ProhibitUnknownTags", "ValidateUserDefinedFields", "0|5001=x|";
    RequiredTagMissing required_tags some(11), "a required tag is missing",
        "requiredFieldsValidation", "", "D|55=X|54=1|60=20261121-09:28:25|38=1|40=1|";
    RequiredTagMissing required_in_groups some(54), "a required tag is missing in a group entry",
        "Validation.CheckRequiredGroupFields", "", "E|66=1|394=1|68=1|73=1|11=1|67=1|55=X|";
    RequiredTagMissing conditions some(44), "a tag that the standard requires under a condition",
        "", "", "D|11=1|55=X|54=1|60=20261121-09:28:25|38=1|40=2|";
    TagNotDefinedForMessage tags_of_message some(44), "a tag that the message does not have",
        "allowedFieldsValidation", "", "0|44=1|";
    TagWithoutValue empty_values some(112), "a tag without a value",
        "Validation.ProhibitTagsWithoutValue", "ValidateFieldsHaveValues", "0|112=|";
    ValueOutOfRange codes some(98), "a value that is none of the codes",
        "Validation.VerifyTagsValues", "AllowUnknownEnumValues", "A|98=9|108=30|";
    IncorrectDataFormat formats some(108), "a value that has not the form of its type",
        "Validation.VerifyTagsValues", "", "A|98=0|108=x|";
    InvalidMsgType msg_types None, "a MsgType(35) that the version does not define",
        "", "", "zz|112=x|";
    TagAppearsMoreThanOnce repeated_tags some(112), "a tag twice outside of groups",
        "ProhibitDuplicatedTags", "", "0|112=x|112=y|";
    TagOutOfOrder section_order some(57), "a header field behind the body, or body behind trailer",
        "fieldOrderValidation", "ValidateFieldsOutOfOrder", "0|112=x|57=SUB|";
    GroupFieldsOutOfOrder group_order some(447), "an entry that begins with another member",
        "groupValidation", "ValidateUnorderedGroupFields", "R|131=1|146=1|55=X|453=1|447=D|448=A|";
    IncorrectNumInGroup group_counts some(384), "another number of entries than said",
        "VerifyRepeatingGroupBounds", "", "A|98=0|108=30|384=2|372=D|385=S|";
    IncorrectNumInGroup empty_groups some(384), "a group with no entries",
        "AllowZeroNumInGroup", "", "A|98=0|108=30|384=0|";
}
