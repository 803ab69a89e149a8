//! Migrates addresses, access control and socket options of a session.

use transfix_settings::Subnet;

use crate::keys::{list, quoted, variable_number};
use crate::session::Session;
use crate::table::{Rule, find};
use crate::values::written;
use crate::{Dialect, Fate};

impl Session<'_> {
    /// Writes `address`.
    ///
    /// # Errors
    /// If the file has no address: then there is no session.
    pub(crate) fn address(&mut self) -> Result<(), String> {
        let initiator = ["SocketConnectHost", "SocketConnectPort"];
        let host =
            if self.has("SocketAcceptHost") { "SocketAcceptHost" } else { "SocketAcceptAddress" };
        let acceptor = [host, "SocketAcceptPort"];
        let is_acceptor = self.is_acceptor();
        let (used, other) = if is_acceptor { (acceptor, initiator) } else { (initiator, acceptor) };
        for key in other {
            self.tell(
                key,
                Fate::Ignored,
                "",
                "only sessions of the other role (initiator or \
                acceptor) use this key",
            );
        }
        let host = match is_acceptor {
            // Without a host, the acceptor listens on all interfaces.
            true => self.value(used[0]).unwrap_or("0.0.0.0"),
            false => self.required(used[0])?,
        };
        let port = self.required(used[1])?;
        let variable = variable_number(port);
        if variable.is_none() && port.parse::<u16>().is_err() {
            return Err(format!("{}: `{port}` is no port", used[1]));
        }
        let port = variable.as_deref().unwrap_or(port);
        let address =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let address = quoted(&address);
        let becomes = format!("address = {address}");
        self.set("address", address);
        self.tell(used[0], Fate::Honoured, &becomes, "");
        let high =
            self.dialect == Dialect::Cpp && port.parse().is_ok_and(|port: u16| port > 32_767);
        let says = if high {
            "the port is above 32767, and QuickFIX C++ reads ports as signed 16-bit numbers"
        } else {
            ""
        };
        self.tell(used[1], if high { Fate::Mapped } else { Fate::Honoured }, &becomes, says);
        Ok(())
    }

    /// Writes `allow_from`.
    pub(crate) fn allow_from(&mut self) {
        const KEY: &str = "AllowedRemoteAddresses";
        if !self.is_acceptor() {
            return self.tell(
                KEY,
                Fate::Ignored,
                "",
                "no effect: an initiator accepts no \
                connections",
            );
        }
        let Some(value) = self.value(KEY) else { return };
        let all = value.split(',').map(str::trim).filter(|text| !text.is_empty());
        let (good, bad): (Vec<_>, Vec<_>) = all.partition(|text| Subnet::parse(text).is_ok());
        let wrong: Vec<_> = bad.into_iter().filter_map(|text| Subnet::parse(text).err()).collect();
        let wrong = wrong.join("; ");
        match (good.is_empty(), wrong.is_empty()) {
            (true, true) => {
                let says = "the list has no address: everyone may connect, in QuickFIX and in \
                            Transfix";
                self.tell(KEY, Fate::Dangerous, "", says);
            }
            // Without the key, any address may connect.
            (true, false) => {
                let says = format!("{wrong}; until `allow_from` is written, everyone may connect");
                self.tell(KEY, Fate::Dangerous, "", &says);
            }
            (false, true) => self.becomes(KEY, "allow_from", list(good)),
            (false, false) => {
                let value = list(good);
                self.set("allow_from", value.clone());
                let says = format!("{wrong}; connections from these addresses are refused");
                self.tell(KEY, Fate::NotCarriedOver, &format!("allow_from = {value}"), &says);
            }
        }
    }

    /// Writes the interval between an initiator's attempts to connect.
    pub(crate) fn reconnect(&mut self) {
        const KEY: &str = "ReconnectInterval";
        const OURS: &str = "reconnect_interval_ms";
        let Some(value) = self.value(KEY) else { return };
        if self.is_acceptor() {
            return self.tell(KEY, Fate::Ignored, "", "no effect: an acceptor does not connect");
        }
        let (fate, says) = find(KEY, self.dialect).map_or((Fate::Mapped, ""), |r| r.fate(value));
        // QuickFIX/J accepts a list such as `5;10;30` or `2x5;30`, whose last value stays in use.
        let is_list = self.dialect == Dialect::Java && value.contains([';', 'x', '*']);
        let Some(pauses) = is_list.then(|| pauses(value)) else {
            return match written(Rule::Number(OURS, 1_000), value) {
                Ok(Some((_, number))) => {
                    let becomes = format!("{OURS} = {number}");
                    self.set(OURS, number);
                    self.tell(KEY, fate, &becomes, says);
                }
                Ok(None) => {}
                Err(why) => self.tell(KEY, Fate::NotCarriedOver, "", &why),
            };
        };
        match pauses.as_deref() {
            Some([first, .., last]) if first < last => {
                let (first, most) = (first * 1_000, last * 1_000);
                self.set(OURS, first.to_string());
                self.set("reconnect_interval_max_ms", most.to_string());
                self.set("reconnect_backoff", quoted("exponential"));
                let becomes = format!(
                    "{OURS} = {first}, reconnect_interval_max_ms = {most}, reconnect_backoff = \
                     \"exponential\""
                );
                let says = "the pause doubles after each attempt, from the first value to the last";
                self.tell(KEY, Fate::Mapped, &becomes, says);
            }
            Some([.., last]) => {
                let becomes = format!("{OURS} = {}", last * 1_000);
                self.set(OURS, (last * 1_000).to_string());
                self.tell(KEY, Fate::Mapped, &becomes, "the pause always has the last value");
            }
            _ => {
                let says = format!("`{value}` is not a list of seconds such as 5;10;30 or 3x5;30");
                self.tell(KEY, Fate::NotCarriedOver, "", &says);
            }
        }
    }

    /// Writes `[admin]`, if the file has a control panel.
    pub(crate) fn admin(&mut self) {
        const KEY: &str = "HttpAcceptPort";
        let Some(port) = self.value(KEY) else { return };
        if port.parse::<u16>().is_err() {
            return self.tell(KEY, Fate::NotCarriedOver, "", &format!("`{port}` is no port"));
        }
        let (fate, says) = find(KEY, self.dialect).map_or((Fate::Mapped, ""), |r| r.fate(port));
        let address = quoted(&format!("127.0.0.1:{port}"));
        let becomes = format!("[admin] address = {address}");
        match self.set_in("[admin]", "address", address) {
            Ok(()) => self.tell(KEY, fate, &becomes, says),
            Err(counts) => self.tell(KEY, Fate::NotCarriedOver, "", &counts),
        }
    }

    /// Writes the socket options.
    pub(crate) fn sockets(&mut self) {
        for (host, port) in [
            ("SocketConnectSourceHost", "SocketConnectSourcePort"),
            ("SocketLocalHost", "SocketLocalPort"),
        ] {
            if self.is_acceptor() {
                let says = "only initiators use this key, to choose the local address";
                self.tell(host, Fate::Ignored, "", says);
                self.tell(port, Fate::Ignored, "", says);
                continue;
            }
            match (self.value(host), self.value(port)) {
                (Some(from), Some(number)) if number != "0" => {
                    let value = quoted(&format!("{from}:{number}"));
                    self.becomes(host, "local_address", value.clone());
                    self.becomes(port, "local_address", value);
                }
                (Some(from), _) => {
                    self.becomes(host, "local_address", quoted(from));
                    self.tell(port, Fate::Ignored, "", "0: the system's choice");
                }
                (None, _) => {
                    self.tell(port, Fate::NotCarriedOver, "", &format!("{host} is missing"))
                }
            }
        }
        match self.is_yes("SocketKeepAlive") {
            true => {
                self.set("tcp_keepalive_s", "7200".to_owned());
                let becomes = "tcp_keepalive_s = 7200";
                let says = "probes start after two idle hours, the default of most systems";
                self.tell("SocketKeepAlive", Fate::Mapped, becomes, says);
            }
            false => self.tell("SocketKeepAlive", Fate::Honoured, "", ""),
        }
        match self.value("SocketLinger") {
            Some("0") => self.becomes("SocketLinger", "tcp_reset_on_close", "true".to_owned()),
            _ => {
                let says = "in Transfix closing a socket never waits, so no other session is \
                            delayed";
                self.tell("SocketLinger", Fate::Ignored, "", says);
            }
        }
        // The upper six bits are the code point.
        match self.value("SocketTrafficClass").map(str::parse::<u8>) {
            Some(Ok(class)) => {
                self.becomes("SocketTrafficClass", "dscp", (class >> 2).to_string());
            }
            _ => {
                self.tell("SocketTrafficClass", Fate::NotCarriedOver, "", "a number from 0 to 255")
            }
        }
    }
}

/// Returns the different seconds of a list: 5 and 30 for `2x5;30`. Returns `None` if the text is no
/// such list.
fn pauses(list: &str) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    for one in list.split(';') {
        let (times, seconds) = one.split_once(['x', '*']).unwrap_or(("1", one));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        number(times)?;
        all.push(u64::from(number(seconds)?));
    }
    Some(all)
}
