//! The histories of the counterparty, of the gateways' applications and of the store, and their
//! comparison. The counterparty sends orders; the gateways answer each with a report.
//!
//! A gateway that loses the session drops the reports that it has not committed. So a report of an
//! application may be missing in the store, unless the counterparty has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use transfix::codec::{CheckSumPolicy, FieldIndex};
use transfix::{BusinessReject, Message, Store, StoreError, msg_type, tag};

/// An order or a report, as one participant has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// MsgSeqNum(34).
    seq: u64,
    content: Content,
    /// True with PossDupFlag(43)=Y or PossResend(97)=Y.
    is_repeat: bool,
}

/// The content of an order or a report: no two messages have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    /// ClOrdID(11).
    pub(crate) order: u64,
    /// TransactTime(60) of an order, ExecID(17) of a report.
    pub(crate) mark: String,
}

impl Seen {
    /// Reads an order or a report.
    pub(crate) fn of(message: &Message<'_>) -> Result<Self, BusinessReject> {
        let is_order = message.msg_type() == msg_type::NEW_ORDER_SINGLE;
        let mark = if is_order { tag::TRANSACT_TIME } else { tag::EXEC_ID };
        let mark = message.text(mark)?.to_owned();
        Ok(Self {
            seq: message.msg_seq_num()?,
            content: Content { order: message.uint(tag::CL_ORD_ID)?, mark },
            is_repeat: message.flag(tag::POSS_DUP_FLAG)? || message.flag(tag::POSS_RESEND)?,
        })
    }

    /// Returns a message that was sent for the first time.
    pub(crate) fn sent(seq: u64, order: u64, mark: &str) -> Self {
        let content = Content { order, mark: mark.to_owned() };
        Self { seq, content, is_repeat: false }
    }

    pub(crate) fn order(&self) -> u64 {
        self.content.order
    }
}

/// The messages of a journal, with the numbers that it lacks.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) messages: Vec<Seen>,
    /// Next number of the other direction.
    pub(crate) next_in: u64,
    holes: usize,
}

impl Journal {
    /// Reads all orders or reports that a session has sent.
    ///
    /// # Errors
    /// The store cannot be read, or a message is damaged.
    pub(crate) fn read(store: &mut dyn Store) -> Result<Self, String> {
        let numbers = store.numbers();
        let mut journal = Self { next_in: numbers.next_in, ..Self::default() };
        let mut index = FieldIndex::default();
        for seq in 1..numbers.next_out {
            let stored = loop {
                match store.outbound(seq) {
                    Err(StoreError::NotYet) => std::thread::yield_now(),
                    other => break other.map_err(|error| error.to_string())?,
                }
            };
            let Some(stored) = stored else {
                journal.holes += 1;
                continue;
            };
            let message = Message::parse(stored.bytes, &mut index, CheckSumPolicy::Verify);
            let message = message.map_err(|error| format!("message {seq}: {error}"))?;
            let is_own = [msg_type::NEW_ORDER_SINGLE, msg_type::EXECUTION_REPORT];
            if is_own.contains(&message.msg_type()) {
                let seen = Seen::of(&message).map_err(|_| format!("message {seq}: no order"))?;
                journal.messages.push(seen);
            }
        }
        Ok(journal)
    }
}

/// The file in which the application of a gateway notes the messages that it receives and sends.
/// The notes survive `kill -9`.
#[derive(Clone)]
pub(crate) struct Notes(Arc<File>);

impl Notes {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let file = File::options().create(true).append(true).open(path);
        file.map(|file| Self(Arc::new(file)))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn received(&self, order: &Seen) -> std::io::Result<()> {
        self.write("received", order)
    }

    pub(crate) fn sent(&self, report: &Seen) -> std::io::Result<()> {
        self.write("sent", report)
    }

    fn write(&self, verb: &str, seen: &Seen) -> std::io::Result<()> {
        let Seen { seq, content: Content { order, mark }, is_repeat } = seen;
        let kind = if *is_repeat { "again" } else { "first" };
        // One call writes the whole line.
        (&*self.0).write_all(format!("{verb} {kind} {seq} {order} {mark}\n").as_bytes())
    }
}

/// The messages of all participants. The gateways' applications are one participant.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// The orders in the journal of the counterparty.
    pub(crate) orders_sent: Journal,
    /// The orders that the applications have received.
    pub(crate) orders_received: Vec<Seen>,
    /// The reports that the applications have sent.
    pub(crate) reports_sent: Vec<Seen>,
    /// The reports in the store of the fleet.
    pub(crate) reports_stored: Journal,
    /// The reports that the counterparty's application has received.
    pub(crate) reports_received: Vec<Seen>,
}

/// Violations that must never happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Violations {
    /// Acknowledged messages that a participant does not have.
    pub(crate) lost: usize,
    /// Orders with two answers, and messages that an application received twice without
    /// PossDupFlag(43) or PossResend(97).
    pub(crate) doubled: usize,
    /// Numbers with two contents.
    pub(crate) reused: usize,
}

impl Histories {
    /// Adds the notes of a gateway.
    ///
    /// # Errors
    /// The file cannot be read, or a line is no note.
    pub(crate) fn add_notes(&mut self, path: &Path) -> Result<(), String> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        for line in text.lines() {
            let (verb, seen) = note(line).ok_or_else(|| format!("{shown}: {line}"))?;
            if verb == "sent" {
                self.reports_sent.push(seen);
            } else {
                self.orders_received.push(seen);
            }
        }
        Ok(())
    }

    /// Compares all histories.
    pub(crate) fn compare(&self) -> Violations {
        let mut found = Violations {
            lost: self.orders_sent.holes + self.reports_stored.holes,
            ..Violations::default()
        };
        // Both sides have confirmed the numbers below their next inbound number.
        found.compare_direction(
            &self.orders_sent,
            &self.orders_received,
            self.reports_stored.next_in,
        );
        found.compare_direction(
            &self.reports_stored,
            &self.reports_received,
            self.orders_sent.next_in,
        );
        let of_applications: BTreeSet<_> =
            self.reports_sent.iter().map(|seen| (seen.seq, &seen.content)).collect();
        let mut answers = BTreeMap::<u64, BTreeSet<_>>::new();
        for report in &self.reports_stored.messages {
            let answer = (report.seq, &report.content);
            found.reused += usize::from(!of_applications.contains(&answer));
            answers.entry(report.order()).or_default().insert(answer);
        }
        for report in &self.reports_received {
            answers.entry(report.order()).or_default().insert((report.seq, &report.content));
        }
        found.doubled += answers.values().map(|answers| answers.len() - 1).sum::<usize>();
        found
    }
}

fn note(line: &str) -> Option<(&str, Seen)> {
    let mut words = line.splitn(5, ' ');
    let (verb, kind) = (words.next()?, words.next()?);
    let (seq, order) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let content = Content { order, mark: words.next()?.to_owned() };
    Some((verb, Seen { seq, content, is_repeat: kind == "again" }))
}

impl Violations {
    /// Compares the messages that one side has sent with those that the applications of the other
    /// side have received. `confirmed` is the next number that the other side expects.
    fn compare_direction(&mut self, sent: &Journal, received: &[Seen], confirmed: u64) {
        let sent: BTreeMap<_, _> =
            sent.messages.iter().map(|seen| (seen.seq, &seen.content)).collect();
        let mut contents = BTreeMap::<u64, BTreeSet<&Content>>::new();
        let mut firsts = BTreeSet::new();
        for seen in received {
            contents.entry(seen.seq).or_default().insert(&seen.content);
            self.doubled += usize::from(!seen.is_repeat && !firsts.insert(seen.seq));
        }
        self.lost += sent.range(..confirmed).filter(|(seq, _)| !contents.contains_key(seq)).count();
        for (seq, mut contents) in contents {
            match sent.get(&seq) {
                Some(content) => _ = contents.insert(content),
                None => self.lost += 1,
            }
            self.reused += contents.len() - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(seq: u64, order: u64, mark: &str) -> Seen {
        Seen { is_repeat: true, ..Seen::sent(seq, order, mark) }
    }

    /// Three orders and their reports. The second order came again to another gateway, whose report
    /// replaces one that was never sent.
    fn sound() -> Histories {
        let orders = [(2, 1, "t1"), (3, 2, "t2"), (4, 3, "t3")];
        let reports = [(2, 1, "a-1"), (3, 2, "b-1"), (4, 3, "b-2")];
        let all = |list: [(u64, u64, &str); 3]| -> Vec<_> {
            list.into_iter().map(|(seq, order, mark)| Seen::sent(seq, order, mark)).collect()
        };
        let journal = |messages| Journal { messages, next_in: 5, holes: 0 };
        let mut histories = Histories {
            orders_sent: journal(all(orders)),
            orders_received: all(orders),
            reports_sent: all(reports),
            reports_stored: journal(all(reports)),
            reports_received: all(reports),
        };
        histories.orders_received.push(repeated(3, 2, "t2"));
        histories.reports_sent.push(Seen::sent(3, 2, "a-2"));
        histories
    }

    /// Compares sound histories after a change.
    fn compare(change: impl FnOnce(&mut Histories)) -> (usize, usize, usize) {
        let mut histories = sound();
        change(&mut histories);
        let Violations { lost, doubled, reused } = histories.compare();
        (lost, doubled, reused)
    }

    #[test]
    fn sound_histories_have_no_violation() {
        assert_eq!(compare(|_| ()), (0, 0, 0));
        // A message that nobody has confirmed may be missing.
        let unconfirmed = compare(|all| {
            all.orders_sent.messages.push(Seen::sent(5, 4, "t4"));
            all.reports_stored.messages.push(Seen::sent(5, 4, "b-3"));
            all.reports_sent.push(Seen::sent(5, 4, "b-3"));
        });
        assert_eq!(unconfirmed, (0, 0, 0));
    }

    #[test]
    fn a_lost_message_is_found() {
        assert_eq!(compare(|all| _ = all.reports_stored.messages.pop()), (1, 0, 0));
        assert_eq!(compare(|all| _ = all.reports_received.pop()), (1, 0, 0));
        assert_eq!(compare(|all| _ = all.orders_received.remove(0)), (1, 0, 0));
        assert_eq!(compare(|all| _ = all.orders_sent.messages.pop()), (1, 0, 0));
        assert_eq!(compare(|all| all.orders_sent.holes = 1), (1, 0, 0));
        assert_eq!(compare(|all| all.reports_stored.holes = 2), (2, 0, 0));
    }

    #[test]
    fn a_doubled_message_is_found() {
        assert_eq!(compare(|all| all.orders_received.push(Seen::sent(3, 2, "t2"))), (0, 1, 0));
        assert_eq!(compare(|all| all.reports_received.push(Seen::sent(2, 1, "a-1"))), (0, 1, 0));
        assert_eq!(compare(|all| all.reports_received.push(repeated(2, 1, "a-1"))), (0, 0, 0));
        let answered_twice = compare(|all| {
            let second = Seen::sent(5, 3, "b-3");
            all.reports_sent.push(second.clone());
            all.reports_stored.messages.push(second);
        });
        assert_eq!(answered_twice, (0, 1, 0));
    }

    #[test]
    fn a_number_with_two_contents_is_found() {
        let second_order = compare(|all| all.orders_received.push(repeated(3, 2, "t9")));
        assert_eq!(second_order, (0, 0, 1));
        let sent = compare(|all| all.reports_received[1] = Seen::sent(3, 2, "a-2"));
        assert_eq!(sent, (0, 1, 1), "the store has another report, so the order has two answers");
        let changed = compare(|all| all.reports_stored.messages[1] = Seen::sent(3, 2, "x-1"));
        assert_eq!(changed, (0, 1, 2), "no application has sent it, and nobody received it");
        let of_no_application = compare(|all| _ = all.reports_sent.remove(1));
        assert_eq!(of_no_application, (0, 0, 1));
    }

    #[test]
    fn notes_are_read_as_they_were_written() {
        let path = std::env::temp_dir().join(format!("transfix-notes-{}", std::process::id()));
        let notes = Notes::open(&path).unwrap();
        let (order, report) = (repeated(3, 2, "20261129-12:00:00.1"), Seen::sent(4, 2, "a-1"));
        notes.received(&order).unwrap();
        notes.sent(&report).unwrap();
        let mut histories = Histories::default();
        histories.add_notes(&path).unwrap();
        let wrong = (&*notes.0).write_all(b"received first x\n");
        let refused = histories.add_notes(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(histories.orders_received[0], order);
        assert_eq!(histories.reports_sent[0], report);
        wrong.unwrap();
        refused.unwrap_err();
    }
}
