//! Finds the Transfix keys that are equivalent to a key of another engine, for users of that
//! engine.
//!
//! Invariant: each key of the QuickFIX family is in `quickfix/keys.txt`. Keys that the code
//! evaluates together with other keys are in `foreign.txt`; a test compares the two files.

use transfix_settings::Settings;
use transfix_settings::reference::{LINE_CHARS, of_key, unknown, wrapped};

use crate::{Known, all_known, known};

/// A key of another engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The name in the other engine, or the requested name if the key stands for many names.
    pub(crate) name: String,
    /// The engines that have the key, such as `QuickFIX C++, QuickFIX/J`.
    pub(crate) engines: String,
    /// The equivalent Transfix keys, as `settings reference` accepts them.
    pub(crate) ours: Vec<&'static str>,
    /// The difference in Transfix, or the reason why there is no equivalent; may be empty.
    pub(crate) says: &'static str,
}

/// Returns the reference of a key or table, like [`Settings::reference`]. For a key of another
/// engine, returns the reference of the equivalent Transfix keys.
///
/// # Errors
/// If the table or key does not exist. The text names the nearest name.
pub fn reference(of: Option<&str>) -> Result<String, String> {
    Settings::reference(of).or_else(|error| {
        let Some(of) = of else { return Err(error) };
        find(of).map_or_else(|| Err(unknown(of, names())), |foreign| of_another(&foreign))
    })
}

/// Returns the reference of the Transfix keys that are equivalent to a key of another engine.
fn of_another(foreign: &Foreign) -> Result<String, String> {
    let Foreign { name, engines, ours, says } = foreign;
    let more = if says.is_empty() { String::new() } else { format!(": {says}") };
    if ours.is_empty() {
        return Err(format!("`{name}` is a key of {engines}; Transfix has no such key{more}"));
    }
    let quoted: Vec<_> = ours.iter().map(|key| format!("`{key}`")).collect();
    let intro =
        format!("`{name}` is a key of {engines}; in Transfix use {}{more}", quoted.join(", "));
    let mut text = wrapped(&intro, LINE_CHARS).join("\n") + "\n";
    for key in ours {
        text += &format!("\n{}", of_key(key));
    }
    Ok(text)
}

/// Returns the key of another engine with this name, in upper or lower case.
pub(crate) fn find(name: &str) -> Option<Foreign> {
    // In FIX Antenna, `sessions.default.heartbeatInterval` sets `heartbeatInterval` for all
    // sessions.
    let path = name.split_once('.').and_then(|(head, rest)| {
        let is_session = ["sessions", "session"].iter().any(|one| one.eq_ignore_ascii_case(head));
        Some(rest.split_once('.')?.1).filter(|_| is_session)
    });
    if let Some(key) = path {
        return of_lists(key, &ENGINES[1..]);
    }
    if let Some(Known { name: known, engines, ours, says }) = known(name) {
        let ours = match ours {
            Some(key) => vec![key],
            None => of_list("Q", known).map(|line| line.ours).unwrap_or_default(),
        };
        return Some(Foreign { name: known.to_owned(), engines, ours, says });
    }
    of_lists(name, &ENGINES)
}

/// Returns the key with this name, from the list of keys of these engines.
fn of_lists(asked: &str, engines: &[(&str, &'static str)]) -> Option<Foreign> {
    let found = engines.iter().filter_map(|(who, engine)| Some((of_list(who, asked)?, *engine)));
    let mut found: Vec<_> = found.collect();
    // A key with exactly this name is preferred to one that stands for many names.
    if found.iter().any(|(named, _)| !named.name.contains('<')) {
        found.retain(|(named, _)| !named.name.contains('<'));
    }
    let (Named { name, ours, says }, _) = found.first().cloned()?;
    let name = match name.contains('<') {
        true => asked.escape_debug().to_string(),
        false => name.to_owned(),
    };
    let engines: Vec<_> = found.iter().map(|(_, engine)| *engine).collect();
    Some(Foreign { name, engines: engines.join(", "), ours, says })
}

/// The engines of the list, by the letter in its lines; Fix8 precedes FIX Antenna.
const ENGINES: [(&str, &str); 3] =
    [("8", "Fix8"), ("A", "FIX Antenna .NET Core and Java"), ("C", "FIX Antenna C++")];

/// Returns all names that `settings reference` accepts, to find the nearest to a wrong name.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let listed = lines().flat_map(|[_, theirs, ..]| theirs.split(", "));
    all_known().map(|known| known.name).chain(listed).filter(|name| !name.contains('<'))
}

/// Returns the lines of the list: engine, its keys, Transfix keys, difference.
fn lines() -> impl Iterator<Item = [&'static str; 4]> {
    let lines = include_str!("foreign.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut cells = line.splitn(4, '|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_else(|| panic!("foreign.txt: `{line}`"));
        let needed = [cell(), cell(), cell()];
        let says = cells.next().unwrap_or_default();
        let [who, theirs, ours] = needed;
        [who, theirs, ours, says]
    })
}

/// A key of the list, with the engine and the Transfix keys.
#[derive(Clone)]
struct Named {
    name: &'static str,
    ours: Vec<&'static str>,
    says: &'static str,
}

/// Returns a key of the engine with the letter `who`, and its Transfix keys.
fn of_list(who: &str, name: &str) -> Option<Named> {
    lines().filter(|[of, ..]| *of == who).find_map(|[_, theirs, ours, says]| {
        let is_it = |one: &&str| match one.strip_suffix("<v>") {
            Some(stem) if *one != name => {
                name.get(..stem.len()).is_some_and(|head| head.eq_ignore_ascii_case(stem))
            }
            _ => one.eq_ignore_ascii_case(name),
        };
        let name = theirs.split(", ").find(is_it)?;
        let ours = if ours == "-" { Vec::new() } else { ours.split(", ").collect() };
        Some(Named { name, ours, says })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_of_ours_that_is_named_is_there() {
        for [_, theirs, ours, says] in lines() {
            assert!(ours != "-" || !says.is_empty(), "{theirs} does not say why");
            for key in ours.split(", ").filter(|key| *key != "-") {
                let text = reference(Some(key));
                assert!(text.is_ok_and(|text| !text.contains("is a key of")), "{theirs}: {key}");
            }
        }
        for known in all_known() {
            let found = find(&known.name.replace("<n>", "1")).unwrap();
            let expected = known.ours.is_some() || known.says.is_empty();
            assert!(!found.ours.is_empty() || !expected, "{found:?}");
            for key in found.ours {
                let text = reference(Some(key));
                assert!(text.is_ok_and(|text| !text.contains("is a key of")), "{known:?}: {key}");
            }
        }
    }

    #[test]
    fn a_key_of_another_engine_leads_to_ours() {
        for (name, engine, expected) in [
            ("SocketConnectHost", "QuickFIX C++, QuickFIX/J, QuickFIX/n", "\n  address ("),
            ("socketconnecthost2", "QuickFIX C++", "\n  addresses (list"),
            ("HeartBtInt", "QuickFIX C++", "\n  heart_bt_int_s ("),
            ("ResetOnLogon", "QuickFIX C++", "\n  reset_on ("),
            ("SocketKeyStore", "QuickFIX/J", "\n  certificate ("),
            ("AppDataDictionary.FIX.4.4", "QuickFIX C++", "\n  appl_versions ("),
            ("login_retries", "Fix8", "\n  reconnect_attempts_max ("),
            ("autoreconnectDelayInMs", "FIX Antenna .NET", "\n  reconnect_interval_ms ("),
            ("throttleChecking.D.threshold", "FIX Antenna .NET", "\n  msg_type ("),
            ("sessions.default.heartbeatInterval", "FIX Antenna .NET", "\n  heart_bt_int_s ("),
            ("Session.Default.SocketOpPriority", "FIX Antenna C++", "\n  mode ("),
            ("Session.Default.Validation.IsEnabled", "FIX Antenna C++", "\n  validate ("),
            ("ForceSeqNumReset", "FIX Antenna .NET Core and Java, FIX", "\n  reset_on ("),
            ("Log.Device", "FIX Antenna C++", "\n  file ("),
            // QuickFIX has a key of the same name, but the path shows that this one is FIX
            // Antenna's.
            ("sessions.default.StartTime", "FIX Antenna C++", "\n  schedule ("),
            (
                "Session.X.SessionQualifier",
                "FIX Antenna .NET Core and Java, FIX",
                "\n  qualifier (",
            ),
            ("sessions.X.senderCompID", "FIX Antenna .NET", "\n  sender_comp_id ("),
            ("StorageType", "FIX Antenna C++", "\n  durability ("),
            ("Session.X.StorageType", "FIX Antenna C++", "\n  store_dir ("),
            ("AutostartAcceptor", "FIX Antenna .NET Core and Java", "[admin.fix]"),
            ("autostart.acceptor.admin.storageType", "FIX Antenna .NET", "[admin.fix]"),
            ("Schedules", "FIX Antenna C++", "\n  schedule ("),
            ("Schedules.X.", "FIX Antenna C++", "\n  schedule ("),
            ("Schedules.X.StartTime", "FIX Antenna C++", "\n  schedule ("),
            ("schedules.default.TimeZone", "FIX Antenna C++", "\n  schedule ("),
        ] {
            let text = reference(Some(name)).unwrap();
            assert!(text.contains(&format!("is a key of {engine}")), "{text}");
            assert!(text.contains(expected), "{text}");
        }
        let text = reference(Some("Schedules.X.StartTime")).unwrap();
        assert!(text.starts_with("`Schedules.X.StartTime` is a key of FIX Antenna C++;"), "{text}");
        let why = reference(Some("Description")).unwrap_err();
        let expected = "`Description` is a key of QuickFIX/J; Transfix has no such key: a \
                        comment in the file serves the same purpose";
        assert_eq!(why, expected);
        // A key of Transfix is preferred to one of the same name in another engine.
        assert!(!reference(Some("compress")).unwrap().contains("is a key of"));
        assert!(reference(Some("nosuchkeyatall")).unwrap_err().contains("no key or table"));
    }

    #[test]
    fn a_wrong_name_leads_to_the_nearest_of_any_engine() {
        for (wrong, expected) in [
            (
                "heart_bt_int",
                "no key or table is named `heart_bt_int`; did you mean \
                              `heart_bt_int_s`?",
            ),
            ("SocketConectHost", "; did you mean `SocketConnectHost`?"),
            ("heartbeatIntervall", "; did you mean `heartbeatInterval`?"),
            ("logn_retries", "; did you mean `login_retries`?"),
            ("AggressiveReceiveDela", "; did you mean `AggressiveReceiveDelay`?"),
        ] {
            let why = reference(Some(wrong)).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn every_key_of_the_list_is_answered_for_by_its_name() {
        let mut counts = std::collections::BTreeMap::new();
        for [who, theirs, ..] in lines() {
            for name in theirs.split(", ") {
                *counts.entry(who).or_insert(0) += 1;
                let name = name.replace("<v>", "x").replace("<n>", "1");
                let answer = reference(Some(&name));
                let said = answer.unwrap_or_else(|why| why);
                assert!(!said.starts_with("no key or table"), "{name}: {said}");
            }
        }
        counts.remove("Q");
        assert_eq!(counts, [("8", 83), ("A", 164), ("C", 113)].into());
    }
}
