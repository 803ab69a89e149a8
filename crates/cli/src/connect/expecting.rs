//! The command `expect` of `connect`: waits for a message, or reports the messages received
//! instead.

use std::time::Duration;

use transfix::tag;

use super::console::{Console, span};
use super::fault::Fault;
use super::message::Typed;
use super::received::{Fields, NoMessage, value};
use super::values::has_id;
use crate::foreign::Foreign;

/// Default timeout of `expect`, in seconds.
const EXPECT_S: f64 = 10.0;
/// Maximum number of non-matching messages that the error names, beginning with the newest.
const OTHERS_MAX: usize = 10;

impl Console {
    /// Runs `expect MESSAGE [FIELD=VALUE …] [within SECONDS]`.
    pub(super) fn expect(&mut self, text: &str) -> Result<(), Fault> {
        let (what, within) = match text.rsplit_once(" within ") {
            Some((what, seconds)) => (what.trim(), span(seconds.trim())?),
            None => (text, Duration::from_secs_f64(EXPECT_S)),
        };
        let (name, fields) = what.split_once(char::is_whitespace).unwrap_or((what, ""));
        let wanted = Typed::from_line(name, fields.trim(), &self.words).map_err(Fault::Usage)?;
        if wanted.fields.iter().any(|(_, value)| has_id(value)) {
            let why = "{id} is a new number, which no received message has; {sent.FIELD} is the \
                       value of the last sent message";
            return Err(why.into());
        }
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
        // A Logon(A) may arrive on the next connection, so the end of this connection does not end
        // the wait.
        let is_logon = wanted.msg_type == "A";
        let found = self.heard.take(within, is_logon, fits);
        self.last = found.map_err(|missed| self.missed(&wanted, within, &missed))?;
        Ok(())
    }

    fn missed(&self, wanted: &Typed, within: Duration, missed: &NoMessage) -> Fault {
        let left_out = missed.others.len().saturating_sub(OTHERS_MAX);
        let others = missed.others.iter().skip(left_out);
        let mut came: Vec<_> = others.map(|one| self.other(wanted, one)).collect();
        if left_out > 0 {
            came.insert(0, format!("{left_out} more"));
        }
        let came = if came.is_empty() { "nothing".to_owned() } else { came.join(", ") };
        let when = match &missed.end {
            Some(words) => {
                format!("the connection ended ({}) before the message arrived:", Foreign(words))
            }
            None => format!("not within {} s:", within.as_secs_f64()),
        };
        let mut text = format!("{when} {}; {came} came", wanted.brief(&self.words));
        if missed.came_earlier {
            text += "; a matching message arrived before the last message was sent, and does not \
                     count";
        }
        if missed.end.is_none() && !self.heard.is_logged_on() {
            text += "; the session is not logged on; use `wait` to wait for the logon";
        }
        Fault::Failed(text)
    }

    /// Describes a non-matching message by its values of the wanted fields, and by the
    /// counterparty's Text(58).
    fn other(&self, wanted: &Typed, heard: &Fields) -> String {
        let Some(msg_type) = value(heard, tag::MSG_TYPE.0) else { return "garble".to_owned() };
        let mut tags: Vec<u32> = wanted.fields.iter().map(|(tag, _)| *tag).collect();
        tags.push(tag::TEXT.0);
        tags.dedup();
        let shown = tags.iter().filter_map(|tag| {
            let seen = self.words.seen(msg_type, *tag, value(heard, *tag)?);
            Some(format!(" {}={}", self.words.name(*tag), Foreign(&seen)))
        });
        self.words.message_name(msg_type) + &shown.collect::<String>()
    }
}
