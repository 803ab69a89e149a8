//! Controls one side of a benchmark on another host, like a local process.
//!
//! The serving program starts parts of one scenario, one part per connection. A part ends with its
//! connection. Requests and answers are lines of JSON. The program must run only on a trusted
//! network: anyone who reaches the address can start such parts, and nothing else.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::child::Side;
use super::shared::{StoreDir, print_line};

/// Maximum number of concurrent connections.
const PARTS_MAX: usize = 32;
/// Maximum length of a line, in bytes.
const LINE_MAX: u64 = 64 << 10;
/// Time limit for an answer. The slowest request is the start of a part.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request to the serving host; `P` describes the part to start.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ask<P> {
    /// Requests the number of CPUs of the host.
    Cpus,
    Start(P),
    /// Requests the next line that the part prints. The wait is limited to the time of a start,
    /// because the requester may have disconnected.
    Line,
    Say(String),
    Pause,
    GoOn,
    CpuNs,
}

/// An answer: the requested value, or the reason of a failure.
type Answer = Result<String, String>;

/// The process that was started for a connection.
pub(super) struct Started {
    side: Side,
    /// The directory of the process's store, removed when the process has ended.
    _store: Option<StoreDir>,
}

impl Started {
    pub(super) const fn new(side: Side, store: Option<StoreDir>) -> Self {
        Self { side, _store: store }
    }
}

/// Returns the number of CPUs of this host.
pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Serves requests at an address until the process ends. `start` starts a part that listens at the
/// given address of the host.
pub(super) fn serve<P: DeserializeOwned>(
    scenario: &str,
    address: &str,
    start: impl Fn(P, SocketAddr) -> Result<Started, String> + Sync,
) -> Result<(), String> {
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let own = listener.local_addr().map_err(|error| error.to_string())?;
    print_line(&format!(
        "Waits at {own} for `transfix bench {scenario} --role initiator`; Ctrl-C ends it."
    ))?;
    let (start, open) = (&start, &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        loop {
            let (stream, from) = match listener.accept() {
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                accepted => accepted.map_err(|error| format!("{own}: {error}"))?,
            };
            if open.fetch_add(1, Ordering::Relaxed) >= PARTS_MAX {
                open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            scope.spawn(move || {
                if let Err(error) = serve_one(stream, start) {
                    eprintln!("transfix bench {scenario}: {from}: {error}");
                }
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}

fn serve_one<P: DeserializeOwned>(
    stream: TcpStream,
    start: &impl Fn(P, SocketAddr) -> Result<Started, String>,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    stream.set_nodelay(true).map_err(text)?;
    let ip = stream.local_addr().map_err(text)?.ip();
    let mut lines = BufReader::new(stream);
    let mut started: Option<Started> = None;
    // Only the first request has a time limit; later the other side may measure for any time.
    lines.get_ref().set_read_timeout(Some(PATIENCE)).map_err(text)?;
    while let Some(ask) = next::<Ask<P>>(&mut lines)? {
        let answer = obey(ask, &mut started, |part| start(part, SocketAddr::new(ip, 0)));
        write(lines.get_mut(), &answer)?;
        lines.get_ref().set_read_timeout(None).map_err(text)?;
    }
    Ok(())
}

fn obey<P>(
    ask: Ask<P>,
    started: &mut Option<Started>,
    start: impl FnOnce(P) -> Result<Started, String>,
) -> Answer {
    match (ask, started) {
        (Ask::Cpus, _) => Ok(cpus().to_string()),
        (Ask::Start(part), started @ None) => {
            *started = Some(start(part)?);
            Ok(String::new())
        }
        (Ask::Start(_), Some(_)) => Err("one part for each connection".to_owned()),
        (_, None) => Err("no part was started".to_owned()),
        (Ask::Line, Some(Started { side, .. })) => side.first_line(),
        (Ask::Say(line), Some(Started { side, .. })) => side.say(&line).map(|()| String::new()),
        (Ask::Pause, Some(Started { side, .. })) => {
            side.pause();
            Ok(String::new())
        }
        (Ask::GoOn, Some(Started { side, .. })) => {
            side.go_on();
            Ok(String::new())
        }
        (Ask::CpuNs, Some(Started { side, .. })) => Ok(side.cpu_ns().to_string()),
    }
}

/// Returns the next line as a value; `None` at the end of the connection.
fn next<T: DeserializeOwned>(lines: &mut BufReader<TcpStream>) -> Result<Option<T>, String> {
    let mut line = String::new();
    match lines.by_ref().take(LINE_MAX).read_line(&mut line) {
        Ok(0) => Ok(None),
        Ok(_) => serde_json::from_str(&line).map(Some).map_err(|error| format!("a line: {error}")),
        Err(error) => Err(error.to_string()),
    }
}

fn write(stream: &mut TcpStream, line: &impl Serialize) -> Result<(), String> {
    let line = serde_json::to_string(line).map_err(|error| error.to_string())? + "\n";
    stream.write_all(line.as_bytes()).map_err(|error| error.to_string())
}

/// A connection to a serving host.
pub(super) struct Remote(RefCell<BufReader<TcpStream>>);

impl Remote {
    pub(super) fn connect(host: &str) -> Result<Self, String> {
        let failed = |error| format!("{host}: {error}; the acceptor is started first");
        let stream = TcpStream::connect(host).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Self(RefCell::new(BufReader::new(stream))))
    }

    /// Returns the number of CPUs of the remote host.
    pub(super) fn cpus(&self) -> Result<usize, String> {
        self.number(Ask::Cpus)
    }

    fn number<T: FromStr>(&self, ask: Ask<()>) -> Result<T, String> {
        let answer = self.ask(&ask)?;
        answer.parse().map_err(|_| format!("{answer} is no number"))
    }

    fn ask(&self, ask: &impl Serialize) -> Answer {
        let mut lines = self.0.borrow_mut();
        write(lines.get_mut(), ask)?;
        next(&mut lines)?.unwrap_or_else(|| Err("the other host has closed".to_owned()))
    }
}

/// The side under test, on this host or on another.
pub(super) enum Tested {
    Here(Side),
    There(Remote),
}

impl Tested {
    /// Starts the side on `host`, or by a local command if `host` is `None`.
    pub(super) fn start(
        name: &str,
        host: Option<&str>,
        part: &impl Serialize,
        command: impl FnOnce() -> Result<Command, String>,
    ) -> Result<Self, String> {
        match host {
            Some(host) => {
                let remote = Remote::connect(host)?;
                remote.ask(&Ask::Start(part)).map_err(|error| format!("{name}: {error}"))?;
                Ok(Self::There(remote))
            }
            None => Side::start(name, command()?.stdin(Stdio::piped())).map(Self::Here),
        }
    }

    /// Returns the first line of the side, as [`Side::first_line`] does. The other functions also
    /// match those of [`Side`].
    pub(super) fn first_line(&mut self) -> Answer {
        match self {
            Self::Here(side) => side.first_line(),
            Self::There(remote) => remote.ask(&Ask::<()>::Line),
        }
    }

    pub(super) fn line(&mut self) -> Answer {
        match self {
            Self::Here(side) => side.line(),
            Self::There(remote) => remote.ask(&Ask::<()>::Line),
        }
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), String> {
        match self {
            Self::Here(side) => side.say(line),
            Self::There(remote) => remote.ask(&Ask::<()>::Say(line.to_owned())).map(drop),
        }
    }

    pub(super) fn pause(&self) -> Result<(), String> {
        match self {
            Self::Here(side) => side.pause(),
            Self::There(remote) => return remote.ask(&Ask::<()>::Pause).map(drop),
        }
        Ok(())
    }

    pub(super) fn go_on(&self) -> Result<(), String> {
        match self {
            Self::Here(side) => side.go_on(),
            Self::There(remote) => return remote.ask(&Ask::<()>::GoOn).map(drop),
        }
        Ok(())
    }

    pub(super) fn cpu_ns(&self) -> Result<u64, String> {
        match self {
            Self::Here(side) => Ok(side.cpu_ns()),
            Self::There(remote) => remote.number(Ask::CpuNs),
        }
    }
}
