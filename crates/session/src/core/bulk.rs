//! Memory that a burst has left in a buffer.

/// Memory above which a buffer is given back when it is hardly used.
const BULK: usize = 256 << 10;
/// The memory that it keeps then.
const KEPT: usize = 64 << 10;

/// Returns true if a buffer has far more memory than it uses.
pub const fn is_bulky(capacity: usize, len: usize) -> bool {
    capacity > BULK && capacity / 4 > len
}

/// Gives back the memory of a burst that is over.
pub fn trim(bytes: &mut Vec<u8>) {
    if is_bulky(bytes.capacity(), bytes.len()) {
        bytes.shrink_to(KEPT.max(bytes.len()));
    }
}
