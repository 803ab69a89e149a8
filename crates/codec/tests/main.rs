//! All tests of the codec, except those in `bytes.rs`, which also run under sanitizers.

mod conditions;
mod encode;
mod golden;
mod msg_type;
mod reasons;
mod typed;
mod typed_alloc;
mod typed_inline;
mod validate;
mod values;

use transfix_testkit::alloc::Counting;

/// Counts the allocations of each thread.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
