//! An application that reacts in all possible ways, as the input determines.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use transfix::{
    AnswerOptions, Application, Body, BusinessReject, Direction, HeaderChange, LogonAttempt,
    LogonRefusal, Message, Resend, SessionEvent, SessionNotice, SessionRef, SessionView, Timestamp,
    tag,
};
use transfix_codec::raw;

/// The next actions of the application, as bytes of the input.
pub(crate) type Actions = Arc<Mutex<VecDeque<u8>>>;

pub(crate) struct RandomApplication(pub(crate) Actions);

impl RandomApplication {
    fn wish(&self) -> u8 {
        self.0.lock().expect("one thread").pop_front().unwrap_or(0)
    }

    /// Performs an action on the session as the next byte determines, or does nothing.
    fn act(&self, text: &[u8], session: &mut SessionRef<'_>) {
        let id = session.id().clone();
        match self.wish() % 12 {
            0 => _ = session.send("8", |report| _ = report.bytes(tag::CL_ORD_ID, text)),
            1 => _ = session.send("B", |news| _ = news.bytes(tag::TEXT, text)),
            2 => session.logout(&String::from_utf8_lossy(text)),
            3 => session.disconnect(),
            4 => {
                let header = HeaderChange {
                    msg_seq_num: Some(u64::from(self.wish())),
                    orig_sending_time: Some(Timestamp(0)),
                };
                let options = AnswerOptions { header: Some(header), ..AnswerOptions::default() };
                let _ = session.send_with(options, "8", |_| ());
            }
            5 => _ = session.send(text, |_| ()),
            6 => _ = session.other(&id).map(|own| own.send("B", |_| ())),
            7 => {
                (0..40).for_each(|_| _ = session.send("B", |news| _ = news.str(tag::TEXT, "news")))
            }
            _ => {}
        }
    }
}

/// Returns any value of the message.
fn any_value(message: &Message<'_>, wish: u8) -> Vec<u8> {
    let n = usize::from(wish) % message.len().max(1);
    message.fields().nth(n).map_or_else(Vec::new, |field| field.value.to_vec())
}

impl Application for RandomApplication {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let value = any_value(message, self.wish());
        self.act(&value, session);
        match self.wish() % 8 {
            0 => Err(BusinessReject::unsupported()),
            1 => Err(BusinessReject::not_available()),
            2 => Err(BusinessReject::other(String::from_utf8_lossy(&value).into_owned())),
            3 => Err(BusinessReject::new(self.wish().into(), "")),
            4 => message.required(tag::SYMBOL).map(drop).map_err(Into::into),
            5 => message.decimal(tag::PRICE).map(drop).map_err(Into::into),
            _ => Ok(()),
        }
    }

    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        let value = any_value(logon, self.wish());
        let refusal = LogonRefusal::new(String::from_utf8_lossy(&value).into_owned());
        match self.wish() % 8 {
            0 => return Err(refusal),
            1 => attempt.answer_later().refuse(refusal),
            2 => attempt.answer_later().accept(),
            3 => drop(attempt.answer_later()),
            _ => {}
        }
        Ok(())
    }

    fn fill_logon(&mut self, logon: &mut Body<'_>, _: &SessionView<'_>) {
        if self.wish() % 8 == 0 {
            logon.bytes(tag::TEXT, &[self.wish()]);
        }
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        match event {
            SessionEvent::LoggedOn => self.act(b"logged on", session),
            SessionEvent::NumbersReset => self.act(b"reset", session),
            SessionEvent::Rejected(rejected) => {
                assert!(!rejected.to_string().contains(char::is_control));
                self.act(rejected.text, session);
            }
            SessionEvent::ResendLoop { .. } => self.act(b"again", session),
            SessionEvent::AdminMessage(message) => {
                let value = any_value(message, self.wish());
                self.act(&value, session);
            }
            _ => {}
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            assert!(!end.to_string().contains(char::is_control));
        }
        if self.wish() % 4 == 0 {
            let _ = session.other(session.id()).map(|own| own.send("B", |_| ()));
        }
    }

    fn on_resend(&mut self, _: &Message<'_>, _: &SessionView<'_>) -> Resend {
        if self.wish() % 4 == 0 { Resend::Skip } else { Resend::Send }
    }

    fn wants_wire(&self) -> bool {
        true
    }

    /// A search for the bytes would not suffice, because the same bytes inside a data field are
    /// only data.
    fn on_wire(&mut self, _: Direction, frame: &[u8], _: &SessionView<'_>) {
        let mut secrets = raw::fields(frame).filter(|field| field.tag == tag::PASSWORD);
        let is_hidden = secrets.all(|field| field.value.iter().all(|byte| *byte == b'*'));
        assert!(is_hidden, "a secret is shown");
    }
}
