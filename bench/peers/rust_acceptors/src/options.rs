//! The command line: `--key value` pairs.

use std::error::Error;
use std::path::{Path, PathBuf};

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The options of an acceptor.
pub struct Options {
    pub sessions: usize,
    /// `None` means memory.
    pub store: Option<PathBuf>,
    /// The dictionary, if messages are checked.
    pub dictionary: Option<PathBuf>,
    pub echo: bool,
}

impl Options {
    pub fn read(arguments: &[String]) -> Outcome<Self> {
        let (mut sessions, mut validate, mut dictionary) = (1, true, None);
        let mut options = Self { sessions: 0, store: None, dictionary: None, echo: false };
        let mut arguments = arguments.iter();
        while let Some(key) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("no value for {key}"))?;
            match (key.as_str(), value.as_str()) {
                ("--sessions", text) => sessions = text.parse()?,
                ("--store", "memory") => options.store = None,
                ("--store", folder) => options.store = Some(folder.into()),
                ("--validate", "yes") => validate = true,
                ("--validate", "no") => validate = false,
                ("--dictionary", file) => dictionary = Some(PathBuf::from(file)),
                ("--answer", "report") => options.echo = false,
                ("--answer", "echo") => options.echo = true,
                ("--mode", "default") => {}
                _ => return Err(format!("no such option: {key} {value}").into()),
            }
        }
        if sessions == 0 {
            return Err("--sessions is 1 or more".into());
        }
        options.sessions = sessions;
        if validate {
            let file = dictionary.filter(|file| Path::new(file).is_file());
            options.dictionary = Some(file.ok_or("--validate yes needs --dictionary FILE")?);
        }
        Ok(options)
    }
}
