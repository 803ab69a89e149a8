//! The codes of the engine's events, and what an operator does about each.
//!
//! Invariant: a code never changes, and never gets another meaning. Each code is logged at one
//! place of the source. The book's list is generated from this table, and a test compares it with
//! the places that log events. A text is a statement, and a remedy begins with a verb.

/// Logs an event. The arguments are its level, its code, and further fields of `tracing`. An event
/// without a fixed text has its words at the end, after a semicolon.
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

/// Defines each event with its code, levels, text and remedy. Each hundred of codes is a subject:
/// 20 sessions, 21 acceptors, 22 stores, 23 applications, 24 threads, 25 logs, 26 certificates, 27
/// administration, 28 figures.
macro_rules! events {
    ($($name:ident = $code:literal, $($level:ident)|+, $text:literal, $remedy:literal;)*) => {
        /// An event that the engine logs. Its code never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum EventCode {
            $(#[doc = concat!($text, ".")] $name = $code,)*
        }

        impl EventCode {
            /// All events, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its number.
            #[must_use]
            pub const fn as_u16(self) -> u16 {
                self as u16
            }

            /// Returns the name of the event in the source.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns the levels at which the event is logged: two if it is more severe in some
            /// cases.
            #[must_use]
            pub const fn levels(self) -> &'static [EventLevel] {
                match self {
                    $(Self::$name => &[$(EventLevel::$level),+],)*
                }
            }

            /// Returns the text of the event. For an event without a fixed text, returns its
            /// subject.
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

            /// Returns the event with this code, or `None` if there is none.
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
        "Read `reason`: it names the side that ended the connection, the cause, and the Text(58) \
         of the counterparty's Logout(5). The page \"Codes\" explains each reason.";
    ConnectionFailed = 2003, Warn,
        "connection failed",
        "Check `destination` and the firewalls: no process listens there, or the network blocks \
         the connection. The session connects again by itself.";
    ConnectionBroke = 2004, Warn,
        "the connection broke",
        "Read `error`, the system's report about the network or the counterparty's machine. The \
         session connects again and requests the missing messages.";
    LogonRefused = 2005, Warn,
        "Logon(A) refused",
        "Read `why`, and compare the settings of both sides with the counterparty.";
    ConnectionRefused = 2006, Warn,
        "refused a connection",
        "Read `why`: the session is already connected, an operator has logged the session out, \
         its store has failed, or its schedule is closed.";
    AttemptsGivenUp = 2007, Error,
        "the session makes no further attempt to connect",
        "Remove the cause, then use the action `log_on`: the session has reached \
         `reconnect_attempts_max`.";
    Window = 2008, Info,
        "the next window of the schedule has been computed",
        "Do nothing: `open` and `close` are the next window of the schedule.";
    WindowClosed = 2009, Info,
        "logging out: the window of the schedule has closed",
        "Do nothing: the schedule requires the logout.";
    WindowOpened = 2010, Info,
        "the numbers start again at 1: a window of the schedule has opened",
        "Do nothing: the schedule requires the reset.";
    NumbersBeginAgain = 2011, Info,
        "the numbers start again at 1",
        "Ask the counterparty why its Logon(A) had ResetSeqNumFlag(141)=Y, unless both sides \
         wanted the reset.";
    NumbersTaken = 2012, Info,
        "the session uses the numbers of the store, which have changed",
        "Find the process that changed the store, unless the change was intended: the session \
         continues with the numbers of the store.";
    ReadyAgain = 2013, Info,
        "the session accepts messages again",
        "Do nothing: the store or the application has recovered.";
    Resending = 2014, Info,
        "the session is resending messages",
        "Do nothing: the counterparty has requested messages again.";
    AskedAgain = 2015, Warn,
        "the counterparty repeated a ResendRequest(2)",
        "Call the operator of the counterparty: its engine repeats the request and does not \
         accept the resent messages. After some repetitions the session ends the connection.";
    NotStored = 2016, Warn,
        "requested messages are missing from the store; a gap fill replaces them",
        "Tell the counterparty if the missing messages were orders. They begin at the number \
         `missing`.";
    Skipped = 2017, Warn,
        "bytes were skipped",
        "Read `reason`, and find the bytes in the protocol log, marked `garbled`.";
    WouldBeRejected = 2018, Warn,
        "our message is invalid: the counterparty would reject it",
        "Correct the program that made the message: `reject` names the error.";
    GivenBack = 2019, Warn,
        "a message was not sent, and was returned to the application",
        "Handle the message of `SessionNotice::Unsent`, which the application received; `why` \
         names the cause.";
    NotAnswered = 2020, Warn,
        "the application's answer could not be sent",
        "Read `why`. If the program made a mistake, correct the program: the counterparty \
         received a BusinessMessageReject(j).";
    SlowConsumer = 2021, Warn,
        "the counterparty reads its messages slowly",
        "Ask the counterparty why it reads too slowly, or look for a congested network. Beyond \
         the limits of the settings the session disconnects.";
    CaughtUp = 2022, Info,
        "the counterparty has caught up",
        "Do nothing: the counterparty has read all messages.";
    MessageRejected = 2023, Warn,
        "a message of the counterparty was rejected; the text names the message and the cause",
        "Call the operator of the counterparty if the rejects are frequent. The counterparty's \
         engine has received our Reject(3).";
    RejectedByCounterparty = 2024, Warn,
        "the counterparty rejected a message of ours; the text names the message and the cause",
        "Correct the program that sends such messages: the Reject(3) or BusinessMessageReject(j) \
         names the error.";
    RolledBack = 2025, Warn,
        "a failure rolled back a turn; the engine delivers its messages again",
        "Follow the page \"A message is missing: what now?\". The cause is a failed store or a \
         panic.";
    SpeaksTls = 2026, Error,
        "the counterparty uses TLS, but the settings of the session have no `tls`",
        "Set `tls`, or have the counterparty connect without TLS.";
    LogonFieldsLeftOut = 2027, Error,
        "fields of the Logon(A) were omitted",
        "Correct `logon.fields`: `error` names the fields that cannot be written.";
    DictionaryOfAnotherVersion = 2028, Warn,
        "the dictionary belongs to another version than the session",
        "Check `dictionary`: the session validates its messages with a dictionary of another \
         version.";
    NoValidation = 2029, Error,
        "messages are not validated: the dictionary is missing",
        "Correct the dictionary: `error` says why it could not be loaded.";
    NotRouted = 2030, Warn,
        "a message for another session could not be forwarded",
        "Read `why`: DeliverToCompID(128) names a session that does not accept the message.";
    LogonUnanswered = 2031, Error,
        "the application did not judge a Logon(A) in time",
        "Make `judge_logon` faster: it took longer than `logon_timeout_ms`.";
    JudgingPanicked = 2032, Error,
        "`judge_logon` panicked; the Logon(A) is refused",
        "Correct `judge_logon`: standard error has the location of the panic.";
    LinesLeftOut = 2033, Warn,
        "similar lines were omitted",
        "Do nothing: the event stands for `left_out` omitted lines with one cause.";
    NotDelivered = 2035, Warn,
        "messages behind a gap are not delivered; the text gives their number",
        "Ask the counterparty whether the messages are valid: it discarded them by \
         SequenceReset(4) or by a reset of the numbers.";
    FaultyReject = 2036, Warn,
        "a Reject(3) of the counterparty is invalid; the text names the error",
        "Tell the counterparty. Our session sent no answer, and the Reject(3) used its number.";
    UnaskedReset = 2037, Warn,
        "the counterparty's answer to our Logon(A) reset the numbers without a request",
        "Ask the counterparty why its answer had ResetSeqNumFlag(141)=Y. Earlier messages are not \
         resent.";
    FaultyLogout = 2038, Warn,
        "a Logout(5) of the counterparty is invalid; the text names the error",
        "Tell the counterparty, or check `dictionary`. The session has logged out in spite of the \
         error.";
    NotTaken = 2039, Warn,
        "the application refused a message of the counterparty",
        "Read `reason` and `text`; `seq` is the number of the message. The counterparty has \
         received our BusinessMessageReject(j), or up to FIX 4.1 our Reject(3).";
    StoredMessagesLost = 2040, Warn,
        "the numbers start again: messages stored without a logon are not sent",
        "Send the messages again if they are still valid: they had the numbers `first` to `last`.";
    SessionMoved = 2041, Info,
        "the session has moved to another gateway of the fleet",
        "Read `why`. If the gateway `from` is gone or has not answered, look at its machine and \
         at its connection to the brokers.";
    LogonWaits = 2101, Warn,
        "a Logon(A) is delayed, because many logons have failed",
        "Look at `asked`, the requested session: somebody guesses passwords, or a counterparty \
         uses an old password.";
    ProxyHeaderMissing = 2102, Warn,
        "closed: the proxy, an address of proxy_protocol_from, did not name the address of its \
         client",
        "Enable the PROXY protocol in the proxy.";
    ClosedLogonRefused = 2103, Warn,
        "closed: its Logon(A) was refused",
        "Read `reason`: the cause is the password, the certificate, or the application.";
    ClosedForAddress = 2104, Warn,
        "closed: the address is not in `allow_from` of the session",
        "Add the address to `allow_from` if it belongs to the counterparty.";
    ClosedForCertificate = 2105, Warn,
        "closed: the certificate is not in `tls.peer` of the session",
        "Add the certificate's name or fingerprint to `tls.peer` if it belongs to the \
         counterparty.";
    ClosedBeingJudged = 2106, Warn,
        "closed: an earlier Logon(A) of the counterparty is still being judged",
        "Do nothing: the counterparty connected again before the answer to its first Logon(A).";
    ClosedForNobody = 2107, Warn,
        "closed: the Logon(A) matches no configured session",
        "Compare `asked` with the CompIDs and the version in the settings.";
    ClosedForTls = 2108, Warn,
        "closed: the TLS handshake failed",
        "Read `reason`: it names the side that ended the handshake, and the cause.";
    ClosedForStranger = 2109, Warn,
        "closed: the address is not in `allow_from` of any session",
        "Do nothing about a stranger. Otherwise add the address to `allow_from`.";
    ClosedForPlainPort = 2110, Warn,
        "closed: the counterparty uses TLS, but this port does not",
        "Set `tls`, or tell the counterparty the right port.";
    ClosedForGarbage = 2111, Warn,
        "closed: the first bytes are no FIX message",
        "Do nothing about a stranger: the bytes are not FIX.";
    ClosedForOther = 2112, Warn,
        "closed: another new connection of the session is waiting",
        "Ask the counterparty why it connects twice.";
    ClosedForRoom = 2113, Warn,
        "closed: too many connections wait for their Logon(A), and this connection is the oldest",
        "Look for the address: the cause is a flood, or counterparties that connect and send no \
         Logon(A).";
    ClosedForThread = 2114, Error,
        "closed: the system provides no thread to judge a Logon(A)",
        "Raise the system's limit on threads.";
    NotAccepted = 2115, Error,
        "a connection could not be accepted",
        "Read `error`. The usual cause is the limit on open files: raise it (`LimitNOFILE`).";
    JudgingTooLong = 2116, Warn,
        "judging a Logon(A) took longer than its connection may wait",
        "Make `judge_logon` faster.";
    StrangerLinesLeftOut = 2117, Warn,
        "similar lines about unknown connections were omitted",
        "Do nothing: the event stands for `left_out` omitted lines with one cause.";
    NotWatched = 2118, Error,
        "a new address accepts no connections",
        "Reload again: `error` says why the engine cannot watch the listener.";
    NoFurtherSession = 2119, Warn,
        "the limit on sessions from a template is reached",
        "Raise `created_sessions_max`, or set `created_sessions_idle_s`.";
    MadeFromTemplate = 2120, Info,
        "a session was created from a template",
        "Do nothing: the program admitted the counterparty, and the counterparty has logged on.";
    GoneWithoutConnection = 2121, Info,
        "a session from a template was removed after a long time without a connection",
        "Do nothing: the store and the numbers of the session remain.";
    FewFilesForLogons = 2122, Warn,
        "the limit on open files reduces the number of connections that may wait for their \
         Logon(A)",
        "Raise the limit of open files (`LimitNOFILE`).";
    StoreFailed = 2201, Error,
        "store failed",
        "Remove the cause in `error`. The session is disconnected, and the engine reopens the \
         store by itself.";
    StoreNotOpened = 2202, Error,
        "the store cannot be reopened",
        "Remove the cause in `error`: the disk, or the permissions. The engine tries again.";
    StoreNotRead = 2203, Error,
        "the store cannot be read again",
        "Remove the cause in `error`: the disk, the permissions, or the server of the store and \
         its network. The engine tries again, and accepts no messages meanwhile.";
    LeftInDoubt = 2204, Error,
        "the session ended while it is unknown whether the store has its last messages",
        "Repair the store's disk or server, then look for the messages with `transfix store \
        print`.";
    SentInDoubt = 2205, Error,
        "a message was sent while the store failed; the application receives a report when the \
         store is open again",
        "Wait until the store is open again: then the application receives \
         `SessionNotice::RolledBack`.";
    NotGivenBack = 2206, Error,
        "undeliverable messages could not be returned to the application; they stay in the queue",
        "Wait: the engine returns the messages as soon as the application can be called.";
    QueueDamaged = 2207, Error,
        "a queued message in the store is damaged",
        "Run `transfix store verify`, which lists the damage of the queue.";
    BatchCut = 2208, Warn,
        "an unfinished batch was removed from the store",
        "Do nothing: a crash left the batch, and none of its messages was sent.";
    SegmentNotPrepared = 2209, Warn,
        "the next segment of a store cannot be prepared in advance",
        "Check the disk: it is nearly full or slow. The session creates the segment itself, and \
         stalls meanwhile.";
    SegmentsStay = 2210, Error,
        "old segments cannot be moved or deleted",
        "Remove the cause in `error`.";
    StoreOnNetwork = 2211, Warn,
        "the store may lie on a network file system",
        "Use a local disk: a network file system may lose confirmed data.";
    FewMappings = 2212, Warn,
        "more than half of the memory mappings are in use, and stores need more as they grow; \
         raise the limit (sysctl vm.max_map_count)",
        "Raise the limit to 262144, and write it to a file in /etc/sysctl.d to make it permanent.";
    ReopeningPanicked = 2213, Error,
        "a callback panicked during the recovery of its session",
        "Correct the callback; the engine tries to recover the session again.";
    LockDamaged = 2214, Error,
        "the lock file of a store was damaged",
        "Find the process that changed the lock file; the engine has rewritten the file. Compare \
         the numbers with those of the counterparty, because segments at the end may be missing \
         too.";
    StoreOlder = 2215, Error,
        "the store is older than at its last close, or was missing and is new",
        "Stop the engine and restore the newer copy of the store. This copy ends at `next_in` and \
         `next_out`; the last close was at `had_next_in` and `had_next_out`. If the newer copy \
         is lost, compare the numbers with those of the counterparty before you trade.";
    NumbersNotKept = 2216, Warn,
        "the numbers of a store cannot be recorded outside of the store",
        "Remove the cause in `error`. Until then the next start cannot detect an older copy of \
         the store.";
    CallbackHangs = 2301, Warn,
        "a callback has not returned",
        "Find where the named callback or event waits, with a debugger or `perf`.";
    CallbackReturned = 2302, Warn,
        "a slow callback has returned",
        "Make the callback faster. It took `ms`; its session and the other sessions of the thread \
         waited.";
    Panicked = 2303, Error,
        "a callback panicked: the connection ends; the last message counts as received, and is \
         not delivered again",
        "Correct the callback: see \"A panic of the application\".";
    ApplicationFull = 2304, Warn,
        "the application's queue is full",
        "Make the application faster: it is too slow for its messages. The settings determine the \
         consequence.";
    ApplicationHasRoom = 2305, Info,
        "the application's queue has room again",
        "Do nothing: the application has caught up.";
    ApplicationsLeft = 2306, Warn,
        "application threads did not stop; the engine ends without them",
        "Find the callbacks that did not return; `left` is their number.";
    ThreadFailed = 2401, Error,
        "a thread of the engine failed, and was restarted",
        "Report it with `error`.";
    ThreadFailedForGood = 2402, Error,
        "a thread of the engine failed: the process ends",
        "Report the defect with `error`. The process ends because of `thread_lost = \"abort\"`.";
    ThreadPanicked = 2403, Error,
        "a thread of the engine panicked, and was restarted",
        "Report the defect with the text on standard error. The cause is in the engine, or in a \
         store of your own.";
    ThreadPanickedForGood = 2404, Error,
        "a thread of the engine panicked: the process ends",
        "Report the defect with the text on standard error. The cause is in the engine, or in a \
         store of your own. The process ends because of `thread_lost = \"abort\"`.";
    HelperCpusRefused = 2405, Error,
        "a helper thread of the stores cannot move to its CPUs",
        "Check `helper_cpus`.";
    ThreadNotPinned = 2406, Error,
        "a thread cannot be pinned to its CPU",
        "Check `cpu` and `cpus`: the process may not use that CPU.";
    GivenToOtherWorker = 2407, Info,
        "a session moved to a less busy worker",
        "Do nothing.";
    ThreadLinesLeftOut = 2408, Warn,
        "similar lines about failed threads were omitted",
        "Do nothing: the event stands for `left_out` omitted lines with one cause.";
    LogLinesLost = 2501, Error,
        "lines of a protocol log are lost",
        "Remove the cause in `error`: the disk accepts no data. Trading continues.";
    LogNotCompressed = 2502, Error,
        "a protocol log cannot be compressed",
        "Remove the cause in `error`. The file stays uncompressed.";
    LogNotRolled = 2503, Error,
        "a protocol log cannot be rolled",
        "Remove the cause in `error`. The file continues to grow.";
    LogThreadNotPinned = 2504, Error,
        "the thread of the protocol logs cannot be pinned to its CPU",
        "Check `log_cpu`.";
    LogThreadPanicked = 2505, Error,
        "the thread of the protocol logs panicked; its last lines are lost",
        "Report the defect with the text on standard error.";
    LogLinesLeftOut = 2506, Warn,
        "similar lines about protocol logs were omitted",
        "Do nothing: the event stands for `left_out` omitted lines with one cause.";
    LogNotOpened = 2507, Error,
        "a protocol log cannot be opened yet",
        "Remove the cause in `error`. The session runs, its lines wait in memory, and the engine \
         opens the files as soon as possible.";
    LogEndsWithLoss = 2508, Error,
        "lines of a protocol log were lost at its end",
        "Remove the cause in `error`: the session ended before its files could be opened.";
    CertificateExpired = 2601, Error,
        "our certificate has expired",
        "Have a new certificate signed, and replace the old file: counterparties refuse the old \
         certificate.";
    CertificateExpires = 2602, Warn,
        "our certificate expires soon",
        "Have a new certificate signed within `days` days, and replace the file; a running engine \
         loads the new certificate by itself.";
    CertificatesRenewed = 2603, Info,
        "certificates were reloaded, because a file has changed",
        "Do nothing.";
    CertificatesUnusable = 2604, Error,
        "changed certificates are unusable: the old certificates stay in use",
        "Correct the new files: `error` names their fault.";
    CertificatesUnwatched = 2605, Error,
        "changes of certificate files are not detected",
        "Raise the system's limit on threads.";
    SessionAdded = 2701, Info,
        "a session was added",
        "Do nothing.";
    SessionRemoved = 2702, Info,
        "a session was removed",
        "Do nothing.";
    SessionNotBegun = 2703, Error,
        "a session did not start with its new settings",
        "Remove the cause in `error`; the answer to the reload names the settings in force.";
    Operated = 2704, Info,
        "operated: the action of an operator was applied",
        "Do nothing: `what` is the action, and `audit_hash` is the hash of its record in the \
         audit file.";
    NotOperated = 2705, Warn,
        "not operated: the action was refused",
        "Read `why`.";
    AuditTakesNothing = 2706, Error,
        "not operated: the audit file cannot be written",
        "Free disk space, or remove the cause in `error`. Until then the engine refuses all \
        actions.";
    AuditEndMissing = 2707, Error,
        "the result of an action could not be written to the audit file",
        "Free disk space, or remove the cause in `error`: the action was done, but its result \
        could not be written.";
    AuditLineTorn = 2708, Warn,
        "the last record of the audit file was incomplete, and was moved to FILE.torn",
        "Do nothing: a crash left the record, and the audit file notes the move.";
    SessionNotBack = 2709, Error,
        "a session did not start again",
        "Remove the cause in `error`, and reload. The session could start neither with its new \
         settings nor with its old settings.";
    NotInAudit = 2710, Error,
        "a login was refused: the audit file cannot be written",
        "Free disk space, or remove the cause in `error`. Until then the administration refuses \
        all logins.";
    Latency = 2801, Info,
        "latency",
        "Do nothing: the setting `latency_at_stop` requests the figures.";
    LatencyUnusual = 2802, Warn,
        "a latency is unusual",
        "Look at `stage`. Its p99, `p99_ns`, exceeds `latency_unusual_percent` of the usual p99, \
         `usual_ns`, and all of the last thirty windows. `callback` is your application, \
         `committed` the disk, `written` and `test_request` the network and the counterparty. \
         If all stages are slow at once, look for other programs on the CPUs.";
    LatencyUsual = 2803, Info,
        "a latency is back in its usual range",
        "Do nothing: the latency is as before.";
    LatencyUsualNow = 2804, Warn,
        "an unusual latency has become the usual latency",
        "Find the cause if nothing was changed: the page \"Latency\" of the book explains each \
         stage. The latency has lasted for thirty windows and is no longer reported.";
    LatencyNotJudged = 2805, Info,
        "too few messages to judge a latency",
        "Do nothing: the session or the stage is idle. The engine judges the latency again when \
         there are enough messages.";
    LatencyChanges = 2806, Warn,
        "a latency is unusual repeatedly",
        "Look for a periodic cause, such as a job that runs every few minutes. The latency has \
         left its usual range `times` times in `windows` windows since the last report; \
         `is_unusual` is its state now.";
}
