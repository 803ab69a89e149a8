//! Checks that the page "FIX administration" of the book shows the server's real answers.

use std::fs;
use std::path::Path;

use crate::fix::{Who, market};

/// Names of elements whose values change from run to run.
const CHANGING: &[&str] = &[
    "Timestamp",
    "Established",
    "LastReceivedMessage",
    "LastSentMessage",
    "RemotePort",
    "ReceivedBytes",
    "SentBytes",
];

fn plain(xml: &str) -> String {
    let mut xml: String = xml.lines().map(str::trim).collect();
    for name in CHANGING {
        let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
        let mut at = 0;
        while let Some(from) = xml[at..].find(&begin).map(|from| at + from + begin.len()) {
            let to = from + xml[from..].find(&end).unwrap();
            xml.replace_range(from..to, "*");
            at = from;
        }
    }
    xml
}

#[test]
fn the_page_shows_what_the_server_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/fix-administration.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks: Vec<_> = page.split("```xml\n").skip(1).collect();
    let blocks: Vec<_> = blocks.iter().map(|block| block.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 10 && blocks.len() % 2 == 0, "requests and their answers");
    let market = market();
    let mut one = Who::of(&market, "administrator");
    for pair in blocks.chunks(2) {
        let answer = one.ask(pair[0].trim());
        let (found, shown) = (plain(&answer), plain(pair[1]));
        // An example with `…` is shortened at this place.
        let is_right = match shown.split_once('…') {
            Some((begin, end)) => found.starts_with(begin) && found.ends_with(end),
            None => found == shown,
        };
        assert!(is_right, "{}\nsays  {found}\nshown {shown}", pair[0]);
    }
}
