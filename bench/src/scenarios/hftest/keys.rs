//! Maps keys to commands, and reads the numbers that some commands need.
//!
//! A terminal delivers single keys, which this program echoes. Without a terminal, keys arrive as
//! lines, such as `a`, `p 500`, or `p` with `500` on the next line.

use std::fmt::Write;

/// The command that a key selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    SendOne,
    SendMany(u32),
    SendAll,
    /// Creates this many orders first, then sends all of them.
    Batch(u32),
    Preload(u32),
    LogOut,
    Exit,
}

/// A key, its help text, and its action.
type Row = (u8, &'static str, Answer);

/// A function that creates a command from the entered number.
type Then = fn(u32) -> Command;

#[derive(Clone, Copy)]
pub(super) enum Answer {
    Is(Command),
    /// The key asks for a number: a text with its purpose, and the command to create.
    Asks(&'static str, Then),
}

/// The keys of the client, as on the published page.
pub(super) const CLIENT: &[Row] = &[
    (b'?', "Help", Answer::Is(Command::Help)),
    (b'N', "Send n NewOrderSingle msgs", Answer::Asks("to send", Command::SendMany)),
    (b'a', "Send all Preloaded NewOrderSingle msgs", Answer::Is(Command::SendAll)),
    (
        b'b',
        "Batch preload and send n NewOrderSingle msgs",
        Answer::Asks("to preload and send", Command::Batch),
    ),
    (b'l', "Logout; once logged out, log on again", Answer::Is(Command::LogOut)),
    (b'n', "Send a NewOrderSingle msg", Answer::Is(Command::SendOne)),
    (b'p', "Preload n NewOrderSingle msgs", Answer::Asks("to preload", Command::Preload)),
    (b'x', "Exit", Answer::Is(Command::Exit)),
];

/// The keys of the server.
pub(super) const SERVER: &[Row] = &[
    (b'?', "Help", Answer::Is(Command::Help)),
    (b'l', "Logout", Answer::Is(Command::LogOut)),
    (b'x', "Exit", Answer::Is(Command::Exit)),
];

/// The largest number that may be entered.
pub(super) const NUMBER_MAX: u32 = 10_000_000;
const BACKSPACE: [u8; 2] = [8, 127];
const ESCAPE: u8 = 27;
/// Ctrl-D.
const END: u8 = 4;

/// The result of processing a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    Command(Command),
    /// The key is unknown; the text says so.
    Wrong(String),
}

/// Reads keys.
pub(super) struct Keys {
    rows: &'static [Row],
    /// True if keys come from a terminal, so that the program echoes them.
    is_terminal: bool,
    /// The command that waits for a number, and the digits typed so far.
    asked: Option<(Then, String)>,
}

impl Keys {
    pub(super) const fn new(rows: &'static [Row], is_terminal: bool) -> Self {
        Self { rows, is_terminal, asked: None }
    }

    /// Returns true if the keys come from a terminal.
    pub(super) const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the help text: a table of keys.
    pub(super) fn help(&self) -> String {
        let mut text = "Key     Command\n===     =======\n".to_owned();
        for (key, what, _) in self.rows {
            // Writing into a String never fails.
            let _ = writeln!(text, "{}       {what}", char::from(*key));
        }
        text
    }

    /// Processes one byte of input, and appends its echo to `screen`.
    pub(super) fn byte(&mut self, byte: u8, screen: &mut String) -> Heard {
        match self.asked.take() {
            Some((then, digits)) => self.digit(byte, then, digits, screen),
            None => self.key(byte, screen),
        }
    }

    fn key(&mut self, byte: u8, screen: &mut String) -> Heard {
        if byte.is_ascii_whitespace() {
            return Heard::Nothing;
        }
        if byte == END {
            return Heard::Command(Command::Exit);
        }
        match self.rows.iter().find(|(key, ..)| *key == byte) {
            Some((_, _, Answer::Is(command))) => Heard::Command(*command),
            Some((_, _, Answer::Asks(question, then))) => {
                if self.is_terminal {
                    let _ = write!(screen, "Enter number of NewOrderSingle msgs {question}:");
                }
                self.asked = Some((*then, String::new()));
                Heard::Nothing
            }
            None => Heard::Wrong(format!("no key `{}`; ? shows all", byte.escape_ascii())),
        }
    }

    fn digit(&mut self, byte: u8, then: Then, mut digits: String, screen: &mut String) -> Heard {
        match byte {
            b'\n' | b'\r' if digits.is_empty() && !self.is_terminal => {}
            ESCAPE if self.is_terminal => {
                screen.push('\n');
                return Heard::Nothing;
            }
            b'\n' | b'\r' => {
                if self.is_terminal {
                    screen.push('\n');
                }
                return match digits.parse() {
                    Ok(number @ 1..=NUMBER_MAX) => Heard::Command(then(number)),
                    _ => Heard::Wrong(format!("`{digits}` is no number from 1 to {NUMBER_MAX}")),
                };
            }
            byte if BACKSPACE.contains(&byte) => match digits.pop() {
                Some(_) if self.is_terminal => screen.push_str("\x08 \x08"),
                _ => {}
            },
            byte if byte.is_ascii_graphic() => {
                digits.push(byte.into());
                if self.is_terminal {
                    screen.push(byte.into());
                }
            }
            _ => {}
        }
        self.asked = Some((then, digits));
        Heard::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the results of the keys in `text`, and the echoed text.
    fn heard(is_terminal: bool, text: &str) -> (Vec<Heard>, String) {
        let (mut keys, mut screen) = (Keys::new(CLIENT, is_terminal), String::new());
        let all = text.bytes().map(|byte| keys.byte(byte, &mut screen));
        (all.filter(|heard| *heard != Heard::Nothing).collect(), screen)
    }

    #[test]
    fn each_key_has_its_command() {
        use Command::*;
        let (all, screen) = heard(true, "?nalxp50\rN7\nb2\n");
        let expected = [Help, SendOne, SendAll, LogOut, Exit, Preload(50), SendMany(7), Batch(2)];
        assert_eq!(all, expected.map(Heard::Command));
        let asked = "Enter number of NewOrderSingle msgs";
        let shown =
            format!("{asked} to preload:50\n{asked} to send:7\n{asked} to preload and send:2\n");
        assert_eq!(screen, shown);
        let (all, screen) = heard(false, "p 50\nN\n7\n\n  b2\na\nx\n");
        let expected = [Preload(50), SendMany(7), Batch(2), SendAll, Exit];
        assert_eq!((all, &*screen), (expected.map(Heard::Command).to_vec(), ""));
    }

    #[test]
    fn a_number_can_be_corrected_and_given_up() {
        let (all, screen) = heard(true, "p12\x7f\x083\np9\x1bn");
        let expected = [Command::Preload(3), Command::SendOne];
        assert_eq!(all, expected.map(Heard::Command));
        assert!(screen.contains(":12\x08 \x08\x08 \x083\n"), "{screen:?}");
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for (is_terminal, text, told) in [
            (false, "z\n", "no key `z`; ? shows all"),
            (false, "p many\n", "`many` is no number from 1 to 10000000"),
            (false, "p 0\n", "`0` is no number from 1 to 10000000"),
            (false, "N 10000001\n", "`10000001` is no number from 1 to 10000000"),
            (true, "p\n", "`` is no number from 1 to 10000000"),
            (true, "\x01", "no key `\\x01`; ? shows all"),
        ] {
            assert_eq!(heard(is_terminal, text).0, [Heard::Wrong(told.to_owned())], "{text}");
        }
    }

    #[test]
    fn the_help_names_all_keys() {
        let help = Keys::new(CLIENT, true).help();
        assert_eq!(help.lines().count(), 2 + 8, "{help}");
        assert!(help.contains("\na       Send all Preloaded NewOrderSingle msgs\n"), "{help}");
        assert_eq!(Keys::new(SERVER, false).help().lines().count(), 2 + 3);
    }
}
