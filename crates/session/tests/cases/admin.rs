//! Tests of the hook for administrative messages that the session writes.

use std::sync::Arc;

use transfix_session::{
    BeforeAdmin, BeginString, Disconnect, NewAdmin, OperateError, Role, State, Verdict,
};

use crate::cases::counterparty::World;

const VETOED: Verdict = Verdict::Disconnect(Disconnect::Vetoed);

/// A hook that adds a field to each message, and vetoes messages of one type.
#[derive(Debug)]
struct Look {
    vetoed: &'static [u8],
}

impl BeforeAdmin for Look {
    fn before_admin(&self, message: NewAdmin<'_>) -> bool {
        let field = format!("9001={}/{}\x01", message.msg_seq_num, message.sending_time);
        message.body.extend_from_slice(field.as_bytes());
        message.msg_type != self.vetoed
    }
}

fn looking(w: &mut World, vetoed: &'static [u8]) {
    w.session.set_before_admin(Some(Arc::new(Look { vetoed })));
}

#[test]
fn each_new_administrative_message_is_looked_at() {
    let mut w = World::active(BeginString::Fix44);
    looking(&mut w, b"");
    w.takes("35=1|34=2|112=x");
    w.takes("35=1|34=3");
    w.takes("35=0|34=9");
    w.session.test_request(w.now, "y", &mut w.out).unwrap();
    w.session.sequence_reset(w.now, 20, &mut w.out).unwrap();
    w.session.logout(w.now, "bye", &mut w.out);
    let sent = w.sent();
    let types: Vec<_> = sent.iter().map(|line| &line[..4]).collect();
    assert_eq!(types, ["35=0", "35=3", "35=2", "35=1", "35=4", "35=5"]);
    for line in sent {
        let number = line.split('|').nth(1).unwrap().strip_prefix("34=").unwrap();
        assert!(line.contains(&format!("|9001={number}/20")), "{line}");
    }
}

#[test]
fn a_veto_ends_the_connection_as_if_it_had_broken_before() {
    type Act = fn(&mut World) -> Result<(), OperateError>;
    let acts: [(&[u8], Act); 7] = [
        (b"0", |w| {
            assert_eq!(w.receive("35=1|34=2|112=x"), VETOED);
            Ok(())
        }),
        (b"3", |w| {
            assert_eq!(w.receive("35=1|34=2"), VETOED);
            Ok(())
        }),
        (b"2", |w| {
            assert_eq!(w.receive("35=0|34=9"), VETOED);
            Ok(())
        }),
        (b"5", |w| {
            w.session.logout(w.now, "bye", &mut w.out);
            Ok(())
        }),
        (b"1", |w| w.session.test_request(w.now, "y", &mut w.out)),
        (b"4", |w| w.session.sequence_reset(w.now, 20, &mut w.out)),
        (b"2", |w| w.session.request_resend(w.now, 1, 1, &mut w.out)),
    ];
    for (vetoed, act) in acts {
        let mut w = World::active(BeginString::Fix44);
        looking(&mut w, vetoed);
        let done = act(&mut w);
        assert!(matches!(done, Ok(()) | Err(OperateError::Vetoed)));
        assert_eq!(w.sent(), [""; 0], "{}", vetoed.escape_ascii());
        assert_eq!(w.session.next_num_out(), 2, "no number is used");
        assert_eq!(w.session.next_deadline(), Some(0), "at once");
        assert_eq!(w.later(0), VETOED);
        w.disconnect();
        assert_eq!(w.session.state(), State::Disconnected);
        looking(&mut w, b"");
        w.connect();
        let logon = w.logon(w.session.next_num_in());
        w.takes(&logon);
        assert_eq!(w.session.state(), State::Active);
    }
}

#[test]
fn a_vetoed_logon_is_none() {
    for role in [Role::Acceptor, Role::Initiator] {
        let mut w = World::new(role, BeginString::Fix44, |_| ());
        w.disconnect();
        w.sent();
        let numbers = (w.session.next_num_in(), w.session.next_num_out());
        looking(&mut w, b"A");
        w.connect();
        if role == Role::Acceptor {
            let logon = w.logon(numbers.0);
            assert_eq!(w.receive(&logon), Verdict::Disconnect(Disconnect::Vetoed));
        } else {
            assert_eq!(w.later(0), Verdict::Disconnect(Disconnect::Vetoed));
        }
        assert_eq!(w.sent(), [""; 0]);
        assert_eq!(w.session.next_num_out(), numbers.1);
    }
}

/// If the hook vetoes a Logon(A) that requests a reset, the counterparty does not learn of the
/// reset, so the next logon requests it again.
#[test]
fn a_vetoed_reset_comes_with_the_next_logon() {
    for role in [Role::Acceptor, Role::Initiator] {
        let mut w = World::new(role, BeginString::Fix44, |_| ());
        let logon = w.logon(1);
        w.takes(&logon);
        w.takes("35=0|34=2");
        w.send("a").unwrap();
        w.sent();
        looking(&mut w, b"A");
        let reset = w.session.reset_in_session(w.now, &mut w.out);
        assert_eq!(reset, Err(OperateError::Vetoed));
        assert_eq!(w.later(0), Verdict::Disconnect(Disconnect::Vetoed));
        w.disconnect();
        w.session.set_before_admin(None);
        w.sent();
        w.connect();
        let logon = match role {
            Role::Acceptor => w.logon(3),
            Role::Initiator => w.logon(1) + "|141=Y",
        };
        w.takes(&logon);
        let sent = w.sent();
        assert!(sent[0].starts_with("35=A|34=1|") && sent[0].contains("|141=Y"), "{sent:?}");
    }
}
