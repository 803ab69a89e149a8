//! All tests of the store that can share a process.

mod ahead;
mod behind;
mod changed;
mod crash;
mod foreign;
mod golden;
mod laws;
mod places;
mod queue;
mod recovery;
mod retention;

use transfix_testkit::alloc::Counting;

/// Counts the allocations of each thread.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
