//! The interface between the engine and its environment: time, waiting, connections and threads.
//!
//! Invariant: worker, acceptor, connector and handles use only this interface, so a simulation can
//! run whole engines. The environment decides the time, the thread that runs next, and the
//! behaviour of the network. The thread that writes protocol logs does not use this interface,
//! because no other thread waits for the writer.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix_session::Now;
use transfix_transport::{
    Events, Interest, Registry, SocketOptions, Stream, Token, Waker as SystemWaker,
};

use transfix_observe::clock;

/// The maximum number of events that one call of the operating system returns.
const EVENTS: usize = 256;

/// A function that ends the wait of a [`Poll`], from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// The environment of an engine.
pub trait Io: Send + Sync {
    /// Returns the current time of both clocks.
    fn now(&self) -> Now;

    /// Returns the time of the monotonic clock, in nanoseconds from an unspecified start.
    fn monotonic_ns(&self) -> u64;

    /// Creates a [`Poll`], in which one thread waits for events.
    ///
    /// # Errors
    /// If the system cannot create another one.
    fn poll(&self) -> io::Result<Box<dyn Poll>>;

    /// Starts a connection.
    ///
    /// # Errors
    /// If the connection fails at once.
    fn connect(
        &self,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<Box<dyn Connecting>>;

    /// Resolves a name, written as `host:port`, to addresses. The call may block, so the engine
    /// makes it in a separate thread, and only for names.
    ///
    /// # Errors
    /// If the name is unknown.
    fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        name.to_socket_addrs().map(Iterator::collect)
    }

    /// Listens at `address`; port 0 selects any free port.
    ///
    /// # Errors
    /// If the system refuses, for instance because the address is in use.
    fn listen(&self, address: SocketAddr, options: &SocketOptions)
    -> io::Result<Box<dyn Listener>>;

    /// Starts a thread.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    fn spawn(&self, name: String, run: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>>;

    /// Suspends this thread for at most `time`.
    fn sleep(&self, time: Duration);

    /// Calls `wait` with the maximum waiting time, and returns its result: whether the awaited
    /// event happened. A simulation calls `wait` repeatedly with a time of zero.
    fn wait_in(&self, time: Duration, wait: &mut dyn FnMut(Duration) -> bool) -> bool {
        wait(time)
    }

    /// Lets another thread run while this thread waits for a lock. Returns `false` if the operating
    /// system schedules the threads, so that the caller must yield itself.
    fn gives_way(&self) -> bool {
        false
    }

    /// Returns true if the latency probe may read the machine's own counter. Otherwise, the probe
    /// uses the last result of [`Io::now`].
    fn has_counter(&self) -> bool {
        false
    }
}

/// An event that reports a registered object as ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token under which the object was registered.
    pub token: Token,
    /// True if the counterparty has closed its sending direction.
    pub is_read_closed: bool,
}

/// A set of registered objects in which one thread waits for readiness.
pub trait Poll: Send {
    /// Returns the registry in which streams are registered for this `Poll`.
    fn registry(&self) -> Registry<'_>;

    /// Waits for at most `time` until an object is ready, and appends the events to `ready`. `None`
    /// = unlimited.
    ///
    /// # Errors
    /// The error of the system.
    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()>;

    /// Returns a waker that ends the wait, and causes an event with this token.
    ///
    /// # Errors
    /// If the system cannot create another one.
    fn waker(&self, token: Token) -> io::Result<Waker>;

    /// Returns the descriptor that is readable while an object is ready, for a program with its own
    /// event loop. Returns `None` if the environment has no descriptor.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A connection attempt in progress. Dropping the attempt cancels it.
pub trait Connecting: Send {
    /// Registers the attempt; an event follows when [`Connecting::finish`] has a result.
    ///
    /// # Errors
    /// If the system refuses.
    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()>;

    /// Returns the stream when the connection is established, or `None` before. A registered stream
    /// stays registered.
    ///
    /// # Errors
    /// If the connection failed.
    fn finish(&mut self) -> io::Result<Option<Box<dyn Stream>>>;
}

/// A socket that accepts connections.
pub trait Listener: Send {
    /// Returns the next waiting connection, if there is one.
    ///
    /// # Errors
    /// The error of the system, for instance at the limit of open files.
    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>>;

    /// Returns the local address, with the actual port in place of port 0.
    ///
    /// # Errors
    /// If the system refuses.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Registers the listener under `token`. After each event, accept until no connection waits.
    ///
    /// # Errors
    /// If the system refuses.
    fn register(&mut self, registry: Registry<'_>, token: Token) -> io::Result<()>;
}

/// A started thread. Dropping the value detaches the thread.
pub trait Thread: Send {
    /// Returns true if the thread has ended.
    fn is_finished(&self) -> bool;

    /// Waits for the end of the thread.
    fn join(self: Box<Self>);
}

/// A started thread that returns a result.
pub(crate) struct Job<T> {
    thread: Box<dyn Thread>,
    result: Receiver<T>,
}

impl<T: Send + 'static> Job<T> {
    pub(crate) fn spawn(
        io: &dyn Io,
        name: String,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, result) = channel();
        // The send fails only if the thread that started the job no longer needs the result.
        let run = Box::new(move || drop(sender.send(run())));
        Ok(Self { thread: io.spawn(name, run)?, result })
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the thread. Returns `None` if the thread panicked.
    pub(crate) fn join(self) -> Option<T> {
        self.thread.join();
        self.result.try_recv().ok()
    }
}

/// The real machine. A test that needs another clock wraps this type.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Io for System {
    fn now(&self) -> Now {
        clock::now()
    }

    fn monotonic_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn poll(&self) -> io::Result<Box<dyn Poll>> {
        let (poll, events) = (transfix_transport::Poll::new()?, Events::with_capacity(EVENTS));
        Ok(Box::new(SystemPoll { poll, events }))
    }

    fn connect(
        &self,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<Box<dyn Connecting>> {
        Ok(Box::new(transfix_transport::connect(remote, options)?))
    }

    fn listen(
        &self,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(transfix_transport::Listener::bind(address, options)?))
    }

    fn spawn(&self, name: String, run: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>> {
        Ok(Box::new(thread::Builder::new().name(name).spawn(run)?))
    }

    fn sleep(&self, time: Duration) {
        thread::park_timeout(time);
    }

    fn has_counter(&self) -> bool {
        true
    }
}

struct SystemPoll {
    poll: transfix_transport::Poll,
    events: Events,
}

impl Poll for SystemPoll {
    fn registry(&self) -> Registry<'_> {
        Registry::System(self.poll.registry())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poll.registry().as_fd())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, time) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        ready.extend(
            self.events.iter().map(|event| Ready {
                token: event.token(),
                is_read_closed: event.is_read_closed(),
            }),
        );
        Ok(())
    }

    fn waker(&self, token: Token) -> io::Result<Waker> {
        let waker = SystemWaker::new(self.poll.registry(), token)?;
        // Waking fails only if the eventfd is closed, and then no thread waits.
        Ok(Arc::new(move || drop(waker.wake())))
    }
}

impl Connecting for transfix_transport::Connecting {
    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        Self::register(self, registry, token, interest)
    }

    fn finish(&mut self) -> io::Result<Option<Box<dyn Stream>>> {
        Ok(Self::finish(self)?.map(|stream| Box::new(stream) as Box<dyn Stream>))
    }
}

impl Listener for transfix_transport::Listener {
    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>> {
        Ok(Self::accept(self)?.map(|stream| Box::new(stream) as Box<dyn Stream>))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }

    fn register(&mut self, registry: Registry<'_>, token: Token) -> io::Result<()> {
        Self::register(self, registry, token)
    }
}

impl Thread for JoinHandle<()> {
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn join(self: Box<Self>) {
        // A thread that has panicked has no result, so the error is ignored.
        let _ = (*self).join();
    }
}
