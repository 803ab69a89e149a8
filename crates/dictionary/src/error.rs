//! Errors in a dictionary, with file, line, element and remedy.
//!
//! These errors own their text, because they occur only at start, in files that people edit.

use core::fmt;

use crate::BadCondition;

/// An error that prevents the use of a dictionary.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DictionaryError {
    /// The file name as given by the caller.
    pub file: String,
    /// The line of the element, counted from 1; 0 if the error has no line.
    pub line: u32,
    /// The element, for example `field 'Price'`.
    pub element: String,
    /// The fault of the element.
    pub problem: Problem,
}

/// The kinds of faults of an element in a dictionary file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file is not well-formed XML.
    NotXml(String),
    /// The root element is not the root of a dictionary.
    NotADictionary,
    /// A required attribute is missing.
    MissingAttribute(&'static str),
    /// An attribute has an invalid value.
    BadAttribute {
        /// The attribute.
        attribute: &'static str,
        /// Its value.
        value: String,
    },
    /// An overlay contains an element or attribute that has no meaning in this position.
    Meaningless {
        /// The element or attribute.
        name: String,
        /// The most similar name that is permitted in this position.
        nearest: Option<String>,
    },
    /// The data type does not exist in FIX.
    UnknownType {
        /// The name of the type as written in the file.
        name: String,
        /// The most similar name of a type.
        nearest: Option<String>,
    },
    /// A member refers to a field that is not defined.
    UnknownField {
        /// The name or tag of the field as written in the file.
        name: String,
        /// The most similar name of a field.
        nearest: Option<String>,
    },
    /// A member refers to a component that is not defined.
    UnknownComponent {
        /// The name of the component as written in the file.
        name: String,
        /// The most similar name of a component.
        nearest: Option<String>,
    },
    /// A condition has a syntax error or refers to an unknown name.
    BadCondition(BadCondition),
    /// An overlay changes or removes an element that the underlying dictionary does not contain.
    NotThere {
        /// The most similar name in the underlying dictionary.
        nearest: Option<String>,
    },
    /// An Orchestra repository contains no element of the requested scenario.
    UnknownScenario {
        /// The name of the requested scenario.
        name: String,
        /// The most similar name of a scenario.
        nearest: Option<String>,
    },
    /// An overlay adds a field that a component of the message already contains, or tries to change
    /// such a field in the message instead of the component.
    InComponent {
        /// The name of the component that contains the field.
        component: String,
    },
    /// A tag, a name or a message type is defined twice.
    DefinedTwice,
    /// Another field has the same tag.
    TagTaken {
        /// The name of the field that has the tag.
        name: String,
        /// The tag of both fields.
        tag: u32,
    },
    /// Another field or message has the same name.
    NameTaken {
        /// The name of both fields or messages.
        name: String,
        /// The tag or MsgType(35) of the other field or message.
        id: String,
    },
    /// Another message has the same MsgType(35).
    TypeTaken {
        /// The name of the message that has the type.
        name: String,
        /// The MsgType(35) of both messages.
        msg_type: String,
    },
    /// A group has no members.
    EmptyGroup,
    /// A component contains itself.
    Cycle,
    /// Components and groups are nested deeper than [`Problem::DEPTH_MAX`].
    TooDeep,
    /// The dictionary has more fields than [`Problem::FIELDS_MAX`].
    TooManyFields,
    /// A message, group or component has more members than [`Problem::MEMBERS_MAX`]. The members of
    /// a component are counted each time the component is used.
    TooManyMembers,
    /// The requested name is not the name of a standard dictionary.
    UnknownStandard {
        /// The most similar name of a standard dictionary.
        nearest: Option<String>,
    },
}

impl Problem {
    /// Returns the code of this problem, for logs and other languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::NotXml(_) => 1001,
            Self::NotADictionary => 1002,
            Self::MissingAttribute(_) => 1003,
            Self::BadAttribute { .. } => 1004,
            Self::Meaningless { .. } => 1005,
            Self::UnknownType { .. } => 1006,
            Self::UnknownField { .. } => 1007,
            Self::UnknownComponent { .. } => 1008,
            Self::BadCondition(_) => 1009,
            Self::NotThere { .. } => 1010,
            Self::UnknownScenario { .. } => 1011,
            Self::InComponent { .. } => 1012,
            Self::DefinedTwice => 1013,
            Self::TagTaken { .. } => 1014,
            Self::NameTaken { .. } => 1021,
            Self::TypeTaken { .. } => 1022,
            Self::EmptyGroup => 1015,
            Self::Cycle => 1016,
            Self::TooDeep => 1017,
            Self::TooManyFields => 1018,
            Self::UnknownStandard { .. } => 1019,
            Self::TooManyMembers => 1020,
        }
    }

    /// Maximum nesting depth of components and groups; the standard needs fewer than 16.
    pub const DEPTH_MAX: usize = 64;
    /// Maximum number of fields of a dictionary; FIX Latest has about 6,000.
    pub const FIELDS_MAX: usize = 60_000;
    /// Maximum number of members of a message, including its components and groups.
    ///
    /// The largest message of FIX Latest has a few thousand members.
    pub const MEMBERS_MAX: usize = 20_000;
}

impl DictionaryError {
    /// Returns the code of this error, for logs and other languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        self.problem.as_u16()
    }
}

impl fmt::Display for DictionaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}: {}", self.element, self.problem)
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for DictionaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for DictionaryError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.problem {
            Problem::BadCondition(bad) => Some(bad),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotXml(why) => write!(f, "not well-formed XML: {why}"),
            Self::NotADictionary => f.write_str(
                "neither a QuickFIX dictionary (<fix>) nor an Orchestra repository (<repository>)",
            ),
            Self::MissingAttribute(name) => write!(f, "attribute '{name}' is missing; add it"),
            Self::BadAttribute { attribute, value } => {
                write!(f, "attribute '{attribute}' can't be '{value}'")?;
                f.write_str(match *attribute {
                    "action" => "; use 'add', 'change' or 'remove'",
                    "required" => "; use 'Y' or 'N'",
                    "after" | "before" => "; name an existing member",
                    "number" => "; use a number from 1",
                    "msgcat" => "; use 'admin' or 'app'",
                    _ => "",
                })
            }
            Self::Meaningless { name, nearest } => {
                write!(f, "'{name}' means nothing here")?;
                did_you_mean(f, nearest.as_deref())
            }
            Self::UnknownType { name, nearest } => {
                write!(f, "no data type has the name '{name}'")?;
                did_you_mean(f, nearest.as_deref())
            }
            Self::UnknownField { name, nearest } => {
                write!(f, "field '{name}' is not defined; define it")?;
                did_you_mean(f, nearest.as_deref())
            }
            Self::UnknownComponent { name, nearest } => {
                write!(f, "component '{name}' is not defined; define it")?;
                did_you_mean(f, nearest.as_deref())
            }
            Self::BadCondition(bad) => write!(f, "{bad}"),
            Self::NotThere { nearest } => {
                f.write_str("does not exist, so it cannot be changed or removed")?;
                did_you_mean(f, nearest.as_deref())
            }
            Self::UnknownScenario { name, nearest } => {
                write!(f, "no element belongs to the scenario '{name}'")?;
                did_you_mean(f, nearest.as_deref())
            }
            Self::InComponent { component } => {
                write!(f, "is a member of the component '{component}'; change it there")
            }
            Self::TagTaken { name, tag } => taken(f, "tag", name, tag),
            Self::NameTaken { name, id } => taken(f, "name", name, id),
            Self::TypeTaken { name, msg_type } => taken(f, "MsgType(35)", name, msg_type),
            Self::DefinedTwice => f.write_str("defined twice; remove one definition"),
            Self::EmptyGroup => f.write_str("has no members; name the first field of an entry"),
            Self::Cycle => f.write_str("contains itself; break the cycle of components"),
            Self::TooDeep => write!(f, "nested deeper than {} levels", Self::DEPTH_MAX),
            Self::TooManyMembers => {
                let max = Self::MEMBERS_MAX;
                write!(f, "more than {max} members, including those of its components; use fewer")
            }
            Self::TooManyFields => write!(f, "more than {} fields", Self::FIELDS_MAX),
            Self::UnknownStandard { nearest } => {
                f.write_str("no standard dictionary has this name; use one of FIX40 to FIX44, ")?;
                f.write_str("FIX50, FIX50SP1, FIX50SP2, FIXT11, FIXLatest")?;
                did_you_mean(f, nearest.as_deref())
            }
        }
    }
}

fn taken(f: &mut fmt::Formatter<'_>, what: &str, name: &str, id: &dyn fmt::Display) -> fmt::Result {
    write!(f, "its {what} belongs to {name}({id}); use another")
}

fn did_you_mean(f: &mut fmt::Formatter<'_>, nearest: Option<&str>) -> fmt::Result {
    match nearest {
        Some(nearest) => write!(f, "; did you mean '{nearest}'?"),
        None => Ok(()),
    }
}
