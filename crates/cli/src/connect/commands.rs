//! Commands of `connect`, for `help`, Tab completion and error messages.

use transfix_dictionary::nearest;

use super::fault::Fault;

/// A command.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) does: &'static str,
    example: &'static str,
}

/// All commands, each with usage, description and example.
pub(super) const COMMANDS: &[Command] = &commands([
    ("buy QUANTITY SYMBOL PRICE", "sends a limit order", "buy 100 EU 30.5"),
    ("sell QUANTITY SYMBOL PRICE", "sends a limit order", "sell 100 EU 30.5"),
    (
        "cancel NUMBER",
        "requests to cancel an order; NUMBER is its ClOrdID(11) from buy, sell or burst",
        "cancel 1",
    ),
    (
        "new MESSAGE",
        "begins a message with its required fields; MESSAGE is a name or a MsgType(35)",
        "new NewOrderSingle",
    ),
    (
        "set FIELD=VALUE …",
        "sets fields of the message, by tag or name; values with spaces need quotes",
        "set Symbol=EU Side=BUY 38=5 OrdType=MARKET Text=\"two words\"",
    ),
    (
        "add FIELD=VALUE …",
        "appends fields to the message; a group is its count, then each entry",
        "add NoPartyIDs=1 PartyID=DESK PartyIDSource=D PartyRole=11",
    ),
    ("unset FIELD …", "takes fields away", "unset Price 58"),
    ("edit", "opens the message for editing on the input line, as TAG=VALUE|…", "edit"),
    ("show", "shows the message and its errors according to the dictionary", "show"),
    ("save NAME", "saves the message in the file of --messages", "save mine"),
    ("load NAME", "takes a saved message", "load mine"),
    ("saved", "lists the saved messages", "saved"),
    ("forget NAME", "deletes a saved message", "forget mine"),
    (
        "send [NAME | MESSAGE FIELD=VALUE …]",
        "sends the current message, a saved message, or the message in the command",
        "send NewOrderSingle ClOrdID=c{id}|Symbol=EU|Side=BUY|TransactTime={now}|OrdType=MARKET",
    ),
    (
        "burst N [PER_SECOND] [NAME]",
        "sends N orders, or a saved message N times; with 0 a second, as fast as possible",
        "burst 1000 200 mine",
    ),
    (
        "replay FILE [PER_SECOND]",
        "sends our messages from a log, capture or store again",
        "replay yesterday.log 50",
    ),
    (
        "expect MESSAGE [FIELD=VALUE …] [within SECONDS]",
        "waits for a message received after the last sent message; * matches any value",
        "expect ExecutionReport ClOrdID={sent.ClOrdID} OrdStatus=NEW within 5",
    ),
    ("run FILE", "runs the commands of a file until a command fails", "run logon-and-trade.txt"),
    ("pause SECONDS", "waits", "pause 0.5"),
    ("logout", "logs out", "logout"),
    ("logon", "logs on again", "logon"),
    ("wait", "waits until the session is logged on", "wait"),
    ("quit", "logs out and ends the program", "quit"),
    ("help [COMMAND]", "lists the commands, or explains a command", "help expect"),
]);

/// Text that `help` prints below the command list.
pub(super) const VALUES: &str = "\
Placeholders in values: {id} is a number never used before, {now} and {date} are the time, and {n}
is the position in a burst. {sent.FIELD} is a field of the last sent message, and {last.FIELD} of
the last message that expect found. Separate FIELD=VALUE by spaces, or all by bars:
A=two words|B=3.";

const fn commands<const N: usize>(
    all: [(&'static str, &'static str, &'static str); N],
) -> [Command; N] {
    let mut commands = [const { Command { name: "", usage: "", does: "", example: "" } }; N];
    let mut n = 0;
    while n < N {
        let (usage, does, example) = all[n];
        commands[n] = Command { name: first_word(usage), usage, does, example };
        n += 1;
    }
    commands
}

const fn first_word(usage: &'static str) -> &'static str {
    let mut end = 0;
    while end < usage.len() && usage.as_bytes()[end] != b' ' {
        end += 1;
    }
    usage.split_at(end).0
}

impl Command {
    /// Returns the command with this name.
    ///
    /// # Errors
    /// Returns an error for an unknown name, with the most similar command.
    pub(super) fn named(name: &str) -> Result<&'static Self, Fault> {
        COMMANDS.iter().find(|command| command.name == name).ok_or_else(|| {
            let hint = nearest(name, COMMANDS.iter().map(|command| command.name));
            let hint = hint.map_or_else(String::new, |name| format!("do you mean `{name}`? "));
            Fault::Wrong(format!("unknown command '{name}'; {hint}`help` lists the commands"))
        })
    }

    /// Returns the help text of the command.
    pub(super) fn explained(&self) -> String {
        let Self { usage, does, example, .. } = self;
        format!("{usage}\n  {does}\n  example: {example}")
    }

    /// Returns the error for a wrong number of arguments.
    pub(super) fn miscounted(&self, words: &[&str]) -> Fault {
        let wanted: Vec<_> = self.usage.split(' ').skip(1).filter(|word| *word != "…").collect();
        let needed: Vec<_> =
            wanted.iter().take_while(|word| !word.starts_with('[')).copied().collect();
        let name = self.name;
        Fault::Usage(match (needed.get(words.len()..), words.get(wanted.len()..)) {
            (Some(missing @ [_, ..]), _) => format!("{name} lacks {}", missing.join(" ")),
            (_, Some(surplus @ [_, ..])) => {
                format!("{name} does not accept the words '{}'", surplus.join(" "))
            }
            _ => format!("{name} does not understand '{}'", words.join(" ")),
        })
    }

    /// Adds the usage of the command to a usage error.
    pub(super) fn with_usage(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Usage(text) => Fault::Wrong(format!("{text} (usage: {})", self.usage)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_and_what_is_too_much_is_named() {
        for (name, words, said) in [
            ("buy", &["1"][..], "buy lacks SYMBOL PRICE"),
            ("buy", &["1", "EU", "3", "now"], "buy does not accept the words 'now'"),
            ("set", &[], "set lacks FIELD=VALUE"),
            ("wait", &["a", "b"], "wait does not accept the words 'a b'"),
            ("burst", &[], "burst lacks N"),
            ("burst", &["1", "2", "x", "y"], "burst does not accept the words 'y'"),
            ("help", &["a", "b"], "help does not accept the words 'b'"),
        ] {
            let command = Command::named(name).unwrap();
            assert_eq!(command.miscounted(words), Fault::Usage(said.to_owned()));
        }
    }

    #[test]
    fn examples_are_of_their_command() {
        for Command { name, example, .. } in COMMANDS {
            assert_eq!(example.split(' ').next(), Some(*name));
        }
        let said = Command::named("expct").err().unwrap().to_string();
        assert!(said.contains("do you mean `expect`?"), "{said}");
    }
}
