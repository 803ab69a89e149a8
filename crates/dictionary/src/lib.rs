//! FIX dictionaries: the fields, code sets, components, groups and messages of each version.
//!
//! A [`Dictionary`] is read once at start, from QuickFIX XML or FIX Orchestra, and never changes.
//! The standard versions are compiled into the program ([`standard`]); custom dictionaries are read
//! from files.
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
//! The modules follow the flow of data. A reader creates a [`Draft`], in which members refer to
//! names. [`Draft::resolve`] looks up the names, rejects cycles and creates the [`Dictionary`]. A
//! [`Layout`] is a table in which a validator finds the tags of one message. An [`overlay`] changes
//! a draft. [`generate`] writes Rust code for a dictionary.
//!
//! Invariants: this crate contains no unsafe code. Nothing here reads a clock or a socket, and only
//! the functions for build scripts read files. The model needs no XML parser, so it compiles
//! without the feature `xml`.
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
