//! `cargo xtask peers tls`: sessions over TLS with QuickFIX/J and with `openssl`, in both roles.
//!
//! Both sides present certificates and require them from the other side. The Transfix settings are
//! migrated from those of QuickFIX/J, with the commands that the migration report gives. In each
//! role, each side refuses a certificate of another authority, and the log gives the reason.
//! **Invariant:** a refusal counts only if the Transfix log contains its reason and no Logon(A) was
//! accepted.

mod files;
mod openssl;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use files::Files;

use super::process::{Peer, now};
use super::{Outcome, acceptors, migrate, our_binary, play, say, target};

/// The side whose certificate was issued by an untrusted authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nobody,
    Ours,
    Theirs,
}

impl Wrong {
    const ALL: [Self; 3] = [Self::Nobody, Self::Ours, Self::Theirs];

    /// Returns the reason that the Transfix log must contain.
    const fn reason(self) -> &'static str {
        match self {
            Self::Nobody => "",
            Self::Ours => "the counterparty refused the connection: ",
            Self::Theirs => "the counterparty's certificate ",
        }
    }
}

/// Runs all cases, even after a failure. Fails at the end if any case failed.
pub(super) fn prove() -> Outcome<()> {
    let ours = our_binary()?;
    let quickfixj = acceptors::quickfixj_peer(&target().join("peers"))?;
    let folder = target().join("peers/run/tls");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    let files = Files::make(&folder.join("files"))?;
    let mut told = Told { folder: folder.clone(), lines: Vec::new(), failed: Vec::new() };
    for we_accept in [true, false] {
        let role = if we_accept { "acceptor" } else { "initiator" };
        for wrong in Wrong::ALL {
            let name = format!("quickfixj-{role}-{wrong:?}").to_lowercase();
            let folder = folder.join(&name);
            let pair =
                Pair { ours: &ours, theirs: &quickfixj, files: &files, we_accept, wrong, folder };
            told.tell(&format!("QuickFIX/J, {}", what(role, wrong)), pair.play());
        }
        for wrong in Wrong::ALL {
            let name = format!("openssl-{role}-{wrong:?}").to_lowercase();
            let case =
                openssl::Case { ours: &ours, files: &files, wrong, folder: folder.join(name) };
            let played = if we_accept { case.client() } else { case.server() };
            let program = if we_accept { "openssl s_client" } else { "openssl s_server" };
            told.tell(&format!("{program}, {}", what(role, wrong)), played);
        }
    }
    told.end()
}

fn what(role: &str, wrong: Wrong) -> String {
    match wrong {
        Wrong::Nobody => format!("Transfix as {role}: trades"),
        Wrong::Ours => format!("Transfix as {role} with a strange certificate: refused"),
        Wrong::Theirs => format!("Transfix as {role} refuses a strange certificate"),
    }
}

/// The result lines so far, which are also printed at once.
struct Told {
    folder: PathBuf,
    lines: Vec<String>,
    failed: Vec<String>,
}

impl Told {
    fn tell(&mut self, what: &str, played: Outcome<String>) {
        let line = match played {
            Ok(how) => format!("{what}: ok, {how}"),
            Err(text) => {
                self.failed.push(what.to_owned());
                format!("{what}: FAILED\n{text}")
            }
        };
        say(&line);
        self.lines.push(line);
    }

    fn end(self) -> Outcome<()> {
        let path = self.folder.join("passed.log");
        let text = self.lines.join("\n") + "\n";
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        say(&format!("log: {}", path.display()));
        match self.failed.is_empty() {
            true => Ok(()),
            false => Err(format!("{} failed: {}", self.failed.len(), self.failed.join("; "))),
        }
    }
}

/// A test session between Transfix and QuickFIX/J.
struct Pair<'p> {
    ours: &'p str,
    theirs: &'p [String],
    files: &'p Files,
    we_accept: bool,
    wrong: Wrong,
    folder: PathBuf,
}

impl Pair<'_> {
    fn play(&self) -> Outcome<String> {
        play::fresh(&self.folder)?;
        let (acceptor, initiator) = play::at_free_port(|role, port| self.start(role, port))?;
        if self.wrong == Wrong::Nobody {
            let compared = migrate::trade(acceptor, initiator)?;
            return Ok(format!("{compared} messages compared"));
        }
        self.is_refused(acceptor, initiator)
    }

    fn start(&self, role: &'static str, port: u16) -> Outcome<Peer> {
        let folder = self.folder.join(role);
        let is_ours = (role == "acceptor") == self.we_accept;
        // This call empties the folder, so the key stores are copied and the settings written only
        // afterwards.
        play::fresh(&folder)?;
        let is_strange = self.wrong == if is_ours { Wrong::Ours } else { Wrong::Theirs };
        let owner = match (is_strange, role) {
            (true, _) => "stranger",
            (false, "acceptor") => "venue",
            (false, _) => "client",
        };
        let (store, trust) = self.files.copy_stores(owner, &folder)?;
        let tls = format!(
            "SocketUseSSL=Y\nSocketKeyStore={}\nSocketKeyStorePassword={}\nSocketTrustStore={}\n\
             SocketTrustStorePassword={}\nNeedClientAuth=Y\nEnabledProtocols=TLSv1.2,TLSv1.3\n",
            store.display(),
            files::PASSWORD,
            trust.display(),
            files::PASSWORD
        );
        let cfg = migrate::sample("quickfixj", role, (port, &folder), &tls)?;
        if !is_ours {
            let settings = ["--settings".to_owned(), cfg.display().to_string()];
            return Peer::start(role, self.theirs, &settings, &folder);
        }
        let toml = self.migrate(&cfg, &folder)?;
        start_ours(self.ours, role, &toml, &folder)
    }

    /// Writes the migrated Transfix settings, and the files that the commands of the migration
    /// report create.
    fn migrate(&self, cfg: &Path, folder: &Path) -> Outcome<PathBuf> {
        let (toml, report) = (folder.join("session.toml"), folder.join("report"));
        let output = Command::new(self.ours)
            .args(["migrate", "--dialect", "j", "--out"])
            .args([&toml, Path::new("--report"), &report])
            .arg(cfg)
            .output()
            .map_err(|error| format!("{}: {error}", self.ours))?;
        // Exit code 1 means that manual steps remain. This test performs them.
        if output.status.code() != Some(1) {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("transfix migrate: {}\n{said}", output.status));
        }
        let report = fs::read_to_string(&report).map_err(|error| error.to_string())?;
        let left: Vec<_> =
            report.lines().filter(|line| line.contains(": not carried over: ")).collect();
        let commands: Vec<_> = left.iter().filter_map(|line| line.split('`').nth(1)).collect();
        if left.len() != 2 || commands.len() != 2 {
            return Err(format!("two stores were to be left:\n{report}"));
        }
        commands.into_iter().try_for_each(files::obey)?;
        Ok(toml)
    }

    fn is_refused(&self, acceptor: Peer, initiator: Peer) -> Outcome<String> {
        let role = if self.we_accept { "acceptor" } else { "initiator" };
        let line = logged(&self.folder.join(role).join("ours.log"), self.wrong.reason())?;
        for mut peer in [acceptor, initiator] {
            peer.catch_up();
            if peer.logons > 0 {
                return Err(peer.failure("logged on with a strange certificate"));
            }
        }
        Ok(line)
    }
}

/// Starts Transfix with these settings. Its log file is `ours.log`.
fn start_ours(ours: &str, role: &'static str, toml: &Path, folder: &Path) -> Outcome<Peer> {
    let log = folder.join("ours.log");
    let settings = ["--settings", &toml.display().to_string(), "--log", &log.display().to_string()];
    let settings = settings.map(str::to_owned);
    Peer::start(role, &[ours.to_owned(), "peer".to_owned()], &settings, folder)
}

/// Returns the text up to the first colour code.
fn plain(text: &str) -> &str {
    text.split('\x1b').next().unwrap_or_default().trim()
}

/// Waits until the Transfix log contains a line with this reason.
fn logged(log: &Path, text: &str) -> Outcome<String> {
    let deadline = now() + super::process::WAIT_MAX;
    loop {
        let lines = fs::read_to_string(log).unwrap_or_default();
        let is_reason = |line: &&str| line.contains(text);
        if let Some(line) = lines.lines().find(is_reason) {
            let begin = line.find(text).unwrap_or(0);
            return Ok(format!("the log says: {}", plain(&line[begin..])));
        }
        if now() > deadline {
            return Err(format!("{} has nothing of {text:?}:\n{lines}", log.display()));
        }
        std::thread::yield_now();
    }
}
