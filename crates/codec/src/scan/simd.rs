//! The kinds of vectors, and their selection at run time.

use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::blocks;
use super::{Places, scalar};

/// Returns true if the processor has all features; with `std` a run-time test, otherwise a
/// compile-time test.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
macro_rules! detected {
    ($($feature:tt),*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
}
#[cfg(all(target_arch = "x86_64", not(feature = "std")))]
macro_rules! detected {
    ($($feature:tt),*) => { true $(&& cfg!(target_feature = $feature))* };
}

/// The kinds of vector instructions that can index a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Simd {
    /// No vectors, one byte at a time; available on every processor.
    Scalar,
    /// SSE2, which every x86-64 has.
    Sse2,
    /// AVX2 with BMI1, BMI2 and POPCNT.
    Avx2,
    /// AVX-512 with BW, VL, VBMI, VBMI2 and VPOPCNTDQ: Ice Lake, Zen 4 and later.
    Avx512,
    /// NEON, which every AArch64 has.
    Neon,
}

impl Simd {
    /// All kinds, from slowest to fastest.
    pub const ALL: [Self; 5] = [Self::Scalar, Self::Sse2, Self::Neon, Self::Avx2, Self::Avx512];

    /// Returns true if this processor supports the instructions.
    ///
    /// Without the feature `std`, only the features enabled at compile time count.
    #[must_use]
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Sse2 => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => detected!("avx2", "bmi1", "bmi2", "popcnt", "lzcnt"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && detected!(
                        "avx512f",
                        "avx512bw",
                        "avx512vl",
                        "avx512vbmi",
                        "avx512vbmi2",
                        "avx512vpopcntdq"
                    )
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => true,
            #[allow(unreachable_patterns, reason = "reached on other processors")]
            _ => false,
        }
    }

    /// Indexes the frame, whose last byte must be a delimiter, and returns the sum of its bytes.
    #[inline]
    pub(super) fn index(self, places: &mut Places, frame: &[u8]) -> u8 {
        match self {
            // SAFETY: every `Simd` in use is available; `FieldIndex::with` and `Simd::default`
            // ensure this.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if !places.layouts.are_usual() => unsafe {
                super::avx512::index(places, frame)
            },
            // Only the AVX2 code matches layouts before it parses tags, which is faster while
            // layouts match. SAFETY: every `Simd` in use is available, and every processor with
            // AVX-512 has AVX2.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Avx2 => unsafe { super::x86::index_avx2(places, frame) },
            // SAFETY: every x86-64 has SSE2.
            #[cfg(target_arch = "x86_64")]
            Self::Sse2 => unsafe { blocks::index::<super::x86::Sse2>(places, frame) },
            // SAFETY: every AArch64 has NEON.
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unsafe { blocks::index::<super::neon::Neon>(places, frame) },
            _ => {
                places.count = 0;
                scalar::index(places, frame, 0);
                scalar::sum(frame)
            }
        }
    }

    /// Returns the sum of `bytes` modulo 256.
    #[inline]
    pub(super) fn sum(self, bytes: &[u8]) -> u8 {
        match self {
            // SAFETY: every `Simd` in use is available; `FieldIndex::with` and `Simd::default`
            // ensure this.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { super::avx512::sum(bytes) },
            // SAFETY: every `Simd` in use is available; `FieldIndex::with` and `Simd::default`
            // ensure this.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { super::x86::sum_avx2(bytes) },
            // SAFETY: every x86-64 has SSE2.
            #[cfg(target_arch = "x86_64")]
            Self::Sse2 => unsafe { blocks::sum::<super::x86::Sse2>(bytes) },
            // SAFETY: every AArch64 has NEON.
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unsafe { blocks::sum::<super::neon::Neon>(bytes) },
            _ => scalar::sum(bytes),
        }
    }
}

/// Index of the fastest available kind in [`Simd::ALL`], plus 1; 0 until `Simd::default` first
/// searches.
static FASTEST: AtomicUsize = AtomicUsize::new(0);

impl Default for Simd {
    /// Returns the fastest kind that this processor supports.
    #[inline]
    fn default() -> Self {
        // The result is cached, because the search would test a dozen features for each message.
        let found = FASTEST.load(Ordering::Relaxed).wrapping_sub(1);
        Self::ALL.get(found).copied().unwrap_or_else(Self::find_fastest)
    }
}

impl Simd {
    #[cold]
    #[inline(never)]
    fn find_fastest() -> Self {
        let found = Self::ALL.iter().rposition(|kind| kind.is_available()).unwrap_or(0);
        FASTEST.store(found + 1, Ordering::Relaxed);
        Self::ALL[found]
    }
}
