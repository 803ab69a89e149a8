//! Tests attacks on the administration over FIX, by strangers and by malicious administrators.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use transfix::{BeginString, Timestamp, TlsSettings, clock, tag};
use transfix_admin::client::FixClient;
use transfix_codec::FrameWriter;
use transfix_testkit::certificates::{Authority, Valid};

use crate::fix::{Who, address, login, market};
use crate::http::LONG;
use crate::market::{Market, PASSWORD};

/// Encodes a message to be sent through a raw socket.
fn frame(msg_type: &str, seq: u64, fields: &[(u32, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = FrameWriter::new(&mut bytes, b"FIX.4.4", msg_type);
    writer.raw(b"49=RAW\x0156=FIXADMIN\x01");
    writer.header_uint(tag::MSG_SEQ_NUM, seq);
    let now: Timestamp = clock::now().utc;
    writer.header_timestamp(tag::SENDING_TIME, now, BeginString::Fix44.precision());
    for (tag, value) in fields {
        writer.raw(format!("{tag}={value}\x01").as_bytes());
    }
    writer.finish().unwrap();
    bytes
}

fn logon(user: &str, password: &str) -> Vec<u8> {
    frame("A", 1, &[(98, "0"), (108, "30"), (553, user), (554, password)])
}

fn command(seq: u64, xml: &str) -> Vec<u8> {
    frame("n", seq, &[(212, &xml.len().to_string()), (213, xml)])
}

fn connect(market: &Market) -> TcpStream {
    let socket = TcpStream::connect(address(market)).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.set_write_timeout(Some(LONG)).unwrap();
    socket
}

/// Reads until the server closes the connection.
fn all(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_stranger_is_told_nothing_of_the_sessions() {
    let market = market();
    let mut known = Who::of(&market, "operator");
    for first in [
        command(1, "<SessionsList/>"),
        logon("", ""),
        logon("nobody", PASSWORD),
        frame("A", 1, &[(98, "0"), (108, "30")]),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"8=FIX.4.4\x019=999999999\x01".to_vec(),
    ] {
        let mut socket = connect(&market);
        socket.write_all(&first).unwrap();
        // A command sent directly after a refused Logon(A) is not performed.
        let _ = socket.write_all(&command(2, "<SessionsList/>"));
        // The shutdown may fail, because the server may have closed the connection already.
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let said = all(&mut socket);
        assert!(!said.contains("CLIENT") && !said.contains("Response"), "{said}");
    }
    known.ask("<Help/>");
}

#[test]
fn what_is_no_command_is_answered_too() {
    let market = market();
    let mut socket = connect(&market);
    let mut bytes = logon("viewer-person", PASSWORD);
    bytes.extend(frame("D", 2, &[(11, "x")]));
    bytes.extend(frame("n", 3, &[(58, "x")]));
    bytes.extend(frame("n", 4, &[(212, "4"), (213, "\u{1}\u{0}\u{1}\u{2}")]));
    bytes.extend(frame("n", 5, &[(212, "7"), (213, "<Help/>"), (9207, &"9".repeat(300))]));
    socket.write_all(&bytes).unwrap();
    let (mut said, mut some) = (String::new(), [0; 4_096]);
    while said.matches("</Response>").count() < 4 {
        let count = socket.read(&mut some).unwrap();
        assert!(count > 0, "the connection ended: {said}");
        said += &String::from_utf8_lossy(&some[..count]);
    }
    for words in [
        "ResultCode=\"7\"><Description>the message has no command; send an XMLnonFIX(n) \
         with the command as XmlData(213)",
        "ResultCode=\"9\"><Description>XmlData(213) is missing",
        "ResultCode=\"9\"><Description>the XML is not valid",
        "ResultCode=\"9\"><Description>tag 9207 must be UTF-8 text of at most 256 bytes",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// If a client sends many requests and reads no answers, the server closes its connection. Other
/// clients are served meanwhile, and the venue trades.
#[test]
fn who_reads_nothing_is_cut_off() {
    let market = market();
    let mut socket = connect(&market);
    socket.write_all(&logon("viewer-person", PASSWORD)).unwrap();
    let until_ns = clock::monotonic_ns() + 2 * LONG.as_nanos() as u64;
    let mut is_cut_off = false;
    let mut seq = 2;
    socket.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut waiting = Vec::new();
    while clock::monotonic_ns() < until_ns && !is_cut_off {
        if waiting.is_empty() {
            waiting = command(seq, "<Help/>");
            seq += 1;
        }
        match socket.write(&waiting) {
            Ok(count) => drop(waiting.drain(..count)),
            Err(error) => {
                use std::io::ErrorKind::{TimedOut, WouldBlock};
                is_cut_off = ![TimedOut, WouldBlock].contains(&error.kind());
            }
        }
    }
    assert!(is_cut_off, "{seq} commands were taken");
    market.trade(10);
    Who::of(&market, "administrator").ask("<Help/>");
}

#[test]
fn the_connection_is_encrypted_where_there_is_a_certificate() {
    let mut authority = None;
    let market = Market::with(|admin, dir| {
        let made = Authority::new(dir, "authority");
        let signed = made.sign(&["localhost"], 1, Valid::Now);
        (admin.certificate, admin.key) = (signed.certificate.clone(), signed.key.clone());
        admin.fix = Some(transfix::FixAdminSettings {
            address: "127.0.0.1:0".into(),
            ..transfix::FixAdminSettings::default()
        });
        authority = Some(made);
    });
    let mut login = login(&market, "viewer");
    FixClient::log_on(&login).unwrap_err();
    login.tls = Some(TlsSettings {
        ca: vec![authority.unwrap().ca.clone()],
        server_name: "localhost".to_owned(),
        ..TlsSettings::default()
    });
    let answer = FixClient::log_on(&login).unwrap().ask("<Help/>", LONG).unwrap();
    assert!(answer.contains("ResultCode=\"0\""), "{answer}");
}

/// Any XML is answered with XML that has a defined result code, and the session stays up.
#[test]
fn no_xml_ends_the_session() {
    let market = market();
    let mut one = Who::of(&market, "administrator");
    let mut random = transfix_testkit::random::Random::new(7);
    let words = [
        "<",
        ">",
        "</",
        "/>",
        "&",
        ";",
        "\"",
        "'",
        "=",
        " ",
        "\n",
        "<?",
        "?>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "&#0;",
        "&#x41;",
        "RequestID=\"1\"",
        "SessionsList",
        "SessionStatus",
        "ChangeSeqNum",
        "Heartbeat",
        "SendMessage",
        "<View>STATUS</View>",
        "SessionsSnapshot",
        "<SenderCompID>VENUE</SenderCompID>",
        "<TargetCompID>CLIENT</TargetCompID>",
        "<InSeqNum>",
        "18446744073709551616",
        "é",
        "\u{7f}",
        "<Message>35=B|</Message>",
        "xmlns:a=\"b\"",
        "a:b",
    ];
    for round in 0..400 {
        let count = random.below(14) + 1;
        let mut xml: String = (0..count).map(|_| words[random.below(words.len())]).collect();
        // Half of the texts are enclosed in the element of an existing command.
        if round % 2 == 0 {
            let name = words[20 + random.below(4)];
            let (name, session) = (name.trim(), &words[27..29].concat());
            xml = format!("<{name}>{session}{xml}</{name}>");
        }
        let answer = one.ask(&xml);
        let code = answer.strip_prefix("<Response ResultCode=\"").and_then(|rest| rest.get(..1));
        assert!(code.is_some_and(|code| "013679".contains(code)), "{xml}: {answer}");
        roxmltree::Document::parse(&answer).unwrap_or_else(|error| panic!("{xml}: {error}"));
    }
}
