//! Commands of `connect` that send messages: orders, messages of any type, bursts and replays.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use transfix::{BeginString, Decimal, SendError, Sent, Tag, clock, tag};

use super::console::Console;
use super::fault::Fault;
use super::making::{NOTHING, ReadyMessage};
use super::message::Typed;
use super::placed_order::PlacedOrder;
use super::replay::replay;
use crate::show::say;

/// Maximum wait for space in the send queue when the counterparty does not read.
const ROOM_WAIT: Duration = Duration::from_secs(30);
/// Time without queue space after which the user is informed.
const ROOM_TELL: Duration = Duration::from_secs(1);
/// First and longest pause between two attempts to send. Each pause is twice the pause before.
const ROOM_LOOKS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(10));

/// Tag and encoded value of a field.
type Encoded = (Tag, Vec<u8>);

/// Limits sending to a fixed number of messages per second.
pub(super) struct Pace {
    each_ns: u64,
    next_ns: u64,
}

impl Pace {
    /// Parses the number of messages per second; 0 means unlimited.
    pub(super) fn new(rate: &str) -> Result<Self, Fault> {
        let wrong = |why: &str| Fault::Usage(format!("PER_SECOND: {rate} {why}"));
        let rate: f64 = rate.parse().map_err(|_| wrong("is not a number"))?;
        if !(0.0..=1e9).contains(&rate) {
            return Err(wrong(
                "is out of range; write 0 to 1000000000, or 0 for as fast as possible",
            ));
        }
        let each_ns = if rate > 0.0 { (1e9 / rate) as u64 } else { 0 };
        Ok(Self { each_ns, next_ns: clock::monotonic_ns() })
    }

    pub(super) fn wait(&mut self, pause: &Receiver<()>) {
        if self.each_ns == 0 {
            return;
        }
        let left_ns = self.next_ns.saturating_sub(clock::monotonic_ns());
        if left_ns > 0 {
            let _ = pause.recv_timeout(Duration::from_nanos(left_ns));
        }
        self.next_ns += self.each_ns;
    }
}

impl Console {
    /// Runs a command that sends or expects messages. Returns `false` if `name` is not such a
    /// command.
    pub(super) fn sending_command(&mut self, name: &str, rest: &str) -> Result<bool, Fault> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let done = match (name, &words[..]) {
            ("buy", [quantity, symbol, price]) => self.order(b'1', quantity, symbol, price),
            ("sell", [quantity, symbol, price]) => self.order(b'2', quantity, symbol, price),
            ("cancel", [number]) => self.cancel(number),
            ("burst", [n]) => self.burst(n, "0", None),
            ("burst", [n, rate]) => self.burst(n, rate, None),
            ("burst", [n, rate, kept]) => self.burst(n, rate, Some(kept)),
            ("send", []) => {
                let typed = self.typed.clone().ok_or(NOTHING)?;
                self.send_typed(&typed, 0)
            }
            ("send", [kept]) => {
                let typed = self.kept_or_why_not(kept)?;
                self.send_typed(&typed, 0)
            }
            ("send", [msg_type, ..]) => {
                let fields = rest[msg_type.len()..].trim();
                if self.kept.get(msg_type).is_ok() && self.words.message(msg_type).is_err() {
                    return Err(Fault::Usage(format!(
                        "'{msg_type}' is a saved message, and `send` cannot change its fields; \
                         use `load {msg_type}` and `set {fields}`"
                    )));
                }
                let typed = Typed::from_line(msg_type, fields, &self.words);
                self.send_typed(&typed.map_err(Fault::Usage)?, 0)
            }
            ("replay", [file]) => self.replay(file, "0"),
            ("replay", [file, rate]) => self.replay(file, rate),
            ("expect", [_, ..]) => self.expect(rest),
            _ => return Ok(false),
        };
        done.map(|()| true)
    }

    /// Returns the saved message with this name. If only a message type has the name, the error
    /// explains that the message needs fields.
    fn kept_or_why_not(&self, name: &str) -> Result<Typed, Fault> {
        self.kept.get(name).cloned().map_err(|error| match self.words.message(name) {
            Ok(message) => Fault::Usage(format!(
                "{}({}) needs fields here, because no saved message has this name; begin a \
                 message with `new {name}`",
                message.name, message.msg_type
            )),
            Err(_) => Fault::Wrong(error),
        })
    }

    /// Sends a message. If the send queue is full because the counterparty does not read, waits for
    /// space.
    fn hand_over(&mut self, msg_type: &str, fields: &[Encoded]) -> Result<(), Fault> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.heard.begin_anew();
        }
        let handle = &self.handle;
        let mut send = || {
            handle.send(msg_type, |body| {
                for (tag, value) in fields {
                    body.bytes(*tag, value);
                }
            })
        };
        when_there_is_room(&self.pause.1, (ROOM_TELL, ROOM_WAIT), &mut send)?;
        self.sent = vec![(tag::MSG_TYPE.0, msg_type.to_owned())];
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        self.sent.extend(fields.iter().map(|(tag, value)| (tag.0, text(value))));
        Ok(())
    }

    fn order(&mut self, side: u8, quantity: &str, symbol: &str, price: &str) -> Result<(), Fault> {
        let decimal = |name: &str, text: &str| {
            let wrong = || Fault::Usage(format!("{name}: {text} is not a number"));
            Decimal::parse(text.as_bytes()).ok_or_else(wrong)
        };
        let (quantity, price) = (decimal("QUANTITY", quantity)?, decimal("PRICE", price)?);
        let n = self.next_order;
        let mut fields = vec![(tag::CL_ORD_ID, n.to_string())];
        if self.begin_string < BeginString::Fix44 {
            fields.push((tag::HANDL_INST, "1".to_owned()));
        }
        fields.extend([
            (tag::SYMBOL, symbol.to_owned()),
            (tag::SIDE, char::from(side).to_string()),
            (tag::TRANSACT_TIME, self.now()),
            (tag::ORDER_QTY, quantity.to_string()),
            (tag::ORD_TYPE, "2".to_owned()),
            (tag::PRICE, price.to_string()),
        ]);
        self.hand_over("D", &encoded(fields))?;
        let placed = PlacedOrder { symbol: symbol.to_owned(), side, quantity };
        self.orders.insert(n, placed);
        self.next_order += 1;
        Ok(())
    }

    /// Sends `n` orders, or the saved message `kept` `n` times.
    fn burst(&mut self, n: &str, rate: &str, kept: Option<&str>) -> Result<(), Fault> {
        let wrong = |_| Fault::Usage(format!("N: {n} is not a whole number of messages"));
        let n: u64 = n.parse().map_err(wrong)?;
        let mut pace = Pace::new(rate)?;
        let kept = kept.map(|name| self.kept.get(name).cloned()).transpose()?;
        for i in 0..n {
            pace.wait(&self.pause.1);
            let sent = match &kept {
                Some(typed) => self.send_typed(typed, i),
                None => {
                    // The sides alternate, so that every second order trades with the order before.
                    let side = if self.next_order.is_multiple_of(2) { b'2' } else { b'1' };
                    let price = format!("{}", 30 + self.next_order / 2 % 10);
                    self.order(side, "5", "EU", &price)
                }
            };
            sent.map_err(|fault| fault.map(|text| format!("{i} of {n} sent: {text}")))?;
        }
        Ok(())
    }

    fn cancel(&mut self, number: &str) -> Result<(), Fault> {
        let wrong = |_| Fault::Usage(format!("NUMBER: {number} is not the number of an order"));
        let orig: u64 = number.parse().map_err(wrong)?;
        let order = self.orders.get(&orig).ok_or_else(|| format!("there is no order {orig}"))?;
        let (n, begin_string) = (self.next_order, self.begin_string);
        let mut fields = vec![(tag::ORIG_CL_ORD_ID, orig.to_string())];
        fields.push((tag::CL_ORD_ID, n.to_string()));
        if begin_string < BeginString::Fix42 {
            fields.push((Tag(125), "F".to_owned()));
        }
        fields.push((tag::SYMBOL, order.symbol.clone()));
        fields.push((tag::SIDE, char::from(order.side).to_string()));
        if begin_string >= BeginString::Fix42 {
            fields.push((tag::TRANSACT_TIME, self.now()));
        }
        fields.push((tag::ORDER_QTY, order.quantity.to_string()));
        self.hand_over("F", &encoded(fields))?;
        self.next_order += 1;
        Ok(())
    }

    fn send_typed(&mut self, typed: &Typed, n: u64) -> Result<(), Fault> {
        let ReadyMessage { fields, has_id } = self.made(typed, n)?;
        let fields = fields.into_iter().map(|(tag, value)| (Tag(tag), value));
        self.hand_over(&typed.msg_type, &encoded(fields))?;
        if has_id {
            self.ids.given();
        }
        Ok(())
    }

    fn replay(&mut self, file: &str, rate: &str) -> Result<(), Fault> {
        let mut pace = Pace::new(rate)?;
        let sender = self.handle.id().sender_comp_id.to_string();
        let words = Arc::clone(&self.words);
        let mut failed = None;
        let done = replay(Path::new(file), (&words, &sender), &mut |msg_type, fields| {
            pace.wait(&self.pause.1);
            self.hand_over(msg_type, fields).map_err(|fault| {
                let text = fault.to_string();
                failed = Some(fault);
                text
            })
        });
        let done = done.map_err(|text| match failed {
            Some(fault) => fault.map(|_| text),
            None => Fault::Wrong(text),
        })?;
        say(&format!(
            "messages: {} sent, {} skipped (session layer or other side), {} garbled",
            done.sent, done.left_out, done.garbled
        ));
        Ok(())
    }
}

fn encoded(fields: impl IntoIterator<Item = (Tag, String)>) -> Vec<Encoded> {
    fields.into_iter().map(|(tag, value)| (tag, value.into_bytes())).collect()
}

/// Retries `send` while the send queue is full. `tell` is the time before the user is informed,
/// `wait` the time before the send fails.
fn when_there_is_room(
    pause: &Receiver<()>,
    (tell, wait): (Duration, Duration),
    send: &mut dyn FnMut() -> Result<Sent, SendError>,
) -> Result<Sent, Fault> {
    let began_ns = clock::monotonic_ns();
    let (mut look, look_max) = ROOM_LOOKS;
    let mut is_told = false;
    loop {
        let queued_bytes = match send() {
            Ok(sent) => return Ok(sent),
            Err(SendError::WouldBlock { queued_bytes }) => queued_bytes,
            Err(error) => return Err(Fault::Failed(error.to_string())),
        };
        let waited = Duration::from_nanos(clock::monotonic_ns().saturating_sub(began_ns));
        let why = format!("{queued_bytes} bytes wait, because the counterparty does not read");
        if waited >= wait {
            let seconds = wait.as_secs_f64();
            return Err(Fault::Failed(format!("not sent within {seconds} s: {why}")));
        }
        if waited >= tell && !std::mem::replace(&mut is_told, true) {
            say(&format!("waiting to send: {why}; Ctrl-C ends the program"));
        }
        let _ = pause.recv_timeout(look);
        look = look_max.min(look * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::super::console::pause;
    use super::*;

    #[test]
    fn rates_are_checked() {
        assert_eq!(Pace::new("1000").map(|pace| pace.each_ns), Ok(1_000_000));
        assert!(Pace::new("-1").is_err() && Pace::new("fast").is_err());
    }

    #[test]
    fn room_is_waited_for_and_not_for_ever() {
        let pause = pause();
        let waits = (Duration::ZERO, Duration::from_millis(20));
        let mut tries = 0;
        let mut full = || {
            tries += 1;
            Err(SendError::WouldBlock { queued_bytes: 99 })
        };
        let failed = when_there_is_room(&pause.1, waits, &mut full).unwrap_err().to_string();
        assert!(failed.starts_with("not sent within 0.02 s: 99 bytes wait"), "{failed}");
        // The growing pauses keep the number of attempts small.
        assert!(tries <= 15, "{tries}");
        let mut left = 3;
        let mut fills = || {
            left -= 1;
            match left {
                0 => Ok(Sent::Direct(7)),
                _ => Err(SendError::WouldBlock { queued_bytes: 99 }),
            }
        };
        let long = (Duration::from_secs(60), Duration::from_secs(60));
        assert_eq!(when_there_is_room(&pause.1, long, &mut fills), Ok(Sent::Direct(7)));
        let mut down = || Err(SendError::NotLoggedOn);
        assert!(when_there_is_room(&pause.1, long, &mut down).is_err());
    }
}
