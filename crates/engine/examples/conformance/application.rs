//! The application of a session: echoes orders and a few other messages.

use std::collections::HashSet;

use transfix::{
    Application, BeginString, Body, BusinessReject, LogonAttempt, LogonRefusal, Message,
    SessionEvent, SessionId, SessionRef, Tag, tag,
};

const HEADLINE: Tag = Tag(148);
const MESSAGE_ENCODING: Tag = Tag(347);
const ENCODED_HEADLINE_LEN: Tag = Tag(358);
const ENCODED_HEADLINE: Tag = Tag(359);

/// Fields of the standard header and trailer that are not echoed, because our messages have their
/// own.
const FRAME: [u32; 26] = [
    50, 57, 89, 90, 91, 93, 97, 115, 116, 128, 129, 142, 143, 144, 145, 212, 213, 347, 369, 370,
    627, 628, 629, 630, 1128, 1129,
];

/// Echoes the received messages of one session.
pub(crate) struct Echo {
    begin_string: BeginString,
    /// The highest DefaultApplVerID(1137) that the session accepts; the lowest is 7.
    appl_ver_id_max: u64,
    /// The ClOrdID(11) of each order received since the Logon(A), to detect duplicates.
    orders: HashSet<Vec<u8>>,
}

impl Echo {
    pub(crate) fn new(id: &SessionId, appl_ver_id_max: u64) -> Self {
        Self { begin_string: id.begin_string, appl_ver_id_max, orders: HashSet::new() }
    }

    fn takes_order(&mut self, order: &Message<'_>) -> Result<bool, BusinessReject> {
        let id = order.required(tag::CL_ORD_ID)?;
        let is_new = self.orders.insert(id.to_vec());
        Ok(is_new || !order.flag(tag::POSS_RESEND)?)
    }
}

impl Application for Echo {
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        _: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        match logon.uint(tag::DEFAULT_APPL_VER_ID) {
            Ok(version) if !(7..=self.appl_ver_id_max).contains(&version) => {
                Err(LogonRefusal::new("DefaultApplVerID(1137) is not served here"))
            }
            _ => Ok(()),
        }
    }

    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let version = self.begin_string;
        match message.msg_type().as_bytes() {
            b"D" if self.takes_order(message)? => echo(message, session),
            b"D" => Ok(()),
            b"d" if version >= BeginString::Fix42 => echo(message, session),
            b"R" if version == BeginString::Fix44 => echo(message, session),
            b"AD" if version == BeginString::Fix44 => Ok(()),
            b"B" if version >= BeginString::Fix41 => answer_news(message, session),
            b"n" if version >= BeginString::Fix43 => {
                let number = message.msg_seq_num()?;
                let headline = format!("Successfully received 'n' message with seqNo={number}");
                send(session, "B", |news| _ = news.str(HEADLINE, &headline))
            }
            _ => Err(BusinessReject::unsupported()),
        }
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.orders.clear();
        }
    }
}

fn send(
    session: &mut SessionRef<'_>,
    msg_type: &str,
    fill: impl FnOnce(&mut Body<'_>),
) -> Result<(), BusinessReject> {
    let sent = session.send(msg_type, fill);
    Ok(sent.map(drop)?)
}

/// Sends back the body fields byte for byte, with our own header.
fn echo(message: &Message<'_>, session: &mut SessionRef<'_>) -> Result<(), BusinessReject> {
    let poss_resend = message.flag(tag::POSS_RESEND)?;
    let msg_type = message.text(tag::MSG_TYPE)?;
    send(session, msg_type, |body| {
        if poss_resend {
            body.boolean(tag::POSS_RESEND, true);
        }
        for (n, field) in message.fields().enumerate() {
            if !tag::is_session_owned(field.tag) && !FRAME.contains(&field.tag.0) {
                body.fields(message.encoded(n));
            }
        }
    })
}

/// Answers a News(B) whose Headline(148) begins with `echo:` with a News(B) that has the rest.
fn answer_news(news: &Message<'_>, session: &mut SessionRef<'_>) -> Result<(), BusinessReject> {
    let headline = news.required(HEADLINE)?;
    let Some(rest) = headline.strip_prefix(b"echo:") else { return Ok(()) };
    send(session, "B", |answer| {
        if let Some(encoding) = news.raw(MESSAGE_ENCODING) {
            answer.bytes(MESSAGE_ENCODING, encoding);
        }
        answer.bytes(HEADLINE, rest.trim_ascii_start());
        if let Some(encoded) = news.raw(ENCODED_HEADLINE) {
            answer.data(ENCODED_HEADLINE_LEN, ENCODED_HEADLINE, encoded);
        }
    })
}
