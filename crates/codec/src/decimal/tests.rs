//! Decimals read, written, compared and computed.

use super::*;
use alloc::format;
use alloc::string::{String, ToString};

#[test]
fn binary_numbers() {
    let table = [
        (0.1, Some("0.1")),
        (-298.075, Some("-298.075")),
        (1e15, Some("1000000000000000")),
        (1.0, Some("1")),
        (-0.0, Some("0")),
        (1e19, None),
        (1e-19, None),
        (f64::NAN, None),
        (f64::INFINITY, None),
        (f64::MIN_POSITIVE, None),
        (f64::MAX, None),
    ];
    for (number, expected) in table {
        let decimal = Decimal::try_from(number).map(|decimal| decimal.to_string());
        assert_eq!(decimal.as_deref().ok(), expected, "{number}");
    }
    assert_eq!(f64::from(Decimal::new(298_075, 3)), 298.075);
}

#[cfg(feature = "rust_decimal")]
#[test]
fn the_decimal_crate() {
    for (text, fits) in [
        ("298.0750", true),
        ("-9223372036854775808", true),
        ("9223372036854775808", false),
        ("0.000000000000000001", true),
        ("0.0000000000000000001", false),
    ] {
        let theirs: rust_decimal::Decimal = text.parse().unwrap();
        let ours = Decimal::try_from(theirs);
        assert_eq!(ours.is_ok(), fits, "{text}");
        if let Ok(ours) = ours {
            assert_eq!(
                (ours.to_string(), rust_decimal::Decimal::from(ours)),
                (text.into(), theirs)
            );
        }
    }
}

#[test]
fn formats() {
    let table = [
        (Decimal::new(1_055, 2), 1, "10.6"),
        (Decimal::new(1_045, 2), 1, "10.4"),
        (Decimal::new(10_451, 3), 1, "10.5"),
        (Decimal::new(-1_055, 2), 1, "-10.6"),
        (Decimal::new(-4, 2), 1, "0.0"),
        (Decimal::new(95, 1), 0, "10"),
        (Decimal::new(5, 1), 0, "0"),
        (Decimal::new(15, 1), 0, "2"),
        (Decimal::new(i64::MAX, 18), 17, "9.22337203685477581"),
        (Decimal::new(1_055, 2), 4, "10.5500"),
        (Decimal::from(7), 2, "7.00"),
        (Decimal::from(i64::MIN), 99, "-9223372036854775808.000000000000000000"),
    ];
    for (number, places, expected) in table {
        assert_eq!(format!("{number:.places$}"), expected);
    }
    let number = Decimal::new(-1_055, 2);
    assert_eq!(format!("{number:8}|{number:<8}|{number:08.1}"), "  -10.55|-10.55  |-00010.6");
}

#[test]
fn numbers_are_compared_without_their_scales() {
    let (min, max) = (i64::MIN, i64::MAX);
    let ascending = [(min, 0), (min, 18), (-1, 18), (0, 3), (1, 18), (99, 2), (max, 0)];
    let ascending = ascending.map(|(mantissa, scale)| Decimal::new(mantissa, scale));
    for (n, a) in ascending.iter().enumerate() {
        for (m, b) in ascending.iter().enumerate() {
            assert_eq!(a.cmp_value(*b), n.cmp(&m), "{a} {b}");
        }
    }
    assert_eq!(Decimal::new(100, 2).cmp_value(Decimal::from(1)), Ordering::Equal);
}

#[test]
fn sums_and_products_are_exact() {
    let read = |text: &str| text.parse::<Decimal>().unwrap();
    const MAX: &str = "9223372036854775807";
    const MIN: &str = "-9223372036854775808";
    const TINY: &str = "0.000000000000000001";
    let table = [
        ("1.50", "0.25", ["1.75", "1.25", "0.3750"]),
        (MAX, "1.0", ["", "9223372036854775806", MAX]),
        (MIN, "1", ["-9223372036854775807", "", MIN]),
        (MAX, "0.00", [MAX, MAX, "0.00"]),
        (TINY, "0.1", ["0.100000000000000001", "-0.099999999999999999", ""]),
        (TINY, "10", ["", "", "0.000000000000000010"]),
        (MAX, "0.5", ["", "", ""]),
        ("0.000000000000000002", "0.5", ["0.500000000000000002", "-0.499999999999999998", TINY]),
    ];
    for (a, b, expected) in table {
        let (a, b) = (read(a), read(b));
        let results = [a.checked_add(b), a.checked_sub(b), a.checked_mul(b)];
        let texts = results.map(|result| result.map_or(String::new(), |it| it.to_string()));
        assert_eq!(texts, expected, "{a} and {b}");
    }
}

#[test]
fn what_no_decimal_can_say() {
    assert_eq!(Decimal::try_new(15, 18), Ok(Decimal::new(15, 18)));
    assert_eq!(Decimal::try_new(15, 19), Err(OutOfRange));
    assert_eq!(Decimal::try_from(u64::MAX), Err(OutOfRange));
    assert_eq!(Decimal::try_from(usize::MAX), Err(OutOfRange));
    assert_eq!(Decimal::try_from(i128::from(i64::MIN)), Ok(Decimal::from(i64::MIN)));
    assert_eq!(Decimal::try_from(i128::from(i64::MIN) - 1), Err(OutOfRange));
    let seven = [Decimal::from(7_u8), Decimal::from(7_u16), Decimal::from(7_i8), 7_i16.into()];
    assert_eq!(seven, [Decimal::from(7_i64); 4]);
    assert_eq!(Decimal::try_from(7_u64), Ok(Decimal::from(7_u32)));
    assert_eq!("1e5".parse::<Decimal>(), Err(NotADecimal));
    for scale in [0, 18] {
        let least = Decimal::new(i64::MIN, scale);
        assert_eq!(least.to_string().parse(), Ok(least));
    }
    assert!("-9223372036854775809".parse::<Decimal>().is_err());
}

#[test]
fn table() {
    type Row = (&'static str, Option<(i64, u8)>, &'static str);
    let table: [Row; 14] = [
        ("298.075", Some((298_075, 3)), "298.075"),
        ("400.5", Some((4_005, 1)), "400.5"),
        ("100.00", Some((10_000, 2)), "100.00"),
        ("0.01", Some((1, 2)), "0.01"),
        ("-0.5", Some((-5, 1)), "-0.5"),
        (".5", Some((5, 1)), "0.5"),
        ("5.", Some((5, 0)), "5"),
        ("002000.00", Some((200_000, 2)), "2000.00"),
        ("0", Some((0, 0)), "0"),
        ("+1", None, ""),
        ("1e5", None, ""),
        ("", None, ""),
        (".", None, ""),
        ("1.2.3", None, ""),
    ];
    for (text, parsed, written) in table {
        let decimal = Decimal::parse(text.as_bytes());
        assert_eq!(decimal.map(|d| (d.mantissa, d.scale)), parsed, "{text}");
        if let Some(decimal) = decimal {
            assert_eq!(decimal.to_string(), written, "{text}");
        }
    }
    assert_eq!(Decimal::new(i64::MIN, 18).to_string(), "-9.223372036854775808");
}
