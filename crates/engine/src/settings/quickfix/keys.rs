//! Keys and values of our settings, as they are written into a file.

use std::path::Path;

use super::Dialect;

/// A text between quotes, in which nothing stands for a value of the environment.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for (at, c) in text.char_indices() {
        match c {
            '$' if text[at..].starts_with("${") => quoted += "$$",
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A list of texts.
pub(super) fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

/// `key = value` without its value.
pub(super) fn without_value(text: &str) -> &str {
    text.split_once(" = ").map_or(text, |(key, _)| key)
}

/// The whole file: what all sessions say alike stands in `[defaults]`.
pub(super) fn file(path: &Path, dialect: Dialect, sessions: &[Vec<(String, String)>]) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().escape_debug().to_string());
    let mut text = format!("# From {}, a file of {dialect}.\n", name.unwrap_or_default());
    let first = sessions.first().map_or(&[][..], |first| first);
    // Looked for once: a file may have thousands of sessions.
    let mut common: Vec<_> = first.iter().filter(|_| sessions.len() > 1).collect();
    for session in sessions {
        common.retain(|key| session.contains(key));
    }
    let is_common = |key: &(String, String)| common.contains(&key);
    let line = |(key, value): &(String, String)| format!("{key} = {value}\n");
    if !common.is_empty() {
        text += "\n[defaults]\n";
        text.extend(common.iter().copied().map(line));
    }
    for session in sessions {
        text += "\n[[session]]\n";
        text.extend(session.iter().filter(|key| !is_common(key)).map(line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looking for each key in all sessions would take hours.
    #[test]
    fn a_file_of_many_sessions_is_written_at_once() {
        let key = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let session = |n: usize| vec![key("role", "1"), key("port", &n.to_string()), key("x", "2")];
        let sessions: Vec<_> = (0..30_000).map(session).collect();
        let text = file(Path::new("a.cfg"), Dialect::Cpp, &sessions);
        assert!(text.contains("\n[defaults]\nrole = 1\nx = 2\n\n[[session]]\nport = 0\n"));
        assert_eq!(text.matches("[[session]]").count(), 30_000);
        assert_eq!(text.matches("role").count(), 1);
    }

    #[test]
    fn any_text_is_read_back() {
        let texts =
            ["a", "a\"b\\c", "# [x] = 'y'", "\u{7}\t\u{85}", "\u{e9}\u{20ac}", "$a${b}$${c}"];
        for text in texts {
            let settings = crate::Settings::parse(
                "a.toml",
                &format!(
                    "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
                     sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"b:1\"\n\
                     log = {{ dir = {} }}\n",
                    quoted(text)
                ),
            );
            let settings = settings.unwrap();
            assert_eq!(settings.sessions[0].log.as_ref().unwrap().dir, Path::new(text));
        }
    }
}
