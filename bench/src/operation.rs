//! The measured subjects: operations on sets of messages, named as peers understand them.

/// One operation of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One pass that finds the separators and sums the bytes.
    Floor,
    /// Frame, index, CheckSum(10) verified.
    Decode,
    /// The same with AVX2, where the processor has more too.
    DecodeAvx2,
    /// The same with SSE2.
    DecodeSse2,
    /// The same as `Decode`, and all body fields read with their types.
    DecodeRead,
    /// The same as `Decode`, and validated against FIX44; messages of S2b against FIX42.
    DecodeValidate,
    /// A message already built is turned into bytes, length and checksum included.
    Encode,
    /// Built anew with both times formatted, and turned into bytes.
    BuildEncode,
    /// The same with the typed builder of the version.
    TypedEncode,
    /// The same as `BuildEncode`, with no header field ready.
    ScratchEncode,
    /// Five values of a prepared message written anew, with length and checksum.
    Template,
    /// Frame and CheckSum(10) verified, no index: what a router or a logger needs.
    Whole,
    /// A Heartbeat(0): frame, index, CheckSum(10) verified.
    Heartbeat,
    /// A Heartbeat(0) written with its header ready.
    HeartbeatEncode,
    /// The same as `DecodeRead`, with the getters of the version.
    TypedRead,
    /// A MarketDataSnapshotFullRefresh(W) of twenty entries, already decoded: one walk over its
    /// fields, each read with its type.
    Walk,
    /// The same, entry by entry with the dictionary's layout, each field by its tag.
    Groups,
    /// The same with the getters of the version.
    TypedGroups,
    /// The same as `Groups`, decoded before: what a codec that reads while it decodes does at once.
    DecodeGroups,
    /// The same as `TypedGroups`, decoded before.
    DecodeTypedGroups,
    /// The pass of `Floor` over the message of S4b.
    ValidateFloor,
    /// The message of S4b, already decoded, validated against FIX42.
    Validate42,
    /// The same against FIX44.
    Validate44,
}

impl Operation {
    /// All, in the order of the tables.
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

    /// Its name in the protocol of the peers.
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

    /// The operation of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the peer's operation that is compared with this one: the counterpart of a template
    /// is the encoding of a message that is already built.
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

    /// Returns true if it is the least that can be done with the message: others are held against
    /// it.
    #[must_use]
    pub const fn is_floor(self) -> bool {
        matches!(self, Self::Floor | Self::ValidateFloor)
    }

    /// Returns true if it works on one message of its own, so that there is one set.
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

    /// Returns true if it is carried out on the messages of that set.
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

/// The messages worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// One message, again and again.
    Fixed,
    /// Different ones in turn.
    Varied,
    /// Orders and reports of S2b in turn.
    Hftest,
}

impl Set {
    /// All.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Varied, Self::Hftest];

    /// Its name in the protocol of the peers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Varied => "varied",
            Self::Hftest => "hftest",
        }
    }

    /// The set of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }
}
