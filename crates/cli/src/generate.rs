//! `transfix generate`: writes typed messages as Rust code and, on request, a program that uses the
//! messages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::DictionarySource;
use transfix_dictionary::Dictionary;
use transfix_dictionary::generate::{Form, Options, generate, message_names, unused_fields};

use crate::input::{answered, failed};
use dependency::Dependency;

mod dependency;
mod skeleton;

const EXAMPLES: &str = "\
Examples:
  transfix generate FIX44 --output src
      all messages of FIX 4.4, as src/fix44.rs: use it by `mod fix44;`
  transfix generate FIX44 --overlay venue.xml --messages D,ExecutionReport --module venue
      two messages of a venue's variant, and what they use
  transfix generate FIX44 --extra-field '9001 VenueFlag BOOLEAN NewOrderSingle:Y,ExecutionReport'
      an additional field, required in one message and optional in another
  transfix generate FIX50SP2 --session FIXT11 --skeleton acceptor --output my-venue
      a program with its settings: `cd my-venue; cargo run`. The command looks for a checkout of
      transfix above the output and the current directory
  transfix generate FIX44 --skeleton initiator --output client --transfix ~/transfix/crates/engine
      the same for an initiator, with the package transfix in the directory of --transfix

The messages of the standard versions are already generated: enable a feature of the package
transfix, such as `fix44`. A build script can call transfix_dictionary::generate::build_script; see
docs/messages.md.

Exit code: 0 written, 2 wrong usage, or a dictionary or file is not readable or writable.";

/// Generates Rust code for the messages of a dictionary: views, writers, code sets, tags, a router.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A standard dictionary (FIX40 to FIX50SP2, FIXT11, FIXLatest) or the path of an XML file.
    dictionary: String,
    /// A file with changes to the dictionary; several files apply in their order.
    #[arg(long, value_name = "FILE")]
    overlay: Vec<PathBuf>,
    /// The scenario to use from a FIX Orchestra file.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The dictionary of the session layer, for FIX 5.0 and later.
    #[arg(long, value_name = "DICTIONARY")]
    session: Option<String>,
    /// An additional field: number, name, type and messages, each with `:Y` if the field is
    /// required in the message.
    #[arg(long, value_name = "FIELD")]
    extra_field: Vec<String>,
    /// Only these messages (names or MsgTypes), with their components and fields.
    #[arg(long, value_name = "MESSAGES", value_delimiter = ',')]
    messages: Vec<String>,
    /// The name of the module. Default: the name of the dictionary.
    #[arg(long, visible_alias = "prefix", value_name = "NAME")]
    module: Option<String>,
    /// The directory to write to.
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Write a whole program into the directory: Cargo.toml, settings.toml, src/main.rs.
    #[arg(long, value_enum)]
    skeleton: Option<Role>,
    /// The package transfix for the program: the directory of its Cargo.toml, the URL of a git
    /// repository, or a version. Default: crates/engine of the checkout above the output or the
    /// current directory; without a checkout, the version of this program.
    #[arg(long, value_name = "DIR|URL|VERSION", requires = "skeleton")]
    transfix: Option<String>,
    /// List the fields that are in no message.
    #[arg(long)]
    report_unused: bool,
}

/// Side of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// The program listens for connections.
    Acceptor,
    /// The program connects to the counterparty.
    Initiator,
}

/// Generates the code and writes the requested files.
pub(crate) fn run(args: &Args) -> ExitCode {
    match write(args) {
        Ok(report) => answered(&report),
        Err(error) => failed(&error),
    }
}

fn write(args: &Args) -> Result<String, String> {
    let base = source(args, Vec::new()).draft()?;
    let dictionary = dictionary(args)?;
    let options = Options::new(&module(args)).messages(&args.messages).form(Form::File);
    let text = generate(&dictionary, &options).map_err(|error| error.to_string())?;
    let mut report = String::new();
    let mut files = vec![(format!("{}.rs", options.module()), text)];
    if let Some(role) = args.skeleton {
        files[0].0.insert_str(0, "src/");
        let messages = message_names(&dictionary, &options).map_err(|u| u.to_string())?;
        let plan = skeleton::Plan {
            messages: &messages,
            module: options.module(),
            version: &base.name,
            role,
            args,
            transfix: Dependency::of(args.transfix.as_deref(), &args.output, Path::new("."))?,
        };
        report.push_str(&plan.transfix.said());
        let program = plan.files()?;
        refuse_to_overwrite(&args.output, &program)?;
        files.extend(program);
    }
    for (name, text) in files {
        let path = args.output.join(name);
        save(&path, &text)?;
        report.push_str(&format!("{}  {} lines\n", path.display(), text.lines().count()));
    }
    if args.report_unused {
        let unused = unused_fields(&dictionary);
        report.push_str(&format!("{} fields are in no message\n", unused.len()));
        for field in unused {
            report.push_str(&format!("  {}({})\n", field.name, field.tag));
        }
    }
    Ok(report)
}

fn source(args: &Args, overlays: Vec<PathBuf>) -> DictionarySource {
    let (base, scenario) = (PathBuf::from(&args.dictionary), args.scenario.clone());
    DictionarySource { base, scenario, overlays }
}

/// Reads the dictionary, and applies the overlays, the session dictionary and the extra fields.
fn dictionary(args: &Args) -> Result<Dictionary, String> {
    let mut draft = source(args, args.overlay.clone()).draft()?;
    if let Some(session) = &args.session {
        let version = &draft.name;
        if version.starts_with("FIX.4") {
            let why = format!("{version} has its own session layer");
            return Err(format!("--session is accepted only for FIX 5.0 and later: {why}"));
        }
        draft = draft.with_session(DictionarySource::from(session).draft()?);
    }
    if !args.extra_field.is_empty() {
        let overlay = extra_fields(&args.extra_field)?;
        draft = draft.overlay(&overlay, "--extra-field").map_err(|error| error.to_string())?;
    }
    draft.resolve().map_err(|error| error.to_string())
}

/// Returns the XML text of an overlay that adds fields, given as
/// `9001 VenueFlag BOOLEAN NewOrderSingle:Y,ExecutionReport`.
fn extra_fields(fields: &[String]) -> Result<String, String> {
    let (mut defined, mut used) = (String::new(), String::new());
    for text in fields {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [number, name, data_type, messages @ ..] = words.as_slice() else {
            return Err(format!("--extra-field '{text}': write number, name, type and messages"));
        };
        let [number, name, data_type] = [number, name, data_type].map(|word| quoted(word));
        defined.push_str(&format!(
            "  <field action='add' number={number} name={name} type={data_type}/>\n"
        ));
        for message in messages.iter().flat_map(|words| words.split(',')) {
            let (message, required) = match message.rsplit_once(':') {
                None => (message, "N"),
                Some((message, required @ ("Y" | "N"))) => (message, required),
                Some(_) => {
                    return Err(format!(
                        "--extra-field '{text}': the suffix of '{message}' must be \
                                        :Y or :N"
                    ));
                }
            };
            let message = quoted(message);
            used.push_str(&format!(
                "  <message action='change' name={message}>\n   \
                 <field name={name} required='{required}'/>\n  </message>\n"
            ));
        }
    }
    Ok(format!("<fix>\n <fields>\n{defined} </fields>\n <messages>\n{used} </messages>\n</fix>\n"))
}

/// Quotes and escapes a text as an XML attribute value.
fn quoted(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;");
    format!("'{escaped}'")
}

fn module(args: &Args) -> String {
    if let Some(module) = &args.module {
        return module.clone();
    }
    match transfix_dictionary::standard_text(&args.dictionary) {
        Ok((known, _)) => known.to_lowercase(),
        Err(_) => {
            let stem = Path::new(&args.dictionary).file_stem().unwrap_or_default();
            stem.to_string_lossy().to_lowercase()
        }
    }
}

/// Returns an error if a file of the program exists already, because the author may have changed
/// the file.
fn refuse_to_overwrite(output: &Path, program: &[(String, String)]) -> Result<(), String> {
    let mut paths = program.iter().map(|(name, _)| output.join(name));
    match paths.find(|path| path.exists()) {
        Some(path) => Err(format!(
            "{} already exists; name another --output, or write only the messages again: without \
             --skeleton, with --output {}",
            path.display(),
            output.join("src").display()
        )),
        None => Ok(()),
    }
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}
