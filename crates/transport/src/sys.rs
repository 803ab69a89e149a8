//! Calls that the system needs once for the whole process, and a hint to the processor.
//!
//! **Invariant:** nothing here touches memory that others use.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// The most bytes that are asked for: more would push other bytes that are needed out of the cache.
#[cfg(target_arch = "x86_64")]
const ASKED_MAX: usize = 8 << 10;

/// Asks the processor for `value`, up to 8 KiB of it, and does not wait. Its lines come from memory
/// beside each other. A reader that meets one after the other waits for each. Without effect on
/// other processors than x86-64.
///
/// ```
/// let next = vec![0_u8; 300];
/// transfix_transport::prefetch(&next[..]);
/// ```
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (first, bytes) = (std::ptr::from_ref(value).cast::<i8>(), size_of_val(value));
        for at in (0..bytes.min(ASKED_MAX)).step_by(LINE) {
            // SAFETY: every x86-64 has it; it reads nothing, and no address makes it fail.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Makes a write beyond the limit on the length of files (`ulimit -f`) an error,
/// [`std::io::ErrorKind::FileTooLarge`], in place of the signal SIGXFSZ, which ends the process.
/// Without effect where somebody has decided about that signal already.
pub fn refuse_long_files_by_error() {
    // SAFETY: `signal` reads no memory of ours, and SIG_IGN and SIG_DFL are no functions of ours
    // that it could call. Between the two calls another thread may install a handler, which the
    // second call then puts back.
    unsafe {
        let before = libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        if before != libc::SIG_DFL && before != libc::SIG_ERR {
            libc::signal(libc::SIGXFSZ, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_may_be_asked_for() {
        prefetch(&());
        prefetch("");
        prefetch(&[0_u8; 3 * 64][1..]);
        prefetch::<dyn std::fmt::Debug>(&0_u8);
        let long = vec![1_u8; 3 << 20];
        prefetch(&long[..]);
        assert!(long.iter().all(|byte| *byte == 1), "nothing is changed");
    }
}
