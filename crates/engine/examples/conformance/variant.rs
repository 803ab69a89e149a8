//! The sessions of each variant.

use transfix::{
    BeginString, Durability, EngineSettings, Precision, ResetPolicy, Role, SessionId,
    SessionSettings, Settings,
};

/// The sessions: BeginString(8), SenderCompID(49) of the counterparty, DefaultApplVerID(1137).
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
/// The counterparty that may leave fields without a value.
const LENIENT: &str = "NO_CHECK_FIELDS_HAVE_VALUES";

/// What a run differs in from the base.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// As the standard has it, numbers beginning at 1 with each connection.
    Base,
    /// Times that we send have nine digits behind the second.
    Nanos,
    /// CheckSum(10) is not verified.
    NoCheckSum,
    /// Numbers go on from one connection to the next.
    NoReset,
}

impl Variant {
    const ALL: &[(&str, Self)] = &[
        ("base", Self::Base),
        ("nanos", Self::Nanos),
        ("no-checksum", Self::NoCheckSum),
        ("noreset", Self::NoReset),
    ];

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, variant)| *variant).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown variant {name}; known are {}", names.join(", "))
        })
    }

    /// All sessions at this address.
    pub(crate) fn settings(self, address: &str) -> Settings {
        let sessions = SESSIONS.iter().map(|(begin_string, theirs, version)| {
            let id = SessionId::new(*begin_string, "ISLD", theirs);
            let mut session = SessionSettings::new(Role::Acceptor, &id, address);
            session.default_appl_ver_id = *version;
            session.durability = Durability::Memory;
            session.reset = ResetPolicy::Disconnect;
            session.checks.empty_values = *theirs != LENIENT;
            self.change(&mut session);
            session
        });
        Settings { engine: EngineSettings::default(), sessions: sessions.collect() }
    }

    const fn change(self, session: &mut SessionSettings) {
        match self {
            Self::Base => {}
            Self::Nanos => session.precision = Some(Precision::Nanos),
            Self::NoCheckSum => session.validate_check_sum = false,
            Self::NoReset => session.reset = ResetPolicy::Never,
        }
    }
}
