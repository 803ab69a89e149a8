//! The history of one session: what was acknowledged, and the laws about it.

use std::collections::BTreeMap;

use transfix_store::Numbers;

use crate::batch::{Batch, Direction, Kept};

/// A broken law, in words.
pub(super) type Law = Result<(), String>;

/// The acknowledged state of a session at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged {
    /// The numbers after the last acknowledged commit. `created_ns` ascends with each reset.
    numbers: Option<Numbers>,
    /// Acknowledged inbound messages since the last reset, with their times.
    inbound: Vec<(u64, u64)>,
    /// Acknowledged queued messages.
    queued: BTreeMap<u64, Vec<u8>>,
}

/// One take-over that has succeeded: the gateway's life, and when it began and ended.
#[derive(Clone, Copy, Debug)]
struct TakeOver {
    owner: u64,
    began: u64,
    ended: u64,
}

#[derive(Debug, Default)]
pub(super) struct History {
    acknowledged: Acknowledged,
    /// The messages that were or may have been sent, by `created_ns` and MsgSeqNum(34); `None` if
    /// the number was skipped.
    contents: BTreeMap<(u64, u64), Option<Vec<u8>>>,
    /// Age beyond which a message may be missing; 0 means never.
    delete_after: u64,
    /// The time of the latest batch that was tried.
    latest: u64,
    /// The number of messages that were missing because of their age.
    pub(super) deleted: usize,
    /// The highest ticket whose removal from the queue was tried.
    unqueued: u64,
    take_overs: Vec<TakeOver>,
    pub(super) commits: usize,
}

impl History {
    pub(super) fn new(delete_after: u64) -> Self {
        Self { delete_after, ..Self::default() }
    }

    pub(super) fn acknowledged(&self) -> Acknowledged {
        self.acknowledged.clone()
    }

    pub(super) fn take_overs(&self) -> usize {
        self.take_overs.len()
    }

    /// A process tries to write this batch.
    pub(super) fn tries(&mut self, batch: &Batch) {
        self.unqueued = self.unqueued.max(batch.unqueued);
        self.latest = self.latest.max(batch.time_ns);
    }

    /// The process `owner` has begun to take the session over at `began`, and has it now.
    pub(super) fn taken(
        &mut self,
        (owner, began, ended): (u64, u64, u64),
        numbers: Numbers,
        before: &Acknowledged,
    ) -> Law {
        self.take_overs.push(TakeOver { owner, began, ended });
        let Some(known) = before.numbers else { return Ok(()) };
        let is_same = numbers.created_ns == known.created_ns;
        let is_behind = numbers.next_out < known.next_out || numbers.next_in < known.next_in;
        if numbers.created_ns < known.created_ns || is_same && is_behind {
            return Err(format!("{numbers:?} are behind the acknowledged {known:?}"));
        }
        Ok(())
    }

    /// The process `owner` writes this batch since `began`, and the batch is acknowledged.
    pub(super) fn committed(
        &mut self,
        (owner, began): (u64, u64),
        from: Numbers,
        batch: &Batch,
    ) -> Law {
        self.commits += 1;
        let own = self.take_overs.iter().rfind(|taken| taken.owner == owner);
        let since = own.map_or(0, |taken| taken.ended);
        let is_later =
            |taken: &&TakeOver| taken.owner != owner && taken.began > since && taken.ended < began;
        if let Some(later) = self.take_overs.iter().find(is_later) {
            return Err(format!(
                "{owner}, owner since {since}, is acknowledged at {began}, after {later:?}"
            ));
        }
        let numbers = batch.numbers;
        let first = if batch.resets { 1 } else { from.next_out };
        for seq in first..numbers.next_out {
            let content = batch.messages.get(&(Direction::Outbound, seq));
            self.sent(numbers, seq, content.map(|kept| &kept.bytes[..]))?;
        }
        let Acknowledged { numbers: known, inbound, queued } = &mut self.acknowledged;
        if known.is_none_or(|known| known.created_ns != numbers.created_ns) {
            // This batch resets the session, or an earlier one whose acknowledgement was lost.
            inbound.clear();
        }
        *known = Some(numbers);
        let received = batch.messages.iter().filter(|((way, _), _)| *way == Direction::Inbound);
        inbound.extend(received.map(|((_, seq), kept)| (*seq, kept.time_ns)));
        queued.extend(batch.queued.iter().map(|(ticket, kept)| (*ticket, kept.bytes.clone())));
        Ok(())
    }

    /// A process has sent this message, or found it, so it may send it again.
    pub(super) fn sent(&mut self, numbers: Numbers, seq: u64, content: Option<&[u8]>) -> Law {
        let key = (numbers.created_ns, seq);
        let known = self.contents.entry(key).or_insert_with(|| content.map(<[u8]>::to_vec)).clone();
        if known.as_deref() == content {
            return Ok(());
        }
        // A process that is no owner any more may still find a message, which begins with its time.
        let either =
            if known.is_none() || content.is_none() { known.as_deref().or(content) } else { None };
        let time = either.and_then(|text| str::from_utf8(text).ok()?.trim().parse().ok());
        if time.is_some_and(|time| self.is_too_old(time)) {
            self.deleted += 1;
            return Ok(());
        }
        let text = |content: Option<&[u8]>| {
            content.map_or("nothing".to_owned(), |text| String::from_utf8_lossy(text).into_owned())
        };
        Err(format!("{key:?} has two contents: {} and {}", text(known.as_deref()), text(content)))
    }

    /// Returns true if a message of this time may be missing.
    fn is_too_old(&self, time: u64) -> bool {
        self.delete_after > 0 && time + self.delete_after < self.latest
    }

    /// An owner has not found the acknowledged inbound message of this number and time.
    pub(super) fn missed(&mut self, (seq, time): (u64, u64)) -> Law {
        if !self.is_too_old(time) {
            return Err(format!("the inbound message {seq} is lost"));
        }
        self.deleted += 1;
        Ok(())
    }

    /// A new owner has found this queue.
    pub(super) fn found_queue(&self, before: &Acknowledged, found: &[(u64, Kept)]) -> Law {
        for (ticket, bytes) in before.queued.range(self.unqueued + 1..) {
            let kept = found.iter().find(|(at, _)| at == ticket);
            if kept.is_none_or(|(_, kept)| kept.bytes != *bytes) {
                return Err(format!("the queued message {ticket} is lost"));
            }
        }
        Ok(())
    }
}

impl Acknowledged {
    /// Returns the number and the time of an acknowledged inbound message, if the session was not
    /// reset since.
    pub(super) fn inbound(&self, numbers: Numbers, choice: usize) -> Option<(u64, u64)> {
        let is_same = self.numbers.is_some_and(|known| known.created_ns == numbers.created_ns);
        let count = self.inbound.len();
        (is_same && count > 0).then(|| self.inbound[choice % count])
    }
}
