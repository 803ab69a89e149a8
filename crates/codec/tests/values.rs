//! Values of every type: writing a value and parsing the result gives the value again, and simple
//! parsers give the same results.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use transfix_codec::{
    Body, CheckSumPolicy, Date, Decimal, FieldIndex, Fields, FrameWriter, Message, Misuse,
    MonthYear, Offset, Precision, Reject, RejectReason, Tag, Tenor, TimeOfDay, Timestamp,
    TimestampReader, TzTimeOnly, TzTimestamp,
};

const FIELD: Tag = Tag(9_999);

/// Encodes a message with the fields that `write` adds, and passes the parsed message to `read`.
fn message(
    precision: Precision,
    write: impl FnOnce(&mut Body<'_>),
    read: impl FnOnce(&Message<'_>),
) -> Result<(), Misuse> {
    let mut bytes = Vec::new();
    let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", b"D");
    write(frame.body(precision));
    frame.finish()?;
    let mut index = FieldIndex::default();
    read(&Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap());
    Ok(())
}

/// Returns the encoded value of the field that `write` adds.
fn written(precision: Precision, write: impl FnOnce(&mut Body<'_>)) -> String {
    let mut text = String::new();
    message(precision, write, |message| text.push_str(message.text(FIELD).unwrap())).unwrap();
    text
}

#[test]
fn setters() {
    use Precision::{Micros, Millis, Nanos, Seconds};
    let time = TimeOfDay::new(9, 28, 25, 623_118_789).unwrap();
    let zoned = TzTimeOnly::new(time, Offset::new(-330));
    let local = TzTimestamp::new(Date::new(2026, 11, 21).unwrap(), zoned);
    type Write<'w> = &'w dyn Fn(&mut Body<'_>);
    let table: [(Precision, Write<'_>, &str); 14] = [
        (Seconds, &|body| _ = body.time_of_day(FIELD, time), "09:28:25"),
        (Millis, &|body| _ = body.time_of_day(FIELD, time), "09:28:25.623"),
        (Micros, &|body| _ = body.time_of_day(FIELD, time), "09:28:25.623118"),
        (Nanos, &|body| _ = body.time_of_day(FIELD, time), "09:28:25.623118789"),
        (Millis, &|body| _ = body.tz_time_only(FIELD, zoned), "09:28:25.623-05:30"),
        (Seconds, &|body| _ = body.tz_timestamp(FIELD, local), "20261121-09:28:25-05:30"),
        (Nanos, &|body| _ = body.tz_timestamp(FIELD, local), "20261121-09:28:25.623118789-05:30"),
        (Millis, &|body| _ = body.date(FIELD, local.date()), "20261121"),
        (
            Millis,
            &|body| _ = body.month_year(FIELD, MonthYear::parse(b"202611w2").unwrap()),
            "202611w2",
        ),
        (Millis, &|body| _ = body.tenor(FIELD, Tenor::parse(b"M3").unwrap()), "M3"),
        (
            Millis,
            &|body| _ = body.tenor(FIELD, Tenor::parse(b"D4294967295").unwrap()),
            "D4294967295",
        ),
        (Millis, &|body| _ = body.chars(FIELD, b"1G6"), "1 G 6"),
        (Millis, &|body| _ = body.words(FIELD, [&b"AA"[..], b"B"]), "AA B"),
        (Millis, &|body| _ = body.chars(FIELD, b"1"), "1"),
    ];
    for (precision, write, expected) in table {
        assert_eq!(written(precision, write), expected);
    }
}

#[test]
fn lists_that_cannot_be_said_are_misuse() {
    let cases: [&[&[u8]]; 8] = [
        &[],
        &[b""],
        &[b"A", b""],
        &[b"", b"A"],
        &[b"A", b"B C"],
        &[b"A", b"B\x01"],
        &[b"A B"],
        &[b"A B", b"C"],
    ];
    for words in cases {
        let sent =
            message(Precision::Millis, |body| _ = body.words(FIELD, words.iter().copied()), |_| ());
        assert!(sent.is_err(), "{words:?}");
    }
}

#[test]
fn getters_blame_as_the_standard_says() {
    fn blame<T>(read: Result<T, Reject>) -> Option<RejectReason> {
        read.err().map(|reject| reject.reason)
    }
    let reasons = |fields: &Fields<'_>, tag: Tag| {
        [
            blame(fields.int(tag)),
            blame(fields.uint(tag)),
            blame(fields.day_of_month(tag)),
            blame(fields.decimal(tag)),
            blame(fields.char(tag)),
            blame(fields.boolean(tag)),
            blame(fields.chars(tag)),
            blame(fields.words(tag)),
            blame(fields.country(tag)),
            blame(fields.currency(tag)),
            blame(fields.language(tag)),
            blame(fields.exchange(tag)),
            blame(fields.tenor(tag)),
            blame(fields.month_year(tag)),
            blame(fields.date(tag)),
            blame(fields.time_of_day(tag)),
            blame(fields.timestamp(tag)),
            blame(fields.tz_time_only(tag)),
            blame(fields.tz_timestamp(tag)),
        ]
    };
    let write = |body: &mut Body<'_>| _ = body.str(FIELD, "\x02  ,");
    let judged = message(Precision::Millis, write, |message| {
        assert_eq!(reasons(message, FIELD), [Some(RejectReason::IncorrectDataFormat); 19]);
        assert_eq!(reasons(message, Tag(1)), [Some(RejectReason::RequiredTagMissing); 19]);
        assert!(matches!(message.optional(Tag(1), |fields, tag| fields.date(tag)), Ok(None)));
        assert!(message.optional(FIELD, |fields, tag| fields.date(tag)).is_err());
        assert_eq!(message.nth(FIELD, 0), Some(&b"\x02  ,"[..]));
        assert_eq!(message.nth(FIELD, 1), None);
    });
    assert_eq!(judged, Ok(()));
}

/// Parses a decimal in the simplest way, byte by byte.
fn plain_decimal(text: &[u8]) -> Option<Decimal> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        rest => (1, rest),
    };
    let (mut magnitude, mut point, mut count) = (0_u64, None, 0_usize);
    for &b in digits {
        match b {
            b'0'..=b'9' => {
                magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
                count += 1;
            }
            b'.' if point.is_none() => point = Some(count),
            _ => return None,
        }
    }
    let scale = point.map_or(0, |point| count - point);
    let decimal = Decimal::try_new(sign * i128::from(magnitude), u8::try_from(scale).ok()?);
    decimal.ok().filter(|_| count > 0)
}

/// Parses a UTCTimestamp in the simplest way, part by part along the standard's grammar.
fn plain_timestamp(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let parts: Vec<&str> = time.split(':').collect();
    let is_two = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    let [hour, minute, second] = parts[..] else { return None };
    if !parts.iter().all(is_two) || date.len() != 8 {
        return None;
    }
    let [hour, minute, second]: [i64; 3] = [hour, minute, second].map(|part| part.parse().unwrap());
    let leap = (hour, minute, second) == (23, 59, 60);
    let digits = fraction.bytes().all(|b| b.is_ascii_digit()) && !fraction.is_empty();
    // The finest precision is one picosecond, 12 digits.
    if hour > 23 || minute > 59 || second > 59 && !leap || !digits || fraction.len() > 12 {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}")[..9].parse().ok()?;
    let days = i64::from(Date::parse(date.as_bytes())?.days());
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Timestamp)
}

/// Generates nearly valid texts from the characters of numbers and times.
fn nearly() -> impl Strategy<Value = String> {
    prop_oneof!["[-0-9.]{0,24}", "-?[0-9]{0,12}\\.?[0-9]{0,12}", "[-+0-9.:wWZ]{0,28}"]
}

fn nearly_timestamp() -> impl Strategy<Value = String> {
    prop_oneof![
        "(19|20|00|99)[0-9]{2}(0[1-9]|1[0-2])[0-3][0-9]-[0-2][0-9]:[0-5][0-9]:[0-6][0-9]",
        "20(26|30)(0[1-9]|1[0-2])[0-2][0-9]-[01][0-9]:[0-5][0-9]:[0-5][0-9]\\.[0-9]{0,13}",
        "20261121-23:59:(59|60|6:|5/)(\\.[0-9:]{1,4})?",
        "2026(06|12)(30|31)-23[:;]59[:0]60",
    ]
}

proptest! {
    #[test]
    fn decimals_read_as_the_plain_way(text in nearly(), bytes in any::<[u8; 17]>()) {
        prop_assert_eq!(Decimal::parse(text.as_bytes()), plain_decimal(text.as_bytes()));
        for n in 0..bytes.len() {
            prop_assert_eq!(Decimal::parse(&bytes[..n]), plain_decimal(&bytes[..n]));
        }
    }

    #[test]
    fn timestamps_read_as_the_plain_way(text in nearly_timestamp()) {
        prop_assert_eq!(Timestamp::parse(text.as_bytes()), plain_timestamp(&text), "{}", text);
    }

    #[test]
    fn timestamps_one_after_another_read_as_each_alone(
        texts in proptest::collection::vec((nearly_timestamp(), "(\\.[0-9:]{0,13})?"), 1..6),
    ) {
        let mut reader = TimestampReader::default();
        for (text, fraction) in texts {
            // Two of the three times share a second, and the third adds a fraction to it.
            let second = text.get(..17).unwrap_or(&text);
            for text in [&text, second, &format!("{second}{fraction}")] {
                let alone = Timestamp::parse(text.as_bytes());
                prop_assert_eq!(reader.parse(text.as_bytes()), alone, "{}", text);
            }
        }
    }

    #[test]
    fn a_timestamp_has_a_day_and_a_time(nanos in any::<i64>()) {
        let time = Timestamp(nanos);
        prop_assert_eq!(Timestamp::from_parts(time.date(), time.time_of_day()), Some(time));
        prop_assert_eq!(Timestamp::parse(time.to_string().as_bytes()), Some(time));
    }

    #[test]
    fn times_with_an_offset_round_trip(
        day in 0_u8..=28, seconds in 0_u32..86_400, nanos in 0_u32..1_000_000_000,
        minutes in -899_i16..=899,
    ) {
        let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
        let time = TimeOfDay::new(hour as u8, minute as u8, second as u8, nanos).unwrap();
        let zoned = TzTimeOnly::new(time, Offset::new(minutes));
        let local = TzTimestamp::new(Date::new(2026, 2, day.max(1)).unwrap(), zoned);
        let text = written(Precision::Nanos, |body| _ = body.tz_timestamp(FIELD, local));
        prop_assert_eq!(TzTimestamp::parse(text.as_bytes()), Some(local));
        prop_assert_eq!(TzTimestamp::parse(local.to_string().as_bytes()), Some(local));
        let utc = local.utc().unwrap().0;
        let expected = Timestamp::from_parts(local.date(), time).unwrap().0;
        prop_assert_eq!(utc, expected - i64::from(minutes) * 60_000_000_000);
    }
}
