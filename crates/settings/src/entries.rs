//! Joins the errors in the entries of a list into one text, because a file reports one error per
//! key.

/// Returns all errors as a single one, or `Ok` if there are none.
pub(crate) fn all_of(wrong: impl Iterator<Item = String>) -> Result<(), String> {
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}
