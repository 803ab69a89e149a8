//! A program around generated messages: it compiles, runs, prints what comes, and refuses the
//! messages that nobody has written a method for.

use transfix::dictionary::{Category, Dictionary};

use super::{Args, Role};

/// What the program is made of.
pub(super) struct Plan<'a> {
    pub(super) dictionary: &'a Dictionary,
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
        let files = [
            ("Cargo.toml", self.manifest()),
            ("settings.toml", self.settings()?),
            ("src/main.rs", self.main()),
        ];
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
        if transfix::dictionary::standard_text(&self.args.dictionary).is_err() {
            text.push_str(&format!("dictionary = {:?}\n", absolute(self.args.dictionary.as_ref())));
        }
        if !self.args.overlay.is_empty() {
            let overlays = self.args.overlay.iter().map(|path| absolute(path));
            text.push_str(&format!("overlays = {:?}\n", overlays.collect::<Vec<_>>()));
        }
        if !self.args.extra_field.is_empty() {
            text.push_str(
                "# The dictionary lacks what --extra-field added: say it in an overlay.\n",
            );
            text.push_str("validate = false\n");
        }
        Ok(text)
    }

    fn main(&self) -> String {
        let Self { module, version, .. } = self;
        let role = self.role();
        let article = if self.role == Role::Acceptor { "An acceptor" } else { "An initiator" };
        let (views, methods) = self.methods();
        let logon = match self.role {
            Role::Acceptor => "        println!(\"{} is logged on\", session.id());\n".to_owned(),
            Role::Initiator => format!(
                "        println!(\"{{}} is logged on\", session.id());\n        \
                 // Send from here on, for example:\n        \
                 // session.send({module}::NewOrderSingle::MSG_TYPE, |body| {{\n        \
                 //     let order = {module}::new_order_single::Required {{ .. }}.write(body);\n        \
                 // }});\n"
            ),
        };
        format!(
            "//! {article} for {version}. It prints what it takes and refuses the rest.\n\
             //!\n//! `cargo run [SETTINGS]`, by default settings.toml.\n\n\
             mod {module};\n\n\
             use std::error::Error;\n\n\
             use transfix::{{\n    Application, BusinessReject, Disconnect, Engine, Message, \
             SessionId, SessionRef, Settings,\n}};\n\n\
             use {module}::{{{views}Router, route}};\n\n\
             /// The {role}'s side of one session.\nstruct Desk;\n\n\
             impl<'s> Router<SessionRef<'s>> for Desk {{\n    \
             type Answer = Result<(), BusinessReject>;\n\n    \
             fn unsupported(&mut self, _: &Message<'_>, _: &mut SessionRef<'s>) -> Self::Answer {{\n\
             \x20       Err(BusinessReject::unsupported())\n    }}\n{methods}}}\n\n\
             impl Application for Desk {{\n    fn on_message(\n        &mut self,\n        \
             message: &Message<'_>,\n        session: &mut SessionRef<'_>,\n    \
             ) -> Result<(), BusinessReject> {{\n        route(message, self, session)\n    }}\n\n    \
             fn on_logon(&mut self, session: &mut SessionRef<'_>) {{\n{logon}    }}\n\n    \
             fn on_disconnect(&mut self, id: &SessionId, reason: Disconnect) {{\n        \
             println!(\"{{id}}: {{reason}}\");\n    }}\n}}\n\n\
             fn main() -> Result<(), Box<dyn Error>> {{\n    \
             let path = std::env::args().nth(1).unwrap_or_else(|| \"settings.toml\".to_owned());\n    \
             let engine = Engine::start(&Settings::load(path)?, |_| Box::new(Desk))?;\n    \
             println!(\"running; enter a line to stop\");\n    \
             std::io::stdin().read_line(&mut String::new())?;\n    \
             engine.stop(5_000);\n    Ok(())\n}}\n"
        )
    }

    /// The names of the views, each with a comma, and the methods that take them.
    fn methods(&self) -> (String, String) {
        let all = self.dictionary.messages();
        let wanted = |name: &str, msg_type: &str| {
            let wanted = &self.args.messages;
            wanted.iter().any(|wanted| wanted == name || wanted == msg_type)
        };
        let usual = match self.role {
            Role::Acceptor => "NewOrderSingle",
            Role::Initiator => "ExecutionReport",
        };
        let mut views = String::new();
        let mut methods = String::new();
        for message in all.iter().filter(|message| message.category == Category::App) {
            let is_taken = match self.args.messages.is_empty() {
                true => message.name == usual,
                false => wanted(&message.name, &message.msg_type),
            };
            if is_taken {
                let (view, method) = transfix::dictionary::generate::message_names(&message.name);
                views.push_str(&format!("{view}, "));
                methods.push_str(&format!(
                    "\n    fn {method}(\n        &mut self,\n        message: {view}<'_>,\n        \
                     _: &mut SessionRef<'s>,\n    ) -> Self::Answer {{\n        \
                     println!(\"{{}}\", message.message());\n        Ok(())\n    }}\n"
                ));
            }
        }
        (views, methods)
    }
}

/// The path as the program finds it from its own directory.
fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}
