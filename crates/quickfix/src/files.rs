//! Migrates the keys that name the directories of store and log.

use std::path::PathBuf;

use crate::keys::quoted;
use crate::session::Session;
use crate::table::find;
use crate::{Dialect, Fate};

impl Session<'_> {
    /// Writes the location of the store.
    pub(crate) fn store(&mut self) {
        let Some(dir) = self.value("FileStorePath") else {
            let becomes = "store_dir = \"store\"";
            let says = "the file names no directory for a file store; Transfix always stores in \
                        files, unless `durability` is \"memory\"";
            return self.tell_of_session(Fate::Mapped, becomes, says);
        };
        let row = find("FileStorePath", self.dialect);
        let (fate, says) = row.map_or((Fate::Mapped, ""), |row| row.fate(dir));
        self.set("store_dir", quoted(dir));
        let becomes = format!("store_dir = {}", quoted(dir));
        self.tell("FileStorePath", fate, &becomes, says);
        // Skips a path with a Java property, whose value is unknown here.
        if self.entry("FileStorePath").is_some_and(|entry| entry.variables.is_empty()) {
            self.store = Some((PathBuf::from(dir), self.file_name()));
        }
        if self.dialect == Dialect::Go && !self.has("FileStoreSync") {
            self.set("durability", quoted("power"));
            let says = "QuickFIX/Go uses FileStoreSync=Y if the key is missing";
            self.tell_of_session(Fate::Mapped, "durability = \"power\"", says);
        }
    }

    /// Returns the name of the session's files.
    fn file_name(&self) -> String {
        let part = |comp_id: &str, others: [&str; 2]| {
            let mut part = self.value(comp_id).unwrap_or_default().to_owned();
            for id in others.into_iter().filter_map(|key| self.value(key)) {
                part = format!("{part}_{id}");
            }
            part
        };
        let sender = part("SenderCompID", ["SenderSubID", "SenderLocationID"]);
        let target = part("TargetCompID", ["TargetSubID", "TargetLocationID"]);
        let begin_string = self.value("BeginString").unwrap_or_default();
        let mut name = format!("{begin_string}-{sender}-{target}");
        if let Some(qualifier) = self.value("SessionQualifier") {
            name = format!("{name}-{qualifier}");
        }
        if self.dialect == Dialect::Java {
            let is_kept = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
            name = name.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
        }
        name
    }

    /// Writes the directory of the log, and the fields to be masked in it.
    pub(crate) fn log(&mut self) {
        if let Some(dir) = self.value("FileLogPath") {
            let row = find("FileLogPath", self.dialect);
            let (fate, says) = row.map_or((Fate::Mapped, ""), |row| row.fate(dir));
            self.set("log.dir", quoted(dir));
            let events = quoted(&format!("{}/events.log", dir.trim_end_matches('/')));
            let becomes = format!("log.dir = {}", quoted(dir));
            match self.set_in("[events]", "file", events.clone()) {
                Ok(()) => {
                    let becomes = format!("{becomes}, [events] file = {events}");
                    self.tell("FileLogPath", fate, &becomes, says);
                }
                Err(counts) => self.tell("FileLogPath", fate, &becomes, &counts),
            }
        }
        let Some(tags) = self.value("RedactFieldsInLogs") else { return };
        let tags: Result<Vec<u32>, _> = tags.split(',').map(|tag| tag.trim().parse()).collect();
        match tags {
            Ok(tags) if self.has("FileLogPath") => {
                self.becomes("RedactFieldsInLogs", "log.mask", format!("{tags:?}"));
            }
            Ok(_) => self.tell(
                "RedactFieldsInLogs",
                Fate::Ignored,
                "",
                "the key has no effect \
                without FileLogPath",
            ),
            Err(_) => {
                self.tell("RedactFieldsInLogs", Fate::NotCarriedOver, "", "a list of tags");
            }
        }
    }
}
