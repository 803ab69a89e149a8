//! Generates a JSON Schema of settings files, from the tables that read these files.
//!
//! A file that fits the schema is accepted by the reader, unless its keys contradict each other.

use serde_json::{Map, Value, json};
use transfix_session::Key;

use crate::form::Form;
use crate::reference::{self, SESSION, TABLES, Table, table_of};

/// Exactly `${NAME}` or `${NAME:-default}`, which may stand for a number or a switch.
const VARIABLE: &str = r"^\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}$";

/// Returns the schema as text.
pub(super) fn text() -> String {
    let session = table(TABLES.iter().filter(|table| table.name == SESSION));
    let engine = table(TABLES.iter().filter(|table| table.name == "[engine]"));
    let admin = table(TABLES.iter().filter(|table| table.name == "[admin]"));
    let events = table(TABLES.iter().filter(|table| table.name == "[events]"));
    let fleet = table(TABLES.iter().filter(|table| table.name == "[fleet]"));
    let about = |text: &str, mut value: Value| {
        value["description"] = text.into();
        value
    };
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Transfix",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "include": about(
                "Files to include, relative to this file; the last part of a path may have one \
                 `*`.",
                json!({ "type": "array", "items": { "type": "string" } }),
            ),
            "engine": about("Settings that all sessions share.", engine),
            "admin": about("The administration over HTTP (optional).", admin),
            "events": about("The targets and levels of the program's events.", events),
            "fleet": about("The gateways with the same sessions (optional).", fleet),
            "defaults": about("Keys that apply to all sessions.", defined("session")),
            "dictionaries": about(
                "Names for dictionaries, for use in the sessions.",
                json!({ "type": "object", "additionalProperties": defined("dictionary") }),
            ),
            "session": about(
                "The sessions, each as [[session]].",
                json!({ "type": "array", "items": defined("session") }),
            ),
        },
        "$defs": { "session": session, "dictionary": dictionary(), "password": secret() },
    });
    format!("{schema:#}\n")
}

/// Returns a reference to a definition that several places of the schema share.
fn defined(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Returns the schema of a table with all keys of `tables`.
fn table<'t>(tables: impl Iterator<Item = &'t Table>) -> Value {
    let mut properties = Map::new();
    for table in tables {
        for key in table.keys {
            properties.insert(key.name.to_owned(), of_key(table, key));
        }
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

/// Returns the schema of a key, with the text of the reference as its description.
fn of_key(table: &Table, key: &Key) -> Value {
    let form = (table.form)(key.name);
    let mut value = match (key.name, &form) {
        ("outside", _) => json!({ "anyOf": [
            { "enum": ["disconnect"] },
            object(&json!({ "reject": { "type": "string" } }), &["reject"]),
        ] }),
        ("holidays", _) => json!({ "type": "array", "items": { "type": "string" } }),
        (name, _) if reference::is_secret(name) => defined("password"),
        (_, Form::Number) => number(key.range),
        (_, form) => of_form(form),
    };
    value["description"] = reference::about(key).into();
    if let Some(default) = reference::default_in_file(key)
        && let Ok(default) = serde_json::from_str::<Value>(&default)
    {
        value["default"] = default;
    }
    value
}

fn of_form(form: &Form) -> Value {
    match form {
        Form::Number => number((None, None)),
        Form::Switch => or_variable(json!({ "type": "boolean" })),
        Form::Text => json!({ "type": "string" }),
        Form::Words(words) => json!({ "anyOf": [
            { "enum": words },
            { "type": "string", "pattern": r"\$\{" },
        ] }),
        Form::List(one) => json!({ "type": "array", "items": of_form(one) }),
        Form::Map(None, of) => {
            json!({ "type": "object", "additionalProperties": of_form(of) })
        }
        Form::Map(Some(names), of) => {
            let all = names.iter().map(|name| ((*name).to_owned(), of_form(of)));
            object(&Value::Object(all.collect()), &[])
        }
        Form::Table("CertificateFiles") => object(
            &json!({ "certificate": { "type": "string" }, "key": { "type": "string" } }),
            &["certificate", "key"],
        ),
        Form::Table(name) => match table_of(name) {
            Some(of) => table(std::iter::once(of)),
            None => json!({ "type": "object" }),
        },
        Form::Any => defined("dictionary"),
    }
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    })
}

fn number((least, most): (Option<u64>, Option<u64>)) -> Value {
    let mut number = json!({ "type": "integer", "minimum": least.unwrap_or(0) });
    if let Some(most) = most {
        number["maximum"] = most.into();
    }
    or_variable(number)
}

fn or_variable(value: Value) -> Value {
    json!({ "anyOf": [value, { "type": "string", "pattern": VARIABLE }] })
}

/// Returns the schema of a password, which may be given by its source.
fn secret() -> Value {
    let text = || json!({ "type": "string" });
    json!({ "anyOf": [
        text(),
        object(&json!({ "env": text() }), &["env"]),
        object(&json!({ "file": text() }), &["file"]),
        object(
            &json!({ "command": { "type": "array", "items": text(), "minItems": 1 } }),
            &["command"],
        ),
    ] })
}

/// Returns the schema of a dictionary: a name or path, or a table with its changes.
fn dictionary() -> Value {
    let of = table_of("DictionarySource").map(|of| table(std::iter::once(of)));
    json!({ "anyOf": [{ "type": "string" }, of] })
}
