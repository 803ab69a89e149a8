//! The codes of the engine's events, and what an operator does about each.
//!
//! Invariant: a code never changes, and is never given to another event; each is written at one
//! place in the code. The book's list is made from this table, and a test holds it against the
//! places that write events.

/// Writes an event. Arguments: its level, its code, and what it says more, as fields of `tracing`.
/// Of an event that has other words each time they stand at the end, behind a semicolon.
macro_rules! event {
    ($level:ident, $code:ident $(, $who:ident = $name:expr, $left_out:ident)?; $words:expr) => {
        tracing::$level!(
            $($who = $name, $left_out,)?
            event_code = $crate::observe::event_codes::EventCode::$code.as_u16(),
            "{}",
            $words
        )
    };
    ($level:ident, $code:ident $(, $($fields:tt)+)?) => {
        tracing::$level!(
            $($($fields)+,)?
            event_code = $crate::observe::event_codes::EventCode::$code.as_u16(),
            "{}",
            $crate::observe::event_codes::EventCode::$code.text()
        )
    };
}

pub(crate) use event;

use crate::settings::EventLevel;

/// Each event with its number, levels, text and what to do. Hundreds are subjects: 20 sessions, 21
/// doors, 22 stores, 23 applications, 24 threads, 25 logs, 26 certificates, 27 administration, 28
/// figures.
macro_rules! events {
    ($($name:ident = $code:literal, $($level:ident)|+, $text:literal, $remedy:literal;)*) => {
        /// An event of the engine. Its number never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum EventCode {
            $(#[doc = concat!($text, ".")] $name = $code,)*
        }

        impl EventCode {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its number.
            #[must_use]
            pub const fn as_u16(self) -> u16 {
                self as u16
            }

            /// Its name in the code.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The levels it is written at: two for an event that is worse in some cases.
            #[must_use]
            pub const fn levels(self) -> &'static [EventLevel] {
                match self {
                    $(Self::$name => &[$(EventLevel::$level),+],)*
                }
            }

            /// Its text, as the event has it. Of an event that has other words each time: what they
            /// are about.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What to do.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$name => $remedy,)*
                }
            }

            /// The event with this number, if there is one.
            #[must_use]
            pub const fn from_u16(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    LoggedOn = 2001, Info,
        "logged on",
        "Nothing: it trades.";
    Disconnected = 2002, Info | Warn,
        "disconnected",
        "`reason` says who ended it and why, with the Text(58) of the counterparty's Logout(5). \
        The page \"Codes\" has each reason.";
    ConnectionFailed = 2003, Warn,
        "connection failed",
        "Nobody listens at `destination`, or the way there is closed. It is tried again.";
    ConnectionBroke = 2004, Warn,
        "the connection broke",
        "The network or the counterparty's machine: `error` is what the system says. The \
        session connects again and asks for what it lacks.";
    LogonRefused = 2005, Warn,
        "Logon(A) refused",
        "`why` says what is wrong with it: compare with the counterparty what both have set.";
    ConnectionRefused = 2006, Warn,
        "refused a connection",
        "`why` says it: there is one already, the session is logged out by hand, its store has \
        failed, or its window is closed.";
    AttemptsGivenUp = 2007, Error,
        "no further attempt to connect",
        "`reconnect_attempts_max` is reached. Remove the cause, then use the action `log_on`.";
    Window = 2008, Info,
        "window",
        "Nothing: the schedule was read, and this is its next window.";
    WindowClosed = 2009, Info,
        "logging out: the window has closed",
        "Nothing: the schedule wants it.";
    WindowOpened = 2010, Info,
        "numbers start again: a window has opened",
        "Nothing: the schedule wants it.";
    NumbersBeginAgain = 2011, Info,
        "the numbers begin again at 1",
        "If nobody wanted a reset, ask the counterparty why its Logon(A) had \
        ResetSeqNumFlag(141)=Y.";
    NumbersTaken = 2012, Info,
        "numbers of the store taken",
        "Another process has changed the store meanwhile: its numbers count.";
    ReadyAgain = 2013, Info,
        "the session is ready again",
        "Nothing: its store takes messages again, or its application is back.";
    Resending = 2014, Info,
        "resending",
        "Nothing: the counterparty has asked for messages again.";
    AskedAgain = 2015, Warn,
        "the same ResendRequest(2) again",
        "The counterparty asks in a loop: it does not take what comes. Ask its operator; the \
        session ends by itself after some.";
    NotStored = 2016, Warn,
        "not in the store, filled as a gap",
        "The counterparty has asked for messages that the store does not have, from `missing` \
        on. If they were orders, tell it.";
    Skipped = 2017, Warn,
        "skipped",
        "`reason` says what was wrong with the bytes; the protocol log has them behind the word \
        `garbled`.";
    WouldBeRejected = 2018, Warn,
        "the counterparty would reject it",
        "Our own message is not valid: `reject` says why. Mend the program.";
    GivenBack = 2019, Warn,
        "not sent, and given back",
        "The application has the message again, by `on_unsent`; `why` says why.";
    NotAnswered = 2020, Warn,
        "the answer of the application could not be sent",
        "`why` is the cause. For a mistake of the program the counterparty got a \
        BusinessMessageReject(j): mend the program.";
    SlowConsumer = 2021, Warn,
        "the counterparty takes its messages slowly",
        "It reads too slowly, or the network is full. Beyond the limits of the settings it is \
        disconnected.";
    CaughtUp = 2022, Info,
        "the counterparty has caught up",
        "Nothing: it reads again.";
    MessageRejected = 2023, Warn,
        "which message of the counterparty was rejected, and why",
        "Our Reject(3) has told the counterparty. Tell its operator, if it happens often.";
    RejectedByCounterparty = 2024, Warn,
        "which message of ours the counterparty has rejected, and why",
        "Its Reject(3) or BusinessMessageReject(j) says why. Mend what sends such messages.";
    Undone = 2025, Warn,
        "what comes again and what never left, in words",
        "A failure of the store or a panic has undone it: see \"A message is missing: what \
        now?\".";
    SpeaksTls = 2026, Error,
        "the counterparty speaks TLS, and the settings of the session have no tls",
        "Set `tls`, or have the counterparty connect without.";
    LogonFieldsLeftOut = 2027, Error,
        "fields of the Logon(A) are left out",
        "`error` says which cannot be written: mend `logon.fields`.";
    DictionaryOfAnotherVersion = 2028, Warn,
        "the dictionary is of another version",
        "Check `dictionary`: messages are judged by it all the same.";
    NoValidation = 2029, Error,
        "no validation",
        "The dictionary could not be made: `error` says why, and messages are not validated.";
    NotRouted = 2030, Warn,
        "a message could not be passed on",
        "DeliverToCompID(128) names a session that does not take it: `why` says why.";
    LogonUnanswered = 2031, Error,
        "the application has not judged a Logon(A) in time",
        "`judge_logon` takes longer than `logon_timeout_ms`: make it faster.";
    JudgingPanicked = 2032, Error,
        "judging a Logon(A) panicked: it is refused",
        "Mend `judge_logon`: the place of the panic stands on standard error.";
    LinesLeftOut = 2033, Warn,
        "lines were left out",
        "Nothing: so many lines of one cause were not told.";
    QueueStays = 2034, Warn,
        "messages wait in the store, and are not sent without offline = \"queue\"",
        "Set `offline = \"queue\"` again to send them, or clear them by `transfix store queue`.";
    NotDelivered = 2035, Warn,
        "messages above a gap are not delivered, in words",
        "The counterparty has given them up by a SequenceReset(4) or a reset of the numbers: \
        ask it whether they count.";
    FaultyReject = 2036, Warn,
        "what is wrong with a Reject(3) of the counterparty, in words",
        "Nothing was answered, and its number counts. Tell the counterparty.";
    UnaskedReset = 2037, Warn,
        "the answer to our Logon(A) resets the numbers, which was not asked for",
        "What was sent before is not resent. Ask the counterparty why its answer has \
        ResetSeqNumFlag(141)=Y.";
    FaultyLogout = 2038, Warn,
        "what is wrong with a Logout(5) of the counterparty, in words",
        "The session has ended all the same. Tell the counterparty, or check `dictionary`.";
    NotTaken = 2039, Warn,
        "a message of the counterparty is not taken",
        "Our BusinessMessageReject(j) has told the counterparty: `seq` is the number of its \
        message, `reason` and `text` say why. Up to FIX 4.1 it was a Reject(3).";
    LogonWaits = 2101, Warn,
        "a Logon(A) waits, as many have failed",
        "Somebody tries passwords, or a counterparty has an old one: `asked` says for which \
        session.";
    ProxyHeaderMissing = 2102, Warn,
        "closed: a proxy of proxy_protocol_from has to say for whom it connects",
        "Switch the PROXY protocol on at the proxy.";
    ClosedLogonRefused = 2103, Warn,
        "closed: its Logon(A) was refused",
        "`reason` says why: the password, the certificate, or the application.";
    ClosedForAddress = 2104, Warn,
        "closed: its address is not one of those of this session (allow_from)",
        "Add the address to `allow_from`, if it is the counterparty's.";
    ClosedForCertificate = 2105, Warn,
        "closed: its certificate is none of those of this session (tls.peer)",
        "Add the certificate's name or fingerprint to `tls.peer`, if it is the counterparty's.";
    ClosedBeingJudged = 2106, Warn,
        "closed: its first Logon(A) is still being judged",
        "Nothing: the counterparty was in a hurry.";
    ClosedForNobody = 2107, Warn,
        "closed: no Logon(A) of a session of these settings",
        "Compare `asked` with the CompIDs and the version in the settings.";
    ClosedForTls = 2108, Warn,
        "closed: no TLS connection came about",
        "`reason` says which side refused what.";
    ClosedForStranger = 2109, Warn,
        "closed: no session here has its address in allow_from",
        "Nothing, if it is a stranger.";
    ClosedForPlainPort = 2110, Warn,
        "closed: the counterparty speaks TLS, this port none",
        "Set `tls`, or tell the counterparty the right port.";
    ClosedForGarbage = 2111, Warn,
        "closed: the first bytes are no message",
        "Nothing, if it is a stranger: not FIX.";
    ClosedForOther = 2112, Warn,
        "closed: there is one already, which has not been looked at yet",
        "The counterparty connects twice.";
    ClosedForRoom = 2113, Warn,
        "closed: too many connections without a Logon(A), and this one is old",
        "A flood, or counterparties that connect and say nothing: look for the address.";
    ClosedForThread = 2114, Error,
        "closed: no thread to judge a Logon(A)",
        "The system gives no thread: look at its limits.";
    NotAccepted = 2115, Error,
        "a connection could not be accepted",
        "Mostly too many open files: raise the limit.";
    JudgingTooLong = 2116, Warn,
        "judging a Logon(A) took longer than its connection may wait",
        "`judge_logon` is slow: make it faster.";
    StrangerLinesLeftOut = 2117, Warn,
        "lines about strangers were left out",
        "Nothing: so many lines of one cause were not told.";
    NotWatched = 2118, Error,
        "nobody can come in at a new address",
        "`error` says why its listener cannot be watched: try the reload again.";
    NoFurtherSession = 2119, Warn,
        "no further session is made",
        "`created_sessions_max` is reached: raise it, or set `created_sessions_idle_s`.";
    MadeFromTemplate = 2120, Info,
        "made from a template",
        "Nothing: a counterparty that the application admits has come.";
    GoneWithoutConnection = 2121, Info,
        "gone: without a connection for long",
        "Nothing: its store and numbers stay.";
    FewFilesForLogons = 2122, Warn,
        "too few open files: fewer connections may wait for their Logon(A) than are set",
        "Raise the limit of open files (`LimitNOFILE`).";
    StoreFailed = 2201, Error,
        "store failed",
        "`error` says why. The session is disconnected; its store is tried again by itself.";
    StoreNotOpened = 2202, Error,
        "the store does not open again",
        "Mend the cause in `error`: the disk, or the rights. It is tried again.";
    StoreNotRead = 2203, Error,
        "the store cannot be read again",
        "Mend the cause in `error`: the disk, or the rights. It is tried again, and nothing is \
        taken meanwhile.";
    LeftInDoubt = 2204, Error,
        "in doubt: only the store can tell whether it has them",
        "Nothing now: it is told when the store is open again.";
    SentInDoubt = 2205, Error,
        "sent as the store failed: comes back when it is open again",
        "Nothing now: the application is told by `on_undone`.";
    NotGivenBack = 2206, Error,
        "not given back: they wait again",
        "The application could not be told: it will be.";
    QueueDamaged = 2207, Error,
        "what waits in the store is no message",
        "The queue in the store is damaged: `transfix store verify`.";
    BatchCut = 2208, Warn,
        "an unfinished batch was cut",
        "Nothing: a crash has left it, and nothing of it was sent.";
    SegmentNotPrepared = 2209, Warn,
        "the next segment of a store cannot be made beforehand",
        "The disk is nearly full or slow: the session makes it itself, and stalls.";
    SegmentsStay = 2210, Error,
        "old segments stay where they are",
        "`error` says why they cannot be moved or deleted.";
    StoreOnNetwork = 2211, Warn,
        "the store may lie on a network file system",
        "A network file system may lose what it has confirmed: use a local disk.";
    FewMappings = 2212, Warn,
        "more than half of the memory mappings are used, and stores take more as they grow; \
        raise the limit (sysctl vm.max_map_count)",
        "Do as it says.";
    ReopeningPanicked = 2213, Error,
        "panicked while it was brought back",
        "Mend the callback; the session is tried again.";
    LockDamaged = 2214, Error,
        "the lock file of a store was damaged",
        "It is written anew. Something else than an engine has changed it: compare the numbers \
        with the counterparty's, since segments at the end may be missing too.";
    StoreOlder = 2215, Error,
        "an older copy of a store is in its place, or the store was missing and is new",
        "It ends at `next_in` and `next_out`; it was closed with `had_next_in` and \
        `had_next_out`. Stop the engine and put the newer copy back; if it is lost, compare the \
        numbers with the counterparty's before you trade.";
    NumbersNotKept = 2216, Warn,
        "the numbers of a store cannot be kept beside it",
        "`error` says why. An older copy of the store would not be noticed at the next start.";
    CallbackHangs = 2301, Warn,
        "a callback has not returned",
        "The named callback waits for something: look where it stands (a debugger, `perf`).";
    CallbackReturned = 2302, Warn,
        "a slow callback has returned",
        "It took `ms`: its session waited meanwhile, and others of the same thread.";
    Panicked = 2303, Error,
        "panicked: the connection ends; the last message counts, and is not repeated",
        "Mend the callback: see \"A panic of the application\".";
    ApplicationFull = 2304, Warn,
        "as much waits for the application as may",
        "The application is too slow for what comes: the settings say what follows.";
    ApplicationHasRoom = 2305, Info,
        "there is room before the application",
        "Nothing: it has caught up.";
    ApplicationsLeft = 2306, Warn,
        "applications have not returned: their threads are left to them",
        "At the end of the program a callback did not return.";
    ThreadFailed = 2401, Error,
        "a thread of the engine has failed, and goes on",
        "Report it with `error`.";
    ThreadFailedForGood = 2402, Error,
        "a thread of the engine has failed: the process ends",
        "`thread_lost = \"abort\"` wants it. Report it with `error`.";
    ThreadPanicked = 2403, Error,
        "a thread of the engine has panicked, and goes on",
        "A defect of the engine, or of a store of your own: report it with the text on standard \
        error.";
    ThreadPanickedForGood = 2404, Error,
        "a thread of the engine has panicked: the process ends",
        "A defect of the engine, or of a store of your own: report it with the text on standard \
        error. `thread_lost = \"abort\"` wants the end.";
    HelperCpusRefused = 2405, Error,
        "a thread that helps the stores cannot choose its CPUs",
        "Check `helper_cpus`.";
    ThreadNotPinned = 2406, Error,
        "thread cannot be pinned",
        "Check `cpu`, `cpus`: the process may not use that CPU.";
    GivenToOtherWorker = 2407, Info,
        "given to a worker that has less to do",
        "Nothing.";
    ThreadLinesLeftOut = 2408, Warn,
        "lines about lost threads were left out",
        "Nothing: so many lines of one cause were not told.";
    LogLinesLost = 2501, Error,
        "lines of the log are lost",
        "The disk takes nothing: `error` says why. Trading goes on.";
    LogNotCompressed = 2502, Error,
        "log is not compressed",
        "The file stays as it is: `error` says why.";
    LogNotRolled = 2503, Error,
        "log is not rolled",
        "The file grows on: `error` says why.";
    LogThreadNotPinned = 2504, Error,
        "the log's thread cannot be pinned",
        "Check `log_cpu`.";
    LogThreadPanicked = 2505, Error,
        "the log's thread panicked; its last lines are lost",
        "Report it with the text on standard error.";
    LogLinesLeftOut = 2506, Warn,
        "lines about the log were left out",
        "Nothing: so many lines of one cause were not told.";
    LogNotOpened = 2507, Error,
        "the log cannot be opened yet",
        "`error` says why. The session runs, its lines wait in memory, and the files are opened \
        as soon as they can be.";
    LogEndsWithLoss = 2508, Error,
        "lines of a log were lost at its end",
        "`error` says why: the session had ended before its files could be opened.";
    CertificateExpired = 2601, Error,
        "our certificate has expired",
        "Counterparties refuse it: have a new one signed, and put it in the place of the old.";
    CertificateExpires = 2602, Warn,
        "our certificate expires within so many days",
        "Have a new one signed; a running engine takes it over by itself.";
    CertificatesRenewed = 2603, Info,
        "certificates were read again: a file has changed",
        "Nothing.";
    CertificatesUnusable = 2604, Error,
        "changed certificates are of no use: the old stay",
        "`error` says what is wrong with the new files.";
    CertificatesUnwatched = 2605, Error,
        "nobody watches over the certificates",
        "The system gives no thread: look at its limits.";
    SessionAdded = 2701, Info,
        "added",
        "Nothing.";
    SessionRemoved = 2702, Info,
        "removed",
        "Nothing.";
    SessionNotBegun = 2703, Error,
        "not begun with its new settings",
        "`error` says why; what counts now is told by the reload.";
    Operated = 2704, Info,
        "operated",
        "Nothing: an operator has done `what`. `audit_hash` proves the audit's end.";
    NotOperated = 2705, Warn,
        "not operated",
        "`why` says why the action was refused.";
    AuditTakesNothing = 2706, Error,
        "not operated: the audit file takes nothing",
        "Make room: no action is done meanwhile.";
    AuditEndMissing = 2707, Error,
        "the audit file has no end of an action",
        "The action was done, and its end could not be written: make room.";
    AuditLineTorn = 2708, Warn,
        "the last line of the audit file was not whole; it is in FILE.torn",
        "Nothing: a crash has left it, and the chain says so.";
    SessionNotBack = 2709, Error,
        "not begun again",
        "A session could not begin with its new settings, nor with its old ones: `error` says why. \
        Mend the cause, and reload.";
    NotInAudit = 2710, Error,
        "not in the audit: its file takes nothing",
        "Make room: nobody logs in meanwhile.";
    Latency = 2801, Info,
        "latency",
        "Nothing: `latency_at_stop` wants it.";
    LatencyUnusual = 2802, Warn,
        "a latency is unusual",
        "The p99 of `stage`, `p99_ns`, is more than `latency_unusual_percent` of the usual one, \
        `usual_ns`, and above all of the last thirty windows. `callback` is your application, \
        `committed` the disk, `written` and `test_request` the network and the counterparty; \
        all stages at once are the machine: look for what else runs on its CPUs.";
    LatencyUsual = 2803, Info,
        "a latency is usual again",
        "Nothing: it is as before.";
    LatencyUsualNow = 2804, Warn,
        "an unusual latency is the usual one now",
        "It has lasted for thirty windows and is no longer told. If nothing was changed, find \
        out why: the book's page \"Latency\" says what each stage holds.";
    LatencyNotJudged = 2805, Info,
        "too few messages to call a latency unusual any longer",
        "Nothing: the session or the stage rests, and is judged again when it has enough \
        messages.";
    LatencyChanges = 2806, Warn,
        "a latency is unusual again and again",
        "It has left its usual range `times` times in `windows` windows since it was last told: \
        look for what happens in turns, such as a job that runs each few minutes. `is_unusual` \
        says how it is now.";
}
