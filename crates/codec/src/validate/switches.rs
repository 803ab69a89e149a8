//! Switches for the checks of a session, by the SessionRejectReason(373) of each check.

macro_rules! switches {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Enables the checks of validation; by default all except `conditions` and `empty_groups`.
        ///
        /// [`REASONS`](super::REASONS) has an example for each switch except `conditional_tags`,
        /// which needs a dictionary with conditions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Switches {
            $($(#[doc = $doc])* pub $name: bool,)*
        }

        impl Switches {
            /// Enables all checks.
            pub const ALL: Self = Self { $($name: true,)* };

            /// Disables all checks.
            pub const NONE: Self = Self { $($name: false,)* };

            /// The names of all switches.
            pub const NAMES: &[&str] = &[$(stringify!($name),)*];

            /// Returns the switch with this name.
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
    /// Reason 11: the dictionary defines MsgType(35). If off, messages of unknown types are
    /// accepted without further checks.
    msg_types,
    /// Reason 0: tags are numbers that the version defines. If off, other tags are ignored.
    undefined_tags,
    /// Reason 0 for tags of 5000 and above, which venues define; effective only if `undefined_tags`
    /// is on.
    user_defined_tags,
    /// Reason 2: the message permits each of its tags.
    tags_of_message,
    /// Reason 1: required tags are present outside groups.
    required_tags,
    /// Reason 1: required tags are present in each entry of a group.
    required_in_groups,
    /// Reason 1: tags are present that the dictionary requires under a fulfilled condition. In
    /// group entries only with `required_in_groups`. The standard dictionaries have no such tags.
    conditional_tags,
    /// Reason 1: tags are present that the standard's field descriptions require under a fulfilled
    /// condition, such as Price(44) of a limit order. In group entries only with
    /// `required_in_groups`. Off by default, because counterparties may agree otherwise. FIX42,
    /// FIX44 and FIX50SP2 have such conditions.
    conditions,
    /// Reason 4: a tag has a value. If off, an empty value passes every other check.
    empty_values,
    /// Reason 5: a value is a code of the code set, if the field has one. In a FIXT session also
    /// reason 18: ApplVerID(1128) and CstmApplVerID(1129) name a supported version; if off, the
    /// version of the session applies.
    codes,
    /// Reason 6: a value has the format of its data type.
    formats,
    /// Reason 13: a tag occurs at most once outside groups.
    repeated_tags,
    /// Reason 14: the header precedes the body, and the body precedes the trailer.
    section_order,
    /// Reason 15: entries begin with their first field, and members follow the published order. If
    /// off, the first field of the first entry serves as delimiter.
    group_order,
    /// Reason 16: NumInGroup equals the number of entries.
    group_counts,
    /// Reason 16: NumInGroup is not 0; an empty group is omitted instead. Off by default.
    empty_groups,
}

impl Switches {
    /// The checks that the standard always requires: all except `conditions` and `empty_groups`.
    pub const STANDARD: Self = Self { conditions: false, empty_groups: false, ..Self::ALL };
}

impl Default for Switches {
    fn default() -> Self {
        Self::STANDARD
    }
}
