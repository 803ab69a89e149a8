//! Generator of Rust code from a dictionary: views, writers, code sets, tags and a router.
//!
//! The generated text is one module that depends only on `transfix-codec`:
//!
//! - `tag`: a constant for each field;
//! - `codes`: an enum for each code set, with the variant `Unlisted` for values besides the codes;
//! - for each message, a view such as `NewOrderSingle` and a module such as `new_order_single`. The
//!   module contains `Required` with the required fields, `Writer` for the other fields, and the
//!   groups;
//! - `components`: the same for components, which messages share;
//! - `Router` and `route`: one method for each message.
//!
//! In a build script:
//! ```no_run
//! use transfix_dictionary::generate::{Options, build_script};
//!
//! let options = Options::new("venue").messages(&["NewOrderSingle", "ExecutionReport"]);
//! build_script("venue.xml", &options)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! In the program:
//! ```ignore
//! include!(concat!(env!("OUT_DIR"), "/venue.rs"));
//! use venue::NewOrderSingle;
//! ```
//!
//! Invariants: equal dictionaries and options give equal text. The text compiles for any names in
//! the dictionary. Members keep the order of the dictionary.

mod codes;
mod names;
mod parts;
mod plan;
mod router;
mod text;
mod types;
mod views;
mod writers;

use core::fmt;

use crate::{Dictionary, Unknown};
use plan::Plan;
use text::Text;

/// The parts to be generated, and the form of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    module: String,
    codec: String,
    messages: Vec<String>,
    form: Form,
}

/// The form of the generated text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A text `pub mod NAME { ... }`, which a source file includes with `include!`.
    #[default]
    Include,
    /// A source file of its own, which `mod NAME;` declares.
    File,
}

impl Options {
    /// Creates options for all messages, in the form of a module named `module` for use with
    /// `include!`.
    ///
    /// The crate that includes the generated code must depend on `transfix`.
    #[must_use]
    pub fn new(module: &str) -> Self {
        Self {
            module: names::snake(module),
            codec: "::transfix::codec".to_owned(),
            messages: Vec::new(),
            form: Form::Include,
        }
    }

    /// Limits the generated code to these messages, given by name or MsgType(35), and to the
    /// components and fields that they use.
    ///
    /// An empty list selects all messages.
    #[must_use]
    pub fn messages<T: AsRef<str>>(mut self, wanted: &[T]) -> Self {
        self.messages = wanted.iter().map(|message| message.as_ref().to_owned()).collect();
        self
    }

    /// Sets the form of the generated text.
    #[must_use]
    pub const fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// Sets the path by which generated code refers to the crate `transfix-codec`; default
    /// `::transfix::codec`.
    #[must_use]
    pub fn codec(mut self, path: &str) -> Self {
        path.clone_into(&mut self.codec);
        self
    }

    /// Returns the module's name.
    #[must_use]
    pub fn module(&self) -> &str {
        &self.module
    }
}

/// The reason why no code can be generated for a dictionary.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenerateError {
    /// The dictionary does not contain a requested message.
    Unknown(Unknown),
    /// In Rust, a custom field or message would have the same name as a field or message of the
    /// standard.
    NameTaken {
        /// The custom field or message, such as `field ClOrdId(9001)`.
        element: String,
        /// The Rust name of both elements.
        rust: String,
        /// The field or message of the standard, such as `ClOrdID(11)`.
        by: String,
    },
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::NameTaken { element, rust, by } => write!(
                f,
                "{element}: its name in Rust, `{rust}`, belongs to {by} of the standard; rename \
                 the element in the dictionary"
            ),
        }
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for GenerateError {}

impl From<Unknown> for GenerateError {
    fn from(unknown: Unknown) -> Self {
        Self::Unknown(unknown)
    }
}

/// Returns the generated Rust code of a dictionary.
///
/// # Errors
/// If a requested message is unknown; the error suggests the nearest name. If a custom field or
/// message has the Rust name of a field or message of the standard; the error names both.
pub fn generate(dictionary: &Dictionary, options: &Options) -> Result<String, GenerateError> {
    let plan = Plan::of(dictionary, &options.messages)?;
    let mut text = Text::default();
    head(&mut text, &plan, options);
    plan.tags(&mut text);
    plan.code_sets(&mut text);
    plan.component_views(&mut text);
    plan.message_views(&mut text);
    plan.router(&mut text);
    if options.form == Form::Include {
        text.close("}");
    }
    Ok(text.finish())
}

fn head(text: &mut Text, plan: &Plan<'_>, options: &Options) {
    let about = format!("The messages of {}, generated from its dictionary.", plan.version());
    // Generated names may violate Rust's naming rules, so the lints of generated code are off;
    // nobody edits this code.
    let allowed = "allow(dead_code, unused_imports, unused_mut, unused_variables, unreachable_pub, \
                   unused_qualifications, clippy::all, clippy::pedantic, clippy::nursery, \
                   clippy::restriction, rustdoc::all)";
    match options.form {
        Form::Include => {
            text.line(format!("/// {about}"));
            text.line(format!("#[{allowed}]"));
            text.open(format!("pub mod {} {{", options.module));
        }
        Form::File => {
            text.line(format!("//! {about}"));
            text.line(format!("#![{allowed}]"));
        }
    }
    text.line(format!("use {}::typed as t;", options.codec));
}

/// The names of a message in the generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageNames {
    /// The name of the view type, for example `NewOrderSingle`.
    pub view: String,
    /// The name of the router method, for example `on_new_order_single`.
    pub method: String,
}

/// Returns the messages for which code is generated, with their Rust names.
///
/// # Errors
/// The errors of [`generate`].
pub fn message_names<'d>(
    dictionary: &'d Dictionary,
    options: &Options,
) -> Result<Vec<(&'d crate::Message, MessageNames)>, GenerateError> {
    let plan = Plan::of(dictionary, &options.messages)?;
    let names = plan.messages.into_iter().map(|part| {
        let method = router::method(&part.view);
        (part.part, MessageNames { view: part.view, method })
    });
    Ok(names.collect())
}

/// Returns the fields of a dictionary that no message, header or trailer contains.
#[must_use]
pub fn unused_fields(dictionary: &Dictionary) -> Vec<&crate::Field> {
    let used = plan::used_tags(dictionary);
    dictionary.fields().iter().filter(|field| !used.contains(&field.tag)).collect()
}

#[cfg(all(test, feature = "xml"))]
mod tests;

#[cfg(feature = "xml")]
mod script;
#[cfg(feature = "xml")]
pub use script::build_script;
