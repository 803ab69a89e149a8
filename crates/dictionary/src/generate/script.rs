//! What a build script calls.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

use super::{Options, generate};
use crate::{Dictionary, standard};

/// Reads a dictionary, by the name of a standard one or the path of a file, and writes its Rust to
/// `MODULE.rs` in cargo's `OUT_DIR`. Cargo runs the script again when the file has changed.
///
/// # Errors
/// If the dictionary can't be read, a wanted message is unknown, or the file can't be written.
pub fn build_script(dictionary: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let dictionary = match standard(dictionary) {
        Ok(dictionary) => dictionary,
        Err(_) if Path::new(dictionary).exists() => {
            writeln!(io::stdout(), "cargo::rerun-if-changed={dictionary}")?;
            Dictionary::from_xml(&fs::read_to_string(dictionary)?, dictionary)?
        }
        Err(unknown) => return Err(unknown.into()),
    };
    let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set; call this in build.rs")?;
    let path = Path::new(&directory).join(format!("{}.rs", options.module()));
    fs::write(path, generate(&dictionary, options)?)?;
    Ok(())
}
