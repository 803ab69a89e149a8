//! Migrates the further destinations of an initiator, and its proxy.

use crate::keys::{list, quoted, variable_number};
use crate::session::Session;
use crate::{Dialect, Fate};

/// The keys of a proxy in the order of kind, version, host, port, user and password.
const PROXY: [&str; 6] =
    ["ProxyType", "ProxyVersion", "ProxyHost", "ProxyPort", "ProxyUser", "ProxyPassword"];

/// Writes `failover` and `proxy`.
pub(crate) fn carry_over(session: &mut Session<'_>) {
    if session.is_acceptor() {
        let further = ["SocketConnectHost", "SocketConnectPort"].map(|stem| {
            let entries = session.beginning_with(stem);
            entries.into_iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>()
        });
        let others = PROXY.into_iter().chain(["HostSelectionPolicy"]);
        for key in further.into_iter().flatten().chain(others) {
            // The first host and port were already migrated as `address`.
            if !matches!(key, "SocketConnectHost" | "SocketConnectPort") {
                session.tell(
                    key,
                    Fate::Ignored,
                    "",
                    "only initiators use this key, to choose \
                    where to connect",
                );
            }
        }
        return;
    }
    failover(session);
    proxy(session);
}

fn failover(session: &mut Session<'_>) {
    let mut addresses = Vec::new();
    let mut is_over = false;
    // Searches one number beyond the count of keys, to detect a gap in the numbers.
    let most = session.beginning_with("SocketConnect").len() as u32 + 1;
    for n in 1..=most {
        let (host_key, port_key) =
            (format!("SocketConnectHost{n}"), format!("SocketConnectPort{n}"));
        match (session.value(&host_key), session.value(&port_key)) {
            (Some(host), Some(port)) if !is_over => {
                let variable = variable_number(port);
                let port = variable.as_deref().unwrap_or(port);
                let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
                addresses.push(format!("{host}:{port}"));
                for key in [host_key, port_key] {
                    session.tell(&key, Fate::Honoured, "failover.addresses", "");
                }
            }
            _ => {
                is_over = true;
                let says = "QuickFIX does not read this address: a lower number is missing, or \
                            this number has no host or no port";
                for key in [host_key, port_key] {
                    session.tell(&key, Fate::Ignored, "", says);
                }
            }
        }
    }
    let policy = session.value("HostSelectionPolicy");
    let is_priority = policy.is_some_and(|policy| policy.eq_ignore_ascii_case("PRIORITY"));
    let order = quoted(if is_priority { "first" } else { "next" });
    let becomes = format!("failover.order = {order}");
    match addresses.is_empty() {
        true => {
            let says = "the session has only one address to connect to";
            session.tell("HostSelectionPolicy", Fate::Ignored, "", says);
        }
        false => {
            session.set("failover.addresses", list(addresses.iter().map(String::as_str)));
            session.set("failover.order", order);
            if session.has("HostSelectionPolicy") {
                session.tell("HostSelectionPolicy", Fate::Honoured, &becomes, "");
            } else {
                let says = "as in QuickFIX, the session uses the next address after each \
                            connection";
                session.tell_of_session(Fate::Mapped, &becomes, says);
            }
        }
    }
}

fn proxy(session: &mut Session<'_>) {
    let [kind, version, host, port, user, password] = PROXY;
    let Some(named) = session.value(kind) else {
        for key in PROXY {
            session.tell(key, Fate::Ignored, "", "this key has no effect without ProxyType");
        }
        return;
    };
    let found = match (named.to_ascii_lowercase().as_str(), session.value(version)) {
        ("http", _) => Ok("http"),
        ("socks", Some("4" | "4a" | "4A")) => {
            Err("SOCKS 4 cannot carry a username and a password; Transfix uses SOCKS 5 instead"
                .to_owned())
        }
        ("socks", _) => Ok("socks5"),
        (other, _) => Err(format!("ProxyType must be http or socks, not `{other}`")),
    };
    let address = session.value(host).zip(session.value(port));
    let (word, (at, number)) = match (found, address) {
        (Ok(word), Some(address)) => (word, address),
        (found, _) => {
            let says =
                found.err().unwrap_or_else(|| "ProxyHost or ProxyPort is missing".to_owned());
            for key in PROXY {
                session.tell(key, Fate::NotCarriedOver, "", &says);
            }
            return;
        }
    };
    session.becomes(kind, "proxy.kind", quoted(word));
    session.tell(version, Fate::Honoured, "proxy.kind", "");
    let variable = variable_number(number);
    let number = variable.as_deref().unwrap_or(number);
    session.set("proxy.address", quoted(&format!("{at}:{number}")));
    for key in [host, port] {
        session.tell(key, Fate::Honoured, "proxy.address", "");
    }
    if let Some(name) = session.value(user) {
        session.becomes(user, "proxy.username", quoted(name));
    }
    if let Some(text) = session.value(password) {
        session.set("proxy.password", quoted(text));
        let says = "{ env = \"NAME\" } keeps the password out of the file";
        session.tell(password, Fate::Honoured, "proxy.password", says);
    }
    if session.dialect == Dialect::Java {
        let says = "Transfix does not support NTLM: the proxy must accept a username and a \
                    password";
        for key in ["ProxyDomain", "ProxyWorkstation"] {
            session.tell(key, Fate::NotCarriedOver, "", says);
        }
    }
}
