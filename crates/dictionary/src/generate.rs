//! Writes Rust for a dictionary: views, writers, code sets, tags and a router.
//!
//! The text is one module that uses `transfix-codec` and nothing else:
//!
//! - `tag`: a constant for each field;
//! - `codes`: an enum for each code set, with the case `Unlisted` for values beside the codes;
//! - for each message a view such as `NewOrderSingle` and a module such as `new_order_single` with
//!   `Required`, the fields that must be there, `Writer`, which adds the others, and the groups;
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
//! and in the program:
//! ```ignore
//! include!(concat!(env!("OUT_DIR"), "/venue.rs"));
//! use venue::NewOrderSingle;
//! ```
//!
//! Invariants: equal dictionaries and options give equal text; the text compiles whatever the
//! dictionary calls its things; the order of members is the dictionary's.

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

/// The parts to be written, and their form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    module: String,
    codec: String,
    messages: Vec<String>,
    form: Form,
}

/// How the text is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// By `include!`: the text is `pub mod NAME { ... }`.
    #[default]
    Include,
    /// By `mod NAME;`: the text is the file of the module.
    File,
}

impl Options {
    /// All messages, as a module of that name to include, for a crate that depends on `transfix`.
    #[must_use]
    pub fn new(module: &str) -> Self {
        Self {
            module: names::snake(module),
            codec: "::transfix::codec".to_owned(),
            messages: Vec::new(),
            form: Form::Include,
        }
    }

    /// Only these messages, by name or MsgType(35), and what they use; all if there are none.
    #[must_use]
    pub fn messages<T: AsRef<str>>(mut self, wanted: &[T]) -> Self {
        self.messages = wanted.iter().map(|message| message.as_ref().to_owned()).collect();
        self
    }

    /// How the text is to be used.
    #[must_use]
    pub const fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The path of the crate `transfix-codec`; `::transfix::codec` if nothing is said.
    #[must_use]
    pub fn codec(mut self, path: &str) -> Self {
        path.clone_into(&mut self.codec);
        self
    }

    /// The module's name.
    #[must_use]
    pub fn module(&self) -> &str {
        &self.module
    }
}

/// Why no Rust is written for a dictionary.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenerateError {
    /// A wanted message is unknown.
    Unknown(Unknown),
    /// A field or message of a venue would have the name that one of the standard has in Rust.
    NameTaken {
        /// The venue's, such as `field ClOrdId(9001)`.
        element: String,
        /// The name in Rust.
        rust: String,
        /// The standard's, such as `ClOrdID(11)`.
        by: String,
    },
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::NameTaken { element, rust, by } => write!(
                f,
                "{element}: its name in Rust, `{rust}`, is that of {by} of the standard; give it \
                 another name in the dictionary"
            ),
        }
    }
}

/// The text: what `main` returns is printed so.
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

/// The Rust text of a dictionary.
///
/// # Errors
/// If a wanted message is unknown; the error names the nearest one. If a field or message of a
/// venue has the Rust name of one of the standard; the error names both.
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
    // Generated names may look unusual, and nothing here is for people to mend.
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

/// The name of a message in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageNames {
    /// The view, for example `NewOrderSingle`.
    pub view: String,
    /// The method of the router, for example `on_new_order_single`.
    pub method: String,
}

/// The messages that the text has, each with its names.
///
/// # Errors
/// As [`generate`].
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

/// The fields of a dictionary that no message, header or trailer has.
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
