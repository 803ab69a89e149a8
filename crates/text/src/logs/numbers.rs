//! Tracks the sequence numbers of one direction: the next expected number, and the missing numbers.

/// The relation of a sequence number to the earlier numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The number is the expected one.
    Next,
    /// The number is too high: the numbers from `first` to `last` are missing before it.
    Gap { first: u64, last: u64 },
    /// The number was already seen in an earlier message.
    Again { number: u64, expected: u64 },
    /// The numbers from `first` to `last` were repeated or filled.
    Resent { first: u64, last: u64 },
    /// The numbers restart at 1.
    Restart,
}

/// The maximum number of gaps that are open at the same time.
const OPEN_MAX: usize = 10_000;

/// The tracker of the sequence numbers of one direction.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The next expected number; `None` before the first message.
    next: Option<u64>,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    pub(super) messages: u64,
    /// The number of sequence numbers that are still missing.
    pub(super) missing: u64,
    /// The open gaps, each with its first number, its last number and the caller's key.
    open: Vec<(u64, u64, usize)>,
}

impl Numbers {
    /// Processes the number of a new message.
    pub(super) fn message(&mut self, number: u64) -> Step {
        self.count(number);
        let next = self.next.unwrap_or(number);
        if number < next {
            return Step::Again { number, expected: next };
        }
        self.next = Some(number.saturating_add(1));
        if number == next { Step::Next } else { Step::Gap { first: next, last: number - 1 } }
    }

    /// Processes the number of a message with PossDupFlag(43)=Y.
    pub(super) fn resent(&mut self, number: u64) -> Step {
        match self.next {
            Some(next) if number < next => {
                self.messages += 1;
                Step::Resent { first: number, last: number }
            }
            _ => self.message(number),
        }
    }

    /// Processes a SequenceReset(4) with GapFillFlag(123)=Y, which replaces the numbers from
    /// `number` up to `new` - 1.
    pub(super) fn fills(&mut self, number: u64, new: u64) -> Vec<Step> {
        self.count(number);
        let next = self.next.unwrap_or(number);
        let mut steps = Vec::new();
        if number > next {
            steps.push(Step::Gap { first: next, last: number - 1 });
        }
        let last = new.saturating_sub(1).max(number);
        if number < next {
            steps.push(Step::Resent { first: number, last: last.min(next - 1) });
        }
        self.next = Some(next.max(last.saturating_add(1)));
        self.last = self.last.max(Some(last));
        steps
    }

    /// Processes a SequenceReset(4) without GapFillFlag(123)=Y, after which `new` is the next
    /// number.
    pub(super) fn reset_to(&mut self, new: u64) {
        self.messages += 1;
        self.next = Some(new);
        self.open.clear();
    }

    /// Processes a Logon(A) with the number 1. Returns `Restart` if a higher number was expected.
    pub(super) fn logon(&mut self) -> Option<Step> {
        let is_restart = self.next.is_some_and(|next| next > 1);
        if is_restart {
            self.restart();
        }
        self.count(1);
        self.next = Some(2);
        is_restart.then_some(Step::Restart)
    }

    /// Restarts the numbers, so that 1 is the next expected number.
    pub(super) fn restart(&mut self) {
        self.next = Some(1);
        self.open.clear();
    }

    /// Raises the next expected number to the number in a store record, which also counts messages
    /// that the store does not contain.
    pub(super) fn set(&mut self, number: u64) {
        self.next = self.next.map(|next| next.max(number));
    }

    /// Opens a gap from `first` to `last`. `word` is the caller's key for the gap.
    pub(super) fn open(&mut self, first: u64, last: u64, word: usize) {
        self.missing = self.missing.saturating_add((last - first).saturating_add(1));
        if self.open.len() < OPEN_MAX {
            self.open.push((first, last, word));
        }
    }

    /// Removes received numbers from the open gaps. Returns the key and the number of filled
    /// numbers for each affected gap.
    pub(super) fn fill(&mut self, first: u64, last: u64) -> Vec<(usize, u64)> {
        let (mut filled, mut left) = (Vec::new(), Vec::new());
        self.open.retain(|&(from, to, word)| {
            let (begin, end) = (from.max(first), to.min(last));
            if begin > end {
                return true;
            }
            filled.push((word, end - begin + 1));
            if from < begin {
                left.push((from, begin - 1, word));
            }
            if end < to {
                left.push((end + 1, to, word));
            }
            false
        });
        self.open.append(&mut left);
        self.missing -= filled.iter().map(|(_, count)| count).sum::<u64>().min(self.missing);
        filled
    }

    fn count(&mut self, number: u64) {
        self.messages += 1;
        self.first = self.first.or(Some(number));
        self.last = self.last.max(Some(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_piece_by_piece() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.message(5), Step::Next, "a log may begin anywhere");
        assert_eq!(numbers.message(6), Step::Next);
        assert_eq!(numbers.message(11), Step::Gap { first: 7, last: 10 });
        numbers.open(7, 10, 0);
        assert_eq!(numbers.missing, 4);
        assert_eq!(numbers.resent(8), Step::Resent { first: 8, last: 8 });
        assert_eq!(numbers.fill(8, 8), [(0, 1)]);
        assert_eq!(numbers.fills(9, 11), [Step::Resent { first: 9, last: 10 }]);
        assert_eq!(numbers.fill(9, 10), [(0, 2)]);
        assert_eq!(numbers.missing, 1);
        assert_eq!(numbers.message(12), Step::Next);
        assert_eq!(numbers.message(12), Step::Again { number: 12, expected: 13 });
        assert_eq!(numbers.fill(1, 100), [(0, 1)]);
        assert_eq!((numbers.missing, numbers.first, numbers.last), (0, Some(5), Some(12)));
    }

    #[test]
    fn fills_and_resets_move_the_next_number() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.message(1), Step::Next);
        assert_eq!(numbers.fills(2, 10), []);
        assert_eq!(numbers.message(10), Step::Next);
        numbers.reset_to(50);
        assert_eq!(numbers.message(50), Step::Next);
        assert_eq!(numbers.logon(), Some(Step::Restart));
        assert_eq!(numbers.message(2), Step::Next);
        numbers.set(7);
        assert_eq!(numbers.message(7), Step::Next);
        numbers.restart();
        assert_eq!(numbers.message(1), Step::Next);
    }

    #[test]
    fn the_largest_numbers_break_nothing() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.message(0), Step::Next);
        assert_eq!(numbers.message(u64::MAX), Step::Gap { first: 1, last: u64::MAX - 1 });
        numbers.open(1, u64::MAX - 1, 0);
        numbers.open(0, u64::MAX, 0);
        assert_eq!(numbers.missing, u64::MAX);
        assert!(!numbers.fills(u64::MAX, 0).is_empty() || numbers.missing > 0);
        assert_eq!(numbers.fill(5, 5).len(), 2);
    }
}
