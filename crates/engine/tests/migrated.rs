//! Compares the migration report with a session that runs with the migrated settings. Each row
//! tests a behavior that a sentence of the report promises.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Engine, Message, SessionNotice, SessionRef,
    SessionView, Tag, msg_type, tag,
};
use transfix_dictionary::Draft;
use transfix_quickfix::{Dialect, Fate, Migration};
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;

/// A time limit that no step reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers each News(B) with a News(B) of the same Headline(148), and panics on request.
struct EchoApplication {
    came_back: Sender<()>,
}

impl Application for EchoApplication {
    fn on_message(
        &mut self,
        news: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let headline = news.text(HEADLINE).unwrap_or("none");
        assert_ne!(headline, "panic", "as it was asked to");
        let refused = session.send(msg_type::NEWS, |body| {
            body.char(tag::POSS_DUP_FLAG, b'Y').str(HEADLINE, headline);
        });
        let headline = match (headline, refused) {
            ("flag", Err(_)) => "PossDupFlag(43) is the session's own",
            ("flag", Ok(_)) => "PossDupFlag(43) was taken",
            (other, _) => other,
        };
        let _ = session.send(msg_type::NEWS, |body| _ = body.str(HEADLINE, headline));
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::RolledBack(_) = notice {
            let _ = self.came_back.send(());
        }
    }
}

/// A test row: the lines of the key, the report's sentence about the first line, and the exchange
/// on the wire.
struct Row {
    dialect: Dialect,
    cfg: &'static str,
    fate: Fate,
    /// A part of the finding's sentence or new key.
    says: &'static str,
    /// Each line is a step. `> MESSAGE` sends the message; `! MESSAGE` sends it with a wrong
    /// CheckSum(10). `< BEGIN` expects a message with this beginning. `closed` expects the end of
    /// the connection. `beside` opens another connection. `back` waits until the session has
    /// recovered from a panic. `again MESSAGE => BEGIN` logs on in a new connection, and expects
    /// the beginning of an answer.
    wire: &'static str,
}

/// The tag of Headline(148), which identifies a News(B).
const HEADLINE: Tag = Tag(148);

const LOGON: &str = "> 35=A|34=1|98=0|108=30\n< 35=A|34=1|98=0|108=30\n";

/// A step that logs on with number 1 and expects a Logon(A) with number 1.
const ANEW: &str = "again 35=A|34=1|98=0|108=30 => 35=A|34=1|";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { dialect: Dialect::Java, cfg: "RejectMessageOnUnhandledException=Y", fate: Fate::Mapped,
        says: "the message counts as received: it is neither rejected nor delivered again",
        wire: "LOGON\n> 35=B|34=2|148=panic|33=1|58=x\nclosed\nback\n\
               again 35=A|34=3|98=0|108=30 => 35=A|34=2|\n\
               > 35=B|34=4|148=next|33=1|58=x\n< 35=B|34=3|148=next" },
    Row { dialect: Dialect::Java, cfg: "RejectMessageOnUnhandledException=N", fate: Fate::Mapped,
        says: "`after_panic` decides whether the session continues",
        wire: "LOGON\n> 35=B|34=2|148=panic|33=1|58=x\nclosed\nback\n\
               again 35=A|34=3|98=0|108=30 => 35=A|34=2|" },
    Row { dialect: Dialect::Cpp, cfg: "ResetOnLogon=Y", fate: Fate::Dangerous,
        says: "lost with each logon",
        wire: "LOGON\n> 35=B|34=2|148=a|33=1|58=x\n< 35=B|34=2\nANEW" },
    Row { dialect: Dialect::Cpp, cfg: "ResetOnLogout=Y", fate: Fate::Mapped,
        says: "only after both sides have said Logout(5)",
        wire: "LOGON\nagain 35=A|34=2|98=0|108=30 => 35=A|34=2|\n\
               > 35=5|34=3\n< 35=5\nclosed\nANEW" },
    Row { dialect: Dialect::Cpp, cfg: "ResetOnDisconnect=Y", fate: Fate::Dangerous,
        says: "each cut of the line loses what was on its way",
        wire: "LOGON\n> 35=B|34=2|148=a|33=1|58=x\n< 35=B|34=2\nANEW" },
    Row { dialect: Dialect::Java, cfg: "ResetOnError=Y", fate: Fate::Dangerous,
        says: "each fault loses what was on its way",
        wire: "LOGON\n> 35=0|34=2\n> 35=0|34=1\n< 35=5\nclosed\nANEW" },
    Row { dialect: Dialect::Cpp, cfg: "SendNextExpectedMsgSeqNum=Y", fate: Fate::Mapped,
        says: "counts from FIX 4.4 on",
        wire: "> 35=A|34=1|98=0|108=30|789=1\n< 35=A|34=1|98=0|108=30|789=2" },
    Row { dialect: Dialect::Cpp, cfg: "BeginString=FIX.4.3\nSendNextExpectedMsgSeqNum=Y",
        fate: Fate::Honoured, says: "", wire: "LOGON\n> 35=1|34=2|112=a\n< 35=0|34=2|112=a" },
    Row { dialect: Dialect::Java, cfg: "EnableLastMsgSeqNumProcessed=Y", fate: Fate::Mapped,
        says: "counts from FIX 4.2 on",
        wire: "> 35=A|34=1|98=0|108=30\n< 35=A|34=1|369=1" },
    Row { dialect: Dialect::Java, cfg: "BeginString=FIX.4.1\nEnableLastMsgSeqNumProcessed=Y",
        fate: Fate::Honoured, says: "", wire: "LOGON" },
    Row { dialect: Dialect::Cpp, cfg: "ValidateLengthAndChecksum=N", fate: Fate::Dangerous,
        says: "without CheckSum(10) damaged messages are accepted",
        wire: "LOGON\n! 35=B|34=2|148=damaged|33=1|58=x\n< 35=B|34=2|148=damaged" },
    Row { dialect: Dialect::Java, cfg: "ValidateChecksum=N", fate: Fate::Dangerous,
        says: "damaged messages are accepted",
        wire: "LOGON\n! 35=B|34=2|148=damaged|33=1|58=x\n< 35=B|34=2|148=damaged" },
    Row { dialect: Dialect::Java, cfg: "RejectGarbledMessage=Y", fate: Fate::Honoured,
        says: "garbled = \"reject\"", wire: "LOGON\n! 35=B|34=2|148=a|33=1|58=x\n< 35=3|34=2" },
    Row { dialect: Dialect::Java, cfg: "RejectGarbledMessage=N", fate: Fate::Honoured,
        says: "garbled = \"skip\"",
        wire: "LOGON\n! 35=B|34=2|148=a|33=1|58=x\n> 35=1|34=2|112=a\n< 35=0|34=2|112=a" },
    Row { dialect: Dialect::Cpp, cfg: "DataDictionary=venue.xml\nValidateUserDefinedFields=N",
        fate: Fate::Honoured, says: "VenueFlag(9001) added",
        wire: "LOGON\n> 35=B|34=2|148=own|33=1|58=x|9002=y\n< 35=B|34=2|148=own\n\
               > 35=B|34=3|148=own|33=1|58=x|9001=Y\n< 35=3|34=3|45=3|371=9001|372=B|373=2" },
    Row { dialect: Dialect::Cpp, cfg: "ValidateUserDefinedFields=N", fate: Fate::Mapped,
        says: "one that it has for other messages is rejected as before", wire: "LOGON" },
    Row { dialect: Dialect::Cpp, cfg: "AllowUnknownMsgFields=Y", fate: Fate::Mapped,
        says: "unknown tags from 5000 on are accepted too",
        wire: "LOGON\n> 35=B|34=2|148=a|33=1|58=x|9002=y|4999=z\n< 35=B|34=2|148=a" },
    Row { dialect: Dialect::Java, cfg: "ValidateFieldsHaveValues=N", fate: Fate::Honoured,
        says: "checks.empty_values = false",
        wire: "LOGON\n> 35=B|34=2|148=a|33=1|58=\n< 35=B|34=2|148=a" },
    Row { dialect: Dialect::Java, cfg: "AllowUnknownEnumValues=Y", fate: Fate::Honoured,
        says: "checks.codes = false",
        wire: "LOGON\n> 35=B|34=2|61=7|148=a|33=1|58=x\n< 35=B|34=2|148=a" },
    Row { dialect: Dialect::Java, cfg: "FirstFieldInGroupIsDelimiter=Y", fate: Fate::Mapped,
        says: "whatever comes first in the first entry delimits the entries",
        wire: "LOGON\n> 35=B|34=2|148=a|215=1|217=x|216=1|33=1|58=x\n< 35=B|34=2|148=a" },
    Row { dialect: Dialect::Java, cfg: "ValidateUnorderedGroupFields=Y", fate: Fate::Honoured,
        says: "checks.group_order = true",
        wire: "LOGON\n> 35=B|34=2|148=a|215=1|217=x|216=1|33=1|58=x\n< 35=3|34=2" },
    Row { dialect: Dialect::Java, cfg: "ValidateIncomingMessage=N", fate: Fate::Mapped,
        says: "messages of the session layer are still validated",
        wire: "LOGON\n> 35=B|34=2|33=1|58=x\n< 35=B|34=2|148=none\n> 35=1|34=3\n< 35=3|34=3" },
    Row { dialect: Dialect::Java, cfg: "RejectInvalidMessage=N", fate: Fate::Mapped,
        says: "messages are not checked at all",
        wire: "LOGON\n> 35=B|34=2|33=1|58=x\n< 35=B|34=2|148=none\n> 35=1|34=3\n< 35=3|34=3" },
    Row { dialect: Dialect::Cpp, cfg: "UseDataDictionary=N", fate: Fate::Mapped,
        says: "messages of the session layer are still validated",
        wire: "LOGON\n> 35=B|34=2|33=1|58=x\n< 35=B|34=2|148=none\n> 35=1|34=3\n< 35=3|34=3" },
    Row { dialect: Dialect::Java, cfg: "ValidateSequenceNumbers=N", fate: Fate::Dangerous,
        says: "missing messages are never requested",
        wire: "LOGON\n> 35=B|34=5|148=early|33=1|58=x\n< 35=B|34=2|148=early\n> 35=1|34=6|112=a\n\
               < 35=0|34=3|112=a" },
    Row { dialect: Dialect::Cpp, cfg: "CheckCompID=N", fate: Fate::Dangerous,
        says: "only the CompIDs of the Logon(A) are checked",
        wire: "LOGON\n> 35=B|34=2|49=OTHER|148=a|33=1|58=x\n< 35=B|34=2|148=a" },
    Row { dialect: Dialect::Cpp, cfg: "PersistMessages=N", fate: Fate::Dangerous,
        says: "a gap fill covers what the counterparty asks for",
        wire: "LOGON\n> 35=B|34=2|148=a|33=1|58=x\n< 35=B|34=2|148=a\n> 35=2|34=3|7=2|16=0\n\
               < 35=4|34=2|43=Y" },
    Row { dialect: Dialect::Java, cfg: "AllowPosDup=Y", fate: Fate::Dangerous,
        says: "PossDupFlag(43) and OrigSendingTime(122) are the session's own here",
        wire: "LOGON\n> 35=B|34=2|148=flag|33=1|58=x\n\
               < 35=B|34=2|148=PossDupFlag(43) is the session" },
    Row { dialect: Dialect::Java, cfg: "RequiresOrigSendingTime=N", fate: Fate::Honoured,
        says: "resend.orig_sending_time_required = false",
        wire: "LOGON\n> 35=0|34=2\n> 35=B|34=2|43=Y|148=old|33=1|58=x\n> 35=1|34=3|112=a\n\
               < 35=0|34=2|112=a" },
    Row { dialect: Dialect::Net, cfg: "ResendSessionLevelRejects=Y", fate: Fate::Honoured,
        says: "resend.resend_rejects = true",
        wire: "LOGON\n> 35=B|34=2|33=1|58=x\n< 35=3|34=2\n> 35=2|34=3|7=2|16=0\n< 35=3|34=2|43=Y" },
    Row { dialect: Dialect::Net, cfg: "IgnorePossDupResendRequests=Y", fate: Fate::Honoured,
        says: "resend.answer_poss_dup = false",
        wire: "LOGON\n> 35=B|34=2|148=a|33=1|58=x\n< 35=B|34=2\n\
               > 35=2|34=2|43=Y|122=20260101-00:00:00|7=1|16=0\n\
               > 35=1|34=3|112=a\n< 35=0|34=3|112=a" },
    Row { dialect: Dialect::Java, cfg: "ClosedResendInterval=Y", fate: Fate::Honoured,
        says: "resend.closed_ranges = true",
        wire: "LOGON\n> 35=0|34=5\n< 35=2|34=2|7=2|16=4" },
    Row { dialect: Dialect::Java, cfg: "ResendRequestChunkSize=2", fate: Fate::Honoured,
        says: "resend.request_max = 2", wire: "LOGON\n> 35=0|34=9\n< 35=2|34=2|7=2|16=3" },
    Row { dialect: Dialect::Cpp, cfg: "SendRedundantResendRequests=Y", fate: Fate::Honoured,
        says: "resend.redundant_requests = true",
        wire: "LOGON\n> 35=0|34=5\n< 35=2|34=2|7=2\n> 35=0|34=6\n< 35=2|34=3|7=2" },
    Row { dialect: Dialect::Go, cfg: "HeartBtIntOverride=Y\nHeartBtInt=25", fate: Fate::Honoured,
        says: "timing.impose_heart_bt_int = true",
        wire: "> 35=A|34=1|98=0|108=30\n< 35=A|34=1|98=0|108=25" },
    Row { dialect: Dialect::Java, cfg: "LogonTag=9001=desk\nValidateUserDefinedFields=N",
        fate: Fate::Honoured, says: "logon.fields",
        wire: "> 35=A|34=1|98=0|108=30\n< 35=A|34=1|98=0|108=30|9001=desk" },
    Row { dialect: Dialect::Go, cfg: "DynamicQualifier=Y", fate: Fate::NotCarriedOver,
        says: "a second session of the same ids at the same time is refused",
        wire: "LOGON\nbeside\n> 35=A|34=1|98=0|108=30\nclosed" },
    Row { dialect: Dialect::Java, cfg: "DisconnectOnError=Y", fate: Fate::Ignored,
        says: "a session ends by itself only where the standard wants it",
        wire: "LOGON\n> 35=B|34=2|33=1|58=x\n< 35=3|34=2\n> 35=1|34=3|112=a\n< 35=0|34=3|112=a" },
];

/// Migrates the row's settings in this folder, and starts an acceptor with them on any free port.
fn migrated(dir: &TempDir, row: &Row) -> (Migration, Engine, Receiver<()>) {
    let version = if row.cfg.contains("BeginString") { "" } else { "BeginString=FIX.4.4\n" };
    let head = format!(
        "[SESSION]\nConnectionType=acceptor\nSocketAcceptPort=1\nSenderCompID=VENUE\n\
         TargetCompID=CLIENT\nStartTime=00:00:00\nEndTime=00:00:00\n\
         FileStorePath={}\n{version}",
        dir.path().join("store").display()
    );
    let head = match row.dialect {
        // Omits the times for QuickFIX/Go, which treats a whole day as a window that ends.
        Dialect::Go => head.replace("StartTime=00:00:00\nEndTime=00:00:00\n", ""),
        _ => head.replace("StartTime=00:00:00\nEndTime=00:00:00", "NonStopSession=Y"),
    };
    let path = dir.path().join("venue.cfg");
    // The row's lines come last, so that their line numbers follow the head.
    fs::write(&path, format!("{head}{}\n", row.cfg)).unwrap();
    let migration = Migration::read(&path, Some(row.dialect)).unwrap();
    let first = head.lines().count() + 1;
    let told: Vec<_> = migration.findings().iter().filter(|f| f.line >= first).collect();
    let is_it = |finding: &&&transfix_quickfix::Finding| {
        finding.fate == row.fate && finding.to_string().contains(row.says)
    };
    assert!(told.iter().any(|f| is_it(&f)), "{}: {told:#?}", row.cfg);
    let mut settings = migration.settings().unwrap();
    settings.sessions[0].address = "127.0.0.1:0".to_owned();
    let (came_back, back) = channel();
    let engine =
        Engine::start(&settings, |_| Box::new(EchoApplication { came_back: came_back.clone() }));
    (migration, engine.unwrap(), back)
}

#[test]
fn every_sentence_about_a_session_is_what_a_session_does() {
    for row in ROWS {
        let dir = TempDir::new();
        fs::write(dir.path().join("venue.xml"), venue_dictionary()).unwrap();
        let (_, engine, back) = migrated(&dir, row);
        let session = engine.sessions().next().unwrap();
        let version = session.id().begin_string;
        let mut wires = vec![Wire::connect(engine.listening()[0], version)];
        let wire = row.wire.replace("LOGON", LOGON.trim_end()).replace("ANEW", ANEW);
        for line in wire.lines() {
            step(line, row, (&mut wires, engine.listening()[0], version), &back);
            if line == "closed" && row.cfg.contains("Unhandled") {
                session.operate(&Action::Revive {}).unwrap();
            }
        }
        engine.stop(Duration::ZERO);
    }
}

fn step(
    line: &str,
    row: &Row,
    (wires, to, version): (&mut Vec<Wire>, SocketAddr, BeginString),
    back: &Receiver<()>,
) {
    let wire = wires.last_mut().unwrap();
    let cfg = row.cfg;
    let until_ns = transfix::clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
    match line.split_once(' ') {
        Some((">", message)) => wire.send(message),
        Some(("!", message)) => {
            let mut frame = wire.frame(message);
            let last = frame.len() - 2;
            frame[last] = if frame[last] == b'0' { b'1' } else { b'0' };
            wire.write(&frame);
        }
        Some(("<", begin)) => {
            let found = wire.next();
            assert!(found.starts_with(begin), "{cfg}: {begin}, not {found}");
        }
        Some(("again", logon)) => loop {
            assert!(transfix::clock::monotonic_ns() < until_ns, "{cfg}: never logged on again");
            let (logon, begin) = logon.split_once(" => ").unwrap();
            wires.clear();
            wires.push(Wire::connect(to, version));
            wires[0].send(logon);
            // The engine must close this connection while the previous connection still exists.
            match &*wires[0].next() {
                "" => {}
                found if found.starts_with(begin) => break,
                found => panic!("{cfg}: {begin}, not {found}"),
            }
        },
        None if line == "closed" => assert_eq!(wire.next(), "", "{cfg}"),
        None if line == "beside" => wires.push(Wire::connect(to, version)),
        None if line == "back" => back.recv_timeout(PATIENCE).unwrap(),
        _ => panic!("{cfg}: {line}"),
    }
}

/// Returns FIX 4.4 with an additional field that only NewOrderSingle(D) has.
fn venue_dictionary() -> String {
    let mut draft = Draft::standard("FIX44").unwrap();
    draft.messages.iter_mut().for_each(|message| message.conditions.clear());
    let text = draft.to_quickfix_xml();
    let field = "  <field name='VenueFlag' number='9001' type='BOOLEAN'/>\n </fields>";
    let text = text.replacen(" </fields>", field, 1);
    let order = "<message name='NewOrderSingle' msgtype='D' msgcat='app'>";
    assert!(text.contains(order));
    text.replacen(order, &format!("{order}\n   <field name='VenueFlag' required='N'/>"), 1)
}

/// An initiator with ResetOnLogon resets the numbers by its Logon(A), as the report says.
#[test]
fn an_initiator_says_by_its_logon_that_it_resets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = TempDir::new();
    let cfg = format!(
        "[SESSION]\nConnectionType=initiator\nBeginString=FIX.4.4\nSenderCompID=VENUE\n\
         TargetCompID=CLIENT\nSocketConnectHost=127.0.0.1\nSocketConnectPort={}\nHeartBtInt=30\n\
         NonStopSession=Y\nFileStorePath={}\nResetOnLogon=Y\n",
        listener.local_addr().unwrap().port(),
        dir.path().display()
    );
    let migration = Migration::parse("desk.cfg", cfg.as_bytes(), Some(Dialect::Cpp)).unwrap();
    let (came_back, _back) = channel();
    let settings = migration.settings().unwrap();
    let engine =
        Engine::start(&settings, |_| Box::new(EchoApplication { came_back: came_back.clone() }));
    let engine = engine.unwrap();
    for _ in 0..2 {
        let mut wire = Wire::of(listener.accept().unwrap().0, BeginString::Fix44);
        let logon = wire.next();
        assert!(logon.starts_with("35=A|34=1|") && logon.contains("|141=Y"), "{logon}");
        wire.send("35=A|34=1|98=0|108=30|141=Y");
        drop(wire);
        engine.sessions().next().unwrap().operate(&Action::LogOn {}).ok();
    }
    engine.stop(Duration::ZERO);
}

/// The migrated log contains every message in a file for its direction, including Heartbeat(0).
/// Secrets are replaced by one star per byte.
#[test]
fn a_log_has_every_message_with_stars_as_long_as_what_they_hide() {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    let line = format!("FileLogPath={}\nRedactFieldsInLogs=148\nRedactionLogText=x", log.display());
    let row = Row {
        dialect: Dialect::Net,
        cfg: Box::leak(line.into_boxed_str()),
        fate: Fate::Ignored,
        says: "stars, as many as the value has bytes",
        wire: "",
    };
    let (_, engine, _back) = migrated(&dir, &row);
    let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30");
    wire.send("35=1|34=2|112=beat");
    wire.send("35=B|34=3|148=secret|33=1|58=x");
    for expected in ["35=A|", "35=0|", "35=B|"] {
        assert!(wire.next().starts_with(expected));
    }
    drop(wire);
    engine.stop(Duration::ZERO);
    let text = |way: &str| {
        let name = format!("FIX.4.4-VENUE-CLIENT.{way}.log");
        fs::read_to_string(log.join(name)).unwrap().replace('\u{1}', "|")
    };
    let (inbound, outbound) = (text("in"), text("out"));
    assert!(outbound.contains("|35=0|") && outbound.contains("|148=******|"), "{outbound}");
    assert!(inbound.contains("|35=1|") && inbound.contains("|148=******|"), "{inbound}");
}

#[test]
fn an_error_of_the_start_has_the_lines_of_the_migrated_text() {
    let cfg = "[SESSION]\nConnectionType=acceptor\nBeginString=FIX.4.4\nSenderCompID=VENUE\n\
        TargetCompID=CLIENT\nSocketAcceptHost=127.0.0.1\nSocketAcceptPort=0\n";
    let migration = Migration::parse("venue.cfg", cfg.as_bytes(), Some(Dialect::Cpp)).unwrap();
    let mut settings = migration.settings().unwrap();
    settings.sessions[0].threads.mode = transfix::Mode::Spin;
    settings.sessions[0].threads.cpu = Some(99_999);
    let newsroom = |_: &transfix::SessionId| -> Box<dyn Application> {
        Box::new(EchoApplication { came_back: channel().0 })
    };
    let Err(error) = Engine::start(&settings, newsroom) else { panic!("no such CPU") };
    assert!(error.to_string().starts_with("venue.cfg, migrated"), "{error}");
}
