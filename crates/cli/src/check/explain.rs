//! Explains the errors of a message and their remedies.

use std::fmt::Write as _;

use transfix::{Mask, Message, RejectReason, Tag, tag};
use transfix_codec::value::uint;
use transfix_codec::{self as codec, validate::Finding};
use transfix_codec::{Garbled, GroupError, GroupFault, Members, MessageLayout, raw};
use transfix_dictionary::{Conditional, DataType, Field, Flat, Member};

use crate::input::{InputError, Pair};

/// The context in which the findings of one message are explained.
pub(crate) struct Explain<'e, 'm> {
    pub(crate) message: &'e Message<'m>,
    pub(crate) pair: &'e Pair,
    /// Layout of the message; `None` if the dictionary does not define the message.
    pub(crate) layout: Option<&'e MessageLayout>,
    /// All findings of the message.
    pub(crate) findings: &'e [Finding],
    /// Fields whose values are hidden; `None` hides nothing.
    pub(crate) mask: Option<&'e Mask>,
}

/// Maximum length of a shown value, in characters; a longer value is shortened.
const VALUE_MAX: usize = 40;
/// Maximum number of listed codes of a field; further codes are only counted.
const CODES_MAX: usize = 12;

impl Explain<'_, '_> {
    /// Explains a finding in one line: the field, the reason and the remedy.
    pub(crate) fn finding(&self, finding: &Finding) -> String {
        let reject = finding.reject;
        let mut text = self.subject(finding);
        let _ = write!(text, ": {}", reject.reason.text());
        let remedy = self.remedy(finding);
        if !remedy.is_empty() {
            let _ = write!(text, "; {remedy}");
        }
        text
    }

    /// Returns the field of a finding, as its name with its value if the field is present.
    fn subject(&self, finding: &Finding) -> String {
        let reason = finding.reject.reason;
        if reason == RejectReason::InvalidMsgType {
            return shown(self.message.msg_type().as_bytes());
        }
        if let Some(at) = self.malformed_at(finding) {
            let encoded = self.message.encoded(at);
            let field = &encoded[..encoded.len() - 1];
            return self.mask.map_or_else(|| shown(field), |mask| shown(&mask.garbled(field)));
        }
        let is_absent = reason == RejectReason::RequiredTagMissing;
        let field = finding.at.filter(|_| !is_absent).and_then(|at| self.message.at(at));
        let name = finding.reject.tag.map_or_else(|| "message".to_owned(), |tag| self.name(tag));
        match field {
            Some(field) => format!("{name}={}", self.value(&field)),
            None => name,
        }
    }

    /// Returns the position of the finding's field if this field has no valid tag.
    fn malformed_at(&self, finding: &Finding) -> Option<usize> {
        let is_tag = finding.reject.reason == RejectReason::InvalidTagNumber;
        finding.at.filter(|at| is_tag && self.message.tags().get(*at) == Some(&Tag(0)))
    }

    /// Returns the value of a field as text, with stars if the value is secret.
    fn value(&self, field: &codec::Field<'_>) -> String {
        let msg_type = self.message.msg_type();
        match self.mask.is_some_and(|mask| mask.hides(msg_type, field.tag)) {
            true => shown(&vec![b'*'; field.value.len()]),
            false => shown(field.value),
        }
    }

    /// Returns the name and tag of a field, such as `Side(54)`, or the tag alone if the field is
    /// unknown.
    fn name(&self, tag: Tag) -> String {
        match self.pair.field(tag.0) {
            Some(field) => format!("{}({tag})", field.name),
            None => tag.to_string(),
        }
    }

    fn message_name(&self) -> String {
        let msg_type = self.message.msg_type();
        let name = self.pair.message(msg_type).map_or("?", |known| known.name.as_str());
        format!("{name}({})", shown(msg_type.as_bytes()))
    }

    fn remedy(&self, finding: &Finding) -> String {
        let tag = finding.reject.tag.unwrap_or(Tag(0));
        let field = self.pair.field(tag.0);
        if let Some(at) = self.malformed_at(finding) {
            return self.malformed(at);
        }
        match finding.reject.reason {
            RejectReason::InvalidMsgType => {
                format!("{} has no message of this type", self.pair.application.name())
            }
            RejectReason::RequiredTagMissing => self.missing(finding, field),
            RejectReason::InvalidTagNumber if tag.0 >= tag::USER_DEFINED => {
                "name the venue's dictionary with --dictionary, or add --off user_defined_tags"
                    .to_owned()
            }
            RejectReason::InvalidTagNumber | RejectReason::UndefinedTag => {
                format!("{} has no field with this tag", self.pair.application.name())
            }
            RejectReason::TagNotDefinedForMessage => self.unplaced(tag, finding),
            RejectReason::TagWithoutValue => {
                "give the field a value or remove the field".to_owned()
            }
            RejectReason::ValueOutOfRange => field.map(codes).unwrap_or_default(),
            RejectReason::IncorrectDataFormat => {
                field.map(|field| self.form(finding, field)).unwrap_or_default()
            }
            RejectReason::TagAppearsMoreThanOnce => {
                let first = self.message.position(tag).map_or(0, |at| at + 1);
                format!("field {first} has the same tag; remove one of the two fields")
            }
            RejectReason::TagOutOfOrder => {
                format!("the field belongs to the {}", self.section(tag))
            }
            RejectReason::GroupFieldsOutOfOrder | RejectReason::IncorrectNumInGroup => {
                self.group_fault(finding)
            }
            _ => String::new(),
        }
    }

    fn missing(&self, finding: &Finding, field: Option<&Field>) -> String {
        let mut text = "add it".to_owned();
        if let Some(field) = field {
            let _ = write!(text, ", {} {}", article(field.data_type), field.data_type);
        }
        // If the missing field belongs to a group, the first field of the entry shows which entry
        // is incomplete.
        if let Some((at, field)) = finding.at.and_then(|at| Some((at, self.message.at(at)?))) {
            let value = self.value(&field);
            let name = self.name(field.tag);
            let _ = write!(
                text,
                ", to the group entry that begins with {name}={value}, field {}",
                at + 1
            );
        }
        if let Some(says) = self.standard(finding) {
            let _ = write!(text, "; FIX: {says}");
        }
        text
    }

    /// Returns the standard's words on a missing field that is required under a condition.
    fn standard(&self, finding: &Finding) -> Option<&str> {
        let known = self.pair.message(self.message.msg_type())?;
        let value = |tag| self.message.raw(Tag(tag));
        let is_meant = |rule: &&Conditional| {
            finding.reject.tag == Some(Tag(rule.tag))
                && rule.group.is_some() == finding.at.is_some()
                // The validation has evaluated the condition; within a group, the condition is not
                // evaluated again here.
                && (rule.group.is_some() || rule.condition.holds(&value))
        };
        known.conditions.iter().find(is_meant).map(|rule| &*rule.says)
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

    /// Explains the error of a field that does not begin with a valid tag.
    fn malformed(&self, at: usize) -> String {
        let text = self.message.tag_text(at);
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok());
        if !self.message.encoded(at).contains(&b'=') {
            return "the field has no '=' after its tag".to_owned();
        }
        match number {
            Some(tag @ 1..) if text[0] == b'0' => {
                format!("the tag has leading zeros: write {tag} for {}", self.name(Tag(tag)))
            }
            _ => "a tag must be a number above 0, with at most nine digits".to_owned(),
        }
    }

    /// Explains where the field `tag` belongs, which the message may not have at its position.
    fn unplaced(&self, tag: Tag, finding: &Finding) -> String {
        let known = self.pair.message(self.message.msg_type());
        let Some(group) = known.and_then(|known| group_of(&known.members, tag.0)) else {
            return format!("{} does not have this field", self.message_name());
        };
        let is_before = |other: &Finding| {
            is_of_group(other.reject.reason) && other.at.is_some() && other.at <= finding.at
        };
        if self.findings.iter().any(is_before) {
            return "this error is a consequence of the group's error above".to_owned();
        }
        format!("the field is accepted only in an entry of the group {}", self.name(Tag(group)))
    }

    /// Explains which form the value must have. For a Length field, states the actual length of its
    /// data field.
    fn form(&self, finding: &Finding, field: &Field) -> String {
        let next = finding.at.and_then(|at| Some((self.message.at(at)?, self.message.at(at + 1)?)));
        let Pair { session, application } = self.pair;
        match next {
            Some((length, data))
                if uint(length.value).is_some()
                    && [application, session]
                        .iter()
                        .any(|known| known.length_tag(data.tag.0) == Some(field.tag)) =>
            {
                let (said, bytes) = (self.value(&length), data.value.len());
                format!("the value is {said}, but {} has {bytes} bytes", self.name(data.tag))
            }
            _ => form(field),
        }
    }

    /// Explains the structural error of the group in a finding.
    fn group_fault(&self, finding: &Finding) -> String {
        let Some(layout) = self.layout else { return String::new() };
        let groups = self.message.tags().iter().filter_map(|tag| Some((*tag, layout.group(*tag)?)));
        let mut faults =
            groups.filter_map(|(tag, group)| self.message.check_group(tag, group).err());
        let tag = finding.reject.tag;
        let is_meant = |error: &GroupError| match error.fault {
            GroupFault::Order { tag: at, .. } => Some(at) == tag,
            GroupFault::Delimiter { found, .. } => Some(error.group) == tag || found == tag,
            GroupFault::NotANumber | GroupFault::TooMany => Some(error.group) == tag,
        };
        faults.find(is_meant).map_or_else(String::new, |fault| fault.to_string())
    }
}

/// Returns a remedy with the correct BodyLength(9) or CheckSum(10), or an empty text if neither
/// value is wrong.
pub(crate) fn right(bytes: &[u8], wrong: InputError) -> String {
    let trailer = bytes.len().checked_sub(TRAILER_LEN).map(|at| bytes.split_at(at));
    let Some((covered, trailer)) = trailer.filter(|(_, trailer)| trailer.starts_with(b"10="))
    else {
        return String::new();
    };
    let (is, right) = match wrong {
        InputError::Garbled(Garbled::CheckSum) => {
            let sum = raw::check_sum(covered);
            (trailer[3..6] == sum, format!("10={}", sum.escape_ascii()))
        }
        InputError::Garbled(Garbled::BodyLength) => {
            let Some(length) = raw::body_length(bytes) else { return String::new() };
            let said = raw::first(bytes, tag::BODY_LENGTH);
            (said == Some(length.to_string().as_bytes()), format!("9={length}"))
        }
        InputError::Garbled(_) | InputError::Cut | InputError::Delimiter { .. } => {
            return String::new();
        }
    };
    // If the present value is correct, the error is elsewhere.
    if is { String::new() } else { format!("; {right} would be right") }
}

/// Length of `10=ddd` and the delimiter, in bytes.
const TRAILER_LEN: usize = 7;

const fn is_of_group(reason: RejectReason) -> bool {
    matches!(reason, RejectReason::GroupFieldsOutOfOrder | RejectReason::IncorrectNumInGroup)
}

/// Returns the NumInGroup tag of the innermost group that contains the field.
fn group_of(members: &[Member], tag: u32) -> Option<u32> {
    Flat::of(members).find_map(|member| {
        let entry = member.group?;
        let is_here = Flat::of(entry).any(|inner| inner.tag == tag);
        is_here.then_some(member.tag).or_else(|| group_of(entry, tag))
    })
}

/// Returns a value as text of at most [`VALUE_MAX`] characters.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let mut shown: String = text.chars().take(VALUE_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(VALUE_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Lists the codes of a field with their names.
fn codes(field: &Field) -> String {
    let mut text = "use ".to_owned();
    for (n, code) in field.codes.iter().take(CODES_MAX).enumerate() {
        let gap = if n == 0 { "" } else { ", " };
        let _ = write!(text, "{gap}{} ({})", code.value, code.name);
    }
    if let Some(more) = field.codes.len().checked_sub(CODES_MAX).filter(|more| *more > 0) {
        let _ = write!(text, ", or one of {more} other codes");
    }
    if field.data_type.is_multiple() {
        text.push_str("; separate several codes by one blank");
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

/// Describes the form of values that the field's type demands.
fn form(field: &Field) -> String {
    use DataType as T;
    let form = match field.data_type {
        T::Int => "a whole number such as 12 or -3",
        T::Length | T::SeqNum | T::NumInGroup | T::TagNum => {
            "a whole number of at least 0, such as 12"
        }
        T::DayOfMonth => "a day from 1 to 31",
        T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => {
            "a number such as 12.50 or -3, without exponent, plus sign or separators"
        }
        T::Char => "one printable character",
        T::Boolean => "Y or N",
        T::MultipleCharValue => "single characters separated by one blank, such as 1 G",
        T::MultipleStringValue => "words separated by one blank, such as AA B",
        T::Country => "two letters of ISO 3166, such as DE",
        T::Currency => "three letters of ISO 4217, such as EUR",
        T::Exchange => "a market identifier code such as XNYS",
        T::MonthYear => "202611, 20261121 or 202611w3",
        T::UtcTimestamp => "20261121-09:28:25, with or without fractions of a second",
        T::UtcTimeOnly | T::LocalMktTime => "09:28:25, with or without fractions of a second",
        T::UtcDateOnly | T::LocalMktDate => "a valid date such as 20261121",
        T::TzTimeOnly => "09:28, 09:28:25 or 09:28:25.5, then Z, +05:30 or -05",
        T::TzTimestamp => "20261121-09:28:25, then Z, +05:30 or -05",
        T::Language => "two letters of ISO 639-1, such as en",
        T::Tenor => "D, W, M or Y and a number, such as M3",
        T::String | T::Pattern | T::Xid | T::XidRef => "any text",
        T::Data | T::XmlData => "any bytes, as many as the preceding length field states",
    };
    format!("{} {} is {form}", article(field.data_type), field.data_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut() {
        assert_eq!(shown(b"a\x01b\xff"), "a\\u{1}b\u{fffd}");
        assert_eq!(shown("é".repeat(41).as_bytes()), format!("{}…", "é".repeat(40)));
    }
}
