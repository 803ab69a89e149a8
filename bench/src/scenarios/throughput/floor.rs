//! The floor: one thread that waits in epoll for all sockets, and splits messages by BodyLength(9).
//! The floor answers each message with the bytes of a report, or with the message itself, in one
//! write per read.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use super::super::s1;
use super::orders::Frames;

/// A socket.
struct Link {
    stream: TcpStream,
    orders: Frames,
    /// Output that the socket has not accepted yet.
    left: Vec<u8>,
}

/// The bytes that answer a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A report.
    Report,
    /// The received message itself.
    Same,
}

/// The epoll token of the listening socket.
const LISTENER: u64 = u64::MAX;

/// Prints the listening address, and answers until standard input ends.
pub(super) fn run(address: &str, answer: Answer) -> Result<(), String> {
    // When the parent exits, standard input ends, and this process exits too.
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    serve(address, answer).map_err(|error| format!("floor: {error}"))
}

fn serve(address: &str, answer: Answer) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    println!("{}", listener.local_addr()?);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let (_, report) = s1::sample_frames(s1::ReportForm::Valid, false);
    let report = (answer == Answer::Report).then_some(&report[..]);
    let mut links: Vec<Option<Link>> = Vec::new();
    let (mut input, mut output) = (vec![0; 64 << 10], Vec::new());
    let mut ready = Vec::with_capacity(1_024);
    loop {
        ready.clear();
        epoll::wait(&poll, spare_capacity(&mut ready), None)?;
        for event in &ready {
            let number = event.data.u64();
            if number == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    let data = epoll::EventData::new_u64(links.len() as u64);
                    let either = epoll::EventFlags::IN | epoll::EventFlags::OUT;
                    epoll::add(&poll, &stream, data, either | epoll::EventFlags::ET)?;
                    let (orders, left) = (Frames::default(), Vec::new());
                    links.push(Some(Link { stream, orders, left }));
                }
                continue;
            }
            let slot = &mut links[number as usize];
            let Some(link) = slot else { continue };
            if !link.answer(&mut input, &mut output, report)? {
                *slot = None;
            }
        }
    }
}

impl Link {
    /// Answers the received messages with `report`, or with an echo if there is none. Returns false
    /// after the client has disconnected.
    fn answer(
        &mut self,
        input: &mut [u8],
        output: &mut Vec<u8>,
        report: Option<&[u8]>,
    ) -> io::Result<bool> {
        if !self.flush()? {
            return Ok(true);
        }
        loop {
            let n = match self.stream.read(input) {
                Ok(0) => return Ok(false),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            };
            output.clear();
            let messages = self.orders.count(&input[..n])?;
            match report {
                Some(report) => (0..messages).for_each(|_| output.extend_from_slice(report)),
                None => output.extend_from_slice(&input[..n]),
            }
            let taken = taken(&mut self.stream, output)?;
            self.left.extend_from_slice(&output[taken..]);
            // A read that does not fill the buffer has emptied the socket.
            if !self.left.is_empty() || n < input.len() {
                return Ok(true);
            }
        }
    }

    /// Writes the waiting output. Returns true if all of it was written.
    fn flush(&mut self) -> io::Result<bool> {
        if !self.left.is_empty() {
            let taken = taken(&mut self.stream, &self.left)?;
            self.left.drain(..taken);
        }
        Ok(self.left.is_empty())
    }
}

/// Returns the number of written bytes; a socket that would block accepts 0.
fn taken(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(bytes.len()),
        taken => taken,
    }
}
