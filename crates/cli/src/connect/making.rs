//! The commands of `connect` that make and keep messages, and the values that are made in them.

use std::time::Duration;

use super::console::Console;
use super::fault::Fault;
use super::heard::{Fields, value};
use super::message::{Typed, pair, quoted};
use super::values::{Source, has_id, made};
use crate::show::{count, say};

/// The error of a command that needs a message when none was begun.
pub(super) const NOTHING: &str = "there is no message; `new NewOrderSingle` begins one";

/// How long a message may take to get its number and to leave, if it is asked for that.
const LEAVES_MAX: Duration = Duration::from_secs(5);

/// A message that can be sent.
pub(super) struct Made {
    pub(super) fields: Fields,
    /// It has taken up a name.
    pub(super) has_id: bool,
}

impl Console {
    /// Does what a command about messages says; `false` if it is no such command.
    pub(super) fn message_command(&mut self, name: &str, rest: &str) -> Result<bool, Fault> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let done = match (name, &words[..]) {
            ("new", [message]) => self.begin(message),
            ("set" | "add", [_, ..]) => self.change(rest, name == "add"),
            ("unset", fields @ [_, ..]) => self.unset(fields),
            ("show", []) => self.show(),
            ("edit", []) => Err("edit needs a terminal; `set` and `add` change fields".into()),
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

    /// Begins a message.
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
                return Err(format!("the message has no {}", self.words.name(tag)).into());
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
        let Made { fields, .. } = self.made(typed, 0)?;
        for line in self.words.wrong(&typed.msg_type, &fields) {
            say(&format!("! {line}"));
        }
        Ok(())
    }

    /// The message with its values made, as it would be sent now.
    pub(super) fn made(&self, typed: &Typed, n: u64) -> Result<Made, Fault> {
        let missing = typed.missing(&self.words);
        if let Some(first) = missing.first() {
            return Err(format!("a value is missing: {first}").into());
        }
        let now = self.now();
        let source = Source {
            id: self.ids.next(),
            n,
            now: &now,
            sent: &|field| self.look(&self.whole(field)?, field, "what was sent last"),
            last: &|field| self.look(&self.last, field, "what expect has found last"),
        };
        let mut fields = Vec::with_capacity(typed.fields.len());
        for (tag, text) in &typed.fields {
            fields.push((*tag, made(text, &source)?));
        }
        Ok(Made { fields, has_id: typed.fields.iter().any(|(_, text)| has_id(text)) })
    }

    /// Returns the message sent last, with the session's own fields if this field is one of them.
    fn whole(&self, field: &str) -> Result<Fields, Fault> {
        let tag = self.words.tag(field)?;
        let is_there = self.sent.is_empty() || value(&self.sent, tag).is_some();
        let whole = if is_there { None } else { self.heard.whole(&self.sent, LEAVES_MAX) };
        Ok(whole.unwrap_or_else(|| self.sent.clone()))
    }

    /// A field of an earlier message.
    fn look(&self, of: &Fields, field: &str, what: &str) -> Result<String, Fault> {
        let tag = self.words.tag(field)?;
        let found = value(of, tag).map(str::to_owned);
        let missing = || format!("{what} has no {}", self.words.name(tag));
        // That nothing is there yet is to be seen in the script; what a message has is not.
        found.ok_or_else(|| match of.is_empty() {
            true => Fault::Wrong(missing()),
            false => Fault::Failed(missing()),
        })
    }
}
