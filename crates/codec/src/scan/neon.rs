//! Blocks of 64 bytes in NEON registers.
//!
//! On other processors, the tests compile this file with a software model of the NEON instructions.

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64::*;

#[cfg(not(target_arch = "aarch64"))]
use super::tests::model::*;

use super::blocks::{BLOCK, Block, TAIL_MASK, short_block};
use crate::SOH;

/// A block of 64 bytes: four registers of 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Neon([uint8x16_t; 4]);

/// For each byte, one bit that is unique within its half of the register.
static BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl Block for Neon {
    type Sum = u32;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller guarantees that 64 bytes are readable and NEON is available.
        unsafe {
            let parts = [vld1q_u8(at), vld1q_u8(at.add(16))];
            Self([parts[0], parts[1], vld1q_u8(at.add(32)), vld1q_u8(at.add(48))])
        }
    }

    #[inline(always)]
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32) {
        // SAFETY: each load reads 64 existing bytes of an array or slice; NEON is available.
        unsafe {
            let Some(last) = frame.last_chunk::<BLOCK>() else {
                return (Self::load(short_block(frame).as_ptr()), 0);
            };
            let Self(mask) = Self::load(TAIL_MASK[len..].as_ptr());
            let Self(last) = Self::load(last.as_ptr());
            let low = [vandq_u8(last[0], mask[0]), vandq_u8(last[1], mask[1])];
            let tail = [low[0], low[1], vandq_u8(last[2], mask[2]), vandq_u8(last[3], mask[3])];
            (Self(tail), (BLOCK - len) as u32)
        }
    }

    #[inline(always)]
    unsafe fn delimiters(self) -> u64 {
        // SAFETY: NEON is available; BITS has 16 bytes.
        let parts = unsafe {
            let (sought, bits) = (vdupq_n_u8(SOH), vld1q_u8(BITS.as_ptr()));
            self.0.map(|part| {
                let found = vandq_u8(vceqq_u8(part, sought), bits);
                // The bits within a half are distinct, so their sum equals their bitwise OR.
                let halves = (vaddv_u8(vget_low_u8(found)), vaddv_u8(vget_high_u8(found)));
                u64::from(halves.0) | u64::from(halves.1) << 8
            })
        };
        parts[0] | parts[1] << 16 | parts[2] << 32 | parts[3] << 48
    }

    #[inline(always)]
    unsafe fn no_sum() -> u32 {
        0
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: u32) -> u32 {
        // SAFETY: NEON is available.
        let parts = unsafe { self.0.map(|part| vaddlvq_u8(part)) };
        parts.into_iter().fold(sum, |sum, part| sum.wrapping_add(u32::from(part)))
    }

    #[inline(always)]
    unsafe fn total(sum: u32) -> u8 {
        sum as u8
    }
}
