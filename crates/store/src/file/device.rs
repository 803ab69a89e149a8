//! Syncs batches of a file store to the device: each by a sync of its own, or many by one sync in a
//! separate thread.
//!
//! **Invariant:** a batch is published only while no sync is in progress. Commits during a sync
//! become one batch.

use std::io;

use super::FileStore;
use crate::Committed;
use crate::batch::Batch;
use crate::disk::{Disk, Map};
use crate::error::StoreError;
use crate::format::{self, BEGIN, END};
use crate::last_batch::Mark;
use crate::place::Place;
use crate::segment::{self, io_error};

impl<D: Disk> FileStore<D> {
    /// Publishes the batch, whose records are sealed, and starts to sync it.
    #[inline(never)]
    pub(super) fn commit_to_device(&mut self) -> Result<Committed, StoreError> {
        let batch = self.batch;
        if self.behind.is_none() {
            let map = self.segments.last();
            map.publish(batch.start, batch.first_len);
            let synced = map.sync(batch.start, batch.tail);
            return synced.map(|()| Committed::Now).map_err(|source| self.sync_failed(source));
        }
        self.look_behind()?;
        let last = Mark::of(self.last_batch, &self.ledger);
        let Some(behind) = &mut self.behind else { return Ok(Committed::Now) };
        behind.note_commit(last);
        let ticket = behind.committed;
        if behind.is_under_way() {
            let gathered = behind.gathered.take();
            let gathered = gathered.map_or(batch, |first| self.join(first, batch));
            if let Some(behind) = &mut self.behind {
                behind.gathered = Some(gathered);
            }
        } else {
            let map = self.segments.last();
            map.publish(batch.start, batch.first_len);
            behind.begin(ticket, map, batch, self.ahead.helpers());
        }
        Ok(Committed::Pending(ticket))
    }

    /// Returns the result of a commit without records.
    #[inline(never)]
    pub(super) fn last_committed(&mut self) -> Result<Committed, StoreError> {
        self.look_behind()?;
        match &self.behind {
            Some(behind) if behind.safe < behind.committed => {
                Ok(Committed::Pending(behind.committed))
            }
            _ => Ok(Committed::Now),
        }
    }

    /// Joins two unpublished batches into one.
    fn join(&mut self, first: Batch, second: Batch) -> Batch {
        let (map, seal) = (self.segments.last(), self.seal);
        let begin = if first.last == first.start { BEGIN } else { 0 };
        let place = &mut map[first.last..first.tail];
        format::seal_record(place, first.last, first.last_len, begin, seal);
        let size = format::size_of(&map[second.start..], second.first_len);
        let place = &mut map[second.start..second.start + size];
        let end = format::flags(place) & END;
        format::seal_record(place, second.start, second.first_len, end, seal);
        // The flags must be written first: a reader that saw the length word with the old flags
        // would find a complete batch.
        map.publish(second.start, second.first_len);
        Batch { tail: second.tail, last: second.last, last_len: second.last_len, ..first }
    }

    /// Returns the first record of the gathered batch, whose length word is not yet written.
    pub(super) fn gathered(&self, place: Place) -> Option<format::Framed<'_>> {
        let gathered = self.behind.as_ref()?.gathered?;
        let (segment, offset) = (u64::from(place.segment), place.offset as usize);
        let is_it = segment == self.segments.last_number() && offset == gathered.start;
        let map = self.segments.maps.last().filter(|_| is_it)?;
        format::sound_record_of(map.get(offset..)?, offset, self.seal, gathered.first_len)
    }

    /// Handles a sync that has ended, and starts the next one.
    pub(super) fn look_behind(&mut self) -> Result<(), StoreError> {
        while let Some(behind) = &mut self.behind
            && let Some(done) = behind.take_done()
        {
            if let Err(source) = done {
                return Err(self.sync_failed(source));
            }
            let Some(batch) = behind.gathered.take() else { continue };
            let (ticket, map) = (behind.committed, self.segments.last());
            map.publish(batch.start, batch.first_len);
            behind.begin(ticket, map, batch, self.ahead.helpers());
        }
        Ok(())
    }

    fn sync_failed(&mut self, source: io::Error) -> StoreError {
        self.poisoned = true;
        io_error(&segment::path(&self.dir, self.segments.last_number()), source)
    }

    /// Waits until all commits are on the device.
    pub(super) fn settle_behind(&mut self) -> Result<(), StoreError> {
        while let Some(behind) = &self.behind
            && behind.is_under_way()
        {
            behind.wait();
            self.look_behind()?;
        }
        Ok(())
    }

    /// Waits for the end of the current sync, and discards the commits after it.
    pub(super) fn abandon_behind(&mut self) {
        if let Some(behind) = &mut self.behind {
            behind.gathered = None;
            behind.wait();
            // The result of the sync does not matter, because the reopened store shows which
            // messages are durable.
            drop(behind.take_done());
        }
    }
}
