//! The fixture of the test cases: one session, with the test as its counterparty.

use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, Message, Timestamp, tag};
use transfix_session::{
    ApplVerId, BeginString, Config, Now, Outbox, Role, SendError, Session, SessionId, Verdict,
};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A session under test. The methods act as its counterparty, its application and its clock.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) out: Outbox,
    pub(crate) now: Now,
}

impl World {
    pub(crate) fn new(
        role: Role,
        begin_string: BeginString,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config::new(SessionId::new(begin_string, "US", "THEM"), role);
        config.protocol.default_appl_ver_id =
            (begin_string == BeginString::Fixt11).then_some(ApplVerId(9));
        change(&mut config);
        let utc = Timestamp::parse(b"20261121-12:00:00").unwrap();
        let now = Now { utc, monotonic_ns: SECOND };
        let mut world = Self { session: Session::new(config, 1, 1), out: Outbox::default(), now };
        world.connect();
        world
    }

    pub(crate) fn connect(&mut self) {
        self.session.connected(self.now, &mut self.out);
    }

    pub(crate) fn disconnect(&mut self) {
        self.session.disconnected(&mut self.out);
        self.out.clear_entries();
    }

    /// Returns a logged-on acceptor with default settings and an empty outbox.
    pub(crate) fn active(begin_string: BeginString) -> Self {
        Self::active_with(begin_string, |_| ())
    }

    /// Returns a logged-on acceptor with settings that `change` has modified.
    pub(crate) fn active_with(begin_string: BeginString, change: impl FnOnce(&mut Config)) -> Self {
        let mut world = Self::new(Role::Acceptor, begin_string, change);
        let logon = world.logon(1);
        assert_eq!(world.receive(&logon), Verdict::LoggedOn);
        assert_eq!(world.sent().len(), 1);
        world
    }

    /// Returns a Logon(A) of the session's version, with MsgSeqNum(34) `seq`.
    pub(crate) fn logon(&self, seq: u64) -> String {
        let fixt = self.session.config().id.begin_string == BeginString::Fixt11;
        format!("35=A|34={seq}|98=0|108=30{}", if fixt { "|1137=9" } else { "" })
    }

    /// Sends an order as the application, with this ClOrdID(11).
    pub(crate) fn send(&mut self, cl_ord_id: &str) -> Result<u64, SendError> {
        let fill = |body: &mut transfix_codec::Body<'_>| _ = body.str(tag::CL_ORD_ID, cl_ord_id);
        self.session.send(self.now, b"D", &mut self.out, fill)
    }

    /// Takes the next held message, if there is one, and passes it to the session.
    pub(crate) fn receive_held(&mut self) -> Option<Verdict> {
        let held = self.session.take_held()?;
        let mut index = FieldIndex::default();
        let message = Message::parse(&held, &mut index, CheckSumPolicy::Verify).unwrap();
        Some(self.session.receive_held(self.now, &message, &mut self.out))
    }

    pub(crate) fn later(&mut self, seconds: u64) -> Verdict {
        self.now.monotonic_ns += seconds * SECOND;
        self.now.utc.0 += (seconds * SECOND) as i64;
        self.session.tick(self.now, &mut self.out)
    }

    /// Passes a message of the form `35=..|34=..|rest` to the session, with missing header fields
    /// added.
    pub(crate) fn receive(&mut self, line: &str) -> Verdict {
        let bytes = self.frame(line);
        self.receive_bytes(&bytes)
    }

    /// Rejects the message for exceeding the configured rate.
    pub(crate) fn refuse_throttled(&mut self, line: &str) {
        let bytes = self.frame(line);
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        self.session.refuse_throttled(self.now, &message, &mut self.out);
    }

    /// Passes a Logon(A) to the session, which the application refuses.
    pub(crate) fn deny(&mut self, logon: &str, text: &str) -> Verdict {
        assert_eq!(self.offer(logon), Verdict::LogonOffered);
        self.session.deny_logon(self.now, text, &mut self.out)
    }

    /// Passes a message to the session and ignores the verdict.
    pub(crate) fn takes(&mut self, line: &str) {
        let _ = self.receive(line);
    }

    /// Passes a message to the session; if it is a Logon(A), the application accepts it.
    pub(crate) fn receive_bytes(&mut self, bytes: &[u8]) -> Verdict {
        match self.offer_bytes(bytes) {
            Verdict::LogonOffered => self.session.accept_logon(self.now, &mut self.out),
            verdict => verdict,
        }
    }

    /// Passes a message to the session; if it is a Logon(A), the test decides whether to accept it.
    pub(crate) fn offer(&mut self, line: &str) -> Verdict {
        let bytes = self.frame(line);
        self.offer_bytes(&bytes)
    }

    fn offer_bytes(&mut self, bytes: &[u8]) -> Verdict {
        let mut index = FieldIndex::default();
        let message = Message::parse(bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        self.session.receive(self.now, &message, &mut self.out)
    }

    pub(crate) fn frame(&self, line: &str) -> Vec<u8> {
        let id = &self.session.config().id;
        let mut begin_string = id.begin_string.as_str();
        let mut fields: Vec<&str> = line.split('|').collect();
        let msg_type = fields.remove(0).strip_prefix("35=").unwrap();
        if let Some(other) = fields[0].strip_prefix("8=") {
            begin_string = other;
            fields.remove(0);
        }
        let time = self.now.utc.to_string()[..17].to_owned();
        let has = |tag: &str| fields.iter().any(|f| f.starts_with(tag));
        let mut head = Vec::new();
        for (tag, value) in [("49=", "THEM"), ("56=", "US"), ("52=", time.as_str())] {
            if !has(tag) {
                head.push(format!("{tag}{value}"));
            }
        }
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, begin_string.as_bytes(), msg_type.as_bytes());
        for field in head.iter().map(String::as_str).chain(fields) {
            frame.raw(field.as_bytes());
            frame.raw(b"\x01");
        }
        frame.finish().unwrap();
        out
    }

    /// Returns the messages sent since the last call, as `35=..|34=..|rest` without CompIDs and
    /// SendingTime(52).
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = self.out.bytes();
        let mut index = FieldIndex::default();
        while let transfix_codec::Frame::Whole(end) =
            transfix_codec::frame::split(rest, transfix_codec::Limits::default())
        {
            let message = Message::parse(&rest[..end], &mut index, CheckSumPolicy::Verify).unwrap();
            let shown = message.fields().filter(|f| ![8, 9, 49, 56, 52, 10].contains(&f.tag.0));
            let line: Vec<_> =
                shown.map(|f| format!("{}={}", f.tag, f.value.escape_ascii())).collect();
            lines.push(line.join("|"));
            rest = &rest[end..];
        }
        assert!(rest.is_empty());
        self.out.clear_entries();
        self.out.consume(self.out.bytes().len());
        lines
    }
}

pub(crate) fn all_versions(test: impl Fn(World)) {
    for begin_string in BeginString::ALL {
        test(World::active(begin_string));
    }
}
