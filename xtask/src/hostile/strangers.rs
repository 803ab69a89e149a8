//! Attacks by a stranger who can reach the port but knows no password.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::line::{Line, framed, utc, with_sum};
use super::{Attack, Field, On, attack, on};

/// Complete first messages: a name, the text between BodyLength(9) and CheckSum(10), and the
/// expected reaction. `SEND` stands for the current SendingTime(52). `A` means an accepted
/// Logon(A), `5` a Logout(5). An empty reaction means that the server closes the connection without
/// an answer, because strangers must learn nothing.
const FIRST: &[(&str, &str, &str)] = &[
    ("first-heartbeat", "35=0|49=LIAR|56=VENUE|34=1|SEND|", ""),
    ("first-order", "35=D|49=LIAR|56=VENUE|34=1|SEND|11=1|55=X|54=1|", ""),
    ("first-logout", "35=5|49=LIAR|56=VENUE|34=1|SEND|", ""),
    ("first-resend-request", "35=2|49=LIAR|56=VENUE|34=1|SEND|7=1|16=0|", ""),
    ("first-sequence-reset", "35=4|49=LIAR|56=VENUE|34=1|SEND|36=999|", ""),
    ("unknown-sender", "35=A|49=NOBODY|56=VENUE|34=1|SEND|98=0|108=30|", ""),
    ("unknown-target", "35=A|49=LIAR|56=NOWHERE|34=1|SEND|98=0|108=30|", ""),
    ("swapped-comp-ids", "35=A|49=VENUE|56=LIAR|34=1|SEND|98=0|108=30|", ""),
    ("no-sender", "35=A|56=VENUE|34=1|SEND|98=0|108=30|", ""),
    ("no-target", "35=A|49=LIAR|34=1|SEND|98=0|108=30|", ""),
    ("sender-twice", "35=A|49=LIAR|49=HONEST|56=VENUE|34=1|SEND|98=0|108=30|", "-"),
    ("sender-of-escapes", "35=A|49=\u{1b}[2J\u{7}|56=VENUE|34=1|SEND|98=0|108=30|", ""),
    ("sender-of-newlines", "35=A|49=A\nB\r|56=VENUE|34=1|SEND|98=0|108=30|", ""),
    ("type-twice", "35=A|35=D|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|", "-"),
    ("no-number", "35=A|49=LIAR|56=VENUE|SEND|98=0|108=30|", ""),
    ("number-zero", "35=A|49=LIAR|56=VENUE|34=0|SEND|98=0|108=30|", "-"),
    ("number-negative", "35=A|49=LIAR|56=VENUE|34=-1|SEND|98=0|108=30|", ""),
    ("number-of-64-bits", "35=A|49=LIAR|56=VENUE|34=18446744073709551615|SEND|98=0|108=30|", ""),
    (
        "number-of-40-digits",
        "35=A|49=LIAR|56=VENUE|34=1234567890123456789012345678901234567890|SEND|98=0|108=30|",
        "",
    ),
    ("number-with-letters", "35=A|49=LIAR|56=VENUE|34=1a|SEND|98=0|108=30|", ""),
    ("dated-1970", "35=A|49=LIAR|56=VENUE|34=1|52=19700101-00:00:00|98=0|108=30|", ""),
    ("dated-9999", "35=A|49=LIAR|56=VENUE|34=1|52=99991231-23:59:59|98=0|108=30|", ""),
    ("dated-nowhere", "35=A|49=LIAR|56=VENUE|34=1|52=yesterday|98=0|108=30|", ""),
    ("not-dated", "35=A|49=LIAR|56=VENUE|34=1|98=0|108=30|", ""),
    ("heart-bt-int-negative", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=-30|", "5"),
    ("heart-bt-int-huge", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=99999999999999|", "5"),
    ("heart-bt-int-of-letters", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=abc|", "5"),
    ("no-heart-bt-int", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|", "5"),
    ("encrypted", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=2|108=30|", "5"),
    ("reset-flag-of-nothing", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=X|", "5"),
    ("reset-above-one", "35=A|49=LIAR|56=VENUE|34=7|SEND|98=0|108=30|141=Y|", "5"),
    ("empty-value", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=|108=30|141=Y|", "5"),
    ("unknown-tag", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|9999=x|", "5"),
    ("tag-zero", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|0=x|", "5"),
    ("tag-negative", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|-5=x|", "5"),
    ("tag-of-11-digits", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|99999999999=x|", "5"),
    ("tag-of-letters", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|abc=x|", "5"),
    ("field-without-equals", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|abc|", "5"),
    ("data-beyond-the-end", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|95=9999|96=x|", "-"),
    ("data-of-no-length", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|95=0|96=x|", "-"),
    ("data-without-length", "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|96=x|", "-"),
    ("data-of-negative-length", "35=A|49=LIAR|56=VENUE|34=1|SEND|90=-1|91=x|98=0|108=30|", "-"),
    (
        "group-of-a-billion",
        "35=A|49=LIAR|56=VENUE|34=1|SEND|98=0|108=30|141=Y|384=1000000000|",
        "5",
    ),
    ("session-of-another-place", "35=A|49=OTHERS|56=VENUE|34=1|SEND|98=0|108=30|141=Y|", ""),
];

/// Returns first bytes that are not a FIX message, each with a description.
fn no_messages() -> Vec<(&'static str, Vec<u8>)> {
    let logon = || format!("35=A|49=LIAR|56=VENUE|34=1|52={}|98=0|108=30|", utc());
    let with_length = |length: &str| {
        let body = logon();
        with_sum(format!("8=FIX.4.4|9={length}|{body}").replace('|', "\x01").into_bytes())
    };
    let mut wrong_sum = framed("FIX.4.4", &logon());
    let at = wrong_sum.len() - 2;
    wrong_sum[at] = if wrong_sum[at] == b'0' { b'1' } else { b'0' };
    let utf_16: Vec<u8> = "8=FIX.4.4\u{1}9=5\u{1}35=A\u{1}".bytes().flat_map(|b| [b, 0]).collect();
    vec![
        ("one-byte", b"8".to_vec()),
        ("half-of-a-logon", framed("FIX.4.4", &logon())[..40].to_vec()),
        ("http-get", b"GET / HTTP/1.1\r\nHost: venue\r\n\r\n".to_vec()),
        ("http-2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("ssh-banner", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        ("smtp", b"EHLO venue\r\n".to_vec()),
        ("utf-16", utf_16),
        ("zeros", vec![0; 1 << 20]),
        ("all-bits", vec![0xff; 1 << 20]),
        ("only-delimiters", vec![1; 1 << 20]),
        ("only-equals", vec![b'='; 1 << 20]),
        ("beginnings-without-end", b"8=FIX.4.4\x019=".repeat(100_000)),
        ("messages-of-nothing", b"8=FIX.4.4\x019=0\x0110=000\x01".repeat(20_000)),
        ("random-bytes", noise(4 << 20)),
        ("length-zero", with_length("0")),
        ("length-negative", with_length("-5")),
        ("length-of-20-digits", with_length("99999999999999999999")),
        ("length-of-4-gib", with_length("4294967296")),
        ("length-of-letters", with_length("abc")),
        ("length-with-many-zeros", with_length(&("0".repeat(60) + "70"))),
        ("length-too-short", with_length("20")),
        ("length-too-long", with_length("500")),
        ("wrong-sum", wrong_sum),
        (
            "sum-of-letters",
            [&framed("FIX.4.4", &logon())[..], b"10=abc\x01"].concat()[7..].to_vec(),
        ),
        ("unknown-version", framed("FIX.9.9", &logon())),
        ("other-version", framed("FIX.4.2", &logon())),
        ("version-of-a-mib", framed(&"F".repeat(1 << 20), &logon())),
        ("message-of-100-mib", b"8=FIX.4.4\x019=104857600\x0135=A\x01".to_vec()),
        (
            "proxy-header-1",
            [b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", &framed("FIX.4.4", &logon())[..]].concat(),
        ),
        (
            "proxy-header-2",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\0\x01\0\x02".to_vec(),
        ),
    ]
}

/// Returns pseudorandom bytes, which are the same in each run.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

pub(super) fn all() -> Vec<Attack> {
    let mut all = Vec::new();
    for (name, body, expected) in FIRST {
        let run = move |field: &Field| {
            let mut line = field.stranger("LIAR")?;
            let body = body.replace("SEND", &format!("52={}", utc()));
            let mark = field.mark();
            let of_field = |body: String, name: &str| {
                let body = body.replace(&format!("49={name}|"), &format!("49={name}{mark}|"));
                body.replace(&format!("56={name}|"), &format!("56={name}{mark}|"))
            };
            let body = of_field(of_field(body, "LIAR"), "HONEST");
            line.raw(&framed("FIX.4.4", &body));
            line.next_num_out += 1;
            match *expected {
                "" => line.is_shut_silently(),
                // The server may close the connection, or keep it and answer a TestRequest(1).
                "-" => line.is_shut().map(drop).or_else(|_| line.lives()),
                "A" => line.hears("|35=A|").map(drop),
                _ => line.is_shut().and_then(|said| match said.contains("|35=5|") {
                    true => Ok(()),
                    false => Err(format!("no Logout(5) with a reason: {said}")),
                }),
            }
        };
        let what = match *expected {
            "" => "closed without a word",
            "-" => "an answer or none, and nothing else",
            _ => "Logout(5) with a reason, then closed",
        };
        all.push(attack(&format!("stranger/{name}"), what, run));
    }
    for (name, bytes) in no_messages() {
        let run = move |field: &Field| {
            let mut line = field.stranger("LIAR")?;
            line.raw(&bytes);
            line.is_shut_silently()
        };
        all.push(attack(&format!("stranger/{name}"), "closed in time, without an answer", run));
    }
    all.extend(slow());
    all.extend(many());
    all.extend(tls());
    all
}

fn slow() -> Vec<Attack> {
    vec![
        attack("stranger/silence", "closed in time, without an answer", |field| {
            field.stranger("LIAR")?.is_shut_silently()
        }),
        attack("stranger/a-byte-now-and-then", "closed in time, without an answer", |field| {
            let mut line = field.stranger("LIAR")?;
            for byte in b"8=FIX.4.4\x019=70\x0135=A\x0149=LI" {
                line.raw(&[*byte]);
                thread::sleep(Duration::from_millis(80));
            }
            line.is_shut_silently()
        }),
        attack("stranger/a-logon-byte-by-byte", "it is taken", |field| {
            let mut line = field.stranger("LIAR")?;
            let logon = line.message("A", "98=0|108=30|141=Y|");
            logon.iter().for_each(|byte| _ = line.raw(&[*byte]));
            line.hears("|35=A|").map(drop)
        }),
        attack("stranger/half-closed", "closed without a word", |field| {
            let mut line = field.stranger("LIAR")?;
            line.end();
            line.is_shut_silently()
        }),
        attack("stranger/ten-thousand-logons-at-once", "one is taken", |field| {
            let mut line = field.stranger("LIAR")?;
            let logon = line.message("A", "98=0|108=30|141=Y|");
            line.raw(&logon.repeat(10_000));
            line.hears("|35=A|").map(drop)
        }),
        attack("stranger/a-mib-of-fields-in-a-logon", "closed, or refused", |field| {
            let mut line = field.stranger("LIAR")?;
            let logon = line.message("A", &("98=0|108=30|".to_owned() + &"58=x|".repeat(150_000)));
            line.raw(&logon);
            line.is_shut().map(drop)
        }),
        attack("stranger/a-name-of-64-kib", "closed without a word", |field| {
            let mut line = field.stranger("LIAR")?;
            line.name = "N".repeat(64 << 10);
            line.say("A", "98=0|108=30|");
            line.is_shut_silently()
        }),
        attack("stranger/a-hundred-mib-under-way", "closed without a word", |field| {
            let mut line = field.stranger("LIAR")?;
            line.raw(b"8=FIX.4.4\x019=104857600\x0135=A\x0158=");
            let piece = vec![b'x'; 64 << 10];
            (0..1_600).all(|_| line.raw(&piece));
            line.is_shut_silently()
        }),
        attack("stranger/wrong-passwords", "each refused, the right one taken", |field| {
            for n in 0..15 {
                let mut line = field.stranger("LOCKED")?;
                line.say("A", &format!("98=0|108=30|554=guess{n}|"));
                let said = line.is_shut()?;
                if !said.contains("|35=5|") || said.contains("sesame") {
                    return Err(format!("a wrong password was not refused so: {said}"));
                }
            }
            let mut line = field.stranger("LOCKED")?;
            line.say("A", "98=0|108=30|554=sesame|141=Y|");
            line.hears("|35=A|").map(drop)
        }),
        attack("stranger/the-session-of-somebody-else", "closed without a word", |field| {
            // The honest counterparty uses the session HONEST on the plain port, so this second
            // logon must be refused.
            let mut line = Line::plain(field.plain, "HONEST")?;
            line.say("A", "98=0|108=30|141=Y|");
            line.is_shut_silently()
        }),
    ]
}

fn many() -> Vec<Attack> {
    vec![
        attack("stranger/a-thousand-silent-connections", "others log on all the same", |field| {
            let open = |_| TcpStream::connect(field.address());
            let held: Vec<_> = (0..1_000).map_while(|n| open(n).ok()).collect();
            let probe = field.probe();
            drop(held);
            probe
        }),
        attack("stranger/opened-and-cut", "nothing is left of them", |field| {
            for _ in 0..1_000 {
                drop(TcpStream::connect(field.address()));
            }
            Ok(())
        }),
        attack("stranger/opened-and-reset", "nothing is left of them", |field| {
            for _ in 0..300 {
                let mut line = Line::plain(field.address(), "LIAR")?;
                // The unread bytes turn the attacker's close into a reset.
                line.raw(b"8=FIX.4.4\x019=5000\x0135=A\x01");
            }
            Ok(())
        }),
        attack("stranger/many-names", "each closed without a word", |field| {
            for n in 0..200 {
                let mut line = Line::plain(field.plain, &format!("NAME{n}"))?;
                line.say("A", "98=0|108=30|");
                drop(line);
            }
            Ok(())
        }),
    ]
}

/// Returns attacks with incomplete TLS handshakes, and attacks that speak plain FIX on the TLS port
/// or TLS on the plain port.
fn tls() -> Vec<Attack> {
    // The bytes are the beginning of a TLS 1.2 ClientHello that announces 512 bytes.
    let hello: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let raw = |name: &str, bytes: Vec<u8>| {
        on(On::Tls, name, "closed, in time", move |field: &Field| {
            let mut line = Line::plain(field.tls, "LIAR")?;
            line.raw(&bytes);
            line.is_shut().map(drop)
        })
    };
    let logon = || framed("FIX.4.4", &format!("35=A|49=LIART|56=VENUE|34=1|52={}|", utc()));
    let flood = |count: usize, bytes: &'static [u8]| {
        move |field: &Field| {
            let mut held = Vec::new();
            for _ in 0..count {
                let mut line = Line::plain(field.tls, "LIAR")?;
                line.raw(bytes);
                held.push(line);
            }
            let probe = field.probe();
            drop(held);
            probe
        }
    };
    vec![
        on(On::Plain, "stranger/tls-on-the-plain-port", "closed without a word", move |field| {
            let mut line = Line::plain(field.plain, "LIAR")?;
            line.raw(hello);
            line.raw(&[0; 500]);
            line.is_shut_silently()
        }),
        raw("stranger/fix-on-the-tls-port", logon()),
        raw("stranger/tls-half-a-header", vec![0x16, 3]),
        raw("stranger/tls-half-a-hello", hello.to_vec()),
        raw("stranger/tls-no-hello", [&[0x16, 3, 1, 0, 64][..], &[7; 64]].concat()),
        raw(
            "stranger/tls-a-record-too-long",
            [&[0x16, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat(),
        ),
        raw(
            "stranger/tls-data-before-the-handshake",
            [&[0x17, 3, 3, 0, 64][..], &[7; 64]].concat(),
        ),
        raw("stranger/tls-alert-first", vec![0x15, 3, 1, 0, 2, 2, 40]),
        raw("stranger/tls-noise", noise(1 << 20)),
        raw("stranger/tls-empty-records", [0x16, 3, 1, 0, 0].repeat(50_000)),
        on(
            On::Tls,
            "stranger/tls-two-hundred-half-hellos",
            "others log on",
            flood(200, b"\x16\x03\x01\x02\x00\x01"),
        ),
        on(On::Tls, "stranger/tls-two-hundred-silent", "others log on", flood(200, b"")),
    ]
}
