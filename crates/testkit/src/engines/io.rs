//! The clock, network and threads that one simulated process gives to its engine.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use transfix::simulated::io::{Connecting, Io, Listener, Poll, Ready, Thread, Waker};
use transfix::{Now, Timestamp};
use transfix_transport::{Interest, Registry, SocketOptions, Stream, Token};

use super::machine::{MS, Machine};
use super::records::Records;

/// The start time of the wall clock in nanoseconds since 1970: a Tuesday, shortly before noon.
pub(super) const START_UTC_NS: i64 = 1_795_000_000_000_000_000;

/// A simulated process, whose engine uses the simulated machine for all input and output.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) machine: Arc<Machine>,
    pub(super) number: usize,
}

impl Io for Process {
    fn now(&self) -> Now {
        let monotonic_ns = self.machine.clock();
        Now { utc: Timestamp(START_UTC_NS + monotonic_ns as i64), monotonic_ns }
    }

    fn monotonic_ns(&self) -> u64 {
        self.machine.clock()
    }

    fn poll(&self) -> io::Result<Box<dyn Poll>> {
        let place = self.machine.place();
        Ok(Box::new(SimPoll { machine: Arc::clone(&self.machine), place }))
    }

    fn connect(&self, remote: SocketAddr, _: &SocketOptions) -> io::Result<Box<dyn Connecting>> {
        let mut state = self.machine.state();
        let now_ns = state.now_ns;
        let end = state.net.connect(now_ns, self.number, remote);
        drop(state);
        Ok(Box::new(SimConnecting(Some(SimStream { process: self.clone(), end }))))
    }

    fn listen(&self, address: SocketAddr, _: &SocketOptions) -> io::Result<Box<dyn Listener>> {
        self.machine.state().net.listen(self.number, address)?;
        Ok(Box::new(SimListener { process: self.clone(), address }))
    }

    fn spawn(&self, name: String, run: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>> {
        let task = self.machine.spawn(self.number, name, run)?;
        Ok(Box::new(SimThread { machine: Arc::clone(&self.machine), task }))
    }

    fn sleep(&self, time: Duration) {
        self.machine.sleep(ns(time));
    }

    fn wait_in(&self, time: Duration, wait: &mut dyn FnMut(Duration) -> bool) -> bool {
        let until_ns = self.machine.now_ns().saturating_add(ns(time));
        while !wait(Duration::ZERO) {
            if self.machine.now_ns() >= until_ns {
                return false;
            }
            self.machine.sleep(MS);
        }
        true
    }

    fn gives_way(&self) -> bool {
        self.machine.give_way()
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

struct SimPoll {
    machine: Arc<Machine>,
    place: usize,
}

impl Poll for SimPoll {
    fn registry(&self) -> Registry<'_> {
        Registry::Simulated(self.place as u64)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()> {
        let now_ns = self.machine.now_ns();
        let until_ns = time.map_or(u64::MAX, |time| now_ns.saturating_add(ns(time)));
        self.machine.wait(until_ns, Some(self.place));
        self.machine.take_ready(self.place, ready);
        Ok(())
    }

    fn waker(&self, token: Token) -> io::Result<Waker> {
        let (machine, place) = (Arc::clone(&self.machine), self.place);
        Ok(Arc::new(move || machine.ring(place, token)))
    }
}

struct SimListener {
    process: Process,
    address: SocketAddr,
}

impl Listener for SimListener {
    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        self.process.machine.pass();
        let end = self.process.machine.state().net.accept(self.process.number, self.address);
        Ok(end.map(|end| SimStream { process: self.process.clone(), end }.shown()))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn register(&mut self, registry: Registry<'_>, token: Token) -> io::Result<()> {
        let place = place(registry)?;
        self.process.machine.state().net.register_listener(self.address, (place, token));
        Ok(())
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.process.machine.state();
        let now_ns = state.now_ns;
        state.net.unlisten(now_ns, self.process.number, self.address);
    }
}

struct SimConnecting(Option<SimStream>);

impl Connecting for SimConnecting {
    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match &mut self.0 {
            Some(stream) => stream.register(registry, token, interest),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn finish(&mut self) -> io::Result<Option<Box<dyn Stream>>> {
        let Some(stream) = &self.0 else { return Err(io::ErrorKind::NotConnected.into()) };
        stream.process.machine.pass();
        let is_up = stream.process.machine.state().net.is_up(stream.end)?;
        Ok(if is_up { self.0.take().map(SimStream::shown) } else { None })
    }
}

/// An end of a simulated connection.
pub(super) struct SimStream {
    process: Process,
    end: usize,
}

impl SimStream {
    /// Returns the stream as the engine uses it, with or without records.
    fn shown(self) -> Box<dyn Stream> {
        let has_records = self.process.machine.state().net.has_records;
        if has_records { Box::new(Records::new(self)) } else { Box::new(self) }
    }
}

impl Stream for SimStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let machine = &self.process.machine;
        machine.pass();
        let read = machine.state().net.read(self.end, buf);
        if read.is_ok() {
            machine.has_acted();
        }
        read
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let machine = &self.process.machine;
        machine.pass();
        let mut state = machine.state();
        let now_ns = state.now_ns;
        let written = state.net.write(now_ns, self.end, bytes);
        drop(state);
        if written.is_ok() {
            machine.has_acted();
        }
        written
    }

    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        let place = place(registry)?;
        self.process.machine.state().net.register(self.end, place, token, interest);
        Ok(())
    }

    fn reregister(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.register(registry, token, interest)
    }

    fn deregister(&mut self, _: Registry<'_>) -> io::Result<()> {
        self.process.machine.state().net.deregister(self.end);
        Ok(())
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from(([10, 0, 0, 2], 40_000)))
    }

    fn shutdown(&mut self) -> io::Result<()> {
        let mut state = self.process.machine.state();
        let now_ns = state.now_ns;
        state.net.shut_down(now_ns, self.end)
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.process.machine.state();
        let now_ns = state.now_ns;
        state.net.close(now_ns, self.end);
    }
}

struct SimThread {
    machine: Arc<Machine>,
    task: usize,
}

impl Thread for SimThread {
    fn is_finished(&self) -> bool {
        self.machine.has_ended(self.task)
    }

    fn join(self: Box<Self>) {
        self.machine.join(self.task);
    }
}

fn place(registry: Registry<'_>) -> io::Result<usize> {
    match registry {
        Registry::Simulated(place) => Ok(place as usize),
        Registry::System(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}
