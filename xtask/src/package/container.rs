//! Tests the container file: builds the image on base images that are created here, and runs the
//! image.
//!
//! Only Debian packages are downloaded; the crates are already on this machine. The images have
//! their own storage in target/package.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{done, install};
use crate::root;
use crate::served::until;

/// The Debian packages of the base image with the Rust toolchain.
const PACKAGES: &str = "ca-certificates,cmake,g++,gcc,libc6-dev,make,perl";
const BASE: &str = "localhost/transfix-build";
const IMAGE: &str = "localhost/transfix";
const CONTAINER: &str = "transfix-test";
/// The user ID of the program in the image.
const USER: u32 = 65_532;

/// The buildah command with options for a separate image storage.
struct Buildah {
    storage: PathBuf,
}

impl Buildah {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("buildah");
        command.arg("--root").arg(self.storage.join("root"));
        command.arg("--runroot").arg(self.storage.join("run"));
        command.args(["--storage-driver", "vfs"]).args(args);
        command
    }

    fn done(&self, args: &[&str]) -> Result<(), String> {
        done(&mut self.command(args))
    }

    fn has(&self, image: &str) -> bool {
        self.done(&["inspect", "--type", "image", image]).is_ok()
    }

    /// Creates the base image with a C compiler, once. The Rust toolchain of this machine is
    /// mounted during a build.
    fn make_base(&self, to: &Path) -> Result<(), String> {
        if self.has(BASE) {
            return Ok(());
        }
        let system = to.join("system-of-the-container");
        install::debian(&system, PACKAGES)?;
        for program in ["cargo", "rustc"] {
            let link = system.join("usr/local/bin").join(program);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(format!("/toolchain/bin/{program}"), link)
                .map_err(|error| error.to_string())?;
        }
        let _ = self.done(&["rm", "transfix-base"]);
        self.done(&["from", "--name", "transfix-base", "scratch"])?;
        self.done(&["add", "transfix-base", &system.display().to_string(), "/"])?;
        self.done(&["commit", "--rm", "transfix-base", BASE])
    }

    fn build(&self) -> Result<(), String> {
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
        let sysroot = sysroot.map_err(|error| format!("rustc: {error}"))?;
        let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let registry = home.ok_or("neither CARGO_HOME nor HOME is set")?.join("registry");
        let mut build = self.command(&["bud", "--isolation", "chroot", "--format", "docker"]);
        build.args(["--pull-never", "--build-arg", &format!("BUILD={BASE}")]);
        build.args(["--build-arg", "LTO=off"]);
        build.args(["--volume", &format!("{sysroot}:/toolchain:ro")]);
        build.args(["--volume", &format!("{}:/root/.cargo/registry", registry.display())]);
        build.args(["--file", "packaging/container/Containerfile", "--tag", IMAGE, "."]);
        done(build.current_dir(root()))
    }

    /// Returns the configuration of the built image.
    fn config(&self) -> Result<Value, String> {
        let output = self.command(&["inspect", "--type", "image", IMAGE]).output();
        let output = output.map_err(|error| format!("buildah: {error}"))?;
        let all: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("buildah inspect: {error}"))?;
        Ok(all["Docker"]["config"].clone())
    }

    /// Returns a command that runs inside the container as the user of the image.
    fn inside(&self, settings: &Path, args: &[String]) -> Command {
        let volume = format!("{}:/etc/transfix:ro", settings.display());
        let mut run = self.command(&["run", "--isolation", "chroot", "--volume", &volume]);
        run.args([CONTAINER, "--"]).args(args);
        run
    }
}

/// Returns true if buildah is installed, which building an image requires.
pub(super) fn has_buildah() -> bool {
    Command::new("buildah").arg("--version").output().is_ok()
}

/// If buildah is installed, builds and runs the image. Returns a summary.
pub(super) fn test(program: &Path, to: &Path) -> Result<String, String> {
    if !has_buildah() {
        return Ok(
            "\nthe container file was NOT built: buildah is not installed (Debian: apt-get \
                   install buildah)"
                .to_owned(),
        );
    }
    let buildah = Buildah { storage: to.join("containers") };
    buildah.make_base(to)?;
    buildah.build()?;
    let seen = run(&buildah, program, &to.join("settings-of-the-container"));
    let _ = buildah.done(&["rm", CONTAINER]);
    seen
}

/// A running container. Dropping this value ends its process.
struct Running(Child);

impl Running {
    /// Returns the process ID of the program itself, which is a child of the container launcher.
    fn program(&self) -> Result<Pid, String> {
        let mut all = vec![self.0.id()];
        while let Some(pid) = all.pop() {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let pid_of = || i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Some(found) = pid_of().filter(|_| name.trim() == "transfix") {
                return Ok(found);
            }
            for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten()
            {
                let below = fs::read_to_string(thread.path().join("children"));
                let below = below.unwrap_or_default();
                all.extend(below.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        Err("the container has no process transfix".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(program) = self.program() {
            let _ = kill_process(program, Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn run(buildah: &Buildah, program: &Path, settings: &Path) -> Result<String, String> {
    write_settings(program, settings)?;
    let config = buildah.config()?;
    let command = [texts(&config["Entrypoint"]), texts(&config["Cmd"])].concat();
    let health = texts(&config["Healthcheck"]["Test"]);
    let health = match health.split_first() {
        Some((kind, health)) if kind == "CMD" => health.to_vec(),
        _ => return Err(format!("the image has no health check: {config}")),
    };
    if config["User"] != "65532:65532" || config["StopSignal"] != "SIGTERM" {
        return Err(format!("the image has another user or signal: {config}"));
    }
    let _ = buildah.done(&["rm", CONTAINER]);
    buildah.done(&["from", "--pull-never", "--name", CONTAINER, IMAGE])?;
    let is_well = || done(&mut buildah.inside(settings, &health));
    if is_well().is_ok() {
        return Err("something else answers at 127.0.0.1:9890: end it".to_owned());
    }
    if buildah.inside(settings, &["/bin/sh".to_owned()]).output().is_ok_and(|o| o.status.success())
    {
        return Err("the image has a shell".to_owned());
    }
    let child = buildah.inside(settings, &command).stdin(Stdio::null()).spawn();
    let mut running = Running(child.map_err(|error| format!("buildah: {error}"))?);
    until(|| {
        if let Ok(Some(status)) = running.0.try_wait() {
            return Ok(Err(format!("the container has ended with {status}")));
        }
        is_well().map(Ok)
    })??;
    let pid = running.program()?;
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = status.map_err(|error| format!("the container's process: {error}"))?;
    let uid = format!("Uid:\t{USER}\t{USER}");
    if !status.lines().any(|line| line.starts_with(&uid)) {
        return Err(format!("the program is not run by the user {USER}:\n{status}"));
    }
    kill_process(pid, Signal::TERM).map_err(|error| error.to_string())?;
    let ended = running.0.wait().map_err(|error| error.to_string())?;
    if !ended.success() {
        return Err(format!("the container ended with {ended}"));
    }
    if is_well().is_ok() {
        return Err("the health check says that it is well when it has ended".to_owned());
    }
    Ok("\nthe container file was built, and its image run: no shell, user 65532, its health check \
        follows it, and SIGTERM ends it in order"
        .to_owned())
}

/// Writes the files that are mounted into the container: settings with the administration enabled,
/// and the administration's users.
fn write_settings(program: &Path, dir: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).map_err(|error| error.to_string())?;
    let settings = "[admin]\nusers_file = \"/etc/transfix/users.toml\"\n\n[[session]]\n\
                    role = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
                    target_comp_id = \"DESK\"\naddress = \"127.0.0.1:9880\"\n";
    fs::write(dir.join("venue.toml"), settings).map_err(|error| error.to_string())?;
    let users = dir.join("users.toml");
    let mut add = Command::new(program);
    add.args(["admin", "token", "add", "looks", "--role", "viewer", "--file"]).arg(&users);
    done(&mut add)?;
    for path in [dir.to_owned(), dir.join("venue.toml"), users] {
        chown(&path, Some(USER), Some(USER)).map_err(|error| error.to_string())?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())
}
