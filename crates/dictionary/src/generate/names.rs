//! Conversion of the standard's names to Rust names.
//!
//! For example, `SenderCompID` becomes `SenderCompId`, `sender_comp_id` and `SENDER_COMP_ID`.
//!
//! Invariant: each result is a valid Rust identifier, for any name in the dictionary.

use std::collections::HashSet;

/// Names that the rule for word boundaries would split wrongly.
const IRREGULAR: &[(&str, &str)] =
    &[("XMLnonFIX", "Xml_Non_Fix"), ("IOIid", "IOI_Id"), ("DontKnowTradeDK", "Dont_Know_Trade_Dk")];

/// Converts any spelling to the form `SenderCompId`.
pub(super) fn pascal(name: &str) -> String {
    let mut pascal = String::with_capacity(name.len());
    for word in words(name) {
        let mut letters = word.chars();
        pascal.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        pascal.extend(letters.map(|letter| letter.to_ascii_lowercase()));
    }
    if !pascal.starts_with(|first: char| first.is_ascii_alphabetic()) {
        pascal.insert_str(0, "Code");
    }
    if pascal == "Self" { "SelfCode".to_owned() } else { pascal }
}

/// Converts any spelling to the form `sender_comp_id`.
pub(super) fn snake(name: &str) -> String {
    let mut snake = words(name).join("_").to_ascii_lowercase();
    if !snake.starts_with(|first: char| first.is_ascii_alphabetic()) {
        snake.insert_str(0, "field_");
    }
    if RESERVED.contains(&snake.as_str()) {
        snake.push('_');
    }
    snake
}

/// Converts any spelling to the form `SENDER_COMP_ID`.
pub(super) fn constant(name: &str) -> String {
    snake(name).trim_end_matches('_').to_ascii_uppercase()
}

/// Returns `name`, or `name` with `suffix` if that name is taken, and marks the result as taken.
pub(super) fn unused(taken: &mut HashSet<String>, name: String, suffix: &str) -> String {
    let mut unused = name;
    if taken.contains(&unused) {
        unused.extend(suffix.chars().filter(char::is_ascii_alphanumeric));
    }
    while taken.contains(&unused) {
        unused.push('X');
    }
    taken.insert(unused.clone());
    unused
}

/// Splits a name into words: `["Sender", "Comp", "ID"]`.
///
/// A word begins after a character that is neither letter nor digit, and at a capital after a
/// lowercase letter or digit. In a run of capitals, a word also begins at the last capital if a
/// lowercase letter follows.
fn words(name: &str) -> Vec<String> {
    let name = IRREGULAR.iter().find(|(known, _)| *known == name).map_or(name, |found| found.1);
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, &letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        if letter.is_ascii_uppercase() && begins_word(&letters, at) {
            words.push(String::new());
        }
        words.last_mut().expect("there is a first word").push(letter);
    }
    words.retain(|word| !word.is_empty());
    words
}

fn begins_word(letters: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|at| letters[at]) else { return false };
    if before.is_ascii_lowercase() || before.is_ascii_digit() {
        return true;
    }
    let is_small = |at: usize| letters.get(at).is_some_and(char::is_ascii_lowercase);
    // In `PartyIDs` and `QuoteIDsX`, the `s` is the ending of a plural and begins no word.
    let plural = letters.get(at + 1) == Some(&'s') && !is_small(at + 2);
    is_small(at + 1) && !plural
}

/// Rust keywords, and names that generated types themselves use.
const RESERVED: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "body", "message", "fields",
    "header", "trailer", "of",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_standard() {
        let cases = [
            ("SenderCompID", "SenderCompId", "sender_comp_id"),
            ("NoPartyIDs", "NoPartyIds", "no_party_ids"),
            ("NoMDEntries", "NoMdEntries", "no_md_entries"),
            ("CFICode", "CfiCode", "cfi_code"),
            ("Nested2PartyID", "Nested2PartyId", "nested2_party_id"),
            ("XMLnonFIX", "XmlNonFix", "xml_non_fix"),
            ("BUY_MINUS", "BuyMinus", "buy_minus"),
            ("Buy minus (T+1)", "BuyMinusT1", "buy_minus_t_1"),
            ("1_DAY", "Code1Day", "field_1_day"),
            ("Type", "Type", "type_"),
            ("SELF", "SelfCode", "self_"),
            ("§", "Code", "field_"),
        ];
        for (name, expected_pascal, expected_snake) in cases {
            assert_eq!(pascal(name), expected_pascal, "{name}");
            assert_eq!(snake(name), expected_snake, "{name}");
        }
        assert_eq!(constant("NoPartyIDs"), "NO_PARTY_IDS");
    }

    #[test]
    fn a_taken_name_gets_a_suffix() {
        let mut taken = HashSet::new();
        let mut take = |suffix| unused(&mut taken, "Buy".to_owned(), suffix);
        assert_eq!([take("1"), take("1"), take("1")], ["Buy", "Buy1", "Buy1X"]);
    }
}
