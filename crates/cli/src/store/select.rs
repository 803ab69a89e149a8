//! Selects the records of a store by number, time, direction and type.

use transfix::{Timestamp, tag};
use transfix_store::StoreError;
use transfix_store::journal::{self, Entry, Message};

use super::moment;
use crate::input::{Dictionaries, Masking, covered_entry, msg_types};

/// Which records.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Selection {
    /// The first record: a MsgSeqNum(34), or a time in UTC such as 20261121-09:28:25.
    #[arg(long, value_name = "N|TIME", value_parser = bound)]
    from: Option<Bound>,
    /// Only received messages (in), or only sent messages (out).
    #[arg(long, value_enum)]
    direction: Option<Direction>,
    /// Only messages of this type, such as D or NewOrderSingle; several with commas.
    #[arg(long = "type", value_name = "MSGTYPE", value_delimiter = ',')]
    msg_types: Vec<String>,
    #[command(flatten)]
    masking: Masking,
}

/// Direction of messages: received or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// The first or the last selected record, as a number or a time; the record itself is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Number(u64),
    Time(Timestamp),
}

/// Parses a MsgSeqNum(34) or a time.
pub(super) fn bound(text: &str) -> Result<Bound, String> {
    if let Ok(number) = text.parse() {
        return Ok(Bound::Number(number));
    }
    let time = Timestamp::parse(text.as_bytes()).map(Bound::Time);
    time.ok_or_else(|| "write a MsgSeqNum(34), or a time such as 20261121-09:28:25".to_owned())
}

impl Selection {
    /// Returns the selection with message names replaced by MsgType(35)s.
    pub(super) fn resolved(&self, dictionaries: &mut Dictionaries) -> Result<Self, String> {
        let msg_types = msg_types(&self.msg_types, dictionaries)?;
        Ok(Self { msg_types, ..self.clone() })
    }

    /// Returns an iterator over the selected entries; errors of the store are passed on.
    pub(super) fn of<I>(
        &self,
        until: Option<Bound>,
        entries: I,
    ) -> impl Iterator<Item = Result<Entry, StoreError>>
    where
        I: Iterator<Item = Result<Entry, StoreError>>,
    {
        let takes = move |entry: &Entry| self.takes(entry) && is_within(self.from, until, entry);
        let wanted = entries.filter(move |entry| entry.as_ref().map_or(true, takes));
        let mask = self.masking.mask();
        wanted.map(move |entry| entry.map(|entry| covered_entry(mask.as_ref(), entry)))
    }

    fn takes(&self, entry: &Entry) -> bool {
        match entry.message() {
            Some((direction, message)) => self.takes_message(direction, message),
            // Entries that are no messages have no direction and no type.
            None => self.direction.is_none() && self.msg_types.is_empty(),
        }
    }

    fn takes_message(&self, direction: journal::Direction, message: &Message) -> bool {
        let wanted = self.direction.map(|wanted| match wanted {
            Direction::In => journal::Direction::Inbound,
            Direction::Out => journal::Direction::Outbound,
        });
        wanted.is_none_or(|wanted| wanted == direction)
            && (self.msg_types.is_empty() || self.takes_type(&message.bytes))
    }

    fn takes_type(&self, message: &[u8]) -> bool {
        let msg_type = value(message, tag::MSG_TYPE.0).unwrap_or_default();
        self.msg_types.iter().any(|wanted| wanted.as_bytes() == msg_type)
    }
}

fn is_within(from: Option<Bound>, until: Option<Bound>, entry: &Entry) -> bool {
    // Entries that are no messages have no number, so they lie outside any range of numbers.
    let seq = entry.message().map(|(_, message)| message.seq);
    let time = moment(entry.time_ns);
    let after = match from {
        Some(Bound::Number(first)) => seq.is_some_and(|seq| first <= seq),
        Some(Bound::Time(first)) => first <= time,
        None => true,
    };
    after
        && match until {
            Some(Bound::Number(last)) => seq.is_some_and(|seq| seq <= last),
            Some(Bound::Time(last)) => time <= last,
            None => true,
        }
}

/// Returns the first value of `tag`, even if the message is invalid.
pub(super) fn value(message: &[u8], tag: u32) -> Option<&[u8]> {
    let tag = tag.to_string();
    let mut fields = message.split(|&byte| byte == transfix_codec::SOH);
    fields.find_map(|field| field.strip_prefix(tag.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_store::Kind;
    use transfix_store::journal::Event;

    fn entry(time_ns: u64, event: Event) -> Entry {
        Entry { segment: 0, offset: 0, time_ns, event }
    }

    fn entries() -> Vec<Entry> {
        let message = |seq, text: &str| {
            let bytes = text.replace('|', "\x01").into_bytes();
            Message { seq, kind: Kind::Application, bytes }
        };
        let second = 1_000_000_000;
        vec![
            entry(0, Event::Outbound(message(1, "8=FIX.4.4|35=A|"))),
            entry(second, Event::Inbound(message(1, "8=FIX.4.4|35=A|"))),
            entry(second, Event::NextIn(2)),
            entry(2 * second, Event::Outbound(message(2, "8=FIX.4.4|35=AE|58=35=D|"))),
            entry(3 * second, Event::Inbound(message(2, "8=FIX.4.4|35=D|"))),
            entry(4 * second, Event::Note("logged on".to_owned())),
        ]
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        selection: Selection,
        #[arg(long, value_parser = bound)]
        to: Option<Bound>,
    }

    fn line(args: &[&str]) -> Line {
        <Line as clap::Parser>::try_parse_from([&["x"], args].concat()).unwrap()
    }

    fn check(args: &[&str], expected: &[usize]) {
        let line = line(args);
        let all = entries();
        let taken = line.selection.of(line.to, all.iter().cloned().map(Ok)).map(Result::unwrap);
        let expected: Vec<_> = expected.iter().map(|&n| all[n].clone()).collect();
        assert_eq!(taken.collect::<Vec<_>>(), expected, "{args:?}");
    }

    #[test]
    fn each_bound_counts() {
        check(&[], &[0, 1, 2, 3, 4, 5]);
        check(&["--from", "2"], &[3, 4]);
        check(&["--to", "1"], &[0, 1]);
        check(&["--from", "19700101-00:00:01", "--to", "19700101-00:00:02"], &[1, 2, 3]);
        check(&["--from", "19700101-00:00:02.5"], &[4, 5]);
        check(&["--direction", "in"], &[1, 4]);
        check(&["--direction", "out", "--from", "2"], &[3]);
        check(&["--type", "D"], &[4]);
        check(&["--type", "A,AE"], &[0, 1, 3]);
    }

    #[test]
    fn secrets_are_stars_unless_they_are_asked_for() {
        let bytes = b"8=FIX.4.4\x019=30\x0135=A\x01554=hush\x011=DESK\x0110=000\x01".to_vec();
        let message = Message { seq: 1, kind: Kind::Admin, bytes };
        let all = [Event::Outbound(message.clone()), Event::Inbound(message)];
        let queued = b"35=BE\x01554=hush\x011=DESK\x01".to_vec();
        let all = [&all[..], &[Event::Queued { ticket: 1, bytes: queued }]].concat();
        for (args, hidden, shown) in [
            (&[][..], &["hush"][..], "1=DESK"),
            (&["--mask", "1"], &["hush", "DESK"], "554=****"),
            (&["--unmasked"], &[], "554=hush"),
        ] {
            let selection = line(args).selection;
            let entries = all.iter().map(|event| Ok(entry(0, event.clone())));
            for entry in selection.of(None, entries).map(Result::unwrap) {
                let (Event::Outbound(Message { bytes, .. })
                | Event::Inbound(Message { bytes, .. })
                | Event::Queued { bytes, .. }) = &entry.event
                else {
                    unreachable!("there are no others")
                };
                let bytes = String::from_utf8_lossy(bytes);
                assert!(bytes.contains(shown), "{args:?}: {bytes}");
                assert!(hidden.iter().all(|text| !bytes.contains(text)), "{args:?}: {bytes}");
            }
        }
    }

    #[test]
    fn a_bound_is_a_number_or_a_time() {
        assert_eq!(bound("17"), Ok(Bound::Number(17)));
        assert!(bound("yesterday").unwrap_err().contains("20261121-09:28:25"));
    }
}
