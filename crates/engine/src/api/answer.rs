//! An answer to a message that the application gives after its callback has returned.

use std::fmt;
use std::sync::Arc;

use transfix_session::BusinessReject;

use crate::link::later::{Answer, Later};

/// The answer to a message, which any thread may give: see
/// [`SessionRef::answer_later`](crate::SessionRef::answer_later).
///
/// Dropping the value answers that the application is not available, like
/// [`BusinessReject::not_available`]. An answer has no effect if the session has been removed or
/// restarted meanwhile. If the numbers of the session have been reset, a rejection has no
/// RefSeqNum(45); up to FIX 4.1 no rejection is sent then.
pub struct MessageAnswer {
    /// `None` after the answer was given.
    later: Option<Arc<Later>>,
}

impl MessageAnswer {
    pub(crate) const fn new(later: Arc<Later>) -> Self {
        Self { later: Some(later) }
    }

    /// Gives the answer that [`Application::on_message`](crate::Application::on_message) would have
    /// returned. The message then counts as received, and the engine delivers the next one.
    pub fn give(mut self, answer: Result<(), BusinessReject>) {
        self.say(answer);
    }

    fn say(&mut self, answer: Answer) {
        if let Some(later) = self.later.take() {
            later.give(answer);
        }
    }
}

impl Drop for MessageAnswer {
    fn drop(&mut self) {
        self.say(Err(BusinessReject::not_available()));
    }
}

impl fmt::Debug for MessageAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageAnswer").finish_non_exhaustive()
    }
}
