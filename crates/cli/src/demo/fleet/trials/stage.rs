//! A fleet on one machine: three NATS servers, three gateways, and the networks between them and
//! the counterparty.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use transfix::clock::monotonic_ns;
use transfix::{FleetSettings, StoreError};
use transfix_stores::{ConnectOptions, FleetOperator, JetStream, JetStreamStore};

use super::brokers::{Brokers, COUNT, STREAM};
use super::counterparty::{Counterparty, HEART_BT_INT, LOGON_TIMEOUT, RECONNECT_INTERVAL, nanos};
use super::gateway::{Gateway, notes_path};
use super::history::{Histories, Journal, Violations};
use super::relay::{Direction, Relay};
use crate::demo::fleet::fault::{Fault, Role};

/// Maximum time for the orders to be answered again.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which progress is checked.
const LOOK: Duration = Duration::from_millis(1);
/// Number of orders that must be answered before a fault, and after it.
const STEADY: u64 = 100;
/// The session, as a gateway names it.
const SESSION: &str = "FIX.4.4:VENUE->CLIENT";

pub(super) struct Stage {
    role: Role,
    dir: PathBuf,
    counterparty: Counterparty,
    gateways: Vec<Gateway>,
    brokers: Brokers,
    /// The networks from each gateway to each NATS server.
    to_brokers: Vec<Vec<Relay>>,
    /// The network between the counterparty and each gateway.
    networks: Vec<Relay>,
    operator: FleetOperator,
}

impl Stage {
    pub(super) fn start(nats_server: &Path, role: Role, dir: &Path) -> Result<Self, String> {
        let brokers = Brokers::start(nats_server, dir)?;
        let text = |error: std::io::Error| error.to_string();
        let (mut to_brokers, mut networks, mut gateways) = (Vec::new(), Vec::new(), Vec::new());
        let operator = connect(&brokers)?;
        let listens = match role {
            Role::Acceptor => None,
            Role::Initiator => Some(Counterparty::start(&[], dir)?),
        };
        let address = listens.as_ref().and_then(Counterparty::address);
        for n in 0..COUNT {
            let paths = brokers.addresses().iter().map(|address| Relay::to(address));
            let paths = paths.collect::<Result<Vec<_>, _>>().map_err(text)?;
            let to_counterparty = address.as_deref().map(Relay::to).transpose().map_err(text)?;
            let settings = write_settings(dir, n, &paths, to_counterparty.as_ref())?;
            let gateway = Gateway::start(&settings)?;
            let to_gateway = gateway.address.as_deref().map(Relay::to).transpose().map_err(text)?;
            networks.push(to_counterparty.or(to_gateway).ok_or("no side listens")?);
            to_brokers.push(paths);
            gateways.push(gateway);
        }
        brokers.settle()?;
        let counterparty = match listens {
            Some(counterparty) => counterparty,
            None => {
                let addresses: Vec<_> = networks.iter().map(Relay::address).collect();
                Counterparty::start(&addresses, dir)?
            }
        };
        let dir = dir.to_owned();
        Ok(Self { role, dir, counterparty, gateways, brokers, to_brokers, networks, operator })
    }

    /// Causes a fault, ends it, and waits until the fleet is whole again. Returns the longest time
    /// without an answer.
    pub(super) fn inject(&mut self, fault: Fault, pause: Duration) -> Result<Duration, String> {
        self.brokers.settle()?;
        self.wait_for_answers(STEADY)?;
        let (owner, leader) = (self.owner()?, self.leader()?);
        let until_ns = monotonic_ns() + nanos(pause);
        self.counterparty.begin_gap();
        match fault {
            Fault::All => {}
            Fault::GatewayDrained => {
                let drained = self.operator.drain(&format!("g{owner}"));
                drained.map_err(|error| error.to_string())?;
            }
            Fault::GatewayKilled => self.gateways[owner].kill(),
            Fault::GatewayPaused => self.gateways[owner].pause(true)?,
            Fault::BrokerKilled => self.brokers.kill((leader + 1) % COUNT),
            Fault::LeaderKilled => self.brokers.kill(leader),
            Fault::GatewayAndLeaderKilled => {
                self.gateways[owner].kill();
                self.brokers.kill(leader);
            }
            Fault::CutToBrokers => self.cut_brokers(owner, Direction::Out, true),
            Fault::CutFromBrokers => self.cut_brokers(owner, Direction::In, true),
            Fault::CutFromCounterparty | Fault::CutToCounterparty => {
                self.cut_counterparty(fault, owner, true);
            }
            Fault::AllKilled => {
                self.gateways.iter_mut().for_each(Gateway::kill);
                (0..COUNT).for_each(|n| self.brokers.kill(n));
                (0..COUNT).try_for_each(|n| self.brokers.run(n))?;
                self.brokers.settle()?;
                (0..COUNT).try_for_each(|n| self.restart_gateway(n))?;
            }
            Fault::DiskFull => self.brokers.fill_disk(leader, true)?,
            Fault::BitFlipped => {
                let damaged = (leader + 1) % COUNT;
                self.flip_a_bit(damaged)?;
                self.brokers.lead(damaged)?;
                self.gateways[owner].kill();
            }
        }
        if fault.is_pause() {
            while monotonic_ns() < until_ns {
                super::pause(LOOK);
            }
        } else {
            self.wait_for_answers(STEADY)?;
        }
        self.end(fault, owner, leader)?;
        self.wait_for_answers(STEADY)?;
        Ok(self.counterparty.gap())
    }

    fn end(&mut self, fault: Fault, owner: usize, leader: usize) -> Result<(), String> {
        match fault {
            Fault::All | Fault::AllKilled => Ok(()),
            Fault::GatewayDrained => {
                let resumed = self.operator.resume(&format!("g{owner}"));
                resumed.map_err(|error| error.to_string())
            }
            Fault::GatewayKilled => self.restart_gateway(owner),
            Fault::GatewayPaused => self.gateways[owner].pause(false),
            Fault::BrokerKilled => self.brokers.run((leader + 1) % COUNT),
            Fault::LeaderKilled => self.brokers.run(leader),
            Fault::GatewayAndLeaderKilled => {
                self.brokers.run(leader)?;
                self.restart_gateway(owner)
            }
            Fault::CutToBrokers => {
                self.cut_brokers(owner, Direction::Out, false);
                Ok(())
            }
            Fault::CutFromBrokers => {
                self.cut_brokers(owner, Direction::In, false);
                Ok(())
            }
            Fault::CutFromCounterparty | Fault::CutToCounterparty => {
                self.cut_counterparty(fault, owner, false);
                Ok(())
            }
            Fault::DiskFull => {
                self.brokers.kill(leader);
                self.brokers.run(leader)
            }
            Fault::BitFlipped => {
                // The damaged server fetches the whole stream from the others.
                let damaged = (leader + 1) % COUNT;
                self.brokers.kill(damaged);
                self.brokers.forget_all(damaged)?;
                self.brokers.run(damaged)?;
                self.restart_gateway(owner)
            }
        }
    }

    fn restart_gateway(&mut self, n: usize) -> Result<(), String> {
        self.gateways[n].restart()?;
        if let Some(address) = &self.gateways[n].address {
            self.networks[n].turn_to(address);
        }
        Ok(())
    }

    fn cut_brokers(&self, gateway: usize, way: Direction, is_cut: bool) {
        self.to_brokers[gateway].iter().for_each(|path| path.cut(way, is_cut));
    }

    /// Cuts the direction of this fault, or ends the cut. The connecting side is at the beginning
    /// of the network.
    fn cut_counterparty(&self, fault: Fault, gateway: usize, is_cut: bool) {
        let is_out = (fault == Fault::CutFromCounterparty) == (self.role == Role::Acceptor);
        let way = if is_out { Direction::Out } else { Direction::In };
        self.networks[gateway].cut(way, is_cut);
    }

    /// Changes a bit in the middle of the largest file of a server, while the server is stopped.
    fn flip_a_bit(&mut self, n: usize) -> Result<(), String> {
        self.brokers.kill(n);
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        let files = self.brokers.message_files(n);
        let file = files.iter().max_by_key(|path| size(path)).ok_or("no file of messages")?;
        let text = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut bytes = fs::read(file).map_err(text)?;
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 1;
        }
        fs::write(file, bytes).map_err(text)?;
        self.brokers.run(n)?;
        self.brokers.settle()
    }

    fn wait_for_answers(&self, count: u64) -> Result<(), String> {
        let wanted = self.counterparty.answered() + count;
        let until = monotonic_ns() + nanos(PATIENCE);
        while self.counterparty.answered() < wanted {
            if monotonic_ns() > until {
                return Err(format!("no order was answered for {} s", PATIENCE.as_secs()));
            }
            super::pause(LOOK);
        }
        Ok(())
    }

    /// Returns the gateway that has the session.
    fn owner(&self) -> Result<usize, String> {
        let gateways = self.operator.gateways().map_err(|error| error.to_string())?;
        let mut owners =
            gateways.iter().filter(|one| one.sessions.iter().any(|s| s.is_owner && s.is_logged_on));
        let owner = owners.next().ok_or("no gateway has the session")?;
        let number = owner.gateway.strip_prefix('g').and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("unknown gateway {}", owner.gateway))
    }

    fn leader(&self) -> Result<usize, String> {
        self.brokers.leader().ok_or_else(|| "the stream has no leader".to_owned())
    }

    /// Returns the output of `transfix fleet status`, as soon as orders are answered.
    pub(super) fn status(&self) -> Result<String, String> {
        self.wait_for_answers(STEADY)?;
        let gateways = self.operator.gateways().map_err(|error| error.to_string())?;
        Ok(crate::fleet::shown(&gateways, ""))
    }

    /// Ends the orders, and compares the histories. Returns the number of orders.
    pub(super) fn finish(mut self) -> Result<(u64, Violations), String> {
        let orders = self.counterparty.finish_orders(PATIENCE)?;
        let (orders_sent, reports_received) = self.counterparty.stop()?;
        let reports_stored = stored_reports(&self.brokers)?;
        let mut all =
            Histories { orders_sent, reports_stored, reports_received, ..Histories::default() };
        (0..COUNT).try_for_each(|n| all.add_notes(&notes_path(&settings_path(&self.dir, n))))?;
        Ok((orders, all.compare()))
    }
}

/// Reads all reports of the session in the stream.
fn stored_reports(brokers: &Brokers) -> Result<Journal, String> {
    let text = |error: StoreError| error.to_string();
    let addresses = brokers.addresses().join(",");
    let stream = JetStream::connect(&addresses, STREAM, ConnectOptions::new(), COUNT);
    let store = JetStreamStore::stand_by(&stream.map_err(text)?, SESSION, 0);
    Journal::read(&mut store.map_err(text)?)
}

/// Connects to the NATS servers, and creates the stream, as soon as the cluster has a leader.
pub(super) fn connect(brokers: &Brokers) -> Result<FleetOperator, String> {
    let settings = FleetSettings {
        gateway: "operator".to_owned(),
        brokers: brokers.addresses().to_vec(),
        stream: STREAM.to_owned(),
        ..FleetSettings::default()
    };
    let until = monotonic_ns() + nanos(PATIENCE);
    loop {
        match FleetOperator::create(&settings) {
            Ok(operator) => return Ok(operator),
            Err(error) if monotonic_ns() > until => return Err(error.to_string()),
            Err(_) => super::pause(100 * LOOK),
        }
    }
}

fn settings_path(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("g{n}.toml"))
}

/// Writes the settings file of a gateway, which listens unless it has a network to the
/// counterparty. Returns the path of the file.
fn write_settings(
    dir: &Path,
    n: usize,
    brokers: &[Relay],
    to_counterparty: Option<&Relay>,
) -> Result<PathBuf, String> {
    let brokers: Vec<_> = brokers.iter().map(|path| format!("{:?}", path.address())).collect();
    let role = if to_counterparty.is_some() { Role::Initiator } else { Role::Acceptor };
    let address = to_counterparty.map_or_else(|| "127.0.0.1:0".to_owned(), Relay::address);
    let settings = format!(
        "[fleet]\ngateway = \"g{n}\"\nbrokers = [{}]\nstream = \"{STREAM}\"\n\n[[session]]\n\
         role = \"{}\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
         target_comp_id = \"CLIENT\"\naddress = \"{address}\"\nheart_bt_int_s = {}\n\
         logon_timeout_ms = {}\nreconnect_interval_ms = {}\n",
        brokers.join(", "),
        role.name(),
        HEART_BT_INT.as_secs(),
        LOGON_TIMEOUT.as_millis(),
        RECONNECT_INTERVAL.as_millis(),
    );
    let path = settings_path(dir, n);
    fs::write(&path, settings).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
