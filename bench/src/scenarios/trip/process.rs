//! Defines the parts and tasks of the processes, and the commands that start them.

use std::process::Command;

use serde::{Deserialize, Serialize};

use super::super::column::Column;
use super::super::page::Page;
use super::super::s1::ReportForm;

/// The part of the benchmark that a process runs for its parent process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    Acceptor,
    Initiator,
    FloorAcceptor,
    FloorInitiator,
    Client,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Acceptor => "acceptor",
            Self::Initiator => "initiator",
            Self::FloorAcceptor => "floor-acceptor",
            Self::FloorInitiator => "floor-initiator",
            Self::Client => "client",
        }
    }
}

/// The orders of a slice, as requested from the asking side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// Number of measured orders.
    pub(super) orders: usize,
    /// Number of unmeasured orders before the measured orders.
    pub(super) warm_up: usize,
}

/// The parameters of a run, for all its processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Number of measured orders in a slice.
    pub(crate) orders: usize,
    /// Number of unmeasured orders before the first slice.
    pub(crate) warm_up: usize,
    pub(crate) slices: usize,
    /// Orders per second; without a rate, each order follows the answer to the previous order.
    pub(crate) rate: Option<u64>,
    /// The form of the ExecutionReport(8) that answers an order.
    pub(crate) report: ReportForm,
    /// True if both sides write the protocol log.
    pub(crate) log: bool,
    /// True if sessions stay logged on between slices, which requires that both processes can be
    /// suspended.
    pub(crate) stays: bool,
}

impl Work {
    /// Returns the parameters that the page defines.
    pub(crate) fn of(page: &Page, messages: usize) -> Self {
        let slices = messages.clamp(1, page.slices);
        let (warm_up, rate, report) = (page.warm_up, page.rate, ReportForm::Valid);
        let orders = messages.div_ceil(slices);
        Self { orders, warm_up, slices, rate, report, log: false, stays: false }
    }

    /// Returns the maximum number of orders in one session, including all repeated rounds.
    pub(super) fn orders_max(&self) -> usize {
        (2 * self.slices + 1) * self.orders + self.warm_up
    }

    pub(super) const fn task(&self) -> Task {
        Task { orders: self.orders, warm_up: self.warm_up }
    }
}

/// Returns the command that starts this program as another part of the benchmark.
pub(super) fn part(
    page: &Page,
    column: &Column,
    work: &Work,
    part: Part,
    address: &str,
) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| "transfix-bench".into());
    let mut command = if column.beside.kernel_bypass {
        let mut command = Command::new(ONLOAD);
        command.arg("--profile=latency").arg(program);
        command
    } else {
        Command::new(program)
    };
    if let Some(spin_us) = column.spin_us {
        command.args(["--spin-us", &spin_us.to_string()]);
    }
    command
        .args([page.name, "--part", part.name(), "--address", address])
        .args(["--config", &column.source])
        .args(["--messages", &(work.orders * work.slices).to_string()])
        .args(["--slices", &work.slices.to_string(), "--warmup", &work.warm_up.to_string()])
        .args(["--rate", &work.rate.unwrap_or(0).to_string()])
        .args(["--report", if work.report == ReportForm::Valid { "valid" } else { "page" }])
        .args(work.log.then_some("--log"))
        .args(work.stays.then_some("--stay"));
    command
}

/// The program that runs another program under OpenOnload.
pub(super) const ONLOAD: &str = "onload";

/// Returns true if OpenOnload is installed.
pub(super) fn has_onload() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(ONLOAD).exists())
}

fn host_and_port(address: &str) -> Result<(&str, u16), String> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| format!("{address} is not host:port"))
}

/// Returns the address of the floor: the same host with the next port.
pub(super) fn floor_address(address: &str) -> Result<String, String> {
    let (host, port) = host_and_port(address)?;
    let above = port.checked_add(1).filter(|_| port > 0);
    let above = above.ok_or_else(|| format!("{address}: the floor needs the port above"))?;
    Ok(format!("{host}:{above}"))
}
