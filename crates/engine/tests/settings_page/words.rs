//! Checks that the settings page lists all values that a key accepts in a file.

use transfix::Settings;

use crate::settings_page::{PARTS, Part, fields};

const SESSION: &str = "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIXT.1.1\"\n\
    sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:9880\"\n\
    default_appl_ver_id = 9\n";

/// The parts whose table may occur several times.
const LISTS: [&str; 2] = ["throttles", "windows"];
/// The part whose keys are the words of a list.
const WORDS: &str = "reset_on";

/// Returns a settings file in which a key of this part has this value.
fn file(part: &Part, key: &str, value: &str) -> String {
    if let [section @ ("[engine]" | "[events]" | "[fleet]")] = part.path {
        return format!("{section}\n{key} = {value}\n{SESSION}");
    }
    if part.path == [WORDS] {
        return format!("{SESSION}{WORDS} = [\"{key}\", {value}]\n");
    }
    let Some((first, rest)) = part.path.split_first() else {
        // Replaces a line that every session has.
        let lines = SESSION.lines().filter(|line| line.split(' ').next() != Some(key));
        return lines
            .chain([&*format!("{key} = {value}")])
            .fold(String::new(), |all, line| all + line + "\n");
    };
    let table = |name: &str, inner: String| match LISTS.contains(&name) {
        true => format!("{name} = [{{ {inner} }}]"),
        false => format!("{name} = {{ {inner} }}"),
    };
    let inner =
        rest.iter().rev().fold(format!("{key} = {value}"), |inner, name| table(name, inner));
    format!("{SESSION}{}\n", table(first, inner))
}

/// Returns the words that a key accepts, as the error message about a wrong word lists them.
fn known_words(part: &Part, key: &str) -> Option<Vec<String>> {
    let error = Settings::parse("a.toml", &file(part, key, "\"zzz\"")).err()?.to_string();
    let (_, words) = error.split_once("unknown value `zzz`; known are ")?;
    Some(words.split(", ").map(str::to_owned).collect())
}

#[test]
fn a_key_names_all_words_that_it_takes() {
    let mut count = 0;
    for part in PARTS {
        for (key, meaning) in fields(part) {
            let Some(words) = known_words(part, key) else { continue };
            count += 1;
            if part.path == [WORDS] {
                assert!(words.iter().any(|word| word == key), "{key} is none of {words:?}");
                continue;
            }
            for word in words {
                // The page gives a range of versions by its first and last version.
                let is_in_range = key == "begin_string" && word.starts_with("FIX.4.");
                let quoted =
                    [format!("`{word}`"), format!("`\"{word}\"`"), format!("`{{ {word} =")];
                let is_named = quoted.iter().any(|quoted| meaning.contains(quoted));
                assert!(is_named || is_in_range, "{}.{key} takes {word}: {meaning}", part.of);
            }
        }
    }
    assert!(count >= 20, "{count} keys with words");
}

#[test]
fn a_meaning_has_no_names_of_the_code() {
    for part in PARTS {
        for (key, meaning) in fields(part) {
            let of = format!("{}.{key}: {meaning}", part.of);
            assert!(!meaning.is_empty(), "{of}");
            assert!(!meaning.contains("::") && !meaning.contains("[`crate"), "{of}");
            for (n, code) in meaning.split('`').enumerate().filter(|(n, _)| n % 2 == 1) {
                let is_camel = code.chars().all(char::is_alphanumeric)
                    && code.starts_with(|c: char| c.is_ascii_uppercase())
                    && code.chars().any(|c| c.is_ascii_lowercase());
                assert!(!is_camel && !code.contains('\\'), "{n}: `{code}` in {of}");
            }
        }
    }
}
