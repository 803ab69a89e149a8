//! Which CPUs threads run on: what the settings name must be there.
//!
//! Checked at the start, not when a file is read: a file may be looked at on another machine.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use transfix_settings::{EngineSettings as Engine, SessionSettings, Settings};

/// The CPUs of the machine as the system writes them, such as `0-3,8`.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Gives the calling thread a low priority: it works when sessions do not. It still gets a tenth of
/// a CPU that others want.
pub(crate) fn step_back() {
    // Only on Linux a thread has a priority of its own.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 10) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

/// The first step of helper threads: they run on these CPUs, or where the caller may run. A thread
/// gets the CPUs of the one that starts it, which may be pinned to the one CPU on which nothing but
/// a session is to run. `report` hears of a failure.
pub(crate) fn of_helpers(
    cpus: &[usize],
    report: fn(&io::Error),
) -> impl Fn() + Send + Sync + 'static {
    let named = cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU);
    let mut set = CpuSet::new();
    named.for_each(|cpu| set.set(*cpu));
    let set = if cpus.is_empty() { sched_getaffinity(None) } else { Ok(set) };
    move || {
        let chosen = set.and_then(|set| sched_setaffinity(None, &set));
        if let Err(error) = chosen {
            report(&error.into());
        }
    }
}

/// Refuses CPUs that the machine lacks: their threads would run anywhere.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    let machine = Machine::this();
    let of_sessions = settings.sessions.iter().filter_map(|session| machine.lacks(session));
    let wrong: Vec<_> = of_sessions.chain(machine.lacks_of_engine(settings)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// The CPUs of a machine.
pub(crate) struct Machine {
    /// As the system writes them; empty if it does not say which it has, and refuses the pinning
    /// itself.
    online: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let online = std::fs::read_to_string(ONLINE).unwrap_or_default();
        Self { online: online.trim().to_owned() }
    }

    fn has(&self, cpu: usize) -> bool {
        self.online.is_empty() || parts(&self.online).any(|part| part.contains(&cpu))
    }

    /// The warning about the CPU of a session, if it is not here.
    pub(crate) fn lacks(&self, session: &SessionSettings) -> Option<String> {
        let cpu = session.threads.cpu.filter(|cpu| !self.has(*cpu))?;
        let (place, id, online) = (session.place("cpu"), session.id(), &self.online);
        Some(format!("{place}{id}: cpu = {cpu}: this machine has the CPUs {online}"))
    }

    /// The warnings about keys of `[engine]` that name CPUs which are not here.
    pub(crate) fn lacks_of_engine(&self, settings: &Settings) -> Vec<String> {
        let Engine { cpus, helper_cpus, log_cpu, .. } = &settings.engine;
        let log_cpu: Vec<_> = log_cpu.iter().copied().collect();
        let keys = [("cpus", cpus), ("helper_cpus", helper_cpus), ("log_cpu", &log_cpu)];
        let wrong = keys.into_iter().filter_map(|(key, cpus)| {
            let missing = cpus.iter().filter(|cpu| !self.has(**cpu));
            let missing: Vec<_> = missing.map(usize::to_string).collect();
            let what = match &missing[..] {
                [] => return None,
                [cpu] => format!("{cpu} is no CPU"),
                cpus => format!("{} are no CPUs", cpus.join(", ")),
            };
            let place = settings.sessions.first().map(|session| session.engine_place(key));
            let (place, online) = (place.unwrap_or_default(), &self.online);
            Some(format!("{place}[engine] {key}: {what}: this machine has the CPUs {online}"))
        });
        wrong.collect()
    }
}

/// The ranges of a list such as `0-3,8`.
fn parts(list: &str) -> impl Iterator<Item = std::ops::RangeInclusive<usize>> {
    list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the warnings for a session with these keys on a machine with these CPUs.
    fn lacking(keys: &str, online: &str) -> Vec<String> {
        let session = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
            sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n\
            mode = \"dedicated\"\n";
        let settings = Settings::parse("my.toml", &format!("{session}{keys}\n")).unwrap();
        let machine = Machine { online: online.to_owned() };
        let of_session = machine.lacks(&settings.sessions[0]);
        of_session.into_iter().chain(machine.lacks_of_engine(&settings)).collect()
    }

    #[test]
    fn a_cpu_that_the_machine_lacks_is_named_with_its_key() {
        for (keys, expected) in [
            ("cpu = 8", None),
            ("cpu = 4", Some("my.toml:8: FIX.4.4:A->B: cpu = 4: this machine has the CPUs 0-3,8")),
            ("[engine]\ncpus = [0, 3]\nlog_cpu = 8", None),
            (
                "[engine]\ncpus = [0, 999]",
                Some("my.toml:9: [engine] cpus: 999 is no CPU: this machine has the CPUs 0-3,8"),
            ),
            (
                "[engine]\nhelper_cpus = [5]",
                Some(
                    "my.toml:9: [engine] helper_cpus: 5 is no CPU: this machine has the CPUs 0-3,8",
                ),
            ),
            (
                "[engine]\n\nlog_cpu = 7",
                Some("my.toml:10: [engine] log_cpu: 7 is no CPU: this machine has the CPUs 0-3,8"),
            ),
        ] {
            assert_eq!(lacking(keys, "0-3,8").as_slice(), expected.as_slice(), "{keys}");
            assert!(lacking(keys, "").is_empty());
        }
    }

    #[test]
    fn all_that_the_machine_lacks_is_told_at_once() {
        let keys = "cpu = 9\n[engine]\ncpus = [5, 1, 6]\nhelper_cpus = [7]\nlog_cpu = 99";
        let expected = [
            "my.toml:8: FIX.4.4:A->B: cpu = 9: this machine has the CPUs 0-3",
            "my.toml:10: [engine] cpus: 5, 6 are no CPUs: this machine has the CPUs 0-3",
            "my.toml:11: [engine] helper_cpus: 7 is no CPU: this machine has the CPUs 0-3",
            "my.toml:12: [engine] log_cpu: 99 is no CPU: this machine has the CPUs 0-3",
        ];
        assert_eq!(lacking(keys, "0-3"), expected);
    }
}
