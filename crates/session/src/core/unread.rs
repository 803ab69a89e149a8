//! Bytes that are not read as a message: garbled ones, and messages that are too long.
//!
//! Invariant: no byte within the body that BodyLength(9) declares is taken for a message, unless
//! the settings want a search (`search_garbled`).

use transfix_codec::frame::{self, TooLong};
use transfix_codec::{CheckSumPolicy, Garbled};

use crate::core::Core;
use crate::core::event::CoreEvent;
use crate::core::judging::Judging;
use crate::{Disconnect, GarbledPolicy, Now, TooLongPolicy, Verdict};

/// The longest message that is skipped; a longer one ends the session, which would be deaf for as
/// long as it comes.
const SKIPPED_BYTES_MAX: usize = 64 << 20;

impl Core {
    /// How many of the `covered` bytes of `unread`, which begin with a garbled message, go with it.
    /// `received`: how many bytes have come in since the last call.
    pub fn lost_with(&mut self, unread: &[u8], covered: usize, received: usize) -> usize {
        if !self.options.search_garbled {
            return covered;
        }
        self.search_budget.earn(received);
        let (limits, budget) = (self.options.limits, &mut self.search_budget);
        frame::message_within(unread, covered, limits, budget).unwrap_or(covered)
    }

    pub fn garbled(&mut self, now: Now, reason: Garbled, bytes: usize) {
        // A Logon(A) that was accepted before this session was made is not taken here.
        if self.judging.has_begun() {
            self.judging = Judging::default();
            self.session.take_offer();
        }
        self.queue_event(now, CoreEvent::Skipped { reason, bytes });
    }

    /// A frame that is no sound message: skipped, unless the session rejects such ones.
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

    /// Carries out the verdict on a message that was not read as one.
    fn act_on_unread(&mut self, now: Now, verdict: &Verdict) -> Result<(), Disconnect> {
        self.note_remarks(now);
        if let Verdict::Disconnect(reason) = verdict {
            return Err(*reason);
        }
        // Its number may have closed a gap: the next turn goes on with what was kept above it.
        Ok(())
    }

    /// A message of `bytes` declared bytes begins, more than the session accepts. `Err` if that
    /// ends the session, else the message is to be skipped.
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

    /// A message that is too long has been skipped.
    #[cold]
    pub fn end_too_long(
        &mut self,
        now: Now,
        message: &TooLong,
        outcome: Result<(), Garbled>,
    ) -> Result<(), Disconnect> {
        let reason = match outcome {
            Ok(()) => Garbled::TooLong,
            // The checks of the session do not verify it.
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
