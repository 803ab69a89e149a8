//! The threads of an engine: the loss of one is noticed, and mended or fatal, as the settings say.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crate::settings::ThreadLost;

/// Pause before a thread that has panicked goes on, so that one which always does is no spinner.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs what a thread is for. `run` goes on after a panic from what it finds: it must leave nothing
/// half done behind that the rest relies on.
pub(crate) fn supervise<T>(lost: ThreadLost, mut run: impl FnMut() -> T) -> T {
    loop {
        if let Ok(done) = catch_unwind(AssertUnwindSafe(&mut run)) {
            return done;
        }
        tell(lost);
        if lost == ThreadLost::Abort {
            std::process::abort();
        }
        thread::park_timeout(PAUSE);
    }
}

/// Whoever listens to events may be what has panicked.
fn tell(lost: ThreadLost) {
    let told = catch_unwind(|| {
        let current = thread::current();
        let name = current.name().unwrap_or("?");
        match lost {
            ThreadLost::Restart => {
                tracing::error!(name, "a thread of the engine has panicked, and goes on")
            }
            ThreadLost::Abort => {
                tracing::error!(name, "a thread of the engine has panicked: the process ends")
            }
        }
    });
    drop(told);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_panicked_goes_on() {
        let mut runs = 0;
        let done = supervise(ThreadLost::Restart, || {
            runs += 1;
            assert!(runs > 2, "a bug");
            runs
        });
        assert_eq!(done, 3);
    }
}
