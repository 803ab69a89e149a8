//! A condition on a field: a name or tag, an operator, and a value.
//!
//! Invariant: the data type of the field determines the comparison: numbers and times by value, all
//! other types byte by byte.

use std::cmp::Ordering;
use std::str::FromStr;

use transfix_codec::{
    Date, Decimal, MonthYear, Tag, TimeOfDay, Timestamp, TzTimeOnly, TzTimestamp,
};
use transfix_dictionary::{DataType, Field, nearest};

use super::quick::Quick;
use crate::input::Dictionaries;

/// The operator of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
}

/// The symbols of all operators. Longer symbols come first, because the first match counts.
const OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("~", Operator::Contains),
];

/// A condition as the user writes it, before the field is looked up.
///
/// The text is a field name or tag, an operator (`=`, `!=`, `<`, `<=`, `>`, `>=`, or `~` for
/// contains), and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionText {
    name: String,
    operator: Operator,
    value: String,
}

/// Returns an error if the text contains no operator.
impl FromStr for ConditionText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['=', '!', '<', '>', '~']);
        let found = at.and_then(|at| {
            let is_it = |(symbol, _): &&(&str, Operator)| text[at..].starts_with(symbol);
            OPERATORS.iter().find(is_it).map(|(symbol, operator)| (at, symbol.len(), *operator))
        });
        let Some((at, length, operator)) = found.filter(|(at, ..)| *at > 0) else {
            return Err(
                "write FIELD, an operator (= != < <= > >= ~) and a value, such as MsgType=D, \
                    38>=1000 or Text~limit"
                    .to_owned(),
            );
        };
        let (name, value) = (&text[..at], &text[at + length..]);
        // In `Price >= 10`, the blanks around the operator are ignored. In `Price>=10`, a blank
        // after the operator belongs to the value.
        let value =
            if name.ends_with(' ') { value.strip_prefix(' ').unwrap_or(value) } else { value };
        Ok(Self { name: name.trim().to_owned(), operator, value: value.to_owned() })
    }
}

/// The operand with which field values are compared.
#[derive(Clone, Debug)]
enum Operand {
    /// Alternative byte strings. An ordering operator uses only the first of them.
    Bytes(Vec<Vec<u8>>),
    /// Alternative words, for fields whose value is a list of words separated by blanks.
    Words(Vec<Vec<u8>>),
    Number(Decimal),
    /// A time in nanoseconds since 1970 or since midnight, with the function that parses field
    /// values.
    Moment(i64, fn(&[u8]) -> Option<i64>),
}

/// A condition whose field is known.
#[derive(Clone, Debug)]
pub struct Condition {
    pub(super) tag: Tag,
    operator: Operator,
    operand: Operand,
    /// True if values of the field may contain SOH.
    is_data: bool,
    pub(super) quick: Quick,
}

impl Condition {
    /// Resolves the field and the value of a written condition.
    ///
    /// # Errors
    /// If no dictionary defines the field, or the value does not match its data type.
    pub fn of(written: &ConditionText, dictionaries: &mut Dictionaries) -> Result<Self, String> {
        let ConditionText { name, operator, value } = written;
        let tag = match name.parse::<u32>() {
            Ok(tag) if tag > 0 => tag,
            _ => tag_of(name, dictionaries)?,
        };
        let field = dictionaries.field(tag);
        let data_type = field.as_ref().map(|field| field.data_type);
        let codes = codes(field.as_ref(), tag, value, dictionaries);
        let Some(operand) = operand(data_type, *operator, value, codes) else {
            return Err(wrong_value(name, data_type, value));
        };
        let is_data = data_type.is_some_and(DataType::is_data);
        Ok(Self { tag: Tag(tag), operator: *operator, operand, is_data, quick: Quick::field(tag) })
    }

    /// Creates a condition that compares the number field `tag`, such as MsgSeqNum(34), with
    /// `number`.
    pub(super) fn bound(tag: Tag, operator: Operator, number: u64) -> Self {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let operand = Operand::Number(Decimal::new(number, 0));
        Self { tag, operator, operand, is_data: false, quick: Quick::field(tag.0) }
    }

    /// Returns true if a value meets the condition.
    pub(super) fn holds(&self, value: &[u8]) -> bool {
        match (&self.operand, self.operator) {
            (Operand::Bytes(sought) | Operand::Words(sought), Operator::Contains) => {
                sought.iter().any(|sought| memchr::memmem::find(value, sought).is_some())
            }
            (Operand::Bytes(sought), Operator::Equal) => sought.iter().any(|one| one == value),
            (Operand::Bytes(sought), Operator::NotEqual) => sought.iter().all(|one| one != value),
            (Operand::Words(sought), Operator::Equal) => has_word(value, sought),
            (Operand::Words(sought), Operator::NotEqual) => !has_word(value, sought),
            (Operand::Bytes(sought) | Operand::Words(sought), operator) => {
                sought.first().is_some_and(|sought| operator.takes(value.cmp(sought)))
            }
            (Operand::Number(number), operator) => match Decimal::parse(value) {
                Some(value) => operator.takes(order(value, *number)),
                None => operator == Operator::NotEqual,
            },
            (Operand::Moment(moment, read), operator) => match read(value) {
                Some(value) => operator.takes(value.cmp(moment)),
                None => operator == Operator::NotEqual,
            },
        }
    }

    /// Searches the raw bytes quickly. Returns false only if a message with `by` in place of SOH
    /// cannot meet the condition.
    pub(super) fn may_hold(&self, bytes: &[u8], by: u8) -> bool {
        let mut values = self.quick.values(bytes, by);
        // The value of a data field may contain SOH, and the quick search may see only its
        // beginning. Therefore the presence of the field suffices.
        if self.is_data { values.next().is_some() } else { values.any(|value| self.holds(value)) }
    }
}

impl Operator {
    fn takes(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Contains => false,
        }
    }
}

/// Returns the tag of a field name. The error for an unknown name suggests the most similar name.
pub(super) fn tag_of(name: &str, dictionaries: &mut Dictionaries) -> Result<u32, String> {
    if let Some(tag) = dictionaries.tag_named(name) {
        return Ok(tag);
    }
    let names = dictionaries.field_names();
    let same = names.iter().find(|known| known.eq_ignore_ascii_case(name));
    if let Some(tag) = same.and_then(|same| dictionaries.tag_named(same)) {
        return Ok(tag);
    }
    let near = nearest(name, names.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    Err(format!("no dictionary has a field '{name}'{near}"))
}

/// Returns the values of the codes with the name `value`. If `value` itself is a code, returns only
/// that code.
fn codes(
    field: Option<&Field>,
    tag: u32,
    value: &str,
    dictionaries: &mut Dictionaries,
) -> Vec<Vec<u8>> {
    let Some(field) = field.filter(|field| !field.codes.is_empty()) else { return Vec::new() };
    let is_code = field.codes.iter().any(|code| code.value == value);
    if is_code { Vec::new() } else { dictionaries.codes_named(tag, value) }
}

/// Returns the operand of a comparison, or `None` if the value does not fit the data type of the
/// field.
fn operand(
    data_type: Option<DataType>,
    operator: Operator,
    value: &str,
    codes: Vec<Vec<u8>>,
) -> Option<Operand> {
    use DataType as T;
    let bytes = value.as_bytes();
    if operator == Operator::Contains {
        return Some(Operand::Bytes(vec![bytes.to_vec()]));
    }
    if !codes.is_empty() {
        let is_words = data_type.is_some_and(DataType::is_multiple);
        return Some(if is_words { Operand::Words(codes) } else { Operand::Bytes(codes) });
    }
    let moment = |read: fn(&[u8]) -> Option<i64>| Some(Operand::Moment(read(bytes)?, read));
    match data_type {
        Some(
            T::Int
            | T::Length
            | T::TagNum
            | T::SeqNum
            | T::NumInGroup
            | T::DayOfMonth
            | T::Float
            | T::Qty
            | T::Price
            | T::PriceOffset
            | T::Amt
            | T::Percentage,
        ) => Decimal::parse(bytes).map(Operand::Number),
        Some(T::UtcTimestamp) => moment(timestamp),
        Some(T::TzTimestamp) => moment(tz_timestamp),
        Some(T::UtcTimeOnly | T::LocalMktTime) => moment(time_of_day),
        Some(T::TzTimeOnly) => moment(tz_time),
        Some(T::UtcDateOnly | T::LocalMktDate) => {
            Date::parse(bytes).map(|_| Operand::Bytes(vec![bytes.to_vec()]))
        }
        Some(T::MonthYear) => MonthYear::parse(bytes).map(|_| Operand::Bytes(vec![bytes.to_vec()])),
        Some(T::MultipleCharValue | T::MultipleStringValue) => {
            Some(Operand::Words(vec![bytes.to_vec()]))
        }
        Some(_) => Some(Operand::Bytes(vec![bytes.to_vec()])),
        // The data type of a custom field is unknown. If the operand is a number, the values are
        // compared as numbers.
        None => Some(
            Decimal::parse(bytes).map_or(Operand::Bytes(vec![bytes.to_vec()]), Operand::Number),
        ),
    }
}

fn wrong_value(name: &str, data_type: Option<DataType>, value: &str) -> String {
    use DataType as T;
    let data_type = data_type.unwrap_or(T::String);
    let such_as = match data_type {
        T::UtcTimestamp => "20261121-09:28:25",
        T::TzTimestamp => "20261121-09:28:25Z",
        T::UtcTimeOnly | T::LocalMktTime => "09:28:25",
        T::TzTimeOnly => "09:28Z",
        T::UtcDateOnly | T::LocalMktDate => "20261121",
        T::MonthYear => "202611",
        _ => "100",
    };
    let of_type = data_type.name();
    format!(
        "'{value}' is not a valid value of {name}, which is a {of_type}; write one such as \
         {such_as}"
    )
}

/// Compares two numbers by value. The calculation fits into 128 bits: 64 bits of digits and up to
/// 18 decimal places.
fn order(a: Decimal, b: Decimal) -> Ordering {
    let scaled = |n: Decimal| n.mantissa() * 10_i128.pow(18 - u32::from(n.scale()));
    scaled(a).cmp(&scaled(b))
}

fn has_word(value: &[u8], sought: &[Vec<u8>]) -> bool {
    sought.iter().any(|one| one == value || value.split(|b| *b == b' ').any(|word| word == one))
}

/// Parses a UTCTimestamp, or a date as the midnight at its beginning. Returns nanoseconds since
/// 1970.
fn timestamp(value: &[u8]) -> Option<i64> {
    let day = || Timestamp::from_parts(Date::parse(value)?, TimeOfDay::default());
    Timestamp::parse(value).or_else(day).map(|time| time.0)
}

fn tz_timestamp(value: &[u8]) -> Option<i64> {
    TzTimestamp::parse(value).and_then(TzTimestamp::utc).map(|time| time.0)
}

fn time_of_day(value: &[u8]) -> Option<i64> {
    TimeOfDay::parse(value).map(TimeOfDay::since_midnight_ns)
}

fn tz_time(value: &[u8]) -> Option<i64> {
    let time = TzTimeOnly::parse(value)?;
    let offset = time.offset().map_or(0, |offset| i64::from(offset.minutes()));
    Some(time.time().since_midnight_ns() - offset * 60_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Result<Condition, String> {
        let mut dictionaries = Dictionaries::default();
        Condition::of(&text.parse()?, &mut dictionaries)
    }

    fn check(text: &str, met: &[&str], unmet: &[&str]) {
        let condition = condition(text).unwrap();
        for value in met {
            assert!(condition.holds(value.as_bytes()), "{text}: {value}");
        }
        for value in unmet {
            assert!(!condition.holds(value.as_bytes()), "{text}: {value}");
        }
    }

    #[test]
    fn values_are_compared_as_their_type_says() {
        check("MsgType=D", &["D"], &["8", "d", "DD"]);
        check("35!=D", &["8"], &["D"]);
        check("Price=10.5", &["10.5", "10.50", "010.5"], &["10.51", "x", ""]);
        check("Price >= 9", &["9", "10", "9.000"], &["8.999", "-10"]);
        check("44<9", &["8.5", "-1"], &["9", "10"]);
        check("OrderQty>1000", &["1000.01", "2000"], &["1000", "999"]);
        check("OrderQty<=1000", &["1000", "5"], &["1001"]);
        check("MsgSeqNum>9", &["10"], &["9"]);
        check("Side=BUY", &["1"], &["2", "BUY"]);
        check("Side=1", &["1"], &["2"]);
        check("Side!=buy", &["2"], &["1"]);
        check("ExecInst=6", &["6", "1 6", "6 G"], &["1", "66"]);
        check("Text~limit", &["the limit is", "limit"], &["Limit", "lim it"]);
        check("Text~", &["", "x"], &[]);
        check("Text=a=b", &["a=b"], &["a"]);
        check("Symbol>M", &["MSFT", "Z"], &["M", "AAPL"]);
        check("5001=7", &["7", "7.0"], &["8", "x"]);
        check("5001=x", &["x"], &["7"]);
        check("5001!=7", &["8", "x"], &["7", "07"]);
    }

    #[test]
    fn times_are_compared_as_times() {
        check(
            "SendingTime>=20261121-09:28:25",
            &["20261121-09:28:25", "20261121-09:28:25.000", "20261122-00:00:00"],
            &["20261121-09:28:24.999", "nonsense"],
        );
        check(
            "TransactTime=20261121-09:28:25.5",
            &["20261121-09:28:25.500"],
            &["20261121-09:28:25"],
        );
        check(
            "52>20261121",
            &["20261121-00:00:00.001"],
            &["20261121-00:00:00", "20261120-23:59:59"],
        );
        check("TradeDate<20261121", &["20261120"], &["20261121"]);
        check("MaturityMonthYear>=202611", &["202611", "202612"], &["202610"]);
        check("MDEntryTime<09:00:00", &["08:59:59.999"], &["09:00:00.000"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, expected) in [
            ("MsgTyp=D", "no dictionary has a field 'MsgTyp'; did you mean 'MsgType'?"),
            (
                "Price=cheap",
                "'cheap' is not a valid value of Price, which is a Price; write one \
                such as 100",
            ),
            (
                "52>now",
                "'now' is not a valid value of 52, which is a UTCTimestamp; write one such \
                as 20261121-09:28:25",
            ),
            ("0=1", "no dictionary has a field '0'"),
        ] {
            let error = condition(text).err().unwrap();
            assert!(error.starts_with(expected), "{error}");
        }
        for text in ["", "Price", "=5", "Price!5"] {
            assert!(text.parse::<ConditionText>().unwrap_err().contains("38>=1000"), "{text}");
        }
        assert!(condition("msgtype=D").is_ok());
    }
}
