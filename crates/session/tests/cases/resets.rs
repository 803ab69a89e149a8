//! The book's page about resets, which is generated from [`Reset::on`].

use std::fmt::Write;

use transfix_session::{Reset, ResetEvent};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src");

/// Returns the description of a state for the page, and its position in the diagram.
const fn told(reset: Reset) -> (&'static str, (i32, i32)) {
    match reset {
        Reset::Settled => ("Both sides agree on the numbers, as far as we know.", (480, 60)),
        Reset::Asked => {
            ("Our Logon(A) that begins the connection asks for a reset; no answer yet.", (90, 230))
        }
        Reset::Answered => {
            ("Our Logon(A) in answer to another asks for a reset; no message yet.", (260, 400))
        }
        Reset::UnderWay => {
            ("Our Logon(A) in mid-session asks for a reset; no answer yet.", (700, 400))
        }
        Reset::Unproven => {
            ("The link was lost while a reset was under way: taken, or not.", (880, 230))
        }
    }
}

const fn meant(event: ResetEvent) -> &'static str {
    match event {
        ResetEvent::LogonAsks => "our first Logon(A) of a connection has ResetSeqNumFlag(141)=Y",
        ResetEvent::AnswerAsks => "our answer to a Logon(A) has the flag, and the Logon(A) did not",
        ResetEvent::Begins => {
            "our Logon(A) in mid-session has the flag, by the settings or an operator"
        }
        ResetEvent::LogonAccepted => "a Logon(A) of the counterparty was accepted",
        ResetEvent::NumbersSet => "the numbers were set or reset otherwise",
        ResetEvent::LinkClosed => "the connection has ended",
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Resets\n\n\
         How are both numbers set back to 1, and what if the connection breaks meanwhile? The key\n\
         `reset_on` of the [settings](settings.md), a [schedule](schedules.md), `reset_at` or an\n\
         [operator](administration.md#actions) resets them, and so does the counterparty by a\n\
         Logon(A) with ResetSeqNumFlag(141)=Y. After a lost connection the session repeats the\n\
         request until both sides agree.\n\n\
         A counterparty's reset counts with its Logon(A). A reset of ours takes time, and is in\n\
         one of five states:\n\n\
         ![The states and what leads from one to the other](resets.svg)\n\n\
         | state | meaning |\n|---|---|\n",
    );
    for reset in Reset::ALL {
        writeln!(page, "| {reset:?} | {} |", told(reset).0).unwrap();
    }
    page.push_str("\n| event | meaning |\n|---|---|\n");
    for event in ResetEvent::ALL {
        writeln!(page, "| {event:?} | {} |", meant(event)).unwrap();
    }
    page.push_str("\n| in the state |");
    for event in ResetEvent::ALL {
        write!(page, " {event:?} |").unwrap();
    }
    page.push_str("\n|---|---|---|---|---|---|---|\n");
    for reset in Reset::ALL {
        write!(page, "| {reset:?} |").unwrap();
        for event in ResetEvent::ALL {
            let next = reset.on(event).map_or("–".to_owned(), |next| format!("{next:?}"));
            write!(page, " {next} |").unwrap();
        }
        page.push('\n');
    }
    page.push_str(
        "\nFrom `Unproven`, an initiator asks again with its next Logon(A). An acceptor looks at \
         the\ncounterparty's next MsgSeqNum(34): below the number that was expected before the \
         reset, the\ncounterparty has taken it; otherwise the acceptor's answer asks once more. \
         While nothing is\nproven, the store keeps 1 as the number expected next, so that a new \
         process asks again too.\n",
    );
    page
}

fn picture() -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 980 460\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"980\" height=\"460\" fill=\"white\"/>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker></defs>\n",
    );
    for from in Reset::ALL {
        for to in Reset::ALL.into_iter().filter(|to| *to != from) {
            let leading = ResetEvent::ALL.into_iter().filter(|event| from.on(*event) == Some(to));
            let names: Vec<String> = leading.map(|event| format!("{event:?}")).collect();
            if !names.is_empty() {
                arrow(&mut svg, told(from).1, told(to).1, &names);
            }
        }
    }
    for reset in Reset::ALL {
        let (x, y) = told(reset).1;
        writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"110\" height=\"40\" rx=\"8\" fill=\"#eef3fb\" \
             stroke=\"#335\"/>\n<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{reset:?}</text>",
            x - 55,
            y - 20,
            y + 5
        )
        .unwrap();
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws an arrow as an arc between two boxes. The arc runs to the left of the straight line, so
/// that the arrows of both directions do not overlap.
fn arrow(svg: &mut String, (x0, y0): (i32, i32), (x1, y1): (i32, i32), names: &[String]) {
    let (dx, dy) = (f64::from(x1 - x0), f64::from(y1 - y0));
    let length = dx.hypot(dy);
    let (side_x, side_y) = (dy / length * 36.0, -dx / length * 36.0);
    // The arc begins and ends at the edges of the boxes.
    let cut = (60.0 / dx.abs().max(1.0)).min(24.0 / dy.abs().max(1.0)).min(0.45);
    let along = |part: f64, side: f64| {
        let (x, y) = (f64::from(x0) + dx * part, f64::from(y0) + dy * part);
        ((x + side_x * side).round(), (y + side_y * side).round())
    };
    let ((ax, ay), (mx, my), (bx, by)) = (along(cut, 0.3), along(0.5, 1.0), along(1.0 - cut, 0.3));
    let (label_x, label_y) = along(0.65, 0.7);
    writeln!(
        svg,
        "<path d=\"M{ax} {ay} Q{mx} {my} {bx} {by}\" fill=\"none\" stroke=\"#335\" \
         marker-end=\"url(#tip)\"/>"
    )
    .unwrap();
    for (n, name) in names.iter().enumerate() {
        writeln!(
            svg,
            "<text x=\"{label_x}\" y=\"{}\" text-anchor=\"middle\" fill=\"#225\" stroke=\"white\" \
             stroke-width=\"4\" paint-order=\"stroke\">{name}</text>",
            label_y + 16.0 * n as f64
        )
        .unwrap();
    }
}

#[test]
fn the_page_of_resets_is_up_to_date() {
    for (name, text) in [("resets.md", page()), ("resets.svg", picture())] {
        let path = format!("{BOOK}/{name}");
        if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "book/src/{name} is old; run `cargo xtask docs` and look at it");
    }
}
