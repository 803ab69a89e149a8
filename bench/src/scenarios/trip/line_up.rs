//! The contestants of a run: the floor, this engine, and other engines.

use std::path::Path;
use std::process::{Command, Stdio};

use transfix::Role;

use super::super::child::Side as Process;
use super::super::column::Column;
use super::super::contest::Contestant;
use super::super::page::{Answer, Page};
use super::super::report::Kind;
use super::pair::Pair;
use super::peers;
use super::process::{Part, Work, floor_address, part};
use super::quickfix::BothEnds;

/// The contestants, the floor first.
pub(super) struct LineUp<'a> {
    pub(super) page: &'a Page,
    pub(super) column: &'a Column,
    pub(super) work: Work,
    pub(super) all: Vec<Box<dyn Contestant>>,
    pub(super) kinds: Vec<Kind>,
    /// Notes about other engines.
    pub(super) notes: Vec<String>,
}

impl LineUp<'_> {
    fn add(&mut self, kind: Kind, contestant: impl Contestant + 'static) {
        self.kinds.push(kind);
        self.all.push(Box::new(contestant));
    }

    fn part(&self, of: Part, address: &str) -> Command {
        part(self.page, self.column, &self.work, of, address)
    }

    /// Adds the floor, and this engine at both ends. `remote` is the acceptor's address on another
    /// host.
    pub(super) fn ours(&mut self, remote: Option<&str>) -> Result<(), String> {
        let floor = remote.map(floor_address).transpose()?;
        let name = format!("floor of {}", self.column.name);
        let of = (Part::FloorAcceptor, Part::FloorInitiator);
        self.pair((&name, Kind::Floor), of, floor.as_deref())?;
        let name = self.column.name.clone();
        self.pair((&name, Kind::Engine), (Part::Acceptor, Part::Initiator), remote)
    }

    fn pair(
        &mut self,
        (name, kind): (&str, Kind),
        (acceptor, asker): (Part, Part),
        remote: Option<&str>,
    ) -> Result<(), String> {
        let (acceptor, address) = match remote {
            Some(address) => (None, address.to_owned()),
            None => {
                let mut command = self.part(acceptor, "127.0.0.1:0");
                let mut process = Process::start(name, command.stdin(Stdio::piped()))?;
                let address = process.first_line()?;
                (Some(process), address)
            }
        };
        let task = self.work.task();
        let pair = Pair::start((name, kind), acceptor, &mut self.part(asker, &address), task)?;
        self.add(kind, pair);
        Ok(())
    }

    /// Adds other engines: at both ends, if the page has them, and as acceptors for the common
    /// client, together with this engine's acceptor. Returns the engines that cannot run, with
    /// their reasons.
    pub(super) fn peers(&mut self, dir: &Path, stores: &Path) -> Result<Vec<String>, String> {
        let (spins, work) = (self.column.spins(), self.work);
        let mut not_run = Vec::new();
        let is_of_page = self.page.answer == Answer::Report && !self.page.client_id && !work.log;
        if let (true, Some(rate)) = (is_of_page, work.rate) {
            let program = dir.join("qf_latency");
            if program.exists() {
                for both in BothEnds::all(dir, spins, &work, rate) {
                    self.add(Kind::Peer, both);
                }
            } else {
                let shown = program.display();
                not_run.push(format!("{shown} is not there; `cargo xtask peers build`"));
            }
        }
        let name = format!("{}, common client", self.column.name);
        self.pair((&name, Kind::Acceptor), (Part::Acceptor, Part::Client), None)?;
        let (answer, files) = (self.page.answer, self.column.has_files());
        let (ways, missing) = peers::ways(dir, peers::Wanted { answer, files, spins })?;
        not_run.extend(missing);
        // If our acceptor is pinned, the acceptors of other engines are pinned too.
        let cpu = self.column.session(Role::Acceptor).threads.cpu;
        self.notes = peers::notes(&ways);
        for (n, way) in ways.iter().enumerate() {
            let store = stores.join(n.to_string());
            std::fs::create_dir_all(&store).map_err(|e| format!("{}: {e}", store.display()))?;
            let pair = way.start(&store, cpu).and_then(|mut acceptor| {
                let address = acceptor.first_line()?;
                let mut client = self.part(Part::Client, &address);
                client.arg("--peers");
                let kind = Kind::PeerAcceptor;
                Pair::start((&way.name, kind), Some(acceptor), &mut client, work.task())
            });
            match pair {
                Ok(pair) => self.add(Kind::PeerAcceptor, pair),
                Err(error) => not_run.push(format!("{}: {error}", way.name)),
            }
        }
        Ok(not_run)
    }
}
