//! A stored message that changes while the engine runs is never resent. The session ends with the
//! location of the damage in the log, and continues after the store was repaired.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use transfix::{Durability, Engine, Settings};
use transfix_store::{FileStore, StoreError};
use transfix_testkit::temp::TempDir;

use crate::switches::reopening::insist;
use crate::switches::{echo, logged_on, venue};

/// Replaces 10 by 90 after `what` in a segment file. Returns the offset of the record.
fn change(segment: &Path, what: &str) -> u64 {
    let bytes = fs::read(segment).unwrap();
    let at = bytes.windows(what.len()).position(|part| part == what.as_bytes()).unwrap();
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    file.write_all_at(b"9", (at + what.len() - 2) as u64).unwrap();
    // The record has a header of 32 bytes, followed by the message.
    let begin = bytes[..at].windows(5).rposition(|part| part == b"8=FIX").unwrap();
    begin as u64 - 32
}

#[test]
fn a_changed_message_is_never_sent_again_and_a_repair_brings_the_session_back() {
    let dir = TempDir::new();
    let settings = Settings::of(venue(|s| {
        s.store.durability = Durability::Process;
        s.store.store_dir = dir.path().to_path_buf();
    }));
    let engine = Engine::start(&settings, |_| Box::new(echo())).unwrap();
    let (address, id) = (engine.listening()[0], settings.sessions[0].id());
    let handle = engine.session(&id).unwrap();
    let mut wire = logged_on(address);
    for seq in 2..=4 {
        wire.send(&format!("35=D|34={seq}|11=quantity{seq}10"));
        assert_eq!(wire.next(), format!("35=D|34={seq}|11=quantity{seq}10"));
    }
    let store = dir.path().join("FIX.4.4-VENUE-CLIENT");
    let segment = store.join("00000000.seg");
    let offset = change(&segment, "11=quantity310");
    wire.send("35=2|34=5|7=2|16=0");
    loop {
        let resent = wire.next();
        if resent.is_empty() {
            break;
        }
        assert!(resent.contains("quantity210"), "{resent}");
    }
    let error = loop {
        if let Some(error) = handle.store_failure() {
            break error;
        }
        std::thread::yield_now();
    };
    let place = format!("{} at byte {offset}: ", segment.display());
    assert!(error.contains(&place) && error.contains("transfix store repair"), "{error}");

    // Repairs like `transfix store repair`, after the engine has released the store.
    let mended = dir.path().join("mended");
    while let Err(error) = FileStore::repair(&store, &mended, None) {
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        std::thread::yield_now();
    }
    fs::rename(&store, dir.path().join("damaged")).unwrap();
    fs::rename(&mended, &store).unwrap();
    let (mut wire, answer) = insist(address, "35=A|34=6|98=0|108=30");
    assert!(answer.starts_with("35=A|"), "{answer}");
    wire.send("35=2|34=7|7=2|16=4");
    let mut resent = Vec::new();
    while resent.len() < 3 {
        let next = wire.next();
        if next.contains("43=Y") {
            resent.push(next);
        }
    }
    assert!(resent[0].contains("34=2|") && resent[0].contains("quantity210"), "{resent:?}");
    assert!(resent[1].starts_with("35=4|34=3|") && resent[1].contains("36=4"), "{resent:?}");
    assert!(resent[2].contains("34=4|") && resent[2].contains("quantity410"), "{resent:?}");
}
