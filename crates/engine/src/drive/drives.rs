//! A mark for threads that drive sessions.

use std::cell::Cell;

thread_local! {
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread drives sessions. Such a thread must not wait for a session's lock,
/// because it may hold that lock in a callback.
pub(crate) fn drives() -> bool {
    DRIVES.get()
}

/// Marks this thread as driving sessions from now on.
pub(crate) fn begin() {
    DRIVES.set(true);
}

/// Marks this thread as driving sessions while `drive` runs.
pub(crate) fn during<T>(drive: impl FnOnce() -> T) -> T {
    let drove = DRIVES.replace(true);
    let result = drive();
    DRIVES.set(drove);
    result
}
