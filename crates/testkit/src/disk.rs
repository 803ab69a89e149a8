//! An in-memory disk that simulates crashes. The disk tracks which bytes are written and which are
//! synced to the device. A fuse ends the process or cuts the power at a chosen disk operation.
//!
//! Invariants: written bytes survive a process end, except that the last write may be torn at any
//! byte. Synced bytes survive a power failure. Each unsynced sector and file name is kept, lost or
//! torn. An ended process changes nothing on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use transfix_store::{Disk, Durability, Map, Syncer};

use crate::random::Random;

/// The number of bytes in a sector, the unit in which a device writes or tears data.
const SECTOR: usize = 512;

/// The effect of the disk operation at which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process ends before the operation, which has no effect.
    Before,
    /// The process ends during the operation: only some of its bytes are written.
    Torn,
    /// The process ends after the operation has completed.
    After,
}

/// The part of the machine that fails in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Only the process ends: written bytes are kept.
    Process,
    /// The power fails: unsynced bytes may be lost.
    Power,
}

/// A persistent fault of the disk, which lasts until the disk is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk has no space for another file.
    Full,
    /// Syncs fail, so no more bytes reach the device.
    FailingSync,
    /// Files cannot be created, renamed or removed.
    ReadOnly,
    /// The device is missing, so even opening a file fails.
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    device: Vec<u8>,
}

/// A change of file names that is not yet synced.
#[derive(Clone, Debug)]
enum Naming {
    Made(PathBuf, u64),
    /// A rename from the first path to the second. The inode identifies the file, because another
    /// file may have had the same name before.
    Renamed(PathBuf, PathBuf, u64),
    Removed(PathBuf),
}

struct State {
    random: Random,
    names: BTreeMap<PathBuf, u64>,
    device_names: BTreeMap<PathBuf, u64>,
    unsynced: Vec<Naming>,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    locks: BTreeSet<PathBuf>,
    /// The number of random numbers that stores have drawn.
    drawn: u64,
    /// The generation of the current process. Files, locks and maps of an earlier generation have
    /// no effect.
    generation: u64,
    events: u64,
    fuse: Option<(u64, End)>,
    ended: bool,
    disk_fault: Option<DiskFault>,
    failed: bool,
    /// The number of syncs that may still complete. With `None`, every sync completes and runs in
    /// the committing thread.
    syncs: Option<u64>,
    on_end: Box<dyn Fn() + Send>,
}

/// A simulated disk; clones share the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<(Mutex<State>, Condvar)>);

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock_state().names.keys()).finish()
    }
}

impl SimDisk {
    /// Creates an empty disk. The disk calls `on_end` when a fuse ends the process.
    #[must_use]
    pub fn new(random: Random, on_end: Box<dyn Fn() + Send>) -> Self {
        let state = Mutex::new(State {
            random,
            names: BTreeMap::new(),
            device_names: BTreeMap::new(),
            unsynced: Vec::new(),
            inodes: BTreeMap::new(),
            next_inode: 0,
            locks: BTreeSet::new(),
            drawn: 0,
            generation: 0,
            events: 0,
            fuse: None,
            ended: false,
            disk_fault: None,
            failed: false,
            syncs: None,
            on_end,
        });
        Self(Arc::new((state, Condvar::new())))
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the fuse: the process ends at the `events`-th disk operation from now, as `end` says.
    pub fn arm(&self, events: u64, end: End) {
        let mut state = self.lock_state();
        state.fuse = Some((state.events + events, end));
    }

    /// Returns the number of disk operations so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.lock_state().events
    }

    /// Returns true if the fuse has ended the process.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.lock_state().ended
    }

    /// Sets a fault of the disk; `None` repairs the disk.
    pub fn set_fault(&self, disk_fault: Option<DiskFault>) {
        self.lock_state().disk_fault = disk_fault;
    }

    /// Returns true if the disk has a fault.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.lock_state().disk_fault.is_some()
    }

    /// Stores opened after this call sync their commits in a separate thread. `syncs` of these
    /// syncs complete; further syncs block until more are allowed.
    pub fn allow_syncs(&self, syncs: u64) {
        self.lock_state().syncs = Some(syncs);
        self.0.1.notify_all();
    }

    /// Lets `syncs` more syncs complete.
    pub fn allow_more_syncs(&self, syncs: u64) {
        let mut state = self.lock_state();
        state.syncs = state.syncs.map(|allowed| allowed.saturating_add(syncs));
        self.0.1.notify_all();
    }

    /// Returns true if a disk operation has failed since the last start.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.lock_state().failed
    }

    /// Simulates a crash of this kind, and gives the remaining contents of the disk to a new
    /// process.
    pub fn restart(&self, crash: Crash) {
        let mut state = self.lock_state();
        if crash == Crash::Power {
            state.lose_power();
        }
        state.generation += 1;
        state.locks.clear();
        state.fuse = None;
        state.ended = false;
        state.failed = false;
    }
}

/// The part of a disk operation that takes effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    All,
    Part,
    Nothing,
}

impl State {
    /// Counts one disk operation and returns the part that takes effect. If the fuse is due, the
    /// process ends here.
    fn event(&mut self) -> Takes {
        if self.ended {
            return Takes::Nothing;
        }
        self.events += 1;
        let Some((_, end)) = self.fuse.filter(|(at, _)| *at == self.events) else {
            return Takes::All;
        };
        self.ended = true;
        (self.on_end)();
        match end {
            End::Before => Takes::Nothing,
            End::Torn => Takes::Part,
            End::After => Takes::All,
        }
    }

    fn fail<T>(&mut self, kind: io::ErrorKind) -> io::Result<T> {
        self.failed = true;
        Err(kind.into())
    }

    fn inode(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn apply(names: &mut BTreeMap<PathBuf, u64>, naming: &Naming) {
        match naming {
            Naming::Made(path, inode) => _ = names.insert(path.clone(), *inode),
            Naming::Renamed(from, to, inode) => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            Naming::Removed(path) => _ = names.remove(path),
        }
    }

    fn name(&mut self, naming: Naming) {
        Self::apply(&mut self.names, &naming);
        self.unsynced.push(naming);
    }

    /// Copies the bytes of a memory map into the file, from the offset `start`. A torn write copies
    /// only some of the bytes.
    fn write(&mut self, inode: u64, start: usize, bytes: &[u8], takes: Takes) {
        let Some(inode) = self.inodes.get_mut(&inode) else { return };
        let end = match takes {
            Takes::Nothing => return,
            Takes::All => bytes.len(),
            Takes::Part => start + self.random.below(bytes.len() - start + 1),
        };
        inode.bytes[start..end].copy_from_slice(&bytes[start..end]);
    }

    fn lose_power(&mut self) {
        for naming in std::mem::take(&mut self.unsynced) {
            if self.random.below(2) == 0 {
                Self::apply(&mut self.device_names, &naming);
            }
        }
        self.names = self.device_names.clone();
        let random = &mut self.random;
        for inode in self.inodes.values_mut() {
            let never_synced = inode.device.len() < inode.bytes.len();
            if never_synced && random.below(4) == 0 {
                inode.bytes.truncate(inode.device.len());
            }
            inode.device.resize(inode.bytes.len(), 0);
            for (new, old) in inode.bytes.chunks_mut(SECTOR).zip(inode.device.chunks(SECTOR)) {
                if new == old {
                    continue;
                }
                match random.below(3) {
                    0 => {}
                    1 => new.copy_from_slice(old),
                    _ => {
                        let at = random.below(new.len());
                        new[at..].copy_from_slice(&old[at..]);
                    }
                }
            }
            inode.device.clone_from(&inode.bytes);
        }
    }
}

/// A lock on a file. The lock ends when the value is dropped or its process ends.
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    generation: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.lock_state();
        if state.generation == self.generation {
            state.locks.remove(&self.path);
        }
    }
}

/// A memory-mapped file of one process on the simulated disk.
pub struct SimMap {
    disk: SimDisk,
    inode: u64,
    generation: u64,
    bytes: Vec<u8>,
}

impl fmt::Debug for SimMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} of {} bytes", self.inode, self.bytes.len())
    }
}

impl SimMap {
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.disk.lock_state()).filter(|state| state.generation == self.generation)
    }
}

impl Deref for SimMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for SimMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Syncs a file of one process on the simulated disk.
#[derive(Debug)]
pub struct SimSyncer {
    disk: SimDisk,
    inode: u64,
    generation: u64,
    /// True for the syncs that the store runs in a separate thread; the number of such syncs may be
    /// limited.
    is_behind: bool,
}

impl Syncer for SimSyncer {
    fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        let mut state = self.disk.lock_state();
        while self.is_behind && state.syncs == Some(0) {
            state = self.disk.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if self.is_behind {
            state.syncs = state.syncs.map(|allowed| allowed - 1);
        }
        if state.generation != self.generation {
            return Ok(());
        }
        if state.disk_fault == Some(DiskFault::FailingSync) {
            return state.fail(io::ErrorKind::Other);
        }
        if state.event() == Takes::All
            && let Some(inode) = state.inodes.get_mut(&self.inode)
        {
            let start = start / SECTOR * SECTOR;
            let end = end.next_multiple_of(SECTOR).min(inode.bytes.len());
            inode.device.resize(inode.bytes.len(), 0);
            inode.device[start..end].copy_from_slice(&inode.bytes[start..end]);
        }
        Ok(())
    }
}

impl Map for SimMap {
    type Syncer = SimSyncer;

    fn publish(&mut self, at: usize, len: u32) {
        let takes = self.state().map_or(Takes::Nothing, |mut state| state.event());
        // A torn write does not include the length word, because the store writes the length word
        // last.
        if takes == Takes::All {
            self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
        if let Some(mut state) = self.state() {
            state.write(self.inode, at, &self.bytes, takes);
        }
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn settle(&mut self) {
        if let Some(mut state) = self.state() {
            let takes = state.event();
            state.write(self.inode, 0, &self.bytes, takes);
        }
    }

    fn syncer(&self) -> SimSyncer {
        let (disk, inode, generation) = (self.disk.clone(), self.inode, self.generation);
        SimSyncer { disk, inode, generation, is_behind: true }
    }

    fn sync(&mut self, start: usize, end: usize) -> io::Result<()> {
        SimSyncer { is_behind: false, ..self.syncer() }.sync(start, end)
    }
}

impl Disk for SimDisk {
    type Map = SimMap;
    type Lock = SimLock;

    /// Files are not created in advance: the necessary thread would run at moments that the seed
    /// does not determine.
    fn makes_ahead(&self) -> bool {
        false
    }

    fn syncs_behind(&self) -> bool {
        self.lock_state().syncs.is_some()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<SimLock, TryLockError> {
        let mut state = self.lock_state();
        if !state.locks.insert(path.to_path_buf()) {
            return Err(TryLockError::WouldBlock);
        }
        Ok(SimLock { disk: self.clone(), path: path.to_path_buf(), generation: state.generation })
    }

    fn is_locked_at(&self, lock: &SimLock, path: &Path) -> io::Result<bool> {
        self.lock_state().inode(path)?;
        Ok(lock.path == path)
    }

    fn is_at(&self, map: &SimMap, path: &Path) -> io::Result<bool> {
        Ok(self.lock_state().inode(path)? == map.inode)
    }

    /// Draws from a separate generator, so that the other random choices of the same seed do not
    /// change.
    fn random(&self) -> u64 {
        let mut state = self.lock_state();
        state.drawn += 1;
        Random::new(state.drawn).next()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.lock_state();
        Ok(state.names.keys().filter(|path| path.parent() == Some(dir)).cloned().collect())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let state = self.lock_state();
        let inode = state.inode(path)?;
        Ok(state.inodes.get(&inode).map_or(0, |inode| inode.bytes.len() as u64))
    }

    fn make(&self, path: &Path, bytes: usize, durability: Durability) -> io::Result<SimMap> {
        let mut state = self.lock_state();
        match state.disk_fault {
            Some(DiskFault::Full) => return state.fail(io::ErrorKind::StorageFull),
            Some(DiskFault::ReadOnly) => return state.fail(io::ErrorKind::ReadOnlyFilesystem),
            Some(DiskFault::Gone) => return state.fail(io::ErrorKind::NotConnected),
            Some(DiskFault::FailingSync) if durability == Durability::Power => {
                return state.fail(io::ErrorKind::Other);
            }
            _ => {}
        }
        let inode = state.next_inode;
        if state.event() == Takes::All {
            state.next_inode += 1;
            let zeros = vec![0; bytes];
            let device = if durability == Durability::Power { zeros.clone() } else { Vec::new() };
            state.inodes.insert(inode, Inode { bytes: zeros, device });
            state.name(Naming::Made(path.to_path_buf(), inode));
        }
        let generation = state.generation;
        Ok(SimMap { disk: self.clone(), inode, generation, bytes: vec![0; bytes] })
    }

    fn open(&self, path: &Path) -> io::Result<SimMap> {
        let mut state = self.lock_state();
        if state.disk_fault == Some(DiskFault::Gone) {
            return state.fail(io::ErrorKind::NotConnected);
        }
        let inode = state.inode(path)?;
        let bytes = state.inodes.get(&inode).map_or_else(Vec::new, |inode| inode.bytes.clone());
        Ok(SimMap { disk: self.clone(), inode, generation: state.generation, bytes })
    }

    fn clear(
        &self,
        _: &Path,
        map: &mut SimMap,
        start: usize,
        durability: Durability,
    ) -> io::Result<()> {
        map.bytes[start..].fill(0);
        let mut state = self.lock_state();
        let takes = state.event();
        state.write(map.inode, start, &map.bytes, takes);
        if takes == Takes::All
            && durability == Durability::Power
            && let Some(inode) = state.inodes.get_mut(&map.inode)
        {
            inode.device.clone_from(&inode.bytes);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        match state.disk_fault {
            Some(DiskFault::ReadOnly) => return state.fail(io::ErrorKind::ReadOnlyFilesystem),
            Some(DiskFault::Gone) => return state.fail(io::ErrorKind::NotConnected),
            _ => {}
        }
        if state.event() == Takes::All {
            let inode = state.inode(from)?;
            state.name(Naming::Renamed(from.to_path_buf(), to.to_path_buf(), inode));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        match state.disk_fault {
            Some(DiskFault::ReadOnly) => return state.fail(io::ErrorKind::ReadOnlyFilesystem),
            Some(DiskFault::Gone) => return state.fail(io::ErrorKind::NotConnected),
            _ => {}
        }
        if state.event() == Takes::All {
            state.name(Naming::Removed(path.to_path_buf()));
        }
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        if state.disk_fault == Some(DiskFault::FailingSync) {
            return state.fail(io::ErrorKind::Other);
        }
        if state.event() == Takes::All {
            state.device_names = state.names.clone();
            state.unsynced.clear();
        }
        Ok(())
    }
}
