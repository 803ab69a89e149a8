//! A column in the table of configurations of a published page: a file with the settings of both
//! sides.
//!
//! The file is a settings file of the engine with an additional table `[page]`, which is removed
//! before the engine reads the file.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use transfix::{Durability, Mode, Role, SessionSettings, Settings};

/// A configuration of a published page, read from a file.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Name of the configuration on the command line, equal to the file name without `.toml`.
    pub(crate) name: String,
    /// The name of a built-in configuration, or the path of a file, as passed to the other process.
    pub(crate) source: String,
    /// Spin time of both sides' threads in microseconds, if set on the command line.
    pub(crate) spin_us: Option<u32>,
    /// The table `[page]`, which is not part of the engine's settings.
    pub(crate) beside: Beside,
    settings: Settings,
}

/// The table `[page]` of a configuration file, with options of the benchmark.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Beside {
    /// The title of the column on the page.
    pub(crate) title: String,
    /// The purpose of the configuration, as the page recommends it.
    pub(crate) advice: String,
    /// True if the sender prepares messages, and writes only the changed values for each message.
    pub(crate) prepared: bool,
    /// True if the configuration requires OpenOnload.
    pub(crate) kernel_bypass: bool,
    /// CPU of the sending thread, if pinned.
    pub(crate) sender_cpu: Option<usize>,
}

impl Column {
    /// Parses the text of the file `name`.toml.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
        let beside = match table.get("page") {
            Some(page) => page.clone().try_into().map_err(|e| format!("{name}, [page]: {e}"))?,
            None => Beside::default(),
        };
        let settings =
            Settings::parse(name, &without_page(text)).map_err(|error| error.to_string())?;
        let (name_of, source) = (name.to_owned(), name.to_owned());
        let column = Self { name: name_of, source, spin_us: None, beside, settings };
        for role in [Role::Acceptor, Role::Initiator] {
            let n = column.settings.sessions.iter().filter(|session| session.role == role).count();
            // The router benchmark has no initiator in its file.
            if n > 1 || (n == 0 && role == Role::Acceptor) {
                return Err(format!("{name}: {n} sessions with role {role:?}; one is needed"));
            }
        }
        Ok(column)
    }

    /// Reads a configuration from a file of the user.
    pub(crate) fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut column = Self::parse(&name, &text)?;
        column.source = path.display().to_string();
        Ok(column)
    }

    /// Returns true if the file has settings for an initiator too.
    pub(crate) fn has_initiator(&self) -> bool {
        self.settings.sessions.iter().any(|session| session.role == Role::Initiator)
    }

    /// Returns the session settings of one side.
    pub(crate) fn session(&self, role: Role) -> &SessionSettings {
        let found = self.settings.sessions.iter().find(|session| session.role == role);
        found.unwrap_or(&self.settings.sessions[0])
    }

    /// Returns the engine settings of one side.
    pub(crate) fn side(&self, role: Role) -> Settings {
        let mut settings = self.settings.clone();
        settings.sessions.retain(|session| session.role == role);
        settings
    }

    /// Returns true if the acceptor's thread spins.
    pub(crate) fn spins(&self) -> bool {
        self.session(Role::Acceptor).threads.mode == Mode::Spin
    }

    /// Sets the time for which both sides spin before they sleep.
    pub(crate) fn set_spin_us(&mut self, spin_us: u32) {
        self.spin_us = Some(spin_us);
        for session in &mut self.settings.sessions {
            session.threads.spin = Duration::from_micros(spin_us.into());
        }
    }

    /// Returns true if the acceptor keeps messages in files.
    pub(crate) fn has_files(&self) -> bool {
        self.session(Role::Acceptor).store.durability != Durability::Memory
    }

    /// Returns the settings that affect the figures, for the table header and the JSON object.
    pub(crate) fn described(&self) -> serde_json::Value {
        let [acceptor, initiator] =
            [Role::Acceptor, Role::Initiator].map(|role| self.session(role));
        let side = |session: &SessionSettings| {
            serde_json::json!({
                "mode": session.threads.mode,
                "cpu": session.threads.cpu,
                "spin_us": session.threads.spin.as_micros() as u64,
                "validate": session.validation.validate,
                "validate_check_sum": session.validation.validate_check_sum,
                "durability": session.store.durability,
                "segment_bytes": session.store.segment_bytes,
                "tcp_nodelay": session.socket.tcp_nodelay,
            })
        };
        serde_json::json!({
            "title": self.beside.title,
            "prepared": self.beside.prepared,
            "sender_cpu": self.beside.sender_cpu,
            "workers": self.settings.engine.workers,
            "acceptor": side(acceptor),
            "initiator": side(initiator),
        })
    }

    /// Returns the settings that affect the figures as text, one line for each side.
    pub(crate) fn words(&self) -> String {
        let side = |role: Role| {
            let session = self.session(role);
            let mode = format!("{:?}", session.threads.mode).to_lowercase();
            let cpu = session.threads.cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
            let yes =
                |on: bool, name: &str| if on { name.to_owned() } else { format!("no {name}") };
            format!(
                "mode {mode}{cpu}, {}, {}, durability {}, {}",
                yes(session.validation.validate, "validation"),
                yes(session.validation.validate_check_sum, "CheckSum(10)"),
                format!("{:?}", session.store.durability).to_lowercase(),
                yes(session.socket.tcp_nodelay, "TCP_NODELAY"),
            )
        };
        let sender = self.beside.sender_cpu;
        let sender = sender.map_or_else(String::new, |cpu| format!("; sender on CPU {cpu}"));
        let prepared = if self.beside.prepared { "; prepared messages" } else { "" };
        format!(
            "  acceptor: {}\n  initiator: {}{sender}{prepared}",
            side(Role::Acceptor),
            side(Role::Initiator)
        )
    }
}

/// Returns the file's text with blank lines instead of the table `[page]`, so that errors of the
/// remaining text name the right line.
fn without_page(text: &str) -> String {
    let mut is_in_page = false;
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with('[') {
            is_in_page = line.trim().starts_with("[page]");
        }
        if is_in_page { "\n".to_owned() } else { format!("{line}\n") }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[page]
title = \"Own\"
[[session]]
role = \"acceptor\"
address = \"127.0.0.1:1\"
begin_string = \"FIX.4.2\"
sender_comp_id = \"A\"
target_comp_id = \"B\"
[[session]]
role = \"initiator\"
address = \"127.0.0.1:1\"
begin_string = \"FIX.4.2\"
sender_comp_id = \"B\"
target_comp_id = \"A\"
";

    #[test]
    fn a_column_is_a_settings_file_with_a_table_more() {
        let column = Column::parse("own", TEXT).unwrap();
        assert_eq!((&*column.beside.title, column.beside.prepared), ("Own", false));
        assert_eq!(column.side(Role::Initiator).sessions[0].sender_comp_id, "B");
        let wrong = [
            (TEXT.replace("role = \"initiator\"", "role = \"acceptor\""), "2 sessions"),
            (TEXT.replace("title", "titel"), "titel"),
            (TEXT.replacen("role = \"acceptor\"", "roll = \"acceptor\"", 1), "own:4"),
        ];
        for (text, expected) in wrong {
            let error = Column::parse("own", &text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
