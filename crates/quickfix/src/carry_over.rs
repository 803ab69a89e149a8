//! Migrates the sessions of a `.cfg` file, key by key.

use std::collections::HashSet;
use std::path::Path;

use transfix_session::{BeginString, SessionId};
use transfix_settings::{SessionSettings, Settings};

use crate::keys::{self, Line, Section, Variables, list, quoted};
use crate::read::Cfg;
use crate::session::{Parts, Session, Told, is_credential};
use crate::table::{Rule, find, find_in_any_case};
use crate::values::written;
use crate::{
    Dialect, Fate, Finding, ForeignStore, Migration, THE_SESSION, data_dictionary, destinations,
    schedule, tls, zones,
};

/// Migrates all sessions of a file.
pub(crate) fn all(cfg: &Cfg, overlays_in: Option<&Path>, all: &mut Migration) {
    // For each session, the line of its section, and its index among the written sessions.
    let mut ids: Vec<(SessionId, usize, usize)> = Vec::new();
    let (mut known, mut stores_known) = (HashSet::new(), HashSet::new());
    let mut told = Told::default();
    for section in &cfg.sessions {
        let mut session = Session::new(cfg, section, all, overlays_in);
        session.tell_of_unknown();
        let settings = session.carry_over();
        // Instead of a session that is not migrated, only the reason is written.
        let why = session.toml.last().cloned();
        session.tell_of_variables();
        session.tell_of_the_rest(&mut told);
        let Parts { toml, sections, overlays, store } = session.into_parts();
        let Some(settings) = settings else {
            all.sessions.push(("", why.into_iter().collect()));
            continue;
        };
        let id = settings.id();
        let is_known = !known.insert(id.clone());
        let place = is_known.then(|| ids.iter().position(|(other, ..)| *other == id)).flatten();
        if let Some(place) = place {
            let line = ids[place].1;
            if all.dialect != Dialect::Java {
                let says = format!("session {id} appears twice: line {line} defines it too");
                all.findings.push(Finding::of_line(section.line, Fate::NotCarriedOver, &says));
                all.sessions.push(dropped(section.line, says));
                continue;
            }
            let last = section.line;
            let says = format!(
                "session {id} appears twice: QuickFIX/J uses the definition in \
                                line {last}"
            );
            all.findings.push(Finding::of_line(line, Fate::Dangerous, &says));
            let (_, _, place) = ids.remove(place);
            all.sessions[place] = dropped(line, says);
        }
        ids.push((id, section.line, all.sessions.len()));
        let store = store.map(|(dir, session)| {
            let to = settings.store_path();
            ForeignStore { dir, session, to }
        });
        let is_new = |store: &ForeignStore| {
            let ForeignStore { dir, session, to } = store.clone();
            stores_known.insert((dir, session, to))
        };
        all.stores.extend(store.filter(is_new));
        for overlay in overlays {
            if !all.overlays.contains(&overlay) {
                all.overlays.push(overlay);
            }
        }
        for (heading, lines) in sections {
            add_section(&mut all.sections, heading, lines);
        }
        all.sessions.push(("[[session]]", toml));
    }
    told.add(&all.findings);
    for entry in cfg.defaults.iter().filter(|entry| !told.has(entry)) {
        let says = "each session sets this key itself";
        all.findings.push(Finding::of(entry, Fate::Ignored, "", says));
    }
}

/// Returns the text that is written instead of a session.
fn dropped(line: usize, says: String) -> Section {
    ("", vec![Line::Dropped(format!("[SESSION] (line {line})"), says)])
}

/// Adds the keys of a section, unless an earlier session has already added this section.
fn add_section(sections: &mut Vec<Section>, heading: &'static str, lines: Vec<Line>) {
    if sections.iter().all(|(known, _)| *known != heading) {
        sections.push((heading, lines));
    }
}

/// The sentence of the report about a store in PostgreSQL.
const IN_POSTGRES: &str = "the package transfix-stores can keep stores in PostgreSQL; it uses a \
                           table of its own";

/// The keys that every session must have.
const NEEDED: [&str; 5] = ["role", "begin_string", "sender_comp_id", "target_comp_id", "address"];

impl Session<'_> {
    /// Writes all keys of the session. Returns `None` if the session cannot be migrated.
    fn carry_over(&mut self) -> Option<SessionSettings> {
        let wrong = self.identity().and_then(|()| self.address()).err();
        self.simple_keys();
        if let Some(says) = wrong {
            self.tell_of_session(Fate::NotCarriedOver, "", &format!("{THE_SESSION}{says}"));
            return None;
        }
        self.allow_from();
        self.sockets();
        self.reconnect();
        self.admin();
        destinations::carry_over(self);
        tls::carry_over(self);
        self.checks();
        schedule::carry_over(self);
        self.reset_at();
        data_dictionary::carry_over(self);
        self.logon();
        self.store();
        self.log();
        self.defaults();
        self.offline();
        self.taken()
    }

    /// Parses the written settings. Keys that the parser rejects are removed and reported.
    fn taken(&mut self) -> Option<SessionSettings> {
        loop {
            let error = match self.parsed(&self.toml) {
                Ok(settings) => return Some(settings),
                Err(error) => error,
            };
            // Finds the key without which the error disappears or changes.
            let is_it = |n: &usize| {
                let others = [&self.toml[..*n], &self.toml[n + 1..]].concat();
                self.parsed(&others).map_or_else(|other| other != error, |_| true)
            };
            // The keys of TLS are never removed, because the session would then be unencrypted.
            let is_optional = |line: &Line| match line {
                Line::Key(key, _) => !NEEDED.contains(&&**key) && !key.starts_with("tls."),
                _ => false,
            };
            let optional = (0..self.toml.len()).filter(|n| is_optional(&self.toml[*n]));
            let place = optional.into_iter().find(is_it);
            let key = place.map(|place| (place, self.toml[place].clone()));
            let Some((place, Line::Key(key, value))) = key else {
                let says = format!("{THE_SESSION}Transfix does not accept its settings: {error}");
                self.tell_of_session(Fate::NotCarriedOver, "", &says);
                return None;
            };
            self.leave_out(place, (&key, &value), &error);
        }
    }

    /// Removes a key that the parser rejects, and reports it.
    fn leave_out(&mut self, place: usize, (key, value): (&str, &str), error: &str) {
        // Without this key, any address could connect.
        let opens_door = key == "allow_from";
        let fate = if opens_door { Fate::Dangerous } else { Fate::NotCarriedOver };
        let becomes = Variables::Named.put(&format!("{key} = {value}"));
        let mut theirs = Vec::new();
        for finding in self.findings_of(&becomes) {
            finding.fate = fate;
            error.clone_into(&mut finding.says);
            theirs.push(format!("{}={} (line {})", finding.key, finding.value, finding.line));
        }
        self.toml[place] = match theirs.is_empty() {
            true => Line::Dropped(format!("`{key}`"), error.to_owned()),
            false => Line::Dropped(theirs.join(", "), error.to_owned()),
        };
        if theirs.is_empty() {
            let line = self.line;
            self.note(Finding::of_line(line, fate, &format!("`{key}` is left out: {error}")));
        }
    }

    /// Parses a file with only this session, without the keys that still need a decision. An
    /// overlay does not exist yet, so only its name is checked.
    fn parsed(&self, toml: &[Line]) -> Result<SessionSettings, String> {
        let keys = toml.iter().filter(|line| matches!(line, Line::Key(..))).cloned().collect();
        let (from, session) = ((&*self.path, self.dialect), ("[[session]]", keys));
        let text = keys::file(from, &[], &[session], Variables::WithDefault);
        let settings = Settings::parse(&self.path.display().to_string(), &text);
        let mut settings = settings.map_err(|error| error.message().to_owned())?;
        settings.sessions.pop().ok_or_else(|| "no session".to_owned())
    }

    fn identity(&mut self) -> Result<(), String> {
        let role = match (self.value("ConnectionType"), self.dialect) {
            (_, Dialect::Go) if self.has("SocketAcceptPort") => "acceptor",
            (_, Dialect::Go) => "initiator",
            (Some(role), _) if role == "initiator" || role == "acceptor" => role,
            (Some(role), _) => {
                return Err(format!("ConnectionType must be initiator or acceptor, not `{role}`"));
            }
            (None, _) => return Err(self.missing("ConnectionType")),
        };
        self.becomes("ConnectionType", "role", quoted(role));
        let begin_string = self.required("BeginString")?;
        if BeginString::parse(begin_string.as_bytes()).is_none() {
            return Err(format!(
                "BeginString must be FIX.4.0 to FIX.4.4 or FIXT.1.1, not {begin_string}"
            ));
        }
        self.becomes("BeginString", "begin_string", quoted(begin_string));
        let sender = self.required("SenderCompID")?;
        if sender == "*" {
            return Err("SenderCompID = * is a template for any SenderCompID; write one session \
                        for each SenderCompID"
                .to_owned());
        }
        self.becomes("SenderCompID", "sender_comp_id", quoted(sender));
        let target = self.required("TargetCompID")?;
        self.becomes("TargetCompID", "target_comp_id", quoted(target));
        if target == "*" {
            let says = "a template for any counterparty: `transfix run` admits counterparties, \
                        and a program uses `EngineBuilder::admit`";
            self.tell("AcceptorTemplate", Fate::Mapped, "target_comp_id = \"*\"", says);
            self.tell(
                "DynamicSession",
                Fate::Ignored,
                "",
                "not needed: target_comp_id = \"*\" \
                alone makes a session a template",
            );
        } else {
            let says = "not a template, because the session has a fixed TargetCompID";
            self.tell("AcceptorTemplate", Fate::Ignored, "", says);
            self.tell("DynamicSession", Fate::Ignored, "", says);
        }
        if let Some(qualifier) = self.value("SessionQualifier") {
            if role == "initiator" {
                self.becomes("SessionQualifier", "qualifier", quoted(qualifier));
            } else {
                let says = "only initiators have qualifiers: an acceptor cannot see from a \
                            Logon(A) which qualifier is meant";
                self.tell("SessionQualifier", Fate::NotCarriedOver, "", says);
            }
        }
        self.appl_ver_id(begin_string)
    }

    fn appl_ver_id(&mut self, begin_string: &str) -> Result<(), String> {
        const KEY: &str = "DefaultApplVerID";
        let Some(version) = self.value(KEY) else { return Ok(()) };
        if begin_string != "FIXT.1.1" {
            self.tell(KEY, Fate::Ignored, "", "only FIXT.1.1 has DefaultApplVerID");
            return Ok(());
        }
        let number = data_dictionary::appl_ver_id(version);
        let number = number.ok_or_else(|| format!("{KEY}: `{version}` is no version"))?;
        self.becomes(KEY, "default_appl_ver_id", number.to_string());
        Ok(())
    }

    /// Migrates keys that do not depend on other keys.
    fn simple_keys(&mut self) {
        let in_postgres = self.is_in_postgres();
        for entry in self.entries.clone() {
            let Some(row) = find(&entry.key, self.dialect) else { continue };
            if !row.is_known_to(self.dialect) || row.rule == Rule::With {
                continue;
            }
            if row.rule == Rule::Tls && !self.has_tls() {
                let says = "TLS is not enabled, so this key has no effect";
                self.find(Finding::of(entry, Fate::Ignored, "", says));
                continue;
            }
            let is_old = matches!(self.value("BeginString"), Some("FIX.4.0" | "FIX.4.1"));
            if is_old && matches!(row.rule, Rule::Word("precision", _)) {
                let says = "up to FIX 4.1, times have whole seconds in both QuickFIX and Transfix";
                self.find(Finding::of(entry, Fate::Ignored, "", says));
                continue;
            }
            let written = written(row.rule, &entry.value);
            let (fate, mut says) = row.fate(&entry.value);
            if in_postgres && row.is_of_database() {
                says = IN_POSTGRES;
            }
            match written {
                // The report lists this key with the other Java properties.
                Err(_) if !entry.variables.is_empty() => {}
                Err(why) => self.find(Finding::of(entry, Fate::NotCarriedOver, "", &why)),
                Ok(None) => self.find(Finding::of(entry, fate, "", says)),
                Ok(Some((key, value))) => {
                    let value = match row.rule {
                        Rule::Reset(word) => self.reset_words(word),
                        _ => value,
                    };
                    self.set(key, value.clone());
                    let becomes = format!("{key} = {value}");
                    self.find(Finding::of(entry, fate, &becomes, says));
                }
            }
        }
    }

    /// Returns true if the store is in PostgreSQL, judging by keys for any database.
    fn is_in_postgres(&self) -> bool {
        let keys = ["JdbcURL", "JdbcDriver", "SQLStoreDriver", "SQLStoreDataSourceName"];
        let names = ["postgres", "pgx"];
        let mut values = keys.iter().filter_map(|key| self.value(key));
        values.any(|value| names.iter().any(|name| value.to_lowercase().contains(name)))
    }

    /// Returns true if the file enables TLS. QuickFIX C++ enables TLS only in the program, by the
    /// kind of connector.
    pub(crate) fn has_tls(&self) -> bool {
        match self.dialect {
            Dialect::Cpp => true,
            Dialect::Java => self.is_yes("SocketUseSSL"),
            Dialect::Net => {
                self.is_yes("SSLEnable") || (!self.has("SSLEnable") && self.has("SSLCertificate"))
            }
            Dialect::Go => {
                let certificates = ["SocketCertificateFile", "SocketCertificateBytes"];
                self.is_yes("SocketUseSSL") || certificates.iter().any(|key| self.has(key))
            }
        }
    }

    /// Returns the value of `reset_on` with `word` added.
    fn reset_words(&self, word: &str) -> String {
        let known = self.written("reset_on").unwrap_or("[]");
        let known = known.trim_matches(['[', ']']).split(", ").map(|text| text.trim_matches('"'));
        list(known.chain([word]).filter(|word| !word.is_empty()))
    }

    fn checks(&mut self) {
        const KEY: &str = "sending_time_tolerance_s";
        const UNKNOWN: &str = "AllowUnknownMsgFields";
        match self.is_yes(UNKNOWN) {
            true => {
                for check in ["checks.undefined_tags", "checks.tags_of_message"] {
                    self.set(check, "false".to_owned());
                }
                let becomes = "checks.undefined_tags = false, checks.tags_of_message = false";
                let says = "unknown tags from 5000 on are accepted too if the dictionary does not \
                            have them";
                self.tell(UNKNOWN, Fate::Mapped, becomes, says);
            }
            false => self.tell(UNKNOWN, Fate::Honoured, "", ""),
        }
        if self.is_no("CheckLatency") {
            self.becomes("CheckLatency", KEY, "0".to_owned());
            let says = "because of CheckLatency=N, any SendingTime(52) is accepted";
            return self.tell("MaxLatency", Fate::Ignored, "", says);
        }
        self.tell("CheckLatency", Fate::Honoured, "", "");
        match self.value("MaxLatency").map(|value| written(Rule::Number(KEY, 1), value)) {
            Some(Ok(Some((_, value)))) => self.becomes("MaxLatency", KEY, value),
            Some(Err(why)) => self.tell("MaxLatency", Fate::NotCarriedOver, "", &why),
            _ => {}
        }
    }

    fn reset_at(&mut self) {
        const KEY: &str = "ResetSeqTime";
        let Some(time) = self.value(KEY) else { return };
        let name = self.value("TimeZone").unwrap_or("UTC");
        match zones::ours(name).filter(|_| name != "Local") {
            Some(zone) if zone == "UTC" => self.becomes(KEY, "reset_at", quoted(time)),
            Some(zone) => {
                let (time, zone) = (quoted(time), quoted(&zone));
                let becomes = format!("reset_at = {time}, reset_at_zone = {zone}");
                self.set("reset_at", time);
                self.set("reset_at_zone", zone);
                self.tell(KEY, Fate::Honoured, &becomes, "");
            }
            None => {
                let says = format!(
                    "the time zone {name} is unknown to Transfix; the engine does not start until \
                     `reset_at_zone` is corrected"
                );
                self.tell(KEY, Fate::NotCarriedOver, "", &says);
                self.set_undecided("reset_at", quoted(time));
                self.set_undecided("reset_at_zone", quoted("?"));
            }
        }
    }

    /// Migrates LogonTag, and keys of the Logon(A) that programs read themselves.
    fn logon(&mut self) {
        let has_fields = self.value("BeginString") >= Some("FIX.4.3");
        let is_fixt = self.value("BeginString") == Some("FIXT.1.1");
        let mut fields = Vec::new();
        for entry in self.beginning_with("LogonTag") {
            let is_known =
                self.dialect == Dialect::Java && find(&entry.key, self.dialect).is_some();
            if !is_known {
                continue;
            }
            let (tag, value) = entry.value.split_once('=').unwrap_or((&entry.value, ""));
            let key = match tag.trim() {
                "553" if has_fields => "logon.username",
                "554" if has_fields => "logon.password",
                "925" if is_fixt => "logon.new_password",
                _ => {
                    fields.push(entry.value.as_str());
                    self.tell(&entry.key, Fate::Honoured, "logon.fields", "");
                    continue;
                }
            };
            if self.is_acceptor() {
                let says = "only an initiator sends a username or a password";
                self.tell(&entry.key, Fate::NotCarriedOver, "", says);
                continue;
            }
            self.becomes(&entry.key, key, quoted(value));
        }
        if !fields.is_empty() {
            self.set("logon.fields", list(fields));
        }
        for entry in self.entries.clone() {
            if !is_credential(&entry.key) || find_in_any_case(&entry.key).is_some() {
                continue;
            }
            let key = format!("logon.{}", entry.key.to_ascii_lowercase());
            if self.is_acceptor() || !has_fields {
                let says = "QuickFIX does not use this key; an acceptor can instead set \
                            `logon.expected_username` and `logon.expected_password`, from FIX \
                            4.3 on";
                self.tell(&entry.key, Fate::NotCarriedOver, "", says);
                continue;
            }
            let value = quoted(&entry.value);
            let becomes = format!("{key} = {value}");
            self.set(&key, value);
            let says = "QuickFIX does not use this key itself, only programs do, in toAdmin; \
                        Transfix sends the value in its Logon(A), and { env = \"NAME\" } keeps \
                        a password out of the file";
            self.tell(&entry.key, Fate::Mapped, &becomes, says);
        }
    }

    /// Writes keys for defaults of QuickFIX that differ from those of Transfix.
    fn defaults(&mut self) {
        let mut absent = vec![("LogoutTimeout", "2", "logout_timeout_ms", "2000")];
        if !self.is_acceptor() {
            absent.push(("ReconnectInterval", "30", "reconnect_interval_ms", "30000"));
        }
        for (key, there, ours, value) in absent {
            if !self.has(key) {
                self.set(ours, value.to_owned());
                let becomes = format!("{ours} = {value}");
                let says = format!("QuickFIX uses {key}={there} if the key is missing");
                self.tell_of_session(Fate::Mapped, &becomes, &says);
            }
        }
        if self.dialect == Dialect::Cpp && !self.has("SocketNodelay") {
            let says = "QuickFIX uses SocketNodelay=N if the key is missing; Transfix sends small \
                        messages at once";
            self.tell_of_session(Fate::Mapped, "tcp_nodelay = true", says);
        }
    }

    /// Migrates the keys about messages that are sent without a logon.
    fn offline(&mut self) {
        let resets = self.written("reset_on").is_some_and(|words| words != "[]");
        let keeps = self.written("keep_outbound") != Some("false");
        if keeps && !resets {
            self.set("offline", quoted("store"));
            let says = "as in QuickFIX, messages sent without a connection are numbered and \
                        stored, and the counterparty requests them after the next logon";
            let closed = match self.written("schedule") {
                Some(_) => {
                    "; messages sent while the schedule is closed are lost at the reset of the \
                     next window"
                }
                None => "",
            };
            let says = format!("{says}{closed}");
            return self.tell_of_session(Fate::Mapped, "offline = \"store\"", &says);
        }
        let says = "Transfix refuses messages sent without a connection; QuickFIX accepts them, \
                    but loses them at the next reset or because it has no store";
        self.tell_of_session(Fate::Mapped, "offline = \"refuse\"", says);
    }
}
