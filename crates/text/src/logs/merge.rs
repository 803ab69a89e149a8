//! Merges the files of one log by time, if the log has separate files for each direction.
//!
//! Invariants: the messages of a file keep their order. Received messages precede sent messages
//! with the same time, as in the engine's logs. A few batches per log bound the memory.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::vec;

use transfix_codec::{CheckSumPolicy, FieldIndex, SOH, Timestamp};

use super::origin::logged_time;
use super::report::Report;
use super::sources::{Direction, Kind, Source};
use super::{Reader, one};
use crate::input::{
    Delimiter, Failure, InputError, InputMessage, MessageView, Place, Sink, Wanted, parse,
};

/// The maximum number of messages in a batch. The next constants limit the bytes of a batch and the
/// number of queued batches.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
const BATCHES: usize = 4;

/// A message in a batch.
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    pub(super) head: String,
    pub(super) place: Place,
    pub(super) wrong: Option<InputError>,
    /// The time of the log line or store record; `None` if unknown. SendingTime(52) is not used,
    /// because it is from another clock.
    pub(super) time: Option<Timestamp>,
    pub(super) source: Arc<Source>,
}

impl Held {
    pub(super) fn found(&self) -> InputMessage<'_> {
        let Self { bytes, head, place, wrong, .. } = self;
        InputMessage { bytes, place: *place, head, wrong: *wrong }
    }
}

/// Returns the name of the log to which a source belongs, without the direction in the file name.
pub(super) fn name_of(source: &Source) -> &str {
    let log = &*source.log;
    match (source.kind, source.way) {
        (Kind::Stream, Some(Direction::In)) => log.strip_suffix(".in").unwrap_or(log),
        (Kind::Stream, Some(Direction::Out)) => log.strip_suffix(".out").unwrap_or(log),
        _ => log,
    }
}

/// Groups the sources by log. Each log has a list of files for each direction, in which rolled
/// files come first.
pub(super) fn logs(sources: Vec<Source>) -> Vec<(String, Vec<Vec<Source>>)> {
    let mut logs: Vec<(String, Vec<Vec<Source>>)> = Vec::new();
    for source in sources {
        let name = name_of(&source);
        let at = logs.iter().position(|(known, _)| known == name);
        let at = at.unwrap_or_else(|| {
            logs.push((name.to_owned(), Vec::new()));
            logs.len() - 1
        });
        let files = &mut logs[at].1;
        match files.iter_mut().find(|files| files[0].log == source.log) {
            Some(files) => files.push(source),
            None => files.push(vec![source]),
        }
    }
    logs
}

/// Passes the messages of one log to `take` in order of time. `is_wanted` selects messages by their
/// raw bytes.
pub(super) fn read(
    log: Vec<Vec<Source>>,
    delimiter: Option<Delimiter>,
    report: &mut Report,
    is_wanted: &(dyn Fn(&[u8], u8) -> bool + Sync),
    take: &mut dyn FnMut(&Held) -> Result<(), Failure>,
) -> Result<(), Failure> {
    thread::scope(|scope| {
        let mut readers = Vec::new();
        let mut feeds = Vec::new();
        for files in log {
            let (sender, receiver) = sync_channel(BATCHES);
            let way = files.first().and_then(|source| source.way);
            let report = report.another();
            let read = move || Files::read(&files, delimiter, is_wanted, (report, sender));
            readers.push(scope.spawn(read));
            feeds.push(Feed {
                receiver,
                batch: Vec::new().into_iter(),
                next: None,
                time: None,
                way,
            });
        }
        let done = merged(&mut feeds, take);
        // The readers end when their receivers are dropped.
        drop(feeds);
        for reader in readers {
            let said = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
            report.add(said?);
        }
        done
    })
}

/// The stream of messages from the files of one direction.
struct Feed {
    receiver: Receiver<Vec<Held>>,
    batch: vec::IntoIter<Held>,
    next: Option<Held>,
    /// The time of `next`. If `next` has no time, the last known time.
    time: Option<Timestamp>,
    way: Option<Direction>,
}

impl Feed {
    fn fill(&mut self) {
        while self.next.is_none() {
            self.next = self.batch.next();
            if self.next.is_none() {
                let Ok(batch) = self.receiver.recv() else { return };
                self.batch = batch.into_iter();
            }
        }
        self.time = self.next.as_ref().and_then(|next| next.time).or(self.time);
    }
}

fn merged(
    feeds: &mut [Feed],
    take: &mut dyn FnMut(&Held) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        feeds.iter_mut().for_each(Feed::fill);
        let waiting = feeds.iter_mut().filter(|feed| feed.next.is_some());
        let first = waiting.min_by_key(|feed| (feed.time, feed.way != Some(Direction::In)));
        let Some(held) = first.and_then(|feed| feed.next.take()) else { return Ok(()) };
        take(&held)?;
    }
}

/// Reads the files of one direction in a separate thread.
struct Files<'w> {
    source: Arc<Source>,
    report: Report,
    is_wanted: &'w (dyn Fn(&[u8], u8) -> bool + Sync),
    batch: Vec<Held>,
    batch_bytes: usize,
    sender: SyncSender<Vec<Held>>,
    index: FieldIndex,
}

impl<'w> Files<'w> {
    fn read(
        files: &[Source],
        delimiter: Option<Delimiter>,
        is_wanted: &'w (dyn Fn(&[u8], u8) -> bool + Sync),
        (report, sender): (Report, SyncSender<Vec<Held>>),
    ) -> Result<Report, Failure> {
        let mut all = Files {
            source: Arc::new(Source::new("-".as_ref())),
            report,
            is_wanted,
            batch: Vec::new(),
            batch_bytes: 0,
            sender,
            index: FieldIndex::default(),
        };
        for source in files {
            match one(source, delimiter, &mut all).and_then(|()| all.hand_over()) {
                Ok(()) => {}
                // The receiver has stopped, and itself reports the reason.
                Err(Failure::Enough) => break,
                Err(other) => return Err(other),
            }
        }
        Ok(all.report)
    }

    fn hand_over(&mut self) -> Result<(), Failure> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        match batch.is_empty() {
            true => Ok(()),
            false => self.sender.send(batch).map_err(|_| Failure::Enough),
        }
    }
}

impl Reader for Files<'_> {
    fn begin(&mut self, source: &Source) {
        self.source = Arc::new(source.clone());
        self.report.file = format!("{}: ", source.name);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl Sink for Files<'_> {
    fn glance(&mut self, glance: &MessageView<'_>) -> Wanted {
        let MessageView { bytes, by, .. } = *glance;
        let is_wanted = !super::query::is_sum_right(bytes, by) || (self.is_wanted)(bytes, by);
        self.report.messages += u64::from(!is_wanted);
        if is_wanted { Wanted::Perhaps } else { Wanted::No }
    }

    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.report.messages += 1;
        let sound = parse(found.bytes, &mut self.index, CheckSumPolicy::Verify).map(|_| ());
        if let Some(wrong) = found.wrong.or(sound.err().map(InputError::Garbled)) {
            self.report.garbled(found.place, wrong);
        }
        if !(self.is_wanted)(found.bytes, SOH) {
            return Ok(());
        }
        self.batch_bytes += found.bytes.len();
        self.batch.push(Held {
            bytes: found.bytes.to_vec(),
            head: found.head.to_owned(),
            place: found.place,
            wrong: found.wrong,
            time: logged_time(found.head.as_bytes()),
            source: self.source.clone(),
        });
        let is_full = self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES;
        if is_full { self.hand_over() } else { Ok(()) }
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.report.garbled(place, wrong);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Failure> {
        self.hand_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_log_stand_together() {
        let names = [
            "a.in.20261121-092825.000.log",
            "a.in.log",
            "a.out.log",
            "b.messages.log",
            "other/a.out.log",
            "x.in",
            "x.out",
        ];
        let sources = names.map(|name| Source::new(name.as_ref())).to_vec();
        let found: Vec<_> = logs(sources)
            .into_iter()
            .map(|(name, files)| (name, files.iter().map(Vec::len).collect::<Vec<_>>()))
            .collect();
        let expected =
            [("a", vec![2, 1]), ("b.messages", vec![1]), ("other/a", vec![1]), ("x", vec![1, 1])];
        assert_eq!(found, expected.map(|(name, files)| (name.to_owned(), files)));
    }
}
