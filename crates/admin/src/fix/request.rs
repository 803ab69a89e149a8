//! The XML of a command: an element, its parameters, and the session that they identify.

use roxmltree::Node;
use transfix::{Admin, BeginString, SessionHandle};

use crate::fix::answer::{Refused, ResultCode};

/// An XML element of a command.
#[derive(Clone, Copy)]
pub(super) struct Element<'x>(Node<'x, 'x>);

impl<'x> Element<'x> {
    pub(super) const fn of(node: Node<'x, 'x>) -> Self {
        Self(node)
    }

    pub(super) fn name(self) -> &'x str {
        self.0.tag_name().name()
    }

    pub(super) fn attribute(self, name: &str) -> Option<&'x str> {
        self.0.attribute(name)
    }

    pub(super) fn children(self) -> impl Iterator<Item = Self> {
        self.0.children().filter(Node::is_element).map(Self)
    }

    /// Checks that all parameters have one of these names and that no parameter is repeated, except
    /// SessionView.
    pub(super) fn only(self, names: &[&str]) -> Result<(), Refused> {
        for (n, child) in self.children().enumerate() {
            let name = child.name();
            if !names.contains(&name) {
                let (all, own) = (names.join(", "), self.name());
                let all = if all.is_empty() { "none".to_owned() } else { all };
                let why = format!(
                    "{own} has no parameter {name}; the accepted parameters are: \
                                   {all}"
                );
                return Err(Refused::invalid(why));
            }
            if name != "SessionView" && self.children().take(n).any(|other| other.name() == name) {
                return Err(Refused::invalid(format!("{name} stands there twice")));
            }
        }
        Ok(())
    }

    pub(super) fn child(self, name: &str) -> Option<Self> {
        self.children().find(|child| child.name() == name)
    }

    pub(super) fn all(self, name: &str) -> impl Iterator<Item = Self> {
        self.children().filter(move |child| child.name() == name)
    }

    /// Returns the trimmed text of a parameter, or `None` if the text is empty or the parameter is
    /// missing.
    pub(super) fn text(self, name: &str) -> Option<&'x str> {
        self.child(name).map(Self::own_text).filter(|text| !text.is_empty())
    }

    pub(super) fn own_text(self) -> &'x str {
        self.0.text().unwrap_or_default().trim()
    }

    pub(super) fn required(self, name: &str) -> Result<&'x str, Refused> {
        let missing = || Refused::invalid(format!("{} needs the parameter {name}", self.name()));
        self.text(name).ok_or_else(missing)
    }

    /// Returns the value of a parameter, which must be a whole number above 0.
    pub(super) fn number(self, name: &str) -> Result<Option<u64>, Refused> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok()).filter(|number| *number > 0);
        let wrong = || {
            Refused::invalid(format!(
                "{name} must be a whole number above 0, not \
            `{text}`"
            ))
        };
        number.map(Some).ok_or_else(wrong)
    }

    /// Returns the value of a parameter, which must be a boolean in the notation of XML Schema.
    pub(super) fn flag(self, name: &str) -> Result<Option<bool>, Refused> {
        match self.text(name) {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(text) => {
                Err(Refused::invalid(format!("{name} is `true` or `false`, not `{text}`")))
            }
        }
    }

    /// Returns the session that the parameters of the element identify.
    pub(super) fn session(self, admin: &Admin) -> Result<SessionHandle, Refused> {
        let (ours, theirs) = (self.required("SenderCompID")?, self.required("TargetCompID")?);
        let qualifier = self.text("SessionQualifier").unwrap_or_default();
        let version = self.text("Version").map(begin_string).transpose()?;
        let fits = |handle: &SessionHandle| {
            let id = handle.id();
            *id.sender_comp_id == *ours
                && *id.target_comp_id == *theirs
                && *id.qualifier == *qualifier
                && version.is_none_or(|version| version == id.begin_string)
        };
        let mut found: Vec<_> = admin.handles().into_iter().filter(fits).collect();
        let first = found.pop().ok_or_else(|| {
            let more = if qualifier.is_empty() { "" } else { " and this SessionQualifier" };
            let why = format!(
                "there is no session with SenderCompID {ours} and TargetCompID \
                               {theirs}{more}"
            );
            Refused::new(ResultCode::UnknownSession, why)
        })?;
        match found.is_empty() {
            true => Ok(first),
            false => Err(Refused::invalid(format!(
                "{} sessions have SenderCompID {ours} and TargetCompID {theirs}; add Version, \
                 such as FIX44, if their versions differ",
                found.len() + 1
            ))),
        }
    }
}

/// Names of the parameters that identify a session.
pub(super) const SESSION: &[&str] =
    &["SenderCompID", "TargetCompID", "SessionQualifier", "Version"];

/// Returns the BeginString(8) for a version name.
fn begin_string(text: &str) -> Result<BeginString, Refused> {
    version(text).map(|(session, _)| session)
}

/// Returns the BeginString(8), and the DefaultApplVerID(1137) for FIXT 1.1, for a version name such
/// as `FIX50SP2`.
pub(super) fn version(text: &str) -> Result<(BeginString, Option<u8>), Refused> {
    let plain = text.replace('.', "").to_ascii_uppercase();
    Ok(match &*plain {
        "FIX40" => (BeginString::Fix40, None),
        "FIX41" => (BeginString::Fix41, None),
        "FIX42" => (BeginString::Fix42, None),
        "FIX43" => (BeginString::Fix43, None),
        "FIX44" => (BeginString::Fix44, None),
        "FIX50" => (BeginString::Fixt11, Some(7)),
        "FIX50SP1" => (BeginString::Fixt11, Some(8)),
        "FIX50SP2" | "FIXT11" => (BeginString::Fixt11, Some(9)),
        _ => {
            let all = VERSIONS.map(|(name, _)| name).join(", ");
            return Err(Refused::invalid(format!("Version must be one of {all}, not `{text}`")));
        }
    })
}

/// Names of the supported versions, each with a description.
pub(super) const VERSIONS: [(&str, &str); 8] = [
    ("FIX40", "FIX 4.0"),
    ("FIX41", "FIX 4.1"),
    ("FIX42", "FIX 4.2"),
    ("FIX43", "FIX 4.3"),
    ("FIX44", "FIX 4.4"),
    ("FIX50", "FIX 5.0 over FIXT 1.1"),
    ("FIX50SP1", "FIX 5.0 SP1 over FIXT 1.1"),
    ("FIX50SP2", "FIX 5.0 SP2 over FIXT 1.1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_that_are_listed_are_read() {
        for (name, _) in VERSIONS {
            version(name).unwrap();
        }
        assert_eq!(version("FIX.4.2").unwrap(), (BeginString::Fix42, None));
        assert!(version("FIX45").unwrap_err().why.contains("FIX40, FIX41"));
    }
}
