//! Decimals: parsing, formatting, comparison and arithmetic.

use super::*;
use alloc::format;
use alloc::string::{String, ToString};
use proptest::prelude::*;

#[test]
fn binary_numbers() {
    let table = [
        (0.1, Some("0.1")),
        (-298.075, Some("-298.075")),
        (1e15, Some("1000000000000000")),
        (1.0, Some("1")),
        (-0.0, Some("0")),
        (1e19, Some("10000000000000000000")),
        (-1.8e19, Some("-18000000000000000000")),
        (2e19, None),
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
    assert_eq!(f64::from(Decimal::new(-298_075, 3)), -298.075);
    assert_eq!(f64::from(Decimal::from(u64::MAX)), u64::MAX as f64);
}

#[cfg(feature = "rust_decimal")]
#[test]
fn the_decimal_crate() {
    for (text, fits) in [
        ("298.0750", true),
        ("-18446744073709551615", true),
        ("18.446744073709551615", true),
        ("18446744073709551616", false),
        ("-18446744073709551616", false),
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
    let zero = rust_decimal::Decimal::new(0, 2);
    assert_eq!(Decimal::try_from(-zero), Ok(Decimal::new(0, 2)));
}

#[test]
fn formats() {
    let widest = |scale| Decimal::try_new(-i128::from(u64::MAX), scale).unwrap();
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
        (widest(18), 17, "-18.44674407370955162"),
        (widest(18), 0, "-18"),
        (widest(2), 1, "-184467440737095516.2"),
        (widest(18), 18, "-18.446744073709551615"),
        (widest(18), 99, "-18.446744073709551615"),
        (Decimal::try_new(9_999_999_999_999_999_999, 18).unwrap(), 0, "10"),
        (Decimal::try_new(-9_500_000_000_000_000_000, 18).unwrap(), 0, "-10"),
        (Decimal::new(1_055, 2), 4, "10.5500"),
        (Decimal::from(7), 2, "7.00"),
        (Decimal::from(i64::MIN), 99, "-9223372036854775808.000000000000000000"),
        (widest(0), 99, "-18446744073709551615.000000000000000000"),
    ];
    for (number, places, expected) in table {
        assert_eq!(format!("{number:.places$}"), expected);
    }
    let number = Decimal::new(-1_055, 2);
    assert_eq!(format!("{number:8}|{number:<8}|{number:08.1}"), "  -10.55|-10.55  |-00010.6");
}

#[test]
fn numbers_are_compared_without_their_scales() {
    let max = i128::from(u64::MAX);
    let ascending = [
        (-max, 0),
        (1 - max, 0),
        (-max, 18),
        (-1, 18),
        (0, 3),
        (1, 18),
        (99, 2),
        (max - 1, 18),
        (max, 18),
        (max, 0),
    ];
    let ascending = ascending.map(|(mantissa, scale)| Decimal::try_new(mantissa, scale).unwrap());
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
    const MAX: &str = "18446744073709551615";
    const MIN: &str = "-18446744073709551615";
    const TINY: &str = "0.000000000000000001";
    let table = [
        ("1.50", "0.25", ["1.75", "1.25", "0.3750"]),
        (MAX, "1.0", ["", "18446744073709551614", MAX]),
        (MIN, "1", ["-18446744073709551614", "", MIN]),
        (MAX, MAX, ["", "0", ""]),
        (MIN, MIN, ["", "0", ""]),
        (MAX, MIN, ["0", "", ""]),
        (MIN, "-1", ["", "-18446744073709551614", MAX]),
        (MIN, "0.00", [MIN, MIN, "0.00"]),
        ("9223372036854775808", "9223372036854775807", [MAX, "1", ""]),
        ("4294967296.5", "-4294967295", ["1.5", "8589934591.5", ""]),
        ("18.446744073709551615", "10", ["", "8.446744073709551615", "184.46744073709551615"]),
        ("-0.5", "0.5", ["0.0", "-1.0", "-0.25"]),
        ("0", "-0.5", ["-0.5", "0.5", "0.0"]),
        (MAX, "0.00", [MAX, MAX, "0.00"]),
        (TINY, "0.1", ["0.100000000000000001", "-0.099999999999999999", ""]),
        (TINY, "10", ["10.000000000000000001", "-9.999999999999999999", "0.000000000000000010"]),
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
    const MAX: i128 = u64::MAX as i128;
    assert_eq!(Decimal::try_new(15, 18), Ok(Decimal::new(15, 18)));
    assert_eq!(Decimal::try_new(15, 19), Err(OutOfRange));
    assert_eq!(Decimal::try_new(i128::from(i64::MIN), 3), Ok(Decimal::new(i64::MIN, 3)));
    for number in [MAX, 1 - MAX, -MAX, 0] {
        let decimal = Decimal::try_from(number).unwrap();
        assert_eq!((decimal.mantissa(), decimal.to_string()), (number, number.to_string()));
    }
    for number in [MAX + 1, -MAX - 1, i128::MAX, i128::MIN] {
        assert_eq!(Decimal::try_from(number), Err(OutOfRange), "{number}");
        assert_eq!(Decimal::try_new(number, 18), Err(OutOfRange), "{number}");
    }
    assert_eq!(Decimal::try_from(u128::from(u64::MAX)), Ok(Decimal::from(u64::MAX)));
    assert_eq!(Decimal::try_from(u128::from(u64::MAX) + 1), Err(OutOfRange));
    assert_eq!(Decimal::try_from(u128::MAX), Err(OutOfRange));
}

#[test]
fn whole_numbers() {
    let seven = [Decimal::from(7_u8), 7_u16.into(), 7_u32.into(), 7_u64.into(), 7_usize.into()];
    assert_eq!(seven, [Decimal::new(7, 0); 5]);
    let seven = [Decimal::from(-7_i8), (-7_i16).into(), (-7_i32).into(), (-7_isize).into()];
    assert_eq!(seven, [Decimal::from(-7_i64); 4]);
    assert_eq!(Decimal::from(u64::MAX).to_string(), "18446744073709551615");
    assert_eq!(Decimal::from(usize::MAX).mantissa(), usize::MAX as i128);
    assert_eq!(Decimal::from(isize::MIN).mantissa(), isize::MIN as i128);
}

#[test]
fn the_longest_texts() {
    const MAX: &str = "18446744073709551615";
    assert_eq!(MAX.parse(), Ok(Decimal::from(u64::MAX)));
    assert_eq!("1e5".parse::<Decimal>(), Err(NotADecimal));
    for text in ["18446744073709551616", "-18446744073709551616", "99999999999999999999"] {
        assert_eq!(text.parse::<Decimal>(), Err(NotADecimal), "{text}");
    }
    for text in ["1844674407370955161.6", "18.446744073709551616", "0.1844674407370955161"] {
        assert_eq!(text.parse::<Decimal>(), Err(NotADecimal), "{text}");
    }
    // Covers each position of the point, with and without sign, and with leading zeros.
    for scale in 0..=18 {
        let (whole, part) = MAX.split_at(MAX.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        let text = format!("{whole}{point}{part}");
        for sign in ["", "-"] {
            let decimal: Decimal = format!("{sign}{text}").parse().unwrap();
            assert_eq!(decimal.to_string(), format!("{sign}{text}"));
            assert_eq!(usize::from(decimal.scale()), scale);
            assert_eq!(decimal.mantissa().unsigned_abs(), u128::from(u64::MAX));
            assert_eq!(format!("{sign}000{text}").parse(), Ok(decimal));
        }
    }
}

#[test]
fn zero_has_no_sign() {
    let zero = Decimal::new(0, 2);
    let rounded = Decimal::new(-4, 3).rounded(2);
    let less = Decimal::new(-5, 2);
    let zeros = [
        "-0.00".parse().unwrap(),
        "-00000000000000000000000.00".parse().unwrap(),
        rounded,
        less.checked_add(Decimal::new(5, 2)).unwrap(),
        less.checked_sub(less).unwrap(),
        less.checked_mul(Decimal::from(0)).unwrap(),
        Decimal::try_new(0, 2).unwrap(),
    ];
    assert_eq!(zeros, [zero; 7]);
    assert_eq!((rounded.to_string(), rounded.mantissa()), ("0.00".into(), 0));
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
        let parsed = parsed.map(|(mantissa, scale)| (i128::from(mantissa), scale));
        assert_eq!(decimal.map(|d| (d.mantissa(), d.scale())), parsed, "{text}");
        if let Some(decimal) = decimal {
            assert_eq!(decimal.to_string(), written, "{text}");
        }
    }
    assert_eq!(Decimal::new(i64::MIN, 18).to_string(), "-9.223372036854775808");
    assert_eq!(size_of::<Option<Decimal>>(), 16);
}

/// Generates numbers of all lengths with any scale.
fn decimals() -> impl Strategy<Value = Decimal> {
    (any::<u64>(), 0_u32..64, any::<bool>(), 0_u8..=18).prop_map(
        |(digits, bits, negative, scale)| {
            Decimal::signed(negative, u128::from(digits >> bits), scale).unwrap()
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(number in decimals()) {
        prop_assert_eq!(number.to_string().parse(), Ok(number));
        prop_assert_eq!(Decimal::try_new(number.mantissa(), number.scale()), Ok(number));
        prop_assert!(!number.is_negative() || number.digits > 0);
    }

    #[test]
    fn arithmetic_is_exact_and_undone(a in decimals(), b in decimals()) {
        // At scale 18, exact `i128` integers represent all decimals: the digits before the point
        // have at most 65 bits.
        let at_18 = |number: Decimal| number.at_scale(18);
        if let Some(sum) = a.checked_add(b) {
            prop_assert_eq!(at_18(sum), at_18(a) + at_18(b));
            prop_assert_eq!(sum.checked_sub(b).map(|it| it.cmp_value(a)), Some(Ordering::Equal));
        }
        prop_assert_eq!(a.checked_add(b), b.checked_add(a));
        prop_assert_eq!(a.checked_mul(b), b.checked_mul(a));
        prop_assert_eq!(a.cmp_value(b), at_18(a).cmp(&at_18(b)));
        if let Some(product) = a.checked_mul(b) {
            let scales = a.scale() + b.scale();
            let cut = 10_u128.pow(u32::from(scales - product.scale()));
            let magnitude = u128::from(a.digits) * u128::from(b.digits);
            prop_assert_eq!(u128::from(product.digits) * cut, magnitude);
            let negative = a.is_negative() != b.is_negative();
            prop_assert_eq!(product.is_negative(), magnitude > 0 && negative);
        }
    }

    #[test]
    fn a_precision_rounds_half_to_even(number in decimals(), places in 0_u8..=18) {
        let rounded = number.rounded(places);
        let unit = 10_i128.pow(u32::from(18 - places.min(number.scale())));
        let (exact, near) = (number.at_scale(18), rounded.at_scale(18));
        prop_assert_eq!(near % unit, 0);
        let off = (exact - near).abs() * 2;
        prop_assert!(off < unit || off == unit && near / unit % 2 == 0, "{} {}", number, rounded);
        prop_assert_eq!(format!("{number:.0$}", usize::from(places)).parse::<Decimal>().is_ok(),
            rounded.digits.checked_mul(10_u64.pow(u32::from(places - rounded.scale()))).is_some());
    }
}
