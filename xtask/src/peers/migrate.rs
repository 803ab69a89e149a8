//! `cargo xtask peers migrate`: tests that Transfix with migrated QuickFIX settings trades with
//! QuickFIX itself.
//!
//! Each test case below `bench/peers/migrate` has two settings files. Transfix runs one file after
//! `transfix migrate` has converted it; the other engine runs its own file unchanged. Then the
//! roles are swapped. **Invariant:** an invalid migration fails the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::Peer;
use super::{Outcome, acceptors, build_quickfix, compare, our_binary, play, root, say, target};

/// Number of orders that the initiator sends. Each order is answered.
const ORDERS: usize = 100;

/// Runs all cases in both roles, even after a failure. Fails at the end if any case failed.
pub(super) fn prove() -> Outcome<()> {
    let ours = our_binary()?;
    let cpp = build_quickfix()?.join("qf_peer").display().to_string();
    let quickfixj = acceptors::quickfixj_peer(&target().join("peers"))?;
    let mut failed = Vec::new();
    for (name, dialect, theirs) in
        [("quickfix-cpp", "cpp", vec![cpp]), ("quickfixj", "j", quickfixj)]
    {
        for we_accept in [true, false] {
            let role = if we_accept { "acceptor" } else { "initiator" };
            let what = format!("{name}, the {role} migrated");
            let folder = target().join("peers/run").join(format!("migrate-{name}-{role}"));
            let pair = Pair { name, dialect, ours: &ours, theirs: &theirs, we_accept, folder };
            match pair.play() {
                Ok(compared) => say(&format!("{what}: ok, {compared} messages compared")),
                Err(text) => {
                    say(&format!("{what}: FAILED\n{text}"));
                    failed.push(what);
                }
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join("; "))) }
}

struct Pair<'p> {
    name: &'static str,
    dialect: &'static str,
    ours: &'p str,
    theirs: &'p [String],
    we_accept: bool,
    folder: PathBuf,
}

impl Pair<'_> {
    fn play(&self) -> Outcome<usize> {
        play::fresh(&self.folder)?;
        let (acceptor, initiator) = play::at_free_port(|role, port| self.start(role, port))?;
        trade(acceptor, initiator)
    }

    fn start(&self, role: &'static str, port: u16) -> Outcome<Peer> {
        let folder = self.folder.join(role);
        let is_ours = (role == "acceptor") == self.we_accept;
        play::fresh(&folder)?;
        let cfg = sample(self.name, role, (port, &folder), "")?;
        if !is_ours {
            let settings = ["--settings".to_owned(), cfg.display().to_string()];
            return Peer::start(role, self.theirs, &settings, &folder);
        }
        let toml = folder.join("session.toml");
        let output = Command::new(self.ours)
            .args(["migrate", "--dialect", self.dialect, "--out"])
            .args([&toml, &cfg])
            .output()
            .map_err(|error| format!("{}: {error}", self.ours))?;
        if !output.status.success() {
            let report = String::from_utf8_lossy(&output.stderr);
            return Err(format!("transfix migrate: {}\n{report}", output.status));
        }
        let settings = ["--settings".to_owned(), toml.display().to_string()];
        Peer::start(role, &[self.ours.to_owned(), "peer".to_owned()], &settings, &folder)
    }
}

/// Writes the settings of an engine in this role to `session.cfg` in the folder: the settings from
/// `bench/peers/migrate`, with additional default lines.
pub(super) fn sample(
    name: &str,
    role: &str,
    (port, folder): (u16, &Path),
    more: &str,
) -> Outcome<PathBuf> {
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let sample = root().join(format!("bench/peers/migrate/{name}.{role}.cfg"));
    let text = fs::read_to_string(&sample).map_err(|error| failed(&sample, error))?;
    let text = text
        .replace("[default]\n", &format!("[default]\n{more}"))
        .replace("@PORT@", &port.to_string())
        .replace("@FOLDER@", &folder.display().to_string())
        .replace("@DICTIONARIES@", &root().join("dictionaries").display().to_string());
    let cfg = folder.join("session.cfg");
    fs::write(&cfg, text).map_err(|error| failed(&cfg, error))?;
    Ok(cfg)
}

/// Exchanges orders, reports and Logout(5) messages. Returns the number of compared messages.
pub(super) fn trade(mut acceptor: Peer, mut initiator: Peer) -> Outcome<usize> {
    for peer in [&mut initiator, &mut acceptor] {
        peer.wait("logon", |peer| peer.logons > 0)?;
    }
    initiator.ask(&format!("send {ORDERS}"))?;
    for peer in [&mut initiator, &mut acceptor] {
        let has_all = |peer: &Peer| peer.delivered.len() >= ORDERS && peer.sent.len() >= ORDERS;
        peer.wait("the orders and reports", has_all)?;
    }
    initiator.ask("logout")?;
    for peer in [&mut initiator, &mut acceptor] {
        peer.wait("logout", |peer| peer.logouts > 0)?;
        peer.quit()?;
    }
    let mut compared = 0;
    for (from, to, msg_type) in [(&initiator, &acceptor, "D"), (&acceptor, &initiator, "8")] {
        if let Some(other) = to.delivered.iter().find(|message| !message.is(35, msg_type)) {
            return Err(to.failure(&format!(
                "got MsgType(35) {:?} in place of {msg_type}",
                other.value(35)
            )));
        }
        compared += compare::delivered(&from.sent, &to.delivered)?;
    }
    Ok(compared)
}
