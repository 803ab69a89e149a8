//! A writer of indented lines of Rust code.

use std::fmt::Write;

/// Generated text.
#[derive(Default)]
pub(super) struct Text {
    lines: String,
    depth: usize,
}

impl Text {
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        // Writing to a String never fails.
        let _ = writeln!(self.lines, "{:indent$}{}", "", line.as_ref(), indent = self.depth * 4);
    }

    /// Writes a documentation line, with line breaks in `doc` replaced by blanks. Texts of the
    /// dictionary contain no markup.
    pub(super) fn doc(&mut self, doc: impl AsRef<str>) {
        self.line(format!("/// {}", doc.as_ref().replace(['\n', '\r'], " ")));
    }

    /// Writes a line that ends with an opening brace, and indents the following lines.
    pub(super) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Ends the indented block with a line that contains the closing brace.
    pub(super) fn close(&mut self, line: &str) {
        self.depth -= 1;
        self.line(line);
    }

    pub(super) fn finish(self) -> String {
        self.lines
    }
}
