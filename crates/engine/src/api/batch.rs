//! Batches: messages that a handle sends together with one call.

use std::fmt;

use transfix_codec::{Body, Misuse, Precision};
use transfix_session::{SendError, Sent};

/// Messages of one session that are sent with one call.
/// [`SessionHandle::batch`](crate::SessionHandle::batch) makes a batch, and
/// [`SessionHandle::send_batch`](crate::SessionHandle::send_batch) sends it, any number of times.
#[derive(Clone)]
pub struct Batch {
    bytes: Vec<u8>,
    /// For each message, the end offsets of its MsgType(35) and of its body in `bytes`.
    ends: Vec<(usize, usize)>,
    precision: Precision,
}

impl Batch {
    pub(crate) const fn new(precision: Precision) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), precision }
    }

    /// Adds an application message; `fill` writes its fields.
    ///
    /// # Errors
    /// [`Misuse`]: the batch is unchanged.
    pub fn add(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<(), Misuse> {
        // Removes the bytes that an earlier panic in `fill` may have left behind.
        let begin = self.ends.last().map_or(0, |(_, end)| *end);
        self.bytes.truncate(begin);
        self.bytes.extend_from_slice(msg_type.as_ref());
        let body = self.bytes.len();
        Body::detached(&mut self.bytes, self.precision, fill)?;
        self.ends.push((body, self.bytes.len()));
        Ok(())
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the batch has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all messages and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns the messages before the first one that `pass` refuses, and the reason for that
    /// refusal. `pass` may change the bodies.
    pub(crate) fn passed(
        &self,
        pass: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), SendError>,
    ) -> (Self, Option<SendError>) {
        let (mut passed, mut body) = (Self::new(self.precision), Vec::new());
        for (msg_type, encoded) in self.messages() {
            body.clear();
            body.extend_from_slice(encoded);
            if let Err(refusal) = pass(msg_type, &mut body) {
                return (passed, Some(refusal));
            }
            passed.push(msg_type, &body);
        }
        (passed, None)
    }

    fn push(&mut self, msg_type: &[u8], body: &[u8]) {
        self.bytes.extend_from_slice(msg_type);
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(body);
        self.ends.push((begin, self.bytes.len()));
    }

    /// MsgType(35) and body of each message.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |(body, end)| {
            let message = (&self.bytes[begin..*body], &self.bytes[*body..*end]);
            begin = *end;
            message
        })
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The outcome of a [`Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct BatchSent {
    /// The outcomes of the accepted messages, which are always the first messages of the batch.
    pub sent: Vec<Sent>,
    /// The reason why the message after the accepted ones was refused; later messages were not
    /// tried. `None` if all messages were accepted.
    pub refused: Option<SendError>,
}
