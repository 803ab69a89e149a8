//! The data types of FIX fields.
//!
//! Invariant: `DataType::parse(t.name())` is `t` for each type in [`DataType::ALL`].

use core::fmt;

/// The data type of a field, named as in the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataType {
    /// int: digits with an optional leading minus sign.
    Int,
    /// Length: a length in bytes, usually of the data field that follows directly.
    Length,
    /// TagNum: the tag of a field.
    TagNum,
    /// SeqNum: a message sequence number.
    SeqNum,
    /// NumInGroup: the number of entries of a repeating group.
    NumInGroup,
    /// DayOfMonth: 1 to 31.
    DayOfMonth,
    /// float: digits with an optional minus sign and decimal point.
    Float,
    /// Qty: a quantity, encoded as a float.
    Qty,
    /// Price: a price, encoded as a float; may be negative.
    Price,
    /// PriceOffset: a difference of prices, encoded as a float.
    PriceOffset,
    /// Amt: an amount, typically price times quantity, encoded as a float.
    Amt,
    /// Percentage: a fraction, encoded as a float; 0.05 means 5 %.
    Percentage,
    /// char: one printable character.
    Char,
    /// Boolean: `Y` or `N`.
    Boolean,
    /// String: any characters except the delimiter.
    String,
    /// MultipleCharValue: single characters separated by blanks.
    MultipleCharValue,
    /// MultipleStringValue (MultipleValueString up to 4.4): strings separated by blanks.
    MultipleStringValue,
    /// Country: ISO 3166, two letters.
    Country,
    /// Currency: ISO 4217, three letters.
    Currency,
    /// Exchange: ISO 10383, a market identifier code.
    Exchange,
    /// MonthYear: YYYYMM, YYYYMMDD or YYYYMMWW.
    MonthYear,
    /// UTCTimestamp: YYYYMMDD-HH:MM:SS with an optional fraction.
    UtcTimestamp,
    /// UTCTimeOnly: HH:MM:SS with an optional fraction.
    UtcTimeOnly,
    /// UTCDateOnly: YYYYMMDD.
    UtcDateOnly,
    /// LocalMktDate: YYYYMMDD in the time zone of the market.
    LocalMktDate,
    /// LocalMktTime: HH:MM:SS in the time zone of the market.
    LocalMktTime,
    /// TZTimeOnly: a time of day with its offset from UTC.
    TzTimeOnly,
    /// TZTimestamp: a date and time with its offset from UTC.
    TzTimestamp,
    /// data: any bytes; the preceding field contains the length.
    Data,
    /// XMLData: an XML document; the preceding field contains the length.
    XmlData,
    /// Language: ISO 639-1, two letters.
    Language,
    /// Pattern: a value whose format a pattern defines, not a data type.
    Pattern,
    /// Tenor: a letter and a number, such as `D5` or `M3`.
    Tenor,
    /// XID: an identifier that other fields refer to.
    Xid,
    /// XIDREF: a reference to the identifier in a field of type XID.
    XidRef,
}

use DataType as T;

const NAMES: &[(DataType, &str)] = &[
    (T::Int, "int"),
    (T::Length, "Length"),
    (T::TagNum, "TagNum"),
    (T::SeqNum, "SeqNum"),
    (T::NumInGroup, "NumInGroup"),
    (T::DayOfMonth, "DayOfMonth"),
    (T::Float, "float"),
    (T::Qty, "Qty"),
    (T::Price, "Price"),
    (T::PriceOffset, "PriceOffset"),
    (T::Amt, "Amt"),
    (T::Percentage, "Percentage"),
    (T::Char, "char"),
    (T::Boolean, "Boolean"),
    (T::String, "String"),
    (T::MultipleCharValue, "MultipleCharValue"),
    (T::MultipleStringValue, "MultipleStringValue"),
    (T::Country, "Country"),
    (T::Currency, "Currency"),
    (T::Exchange, "Exchange"),
    (T::MonthYear, "MonthYear"),
    (T::UtcTimestamp, "UTCTimestamp"),
    (T::UtcTimeOnly, "UTCTimeOnly"),
    (T::UtcDateOnly, "UTCDateOnly"),
    (T::LocalMktDate, "LocalMktDate"),
    (T::LocalMktTime, "LocalMktTime"),
    (T::TzTimeOnly, "TZTimeOnly"),
    (T::TzTimestamp, "TZTimestamp"),
    (T::Data, "data"),
    (T::XmlData, "XMLData"),
    (T::Language, "Language"),
    (T::Pattern, "Pattern"),
    (T::Tenor, "Tenor"),
    (T::Xid, "XID"),
    (T::XidRef, "XIDREF"),
];

/// Names that older FIX versions and other dictionaries use for the same types.
const OTHER_NAMES: &[(DataType, &str)] = &[
    (T::MultipleStringValue, "MultipleValueString"),
    (T::UtcDateOnly, "UTCDate"),
    (T::UtcDateOnly, "Date"),
    (T::UtcTimestamp, "Time"),
    (T::Qty, "Quantity"),
    (T::DayOfMonth, "Day-Of-Month"),
    (T::MonthYear, "Month-Year"),
    (T::Int, "Integer"),
    (T::Int, "Reserved100Plus"),
    (T::Int, "Reserved1000Plus"),
    (T::Int, "Reserved4000Plus"),
];

impl DataType {
    /// All types, in the order of the standard.
    pub const ALL: [Self; NAMES.len()] = {
        let mut all = [Self::Int; NAMES.len()];
        let mut i = 0;
        while i < NAMES.len() {
            all[i] = NAMES[i].0;
            i += 1;
        }
        all
    };

    /// Returns the type with this name, ignoring case; accepts names of older versions.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut known = NAMES.iter().chain(OTHER_NAMES);
        known.find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(found, _)| *found)
    }

    /// Returns the name of the type as the standard writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Returns true if values may contain any byte, so that a Length field determines their end.
    #[must_use]
    pub fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::XmlData)
    }

    /// Returns true if a value is a list of codes separated by blanks.
    #[must_use]
    pub fn is_multiple(self) -> bool {
        matches!(self, Self::MultipleCharValue | Self::MultipleStringValue)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the type names among which an error message looks for the most similar name.
#[cfg(feature = "xml")]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().chain(OTHER_NAMES).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_read_from_its_name() {
        for (i, data_type) in DataType::ALL.into_iter().enumerate() {
            assert_eq!(data_type as usize, i, "{data_type} stands at its own place in NAMES");
            assert_eq!(DataType::parse(data_type.name()), Some(data_type));
            assert_eq!(DataType::parse(&data_type.name().to_uppercase()), Some(data_type));
        }
    }

    #[test]
    fn old_names_and_unknown_ones() {
        let cases = [
            ("MULTIPLEVALUESTRING", Some(DataType::MultipleStringValue)),
            ("UTCDATE", Some(DataType::UtcDateOnly)),
            ("TIME", Some(DataType::UtcTimestamp)),
            ("", None),
            ("Prise", None),
        ];
        for (name, expected) in cases {
            assert_eq!(DataType::parse(name), expected, "{name}");
        }
    }
}
