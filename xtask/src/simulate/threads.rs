//! Deliberate faults in the engine's code for threads: workers, acceptor, connectors, handles.
//! Simulated worlds of the kind `engines` must catch them.

use super::list::{ENGINE, Fault, SESSION};

const KIND: &str = "engines";

/// All faults.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "calls-without-waking",
        changes: &[(
            ENGINE,
            "self.call_all(std::iter::once(slot));\n        }\n        self.wake();",
            "self.call_all(std::iter::once(slot));\n        }",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "commands-without-waking",
        changes: &[(
            ENGINE,
            "self.note(&mut self.orders(), command);\n        self.wake();",
            "self.note(&mut self.orders(), command);",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "pending-connection-that-stays",
        changes: &[(
            ENGINE,
            "self.0.has_pending.store(false, Ordering::Release);",
            "self.0.has_pending.store(true, Ordering::Release);",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "waker-that-wakes-once",
        changes: &[(ENGINE, "self.is_called.swap(false, Ordering::AcqRel);", "")],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "queue-without-waker",
        changes: &[(
            ENGINE,
            "} else if first {\n            shared.session_waker.wake_for_message();",
            "} else if first {",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "deadline-forgotten-after-its-tick",
        changes: &[(
            ENGINE,
            "Ok(false) => {}\n Err(why) => self.down(i, &why),\n }\n self.note_deadline(i);",
            "Ok(false) => {}\n Err(why) => self.down(i, &why),\n }",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "deadline-taken-for-noted",
        changes: &[(ENGINE, "self.noted[session] = u64::MAX;", "")],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "rest-of-a-turn-forgotten",
        changes: &[(ENGINE, "slot.up && (turn.again || ends)", "slot.up && ends")],
        kind: KIND,
        worlds: 400,
    },
    Fault {
        name: "stop-without-logout",
        changes: &[(ENGINE, "if !self.up || link.logout(now, text)? {", "if !self.up {")],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "stop-that-forgets-what-waits",
        changes: &[(
            SESSION,
            "self.keeps_unsent() && self.keeps_in_store()",
            "self.keeps_unsent()",
        )],
        kind: KIND,
        worlds: 500,
    },
    Fault {
        name: "stop-that-settles-no-doubt",
        changes: &[(
            ENGINE,
            "let opened = self.reopen(io, queue);",
            "let opened: Result<(), transfix_store::StoreError> = Ok(drop(queue));",
        )],
        kind: KIND,
        worlds: 2_000,
    },
    Fault {
        name: "queue-open-after-the-end",
        changes: &[(ENGINE, "queue.close();\n        for _", "for _")],
        kind: KIND,
        worlds: 2_000,
    },
    Fault {
        name: "stored-before-what-is-held-back",
        changes: &[(SESSION, "waits && (active || self.stores(state))", "waits && active")],
        kind: KIND,
        worlds: 500,
    },
    Fault {
        name: "connects-once",
        changes: &[(
            ENGINE,
            "self.state = State::At(now_ns + self.wait_ns());",
            "self.state = State::At(u64::MAX);",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "refused-once-and-for-ever",
        changes: &[(
            ENGINE,
            "let key = self.making.remove(&ticket);",
            "let key = self.making.get(&ticket).cloned();",
        )],
        kind: KIND,
        worlds: 1_000,
    },
    Fault {
        name: "panicked-and-never-sound-again",
        changes: &[(ENGINE, "shared.link.clear_poison();", "")],
        kind: KIND,
        worlds: 400,
    },
    Fault {
        name: "opened-again-in-vain-once",
        changes: &[(
            ENGINE,
            "shared.lock().executor().tell(now, &Event::StoreNotOpened(&error));\n \
             self.plan(now_ns);",
            "shared.lock().executor().tell(now, &Event::StoreNotOpened(&error));",
        )],
        kind: KIND,
        worlds: 4_000,
    },
    Fault {
        name: "connection-nobody-waits-for",
        changes: &[(
            ENGINE,
            "arrival.stream.register(registry, token, INTEREST).map_err(Down::Io)?;",
            "let _ = (registry, token, interest);",
        )],
        kind: KIND,
        worlds: 200,
    },
    Fault {
        name: "answer-lost-with-the-panic-behind-it",
        changes: &[(ENGINE, "let put = self.put_entries(now);", "let put = Ok(());")],
        kind: KIND,
        worlds: 400,
    },
    Fault {
        name: "counts-while-the-application-has-it",
        changes: &[(
            SESSION,
            "self.calls.iter().find_map(HandedCall::number)",
            "self.calls.iter().skip(1).find_map(HandedCall::number)",
        )],
        kind: KIND,
        worlds: 2_000,
    },
    Fault {
        name: "application-held-still-for-good",
        changes: &[(
            ENGINE,
            "if std::mem::take(&mut state.wanted) {\n self.schedule(state);\n }",
            "let _ = &mut state;",
        )],
        kind: KIND,
        worlds: 1_000,
    },
    Fault {
        name: "session-gone-before-its-application",
        changes: &[(
            ENGINE,
            "Some(session) => run_queue.push((task, session)),",
            "Some(_) => run_queue.push((task, Arc::new(()))),",
        )],
        kind: KIND,
        worlds: 1_000,
    },
    Fault {
        name: "taken-in-without-its-socket",
        changes: &[(
            ENGINE,
            "let entered = slot.enter(self.poll.registry(), Token(i));",
            "let entered = Ok::<(), Down>(());",
        )],
        kind: KIND,
        worlds: 400,
    },
    Fault {
        name: "taken-in-without-its-waker",
        changes: &[(ENGINE, "slot.shared.session_waker.set(self.command_queue.handle(), i);", "")],
        kind: KIND,
        worlds: 400,
    },
    Fault {
        name: "taken-in-without-a-look",
        changes: &[(ENGINE, "self.command_queue.call(i);\n        self.deadlines.note(i, 0);", "")],
        kind: KIND,
        worlds: 1_000,
    },
    Fault {
        name: "session-lost-at-a-reload",
        changes: &[(
            ENGINE,
            "let old = self.begin_again((from, to), id, &mut application);",
            "let old = None::<SessionSettings>;",
        )],
        kind: KIND,
        worlds: 400,
    },
];
