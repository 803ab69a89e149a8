//! Received bytes that are not parsed as a message: garbled messages, and messages above the length
//! limit.
//!
//! Invariant: no byte within the body that BodyLength(9) declares is parsed as a message, unless
//! the settings enable a search (`search_garbled`).

use transfix_codec::frame::{self, TooLong};
use transfix_codec::{CheckSumPolicy, Garbled};

use crate::core::Core;
use crate::core::event::CoreEvent;
use crate::core::judging::LogonDecision;
use crate::{Disconnect, GarbledPolicy, Now, TooLongPolicy, Verdict};

/// Maximum length of a message that is skipped, in bytes. A longer message ends the session,
/// because skipping it would prevent the session from reading other messages for too long.
const SKIPPED_BYTES_MAX: usize = 64 << 20;

impl Core {
    /// Returns how many bytes are skipped together with the garbled message at the beginning of
    /// `unread`, of which BodyLength(9) covers `covered` bytes. `received` is the number of bytes
    /// received since the last call.
    pub fn lost_with(&mut self, unread: &[u8], covered: usize, received: usize) -> usize {
        if !self.options.search_garbled {
            return covered;
        }
        self.search_budget.earn(received);
        let (limits, budget) = (self.options.limits, &mut self.search_budget);
        frame::message_within(unread, covered, limits, budget).unwrap_or(covered)
    }

    pub fn garbled(&mut self, now: Now, reason: Garbled, bytes: usize) {
        // A Logon(A) that was accepted before this session was created is no longer valid if bytes
        // are skipped.
        if self.judging.has_begun() {
            self.judging = LogonDecision::default();
            self.session.take_offer();
        }
        self.queue_event(now, CoreEvent::Skipped { reason, bytes });
    }

    /// Handles a garbled frame: skips it, or passes it to the session layer if the settings require
    /// a Reject(3).
    pub fn garbled_frame(
        &mut self,
        now: Now,
        frame: &[u8],
        reason: Garbled,
    ) -> Result<(), Disconnect> {
        self.garbled(now, reason, frame.len());
        if self.options.garbled == GarbledPolicy::Skip {
            return Ok(());
        }
        let verdict = self.session.receive_garbled(now, frame, reason, &mut self.out);
        self.act_on_unread(now, &verdict)
    }

    /// Carries out the verdict on bytes that were not parsed as a message.
    fn act_on_unread(&mut self, now: Now, verdict: &Verdict) -> Result<(), Disconnect> {
        self.note_remarks(now);
        if let Verdict::Disconnect(reason) = verdict {
            return Err(*reason);
        }
        // The consumed number may have closed a gap; the next turn of the session then handles the
        // messages held above the gap.
        Ok(())
    }

    /// Handles the beginning of a message that exceeds the length limit; `bytes` is its declared
    /// length. Returns `Ok` if the message is to be skipped.
    ///
    /// # Errors
    /// The reason for which the message ends the session.
    #[cold]
    pub fn begin_too_long(&mut self, now: Now, bytes: usize) -> Result<(), Disconnect> {
        let rejects = self.options.too_long == TooLongPolicy::Reject;
        if rejects && bytes <= SKIPPED_BYTES_MAX {
            return Ok(());
        }
        self.garbled(now, Garbled::TooLong, bytes);
        let bytes_max = self.options.limits.message_bytes_max;
        let why = Disconnect::MessageTooLong { bytes, bytes_max };
        match self.session.refuse_message(now, why, &mut self.out) {
            Verdict::Disconnect(why) => Err(why),
            _ => Ok(()),
        }
    }

    /// Handles the end of a message that exceeds the length limit, after its bytes were skipped.
    #[cold]
    pub fn end_too_long(
        &mut self,
        now: Now,
        message: &TooLong,
        outcome: Result<(), Garbled>,
    ) -> Result<(), Disconnect> {
        let reason = match outcome {
            Ok(()) => Garbled::TooLong,
            // The settings disable the verification of CheckSum(10).
            Err(Garbled::CheckSum) if self.options.check_sum == CheckSumPolicy::Ignore => {
                Garbled::TooLong
            }
            Err(reason) => reason,
        };
        self.garbled(now, reason, message.end());
        if reason != Garbled::TooLong {
            return Ok(());
        }
        let verdict = self.session.receive_too_long(now, message.head(), &mut self.out);
        self.act_on_unread(now, &verdict)
    }
}
