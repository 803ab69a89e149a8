//! Which checks a session makes: one switch for each reason of a Reject(3).

/// Which checks are made; all by default, but for `empty_groups`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Reason 11: MsgType(35) is one of the dictionary. If off, a message of an unknown type is
    /// accepted without further checks.
    pub msg_types: bool,
    /// Reason 0: tags are numbers which the version defines. If off, other tags are passed over.
    pub undefined_tags: bool,
    /// Reason 0 for tags of 5000 and above, which venues define for themselves; counts only while
    /// `undefined_tags` is on.
    pub user_defined_tags: bool,
    /// Reason 2: a tag belongs to the message that it stands in.
    pub tags_of_message: bool,
    /// Reason 1: required tags are there, outside of groups.
    pub required_tags: bool,
    /// Reason 1: required tags are there in each entry of a group.
    pub required_in_groups: bool,
    /// Reason 4: a tag has a value. If off, an empty value passes every other check.
    pub empty_values: bool,
    /// Reason 5: a value is one of the codes, where there are codes.
    pub codes: bool,
    /// Reason 6: a value has the format of its data type.
    pub formats: bool,
    /// Reason 13: a tag stands outside of groups once.
    pub repeated_tags: bool,
    /// Reason 14: header before body before trailer.
    pub section_order: bool,
    /// Reason 15: entries begin with their first field, and members follow in the published order.
    /// If off, whatever comes first in the first entry delimits them.
    pub group_order: bool,
    /// Reason 16: NumInGroup is the number of entries.
    pub group_counts: bool,
    /// Reason 16: NumInGroup is not 0; a group without entries is left out. Not checked by default.
    pub empty_groups: bool,
}

impl Switches {
    /// Every check.
    pub const ALL: Self = Self {
        msg_types: true,
        undefined_tags: true,
        user_defined_tags: true,
        tags_of_message: true,
        required_tags: true,
        required_in_groups: true,
        empty_values: true,
        codes: true,
        formats: true,
        repeated_tags: true,
        section_order: true,
        group_order: true,
        group_counts: true,
        empty_groups: true,
    };

    /// What the standard asks for: all but `empty_groups`.
    pub const STANDARD: Self = Self { empty_groups: false, ..Self::ALL };

    /// No check at all.
    pub const NONE: Self = Self {
        msg_types: false,
        undefined_tags: false,
        user_defined_tags: false,
        tags_of_message: false,
        required_tags: false,
        required_in_groups: false,
        empty_values: false,
        codes: false,
        formats: false,
        repeated_tags: false,
        section_order: false,
        group_order: false,
        group_counts: false,
        empty_groups: false,
    };
}

impl Default for Switches {
    fn default() -> Self {
        Self::STANDARD
    }
}
