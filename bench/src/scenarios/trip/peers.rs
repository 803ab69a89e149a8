//! Starts the acceptors of other engines, which `cargo xtask peers build` lists in a file.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::super::child::Side as Process;
use super::super::page::Answer;

/// SenderCompID(49) of the acceptors of all engines.
pub(super) const VENUE: &str = "VENUE";
/// SenderCompID(49) of the common client.
pub(super) const CLIENT: &str = "C0";

/// An engine in the list of acceptors.
#[derive(Clone, Debug, Deserialize)]
struct Listed {
    engine: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    stores: Vec<String>,
    #[serde(default)]
    validation: Vec<bool>,
    #[serde(default)]
    answers: Vec<String>,
    #[serde(default)]
    modes: Vec<String>,
    #[serde(default)]
    durability: String,
    #[serde(default)]
    note: String,
    /// The reason why the engine cannot run; `None` if it can.
    #[serde(default)]
    missing: Option<String>,
}

/// The properties that other engines should have, to be as close as possible to our configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) answer: Answer,
    pub(super) files: bool,
    pub(super) spins: bool,
}

/// A configuration of another engine's acceptor, with its command.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) name: String,
    note: String,
    command: Vec<String>,
    options: Vec<String>,
    has_files: bool,
}

/// Name of the file that lists the acceptors.
const LIST: &str = "acceptors.json";

/// Returns the configurations closest to the wanted properties, and the reasons why other engines
/// do not run.
pub(super) fn ways(dir: &Path, wanted: Wanted) -> Result<(Vec<Way>, Vec<String>), String> {
    let path = dir.join(LIST);
    if !path.exists() {
        let shown = path.display();
        let missing = format!("other engines: {shown} is not there; `cargo xtask peers build`");
        return Ok((Vec::new(), vec![missing]));
    }
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    let listed: Vec<Listed> =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let (mut ways, mut not_run) = (Vec::new(), Vec::new());
    for listed in listed {
        match &listed.missing {
            Some(why) => not_run.push(format!("{}: {why}", listed.engine)),
            None => match of(&listed, wanted) {
                Ok(of) => ways.extend(of),
                Err(why) => not_run.push(format!("{}: {why}", listed.engine)),
            },
        }
    }
    Ok((ways, not_run))
}

fn of(listed: &Listed, wanted: Wanted) -> Result<Vec<Way>, String> {
    let answer = wanted.answer.name();
    if !listed.answers.iter().any(|known| known == answer) {
        return Err(format!("its program cannot {answer}"));
    }
    let has = |all: &[String], name: &str| all.iter().any(|known| known == name);
    let store = if wanted.files { "file" } else { "memory" };
    // An engine without a file store runs with its memory store instead.
    let store = if has(&listed.stores, store) { store } else { "memory" };
    let mode = if wanted.spins && has(&listed.modes, "polling") { "polling" } else { "default" };
    let ways = listed.validation.iter().map(|validates| {
        let validation = if *validates { "validation" } else { "no validation" };
        let way = if mode == "polling" { ", polling" } else { "" };
        let validates = if *validates { "yes" } else { "no" };
        let options = ["--mode", mode, "--answer", answer, "--validate", validates];
        Way {
            name: format!("{} {}, {store}, {validation}{way}", listed.engine, listed.version),
            note: listed.note(),
            command: listed.command.clone(),
            options: options.map(str::to_owned).into(),
            has_files: store == "file",
        }
    });
    Ok(ways.collect())
}

impl Listed {
    fn note(&self) -> String {
        let Self { engine, version, durability, note, .. } = self;
        format!("{engine} {version}: durability: {durability}; {note}")
    }
}

/// Returns the notes about the engines, without repetitions.
pub(super) fn notes(ways: &[Way]) -> Vec<String> {
    let mut notes: Vec<String> = ways.iter().map(|way| way.note.clone()).collect();
    notes.dedup();
    notes
}

impl Way {
    /// Starts the acceptor with its store in the directory `store`, pinned to `cpu` if given.
    pub(super) fn start(&self, store: &Path, cpu: Option<usize>) -> Result<Process, String> {
        let (program, rest) = self.command.split_first().ok_or("it has no command")?;
        let (name, text) =
            transfix_dictionary::standard_text("FIX42").map_err(|e| e.to_string())?;
        let dictionary = store.join(format!("{name}.xml"));
        std::fs::write(&dictionary, text)
            .map_err(|error| format!("{}: {error}", dictionary.display()))?;
        let mut command = Command::new(program);
        command.args(rest).args(&self.options).args(["--sessions", "1", "--store"]);
        if self.has_files {
            command.arg(store);
        } else {
            command.arg("memory");
        }
        command.arg("--dictionary").arg(&dictionary);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        Process::start(&self.name, command.stdin(Stdio::piped()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_run_as_near_to_ours_as_it_can_be() {
        let dir = std::env::temp_dir().join(format!("transfix-ways-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let wanted = Wanted { answer: Answer::Echo, files: true, spins: true };
        let (none, missing) = ways(&dir, wanted).unwrap();
        assert!(none.is_empty() && missing[0].contains("cargo xtask peers build"), "{missing:?}");
        let list = r#"[
            {"engine": "One", "version": "1", "command": ["one"], "stores": ["memory", "file"],
             "validation": [true, false], "answers": ["report", "echo"], "durability": "write",
             "modes": ["default", "polling"]},
            {"engine": "Two", "version": "2", "command": ["two"], "stores": ["memory"],
             "validation": [false], "answers": ["echo"], "modes": ["default"]},
            {"engine": "Three", "missing": "no SDK"},
            {"engine": "Four", "version": "4", "command": ["four"], "stores": ["memory"],
             "validation": [false], "answers": ["report"]}
        ]"#;
        std::fs::write(dir.join(LIST), list).unwrap();
        let (ways, not_run) = ways(&dir, wanted).unwrap();
        let names: Vec<&str> = ways.iter().map(|way| &*way.name).collect();
        assert_eq!(
            names,
            [
                "One 1, file, validation, polling",
                "One 1, file, no validation, polling",
                "Two 2, memory, no validation",
            ]
        );
        assert_eq!(not_run, ["Three: no SDK", "Four: its program cannot echo"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
