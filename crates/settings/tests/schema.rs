//! The schema of settings files accepts what the reader accepts, and refuses every error that a
//! schema can detect. The validator comes from another project.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use transfix_quickfix::{Dialect, Migration};
use transfix_settings::Settings;

/// The compiled schema. Compiling it also checks it against the meta-schema of the standard.
struct Validator(Schemas, SchemaIndex);

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(&Settings::schema()).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("settings.json", schema).unwrap();
    let index = compiler.compile("settings.json", &mut schemas).unwrap();
    Validator(schemas, index)
}

/// Returns the errors that the schema finds in a file, or an empty text if there are none.
fn wrong(Validator(schemas, index): &Validator, text: &str) -> String {
    let root: toml::Value = toml::from_str(text).unwrap();
    let root = serde_json::to_value(root).unwrap();
    schemas.validate(&root, *index).err().map_or_else(String::new, |error| format!("{error:#}"))
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn each_settings_file_of_the_project_is_valid() {
    let (validator, mut all) = (validator(), Vec::new());
    for dir in ["../engine/examples", "../cli/examples", "../../testdata/quickfix"] {
        files(Path::new(dir), &mut all);
    }
    assert!(all.len() > 10, "{all:?}");
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(wrong(&validator, &text), "", "{}", path.display());
    }
    let mut samples = Vec::new();
    for dialect in ["cpp", "j", "n", "go"] {
        let dir = Path::new("../../testdata/quickfix").join(dialect);
        let of_dir = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        samples.extend(of_dir.filter(|path| path.extension().is_some_and(|end| end == "cfg")));
    }
    for path in samples {
        // Skips samples in which no session can be migrated.
        let migration = Migration::read(&path, None::<Dialect>).unwrap();
        if migration.is_empty() {
            continue;
        }
        let migrated = migration.toml();
        assert_eq!(wrong(&validator, &migrated), "", "{}", path.display());
    }
}

const SESSION: &str = "[[session]]\nrole = 'initiator'\nbegin_string = 'FIXT.1.1'\n\
    sender_comp_id = 'A'\ntarget_comp_id = 'B'\naddress = '127.0.0.1:9880'\n\
    default_appl_ver_id = 9\n";

#[test]
fn what_the_reader_takes_the_schema_takes() {
    let validator = validator();
    for line in [
        "heart_bt_int_s = 0",
        "heart_bt_int_s = '${HOME_HB:-7}'",
        "validate = '${HOME_V:-true}'",
        "mode = '${HOME_MODE:-spin}'",
        "precision = 'nanos'",
        "reset_on = ['logon', 'error']",
        "reset_at = '17:00:00'",
        "checks = { codes = false, conditions = true }",
        "dictionary = 'FIX50SP2'",
        "dictionary = { base = 'FIX50SP2', overlays = [] }",
        "appl_versions = { 4 = 'FIX42', 5 = { base = 'FIX43' } }",
        "logon = { username = 'u', password = { env = 'HOME' } }",
        "logon = { fields = ['9001=x'] }",
        "header_fields = ['115=DESK']",
        "throttles = [{ msg_type = 'D', messages_max = 1, interval_ms = 1, action = 'reject' }]",
        "schedule = { zone = 'UTC', from = '08:00', to = '17:00', outside = 'disconnect' }",
        "schedule = { zone = 'UTC', windows = [{ open = '0 8 * * *', close = '0 9 * * *' }] }",
        "schedule = { zone = 'UTC', from = '08:00', to = '17:00', numbers = 'keep', \
         outside = { reject = 'x' } }",
        "failover = { addresses = ['b:1'], order = 'random' }",
        "proxy = { kind = 'http', address = 'p:1', username = 'u', password = 'x' }",
        "tls = { server_name = 'x', min_version = '1.3' }",
        "log = { dir = 'log', mask = [1, 2] }",
        "cpu = 0\nmode = 'spin'",
        "dscp = 46",
    ] {
        let text = format!("{SESSION}{line}\n");
        if let Err(error) = Settings::parse("a.toml", &text) {
            panic!("{line}: {error}");
        }
        assert_eq!(wrong(&validator, &text), "", "{line}");
    }
    let whole = format!(
        "include = []\n[engine]\ncpus = [0]\nthread_lost = 'abort'\n\
         [fleet]\ngateway = 'a'\nbrokers = ['n1:4222']\nuser = 'u'\n\
         password = {{ env = 'HOME' }}\n[dictionaries]\n\
         V = {{ base = 'FIX44' }}\n[defaults]\nvalidate_out = 'warn'\n{SESSION}"
    );
    assert!(Settings::parse("a.toml", &whole).is_ok());
    assert_eq!(wrong(&validator, &whole), "");
}

#[test]
fn what_is_wrong_by_itself_both_refuse() {
    let validator = validator();
    for line in [
        "heart_bt_int = 30",
        "heart_bt_int_s = '30'",
        "heart_bt_int_s = -1",
        "validate = 'true'",
        "mode = 'fast'",
        "precision = 'days'",
        "reset_on = ['logoff']",
        "reset_on = 'logon'",
        "checks = { code = false }",
        "dictionary = { overlays = [1] }",
        "logon = { user = 'u' }",
        "logon = { password = { var = 'X' } }",
        "logon = { password = { env = 'HOME', file = 'x' } }",
        "logon = 7",
        "throttles = [{ msg_type = 'D', messages_max = 'x', interval_ms = 1, action = 'reject' }]",
        "schedule = { zone = 'UTC', from = '08:00', to = '17:00', outside = 'wait' }",
        "proxy = { kind = 'ftp', address = 'p:1' }",
        "tls = { min_version = '1.1' }",
        "log = { dir = 'log', mask = ['x'] }",
        "message_bytes_max = 1",
        "retention = { rotate_every_h = 9000 }",
        "logon_timeout_ms = 0",
    ] {
        let text = format!("{SESSION}{line}\n");
        assert!(Settings::parse("a.toml", &text).is_err(), "{line}");
        assert_ne!(wrong(&validator, &text), "", "{line}");
    }
    for text in [format!("nosuch = 1\n{SESSION}"), format!("[engin]\n{SESSION}")] {
        assert!(Settings::parse("a.toml", &text).is_err());
        assert_ne!(wrong(&validator, &text), "");
    }
}
