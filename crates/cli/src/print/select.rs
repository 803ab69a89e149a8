//! Which messages are printed: by type, time and fields.

use transfix::{Message, Timestamp, tag};
use transfix_dictionary::nearest;

use crate::input::{Dictionaries, Found, Pair, msg_types};

/// Which messages.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Only messages of this type, such as D or NewOrderSingle; several with commas.
    #[arg(long = "type", value_name = "MSGTYPE", value_delimiter = ',')]
    msg_types: Vec<String>,
    /// Only messages from this time on, in UTC, such as 20261121-09:28:25: that of the log's line
    /// or the store's record, else SendingTime(52).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Only messages up to this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Only messages with this value in this field, such as 55=EU, Side=BUY or 54=1; with several
    /// of them all must be met.
    #[arg(long = "where", value_name = "TAG=VALUE", value_parser = condition)]
    conditions: Vec<Condition>,
}

/// A field and its value, as the user writes them.
#[derive(Clone, Debug)]
struct Condition {
    name: String,
    value: String,
    /// Known once the name has been looked up.
    tag: u32,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let time = Timestamp::parse(text.as_bytes());
    time.ok_or_else(|| "write a time in UTC as 20261121-09:28:25".to_owned())
}

fn condition(text: &str) -> Result<Condition, String> {
    let (name, value) = text.split_once('=').ok_or("write TAG=VALUE, such as 55=EU")?;
    Ok(Condition { name: name.to_owned(), value: value.to_owned(), tag: 0 })
}

/// Returns the error for a name that no field has.
fn unknown(name: &str, dictionaries: &mut Dictionaries) -> String {
    let names = dictionaries.field_names();
    let near = nearest(name, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    format!("--where: no dictionary has a field '{name}'{near}")
}

impl Selection {
    /// Looks up the fields and messages that are written by name.
    pub(super) fn resolve(&mut self, dictionaries: &mut Dictionaries) -> Result<(), String> {
        for condition in &mut self.conditions {
            let tag = condition.name.parse().ok();
            let tag = tag.or_else(|| dictionaries.tag_named(&condition.name));
            condition.tag = match tag {
                Some(tag) => tag,
                None => return Err(unknown(&condition.name, dictionaries)),
            };
        }
        self.msg_types = msg_types(&self.msg_types, dictionaries)?;
        Ok(())
    }

    /// Returns true if all messages are wanted.
    pub(super) const fn is_all(&self) -> bool {
        let Self { msg_types, from, to, conditions } = self;
        msg_types.is_empty() && from.is_none() && to.is_none() && conditions.is_empty()
    }

    /// Returns true if the message is wanted.
    pub(super) fn takes(&self, message: &Message<'_>, found: &Found<'_>, pair: &Pair) -> bool {
        self.takes_type(message.msg_type().as_bytes())
            && self.takes_time(message, found.head)
            && self.conditions.iter().all(|condition| condition.is_met(message, pair))
    }

    fn takes_type(&self, msg_type: &[u8]) -> bool {
        let is_it = |wanted: &String| wanted.as_bytes() == msg_type;
        self.msg_types.is_empty() || self.msg_types.iter().any(is_it)
    }

    fn takes_time(&self, message: &Message<'_>, head: &str) -> bool {
        if self.from.is_none() && self.to.is_none() {
            return true;
        }
        let logged = head.split_whitespace().find_map(|word| Timestamp::parse(word.as_bytes()));
        let time = logged.or_else(|| message.timestamp(tag::SENDING_TIME).ok());
        // One without any time is not known to be within.
        time.is_some_and(|time| {
            self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time <= to)
        })
    }
}

impl Condition {
    fn is_met(&self, message: &Message<'_>, pair: &Pair) -> bool {
        let known = pair.field(self.tag);
        let code = |value: &[u8]| known.and_then(|known| known.code(value));
        let mut fields = message.fields().filter(|field| field.tag.0 == self.tag);
        fields.any(|field| {
            field.value == self.value.as_bytes()
                || code(field.value).is_some_and(|code| code.name.eq_ignore_ascii_case(&self.value))
        })
    }
}
