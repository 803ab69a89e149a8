//! The measured operations and message sets, with their names in the peers' protocol.

/// One operation of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One pass that finds the separators and sums the bytes.
    Floor,
    /// Split, index, and verify CheckSum(10).
    Decode,
    /// `Decode` with AVX2, even if the processor supports more.
    DecodeAvx2,
    /// `Decode` with SSE2.
    DecodeSse2,
    /// `Decode`, and read all body fields with their types.
    DecodeRead,
    /// `Decode`, and validate against FIX44; messages of S2b against FIX42.
    DecodeValidate,
    /// Encode an already built message, including length and checksum.
    Encode,
    /// Build a message with both times formatted, and encode the message.
    BuildEncode,
    /// `BuildEncode` with the typed builder of the version.
    TypedEncode,
    /// `BuildEncode` without prepared header fields.
    ScratchEncode,
    /// Rewrite five values of a prepared message, with length and checksum.
    Template,
    /// Split and verify CheckSum(10) without an index, as a router or a logger does.
    Whole,
    /// A Heartbeat(0): split, index, and verify CheckSum(10).
    Heartbeat,
    /// A Heartbeat(0) written with its header prepared.
    HeartbeatEncode,
    /// `DecodeRead` with the getters of the version.
    TypedRead,
    /// A decoded MarketDataSnapshotFullRefresh(W) of twenty entries: one pass over its fields, each
    /// read with its type.
    Walk,
    /// The same message, entry by entry with the dictionary's layout, each field by its tag.
    Groups,
    /// The same message, with the getters of the version.
    TypedGroups,
    /// `Groups` including the decoding, for codecs that read while decoding.
    DecodeGroups,
    /// `TypedGroups` including the decoding.
    DecodeTypedGroups,
    /// The pass of `Floor` over the message of S4b.
    ValidateFloor,
    /// Validate the decoded message of S4b against FIX42.
    Validate42,
    /// Validate the decoded message of S4b against FIX44.
    Validate44,
}

impl Operation {
    /// All operations, in the order of the tables.
    pub const ALL: [Self; 23] = [
        Self::Floor,
        Self::Decode,
        Self::DecodeAvx2,
        Self::DecodeSse2,
        Self::DecodeRead,
        Self::DecodeValidate,
        Self::ScratchEncode,
        Self::BuildEncode,
        Self::TypedEncode,
        Self::Encode,
        Self::Template,
        Self::Whole,
        Self::Heartbeat,
        Self::HeartbeatEncode,
        Self::TypedRead,
        Self::Walk,
        Self::Groups,
        Self::TypedGroups,
        Self::DecodeGroups,
        Self::DecodeTypedGroups,
        Self::ValidateFloor,
        Self::Validate42,
        Self::Validate44,
    ];

    /// Returns the name in the protocol of the peers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Decode => "decode",
            Self::DecodeAvx2 => "decode-avx2",
            Self::DecodeSse2 => "decode-sse2",
            Self::DecodeRead => "decode-read",
            Self::DecodeValidate => "decode-validate",
            Self::Encode => "encode",
            Self::BuildEncode => "build-encode",
            Self::ScratchEncode => "scratch-encode",
            Self::TypedEncode => "typed-encode",
            Self::Template => "template",
            Self::Whole => "whole",
            Self::Heartbeat => "heartbeat",
            Self::HeartbeatEncode => "heartbeat-encode",
            Self::TypedRead => "typed-read",
            Self::Walk => "walk",
            Self::Groups => "groups",
            Self::TypedGroups => "typed-groups",
            Self::DecodeGroups => "decode-groups",
            Self::DecodeTypedGroups => "decode-typed-groups",
            Self::ValidateFloor => "validate-floor",
            Self::Validate42 => "validate-fix42",
            Self::Validate44 => "validate-fix44",
        }
    }

    /// Returns the operation with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the peer's operation to compare with. A template is compared with encoding an
    /// already built message.
    #[must_use]
    pub const fn of_peer(self) -> Self {
        match self {
            Self::Template => Self::Encode,
            Self::TypedEncode => Self::BuildEncode,
            Self::TypedRead => Self::DecodeRead,
            Self::DecodeTypedGroups => Self::DecodeGroups,
            Self::DecodeAvx2 | Self::DecodeSse2 => Self::Decode,
            other => other,
        }
    }

    /// Returns true if the operation is a floor, against which others are compared.
    #[must_use]
    pub const fn is_floor(self) -> bool {
        matches!(self, Self::Floor | Self::ValidateFloor)
    }

    /// Returns true if the operation has its own single message, so there is one set.
    const fn is_single(self) -> bool {
        matches!(
            self,
            Self::Heartbeat
                | Self::HeartbeatEncode
                | Self::Walk
                | Self::Groups
                | Self::TypedGroups
                | Self::DecodeGroups
                | Self::DecodeTypedGroups
                | Self::ValidateFloor
                | Self::Validate42
                | Self::Validate44
        )
    }

    /// Returns true if the operation runs on messages of `set`.
    #[must_use]
    pub const fn is_on(self, set: Set) -> bool {
        match set {
            Set::Fixed => true,
            Set::Varied => !self.is_single(),
            Set::Hftest => matches!(
                self,
                Self::Floor | Self::Decode | Self::DecodeValidate | Self::BuildEncode
            ),
        }
    }
}

/// The set of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// One message, repeatedly.
    Fixed,
    /// Different messages in turn.
    Varied,
    /// Orders and reports of S2b in turn.
    Hftest,
}

impl Set {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Varied, Self::Hftest];

    /// Returns the name in the protocol of the peers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Varied => "varied",
            Self::Hftest => "hftest",
        }
    }

    /// Returns the set with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }
}
