//! Environment variables in the texts of a settings file: `${NAME}` and `${NAME:-default}`.

use std::env::{self, VarError};

use transfix_codec::shown::Shown;

/// A text with replaced environment variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expanded {
    /// The text with the values of the variables.
    pub(super) text: String,
    /// The names of the variables. The flag is true if the variable is set, and false if its
    /// default was used.
    pub(super) variables: Vec<(String, bool)>,
    /// True if the text may be a password, which must not be shown.
    pub(super) is_secret: bool,
}

impl Expanded {
    /// Returns a note for an error in a line with variables: where the value comes from, and the
    /// value itself unless it may be secret.
    pub(super) fn told(&self) -> Option<String> {
        if self.variables.is_empty() {
            return None;
        }
        let from = self.variables.iter().map(|(name, is_set)| match is_set {
            true => format!("{name} is set"),
            false => format!("{name} is unset or empty, so its default applies"),
        });
        let from = from.collect::<Vec<_>>().join(", ");
        Some(match self.is_secret {
            true => format!("the environment changes the value: {from}"),
            false => {
                format!(
                    "the environment changes the value to `{}`: {from}",
                    Shown::new(self.text.as_bytes())
                )
            }
        })
    }
}

/// Returns the text with its variables replaced, or `None` if it contains none.
///
/// The default after `:-` is used if the variable is unset or empty, as in a shell. To write `${`
/// itself, use `$${`.
pub(super) fn expanded(text: &str) -> Result<Option<Expanded>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let (mut all, mut rest) = (String::with_capacity(text.len()), text);
    let mut variables = Vec::new();
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            all += before;
            all += "${";
            rest = &from[2..];
            continue;
        }
        all += before;
        let Some((inner, after)) = from[2..].split_once('}') else {
            return Err("`${` without `}`; write `$${` for these two characters".to_owned());
        };
        let (name, value, is_set) = value(inner)?;
        all += &value;
        variables.push((name, is_set));
        rest = after;
    }
    all += rest;
    Ok(Some(Expanded { text: all, variables, is_secret: false }))
}

/// Returns true if the text consists of exactly one variable, which may then stand for a number or
/// a switch.
pub(super) fn is_alone(text: &str) -> bool {
    text.strip_prefix("${").is_some_and(|rest| rest.find('}') == Some(rest.len() - 1))
}

/// Returns name and value of the text between the braces, and true if the variable is set.
fn value(inner: &str) -> Result<(String, String, bool), String> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_next = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with(is_first) || !name.chars().all(is_next) {
        return Err(
            "`${` and `}` must enclose the name of an environment variable, or NAME:-default; \
             write `$${` for the literal characters"
                .to_owned(),
        );
    }
    let of = |value: String, is_set| Ok((name.to_owned(), value, is_set));
    match (env::var(name), default) {
        (Ok(value), None) => of(value, true),
        (Ok(value), Some(_)) if !value.is_empty() => of(value, true),
        (Ok(_) | Err(VarError::NotPresent), Some(default)) => of(default.to_owned(), false),
        (Err(VarError::NotPresent), None) => Err(format!(
            "the environment variable {name} is not set; set it, or give a default with \
             `${{{name}:-...}}`"
        )),
        (Err(VarError::NotUnicode(_)), _) => {
            Err(format!("the environment variable {name} is not valid UTF-8"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_defaults_and_literals() {
        let set = env::var("CARGO_PKG_NAME").unwrap();
        for (text, expected) in [
            ("a", None),
            ("a$b", None),
            ("${CARGO_PKG_NAME}", Some(set.clone())),
            ("<${CARGO_PKG_NAME}|${CARGO_PKG_NAME:-x}>", Some(format!("<{set}|{set}>"))),
            ("${NO_SUCH_VARIABLE:-x y}", Some("x y".to_owned())),
            ("${NO_SUCH_VARIABLE:-}", Some(String::new())),
            ("$${NO_SUCH_VARIABLE}", Some("${NO_SUCH_VARIABLE}".to_owned())),
            ("$", None),
        ] {
            let found = expanded(text).map(|found| found.map(|found| found.text));
            assert_eq!(found, Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_is_an_error() {
        for (text, expected) in [
            ("${NO_SUCH_VARIABLE}", "the environment variable NO_SUCH_VARIABLE is not set"),
            ("a${", "`${` without `}`"),
            ("${}", "must enclose the name of an environment variable"),
            ("${1A}", "must enclose the name of an environment variable"),
            ("${A B}", "must enclose the name of an environment variable"),
        ] {
            let why = expanded(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn a_variable_alone() {
        assert!(is_alone("${A}") && is_alone("${A:-5}"));
        assert!(!is_alone("a${A}") && !is_alone("${A}${B}") && !is_alone("$${A}"));
    }
}
