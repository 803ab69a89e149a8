//! Counts allocations, to prove that a code path allocates nothing, and bytes in use, to prove that
//! memory is freed.
//!
//! ```
//! use transfix_testkit::alloc::{Counting, thread_allocations};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let before = thread_allocations();
//! drop(vec![0_u8; 100]);
//! assert_eq!(thread_allocations() - before, 1);
//! ```

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static ALL: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system allocator with counters. A test uses `Counting` as its `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

fn count(bytes: usize) {
    ALL.fetch_add(1, Ordering::Relaxed);
    LIVE.fetch_add(bytes, Ordering::Relaxed);
    // While a thread ends, its thread-local counter may be destroyed already. Nobody reads the
    // counter any more, so the error is ignored.
    let _ = MINE.try_with(|mine| mine.set(mine.get() + 1));
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call is forwarded unchanged to the system allocator; counting never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfills the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfills the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfills the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfills the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Returns the number of allocations by the current thread since the thread began. Growing an
/// allocation counts; freeing does not.
#[must_use]
pub fn thread_allocations() -> u64 {
    MINE.with(Cell::get)
}

/// Returns the size in bytes of the current thread's largest allocation since the last call. A
/// grown allocation counts with its whole new size.
#[must_use]
pub fn thread_largest_allocation() -> usize {
    LARGEST.take()
}

/// Returns the number of allocations by all threads since the process began.
#[must_use]
pub fn all_allocations() -> u64 {
    ALL.load(Ordering::Relaxed)
}

/// Returns the number of bytes that all threads have allocated and not yet freed.
#[must_use]
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}
