//! Connections that have not sent a whole message yet.
//!
//! Invariants: at most so many wait in all and from one address; a new one always finds room, and
//! the oldest that has sent nothing makes it: whoever logs on at once gets in, however many
//! connections a stranger opens.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use transfix_transport::TcpStream;

/// A connection without a Logon(A).
pub(crate) struct Waiting {
    pub(crate) stream: TcpStream,
    pub(crate) address: Option<IpAddr>,
    /// The place where it came in.
    pub(crate) group: usize,
    pub(crate) read: Vec<u8>,
    pub(crate) until_ns: u64,
}

/// How many may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomLimits {
    pub(crate) max: usize,
    pub(crate) per_address_max: usize,
}

/// All that wait, the oldest first.
pub(crate) struct WaitingRoom {
    waiting: BTreeMap<usize, Waiting>,
    from: HashMap<IpAddr, usize>,
    limits: RoomLimits,
}

impl WaitingRoom {
    pub(crate) fn new(limits: RoomLimits) -> Self {
        Self { waiting: BTreeMap::new(), from: HashMap::new(), limits }
    }

    /// Takes one in. Answers with the one that had to make room.
    pub(crate) fn add(&mut self, token: usize, waiting: Waiting) -> Option<Waiting> {
        let address = waiting.address;
        let from_there = address.and_then(|address| self.from.get(&address));
        let crowded = from_there.is_some_and(|count| *count >= self.limits.per_address_max);
        let gone = match (crowded, self.waiting.len() >= self.limits.max) {
            (true, _) => self.oldest(|other| other.address == address),
            (false, true) => self.oldest(|_| true),
            (false, false) => None,
        };
        let gone = gone.and_then(|token| self.take(token));
        self.put_back(token, waiting);
        gone
    }

    /// One that is still waiting after a look at it.
    pub(crate) fn put_back(&mut self, token: usize, waiting: Waiting) {
        if let Some(address) = waiting.address {
            *self.from.entry(address).or_default() += 1;
        }
        self.waiting.insert(token, waiting);
    }

    pub(crate) fn take(&mut self, token: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(&token)?;
        if let Some(address) = waiting.address
            && let Some(count) = self.from.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.from.remove(&address);
            }
        }
        Some(waiting)
    }

    /// The oldest of these that has sent nothing, or else the oldest.
    fn oldest(&self, is_one: impl Fn(&Waiting) -> bool) -> Option<usize> {
        let mut all = self.waiting.iter().filter(|(_, waiting)| is_one(waiting));
        let (first, waiting) = all.next()?;
        if waiting.read.is_empty() {
            return Some(*first);
        }
        let silent = all.find(|(_, waiting)| waiting.read.is_empty());
        Some(silent.map_or(*first, |(token, _)| *token))
    }

    /// When the first one has waited long enough.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.until_ns).min()
    }

    /// Takes out those that have waited long enough.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        let late = self.waiting.iter().filter(|(_, waiting)| waiting.until_ns <= now_ns);
        let late: Vec<usize> = late.map(|(token, _)| *token).collect();
        for token in late {
            self.take(token);
        }
    }
}
