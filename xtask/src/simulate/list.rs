//! The deliberate faults, given as changes of the sources. The laws of the simulation must catch
//! all of them.

/// A fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// The changes: crate, original text, and faulty text. The original text occurs exactly once in
    /// the crate; its line breaks may differ.
    pub(super) changes: &'static [(&'static str, &'static str, &'static str)],
    /// The kind of simulated worlds that must catch the fault; empty if worlds of all kinds may
    /// run.
    pub(super) kind: &'static str,
    /// Maximum number of worlds until the fault must be caught.
    pub(super) worlds: u64,
}

pub(super) const SESSION: &str = "session";
pub(super) const ENGINE: &str = "engine";
const STORE: &str = "store";

/// All faults.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "reject-keeps-the-number",
        changes: &[(
            SESSION,
            "self.next_num_in = seq + 1;\n                self.refuse(",
            "self.refuse(",
        )],
        kind: "hostile",
        worlds: 500,
    },
    Fault {
        name: "gap-fill-taken-as-reset",
        changes: &[(SESSION, "&& message.raw(tag::GAP_FILL_FLAG) != Some(b\"Y\")", "")],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "held-message-dropped",
        changes: &[(
            SESSION,
            "        self.gap.take(self.next_num_in)\n",
            "        let taken = self.gap.take(self.next_num_in)?;\n        \
             if self.next_num_in % 16 == 0 {\n self.next_num_in += 1;\n \
             return self.take_held();\n }\n        Some(taken)\n",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "resend-without-poss-dup",
        changes: &[(
            SESSION,
            "frame.header_uint(tag::MSG_SEQ_NUM, seq);\n        frame.raw(b\"43=Y\\x01\");",
            "frame.header_uint(tag::MSG_SEQ_NUM, seq);",
        )],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "resend-with-a-new-number",
        changes: &[(
            SESSION,
            "stored.msg_seq_num().unwrap_or(0)",
            "stored.msg_seq_num().unwrap_or(0) + 1",
        )],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "original-time-later",
        changes: &[(SESSION, "|original| original > now.utc", "|original| original < now.utc")],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "poss-dup-delivered-twice",
        changes: &[(
            SESSION,
            "Ok(()) => self.low_gap_fill(now, seq, message, out),",
            "Ok(()) => Verdict::Deliver,",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "early-message-delivered",
        changes: &[(
            SESSION,
            "let missing_to = if kept",
            "if message.msg_type() == b\"D\" {\n return Verdict::Deliver;\n }\n \
             let missing_to = if kept",
        )],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "test-request-ignored",
        changes: &[(
            SESSION,
            "self.answer_test_request(now, seq, message, out)?;",
            "message.required(tag::TEST_REQ_ID)?;",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "heartbeat-never-sent",
        changes: &[(
            SESSION,
            "self.write_admin(now, b\"0\", out, |_| ());",
            "self.timers.sent(now);",
        )],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "impatient-test-request",
        changes: &[(
            SESSION,
            "self.heart_bt_int.saturating_add(margin)",
            "self.heart_bt_int / 8 + margin",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "silence-not-found",
        changes: &[(
            SESSION,
            "Some(sent.saturating_add(self.patience.min(",
            "Some(sent.saturating_add(3 * self.patience.max(",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "request-never-repeated",
        changes: &[
            (SESSION, "if wait == 0 || now_ns", "if wait < u64::MAX || now_ns"),
            (SESSION, "(self.missing_to > 0 && !self.policy.repeat_after.is_zero())", "false"),
        ],
        kind: "damage",
        worlds: 2_000,
    },
    Fault {
        name: "request-for-each-early-message",
        changes: &[(
            SESSION,
            "if self.request.is_none() || redundant {",
            "if self.missing_to > 0 {",
        )],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "request-one-too-late",
        changes: &[(
            SESSION,
            "let begin = self.next_num_in;",
            "let begin = self.next_num_in + u64::from(self.next_num_in % 8 == 0);",
        )],
        kind: "",
        worlds: 2_000,
    },
    Fault {
        name: "answered-request-forgotten",
        changes: &[(SESSION, "self.gap.settle(seq)", "true")],
        kind: "damage",
        worlds: 40_000,
    },
    Fault {
        name: "held-without-bounds",
        changes: &[(
            SESSION,
            "if room {\n            self.held_bytes",
            "if seq > 0 {\n            self.held_bytes",
        )],
        kind: "hostile",
        worlds: 2_000,
    },
    Fault {
        name: "last-number-not-resent",
        changes: &[(
            SESSION,
            "let last = self.next_num_out - 1; // FIX 4.0",
            "let last = (self.next_num_out - 1).saturating_sub(1).max(1); // FIX 4.0",
        )],
        kind: "",
        worlds: 2_000,
    },
    Fault {
        name: "lower-new-seq-no-taken",
        changes: &[(
            SESSION,
            "new_seq_no < self.next_num_in || self.is_too_far(new_seq_no)",
            "new_seq_no == 0 || self.is_too_far(new_seq_no)",
        )],
        kind: "hostile",
        worlds: 500,
    },
    Fault {
        name: "reset-not-journalled",
        changes: &[(SESSION, "out.entries.push(Entry::Reset(cause));", "")],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "reset-of-one-side",
        changes: &[(
            SESSION,
            "let unasked = terms.resets && !terms.answers_reset;",
            "let unasked = false;",
        )],
        kind: "resets",
        worlds: 1_000,
    },
    Fault {
        name: "reset-forgotten-by-a-restart",
        changes: &[(
            ENGINE,
            "self.numbers().next_in == 1 { asked",
            "self.numbers().next_in == 0 { asked",
        )],
        kind: "operators",
        worlds: 20_000,
    },
    Fault {
        name: "reset-cut-by-a-crash",
        changes: &[(SESSION, "if self.awaits_reset() { 1 }", "if false { 1 }")],
        kind: "mixed",
        worlds: 20_000,
    },
    Fault {
        name: "reset-not-asked-for-again",
        changes: &[(SESSION, "has_flag && (resets.is_wanted || missed)", "has_flag && missed")],
        kind: "operators",
        worlds: 6_000,
    },
    Fault {
        name: "reset-lost-with-its-link",
        changes: &[(SESSION, "has_flag && (resets.is_wanted || missed)", "resets.is_wanted")],
        kind: "resets",
        worlds: 10_000,
    },
    Fault {
        name: "reset-behind-a-logout-not-taken",
        changes: &[(
            SESSION,
            "self.reset_numbers(ResetCause::Counterparty, out);\n        self.next_num_in = 2;",
            "self.next_num_in = 2;",
        )],
        kind: "resets",
        worlds: 20_000,
    },
    Fault {
        name: "logon-not-counted",
        changes: &[(SESSION, "if !early {\n            self.next_num_in += 1;\n        }", "")],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "logout-not-answered",
        changes: &[(SESSION, "self.write_logout(now, \"\", None, out);", "")],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "replay-before-what-waits",
        changes: &[(SESSION, "self.begins_at = at;", "self.begins_at = 0 * at;")],
        kind: "",
        worlds: 5_000,
    },
    Fault {
        name: "message-not-fetched-yet-is-missing",
        changes: &[(
            ENGINE,
            "Err(StoreError::NotYet) => {\n is_awaited = replay.out.is_empty();\n break;\n }",
            "Err(StoreError::NotYet) => None,",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "replay-of-administrative-messages",
        changes: &[(ENGINE, ".filter(|stored| stored.kind == Kind::Application)", "")],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "gap-fill-one-too-far",
        changes: &[(
            SESSION,
            "session.gap_fill(now, begin, seq, &mut self.out);",
            "session.gap_fill(now, begin, seq + 1, &mut self.out);",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "replay-outlives-its-connection",
        changes: &[(
            SESSION,
            "self.slow.reset();\n        self.replay.clear();",
            "self.slow.reset();",
        )],
        kind: "",
        worlds: 5_000,
    },
    Fault {
        name: "outbox-outlives-its-connection",
        changes: &[(
            SESSION,
            "out.clear();\n        let policy = self.config.protocol.reset_on;",
            "let policy = self.config.protocol.reset_on;",
        )],
        kind: "",
        worlds: 2_000,
    },
    Fault {
        name: "stored-after-the-socket",
        changes: &[
            (ENGINE, "match self.journal.commit()? {", "match Committed::Now {"),
            (
                ENGINE,
                "for entry in out.entries() {",
                "self.store.commit()?;\n        for entry in out.entries() {",
            ),
        ],
        kind: "crashes",
        worlds: 1_000,
    },
    Fault {
        name: "answers-stored-before-what-they-answer",
        changes: &[(
            ENGINE,
            "let numbers = self.core.kept_numbers();\n        self.journal.put_next",
            "let mut numbers = self.core.kept_numbers();\n        if self.is_batch_full(true) {\n \
             numbers.0 = self.journal.numbers().next_in;\n }\n        self.journal.put_next",
        )],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "written-before-it-is-safe",
        changes: &[(
            ENGINE,
            "watermarks.writable(out).min(before_replay)",
            "out.len().min(before_replay)",
        )],
        kind: "crashes",
        worlds: 3_000,
    },
    Fault {
        name: "offsets-shift-with-written-bytes",
        changes: &[(
            SESSION,
            "self.base = self.written();\n        self.bytes.drain",
            "self.bytes.drain",
        )],
        kind: "crashes",
        worlds: 3_000,
    },
    Fault {
        name: "expected-number-not-journalled",
        changes: &[(ENGINE, "if numbers.0 != self.put.0 {", "if numbers.0 > self.put.0 + 1 {")],
        kind: "",
        worlds: 1_000,
    },
    Fault {
        name: "check-sum-ignored",
        changes: &[(
            ENGINE,
            "(core.options.turn_messages_max, core.options.check_sum);",
            "(core.options.turn_messages_max, transfix_codec::CheckSumPolicy::Ignore);",
        )],
        kind: "damage",
        worlds: 1_000,
    },
    Fault {
        name: "number-behind-a-record-too-high",
        changes: &[(
            STORE,
            "*word = next_in.to_le_bytes();",
            "*word = (next_in + 1).to_le_bytes();",
        )],
        kind: "",
        worlds: 500,
    },
    Fault {
        name: "torn-batch-accepted",
        changes: &[(
            STORE,
            "&& self.unkeyed(record) == record_crc(record, len)",
            "&& self.unkeyed(record) != 1",
        )],
        kind: "crashes",
        worlds: 20_000,
    },
    Fault {
        name: "published-before-it-is-whole",
        changes: &[
            (
                STORE,
                "self.seal_last(END);\n        let committed = if self.options.is_durable() {",
                "if !self.options.is_durable() {\n \
                 self.segments.last().publish(start, first_len);\n }\n\
                 self.seal_last(END);\n        let committed = if self.options.is_durable() {",
            ),
            (
                STORE,
                "self.segments.last().publish(start, first_len);\n            Committed::Now",
                "Committed::Now",
            ),
        ],
        kind: "crashes",
        worlds: 1_000,
    },
    Fault {
        name: "power-without-sync",
        changes: &[(
            STORE,
            "let synced = map.sync(batch.start, batch.tail);",
            "let synced: io::Result<()> = Ok(());",
        )],
        kind: "crashes",
        worlds: 1_000,
    },
    Fault {
        name: "name-without-sync",
        changes: &[(STORE, "if durable {\n        sync_dir(disk, dir)?;\n    }", "")],
        kind: "crashes",
        worlds: 2_000,
    },
    Fault {
        name: "finished-segment-not-cleared",
        changes: &[(STORE, "old[start..tail].fill(0);", "")],
        kind: "crashes",
        worlds: 1_000,
    },
    Fault {
        name: "failed-sync-taken-for-done",
        changes: &[(
            STORE,
            "return synced.map(|()| Committed::Now).map_err(|source| self.sync_failed(source));",
            "let _ = synced;\n            return Ok(Committed::Now);",
        )],
        kind: "disks",
        worlds: 2_000,
    },
    Fault {
        name: "message-without-number-counts",
        changes: &[(
            SESSION,
            "Err(_) => return self.end(now, unreadable_number(message), out),",
            "Err(_) => self.next_num_in,",
        )],
        kind: "forgeries",
        worlds: 500,
    },
    Fault {
        name: "refusal-of-our-logon-counts",
        changes: &[(
            SESSION,
            "if seq == self.next_num_in && self.state != State::LogonSent {",
            "if seq == self.next_num_in {",
        )],
        kind: "applications",
        worlds: 2_000,
    },
    Fault {
        name: "logout-above-a-gap-counts",
        changes: &[(
            SESSION,
            "if seq == self.next_num_in && self.state != State::LogonSent {",
            "if seq > 0 {",
        )],
        kind: "forgeries",
        worlds: 500,
    },
    Fault {
        name: "window-restarts-twice",
        changes: &[(SESSION, "if moved || cause == ResetCause::Schedule {", "if moved {")],
        kind: "schedules",
        worlds: 1_000,
    },
    Fault {
        name: "window-without-end",
        changes: &[(
            ENGINE,
            "let may_stay = hours.may_connect(now.utc) && same;",
            "let may_stay = same || self.up;",
        )],
        kind: "schedules",
        worlds: 500,
    },
    Fault {
        name: "reject-of-a-closed-window-lost",
        changes: &[(SESSION, "closed.filter(|_| message.msg_type() != b\"j\")", "closed")],
        kind: "schedules",
        worlds: 1_000,
    },
    Fault {
        name: "denied-and-logged-on",
        changes: &[(
            SESSION,
            "Err(self.session.deny_logon(now, &refusal.text, &mut self.out))",
            "Err(self.session.accept_logon(now, &mut self.out))",
        )],
        kind: "applications",
        worlds: 500,
    },
    Fault {
        name: "logon-before-its-answer",
        changes: &[(
            ENGINE,
            "Err(TryRecvError::Empty) => {}",
            "Err(TryRecvError::Empty) => self.core.judging.answer(Ok(())),",
        )],
        kind: "applications",
        worlds: 500,
    },
    Fault {
        name: "logon-offered-and-forgotten",
        changes: &[(
            ENGINE,
            "|| (core.is_judging() && !judges));",
            "|| (core.is_judging() && !judges && core.options.limits.message_bytes_max == 0));",
        )],
        kind: "applications",
        worlds: 2_000,
    },
    Fault {
        name: "throttled-before-its-turn",
        changes: &[(
            ENGINE,
            "return self.deliver(now, message, Handling::Reject);",
            "self.core.session.refuse_throttled(now, message, &mut self.core.out);\n \
             return Ok(());",
        )],
        kind: "applications",
        worlds: 2_000,
    },
    Fault {
        name: "postponed-counts-as-received",
        changes: &[(
            SESSION,
            "let next_in = postponed.unwrap_or_else(|| self.session.stored_num_in());",
            "let next_in = self.session.stored_num_in();",
        )],
        kind: "applications",
        worlds: 2_000,
    },
    Fault {
        name: "stored-overtakes-queued",
        changes: &[(
            SESSION,
            "let stores = self.stores(state) && !self.is_held_back;",
            "let stores = false;",
        )],
        kind: "applications",
        worlds: 5_000,
    },
    Fault {
        name: "full-queue-forgotten",
        changes: &[(
            SESSION,
            "self.sends_more() || self.goes_on_reading(now, has_left)",
            "self.goes_on_reading(now, has_left)",
        )],
        kind: "applications",
        worlds: 60_000,
    },
    Fault {
        name: "returned-and-sent",
        changes: &[(
            SESSION,
            "let all = self.backlog.take_all();",
            "let all = self.backlog.take_all();\n        self.backlog.put_back(all.clone());",
        )],
        kind: "applications",
        worlds: 2_000,
    },
    Fault {
        name: "crash-without-the-reset-of-its-end",
        changes: &[(SESSION, "Resets::new(resets)", "Resets::new(false)")],
        kind: "mixed",
        worlds: 2_000,
    },
];
