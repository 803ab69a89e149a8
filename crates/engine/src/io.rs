//! The requests of an engine to the world around it: the time, waiting, connections, threads.
//!
//! Invariant: worker, acceptor, connector and handles ask nobody else, so a simulated world runs
//! whole engines. The world says which time it is, which thread goes on, and what the network does.
//! The thread that writes protocol logs stays outside: nobody waits for it.

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

/// Events that the operating system reports at once.
const EVENTS: usize = 256;

/// Ends the wait of a [`Poll`], from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// The world around an engine.
pub trait Io: Send + Sync {
    /// This moment, on both clocks.
    fn now(&self) -> Now;

    /// The monotonic clock alone, in nanoseconds from an unknown start.
    fn monotonic_ns(&self) -> u64;

    /// A place to wait for readiness, for one thread.
    ///
    /// # Errors
    /// If the system has no further one.
    fn poll(&self) -> io::Result<Box<dyn Poll>>;

    /// Starts a connection.
    ///
    /// # Errors
    /// If it is refused at once.
    fn connect(
        &self,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> io::Result<Box<dyn Connecting>>;

    /// The addresses that a name stands for, written as `host:port`. It may take its time: who asks
    /// is a thread of its own. Never asked for what is an address already.
    ///
    /// # Errors
    /// If nobody knows the name.
    fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        name.to_socket_addrs().map(Iterator::collect)
    }

    /// Listens at this address; port 0 takes any free port.
    ///
    /// # Errors
    /// If the system refuses, for instance because the address is in use.
    fn listen(&self, address: SocketAddr, options: &SocketOptions)
    -> io::Result<Box<dyn Listener>>;

    /// Starts a thread.
    ///
    /// # Errors
    /// If the system has no further one.
    fn spawn(&self, name: String, run: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Thread>>;

    /// Holds this thread up for so long; it may go on earlier.
    fn sleep(&self, time: Duration);

    /// Waits inside `wait`, which is told how long at most, and returns whether it has seen what it
    /// waits for. A simulated world calls it again and again with no time at all.
    fn wait_in(&self, time: Duration, wait: &mut dyn FnMut(Duration) -> bool) -> bool {
        wait(time)
    }

    /// Lets another thread go on where this one would wait for what that one has: a lock. Returns
    /// `false` where the operating system sees to that.
    fn gives_way(&self) -> bool {
        false
    }

    /// Returns true if the latency points may read the machine's own counter. In another world they
    /// take the time that [`Io::now`] has said last, and ask for none.
    fn has_counter(&self) -> bool {
        false
    }
}

/// Something that was registered is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Under which it was registered.
    pub token: Token,
    /// The counterparty sends nothing more.
    pub is_read_closed: bool,
}

/// Where one thread waits for readiness.
pub trait Poll: Send {
    /// Where streams are registered that are to be reported here.
    fn registry(&self) -> Registry<'_>;

    /// Waits until something is ready, for so long at most, and adds what is to `ready`. `None` has
    /// no limit.
    ///
    /// # Errors
    /// The error of the system.
    fn wait(&mut self, ready: &mut Vec<Ready>, time: Option<Duration>) -> io::Result<()>;

    /// The waker that ends the wait, and is reported under `token`.
    ///
    /// # Errors
    /// If the system has no further one.
    fn waker(&self, token: Token) -> io::Result<Waker>;

    /// The descriptor that is readable while something is ready, for a program that waits
    /// elsewhere; `None` where the world has no such thing.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A connection under way. Dropping it gives up.
pub trait Connecting: Send {
    /// Asks to be reported when [`Connecting::finish`] has something to say.
    ///
    /// # Errors
    /// If the system refuses.
    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()>;

    /// The stream once the connection is there; a registered one stays registered.
    ///
    /// # Errors
    /// If the connection failed.
    fn finish(&mut self) -> io::Result<Option<Box<dyn Stream>>>;
}

/// A place where connections come in.
pub trait Listener: Send {
    /// The next waiting connection, if there is one.
    ///
    /// # Errors
    /// The error of the system, for instance that no more files can be opened.
    fn accept(&self) -> io::Result<Option<Box<dyn Stream>>>;

    /// The address, with the port taken.
    ///
    /// # Errors
    /// If the system refuses.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Asks for waiting connections to be reported under `token`. Accept until none.
    ///
    /// # Errors
    /// If the system refuses.
    fn register(&mut self, registry: Registry<'_>, token: Token) -> io::Result<()>;
}

/// A thread that was started. Dropping it lets the thread go on.
pub trait Thread: Send {
    /// Returns true if it has ended.
    fn is_finished(&self) -> bool;

    /// Waits for its end.
    fn join(self: Box<Self>);
}

/// A thread with a result.
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
        // The thread that started it may not want the result any more.
        let run = Box::new(move || drop(sender.send(run())));
        Ok(Self { thread: io.spawn(name, run)?, result })
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end. `None` if it panicked.
    pub(crate) fn join(self) -> Option<T> {
        self.thread.join();
        self.result.try_recv().ok()
    }
}

/// The machine itself. A test that wants another clock puts one around it.
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
        // Only a closed eventfd fails, and then there is nobody to wake.
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
        // One that panicked has left no result.
        let _ = (*self).join();
    }
}
