//! Generates a program that uses the generated messages. The program compiles and runs; it prints
//! the messages that have a method, and rejects the others.
//!
//! Invariant: rustfmt leaves the generated code unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use transfix_dictionary::generate::MessageNames;
use transfix_dictionary::{Category, Message};

use super::dependency::{Dependency, is_in_workspace};
use super::{Args, Role};

/// Input from which the program is generated.
pub(super) struct Plan<'a> {
    /// Messages of the dictionary, each with its names in the generated module.
    pub(super) messages: &'a [(&'a Message, MessageNames)],
    /// Name of the module with the generated messages.
    pub(super) module: &'a str,
    /// Version of the base dictionary, such as `FIX.4.4`.
    pub(super) version: &'a str,
    pub(super) role: Role,
    pub(super) args: &'a Args,
    pub(super) transfix: Dependency,
}

impl Plan<'_> {
    /// Returns the files of the program: path relative to its directory, and content.
    pub(super) fn files(&self) -> Result<Vec<(String, String)>, String> {
        let mut files = vec![
            ("Cargo.toml", self.manifest()),
            ("settings.toml", self.settings()?),
            ("src/main.rs", self.main()),
        ];
        if !self.args.extra_field.is_empty() {
            files.push((EXTRA_FIELDS, super::extra_fields(&self.args.extra_field)?));
        }
        let files = files.into_iter().map(|(name, text)| (name.to_owned(), text));
        let mut files: Vec<_> = files.collect();
        for (from, name) in self.copied() {
            let text = fs::read_to_string(&from);
            files.push((name, text.map_err(|error| format!("{}: {error}", from.display()))?));
        }
        Ok(files)
    }

    /// Returns the name of the package, derived from the name of the output directory.
    fn package(&self) -> String {
        let directory = self.args.output.file_name().unwrap_or_default().to_string_lossy();
        let name: String = directory
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .collect();
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name
        } else {
            format!("{}-{}", self.module, self.role())
        }
    }

    const fn role(&self) -> &'static str {
        match self.role {
            Role::Acceptor => "acceptor",
            Role::Initiator => "initiator",
        }
    }

    fn manifest(&self) -> String {
        format!(
            "[package]\nname = {:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\n{SUBSCRIBER}{}{}",
            self.package(),
            self.transfix.line(),
            if is_in_workspace(&self.args.output) { OWN_WORKSPACE } else { "" },
        )
    }

    fn settings(&self) -> Result<String, String> {
        let (begin_string, application) = match self.version {
            "FIX.5.0" => ("FIXT.1.1", Some(7)),
            "FIX.5.0SP1" => ("FIXT.1.1", Some(8)),
            "FIX.5.0SP2" | "FIXT.1.1" => ("FIXT.1.1", Some(9)),
            "FIX.Latest" => ("FIXT.1.1", Some(10)),
            "FIX.4.0" | "FIX.4.1" | "FIX.4.2" | "FIX.4.3" | "FIX.4.4" => (self.version, None),
            other => {
                return Err(format!(
                    "sessions do not support {other}; a skeleton needs FIX 4.0 or later"
                ));
            }
        };
        let (own, other) = match self.role {
            Role::Acceptor => ("VENUE", "CLIENT"),
            Role::Initiator => ("CLIENT", "VENUE"),
        };
        let mut text = format!(
            "# All keys: the documentation of transfix::SessionSettings.\n[[session]]\n\
             role = \"{}\"\nbegin_string = \"{begin_string}\"\n",
            self.role()
        );
        if let Some(version) = application {
            text.push_str(&format!("default_appl_ver_id = {version}\n"));
        }
        text.push_str(&format!(
            "sender_comp_id = \"{own}\"\ntarget_comp_id = \"{other}\"\n\
             address = \"127.0.0.1:9880\"\n"
        ));
        text.push_str(&self.dictionary_keys());
        Ok(text)
    }

    /// Returns the lines of the settings file that name the dictionaries. Empty if the session uses
    /// the default dictionaries of its version.
    fn dictionary_keys(&self) -> String {
        let copied = self.copied();
        let name = |path: &Path| match copied.iter().find(|(from, _)| from == path) {
            Some((_, name)) => name.clone(),
            None => path.display().to_string(),
        };
        let has_standard_base = is_standard(&self.args.dictionary);
        let base = name(Path::new(&self.args.dictionary));
        let mut overlays: Vec<_> = self.args.overlay.iter().map(|path| name(path)).collect();
        if !self.args.extra_field.is_empty() {
            overlays.push(EXTRA_FIELDS.to_owned());
        }
        let mut keys = match (has_standard_base, &self.args.scenario, overlays.as_slice()) {
            (true, _, []) => String::new(),
            (false, None, []) => format!("dictionary = {base:?}\n"),
            (_, None, overlays) => {
                format!("dictionary = {{ base = {base:?}, overlays = {overlays:?} }}\n")
            }
            (_, Some(scenario), overlays) => format!(
                "dictionary = {{ base = {base:?}, scenario = {scenario:?}, \
                 overlays = {overlays:?} }}\n"
            ),
        };
        if let Some(session) = self.args.session.as_ref().filter(|session| !is_standard(session)) {
            keys += &format!("session_dictionary = {:?}\n", name(Path::new(session)));
        }
        keys
    }

    /// Returns the paths of the user's dictionary files and their names in the program's directory.
    /// The files are copied, so that the program can be moved.
    fn copied(&self) -> Vec<(PathBuf, String)> {
        let named = [Some(&self.args.dictionary), self.args.session.as_ref()];
        let named = named.into_iter().flatten().filter(|name| !is_standard(name));
        let mut copied: Vec<(PathBuf, String)> = Vec::new();
        for from in named.map(PathBuf::from).chain(self.args.overlay.iter().cloned()) {
            let file = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_taken =
                |name: &str| name == EXTRA_FIELDS || copied.iter().any(|(_, taken)| taken == name);
            let numbered = (2..).map(|n| format!("{n}-{file}"));
            let name = std::iter::once(file.clone()).chain(numbered).find(|name| !is_taken(name));
            if copied.iter().all(|(known, _)| *known != from) {
                copied.push((from, name.unwrap_or(file)));
            }
        }
        copied
    }

    fn main(&self) -> String {
        let (article, logon) = match self.role {
            Role::Acceptor => ("An acceptor", ""),
            Role::Initiator => ("An initiator", LOGON),
        };
        let (views, methods) = self.methods();
        MAIN.replace("                // LOGON\n", logon)
            .replace("    // METHODS\n", &methods)
            .replace("ARTICLE", article)
            .replace("VERSION", self.version)
            .replace("ROLE", self.role())
            .replace("use IMPORTS;", &imports(self.module, views))
            .replace("MODULE", self.module)
    }

    /// Returns the names of the message views to import, and the methods that receive the views.
    fn methods(&self) -> (Vec<&str>, String) {
        let usual = match self.role {
            Role::Acceptor => "NewOrderSingle",
            Role::Initiator => "ExecutionReport",
        };
        let (mut views, mut methods) = (Vec::new(), String::new());
        for (message, MessageNames { view, method }) in self.messages {
            let is_wanted = !self.args.messages.is_empty() || message.name == usual;
            if is_wanted && message.category == Category::App {
                views.push(&**view);
                methods.push_str(&signature(method, view));
                methods.push_str(BODY);
            }
        }
        (views, methods)
    }
}

fn is_standard(name: &str) -> bool {
    transfix_dictionary::standard_text(name).is_ok()
}

const MAIN: &str = r#"//! ARTICLE for VERSION. It prints what it takes and refuses the rest.
//!
//! `cargo run [SETTINGS]`; the default is settings.toml.

#[rustfmt::skip] // It is written by `transfix generate`.
mod MODULE;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use transfix::{
    Application, BusinessReject, Engine, Message, SessionEvent, SessionNotice, SessionRef,
    SessionView, Settings,
};

use IMPORTS;

/// The application of the ROLE's session.
struct MyApplication;

impl<'s> Router<SessionRef<'s>> for MyApplication {
    type Answer = Result<(), BusinessReject>;

    fn unsupported(&mut self, _: &Message<'_>, _: &mut SessionRef<'s>) -> Self::Answer {
        Err(BusinessReject::unsupported())
    }
    // METHODS
}

impl Application for MyApplication {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        route(message, self, session)
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            println!("{} is logged on", session.id());
            // LOGON
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            println!("{}: {end}", session.id());
        }
    }
}

fn main() -> ExitCode {
    // The engine logs its events with `tracing`, and a subscriber prints them.
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or_else(|| "settings.toml".to_owned());
    let engine = Engine::start(&Settings::load(path)?, |_| Box::new(MyApplication))?;
    println!("running; enter a line to stop");
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
"#;

const BODY: &str = r#"        println!("{}", message.message());
        Ok(())
    }
"#;

/// Dependency of the generated program that prints the engine's events.
const SUBSCRIBER: &str = "tracing-subscriber = { version = \"0.3\", default-features = false, \
                          features = [\"ansi\", \"fmt\", \"std\"] }\n";

/// End of `Cargo.toml` if the program is inside another workspace.
const OWN_WORKSPACE: &str = "\n# This package is not part of the workspace above.\n[workspace]\n";

/// Line width of rustfmt, in columns.
const WIDTH: usize = 100;

/// Returns the signature of a method, in one line if it fits.
fn signature(method: &str, view: &str) -> String {
    let session = "_: &mut SessionRef<'s>";
    let line =
        format!("    fn {method}(&mut self, message: {view}<'_>, {session}) -> Self::Answer {{");
    if line.len() <= WIDTH {
        return format!("\n{line}\n");
    }
    let arguments = ["&mut self", &format!("message: {view}<'_>"), session].join(",\n        ");
    format!("\n    fn {method}(\n        {arguments},\n    ) -> Self::Answer {{\n")
}

/// Returns the `use` lines for the names from the module, wrapped at the line width.
fn imports(module: &str, mut names: Vec<&str>) -> String {
    names.push("Router");
    names.sort_unstable();
    names.push("route");
    let line = format!("use {module}::{{{}}};", names.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    let mut text = format!("use {module}::{{\n   ");
    let mut column = 3;
    for name in names {
        if column + name.len() + 2 > WIDTH {
            text.push_str("\n   ");
            column = 3;
        }
        text.push_str(&format!(" {name},"));
        column += name.len() + 2;
    }
    text.push_str("\n};");
    text
}

const LOGON: &str = r#"                // Send from here on, for example:
                // let sent = session.send(MODULE::NewOrderSingle::MSG_TYPE, |body| {
                //     let mut order = MODULE::new_order_single::Required { .. }.write(body);
                //     order.text("hello");
                // });
"#;

/// Name of the overlay file that contains the fields of `--extra-field`.
const EXTRA_FIELDS: &str = "extra-fields.xml";
