//! Installs the package in a separate Debian system, runs its service as systemd does, and removes
//! the package.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::done;

/// Time limit for each step of the service test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks that this machine can create a separate Debian system.
pub(super) fn check_means() -> Result<(), String> {
    if !geteuid().is_root() {
        return Err("the test of the package needs root; or give --without-test".to_owned());
    }
    match Command::new("debootstrap").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err("debootstrap is not installed (Debian: apt-get install debootstrap); or give \
                       --without-test"
                .to_owned())
        }
    }
}

/// Installs, runs and removes the package, which must contain exactly this program. Returns a
/// summary.
pub(super) fn test(package: &Path, program: &Path, system: &Path) -> Result<String, String> {
    make(system)?;
    // The package is purged first, because a failed earlier test may have left the package
    // installed.
    inside(system, &["apt-get", "purge", "-y", "-q", "transfix"]).ok();
    let _ = fs::remove_dir_all(system.join("var/lib/transfix"));
    let name = package.file_name().ok_or("the package has no name")?;
    fs::copy(package, system.join("tmp").join(name)).map_err(|error| error.to_string())?;
    let path = format!("/tmp/{}", name.to_string_lossy());
    inside(system, &["apt-get", "install", "-y", "-q", "--no-install-recommends", &path])?;
    let mut seen = vec!["installed".to_owned()];
    inside(system, &["getent", "passwd", "transfix"])?;
    for file in [
        "usr/bin/transfix",
        "usr/bin/transfix-bench",
        "etc/transfix/venue.toml",
        "usr/lib/systemd/system/transfix.service",
        "usr/share/man/man1/transfix-serve.1.gz",
        "usr/share/man/man1/transfix-bench-latency.1.gz",
        "usr/share/bash-completion/completions/transfix",
        "usr/share/transfix/grafana/transfix.json",
        "usr/share/transfix/prometheus/transfix.rules.yml",
    ] {
        if !system.join(file).exists() && !system.join(file.trim_start_matches("usr/")).exists() {
            return Err(format!("the package has no /{file}"));
        }
    }
    let [made, installed] = [program, &system.join("usr/bin/transfix")].map(fs::read);
    if made.map_err(|error| error.to_string())? != installed.map_err(|error| error.to_string())? {
        return Err(format!("/usr/bin/transfix is not {}", program.display()));
    }
    inside(system, &["transfix", "--version", "--verbose"])?;
    inside(system, &["transfix", "bench", "--help"])?;
    inside(system, &["systemd-analyze", "verify", "--man=no", "transfix.service"])?;
    seen.push("its unit is sound".to_owned());
    seen.extend(serve(system)?);
    inside(system, &["apt-get", "purge", "-y", "-q", "transfix"])?;
    if !system.join("var/lib/transfix/store").exists() {
        return Err("a purge has taken the stores away".to_owned());
    }
    if system.join("usr/bin/transfix").exists() {
        return Err("a purge has left the program".to_owned());
    }
    seen.push("removed, and its stores stayed".to_owned());
    Ok(format!("\n{}", seen.join("\n")))
}

/// Creates a small Debian system with systemd's tools, if it does not exist yet.
fn make(system: &Path) -> Result<(), String> {
    if system.join("usr/bin/systemd-analyze").exists() {
        return Ok(());
    }
    debian(system, "adduser,systemd")?;
    // The new system uses the package sources of this machine.
    for dir in ["etc/apt/apt.conf.d", "etc/apt/sources.list.d"] {
        for file in fs::read_dir(Path::new("/").join(dir)).into_iter().flatten().flatten() {
            let _ = fs::copy(file.path(), system.join(dir).join(file.file_name()));
        }
    }
    // This policy prevents services from starting in the new system.
    let policy = system.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")
        .and_then(|()| fs::set_permissions(&policy, fs::Permissions::from_mode(0o755)))
        .map_err(|error| error.to_string())?;
    inside(system, &["apt-get", "update", "-q"])
}

/// Creates a small Debian system of this machine's release, with these packages.
pub(super) fn debian(system: &Path, packages: &str) -> Result<(), String> {
    let _ = fs::remove_dir_all(system);
    let release = fs::read_to_string("/etc/os-release").map_err(|error| error.to_string())?;
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.ok_or("/etc/os-release names no VERSION_CODENAME: is this Debian?")?;
    // The first lookup finds the package sources of this machine.
    let sites = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)"])
        .output()
        .map_err(|error| format!("apt-get: {error}"))?;
    let sites = String::from_utf8_lossy(&sites.stdout).into_owned();
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={packages}"), codename]);
    command.arg(system);
    if let Some(site) = sites.lines().next() {
        command.arg(site);
    }
    done(&mut command)
}

fn chroot(system: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command.arg(system).args(args).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    command
}

fn inside(system: &Path, args: &[&str]) -> Result<(), String> {
    done(&mut chroot(system, args))
}

/// The running service. Dropping this value ends its process.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the service with the user, directory and command line of its unit file. Receives the
/// notifications that the service sends to systemd.
fn serve(system: &Path) -> Result<Vec<String>, String> {
    let state = "/var/lib/transfix";
    inside(system, &["install", "-d", "-o", "transfix", "-g", "transfix", "-m", "700", state])?;
    let socket = system.join("run/notify");
    let _ = fs::remove_file(&socket);
    let told = UnixDatagram::bind(&socket).map_err(|error| format!("run/notify: {error}"))?;
    told.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666))
        .map_err(|error| error.to_string())?;
    let command = "cd /var/lib/transfix && transfix settings check /etc/transfix/venue.toml && \
                   exec transfix serve --quiet /etc/transfix/venue.toml";
    let child = Command::new("chroot")
        .args(["--userspec=transfix:transfix"])
        .arg(system)
        .args(["sh", "-c", command])
        .env("NOTIFY_SOCKET", "/run/notify")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("chroot: {error}"))?;
    let mut service = Service(child);
    let pid = Pid::from_child(&service.0);
    expect(&told, "READY=1")?;
    let out = service.0.stdout.take().ok_or("no output")?;
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    if !lines.any(|line| line.starts_with("listening at 127.0.0.1:9880")) {
        return Err("the service does not say where it listens".to_owned());
    }
    kill_process(pid, Signal::HUP).map_err(|error| error.to_string())?;
    expect(&told, "RELOADING=1")?;
    expect(&told, "READY=1")?;
    kill_process(pid, Signal::TERM).map_err(|error| error.to_string())?;
    expect(&told, "STOPPING=1")?;
    let status = service.0.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("the service ended with {status}"));
    }
    let stores = system.join("var/lib/transfix/store");
    let mode = fs::metadata(&stores).map_err(|error| format!("its stores: {error}"))?;
    if mode.permissions().mode() & 0o007 != 0 {
        return Err("others may look into its stores".to_owned());
    }
    inside(system, &["sh", "-c", "transfix audit verify /var/lib/transfix/audit.jsonl"])?;
    Ok(vec!["ran as the user transfix: ready, reloaded, stopped in order".to_owned()])
}

/// Waits until the service sends this notification.
fn expect(told: &UnixDatagram, what: &str) -> Result<(), String> {
    let mut bytes = [0; 4_096];
    loop {
        let count = told.recv(&mut bytes);
        let count = count.map_err(|error| format!("systemd is not told {what}: {error}"))?;
        if String::from_utf8_lossy(&bytes[..count]).lines().any(|line| line == what) {
            return Ok(());
        }
    }
}
