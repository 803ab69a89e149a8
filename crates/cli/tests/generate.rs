//! What `transfix generate` writes, and that it compiles.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use transfix_testkit::temp::TempDir;

fn transfix(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    command.current_dir(dir).arg("generate").args(args).output().unwrap()
}

/// What it printed; it must have ended with `code`.
fn expect(code: i32, dir: &Path, args: &[&str]) -> String {
    let output = transfix(dir, args);
    let text = String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr });
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    text.into_owned()
}

fn engine() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine").display().to_string()
}

/// Writes a skeleton of each kind into one workspace, so that the engine is checked once.
fn write_skeletons(dir: &Path) {
    fs::write(
        dir.join("venue.xml"),
        "<fix base='FIX42' name='VENUE'><fields><field number='9002' name='Type' type='INT'/>\
         </fields><messages><message name='Reject' action='remove'/><message name='Result' \
         msgtype='U1'><field name='Type' required='Y'/><group name='NoOrders'><field \
         name='RawDataLength'/><field name='RawData'/></group></message></messages></fix>",
    )
    .unwrap();
    let (engine, extra) = (engine(), "9001 VenueFlag BOOLEAN NewOrderSingle:Y,ExecutionReport");
    let common = ["--extra-field", extra, "--skeleton"];
    let acceptor = ["FIX42", "--overlay", "venue.xml", "--output", "venue", "--module", "venue"];
    expect(0, dir, &[&acceptor[..], &common, &["acceptor"]].concat());
    let initiator = [
        "FIX50",
        "--session",
        "FIXT11",
        "--output",
        "client",
        "--messages",
        "8,9,AI,AR,AY,Logon",
        "--transfix",
        &engine,
    ];
    expect(0, dir, &[&initiator[..], &common, &["initiator"]].concat());
}

fn write_workspace(dir: &Path, members: &str) {
    let text = format!("[workspace]\nresolver = '3'\nmembers = [{members}]\n");
    fs::write(dir.join("Cargo.toml"), text).unwrap();
}

#[test]
fn skeletons_compile_without_a_warning() {
    let dir = TempDir::new();
    let dir = dir.path();
    write_skeletons(dir);
    write_documented(&dir.join("documented"));
    write_workspace(dir, "'venue', 'client', 'documented'");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    fs::copy(lock, dir.join("Cargo.lock")).unwrap();
    // A directory that stays, so that only the first run checks the engine.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skeletons");
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--workspace"])
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", "-D warnings")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{errors}");
}

#[test]
#[ignore = "needs rustfmt: cargo xtask peers programs"]
fn skeletons_are_formatted() {
    let dir = TempDir::new();
    let dir = dir.path();
    write_skeletons(dir);
    write_workspace(dir, "'venue', 'client'");
    let mut formats = Command::new(env!("CARGO"));
    let formats = formats.args(["fmt", "--check", "-p", "venue", "-p", "client"]).current_dir(dir);
    let formatted = formats.output().unwrap();
    assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stdout));
}

/// The project that docs/messages.md describes, of the page's own snippets.
fn write_documented(dir: &Path) {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/messages.md"));
    let page = page.unwrap();
    let snippet = |language: &str, part: &str| -> String {
        let mut blocks = page.split("\n```").skip(1).step_by(2);
        let found = blocks.find_map(|block| {
            let (info, text) = block.split_once('\n')?;
            (info == language && text.contains(part)).then_some(text)
        });
        found.unwrap_or_else(|| panic!("no snippet with {part}")).to_owned()
    };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = snippet("toml", "[build-dependencies]");
    let manifest = manifest.replace("../transfix/crates", &crates.display().to_string());
    let package = "[package]\nname = 'documented'\nversion = '0.1.0'\nedition = '2024'\n";
    let main = snippet("text", "include!");
    let main = format!("{main}\nfn main() {{\n    let _ = read;\n}}\n");
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("Cargo.toml"), format!("{package}\n{manifest}")).unwrap();
    fs::write(dir.join("build.rs"), snippet("text", "build_script")).unwrap();
    fs::write(dir.join("src/main.rs"), main).unwrap();
    fs::write(dir.join("venue.xml"), snippet("xml", "base='FIX44'")).unwrap();
}

#[test]
fn a_module_holds_the_messages_wanted() {
    let dir = TempDir::new();
    let dir = dir.path();
    let args = ["FIX44", "--messages", "D,ExecutionReport", "--prefix", "own", "--output", "src"];
    let said = expect(0, dir, &args);
    assert!(said.contains("own.rs"), "{said}");
    let text = fs::read_to_string(dir.join("src/own.rs")).unwrap();
    for (part, is_there) in [
        ("pub struct NewOrderSingle<'a>", true),
        ("pub struct ExecutionReport<'a>", true),
        ("pub struct News<'a>", false),
        ("pub struct Instrument<'a>", true),
        ("pub const CL_ORD_ID: t::Tag = t::Tag(11);", true),
        ("HEADLINE", false),
        ("use ::transfix::codec::typed as t;", true),
    ] {
        assert_eq!(text.contains(part), is_there, "{part}");
    }
    let said = expect(0, dir, &["FIX42", "--report-unused"]);
    assert!(said.contains("5 fields that no message has\n  IOIOthSvc(24)\n"), "{said}");
    assert!(dir.join("fix42.rs").exists(), "the module is called as the dictionary");
}

#[test]
fn a_program_is_not_written_over() {
    let dir = TempDir::new();
    let dir = dir.path();
    fs::create_dir(dir.join("src")).unwrap();
    fs::write(dir.join("src/main.rs"), "my work").unwrap();
    let said = expect(2, dir, &["FIX44", "--messages", "D", "--skeleton", "acceptor"]);
    assert!(said.contains("main.rs is there already; take another --output"), "{said}");
    assert_eq!(fs::read_to_string(dir.join("src/main.rs")).unwrap(), "my work");
    assert!(!dir.join("Cargo.toml").exists(), "nothing is written");
    expect(0, dir, &["FIX44", "--messages", "D", "--output", "src"]);
    expect(0, dir, &["FIX44", "--messages", "8", "--output", "src"]);
}

#[test]
fn what_is_wrong_is_said() {
    let dir = TempDir::new();
    let dir = dir.path();
    fs::write(dir.join("o.xml"), "<fix>\n<fields><field name='Prise' type='INT'/></fields></fix>")
        .unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["FIX45"], "did you mean 'FIX4"),
        (&["no.xml"], "no.xml: "),
        (&["FIX44", "--messages", "NewOrderSinle"], "did you mean 'NewOrderSingle'?"),
        (&["FIX44", "--overlay", "o.xml"], "o.xml:2: field 'Prise': attribute 'number' is missing"),
        (&["FIX44", "--skeleton", "acceptor", "--transfix", "."], "no package transfix is there"),
        (&["FIX44", "--extra-field", "9001 A"], "give number, name, type and messages"),
        (&["FIX44", "--extra-field", "9001 A INT News:X"], "'News:X' ends in :Y or :N"),
        (&["FIX44", "--extra-field", "9001 A INT Nws"], "--extra-field:6: message 'Nws': is not"),
    ];
    for (args, expected) in cases {
        let said = expect(2, dir, args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
