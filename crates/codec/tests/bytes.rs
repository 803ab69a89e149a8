//! Tests that look at bytes: `cargo xtask sanitize` runs them under sanitizers, and on AArch64.

mod draft;
mod plain;
mod properties;
mod remembered;

use transfix_testkit::alloc::Counting;

/// Counts what each thread allocates.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
