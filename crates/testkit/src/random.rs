//! A random generator that gives the same numbers on every machine for the same seed.

/// A SplitMix64 generator: small, fast, and good enough to choose test cases.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator; the same seed always gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a random 64-bit number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, but not including, `end`.
    ///
    /// # Panics
    /// If `end` is 0.
    pub const fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
