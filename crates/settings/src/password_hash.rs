//! Checks passwords against Argon2 hashes (RFC 9106), which are PHC strings such as
//! `$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$…`.

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use transfix_session::Secret;

/// The maximum memory for one check, in KiB, so that a wrong setting cannot exhaust the machine.
const MEMORY_KIB_MAX: u32 = 1 << 20;
/// The maximum memory that is kept for the next check, in KiB. Larger blocks are returned to the
/// system by the allocator anyway.
const KEPT_KIB_MAX: usize = 32 << 10;
/// The maximum number of passes over the memory.
const PASSES_MAX: u32 = 100;

/// Returns the hash of a password for the key `logon.expected_password_hash`. The hash is Argon2id
/// with 19 MiB, two passes and a random salt, which the OWASP Password Storage Cheat Sheet
/// recommends first. Checking a password against it takes about 20 ms.
///
/// # Errors
/// If the system has no random numbers, or no memory.
pub fn hash_password(password: &str) -> Result<Secret, String> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| Secret::new(hash.to_string())).map_err(|error| error.to_string())
}

/// Returns true if `hash`, a PHC string, is the Argon2 hash of `password`. The check takes about 20
/// ms.
#[must_use]
pub fn is_of(hash: &str, password: impl AsRef<[u8]>) -> bool {
    HashMemory::default().is_of(hash, password.as_ref())
}

/// The memory for a check, which is kept for the next one. If each check allocated it, the
/// allocator would keep as much for each thread.
#[derive(Debug, Default)]
pub struct HashMemory(Vec<Block>);

impl HashMemory {
    /// Returns true if `hash`, a PHC string, is the Argon2 hash of `password`.
    pub fn is_of(&mut self, hash: &str, password: &[u8]) -> bool {
        let is_right = PasswordHash::new(hash).is_ok_and(|hash| self.has(&hash, password));
        if self.kib() > KEPT_KIB_MAX {
            self.0 = Vec::new();
        }
        is_right
    }

    fn has(&mut self, hash: &PasswordHash, password: &[u8]) -> bool {
        let (Some(salt), Some(expected)) = (&hash.salt, &hash.hash) else { return false };
        let (Ok(algorithm), Ok(params)) =
            (Algorithm::try_from(hash.algorithm.as_str()), Params::try_from(hash))
        else {
            return false;
        };
        let version = hash.version.map_or(Ok(Version::default()), Version::try_from);
        let Ok(version) = version else { return false };
        let (blocks, mut found) = (params.block_count(), [0; Output::MAX_LENGTH]);
        if self.0.len() < blocks {
            // Frees the old memory before allocating more, so that the allocator does not copy it.
            self.0 = Vec::new();
            self.0.resize(blocks, Block::new());
        }
        let found = &mut found[..expected.len()];
        let argon = Argon2::new(algorithm, version, params);
        let memory = &mut self.0[..blocks];
        let hashed = argon.hash_password_into_with_memory(password, salt, found, memory);
        // `Output` compares in constant time, so that the time reveals nothing about the hash.
        hashed.is_ok() && Output::new(found).is_ok_and(|found| found == *expected)
    }

    /// Returns the size of the kept memory, in KiB.
    #[must_use]
    pub fn kib(&self) -> usize {
        self.0.len() * Block::SIZE / 1_024
    }
}

/// Checks that a hash is a valid PHC string within the limits.
pub(crate) fn check(hash: &str) -> Result<(), String> {
    let form = "logon.expected_password_hash must be an Argon2 hash, such as \
                $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH; `transfix password` creates one";
    let parsed = PasswordHash::new(hash).map_err(|_| form.to_owned())?;
    let is_argon = Algorithm::try_from(parsed.algorithm.as_str()).is_ok();
    let params = Params::try_from(&parsed).map_err(|_| form.to_owned())?;
    if !is_argon || parsed.hash.is_none() || parsed.salt.is_none() {
        return Err(form.to_owned());
    }
    if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX {
        return Err(format!(
            "logon.expected_password_hash may have at most m={MEMORY_KIB_MAX} and t={PASSES_MAX}, \
             because larger values make each check too expensive"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_its_password_alone() {
        let hash = hash_password("sesame").unwrap();
        assert_ne!(hash.reveal(), hash_password("sesame").unwrap().reveal(), "it has a salt");
        assert_eq!(check(hash.reveal()), Ok(()));
        assert!(is_of(hash.reveal(), b"sesame"));
        assert!(!is_of(hash.reveal(), b"sesam") && !is_of(hash.reveal(), b""));
        assert!(!is_of("sesame", b"sesame"), "no hash is nobody's");
    }

    #[test]
    fn hashes_of_the_reference_program_are_taken() {
        // Hashes from Debian's `argon2`: `printf sesame | argon2 saltsalt -id -t 1 -k 64 -p 2 -e`,
        // and with `-i -t 3 -p 1`.
        for hash in [
            "$argon2id$v=19$m=64,t=1,p=2$c2FsdHNhbHQ$o83BTm/03R3cgwjnIrQwOQ9VyBcMwK+dHitsV0XK9p4",
            "$argon2i$v=19$m=64,t=3,p=1$c2FsdHNhbHQ$DhNBUaL/gIlX32gmc5P2/x/l9Xa6WGwvgi/qXSPD8cs",
        ] {
            assert_eq!(check(hash), Ok(()));
            assert!(is_of(hash, b"sesame") && !is_of(hash, b"Sesame"), "{hash}");
        }
    }

    /// Checks give the same results in memory that other checks have used, with hashes of several
    /// sizes, algorithms and versions.
    #[test]
    fn memory_that_was_used_finds_the_same() {
        let mut memory = HashMemory::default();
        let algorithms = [Algorithm::Argon2d, Algorithm::Argon2i, Algorithm::Argon2id];
        for (n, kib) in [64, 1_024, 8, 300].into_iter().enumerate() {
            for version in [Version::V0x10, Version::V0x13] {
                let params = Params::new(kib, 1 + n as u32 % 2, 1, Some(16 + 8 * n)).unwrap();
                let argon = Argon2::new(algorithms[n % 3], version, params);
                let hash = argon.hash_password(b"sesame").unwrap().to_string();
                assert!(memory.is_of(&hash, b"sesame"), "{hash}");
                assert!(!memory.is_of(&hash, b"Sesame"), "{hash}");
            }
        }
        assert_eq!(memory.kib(), 1_024);
        let params = Params::new(33 << 10, 1, 1, None).unwrap();
        let hash = Argon2::from(params).hash_password(b"sesame").unwrap().to_string();
        assert!(memory.is_of(&hash, b"sesame"));
        assert_eq!(memory.kib(), 0, "so much is not kept");
    }

    #[test]
    fn what_is_no_hash_is_told() {
        for (text, expected) in [
            ("sesame", "must be an Argon2"),
            ("", "must be an Argon2"),
            ("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ", "must be an Argon2"),
            ("$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", "must be an Argon2"),
            (
                "$argon2id$v=19$m=2000000,t=2,p=1$c2FsdHNhbHQ$\
                 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                "at most m=1048576",
            ),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(text.is_empty() || !error.contains(text), "the error does not show it");
        }
    }
}
