//! The measured operations and message sets, with their names in the protocol between benchmark and
//! peers.

/// An operation of a codec, with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes one pass over the bytes that finds the separators and sums the bytes.
    Floor,
    /// Splits the frame, indexes its fields, and verifies CheckSum(10).
    Decode,
    /// `Decode` with AVX2 instructions, even if the processor supports more.
    DecodeAvx2,
    /// `Decode` with SSE2 instructions, even if the processor supports more.
    DecodeSse2,
    /// `Decode`, then reads all body fields with their types.
    DecodeRead,
    /// `Decode`, then validates against FIX44; messages of S2b are validated against FIX42.
    DecodeValidate,
    /// Encodes a message object that was built before, with BodyLength(9) and CheckSum(10).
    Encode,
    /// Builds a message, formats SendingTime(52) and TransactTime(60), and encodes the message.
    BuildEncode,
    /// `BuildEncode` with the typed builder of the FIX version.
    TypedEncode,
    /// `BuildEncode` without prepared header fields: all header fields are written.
    ScratchEncode,
    /// Rewrites five values of a prepared message, with BodyLength(9) and CheckSum(10).
    Template,
    /// Splits the frame and verifies CheckSum(10) without an index, as a router or a logger does.
    Whole,
    /// Splits a Heartbeat(0), indexes its fields, and verifies CheckSum(10).
    Heartbeat,
    /// Writes a Heartbeat(0) with a prepared header.
    HeartbeatEncode,
    /// `DecodeRead` with the typed getters of the FIX version.
    TypedRead,
    /// Makes one pass over the fields of a decoded MarketDataSnapshotFullRefresh(W) with twenty
    /// entries, and reads each field with its type.
    Walk,
    /// Reads a decoded MarketDataSnapshotFullRefresh(W) entry by entry with the dictionary's
    /// layout; each field is found by its tag.
    Groups,
    /// Reads a decoded MarketDataSnapshotFullRefresh(W) with the typed getters of the FIX version.
    TypedGroups,
    /// `Groups` including the decoding, for codecs of other engines that read groups while
    /// decoding.
    DecodeGroups,
    /// `TypedGroups` including the decoding, to compare with other engines.
    DecodeTypedGroups,
    /// The pass of `Floor` over the message of scenario S4b.
    ValidateFloor,
    /// Validates the decoded message of scenario S4b against FIX42.
    Validate42,
    /// Validates the decoded message of scenario S4b against FIX44.
    Validate44,
}

impl Operation {
    /// All operations, in the order of their rows in the tables.
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

    /// Returns the name of the operation in the protocol of the peers.
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

    /// Returns the operation with this protocol name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the operation of the peers to which this operation is compared. For example,
    /// `Template` is compared with `Encode`.
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

    /// Returns true if the operation is a floor, to which other operations are compared.
    #[must_use]
    pub const fn is_floor(self) -> bool {
        matches!(self, Self::Floor | Self::ValidateFloor)
    }

    /// Returns true if the operation has a message of its own, and therefore runs on one set only.
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

/// The set of messages on which an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// A message, used repeatedly.
    Fixed,
    /// Many different messages, used in turn.
    Varied,
    /// Orders and reports of scenario S2b, used in turn.
    Hftest,
}

impl Set {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Varied, Self::Hftest];

    /// Returns the name of the set in the protocol of the peers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Varied => "varied",
            Self::Hftest => "hftest",
        }
    }

    /// Returns the set with this protocol name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }
}
