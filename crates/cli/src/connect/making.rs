//! Commands of `connect` that build and save messages.

use std::time::Duration;

use super::console::Console;
use super::fault::Fault;
use super::message::{Typed, pair, quoted};
use super::received::{Fields, value};
use super::values::{Source, has_id, made};
use crate::show::{count, say};

/// Error of a command that needs a current message when there is none.
pub(super) const NOTHING: &str = "there is no message to change or send; begin a message, such as \
                                  `new NewOrderSingle`";

/// Maximum wait for a message to be numbered and sent, before a command reads its session fields
/// such as MsgSeqNum(34).
const LEAVES_MAX: Duration = Duration::from_secs(5);

/// A message whose placeholders are replaced, ready to be sent.
pub(super) struct ReadyMessage {
    pub(super) fields: Fields,
    /// True if the message contains a newly generated `{id}`.
    pub(super) has_id: bool,
}

impl Console {
    /// Runs a command that builds or saves messages. Returns `false` if `name` is not such a
    /// command.
    pub(super) fn message_command(&mut self, name: &str, rest: &str) -> Result<bool, Fault> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let done = match (name, &words[..]) {
            ("new", [message]) => self.begin(message),
            ("set" | "add", [_, ..]) => self.change(rest, name == "add"),
            ("unset", fields @ [_, ..]) => self.unset(fields),
            ("show", []) => self.show(),
            ("edit", []) => {
                Err("the command edit needs a terminal; use `set` and `add` to change \
                                 fields"
                    .into())
            }
            ("save", [kept]) => {
                let typed = self.typed.clone().ok_or(NOTHING)?;
                Ok(self.kept.keep(kept, typed, &self.words)?)
            }
            ("load", [kept]) => {
                self.typed = Some(self.kept.get(kept)?.clone());
                self.show()
            }
            ("saved", []) => {
                for kept in self.kept.names() {
                    let typed = self.kept.get(kept)?;
                    say(&format!("{kept} {} {}", typed.msg_type, typed.seen(&self.words)));
                }
                Ok(())
            }
            ("forget", [kept]) => Ok(self.kept.forget(kept, &self.words)?),
            _ => return self.sending_command(name, rest),
        };
        done.map(|()| true)
    }

    /// Begins a new message that contains its required fields.
    fn begin(&mut self, name: &str) -> Result<(), Fault> {
        let message = self.words.message(name)?;
        let fields = self.words.begun(message);
        self.typed = Some(Typed { msg_type: message.msg_type.clone(), fields });
        self.show()
    }

    fn change(&mut self, fields: &str, is_added: bool) -> Result<(), Fault> {
        let mut changed = Vec::new();
        for field in quoted(fields).map_err(Fault::Usage)? {
            changed.push(pair(&field, &self.words).map_err(Fault::Usage)?);
        }
        let typed = self.typed.as_mut().ok_or(NOTHING)?;
        for (tag, value) in changed {
            match is_added {
                true => typed.fields.push((tag, value)),
                false => typed.set(tag, value),
            }
        }
        Ok(())
    }

    fn unset(&mut self, fields: &[&str]) -> Result<(), Fault> {
        for field in fields {
            let tag = self.words.tag(field)?;
            if !self.typed.as_mut().ok_or(NOTHING)?.unset(tag) {
                return Err(format!("the message has no field {}", self.words.name(tag)).into());
            }
        }
        Ok(())
    }

    fn show(&self) -> Result<(), Fault> {
        let typed = self.typed.as_ref().ok_or(NOTHING)?;
        say(&typed.shown(&self.words));
        let missing = typed.missing(&self.words);
        if !missing.is_empty() {
            say(&format!("{} without a value", count(missing.len() as u64, "field")));
            return Ok(());
        }
        let ReadyMessage { fields, .. } = self.made(typed, 0)?;
        for line in self.words.wrong(&typed.msg_type, &fields) {
            say(&format!("! {line}"));
        }
        Ok(())
    }

    /// Returns the message with its placeholders replaced, as it would be sent now.
    pub(super) fn made(&self, typed: &Typed, n: u64) -> Result<ReadyMessage, Fault> {
        let missing = typed.missing(&self.words);
        if let Some(first) = missing.first() {
            return Err(format!("a value is missing: {first}").into());
        }
        let now = self.now();
        let source = Source {
            id: self.ids.next(),
            n,
            now: &now,
            sent: &|field| self.look(&self.whole(field)?, field, "the last sent message"),
            last: &|field| self.look(&self.last, field, "the last message that expect found"),
        };
        let mut fields = Vec::with_capacity(typed.fields.len());
        for (tag, text) in &typed.fields {
            fields.push((*tag, made(text, &source)?));
        }
        Ok(ReadyMessage { fields, has_id: typed.fields.iter().any(|(_, text)| has_id(text)) })
    }

    /// Returns the fields of the last sent message. If `field` is a header or trailer field that
    /// the session adds, waits until the message is sent.
    fn whole(&self, field: &str) -> Result<Fields, Fault> {
        let tag = self.words.tag(field)?;
        let is_there = self.sent.is_empty() || value(&self.sent, tag).is_some();
        let whole = if is_there { None } else { self.heard.whole(&self.sent, LEAVES_MAX) };
        Ok(whole.unwrap_or_else(|| self.sent.clone()))
    }

    /// Returns the value of a field of an earlier message, which `what` names in the error.
    fn look(&self, of: &Fields, field: &str, what: &str) -> Result<String, Fault> {
        let tag = self.words.tag(field)?;
        let found = value(of, tag).map(str::to_owned);
        let missing = || format!("{what} has no {}", self.words.name(tag));
        // An empty `of` means that there is no earlier message, which is an error of the script. A
        // missing field depends on the counterparty's message.
        found.ok_or_else(|| match of.is_empty() {
            true => Fault::Wrong(missing()),
            false => Fault::Failed(missing()),
        })
    }
}
