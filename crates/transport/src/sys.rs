//! What the system must be told once for the whole process.
//!
//! **Invariant:** nothing here touches memory that others use.

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
