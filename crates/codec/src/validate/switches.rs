//! Switches that enable the checks of validation, named by the SessionRejectReason(373) of each
//! check.

macro_rules! switches {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The enabled checks of validation; by default all checks except `conditions` and
        /// `empty_groups`.
        ///
        /// [`REASONS`](super::REASONS) has an example message for each switch except
        /// `conditional_tags`, which needs a dictionary with conditions.
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

            /// Returns the switch with this name; `None` if there is none.
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
    /// Reason 11: MsgType(35) must be defined in the dictionary. If off, messages of unknown types
    /// are accepted without further checks.
    msg_types,
    /// Reason 0: each tag must be a number that the FIX version defines. If off, other tags are
    /// ignored.
    undefined_tags,
    /// Reason 0 for user-defined tags, 5000 and above; effective only if `undefined_tags` is on.
    user_defined_tags,
    /// Reason 2: the dictionary must permit each tag in this message type.
    tags_of_message,
    /// Reason 1: required tags must be present outside groups.
    required_tags,
    /// Reason 1: required tags must be present in each entry of a group.
    required_in_groups,
    /// Reason 1: tags that the dictionary requires under a fulfilled condition must be present.
    /// Group entries are checked only with `required_in_groups`. The standard dictionaries have no
    /// such tags.
    conditional_tags,
    /// Reason 1: tags that the standard's field descriptions require under a fulfilled condition
    /// must be present, such as Price(44) of a limit order. Group entries are checked only with
    /// `required_in_groups`. Off by default, because counterparties may agree otherwise. FIX42,
    /// FIX44 and FIX50SP2 have such conditions.
    conditions,
    /// Reason 4: each tag must have a value. If off, an empty value passes every other check.
    empty_values,
    /// Reason 5: if the field has a code set, the value must be one of its codes. In a FIXT session
    /// also reason 18: ApplVerID(1128) and CstmApplVerID(1129) must name a supported version; if
    /// off, the version of the session applies.
    codes,
    /// Reason 6: each value must have the format of its data type.
    formats,
    /// Reason 13: a tag must not occur more than once outside groups.
    repeated_tags,
    /// Reason 14: the header must precede the body, and the body must precede the trailer.
    section_order,
    /// Reason 15: each entry must begin with the group's first field, and its members must follow
    /// the published order. If off, the first field of the first entry serves as delimiter.
    group_order,
    /// Reason 16: NumInGroup must equal the number of entries.
    group_counts,
    /// Reason 16: NumInGroup must not be 0; FIX omits an empty group. Off by default.
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
