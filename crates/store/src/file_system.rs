//! Detects stores on network file systems. On such a file system, the lock may be effective only on
//! this host, so that two engines could write the store. A lost connection would end the process by
//! a signal, because stores are mapped into memory.
//!
//! Invariant: an unknown file system is treated as local.

use std::io;
use std::path::Path;

use crate::StoreError;

/// Network file systems, by their type numbers in statfs(2).
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0102_1997, "9P"),
];
/// The type number of FUSE, a file system in user space, which may be local or remote.
const FUSE: u32 = 0x6573_5546;

/// Refuses a store on a network file system, unless `is_allowed`. If the file system may be remote,
/// returns a text for the log.
pub fn check(dir: &Path, is_allowed: bool) -> Result<Option<&'static str>, StoreError> {
    check_kind(dir, file_system(existing(dir)), is_allowed)
}

fn check_kind(dir: &Path, kind: u32, is_allowed: bool) -> Result<Option<&'static str>, StoreError> {
    if is_allowed {
        return Ok(None);
    }
    if kind == FUSE {
        return Ok(Some(
            "FUSE may be a network file system: use a local disk, or set `allow_network_store = \
             true`",
        ));
    }
    let Some((_, name)) = NETWORK.iter().find(|(of, _)| *of == kind) else { return Ok(None) };
    let dir = dir.display();
    Err(StoreError::Own(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{dir} lies on a network file system ({name}): another host may write it, and a lost \
             connection ends the process; use a local disk, or set allow_network_store = true",
        ),
    )))
}

/// Returns true if `dir` is on a file system that exists only in memory.
#[must_use]
pub fn is_in_memory(dir: &Path) -> bool {
    is_memory(file_system(existing(dir)))
}

/// Returns true if `kind` is the type number of tmpfs or ramfs.
const fn is_memory(kind: u32) -> bool {
    matches!(kind, 0x0102_1994 | 0x8584_58f6)
}

/// Returns the nearest parent of a missing directory that exists, where the directory will be
/// created.
fn existing(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."))
}

#[cfg(target_os = "linux")]
fn file_system(dir: &Path) -> u32 {
    // The type of this field differs between architectures; the type numbers have 32 bits.
    rustix::fs::statfs(dir).map_or(0, |found| found.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_on_the_network_is_refused_unless_it_is_allowed() {
        let dir = Path::new("store/A");
        for (kind, name) in NETWORK {
            let error = check_kind(dir, *kind, false).unwrap_err().to_string();
            assert!(error.contains(&format!("store/A lies on a network file system ({name})")));
            assert!(error.contains("set allow_network_store = true"), "{error}");
            assert!(check_kind(dir, *kind, true).is_ok());
        }
        let in_memory = [0xef53, 0x0102_1994, FUSE, 0, 0x8584_58f6].map(is_memory);
        assert_eq!(in_memory, [false, true, false, false, true]);
        for kind in [0xef53, 0x0102_1994, FUSE, 0] {
            let doubt = check_kind(dir, kind, false).unwrap();
            assert_eq!(doubt.is_some(), kind == FUSE, "{kind:x}");
        }
        assert_eq!(check_kind(dir, FUSE, true).unwrap(), None);
        // If the directory does not exist, its nearest existing parent is checked.
        assert!(check(Path::new("/nowhere/at/all"), false).is_ok());
    }
}
