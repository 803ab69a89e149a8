//! The commands of `connect`: orders, cancellations, messages of any type, logon and logout.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustyline::error::ReadlineError;
use transfix::{BeginString, Body, Decimal, SendError, SessionHandle, Tag, tag};

use super::placed::Placed;
use crate::show::say;

/// Commands from a terminal or a pipe.
pub(super) struct Console {
    pub(super) handle: SessionHandle,
    pub(super) begin_string: BeginString,
    pub(super) orders: HashMap<u64, Placed>,
    pub(super) next_order: u64,
    pub(super) logged_on: Receiver<()>,
    /// By `logout`: no logon comes before `logon`.
    pub(super) logged_out: bool,
}

/// Longest wait for a logon before the user is told.
const LOGON_WAIT: Duration = Duration::from_secs(30);

impl Console {
    /// Takes commands until the last one.
    pub(super) fn run(
        &mut self,
        editor: &mut rustyline::DefaultEditor,
        prompt: &str,
    ) -> Result<(), String> {
        loop {
            match editor.readline(prompt) {
                Ok(line) => {
                    if line.trim() == "quit" {
                        return Ok(());
                    }
                    // History is a comfort: without it the command counts all the same.
                    let _ = editor.add_history_entry(&line);
                    if let Err(error) = self.command(&line) {
                        say(&error);
                    }
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn command(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            ["buy", quantity, symbol, price] => self.order(b'1', quantity, symbol, price),
            ["sell", quantity, symbol, price] => self.order(b'2', quantity, symbol, price),
            ["cancel", number] => self.cancel(number),
            ["burst", n] => self.burst(n),
            ["send", msg_type, fields] => self.raw(msg_type, fields),
            ["logout"] => {
                self.logged_out = true;
                self.handle.log_out("").map_err(|error| error.to_string())
            }
            ["logon"] => {
                self.logged_out = false;
                self.handle.log_on().map_err(|error| error.to_string())
            }
            ["wait"] => self.wait(),
            ["help"] => {
                say("buy QUANTITY SYMBOL PRICE | sell QUANTITY SYMBOL PRICE | cancel NUMBER\n\
                     burst N | send TYPE TAG=VALUE|… | logout | logon | wait | quit");
                Ok(())
            }
            _ => Err("not understood; `help` lists the commands".to_owned()),
        }
    }

    fn wait(&self) -> Result<(), String> {
        if self.logged_out {
            return Err("logged out; `logon` first".to_owned());
        }
        while !self.handle.is_logged_on() {
            let came = self.logged_on.recv_timeout(LOGON_WAIT);
            came.map_err(|_| "no logon yet; is the acceptor running?".to_owned())?;
        }
        Ok(())
    }

    fn send(&self, msg_type: &str, fill: impl Fn(&mut Body<'_>)) -> Result<(), String> {
        loop {
            match self.handle.send(msg_type, &fill) {
                Ok(_) => return Ok(()),
                Err(SendError::WouldBlock { .. }) => std::thread::yield_now(),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn order(&mut self, side: u8, quantity: &str, symbol: &str, price: &str) -> Result<(), String> {
        let decimal = |text: &str| {
            Decimal::parse(text.as_bytes()).ok_or_else(|| format!("{text} is no number"))
        };
        let (quantity, price) = (decimal(quantity)?, decimal(price)?);
        let (n, begin_string) = (self.next_order, self.begin_string);
        self.send("D", |body| {
            body.uint(tag::CL_ORD_ID, n);
            if begin_string < BeginString::Fix44 {
                body.char(tag::HANDL_INST, b'1');
            }
            body.str(tag::SYMBOL, symbol).char(tag::SIDE, side);
            body.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
            body.decimal(tag::ORDER_QTY, quantity).char(tag::ORD_TYPE, b'2');
            body.decimal(tag::PRICE, price);
        })?;
        let placed = Placed { symbol: symbol.to_owned(), side, quantity };
        self.orders.insert(n, placed);
        self.next_order += 1;
        Ok(())
    }

    fn burst(&mut self, n: &str) -> Result<(), String> {
        let n: u64 = n.parse().map_err(|_| format!("{n} is no number"))?;
        for i in 0..n {
            // Two sides in turn: every second order trades with the one before.
            let side = if self.next_order.is_multiple_of(2) { b'2' } else { b'1' };
            let price = format!("{}", 30 + self.next_order / 2 % 10);
            self.order(side, "5", "EU", &price).map_err(|e| format!("{i} of {n} sent: {e}"))?;
        }
        Ok(())
    }

    fn cancel(&mut self, number: &str) -> Result<(), String> {
        let orig: u64 = number.parse().map_err(|_| format!("{number} is no order number"))?;
        let order = self.orders.get(&orig).ok_or_else(|| format!("there is no order {orig}"))?;
        let (n, begin_string) = (self.next_order, self.begin_string);
        self.send("F", |body| {
            body.uint(tag::ORIG_CL_ORD_ID, orig).uint(tag::CL_ORD_ID, n);
            if begin_string < BeginString::Fix42 {
                body.char(Tag(125), b'F');
            }
            body.str(tag::SYMBOL, &order.symbol).char(tag::SIDE, order.side);
            if begin_string >= BeginString::Fix42 {
                body.timestamp(tag::TRANSACT_TIME, transfix::clock::now().utc);
            }
            body.decimal(tag::ORDER_QTY, order.quantity);
        })?;
        self.next_order += 1;
        Ok(())
    }

    fn raw(&self, msg_type: &str, fields: &str) -> Result<(), String> {
        let mut parsed = Vec::new();
        for field in fields.split('|').filter(|field| !field.is_empty()) {
            let pair = field.split_once('=');
            let pair = pair.and_then(|(tag, value)| Some((Tag(tag.parse().ok()?), value)));
            parsed.push(pair.ok_or_else(|| format!("{field} is not TAG=VALUE"))?);
        }
        self.send(msg_type, |body| {
            for (tag, value) in &parsed {
                body.str(*tag, value);
            }
        })
    }
}
