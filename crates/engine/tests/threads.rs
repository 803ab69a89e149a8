//! Tests the number of an engine's threads, and the CPUs on which they run.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use transfix::{
    BeginString, Durability, Engine, LogSettings, Mode, Offline, Role, SessionId, SessionSettings,
    Settings, pin_to_cpu, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

/// Returns the CPUs on which a thread may run, as the operating system writes them.
fn cpus_of(task: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/self/task/{task}/status")).ok()?;
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(cpus.trim().to_owned())
}

/// Returns the threads whose names begin with `beginning`, each with the CPUs on which it may run.
fn threads(beginning: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().file_name().into_string().unwrap();
        let comm = fs::read_to_string(format!("/proc/self/task/{task}/comm"));
        // Skips a thread that has ended since the directory was read.
        let (Ok(name), Some(cpus)) = (comm, cpus_of(&task)) else { continue };
        if name.starts_with(beginning) {
            found.insert(name.trim().to_owned(), cpus);
        }
    }
    found
}

#[test]
fn threads_are_as_many_as_wanted_and_where_they_are_wanted() {
    let all = cpus_of(&std::process::id().to_string()).unwrap();
    let last = all.rsplit([',', '-']).next().unwrap();
    let wanted: usize = last.parse().unwrap();
    for pinned in [false, true] {
        let dir = TempDir::new();
        let cpu = pinned.then_some(wanted);
        let session = |name: &str, mode, cpu| {
            let id = SessionId::new(BeginString::Fix44, "VENUE", name);
            let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
            settings.store.durability = Durability::Memory;
            (settings.threads.mode, settings.threads.cpu) = (mode, cpu);
            settings.log = Some(LogSettings::in_dir(dir.path()));
            settings
        };
        let mut settings = Settings::default();
        settings.engine.workers = 2;
        settings.engine.cpus = cpu.into_iter().collect();
        settings.engine.log_cpu = cpu;
        let names = ["A", "B", "C"].map(|name| session(name, Mode::Pool, None));
        settings.sessions = names.to_vec();
        settings.sessions.push(session("ALONE", Mode::Dedicated, cpu));
        let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
        let cpus = if pinned { last } else { &all };
        let expected = ["tfx-ALONE", "tfx-log", "tfx-pool-0", "tfx-pool-1"];
        let mut expected: BTreeMap<_, _> =
            expected.map(|name| (name.to_owned(), cpus.to_owned())).into();
        for name in ["tfx-accept", "tfx-watch"] {
            expected.insert(name.to_owned(), all.clone());
        }
        // Repeats the check, because each thread pins itself when it starts to run.
        while threads("tfx-") != expected {
            std::thread::yield_now();
        }
        drop(engine);
    }
}

#[test]
fn a_pinned_thread_does_not_pass_its_cpu_on_to_helpers() {
    let all = cpus_of(&std::process::id().to_string()).unwrap();
    let last: usize = all.rsplit([',', '-']).next().unwrap().parse().unwrap();
    for (helper_cpus, expected) in [(Vec::new(), all.clone()), (vec![last], last.to_string())] {
        let dir = TempDir::new();
        let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
        let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        session.store.store_dir = dir.path().to_owned();
        session.queue.offline = Offline::Store;
        let mut settings = Settings::of(session);
        settings.engine.helper_cpus = helper_cpus;
        let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
        let handle = engine.session(&id).unwrap();
        // Sends enough messages to need new segments, which a helper thread creates.
        let sender = std::thread::spawn(move || {
            pin_to_cpu(last).unwrap();
            for _ in 0..200 {
                handle.send("B", |news| _ = news.str(tag::TEXT, &"x".repeat(1_000))).unwrap();
            }
        });
        sender.join().unwrap();
        // Repeats the check until the helper threads of other tests have ended.
        let helpers = || threads("store-").into_values().collect::<Vec<_>>();
        while helpers().is_empty() || helpers().iter().any(|cpus| *cpus != expected) {
            std::thread::yield_now();
        }
        engine.stop(Duration::ZERO);
    }
}
