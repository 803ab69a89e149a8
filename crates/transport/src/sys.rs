//! System calls that affect the whole process, and a prefetch hint for the processor.
//!
//! **Invariant:** no function here accesses memory that other code uses.

/// Length of a cache line in bytes.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// Maximum number of bytes to prefetch. More would displace other needed data from the cache.
#[cfg(target_arch = "x86_64")]
const ASKED_MAX: usize = 8 << 10;

/// Prefetches `value`, up to 8 KiB, without waiting. The processor loads its cache lines in
/// parallel, whereas reading the value would wait for one line after another. Has no effect on
/// processors other than x86-64.
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
            // SAFETY: every x86-64 processor has the prefetch instruction, which reads nothing and
            // cannot fault for any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with
/// [`std::io::ErrorKind::FileTooLarge`]. By default the signal SIGXFSZ would end the process. Has
/// no effect if the process already handles that signal.
pub fn refuse_long_files_by_error() {
    // SAFETY: `signal` accesses no memory of this program, and SIG_IGN and SIG_DFL are constants,
    // not functions that it could call. If another thread has just installed a handler, the second
    // call restores it.
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
