//! Joins the faults of a list's entries into one text, because a file reports one error per key.

/// Returns all faults as one error, if there are any.
pub(crate) fn all_of(wrong: impl Iterator<Item = String>) -> Result<(), String> {
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}
