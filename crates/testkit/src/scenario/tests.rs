//! The player detects errors: for each law and each step, a world that violates it makes the
//! scenario fail.

use std::collections::VecDeque;
use std::time::Duration;

use transfix_codec::Timestamp;

use super::line::{Words, frame, raw, shown};
use super::{Answer, Operation, Scenario, Version, World, play};

const HEAD: &str = "Title\nWhy.\n\nversions: 4.4\n\n";
const LOGON: &str = "35=A|34=1|49=US|56=THEM|52=20261121-12:00:00|98=0|108=30";

/// A world that gives prepared answers, regardless of the bytes that it receives.
#[derive(Default)]
struct Script {
    answers: VecDeque<Answer>,
    delivered: VecDeque<Vec<u8>>,
    returned: VecDeque<Vec<u8>>,
    received: Vec<String>,
    reason: Option<String>,
}

impl Script {
    fn says(lines: &[&str]) -> Self {
        let answer = |line: &&str| match *line {
            "closed" => Answer::Closed,
            line => Answer::Message(message(line)),
        };
        Self { answers: lines.iter().map(answer).collect(), ..Self::default() }
    }
}

fn words() -> Words<'static> {
    static NONE: std::collections::BTreeMap<u64, String> = std::collections::BTreeMap::new();
    let version = Version::list("4.4").unwrap()[0];
    Words { version, now: Timestamp(0), next: 7, sent: &NONE }
}

fn message(line: &str) -> Vec<u8> {
    raw(&format!("8=FIX.4.4|9={{length}}|{line}|10={{sum}}|"))
}

impl World for Script {
    fn returned(&mut self) -> Option<Vec<u8>> {
        self.returned.pop_front()
    }
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
    fn connect(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn close(&mut self) {}
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.received.push(shown(bytes));
        Ok(())
    }
    fn intrude(&mut self, _: &[u8]) -> Result<Answer, String> {
        Ok(Answer::Nothing)
    }
    fn next(&mut self, _: bool) -> Answer {
        self.answers.pop_front().unwrap_or(Answer::Nothing)
    }
    fn wait(&mut self, _: Duration) {}
    fn order(&mut self, _: &str) -> Result<(), String> {
        Err("not logged on".to_owned())
    }
    fn operate(&mut self, _: &Operation) -> Result<(), String> {
        Ok(())
    }
    fn delivered(&mut self, _: bool) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }
    fn reason(&mut self) -> Option<String> {
        self.reason.clone()
    }
    fn numbers(&mut self) -> Option<(u64, u64)> {
        Some((2, 2))
    }
}

/// Plays the steps against `world`. Returns the reported fault, or an empty string on success.
fn fault(steps: &str, world: &mut Script) -> String {
    let scenario = Scenario::parse("test", &format!("{HEAD}{steps}")).unwrap();
    let played = play(&scenario, scenario.versions[0], world);
    played.err().map_or(String::new(), |failure| failure.what)
}

#[test]
fn what_is_not_expected_is_a_failure() {
    let heartbeat = |number: u64| LOGON.replace("A|34=1", &format!("0|34={number}"));
    let (second, fourth) = (heartbeat(2), heartbeat(4));
    let table: [(&str, &[&str], &str); 13] = [
        ("logon", &[LOGON], ""),
        ("logon", &[], "expected 35=A, but nothing came"),
        ("logon", &["closed"], "expected 35=A, but it is closed"),
        ("logon", &[&second], "expected 35=A, but 35 is \"0\""),
        ("logon", &[LOGON, &second], "there came 8=FIX.4.4|"),
        ("logon\nout 35=0", &[LOGON, &fourth], "MsgSeqNum(34) 4 of a new message should be 2"),
        ("logon\nsilence", &[LOGON, &second], "there came 8=FIX.4.4|"),
        ("logon\nsilence", &[LOGON, "closed"], "the connection is closed"),
        ("logon\nclosed", &[LOGON], "the connection is still up"),
        ("logon\nnumbers 3 2", &[LOGON], "the next numbers in and out are (2, 2)"),
        ("logon\napp 11=a", &[LOGON], "the application did not get 11=a"),
        ("logon\nsend 35=D", &[LOGON], "it was refused: not logged on"),
        ("logon\nintrude 35=0", &[LOGON], "the other connection is still up"),
    ];
    for (steps, answers, expected) in table {
        let what = fault(steps, &mut Script::says(answers));
        assert!(what.starts_with(expected) && what.is_empty() == expected.is_empty(), "{what}");
    }
}

#[test]
fn what_is_delivered_and_why_it_ends_is_compared() {
    let mut world = Script::says(&[LOGON]);
    world.delivered.push_back(message("35=D|11=b"));
    let what = fault("logon\napp 11=a", &mut world);
    assert_eq!(what, "the application got another message: expected 11=a, but 11 is \"b\"");
    let mut world = Script::says(&[LOGON]);
    world.delivered.push_back(message("35=D|11=b"));
    assert!(fault("logon", &mut world).starts_with("the application got "));
    let mut world = Script::says(&[LOGON, "closed"]);
    world.reason = Some("because".to_owned());
    assert_eq!(fault("logon\nclosed otherwise", &mut world), "the reason is \"because\"");
}

#[test]
fn conditions_on_fields() {
    let table = [
        ("35=A|98|!141|108!=31|52~20261121|34#1", ""),
        ("98=1", "expected 98=1, but 98 is \"0\""),
        ("141", "expected 141, but 141 is nothing"),
        ("!98", "expected !98, but 98 is \"0\""),
        ("108!=30", "expected 108!=30, but 108 is \"30\""),
        ("52~1999", "expected 52~1999, but 52 is \"20261121-12:00:00\""),
        ("34#2", "expected 34#2, but 34 is \"1\""),
    ];
    for (condition, expected) in table {
        let what = fault(&format!("connect\nout {condition}"), &mut Script::says(&[LOGON]));
        assert_eq!(what, expected, "{condition}");
    }
}

#[test]
fn messages_of_the_counterparty_are_completed() {
    let built = |line: &str| shown(&frame(&words().expand(line).unwrap(), &words()).bytes);
    let usual = built("35=0");
    assert!(usual.starts_with("8=FIX.4.4|9=49|35=0|49=THEM|56=US|34=7|52=19700101-00:00:00.000|"));
    assert_eq!(raw(&usual.replace("9=49", "9={length}")), usual.replace('|', "\x01").into_bytes());
    assert!(built("35=0|-34").contains("|56=US|52="), "left out");
    assert!(built("35=0|34=3|43=Y").contains("|34=3|52=19700101-00:00:00.000|43=Y|"), "given");
    assert!(built("35=0|9=+1").starts_with("8=FIX.4.4|9=50|"), "wrong length");
    let sum = |text: &str| text[text.len() - 4..text.len() - 1].parse::<u32>().unwrap();
    assert_eq!(sum(&built("35=0|10=+1")), (sum(&usual) + 1) % 256, "wrong check sum");
    assert_eq!(words().expand("{time-1d}|{open}|{n}").unwrap(), "19691231-00:00:00.000|0|7");
    assert!(words().expand("{tomorrow}").is_err() && words().expand("{sent 9}").is_err());
}

#[test]
fn the_counterparty_counts_its_messages() {
    let mut world = Script::says(&[LOGON]);
    let steps = "logon\nin 35=0\nin 35=0|34=9\nin 35=0\nin 35=4|123=Y|36=20\nin 35=0\n\
                 in 35=0|34=3|43=Y\nin 35=0\nin 35=0|34=18446744073709551615\nin 35=0";
    assert_eq!(fault(steps, &mut world), "");
    let numbers: Vec<_> = world
        .received
        .iter()
        .map(|text| text.split("|34=").nth(1).unwrap().split('|').next().unwrap())
        .collect();
    let expected = ["1", "2", "9", "10", "11", "20", "3", "21", "18446744073709551615", "22"];
    assert_eq!(numbers, expected);
}

#[test]
fn versions_and_conditions() {
    let named = |text: &str| -> String {
        let versions: Vec<_> =
            Version::list(text).unwrap().iter().map(Version::to_string).collect();
        versions.join(" ")
    };
    assert_eq!(named("all"), "4.0 4.1 4.2 4.3 4.4 5.0 5.0SP1 5.0SP2 latest");
    assert_eq!(named("4.0 4.3-5.0 5.0SP2+"), "4.0 4.3 4.4 5.0 5.0SP2 latest");
    let steps = "logon\n[4.3+] silence\n[4.0-4.2] out 35=0";
    assert_eq!(fault(steps, &mut Script::says(&[LOGON])), "");
}

#[test]
fn a_wrong_file_says_where() {
    let table = [
        ("", "line 1: begin with a title and a line that says why"),
        ("Title\nWhy.\n\nsilence", "the line `versions:` is missing"),
        ("Title\nWhy.\n\nversions: 4.5\n", "line 4: \"4.5\" is no version"),
        ("Title\nWhy.\n\nversions: all\nrole: broker", "line 5: \"broker\" is no role"),
        ("Title\nWhy.\n\nversions: all\nlogin", "line 5: \"login\" is no step"),
        ("Title\nWhy.\n\nversions: all\nwait long", "line 5: \"long\" is no time"),
        ("Title\nWhy.\n\nversions: all\nconnect\nin 35=0", "it expects nothing"),
    ];
    for (text, expected) in table {
        let error = Scenario::parse("test", text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}
