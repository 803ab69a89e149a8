//! Passwords of which the settings have nothing but a hash: Argon2 (RFC 9106), written as a PHC
//! string such as `$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$…`.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params};
use transfix_session::Secret;

/// Most memory that one check may take, in KiB: the settings are trusted, but not to stop the
/// machine.
const MEMORY_KIB_MAX: u32 = 1 << 20;
/// Most passes over it.
const PASSES_MAX: u32 = 100;

/// The hash of a password for the key `logon.expected_password_hash`: Argon2id with 19 MiB, two
/// passes and a random salt (the first choice of the OWASP Password Storage Cheat Sheet). To
/// check one takes some 20 ms.
///
/// # Errors
/// If the system has no random numbers, or no memory.
pub fn hash_password(password: &str) -> Result<Secret, String> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| Secret::new(hash.to_string())).map_err(|error| error.to_string())
}

/// Whether it is the Argon2 hash of this password, as a PHC string. It takes some 20 ms.
#[must_use]
pub fn is_of(hash: &str, password: impl AsRef<[u8]>) -> bool {
    let parsed = PasswordHash::new(hash);
    parsed.is_ok_and(|hash| Argon2::default().verify_password(password.as_ref(), &hash).is_ok())
}

/// What is wrong with a hash.
pub(crate) fn check(hash: &str) -> Result<(), String> {
    let form = "logon.expected_password_hash is a hash by Argon2, such as \
                $argon2id$v=19$m=19456,t=2,p=1$SALT$HASH; `transfix password` writes it";
    let parsed = PasswordHash::new(hash).map_err(|_| form.to_owned())?;
    let is_argon = Algorithm::try_from(parsed.algorithm.as_str()).is_ok();
    let params = Params::try_from(&parsed).map_err(|_| form.to_owned())?;
    if !is_argon || parsed.hash.is_none() || parsed.salt.is_none() {
        return Err(form.to_owned());
    }
    if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX {
        return Err(format!(
            "logon.expected_password_hash: at most m={MEMORY_KIB_MAX} and t={PASSES_MAX}, or each \
             check takes too much"
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
        // Debian's `argon2`: `printf sesame | argon2 saltsalt -id -t 1 -k 64 -p 2 -e`, and with
        // `-i -t 3 -p 1`.
        for hash in [
            "$argon2id$v=19$m=64,t=1,p=2$c2FsdHNhbHQ$o83BTm/03R3cgwjnIrQwOQ9VyBcMwK+dHitsV0XK9p4",
            "$argon2i$v=19$m=64,t=3,p=1$c2FsdHNhbHQ$DhNBUaL/gIlX32gmc5P2/x/l9Xa6WGwvgi/qXSPD8cs",
        ] {
            assert_eq!(check(hash), Ok(()));
            assert!(is_of(hash, b"sesame") && !is_of(hash, b"Sesame"), "{hash}");
        }
    }

    #[test]
    fn what_is_no_hash_is_told() {
        for (text, expected) in [
            ("sesame", "is a hash by Argon2"),
            ("", "is a hash by Argon2"),
            ("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ", "is a hash by Argon2"),
            ("$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW", "is a hash by Argon2"),
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
