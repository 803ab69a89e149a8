//! A message as it is typed: a type and its fields, in their order.

use super::values::MISSING;
use super::vocabulary::Vocabulary;

/// A message that is made by hand, or was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) msg_type: String,
    /// Of groups: the count, then the fields of each entry in turn.
    pub(super) fields: Vec<(u32, String)>,
}

impl Typed {
    /// `TAG=VALUE|TAG=VALUE`; names in place of tags and values are understood too.
    pub(super) fn parse(msg_type: &str, fields: &str, words: &Vocabulary) -> Result<Self, String> {
        let fields = fields.split('|').filter(|field| !field.is_empty());
        let fields = fields.map(|field| pair(field, words)).collect::<Result<_, _>>()?;
        Ok(Self { msg_type: words.msg_type(msg_type)?, fields })
    }

    /// The same as [`Typed::line`], with stars for secrets.
    pub(super) fn seen(&self, words: &Vocabulary) -> String {
        let seen = |tag, value: &str| (tag, words.seen(&self.msg_type, tag, value));
        let fields = self.fields.iter().map(|(tag, value)| seen(*tag, value)).collect();
        Self { msg_type: self.msg_type.clone(), fields }.line()
    }

    /// What [`Typed::parse`] reads again.
    pub(super) fn line(&self) -> String {
        let fields = self.fields.iter().map(|(tag, value)| format!("{tag}={value}"));
        fields.collect::<Vec<_>>().join("|")
    }

    /// Gives the field this value; at its end if it has none of that tag.
    pub(super) fn set(&mut self, tag: u32, value: String) {
        match self.fields.iter_mut().find(|(known, _)| *known == tag) {
            Some((_, old)) => *old = value,
            None => self.fields.push((tag, value)),
        }
    }

    /// Takes away all fields of this tag. Says whether there was one.
    pub(super) fn unset(&mut self, tag: u32) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(known, _)| *known != tag);
        self.fields.len() < before
    }

    /// Fields that have no value yet, with what each may be.
    pub(super) fn missing(&self, words: &Vocabulary) -> Vec<String> {
        let missing = self.fields.iter().filter(|(_, value)| value == MISSING);
        missing.map(|(tag, _)| format!("{}: {}", words.name(*tag), words.choice(*tag))).collect()
    }

    /// One line, for people.
    pub(super) fn brief(&self, words: &Vocabulary) -> String {
        let fields = self.fields.iter();
        let fields = fields.map(|(tag, value)| {
            format!(" {}={}", words.name(*tag), words.seen(&self.msg_type, *tag, value))
        });
        words.message_name(&self.msg_type) + &fields.collect::<String>()
    }

    /// A line for each field, for people.
    pub(super) fn shown(&self, words: &Vocabulary) -> String {
        let mut text = words.message_name(&self.msg_type);
        for (tag, value) in &self.fields {
            let seen = words.seen(&self.msg_type, *tag, value);
            text += &format!("\n  {}={seen}", words.name(*tag));
            if value == MISSING {
                text += &format!("   {}", words.choice(*tag));
            } else if let Some(code) = words.code(*tag, value) {
                text += &format!("   {code}");
            }
        }
        text
    }
}

/// A field, by tag or name, with its value or the name of its code.
pub(super) fn pair(field: &str, words: &Vocabulary) -> Result<(u32, String), String> {
    let (name, value) = field.split_once('=').ok_or_else(|| format!("{field} is not TAG=VALUE"))?;
    let tag = words.tag(name)?;
    Ok((tag, words.value(tag, value)))
}
