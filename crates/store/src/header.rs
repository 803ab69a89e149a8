//! The header of a segment: its identity, its owner, and the key of its checksums.
//!
//! **Invariant:** the key depends on the session's name, the store, the number of the segment and a
//! random salt. The salt exists only in the file, so a counterparty that chooses the bytes of
//! messages cannot know the key.

use std::fmt;

use crate::error::Damage;
use crate::format::{Seal, is_number, u32_at, u64_at};
use crate::record::Numbers;

/// Length of a segment's header, in bytes; the first record follows.
pub(crate) const HEADER: usize = 256;
/// Length of the header in formats before 4, in bytes. All formats share this part of the header.
pub(crate) const HEADER_OLD: usize = 64;

const MAGIC: [u8; 8] = *b"TRANSFIX";
/// The version of the format. Segments of older versions are read, but never extended.
pub(crate) const VERSION: u32 = 5;
/// The first version in which the checks of records use a key.
const VERSION_KEYED: u32 = 4;

const SALT: usize = 64;
const STORE: usize = 72;
const BEFORE: usize = 80;
const OWNER_LEN: usize = 88;
const OWNER: usize = 96;
const OWNER_MAX: usize = HEADER - OWNER;

/// The name of the session to which a store belongs; empty for a store without a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    bytes: [u8; OWNER_MAX],
    len: usize,
}

impl Owner {
    pub(crate) const NOBODY: Self = Self { bytes: [0; OWNER_MAX], len: 0 };

    /// Returns the owner with this name. A name that is too long is stored as its beginning and a
    /// hash of the whole name.
    pub(crate) fn of(name: &str) -> Self {
        let mut owner = Self::NOBODY;
        let sum = format!("~{:016x}", name.bytes().fold(FNV_BASIS, fnv));
        let parts = match name.len() {
            0..=OWNER_MAX => [name, ""],
            _ => [&name[..name.floor_char_boundary(OWNER_MAX - sum.len())], &*sum],
        };
        for part in parts {
            owner.bytes[owner.len..owner.len + part.len()].copy_from_slice(part.as_bytes());
            owner.len += part.len();
        }
        owner
    }

    pub(crate) fn name(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    pub(crate) const fn is_nobody(&self) -> bool {
        self.len == 0
    }

    fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        let len = usize::from(u16::from_le_bytes([bytes[OWNER_LEN], bytes[OWNER_LEN + 1]]));
        let mut owner = Self { bytes: [0; OWNER_MAX], len };
        owner.bytes.copy_from_slice(&bytes[OWNER..]);
        let is_sound = len <= OWNER_MAX
            && str::from_utf8(&owner.bytes[..len]).is_ok()
            && owner.bytes[len..].iter().all(|&byte| byte == 0);
        is_sound.then_some(owner)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

/// The identity of a segment: its owner, its store, and the preceding segment. Segments of formats
/// before 4 have no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// A random number that was drawn for this segment.
    pub(crate) salt: u64,
    /// A random number that was drawn for the store; the same in all its segments.
    pub(crate) store: u64,
    /// The value of [`SegmentHeader::mark`] for the preceding segment; 0 if there is none.
    pub(crate) before: u64,
    pub(crate) owner: Owner,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) version: u32,
    pub(crate) number: u64,
    /// Number of the earliest segment that is needed to find every message since the last reset.
    pub(crate) reset_segment: u64,
    /// The sequence numbers before the first record of the segment.
    pub(crate) numbers: Numbers,
    /// The length with which the file was created, in bytes; 0 in formats that do not record it.
    pub(crate) bytes: u64,
    /// The identity, or the header's checksum in formats before 4.
    pub(crate) identity: Result<Identity, u32>,
}

impl SegmentHeader {
    /// Returns the encoded header, in the current format.
    ///
    /// # Panics
    /// If the header has no identity: formats before 4 are not written.
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let identity = self.identity.as_ref().expect("only the newest format is written");
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let fields = [
            self.number,
            self.reset_segment,
            self.numbers.next_in,
            self.numbers.next_out,
            self.numbers.created_ns,
            self.bytes,
            identity.salt,
            identity.store,
            identity.before,
            identity.owner.len as u64,
        ];
        for (place, field) in bytes[16..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes[OWNER..].copy_from_slice(&identity.owner.bytes);
        let crc = checksum(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the header at the beginning of a file.
    pub(crate) fn decode(file: &[u8]) -> Result<Self, Damage> {
        let old: &[u8; HEADER_OLD] = file.first_chunk().ok_or(Damage::Header)?;
        if old[..8] != MAGIC {
            return Err(Damage::Header);
        }
        let version = u32_at(old, 8);
        let (crc, identity) = match version {
            VERSION_KEYED..=VERSION => {
                let bytes: &[u8; HEADER] = file.first_chunk().ok_or(Damage::Header)?;
                let identity = Identity {
                    salt: u64_at(bytes, SALT),
                    store: u64_at(bytes, STORE),
                    before: u64_at(bytes, BEFORE),
                    owner: Owner::decode(bytes).ok_or(Damage::Header)?,
                };
                (checksum(bytes), Ok(identity))
            }
            1..VERSION_KEYED => (checksum(old), Err(checksum(old))),
            // The checksum distinguishes another version from a damaged version word: every version
            // stores the checksum at the same offset, over a header of a known length.
            _ if is_checked(file) => return Err(Damage::Version),
            _ => return Err(Damage::Header),
        };
        let header = Self {
            version,
            number: u64_at(old, 16),
            reset_segment: u64_at(old, 24),
            numbers: Numbers {
                next_in: u64_at(old, 32),
                next_out: u64_at(old, 40),
                created_ns: u64_at(old, 48),
            },
            bytes: u64_at(old, 56),
            identity,
        };
        let sound = u32_at(old, 12) == crc
            && u32::try_from(header.number).is_ok()
            && u32::try_from(header.bytes).is_ok()
            && header.reset_segment <= header.number
            && is_number(header.numbers.next_in)
            && is_number(header.numbers.next_out);
        if sound { Ok(header) } else { Err(Damage::Header) }
    }

    /// Returns true if the file, which has `len` bytes, is shorter than when it was created.
    pub(crate) const fn is_short(&self, len: usize) -> bool {
        (len as u64) < self.bytes
    }

    /// Returns true if the segment's format is no longer written.
    pub(crate) const fn is_old(&self) -> bool {
        self.version < VERSION
    }

    /// Returns true if the segment's format, older than 4, has no key.
    pub(crate) const fn is_keyless(&self) -> bool {
        self.identity.is_err()
    }

    /// Returns the offset of the segment's first record.
    pub(crate) const fn first(&self) -> usize {
        if self.is_keyless() { HEADER_OLD } else { HEADER }
    }

    /// Returns the key with which the segment's records are sealed.
    pub(crate) fn seal(&self) -> Seal {
        let Ok(identity) = &self.identity else { return Seal::Plain };
        let owner = identity.owner.name().bytes().fold(FNV_BASIS, fnv);
        // Each step is a one-to-one mapping of 64-bit numbers, so the key is as random as the salt.
        let key = [identity.store, self.number, owner]
            .into_iter()
            .fold(mix(identity.salt), |key, part| mix(key ^ mix(part)));
        Seal::Keyed(key)
    }

    /// Returns the value that identifies this header in the next segment and in the lock file: the
    /// key, or the checksum in older formats.
    pub(crate) fn mark(&self) -> u64 {
        match (self.seal(), self.identity) {
            (Seal::Keyed(key), _) => key,
            (_, checksum) => checksum.err().unwrap_or(0).into(),
        }
    }

    pub(crate) fn store(&self) -> Option<u64> {
        self.identity.ok().map(|identity| identity.store)
    }

    pub(crate) fn owner(&self) -> Owner {
        self.identity.map_or(Owner::NOBODY, |identity| identity.owner)
    }

    /// Returns an error with the reason if this segment cannot follow the segment with the header
    /// `before`.
    pub(crate) fn check_follows(&self, before: &Self) -> Result<(), Damage> {
        let Ok(identity) = self.identity else {
            // A segment without a key never follows a segment with a key.
            return if before.is_keyless() { Ok(()) } else { Err(Damage::Store) };
        };
        let is_other_store = before.store().is_some_and(|store| store != identity.store);
        if is_other_store || identity.before != before.mark() {
            return Err(Damage::Store);
        }
        Ok(())
    }
}

/// Returns true if the checksum of a header is correct, whatever its version. Later versions will
/// store the checksum at this offset too, over the header lengths known here.
fn is_checked(file: &[u8]) -> bool {
    let holds = |len| file.get(..len).is_some_and(|bytes| u32_at(bytes, 12) == checksum(bytes));
    holds(HEADER) || holds(HEADER_OLD)
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

/// The finalizer of SplitMix64: a one-to-one mapping in which each bit of the result depends on all
/// bits of the input.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// A step of the hash function FNV-1a.
const fn fnv(sum: u64, byte: u8) -> u64 {
    (sum ^ byte as u64).wrapping_mul(0x0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        let numbers = Numbers { next_in: 3, next_out: 9, created_ns: 77 };
        let owner = Owner::of("FIX.4.4-A-B");
        let identity = Ok(Identity { salt: 5, store: 6, before: 7, owner });
        let (version, number, reset_segment) = (VERSION, 4, 2);
        SegmentHeader { version, number, reset_segment, numbers, bytes: 1 << 20, identity }
    }

    #[test]
    fn header_comes_back() {
        let bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header()));
        for at in 0..HEADER {
            let mut flipped = bytes;
            flipped[at] ^= 1;
            assert_eq!(SegmentHeader::decode(&flipped), Err(Damage::Header), "byte {at}");
            assert!(SegmentHeader::decode(&bytes[..at]).is_err(), "length {at}");
        }
        let mut later = bytes;
        later[8] = 9;
        let crc = checksum(&later);
        later[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&later), Err(Damage::Version));
    }

    #[test]
    fn each_part_of_the_identity_changes_the_key() {
        let header = header();
        let change = |change: fn(&mut Identity)| {
            let mut identity = header.identity.unwrap();
            change(&mut identity);
            SegmentHeader { identity: Ok(identity), ..header }.mark()
        };
        let keys = [
            header.mark(),
            change(|identity| identity.salt ^= 1 << 63),
            change(|identity| identity.store ^= 1),
            change(|identity| identity.owner = Owner::of("FIX.4.4-A-C")),
            SegmentHeader { number: 5, ..header }.mark(),
        ];
        for (n, key) in keys.iter().enumerate() {
            assert!(!keys[..n].contains(key), "{n}");
        }
        assert_eq!(header.mark(), change(|identity| identity.before = 0), "which may change");
    }

    #[test]
    fn names_of_any_length_tell_owners_apart() {
        for len in [1, OWNER_MAX, OWNER_MAX + 1, 4 * OWNER_MAX] {
            let name = "ü".repeat(len / 2);
            let (one, other) = (Owner::of(&format!("{name}1")), Owner::of(&format!("{name}2")));
            assert_ne!(one, other);
            assert!(one.name().starts_with(&name[..name.floor_char_boundary(100.min(len))]));
        }
        assert!(Owner::of("").is_nobody());
    }
}
