//! The exit codes of all commands match the codes that their help texts list.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use transfix_store::{FileStore, Kind, Options, Record, Store};
use transfix_testkit::temp::TempDir;

use crate::command_line::{expect, messages, run_in, session};

/// Creates the files that the calls in `CALLS` use.
fn files() -> TempDir {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name);
    let good = fs::read(messages().join("fix44-order.fix")).unwrap_or_else(|_| any_message());
    fs::write(path("good.fix"), &good).unwrap();
    fs::write(path("bad.fix"), "8=FIX.4.4|9=60|35=0|34=2|49=A|10=000|\n").unwrap();
    fs::write(path("good.json"), r#"{"8":"FIX.4.4","35":"0"}"#).unwrap();
    fs::write(path("left-out.json"), r#"{"8":"FIX.4.4","35":"B","58":"a|b"}"#).unwrap();
    fs::write(path("venue.toml"), session("acceptor", "127.0.0.1:0")).unwrap();
    // 192.0.2.1 is not an address of this machine, so the venue cannot listen.
    fs::write(path("elsewhere.toml"), session("acceptor", "192.0.2.1:9880")).unwrap();
    fs::write(path("client.toml"), session("initiator", "127.0.0.1:1")).unwrap();
    fs::write(path("two.toml"), session("initiator", "127.0.0.1:1") + &second()).unwrap();
    let cpu = "mode = 'spin'\ncpu = 99999\n";
    fs::write(path("cpu.toml"), session("acceptor", "127.0.0.1:0") + cpu).unwrap();
    let fleet = "[fleet]\ngateway = 'operator'\nbrokers = ['127.0.0.1:1']\n";
    fs::write(path("fleet.toml"), fleet).unwrap();
    fs::write(path("wrong.toml"), "nonsense = 1\n").unwrap();
    fs::write(path("notes.body"), "").unwrap();
    let cfg = super::migrate::cfg("");
    fs::write(path("sound.cfg"), &cfg).unwrap();
    fs::write(path("dangerous.cfg"), cfg + "CheckCompID=N\n").unwrap();
    fs::write(path("empty.cfg"), "[DEFAULT]\n").unwrap();
    let (mut store, _) = FileStore::open(&path("stored"), Options::default(), 0).unwrap();
    let kind = Kind::Application;
    store.put(1, Record::Outbound { seq: 1, kind, bytes: good.trim_ascii_end() }).unwrap();
    store.commit().unwrap();
    dir
}

fn second() -> String {
    session("initiator", "127.0.0.1:1").replace("CLIENT", "OTHER")
}

fn any_message() -> Vec<u8> {
    fs::read(messages().join("fix40-order.fix")).unwrap()
}

/// Calls with their exit codes. The help text of each command must list the code.
const CALLS: &[(i32, &str)] = &[
    (0, "--help"),
    (2, ""),
    (2, "nonsense"),
    (2, "password"),
    (2, "password extra"),
    (2, "tls"),
    (2, "tls check"),
    (2, "tls check host:1 --key alone.key"),
    (1, "tls check 127.0.0.1:1 --timeout 1 --ca no/such.pem"),
    (2, "demo --burst 1"),
    (2, "demo extra"),
    (2, "demo fleet --trials 0"),
    (2, "fleet"),
    (2, "fleet move venue.toml"),
    // No broker answers, or the program was built without fleets.
    (1, "fleet status fleet.toml"),
    (2, "serve fleet.toml"),
    (2, "serve"),
    (2, "serve none.toml"),
    (2, "serve wrong.toml"),
    (2, "serve client.toml"),
    (2, "serve cpu.toml"),
    (1, "serve elsewhere.toml"),
    (2, "connect"),
    (2, "connect none.toml"),
    (2, "connect venue.toml"),
    (2, "connect two.toml"),
    (1, "connect client.toml --quiet"),
    (2, "play"),
    (2, "play client.toml"),
    (2, "play client.toml none.txt"),
    (2, "play none.toml client.toml"),
    (0, "codes"),
    (0, "codes 2201"),
    (1, "codes 2299"),
    (2, "codes 2201 2202"),
    (0, "dictionary"),
    (0, "dictionary FIX44 D"),
    (1, "dictionary FIX44 Prise"),
    (2, "dictionary a b c"),
    (2, "dictionary FIX45"),
    (0, "print good.fix"),
    (1, "print bad.fix"),
    (2, "print none.fix"),
    (2, "print"),
    (0, "logs good.fix"),
    (1, "logs good.fix --where 58=nonsense"),
    (0, "logs --gaps good.fix"),
    (2, "logs --gaps none.fix"),
    (2, "logs none.fix"),
    (2, "logs good.fix --where nonsense"),
    (2, "logs"),
    (0, "check good.fix"),
    (1, "check bad.fix"),
    (2, "check none.fix"),
    (2, "check"),
    (2, "settings"),
    (2, "settings check"),
    (0, "settings check venue.toml"),
    (1, "settings check wrong.toml"),
    (1, "settings check cpu.toml"),
    (2, "settings check none.toml"),
    (0, "schedule venue.toml"),
    (2, "schedule none.toml"),
    (2, "schedule venue.toml --from yesterday"),
    (0, "convert --to json good.fix"),
    (1, "convert --to json bad.fix"),
    (1, "convert --to fix --delimiter pipe left-out.json"),
    (2, "convert --to json none.fix"),
    (2, "convert --to nonsense good.fix"),
    (0, "migrate sound.cfg"),
    (1, "migrate dangerous.cfg"),
    (2, "migrate none.cfg"),
    (2, "migrate empty.cfg"),
    (2, "migrate sound.cfg --out venue.toml"),
    (2, "migrate sound.cfg --dialect perl"),
    (2, "migrate sound.cfg --import-stores"),
    (2, "store"),
    (0, "store list ."),
    (2, "store list none"),
    (0, "store show stored"),
    (2, "store show none"),
    (0, "store print stored"),
    (2, "store print none"),
    (0, "store verify stored"),
    (2, "store verify none"),
    (2, "store repair none --to new"),
    (2, "store set-next none --in 5 --reason test"),
    (0, "store export stored --to json"),
    (2, "store export none --to json"),
    (2, "run none.toml"),
    (2, "run none.toml --routes none.toml --check"),
    (2, "store import none --to new"),
    (0, "store queue stored"),
    (2, "store queue none"),
    (0, "generate FIX44 --messages Heartbeat --output generated"),
    (2, "generate FIX45"),
    (2, "generate"),
    (2, "generate FIX44 --skeleton acceptor --transfix nowhere"),
    (0, "admin user add anna --role operator --file people.toml"),
    (2, "admin user add ann/a --file people.toml"),
    (2, "admin user add anna --role king"),
    (0, "admin user list --file people.toml"),
    (2, "admin user list --file none.toml"),
    (1, "admin user remove nobody --file people.toml"),
    (2, "admin user remove nobody --file none.toml"),
    (0, "admin token add robot --file people.toml"),
    (2, "admin token add robot --file people.toml"),
    (0, "admin token remove robot --file people.toml"),
    (2, "admin do X heartbeat now --url http://127.0.0.1:1"),
    (2, "admin sessions --url https://127.0.0.1:1"),
    (2, "admin sessions --token-file none"),
    (2, "admin xml <Help/>"),
    (1, "admin xml <Help/> --fix 127.0.0.1:1 --user anna --password-file people.toml"),
    (1, "admin session X --url http://127.0.0.1:1"),
    (1, "admin latency X found --url http://127.0.0.1:1"),
    (1, "admin do X heartbeat --url http://127.0.0.1:1"),
    (2, "admin add none.toml --url http://127.0.0.1:1"),
    (2, "admin change X none.toml --url http://127.0.0.1:1"),
    (1, "admin add people.toml --url http://127.0.0.1:1"),
    (1, "admin change X people.toml --url http://127.0.0.1:1"),
    (1, "admin remove X --confirm X --url http://127.0.0.1:1"),
    (1, "admin messages X --url http://127.0.0.1:1"),
    (1, "admin events --url http://127.0.0.1:1"),
    (1, "admin audit --url http://127.0.0.1:1"),
    (1, "admin certificates --url http://127.0.0.1:1"),
    (1, "admin ready --url http://127.0.0.1:1"),
    (1, "admin reload --url http://127.0.0.1:1"),
    (1, "admin levels --url http://127.0.0.1:1"),
    (1, "admin rotate-logs --url http://127.0.0.1:1"),
    (1, "admin stop --confirm stop --url http://127.0.0.1:1"),
    (1, "admin sessions --url http://127.0.0.1:1"),
    (1, "top --url http://127.0.0.1:1"),
    (2, "top --every 0"),
    (0, "completions bash"),
    (2, "completions ksh"),
    (0, "man --to pages"),
    (1, "man --to good.fix"),
    (2, "man"),
    (0, "--version --verbose"),
    (2, "audit journals none none"),
    (0, "audit verify notes.body"),
    (1, "audit verify bad.fix"),
    (1, "audit verify notes.body --has 00"),
    (2, "audit verify none"),
    (2, "peer"),
];

/// Returns the words of a call that form the command, such as `store list`.
fn verb(call: &str) -> String {
    let words: Vec<_> = call.split(' ').collect();
    let count = match words[..] {
        ["admin", "user" | "token", ..] => 3,
        ["admin" | "audit" | "store", ..] => 2,
        _ => 1,
    };
    words.into_iter().take(count).collect::<Vec<_>>().join(" ")
}

/// Returns the exit codes that a command's help names.
fn codes_of_help(verb: &str) -> BTreeSet<i32> {
    let words: Vec<_> = verb.split(' ').chain(["--help"]).collect();
    let help = expect(0, &words).out;
    let text = help.split_once("Exit code").or_else(|| help.split_once("Exit status"));
    let (_, text) = text.unwrap_or_else(|| panic!("{verb}: {help}"));
    let words = text.split([' ', '\n']).filter_map(|word| word.parse().ok());
    words.filter(|code| (0..=2).contains(code)).collect()
}

#[test]
fn every_verb_ends_as_its_help_says() {
    let dir = files();
    for (code, call) in CALLS {
        let args: Vec<_> = call.split(' ').filter(|word| !word.is_empty()).collect();
        let input: &[u8] = if call.contains("user add") { b"a good password\n" } else { b"" };
        let run = run_in(dir.path(), &args, input);
        assert_eq!(run.code, *code, "{call}: {run:#?}");
        assert!(*code == 0 || !(run.err.is_empty() && run.out.is_empty()), "{call} says nothing");
        assert!(!run.err.contains("panicked"), "{call}: {run:#?}");
    }
}

#[test]
fn every_help_says_which_exit_codes_there_are() {
    let called: BTreeSet<String> = CALLS.iter().map(|(_, call)| verb(call)).collect();
    let help = expect(0, &["--help"]).out;
    let mut verbs = verbs_of(&help);
    // `bench` is a separate program, whose own tests check its exit codes.
    verbs.retain(|verb| verb != "bench");
    verbs.push("peer".to_owned());
    for group in ["admin", "admin user", "admin token", "audit", "store"] {
        verbs.retain(|verb| verb != group);
        let words: Vec<_> = group.split(' ').chain(["--help"]).collect();
        let help = expect(0, &words).out;
        verbs.extend(verbs_of(&help).iter().map(|verb| format!("{group} {verb}")));
    }
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        assert!(called.contains(&verb), "no call of {verb}");
        let codes = codes_of_help(&verb);
        assert!(codes.contains(&0) && codes.contains(&2), "{verb}: {codes:?}");
        for (code, call) in CALLS.iter().filter(|(_, call)| self::verb(call) == verb) {
            assert!(codes.contains(code), "{call} ends with {code}, the help says {codes:?}");
        }
    }
}

/// Returns the commands that a help text lists.
fn verbs_of(help: &str) -> Vec<String> {
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let is_entry = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    lines.filter(is_entry).filter_map(first).filter(|verb| verb != "help").collect()
}

#[test]
fn a_reader_that_ends_early_is_no_failure() {
    use std::process::{Command, Stdio};

    let dir = files();
    for call in [
        "dictionary",
        "schedule venue.toml",
        "print good.fix",
        "logs good.fix",
        "store list .",
        "generate FIX44 --messages Heartbeat --output generated",
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transfix"))
            .args(call.split(' '))
            .current_dir(dir.path() as &Path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{call}");
    }
}
