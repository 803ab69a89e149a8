//! Feeds arbitrary bytes, and events in any order, to a session of any version, role and settings.
//! The session never panics, its memory and output stay in proportion to the input, and garbled
//! bytes are not answered.
#![no_main]

mod application;
mod pure;
mod settings;
mod whole;

use libfuzzer_sys::fuzz_target;
use transfix_session::MSG_SEQ_NUM_MAX;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    match input.byte() & 1 {
        0 => pure::run(input),
        _ => whole::run(input),
    }
});

/// The rest of the input, from which choices are made.
pub(crate) struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn take(&mut self, n: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns a number, either small or extreme.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => MSG_SEQ_NUM_MAX,
            253 => 999_999,
            n => u64::from(n),
        }
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns bytes for the fields of a message, with a bar in the input standing for the
    /// delimiter.
    pub(crate) fn fields(&mut self) -> Vec<u8> {
        let n = usize::from(self.byte() % 64);
        self.take(n).iter().map(|&b| if b == b'|' { 1 } else { b }).collect()
    }
}
