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

/// Each event with its number, its text and what to do. Hundreds are subjects: 20 sessions, 21
/// doors, 22 stores, 23 applications, 24 threads, 25 logs, 26 certificates, 27 administration, 28
/// figures.
macro_rules! events {
    ($($name:ident = $code:literal, $text:literal, $remedy:literal;)*) => {
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
    LoggedOn = 2001,
        "logged on",
        "Nothing: it trades.";
    Disconnected = 2002,
        "disconnected",
        "`reason` says who ended it and why, with the Text(58) of the counterparty's Logout(5). \
        The page \"Codes\" has each reason.";
    ConnectionFailed = 2003,
        "connection failed",
        "Nobody listens at `destination`, or the way there is closed. It is tried again.";
    ConnectionBroke = 2004,
        "the connection broke",
        "The network or the counterparty's machine: `error` is what the system says. The \
        session connects again and asks for what it lacks.";
    LogonRefused = 2005,
        "Logon(A) refused",
        "`why` says what is wrong with it: compare with the counterparty what both have set.";
    ConnectionRefused = 2006,
        "refused a connection",
        "`why` says it: there is one already, the session is logged out by hand, its store has \
        failed, or its window is closed.";
    AttemptsGivenUp = 2007,
        "no further attempt to connect",
        "`reconnect_attempts_max` is reached. Remove the cause, then use the action `log_on`.";
    Window = 2008,
        "window",
        "Nothing: the schedule was read, and this is its next window.";
    WindowClosed = 2009,
        "logging out: the window has closed",
        "Nothing: the schedule wants it.";
    WindowOpened = 2010,
        "numbers start again: a window has opened",
        "Nothing: the schedule wants it.";
    NumbersBeginAgain = 2011,
        "the numbers begin again at 1",
        "If nobody wanted a reset, ask the counterparty why its Logon(A) had \
        ResetSeqNumFlag(141)=Y.";
    NumbersTaken = 2012,
        "numbers of the store taken",
        "Another process has changed the store meanwhile: its numbers count.";
    ReadyAgain = 2013,
        "the session is ready again",
        "Nothing: its store takes messages again, or its application is back.";
    Resending = 2014,
        "resending",
        "Nothing: the counterparty has asked for messages again.";
    AskedAgain = 2015,
        "the same ResendRequest(2) again",
        "The counterparty asks in a loop: it does not take what comes. Ask its operator; the \
        session ends by itself after some.";
    NotStored = 2016,
        "not in the store, filled as a gap",
        "The counterparty has asked for messages that the store does not have, from `missing` \
        on. If they were orders, tell it.";
    Skipped = 2017,
        "skipped",
        "`reason` says what was wrong with the bytes; the protocol log has them behind the word \
        `garbled`.";
    WouldBeRejected = 2018,
        "the counterparty would reject it",
        "Our own message is not valid: `reject` says why. Mend the program.";
    GivenBack = 2019,
        "not sent, and given back",
        "The application has the message again, by `on_unsent`; `why` says why.";
    NotAnswered = 2020,
        "the answer of the application could not be sent",
        "`why` is the cause. For a mistake of the program the counterparty got a \
        BusinessMessageReject(j): mend the program.";
    SlowConsumer = 2021,
        "the counterparty takes its messages slowly",
        "It reads too slowly, or the network is full. Beyond the limits of the settings it is \
        disconnected.";
    CaughtUp = 2022,
        "the counterparty has caught up",
        "Nothing: it reads again.";
    MessageRejected = 2023,
        "which message of the counterparty was rejected, and why",
        "Our Reject(3) has told the counterparty. Tell its operator, if it happens often.";
    RejectedByCounterparty = 2024,
        "which message of ours the counterparty has rejected, and why",
        "Its Reject(3) or BusinessMessageReject(j) says why. Mend what sends such messages.";
    Undone = 2025,
        "what comes again and what never left, in words",
        "A failure of the store or a panic has undone it: see \"A message is missing: what \
        now?\".";
    SpeaksTls = 2026,
        "the counterparty speaks TLS, and the settings of the session have no tls",
        "Set `tls`, or have the counterparty connect without.";
    LogonFieldsLeftOut = 2027,
        "fields of the Logon(A) are left out",
        "`error` says which cannot be written: mend `logon.fields`.";
    DictionaryOfAnotherVersion = 2028,
        "the dictionary is of another version",
        "Check `dictionary`: messages are judged by it all the same.";
    NoValidation = 2029,
        "no validation",
        "The dictionary could not be made: `error` says why, and messages are not validated.";
    NotRouted = 2030,
        "a message could not be passed on",
        "DeliverToCompID(128) names a session that does not take it: `why` says why.";
    LogonUnanswered = 2031,
        "the application has not judged a Logon(A) in time",
        "`judge_logon` takes longer than `logon_timeout_ms`: make it faster.";
    JudgingPanicked = 2032,
        "judging a Logon(A) panicked: it is refused",
        "Mend `judge_logon`: the place of the panic stands on standard error.";
    LinesLeftOut = 2033,
        "lines were left out",
        "Nothing: so many lines of one cause were not told.";
    QueueStays = 2034,
        "messages wait in the store, and are not sent without offline = \"queue\"",
        "Set `offline = \"queue\"` again to send them, or clear them by `transfix store queue`.";
    NotDelivered = 2035,
        "messages above a gap are not delivered, in words",
        "The counterparty has given them up by a SequenceReset(4) or a reset of the numbers: \
        ask it whether they count.";
    FaultyReject = 2036,
        "what is wrong with a Reject(3) of the counterparty, in words",
        "Nothing was answered, and its number counts. Tell the counterparty.";
    UnaskedReset = 2037,
        "the answer to our Logon(A) resets the numbers, which was not asked for",
        "What was sent before is not resent. Ask the counterparty why its answer has \
        ResetSeqNumFlag(141)=Y.";
    FaultyLogout = 2038,
        "what is wrong with a Logout(5) of the counterparty, in words",
        "The session has ended all the same. Tell the counterparty, or check `dictionary`.";
    NotTaken = 2039,
        "a message of the counterparty is not taken",
        "Our BusinessMessageReject(j) has told the counterparty: `seq` is the number of its \
        message, `reason` and `text` say why. Up to FIX 4.1 it was a Reject(3).";
    LogonWaits = 2101,
        "a Logon(A) waits, as many have failed",
        "Somebody tries passwords, or a counterparty has an old one: `asked` says for which \
        session.";
    ProxyHeaderMissing = 2102,
        "closed: a proxy of proxy_protocol_from has to say for whom it connects",
        "Switch the PROXY protocol on at the proxy.";
    ClosedLogonRefused = 2103,
        "closed: its Logon(A) was refused",
        "`reason` says why: the password, the certificate, or the application.";
    ClosedForAddress = 2104,
        "closed: its address is not one of those of this session (allow_from)",
        "Add the address to `allow_from`, if it is the counterparty's.";
    ClosedForCertificate = 2105,
        "closed: its certificate is none of those of this session (tls.peer)",
        "Add the certificate's name or fingerprint to `tls.peer`, if it is the counterparty's.";
    ClosedBeingJudged = 2106,
        "closed: its first Logon(A) is still being judged",
        "Nothing: the counterparty was in a hurry.";
    ClosedForNobody = 2107,
        "closed: no Logon(A) of a session of these settings",
        "Compare `asked` with the CompIDs and the version in the settings.";
    ClosedForTls = 2108,
        "closed: no TLS connection came about",
        "`reason` says which side refused what.";
    ClosedForStranger = 2109,
        "closed: no session here has its address in allow_from",
        "Nothing, if it is a stranger.";
    ClosedForPlainPort = 2110,
        "closed: the counterparty speaks TLS, this port none",
        "Set `tls`, or tell the counterparty the right port.";
    ClosedForGarbage = 2111,
        "closed: the first bytes are no message",
        "Nothing, if it is a stranger: not FIX.";
    ClosedForOther = 2112,
        "closed: there is one already, which has not been looked at yet",
        "The counterparty connects twice.";
    ClosedForRoom = 2113,
        "closed: too many connections without a Logon(A), and this one is old",
        "A flood, or counterparties that connect and say nothing: look for the address.";
    ClosedForThread = 2114,
        "closed: no thread to judge a Logon(A)",
        "The system gives no thread: look at its limits.";
    NotAccepted = 2115,
        "a connection could not be accepted",
        "Mostly too many open files: raise the limit.";
    JudgingTooLong = 2116,
        "judging a Logon(A) took longer than its connection may wait",
        "`judge_logon` is slow: make it faster.";
    StrangerLinesLeftOut = 2117,
        "lines about strangers were left out",
        "Nothing: so many lines of one cause were not told.";
    NotWatched = 2118,
        "nobody can come in at a new address",
        "`error` says why its listener cannot be watched: try the reload again.";
    NoFurtherSession = 2119,
        "no further session is made",
        "`created_sessions_max` is reached: raise it, or set `created_sessions_idle_s`.";
    MadeFromTemplate = 2120,
        "made from a template",
        "Nothing: a counterparty that the application admits has come.";
    GoneWithoutConnection = 2121,
        "gone: without a connection for long",
        "Nothing: its store and numbers stay.";
    FewFilesForLogons = 2122,
        "too few open files: fewer connections may wait for their Logon(A) than are set",
        "Raise the limit of open files (`LimitNOFILE`).";
    StoreFailed = 2201,
        "store failed",
        "`error` says why. The session is disconnected; its store is tried again by itself.";
    StoreNotOpened = 2202,
        "the store does not open again",
        "Mend the cause in `error`: the disk, or the rights. It is tried again.";
    StoreNotRead = 2203,
        "the store cannot be read again",
        "As above: nothing is taken meanwhile.";
    LeftInDoubt = 2204,
        "in doubt: only the store can tell whether it has them",
        "Nothing now: it is told when the store is open again.";
    SentInDoubt = 2205,
        "sent as the store failed: comes back when it is open again",
        "Nothing now: the application is told by `on_undone`.";
    NotGivenBack = 2206,
        "not given back: they wait again",
        "The application could not be told: it will be.";
    QueueDamaged = 2207,
        "what waits in the store is no message",
        "The queue in the store is damaged: `transfix store verify`.";
    BatchCut = 2208,
        "an unfinished batch was cut",
        "Nothing: a crash has left it, and nothing of it was sent.";
    SegmentNotPrepared = 2209,
        "the next segment of a store cannot be made beforehand",
        "The disk is nearly full or slow: the session makes it itself, and stalls.";
    SegmentsStay = 2210,
        "old segments stay where they are",
        "`error` says why they cannot be moved or deleted.";
    StoreOnNetwork = 2211,
        "the store may lie on a network file system",
        "A network file system may lose what it has confirmed: use a local disk.";
    FewMappings = 2212,
        "more than half of the memory mappings are used, and stores take more as they grow; \
        raise the limit (sysctl vm.max_map_count)",
        "Do as it says.";
    ReopeningPanicked = 2213,
        "panicked while it was brought back",
        "Mend the callback; the session is tried again.";
    LockDamaged = 2214,
        "the lock file of a store was damaged",
        "It is written anew. Something else than an engine has changed it: compare the numbers \
        with the counterparty's, since segments at the end may be missing too.";
    StoreOlder = 2215,
        "an older copy of a store is in its place",
        "It ends at `next_in` and `next_out`; it was closed with `had_next_in` and \
        `had_next_out`. Stop the engine and put the newer copy back; if it is lost, compare the \
        numbers with the counterparty's before you trade.";
    NumbersNotKept = 2216,
        "the numbers of a store cannot be kept beside it",
        "`error` says why. An older copy of the store would not be noticed at the next start.";
    CallbackHangs = 2301,
        "a callback has not returned",
        "The named callback waits for something: look where it stands (a debugger, `perf`).";
    CallbackReturned = 2302,
        "a slow callback has returned",
        "It took `ms`: its session waited meanwhile, and others of the same thread.";
    Panicked = 2303,
        "panicked: the connection ends; the last message counts, and is not repeated",
        "Mend the callback: see \"A panic of the application\".";
    ApplicationFull = 2304,
        "as much waits for the application as may",
        "The application is too slow for what comes: the settings say what follows.";
    ApplicationHasRoom = 2305,
        "there is room before the application",
        "Nothing: it has caught up.";
    ApplicationsLeft = 2306,
        "applications have not returned: their threads are left to them",
        "At the end of the program a callback did not return.";
    ThreadFailed = 2401,
        "a thread of the engine has failed, and goes on",
        "Report it with `error`.";
    ThreadFailedForGood = 2402,
        "a thread of the engine has failed: the process ends",
        "`thread_lost = \"abort\"` wants it. Report it with `error`.";
    ThreadPanicked = 2403,
        "a thread of the engine has panicked, and goes on",
        "A defect of the engine, or of a store of your own: report it with the text on standard \
        error.";
    ThreadPanickedForGood = 2404,
        "a thread of the engine has panicked: the process ends",
        "As above; `thread_lost = \"abort\"` wants the end.";
    HelperCpusRefused = 2405,
        "a thread that helps the stores cannot choose its CPUs",
        "Check `helper_cpus`.";
    ThreadNotPinned = 2406,
        "thread cannot be pinned",
        "Check `cpu`, `cpus`: the process may not use that CPU.";
    GivenToOtherWorker = 2407,
        "given to a worker that has less to do",
        "Nothing.";
    ThreadLinesLeftOut = 2408,
        "lines about lost threads were left out",
        "Nothing: so many lines of one cause were not told.";
    LogLinesLost = 2501,
        "lines of the log are lost",
        "The disk takes nothing: `error` says why. Trading goes on.";
    LogNotCompressed = 2502,
        "log is not compressed",
        "The file stays as it is: `error` says why.";
    LogNotRolled = 2503,
        "log is not rolled",
        "The file grows on: `error` says why.";
    LogThreadNotPinned = 2504,
        "the log's thread cannot be pinned",
        "Check `log_cpu`.";
    LogThreadPanicked = 2505,
        "the log's thread panicked; its last lines are lost",
        "Report it with the text on standard error.";
    LogLinesLeftOut = 2506,
        "lines about the log were left out",
        "Nothing: so many lines of one cause were not told.";
    LogNotOpened = 2507,
        "the log cannot be opened yet",
        "`error` says why. The session runs, its lines wait in memory, and the files are opened \
        as soon as they can be.";
    LogEndsWithLoss = 2508,
        "lines of a log were lost at its end",
        "`error` says why: the session had ended before its files could be opened.";
    CertificateExpired = 2601,
        "our certificate has expired",
        "Counterparties refuse it: have a new one signed, and put it in the place of the old.";
    CertificateExpires = 2602,
        "our certificate expires within so many days",
        "Have a new one signed; a running engine takes it over by itself.";
    CertificatesRenewed = 2603,
        "certificates were read again: a file has changed",
        "Nothing.";
    CertificatesUnusable = 2604,
        "changed certificates are of no use: the old stay",
        "`error` says what is wrong with the new files.";
    CertificatesUnwatched = 2605,
        "nobody watches over the certificates",
        "The system gives no thread: look at its limits.";
    SessionAdded = 2701,
        "added",
        "Nothing.";
    SessionRemoved = 2702,
        "removed",
        "Nothing.";
    SessionNotBegun = 2703,
        "not begun with its new settings",
        "`error` says why; what counts now is told by the reload.";
    Operated = 2704,
        "operated",
        "Nothing: an operator has done `what`. `audit_hash` proves the audit's end.";
    NotOperated = 2705,
        "not operated",
        "`why` says why the action was refused.";
    AuditTakesNothing = 2706,
        "not operated: the audit file takes nothing",
        "Make room: no action is done meanwhile.";
    AuditEndMissing = 2707,
        "the audit file has no end of an action",
        "The action was done, and its end could not be written: make room.";
    AuditLineTorn = 2708,
        "the last line of the audit file was not whole; it is in FILE.torn",
        "Nothing: a crash has left it, and the chain says so.";
    SessionNotBack = 2709,
        "not begun again",
        "A session could not begin with its new settings, nor with its old ones: `error` says why. \
        Mend the cause, and reload.";
    NotInAudit = 2710,
        "not in the audit: its file takes nothing",
        "Make room: nobody logs in meanwhile.";
    Latency = 2801,
        "latency",
        "Nothing: `latency_at_stop` wants it.";
    LatencyUnusual = 2802,
        "a latency is unusual",
        "The p99 of `stage`, `p99_ns`, is more than `latency_unusual_percent` of the usual one, \
        `usual_ns`, and above all of the last thirty windows. `callback` is your application, \
        `committed` the disk, `written` and `test_request` the network and the counterparty; \
        all stages at once are the machine: look for what else runs on its CPUs.";
    LatencyUsual = 2803,
        "a latency is usual again",
        "Nothing: it is as before.";
    LatencyUsualNow = 2804,
        "an unusual latency is the usual one now",
        "It has lasted for thirty windows and is no longer told. If nothing was changed, find \
        out why: the book's page \"Latency\" says what each stage holds.";
    LatencyNotJudged = 2805,
        "too few messages to call a latency unusual any longer",
        "Nothing: the session or the stage rests, and is judged again when it has enough \
        messages.";
    LatencyChanges = 2806,
        "a latency is unusual again and again",
        "It has left its usual range `times` times in `windows` windows since it was last told: \
        look for what happens in turns, such as a job that runs each few minutes. `is_unusual` \
        says how it is now.";
}
