//! Detects and releases buffer memory that a burst has left unused.

/// Capacity in bytes above which a mostly empty buffer is reduced.
const BULK: usize = 256 << 10;
/// Capacity in bytes to which such a buffer is reduced.
const KEPT: usize = 64 << 10;

/// Returns true if the capacity of a buffer is far larger than its content.
pub const fn is_bulky(capacity: usize, len: usize) -> bool {
    capacity > BULK && capacity / 4 > len
}

/// Releases buffer memory that a burst has left unused.
pub fn trim(bytes: &mut Vec<u8>) {
    if is_bulky(bytes.capacity(), bytes.len()) {
        bytes.shrink_to(KEPT.max(bytes.len()));
    }
}
