//! CPUs, priority and supervision of the engine's threads. After a panic or an error, a thread
//! restarts or the process ends, by the settings.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use transfix_settings::ThreadLost;

use crate::event;
use crate::repeats::{Cause, Repeats};

/// Pause before a failed thread restarts, so that repeated failures do not use up a CPU.
const PAUSE: Duration = Duration::from_millis(100);

/// Pins the calling thread to one CPU.
///
/// # Errors
/// If the CPU does not exist or is not allowed.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Pins the calling thread to this CPU, if one is given. Logs a failure.
pub fn pin_to(cpu: Option<usize>) {
    if let Some(cpu) = cpu
        && let Err(error) = pin_to_cpu(cpu)
    {
        event!(error, ThreadNotPinned, cpu, %error);
    }
}

/// Gives the calling thread a low priority, so that sessions go first. On a busy CPU, the thread
/// still gets about a tenth of the time.
pub fn lower_priority() {
    // Only Linux applies this priority to a single thread.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 10) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

/// Returns the function with which helper threads begin. It moves a thread to `cpus`, or to the
/// CPUs of the present thread if `cpus` is empty. A new thread would otherwise inherit the CPUs of
/// its creator, which may be pinned to a session's CPU. `report` receives an error of the move.
pub fn on_cpus(cpus: &[usize], report: fn(&io::Error)) -> impl Fn() + Send + Sync + 'static {
    let named = cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU);
    let mut set = CpuSet::new();
    named.for_each(|cpu| set.set(*cpu));
    let set = if cpus.is_empty() { sched_getaffinity(None) } else { Ok(set) };
    move || {
        let chosen = set.and_then(|set| sched_setaffinity(None, &set));
        if let Err(error) = chosen {
            report(&error.into());
        }
    }
}

/// Reports that a helper thread of the stores could not be moved to its CPUs. The thread continues
/// on the CPUs of its creator.
pub fn helper_not_pinned(error: &io::Error) {
    event!(error, HelperCpusRefused, %error);
}

/// Calls `run` until it succeeds. After a panic or an error, calls `run` again with its existing
/// state, so `run` must leave no half-made change on which other code relies.
///
/// `now_ns` reads the monotonic clock; `sleep` blocks the thread.
pub fn supervise<T>(
    lost: ThreadLost,
    (now_ns, sleep): (&dyn Fn() -> u64, &dyn Fn(Duration)),
    mut run: impl FnMut() -> io::Result<T>,
) -> T {
    let mut lines = Repeats::default();
    loop {
        let error = match catch_unwind(AssertUnwindSafe(&mut run)) {
            Ok(Ok(done)) => {
                for (_, left_out) in lines.take_rest() {
                    let name = thread::current().name().unwrap_or("?").to_owned();
                    event!(warn, ThreadLinesLeftOut, name, left_out);
                }
                return done;
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        tell(lost, (error.as_ref(), now_ns()), &mut lines);
        if lost == ThreadLost::Abort {
            std::process::abort();
        }
        sleep(PAUSE);
    }
}

/// Logs the failure of a thread; `error` is `None` after a panic. A panic while logging is caught,
/// because the listener of events may have caused the failure.
fn tell(lost: ThreadLost, (error, now_ns): (Option<&io::Error>, u64), lines: &mut Repeats) {
    let Some(left_out) = lines.tell(now_ns, Cause::Ended) else { return };
    let left_out = (left_out > 0).then_some(left_out);
    let told = catch_unwind(AssertUnwindSafe(|| {
        let current = thread::current();
        let name = current.name().unwrap_or("?");
        match (lost, error) {
            (ThreadLost::Restart, None) => {
                event!(error, ThreadPanicked, name, left_out)
            }
            (ThreadLost::Restart, Some(error)) => {
                event!(error, ThreadFailed, name, left_out, %error)
            }
            (ThreadLost::Abort, None) => {
                event!(error, ThreadPanickedForGood, name)
            }
            (ThreadLost::Abort, Some(error)) => {
                event!(error, ThreadFailedForGood, name, %error)
            }
        }
    }));
    drop(told);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn what_has_panicked_goes_on() {
        let mut runs = 0;
        let done =
            supervise(ThreadLost::Restart, (&clock::monotonic_ns, &thread::park_timeout), || {
                runs += 1;
                assert!(runs > 2, "a bug");
                Ok(runs)
            });
        assert_eq!(done, 3);
    }

    #[test]
    fn so_does_what_the_system_has_failed() {
        let mut runs = 0;
        let done =
            supervise(ThreadLost::Restart, (&clock::monotonic_ns, &thread::park_timeout), || {
                runs += 1;
                if runs > 2 { Ok(runs) } else { Err(io::ErrorKind::OutOfMemory.into()) }
            });
        assert_eq!(done, 3);
    }
}
