//! All tests of the codec but those that are run under sanitizers too.

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

/// Counts what each thread allocates.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
