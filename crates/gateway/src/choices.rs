//! Records the targets chosen for each message in a file, before the first target gets the message.
//! After a gateway was killed, the file shows which targets may have a message.
//!
//! Each session that receives messages has a file next to its store, `NAME.choices`, with a line
//! for each choice and for each numbered copy. At the next start, the stores of the targets show
//! whether a chosen target has the message.
//!
//! Invariants: no target has a message whose choice is missing from the file. The file and its
//! predecessor `NAME.choices.old` have more choices than a session can have messages under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use transfix::{Durability, Sent, SessionHandle, SessionId, SessionSettings, Settings, clock};
use transfix_store::lines;

use super::mark::mark;
use super::stored::{self, StoredCopies};

/// The number of choices, at least, after which a new file is begun.
const CHOICES_MIN: usize = 10_000;
/// The permissions of the file: only the owner may read choices.
const MODE: u32 = 0o600;

/// The values that identify a message among all messages of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Incoming {
    /// MsgSeqNum(34).
    pub(super) seq: u64,
    /// SendingTime(52) of the message when it was first sent.
    pub(super) sent: Vec<u8>,
    /// A hash of the fields that stay the same when the message is resent.
    pub(super) mark: u64,
}

/// A target's name in the file; for a session also the next outbound number.
type ChosenTarget = (String, Option<u64>);

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The targets chosen for a message.
    Choice {
        message: Incoming,
        /// True if the targets are alternatives, so that earlier choices for the message did not
        /// reach their targets.
        alone: bool,
        to: Vec<ChosenTarget>,
        /// The hash of the copy that a session sends.
        copy: u64,
        /// The time of the choice, in UTC nanoseconds since 1970.
        at_ns: u64,
    },
    /// The MsgSeqNum(34) that the copy of the message `seq` has got in the session `to`.
    Numbered { seq: u64, to: String, number: u64 },
}

/// The fate of a choice: whether the chosen target has received the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The target has the message permanently.
    Has,
    /// The target may have the message.
    Unknown,
    /// The target never had the message.
    Nowhere,
}

/// The targets of a message chosen by an earlier process, each with its fate.
pub(super) type Fates = Vec<(String, Fate)>;

/// All choices of a gateway. Clones share one state.
#[derive(Clone, Default)]
pub(super) struct Choices(Arc<All>);

#[derive(Default)]
struct All {
    /// Files by the store path of the receiving session.
    files: Mutex<HashMap<PathBuf, Arc<Mutex<ChoiceFile>>>>,
    /// The choices of earlier processes: by the file name of the receiving session's store, and by
    /// the message's number.
    before: HashMap<String, HashMap<u64, (Incoming, Fates)>>,
}

impl Choices {
    /// Reads the choices of earlier processes, and finds out from the targets' stores which of them
    /// were delivered.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub(super) fn read(settings: &Settings) -> Result<Self, String> {
        let dirs: BTreeSet<_> = settings.sessions.iter().map(|one| &one.store.store_dir).collect();
        let mut chosen = BTreeMap::new();
        for dir in dirs {
            let failed = |error| format!("choices in {}: {error}", dir.display());
            read_all(dir, &mut chosen).map_err(failed)?;
        }
        let before = resolve(chosen, settings);
        Ok(Self(Arc::new(All { before, ..All::default() })))
    }

    /// Returns the fates of an earlier process's choices for this message of the session, if there
    /// are any.
    pub(super) fn before(&self, from: &SessionSettings, message: &Incoming) -> Option<&Fates> {
        let of_session = self.0.before.get(&file_name(&from.store_path())?)?;
        of_session.get(&message.seq).filter(|(known, _)| known == message).map(|(_, fates)| fates)
    }

    /// Opens the file of choices for messages of the session `from`. Returns `None` if the session
    /// has no store on disk, because its messages cannot be recognized after a restart.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn of(&self, from: &SessionSettings) -> io::Result<Option<OpenChoices>> {
        if from.store.durability == Durability::Memory {
            return Ok(None);
        }
        let path = from.store_path();
        let mut files = self.0.files.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match files.get(&path) {
            Some(known) => Arc::clone(known),
            None => {
                let file = Arc::new(Mutex::new(ChoiceFile::open(&path, from)?));
                files.insert(path, Arc::clone(&file));
                file
            }
        };
        Ok(Some(OpenChoices(known)))
    }
}

/// The open file of choices of one session. Clones share one file.
#[derive(Clone)]
pub(super) struct OpenChoices(Arc<Mutex<ChoiceFile>>);

/// A choice that must be recorded before the targets get the message.
pub(super) struct Choice<'c> {
    pub(super) message: &'c Incoming,
    /// True if the targets are alternatives, of which only one gets the message.
    pub(super) alone: bool,
    /// Names of the targets, with handles for sessions.
    pub(super) to: Vec<(String, Option<SessionHandle>)>,
    /// The hash of the copy that a session sends.
    pub(super) copy: u64,
}

impl OpenChoices {
    /// Writes a choice into the file. Syncs the file if the store of a target survives a power
    /// failure.
    ///
    /// # Errors
    /// No target may get the message then.
    pub(super) fn choose(&self, choice: Choice<'_>) -> io::Result<()> {
        let is_power = |to: &SessionHandle| to.settings().store.durability == Durability::Power;
        let syncs = choice.to.iter().any(|(_, to)| to.as_ref().is_some_and(is_power));
        let to = choice.to.into_iter();
        let to = to.map(|(name, to)| (name, to.map(|to| to.next_numbers().1))).collect();
        let at_ns = clock::now().utc.0.unsigned_abs();
        let (message, alone, copy) = (choice.message.clone(), choice.alone, choice.copy);
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.add(&Line::Choice { message, alone, to, copy, at_ns }, syncs)
    }

    /// Returns a function that records the number which the copy for the session `to` gets.
    pub(super) fn numbered(&self, seq: u64, to: &SessionId) -> impl Fn(Sent) + use<> {
        let (own, to) = (self.clone(), to.to_string());
        move |sent| {
            let (Sent::Direct(number) | Sent::Stored(number)) = sent else { return };
            let mut file = own.0.lock().unwrap_or_else(PoisonError::into_inner);
            // An error is ignored, because the copy can also be found by its fields.
            let _ = file.add(&Line::Numbered { seq, to: to.clone(), number }, false);
        }
    }
}

/// The file into which choices are written.
struct ChoiceFile {
    path: PathBuf,
    file: File,
    choices: usize,
    choices_max: usize,
}

impl ChoiceFile {
    fn open(store: &Path, from: &SessionSettings) -> io::Result<Self> {
        let path = beside(store, "choices");
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let (file, bytes) = lines::open(&path, MODE)?;
        // An existing file counts as full, so that a new one begins at its first choice and files
        // do not grow with each start.
        let choices_max = from.application.messages_max.max(CHOICES_MIN);
        let choices = if bytes == 0 { 0 } else { choices_max };
        Ok(Self { path, file, choices, choices_max })
    }

    fn add(&mut self, line: &Line, syncs: bool) -> io::Result<()> {
        let is_choice = matches!(line, Line::Choice { .. });
        if is_choice && self.choices >= self.choices_max {
            self.begin_next()?;
        }
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(&text);
        let written = written.and_then(|()| if syncs { self.file.sync_data() } else { Ok(()) });
        if written.is_err() {
            // Removes a partly written line, because the next line would be appended to it.
            self.file.set_len(before)?;
        }
        self.choices += usize::from(is_choice);
        written
    }

    fn begin_next(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".old");
        fs::rename(&self.path, old)?;
        (self.file, _) = lines::open(&self.path, MODE)?;
        self.choices = 0;
        Ok(())
    }
}

fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// The targets that an earlier process has chosen for a message.
#[derive(Debug)]
struct Chosen {
    message: Incoming,
    to: BTreeMap<String, ChosenBefore>,
}

#[derive(Clone, Copy, Debug)]
struct ChosenBefore {
    /// The target's next outbound number when the choice was made; `None` unless the target is a
    /// session.
    next: Option<u64>,
    copy: u64,
    at_ns: u64,
    /// The number that the copy has got, if it was recorded.
    number: Option<u64>,
}

/// The choices of earlier processes, by the name of the receiving session's store and the number of
/// the message.
type AllChosen = BTreeMap<String, BTreeMap<u64, Chosen>>;

/// Reads all files of choices in a directory.
fn read_all(dir: &Path, chosen: &mut AllChosen) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = file_name(&path) else { continue };
        let Some(store) = name.strip_suffix(".choices") else { continue };
        let of_store = chosen.entry(store.to_owned()).or_default();
        for path in [beside(&path, "old"), path] {
            match fs::read(&path) {
                Ok(text) => read_one(&text, of_store),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Reads the lines of a file. An incomplete last line is skipped, because its message has not
/// reached a target.
fn read_one(text: &[u8], chosen: &mut BTreeMap<u64, Chosen>) {
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice(line) else { continue };
        match line {
            Line::Choice { message, alone, to, copy, at_ns } => {
                let seq = message.seq;
                let known = chosen.remove(&seq).filter(|known| known.message == message);
                let mut all = known.map(|known| known.to).unwrap_or_default();
                if alone {
                    all.retain(|name, _| to.iter().any(|(chosen, _)| chosen == name));
                }
                for (name, next) in to {
                    let new = ChosenBefore { next, copy, at_ns, number: None };
                    // The earlier entry is kept, because after a second try both copies must be
                    // searched for.
                    all.entry(name).or_insert(new);
                }
                chosen.insert(seq, Chosen { message, to: all });
            }
            Line::Numbered { seq, to, number } => {
                let known = chosen.get_mut(&seq).and_then(|known| known.to.get_mut(&to));
                if let Some(known) = known {
                    known.number = Some(number);
                }
            }
        }
    }
}

/// Finds out from the targets' stores which choices were delivered.
fn resolve(
    chosen: AllChosen,
    settings: &Settings,
) -> HashMap<String, HashMap<u64, (Incoming, Fates)>> {
    // For each store: the first number to read, and the numbers that already belong to known
    // copies.
    let mut wanted: HashMap<String, (u64, BTreeSet<u64>)> = HashMap::new();
    for (name, to) in chosen.values().flat_map(BTreeMap::values).flat_map(|one| &one.to) {
        if let Some(next) = to.next {
            let (least, taken) = wanted.entry(name.clone()).or_insert((next, BTreeSet::new()));
            *least = next.min(*least);
            taken.extend(to.number);
        }
    }
    let added = stored::added_tags(settings);
    let found = wanted.into_iter().map(|(name, (least, taken))| {
        let copies = stored::store_of(settings, &name)
            .and_then(|path| StoredCopies::read(&path, least, &added).ok());
        (name, (copies, taken))
    });
    let mut found: HashMap<String, (Option<StoredCopies>, BTreeSet<u64>)> = found.collect();
    let mut fate = |(name, to): (String, ChosenBefore)| {
        let known =
            found.get_mut(&name).and_then(|(copies, taken)| Some((copies.as_ref()?, taken)));
        let fate = known.map_or(Fate::Unknown, |(copies, taken)| fate_of(to, copies, taken));
        (name, fate)
    };
    let of_session = |one: BTreeMap<u64, Chosen>, fate: &mut dyn FnMut(_) -> _| {
        let resolved = one.into_iter().map(|(seq, Chosen { message, to })| {
            (seq, (message, to.into_iter().map(&mut *fate).collect()))
        });
        resolved.collect()
    };
    chosen.into_iter().map(|(name, one)| (name, of_session(one, &mut fate))).collect()
}

/// Returns whether a session has sent the copy, according to its store.
fn fate_of(to: ChosenBefore, copies: &StoredCopies, taken: &mut BTreeSet<u64>) -> Fate {
    if copies.was_reset_since(to.at_ns) {
        // After a reset the copy's number may belong to another message.
        return Fate::Unknown;
    }
    let found = match to.number {
        Some(number) => copies.is(number, to.copy),
        // The process was killed before it recorded the number, so the copy is searched for by its
        // fields.
        None => copies.numbers(to.copy, to.next.unwrap_or(0)).any(|number| taken.insert(number)),
    };
    if found { Fate::Has } else { Fate::Nowhere }
}

/// Returns a hash of the fields that stay the same when a message is resent.
pub(super) fn mark_of_incoming(bytes: &[u8]) -> u64 {
    mark(&stored::lasting_fields(bytes, &BTreeSet::new()))
}
