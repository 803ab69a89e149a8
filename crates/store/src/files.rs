//! The operating system's file system, as the disk of a store.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::compress;
use crate::disk::Disk;
use crate::file_map::{FileId, FileMap};
use crate::map::no_mapping;
use crate::options::Durability;
use crate::owner_only::{create_dir, for_owner, open_regular, open_regular_with};
use crate::threads;

/// Maximum file length in bytes at which pages are not made present in advance: writing such a file
/// causes some 16 page faults of 1 to 2 µs.
const UNTOUCHED_MAX: usize = 64 << 10;

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Disk for Files {
    type Map = FileMap;
    type Lock = FileLock;

    fn makes_ahead(&self) -> bool {
        true
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        create_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<FileLock, TryLockError> {
        let mut options = for_owner();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = open_regular_with(options, path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        FileLock::of(file).map_err(TryLockError::Error)
    }

    fn is_locked_at(&self, lock: &FileLock, path: &Path) -> io::Result<bool> {
        Ok(FileId::of(&fs::metadata(path)?) == lock.id)
    }

    fn is_at(&self, map: &FileMap, path: &Path) -> io::Result<bool> {
        let found = fs::metadata(path)?;
        Ok(FileId::of(&found) == map.id() && found.len() == map.len() as u64)
    }

    fn random(&self) -> u64 {
        // `RandomState` has a new key each time, derived from random numbers of the operating
        // system.
        RandomState::new().build_hasher().finish()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn make(&self, path: &Path, bytes: usize, durability: Durability) -> io::Result<FileMap> {
        // An existing file is unlinked instead of truncated. Another process may have it mapped,
        // for instance after the directory was moved, and truncation would end that process by a
        // signal.
        drop(fs::remove_file(path));
        let mut options = for_owner();
        let mut file = options.read(true).write(true).create_new(true).open(path)?;
        let made = write_zeros(&mut file, 0, bytes as u64).and_then(|()| {
            if durability == Durability::Power {
                file.sync_all()?;
            }
            FileMap::of(&file)
        });
        match made {
            Ok(mut map) => {
                touch(&mut map, 0);
                Ok(map)
            }
            Err(error) => {
                // An incomplete file would take space that other files need.
                drop(fs::remove_file(path));
                Err(error)
            }
        }
    }

    fn make_over(&self, path: &Path, bytes: usize) -> io::Result<FileMap> {
        let mut options = for_owner();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = open_regular_with(options, path)?;
        write_zeros(&mut file, 0, bytes as u64)?;
        file.set_len(bytes as u64)?;
        FileMap::of(&file)
    }

    fn open(&self, path: &Path) -> io::Result<FileMap> {
        FileMap::of(&open_regular_with(OpenOptions::new().read(true).write(true), path)?)
    }

    fn clear(
        &self,
        path: &Path,
        map: &mut FileMap,
        start: usize,
        durability: Durability,
    ) -> io::Result<()> {
        let mut file = open_regular_with(OpenOptions::new().write(true), path)?;
        write_zeros(&mut file, start as u64, map.len() as u64)?;
        if durability == Durability::Power {
            file.sync_all()?;
        }
        touch(map, start);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn move_to(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy_to(from, to),
            renamed => renamed,
        }
    }

    fn compress(&self, path: &Path) -> io::Result<()> {
        compress::compress(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// Makes the pages from offset `start` on present and writable, unless the file is short. A quiet
/// store thus holds no memory in reserve.
fn touch(map: &mut FileMap, start: usize) {
    if map.len().saturating_sub(start) > UNTOUCHED_MAX {
        map.touch(start);
    }
}

/// Moves a file to another file system by copying it. If the process ends during the copy, the
/// original remains, perhaps together with a complete or partial copy.
fn copy_to(from: &Path, to: &Path) -> io::Result<()> {
    let unfinished = compress::with(to, "new");
    let mut options = for_owner();
    let mut original = open_regular(from)?;
    let mut copy = options.write(true).create(true).truncate(true).open(&unfinished)?;
    let copied = io::copy(&mut original, &mut copy).and_then(|_| copy.sync_all());
    if let Err(error) = copied.and_then(|()| fs::rename(&unfinished, to)) {
        drop(fs::remove_file(&unfinished));
        return Err(error);
    }
    // The name of the copy must be on the device before the original is removed.
    File::open(to.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    fs::remove_file(from)
}

/// The lock on a store's directory.
///
/// On the common file systems of Linux the lock needs no file descriptor; a process has too few for
/// ten thousand stores. flock(2) ties the lock to the open file. The file stays open as long as a
/// page of it is mapped, because closing the descriptor does not unmap the page (mmap(2)). A child
/// process does not inherit that mapping. On other file systems the descriptor stays open, because
/// a mapping may not keep the locked file open. Overlayfs, for example, maps another file than the
/// locked one.
#[derive(Debug)]
pub struct FileLock {
    id: FileId,
    hold: Hold,
}

/// The resource that keeps the file open and thus locked.
#[derive(Debug)]
enum Hold {
    #[cfg(target_os = "linux")]
    Page {
        _page: MmapRaw,
    },
    File(File),
}

/// File systems on which a mapped page keeps the file open, by their type numbers in statfs(2):
/// ext2 to ext4, XFS, btrfs, tmpfs.
#[cfg(target_os = "linux")]
const MAPS_KEEP_FILES: [u32; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];

impl FileLock {
    /// Returns true if the lock of a store in `dir` needs one of the process's file descriptors.
    /// `dir` need not exist yet.
    #[must_use]
    pub fn needs_file(dir: &Path) -> bool {
        #[cfg(target_os = "linux")]
        for dir in dir.ancestors() {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            if let Ok(found) = rustix::fs::statfs(dir) {
                // The type of this field differs between architectures; the type numbers have 32
                // bits.
                return !MAPS_KEEP_FILES.contains(&(found.f_type as u32));
            }
        }
        _ = dir;
        true
    }

    fn of(file: File) -> io::Result<Self> {
        let id = FileId::of(&file.metadata()?);
        #[cfg(target_os = "linux")]
        if MAPS_KEEP_FILES.contains(&(rustix::fs::fstatfs(&file)?.f_type as u32)) {
            // The mapped page is never read, because the file may be empty.
            let page = MmapOptions::new().len(1).map_raw(&file).map_err(no_mapping)?;
            page.advise(Advice::DontFork)?;
            return Ok(Self { id, hold: Hold::Page { _page: page } });
        }
        Ok(Self { id, hold: Hold::File(file) })
    }
}

impl Drop for FileLock {
    /// Unlocks the file explicitly, because a child process that was just started may still have
    /// the file open.
    fn drop(&mut self) {
        match &self.hold {
            #[cfg(target_os = "linux")]
            Hold::Page { .. } => {}
            Hold::File(file) => drop(file.unlock()),
        }
    }
}

/// Writes zeros into `file` from offset `start` to `end`, which allocates the blocks. A full disk
/// is then an error here, instead of a signal later.
pub(crate) fn write_zeros(file: &mut File, start: u64, end: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    file.seek(SeekFrom::Start(start))?;
    let mut left = end.saturating_sub(start);
    while left > 0 {
        let chunk = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..chunk as usize])?;
        left -= chunk;
        threads::give_way();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_owner() {
        let path = std::env::temp_dir().join(format!("transfix-lock-{}", std::process::id()));
        let lock = Files.lock(&path).unwrap();
        assert!(matches!(Files.lock(&path), Err(TryLockError::WouldBlock)));
        drop(lock);
        let again = Files.lock(&path).unwrap();
        assert!(matches!(Files.lock(&path), Err(TryLockError::WouldBlock)));
        drop(again);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_lock_that_keeps_its_file_ends_though_a_child_has_the_file() {
        let path = std::env::temp_dir().join(format!("transfix-kept-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        // A child process shares the open file until it executes its program.
        let child = file.try_clone().unwrap();
        let id = FileId::of(&file.metadata().unwrap());
        drop(FileLock { id, hold: Hold::File(file) });
        let again = Files.lock(&path).unwrap();
        drop(child);
        assert!(matches!(Files.lock(&path), Err(TryLockError::WouldBlock)));
        drop(again);
        fs::remove_file(path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_that_are_not_known_keep_the_file_open() {
        // On procfs a mapping might keep the file open too, but this is untested.
        assert!(FileLock::needs_file(Path::new("/proc/self/nothing/there")));
        assert!(FileLock::needs_file(Path::new("")) == FileLock::needs_file(Path::new(".")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_lock_needs_a_descriptor_only_where_it_says_so() {
        let path = std::env::temp_dir().join(format!("transfix-held-{}", std::process::id()));
        let lock = Files.lock(&path).unwrap();
        let open = |fd: &fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|target| target == path);
        let all = fs::read_dir("/proc/self/fd").unwrap();
        let open = all.filter(|fd| open(fd.as_ref().unwrap())).count();
        assert_eq!(open, usize::from(FileLock::needs_file(&std::env::temp_dir())));
        assert!(matches!(Files.lock(&path), Err(TryLockError::WouldBlock)));
        drop(lock);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_is_made_anew_takes_nothing_from_who_has_the_old_one() {
        let path = std::env::temp_dir().join(format!("transfix-made-{}", std::process::id()));
        let mut old = Files.make(&path, 8192, Durability::Process).unwrap();
        old[5000] = 7;
        let new = Files.make(&path, 4096, Durability::Process).unwrap();
        assert_eq!((old[5000], old.len(), new.len()), (7, 8192, 4096));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_copied_is_there_whole_or_not_at_all() {
        let dir = std::env::temp_dir().join(format!("transfix-copy-{}", std::process::id()));
        create_dir(&dir.join("to")).unwrap();
        let (from, to) = (dir.join("00000007.seg"), dir.join("to/00000007.seg"));
        fs::write(&from, [7; 100_000]).unwrap();
        copy_to(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), [7; 100_000]);
        assert!(!from.exists() && fs::read_dir(dir.join("to")).unwrap().count() == 1);
        assert!(copy_to(&from, &to).is_err(), "there is none");
        assert!(to.exists() && fs::read_dir(dir.join("to")).unwrap().count() == 1);
        fs::remove_dir_all(dir).unwrap();
    }
}
