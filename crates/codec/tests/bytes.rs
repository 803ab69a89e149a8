//! Tests of code that works on raw bytes; `cargo xtask sanitize` runs them under sanitizers and on
//! AArch64.

mod draft;
mod plain;
mod properties;
mod remembered;

use transfix_testkit::alloc::Counting;

/// Counts the allocations of each thread.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
