//! The rules that validate the messages of a session. On a FIXT session a message may name its own
//! version, and is validated by the rules of that version.

use std::fmt;
use std::sync::Arc;

use transfix_codec::{Message, Reject, RejectReason, Rules, Scratch, Switches, Tag, tag, value};

use crate::config::{ApplVerId, BeginString};

/// The enabled checks of validation, for each class of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Checks of application messages.
    pub application: Switches,
    /// Checks of administrative messages except the Logon(A).
    pub session: Switches,
    /// Checks of the Logon(A), to which counterparties often add custom fields.
    pub logon: Switches,
}

impl Checks {
    /// Creates checks that apply equally to all messages.
    #[must_use]
    pub const fn all(switches: Switches) -> Self {
        Self { application: switches, session: switches, logon: switches }
    }
}

/// A function that returns the rules of a standard version, compiled on first use; `None` for an
/// unknown version.
#[derive(Clone)]
pub struct StandardRules(Arc<dyn Fn(ApplVerId) -> Option<Arc<Rules>> + Send + Sync>);

impl StandardRules {
    /// Creates a provider of rules that calls the function `of`.
    pub fn new(of: impl Fn(ApplVerId) -> Option<Arc<Rules>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }
}

impl fmt::Debug for StandardRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandardRules")
    }
}

/// The versions on which the two Logon(A) messages of a session have agreed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed<'s> {
    /// BeginString(8). Before FIXT.1.1 this field alone determines the version.
    pub begin_string: BeginString,
    /// DefaultApplVerID(1137).
    pub appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408) of the sender.
    pub cstm_appl_ver_id: Option<&'s [u8]>,
}

/// The rules of one session. See [`Session::set_rules`](crate::Session::set_rules).
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// Rules of the session's own version; `None` means no validation.
    pub(crate) own: Option<Arc<Rules>>,
    pub(crate) checks: Checks,
    /// Configured rules of other versions; each key is the value of ApplVerID(1128) or
    /// CstmApplVerID(1129) that names the version.
    listed: Vec<(Box<[u8]>, Arc<Rules>)>,
    /// Provider of the rules of all other standard versions.
    standard: Option<StandardRules>,
    /// Standard versions that messages have named, with their rules; `None` for a version without
    /// rules.
    used: Vec<(ApplVerId, Option<Arc<Rules>>)>,
}

impl RuleSet {
    pub(crate) fn set_own(&mut self, own: Option<Arc<Rules>>, checks: Checks) {
        (self.own, self.checks) = (own, checks);
    }

    /// Sets the rules of the configured versions. If one of these versions is `cstm_appl_ver_id`,
    /// its rules also become the session's own rules.
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

    /// Returns the rules that apply to an application message; `None` means no validation.
    ///
    /// # Errors
    /// The message names a version without rules, and the check `codes` is on.
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

    /// Validates an application message.
    ///
    /// # Errors
    /// The first fault of the message.
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

    /// Loads the rules of a standard version that a message names for the first time.
    ///
    /// Each version is loaded once, even if it has no rules: a counterparty that names the version
    /// repeatedly must not cause repeated loading.
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

    /// Returns the rules of the version that a message names; `None` if this is the session's own
    /// version.
    ///
    /// # Errors
    /// The tag that names a version without rules.
    fn named(&self, names: &Names<'_>, agreed: Agreed<'_>) -> Result<Option<&Arc<Rules>>, Tag> {
        // FIXT: CstmApplVerID(1129) is more specific than ApplVerID(1128), and has precedence.
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

    /// Returns the configured rules for an extension pack of the named version; the settings list
    /// such rules as `version+pack`.
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

/// The fields of a message that name its version.
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

    /// Returns ApplVerID(1128) as a number, if its value is numeric.
    fn standard(&self) -> Option<ApplVerId> {
        Some(ApplVerId(value::uint(self.version?)?.try_into().ok()?))
    }
}
