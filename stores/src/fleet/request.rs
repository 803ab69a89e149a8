//! The requests between gateways, and from operators, as JSON.

use serde::{Deserialize, Serialize};

/// A request to a gateway.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(super) enum Request {
    /// Another run of a gateway wants this session.
    MayTake { session: String, run: u64 },
    /// Another run of a gateway asks which initiators it may not take over.
    Initiators { run: u64 },
    /// An operator asks for the state of the gateway.
    Status,
    /// The gateway logs out its sessions, and takes none over until [`Request::Resume`].
    Drain,
    /// The gateway takes sessions over again.
    Resume,
    /// Another gateway has taken this session over, by the record at this place of the stream.
    Taken { session: String, place: u64, gateway: String, why: String },
    /// The gateway logs this session out, so that another run of a gateway can take it over.
    Release { session: String, to: u64 },
    /// The gateway asks the owner to release this session, and takes it over.
    Move { session: String },
    /// A gateway is in the fleet.
    Joined { gateway: String, run: u64 },
    /// Sessions were released: gateways look whether they can take an initiator over.
    Released,
}

/// The answer of a gateway.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(super) enum Answer {
    /// The session may be taken over: the gateway is drained, for instance.
    Free { why: String },
    /// The gateway uses the session.
    InUse { gateway: String },
    /// The initiators that the gateway uses.
    Initiators { sessions: Vec<String> },
    /// The state of the gateway.
    Status(GatewayStatus),
    /// The request was carried out.
    Done,
    /// The request was not carried out.
    Failed { why: String },
}

/// The state of a gateway of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct GatewayStatus {
    /// The name of the gateway.
    pub gateway: String,
    /// True if the gateway was drained: it takes no session over.
    pub is_drained: bool,
    /// The sessions of the gateway's settings, by identity.
    pub sessions: Vec<SessionInFleet>,
    /// The id of this run of the gateway.
    pub(super) run: u64,
}

/// A session, as one gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct SessionInFleet {
    /// The identity of the session, such as `FIX.4.4:VENUE->CLIENT`.
    pub session: String,
    /// True if the gateway owns the session.
    pub is_owner: bool,
    /// True if the session is logged on at the gateway.
    pub is_logged_on: bool,
    /// MsgSeqNum(34) that the session expects next from the counterparty.
    pub next_num_in: u64,
    /// MsgSeqNum(34) of the next message that the session sends.
    pub next_num_out: u64,
}
