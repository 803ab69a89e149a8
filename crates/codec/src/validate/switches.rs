//! Which checks a session makes: each reason of a Reject(3) has its switches.

macro_rules! switches {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Which checks are made; by default all but `conditions` and `empty_groups`.
        ///
        /// [`REASONS`](super::REASONS) has an example of what each of them finds, but for
        /// `conditional_tags`, which needs a dictionary with conditions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Switches {
            $($(#[doc = $doc])* pub $name: bool,)*
        }

        impl Switches {
            /// Every check.
            pub const ALL: Self = Self { $($name: true,)* };

            /// No check at all.
            pub const NONE: Self = Self { $($name: false,)* };

            /// The names of all switches.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// The switch of that name.
            pub fn named(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

switches! {
    /// Reason 11: MsgType(35) is one of the dictionary. If off, a message of an unknown type is
    /// accepted without further checks.
    msg_types,
    /// Reason 0: tags are numbers which the version defines. If off, other tags are passed over.
    undefined_tags,
    /// Reason 0 for tags of 5000 and above, which venues define for themselves; counts only while
    /// `undefined_tags` is on.
    user_defined_tags,
    /// Reason 2: a tag belongs to the message that it stands in.
    tags_of_message,
    /// Reason 1: required tags are there, outside of groups.
    required_tags,
    /// Reason 1: required tags are there in each entry of a group.
    required_in_groups,
    /// Reason 1: tags are there that the dictionary requires under a condition which holds, in the
    /// entries of groups only with `required_in_groups`. The standard dictionaries have none.
    conditional_tags,
    /// Reason 1: tags are there that the standard's descriptions of the fields require under a
    /// condition which holds, such as Price(44) of a limit order; in the entries of groups only
    /// with `required_in_groups`. Counterparties that agree on something else are right too, so it
    /// is not checked by default. FIX42, FIX44 and FIX50SP2 have such conditions.
    conditions,
    /// Reason 4: a tag has a value. If off, an empty value passes every other check.
    empty_values,
    /// Reason 5: a value is one of the codes, where there are codes. In a FIXT session also reason
    /// 18: ApplVerID(1128) and CstmApplVerID(1129) name a version that the session has; if off,
    /// the message is judged by the version of the session.
    codes,
    /// Reason 6: a value has the format of its data type.
    formats,
    /// Reason 13: a tag stands outside of groups once.
    repeated_tags,
    /// Reason 14: header before body before trailer.
    section_order,
    /// Reason 15: entries begin with their first field, and members follow in the published order.
    /// If off, whatever comes first in the first entry delimits them.
    group_order,
    /// Reason 16: NumInGroup is the number of entries.
    group_counts,
    /// Reason 16: NumInGroup is not 0; a group without entries is left out. Not checked by default.
    empty_groups,
}

impl Switches {
    /// The checks that the standard asks for in any case: all but `conditions` and `empty_groups`.
    pub const STANDARD: Self = Self { conditions: false, empty_groups: false, ..Self::ALL };
}

impl Default for Switches {
    fn default() -> Self {
        Self::STANDARD
    }
}
