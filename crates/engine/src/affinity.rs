//! Which CPUs threads run on: what the settings name must be there.
//!
//! Checked at the start, not when a file is read: a file may be looked at on another machine.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::settings::Settings;

/// The CPUs of the machine as the system writes them, such as `0-3,8`.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Pins the calling thread to one CPU.
///
/// # Errors
/// If there is no such CPU, or it is not allowed.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// What threads do first that help others: they run on these CPUs, or where the caller of this may
/// run. A thread gets the CPUs of the one that starts it, which may be pinned to the one CPU on
/// which nothing but a session is to run.
pub(crate) fn of_helpers(cpus: &[usize]) -> impl Fn() + Send + Sync + 'static {
    let named = cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU);
    let mut set = CpuSet::new();
    named.for_each(|cpu| set.set(*cpu));
    let set = if cpus.is_empty() { sched_getaffinity(None) } else { Ok(set) };
    move || {
        let chosen = set.and_then(|set| sched_setaffinity(None, &set));
        if let Err(error) = chosen {
            tracing::error!(%error, "a thread that helps the stores cannot choose its CPUs");
        }
    }
}

/// Refuses a CPU that the machine lacks: its thread would run anywhere.
pub(crate) fn check(settings: &Settings) -> Result<(), String> {
    // A system that does not say which CPUs it has refuses the pinning itself.
    let online = std::fs::read_to_string(ONLINE).unwrap_or_default();
    check_in(settings, online.trim())
}

fn check_in(settings: &Settings, online: &str) -> Result<(), String> {
    let is_known = |cpu: usize| online.is_empty() || parts(online).any(|part| part.contains(&cpu));
    for session in &settings.sessions {
        if let Some(cpu) = session.threads.cpu.filter(|cpu| !is_known(*cpu)) {
            let (place, id) = (session.place("cpu"), session.id());
            return Err(format!("{place}{id}: cpu = {cpu}: this machine has the CPUs {online}"));
        }
    }
    let engine = &settings.engine;
    let of_engine = engine.cpus.iter().map(|cpu| ("cpus", *cpu));
    let of_helpers = engine.helper_cpus.iter().map(|cpu| ("helper_cpus", *cpu));
    for (key, cpu) in of_engine.chain(of_helpers).chain(engine.log_cpu.map(|cpu| ("log_cpu", cpu)))
    {
        if !is_known(cpu) {
            let place = settings.sessions.first().map(|session| session.engine_place(key));
            let place = place.unwrap_or_default();
            return Err(format!(
                "{place}[engine] {key}: {cpu} is no CPU: this machine has the CPUs {online}"
            ));
        }
    }
    Ok(())
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

    #[test]
    fn a_cpu_that_the_machine_lacks_is_named_with_its_key() {
        let session = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
            sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n\
            mode = \"dedicated\"\n";
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
            let settings = Settings::parse("my.toml", &format!("{session}{keys}\n")).unwrap();
            let found = check_in(&settings, "0-3,8").err();
            assert_eq!(found.as_deref(), expected, "{keys}");
            assert_eq!(check_in(&settings, ""), Ok(()));
        }
    }
}
