//! `transfix top`: shows a live table of an engine's sessions.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};
use serde_json::Value;
use transfix::clock;

use crate::admin::remote::{Failure, To};
use crate::foreign::Foreign;
use crate::input::failed;

/// Show the sessions of a running engine in a table that is updated regularly.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix top --token-file token
  transfix top --url https://venue.example:9890 --ca authority.pem --every 5

Keys: up and down select a session and show its latency by stage; / filters by text, p shows only
sessions with problems, s sorts by another column, q or Ctrl-C ends the program. The engine needs
[admin] in its settings; a token with the role viewer is sufficient.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage, or no terminal.")]
pub(crate) struct Args {
    /// Seconds between two updates.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    #[command(flatten)]
    to: To,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    // The first request is made before the terminal switches to full screen, so that an error is
    // printed normally.
    let first = match args.to.sessions() {
        Ok(sessions) => sessions,
        Err(error) => return error.exit(),
    };
    if !stdout().is_terminal() {
        return failed("top needs a terminal; for a pipe or a file, use `transfix admin sessions`");
    }
    let chosen = SelectedSession::default();
    let shown = looks(args, Arc::clone(&chosen))
        .and_then(|looks| ratatui::run(|terminal| show(terminal, first, &looks, &chosen)));
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix top: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Result of a poll: all sessions and the details of the selected session, or an error text.
type PollResult = Result<(Vec<Value>, Value), String>;

/// Identity of the selected session, shared with the polling thread.
type SelectedSession = Arc<Mutex<Option<String>>>;

/// Starts a thread that polls the engine, so that a slow engine does not block the keyboard.
fn looks(args: &Args, chosen: SelectedSession) -> io::Result<Receiver<PollResult>> {
    let (to, looks) = channel();
    let (engine, every) = (args.to.clone(), Duration::from_secs(args.every));
    let look = move || {
        let sessions = engine.sessions()?;
        let id = chosen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // If the selected session was removed, its details are empty.
        let more = id.and_then(|id| engine.session(&id).ok()).unwrap_or_default();
        Ok((sessions, more))
    };
    let thread = std::thread::Builder::new().name("looks".to_owned());
    thread.spawn(move || {
        // The channel never receives a message; each receive is a pause of one interval.
        let (_stop, pause) = channel::<()>();
        while pause.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            if to.send(look().map_err(|error: Failure| error.to_string())).is_err() {
                break;
            }
        }
    })?;
    Ok(looks)
}

/// Titles of the columns; the table can be sorted by each column.
const COLUMNS: [&str; 10] = [
    "session",
    "state",
    "problem",
    "in",
    "out",
    "msg/s in",
    "msg/s out",
    "kB/s",
    "queued",
    "silent",
];

/// State of the screen.
#[derive(Default)]
struct Screen {
    sessions: Vec<SessionRow>,
    /// Counters of the previous poll, by session, from which rates are computed.
    before: HashMap<String, Counts>,
    error: Option<String>,
    filter: String,
    is_typing: bool,
    only_problems: bool,
    sort: Option<usize>,
    chosen: TableState,
    /// Details of the session that was selected at the latest poll.
    more: Value,
}

/// Message counters of a session, with the time of the poll.
#[derive(Clone, Copy, Default)]
struct Counts {
    at_ns: u64,
    messages_in: u64,
    messages_out: u64,
    bytes: u64,
}

/// A session as a row of the table.
struct SessionRow {
    cells: [String; COLUMNS.len()],
    /// Sort keys of the row, one for each column; used for numeric columns.
    keys: [f64; COLUMNS.len()],
    has_problem: bool,
    /// Text about the end of the session's latest connection.
    end: String,
}

fn show(
    terminal: &mut DefaultTerminal,
    first: Vec<Value>,
    looks: &Receiver<PollResult>,
    chosen: &SelectedSession,
) -> io::Result<()> {
    let mut screen = Screen::default();
    screen.see(&first, clock::monotonic_ns());
    loop {
        for look in looks.try_iter() {
            match look {
                Ok((sessions, more)) => {
                    screen.error = None;
                    screen.more = more;
                    screen.see(&sessions, clock::monotonic_ns());
                }
                Err(error) => screen.error = Some(error),
            }
        }
        terminal.draw(|frame| screen.draw(frame))?;
        *chosen.lock().unwrap_or_else(PoisonError::into_inner) = screen.chosen_id();
        if !event::poll(Duration::from_millis(100))? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_end =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_end || screen.key(key.code) {
                return Ok(());
            }
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the value as one line, with control characters escaped for the terminal.
fn shown(value: &Value) -> String {
    Foreign(&text(value)).to_string()
}

impl Screen {
    /// Updates the rows and rates with the result of a poll.
    fn see(&mut self, sessions: &[Value], now_ns: u64) {
        let mut before = std::mem::take(&mut self.before);
        self.sessions = sessions
            .iter()
            .map(|one| {
                let id = text(&one["id"]);
                let counted = |name: &str| one["counters"][name].as_u64().unwrap_or_default();
                let counts = Counts {
                    at_ns: now_ns,
                    messages_in: counted("messages_in"),
                    messages_out: counted("messages_out"),
                    bytes: counted("bytes_in") + counted("bytes_out"),
                };
                let last = before.remove(&id).unwrap_or(counts);
                self.before.insert(id, counts);
                SessionRow::of(one, last, counts)
            })
            .collect();
    }

    /// Handles a key. Returns `true` if the key ends the program.
    fn key(&mut self, key: KeyCode) -> bool {
        if self.is_typing {
            match key {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            return false;
        }
        match key {
            KeyCode::Char('q') => return true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p') => self.only_problems = !self.only_problems,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    None => Some(0),
                    Some(last) if last + 1 == COLUMNS.len() => None,
                    Some(column) => Some(column + 1),
                };
            }
            KeyCode::Down | KeyCode::Char('j') => self.chosen.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.chosen.select_previous(),
            KeyCode::PageDown => self.chosen.scroll_down_by(20),
            KeyCode::PageUp => self.chosen.scroll_up_by(20),
            KeyCode::Home => self.chosen.select_first(),
            KeyCode::End => self.chosen.select_last(),
            _ => {}
        }
        false
    }

    /// Returns the visible rows in order: sessions with problems first, or by the chosen column.
    fn rows(&self) -> Vec<&SessionRow> {
        let filter = self.filter.to_lowercase();
        let is_shown = |one: &&SessionRow| {
            (one.has_problem || !self.only_problems)
                && (filter.is_empty()
                    || one.cells[..3].iter().any(|cell| cell.to_lowercase().contains(&filter)))
        };
        let mut rows: Vec<_> = self.sessions.iter().filter(is_shown).collect();
        match self.sort {
            None => rows.sort_by_key(|one| !one.has_problem),
            Some(column @ 0..3) => rows.sort_by(|a, b| a.cells[column].cmp(&b.cells[column])),
            Some(column) => rows.sort_by(|a, b| b.keys[column].total_cmp(&a.keys[column])),
        }
        rows
    }

    fn chosen_id(&self) -> Option<String> {
        self.rows().get(self.chosen.selected()?).map(|one| one.cells[0].clone())
    }

    /// Returns the selected session's latency as rows, one for each stage; empty before the first
    /// poll.
    fn times(&self) -> Vec<Row<'static>> {
        let id = self.chosen_id();
        if id.is_none() || self.more["id"].as_str() != id.as_deref() {
            return Vec::new();
        }
        let unusual = self.more["unusual_latency"].as_array();
        let stages = self.more["latency"].as_array().into_iter().flatten();
        let row = |one: &Value| {
            let us =
                |name: &str| format!("{:.1}", one[name].as_f64().unwrap_or_default() / 1_000.0);
            let is_unusual = unusual.is_some_and(|all| all.contains(&one["stage"]));
            let note = if is_unusual { "unusual" } else { "" };
            Row::new([
                shown(&one["stage"]),
                shown(&one["count"]),
                us("p50_ns"),
                us("p99_ns"),
                us("p999_ns"),
                us("max_ns"),
                note.to_owned(),
            ])
        };
        stages.map(row).collect()
    }

    fn draw(&mut self, frame: &mut ratatui::Frame<'_>) {
        let times = self.times();
        let below = match times.len() {
            0 => 0,
            rows => rows as u16 + 2,
        };
        let [head, body, more, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(4),
            Constraint::Max(below),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(stages(times), more);
        let mut chosen_row = std::mem::take(&mut self.chosen);
        let rows = self.rows();
        let problems = self.sessions.iter().filter(|one| one.has_problem).count();
        let (count, shown) = (self.sessions.len(), rows.len());
        let title = format!("{count} sessions, {problems} with problems, {shown} shown");
        let chosen = chosen_row.selected().and_then(|n| rows.get(n)).map(|one| one.end.clone());
        let wide = |name: &str| u16::try_from(name.len().max(9)).unwrap_or(9);
        let widths = COLUMNS.iter().map(|name| match *name {
            "session" => Constraint::Min(24),
            "state" => Constraint::Length(12),
            "problem" => Constraint::Length(19),
            name => Constraint::Length(wide(name)),
        });
        let header = COLUMNS.iter().enumerate().map(|(n, name)| {
            Cell::new(if self.sort == Some(n) { format!("{name}*") } else { (*name).to_owned() })
        });
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let lines = rows.iter().map(|one| {
            let row = Row::new(one.cells.iter().map(|cell| Foreign(cell).to_string()));
            if one.has_problem { row.style(bold) } else { row }
        });
        let table = Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
            .header(Row::new(header.collect::<Vec<_>>()).style(bold))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let last = match (&self.error, self.is_typing) {
            (Some(error), _) => format!("not seen: {}", Foreign(error)),
            (None, true) => format!("/{}_", Foreign(&self.filter)),
            (None, false) => match chosen.filter(|end| !end.is_empty()) {
                Some(end) => end,
                None => "q quit  / filter  p problems  s sort  up, down select".to_owned(),
            },
        };
        frame.render_widget(Line::from(title), head);
        frame.render_stateful_widget(table, body, &mut chosen_row);
        frame.render_widget(Line::from(last), foot);
        self.chosen = chosen_row;
    }
}

/// Returns the table with the latency of a session by stage.
fn stages(times: Vec<Row<'static>>) -> Table<'static> {
    let header = ["stage", "count", "p50 µs", "p99 µs", "p99.9 µs", "max µs", ""];
    let widths = [16, 12, 10, 10, 10, 10, 8].map(Constraint::Length);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(times, widths).header(Row::new(header).style(bold).top_margin(1))
}

impl SessionRow {
    fn of(one: &Value, last: Counts, now: Counts) -> Self {
        let seconds = now.at_ns.saturating_sub(last.at_ns) as f64 / 1e9;
        let rate = |now: u64, last: u64| {
            if seconds > 0.0 { now.saturating_sub(last) as f64 / seconds } else { 0.0 }
        };
        let number = |name: &str| one[name].as_u64().unwrap_or_default() as f64;
        let silent = one["silent_ms"].as_f64().map(|ms| ms / 1_000.0);
        let problem = match one["enabled"] == false {
            true => "logged out manually".to_owned(),
            false => text(&one["problem"]),
        };
        let keys = [
            0.0,
            0.0,
            0.0,
            number("next_num_in"),
            number("next_num_out"),
            rate(now.messages_in, last.messages_in),
            rate(now.messages_out, last.messages_out),
            rate(now.bytes, last.bytes) / 1_000.0,
            number("queued_bytes"),
            silent.unwrap_or_default(),
        ];
        let [.., next_in, next_out, rate_in, rate_out, kilobytes, queued, _] = keys;
        let cells = [
            text(&one["id"]),
            text(&one["state"]),
            problem.clone(),
            next_in.to_string(),
            next_out.to_string(),
            format!("{rate_in:.0}"),
            format!("{rate_out:.0}"),
            format!("{kilobytes:.1}"),
            queued.to_string(),
            silent.map_or_else(String::new, |seconds| format!("{seconds:.0} s")),
        ];
        let end = &one["last_end"];
        let end = match end.is_null() {
            true => String::new(),
            false => {
                let [at, reason, said] = ["at", "reason", "text"].map(|name| shown(&end[name]));
                format!("last end at {at}: {reason} {said}")
            }
        };
        Self { cells, keys, has_problem: !problem.is_empty(), end }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;
    use transfix_codec::shown::is_hidden;

    use super::*;

    fn session(id: &str, problem: Option<&str>, messages_in: u64) -> Value {
        json!({
            "id": id, "state": "Active", "problem": problem, "enabled": true, "next_num_in": 7,
            "next_num_out": 9, "queued_bytes": 0, "silent_ms": 2_400,
            "counters": {
                "messages_in": messages_in, "messages_out": 0, "bytes_in": 0, "bytes_out": 0
            },
            "last_end": { "at": "noon", "reason": "logged out", "text": "bye" },
        })
    }

    fn drawn(screen: &mut Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(140, 8)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_screen_shows_rates_and_problems_first() {
        let mut screen = Screen::default();
        screen.see(&[session("a", None, 10), session("b", Some("store"), 0)], 1_000_000_000);
        screen.see(&[session("a", None, 60), session("b", Some("store"), 0)], 3_000_000_000);
        let text = drawn(&mut screen);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("2 sessions, 1 with problems, 2 shown"), "{text}");
        assert!(lines[2].contains("store") && lines[2].contains("\"b "), "{text}");
        assert!(lines[3].contains(" 25 ") && lines[3].contains("2 s"), "{text}");
    }

    #[test]
    fn the_times_of_the_chosen_session_are_shown() {
        let mut screen = Screen::default();
        screen.see(&[session("a", None, 10), session("b", None, 0)], 1);
        screen.more = json!({
            "id": "a", "unusual_latency": ["callback"],
            "latency": [
                { "stage": "found", "count": 3, "p50_ns": 310, "p99_ns": 900, "p999_ns": 900,
                    "max_ns": 950 },
                { "stage": "callback", "count": 3, "p50_ns": 2_000, "p99_ns": 9_000,
                    "p999_ns": 9_000, "max_ns": 81_200 },
            ],
        });
        assert!(!drawn(&mut screen).contains("p99.9"), "nothing is chosen");
        screen.key(KeyCode::Down);
        let mut terminal = Terminal::new(TestBackend::new(140, 14)).unwrap();
        let mut text = || {
            terminal.draw(|frame| screen.draw(frame)).unwrap();
            (screen.chosen_id(), terminal.backend().to_string())
        };
        let (id, shown) = text();
        assert_eq!(id.as_deref(), Some("a"));
        let line = |name: &str| shown.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("callback").contains("81.2") && line("callback").contains("unusual"));
        assert!(line("found").contains("0.3") && !line("found").contains("unusual"));
        screen.key(KeyCode::Down);
        assert!(!drawn(&mut screen).contains("81.2"), "those of another");
    }

    #[test]
    fn nothing_of_others_is_obeyed() {
        let evil = "x\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\r\nLINE\u{2028}";
        let mut one = session(evil, Some(evil), 1);
        one["state"] = evil.into();
        one["last_end"] = json!({ "at": evil, "reason": evil, "text": evil });
        let mut screen = Screen::default();
        screen.see(&[one], 1);
        let latency = json!([{ "stage": evil, "count": evil, "p50_ns": 1 }]);
        screen.more = json!({ "id": evil, "unusual_latency": [], "latency": latency });
        screen.key(KeyCode::Down);
        let seen = |screen: &mut Screen| {
            let mut terminal = Terminal::new(TestBackend::new(240, 14)).unwrap();
            terminal.draw(|frame| screen.draw(frame)).unwrap();
            let text = terminal.backend().to_string();
            assert!(!text.contains(|c| is_hidden(c) && c != '\n'), "{}", text.escape_debug());
            text
        };
        let text = seen(&mut screen);
        assert!(text.contains(r"last end at x\x1B[2J"), "{text}");
        assert!(text.matches(r"x\x1B[2J").count() >= 6, "{text}");
        screen.key(KeyCode::Char('/'));
        evil.chars().for_each(|c| _ = screen.key(KeyCode::Char(c)));
        assert!(seen(&mut screen).contains(r"/x\x1B[2J"));
        screen.error = Some(evil.to_owned());
        assert!(seen(&mut screen).contains(r"not seen: x\x1B[2J"));
    }

    #[test]
    fn keys_filter_sort_and_end() {
        let mut screen = Screen::default();
        screen.see(&[session("alpha", None, 1), session("beta", Some("store"), 2)], 1);
        for key in ['/', 'A', 'l'].map(KeyCode::Char) {
            assert!(!screen.key(key));
        }
        assert_eq!(screen.rows().len(), 1);
        assert!(drawn(&mut screen).contains("/Al_"));
        screen.key(KeyCode::Esc);
        screen.key(KeyCode::Char('p'));
        assert_eq!(screen.rows()[0].cells[0], "beta");
        screen.key(KeyCode::Char('p'));
        screen.key(KeyCode::Char('s'));
        assert_eq!(screen.rows()[0].cells[0], "alpha");
        screen.key(KeyCode::Down);
        assert!(drawn(&mut screen).contains("last end at noon: logged out bye"));
        (0..COLUMNS.len()).for_each(|_| assert!(!screen.key(KeyCode::Char('s'))));
        assert_eq!(screen.sort, None);
        assert!(screen.key(KeyCode::Char('q')));
    }
}
