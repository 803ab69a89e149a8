//! The keys of other engines, and what says the same here: for users who know those.
//!
//! Invariant: each key of the QuickFIX family is in `quickfix/keys.txt`, and those that code looks
//! at together with others are in `foreign.txt`; a test compares the two.

use crate::settings::quickfix::{self, Known};

/// A key of another engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// As its engine writes it.
    pub(crate) name: &'static str,
    /// Whose it is: `QuickFIX C++, QuickFIX/J`.
    pub(crate) engines: String,
    /// Keys of ours that say the same, as `settings reference` takes them.
    pub(crate) ours: Vec<&'static str>,
    /// What is different here, or why there is none; may be empty.
    pub(crate) says: &'static str,
}

/// The key of this name, in letters of any case.
pub(crate) fn find(name: &str) -> Option<Foreign> {
    if let Some(Known { name: known, engines, ours, says }) = quickfix::known(name) {
        let ours = match ours {
            Some(key) => vec![key],
            None => of_list("Q", known).map(|(_, ours)| ours).unwrap_or_default(),
        };
        return Some(Foreign { name: known, engines, ours, says });
    }
    [("8", "Fix8"), ("A", "FIX Antenna")].into_iter().find_map(|(who, engine)| {
        let (name, ours) = of_list(who, name)?;
        Some(Foreign { name, engines: engine.to_owned(), ours, says: "" })
    })
}

/// The lines of the list: who, their keys, our keys.
fn lines() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = include_str!("foreign.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let mut cells = line.splitn(3, '|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_else(|| panic!("foreign.txt: `{line}`"));
        [cell(), cell(), cell()]
    })
}

/// A key of this engine with the keys of ours.
fn of_list(who: &str, name: &str) -> Option<(&'static str, Vec<&'static str>)> {
    lines().filter(|[of, ..]| *of == who).find_map(|[_, theirs, ours]| {
        let is_it = |one: &&str| match one.strip_suffix("<v>") {
            Some(stem) if *one != name => {
                name.get(..stem.len()).is_some_and(|head| head.eq_ignore_ascii_case(stem))
            }
            _ => one.eq_ignore_ascii_case(name),
        };
        let found = theirs.split(", ").find(is_it)?;
        Some((found, ours.split(", ").collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::reference;

    #[test]
    fn each_key_of_ours_that_is_named_is_there() {
        for [_, theirs, ours] in lines() {
            for key in ours.split(", ") {
                let text = reference::text(Some(key));
                assert!(text.is_ok_and(|text| !text.contains("is a key of")), "{theirs}: {key}");
            }
        }
        for known in quickfix::all_known() {
            let found = find(&known.name.replace("<n>", "1")).unwrap();
            let expected = known.ours.is_some() || known.says.is_empty();
            assert!(!found.ours.is_empty() || !expected, "{found:?}");
            for key in found.ours {
                let text = reference::text(Some(key));
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
            ("autoreconnectDelayInMs", "FIX Antenna", "\n  reconnect_interval_ms ("),
            ("throttleChecking.D.threshold", "FIX Antenna", "\n  msg_type ("),
        ] {
            let text = reference::text(Some(name)).unwrap();
            assert!(text.contains(&format!("is a key of {engine}")), "{text}");
            assert!(text.contains(expected), "{text}");
        }
        let why = reference::text(Some("Description")).unwrap_err();
        let expected = "`Description` is a key of QuickFIX/J, and there is none like it here: a \
                        text for people; a comment in the file does as well";
        assert_eq!(why, expected);
        // A key of ours comes first.
        assert!(!reference::text(Some("compress")).unwrap().contains("is a key of"));
        assert!(reference::text(Some("nosuchkeyatall")).unwrap_err().contains("no key or table"));
    }
}
