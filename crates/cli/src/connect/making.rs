//! The commands of `connect` that make, keep, send, replay and expect messages.

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use transfix::{BeginString, Tag, clock, tag};

use super::console::{Console, span};
use super::heard::{Fields, value};
use super::message::{Typed, pair};
use super::replay::replay;
use super::values::{Source, has_id, made};
use crate::show::{count, say};

/// How long `expect` waits by default.
const EXPECT_S: f64 = 10.0;

/// What is said where a message is needed and none was begun.
pub(super) const NOTHING: &str = "there is no message; `new NewOrderSingle` begins one";

/// A message that can be sent.
struct Made {
    fields: Vec<(u32, String)>,
    /// It has taken up a number.
    has_id: bool,
}

/// So many messages a second.
pub(super) struct Pace {
    each_ns: u64,
    next_ns: u64,
}

impl Pace {
    /// 0: as fast as they go.
    pub(super) fn new(rate: &str) -> Result<Self, String> {
        let rate: f64 = rate.parse().map_err(|_| format!("{rate} is no number"))?;
        if !(0.0..=1e9).contains(&rate) {
            return Err(format!("{rate} a second is not possible: 0 is as fast as they go"));
        }
        let each_ns = if rate > 0.0 { (1e9 / rate) as u64 } else { 0 };
        Ok(Self { each_ns, next_ns: clock::monotonic_ns() })
    }

    pub(super) fn wait(&mut self, pause: &Receiver<()>) {
        if self.each_ns == 0 {
            return;
        }
        let left_ns = self.next_ns.saturating_sub(clock::monotonic_ns());
        if left_ns > 0 {
            let _ = pause.recv_timeout(Duration::from_nanos(left_ns));
        }
        self.next_ns += self.each_ns;
    }
}

impl Console {
    /// Does what a command about messages says; `false` if it is no such command.
    pub(super) fn message_command(&mut self, name: &str, rest: &str) -> Result<bool, String> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let done = match (name, &words[..]) {
            ("new", [message]) => self.begin(message),
            ("set" | "add", [_, ..]) => self.change(rest, name == "add"),
            ("unset", fields @ [_, ..]) => self.unset(fields),
            ("show", []) => self.show(),
            ("edit", []) => Err("edit needs a terminal; `set` and `add` change fields".to_owned()),
            ("save", [kept]) => {
                let typed = self.typed.clone().ok_or(NOTHING)?;
                self.kept.keep(kept, typed)
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
            ("forget", [kept]) => self.kept.forget(kept),
            ("send", []) => {
                let typed = self.typed.clone().ok_or(NOTHING)?;
                self.send_typed(&typed, 0)
            }
            ("send", [kept]) => {
                let typed = self.kept.get(kept)?.clone();
                self.send_typed(&typed, 0)
            }
            ("send", [msg_type, ..]) => {
                let fields = rest[msg_type.len()..].trim();
                let typed = Typed::parse(msg_type, fields, &self.words)?;
                self.send_typed(&typed, 0)
            }
            ("replay", [file]) => self.replay(file, "0"),
            ("replay", [file, rate]) => self.replay(file, rate),
            ("expect", [_, ..]) => self.expect(rest),
            _ => return Ok(false),
        };
        done.map(|()| true)
    }

    /// Begins a message.
    fn begin(&mut self, name: &str) -> Result<(), String> {
        let message = self.words.message(name)?;
        let fields = self.words.begun(message);
        self.typed = Some(Typed { msg_type: message.msg_type.clone(), fields });
        self.show()
    }

    fn change(&mut self, fields: &str, is_added: bool) -> Result<(), String> {
        let mut changed = Vec::new();
        for field in quoted(fields)? {
            changed.push(pair(&field, &self.words)?);
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

    fn unset(&mut self, fields: &[&str]) -> Result<(), String> {
        for field in fields {
            let tag = self.words.tag(field)?;
            if !self.typed.as_mut().ok_or(NOTHING)?.unset(tag) {
                return Err(format!("the message has no {}", self.words.name(tag)));
            }
        }
        Ok(())
    }

    fn show(&self) -> Result<(), String> {
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
    fn made(&self, typed: &Typed, n: u64) -> Result<Made, String> {
        let missing = typed.missing(&self.words);
        if let Some(first) = missing.first() {
            return Err(format!("a value is missing: {first}"));
        }
        let now = clock::now().utc.to_string();
        // FIX 4.2 has brought milliseconds.
        let digits = if self.begin_string < BeginString::Fix42 { 17 } else { 21 };
        let last = |field: &str| {
            let tag = self.words.tag(field)?;
            let found = value(&self.last, tag).map(str::to_owned);
            found.ok_or_else(|| {
                format!("what expect has found last has no {}", self.words.name(tag))
            })
        };
        let now = now.get(..digits).unwrap_or(&now);
        let source = Source { id: self.next_order, n, now, last: &last };
        let mut fields = Vec::with_capacity(typed.fields.len());
        for (tag, text) in &typed.fields {
            fields.push((*tag, made(text, &source)?));
        }
        Ok(Made { fields, has_id: typed.fields.iter().any(|(_, text)| has_id(text)) })
    }

    pub(super) fn send_typed(&mut self, typed: &Typed, n: u64) -> Result<(), String> {
        let Made { fields, has_id } = self.made(typed, n)?;
        self.send(&typed.msg_type, |body| {
            for (tag, value) in &fields {
                body.str(Tag(*tag), value);
            }
        })?;
        self.next_order += u64::from(has_id);
        Ok(())
    }

    fn replay(&self, file: &str, rate: &str) -> Result<(), String> {
        let mut pace = Pace::new(rate)?;
        let sender = self.handle.id().sender_comp_id.to_string();
        let done = replay(Path::new(file), (&self.words, &sender), &mut |msg_type, fields| {
            pace.wait(&self.pause.1);
            self.send(msg_type, |body| {
                for (tag, value) in fields {
                    body.bytes(*tag, value);
                }
            })
        })?;
        say(&format!(
            "{} sent, {} of the session layer or the other side left out, {} garbled",
            done.sent, done.left_out, done.garbled
        ));
        Ok(())
    }

    /// `MESSAGE [FIELD=VALUE|…] [within SECONDS]`.
    fn expect(&mut self, text: &str) -> Result<(), String> {
        let (what, seconds) = match text.rsplit_once(" within ") {
            Some((what, seconds)) => (what.trim(), span(seconds)?),
            None => (text, Duration::from_secs_f64(EXPECT_S)),
        };
        let (name, fields) = what.split_once(char::is_whitespace).unwrap_or((what, ""));
        let wanted = Typed::parse(name, fields.trim(), &self.words)?;
        let wanted = Typed { fields: self.made(&wanted, 0)?.fields, ..wanted };
        let fits = |heard: &Fields| {
            value(heard, tag::MSG_TYPE.0) == Some(&wanted.msg_type)
                && wanted.fields.iter().all(|(tag, text)| {
                    let is_it = |(known, found): &(u32, String)| {
                        known == tag && (text == "*" || text == found)
                    };
                    heard.iter().any(is_it)
                })
        };
        match self.heard.take(seconds, fits) {
            Ok(found) => {
                self.last = found;
                Ok(())
            }
            Err(others) => {
                let last = others.iter().rev().take(10);
                let mut came: Vec<_> = last.map(|one| self.words.message_name(one)).collect();
                came.reverse();
                let came = if came.is_empty() { "nothing".to_owned() } else { came.join(", ") };
                let shown = wanted.brief(&self.words);
                Err(format!("not within {} s: {shown}; {came} came", seconds.as_secs_f64()))
            }
        }
    }
}

/// The words of a line; what stands in quotes is one.
fn quoted(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    if is_quoted { Err("a quote is open".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(quoted("a=1  b=\"x y\" c=").unwrap(), ["a=1", "b=x y", "c="]);
        assert_eq!(quoted("a=\"1"), Err("a quote is open".to_owned()));
    }

    #[test]
    fn numbers_of_seconds_and_rates_are_checked() {
        assert_eq!(span("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "x", "nan", "1e9"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Pace::new("1000").map(|pace| pace.each_ns), Ok(1_000_000));
        assert!(Pace::new("-1").is_err() && Pace::new("fast").is_err());
    }
}
