//! The journal of a session, through which records are written to the store and stored messages are
//! read.
//!
//! Invariants: records are put in the order of their causes, and become durable together. Once the
//! store has failed, the journal puts no record until the store is open again.

mod watched;

use std::borrow::Cow;
use std::hint::cold_path;

use transfix_codec::{CheckSumPolicy, FieldIndex, Message, masked, raw, tag};
use transfix_session::core::Keeps;
use transfix_session::core::outgoing::record::Queued;
use transfix_session::{Disconnect, Entry, Kind, Now, Outbox, SessionId};
use transfix_store::{
    Committed, Kind as StoredKind, LOGGED_ON, Numbers, Record, Store, StoreError, Wake,
};

use transfix_observe::published::Published;
use transfix_observe::reasons::LiveReasons;
use watched::WatchedStore;

/// Progress of [`Store::refresh`].
enum Refresh {
    None,
    UnderWay,
    /// The store is refreshed, but the session has not continued from its numbers yet.
    Done,
    /// The store is refreshed, and must still fetch a record that the session needs.
    Waits,
    /// The refresh has failed; the session has not handled the error yet.
    Failed(StoreError),
    /// The refresh has already ended, and a connection still has to take note of it.
    Fresh,
}

/// The store of a session, with what the session has written to it.
pub(crate) struct Journal {
    store: WatchedStore,
    keeps: Keeps,
    /// The next inbound and outbound numbers that were last written.
    put: (u64, u64),
    /// True if the logon of this connection was noted, so that its end must be noted too.
    notes_end: bool,
    refresh: Refresh,
}

impl Journal {
    /// Returns the journal of session `id` in an open store.
    pub(crate) fn new(store: Box<dyn Store>, id: SessionId, keeps: Keeps) -> Self {
        let Numbers { next_in, next_out, .. } = store.numbers();
        let store = WatchedStore::new(store, id);
        Self { store, keeps, put: (next_in, next_out), notes_end: false, refresh: Refresh::None }
    }

    /// Returns the store, to read from it.
    pub(in crate::link) const fn store(&mut self) -> &mut dyn Store {
        &mut self.store
    }

    /// Returns the innermost store, to prefetch its memory.
    pub(super) fn place(&self) -> &dyn Store {
        self.store.inner()
    }

    /// Returns the numbers of the last commit.
    pub(crate) fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    /// Returns the next numbers that were last written, or those of the store if none were written.
    pub(crate) const fn put_numbers(&self) -> (u64, u64) {
        self.put
    }

    pub(super) fn put(&mut self, now: Now, record: Record<'_>) -> Result<(), StoreError> {
        self.store.put(now.utc.0.unsigned_abs(), record)
    }

    /// Adds the session layer's new entries to the batch. Calls `begins_again` for each reset of
    /// the numbers.
    pub(super) fn put_entries(
        &mut self,
        now: Now,
        out: &mut Outbox,
        (published, reasons): (&Published, &LiveReasons),
        mut begins_again: impl FnMut(),
    ) -> Result<(), StoreError> {
        for entry in out.entries() {
            match entry {
                Entry::Frame { seq, kind, range } => {
                    let frame = out.frame(range);
                    self.put_frame(now, (*seq, *kind), frame)?;
                    published.sent(now.utc, frame.len());
                    if let Some(kind @ (b'2' | b'3' | b'j')) = letter(frame) {
                        note_trouble(published, reasons, kind, frame);
                    }
                }
                Entry::Reset(cause) => {
                    cold_path();
                    self.put(now, Record::Reset)?;
                    // Put the note after the reset, because the reset may free the space for the
                    // note.
                    self.note(now, &format!("reset: {cause}"))?;
                    self.put = (1, 1);
                    begins_again();
                }
            }
        }
        out.clear_entries();
        Ok(())
    }

    fn put_frame(
        &mut self,
        now: Now,
        (seq, kind): (u64, Kind),
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let shown;
        let record = match kind {
            // Masks passwords in administrative messages, which are never resent.
            Kind::Admin => {
                cold_path();
                shown = masked(bytes);
                Record::Outbound { seq, kind: StoredKind::Admin, bytes: &shown }
            }
            Kind::Application if !self.keeps.outbound => Record::NextOut(seq + 1),
            Kind::Application => Record::Outbound { seq, kind: StoredKind::Application, bytes },
        };
        self.put(now, record)?;
        self.put.1 = seq + 1;
        Ok(())
    }

    /// Adds the next numbers to the batch, from which a new process would continue.
    pub(super) fn put_next(&mut self, now: Now, numbers: (u64, u64)) -> Result<(), StoreError> {
        if numbers.0 != self.put.0 {
            self.put(now, Record::NextIn(numbers.0))?;
        }
        if numbers.1 != self.put.1 {
            cold_path();
            self.put(now, Record::NextOut(numbers.1))?;
        }
        self.put = numbers;
        Ok(())
    }

    /// Puts a message that the application has accepted, if the settings keep inbound messages.
    #[inline(always)]
    pub(super) fn put_inbound(
        &mut self,
        now: Now,
        message: &Message<'_>,
    ) -> Result<(), StoreError> {
        if !self.keeps.inbound {
            return Ok(());
        }
        let seq = message.msg_seq_num().unwrap_or(0);
        let (kind, bytes) = (StoredKind::Application, message.bytes());
        self.put(now, Record::Inbound { seq, kind, bytes })
    }

    /// Adds a message that waits for a logon to the batch, under `ticket`.
    pub(super) fn put_queued(
        &mut self,
        now: Now,
        ticket: u64,
        message: &Queued<'_>,
    ) -> Result<(), StoreError> {
        let bytes = [b"35=", message.msg_type, b"\x01", message.body].concat();
        self.put(now, Record::Queued { ticket, bytes: &bytes })
    }

    /// Adds a note about an incident of the session to the batch.
    pub(crate) fn note(&mut self, now: Now, text: &str) -> Result<(), StoreError> {
        self.put(now, Record::Note(text))
    }

    /// Notes a logon, so that [`Journal::note_end`] also notes the end of the connection.
    pub(super) fn note_logon(&mut self, now: Now) -> Result<(), StoreError> {
        self.note(now, LOGGED_ON)?;
        self.notes_end = true;
        Ok(())
    }

    /// Notes the end of a connection that had logged on. Failed attempts are not noted, because
    /// they could fill the journal.
    pub(super) fn note_end(&mut self, now: Now, reason: Disconnect) -> Result<(), StoreError> {
        match std::mem::take(&mut self.notes_end) {
            true => self.note(now, &format!("disconnected: {reason}")),
            false => Ok(()),
        }
    }

    /// Commits all records since the last commit together.
    pub(super) fn commit(&mut self) -> Result<Committed, StoreError> {
        self.store.commit()
    }

    /// Returns the ticket of the last durable batch among the pending batches.
    pub(super) fn safe(&mut self) -> Result<u64, StoreError> {
        self.store.safe()
    }

    /// Sets the function that the store calls when pending batches have become durable.
    pub(crate) fn wake_by(&mut self, wake: Wake) {
        self.store.wake_by(wake);
    }

    /// Returns the message sent with the number `seq` from the store, or `None` if it is not
    /// stored.
    pub(crate) fn sent_message(&mut self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.store.outbound(seq)?.map(|stored| stored.bytes.to_vec()))
    }

    /// Returns the MsgType(35) of a sent message, or an empty value if it is unknown or must be
    /// fetched first.
    pub(super) fn sent_msg_type(&mut self, seq: u64) -> Cow<'static, [u8]> {
        let Ok(Some(stored)) = self.store.outbound(seq) else { return Cow::Borrowed(b"") };
        // MsgType(35) is the third field, so the rest of a long message is not searched.
        let msg_type = raw::fields(stored.bytes).nth(2).filter(|field| field.tag == tag::MSG_TYPE);
        msg_type.map_or(Cow::Borrowed(b""), |field| Cow::Owned(field.value.to_vec()))
    }

    /// Returns true if the last message that we sent before the process ended was a Logon(A) with
    /// ResetSeqNumFlag(141)=Y. Until such a Logon(A) is answered, the counterparty may continue
    /// with the old numbers.
    ///
    /// # Errors
    /// [`StoreError::NotYet`] alone.
    pub(super) fn asked_to_reset(&mut self) -> Result<bool, StoreError> {
        if self.numbers().next_in == 1 { asked_to_reset(&mut self.store) } else { Ok(false) }
    }

    /// Returns true if the refresh of the store has ended or failed. Begins a refresh if none is
    /// running.
    pub(super) fn is_refreshed(&mut self) -> bool {
        if matches!(self.refresh, Refresh::None | Refresh::UnderWay) {
            self.refresh = match self.store.refresh() {
                Ok(()) => Refresh::Done,
                Err(StoreError::NotYet) => Refresh::UnderWay,
                Err(error) => Refresh::Failed(error),
            };
        }
        !matches!(self.refresh, Refresh::UnderWay | Refresh::Waits)
    }

    /// Lets the store read the records that another process has written.
    ///
    /// # Errors
    /// [`StoreError::NotYet`]: the refresh is under way. Put no records until the session has
    /// adopted the numbers of the store. Otherwise the error of the store.
    pub(super) fn refresh(&mut self) -> Result<(), StoreError> {
        self.look_again();
        if !self.is_refreshed() {
            return Err(StoreError::NotYet);
        }
        if let Refresh::Failed(error) = std::mem::replace(&mut self.refresh, Refresh::None) {
            return Err(error);
        }
        self.refresh = Refresh::Done;
        Ok(())
    }

    /// Returns true if no record may be added, because a refresh has begun and the session has not
    /// continued from its result yet.
    pub(crate) const fn is_refreshing(&self) -> bool {
        !matches!(self.refresh, Refresh::None | Refresh::Fresh)
    }

    /// Notes that the session waits for the store to fetch a record.
    pub(super) fn wait_for_fetch(&mut self) {
        self.refresh = Refresh::Waits;
    }

    /// Ends the wait for a record, so that the session asks the store again.
    pub(super) fn look_again(&mut self) {
        if matches!(self.refresh, Refresh::Waits) {
            self.refresh = Refresh::Done;
        }
    }

    /// Ends the refresh after the session has adopted the store's state. `is_awaited`: a connection
    /// waits for the refresh.
    pub(super) fn end_refresh(&mut self, is_awaited: bool) {
        self.refresh = if is_awaited { Refresh::Fresh } else { Refresh::None };
    }

    /// Returns true once if the store was refreshed for the waiting connection.
    pub(super) fn take_fresh(&mut self) -> bool {
        let is_fresh = matches!(self.refresh, Refresh::Fresh);
        if is_fresh {
            self.refresh = Refresh::None;
        }
        is_fresh
    }

    /// Continues from the stored numbers and returns them.
    pub(super) fn go_on(&mut self) -> (u64, u64) {
        let Numbers { next_in, next_out, .. } = self.store.numbers();
        self.put = (next_in, next_out);
        self.put
    }

    /// Returns true if the store has failed: the link must close, and the store must be reopened.
    pub(crate) const fn has_failed(&self) -> bool {
        self.store.failure().is_some()
    }

    /// Returns an error if the store is known to have failed.
    pub(super) const fn check(&self) -> Result<(), StoreError> {
        match self.has_failed() {
            true => Err(StoreError::Poisoned),
            false => Ok(()),
        }
    }

    /// Returns the reason why the store accepts no records now.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.store.cause()
    }

    /// Returns the numbers that were durable when the store failed, or `None` if it has not failed.
    pub(super) fn numbers_before_failure(&self) -> Option<Numbers> {
        self.store.failure().map(|failure| failure.numbers)
    }

    /// Returns true if the store failed because a record was larger than it can store.
    pub(super) fn is_too_large(&self) -> bool {
        self.store.failure().is_some_and(|failure| failure.is_too_large)
    }

    /// Marks the store as failed.
    pub(crate) fn fail(&mut self, error: &StoreError) {
        self.store.fail(error);
    }

    /// Suspends puts until the store is reopened, although the store itself has not failed.
    pub(super) fn abandon(&mut self) {
        self.store.abandon();
    }

    /// Gives up a store that has not made its commits durable in time, and returns it.
    pub(super) fn leave(&mut self) -> Box<dyn Store> {
        self.store.leave()
    }

    /// Returns the store at the end of the session; the journal has none afterwards.
    pub(crate) fn retire(&mut self) -> Box<dyn Store> {
        self.store.retire()
    }

    /// Reopens the store after a failure.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        self.store.reopen()
    }

    /// Accepts records again, after the session has continued from the reopened store.
    pub(super) fn is_open_again(&mut self) {
        self.store.go_on();
    }
}

/// Returns the MsgType(35) of a frame that we have encoded, if it is a single letter. Called for
/// each sent frame.
#[inline]
fn letter(frame: &[u8]) -> Option<u8> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // `8=FIX.4.4|9=` has 12 bytes; FIXT.1.1 has one more. Our frames are shorter than 10 MB, so
    // BodyLength(9) has fewer than eight digits and the delimiter is within these 8 bytes.
    let head = u64::from_le_bytes(*frame.get(12..)?.first_chunk()?);
    // Finds the lowest byte that equals the delimiter, which is the only one that becomes 0 in
    // `without`.
    let without = head ^ ONES;
    let end = without.wrapping_sub(ONES) & !without & (ONES << 7);
    let msg_type = frame.get(12 + end.trailing_zeros() as usize / 8 + 1..)?.first_chunk()?;
    match *msg_type {
        [b'3', b'5', b'=', letter, 1] => Some(letter),
        _ => None,
    }
}

/// Counts a frame that reports a problem: ResendRequest(2), Reject(3) or BusinessMessageReject(j).
#[cold]
fn note_trouble(published: &Published, reasons: &LiveReasons, letter: u8, frame: &[u8]) {
    let counters = &published.counters;
    match letter {
        b'2' => counters.resend_requests_out.add(1),
        b'3' => {
            counters.rejects_out.add(1);
            let mut fields = raw::fields(frame);
            let reason = fields.find(|field| field.tag == tag::SESSION_REJECT_REASON);
            reasons.reject_out(reason.map(|field| field.value));
        }
        _ => counters.business_rejects_out.add(1),
    }
}

/// Returns true if the store's first message is a Logon(A) with ResetSeqNumFlag(141)=Y.
fn asked_to_reset(store: &mut dyn Store) -> Result<bool, StoreError> {
    let first = match store.outbound(1) {
        Ok(Some(first)) => first,
        Err(StoreError::NotYet) => return Err(StoreError::NotYet),
        Ok(None) | Err(_) => return Ok(false),
    };
    let mut index = FieldIndex::default();
    let logon = Message::parse(first.bytes, &mut index, CheckSumPolicy::Ignore);
    Ok(logon.is_ok_and(|logon| logon.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_frame_is_found() {
        for (frame, expected) in [
            (&b"8=FIX.4.4\x019=5\x0135=3\x0134=1\x01"[..], Some(b'3')),
            (b"8=FIX.4.0\x019=1234567\x0135=j\x0134=1\x01", Some(b'j')),
            (b"8=FIXT.1.1\x019=5\x0135=2\x0134=1\x01", Some(b'2')),
            (b"8=FIX.4.4\x019=5\x0135=AE\x0134=1\x01", None),
            (b"8=FIX.4.4\x019=5", None),
            (b"8=FIX.4.4\x019=", None),
            (b"", None),
        ] {
            assert_eq!(letter(frame), expected, "{}", String::from_utf8_lossy(frame));
        }
    }
}
