//! Compares the CPUs that settings name with those of the machine.

use std::fs;

use crate::{EngineSettings, SessionSettings, Settings};

/// The file in which the system lists its CPUs, such as `0-3,8`.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The CPUs of a machine.
pub struct Cpus {
    /// The list as the system gives it; empty if the system has none, so that any CPU is accepted.
    online: String,
}

impl Cpus {
    /// Returns the CPUs of this machine.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let online = fs::read_to_string(ONLINE).unwrap_or_default();
        Self { online: online.trim().to_owned() }
    }

    fn has(&self, cpu: usize) -> bool {
        self.online.is_empty() || parts(&self.online).any(|part| part.contains(&cpu))
    }

    /// Checks all CPUs that the settings name.
    ///
    /// # Errors
    /// The texts of all errors: a thread with a missing CPU would run anywhere.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let of_sessions = settings.sessions.iter().filter_map(|session| self.error_of(session));
        let wrong: Vec<_> = of_sessions.chain(self.errors_of_engine(settings)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Returns an error if the machine does not have the CPU that the session names.
    #[must_use]
    pub fn error_of(&self, session: &SessionSettings) -> Option<String> {
        let cpu = session.threads.cpu.filter(|cpu| !self.has(*cpu))?;
        let (place, id, online) = (session.place("cpu"), session.id(), &self.online);
        Some(format!("{place}{id}: cpu = {cpu}: this machine has only the CPUs {online}"))
    }

    /// Returns an error for each key of `[engine]` that names a CPU which the machine does not
    /// have.
    #[must_use]
    pub fn errors_of_engine(&self, settings: &Settings) -> Vec<String> {
        let EngineSettings { cpus, helper_cpus, log_cpu, .. } = &settings.engine;
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
            Some(format!("{place}[engine] {key}: {what}: this machine has only the CPUs {online}"))
        });
        wrong.collect()
    }
}

/// Returns the ranges of a list such as `0-3,8`.
fn parts(list: &str) -> impl Iterator<Item = std::ops::RangeInclusive<usize>> {
    list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the errors for a session with these keys, on a machine whose online CPUs are
    /// `online`.
    fn lacking(keys: &str, online: &str) -> Vec<String> {
        let session = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
            sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n\
            mode = \"dedicated\"\n";
        let settings = Settings::parse("my.toml", &format!("{session}{keys}\n")).unwrap();
        let machine = Cpus { online: online.to_owned() };
        let of_session = machine.error_of(&settings.sessions[0]);
        of_session.into_iter().chain(machine.errors_of_engine(&settings)).collect()
    }

    #[test]
    fn a_cpu_that_the_machine_lacks_is_named_with_its_key() {
        for (keys, expected) in [
            ("cpu = 8", None),
            (
                "cpu = 4",
                Some(
                    "my.toml:8: FIX.4.4:A->B: cpu = 4: this machine has only the CPUs \
                              0-3,8",
                ),
            ),
            ("[engine]\ncpus = [0, 3]\nlog_cpu = 8", None),
            (
                "[engine]\ncpus = [0, 999]",
                Some(
                    "my.toml:9: [engine] cpus: 999 is no CPU: this machine has only the CPUs \
                      0-3,8",
                ),
            ),
            (
                "[engine]\nhelper_cpus = [5]",
                Some(
                    "my.toml:9: [engine] helper_cpus: 5 is no CPU: this machine has only the \
                     CPUs 0-3,8",
                ),
            ),
            (
                "[engine]\n\nlog_cpu = 7",
                Some(
                    "my.toml:10: [engine] log_cpu: 7 is no CPU: this machine has only the CPUs \
                      0-3,8",
                ),
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
            "my.toml:8: FIX.4.4:A->B: cpu = 9: this machine has only the CPUs 0-3",
            "my.toml:10: [engine] cpus: 5, 6 are no CPUs: this machine has only the CPUs 0-3",
            "my.toml:11: [engine] helper_cpus: 7 is no CPU: this machine has only the CPUs 0-3",
            "my.toml:12: [engine] log_cpu: 99 is no CPU: this machine has only the CPUs 0-3",
        ];
        assert_eq!(lacking(keys, "0-3"), expected);
    }
}
