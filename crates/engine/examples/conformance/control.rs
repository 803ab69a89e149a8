//! An HTTP control channel that sets the sequence numbers of a session:
//! `GET /seqnum?SESSION=…&NEXTSENDERSEQNUM=…`.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use transfix::{Action, SessionHandle};

/// The longest request line in bytes.
const REQUEST_BYTES_MAX: u64 = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens on 127.0.0.1 and answers HTTP requests, one at a time, until the process ends. Returns
/// the listening address.
pub(crate) fn serve(port: u16, sessions: HashMap<String, SessionHandle>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // An error means that the client has disconnected and does not need the answer.
            let _ = answer(&stream, &sessions);
        }
    })?;
    Ok(address)
}

fn answer(stream: &TcpStream, sessions: &HashMap<String, SessionHandle>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.take(REQUEST_BYTES_MAX)).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    // Reads all headers: closing a socket with unread bytes would reset the connection before the
    // client reads the answer.
    while lines.next().transpose()?.is_some_and(|header| !header.is_empty()) {}
    let (status, text) = match carry_out(&request, sessions) {
        Ok(text) => ("200 OK", text),
        Err(text) => ("400 Bad Request", text),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
}

fn carry_out(request: &str, sessions: &HashMap<String, SessionHandle>) -> Result<String, String> {
    let mut words = request.split_ascii_whitespace();
    let (Some("GET"), Some(target)) = (words.next(), words.next()) else {
        return Err("only GET is answered\n".to_owned());
    };
    let Some(("/seqnum", query)) = target.split_once('?') else {
        return Err(format!("no such page: {target}\n"));
    };
    let (mut session, mut next_in, mut next_out) = (None, None, None);
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value).ok_or_else(|| format!("not percent-encoded: {value}\n"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{key} is no number: {value}\n"));
        match key {
            "SESSION" => session = Some(value),
            "NEXTSENDERSEQNUM" => next_out = Some(number()?),
            "NEXTTARGETSEQNUM" => next_in = Some(number()?),
            _ => return Err(format!("unknown: {key}\n")),
        }
    }
    let session = session.ok_or("SESSION is missing\n")?;
    let handle = sessions.get(&session).ok_or_else(|| format!("no session {session}\n"))?;
    handle
        .operate(&Action::SetNumbers { next_in, next_out })
        .map_err(|error| format!("{error}\n"))?;
    let (next_in, next_out) = handle.next_numbers();
    Ok(format!("{session}: next in {next_in}, next out {next_out}\n"))
}

/// Returns `text` with each `%XX` replaced by its byte.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
