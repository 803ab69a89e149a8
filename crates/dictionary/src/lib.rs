//! The dictionaries of FIX: the fields, code sets, components, groups and messages of each version.
//!
//! A [`Dictionary`] is read once, at start, from the XML layout of the QuickFIX family or from FIX
//! Orchestra, and is constant from then on. The standard versions are part of the program
//! ([`standard`]); a venue's own dictionary is read from its file.
//!
//! ```
//! # #[cfg(feature = "xml")] {
//! let fix44 = transfix_dictionary::standard("FIX44").expect("FIX44 is a standard dictionary");
//! let price = fix44.field(44).expect("Price(44) is a field of FIX 4.4");
//! assert_eq!(price.name, "Price");
//! let order = fix44.message("D").expect("NewOrderSingle(D) is a message of FIX 4.4");
//! assert_eq!(order.name, "NewOrderSingle");
//! # }
//! ```
//!
//! The crate is split as the data goes. A reader makes a [`Draft`], where members are named.
//! [`Draft::resolve`] makes the [`Dictionary`], where names are looked up and cycles refused.
//! [`Layout`] is the form of one message in which a validator looks tags up. An [`overlay`] changes
//! a draft; [`generate`] writes Rust for a dictionary.
//!
//! Invariants: no unsafe code. Nothing here reads a clock or a socket; only the functions for build
//! scripts read files. The model needs no XML, so it compiles without the feature `xml`.
#![forbid(unsafe_code)]

mod condition;
mod data_type;
mod draft;
mod error;
pub mod generate;
mod layout;
mod model;
mod nearest;
mod tree;
mod write;

#[cfg(feature = "xml")]
mod orchestra;
#[cfg(feature = "xml")]
pub mod overlay;
#[cfg(feature = "xml")]
mod quickfix;
#[cfg(feature = "xml")]
mod read;
#[cfg(feature = "xml")]
mod standard;
#[cfg(feature = "xml")]
mod xml;

pub use condition::{BadCondition, Comparison, Condition, Operand};
pub use data_type::DataType;
pub use draft::{Draft, DraftComponent, DraftConditional, DraftKind, DraftMember, DraftMessage};
pub use error::{DictionaryError, Problem};
pub use layout::{Flat, FlatMember, Layout, LayoutField};
pub use model::{
    Category, Code, Component, Conditional, Dictionary, Field, Group, Member, MemberKind, Message,
};
pub use nearest::nearest;
#[cfg(feature = "xml")]
pub use standard::{STANDARD, standard, standard_text};
pub use tree::{Unknown, describe};
