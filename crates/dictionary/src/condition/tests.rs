//! Conditions: parsing, evaluation and errors.

use std::sync::LazyLock;

use super::{BadCondition, Comparison, Condition, Operand};
use crate::{Dictionary, standard};

fn parse(text: &str) -> Result<Condition, BadCondition> {
    static FIX44: LazyLock<Dictionary> =
        LazyLock::new(|| standard("FIX44").expect("a standard dictionary"));
    Condition::parse(text, &FIX44)
}

#[test]
fn the_resolved_form_has_tags_and_values() {
    use Comparison::{Equal, GreaterOrEqual};
    let equals = |tag, value: &str| Condition::Compare(tag, Equal, Operand::Value(value.into()));
    let cases = [
        ("exists Price", Condition::Exists(44)),
        ("exists 44", Condition::Exists(44)),
        ("OrdType == ^Limit", equals(40, "2")),
        ("OrdType=^STOP_LIMIT", equals(40, "4")),
        ("this.Symbol eq \"a b\"", equals(55, "a b")),
        ("40 == 2", equals(40, "2")),
        ("Price >= StopPx", Condition::Compare(44, GreaterOrEqual, Operand::Field(99))),
        ("OrdType in {^Limit, '4'}", Condition::In(40, vec!["2".into(), "4".into()])),
        ("!exists Price", Condition::Not(Box::new(Condition::Exists(44)))),
        (
            "exists 1 and exists 2 or exists 3",
            Condition::Any(vec![
                Condition::All(vec![Condition::Exists(1), Condition::Exists(2)]),
                Condition::Exists(3),
            ]),
        ),
        (
            "exists 1 && (exists 2 || exists 3)",
            Condition::All(vec![
                Condition::Exists(1),
                Condition::Any(vec![Condition::Exists(2), Condition::Exists(3)]),
            ]),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
}

#[test]
fn values_are_compared_as_numbers_where_they_are() {
    let cases = [
        ("Price == 1", "1.00", true),
        ("Price == 1", "01", true),
        ("Price != 1", "1.01", true),
        ("Price < 10", "9.99", true),
        ("Price < 10", "10", false),
        ("Price > -1", "-0.5", true),
        ("Price >= -1.5", "-2", false),
        ("Price <= 0", "-0", true),
        ("Price == 'x'", "x", true),
        ("Price < 'b'", "a", true),
        ("Price in {1, 2}", "2.0", true),
        ("not Price in {1, 2}", "3", true),
    ];
    for (text, value, expected) in cases {
        let condition = parse(text).unwrap();
        let found = condition.holds(&|tag| (tag == 44).then_some(value.as_bytes()));
        assert_eq!(found, expected, "{text} with 44={value}");
        assert_eq!(condition.holds(&|_| None), text.starts_with("not"), "{text} without 44");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        ("", "a field is expected here (character 1)"),
        ("exists", "a field is expected here (character 7)"),
        ("Prise == 1", "no field has the name 'Prise' (character 1)"),
        ("Price", "an operator is expected here: ==, !=, <, <=, >, >= or in {..} (character 6)"),
        ("Price ==", "a value is expected here (character 9)"),
        ("OrdType == ^Limitt", "OrdType(40) has no code 'Limitt' (character 12)"),
        ("Price == 'x", "the closing quote is missing (character 10)"),
        ("(exists 1", "')' is missing (character 10)"),
        ("exists 1 exists 2", "nothing more is expected here (character 10)"),
        ("OrdType in {Price}", "a set contains values, not fields (character 18)"),
        ("OrdType in ^Limit", "'{' is missing (character 12)"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    let deep = format!("{}exists 1{}", "(".repeat(1000), ")".repeat(1000));
    assert_eq!(parse(&deep).unwrap_err().why, "nested too deep");
    let nots = format!("{}exists 1", "!".repeat(100_000));
    assert_eq!(parse(&nots).unwrap_err().why, "nested too deep");
}
