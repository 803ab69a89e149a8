//! Which threads drive sessions.

use std::cell::Cell;

thread_local! {
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread drives sessions: it may be in a callback now, with the lock of one.
pub(crate) fn drives() -> bool {
    DRIVES.get()
}

/// This thread drives sessions from now on.
pub(crate) fn begin() {
    DRIVES.set(true);
}

/// This thread drives sessions for so long.
pub(crate) fn during<T>(drive: impl FnOnce() -> T) -> T {
    let drove = DRIVES.replace(true);
    let result = drive();
    DRIVES.set(drove);
    result
}
