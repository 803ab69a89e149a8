//! `openssl s_client` and `openssl s_server` as counterparties that send scripted FIX messages.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::files::Files;
use super::{Wrong, logged, start_ours};
use crate::peers::{Outcome, play};

/// A test session between Transfix and `openssl`.
pub(super) struct Case<'c> {
    pub(super) ours: &'c str,
    pub(super) files: &'c Files,
    pub(super) wrong: Wrong,
    pub(super) folder: PathBuf,
}

impl Case<'_> {
    /// Tests `openssl s_client` as the initiator. Returns a result text.
    pub(super) fn client(&self) -> Outcome<String> {
        let port = play::free_port()?;
        let owner = if self.wrong == Wrong::Ours { "stranger" } else { "venue" };
        let toml = self.settings("acceptor", ("VENUE", "CLIENT"), port, owner)?;
        let mut acceptor = start_ours(self.ours, "acceptor", &toml, &self.folder)?;
        acceptor.wait("ready", |peer| peer.ready)?;
        let owner = if self.wrong == Wrong::Theirs { "stranger" } else { "client" };
        let to = format!("127.0.0.1:{port}");
        let mut other = Openssl::start(self.files, owner, &["s_client", "-connect", &to])?;
        other.say("A", ("CLIENT", "VENUE"), 1, "98=0|108=30|141=Y|")?;
        if self.wrong != Wrong::Nobody {
            other.ended()?;
            acceptor.catch_up();
            return self.refused(acceptor.logons);
        }
        other.expect("A")?;
        other.say("1", ("CLIENT", "VENUE"), 2, "112=over TLS|")?;
        other.expect("0")?;
        other.say("5", ("CLIENT", "VENUE"), 3, "")?;
        other.expect("5")?;
        acceptor.wait("logon and logout", |peer| peer.logons == 1 && peer.logouts == 1)?;
        Ok("Logon(A), TestRequest(1), Logout(5)".to_owned())
    }

    /// Tests `openssl s_server` as the acceptor. Returns a result text.
    pub(super) fn server(&self) -> Outcome<String> {
        let port = play::free_port()?;
        let owner = if self.wrong == Wrong::Theirs { "stranger" } else { "venue" };
        let at = format!("127.0.0.1:{port}");
        let options = ["s_server", "-accept", &at, "-Verify", "2"];
        let mut other = Openssl::start(self.files, owner, &options)?;
        let owner = if self.wrong == Wrong::Ours { "stranger" } else { "client" };
        let toml = self.settings("initiator", ("CLIENT", "VENUE"), port, owner)?;
        let mut initiator = start_ours(self.ours, "initiator", &toml, &self.folder)?;
        if self.wrong != Wrong::Nobody {
            let refused = logged(&self.folder.join("ours.log"), self.wrong.reason())?;
            initiator.catch_up();
            return match initiator.logons {
                0 => Ok(refused),
                _ => Err(initiator.failure("logged on with a strange certificate")),
            };
        }
        other.expect("A")?;
        other.say("A", ("VENUE", "CLIENT"), 1, "98=0|108=30|141=Y|")?;
        initiator.wait("logon", |peer| peer.logons == 1)?;
        initiator.tell("send 1")?;
        other.expect("D")?;
        initiator.tell("logout")?;
        other.expect("5")?;
        other.say("5", ("VENUE", "CLIENT"), 2, "")?;
        initiator.wait("logout", |peer| peer.logouts == 1)?;
        Ok("Logon(A), NewOrderSingle(D), Logout(5)".to_owned())
    }

    fn refused(&self, logons: usize) -> Outcome<String> {
        match logons {
            0 => logged(&self.folder.join("ours.log"), self.wrong.reason()),
            _ => Err("logged on with a strange certificate".to_owned()),
        }
    }

    fn settings(
        &self,
        role: &str,
        (ours, theirs): (&str, &str),
        port: u16,
        owner: &str,
    ) -> Outcome<PathBuf> {
        let failed = |path: &Path, error| format!("{}: {error}", path.display());
        fs::create_dir_all(&self.folder).map_err(|error| failed(&self.folder, error))?;
        let asks = if role == "acceptor" { "client_certificate = \"required\"\n" } else { "" };
        let text = format!(
            "[[session]]\nrole = \"{role}\"\nbegin_string = \"FIX.4.4\"\n\
             sender_comp_id = \"{ours}\"\ntarget_comp_id = \"{theirs}\"\n\
             address = \"127.0.0.1:{port}\"\ndurability = \"memory\"\n\
             reconnect_interval_ms = 100\nreset_on = [\"logon\"]\n\
             [session.tls]\ncertificate = {:?}\nkey = {:?}\nca = [{:?}]\n{asks}",
            self.files.pem(owner, "pem"),
            self.files.pem(owner, "key"),
            self.files.pem("ca", "pem")
        );
        let path = self.folder.join("session.toml");
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
        Ok(path)
    }
}

/// A running `openssl`. Dropping this value kills the process.
struct Openssl {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    read: Vec<u8>,
}

impl Openssl {
    fn start(files: &Files, owner: &str, options: &[&str]) -> Outcome<Self> {
        let mut command = Command::new("openssl");
        command.args(options).args(["-quiet", "-verify_return_error"]);
        command.arg("-cert").arg(files.pem(owner, "pem"));
        command.arg("-key").arg(files.pem(owner, "key"));
        command.arg("-CAfile").arg(files.pem("ca", "pem"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("openssl: {error}"))?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self { child, input, output, read: Vec::new() })
    }

    /// Writes a message; `rest` contains the fields after the header, separated by `|`.
    fn say(
        &mut self,
        msg_type: &str,
        (from, to): (&str, &str),
        seq: u32,
        rest: &str,
    ) -> Outcome<()> {
        let time = Command::new("date").args(["-u", "+%Y%m%d-%H:%M:%S"]).output();
        let time = time.map_err(|error| format!("date: {error}"))?.stdout;
        let time = String::from_utf8_lossy(&time).trim().to_owned();
        let body = format!("35={msg_type}|49={from}|56={to}|34={seq}|52={time}|{rest}")
            .replace('|', "\x01");
        let text = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
        let sum = text.bytes().fold(0_u8, u8::wrapping_add);
        // Errors are ignored, because an openssl whose certificate was refused has already ended.
        let _ = write!(self.input, "{text}10={sum:03}\x01").and_then(|()| self.input.flush());
        Ok(())
    }

    /// Reads until a message of this type is complete. This read needs no deadline: Transfix closes
    /// the connection after a failure or its own shorter deadline.
    fn expect(&mut self, msg_type: &str) -> Outcome<()> {
        let wanted = format!("\x0135={msg_type}\x01");
        loop {
            let text = String::from_utf8_lossy(&self.read).into_owned();
            let at = text.find(&wanted);
            let end = at.and_then(|at| text[at..].find("\x0110=").map(|end| at + end + 8));
            if let Some(end) = end.filter(|end| *end <= text.len()) {
                self.read.drain(..end);
                return Ok(());
            }
            let mut bytes = [0; 4096];
            match self.output.read(&mut bytes) {
                Ok(0) | Err(_) => return Err(format!("openssl: no {msg_type} in {text:?}")),
                Ok(n) => self.read.extend_from_slice(&bytes[..n]),
            }
        }
    }

    /// Reads until the connection ends; fails if a message arrives.
    fn ended(&mut self) -> Outcome<()> {
        let mut rest = Vec::new();
        let _ = self.output.read_to_end(&mut rest);
        let text = String::from_utf8_lossy(&rest);
        if text.contains("8=FIX") { Err(format!("a message came: {text:?}")) } else { Ok(()) }
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        // The process may have ended already, so the error is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
