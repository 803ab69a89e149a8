//! The actions of `transfix admin do` with their arguments. A wrong call is refused before a
//! request is sent, with an error that names the arguments of the command line.
//!
//! Invariant: the actions equal those of [`transfix::Action`]; a test compares the two lists.

use serde_json::{Map, Value};
use transfix_dictionary::nearest;

use super::{Do, Failure};

/// Type of an argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Number,
    Text,
}

/// An argument of an action: its name, the type of its value, and whether it is required.
type Argument = (&'static str, Form, bool);

const ACTIONS: &[(&str, &[Argument])] = &[
    ("log_on", &[]),
    ("log_out", &[("text", Form::Text, false)]),
    ("disconnect", &[]),
    ("connect_to", &[("destination", Form::Number, true)]),
    ("revive", &[]),
    ("heartbeat", &[]),
    ("test_request", &[("id", Form::Text, true)]),
    ("resend_request", &[("begin", Form::Number, true), ("end", Form::Number, false)]),
    ("hold_sending", &[]),
    ("release_sending", &[]),
    ("set_numbers", &[("next_in", Form::Number, false), ("next_out", Form::Number, false)]),
    ("reset_at_next_logon", &[]),
    ("reset_in_session", &[]),
    ("sequence_reset", &[("new_seq_no", Form::Number, true)]),
    ("send", &[("msg_type", Form::Text, true), ("fields", Form::Text, true)]),
    ("clear_queued", &[]),
];

/// Formats an argument for error messages, such as `begin=NUMBER`.
fn shown(&(name, form, _): &Argument) -> String {
    match form {
        Form::Number => format!("{name}=NUMBER"),
        Form::Text => format!("{name}=TEXT"),
    }
}

/// Returns the action and its arguments as a JSON object.
///
/// # Errors
/// Returns an error that names the wrong, unknown or missing argument.
pub(super) fn object(args: &Do) -> Result<Map<String, Value>, Failure> {
    checked(&args.action, &args.values).map_err(Failure::Usage)
}

fn checked(action: &str, values: &[String]) -> Result<Map<String, Value>, String> {
    let names = || ACTIONS.iter().map(|(name, _)| *name);
    let Some((_, known)) = ACTIONS.iter().find(|(name, _)| *name == action) else {
        let hint = nearest(action, names()).map(|name| format!("did you mean {name}?"));
        let hint =
            hint.unwrap_or_else(|| format!("there are {}", names().collect::<Vec<_>>().join(", ")));
        return Err(format!("no action {action}; {hint}"));
    };
    let mut object = Map::new();
    object.insert("action".to_owned(), action.into());
    for value in values {
        let (name, value) =
            value.split_once('=').ok_or_else(|| format!("write NAME=VALUE, not `{value}`"))?;
        let Some((_, form, _)) = known.iter().find(|(known, ..)| *known == name) else {
            let all: Vec<_> = known.iter().map(shown).collect();
            let all = if all.is_empty() { "no argument".to_owned() } else { all.join(" and ") };
            return Err(format!(
                "the action {action} has no argument {name}=; the action accepts \
                                {all}"
            ));
        };
        let value = match (form, value.parse::<u64>()) {
            (Form::Text, _) => value.into(),
            (Form::Number, Ok(number)) => Value::from(number),
            (Form::Number, Err(_)) => {
                return Err(format!("{name}= must be a whole number, not `{value}`"));
            }
        };
        if object.insert(name.to_owned(), value).is_some() {
            return Err(format!("{name}= appears twice; remove one of them"));
        }
    }
    let missing =
        known.iter().find(|(name, _, is_needed)| *is_needed && !object.contains_key(*name));
    match missing {
        Some(argument) => Err(format!("{action} needs {}", shown(argument))),
        None => Ok(object),
    }
}

#[cfg(test)]
mod tests {
    use transfix::Action;

    use super::*;

    fn taken(object: &Map<String, Value>) -> Result<Action, String> {
        serde_json::from_value(Value::Object(object.clone())).map_err(|error| error.to_string())
    }

    /// The engine accepts these actions, requires the same arguments, and has no other actions.
    #[test]
    fn the_actions_are_those_of_the_engine() {
        for (action, known) in ACTIONS {
            let all: Vec<_> = known.iter().map(|(name, ..)| format!("{name}=5")).collect();
            let object = checked(action, &all).unwrap();
            assert_eq!(taken(&object).unwrap().name(), *action);
            for (name, form, is_needed) in *known {
                let mut without = object.clone();
                without.remove(*name);
                assert_eq!(taken(&without).is_err(), *is_needed, "{action} {name}");
                let other = match form {
                    Form::Number => Value::from("5"),
                    Form::Text => Value::from(5),
                };
                let wrong = [object.clone(), Map::from_iter([((*name).to_owned(), other)])];
                assert!(taken(&wrong.into_iter().flatten().collect()).is_err(), "{action} {name}");
            }
        }
        let unknown = taken(&Map::from_iter([("action".to_owned(), "?".into())])).unwrap_err();
        let mut theirs: Vec<_> = unknown.split('`').skip(3).step_by(2).collect();
        let mut ours: Vec<_> = ACTIONS.iter().map(|(name, _)| *name).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "{unknown}");
    }

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_command_line() {
        for (action, values, expected) in [
            ("resend_request", &[][..], "resend_request needs begin=NUMBER"),
            ("resend_request", &["end=5"], "resend_request needs begin=NUMBER"),
            ("resend_request", &["begin=x"], "begin= must be a whole number, not `x`"),
            ("resend_request", &["begin=-1"], "begin= must be a whole number, not `-1`"),
            ("resend_request", &["begin=1.0"], "begin= must be a whole number, not `1.0`"),
            (
                "resend_request",
                &["from=1"],
                "the action resend_request has no argument from=; the action accepts \
                 begin=NUMBER and end=NUMBER",
            ),
            ("resend_request", &["begin=1", "begin=2"], "begin= appears twice; remove one of them"),
            ("resend_request", &["17"], "write NAME=VALUE, not `17`"),
            (
                "heartbeat",
                &["id=1"],
                "the action heartbeat has no argument id=; the action \
                                      accepts no argument",
            ),
            (
                "heartbeat",
                &["action=log_out"],
                "the action heartbeat has no argument action=; the action accepts no argument",
            ),
            ("send", &["msg_type=D"], "send needs fields=TEXT"),
            ("logout", &[], "no action logout; did you mean log_out?"),
            ("fly", &[], "no action fly; there are log_on, log_out, disconnect, "),
        ] {
            let values: Vec<_> = values.iter().map(|&value| value.to_owned()).collect();
            let why = checked(action, &values).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        // The value of a text argument stays a JSON string even if it consists of digits.
        let test = checked("test_request", &["id=5".to_owned()]).unwrap();
        assert_eq!(test["id"], "5");
    }
}
