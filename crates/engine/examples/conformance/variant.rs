//! The sessions of the acceptor in each variant of its settings.

use std::time::Duration;

use transfix::{
    ApplVerId, BeginString, Durability, GarbledPolicy, Precision, ResetPolicy, Role, SessionId,
    SessionSettings, Settings,
};

/// The sessions: BeginString(8), the counterparty's SenderCompID(49), and DefaultApplVerID(1137).
const SESSIONS: &[(BeginString, &str, Option<u8>)] = &[
    (BeginString::Fix40, "TW40", None),
    (BeginString::Fix40, "TW", None),
    (BeginString::Fix41, "TW41", None),
    (BeginString::Fix41, "TW", None),
    (BeginString::Fix42, "TW42", None),
    (BeginString::Fix42, "TW", None),
    (BeginString::Fix43, "TW43", None),
    (BeginString::Fix43, "TW", None),
    (BeginString::Fix44, "TW44", None),
    (BeginString::Fix44, "TW", None),
    (BeginString::Fix44, LENIENT, None),
    (BeginString::Fixt11, "TW50", Some(7)),
    (BeginString::Fixt11, "TW50SP1", Some(8)),
    (BeginString::Fixt11, "TW50SP2", Some(9)),
    (BeginString::Fixt11, "TW", None),
];
/// The counterparty that may send fields with an empty value.
const LENIENT: &str = "NO_CHECK_FIELDS_HAVE_VALUES";

/// A variant of the settings. Each variant changes one thing in `Base`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Standard behavior; numbers begin at 1 with each connection.
    Base,
    /// A ResendRequest(2) asks for at most five messages.
    ResendChunk,
    /// Every message contains LastMsgSeqNumProcessed(369).
    LastProcessed,
    /// The Logon(A) contains NextExpectedMsgSeqNum(789).
    NextExpected,
    /// The times that we send have nine digits after the decimal point.
    Nanos,
    /// The session FIXT.1.1/TW has FIX Latest as its DefaultApplVerID(1137).
    Latest,
    /// A garbled message is rejected and uses its number.
    RejectGarbled,
    /// CheckSum(10) is not verified.
    NoCheckSum,
    /// The sequence numbers continue from one connection to the next.
    NoReset,
    /// FIX.4.2/TW uses SubIDs and LocationIDs.
    SubIds,
    /// FIX.4.4/TW requests resends in small closed ranges.
    EnhancedResend,
}

impl Variant {
    const ALL: &[(&str, Self)] = &[
        ("base", Self::Base),
        ("resend-chunk", Self::ResendChunk),
        ("last-processed", Self::LastProcessed),
        ("next-expected", Self::NextExpected),
        ("nanos", Self::Nanos),
        ("latest", Self::Latest),
        ("reject-garbled", Self::RejectGarbled),
        ("no-checksum", Self::NoCheckSum),
        ("noreset", Self::NoReset),
        ("sub-ids", Self::SubIds),
        ("enhanced-resend", Self::EnhancedResend),
    ];

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, variant)| *variant)
            .ok_or_else(|| format!("unknown variant {name}; known are {}", Self::names()))
    }

    /// Returns the names of all variants.
    pub(crate) fn names() -> String {
        let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// Returns the settings of all sessions, which listen at `address`.
    pub(crate) fn settings(self, address: &str) -> Settings {
        let sessions = SESSIONS.iter().map(|(begin_string, theirs, version)| {
            let id = SessionId::new(*begin_string, "ISLD", theirs);
            let mut session = SessionSettings::new(Role::Acceptor, &id, address);
            session.protocol.default_appl_ver_id = version.map(ApplVerId);
            session.store.durability = Durability::Memory;
            session.protocol.reset_on = ResetPolicy::DISCONNECT;
            session.validation.checks.empty_values = *theirs != LENIENT;
            self.change(&mut session);
            session
        });
        Settings { sessions: sessions.collect(), ..Settings::default() }
    }

    fn change(self, session: &mut SessionSettings) {
        let is_tw = |version| session.begin_string == version && session.target_comp_id == "TW";
        match self {
            Self::Base => {}
            Self::ResendChunk => session.resend.request_max = 5,
            Self::LastProcessed => session.numbers.send_last_processed = true,
            Self::NextExpected => session.numbers.next_expected = true,
            Self::Nanos => session.protocol.precision = Some(Precision::Nanos),
            Self::Latest if is_tw(BeginString::Fixt11) => {
                session.protocol.default_appl_ver_id = Some(ApplVerId(10))
            }
            Self::RejectGarbled => session.validation.garbled = GarbledPolicy::Reject,
            Self::NoCheckSum => session.validation.validate_check_sum = false,
            Self::NoReset => session.protocol.reset_on = ResetPolicy::NEVER,
            Self::SubIds if is_tw(BeginString::Fix42) => {
                "SENDERSUB".clone_into(&mut session.sender_sub_id);
                "SENDERLOC".clone_into(&mut session.sender_location_id);
                "TARGETSUB".clone_into(&mut session.target_sub_id);
                "TARGETLOC".clone_into(&mut session.target_location_id);
                session.numbers.send_last_processed = true;
                session.resend.request_max = 2_500;
                session.resend.closed_ranges = true;
                session.timing.logout_when_silent = true;
            }
            Self::EnhancedResend if is_tw(BeginString::Fix44) => {
                session.numbers.send_last_processed = true;
                session.resend.request_max = 10;
                session.resend.closed_ranges = true;
                session.resend.repeat_after = Duration::ZERO;
                session.resend.orig_sending_time_required = false;
            }
            Self::Latest | Self::SubIds | Self::EnhancedResend => {}
        }
    }
}
