//! `transfix audit journals`: compares the journals of both sides of a session, message by message.
//! The comparison proves that no message was lost or duplicated; `demo` and tests use it too.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::{Mask, Message, Tag, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_store::journal::{self, Event};

use crate::foreign;
use crate::input::{failed, tag as tag_number};

/// Compare the journals of both sides of a session, and check that each message was received once
/// and in order.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix audit journals store/client/FIX.4.4-CLIENT-VENUE store/venue/FIX.4.4-VENUE-CLIENT

Both sessions must have `keep_inbound = true`, and no message may be in transit.
Exit code: 0 each message was received once and in order, 1 a message is missing, repeated or
different, 2 wrong usage or a journal that cannot be read.")]
pub(crate) struct Args {
    /// Store of the initiator's session.
    client: PathBuf,
    /// Store of the acceptor's session.
    venue: PathBuf,
    /// Also shows the values of these tags as stars where messages differ; passwords are always
    /// hidden.
    #[arg(long, value_name = "TAG", value_delimiter = ',', value_parser = tag_number)]
    mask: Vec<Tag>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let audit = match Audit::of(&args.client, &args.venue) {
        Ok(audit) => audit,
        Err(error) => return failed(&error),
    };
    println!("{audit}");
    match audit.check(&Mask::of(args.mask.iter().copied())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix audit journals: {}", foreign::lines(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// The application messages of one direction: MsgSeqNum(34), and the content that a resend does not
/// change.
type Messages = Vec<(u64, Vec<u8>)>;

/// The application messages in the journals of both sides.
pub(crate) struct Audit {
    orders: Direction,
    reports: Direction,
}

/// The messages of one direction, as the sender and as the receiver stored them.
struct Direction {
    sent: Messages,
    received: Messages,
}

impl Audit {
    /// Reads the journals of both sides. The sessions must have stored inbound messages.
    pub(crate) fn of(client_store: &Path, venue_store: &Path) -> Result<Self, String> {
        let (orders_sent, reports_received) = read(client_store)?;
        let (reports_sent, orders_received) = read(venue_store)?;
        Ok(Self {
            orders: Direction { sent: orders_sent, received: orders_received },
            reports: Direction { sent: reports_sent, received: reports_received },
        })
    }

    /// Returns the number of messages that the client has sent.
    pub(crate) const fn orders(&self) -> usize {
        self.orders.sent.len()
    }

    /// Checks that each message of both directions was received once and in order. Errors show
    /// stars instead of masked values.
    pub(crate) fn check(&self, mask: &Mask) -> Result<(), String> {
        for (name, direction) in
            [("client to venue", &self.orders), ("venue to client", &self.reports)]
        {
            direction.check(mask).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }
}

impl Direction {
    fn check(&self, mask: &Mask) -> Result<(), String> {
        for (n, (sent, received)) in self.sent.iter().zip(&self.received).enumerate() {
            if sent != received {
                return Err(format!(
                    "message {n} differs: sent as {} {}, received as {} {}",
                    sent.0,
                    mask.message(&sent.1).escape_ascii(),
                    received.0,
                    mask.message(&received.1).escape_ascii()
                ));
            }
        }
        let (sent, received) = (self.sent.len(), self.received.len());
        if sent != received {
            return Err(format!("{sent} messages sent, {received} received"));
        }
        Ok(())
    }

    fn line(&self, what: &str) -> String {
        let mut distinct: Vec<_> = self.received.iter().map(|(seq, _)| *seq).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let (sent, received) = (self.sent.len(), self.received.len());
        let doubled = received - distinct.len();
        let lost = self.sent.iter().filter(|(seq, _)| distinct.binary_search(seq).is_err()).count();
        format!(
            "  {what:<18} sent {sent:>6}   received {received:>6}   lost {lost}   doubled {doubled}"
        )
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The two journals, compared message by message:\n")?;
        writeln!(f, "{}", self.orders.line("client to venue"))?;
        write!(f, "{}", self.reports.line("venue to client"))
    }
}

/// Reads the sent and the received application messages of a journal.
fn read(store: &Path) -> Result<(Messages, Messages), String> {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut index = FieldIndex::default();
    for entry in journal::read(store).map_err(|error| error.to_string())? {
        let (stored, list) = match entry.map_err(|error| error.to_string())?.event {
            Event::Outbound(stored) => (stored, &mut sent),
            Event::Inbound(stored) => (stored, &mut received),
            _ => continue,
        };
        let message =
            Message::parse(&stored.bytes, &mut index, CheckSumPolicy::Verify).map_err(|error| {
                format!("message {} of the journal cannot be read: {error}", stored.seq)
            })?;
        if message.msg_type().is_application() {
            list.push((stored.seq, body(&message)));
        }
    }
    Ok((sent, received))
}

/// Returns MsgType(35) and those fields of a message that a resend does not change.
fn body(message: &Message<'_>) -> Vec<u8> {
    let mut body = [b"35=", message.msg_type().as_bytes(), b"\x01"].concat();
    for (n, field) in message.fields().enumerate() {
        if !tag::is_session_owned(field.tag) {
            body.extend_from_slice(message.encoded(n));
        }
    }
    body
}
