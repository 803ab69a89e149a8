//! Placeholder.
/// Placeholder.
pub fn run() -> crate::Outcome {
    Ok(String::new())
}
