//! The function that a build script calls to generate code.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use super::{Options, generate};
use crate::{Dictionary, standard};

/// Reads a dictionary and writes its Rust code to `MODULE.rs` in Cargo's `OUT_DIR`.
///
/// `dictionary` is the name of a standard dictionary or the path of a file; Cargo reruns the build
/// script when that file changes.
///
/// # Errors
/// If the dictionary cannot be read, a requested message is unknown, or the file cannot be written.
pub fn build_script(dictionary: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let dictionary = match standard(dictionary) {
        Ok(dictionary) => dictionary,
        Err(unknown) if !is_file(dictionary) => return Err(unknown.into()),
        Err(_) => {
            writeln!(io::stdout(), "cargo::rerun-if-changed={dictionary}")?;
            let text = fs::read_to_string(dictionary).map_err(|error| unread(dictionary, error))?;
            Dictionary::from_xml(&text, dictionary)?
        }
    };
    let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set; call this in build.rs")?;
    let path = Path::new(&directory).join(format!("{}.rs", options.module()));
    let text = generate(&dictionary, options)?;
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

/// Returns true if the text is a path rather than the name of a standard dictionary.
fn is_file(dictionary: &str) -> bool {
    let path = Path::new(dictionary);
    let ends = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"));
    ends || dictionary.contains(['/', '\\']) || path.exists()
}

fn unread(dictionary: &str, error: io::Error) -> String {
    let path = Path::new(dictionary);
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match error.kind() {
        io::ErrorKind::NotFound => format!("{}: not found", path.display()),
        _ => format!("{}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_named_with_its_path() {
        let says = |dictionary| {
            build_script(dictionary, &Options::new("venue")).expect_err("no dictionary").to_string()
        };
        let missing = says("no/such.xml");
        assert!(missing.ends_with("no/such.xml: not found"), "{missing}");
        assert!(Path::new(&missing).is_absolute(), "{missing}");
        let missing = says("venue.XML");
        assert!(missing.ends_with("venue.XML: not found"), "{missing}");
        let name = says("FIX45");
        assert!(name.contains("did you mean 'FIX4"), "{name}");
        let directory = says("src/");
        assert!(directory.contains("src") && !directory.contains("not found"), "{directory}");
    }
}
