//! Values of every type: a getter returns the value that a setter has written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transfix_codec::{
    Body, Date, Decimal, MonthYear, Precision, Tag, Tenor, TimeOfDay, Timestamp, TimestampReader,
    TzTimeOnly, TzTimestamp, raw, value,
};

const FIELD: Tag = Tag(9_999);

/// Returns the bytes that a setter writes; `None` if the setter refuses the value.
fn written(write: impl FnOnce(&mut Body<'_>)) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    Body::detached(&mut out, Precision::Nanos, |body| write(body)).ok()?;
    raw::first(&out, FIELD).map(<[u8]>::to_vec)
}

fn again<T: Copy + PartialEq + core::fmt::Debug>(
    text: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
    write: impl Fn(&mut Body<'_>, T),
) {
    if let Some(value) = read(text) {
        let text = written(|body| write(body, value));
        assert_eq!(text.and_then(|text| read(&text)), Some(value));
    }
}

fuzz_target!(|bytes: &[u8]| {
    again(bytes, value::int, |body, v| _ = body.int(FIELD, v));
    again(bytes, value::uint, |body, v| _ = body.uint(FIELD, v));
    again(bytes, value::char, |body, v| _ = body.char(FIELD, v));
    again(bytes, value::boolean, |body, v| _ = body.boolean(FIELD, v));
    again(bytes, Decimal::parse, |body, v| _ = body.decimal(FIELD, v));
    again(bytes, Tenor::parse, |body, v| _ = body.tenor(FIELD, v));
    again(bytes, Date::parse, |body, v| _ = body.date(FIELD, v));
    again(bytes, MonthYear::parse, |body, v| _ = body.month_year(FIELD, v));
    again(bytes, TimeOfDay::parse, |body, v| _ = body.time_of_day(FIELD, v));
    again(bytes, Timestamp::parse, |body, v| _ = body.timestamp(FIELD, v));
    again(bytes, TzTimeOnly::parse, |body, v| _ = body.tz_time_only(FIELD, v));
    again(bytes, TzTimestamp::parse, |body, v| _ = body.tz_timestamp(FIELD, v));
    if let Some(chars) = value::chars(bytes) {
        let chars: Vec<u8> = chars.collect();
        assert_eq!(written(|body| _ = body.chars(FIELD, &chars)).as_deref(), Some(bytes));
    }
    let has_delimiter = bytes.contains(&1);
    if let Some(words) = value::words(bytes).filter(|_| !has_delimiter) {
        assert_eq!(written(|body| _ = body.words(FIELD, words)).as_deref(), Some(bytes));
    }
    let _ = [value::country(bytes), value::currency(bytes), value::exchange(bytes)];
    let _ = (value::language(bytes), value::day_of_month(bytes));
    let mut reader = TimestampReader::default();
    for _ in 0..2 {
        assert_eq!(reader.parse(bytes), Timestamp::parse(bytes));
    }
    if let Some(time) = Timestamp::parse(bytes) {
        assert_eq!(Timestamp::from_parts(time.date(), time.time_of_day()), Some(time));
    }
    if let Some(number) = bytes.first_chunk::<8>().map(|b| f64::from_le_bytes(*b))
        && let Ok(decimal) = Decimal::try_from(number)
    {
        assert_eq!(decimal.to_string().parse::<f64>(), Ok(number));
    }
});
