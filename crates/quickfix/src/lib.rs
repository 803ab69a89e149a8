//! Migration from QuickFIX: reads `.cfg` files in the same way as QuickFIX C++, /J, /n or /Go, and
//! reports what becomes of each key.
//!
//! ```
//! use transfix_quickfix::{Dialect, Fate, Migration};
//!
//! let cfg = b"[SESSION]
//! ConnectionType=initiator
//! BeginString=FIX.4.4
//! SenderCompID=DESK
//! TargetCompID=VENUE
//! SocketConnectHost=127.0.0.1
//! SocketConnectPort=9880
//! HeartBtInt=30
//! NonStopSession=Y
//! CheckCompID=N
//! ";
//! let migration = Migration::parse("desk.cfg", cfg, Some(Dialect::Cpp))?;
//! assert!(migration.toml().contains("heart_bt_int_s = 30"));
//! let dangerous = migration.findings().iter().find(|f| f.fate == Fate::Dangerous).unwrap();
//! assert_eq!((dangerous.line, &*dangerous.key), (10, "CheckCompID"));
//! # Ok::<(), transfix_settings::SettingsError>(())
//! ```
//!
//! Invariants: each key of the file has a [`Finding`]. [`Settings::parse`] accepts the migrated
//! file, except for values that the operator still has to decide. These are rejected on purpose,
//! for instance so that no session starts with a wrong schedule.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};

mod carry_over;
mod data_dictionary;
mod destinations;
mod dictionary;
mod files;
mod foreign;
mod keys;
mod read;
mod schedule;
mod session;
mod sockets;
pub mod store;
mod table;
mod tls;
mod values;
mod zones;

use transfix_settings::{Settings, SettingsError, settings_of_another, text_file};

pub use foreign::reference;
use keys::Variables;
use table::Row;

/// An engine of the QuickFIX family, whose `.cfg` files differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// QuickFIX C++.
    Cpp,
    /// QuickFIX/J.
    Java,
    /// QuickFIX/n.
    Net,
    /// QuickFIX/Go.
    Go,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 4] = [Self::Cpp, Self::Java, Self::Net, Self::Go];

    const fn letter(self) -> char {
        match self {
            Self::Cpp => 'C',
            Self::Java => 'J',
            Self::Net => 'N',
            Self::Go => 'G',
        }
    }

    /// Returns true if the engine accepts keys in upper and lower case.
    const fn is_case_free(self) -> bool {
        matches!(self, Self::Cpp | Self::Net)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpp => "QuickFIX C++",
            Self::Java => "QuickFIX/J",
            Self::Net => "QuickFIX/n",
            Self::Go => "QuickFIX/Go",
        })
    }
}

/// The result of a key's migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fate {
    /// The key has the same meaning in Transfix.
    Honoured,
    /// The key has nearly the same meaning; the finding describes the difference.
    Mapped,
    /// Transfix does not need the key; the finding gives the reason.
    Ignored,
    /// The key is a risk for messages or security, or has never had an effect. A Transfix key may
    /// have been written nevertheless.
    Dangerous,
    /// Transfix has no equivalent key, or the value cannot be read.
    NotCarriedOver,
}

impl Fate {
    const ALL: [Self; 5] =
        [Self::Honoured, Self::Mapped, Self::Ignored, Self::Dangerous, Self::NotCarriedOver];
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Honoured => "honoured",
            Self::Mapped => "mapped",
            Self::Ignored => "ignored",
            Self::Dangerous => "dangerous",
            Self::NotCarriedOver => "not carried over",
        })
    }
}

/// A finding of the migration about a line of the file, or about a missing key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The line, counted from 1.
    pub line: usize,
    /// The key; empty if the finding is about a whole line, or about a missing key.
    pub key: String,
    /// The value of the key, with stars instead if it may contain a password.
    pub value: String,
    /// The result of the key's migration.
    pub fate: Fate,
    /// The resulting Transfix setting, such as `heart_bt_int_s = 30`; may be empty.
    pub becomes: String,
    /// The difference, the reason or the danger; may be empty.
    pub says: String,
    /// The sessions to which the finding applies, if the file has several: for example
    /// `all 3 sessions` or `FIX.4.4:DESK->VENUE`. Empty if the line belongs to the section of its
    /// only session.
    pub whose: String,
    /// The names of the sessions, before they are joined in `whose`.
    sessions: Vec<String>,
}

impl Finding {
    fn of_line(line: usize, fate: Fate, says: &str) -> Self {
        let (key, value, becomes, whose) = Default::default();
        let (says, sessions) = (says.to_owned(), Vec::new());
        Self { line, key, value, fate, becomes, says, whose, sessions }
    }

    fn of(entry: &read::Entry, fate: Fate, becomes: &str, says: &str) -> Self {
        let value = if is_secret(&entry.key) { "***".to_owned() } else { entry.shown.clone() };
        let becomes = if is_secret(&entry.key) { keys::without_value(becomes) } else { becomes };
        let named = |text| Variables::Named.put(text);
        let (key, becomes) = (entry.key.clone(), named(becomes));
        Self { key, value, becomes, ..Self::of_line(entry.line, fate, &named(says)) }
    }

    /// Joins the names of the finding's sessions. `all` is the number of sessions in the file.
    fn name_sessions(&mut self, all: usize) {
        let names = std::mem::take(&mut self.sessions);
        let more = names.len().saturating_sub(NAMED_MAX);
        self.whose = match (names.len(), all) {
            (0, _) | (_, 0 | 1) => String::new(),
            (n, _) if n == all => format!("all {all} sessions"),
            _ if more > 0 => format!("{} and {more} more", names[..NAMED_MAX].join(", ")),
            _ => names.join(", "),
        };
    }
}

/// The maximum number of sessions that a finding names.
const NAMED_MAX: usize = 3;

/// Parts of key names that show that the value may contain a password.
const SECRET: [&str; 7] = [
    "password",
    "logontag",
    "privatekeybytes",
    "connectionstring",
    "datasourcename",
    "jdbcurl",
    "mongo",
];

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET.iter().any(|part| key.contains(part))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fate)?;
        if !self.key.is_empty() {
            write!(f, ": {}={}", self.key, self.value)?;
        }
        if !self.becomes.is_empty() {
            write!(f, " -> {}", self.becomes)?;
        }
        if !self.says.is_empty() {
            write!(f, ": {}", self.says)?;
        }
        if !self.whose.is_empty() {
            write!(f, " [{}]", self.whose)?;
        }
        Ok(())
    }
}

/// The files of a session's QuickFIX store, and the location of its Transfix store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignStore {
    /// The directory of the files.
    pub dir: PathBuf,
    /// The common name of the QuickFIX files, without extensions.
    pub session: String,
    /// The directory of the Transfix store, which may not exist yet.
    pub to: PathBuf,
}

/// An overlay for a `DataDictionary` that differs little from a standard dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlay {
    /// The path of the overlay, as the settings name it. The caller must write the file.
    pub path: PathBuf,
    /// The text of the overlay.
    pub text: String,
    /// The dictionary file, and the standard dictionary that the overlay changes.
    of: (PathBuf, &'static str),
}

/// The finding about the other keys of a session that cannot be carried over.
const OF_LOST_SESSION: &str = "the session of this key is not carried over";

/// The prefix of findings about a session that cannot be carried over.
const THE_SESSION: &str = "the session: ";

/// The error about a file that already contains settings of Transfix.
const OURS: &str = "this file has settings of Transfix already; `transfix settings check FILE` \
                    shows what is wrong in them";

/// Returns true if the text is TOML with Transfix sessions. No QuickFIX file has double brackets.
fn is_ours(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("[[session]]"))
        || (text.lines().any(|line| line.trim_start().starts_with("include"))
            && text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("include")))
}

/// A migrated `.cfg` file.
#[derive(Clone, Debug)]
pub struct Migration {
    path: PathBuf,
    dialect: Dialect,
    /// The keys by which the dialect was recognized; `None` if the caller has named the dialect.
    telling: Option<Vec<&'static str>>,
    findings: Vec<Finding>,
    /// Sections that apply to all sessions.
    sections: Vec<keys::Section>,
    /// Sections of the sessions. A section without a heading replaces a session that is not carried
    /// over.
    sessions: Vec<keys::Section>,
    stores: Vec<ForeignStore>,
    overlays: Vec<Overlay>,
}

impl Migration {
    /// Reads a `.cfg` file. If no dialect is given, uses the dialect that knows most of the file's
    /// keys.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a QuickFIX file. A file without a migratable session
    /// is not an error, because its report is needed: see [`is_empty`](Self::is_empty).
    pub fn read(path: impl AsRef<Path>, dialect: Option<Dialect>) -> Result<Self, SettingsError> {
        let path = path.as_ref();
        let bytes =
            text_file::read_bytes(path).map_err(|error| SettingsError::unreadable(path, error))?;
        Self::of(path, &bytes, dialect, None)
    }

    /// Reads a `.cfg` file. Replaces dictionaries that differ little from the standard by
    /// [overlays] in `dir`, which the caller must write.
    ///
    /// [overlays]: Self::overlays
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with_overlays(
        path: impl AsRef<Path>,
        dialect: Option<Dialect>,
        dir: impl AsRef<Path>,
    ) -> Result<Self, SettingsError> {
        let path = path.as_ref();
        let bytes =
            text_file::read_bytes(path).map_err(|error| SettingsError::unreadable(path, error))?;
        Self::of(path, &bytes, dialect, Some(dir.as_ref()))
    }

    /// Reads the bytes of a `.cfg` file. Errors and the report name the file `name`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(
        name: &str,
        bytes: &[u8],
        dialect: Option<Dialect>,
    ) -> Result<Self, SettingsError> {
        Self::of(Path::new(name), bytes, dialect, None)
    }

    fn of(
        path: &Path,
        bytes: &[u8],
        dialect: Option<Dialect>,
        overlays: Option<&Path>,
    ) -> Result<Self, SettingsError> {
        let mut findings = Vec::new();
        let text = read::text_of(bytes, &mut findings);
        if is_ours(&text) {
            return Err(SettingsError::at_line(path, 0, OURS.to_owned()));
        }
        if let Some(what) = settings_of_another(&text) {
            return Err(SettingsError::at_line(path, 0, what.to_owned()));
        }
        let (guessed, telling) = read::guess(&text);
        let telling = dialect.is_none().then_some(telling);
        let dialect = dialect.unwrap_or(guessed);
        let mut all = Self::carried_over(path, &text, dialect, (findings, overlays));
        all.telling = telling;
        if all.is_empty() {
            all.tell_of_other_dialects(&text);
        }
        Ok(all)
    }

    /// Returns the migration of the text, read in the same way as the dialect reads it.
    fn carried_over(
        path: &Path,
        text: &str,
        dialect: Dialect,
        (mut findings, overlays_in): (Vec<Finding>, Option<&Path>),
    ) -> Self {
        let cfg = read::read(text, dialect, &mut findings);
        let mut all = Self {
            path: path.to_owned(),
            dialect,
            telling: None,
            findings,
            sections: Vec::new(),
            sessions: Vec::new(),
            stores: Vec::new(),
            overlays: Vec::new(),
        };
        carry_over::all(&cfg, overlays_in, &mut all);
        all.sort_findings(cfg.sessions.len());
        all
    }

    /// Reports another dialect in which the file has sessions, if that dialect also recognizes at
    /// least as many keys.
    fn tell_of_other_dialects(&mut self, text: &str) {
        let own = read::sees(text, self.dialect);
        let others = Dialect::ALL.into_iter().filter(|dialect| *dialect != self.dialect);
        let mut others = others.filter(|dialect| read::sees(text, *dialect) >= own);
        let other = others.find(|dialect| {
            let other = Self::carried_over(&self.path, text, *dialect, (Vec::new(), None));
            !other.is_empty()
        });
        if let Some(dialect) = other {
            let says = format!(
                "the file has sessions if read as a file of {dialect}: name that \
                                dialect"
            );
            let last = text.lines().count().max(1);
            self.findings.push(Finding::of_line(last, Fate::NotCarriedOver, &says));
        }
    }

    /// Returns true if no session could be migrated; the report gives the reasons.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.iter().all(|(heading, _)| heading.is_empty())
    }

    /// Sorts the findings by line, and merges equal ones with the names of their sessions.
    fn sort_findings(&mut self, sessions: usize) {
        let mut places = HashMap::new();
        let mut all: Vec<Finding> = Vec::new();
        for mut finding in self.findings.drain(..) {
            let Finding { line, key, becomes, says, fate, .. } = &finding;
            // A finding about a default applies to all sessions, so it is reported only once.
            let is_of_all = key.is_empty() && !becomes.is_empty();
            let line = (!is_of_all).then_some(*line);
            let what = (line, key.clone(), becomes.clone(), says.clone(), *fate as u8);
            match places.entry(what) {
                Entry::Occupied(place) => {
                    let known: &mut Finding = &mut all[*place.get()];
                    // A session is named only once, although it may have the same finding twice.
                    finding.sessions.retain(|one| known.sessions.last() != Some(one));
                    known.sessions.append(&mut finding.sessions);
                }
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    all.push(finding);
                }
            }
        }
        all.iter_mut().for_each(|finding| finding.name_sessions(sessions));
        all.sort_by_key(|finding| finding.line);
        self.findings = all;
    }

    /// Returns the dialect in which the file was read.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the findings about all keys, in the order of the file.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns true if all keys were migrated and none of them is [dangerous](Fate::Dangerous).
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|f| f.fate < Fate::Dangerous)
    }

    /// Returns the stores that the file names. Their contents are not read; `transfix store import`
    /// converts them to Transfix stores.
    #[must_use]
    pub fn stores(&self) -> &[ForeignStore] {
        &self.stores
    }

    /// Returns the overlays that the settings name. Write them before the settings are loaded.
    #[must_use]
    pub fn overlays(&self) -> &[Overlay] {
        &self.overlays
    }

    /// Returns the migrated settings. Their errors, here and at the start of an engine, refer to
    /// lines of [`toml`](Self::toml), and name the file with `, migrated` after its name.
    ///
    /// # Errors
    /// If no session could be carried over, or the operator has to decide something first, such as
    /// an unknown time zone. If a variable of the environment is not set, or a password or a
    /// dictionary is no longer where it was.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        if self.is_empty() {
            return Err(self.no_session());
        }
        // Errors refer to lines of the migrated text, not of the `.cfg` file.
        Settings::parse(&format!("{}, migrated", self.path.display()), &self.toml())
    }

    fn no_session(&self) -> SettingsError {
        let lost = self.findings.iter().filter(|finding| finding.fate == Fate::NotCarriedOver);
        // Skips findings about other keys of a session that cannot be migrated, because they are
        // not its cause and may precede it.
        let causes = lost.filter(|finding| finding.says != OF_LOST_SESSION);
        let worst = causes.min_by_key(|finding| !finding.says.starts_with(THE_SESSION));
        let (line, why) = match worst {
            Some(finding) => (finding.line, format!("; {finding}")),
            None => (0, String::new()),
        };
        let what =
            format!("the file has no [SESSION] of {} that can be carried over{why}", self.dialect);
        SettingsError::at_line(&self.path, line, what)
    }

    /// Returns the migrated settings as the text of a file. Keys that all sessions have in common
    /// are in `[defaults]`, and a comment stands in the place of each dropped key.
    #[must_use]
    pub fn toml(&self) -> String {
        let from = (&*self.path, self.dialect);
        keys::file(from, &self.sections, &self.sessions, Variables::Named)
    }

    /// Returns the findings as text: a line for each, with file and line number, and a line with
    /// their counts.
    #[must_use]
    pub fn report(&self) -> String {
        let path = self.path.display();
        let how = match self.telling.as_deref() {
            None => "as was said".to_owned(),
            Some([]) => "guessed, because no key in the file shows the dialect; if the guess is \
                         wrong, name the dialect"
                .to_owned(),
            Some(telling) => {
                format!(
                    "guessed from {}; if the guess is wrong, name the dialect",
                    telling.join(", ")
                )
            }
        };
        let mut text = format!("{path}: {}, {how}\n", self.dialect);
        for finding in &self.findings {
            text += &format!("{path}:{}: {finding}\n", finding.line);
        }
        let count = |fate| self.findings.iter().filter(|f| f.fate == fate).count();
        let counts = Fate::ALL.map(|fate| format!("{} {fate}", count(fate)));
        text + &format!("{path}: {}\n", counts.join(", "))
    }
}

/// A key of the QuickFIX family, for a list of all.
#[derive(Debug)]
pub(crate) struct Known {
    /// The name of the key, as its engines write it.
    pub(crate) name: &'static str,
    /// Their names.
    pub(crate) engines: String,
    /// The Transfix key that alone is equivalent, if there is one.
    pub(crate) ours: Option<&'static str>,
    /// The difference in Transfix, or the reason why there is no equivalent.
    pub(crate) says: &'static str,
}

impl Known {
    fn of(row: &Row) -> Self {
        let engines: Vec<_> = row.dialects().map(|dialect| dialect.to_string()).collect();
        let Row { name, says, .. } = *row;
        Self { name, engines: engines.join(", "), ours: row.rule.key(), says }
    }
}

/// Returns the key with this name, in upper or lower case.
pub(crate) fn known(name: &str) -> Option<Known> {
    table::find_in_any_case(name).as_ref().map(Known::of)
}

/// All keys.
pub(crate) fn all_known() -> impl Iterator<Item = Known> {
    table::rows().map(|row| Known::of(&row))
}

/// Reads a `.cfg` file of QuickFIX, and returns the migrated settings with the findings about all
/// keys. If no dialect is given, uses the dialect that knows most of the file's keys. Keys that are
/// [not carried over](Fate::NotCarriedOver) cause no error, so check [`Migration::is_sound`] before
/// starting an engine.
///
/// ```no_run
/// let (settings, migration) = transfix_quickfix::settings("desk.cfg", None)?;
/// if !migration.is_sound() {
///     eprint!("{}", migration.report());
/// }
/// # Ok::<(), transfix_settings::SettingsError>(())
/// ```
///
/// # Errors
/// As those of [`Migration::read`] and [`Migration::settings`].
pub fn settings(
    path: impl AsRef<Path>,
    dialect: Option<Dialect>,
) -> Result<(Settings, Migration), SettingsError> {
    let migration = Migration::read(path, dialect)?;
    Ok((migration.settings()?, migration))
}
