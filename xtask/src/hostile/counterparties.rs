//! Attacks by a hostile counterparty that has logged on.

use std::thread;
use std::time::Duration;

use super::Outcome;
use super::line::{framed, utc};
use super::{Attack, Field, On, attack, on};

/// Attacks with one message after a logon, and the expected reaction: MsgType(35) and a field of
/// the answer. `!` means that the connection ends afterwards; otherwise the session continues. `.`
/// means no answer. A message contains MsgSeqNum(34) explicitly if its number matters, because a
/// rejected SequenceReset(4) uses none.
const ONE: &[(&str, &str, &str, &str)] = &[
    ("number-zero", "0", "34=0|", "!"),
    ("number-negative", "0", "34=-1|", "!"),
    ("number-of-64-bits", "0", "34=18446744073709551615|", "!"),
    ("number-of-40-digits", "0", "34=1234567890123456789012345678901234567890|", "!"),
    ("number-of-letters", "0", "34=x|", "!"),
    ("number-too-low", "0", "34=1|", "!"),
    ("number-above-all-bounds", "0", "34=2000000000000000|", "!"),
    ("gap-of-a-quadrillion", "0", "34=999999999999999|", "35=2|"),
    ("resend-backwards", "2", "7=9|16=3|", "373=5|"),
    ("resend-from-zero", "2", "7=0|16=0|", "373=5|"),
    ("resend-of-the-future", "2", "7=999999|16=0|", "."),
    ("resend-negative", "2", "7=-1|16=0|", "35=3|"),
    ("resend-of-letters", "2", "7=a|16=b|", "35=3|"),
    ("resend-of-40-digits", "2", "7=1|16=1234567890123456789012345678901234567890|", "35=3|"),
    ("reset-backwards", "4", "34=2|36=1|", "373=5|"),
    ("reset-to-64-bits", "4", "34=2|36=18446744073709551615|", "373=5|"),
    ("reset-to-zero", "4", "34=2|36=0|", "373=5|"),
    ("reset-of-letters", "4", "34=2|36=x|", "35=3|"),
    ("gap-fill-backwards", "4", "123=Y|36=1|", "373=5|"),
    ("gap-fill-to-itself", "4", "123=Y|36=2|", "373=5|"),
    ("gap-fill-of-a-quadrillion", "4", "123=Y|36=9999999999999999|", "373=5|"),
    ("poss-dup-without-a-time", "0", "34=1|43=Y|", "35=3|"),
    ("poss-dup-of-the-future", "0", "34=1|43=Y|122=20990101-00:00:00|", "373=10|"),
    ("poss-dup-of-letters", "0", "43=maybe|", "35=3|"),
    ("test-request-of-nothing", "1", "", "35=3|"),
    ("unknown-type", "ZZ", "", "373=11|"),
    ("type-of-escapes", "\u{1b}[2J", "", "35=3|"),
    ("type-of-300-bytes", LONG_TYPE, "", "."),
    ("no-type-of-the-application", "AE", "571=1|", "35="),
    ("a-second-logon", "A", "98=0|108=30|", "!"),
    ("wrong-sender", "0", "49=OTHER|", "373=9|"),
    ("wrong-target", "0", "56=OTHER|", "373=9|"),
    ("dated-1970", "0", "52=19700101-00:00:00|", "373=10|"),
    ("dated-nowhere", "0", "52=yesterday|", "35=3|"),
    ("xml-that-is-no-fix", "n", "212=9|213=<a><b></a>|", "35="),
    ("data-beyond-the-end", "B", "148=x|33=1|58=y|354=99999|355=z|", "35=3|"),
    ("data-of-no-length", "B", "148=x|33=1|58=y|354=0|355=z|", "35=3|"),
    ("group-of-a-billion", "B", "148=x|33=1000000000|58=y|", "35=3|"),
    ("group-of-less-than-nothing", "B", "148=x|33=-1|58=y|", "35=3|"),
    ("group-of-letters", "B", "148=x|33=many|58=y|", "35=3|"),
    ("group-with-more-than-it-says", "B", "148=x|33=1|58=y|58=z|", "35="),
    ("tag-zero", "D", "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|0=x|", "373=0|"),
    ("tag-negative", "D", "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|-5=x|", "373=0|"),
    (
        "tag-of-11-digits",
        "D",
        "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|99999999999=x|",
        "373=0|",
    ),
    ("tag-of-letters", "D", "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|abc=x|", "373=0|"),
    ("no-equals", "D", "abc|", "35=3|"),
    ("empty-value", "D", "11=|55=X|54=1|", "35=3|"),
    ("tag-twice", "D", "11=a|11=b|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|", "373=13|"),
    ("unknown-tag", "D", "9999=x|", "35=3|"),
    ("quantity-of-200-digits", "D", QUANTITY, "35="),
    ("price-not-a-number", "D", "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=NaN|", "373=6|"),
    ("price-infinite", "D", "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=inf|", "373=6|"),
    (
        "price-with-an-exponent",
        "D",
        "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=1e9|",
        "373=6|",
    ),
    ("side-of-nowhere", "D", "11=a|55=X|54=?|60=20260101-00:00:00|38=1|40=2|44=3|", "373=5|"),
    (
        "order-of-escapes",
        "D",
        "11=\u{1b}[2J\u{7}|55=\u{1b}]0;x\u{7}|54=1|60=20260101-00:00:00|38=1|40=2|44=3|",
        "35=8|",
    ),
    (
        "order-of-newlines",
        "D",
        "11=a\r\nb|55=X\n|54=1|60=20260101-00:00:00|38=1|40=2|44=3|",
        "35=8|",
    ),
    (
        "for-somebody-else",
        "D",
        "128=HONEST|11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|",
        "35=",
    ),
    (
        "header-behind-the-body",
        "D",
        "11=a|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|115=X|",
        "35=",
    ),
];

/// A message type that is far longer than any valid type.
const LONG_TYPE: &str = "\
    X23456789X123456789X123456789X123456789X123456789X123456789X123456789X123456789\
    X23456789X123456789X123456789X123456789X123456789X123456789X123456789X123456789\
    X23456789X123456789X123456789X123456789X123456789X123456789X123456789X123456789\
    X23456789X123456789X123456789X123456789X123456789X123456789X123456789X123456789";
const QUANTITY: &str = "11=a|55=X|54=1|60=20260101-00:00:00|38=\
    999999999999999999999999999999999999999999999999999999999999999999999999999999\
    999999999999999999999999999999999999999999999999999999999999999999999999999999\
    99999999999999999999999999999999999999999999|40=2|44=3|";

pub(super) fn all() -> Vec<Attack> {
    let mut all = Vec::new();
    for (name, msg_type, fields, expected) in ONE {
        let run = move |field: &Field| one(field, (msg_type, fields), expected);
        let what = match *expected {
            "!" => "the connection ends".to_owned(),
            "." => "nothing, and the session goes on".to_owned(),
            answer => format!("an answer with {answer}"),
        };
        all.push(attack(&format!("counterparty/{name}"), &what, run));
    }
    all.extend(floods());
    all.extend(bulks());
    all.extend(numbers());
    all.extend(ends());
    all
}

fn one(field: &Field, (msg_type, fields): (&str, &str), expected: &str) -> Outcome<()> {
    let mut line = field.liar()?;
    line.say(msg_type, fields);
    match expected {
        "!" => line.is_shut().map(drop),
        "." => line.lives(),
        answer => {
            let said = line.hears(&format!("|{answer}"))?;
            // According to the standard, a session ends after rejects with these reasons.
            match ["|373=9|", "|373=10|"].iter().any(|reason| said.contains(reason)) {
                true => line.is_shut().map(drop),
                false if answer == "35=2|" => Ok(()),
                false => line.lives(),
            }
        }
    }
}

/// Returns attacks that send very many messages.
fn floods() -> Vec<Attack> {
    let lives = "all of it dealt with, and the session goes on";
    let flood = |name: &str, count: usize, msg_type: &'static str, fields: &'static str| {
        attack(&format!("counterparty/{name}"), lives, move |field: &Field| {
            let mut line = field.liar()?;
            let mut bytes = Vec::new();
            for n in 0..count {
                let fields = fields.replace("#", &n.to_string());
                bytes.extend(line.message(msg_type, &fields));
            }
            line.raw(&bytes);
            line.lives()
        })
    };
    vec![
        flood("flood-of-heartbeats", 50_000, "0", ""),
        flood("flood-of-test-requests", 20_000, "1", "112=#|"),
        flood("flood-of-rejects", 10_000, "3", "45=1|58=no|"),
        flood("flood-of-business-rejects", 10_000, "j", "45=1|372=D|380=0|58=no|"),
        flood("flood-of-unknown-types", 5_000, "ZZ", ""),
        flood("flood-of-wrong-orders", 5_000, "D", "11=#|"),
        flood(
            "flood-of-orders",
            5_000,
            "D",
            "11=f#|55=F|54=1|60=20260101-00:00:00|38=1|40=2|44=3|",
        ),
        flood("flood-of-duplicates", 20_000, "0", "34=1|43=Y|122=20200101-00:00:00|"),
        flood("flood-of-resend-requests", 2_000, "2", "7=1|16=0|"),
        flood("flood-of-requests-for-nothing", 10_000, "2", "7=999999|16=0|"),
        flood("flood-of-xml", 2_000, "n", "212=3|213=<a>|"),
    ]
}

/// Returns attacks with very long messages, and with repeated resend requests.
fn bulks() -> Vec<Attack> {
    let lives = "all of it dealt with, and the session goes on";
    vec![
        attack("counterparty/flood-of-garbled-messages", lives, |field| {
            let mut line = field.liar()?;
            let mut garbled = framed("FIX.4.4", &format!("35=0|34=2|52={}|", utc()));
            let at = garbled.len() - 2;
            garbled[at] = if garbled[at] == b'0' { b'1' } else { b'0' };
            line.raw(&garbled.repeat(20_000));
            line.lives()
        }),
        attack("counterparty/a-test-request-of-64-kib", "it is answered", |field| {
            let mut line = field.liar()?;
            let id = format!("112={}|", "x".repeat(64 << 10));
            line.say("1", &id);
            line.hears(&format!("|{id}")).map(drop)
        }),
        attack("counterparty/a-message-of-100000-fields", "Reject(3)", |field| {
            let mut line = field.liar()?;
            line.say("D", &"58=x|".repeat(100_000));
            line.hears("|35=3|")?;
            line.lives()
        }),
        attack("counterparty/a-message-longer-than-may-be", "rejected by its length", |field| {
            let mut line = field.liar()?;
            line.say("B", &format!("148={}|", "x".repeat(2 << 20)));
            line.hears("|371=9|")?;
            line.lives()
        }),
    ]
}

/// Returns attacks that move sequence numbers forward and back.
fn numbers() -> Vec<Attack> {
    let lives = "all of it dealt with, and the session goes on";
    vec![
        attack("counterparty/gaps-that-open-and-close", lives, |field| {
            let mut line = field.liar()?;
            let mut bytes = Vec::new();
            for n in 0..1_000_u64 {
                let number = 2 + 2 * n;
                bytes.extend(line.message("0", &format!("34={}|", number + 1)));
                bytes.extend(line.message(
                    "4",
                    &format!("34={number}|43=Y|122=20200101-00:00:00|123=Y|36={}|", number + 1),
                ));
            }
            line.raw(&bytes);
            line.next_num_out = 2_002;
            line.lives()
        }),
        attack("counterparty/resets-again-and-again", lives, |field| {
            let mut line = field.liar()?;
            for _ in 0..100 {
                line.next_num_out = 1;
                line.say("A", "98=0|108=30|141=Y|");
                line.hears("|35=A|")?;
            }
            line.lives()
        }),
        attack("counterparty/asks-again-and-does-not-read", "the others go on", |field| {
            let mut line = field.liar()?;
            let mut bytes = Vec::new();
            for n in 0..3_000 {
                bytes.extend(line.message(
                    "D",
                    &format!("11=r{n}|55=R|54=1|60=20260101-00:00:00|38=1|40=2|44=3|"),
                ));
            }
            for _ in 0..200 {
                bytes.extend(line.message("2", "7=1|16=0|"));
            }
            line.turn_deaf();
            // The write ends early if the server stops reading, because too many answers wait to be
            // written.
            line.raw(&bytes);
            field.probe()
        }),
    ]
}

/// Returns attacks that differ in the way in which the connection ends.
fn ends() -> Vec<Attack> {
    vec![
        attack("counterparty/goes-in-the-middle-of-a-message", "it can come back", |field| {
            let mut line = field.liar()?;
            let order = line.message("D", "11=a|55=X|54=1|");
            line.raw(&order[..order.len() / 2]);
            drop(line);
            field.liar().map(drop)
        }),
        attack("counterparty/comes-and-goes", "it can come back", |field| {
            for _ in 0..20 {
                drop(field.liar()?);
            }
            Ok(())
        }),
        attack("counterparty/does-not-answer-a-logout", "closed in time", |field| {
            let mut line = field.liar()?;
            line.say("0", "49=OTHER|");
            line.hears("|35=5|")?;
            line.is_shut().map(drop)
        }),
        attack("counterparty/speaks-after-its-logout", "closed", |field| {
            let mut line = field.liar()?;
            line.say("5", "");
            for n in 0..1_000 {
                line.say("D", &format!("11=l{n}|55=X|54=1|60=20260101-00:00:00|38=1|40=2|44=3|"));
            }
            line.is_shut().map(drop)
        }),
        attack("counterparty/a-thousand-logouts", "closed", |field| {
            let mut line = field.liar()?;
            (0..1_000).all(|_| line.say("5", ""));
            line.is_shut().map(drop)
        }),
        attack("counterparty/another-version-in-mid-session", "Logout(5), then closed", |field| {
            let mut line = field.liar()?;
            let body = format!("35=0|49={}|56=VENUE|34=2|52={}|", line.name, utc());
            line.raw(&framed("FIX.4.2", &body));
            line.hears("|35=5|")?;
            line.is_shut().map(drop)
        }),
        attack("counterparty/another-connection-of-a-live-session", "the first goes on", |field| {
            let mut line = field.liar()?;
            let mut other = field.stranger("LIAR")?;
            other.say("A", "98=0|108=30|141=Y|");
            other.is_shut_silently()?;
            line.lives()
        }),
        attack("counterparty/silence-after-the-logon", "a TestRequest(1) asks for it", |field| {
            let mut line = field.stranger("LIAR")?;
            line.say("A", "98=0|108=1|141=Y|");
            line.hears("|35=1|")?;
            line.is_shut().map(drop)
        }),
        // The attack needs a plain connection, because `openssl s_client` cannot close one
        // direction alone.
        on(On::Plain, "counterparty/half-closed", "closed", |field| {
            let mut line = field.liar()?;
            line.end();
            thread::sleep(Duration::from_millis(50));
            line.is_shut().map(drop)
        }),
    ]
}
