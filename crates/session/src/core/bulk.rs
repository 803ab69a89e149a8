//! Detects and releases memory that a burst has left in a buffer.

/// Capacity in bytes above which a mostly unused buffer is shrunk.
const BULK: usize = 256 << 10;
/// Capacity in bytes that a shrunk buffer keeps.
const KEPT: usize = 64 << 10;

/// Returns true if the capacity of a buffer is far larger than its length.
pub const fn is_bulky(capacity: usize, len: usize) -> bool {
    capacity > BULK && capacity / 4 > len
}

/// Releases the unused memory of a burst.
pub fn trim(bytes: &mut Vec<u8>) {
    if is_bulky(bytes.capacity(), bytes.len()) {
        bytes.shrink_to(KEPT.max(bytes.len()));
    }
}
