//! Says what is wrong with a message, and what would be right.

use std::fmt::Write as _;

use transfix::codec::validate::Finding;
use transfix::codec::{Members, MessageLayout};
use transfix::dictionary::{DataType, Field, Flat, Member};
use transfix::{Message, RejectReason, Tag};

use crate::input::Pair;

/// What a finding is explained by.
pub(super) struct Explain<'e, 'm> {
    pub(super) message: &'e Message<'m>,
    pub(super) pair: &'e Pair,
    /// `None` if the dictionary has no such message.
    pub(super) layout: Option<&'e MessageLayout>,
}

/// Tags from here on are left to venues and their counterparties.
const USER_DEFINED: u32 = 5_000;
/// Longest value that is shown whole, in characters.
const VALUE_MAX: usize = 40;
/// Codes that are listed before they are only counted.
const CODES_MAX: usize = 12;

impl Explain<'_, '_> {
    /// One line: the field, the reason, and what would be right.
    pub(super) fn finding(&self, finding: &Finding) -> String {
        let reject = finding.reject;
        let mut text = self.subject(finding);
        let _ = write!(text, ": {}", reject.reason.text());
        let remedy = self.remedy(finding);
        if !remedy.is_empty() {
            let _ = write!(text, "; {remedy}");
        }
        text
    }

    /// The field that is to blame, with its value if it is there.
    fn subject(&self, finding: &Finding) -> String {
        let reason = finding.reject.reason;
        if reason == RejectReason::InvalidMsgType {
            return shown(self.message.msg_type());
        }
        let is_absent = reason == RejectReason::RequiredTagMissing;
        let field = finding.at.filter(|_| !is_absent).and_then(|at| self.message.at(at));
        let name = match (finding.reject.tag, finding.at) {
            (Some(tag), _) => self.name(tag),
            (None, Some(at)) => shown(self.message.tag_text(at)),
            (None, None) => "message".to_owned(),
        };
        match field {
            Some(field) => format!("{name}={}", shown(field.value)),
            None => name,
        }
    }

    /// `Side(54)`, or the tag alone.
    fn name(&self, tag: Tag) -> String {
        match self.pair.field(tag.0) {
            Some(field) => format!("{}({tag})", field.name),
            None => tag.to_string(),
        }
    }

    fn message_name(&self) -> String {
        let msg_type = self.message.msg_type();
        let name = self.pair.message(msg_type).map_or("?", |known| known.name.as_str());
        format!("{name}({})", shown(msg_type))
    }

    fn remedy(&self, finding: &Finding) -> String {
        let tag = finding.reject.tag.unwrap_or(Tag(0));
        let field = self.pair.field(tag.0);
        match finding.reject.reason {
            RejectReason::InvalidMsgType => {
                format!("{} has no message of that type", self.pair.application.name())
            }
            RejectReason::RequiredTagMissing => self.missing(finding, field),
            RejectReason::InvalidTagNumber if tag.0 >= USER_DEFINED => {
                "name the venue's dictionary, or leave out the check user_defined_tags".to_owned()
            }
            RejectReason::InvalidTagNumber | RejectReason::UndefinedTag => {
                let version = self.pair.application.name();
                format!("{version} has no such tag{}", self.meant(tag))
            }
            RejectReason::TagNotDefinedForMessage => {
                format!("{} has no such field{}", self.message_name(), self.meant(tag))
            }
            RejectReason::TagWithoutValue => "give it one or leave the field out".to_owned(),
            RejectReason::ValueOutOfRange => field.map(codes).unwrap_or_default(),
            RejectReason::IncorrectDataFormat => field.map(form).unwrap_or_default(),
            RejectReason::TagAppearsMoreThanOnce => {
                let first = self.message.position(tag).map_or(0, |at| at + 1);
                format!("field {first} is the same; leave one out")
            }
            RejectReason::TagOutOfOrder => format!("it belongs to the {}", self.section(tag)),
            RejectReason::GroupFieldsOutOfOrder | RejectReason::IncorrectNumInGroup => {
                self.group_fault()
            }
            RejectReason::CompIdProblem
            | RejectReason::SendingTimeAccuracy
            | RejectReason::Other => String::new(),
        }
    }

    fn missing(&self, finding: &Finding, field: Option<&Field>) -> String {
        let mut text = "add it".to_owned();
        if let Some(field) = field {
            let _ = write!(text, ", {} {}", article(field.data_type), field.data_type);
        }
        // In a group the entry's first field stands for the entry.
        if let Some((at, field)) = finding.at.and_then(|at| Some((at, self.message.at(at)?))) {
            let value = shown(field.value);
            let name = self.name(field.tag);
            let _ =
                write!(text, ", to the entry that begins with {name}={value}, field {}", at + 1);
        }
        text
    }

    /// The tag that was perhaps meant: one of the message that is not there, one slip away.
    fn meant(&self, tag: Tag) -> String {
        let Some(known) = self.pair.message(self.message.msg_type()) else {
            return String::new();
        };
        let wrong = tag.to_string();
        let members = Flat::of(&known.members).chain(Flat::of(self.pair.session.header()));
        let mut candidates = members.filter(|member| {
            is_one_slip(&wrong, &member.tag.to_string())
                && self.message.position(Tag(member.tag)).is_none()
        });
        // What must be there was meant sooner than what may be.
        let found = candidates.clone().find(|member| member.required).or_else(|| candidates.next());
        found.map_or_else(String::new, |member| {
            format!("; did you mean {}?", self.name(Tag(member.tag)))
        })
    }

    fn section(&self, tag: Tag) -> &'static str {
        let holds = |members: &[Member]| Flat::of(members).any(|member| member.tag == tag.0);
        if holds(self.pair.session.header()) {
            "header"
        } else if holds(self.pair.session.trailer()) {
            "trailer"
        } else {
            "body"
        }
    }

    /// What is wrong with the first group that is not well built.
    fn group_fault(&self) -> String {
        let Some(layout) = self.layout else { return String::new() };
        let groups = self.message.tags().iter().filter_map(|tag| Some((*tag, layout.group(*tag)?)));
        let mut faults =
            groups.filter_map(|(tag, group)| self.message.check_group(tag, group).err());
        faults.next().map_or_else(String::new, |fault| fault.to_string())
    }
}

/// A value as text, cut if it is long.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let mut shown: String = text.chars().take(VALUE_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(VALUE_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The codes of a field, with their names.
fn codes(field: &Field) -> String {
    let mut text = "use ".to_owned();
    for (n, code) in field.codes.iter().take(CODES_MAX).enumerate() {
        let gap = if n == 0 { "" } else { ", " };
        let _ = write!(text, "{gap}{} ({})", code.value, code.name);
    }
    if let Some(more) = field.codes.len().checked_sub(CODES_MAX).filter(|more| *more > 0) {
        let _ = write!(text, ", or one of {more} more");
    }
    if field.data_type.is_multiple() {
        text.push_str("; several have one blank between them");
    }
    text
}

const fn article(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Int | DataType::Amt | DataType::Exchange | DataType::XmlData | DataType::Xid => {
            "an"
        }
        _ => "a",
    }
}

/// What a value of the field's type looks like.
fn form(field: &Field) -> String {
    use DataType as T;
    let form = match field.data_type {
        T::Int => "a whole number such as 12 or -3",
        T::Length | T::SeqNum | T::NumInGroup | T::TagNum => {
            "a whole number such as 12, not below 0"
        }
        T::DayOfMonth => "a day from 1 to 31",
        T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => {
            "a number such as 12.50 or -3, without exponent, plus sign or separators"
        }
        T::Char => "one printable character",
        T::Boolean => "Y or N",
        T::MultipleCharValue => "single characters with one blank between them, such as 1 G",
        T::MultipleStringValue => "words with one blank between them, such as AA B",
        T::Country => "two letters of ISO 3166, such as DE",
        T::Currency => "three letters of ISO 4217, such as EUR",
        T::Exchange => "a market identifier code such as XNYS",
        T::MonthYear => "202611, 20261121 or 202611w3",
        T::UtcTimestamp => "20261121-09:28:25, with up to 12 digits after a point",
        T::UtcTimeOnly | T::LocalMktTime => "09:28:25, with up to 12 digits after a point",
        T::UtcDateOnly | T::LocalMktDate => "a day of the calendar such as 20261121",
        T::TzTimeOnly => "09:28, 09:28:25 or 09:28:25.5, then Z, +05:30 or -05",
        T::TzTimestamp => "20261121-09:28:25, then Z, +05:30 or -05",
        T::Language => "two letters of ISO 639-1, such as en",
        T::Tenor => "D, W, M or Y and a number, such as M3",
        T::String | T::Pattern | T::Xid | T::XidRef => "any text",
        T::Data | T::XmlData => "any bytes, as many as the field before says",
    };
    format!("{} {} is {form}", article(field.data_type), field.data_type)
}

/// Whether one character was left out, added or mistaken, or two neighbours changed places.
fn is_one_slip(wrong: &str, right: &str) -> bool {
    let (wrong, right) = (wrong.as_bytes(), right.as_bytes());
    let same = wrong.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (wrong, right) = (&wrong[same..], &right[same..]);
    match (wrong, right) {
        ([], []) => false,
        ([], [_]) | ([_], []) => true,
        ([_, rest @ ..], [_, others @ ..]) => {
            rest == others
                || rest == right
                || wrong == others
                || rest.first() == right.first()
                    && wrong.first() == others.first()
                    && rest.get(1..) == others.get(1..)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips() {
        let slips = [("45", "54"), ("5", "55"), ("555", "55"), ("56", "55"), ("144", "44")];
        for (wrong, right) in slips {
            assert!(is_one_slip(wrong, right), "{wrong} {right}");
        }
        for (wrong, right) in [("55", "55"), ("5", "555"), ("12", "34"), ("123", "321")] {
            assert!(!is_one_slip(wrong, right), "{wrong} {right}");
        }
    }

    #[test]
    fn values_are_cut() {
        assert_eq!(shown(b"a\x01b\xff"), "a\\u{1}b\u{fffd}");
        assert_eq!(shown("é".repeat(41).as_bytes()), format!("{}…", "é".repeat(40)));
    }
}
