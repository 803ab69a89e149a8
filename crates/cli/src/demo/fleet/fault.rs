//! The faults that a fleet must survive, and the sides that can connect.

use clap::ValueEnum;

/// A fault of a machine, a process, a network or a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// All faults, one after the other.
    All,
    /// The gateway with the session is drained, as before its maintenance.
    GatewayDrained,
    /// The gateway with the session is killed.
    GatewayKilled,
    /// The gateway with the session is paused, and continued.
    GatewayPaused,
    /// A NATS server that does not lead the stream is killed.
    BrokerKilled,
    /// The NATS server that leads the stream is killed.
    LeaderKilled,
    /// The gateway with the session and the NATS server that leads the stream are killed.
    GatewayAndLeaderKilled,
    /// The bytes from the gateway to the NATS servers are held back.
    CutToBrokers,
    /// The bytes from the NATS servers to the gateway are held back.
    CutFromBrokers,
    /// The bytes from the counterparty to the gateway are held back.
    CutFromCounterparty,
    /// The bytes from the gateway to the counterparty are held back.
    CutToCounterparty,
    /// All gateways and all NATS servers are killed, and started again.
    AllKilled,
    /// The NATS server that leads the stream cannot write any file.
    DiskFull,
    /// A bit of a NATS server's file is changed, this server leads the stream, and the gateway is
    /// killed.
    BitFlipped,
}

/// The role of the gateways in the session with the counterparty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// The counterparty connects to the gateways.
    Acceptor,
    /// The gateways connect to the counterparty.
    Initiator,
}

#[cfg(feature = "fleet")]
impl Role {
    /// Returns the value of the key `role` of the settings.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Acceptor => "acceptor",
            Self::Initiator => "initiator",
        }
    }
}

#[cfg(feature = "fleet")]
impl Fault {
    /// Returns all faults but [`Fault::All`].
    pub(super) fn each() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied().filter(|fault| *fault != Self::All)
    }

    /// Returns true for a fault that lasts for the duration of a pause.
    pub(super) const fn is_pause(self) -> bool {
        matches!(
            self,
            Self::GatewayPaused
                | Self::CutToBrokers
                | Self::CutFromBrokers
                | Self::CutFromCounterparty
                | Self::CutToCounterparty
        )
    }

    /// Returns the name by which the command line knows the fault.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the description of the fault.
    pub(super) fn about(self) -> String {
        let value = self.to_possible_value();
        let about = value.as_ref().and_then(|value| value.get_help());
        about.map(ToString::to_string).unwrap_or_default()
    }
}
