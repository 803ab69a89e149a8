//! Compares the messages that one side has sent with the messages that the other side has received.
//!
//! **Invariant:** an error names the message, the tag, and both values.

use super::Outcome;
use super::message::Message;

/// The fields that a resend may change: `BodyLength(9)`, `CheckSum(10)`, `PossDupFlag(43)`,
/// `SendingTime(52)`, `PossResend(97)`, `OrigSendingTime(122)`.
const CHANGED_BY_RESEND: [u32; 6] = [9, 10, 43, 52, 97, 122];

/// Checks that each application message was delivered exactly once, in order and with the same
/// fields. Returns the number of messages.
pub(super) fn delivered(sent: &[Message], delivered: &[Message]) -> Outcome<usize> {
    for (index, (sent, got)) in sent.iter().zip(delivered).enumerate() {
        same(sent, got)
            .map_err(|text| format!("message {} of the application: {text}", index + 1))?;
    }
    if sent.len() != delivered.len() {
        return Err(format!("{} messages sent, {} delivered", sent.len(), delivered.len()));
    }
    Ok(sent.len())
}

/// Checks that the read messages equal the written messages byte by byte, in order. Bytes may be
/// missing only where the connection broke; a `Logon(A)` then follows. Returns the number of
/// messages.
pub(super) fn wire(written: &[Message], read: &[Message]) -> Outcome<usize> {
    let mut written = written.iter();
    for (index, got) in read.iter().enumerate() {
        let place = |text: &str| format!("message {} on the wire: {text}", index + 1);
        let next = written.next().ok_or_else(|| place(&format!("never written: {got}")))?;
        if next == got {
            continue;
        }
        if !got.is(35, "A") {
            let text = same_fields(next, got, &[]).err().unwrap_or("order of fields".to_owned());
            return Err(place(&format!("{text}\n  written {next}\n  read    {got}")));
        }
        if !written.any(|next| next == got) {
            return Err(place(&format!("never written: {got}")));
        }
    }
    Ok(read.len())
}

/// Checks the answer to a `ResendRequest(2)` that starts at 1. Each MsgSeqNum(34) below `next`
/// appears once: as the message originally sent, or inside a gap fill. Returns the number of
/// messages.
pub(super) fn resent(sent: &[Message], answer: &[Message], next: u64) -> Outcome<usize> {
    let mut expected = 1;
    let mut count = 0;
    for got in answer.iter().filter(|got| got.is_poss_dup() || got.is_gap_fill()) {
        if got.number(34) != Some(expected) {
            return Err(format!("expected MsgSeqNum(34) {expected} in the resend: {got}"));
        }
        count += 1;
        if got.is_gap_fill() {
            expected = match got.number(36) {
                Some(new) if new > expected => new,
                _ => return Err(format!("NewSeqNo(36) does not go forward: {got}")),
            };
            continue;
        }
        let original = sent.iter().find(|sent| sent.number(34) == Some(expected));
        let original = original.ok_or_else(|| format!("resent but never sent: {got}"))?;
        same(original, got)?;
        expected += 1;
    }
    if expected != next {
        return Err(format!("the resend ends before {expected}, the next number is {next}"));
    }
    Ok(count)
}

/// Compares a message as sent with the message as delivered, possibly after a resend.
fn same(sent: &Message, got: &Message) -> Outcome<()> {
    let outcome = if got.is_poss_dup() {
        same_fields(sent, got, &CHANGED_BY_RESEND).and_then(|()| {
            // A sent message that is already a PossDup got its number without a connection. Its
            // original time is then in OrigSendingTime(122).
            let first = if sent.is_poss_dup() { 122 } else { 52 };
            match (sent.value(first), got.value(122)) {
                (sent, got) if sent == got => Ok(()),
                (sent, got) => Err(difference("OrigSendingTime(122)", sent, got)),
            }
        })
    } else {
        same_fields(sent, got, &[])
    };
    outcome.map_err(|text| format!("{text}\n  sent      {sent}\n  delivered {got}"))
}

fn same_fields(sent: &Message, got: &Message, ignored: &[u32]) -> Outcome<()> {
    let (sent_fields, got_fields) = (sent.sorted_without(ignored), got.sorted_without(ignored));
    // MsgSeqNum(34) is compared first, so that a wrong message is not reported as a wrong field.
    if sent.value(34) != got.value(34) {
        return Err(difference("tag 34", sent.value(34), got.value(34)));
    }
    let at = sent_fields.iter().zip(&got_fields).position(|(sent, got)| sent != got);
    let at = at.unwrap_or(sent_fields.len().min(got_fields.len()));
    let (a, b) = (sent_fields.get(at), got_fields.get(at));
    let number = sent.value(34).unwrap_or("?");
    let Some(tag) = a.into_iter().chain(b).map(|field| field.0).min() else { return Ok(()) };
    let value = |field: Option<&(u32, &str)>| {
        field.filter(|field| field.0 == tag).map(|field| field.1.to_owned())
    };
    Err(format!(
        "MsgSeqNum(34)={number}, {}",
        difference(&format!("tag {tag}"), value(a).as_deref(), value(b).as_deref())
    ))
}

fn difference(what: &str, sent: Option<&str>, got: Option<&str>) -> String {
    format!("{what}: sent {}, got {}", sent.unwrap_or("nothing"), got.unwrap_or("nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(texts: &[&str]) -> Vec<Message> {
        texts.iter().map(|text| Message::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_difference_names_message_tag_and_values() {
        let sent = messages(&["35=D|34=2|52=t|55=EU|"]);
        let got = messages(&["35=D|34=2|52=t|55=US|"]);
        let text = delivered(&sent, &got).unwrap_err();
        assert!(text.contains("message 1") && text.contains("MsgSeqNum(34)=2"), "{text}");
        assert!(text.contains("tag 55: sent EU, got US"), "{text}");
        let text = delivered(&sent, &messages(&["35=D|34=2|52=t|"])).unwrap_err();
        assert!(text.contains("tag 55: sent EU, got nothing"), "{text}");
        assert!(delivered(&sent, &[]).is_err());
    }

    #[test]
    fn a_resend_keeps_all_but_its_own_fields() {
        let sent = messages(&["35=D|34=2|52=t|55=EU|"]);
        assert!(delivered(&sent, &messages(&["35=D|34=2|43=Y|52=u|122=t|55=EU|"])).is_ok());
        let text = delivered(&sent, &messages(&["35=D|34=2|43=Y|52=u|122=u|55=EU|"]));
        assert!(text.unwrap_err().contains("OrigSendingTime(122): sent t, got u"));
    }

    #[test]
    fn the_wire_may_lose_bytes_only_at_a_cut() {
        let written = messages(&["35=A|34=1|", "35=D|34=2|", "35=D|34=3|", "35=A|34=4|"]);
        let lost = |at: usize| {
            let mut read = written.clone();
            read.remove(at);
            wire(&written, &read)
        };
        assert_eq!(wire(&written, &written), Ok(4));
        assert_eq!(lost(2), Ok(3));
        assert!(lost(1).unwrap_err().contains("tag 34: sent 2, got 3"));
    }

    #[test]
    fn a_resend_covers_each_number_once() {
        let sent = messages(&["35=D|34=2|52=t|", "35=D|34=5|52=t|"]);
        let answer = messages(&[
            "35=4|34=1|43=Y|36=2|123=Y|",
            "35=D|34=2|43=Y|122=t|",
            "35=4|34=3|43=Y|36=5|123=Y|",
            "35=D|34=5|43=Y|122=t|",
            "35=0|34=6|",
        ]);
        assert_eq!(resent(&sent, &answer, 6), Ok(4));
        assert!(resent(&sent, &answer[..3], 6).is_err());
        assert!(resent(&sent, &answer[1..], 6).is_err());
    }
}
