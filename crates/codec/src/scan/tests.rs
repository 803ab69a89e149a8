//! Each kind of vectors builds the same index as the scalar code.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

use proptest::prelude::*;

use super::blocks;
#[cfg(target_arch = "x86_64")]
use super::layout::LAYOUTS;
use super::neon::Neon;
use super::*;
use crate::SOH;

/// A software model of the NEON instructions that `neon.rs` uses, as described in the Arm manual.
#[cfg(not(target_arch = "aarch64"))]
#[allow(non_camel_case_types, reason = "their names in core::arch")]
pub(super) mod model {
    pub(in super::super) type uint8x16_t = [u8; 16];
    pub(in super::super) type uint8x8_t = [u8; 8];

    /// Loads 16 bytes from address `at`.
    ///
    /// # Safety
    /// 16 bytes from `at` are readable.
    pub(in super::super) unsafe fn vld1q_u8(at: *const u8) -> uint8x16_t {
        // SAFETY: the caller guarantees 16 readable bytes; an array of bytes needs no alignment.
        unsafe { at.cast::<uint8x16_t>().read() }
    }

    pub(in super::super) unsafe fn vdupq_n_u8(byte: u8) -> uint8x16_t {
        [byte; 16]
    }

    pub(in super::super) unsafe fn vandq_u8(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        core::array::from_fn(|n| a[n] & b[n])
    }

    pub(in super::super) unsafe fn vceqq_u8(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        core::array::from_fn(|n| if a[n] == b[n] { 255 } else { 0 })
    }

    pub(in super::super) unsafe fn vget_low_u8(a: uint8x16_t) -> uint8x8_t {
        core::array::from_fn(|n| a[n])
    }

    pub(in super::super) unsafe fn vget_high_u8(a: uint8x16_t) -> uint8x8_t {
        core::array::from_fn(|n| a[n + 8])
    }

    pub(in super::super) unsafe fn vaddv_u8(a: uint8x8_t) -> u8 {
        a.iter().fold(0, |sum: u8, b| sum.wrapping_add(*b))
    }

    pub(in super::super) unsafe fn vaddlvq_u8(a: uint8x16_t) -> u16 {
        a.iter().map(|b| u16::from(*b)).sum()
    }
}

/// The content of an index for comparison: tags, value offsets, field offsets, and the sum of all
/// bytes.
type IndexContent = (Vec<Tag>, Vec<u32>, Vec<u32>, u8);

fn said(places: &Places, sum: u8) -> IndexContent {
    let n = places.count;
    (places.tags[..n].to_vec(), places.values[..n].to_vec(), places.starts[..=n].to_vec(), sum)
}

/// The indexes that are compared: an index for each available kind of vectors, and an index for the
/// NEON code. All reuse the memory of earlier frames.
struct Indexes(Vec<(Simd, Places)>, Places);

impl Indexes {
    fn new() -> Self {
        let available = Simd::ALL.into_iter().filter(|simd| simd.is_available());
        Self(available.map(|simd| (simd, Places::default())).collect(), Places::default())
    }

    fn check(&mut self, frame: &[u8]) {
        let mut plain = Places::default();
        scalar::index(&mut plain, frame, 0);
        let expected = said(&plain, scalar::sum(frame));
        let same = |name: &dyn Debug, found: IndexContent| {
            assert!(found == expected, "{name:?}: {}", frame.escape_ascii());
        };
        for (simd, places) in &mut self.0 {
            let sum = simd.index(places, frame);
            same(simd, said(places, sum));
            same(simd, said(places, simd.sum(frame)));
        }
        // SAFETY: NEON is available on AArch64; elsewhere its model has no requirements.
        let sum = unsafe { blocks::index::<Neon>(&mut self.1, frame) };
        same(&Simd::Neon, said(&self.1, sum));
        // SAFETY: NEON is available on AArch64; elsewhere its model has no requirements.
        assert_eq!(unsafe { blocks::sum::<Neon>(frame) }, sum);
    }
}

/// Generates frames that end with a delimiter; bytes typical of fields are more likely than others.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => b'0'..=b'9', 2 => Just(b'='), 2 => Just(SOH), 1 => any::<u8>()];
    let field = (1_u32..12_000, "[ -~]{0,12}")
        .prop_map(|(tag, value)| alloc::format!("{tag}={value}\u{1}").into_bytes());
    let data = ("[a-z=\u{1}]{0,20}", 0_usize..22)
        .prop_map(|(value, len)| alloc::format!("95={len}\u{1}96={value}\u{1}").into_bytes());
    let piece = prop_oneof![
        30 => field,
        2 => data,
        1 => prop::collection::vec(byte, 0..9).prop_map(|mut bytes| {
            bytes.push(SOH);
            bytes
        }),
    ];
    let bytes = prop_oneof![
        3 => prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ];
    bytes.prop_map(|mut bytes| {
        bytes.push(SOH);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn all_kinds_say_the_same(many in prop::collection::vec(frames(), 1..4), by in 0_usize..64) {
        let mut indexes = Indexes::new();
        for frame in many {
            indexes.check(&frame);
            let mut shifted = vec![b'1'; by];
            shifted.extend_from_slice(&frame);
            indexes.check(&shifted[by..]);
        }
    }

    #[test]
    fn a_tag_is_found_where_it_stands_first(tags in prop::collection::vec(1_u32..40, 0..70)) {
        let tags: Vec<Tag> = tags.into_iter().map(Tag).collect();
        for tag in (0..41).map(Tag) {
            let expected = tags.iter().position(|other| *other == tag);
            prop_assert_eq!(position(&tags, tag), expected);
        }
    }

    #[test]
    fn text_is_utf_8(value in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(prop_oneof![20 => 0..128_u8, 1 => any::<u8>()], 0..40),
        "[a-z\u{e9}\u{4e16}]{0,20}".prop_map(String::into_bytes),
    ]) {
        prop_assert_eq!(text(&value), core::str::from_utf8(&value).ok());
        prop_assert_eq!(is_ascii(&value), value.is_ascii());
    }

    #[test]
    fn tags_of_every_length(tags in prop::collection::vec("[0-9]{0,11}|[0-9x-]{1,5}", 1..40)) {
        let mut frame = Vec::new();
        for tag in tags {
            frame.extend_from_slice(tag.as_bytes());
            frame.extend_from_slice(b"=v\x01");
        }
        Indexes::new().check(&frame);
    }
}

#[test]
fn every_alignment_of_a_message() {
    let message =
        b"8=FIX.4.4\x019=146\x0135=D\x0134=4\x0149=ABC_DEFG01\x0152=20090323-15:40:29\x01\
        56=CCG\x0195=5\x0196=a\x01=b\x01\x0111=NF 0542/03232009\x0154=1\x0138=100\x0155=CVS\x01\
        40=1\x0159=0\x0147=A\x0160=20090323-15:40:29\x0121=1\x01207=N\x0112345=x\x0110=195\x01";
    let mut indexes = Indexes::new();
    for offset in 0..64 {
        let mut bytes = vec![b'9'; offset];
        bytes.extend_from_slice(message);
        bytes.extend_from_slice(&[b'9'; 64]);
        indexes.check(&bytes[offset..offset + message.len()]);
    }
    for (n, _) in message.iter().enumerate().filter(|(_, b)| **b == SOH) {
        indexes.check(&message[..=n]);
    }
}

/// Maps a writable page that an inaccessible page follows, so that a read across the boundary
/// crashes the test.
#[cfg(target_os = "linux")]
fn page_before_a_wall(page: usize) -> *mut u8 {
    // SAFETY: the mapping is new and unshared, and the second page lies inside the mapping.
    unsafe {
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(core::ptr::null_mut(), 2 * page, access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(at.add(page), page, libc::PROT_NONE), 0);
        at.cast()
    }
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(miri, ignore = "Miri has no mprotect")]
fn the_end_of_a_page_is_not_crossed() {
    const PAGE: usize = 4096;
    let page = page_before_a_wall(PAGE);
    let mut indexes = Indexes::new();
    let fields = b"35=D\x0111=1\x0138=100\x0195=3\x0196=a\x01b\x0155=EUR\x011137=9\x0110=000\x01";
    for len in 1..=300 {
        let mut frame: Vec<u8> = fields.iter().copied().cycle().take(len).collect();
        frame[len - 1] = SOH;
        // SAFETY: these are the last bytes of the page, which is readable and writable.
        let at_the_wall = unsafe {
            let at = page.add(PAGE - len);
            at.copy_from_nonoverlapping(frame.as_ptr(), len);
            core::slice::from_raw_parts(at, len)
        };
        indexes.check(at_the_wall);
        indexes.check(&at_the_wall[len - 1..]);
    }
}

/// Returns an order, and an index that has learned the layout of this order.
#[cfg(target_arch = "x86_64")]
fn learned() -> Option<(FieldIndex, Vec<u8>)> {
    let order = b"8=FIX.4.4\x019=10\x0135=D\x0134=2\x01128=x\x0164=20261121\x01193=y\x0110=000\x01";
    let mut index = Simd::Avx2.is_available().then(|| FieldIndex::with(Simd::Avx2))?;
    for _ in 0..4 {
        index.fill(order, CheckSumPolicy::Ignore).unwrap();
    }
    assert!(index.places.layouts.current().is_some(), "it is learned");
    Some((index, order.to_vec()))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_layout_serves_messages_with_its_tags_alone() {
    let Some((mut index, order)) = learned() else { return };
    let order = String::from_utf8(order).unwrap();
    for (from, to, is_known) in [
        ("34=2", "34=1234567", true),
        ("193=y", "193==", true),
        ("193=y", "193=", false),
        ("193=y", "194=y", false),
        ("193=y", "19=3y", false),
        ("193=y", "1931=y", false),
        ("64=", "065=", false),
        ("64=", "64", false),
        ("\u{1}64=20261121", "", false),
        ("64=20261121", "64=2\u{1}64=1", false),
        ("193=y", "193=y\u{1}10=000\u{1}1=a\u{1}1=a\u{1}1=a", false),
        ("128=x\u{1}64=20261121", "64=20261121\u{1}128=x", false),
    ] {
        let changed = order.replacen(from, to, 1);
        assert_ne!(changed, order);
        index.fill(changed.as_bytes(), CheckSumPolicy::Ignore).unwrap();
        assert_eq!(index.places.layouts.current().is_some(), is_known, "{from} {to}");
        Indexes::new().check(changed.as_bytes());
        index.fill(order.as_bytes(), CheckSumPolicy::Ignore).unwrap();
        assert!(index.places.layouts.current().is_some(), "the layout stays");
    }
}

#[test]
fn no_layout_has_a_data_field() {
    let mut index = FieldIndex::default();
    let message = |length: usize| {
        let head = "8=FIX.4.4\u{1}9=10\u{1}35=B\u{1}34=2\u{1}";
        alloc::format!("{head}95={length}\u{1}96=a\u{1}58=b\u{1}10=000\u{1}").into_bytes()
    };
    for length in [1, 1, 1, 1, 1, 6, 1, 6] {
        let bytes = message(length);
        index.fill(&bytes, CheckSumPolicy::Ignore).unwrap();
        let data = &b"a\x0158=b"[..length];
        assert_eq!(index.fields(&bytes).raw(tag::RAW_DATA), Some(data));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn tags_with_one_place_in_the_table_are_told_apart() {
    let Some((mut index, order)) = learned() else { return };
    index.fill(&order, CheckSumPolicy::Ignore).unwrap();
    let fields = index.fields(&order);
    // The tags 64, 128 and 192 share a slot; so do 193, 1, 65 and 129.
    let found = [64, 128, 192, 193, 1, 65, 129].map(|tag| fields.position(Tag(tag)));
    assert_eq!(found, [Some(5), Some(4), None, Some(6), None, None, None]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_memory_of_layouts_is_bounded() {
    assert!(size_of::<Layout>() * LAYOUTS <= 2_048, "{}", size_of::<Layout>());
    let Some((mut index, order)) = learned() else { return };
    let order = String::from_utf8(order).unwrap();
    for n in 0..3_000 {
        let more: String = (0..n % 20).map(|m| alloc::format!("{}=x\u{1}", 200 + n + m)).collect();
        let frame = order.replacen("193=", &(more + "193="), 1);
        index.fill(frame.as_bytes(), CheckSumPolicy::Ignore).unwrap();
    }
    assert_eq!(index.places.layouts.known.len(), LAYOUTS);
}
