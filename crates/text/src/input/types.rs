//! Resolves message types as users write them: as MsgType(35) or as the name of a message.

use transfix_dictionary::nearest;

use super::Dictionaries;

/// The maximum length of an unknown MsgType(35), in bytes. A longer unknown word counts as a
/// misspelled name.
const TYPE_MAX: usize = 3;

/// Returns the MsgType(35) values that the words denote.
///
/// `unknown` is called for each type that no dictionary defines. Exceptions are types that begin
/// with U, which the standard reserves for custom messages.
///
/// # Errors
/// If no dictionary defines a message with this name.
pub fn msg_types(
    words: &[String],
    dictionaries: &mut Dictionaries,
    unknown: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    let mut types = Vec::new();
    for word in words {
        let known = dictionaries.type_named(word);
        if known.is_none() && word.len() > TYPE_MAX {
            let names = dictionaries.message_names();
            let near = nearest(word, names.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            return Err(format!("no dictionary has a message '{word}'{near}"));
        }
        if known.is_none() && !word.starts_with('U') {
            unknown(word);
        }
        types.push(known.unwrap_or_else(|| word.clone()));
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: Result<&str, &str>) {
        let mut dictionaries = Dictionaries::default();
        let found = msg_types(&[word.to_owned()], &mut dictionaries, &mut |_| ());
        let found = found.as_ref().map(|found| &*found[0]).map_err(String::as_str);
        assert_eq!(found, expected, "{word}");
    }

    #[test]
    fn types_and_names() {
        check("D", Ok("D"));
        check("d", Ok("d"));
        check("NewOrderSingle", Ok("D"));
        check("newordersingle", Ok("D"));
        // Some types are defined only by FIXT 1.1 or by an old version.
        check("Logon", Ok("A"));
        check("ExecutionReport", Ok("8"));
        check("U7", Ok("U7"));
        check("ZZZ", Ok("ZZZ"));
        let said = "no dictionary has a message 'NewOrderSingel'; did you mean \
                    'NewOrderSingle'?";
        check("NewOrderSingel", Err(said));
        check("nonsense of mine", Err("no dictionary has a message 'nonsense of mine'"));
    }
}
