//! The commands of `connect`, for `help` and the Tab key.

/// A command, for `help` and the Tab key.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) usage: &'static str,
    pub(super) does: &'static str,
}

const fn command(name: &'static str, usage: &'static str, does: &'static str) -> Command {
    Command { name, usage, does }
}

/// All commands.
pub(super) const COMMANDS: &[Command] = &[
    command("buy", "buy QUANTITY SYMBOL PRICE", "sends a limit order"),
    command("sell", "sell QUANTITY SYMBOL PRICE", "sends a limit order"),
    command("cancel", "cancel NUMBER", "asks to cancel the order with this ClOrdID(11)"),
    command("new", "new MESSAGE", "begins a message, by name or MsgType(35), with what it needs"),
    command(
        "set",
        "set FIELD=VALUE …",
        "gives fields of it a value: by tag or name, quotes for spaces",
    ),
    command(
        "add",
        "add FIELD=VALUE …",
        "puts fields at its end: a group is its count, then each entry",
    ),
    command("unset", "unset FIELD …", "takes fields away"),
    command("edit", "edit", "puts the message on the line to be edited, as TAG=VALUE|…"),
    command("show", "show", "shows the message, and what the dictionary says is wrong with it"),
    command("save", "save NAME", "keeps the message in the file of --messages"),
    command("load", "load NAME", "takes a saved message"),
    command("saved", "saved", "lists the saved messages"),
    command("forget", "forget NAME", "deletes a saved message"),
    command(
        "send",
        "send [NAME | MESSAGE FIELD=VALUE|…]",
        "sends the message, a saved one, or this one",
    ),
    command("burst", "burst N [PER_SECOND] [NAME]", "sends orders, or a saved message, so often"),
    command(
        "replay",
        "replay FILE [PER_SECOND]",
        "sends our messages of a log, capture or store anew",
    ),
    command(
        "expect",
        "expect MESSAGE [FIELD=VALUE|…] [within SECONDS]",
        "waits for a message; * is any value",
    ),
    command("run", "run FILE", "takes the commands of a file, until one fails"),
    command("pause", "pause SECONDS", "waits"),
    command("logout", "logout", "logs out"),
    command("logon", "logon", "logs on again"),
    command("wait", "wait", "waits until the session is logged on"),
    command("quit", "quit", "logs out and ends"),
    command(
        "help",
        "help",
        "this; in values {id} is a new number, {now} and {date} the time, {n} the \
        message's place in a burst, {last.FIELD} a field of what expect has found",
    ),
];
