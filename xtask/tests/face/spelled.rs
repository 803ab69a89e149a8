//! Tokens in the usual source form.

use quote::ToTokens;

/// Replaced in this order: the spacing of `syn`, and the usual spacing.
const SPACES: &[(&str, &str)] = &[
    (" :: ", "::"),
    (":: ", "::"),
    (" ::", "::"),
    (" < ", "<"),
    ("< ", "<"),
    (" >", ">"),
    ("& ", "&"),
    (" ,", ","),
    (" ;", ";"),
    (" :", ":"),
    ("* const", "*const"),
    ("# [", "#["),
    (",)", ")"),
    (", >", ">"),
    (",>", ">"),
    ("? Sized", "?Sized"),
    (" . ", "."),
];

/// Returns the text of these tokens on one line.
pub(crate) fn spelled(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (found, wanted) in SPACES {
        text = text.replace(found, wanted);
    }
    // `name (` and `> (` begin arguments, but `-> (` begins a tuple.
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        let arguments = c == '(' && {
            let before = out.trim_end();
            before.ends_with(|b: char| b.is_alphanumeric() || b == '>' || b == '_')
                && !before.ends_with("->")
                && text[..at].ends_with(' ')
        };
        if arguments {
            out.truncate(out.trim_end().len());
        }
        out.push(c);
    }
    out
}
