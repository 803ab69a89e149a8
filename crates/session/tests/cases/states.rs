//! The book's page of session states: the behaviour of the session in each state for each event.
//!
//! For each cell of the table, the test brings a session into the state and triggers the event. The
//! cell shows the sent messages, the verdict and the new state. `cargo xtask docs` writes the page.

use std::fmt::Write;

use transfix_session::{BeginString, Event, Role, State, Verdict};

use crate::cases::counterparty::World;

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src");

/// The steps that bring a new session into a state.
struct Start {
    name: &'static str,
    what: &'static str,
    make: fn() -> World,
}

/// An event that the counterparty, the clock or this side causes.
struct Happening {
    what: &'static str,
    /// Reference to the standard: the section of FIX Session Layer, and the number of the test
    /// case.
    rule: &'static str,
    happen: fn(&mut World) -> Option<Verdict>,
}

fn active() -> World {
    World::active(BeginString::Fix44)
}

const STARTS: &[Start] = &[
    Start {
        name: "Disconnected",
        what: "no link; an acceptor with the numbers 2 and 2",
        make: || {
            let mut w = active();
            w.disconnect();
            w
        },
    },
    Start {
        name: "LogonAwaited",
        what: "an acceptor has a link",
        make: || World::new(Role::Acceptor, BeginString::Fix44, |_| ()),
    },
    Start {
        name: "LogonSent",
        what: "an initiator has sent its Logon(A)",
        make: || {
            let mut w = World::new(Role::Initiator, BeginString::Fix44, |_| ());
            w.sent();
            w
        },
    },
    Start { name: "Active", what: "logged on, the numbers are 2 and 2", make: active },
    Start {
        name: "Active, gap",
        what: "messages 2 and 3 are missing and asked for, an order with number 4 is kept",
        make: || {
            let mut w = active();
            w.takes("35=D|34=4|11=kept");
            w.sent();
            w
        },
    },
    Start {
        name: "Active, silent",
        what: "our TestRequest(1) is not answered yet",
        make: || {
            let mut w = active();
            let _ = (w.later(30), w.later(6));
            w.sent();
            w
        },
    },
    Start {
        name: "LogoutSent",
        what: "we have sent Logout(5)",
        make: || {
            let mut w = active();
            w.session.logout(w.now, "", &mut w.out);
            w.sent();
            w
        },
    },
];

/// Passes a message to the session; its number is the expected number plus `ahead`.
fn receive(w: &mut World, msg_type: &str, ahead: i64, rest: &str) -> Option<Verdict> {
    let seq = w.session.next_num_in().checked_add_signed(ahead).unwrap_or(0);
    Some(w.receive(&format!("35={msg_type}|34={seq}{rest}")))
}

const LOGON: &str = "|98=0|108=30";

/// The number of events at the start of the list that can happen without a connection.
const OWN: usize = 4;

const HAPPENINGS: &[Happening] = &[
    Happening {
        what: "a link comes up",
        rule: "Establishing a FIX connection",
        happen: |w| {
            if w.session.state() == State::Disconnected {
                w.connect();
            }
            None
        },
    },
    Happening {
        what: "the link is lost",
        rule: "FIX session: it outlives connections",
        happen: |w| {
            w.disconnect();
            None
        },
    },
    Happening {
        what: "we send an order",
        rule: "Message exchange",
        happen: |w| {
            let refused = w.send("ours").err();
            assert_eq!(refused.is_none(), w.session.state() == State::Active);
            None
        },
    },
    Happening {
        what: "we log out",
        rule: "Logout process; 12",
        happen: |w| {
            w.session.logout(w.now, "", &mut w.out);
            None
        },
    },
    Happening {
        what: "Logon(A) with the expected number",
        rule: "Logon; 1a, 1b",
        happen: |w| receive(w, "A", 0, LOGON),
    },
    Happening {
        what: "Logon(A) two numbers early",
        rule: "Logon, message recovery; 1a",
        happen: |w| receive(w, "A", 2, LOGON),
    },
    Happening {
        what: "Logon(A) with a number too low",
        rule: "Logon; 2c",
        happen: |w| {
            w.session.set_next_num_in(9);
            receive(w, "A", -5, LOGON)
        },
    },
    Happening {
        what: "Logon(A) 1 with ResetSeqNumFlag(141)=Y",
        rule: "Using ResetSeqNumFlag",
        happen: |w| Some(w.receive(&format!("35=A|34=1{LOGON}|141=Y"))),
    },
    Happening {
        what: "Logon(A) of somebody else",
        rule: "Logon; 1c",
        happen: |w| receive(w, "A", 0, "|49=WHO|98=0|108=30"),
    },
    Happening {
        what: "Logon(A) with a negative HeartBtInt(108)",
        rule: "Logon; decision of ours",
        happen: |w| receive(w, "A", 0, "|98=0|108=-1"),
    },
    Happening { what: "Heartbeat(0)", rule: "Heartbeat; 2a", happen: |w| receive(w, "0", 0, "") },
    Happening {
        what: "TestRequest(1)",
        rule: "Test request; 4b",
        happen: |w| receive(w, "1", 0, "|112=hello"),
    },
    Happening {
        what: "ResendRequest(2) for all",
        rule: "Responding to a resend request; 8",
        happen: |w| receive(w, "2", 0, "|7=1|16=0"),
    },
    Happening {
        what: "ResendRequest(2), early",
        rule: "Message recovery; 20",
        happen: |w| receive(w, "2", 3, "|7=1|16=0"),
    },
    Happening {
        what: "Reject(3)",
        rule: "Session-level reject; 7",
        happen: |w| receive(w, "3", 0, "|45=1"),
    },
    Happening {
        what: "SequenceReset-GapFill(4) over the gap",
        rule: "Gap fill; 10",
        happen: |w| {
            let new = w.session.next_num_in() + 2;
            receive(w, "4", 0, &format!("|43=Y|123=Y|36={new}"))
        },
    },
    Happening {
        what: "SequenceReset-GapFill(4), early",
        rule: "Gap fill; 10",
        happen: |w| {
            let new = w.session.next_num_in() + 9;
            receive(w, "4", 3, &format!("|123=Y|36={new}"))
        },
    },
    Happening {
        what: "SequenceReset-GapFill(4) backwards",
        rule: "Gap fill; 10",
        happen: |w| receive(w, "4", 0, "|43=Y|123=Y|36=1"),
    },
    Happening {
        what: "SequenceReset-Reset(4) forwards",
        rule: "Sequence reset; 11a",
        happen: |w| receive(w, "4", -1, "|36=50"),
    },
    Happening {
        what: "SequenceReset-Reset(4) backwards",
        rule: "Sequence reset; 11c",
        happen: |w| receive(w, "4", 0, "|36=1"),
    },
    Happening {
        what: "Logout(5)",
        rule: "Logout process; 13b",
        happen: |w| receive(w, "5", 0, ""),
    },
    Happening {
        what: "Logout(5), early",
        rule: "Logout process; 1a",
        happen: |w| receive(w, "5", 3, ""),
    },
    Happening {
        what: "an order",
        rule: "Message exchange",
        happen: |w| receive(w, "D", 0, "|11=x"),
    },
    Happening {
        what: "an order, early",
        rule: "Message recovery; 2b",
        happen: |w| receive(w, "D", 3, "|11=x"),
    },
    Happening {
        what: "an order with a number seen before",
        rule: "MsgSeqNum lower than expected; 2c",
        happen: |w| receive(w, "D", -1, "|11=x"),
    },
    Happening {
        what: "the same with PossDupFlag(43)=Y",
        rule: "Possible duplicates; 2e",
        happen: |w| receive(w, "D", -1, "|43=Y|122=20261121-11:59:00|11=x"),
    },
    Happening {
        what: "a possible duplicate that is expected",
        rule: "Possible duplicates; 2e",
        happen: |w| receive(w, "D", 0, "|43=Y|122=20261121-11:59:00|11=x"),
    },
    Happening {
        what: "an order of somebody else",
        rule: "CompID problem; 2k",
        happen: |w| receive(w, "D", 0, "|49=WHO|11=x"),
    },
    Happening {
        what: "an order sent an hour ago",
        rule: "SendingTime accuracy; 2o",
        happen: |w| receive(w, "D", 0, "|52=20261121-10:00:00|11=x"),
    },
    Happening {
        what: "an order of another version",
        rule: "Invalid BeginString; 2i",
        happen: |w| {
            let seq = w.session.next_num_in();
            Some(w.receive(&format!("35=D|8=FIX.4.2|34={seq}|11=x")))
        },
    },
    Happening {
        what: "an order without MsgSeqNum(34)",
        rule: "MsgSeqNum missing; decision of ours",
        happen: |w| Some(w.receive("35=D|11=x")),
    },
    Happening {
        what: "nothing for HeartBtInt(108), 30 s",
        rule: "Heartbeat; 4a, 6",
        happen: |w| Some(w.later(30)),
    },
    Happening {
        what: "nothing for a minute and a half",
        rule: "Test request; 6",
        happen: |w| (0..90).map(|_| w.later(1)).find(|v| *v != Verdict::Handled),
    },
];

/// Returns the text of one cell of the matrix.
fn play(start: &Start, happening: &Happening) -> String {
    let mut w = (start.make)();
    let mut verdict = (happening.happen)(&mut w);
    let mut sent = w.sent();
    while let Some(held) = w.receive_held() {
        verdict = Some(held);
        sent.extend(w.sent());
    }
    let mut parts: Vec<String> = sent.iter().map(|line| format!("sends `{line}`")).collect();
    match verdict {
        None | Some(Verdict::Handled) => {}
        Some(Verdict::Deliver) => parts.push("is delivered".to_owned()),
        Some(Verdict::LoggedOn) => parts.push("is logged on".to_owned()),
        Some(Verdict::Reset) => parts.push("begins its numbers again".to_owned()),
        Some(Verdict::Held) => parts.push("keeps it".to_owned()),
        Some(Verdict::Resend { begin, end }) => parts.push(format!("resends {begin} to {end}")),
        Some(Verdict::Disconnect(why)) => parts.push(format!("closes: {why}")),
        Some(other) => parts.push(format!("{other:?}")),
    }
    if parts.is_empty() {
        parts.push("–".to_owned());
    }
    let session = &w.session;
    let numbers = format!("{} / {}", session.next_num_in(), session.next_num_out());
    format!("{:?} | {numbers} | {}", session.state(), parts.join("; ").replace('|', "\\|"))
}

fn page() -> String {
    let mut page = String::from(
        "# States of a session\n\n\
         What does a session do with each event, in each of its states? The tables below have the\n\
         answer. `cargo xtask docs` plays them: it brings a session into each state, lets each\n\
         event happen, and writes down the outcome (`crates/session/tests/cases/states.rs`).\n\
         Events with one outcome share a row. All settings are the defaults, the version is\n\
         FIX 4.4. Messages are shown without CompIDs and times. Numbers are the next ones, in\n\
         and out. The rule is named by its section in the FIX Session Layer standard, and by\n\
         the number of its test case there.\n\n\
         ![The states and what leads from one to the other](states.svg)\n\n\
         Gaps and unanswered test requests are no states of their own: they lie over `Active`.\n\
         Why some answers are as they are: [Where engines differ](decisions.md).\n",
    );
    for start in STARTS {
        write!(page, "\n## {}\n\n{}.\n\n", start.name, capital(start.what)).unwrap();
        page.push_str("| what happens | state then | next | the session | rule |\n");
        page.push_str("|---|---|---|---|---|\n");
        // Without a connection, no message can arrive.
        let linked = start.name != "Disconnected";
        // Events with the same outcome share a row.
        let mut rows: Vec<(String, Vec<&str>, Vec<&str>)> = Vec::new();
        for happening in HAPPENINGS.iter().take(if linked { HAPPENINGS.len() } else { OWN }) {
            let outcome = play(start, happening);
            let row = match rows.iter_mut().find(|(other, ..)| *other == outcome) {
                Some(row) => row,
                None => rows.push_mut((outcome, Vec::new(), Vec::new())),
            };
            row.1.push(happening.what);
            if !row.2.contains(&happening.rule) {
                row.2.push(happening.rule);
            }
        }
        for (outcome, events, rules) in rows {
            writeln!(page, "| {} | {outcome} | {} |", events.join("<br>"), rules.join("<br>"))
                .unwrap();
        }
    }
    page
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// Returns the position of a state in the diagram.
const fn place(state: State) -> (i32, i32) {
    match state {
        State::Disconnected => (120, 200),
        State::LogonAwaited => (380, 60),
        State::LogonSent => (380, 340),
        State::Active => (640, 200),
        _ => (900, 200),
    }
}

/// Draws the diagram of all transitions from [`State::on`].
fn picture() -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1020 440\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"1020\" height=\"440\" fill=\"white\"/>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker></defs>\n",
    );
    for from in State::ALL {
        for event in Event::ALL {
            // From every state, the end of the connection leads to `Disconnected`, so these arrows
            // are not drawn.
            let Some(to) = from.on(event).filter(|to| *to != State::Disconnected) else { continue };
            arrow(&mut svg, from, to, event);
        }
    }
    for state in State::ALL {
        let (x, y) = place(state);
        writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"130\" height=\"44\" rx=\"8\" fill=\"#eef3fb\" \
             stroke=\"#335\"/>\n<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{state:?}</text>",
            x - 65,
            y - 22,
            y + 5
        )
        .unwrap();
    }
    svg.push_str(
        "<text x=\"20\" y=\"425\" fill=\"#555\">LinkClosed leads from every state to \
         Disconnected.</text>\n</svg>\n",
    );
    svg
}

/// Draws an arrow between the edges of two boxes, or a loop above a single box.
fn arrow(svg: &mut String, from: State, to: State, event: Event) {
    let ((x0, y0), (x1, y1)) = (place(from), place(to));
    let (path, x, y) = if from == to {
        let path = format!("M{} {} q20 -50 40 0", x0 - 20, y0 - 22);
        (path, x0, y0 - 52)
    } else if from == State::LogonAwaited && to == State::LogoutSent {
        (format!("M{} {} Q760 20 {} {}", x0 + 65, y0, x1, y1 - 22), 720, 44)
    } else if from == State::LogonSent && to == State::LogoutSent {
        (format!("M{} {} Q760 380 {} {}", x0 + 65, y0, x1, y1 + 22), 720, 372)
    } else {
        let path = format!("M{} {y0} L{} {y1}", x0 + 65, x1 - 65);
        (path, i32::midpoint(x0, x1), i32::midpoint(y0, y1) - 8)
    };
    writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#335\" marker-end=\"url(#tip)\"/>\n\
         <text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#225\" stroke=\"white\" \
         stroke-width=\"4\" paint-order=\"stroke\">{event:?}</text>"
    )
    .unwrap();
}

#[test]
fn the_page_of_states_is_up_to_date() {
    for (name, text) in [("states.md", page()), ("states.svg", picture())] {
        let path = format!("{BOOK}/{name}");
        if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "book/src/{name} is old; run `cargo xtask docs` and look at it");
    }
}
