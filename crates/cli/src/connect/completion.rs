//! Tab completion of commands, messages, fields, values and saved messages.

use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::commands::COMMANDS;
use super::vocabulary::Vocabulary;

/// Completion state that commands change: the type of the current message, and the names of saved
/// messages.
#[derive(Clone, Default)]
pub(super) struct Situation {
    pub(super) msg_type: Option<String>,
    pub(super) kept: Vec<String>,
}

/// Completion helper of the line editor.
pub(super) struct Help {
    pub(super) words: Arc<Vocabulary>,
    pub(super) situation: Arc<Mutex<Situation>>,
}

impl Help {
    /// Returns the position in the line where the word to complete starts, and the candidates.
    fn offer(&self, line: &str) -> (usize, Vec<String>) {
        let begin = line.rfind([' ', '|']).map_or(0, |at| at + 1);
        let (before, word) = line.split_at(begin);
        let mut before = before.split([' ', '|']).filter(|word| !word.is_empty());
        let situation = self.situation.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(command) = before.next() else {
            let all = COMMANDS.iter().map(|command| command.name.to_owned());
            return (begin, starting(word, all));
        };
        let first = before.next();
        let fields_of = match command {
            "new" => {
                let names = self.words.message_names().map(str::to_owned);
                return (begin, if first.is_none() { starting(word, names) } else { Vec::new() });
            }
            "load" | "forget" | "burst" => return (begin, starting(word, situation.kept)),
            "help" => {
                let all = COMMANDS.iter().map(|command| command.name.to_owned());
                return (begin, starting(word, all));
            }
            "send" | "expect" => match first {
                Some(name) => self.words.msg_type(name).ok(),
                None => {
                    let names = self.words.message_names().map(str::to_owned);
                    return (begin, starting(word, names.chain(situation.kept)));
                }
            },
            "set" | "add" | "unset" => situation.msg_type,
            _ => None,
        };
        let Some(msg_type) = fields_of else { return (begin, Vec::new()) };
        if let Some((name, value)) = word.split_once('=') {
            let Ok(tag) = self.words.tag(name) else { return (begin, Vec::new()) };
            let codes = self.words.codes(tag).map(str::to_owned);
            return (begin + name.len() + 1, starting(value, codes));
        }
        let end = if command == "unset" { "" } else { "=" };
        let names = self.words.fields_of(&msg_type).into_iter().map(|name| format!("{name}{end}"));
        (begin, starting(word, names))
    }
}

/// Returns the texts that start with `word`, ignoring ASCII case.
fn starting(word: &str, all: impl IntoIterator<Item = String>) -> Vec<String> {
    let word = word.to_ascii_lowercase();
    all.into_iter().filter(|one| one.to_ascii_lowercase().starts_with(&word)).collect()
}

impl Completer for Help {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.offer(&line[..pos]))
    }
}

impl Hinter for Help {
    type Hint = String;
}

impl Highlighter for Help {}

impl Validator for Help {}

impl Helper for Help {}

#[cfg(test)]
mod tests {
    use transfix::{BeginString, Role, SessionId, SessionSettings};

    use super::*;

    #[test]
    fn offers_what_may_stand_there() {
        let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
        let session = SessionSettings::new(Role::Initiator, &id, "127.0.0.1:1");
        let situation = Situation { msg_type: Some("D".to_owned()), kept: vec!["mine".to_owned()] };
        let help = Help {
            words: Arc::new(Vocabulary::new(&session).unwrap()),
            situation: Arc::new(Mutex::new(situation)),
        };
        for (line, begin, offered) in [
            ("ne", 0, &["new"][..]),
            ("new NewOrderS", 4, &["NewOrderSingle"]),
            ("new NewOrderSingle x", 19, &[]),
            ("set Sid", 4, &["Side="]),
            ("set Symbol=EU sid", 14, &["Side="]),
            ("set Side=BU", 9, &["BUY", "BUY_MINUS"]),
            ("set 54=buy", 7, &["BUY", "BUY_MINUS"]),
            ("set Nonsense=", 4, &[]),
            ("unset Symbols", 6, &["SymbolSfx"]),
            ("send NewOrderSingle Symbol=EU|Sid", 30, &["Side="]),
            ("send mi", 5, &["mine"]),
            ("load m", 5, &["mine"]),
            ("expect ExecutionReport ExecTyp", 23, &["ExecType="]),
            ("quit n", 5, &[]),
        ] {
            let (at, found) = help.offer(line);
            assert_eq!(
                (at, &found[..]),
                (begin, &offered.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
    }
}
