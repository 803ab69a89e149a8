//! The codes of the engine's events, and what an operator does about each.
//!
//! Invariant: a code never changes, and is never given to another event. The book's list is made
//! from this table, and a test holds it against the places that write events.

/// An event of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCode {
    /// Its number: hundreds are subjects (20 sessions, 21 doors, 22 stores, 23 applications, 24
    /// threads, 25 logs, 26 certificates, 27 administration, 28 figures).
    pub code: u16,
    /// Its text, as the event has it. Of an event that has other words each time it says what they
    /// are about.
    pub text: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

impl EventCode {
    /// All of them, in the order of their numbers.
    pub const ALL: &[Self] = ALL;

    /// That of an event with this text. An event that has other words each time has the field
    /// `event_code` instead.
    #[must_use]
    pub fn of(text: &str) -> Option<&'static Self> {
        ALL.iter().find(|event| event.text == text)
    }
}

/// What is odd about a message of the counterparty.
pub(crate) const REMARK: u16 = 2023;
/// What the counterparty has rejected.
pub(crate) const REJECTED: u16 = 2024;
/// What a failure has undone.
pub(crate) const UNDONE: u16 = 2025;

const fn event(code: u16, text: &'static str, remedy: &'static str) -> EventCode {
    EventCode { code, text, remedy }
}

const ALL: &[EventCode] = &[
    event(2001, "logged on", "Nothing: it trades."),
    event(
        2002,
        "disconnected",
        "`reason` says who ended it and why, with the Text(58) of the counterparty's \
            Logout(5). The page \"Codes\" has each reason.",
    ),
    event(
        2003,
        "connection failed",
        "Nobody listens at `destination`, or the way there is closed. It is tried again.",
    ),
    event(
        2004,
        "the connection broke",
        "The network or the counterparty's machine: `error` is what the system says. The \
            session connects again and asks for what it lacks.",
    ),
    event(
        2005,
        "Logon(A) refused",
        "`why` says what is wrong with it: compare with the counterparty what both have \
            set.",
    ),
    event(
        2006,
        "refused a connection",
        "`why` says it: there is one already, the session is logged out by hand, its store \
            has failed, or its window is closed.",
    ),
    event(
        2007,
        "no further attempt to connect",
        "`connect_attempts_max` is reached: mend the cause, then `log_on`.",
    ),
    event(2008, "window", "Nothing: the schedule was read, and this is its next window."),
    event(2009, "logging out: the window has closed", "Nothing: the schedule wants it."),
    event(2010, "numbers start again: a window has opened", "Nothing: the schedule wants it."),
    event(
        2011,
        "the numbers begin again at 1",
        "If nobody wanted a reset, ask the counterparty why its Logon(A) had \
            ResetSeqNumFlag(141)=Y.",
    ),
    event(
        2012,
        "numbers of the store taken",
        "Another process has changed the store meanwhile: its numbers count.",
    ),
    event(
        2013,
        "the session is ready again",
        "Nothing: its store takes messages again, or its application is back.",
    ),
    event(2014, "resending", "Nothing: the counterparty has asked for messages again."),
    event(
        2015,
        "the same ResendRequest(2) again",
        "The counterparty asks in a loop: it does not take what comes. Ask its operator; \
            the session ends by itself after some.",
    ),
    event(
        2016,
        "not in the store, filled as a gap",
        "The counterparty has asked for messages that the store does not have, from \
            `missing` on. If they were orders, tell it.",
    ),
    event(
        2017,
        "skipped",
        "`reason` says what was wrong with the bytes; the protocol log has them behind the \
            word `garbled`.",
    ),
    event(
        2018,
        "the counterparty would reject it",
        "Our own message is not valid: `reject` says why. Mend the program.",
    ),
    event(
        2019,
        "not sent, and given back",
        "The application has the message again, by `on_unsent`; `why` says why.",
    ),
    event(
        2020,
        "rejected, as the answer could not be sent",
        "The application's answer was refused, so the counterparty got a \
            BusinessMessageReject(j). Mend the cause in `why`.",
    ),
    event(
        2021,
        "the counterparty takes its messages slowly",
        "It reads too slowly, or the network is full. Beyond the limits of the settings it \
            is disconnected.",
    ),
    event(2022, "the counterparty has caught up", "Nothing: it reads again."),
    event(
        2023,
        "what is odd about the counterparty's message, in words",
        "The message was taken. Tell the counterparty, if it happens often.",
    ),
    event(
        2024,
        "which message of ours the counterparty has rejected, and why",
        "Its Reject(3) or BusinessMessageReject(j) says why. Mend what sends such messages.",
    ),
    event(
        2025,
        "what comes again and what never left, in words",
        "A failure of the store or a panic has undone it: see \"A message is missing: what \
            now?\".",
    ),
    event(
        2026,
        "the counterparty speaks TLS, and the settings of the session have no tls",
        "Set `tls`, or have the counterparty connect without.",
    ),
    event(
        2027,
        "fields of the Logon(A) are left out",
        "`error` says which cannot be written: mend `logon.fields`.",
    ),
    event(
        2028,
        "the dictionary is of another version",
        "Check `dictionary`: messages are judged by it all the same.",
    ),
    event(
        2029,
        "no validation",
        "The dictionary could not be made: `error` says why, and messages are not \
            validated.",
    ),
    event(
        2030,
        "a message could not be passed on",
        "DeliverToCompID(128) names a session that does not take it: `why` says why.",
    ),
    event(
        2031,
        "the application has not judged a Logon(A) in time",
        "`judge_logon` takes longer than `logon_timeout_ms`: make it faster.",
    ),
    event(
        2032,
        "judging a Logon(A) panicked: it is refused",
        "Mend `judge_logon`: the place of the panic stands on standard error.",
    ),
    event(2033, "lines were left out", "Nothing: so many lines of one cause were not told."),
    event(
        2034,
        "messages wait in the store, and are not sent without offline = \"queue\"",
        "Set `offline = \"queue\"` again to send them, or clear them by `transfix store \
            queue`.",
    ),
    event(
        2101,
        "a Logon(A) waits, as many have failed",
        "Somebody tries passwords, or a counterparty has an old one: `asked` says for which \
            session.",
    ),
    event(
        2102,
        "closed: a proxy of proxy_protocol_from has to say for whom it connects",
        "Switch the PROXY protocol on at the proxy.",
    ),
    event(
        2103,
        "closed: its Logon(A) was refused",
        "`reason` says why: the password, the certificate, or the application.",
    ),
    event(
        2104,
        "closed: its address is not one of those of this session (allow_from)",
        "Add the address to `allow_from`, if it is the counterparty's.",
    ),
    event(
        2105,
        "closed: its certificate is none of those of this session (tls.peer)",
        "Add the certificate's name or fingerprint to `tls.peer`, if it is the \
            counterparty's.",
    ),
    event(
        2106,
        "closed: its first Logon(A) is still being judged",
        "Nothing: the counterparty was in a hurry.",
    ),
    event(
        2107,
        "closed: no Logon(A) of a session of these settings",
        "Compare `asked` with the CompIDs and the version in the settings.",
    ),
    event(2108, "closed: no TLS connection came about", "`reason` says which side refused what."),
    event(
        2109,
        "closed: no session here has its address in allow_from",
        "Nothing, if it is a stranger.",
    ),
    event(
        2110,
        "closed: the counterparty speaks TLS, this port none",
        "Set `tls`, or tell the counterparty the right port.",
    ),
    event(2111, "closed: the first bytes are no message", "Nothing, if it is a stranger: not FIX."),
    event(
        2112,
        "closed: there is one already, which has not been looked at yet",
        "The counterparty connects twice.",
    ),
    event(
        2113,
        "closed: too many connections without a Logon(A), and this one is old",
        "A flood, or counterparties that connect and say nothing: look for the address.",
    ),
    event(
        2114,
        "closed: no thread to judge a Logon(A)",
        "The system gives no thread: look at its limits.",
    ),
    event(
        2115,
        "a connection could not be accepted",
        "Mostly too many open files: raise the limit.",
    ),
    event(
        2116,
        "judging a Logon(A) took longer than its connection may wait",
        "`judge_logon` is slow: make it faster.",
    ),
    event(
        2117,
        "lines about strangers were left out",
        "Nothing: so many lines of one cause were not told.",
    ),
    event(
        2118,
        "nobody can come in at a new address",
        "`error` says why its listener cannot be watched: try the reload again.",
    ),
    event(
        2119,
        "no further session is made",
        "`created_sessions_max` is reached: raise it, or set `created_sessions_idle_s`.",
    ),
    event(
        2120,
        "made from a template",
        "Nothing: a counterparty that the application admits has come.",
    ),
    event(2121, "gone: without a connection for long", "Nothing: its store and numbers stay."),
    event(
        2122,
        "too few open files: fewer connections may wait for their Logon(A) than are set",
        "Raise the limit of open files (`LimitNOFILE`).",
    ),
    event(
        2201,
        "store failed",
        "`error` says why. The session is disconnected; its store is tried again by itself.",
    ),
    event(
        2202,
        "the store does not open again",
        "Mend the cause in `error`: the disk, or the rights. It is tried again.",
    ),
    event(2203, "the store cannot be read again", "As above: nothing is taken meanwhile."),
    event(
        2204,
        "in doubt: only the store can tell whether it has them",
        "Nothing now: it is told when the store is open again.",
    ),
    event(
        2205,
        "sent as the store failed: comes back when it is open again",
        "Nothing now: the application is told by `on_undone`.",
    ),
    event(
        2206,
        "not given back: they wait again",
        "The application could not be told: it will be.",
    ),
    event(
        2207,
        "what waits in the store is no message",
        "The queue in the store is damaged: `transfix store verify`.",
    ),
    event(
        2208,
        "an unfinished batch was cut",
        "Nothing: a crash has left it, and nothing of it was sent.",
    ),
    event(
        2209,
        "the next segment of a store cannot be made beforehand",
        "The disk is nearly full or slow: the session makes it itself, and stalls.",
    ),
    event(
        2210,
        "old segments stay where they are",
        "`error` says why they cannot be moved or deleted.",
    ),
    event(
        2211,
        "the store may lie on a network file system",
        "A network file system may lose what it has confirmed: use a local disk.",
    ),
    event(
        2212,
        "more than half of the memory mappings are used, and stores take more as they grow; \
            raise the limit (sysctl vm.max_map_count)",
        "Do as it says.",
    ),
    event(
        2213,
        "panicked while it was brought back",
        "Mend the callback; the session is tried again.",
    ),
    event(
        2214,
        "the lock file of a store was damaged",
        "It is written anew. Something else than an engine has changed it: compare the numbers \
            with the counterparty's, since segments at the end may be gone too.",
    ),
    event(
        2215,
        "an older copy of a store is in its place",
        "It ends at `next_in` and `next_out`; it was closed with `had_next_in` and \
            `had_next_out`. Stop the engine and put the newer copy back; if it is lost, compare \
            the numbers with the counterparty's before you trade.",
    ),
    event(
        2216,
        "the numbers of a store cannot be kept beside it",
        "`error` says why. An older copy of the store would not be noticed at the next start.",
    ),
    event(
        2301,
        "a callback has not returned",
        "The named callback waits for something: look where it stands (a debugger, `perf`).",
    ),
    event(
        2302,
        "a slow callback has returned",
        "It took `ms`: its session waited meanwhile, and others of the same thread.",
    ),
    event(
        2303,
        "panicked: the connection ends; the last message counts, and is not repeated",
        "Mend the callback: see \"A panic of the application\".",
    ),
    event(
        2304,
        "as much waits for the application as may",
        "The application is too slow for what comes: the settings say what follows.",
    ),
    event(2305, "there is room before the application", "Nothing: it has caught up."),
    event(
        2306,
        "applications have not returned: their threads are left to them",
        "At the end of the program a callback did not return.",
    ),
    event(2401, "a thread of the engine has failed, and goes on", "Report it with `error`."),
    event(
        2402,
        "a thread of the engine has failed: the process ends",
        "`thread_lost = \"abort\"` wants it. Report it with `error`.",
    ),
    event(
        2403,
        "a thread of the engine has panicked, and goes on",
        "A defect of the engine, or of a store of your own: report it with the text on \
            standard error.",
    ),
    event(
        2404,
        "a thread of the engine has panicked: the process ends",
        "As above; `thread_lost = \"abort\"` wants the end.",
    ),
    event(2405, "a thread that helps the stores cannot choose its CPUs", "Check `helper_cpus`."),
    event(
        2406,
        "thread cannot be pinned",
        "Check `cpu`, `cpus`: the process may not use that CPU.",
    ),
    event(2407, "given to a worker that has less to do", "Nothing."),
    event(
        2408,
        "lines about lost threads were left out",
        "Nothing: so many lines of one cause were not told.",
    ),
    event(
        2501,
        "lines of the log are lost",
        "The disk takes nothing: `error` says why. Trading goes on.",
    ),
    event(2502, "log is not compressed", "The file stays as it is: `error` says why."),
    event(2503, "log is not rolled", "The file grows on: `error` says why."),
    event(2504, "the log's thread cannot be pinned", "Check `log_cpu`."),
    event(
        2505,
        "the log's thread panicked; its last lines are lost",
        "Report it with the text on standard error.",
    ),
    event(
        2506,
        "lines about the log were left out",
        "Nothing: so many lines of one cause were not told.",
    ),
    event(
        2507,
        "the log cannot be opened yet",
        "`error` says why. The session runs, its lines wait in memory, and the files are opened \
            as soon as they can be.",
    ),
    event(
        2601,
        "our certificate has expired",
        "Counterparties refuse it: have a new one signed, and put it in the place of the \
            old.",
    ),
    event(
        2602,
        "our certificate expires within so many days",
        "Have a new one signed; a running engine takes it over by itself.",
    ),
    event(2603, "certificates were read again: a file has changed", "Nothing."),
    event(
        2604,
        "changed certificates are of no use: the old stay",
        "`error` says what is wrong with the new files.",
    ),
    event(
        2605,
        "nobody watches over the certificates",
        "The system gives no thread: look at its limits.",
    ),
    event(2701, "added", "Nothing."),
    event(2702, "removed", "Nothing."),
    event(
        2703,
        "not begun with its new settings",
        "`error` says why; what counts now is told by the reload.",
    ),
    event(
        2704,
        "operated",
        "Nothing: an operator has done `what`. `audit_hash` proves the audit's end.",
    ),
    event(2705, "not operated", "`why` says why the action was refused."),
    event(
        2706,
        "not operated: the audit file takes nothing",
        "Make room: no action is done meanwhile.",
    ),
    event(
        2707,
        "the audit file has no end of an action",
        "The action was done, and its end could not be written: make room.",
    ),
    event(
        2708,
        "the last line of the audit file was not whole; it is in FILE.torn",
        "Nothing: a crash has left it, and the chain says so.",
    ),
    event(
        2709,
        "not begun again",
        "A session could not begin with its new settings, nor with its old ones: `error` says why. \
            Mend the cause, and reload.",
    ),
    event(2710, "not in the audit: its file takes nothing", "Make room: nobody logs in meanwhile."),
    event(2801, "latency", "Nothing: `latency_at_stop` wants it."),
    event(
        2802,
        "a latency is unusual",
        "The p99 of `stage`, `p99_ns`, is more than `latency_unusual_percent` of the usual one, \
            `usual_ns`, and above all of the last thirty windows. `callback` is your application, \
            `committed` the disk, `written` and `test_request` the network and the counterparty; \
            all stages at once are the machine: look for what else runs on its CPUs.",
    ),
    event(2803, "a latency is usual again", "Nothing: it is as before."),
    event(
        2804,
        "an unusual latency is the usual one now",
        "It has lasted for thirty windows and is no longer told. If nothing was changed, find out \
            why: the book's page \"Latency\" says what each stage holds.",
    ),
    event(
        2805,
        "too few messages to call a latency unusual any longer",
        "Nothing: the session or the stage rests, and is judged again when it has enough messages.",
    ),
    event(
        2806,
        "a latency is unusual again and again",
        "It has left its usual range `times` times in `windows` windows since it was last told: \
            look for what happens in turns, such as a job that runs each few minutes. \
            `is_unusual` says how it is now.",
    ),
];
