//! The client: an initiator that creates orders, sends them, and checks the reports.
//!
//! Invariant: one thread does all work. In turn, the thread sends some orders, lets the engine
//! read, and polls the keys.

mod session;

use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;

use clap::value_parser;
use serde::{Deserialize, Serialize};
use transfix::clock::{self, monotonic_ns};

use super::book::Check;
use super::figures::{EXPLAINED, Side};
use super::input::{Input, Inputs};
use super::keys::{self, Command, Heard, Keys, NUMBER_MAX};
use super::orders::{ADDRESS, Maker, Order};
use super::say;
use session::Session;

/// Number of orders that are sent in one write.
pub(super) const TOGETHER: usize = 64;
/// Maximum number of orders without reports. The data of both sides then fits into their stores,
/// and can be resent after a lost connection. A client that keeps up never reaches this limit.
pub(super) const UNDER_WAY_MAX: u64 = 16_384;
/// Maximum number of reads between two writes; the client reads only while bytes arrive.
pub(super) const READS: usize = 8;
/// Time in milliseconds for which an idle client waits for keys.
const WAIT_MS: u64 = 2;
/// Interval in nanoseconds between updates of the counts on a terminal.
const SHOWN_EVERY_NS: u64 = 200_000_000;

/// Sends orders, and checks the reports that the server returns.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench hftest client --preload 500000
  transfix bench hftest client -r --address 10.0.0.2:11002
  printf 'p 2000\\na\\nx\\n' | transfix bench hftest client

Keys: ? help, N send n, a send all preloaded, b batch preload and send n, l logout, n send one,
p preload n, x exit. Without a terminal they come as lines, and each waits until the orders sent
before it have all their reports; the end of the input is an x.
At the end of a session its times of encoding and decoding are printed, and written to the file
`client`; at the end of the program the reports are counted and checked.
Exit code: 0 done, 1 failed: no connection, or a check that did not pass; 2 wrong usage.")]
pub(crate) struct Args {
    /// Address of the server.
    #[arg(long, default_value = ADDRESS)]
    pub(super) address: String,
    /// Number of orders that the client creates before it reads keys.
    #[arg(long, short, default_value_t = 0,
          value_parser = value_parser!(u32).range(..=i64::from(NUMBER_MAX)))]
    preload: u32,
    /// Reconnect after a lost connection and continue; no order is lost or sent twice.
    #[arg(long, short)]
    pub(super) reliable: bool,
    /// The seed of the random quantities and prices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also validate the values of code fields, which needs a server with `--valid`.
    #[arg(long)]
    pub(super) valid: bool,
    /// Abandon the run after this many seconds without a report or without a logon.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u64)
          .range(1..=86_400))]
    pub(super) patience: u64,
    /// Directory for the file `client`.
    #[arg(long, value_name = "DIR", default_value = ".")]
    log_dir: PathBuf,
    /// Print the distribution of times: below 1, 3, 5, 10, 20, 50, 100, 1,000 µs, and above.
    #[arg(long)]
    histogram: bool,
    /// Print the figures as one line of JSON at the end.
    #[arg(long, hide = true)]
    figures: bool,
}

/// The figures that the client passes to its parent process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) check: Check,
    /// Time from the first order to the last report in seconds, summed over all rounds.
    pub(super) secs: f64,
    pub(super) side: Side,
}

/// The orders of the current round, which are unsent or lack reports.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Number of orders requested by keys since the round began.
    asked: u64,
    /// Start time of the round in nanoseconds; `None` after all reports have arrived.
    begun_ns: Option<u64>,
}

struct Client<'a> {
    args: &'a Args,
    session: Session,
    maker: Maker,
    preloaded: VecDeque<Order>,
    /// Preloaded orders that wait to be sent.
    outgoing: VecDeque<Order>,
    /// Orders to create and send one by one, as pairs: the number of orders, and the size of their
    /// batch.
    fresh: VecDeque<(u32, u32)>,
    round: Round,
    busy_ns: u64,
    shows_at_ns: u64,
}

/// Connects to the server, and executes the keys. Returns true if all reports are right.
pub(super) fn run(args: &Args) -> Result<bool, String> {
    let session = Session::start(args)?;
    let inputs = Inputs::open()?;
    let mut client = Client {
        args,
        session,
        maker: Maker::new(args.seed),
        preloaded: VecDeque::new(),
        outgoing: VecDeque::new(),
        fresh: VecDeque::new(),
        round: Round::default(),
        busy_ns: 0,
        shows_at_ns: 0,
    };
    let done = client.play(&inputs);
    // Dropping the inputs restores the terminal, because Ctrl-C may end the program during the
    // logout.
    drop(inputs);
    client.hide_counts();
    let written = client.end();
    done.and(written)
}

impl Client<'_> {
    fn play(&mut self, inputs: &Inputs) -> Result<(), String> {
        if self.args.preload > 0 {
            say("0 NewOrderSingle msgs currently preloaded. loading...")?;
        }
        self.session.wait_for_logon(inputs)?;
        if self.args.preload > 0 {
            self.preload(self.args.preload)?;
        }
        let mut keys = Keys::new(keys::CLIENT, inputs.is_terminal());
        if inputs.is_terminal() {
            say(&keys.help())?;
        }
        loop {
            let moved = self.step()?;
            if inputs.is_signalled() {
                return Ok(());
            }
            if self.is_busy() && !inputs.is_terminal() {
                if !moved {
                    self.session.check_patience()?;
                    std::thread::yield_now();
                }
                continue;
            }
            let wait_ms = if moved { 0 } else { WAIT_MS };
            match inputs.next(wait_ms) {
                None => {}
                Some(Input::Signal | Input::End) => return Ok(()),
                Some(Input::Byte(byte)) => match self.obey(byte, &mut keys)? {
                    Goes::On => {}
                    Goes::Ends => return Ok(()),
                },
            }
        }
    }

    fn obey(&mut self, byte: u8, keys: &mut Keys) -> Result<Goes, String> {
        let mut screen = String::new();
        let heard = keys.byte(byte, &mut screen);
        if !screen.is_empty() {
            let mut out = std::io::stdout();
            let shown = out.write_all(screen.as_bytes()).and_then(|()| out.flush());
            shown.map_err(|why| why.to_string())?;
        }
        match heard {
            Heard::Nothing => {}
            Heard::Wrong(why) if keys.is_terminal() => say(&why)?,
            Heard::Wrong(why) => return Err(why),
            Heard::Command(Command::Exit) => return Ok(Goes::Ends),
            Heard::Command(command) => self.do_command(command, keys)?,
        }
        Ok(Goes::On)
    }

    fn do_command(&mut self, command: Command, keys: &Keys) -> Result<(), String> {
        match command {
            Command::Help => return say(&keys.help()),
            Command::Exit => {}
            Command::Preload(count) => self.preload(count)?,
            Command::LogOut if self.session.is_logged_on() => {
                self.session.log_out()?;
                self.show_figures(&self.figures())?;
            }
            Command::LogOut => self.session.log_on()?,
            _ if !self.session.may_send() => say("not logged on; l logs on again")?,
            Command::SendAll if self.preloaded.is_empty() => {
                say("0 NewOrderSingle msgs currently preloaded; p preloads some")?;
            }
            Command::SendAll => {
                self.ask(self.preloaded.len() as u64);
                self.outgoing.append(&mut self.preloaded);
            }
            Command::Batch(count) => {
                self.ask(count.into());
                let now = clock::now().utc;
                let maker = &mut self.maker;
                self.outgoing.extend((0..count).map(|_| maker.next(count, now)));
            }
            Command::SendOne => self.send_fresh(1),
            Command::SendMany(count) => self.send_fresh(count),
        }
        Ok(())
    }

    fn send_fresh(&mut self, count: u32) {
        self.ask(count.into());
        self.fresh.push_back((count, count));
    }

    fn ask(&mut self, count: u64) {
        self.round.asked += count;
        self.round.begun_ns.get_or_insert_with(monotonic_ns);
        self.session.be_patient();
    }

    fn preload(&mut self, count: u32) -> Result<(), String> {
        self.preloaded.reserve_exact(count as usize);
        let now = clock::now().utc;
        let maker = &mut self.maker;
        self.preloaded.extend((0..count).map(|_| maker.next(count, now)));
        say(&format!("{} NewOrderSingle msgs preloaded.", self.preloaded.len()))
    }

    /// Sends some orders and reads the received reports. Returns true if anything was sent or read.
    fn step(&mut self) -> Result<bool, String> {
        let mut moved = self.session.may_send() && self.send_some()?;
        for _ in 0..READS {
            if !self.session.read() {
                break;
            }
            moved = true;
        }
        self.session.tell()?;
        self.note_round()?;
        if moved {
            self.show_counts();
        }
        Ok(moved)
    }

    fn send_some(&mut self) -> Result<bool, String> {
        while self.outgoing.len() < TOGETHER
            && let Some((left, together)) = self.fresh.front_mut()
        {
            self.outgoing.push_back(self.maker.next(*together, clock::now().utc));
            *left -= 1;
            if *left == 0 {
                self.fresh.pop_front();
            }
        }
        if self.outgoing.is_empty() || self.session.counts().open >= UNDER_WAY_MAX {
            return Ok(false);
        }
        let sent = self.session.send(self.outgoing.iter().take(TOGETHER))?;
        self.outgoing.drain(..sent);
        Ok(sent > 0)
    }

    /// Prints a line when all orders of the round are sent, and when all reports have arrived.
    fn note_round(&mut self) -> Result<(), String> {
        if self.round.asked > 0 && self.outgoing.is_empty() && self.fresh.is_empty() {
            let (sent, left) = (std::mem::take(&mut self.round.asked), self.preloaded.len());
            self.hide_counts();
            say(&format!("{sent} NewOrderSingle msgs sent"))?;
            say(&format!("{left} NewOrderSingle msgs remaining."))?;
        }
        if self.round.asked == 0
            && self.session.counts().open == 0
            && let Some(begun_ns) = self.round.begun_ns.take()
        {
            self.busy_ns += monotonic_ns() - begun_ns;
            self.hide_counts();
            say(&format!("{} ExecutionReport msgs received", self.session.counts().reports))?;
        }
        Ok(())
    }

    /// Returns true if orders are unsent or unanswered.
    const fn is_busy(&self) -> bool {
        self.round.begun_ns.is_some()
    }

    /// Shows the counts on a terminal, in a line that the next call overwrites.
    fn show_counts(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns >= self.shows_at_ns && self.is_busy() && stderr().is_terminal() {
            self.shows_at_ns = now_ns + SHOWN_EVERY_NS;
            let counts = self.session.counts();
            let (sent, reports) = (counts.orders, counts.reports);
            eprint!(
                "\r\x1b[K{sent} NewOrderSingle msgs sent, {reports} ExecutionReport msgs received"
            );
        }
    }

    fn hide_counts(&self) {
        if self.shows_at_ns > 0 && stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }

    fn figures(&self) -> Figures {
        let under_way_ns = self.round.begun_ns.map_or(0, |begun_ns| monotonic_ns() - begun_ns);
        let secs = (self.busy_ns + under_way_ns) as f64 / 1e9;
        Figures { check: self.session.check(), secs, side: self.session.side() }
    }

    /// Prints the times so far, and writes them to the file of the client.
    fn show_figures(&self, figures: &Figures) -> Result<(), String> {
        figures.side.write(&self.args.log_dir, "client")?;
        if self.args.figures {
            return Ok(());
        }
        let side = &figures.side;
        say(&format!("{}{}", side.lines(""), side.rest("", self.args.histogram).trim_end()))
    }

    /// Logs out, and prints the outcome of all orders. Returns true if all reports are right.
    fn end(&mut self) -> Result<bool, String> {
        let logged_out = self.session.stop();
        let figures = self.figures();
        self.show_figures(&figures)?;
        if self.args.figures {
            say(&serde_json::to_string(&figures).map_err(|why| why.to_string())?)?;
        } else {
            say(EXPLAINED)?;
            say(&figures.check.to_string())?;
        }
        logged_out?;
        Ok(figures.check.faults().is_empty())
    }
}

/// The effect of a key: the program continues or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    On,
    Ends,
}
