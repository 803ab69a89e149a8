//! The codes of the engine's events, and what an operator does about each.
//!
//! Invariant: a code never changes, and is never given to another event; each is written at one
//! place in the code. The book's list is made from this table, and a test holds it against the
//! places that write events. A text is a statement, and a remedy begins with a verb.

/// Writes an event. Arguments: its level, its code, and what it says more, as fields of `tracing`.
/// The words of an event that differ each time stand at the end, behind a semicolon.
#[macro_export]
macro_rules! event {
    ($level:ident, $code:ident $(, $who:ident = $name:expr, $left_out:ident)?; $words:expr) => {
        tracing::$level!(
            $($who = $name, $left_out,)?
            event_code = $crate::EventCode::$code.as_u16(),
            "{}",
            $words
        )
    };
    ($level:ident, $code:ident $(, $($fields:tt)+)?) => {
        tracing::$level!(
            $($($fields)+,)?
            event_code = $crate::EventCode::$code.as_u16(),
            "{}",
            $crate::EventCode::$code.text()
        )
    };
}

use transfix_settings::EventLevel;

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

            /// Its text, as the event has it. The subject of an event whose words differ each time.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The remedy.
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
        "Do nothing: the session trades.";
    Disconnected = 2002, Info | Warn,
        "disconnected",
        "Read `reason`: it says who ended the connection and why, with the Text(58) of the \
        counterparty's Logout(5). The page \"Codes\" explains each reason.";
    ConnectionFailed = 2003, Warn,
        "connection failed",
        "Check `destination` and the firewalls on the way: nobody listens there, or the way is \
        closed. The session tries again by itself.";
    ConnectionBroke = 2004, Warn,
        "the connection broke",
        "Read `error`, which is what the system says about the network or the counterparty's \
        machine. The session connects again and asks for what it lacks.";
    LogonRefused = 2005, Warn,
        "Logon(A) refused",
        "Read `why`, and compare the settings of both sides with the counterparty.";
    ConnectionRefused = 2006, Warn,
        "refused a connection",
        "Read `why`: the session has a connection already, an operator has logged it out, its \
        store has failed, or its window is closed.";
    AttemptsGivenUp = 2007, Error,
        "the session makes no further attempt to connect",
        "Remove the cause, then use the action `log_on`: `reconnect_attempts_max` is reached.";
    Window = 2008, Info,
        "the next window of the schedule is known",
        "Do nothing: the schedule was read, and `open` and `close` are its next window.";
    WindowClosed = 2009, Info,
        "logging out: the window has closed",
        "Do nothing: the schedule asks for the logout.";
    WindowOpened = 2010, Info,
        "numbers start again: a window has opened",
        "Do nothing: the schedule asks for the reset.";
    NumbersBeginAgain = 2011, Info,
        "the numbers begin again at 1",
        "Ask the counterparty why its Logon(A) had ResetSeqNumFlag(141)=Y, if nobody wanted a \
        reset.";
    NumbersTaken = 2012, Info,
        "the session has taken over the numbers of the store",
        "Find out which other process has changed the store, if nobody meant to: its numbers \
        count.";
    ReadyAgain = 2013, Info,
        "the session is ready again",
        "Do nothing: the store takes messages again, or the application is back.";
    Resending = 2014, Info,
        "the session is resending messages",
        "Do nothing: the counterparty has asked for messages again.";
    AskedAgain = 2015, Warn,
        "the counterparty sent the same ResendRequest(2) again",
        "Ask the operator of the counterparty: it asks in a loop and does not take the answers. \
        After some repetitions the session ends by itself.";
    NotStored = 2016, Warn,
        "messages are not in the store; a gap fill replaces them",
        "Tell the counterparty, if the messages were orders: it asked for messages that the \
        store does not have, from `missing` on.";
    Skipped = 2017, Warn,
        "bytes were skipped",
        "Read `reason`, and find the bytes in the protocol log behind the word `garbled`.";
    WouldBeRejected = 2018, Warn,
        "our message is not valid: the counterparty would reject it",
        "Mend the program that made the message: `reject` says why it is not valid.";
    GivenBack = 2019, Warn,
        "a message was not sent, and given back",
        "Handle the message of `SessionNotice::Unsent`, which the application got; `why` says the \
        cause.";
    NotAnswered = 2020, Warn,
        "the answer of the application could not be sent",
        "Read `why`. Mend the program, if the mistake is its own: then the counterparty got a \
        BusinessMessageReject(j).";
    SlowConsumer = 2021, Warn,
        "the counterparty takes its messages slowly",
        "Ask the counterparty why it reads too slowly, or look for a full network. Beyond the \
        limits of the settings the session is disconnected.";
    CaughtUp = 2022, Info,
        "the counterparty has caught up",
        "Do nothing: the counterparty reads again.";
    MessageRejected = 2023, Warn,
        "a message of the counterparty was rejected; the line says which and why",
        "Tell the operator of the counterparty, if it happens often. Our Reject(3) has told the \
        counterparty's engine.";
    RejectedByCounterparty = 2024, Warn,
        "the counterparty rejected a message of ours; the line says which and why",
        "Mend the program that sends such messages: the Reject(3) or BusinessMessageReject(j) \
        says why.";
    RolledBack = 2025, Warn,
        "a failure undid a turn; its messages come again",
        "Follow the page \"A message is missing: what now?\". The cause is a failure of the \
        store or a panic.";
    SpeaksTls = 2026, Error,
        "the counterparty speaks TLS, and the settings of the session have no tls",
        "Set `tls`, or have the counterparty connect without TLS.";
    LogonFieldsLeftOut = 2027, Error,
        "fields of the Logon(A) are left out",
        "Mend `logon.fields`: `error` says which fields cannot be written.";
    DictionaryOfAnotherVersion = 2028, Warn,
        "the dictionary is of another version",
        "Check `dictionary`: it is of another version than the session, and judges its messages \
        all the same.";
    NoValidation = 2029, Error,
        "messages are not validated: there is no dictionary",
        "Mend the dictionary: `error` says why it could not be made.";
    NotRouted = 2030, Warn,
        "a message could not be passed on",
        "Read `why`: DeliverToCompID(128) names a session that does not take the message.";
    LogonUnanswered = 2031, Error,
        "the application has not judged a Logon(A) in time",
        "Make `judge_logon` faster: it takes longer than `logon_timeout_ms`.";
    JudgingPanicked = 2032, Error,
        "judging a Logon(A) panicked; the Logon(A) is refused",
        "Mend `judge_logon`: standard error has the place of the panic.";
    LinesLeftOut = 2033, Warn,
        "lines were left out",
        "Do nothing: the event stands for `left_out` lines of one cause that were left out.";
    NotDelivered = 2035, Warn,
        "messages above a gap are not delivered; the line says which",
        "Ask the counterparty whether the messages count: it gave them up by a SequenceReset(4) \
        or a reset of the numbers.";
    FaultyReject = 2036, Warn,
        "a Reject(3) of the counterparty is faulty; the line says why",
        "Tell the counterparty. Our session sent no answer, and the number of the Reject(3) \
        counts.";
    UnaskedReset = 2037, Warn,
        "the answer to our Logon(A) resets the numbers, which was not asked for",
        "Ask the counterparty why its answer has ResetSeqNumFlag(141)=Y. Messages sent before \
        are not resent.";
    FaultyLogout = 2038, Warn,
        "a Logout(5) of the counterparty is faulty; the line says why",
        "Tell the counterparty, or check `dictionary`. The session has ended all the same.";
    NotTaken = 2039, Warn,
        "a message of the counterparty is not taken",
        "Read `reason` and `text`; `seq` is the number of the message. Our \
        BusinessMessageReject(j), or up to FIX 4.1 our Reject(3), has told the counterparty.";
    StoredGone = 2040, Warn,
        "the numbers begin again: messages that were stored without a logon are not sent",
        "Send them again if they still count: `first` and `last` were their numbers.";
    LogonWaits = 2101, Warn,
        "a Logon(A) waits, as many have failed",
        "Look at `asked`, the session: somebody guesses passwords, or a counterparty has an old \
        one.";
    ProxyHeaderMissing = 2102, Warn,
        "closed: a proxy of proxy_protocol_from has to say for whom it connects",
        "Switch on the PROXY protocol at the proxy.";
    ClosedLogonRefused = 2103, Warn,
        "closed: its Logon(A) was refused",
        "Read `reason`: the cause is the password, the certificate, or the application.";
    ClosedForAddress = 2104, Warn,
        "closed: its address is not one of those of this session (allow_from)",
        "Add the address to `allow_from`, if it is the counterparty's.";
    ClosedForCertificate = 2105, Warn,
        "closed: its certificate is none of those of this session (tls.peer)",
        "Add the certificate's name or fingerprint to `tls.peer`, if it is the counterparty's.";
    ClosedBeingJudged = 2106, Warn,
        "closed: its first Logon(A) is still being judged",
        "Do nothing: the counterparty connected again before its first Logon(A) was answered.";
    ClosedForNobody = 2107, Warn,
        "closed: the Logon(A) matches no configured session",
        "Compare `asked` with the CompIDs and the version in the settings.";
    ClosedForTls = 2108, Warn,
        "closed: the TLS handshake failed",
        "Read `reason`: it says which side refused what.";
    ClosedForStranger = 2109, Warn,
        "closed: no session here has its address in allow_from",
        "Do nothing, if it is a stranger. Otherwise add its address to `allow_from`.";
    ClosedForPlainPort = 2110, Warn,
        "closed: the counterparty speaks TLS, and this port does not",
        "Set `tls`, or tell the counterparty the right port.";
    ClosedForGarbage = 2111, Warn,
        "closed: the first bytes are no message",
        "Do nothing, if it is a stranger: the bytes are not FIX.";
    ClosedForOther = 2112, Warn,
        "closed: the session has another new connection already",
        "Ask the counterparty why it connects twice.";
    ClosedForRoom = 2113, Warn,
        "closed: too many connections without a Logon(A), and this one is old",
        "Look for the address: it is a flood, or counterparties connect and send no Logon(A).";
    ClosedForThread = 2114, Error,
        "closed: no thread to judge a Logon(A)",
        "Raise the limits of the system: it gives no thread.";
    NotAccepted = 2115, Error,
        "a connection could not be accepted",
        "Raise the limit of open files, which is the usual cause (`LimitNOFILE`); `error` has \
        the cause.";
    JudgingTooLong = 2116, Warn,
        "judging a Logon(A) took longer than its connection may wait",
        "Make `judge_logon` faster.";
    StrangerLinesLeftOut = 2117, Warn,
        "lines about strangers were left out",
        "Do nothing: the event stands for `left_out` lines of one cause that were left out.";
    NotWatched = 2118, Error,
        "a new address takes no connections",
        "Reload again: `error` says why the listener cannot be watched.";
    NoFurtherSession = 2119, Warn,
        "no further session is made from a template",
        "Raise `created_sessions_max`, or set `created_sessions_idle_s`.";
    MadeFromTemplate = 2120, Info,
        "a session was made from a template",
        "Do nothing: a counterparty that the program admits has logged on.";
    GoneWithoutConnection = 2121, Info,
        "a session from a template is gone: it had no connection for long",
        "Do nothing: its store and numbers stay.";
    FewFilesForLogons = 2122, Warn,
        "too few open files: fewer connections may wait for their Logon(A) than are set",
        "Raise the limit of open files (`LimitNOFILE`).";
    StoreFailed = 2201, Error,
        "store failed",
        "Mend the cause in `error`. The session is disconnected, and the engine opens the store \
        again by itself.";
    StoreNotOpened = 2202, Error,
        "the store does not open again",
        "Mend the cause in `error`: the disk, or the rights. The engine tries again.";
    StoreNotRead = 2203, Error,
        "the store cannot be read again",
        "Mend the cause in `error`: the disk, the rights, or the server of the store and the way \
        to it. The engine tries again, and takes nothing meanwhile.";
    LeftInDoubt = 2204, Error,
        "messages are in doubt: only the store can tell whether it has them",
        "Wait until the store is open again: then the engine reports whether it has the messages.";
    SentInDoubt = 2205, Error,
        "a message was sent as the store failed: it comes back when the store is open again",
        "Wait until the store is open again: the application then gets \
        `SessionNotice::RolledBack`.";
    NotGivenBack = 2206, Error,
        "messages were not given back: they wait again",
        "Wait: the application could not be told, and is told later.";
    QueueDamaged = 2207, Error,
        "a queued message in the store is damaged",
        "Run `transfix store verify`: the queue in the store is damaged.";
    BatchCut = 2208, Warn,
        "an unfinished batch was cut",
        "Do nothing: a crash left the batch, and nothing of it was sent.";
    SegmentNotPrepared = 2209, Warn,
        "the next segment of a store cannot be made beforehand",
        "Look at the disk: it is nearly full or slow. The session makes the segment itself, and \
        stalls meanwhile.";
    SegmentsStay = 2210, Error,
        "old segments stay where they are",
        "Mend the cause in `error`: the segments cannot be moved or deleted.";
    StoreOnNetwork = 2211, Warn,
        "the store may lie on a network file system",
        "Use a local disk: a network file system may lose what it has confirmed.";
    FewMappings = 2212, Warn,
        "more than half of the memory mappings are used, and stores take more as they grow; \
        raise the limit (sysctl vm.max_map_count)",
        "Raise the limit to 262144, and write it into a file in /etc/sysctl.d to keep it.";
    ReopeningPanicked = 2213, Error,
        "a callback panicked while its session was brought back",
        "Mend the callback; the engine tries the session again.";
    LockDamaged = 2214, Error,
        "the lock file of a store was damaged",
        "Find out what changed the lock file, which the engine has written anew. Compare the \
        numbers with the counterparty's, since segments at the end may be missing too.";
    StoreOlder = 2215, Error,
        "an older copy of a store is in its place, or the store was missing and is new",
        "Stop the engine and put the newer copy back: the store ends at `next_in` and \
        `next_out`, and was closed with `had_next_in` and `had_next_out`. If the newer copy is \
        lost, compare the numbers with the counterparty's before you trade.";
    NumbersNotKept = 2216, Warn,
        "the numbers of a store cannot be kept beside it",
        "Mend the cause in `error`. Until then the next start does not notice an older copy of \
        the store.";
    CallbackHangs = 2301, Warn,
        "a callback has not returned",
        "Look where the named callback or event waits, by a debugger or `perf`.";
    CallbackReturned = 2302, Warn,
        "a slow callback has returned",
        "Make the callback faster. It took `ms`; its session and others of the same thread \
        waited.";
    Panicked = 2303, Error,
        "panicked: the connection ends; the last message counts, and is not repeated",
        "Mend the callback: see \"A panic of the application\".";
    ApplicationFull = 2304, Warn,
        "the queue before the application is full",
        "Make the application faster: it is too slow for its messages, and the settings say what \
        follows.";
    ApplicationHasRoom = 2305, Info,
        "the queue before the application has room again",
        "Do nothing: the application has caught up.";
    ApplicationsLeft = 2306, Warn,
        "application threads did not stop; the engine ends without them",
        "Find the callbacks that did not return, `left` of them.";
    ThreadFailed = 2401, Error,
        "a thread of the engine has failed, and continues",
        "Report it with `error`.";
    ThreadFailedForGood = 2402, Error,
        "a thread of the engine has failed: the process ends",
        "Report it with `error`. The process ends because of `thread_lost = \"abort\"`.";
    ThreadPanicked = 2403, Error,
        "a thread of the engine has panicked, and continues",
        "Report it with the text on standard error: it is a defect of the engine, or of a store \
        of your own.";
    ThreadPanickedForGood = 2404, Error,
        "a thread of the engine has panicked: the process ends",
        "Report it with the text on standard error: it is a defect of the engine, or of a store \
        of your own. The process ends because of `thread_lost = \"abort\"`.";
    HelperCpusRefused = 2405, Error,
        "a thread that helps the stores cannot choose its CPUs",
        "Check `helper_cpus`.";
    ThreadNotPinned = 2406, Error,
        "a thread cannot be pinned",
        "Check `cpu` and `cpus`: the process may not use that CPU.";
    GivenToOtherWorker = 2407, Info,
        "a session was given to a worker that has less to do",
        "Do nothing.";
    ThreadLinesLeftOut = 2408, Warn,
        "lines about lost threads were left out",
        "Do nothing: the event stands for `left_out` lines of one cause that were left out.";
    LogLinesLost = 2501, Error,
        "lines of the log are lost",
        "Mend the cause in `error`: the disk takes nothing. Trading continues.";
    LogNotCompressed = 2502, Error,
        "a log is not compressed",
        "Mend the cause in `error`. The file stays as it is.";
    LogNotRolled = 2503, Error,
        "a log is not rolled",
        "Mend the cause in `error`. The file grows further.";
    LogThreadNotPinned = 2504, Error,
        "the log's thread cannot be pinned",
        "Check `log_cpu`.";
    LogThreadPanicked = 2505, Error,
        "the log's thread panicked; its last lines are lost",
        "Report it with the text on standard error.";
    LogLinesLeftOut = 2506, Warn,
        "lines about the log were left out",
        "Do nothing: the event stands for `left_out` lines of one cause that were left out.";
    LogNotOpened = 2507, Error,
        "the log cannot be opened yet",
        "Mend the cause in `error`. The session runs, its lines wait in memory, and the engine \
        opens the files as soon as it can.";
    LogEndsWithLoss = 2508, Error,
        "lines of a log were lost at its end",
        "Mend the cause in `error`: the session ended before its files could be opened.";
    CertificateExpired = 2601, Error,
        "our certificate has expired",
        "Have a new certificate signed, and put it in the place of the old one: counterparties \
        refuse the old one.";
    CertificateExpires = 2602, Warn,
        "our certificate expires soon",
        "Have a new certificate signed within `days` days; a running engine takes it over by \
        itself.";
    CertificatesRenewed = 2603, Info,
        "certificates were read again: a file has changed",
        "Do nothing.";
    CertificatesUnusable = 2604, Error,
        "changed certificates are unusable: the old ones stay",
        "Mend the new files: `error` says what is wrong with them.";
    CertificatesUnwatched = 2605, Error,
        "changes of certificate files are not noticed",
        "Raise the limits of the system: it gives no thread.";
    SessionAdded = 2701, Info,
        "a session was added",
        "Do nothing.";
    SessionRemoved = 2702, Info,
        "a session was removed",
        "Do nothing.";
    SessionNotBegun = 2703, Error,
        "a session did not begin with its new settings",
        "Mend the cause in `error`; the answer of the reload says which settings count now.";
    Operated = 2704, Info,
        "operated: an operator's action was done",
        "Do nothing: `what` is the action, and `audit_hash` proves the end of the audit file.";
    NotOperated = 2705, Warn,
        "not operated: the action was refused",
        "Read `why`.";
    AuditTakesNothing = 2706, Error,
        "not operated: the audit file takes nothing",
        "Make room on the disk: no action is done meanwhile.";
    AuditEndMissing = 2707, Error,
        "the audit file has no end of an action",
        "Make room on the disk: the action was done, and its end could not be written.";
    AuditLineTorn = 2708, Warn,
        "the last line of the audit file was not whole; it is in FILE.torn",
        "Do nothing: a crash left the line, and the chain says so.";
    SessionNotBack = 2709, Error,
        "a session did not begin again",
        "Mend the cause in `error`, and reload. The session could begin neither with its new \
        settings nor with its old ones.";
    NotInAudit = 2710, Error,
        "a login is not in the audit: its file takes nothing",
        "Make room on the disk: nobody logs in meanwhile.";
    Latency = 2801, Info,
        "latency",
        "Do nothing: `latency_at_stop` asks for the figures.";
    LatencyUnusual = 2802, Warn,
        "a latency is unusual",
        "Look at `stage`: its p99, `p99_ns`, is more than `latency_unusual_percent` of the usual \
        one, `usual_ns`, and above all of the last thirty windows. `callback` is your \
        application, `committed` the disk, `written` and `test_request` the network and the \
        counterparty. If all stages are slow at once, look for what else runs on the CPUs.";
    LatencyUsual = 2803, Info,
        "a latency is usual again",
        "Do nothing: the latency is as before.";
    LatencyUsualNow = 2804, Warn,
        "an unusual latency is the usual one now",
        "Find out the cause, if nothing was changed: the book's page \"Latency\" says what each \
        stage holds. The latency has lasted for thirty windows and is no longer reported.";
    LatencyNotJudged = 2805, Info,
        "too few messages to call a latency unusual any longer",
        "Do nothing: the session or the stage rests, and is judged again when it has enough \
        messages.";
    LatencyChanges = 2806, Warn,
        "a latency is unusual again and again",
        "Look for what happens in turns, such as a job that runs every few minutes. The latency \
        has left its usual range `times` times in `windows` windows since the last report; \
        `is_unusual` says how it is now.";
}
