//! The code that `transfix generate` writes compiles.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use transfix_testkit::temp::TempDir;

fn transfix(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    command.current_dir(dir).arg("generate").args(args).output().unwrap()
}

/// Runs the program, checks its exit code, and returns its output.
fn expect(code: i32, dir: &Path, args: &[&str]) -> String {
    let output = transfix(dir, args);
    let text = String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr });
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    text.into_owned()
}

fn engine() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine").display().to_string()
}

/// Writes a generated program of each kind into one workspace, so that the engine is compiled only
/// once.
fn write_skeletons(dir: &Path) {
    fs::write(
        dir.join("venue.xml"),
        "<fix base='FIX42' name='VENUE'><fields><field number='9002' name='Type' type='INT'/>\
         <field number='9003' name='NewOrderSingle' type='INT'><value enum='1' \
         description='ONE'/></field></fields><messages><message name='Reject' action='remove'/>\
         <message name='Result' msgtype='U1'><field name='Type' required='Y'/><field \
         name='NewOrderSingle'/><group name='NoOrders'><field name='RawDataLength'/><field \
         name='RawData'/></group></message></messages></fix>",
    )
    .unwrap();
    let (engine, extra) = (engine(), "9001 VenueFlag BOOLEAN NewOrderSingle:Y,ExecutionReport");
    let common = ["--extra-field", extra, "--skeleton"];
    // A skeleton names the engine by an absolute path, another one by a path relative to the
    // current directory.
    std::os::unix::fs::symlink(&engine, dir.join("engine")).unwrap();
    let acceptor = [
        "FIX42",
        "--overlay",
        "venue.xml",
        "--output",
        "venue",
        "--module",
        "venue",
        "--transfix",
        "engine",
    ];
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
    // The target directory is kept between runs, so that only the first run compiles the engine.
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

/// Writes the project that docs/messages.md describes, from the snippets of that page.
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

/// Returns the text of a file in the program's directory.
fn text_of(program: &Path, file: &str) -> String {
    fs::read_to_string(program.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn a_skeleton_names_no_directory_of_the_machine() {
    let dir = TempDir::new();
    let dir = dir.path();
    let overlay = "<fix base='FIX44'><fields><field number='9002' name='Own' type='INT'/></fields>\
                   </fix>";
    fs::create_dir_all(dir.join("other")).unwrap();
    for place in ["venue.xml", "other/venue.xml"] {
        fs::write(dir.join(place), overlay).unwrap();
    }
    let other = overlay.replace("9002", "9003").replace("Own", "Other");
    fs::write(dir.join("other/venue.xml"), other).unwrap();
    let (one, two) = (dir.join("venue.xml"), dir.join("other/venue.xml"));
    let overlays = ["--overlay", one.to_str().unwrap(), "--overlay", two.to_str().unwrap()];
    let args = ["FIX44", "--messages", "D", "--skeleton", "acceptor", "--output", "desk"];
    let said = expect(0, dir, &[&args[..], &overlays].concat());
    assert!(said.contains("--transfix DIR"), "{said}");
    let desk = dir.join("desk");
    let manifest = text_of(&desk, "Cargo.toml");
    let version = format!("\ntransfix = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(manifest.ends_with(&version), "{manifest}");
    let settings = text_of(&desk, "settings.toml");
    let key = "dictionary = { base = \"FIX44\", overlays = [\"venue.xml\", \"2-venue.xml\"] }";
    assert!(settings.contains(key), "{settings}");
    assert!(text_of(&desk, "2-venue.xml").contains("9003"));
    for file in ["Cargo.toml", "settings.toml", "src/main.rs", "src/fix44.rs"] {
        let text = text_of(&desk, file);
        for place in [dir.to_str().unwrap(), env!("CARGO_MANIFEST_DIR"), "crates/"] {
            assert!(!text.contains(place), "{file} has {place}");
        }
    }
    let git = ["--transfix", "https://git.example/transfix"];
    let elsewhere = ["FIX44", "--messages", "D", "--skeleton", "initiator", "--output", "git"];
    expect(0, dir, &[&elsewhere[..], &git].concat());
    let line = "transfix = { git = \"https://git.example/transfix\" }";
    assert!(text_of(&dir.join("git"), "Cargo.toml").contains(line));
}

#[test]
fn a_skeleton_in_a_checkout_uses_that_checkout() {
    let dir = TempDir::new();
    let dir = dir.path();
    let engine = dir.join("crates/engine");
    fs::create_dir_all(engine.join("src")).unwrap();
    let package = "[package]\nname = \"transfix\"\nversion = \"0.1.0\"\n";
    fs::write(engine.join("Cargo.toml"), package).unwrap();
    fs::write(engine.join("src/lib.rs"), "").unwrap();
    write_workspace(dir, "'crates/*'");
    let args = ["FIX44", "--messages", "D", "--skeleton", "acceptor", "--output", "my-venue"];
    let said = expect(0, dir, &args);
    assert!(said.contains("the package transfix: ../crates/engine"), "{said}");
    let program = dir.join("my-venue");
    // Cargo must treat the program as a workspace of its own, although a parent directory contains
    // a workspace.
    let mut metadata = Command::new(env!("CARGO"));
    let metadata = metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata = metadata.current_dir(&program).output().unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let root = serde_json::from_slice::<serde_json::Value>(&metadata.stdout).unwrap();
    let root = Path::new(root["workspace_root"].as_str().unwrap()).canonicalize().unwrap();
    assert_eq!(root, program.canonicalize().unwrap());
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
    assert!(said.contains("5 fields are in no message\n  IOIOthSvc(24)\n"), "{said}");
    assert!(dir.join("fix42.rs").exists(), "the module is called as the dictionary");
}

#[test]
fn a_program_is_not_written_over() {
    let dir = TempDir::new();
    let dir = dir.path();
    fs::create_dir(dir.join("src")).unwrap();
    fs::write(dir.join("src/main.rs"), "my work").unwrap();
    let said = expect(2, dir, &["FIX44", "--messages", "D", "--skeleton", "acceptor"]);
    assert!(said.contains("main.rs already exists; name another --output"), "{said}");
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
    let cases: [(&[&str], &str); 11] = [
        (&["FIX44", "--session", "FIXT11"], "FIX.4.4 has its own session layer"),
        (&["FIX45"], "did you mean 'FIX4"),
        (&["no.xml"], "no.xml: "),
        (&["FIX44", "--messages", "NewOrderSinle"], "did you mean 'NewOrderSingle'?"),
        (&["FIX44", "--overlay", "o.xml"], "o.xml:2: field 'Prise': attribute 'number' is missing"),
        (&["FIX44", "--skeleton", "acceptor", "--transfix", "."], "has no package transfix"),
        (
            &["FIX44", "--extra-field", "9001 ClOrdId INT News"],
            "field ClOrdId(9001): its name in Rust, `CL_ORD_ID`, belongs to ClOrdID(11)",
        ),
        (
            &["FIX44", "--extra-field", "9001 Price INT News"],
            "--extra-field:3: field 'Price': its name belongs to Price(44); use another",
        ),
        (&["FIX44", "--extra-field", "9001 A"], "write number, name, type and messages"),
        (&["FIX44", "--extra-field", "9001 A INT News:X"], "'News:X' must be :Y or :N"),
        (
            &["FIX44", "--extra-field", "9001 A INT Nws"],
            "--extra-field:6: message 'Nws': does not exist",
        ),
    ];
    for (args, expected) in cases {
        let said = expect(2, dir, args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
