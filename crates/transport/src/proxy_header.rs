//! The header with which a proxy begins a connection, and which contains the client's address. The
//! format is the PROXY protocol of HAProxy (`proxy-protocol.txt` of its documentation). Version 1
//! is a line of text; version 2 is binary.
//!
//! Invariant: no byte after the header is read.

use std::io;
use std::net::IpAddr;

use crate::Stream;

/// The signature at the beginning of version 2 (section 2.2 of the protocol).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of the fixed part of version 2 in bytes, up to and including its length field.
const FIXED_BYTES: usize = 16;
/// Length in bytes of the shortest line of version 1: `PROXY UNKNOWN` and its line end.
const SHORTEST_LINE: usize = 15;
/// Maximum length in bytes of a line of version 1 (section 2.1 of the protocol).
const LINE_BYTES_MAX: usize = 107;
/// Maximum length in bytes of a version 2 header, with addresses and the proxy's TLS information.
const HEADER_BYTES_MAX: usize = 4 << 10;

/// A reader of the header, with the bytes read so far.
#[derive(Default)]
pub struct ProxyHeader {
    read: Vec<u8>,
}

impl ProxyHeader {
    /// Continues to read the header. The outer `None` means that the header is incomplete. The
    /// inner value is the client's address; `None` if the proxy connects on its own behalf, or does
    /// not know the address.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the header is invalid or not for TCP; others if the
    /// connection ends.
    #[allow(clippy::option_option, reason = "\"not yet\" and \"no address\" are different results")]
    pub fn advance(&mut self, stream: &mut dyn Stream) -> io::Result<Option<Option<IpAddr>>> {
        let mut bytes = [0; 512];
        loop {
            let missing = self.missing().map_err(invalid)?;
            if missing == 0 {
                return self.source().map(Some).map_err(invalid);
            }
            match stream.read(&mut bytes[..missing.min(512)]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.read.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_of_version_2(&self) -> bool {
        self.read.starts_with(&SIGNATURE[..1])
    }

    /// Returns the minimum number of bytes that are missing; 0 if the header is complete.
    fn missing(&self) -> Result<usize, String> {
        let read = &*self.read;
        let begins = |with: &[u8]| read.iter().zip(with).all(|(ours, theirs)| ours == theirs);
        if self.is_of_version_2() && begins(SIGNATURE) {
            let Some(fixed) = read.first_chunk::<FIXED_BYTES>() else {
                return Ok(FIXED_BYTES - read.len());
            };
            let length = FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
            if length > HEADER_BYTES_MAX {
                return Err(format!(
                    "the PROXY header has {length} bytes, but at most {HEADER_BYTES_MAX} are \
                     allowed"
                ));
            }
            return Ok(length - read.len());
        }
        let (is_ended, end) = (read.contains(&b'\n'), read.ends_with(b"\r\n"));
        match begins(b"PROXY ") && (!is_ended || end) && read.len() <= LINE_BYTES_MAX {
            true if end => Ok(0),
            // Bytes after the line do not belong to the header, so only as many are read as the
            // line certainly still has.
            true => Ok(SHORTEST_LINE.saturating_sub(read.len()).max(1)),
            false => {
                Err("the connection does not begin with a PROXY header of version 1 or 2"
                    .to_owned())
            }
        }
    }

    /// Returns the client's address from a complete header.
    fn source(&self) -> Result<Option<IpAddr>, String> {
        if self.is_of_version_2() { of_bytes(&self.read) } else { of_line(&self.read) }
    }
}

/// Returns the client's address from a header of version 1 (section 2.1 of the protocol).
fn of_line(line: &[u8]) -> Result<Option<IpAddr>, String> {
    let line = str::from_utf8(line).map_err(|_| "the line of the PROXY header is not text")?;
    let words: Vec<&str> = line.trim_end_matches("\r\n").split(' ').collect();
    match words[..] {
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        ["PROXY", family @ ("TCP4" | "TCP6"), source, target, source_port, target_port] => {
            let is_of_family = |address: &IpAddr| address.is_ipv4() == (family == "TCP4");
            let address = |text: &str| text.parse().ok().filter(is_of_family);
            let is_port = |text: &str| {
                text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
            };
            let are_good =
                address(target).is_some() && is_port(source_port) && is_port(target_port);
            let source = address(source).filter(|_| are_good);
            source.map(Some).ok_or_else(|| {
                format!(
                    "the PROXY header has no valid {family} \
                addresses and ports"
                )
            })
        }
        _ => {
            Err("the PROXY header is neither PROXY UNKNOWN, nor PROXY TCP4 or TCP6 with addresses \
                 and ports"
                .to_owned())
        }
    }
}

/// Returns the client's address from a header of version 2 (section 2.2 of the protocol). Further
/// fields of the proxy may follow the addresses.
fn of_bytes(header: &[u8]) -> Result<Option<IpAddr>, String> {
    let (fixed, rest) = header.split_at(FIXED_BYTES);
    let family = match (fixed[12], fixed[13]) {
        // The proxy connects on its own behalf, so the address family must be ignored.
        (0x20, _) => return Ok(None),
        (0x21, family) => family,
        (other, _) => {
            return Err(format!(
                "the PROXY header of version 2 has an unknown command: \
            {other:#04x} is neither LOCAL nor PROXY"
            ));
        }
    };
    let short = || format!("the PROXY header is too short for its addresses: {} bytes", rest.len());
    match family {
        0x00 => Ok(None),
        0x11 => {
            let (addresses, _) = rest.split_first_chunk::<12>().ok_or_else(short)?;
            Ok(addresses.first_chunk::<4>().map(|source| IpAddr::from(*source)))
        }
        0x21 => {
            let (addresses, _) = rest.split_first_chunk::<36>().ok_or_else(short)?;
            Ok(addresses.first_chunk::<16>().map(|source| IpAddr::from(*source)))
        }
        0x31 if rest.len() < 216 => Err(short()),
        0x31 => Ok(None),
        0x12 | 0x22 | 0x32 => Err("the PROXY header is for datagrams, not for TCP".to_owned()),
        other => Err(format!("the PROXY header has an unknown address family: {other:#04x}")),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use crate::memory::pipe;

    use super::*;

    /// Reads the header from these bytes, which arrive in parts of `at_once` bytes. Returns the
    /// result and the unread bytes.
    fn heard(bytes: &[u8], at_once: usize) -> (io::Result<Option<Option<IpAddr>>>, Vec<u8>) {
        let (mut near, mut far) = pipe(64 << 10);
        let mut header = ProxyHeader::default();
        let mut heard = Ok(None);
        for part in bytes.chunks(at_once) {
            assert_eq!(far.write(part).unwrap(), part.len());
            if matches!(heard, Ok(None)) {
                heard = header.advance(&mut near);
            }
        }
        let mut left = vec![0; 64 << 10];
        let n = near.read(&mut left).unwrap_or(0);
        left.truncate(n);
        (heard, left)
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, rest].concat()
    }

    const V4: &[u8] = &[192, 0, 2, 7, 10, 0, 0, 1, 0x9c, 0x40, 0x26, 0x98];

    #[test]
    fn says_for_whom_and_leaves_what_follows() {
        let v6: Vec<u8> = [[0x20, 1, 0xd, 0xb8], [0; 4], [0; 4], [0, 0, 0, 9]].concat();
        let v6 = [&v6[..], &[0; 16], &[1, 2, 3, 4]].concat();
        let with_more = [V4, &[4, 0, 2, 7, 7][..]].concat();
        for (header, expected) in [
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 40000 9880\r\n".to_vec(), Some("192.0.2.7")),
            (b"PROXY TCP6 2001:db8::9 2001:db8::1 40000 9880\r\n".to_vec(), Some("2001:db8::9")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (version_2(1, 0x11, V4), Some("192.0.2.7")),
            (version_2(1, 0x11, &with_more), Some("192.0.2.7")),
            (version_2(1, 0x21, &v6), Some("2001:db8::9")),
            (version_2(0, 0x11, V4), None),
            (version_2(0, 0, b""), None),
            (version_2(0, 0x12, b"ignored"), None),
            (version_2(1, 0, b""), None),
            (version_2(1, 0x31, &[0; 216]), None),
        ] {
            let expected: Option<IpAddr> = expected.map(|text| text.parse().unwrap());
            let bytes = [&header[..], b"8=FIX.4.4\x01"].concat();
            for at_once in [1, 2, 15, 16, 17, bytes.len()] {
                let (heard, left) = heard(&bytes, at_once);
                let shown = String::from_utf8_lossy(&header);
                assert_eq!(heard.unwrap(), Some(expected), "{shown}");
                assert_eq!(left, b"8=FIX.4.4\x01", "{shown}, {at_once} at once");
            }
        }
    }

    #[test]
    fn what_is_none_is_told_as_soon_as_it_is_seen() {
        for bytes in [
            b"8".to_vec(),
            b"8=FIX.4.4\x019=70\x01".to_vec(),
            b"\x16\x03\x01\x02".to_vec(),
            b"PROXIES".to_vec(),
            b"PROXY \nTCP4".to_vec(),
            b"PROXY TCP4 192.0.2.7\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.700 10.0.0.1 1 2\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.7 10.0.0.1 1 2\r\n".to_vec(),
            b"PROXY TCP6 192.0.2.7 10.0.0.1 1 2\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::9 10.0.0.1 1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 +1 2\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1 65536\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2 3\r\n".to_vec(),
            b"PROXY TCP4  192.0.2.7 10.0.0.1 1 2\r\n".to_vec(),
            [&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(),
            b"\r\n\r\n\0\r\nQUIC".to_vec(),
            version_2(2, 0x11, V4),
            version_2(1, 0x12, V4),
            version_2(1, 0x13, V4),
            version_2(1, 0x31, &[0; 215]),
            version_2(1, 0x21, &[0; 35]),
            version_2(1, 0x11, &V4[..11]),
            version_2(1, 0x11, &[0; 5_000]),
            [&SIGNATURE[..], &[0x11, 0x11, 0, 0]].concat(),
        ] {
            for at_once in [1, bytes.len()] {
                let error = heard(&bytes, at_once).0.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
                assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn what_follows_a_change_of_any_byte_depends_on_no_split() {
        let line = b"PROXY TCP4 192.0.2.7 10.0.0.1 40000 9880\r\n".to_vec();
        for header in [line, version_2(1, 0x11, V4)] {
            let shown = |(heard, left): (io::Result<Option<Option<IpAddr>>>, Vec<u8>)| {
                // After an error nothing more is read.
                heard.map(|heard| (heard, left)).map_err(|error| error.to_string())
            };
            for (i, byte) in (0..header.len()).flat_map(|i| (0..=255).map(move |byte| (i, byte))) {
                let mut bytes = [&header[..], b"8=FIX"].concat();
                bytes[i] = byte;
                let whole = shown(heard(&bytes, bytes.len()));
                assert_eq!(shown(heard(&bytes, 1)), whole, "byte {i} is {byte}");
            }
        }
    }

    #[test]
    fn half_of_it_waits_and_the_end_is_no_header() {
        assert_eq!(heard(b"PROXY TCP4 192.", 15).0.unwrap(), None);
        assert_eq!(heard(&version_2(1, 0x11, V4)[..20], 20).0.unwrap(), None);
        let (mut near, mut far) = pipe(64);
        far.write(b"PROXY ").unwrap();
        far.shutdown().unwrap();
        let error = ProxyHeader::default().advance(&mut near).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
