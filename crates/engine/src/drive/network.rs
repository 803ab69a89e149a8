//! Finds stores that lie on no file system of this host. On a network file system the lock may hold
//! on this host alone, so two engines may write the store. A lost connection ends the process by a
//! signal, since stores are mapped into memory.
//!
//! Invariant: what is not known is taken for a file system of this host.

use std::io;
use std::path::Path;

use transfix_store::StoreError;

/// File systems of the network, as statfs(2) names them.
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
/// A file system in user space: it may lie anywhere.
const FUSE: u32 = 0x6573_5546;

/// Refuses a store on a file system of the network, unless it is allowed there. Returns what the
/// log is to say of one that may be such a file system.
pub(crate) fn check(dir: &Path, is_allowed: bool) -> Result<Option<&'static str>, StoreError> {
    check_kind(dir, file_system(existing(dir)), is_allowed)
}

fn check_kind(dir: &Path, kind: u32, is_allowed: bool) -> Result<Option<&'static str>, StoreError> {
    if is_allowed {
        return Ok(None);
    }
    if kind == FUSE {
        return Ok(Some(
            "a FUSE file system: make sure that it is of this host, or allow it by \
             `allow_network_store = true`",
        ));
    }
    let Some((_, name)) = NETWORK.iter().find(|(of, _)| *of == kind) else { return Ok(None) };
    let dir = dir.display();
    Err(StoreError::Own(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "{dir} lies on a network file system ({name}): another host may write it, and a lost \
             connection ends the process; use a disk of this host, or set allow_network_store = \
             true",
        ),
    )))
}

/// Returns true if it lies on a file system that the machine keeps in memory alone.
pub(crate) fn is_in_memory(dir: &Path) -> bool {
    is_memory(file_system(existing(dir)))
}

/// tmpfs and ramfs.
const fn is_memory(kind: u32) -> bool {
    matches!(kind, 0x0102_1994 | 0x8584_58f6)
}

/// A directory that is not there yet comes to lie where the one above it is.
fn existing(dir: &Path) -> &Path {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."))
}

#[cfg(target_os = "linux")]
fn file_system(dir: &Path) -> u32 {
    // The type has another width on each machine; its numbers have 32 bits.
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
        // The path exists, or its parent directory does.
        assert!(check(Path::new("/nowhere/at/all"), false).is_ok());
    }
}
