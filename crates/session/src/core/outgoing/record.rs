//! The encoding of waiting messages, one after the other in a buffer. The layout of one message:
//!
//! ```text
//! 8 bytes    time of submission by the latency probe; 0 = unknown
//! 4 bytes    length of the body
//! 1 byte     length of MsgType(35)
//! ...        MsgType(35), then the body: fields without header and trailer
//! ```

const HEAD: usize = 13;

/// A waiting message, as found in a buffer.
pub struct Queued<'a> {
    pub msg_type: &'a [u8],
    pub body: &'a [u8],
    /// Time of submission as measured by the latency probe; 0 means unknown.
    pub put: u64,
    /// Size of the encoded message in the buffer, in bytes.
    pub len: usize,
}

/// Appends a message that was submitted at time `put`. `add_body` appends the body; if `add_body`
/// fails, the buffer stays unchanged.
pub fn add<E>(
    bytes: &mut Vec<u8>,
    put: u64,
    msg_type: &[u8],
    add_body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let begin = bytes.len();
    bytes.extend_from_slice(&[0; HEAD]);
    bytes.extend_from_slice(msg_type);
    let body_begin = bytes.len();
    if let Err(why) = add_body(bytes) {
        bytes.truncate(begin);
        return Err(why);
    }
    let length = (bytes.len() - body_begin) as u32;
    bytes[begin..begin + 8].copy_from_slice(&put.to_le_bytes());
    bytes[begin + 8..begin + 12].copy_from_slice(&length.to_le_bytes());
    bytes[begin + 12] = msg_type.len() as u8;
    Ok(())
}

/// Appends a message without a time of submission, because it waits for a logon.
pub fn put(bytes: &mut Vec<u8>, msg_type: &[u8], body: &[u8]) {
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.push(msg_type.len() as u8);
    bytes.extend_from_slice(msg_type);
    bytes.extend_from_slice(body);
}

/// Returns MsgType(35) and body of each message in a buffer.
pub fn list(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(message) = first(bytes) {
        let msg_type = String::from_utf8_lossy(message.msg_type).into_owned();
        all.push((msg_type, message.body.to_vec()));
        bytes = &bytes[message.len..];
    }
    all
}

/// Returns the first message in a buffer; `None` if the buffer is empty.
pub fn first(bytes: &[u8]) -> Option<Queued<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let [p0, p1, p2, p3, p4, p5, p6, p7, b0, b1, b2, b3, msg_type] = *head;
    let put = u64::from_le_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
    let body = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let (msg_type, rest) = rest.split_at(usize::from(msg_type));
    Some(Queued { msg_type, body: &rest[..body], put, len: HEAD + msg_type.len() + body })
}
