//! Migration from QuickFIX: sample files of the four dialects with the expected results, and
//! dictionaries that differ from the standard.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transfix_dictionary::Draft;
use transfix_quickfix::{Dialect, Fate, Migration};
use transfix_session::{BeginString, Offline, Role};
use transfix_settings::{ClientCertificate, Settings};
use transfix_testkit::temp::TempDir;

const FOLDERS: [(&str, Dialect); 4] =
    [("cpp", Dialect::Cpp), ("j", Dialect::Java), ("n", Dialect::Net), ("go", Dialect::Go)];

/// Returns the sample files, four for each dialect.
fn samples() -> Vec<(PathBuf, Dialect)> {
    let mut samples = Vec::new();
    for (folder, dialect) in FOLDERS {
        let folder = Path::new("../../testdata/quickfix").join(folder);
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|end| end == "cfg")).collect();
        files.sort();
        assert!(files.len() >= 4, "{}: {files:?}", folder.display());
        samples.extend(files.into_iter().map(|file| (file, dialect)));
    }
    samples
}

/// Compares a text with a file. With `TRANSFIX_WRITE_DOCS` set, writes the file instead.
fn golden(path: &Path, text: &str) {
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let what = "TRANSFIX_WRITE_DOCS=1 cargo test -p transfix-quickfix writes it";
    assert_eq!(text, expected, "{}: {what}", path.display());
}

#[test]
fn samples_become_what_stands_beside_them() {
    for (path, dialect) in samples() {
        let migration = Migration::read(&path, Some(dialect)).unwrap();
        let folder = format!("{}/", path.parent().unwrap().display());
        golden(&path.with_extension("toml"), &migration.toml().replace(&folder, ""));
        golden(&path.with_extension("report"), &migration.report().replace(&folder, ""));
    }
}

#[test]
fn what_is_written_can_be_read_and_is_what_the_library_takes() {
    for (path, dialect) in samples() {
        let migration = Migration::read(&path, Some(dialect)).unwrap();
        let settings = match transfix_quickfix::settings(&path, Some(dialect)) {
            Ok((settings, _)) => settings,
            Err(error) => {
                // The only allowed errors: a wrong time or zone, or a Java property without a
                // value.
                let waits =
                    ["the engine does not start until", "set the variable before the start"];
                assert!(waits.iter().any(|text| migration.report().contains(text)), "{error}");
                continue;
            }
        };
        let name = path.with_extension("toml").display().to_string();
        let again = Settings::parse(&name, &migration.toml()).unwrap();
        let ids = |settings: &Settings| -> Vec<_> {
            settings.sessions.iter().map(transfix_settings::SessionSettings::id).collect()
        };
        assert!(!settings.sessions.is_empty());
        assert_eq!(ids(&settings), ids(&again), "{name}");
    }
}

#[test]
fn every_line_with_a_key_is_spoken_of() {
    for (path, dialect) in samples() {
        let migration = Migration::read(&path, Some(dialect)).unwrap();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with('#') || !line.contains('=') {
                continue;
            }
            let is_told = migration.findings().iter().any(|finding| finding.line == n + 1);
            assert!(is_told, "{}:{}: {line}", path.display(), n + 1);
        }
    }
}

#[test]
fn passwords_are_in_no_report() {
    for (path, dialect) in samples() {
        let report = Migration::read(&path, Some(dialect)).unwrap().report();
        assert!(!report.contains("hush"), "{report}");
    }
}

#[test]
fn the_dialect_is_guessed_from_keys() {
    for (name, expected) in [
        ("cpp/fixt-tls", Dialect::Cpp),
        ("j/banzai", Dialect::Java),
        ("j/tls-jdbc", Dialect::Java),
        ("n/initiator", Dialect::Net),
        ("n/tls", Dialect::Net),
        ("go/tls-mongo", Dialect::Go),
        ("go/acceptor", Dialect::Go),
        // No key in this file is specific to a dialect, so the first one is chosen.
        ("cpp/initiator", Dialect::Cpp),
    ] {
        let path = format!("../../testdata/quickfix/{name}.cfg");
        let migration = Migration::read(&path, None).unwrap();
        assert_eq!(migration.dialect(), expected, "{name}");
        assert!(migration.report().contains("guessed"), "{}", migration.report());
    }
}

const DESK: &str = "[SESSION]\nConnectionType=initiator\nBeginString=FIX.4.4\nSenderCompID=DESK\n\
    TargetCompID=VENUE\nSocketConnectHost=127.0.0.1\nSocketConnectPort=1\nHeartBtInt=30\n\
    NonStopSession=Y\nFileStorePath=old/store\n";

fn parsed(more: &str, dialect: Dialect) -> Migration {
    Migration::parse("desk.cfg", format!("{DESK}{more}\n").as_bytes(), Some(dialect)).unwrap()
}

#[test]
fn values_reach_the_settings() {
    let more = "ReconnectInterval=5\nLogoutTimeout=3\nResendRequestChunkSize=100\n\
        TestRequestDelayMultiplier=0.75\nResetOnLogout=Y\nFileStoreSync=Y";
    let migration = parsed(more, Dialect::Java);
    let settings = migration.settings().unwrap();
    let session = &settings.sessions[0];
    assert_eq!((session.role, session.begin_string), (Role::Initiator, BeginString::Fix44));
    assert_eq!(session.socket.reconnect_interval, Duration::from_secs(5));
    assert_eq!(session.protocol.logout_timeout, Duration::from_secs(3));
    assert_eq!(session.resend.request_max, 100);
    assert_eq!(session.timing.margin_percent, 75);
    assert!(session.protocol.reset_on.logout && !session.protocol.reset_on.logon);
    assert_eq!(session.store.durability, transfix_settings::Durability::Power);
    // Messages are not queued without a logon, because the reset at the next logon would lose them.
    assert_eq!(session.queue.offline, Offline::Refuse);
    let stores = migration.stores();
    assert_eq!(stores[0].session, "FIX.4.4-DESK-VENUE");
    assert_eq!(stores[0].to, Path::new("old/store/FIX.4.4-DESK-VENUE"));
}

#[test]
fn a_value_that_cannot_be_read_is_said_and_does_not_count() {
    for (line, expected) in [
        ("LogonTimeout=10s", "`10s` is no number"),
        ("LogonTimeout=0.0001", "too precise for the unit"),
        ("LogonTimeout=99999999999999999999", "is no number"),
        ("LogonTimeout=", "`` is no number"),
        ("ResetOnLogon=yes", "`yes` is neither Y nor N"),
        ("TimestampPrecision=5", "`5` is none of 0, 3, 6, 9"),
        ("MaxLatency=much", "`much` is no number"),
    ] {
        let migration = parsed(line, Dialect::Cpp);
        let finding = migration.findings().iter().find(|finding| finding.line == 11).unwrap();
        assert_eq!(finding.fate, Fate::NotCarriedOver, "{finding}");
        assert!(finding.says.contains(expected), "{finding}");
        assert!(!migration.is_sound());
    }
}

#[test]
fn a_file_without_a_session_is_an_error_with_its_line() {
    for (text, expected) in [
        ("", "no.cfg: the file has no [SESSION] of QuickFIX C++"),
        ("[DEFAULT]\nHeartBtInt=30\n", "no.cfg: the file has no [SESSION]"),
        (
            "[SESSION]\nBeginString=FIX.4.4\n",
            "no.cfg:1: the file has no [SESSION] of QuickFIX \
            C++ that can be",
        ),
        (
            "[SESSION]\nConnectionType=Acceptor\n",
            "ConnectionType must be initiator or acceptor, not",
        ),
        (&DESK.replace("Port=1", "Port=many"), "SocketConnectPort: `many` is no port"),
        (&DESK.replace("DESK", "DE\u{200b}SK"), "invisible"),
    ] {
        let migration = Migration::parse("no.cfg", text.as_bytes(), Some(Dialect::Cpp)).unwrap();
        assert!(migration.is_empty() && migration.report().contains(" not carried over\n"));
        let error = migration.settings().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = Migration::read("no/such.cfg", None).unwrap_err();
    assert_eq!((error.line(), error.as_u16()), (None, 801));
}

#[test]
fn credentials_go_where_the_version_has_a_place_for_them() {
    let tags = "LogonTag=553=desk\nLogonTag1=554=hush\nLogonTag2=9001=a=b";
    let session = |text: &str| {
        let migration = Migration::parse("desk.cfg", text.as_bytes(), Some(Dialect::Java));
        migration.map(|m| (m.settings().unwrap().sessions.remove(0), m.report())).unwrap()
    };
    let (new, _) = session(&format!("{DESK}{tags}\n"));
    assert_eq!(new.logon.username.as_deref(), Some("desk"));
    assert!(new.logon.password.unwrap().is(b"hush"));
    assert_eq!(new.logon.fields.len(), 1);
    let (old, _) = session(&format!("{DESK}{tags}\n").replace("FIX.4.4", "FIX.4.2"));
    assert_eq!((old.logon.username, old.logon.fields.len()), (None, 3));
    let acceptor = DESK.replace("initiator", "acceptor").replace("ConnectPort", "AcceptPort");
    let (acceptor, report) = session(&format!("{acceptor}{tags}\n"));
    assert_eq!((acceptor.logon.username, acceptor.logon.fields.len()), (None, 1));
    assert!(report.contains("LogonTag=***: only an initiator"), "{report}");
}

#[test]
fn a_value_that_our_settings_do_not_take_costs_its_key_and_not_the_session() {
    let migration = parsed("ReconnectInterval=0\nLogonTimeout=0\nLogoutTimeout=4", Dialect::Cpp);
    let report = migration.report();
    for expected in ["ReconnectInterval=0", "LogonTimeout=0"] {
        assert!(report.contains(&format!("not carried over: {expected}")), "{report}");
    }
    let settings = migration.settings().unwrap();
    assert_eq!(settings.sessions[0].protocol.logon_timeout, Duration::from_secs(10));
    assert_eq!(settings.sessions[0].protocol.logout_timeout, Duration::from_secs(4));
}

#[test]
fn addresses_that_may_connect_are_carried_over_or_told() {
    let acceptor = DESK.replace("initiator", "acceptor").replace("ConnectPort", "AcceptPort");
    let found = |cfg: &str, addresses: &str| {
        let text = format!("{cfg}AllowedRemoteAddresses={addresses}\n");
        let migration = Migration::parse("desk.cfg", text.as_bytes(), Some(Dialect::Java));
        let migration = migration.unwrap();
        let told = migration.findings().iter().find(|f| f.key == "AllowedRemoteAddresses").unwrap();
        (told.fate, migration.settings().unwrap().sessions.remove(0).allow_from)
    };
    let both = vec!["192.0.2.7".to_owned(), "2001:db8::1".to_owned()];
    assert_eq!(found(&acceptor, "192.0.2.7, 2001:db8::1"), (Fate::Honoured, both));
    // The readable part of the list counts: an unknown word does not admit every address.
    let one = vec!["192.0.2.7".to_owned()];
    let named = found(&acceptor, "192.0.2.7, fix.bank.example");
    assert_eq!(named, (Fate::NotCarriedOver, one));
    assert_eq!(found(&acceptor, "fix.bank.example"), (Fate::Dangerous, Vec::new()));
    assert_eq!(found(&acceptor, " , "), (Fate::Dangerous, Vec::new()));
    assert_eq!(found(DESK, "192.0.2.7"), (Fate::Ignored, Vec::new()));
}

#[test]
fn keys_of_tls_count_where_it_is_on() {
    let fate = |more: &str, dialect| {
        let migration = parsed(more, dialect);
        let finding = migration.findings().iter().find(|finding| finding.line == 11);
        finding.unwrap().fate
    };
    for (more, dialect, expected) in [
        ("SocketKeyStore=a.jks", Dialect::Java, Fate::Ignored),
        ("SocketKeyStore=a.jks\nSocketUseSSL=Y", Dialect::Java, Fate::NotCarriedOver),
        ("SSLProtocol=all", Dialect::Cpp, Fate::NotCarriedOver),
        ("SSLProtocol=all\nCertificationAuthoritiesFile=a", Dialect::Cpp, Fate::Mapped),
        ("SSLServerName=a\nSSLCertificate=b", Dialect::Net, Fate::Honoured),
        ("SSLServerName=a\nSSLEnable=N\nSSLCertificate=b", Dialect::Net, Fate::Ignored),
        ("SocketCertificateFile=a\nSocketPrivateKeyFile=b", Dialect::Go, Fate::Honoured),
        ("SocketCertificateBytes=a\nSocketPrivateKeyBytes=b", Dialect::Go, Fate::NotCarriedOver),
        ("SocketCAFile=a", Dialect::Go, Fate::Ignored),
        ("SocketInsecureSkipVerify=Y\nSocketUseSSL=Y", Dialect::Go, Fate::Dangerous),
    ] {
        assert_eq!(fate(more, dialect), expected, "{more}");
    }
}

#[test]
fn what_had_tls_has_it_or_is_not_carried_over() {
    let acceptor = DESK.replace("initiator", "acceptor").replace("ConnectPort", "AcceptPort");
    let migrated = |base: &str, more: &str, dialect| {
        let text = format!("{base}{more}\n");
        Migration::parse("desk.cfg", text.as_bytes(), Some(dialect))
    };
    let both = |base: &str, more: &str, dialect| {
        let migration = migrated(base, more, dialect).unwrap();
        let mut settings = migration.settings().unwrap();
        (settings.sessions.remove(0).tls.unwrap(), migration.report())
    };
    // An acceptor without its own certificate: the settings name a file that the user must create.
    for (more, dialect) in [
        ("SocketUseSSL=Y", Dialect::Java),
        ("SSLEnable=Y", Dialect::Net),
        ("SocketUseSSL=Y", Dialect::Go),
    ] {
        let (tls, report) = both(&acceptor, more, dialect);
        assert_eq!(tls.certificate.unwrap(), Path::new("acceptor.pem"), "{report}");
        assert!(report.contains("names no certificate that Transfix can read"), "{report}");
    }
    // Certificates of clients are required, but no authority is named.
    for (more, dialect) in [
        ("SocketUseSSL=Y\nSocketKeyStore=a.jks\nNeedClientAuth=Y", Dialect::Java),
        ("SSLCertificate=a.pfx", Dialect::Net),
        ("SocketCertificateFile=a.pem\nSocketPrivateKeyFile=a.key", Dialect::Go),
        ("ServerCertificateFile=a.pem\nCertificateVerifyLevel=1", Dialect::Cpp),
    ] {
        let (tls, report) = both(&acceptor, more, dialect);
        assert_eq!(tls.client_certificate, ClientCertificate::Required, "{report}");
        assert_eq!(tls.ca, [Path::new("clients-ca.pem")], "{report}");
    }
    // The file of the certificate also contains the key.
    let (tls, _) = both(&acceptor, "ServerCertificateFile=a.pem", Dialect::Cpp);
    assert_eq!(tls.key, tls.certificate);
    // A certificate without its key cannot be used, in QuickFIX or Transfix.
    let none = migrated(DESK, "SocketCertificateFile=a.pem", Dialect::Go).unwrap();
    let error = none.settings().unwrap_err();
    assert!(error.to_string().contains("one of them is missing"), "{error}");
    // QuickFIX never uses these authorities, because it does not verify certificates here.
    let more = "ServerCertificateFile=a.pem\nCertificationAuthoritiesFile=ca.pem";
    let (tls, report) = both(&acceptor, more, Dialect::Cpp);
    assert_eq!((tls.client_certificate, tls.ca.len()), (ClientCertificate::Ignored, 0));
    let dangerous = "dangerous: CertificationAuthoritiesFile=ca.pem: CertificateVerifyLevel is 0";
    assert!(report.contains(dangerous), "{report}");
}

#[test]
fn files_that_are_no_pem_come_with_the_command_that_makes_it() {
    let dir = TempDir::new();
    let cfg = dir.path().join("desk.cfg");
    let pem = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n";
    fs::write(dir.path().join("own key.pem"), pem).unwrap();
    fs::write(dir.path().join("ca.crt"), [0x30, 0x82, 0x01]).unwrap();
    let more = "ClientCertificateFile=desk.cer\nClientCertificateKeyFile=own key.pem\n\
                CertificationAuthoritiesFile=ca.crt\n\
                CertificateRevocationListDirectory=/etc/crl/\n";
    fs::write(&cfg, format!("{DESK}{more}")).unwrap();
    let migration = Migration::read(&cfg, Some(Dialect::Cpp)).unwrap();
    let report = migration.report();
    for expected in [
        "tls.certificate = \"desk.pem\": the file is not PEM: `openssl x509 -inform DER -in \
         desk.cer -out",
        "has a password: run `openssl pkey -in 'own key.pem' -out 'own key.open.key'`",
        "`openssl x509 -inform DER -in ca.crt -out ca.pem`",
        "tls.crl = [\"/etc/crl.pem\"]: `cat /etc/crl/* > /etc/crl.pem`",
    ] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
    let tls = migration.settings().unwrap().sessions.remove(0).tls.unwrap();
    assert!(tls.key.unwrap().ends_with("own key.open.key"));
    assert!(!migration.is_sound());
}

#[test]
fn a_session_that_is_there_twice_is_that_which_the_dialect_takes() {
    let second = DESK.replace("ConnectPort=1", "ConnectPort=2");
    for (dialect, address) in [(Dialect::Cpp, "127.0.0.1:1"), (Dialect::Java, "127.0.0.1:2")] {
        let text = format!("{DESK}{second}");
        let migration = Migration::parse("desk.cfg", text.as_bytes(), Some(dialect)).unwrap();
        let settings = migration.settings().unwrap();
        assert_eq!(settings.sessions.len(), 1);
        assert_eq!(settings.sessions[0].address, address, "{dialect}");
        assert!(!migration.is_sound() && migration.stores().len() == 1);
    }
}

#[test]
fn times_of_old_versions_have_seconds() {
    let text = format!("{DESK}MillisecondsInTimeStamp=Y\n").replace("FIX.4.4", "FIX.4.1");
    let migration = Migration::parse("desk.cfg", text.as_bytes(), Some(Dialect::Cpp)).unwrap();
    assert!(!migration.toml().contains("precision"), "{}", migration.toml());
}

#[test]
fn variables_are_not_guessed() {
    let java = parsed("FileLogPath=${user.home}/log", Dialect::Java);
    assert!(java.report().contains("QuickFIX/J reads a Java property here"), "{}", java.report());
    assert!(java.toml().contains("log.dir = \"${USER_HOME}/log\""), "{}", java.toml());
    let error = java.settings().unwrap_err().to_string();
    assert!(error.contains("the environment variable USER_HOME is not set"), "{error}");
    let cpp = parsed("FileLogPath=$HOME/log", Dialect::Cpp);
    assert!(cpp.toml().contains("log.dir = \"$HOME/log\"") && !cpp.is_sound());
}

#[test]
fn keys_in_any_case_are_seen_where_the_dialect_sees_them() {
    let more = "DEFAULTAPPLVERID=9\nappdatadictionary.FIX.4.4=FIX44.xml\nsocketconnecthost1=b";
    let text = format!("{DESK}{more}\n").replace("FIX.4.4\nS", "FIXT.1.1\nS");
    let migration = Migration::parse("desk.cfg", text.as_bytes(), Some(Dialect::Net)).unwrap();
    let report = migration.report();
    for expected in ["DefaultApplVerID=9", "AppDataDictionary.FIX.4.4=", "SocketConnectHost1=b"] {
        assert!(report.contains(expected), "{report}");
    }
    assert!(migration.toml().contains("appl_versions = { 6 = \"FIX44\" }"), "{report}");
}

#[test]
fn an_error_of_the_settings_has_the_lines_of_their_text() {
    let settings = parsed("", Dialect::Cpp).settings().unwrap();
    let place = settings.sessions[0].place("cpu");
    assert!(place.starts_with("desk.cfg, migrated"), "{place}");
}

#[test]
fn whatever_is_left_of_a_file_is_read_or_refused_with_a_reason() {
    for (path, dialect) in samples() {
        let bytes = fs::read(&path).unwrap();
        let lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for n in 0..lines.len() {
            let without = [&lines[..n], &lines[n + 1..]].concat().concat();
            let cut = bytes[..lines[..n].concat().len() + lines[n].len() / 2].to_vec();
            let mut swapped = bytes.clone();
            let at = lines[..n].concat().len();
            swapped[at] = swapped[at].wrapping_add(1);
            for text in [without, cut, swapped] {
                match Migration::parse("part.cfg", &text, Some(dialect)) {
                    Ok(migration) => {
                        if let Err(error) = migration.settings() {
                            let report = migration.report();
                            let is_told = migration.is_empty()
                                || report.contains("the engine does not start until")
                                || report.contains("set the variable before the start");
                            assert!(is_told, "{error}: {report}");
                        }
                    }
                    Err(error) => assert!(error.to_string().contains("part.cfg"), "{error}"),
                }
            }
        }
    }
}

/// Returns FIX 4.4 with a few changes, as a venue gives it to its clients.
fn venue() -> String {
    let mut draft = Draft::standard("FIX44").unwrap();
    draft.messages.iter_mut().for_each(|message| message.conditions.clear());
    let text = draft.to_quickfix_xml();
    let field = "  <field number='9001' name='VenueFlag' type='BOOLEAN'/>\n </fields>";
    let text = text.replacen(" </fields>", field, 1);
    let order = "<message name='NewOrderSingle' msgtype='D' msgcat='app'>";
    assert!(text.contains(order));
    text.replacen(order, &format!("{order}\n   <field name='VenueFlag' required='Y'/>"), 1)
}

#[test]
fn a_dictionary_that_differs_little_becomes_an_overlay() {
    let dir = TempDir::new();
    let file = dir.path().join("venue.xml");
    fs::write(&file, venue()).unwrap();
    let cfg = dir.path().join("desk.cfg");
    fs::write(&cfg, format!("{DESK}DataDictionary=venue.xml\n")).unwrap();
    let migration = Migration::read_with_overlays(&cfg, Some(Dialect::Cpp), dir.path()).unwrap();
    let [overlay] = migration.overlays() else { panic!("{}", migration.report()) };
    fs::write(&overlay.path, &overlay.text).unwrap();
    let report = migration.report();
    for expected in ["2 differences", "VenueFlag(9001) added", "NewOrderSingle(D): VenueFlag(9001)"]
    {
        assert!(report.contains(expected), "{report}");
    }
    let settings = migration.settings().unwrap();
    let source = settings.sessions[0].validation.dictionary.as_ref().unwrap();
    assert_eq!((source.base.to_str(), source.overlays.len()), (Some("FIX44"), 1));
    let dictionary = source.load().unwrap();
    let kept = transfix_settings::DictionarySource::from(file.clone()).load().unwrap();
    let order = |dictionary: &transfix_dictionary::Dictionary| {
        let order = dictionary.messages().iter().find(|m| m.msg_type == "D").unwrap();
        order.members.len()
    };
    assert_eq!(order(&dictionary), order(&kept));
    // An engine that reads the file at its start writes no overlay, so the original file is its
    // dictionary.
    let (settings, _) = transfix_quickfix::settings(&cfg, None).unwrap();
    assert_eq!(settings.sessions[0].validation.dictionary.as_ref().unwrap().base, file);
}

#[test]
fn a_dictionary_that_differs_much_is_kept_and_one_that_is_none_is_said() {
    let dir = TempDir::new();
    let cfg = dir.path().join("desk.cfg");
    fs::write(&cfg, format!("{DESK}DataDictionary=other.xml\n")).unwrap();
    let other = Draft::standard("FIX42").unwrap().to_quickfix_xml();
    fs::write(dir.path().join("other.xml"), other).unwrap();
    let migration = Migration::read_with_overlays(&cfg, Some(Dialect::Cpp), dir.path()).unwrap();
    assert!(migration.overlays().is_empty());
    assert!(migration.report().contains("beside our FIX44"), "{}", migration.report());
    assert!(migration.toml().contains("other.xml"));
    fs::write(dir.path().join("other.xml"), "<fix>").unwrap();
    let migration = Migration::read(&cfg, Some(Dialect::Cpp)).unwrap();
    let toml = migration.toml();
    let mut keys = toml.lines().filter(|line| !line.starts_with('#'));
    assert!(!migration.is_sound() && keys.all(|line| !line.contains("other.xml")), "{toml}");
    assert!(migration.report().contains("other.xml:1"), "{}", migration.report());
}

#[test]
fn what_a_transport_dictionary_has_beyond_ours_is_carried_over() {
    let dir = TempDir::new();
    let cfg = dir.path().join("desk.cfg");
    let text = DESK.replace("FIX.4.4", "FIXT.1.1");
    let more = "DefaultApplVerID=9\nTransportDataDictionary=session.xml\n";
    fs::write(&cfg, format!("{text}{more}")).unwrap();
    let ours = fs::read_to_string("../../dictionaries/FIXT11.xml").unwrap();
    let field = "  <field number='9002' name='VenueKey' type='STRING'/>\n </fields>";
    let code = "   <value enum='Z' description='MORE'/>\n";
    for (text, expected, fate) in [
        (ours.clone(), "the same as the built-in dictionary FIXT11", Fate::Honoured),
        (
            ours.replacen("   <value ", &format!("{code}   <value "), 1),
            "1 difference",
            Fate::Honoured,
        ),
        (ours.replacen(" </fields>", field, 1), "VenueKey(9002) added", Fate::Honoured),
        (less(&ours), "which allows more", Fate::Mapped),
    ] {
        fs::write(dir.path().join("session.xml"), text).unwrap();
        let migration = Migration::read(&cfg, Some(Dialect::Cpp)).unwrap();
        let told = migration.findings().iter().find(|f| f.key == "TransportDataDictionary");
        let told = told.unwrap();
        assert!(told.says.contains(expected) && told.fate == fate, "{told}");
        let is_carried_over = migration.toml().contains("session_dictionary = ");
        assert_eq!(is_carried_over, told.becomes.contains("session_dictionary"), "{told}");
        assert_eq!(is_carried_over, expected.contains("difference") || expected.contains("added"));
        assert!(migration.settings().is_ok(), "{}", migration.report());
    }
}

/// Removes the first code of the first field that has codes.
fn less(text: &str) -> String {
    let (before, line) = text.split_once("   <value ").unwrap();
    let (_, after) = line.split_once('\n').unwrap();
    format!("{before}{after}")
}
