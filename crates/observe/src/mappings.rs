//! Checks how much of the process's limit of memory mappings is used by stores.
//!
//! Each segment of a store is a mapping, and so is its lock. A segment being synced or made in
//! advance is split into parts. Linux allows 65,530 by default.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use crate::event;

/// The number of stores below which a process stays far from the limit, so that nothing is checked.
const STORES_MIN: usize = 1_000;

/// Logs a warning at the start if more than half of the allowed mappings are in use, because stores
/// grow.
pub fn check(stores: usize) {
    if stores < STORES_MIN {
        return;
    }
    // A system that does not report these values has no such limit.
    let (Some(used), Some(limit)) = (used(), limit()) else { return };
    if is_near(used, limit) {
        event!(warn, FewMappings, used, limit);
    }
}

const fn is_near(used: usize, limit: usize) -> bool {
    used > limit / 2
}

/// Returns the number of mappings of this process.
fn used() -> Option<usize> {
    let maps = File::open("/proc/self/maps").ok()?;
    Some(BufReader::new(maps).lines().map_while(Result::ok).count())
}

/// Returns the maximum number of mappings of a process.
fn limit() -> Option<usize> {
    fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_used_half_of_its_mappings_is_near_the_limit() {
        assert!(!is_near(32_765, 65_530) && is_near(32_766, 65_530));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_both() {
        let (used, limit) = (used().unwrap(), limit().unwrap());
        assert!(used > 10 && used < limit, "{used} of {limit}");
    }
}
