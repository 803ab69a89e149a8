//! A program around generated messages: it compiles, runs, prints what comes, and refuses the
//! messages that nobody has written a method for.

use transfix::dictionary::generate::MessageNames;
use transfix::dictionary::{Category, Message};

use super::{Args, Role};

/// What the program is made of.
pub(super) struct Plan<'a> {
    /// The messages, each with its names in the module.
    pub(super) messages: &'a [(&'a Message, MessageNames)],
    /// The module of the messages.
    pub(super) module: &'a str,
    /// The version below all overlays, such as `FIX.4.4`.
    pub(super) version: &'a str,
    pub(super) role: Role,
    pub(super) args: &'a Args,
}

impl Plan<'_> {
    /// The program's files, by their path in its directory.
    pub(super) fn files(&self) -> Result<Vec<(String, String)>, String> {
        let mut files = vec![
            ("Cargo.toml", self.manifest()),
            ("settings.toml", self.settings()?),
            ("src/main.rs", self.main()),
        ];
        if !self.args.extra_field.is_empty() {
            files.push((EXTRA_FIELDS, super::extra_fields(&self.args.extra_field)?));
        }
        Ok(files.into_iter().map(|(name, text)| (name.to_owned(), text)).collect())
    }

    /// The package's name: that of its directory.
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
        let version = env!("CARGO_PKG_VERSION");
        let transfix = match &self.args.transfix {
            Some(path) => format!("{{ path = {:?} }}", path.display().to_string()),
            None => format!("{version:?}"),
        };
        format!(
            "[package]\nname = {:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\ntransfix = {transfix}\n",
            self.package()
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
                    "no session speaks {other}; a skeleton needs FIX 4.0 or later"
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
        text.push_str(&self.dictionary_key());
        Ok(text)
    }

    /// The key of the settings that names the dictionary, if it is not the version's own.
    fn dictionary_key(&self) -> String {
        let name = &self.args.dictionary;
        let is_standard = transfix::dictionary::standard_text(name).is_ok();
        let base = if is_standard { name.clone() } else { absolute(name.as_ref()) };
        let mut overlays: Vec<String> =
            self.args.overlay.iter().map(|path| absolute(path)).collect();
        if !self.args.extra_field.is_empty() {
            overlays.push(EXTRA_FIELDS.to_owned());
        }
        match (is_standard, &self.args.scenario, overlays.as_slice()) {
            (true, _, []) => String::new(),
            (false, None, []) => format!("dictionary = {base:?}\n"),
            (_, None, overlays) => {
                format!("dictionary = {{ base = {base:?}, overlays = {overlays:?} }}\n")
            }
            (_, Some(scenario), overlays) => format!(
                "dictionary = {{ base = {base:?}, scenario = {scenario:?}, \
                 overlays = {overlays:?} }}\n"
            ),
        }
    }

    fn main(&self) -> String {
        let (article, logon) = match self.role {
            Role::Acceptor => ("An acceptor", ""),
            Role::Initiator => ("An initiator", LOGON),
        };
        let (views, methods) = self.methods();
        MAIN.replace("        // LOGON\n", logon)
            .replace("    // METHODS\n", &methods)
            .replace("ARTICLE", article)
            .replace("VERSION", self.version)
            .replace("ROLE", self.role())
            .replace("VIEWS", &views)
            .replace("MODULE", self.module)
    }

    /// The names of the views, each with a comma, and the methods that take them.
    fn methods(&self) -> (String, String) {
        let usual = match self.role {
            Role::Acceptor => "NewOrderSingle",
            Role::Initiator => "ExecutionReport",
        };
        let (mut views, mut methods) = (String::new(), String::new());
        for (message, MessageNames { view, method }) in self.messages {
            let is_wanted = !self.args.messages.is_empty() || message.name == usual;
            if is_wanted && message.category == Category::App {
                views.push_str(&format!("{view}, "));
                methods.push_str(&METHOD.replace("METHOD", method).replace("VIEW", view));
            }
        }
        (views, methods)
    }
}

const MAIN: &str = r#"//! ARTICLE for VERSION. It prints what it takes and refuses the rest.
//!
//! `cargo run [SETTINGS]`, by default settings.toml.

mod MODULE;

use std::error::Error;

use transfix::{
    Application, BusinessReject, Disconnection, Engine, Message, SessionId, SessionRef, Settings,
};

use MODULE::{VIEWSRouter, route};

/// The ROLE's side of one session.
struct Desk;

impl<'s> Router<SessionRef<'s>> for Desk {
    type Answer = Result<(), BusinessReject>;

    fn unsupported(&mut self, _: &Message<'_>, _: &mut SessionRef<'s>) -> Self::Answer {
        Err(BusinessReject::unsupported())
    }
    // METHODS
}

impl Application for Desk {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        route(message, self, session)
    }

    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        println!("{} is logged on", session.id());
        // LOGON
    }

    fn on_disconnect(&mut self, id: &SessionId, end: &Disconnection<'_>) {
        println!("{id}: {end}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "settings.toml".to_owned());
    let engine = Engine::start(&Settings::load(path)?, |_| Box::new(Desk))?;
    println!("running; enter a line to stop");
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(5_000);
    Ok(())
}
"#;

const METHOD: &str = r#"
    fn METHOD(
        &mut self,
        message: VIEW<'_>,
        _: &mut SessionRef<'s>,
    ) -> Self::Answer {
        println!("{}", message.message());
        Ok(())
    }
"#;

const LOGON: &str = "        \
    // Send from here on, for example:
        // let sent = session.send(MODULE::NewOrderSingle::MSG_TYPE, |body| {
        //     let mut order = MODULE::new_order_single::Required { .. }.write(body);
        //     order.text(\"hello\");
        // });
";

/// The path as the program finds it from its own directory.
fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// The overlay that holds what `--extra-field` adds.
const EXTRA_FIELDS: &str = "extra-fields.xml";
