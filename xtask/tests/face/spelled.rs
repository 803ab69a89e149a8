//! Writes tokens with the spacing of ordinary source code.

use quote::ToTokens;

/// Replacements, applied in this order: the spacing that `syn` prints, and the usual spacing.
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
    // A blank before `(` is removed after a name or `>`, where arguments begin. In `-> (`, the
    // blank is kept, because a tuple begins.
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
