//! All tests of the transport crate, in one program.

mod alloc;
mod ends;
mod laws;
mod tcp;
mod tls;

use transfix_testkit::alloc::Counting;

/// Counts the allocations of each thread.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
