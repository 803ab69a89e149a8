//! The faults of a list's entries in the settings, in one text: a file tells one error of a key.

/// All that is wrong, if anything is.
pub(crate) fn all_of(wrong: impl Iterator<Item = String>) -> Result<(), String> {
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}
