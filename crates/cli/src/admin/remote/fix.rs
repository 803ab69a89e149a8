//! Performs verbs of `transfix admin` over FIX, and sends any command as XML.

use std::fs;
use std::io::{IsTerminal as _, stdin};
use std::path::PathBuf;

use roxmltree::{Document, Node};
use serde_json::{Value, json};
use transfix::{BeginString, Secret, TlsSettings};
use transfix_admin::client::{FixClient, FixLogin};

use super::{ANSWER_MAX, Answer, Do, Failure, To, Verb, actions};
use crate::admin::shown;
use crate::foreign;
use crate::password;

/// The options that select the administration over FIX and its user.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FixTo {
    /// Use the administration over FIX at this address, instead of HTTP.
    #[arg(long, value_name = "HOST:PORT", global = true)]
    pub(crate) fix: Option<String>,
    /// With --fix: the name of the user.
    #[arg(long, value_name = "NAME", global = true, env = "TRANSFIX_ADMIN_USER")]
    user: Option<String>,
    /// With --fix: the file with the password. Default: the terminal or standard input.
    #[arg(long, value_name = "FILE", global = true)]
    password_file: Option<PathBuf>,
    /// With --fix: `sender_comp_id` of the administration over FIX, from the engine's settings.
    #[arg(long, value_name = "NAME", global = true, default_value = "FIXADMIN")]
    target: String,
    /// With --fix: `begin_string` of the administration over FIX, from the engine's settings.
    #[arg(long, value_name = "VERSION", global = true, default_value = "FIX.4.4")]
    begin_string: String,
}

/// Performs a verb of `transfix admin` over FIX.
pub(super) fn run(verb: &Verb, fix: &FixTo) -> Answer {
    let address = fix.fix.as_deref().unwrap_or_default();
    let absent = |name: &str| {
        Err(Failure::Usage(format!("`{name}` is not available over FIX; remove --fix")))
    };
    let ask = |to: &To, xml: &str| FixConnection::log_on(address, fix, to)?.ask(xml);
    match verb {
        Verb::Xml(args) => {
            let answer = FixConnection::log_on(address, fix, &args.to)?.raw(&args.xml)?;
            Ok(format!("{answer}\n"))
        }
        Verb::Sessions(args) => {
            let mut sessions = sessions(&ask(&args.to, SNAPSHOT)?)?;
            sessions.retain(|one| !args.problems || !one["problem"].is_null());
            sessions.sort_by_key(|one| one["problem"].is_null());
            Ok(match args.to.json {
                true => foreign::json(&Value::Array(sessions)) + "\n",
                false => shown::sessions(&sessions),
            })
        }
        Verb::Session(args) => {
            let all = sessions(&ask(&args.to, SNAPSHOT)?)?;
            let one = all.into_iter().find(|one| one["id"] == *args.id);
            let unknown = || Failure::Other(format!("no session is named {}", args.id));
            let one = one.ok_or_else(unknown)?;
            Ok(if args.to.json { foreign::json(&one) + "\n" } else { shown::session(&one) })
        }
        Verb::Do(args) => ask(&args.to, &command(args)?).map(|_| "done\n".to_owned()),
        Verb::Reload(args) => said(&ask(&args.to, "<ReloadConfig/>")?),
        Verb::Stop(args) if args.confirm == "stop" => said(&ask(&args.to, "<StopServer/>")?),
        Verb::Stop(_) => {
            Err(Failure::Usage("the stop needs a confirmation; add --confirm stop".to_owned()))
        }
        Verb::Add(_) => absent("add"),
        Verb::Change(_) => absent("change"),
        Verb::Remove(_) => absent("remove"),
        Verb::Latency(_) => absent("latency"),
        Verb::Levels(_) => absent("levels"),
        Verb::RotateLogs(_) => absent("rotate-logs"),
        Verb::Messages(_) => absent("messages"),
        Verb::Events(_) => absent("events"),
        Verb::Audit(_) => absent("audit"),
        Verb::Certificates(_) => absent("certificates"),
        Verb::Ready(_) => absent("ready"),
    }
}

const SNAPSHOT: &str = "<SessionsSnapshot><View>STATUS_PARAMS_STAT</View></SessionsSnapshot>";

/// Members of a session's JSON that only HTTP reports; over FIX they are null.
const HTTP_ALONE: &[&str] = &[
    "silent_ms",
    "holds_sending",
    "heart_bt_int_s",
    "queued_bytes",
    "slow_consumer",
    "held_up_by",
    "unusual_latency",
    "waiting_for_application",
    "address",
    "last_end",
];
const COUNTERS_OF_HTTP_ALONE: &[&str] = &[
    "garbled",
    "logons",
    "not_stored",
    "refused",
    "passed_over",
    "not_logged",
    "logons_refused",
    "rejects_in",
    "rejects_out",
    "business_rejects_in",
    "business_rejects_out",
    "resend_requests_in",
    "resend_requests_out",
    "resent",
    "disconnects",
];

/// A session with the administration over FIX.
struct FixConnection(FixClient);

impl FixConnection {
    fn log_on(address: &str, fix: &FixTo, to: &To) -> Result<Self, Failure> {
        let user = fix.user.clone();
        let user = user.ok_or_else(|| {
            Failure::Usage(
                "the user is missing; add --user NAME or set TRANSFIX_ADMIN_USER".to_owned(),
            )
        })?;
        let mut login = FixLogin::new(address, user, password(fix)?);
        let version = BeginString::parse(fix.begin_string.as_bytes());
        let wrong = || {
            Failure::Usage(format!(
                "--begin-string {} is no version of FIX; write a \
            version such as FIX.4.4",
                fix.begin_string
            ))
        };
        login.begin_string = version.ok_or_else(wrong)?;
        login.target_comp_id.clone_from(&fix.target);
        login.tls =
            to.ca.as_ref().map(|ca| TlsSettings { ca: vec![ca.clone()], ..TlsSettings::default() });
        FixClient::log_on(&login).map(Self).map_err(Failure::Other)
    }

    /// Sends a command and returns the answer, even if it is a refusal.
    fn raw(&mut self, xml: &str) -> Result<String, Failure> {
        self.0.ask(xml, ANSWER_MAX).map_err(Failure::Other)
    }

    /// Sends a command and returns the answer; a refusal is an error.
    fn ask(&mut self, xml: &str) -> Answer {
        let answer = self.raw(xml)?;
        let document = read(&answer)?;
        let root = document.root_element();
        if root.attribute("ResultCode") == Some("0") {
            return Ok(answer);
        }
        let code = root.attribute("ResultCode").unwrap_or_default();
        let why = text(root, "Description").unwrap_or_default();
        Err(Failure::Other(format!("{why} (result code {code})")))
    }
}

fn password(fix: &FixTo) -> Result<Secret, Failure> {
    let text = match &fix.password_file {
        Some(path) => fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?,
        None if stdin().is_terminal() => rpassword::prompt_password("Password: ")
            .map_err(|error| Failure::Usage(format!("no password: {error}")))?,
        None => password::read().map_err(Failure::Usage)?,
    };
    Ok(Secret::new(text.lines().next().unwrap_or_default().to_owned()))
}

fn read(answer: &str) -> Result<Document<'_>, Failure> {
    Document::parse(answer).map_err(|error| Failure::Other(format!("the answer: {error}")))
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn text<'a>(node: Node<'a, 'a>, name: &str) -> Option<&'a str> {
    child(node, name)?.text()
}

fn said(answer: &str) -> Answer {
    let document = read(answer)?;
    Ok(format!("{}\n", text(document.root_element(), "Description").unwrap_or("done")))
}

/// Converts the sessions in an answer to JSON, with the same members as over HTTP.
fn sessions(answer: &str) -> Result<Vec<Value>, Failure> {
    let document = read(answer)?;
    let all = document.descendants().filter(|node| node.has_tag_name("Session"));
    Ok(all.map(session).collect())
}

fn version(node: Node<'_, '_>) -> String {
    let found = find(node, "Version").unwrap_or_default();
    match found.strip_prefix("FIX") {
        Some("T11" | "50" | "50SP1" | "50SP2") => "FIXT.1.1".to_owned(),
        Some(digits) if digits.len() == 2 => format!("FIX.{}.{}", &digits[..1], &digits[1..]),
        _ => found.to_owned(),
    }
}

/// Returns the text of the first element `name` below `node`, at any depth.
fn find<'a>(node: Node<'a, 'a>, name: &str) -> Option<&'a str> {
    node.descendants().find(|one| one.has_tag_name(name))?.text()
}

/// Returns the remote address of a session as `host:port`.
fn other_end(params: Node<'_, '_>) -> Option<String> {
    let (host, port) = (text(params, "RemoteHost")?, text(params, "RemotePort")?);
    Some(match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    })
}

/// Converts one session to JSON. Members without a value in the answer are null, so that programs
/// read the same members over HTTP and FIX.
fn session(node: Node<'_, '_>) -> Value {
    let of = |part: &str, name: &str| find(child(node, part)?, name);
    let number = |part: &str, name: &str| of(part, name)?.parse::<u64>().ok();
    let (version, qualifier) = (version(node), find(node, "SessionQualifier").unwrap_or_default());
    let named = |name: &str| find(node, name).unwrap_or_default();
    let (ours, theirs) = (named("SenderCompID"), named("TargetCompID"));
    let slash = if qualifier.is_empty() { "" } else { "/" };
    let (status, group) = (named("Status"), named("StatusGroup"));
    let problem = match status {
        "STORE_FAILED" => Some("store"),
        "STOPPED" => None,
        _ => (!["ESTABLISHED", "PLANNED"].contains(&group)).then_some("not logged on"),
    };
    let is_acceptor = of("ParamsData", "Role") == Some("ACCEPTOR");
    let end = child(node, "ParamsData").and_then(other_end);
    let (peer, destination) = if is_acceptor { (end, None) } else { (None, end) };
    let mut shown = json!({
        "id": format!("{version}:{ours}->{theirs}{slash}{qualifier}"),
        "begin_string": version,
        "sender_comp_id": ours,
        "target_comp_id": theirs,
        "qualifier": qualifier,
        "role": of("ParamsData", "Role").map(str::to_lowercase),
        "state": status,
        "problem": problem,
        "enabled": status != "STOPPED",
        "since": of("StatData", "Established"),
        "peer": peer,
        "destination": destination,
        "last_received": of("StatData", "LastReceivedMessage"),
        "last_sent": of("StatData", "LastSentMessage"),
        "next_num_in": number("ParamsData", "InSeqNum"),
        "next_num_out": number("ParamsData", "OutSeqNum"),
        "counters": {
            "messages_in": number("StatData", "ReceivedMessages"),
            "messages_out": number("StatData", "SentMessages"),
            "bytes_in": number("StatData", "ReceivedBytes"),
            "bytes_out": number("StatData", "SentBytes"),
        },
    });
    HTTP_ALONE.iter().for_each(|name| shown[name] = Value::Null);
    COUNTERS_OF_HTTP_ALONE.iter().for_each(|name| shown["counters"][name] = Value::Null);
    shown
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the XML command for an action.
fn command(args: &Do) -> Answer {
    actions::object(args)?;
    let value = |name: &str| {
        let found = args.values.iter().filter_map(|pair| pair.split_once('='));
        found.filter(|(key, _)| *key == name).map(|(_, value)| escaped(value)).next()
    };
    let leaf = |name: &str, key: &str| {
        value(key).map_or_else(String::new, |value| format!("<{name}>{value}</{name}>"))
    };
    let (name, more, is_dangerous) = match (&*args.action, value("destination").as_deref()) {
        ("log_on", _) => ("StartSession", String::new(), false),
        ("log_out", _) => {
            let more = format!("<SendLogout>true</SendLogout>{}", leaf("LogoutReason", "text"));
            ("StopSession", more, false)
        }
        ("connect_to", Some("0")) => ("ToPrimary", String::new(), false),
        ("connect_to", Some("1")) => ("ToBackup", String::new(), false),
        ("heartbeat", _) => ("Heartbeat", String::new(), false),
        ("test_request", _) => ("TestRequest", leaf("TestReqID", "id"), false),
        ("set_numbers", _) => {
            let more = leaf("InSeqNum", "next_in") + &leaf("OutSeqNum", "next_out");
            ("ChangeSeqNum", more, true)
        }
        ("reset_in_session" | "reset_at_next_logon", _) => ("ResetSeqNum", String::new(), true),
        ("send", _) => {
            let (kind, fields) = (value("msg_type"), value("fields"));
            let (kind, fields) = (kind.unwrap_or_default(), fields.unwrap_or_default());
            ("SendMessage", format!("<Message>35={kind}|{fields}|</Message>"), true)
        }
        (other, _) => {
            let why = format!("`{other}` is not available over FIX; remove --fix");
            return Err(Failure::Usage(why));
        }
    };
    if is_dangerous && args.confirm.as_deref() != Some(&*args.id) {
        let why =
            format!("{} is dangerous; add --confirm '{}' to confirm it", args.action, args.id);
        return Err(Failure::Usage(why));
    }
    let id = args.id.split_once(':').and_then(|(version, rest)| {
        let (ours, theirs) = rest.split_once("->")?;
        let (theirs, qualifier) = theirs.split_once('/').unwrap_or((theirs, ""));
        let [ours, theirs, qualifier] = [ours, theirs, qualifier].map(escaped);
        let version = version.replace('.', "");
        Some(format!(
            "<SenderCompID>{ours}</SenderCompID><TargetCompID>{theirs}</TargetCompID>\
             <SessionQualifier>{qualifier}</SessionQualifier><Version>{version}</Version>"
        ))
    });
    let wrong = || {
        Failure::Usage(format!(
            "write the identity of the session as \
        VERSION:OURS->THEIRS, such as FIX.4.4:VENUE->DESK, not as `{}`",
            args.id
        ))
    };
    Ok(format!("<{name}>{}{more}</{name}>", id.ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_of_a_session_is_shown() {
        let of = |role: &str, host: &str| {
            let answer = format!(
                "<Response><Session><ParamsData><Version>FIX44</Version><Role>{role}</Role>\
                 <RemoteHost>{host}</RemoteHost><RemotePort>7</RemotePort></ParamsData></Session>\
                 </Response>"
            );
            let shown = sessions(&answer).ok().unwrap().remove(0);
            ["peer", "destination"].map(|member| shown[member].as_str().map(str::to_owned))
        };
        assert_eq!(of("ACCEPTOR", "10.0.0.1"), [Some("10.0.0.1:7".to_owned()), None]);
        assert_eq!(of("ACCEPTOR", "2001:db8::1"), [Some("[2001:db8::1]:7".to_owned()), None]);
        assert_eq!(of("INITIATOR", "venue"), [None, Some("venue:7".to_owned())]);
    }
}
