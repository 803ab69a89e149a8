//! Compares the encoder with a simple encoder that works digit by digit and day by day.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use proptest::prelude::*;
use transfix_codec::encode::Header;
use transfix_codec::{
    Body, Decimal, FrameWriter, Misuse, Precision, Prepared, PreparedLayout, Tag, Template,
    Timestamp, tag,
};

fn written(precision: Precision, fill: impl FnOnce(&mut Body<'_>)) -> String {
    let mut out = b"before".to_vec();
    Body::detached(&mut out, precision, fill).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.strip_prefix("before").unwrap().to_owned()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns year, month and day by counting the days from 1970, forward or backward.
fn plain_date(mut day: i64) -> (i64, usize, i64) {
    let mut year = 1970;
    let length = |year| if is_leap(year) { 366 } else { 365 };
    while day < 0 {
        year -= 1;
        day += length(year);
    }
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    (year, month + 1, day + 1)
}

fn plain_time(nanos: i64, precision: Precision) -> String {
    let (seconds, nanos) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    let (year, month, day) = plain_date(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = match precision {
        Precision::Seconds => String::new(),
        Precision::Millis => format!(".{:03}", nanos / 1_000_000),
        Precision::Micros => format!(".{:06}", nanos / 1_000),
        Precision::Nanos => format!(".{nanos:09}"),
    };
    format!("{year:04}{month:02}{day:02}-{hour:02}:{minute:02}:{second:02}{fraction}")
}

fn plain_decimal(value: Decimal) -> String {
    let digits = value.mantissa().unsigned_abs().to_string();
    let scale = usize::from(value.scale());
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    let sign = if value.mantissa() < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{part}")
}

const PRECISIONS: [Precision; 4] =
    [Precision::Seconds, Precision::Millis, Precision::Micros, Precision::Nanos];

fn precision() -> impl Strategy<Value = Precision> {
    prop::sample::select(&PRECISIONS[..])
}

fn tags() -> impl Strategy<Value = Tag> {
    let tags = prop_oneof![1_u32..100, 1_u32..5_000, any::<u32>().prop_map(|tag| tag.max(1))];
    tags.prop_map(Tag).prop_filter("the session's own", |tag| !tag::is_session_owned(*tag))
}

/// Generates numbers of all lengths.
fn numbers() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(number, bits)| number >> bits)
}

proptest! {
    #[test]
    fn numbers_are_written(tag in tags(), value in numbers(), negative in any::<bool>(),
        scale in 0_u8..=18, digits_min in 1_usize..=8)
    {
        let sign = if negative { -1 } else { 1 };
        let int = (value >> 1) as i64 * sign;
        let decimal = Decimal::try_new(i128::from(value) * i128::from(sign), scale).unwrap();
        let text = written(Precision::Millis, |body| {
            body.uint(tag, value).int(tag, int).decimal(tag, decimal);
            body.padded(tag, value, digits_min);
        });
        let expected = format!(
            "{tag}={value}\x01{tag}={int}\x01{tag}={}\x01{tag}={value:0digits_min$}\x01",
            plain_decimal(decimal)
        );
        prop_assert_eq!(text, expected);
    }

    #[test]
    fn texts_are_written(tag in tags(), text in "[ -~]{1,40}", byte in 2_u8..=126) {
        let expected = format!("{tag}={text}\x01{tag}={}\x01{tag}=Y\x01", byte as char);
        let text = written(Precision::Millis, |body| {
            body.str(tag, &text).char(tag, byte).boolean(tag, true);
        });
        prop_assert_eq!(text, expected);
    }

    #[test]
    fn a_delimiter_is_found_anywhere(
        mut text in prop::collection::vec(2_u8.., 1..40), at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(text.len());
        text[at] = 1;
        let mut out = b"before".to_vec();
        let misuse = Body::detached(&mut out, Precision::Millis, |b| _ = b.bytes(tag::TEXT, &text));
        prop_assert_eq!(misuse, Err(Misuse::DelimiterInValue(tag::TEXT)));
        prop_assert_eq!(out, b"before");
    }

    #[test]
    fn moments_are_written(
        first in any::<i64>(), steps in prop::collection::vec(-90_000_000_000_i64.., 1..6),
        precision in precision(),
    ) {
        // Some of the times are in the same minute as the previous time.
        let mut moments = vec![first];
        for step in steps {
            let last = moments[moments.len() - 1];
            moments.push(last.wrapping_add(step % 90_000_000_000));
        }
        let text = written(precision, |body| {
            for moment in &moments {
                body.timestamp(tag::TRANSACT_TIME, Timestamp(*moment));
            }
        });
        let expected: String =
            moments.iter().map(|m| format!("60={}\x01", plain_time(*m, precision))).collect();
        prop_assert_eq!(text, expected);
    }

    #[test]
    fn a_prepared_message_is_as_the_plain_one(
        seq in numbers(), at in any::<i64>(), id in "[!-~]{1,40}", quantity in numbers(),
        constant in "[a-z]{1,80}", seq_digits in 1_usize..=8, precision in precision(),
    ) {
        let constant = format!("58={constant}\x01");
        let mut header = Header::new(b"FIX.4.4", b"49=A\x0156=B\x01").seq_digits_min(seq_digits);
        let template = Template::new("D", |t| {
            t.slot(tag::CL_ORD_ID).fields(constant.as_bytes());
            t.slot(tag::TRANSACT_TIME).slot(tag::ORDER_QTY).fields(b"54=1\x01");
        });
        let mut out = b"before".to_vec();
        // The second message uses the header's cached values, which must not affect the result.
        for moment in [at.wrapping_mul(3), at] {
            out.truncate(6);
            let moment = (Timestamp(moment), precision);
            let mut frame = header.frame(&mut out, template.msg_type(), seq, moment);
            let mut fill = template.fill(frame.body(precision));
            fill.str(&id).timestamp(moment.0).uint(quantity).done();
            frame.finish().unwrap();
        }
        let time = plain_time(at, precision);
        let mut plain = b"before".to_vec();
        let mut frame = FrameWriter::new(&mut plain, b"FIX.4.4", b"D");
        let fields = format!(
            "49=A\x0156=B\x0134={seq:0seq_digits$}\x0152={time}\x0111={id}\x01{constant}\
            60={time}\x0138={quantity}\x0154=1\x01"
        );
        frame.raw(fields.as_bytes());
        let range = frame.finish().unwrap();
        prop_assert_eq!(out.escape_ascii().to_string(), plain.escape_ascii().to_string());
        prop_assert_eq!(range, 6..plain.len());
    }

    #[test]
    fn what_is_patched_is_as_the_plain_message(
        constants in prop::collection::vec("[a-z]{1,90}", 2), precision in precision(),
        messages in prop::collection::vec(
            (numbers(), any::<i64>(), "[!-~]{0,40}", any::<i64>(), 0_u8..=18, 0_usize..=4), 1..8,
        ),
    ) {
        let constants = [0, 1].map(|i| format!("58={}\x01", constants[i]));
        let mut prepared = Prepared::new("FIX.4.4", "D", precision, |m| {
            m.slot(tag::MSG_SEQ_NUM).slot(tag::SENDING_TIME).fields(constants[0].as_bytes());
            m.slot(tag::CL_ORD_ID).slot(tag::PRICE).fields(constants[1].as_bytes());
        }).unwrap();
        for (seq, nanos, id, mantissa, scale, values) in messages {
            // The messages include short numbers, and some messages are abandoned before they are
            // finished.
            let price = Decimal::new(mantissa >> (seq % 60), scale);
            let time = Timestamp(nanos);
            let patch = prepared.patch();
            let patch = if values > 0 { patch.uint(seq) } else { patch };
            let patch = if values > 1 { patch.timestamp(time) } else { patch };
            let patch = if values > 2 { patch.str(&id) } else { patch };
            let patch = if values > 3 { patch.decimal(price) } else { patch };
            let expected = if values > 2 && id.is_empty() {
                Err(Misuse::EmptyValue(tag::CL_ORD_ID))
            } else if values < 4 {
                Err(Misuse::SlotCount)
            } else {
                let mut out = Vec::new();
                let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", b"D");
                let fields = format!(
                    "34={seq}\x0152={}\x01{}11={id}\x0144={}\x01{}",
                    plain_time(nanos, precision), constants[0], plain_decimal(price), constants[1],
                );
                frame.raw(fields.as_bytes());
                frame.finish().map(|_| out)
            };
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            let expected = expected.map(|bytes| shown(&bytes));
            prop_assert_eq!(patch.finish().map(shown), expected);
        }
    }
}

#[test]
fn the_ends_of_the_range() {
    for precision in PRECISIONS {
        for nanos in [i64::MIN, i64::MIN + 59_999_999_999, -1, 0, 59_999_999_999, i64::MAX] {
            let text =
                written(precision, |b| _ = b.timestamp(tag::TRANSACT_TIME, Timestamp(nanos)));
            assert_eq!(text, format!("60={}\x01", plain_time(nanos, precision)));
        }
    }
    let max = i128::from(u64::MAX);
    for (mantissa, scale) in [(-max, 18), (-max, 0), (max, 18), (max, 0), (0, 18), (-1, 0)] {
        let value = Decimal::try_new(mantissa, scale).unwrap();
        let text = written(Precision::Millis, |b| _ = b.decimal(tag::PRICE, value));
        assert_eq!(text, format!("44={}\x01", plain_decimal(value)));
    }
    for value in [i64::MIN, i64::MAX, -1, 0, 9_999_999, 10_000_000] {
        let text = written(Precision::Millis, |b| _ = b.int(tag::PRICE, value));
        assert_eq!(text, format!("44={value}\x01"));
    }
}

#[test]
fn a_template_wants_each_slot_once() {
    let template = Template::new("D", |t| _ = t.slot(tag::CL_ORD_ID).slot(tag::TEXT));
    for values in [0, 1, 3] {
        let mut out = Vec::new();
        let misuse = Body::detached(&mut out, Precision::Millis, |body| {
            let mut fill = template.fill(body);
            for _ in 0..values {
                fill.str("x");
            }
            fill.done();
        });
        assert_eq!(misuse, Err(Misuse::SlotCount), "{values}");
        assert!(out.is_empty());
    }
    let session = Template::new("D", |t| _ = t.slot(tag::MSG_SEQ_NUM));
    let misuse = Body::detached(&mut Vec::new(), Precision::Millis, |body| {
        session.fill(body).uint(1).done();
    });
    assert_eq!(misuse, Err(Misuse::SessionOwned(tag::MSG_SEQ_NUM)));
}

#[test]
fn a_mistaken_layout_of_a_template_makes_no_message() {
    let table: [(&[u8], Misuse); 4] = [
        (b"nonsense", Misuse::NotWholeFields),
        (b"55=EU", Misuse::NotWholeFields),
        (b"55=\x01", Misuse::EmptyValue(tag::SYMBOL)),
        (b"55=EU\x0134=7\x01", Misuse::SessionOwned(tag::MSG_SEQ_NUM)),
    ];
    for (constant, expected) in table {
        let template = Template::new("D", |t| _ = t.slot(tag::CL_ORD_ID).fields(constant));
        let mut out = Vec::new();
        let misuse = Body::detached(&mut out, Precision::Millis, |body| {
            template.fill(body).str("x").done();
        });
        assert_eq!((misuse, out.len()), (Err(expected), 0), "{}", constant.escape_ascii());
    }
}

#[test]
fn what_cannot_be_a_message_is_not_prepared() {
    let fields = |encoded: &'static [u8]| {
        Prepared::new("FIX.4.4", "D", Precision::Millis, |m| _ = m.fields(encoded)).err()
    };
    let table: [(&[u8], Option<Misuse>); 9] = [
        (b"", None),
        (b"95=3\x0196=a\x01b\x0158==\x01", None),
        (b"nonsense", Some(Misuse::NotWholeFields)),
        (b"nonsense\x01", Some(Misuse::NotWholeFields)),
        (b"55=EU", Some(Misuse::NotWholeFields)),
        (b"55=EU\x01058=x\x01", Some(Misuse::NotWholeFields)),
        (b"55=EU\x0158=\x01", Some(Misuse::EmptyValue(tag::TEXT))),
        (b"55=EU\x0110=123\x01", Some(Misuse::SessionOwned(tag::CHECK_SUM))),
        (b"8=FIX.4.4\x01", Some(Misuse::SessionOwned(tag::BEGIN_STRING))),
    ];
    for (encoded, expected) in table {
        assert_eq!(fields(encoded), expected, "{}", encoded.escape_ascii());
    }
    for refused in [0, 8, 9, 10, 35].map(Tag) {
        // Only the first misuse is reported.
        let layout = |m: &mut PreparedLayout| _ = m.slot(tag::TEXT).slot(refused).fields(b"x");
        let prepared = Prepared::new("FIX.4.4", "D", Precision::Millis, layout);
        assert_eq!(prepared.err(), Some(Misuse::SessionOwned(refused)));
    }
    for (begin_string, msg_type, expected) in [
        ("FIX.4.4\x01", "D", Misuse::DelimiterInValue(tag::BEGIN_STRING)),
        ("", "D", Misuse::EmptyValue(tag::BEGIN_STRING)),
        ("FIX.4.4", "", Misuse::MsgType),
        ("FIX.4.4", "D\x0158=x", Misuse::MsgType),
    ] {
        let prepared = Prepared::new(begin_string, msg_type, Precision::Millis, |_| ());
        assert_eq!(prepared.err(), Some(expected));
    }
}

#[test]
fn a_value_with_the_delimiter_is_not_patched_in() {
    let layout = |m: &mut PreparedLayout| _ = m.slot(tag::TEXT);
    let mut prepared = Prepared::new("FIX.4.4", "B", Precision::Millis, layout).unwrap();
    for value in ["a\x01b", "0123456789\x01", "0123456789012345678\x01"] {
        let misuse = prepared.patch().str(value).finish().unwrap_err();
        assert_eq!(
            misuse.to_string(),
            "the value of tag 58 contains SOH, which only a data field may hold"
        );
    }
    assert!(prepared.patch().str("ab").finish().is_ok());
}
