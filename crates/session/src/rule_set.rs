//! By which rules the messages of a session are judged: those of its own version, and on a FIXT
//! session those of the version that a message names itself.

use std::fmt;
use std::sync::Arc;

use transfix_codec::{Message, Reject, RejectReason, Rules, Scratch, Switches, Tag, tag, value};

use crate::config::{ApplVerId, BeginString};

/// Which checks are made of whose messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Rules of messages that go to the application.
    pub application: Switches,
    /// Rules of messages that the session layer handles, but for the Logon(A).
    pub session: Switches,
    /// Rules of the Logon(A), which counterparties give fields of their own.
    pub logon: Switches,
}

impl Checks {
    /// The same for all messages.
    #[must_use]
    pub const fn all(switches: Switches) -> Self {
        Self { application: switches, session: switches, logon: switches }
    }
}

/// Returns the rules of a standard version, compiled when they are first asked for; `None` if there
/// is no such version.
#[derive(Clone)]
pub struct StandardRules(Arc<dyn Fn(ApplVerId) -> Option<Arc<Rules>> + Send + Sync>);

impl StandardRules {
    /// Rules that `of` returns.
    pub fn new(of: impl Fn(ApplVerId) -> Option<Arc<Rules>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }
}

impl fmt::Debug for StandardRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandardRules")
    }
}

/// The version of a session, as the Logon(A)s have agreed on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed<'s> {
    /// Before FIXT.1.1 it says all.
    pub begin_string: BeginString,
    /// DefaultApplVerID(1137).
    pub appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408) of the sender.
    pub cstm_appl_ver_id: Option<&'s [u8]>,
}

/// The rules of one session. See [`Session::set_rules`](crate::Session::set_rules).
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// Those of the session's own version; `None` for no validation.
    pub(crate) own: Option<Arc<Rules>>,
    pub(crate) checks: Checks,
    /// Those that the settings have for a version, by the value that names it.
    listed: Vec<(Box<[u8]>, Arc<Rules>)>,
    /// Those of all other standard versions.
    standard: Option<StandardRules>,
    /// Those of them that a message has named; `None` for a version that has none.
    used: Vec<(ApplVerId, Option<Arc<Rules>>)>,
}

impl RuleSet {
    pub(crate) fn set_own(&mut self, own: Option<Arc<Rules>>, checks: Checks) {
        (self.own, self.checks) = (own, checks);
    }

    /// Rules of listed versions. If one is that of `cstm_appl_ver_id`, it is the session's own.
    pub(crate) fn set_listed(
        &mut self,
        listed: Vec<(Box<[u8]>, Arc<Rules>)>,
        cstm_appl_ver_id: Option<&[u8]>,
    ) {
        if let Some((_, default)) = listed.iter().find(|(id, _)| Some(&**id) == cstm_appl_ver_id) {
            self.own = Some(Arc::clone(default));
        }
        self.listed = listed;
    }

    pub(crate) fn set_standard(&mut self, standard: Option<StandardRules>) {
        self.standard = standard;
        self.used.clear();
    }

    /// The rules of an application message; `None` if there are none.
    ///
    /// # Errors
    /// It names a version that nobody has rules for, and codes are checked.
    pub fn of_message(
        &mut self,
        message: &Message<'_>,
        agreed: Agreed<'_>,
    ) -> Result<Option<&Arc<Rules>>, Reject> {
        if self.own.is_none() || agreed.begin_string != BeginString::Fixt11 {
            return Ok(self.own.as_ref());
        }
        let names = Names::of(message);
        if names == Names::default() {
            return Ok(self.own.as_ref());
        }
        self.use_standard(&names, agreed);
        match self.named(&names, agreed) {
            Ok(named) => Ok(named.or(self.own.as_ref())),
            Err(tag) if self.checks.application.codes => {
                Err(Reject::new(RejectReason::UnsupportedApplVersion, tag))
            }
            Err(_) => Ok(self.own.as_ref()),
        }
    }

    /// Judges an application message.
    ///
    /// # Errors
    /// Its first fault.
    pub fn check_application(
        &mut self,
        message: &Message<'_>,
        agreed: Agreed<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Reject> {
        let switches = self.checks.application;
        match self.of_message(message, agreed)? {
            Some(rules) => rules.check(message, &switches, scratch),
            None => Ok(()),
        }
    }

    /// Asks for the rules of a standard version that a message is the first to name.
    ///
    /// Each version is asked for once, also if it has no rules: a counterparty that names it again
    /// and again must not have its dictionary read each time.
    fn use_standard(&mut self, names: &Names<'_>, agreed: Agreed<'_>) {
        let (Some(standard), None) = (&self.standard, names.custom) else { return };
        let Some(version) = names.standard().filter(|version| version.dictionary().is_some())
        else {
            return;
        };
        let is_listed = names.version.is_some_and(|version| self.listed(version).is_some());
        if Some(version) != agreed.appl_ver_id
            && !is_listed
            && !self.used.iter().any(|(known, _)| *known == version)
        {
            self.used.push((version, (standard.0)(version)));
        }
    }

    /// The rules of the version that a message names; none if it is the session's own.
    ///
    /// # Errors
    /// The field that names a version which nobody has rules for.
    fn named(&self, names: &Names<'_>, agreed: Agreed<'_>) -> Result<Option<&Arc<Rules>>, Tag> {
        // FIXT: CstmApplVerID(1129) says more than ApplVerID(1128), so it decides.
        if let Some(custom) = names.custom {
            return match self.listed(custom) {
                None if agreed.cstm_appl_ver_id != Some(custom) => Err(tag::CSTM_APPL_VER_ID),
                rules => Ok(rules),
            };
        }
        if let Some(rules) = names.extension.and_then(|pack| self.extended(names, pack, agreed)) {
            return Ok(Some(rules));
        }
        let Some(named) = names.version else { return Ok(None) };
        if let Some(rules) = self.listed(named) {
            return Ok(Some(rules));
        }
        let version = names.standard();
        match (version.and_then(|version| self.used(version)), agreed.appl_ver_id) {
            (_, Some(own)) if version == Some(own) => Ok(None),
            (None, Some(_)) => Err(tag::APPL_VER_ID),
            (rules, _) => Ok(rules),
        }
    }

    fn listed(&self, version: &[u8]) -> Option<&Arc<Rules>> {
        self.listed.iter().find(|(known, _)| **known == *version).map(|(_, rules)| rules)
    }

    /// The rules that the settings have for an extension pack of the version, by `version+pack`.
    fn extended(&self, names: &Names<'_>, pack: &[u8], agreed: Agreed<'_>) -> Option<&Arc<Rules>> {
        let version = match names.version {
            Some(_) => names.standard(),
            None => agreed.appl_ver_id,
        };
        let wanted = u64::from(version?.0);
        let is_wanted = |known: &[u8]| {
            let version = known.strip_suffix(pack).and_then(|rest| rest.strip_suffix(b"+"));
            version.and_then(value::uint) == Some(wanted)
        };
        self.listed.iter().find(|(known, _)| is_wanted(known)).map(|(_, rules)| rules)
    }

    fn used(&self, version: ApplVerId) -> Option<&Arc<Rules>> {
        let used = self.used.iter().find(|(known, _)| *known == version);
        used.and_then(|(_, rules)| rules.as_ref())
    }
}

/// The versions that a message names itself.
#[derive(Default, PartialEq, Eq)]
struct Names<'m> {
    /// CstmApplVerID(1129).
    custom: Option<&'m [u8]>,
    /// ApplVerID(1128).
    version: Option<&'m [u8]>,
    /// ApplExtID(1156).
    extension: Option<&'m [u8]>,
}

impl<'m> Names<'m> {
    fn of(message: &Message<'m>) -> Self {
        let named = |tag| message.raw(tag).filter(|version| !version.is_empty());
        Self {
            custom: named(tag::CSTM_APPL_VER_ID),
            version: named(tag::APPL_VER_ID),
            extension: named(tag::APPL_EXT_ID),
        }
    }

    /// ApplVerID(1128), if it is a number.
    fn standard(&self) -> Option<ApplVerId> {
        Some(ApplVerId(value::uint(self.version?)?.try_into().ok()?))
    }
}
