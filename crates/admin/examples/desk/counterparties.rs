//! The counterparties of the venue: most trade, some are absent, some cause problems.

use std::error::Error;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix::{
    Action, Application, BeginString, BusinessReject, Durability, Engine, Message, Role,
    SessionHandle, SessionId, SessionRef, SessionSettings, Settings,
};

use crate::line;
use crate::venue::name;

/// Every `ABSENT`th counterparty is not connected.
const ABSENT: usize = 9;
/// The interval between orders; in each interval, `AT_ONCE` sessions may send.
const BEAT: Duration = Duration::from_millis(50);
const AT_ONCE: usize = 8;
/// Text(58) of the Logout(5) that the session LEFT sends. The console must not interpret this text
/// as HTML.
const FAREWELL: &str = "closing early <img src=x onerror=\"document.title='owned'\">";

/// The application of the counterparties; it accepts every message.
struct Taker;

impl Application for Taker {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

fn session(role: Role, name: &str, target: &str, address: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, name, target);
    let mut session = SessionSettings::new(role, &id, address);
    session.store.durability = Durability::Memory;
    session.validation.validate = false;
    session
}

/// Starts the broker: the acceptor to which the venue's initiator connects.
pub(crate) fn broker() -> Result<Engine, Box<dyn Error>> {
    let settings = Settings::of(session(Role::Acceptor, "BROKER", "VENUE", "127.0.0.1:0"));
    Ok(Engine::start(&settings, |_| Box::new(Taker))?)
}

/// The running counterparties.
pub(crate) struct Counterparties {
    engine: Engine,
    stop: Sender<()>,
    trading: JoinHandle<()>,
    line: JoinHandle<()>,
}

impl Counterparties {
    pub(crate) fn start(venue: &Engine, count: usize) -> Result<Self, Box<dyn Error>> {
        let listens = venue.listening().iter().find(|at| at.ip().to_string() == "127.0.0.1");
        let at = listens.ok_or("the venue does not listen")?.to_string();
        let present = (0..count).filter(|n| n % ABSENT != ABSENT - 1).map(name);
        let special = ["LEFT", "LOCKED", "FULL"].map(str::to_owned);
        let mut settings = Settings::default();
        for name in present.chain(special) {
            settings.sessions.push(session(Role::Initiator, &name, "VENUE", &at));
        }
        let engine = Engine::start(&settings, |_| Box::new(Taker))?;
        let (stop, stopped) = channel();
        let handles: Vec<_> = engine.sessions().collect();
        let trading = thread::spawn(move || {
            let mut desk = Desk { handles, turn: 0, order: 0, has_left: false };
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                desk.beat();
            }
        });
        let line = thread::spawn(move || {
            if let Err(error) = line::run(&at) {
                println!("LINE: {error}");
            }
        });
        Ok(Self { engine, stop, trading, line })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        // The join fails only after a panic of the trading thread, which has been reported already.
        let _ = self.trading.join();
        self.engine.stop(crate::LOGOUT_TIME);
        // The thread is detached, because it ends only when the venue closes the connection.
        drop(self.line);
    }
}

struct Desk {
    handles: Vec<SessionHandle>,
    turn: usize,
    order: u64,
    has_left: bool,
}

impl Desk {
    fn beat(&mut self) {
        for _ in 0..AT_ONCE.min(self.handles.len()) {
            self.turn = (self.turn + 1) % self.handles.len();
            let handle = self.handles[self.turn].clone();
            if handle.is_logged_on() {
                self.trade(&handle);
            }
        }
    }

    fn trade(&mut self, handle: &SessionHandle) {
        self.order += 1;
        match &*handle.id().sender_comp_id {
            "LEFT" => {
                if !self.has_left {
                    // LEFT logs out only once, so that the session stays up after an operator logs
                    // it on again.
                    self.has_left =
                        handle.operate(&Action::LogOut { text: FAREWELL.to_owned() }).is_ok();
                }
            }
            "FULL" => {
                let text = "x".repeat(900);
                for n in 0..20 {
                    send(handle, "D", &order(&format!("full{}-{n}", self.order), &text));
                }
            }
            _ => self.life(handle),
        }
    }

    /// Sends an order, then its replacement, then its cancellation.
    fn life(&self, handle: &SessionHandle) {
        let name = format!("o{}", self.order);
        send(handle, "D", &order(&format!("{name}-1"), "for the desk"));
        if self.order.is_multiple_of(3) {
            let replaced = format!("41={name}-1|{}", order(&format!("{name}-2"), "a better price"));
            send(handle, "G", &replaced);
            let cancelled = format!("41={name}-2|11={name}-3|55=EUR/USD|54=1|60={TIME}|38=100|");
            send(handle, "F", &cancelled);
        }
    }
}

const TIME: &str = "20260105-09:30:00.000";

/// Returns the body of an order with two parties; `|` is the delimiter.
pub(crate) fn order(id: &str, text: &str) -> String {
    format!(
        "11={id}|453=2|448=DESK7|447=D|452=11|448=FUND|447=D|452=3|55=EUR/USD|54=1|60={TIME}|\
         38=100|40=2|44=1.0875|58={text}|"
    )
}

fn send(handle: &SessionHandle, msg_type: &str, body: &str) {
    // A session that is closed refuses the order; the order is then dropped.
    let _ =
        handle.send(msg_type, |message| _ = message.fields(body.replace('|', "\x01").as_bytes()));
}
