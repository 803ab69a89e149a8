//! Hostile input of the highest possible cost, in several shapes and any size, to run under
//! callgrind (`cargo xtask instructions hostile`).
//!
//! Invariant: only work inside `measured` is counted, and the counted work reads each byte of the
//! input.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use transfix::simulated::{SimulatedSession, Simulation};
use transfix::{
    Application, BeginString, BusinessReject, Durability, LogSettings, Message, Now, Role,
    SessionId, SessionRef, SessionSettings, Settings, Timestamp, masked,
};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Rules, Scratch, Switches};
use transfix_codec::{frame, raw, shown};
use transfix_dictionary as dictionary;
use transfix_store as store;
use transfix_store::{FileStore, Options, Record, Store};

/// Header of the client's messages without MsgSeqNum(34).
const HEADER: &str = "49=CLIENT|56=VENUE|52=20261121-12:00:00.123|";
/// Bytes from the start of one nested message to the start of the next.
const STEP: usize = 20;
const SOH: u8 = 1;

/// Accepts all messages.
struct Quiet;

impl Application for Quiet {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

/// Processes about `bytes` bytes of input in the shape with the name `shape`. Returns the actual
/// number of bytes.
pub(crate) fn run(shape: &str, bytes: usize) -> Result<usize, String> {
    match shape {
        "secrets-masked" => mask(&secrets(bytes)),
        "secrets-logon" => logon(&secrets(bytes), bytes),
        "byte-by-byte" => logon(&long_logon(bytes), 1),
        "starts" => stream(&b"8=FIX".repeat(bytes / 5), false),
        "wrong-check-sums" => stream(&wrong_check_sums(bytes), false),
        "nested" => stream(&nested(bytes / STEP, 1), true),
        "chained" => stream(&nested(bytes / STEP / 2, bytes / STEP / 2), true),
        "fields" => validated(&many_fields(bytes)),
        "entries" => validated(&entries(bytes, 0)),
        "entries-miscounted" => validated(&entries(bytes, 1)),
        "log-line" => log_line(bytes),
        "logged-secrets" => logged(&order_of_secrets(bytes)),
        "logged-starts" => logged(&b"8=FIX".repeat(bytes / 5)),
        "settings" => settings(bytes),
        "store-tail" => store_tail(bytes),
        "store-opened" => store_opened(bytes),
        _ => Err(format!("no shape {shape}")),
    }
}

/// Runs the work whose instructions are counted.
// The function is never inlined, because callgrind counts instructions between its entry and its
// return.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn now() -> Now {
    let utc = Timestamp::parse(b"20261121-12:00:00.123").unwrap_or_default();
    Now { utc, monotonic_ns: 1_000_000_000 }
}

/// Returns a message of FIX 4.4 with valid BodyLength(9) and CheckSum(10); `|` is the delimiter.
fn message(msg_type: &str, fields: &str) -> Vec<u8> {
    let body = format!("35={msg_type}|{fields}");
    let text = format!("8=FIX.4.4|9={}|{body}", body.len());
    let mut bytes: Vec<u8> =
        text.bytes().map(|byte| if byte == b'|' { SOH } else { byte }).collect();
    let check_sum = raw::check_sum(&bytes);
    bytes.extend_from_slice(b"10=");
    bytes.extend_from_slice(&check_sum);
    bytes.push(SOH);
    bytes
}

/// Returns a Logon(A) that consists mostly of passwords, which a log must hide.
fn secrets(bytes: usize) -> Vec<u8> {
    message("A", &format!("34=1|{HEADER}98=0|108=30|{}", "554=x|".repeat(bytes / 6)))
}

/// Returns a valid Logon(A) with a long text.
fn long_logon(bytes: usize) -> Vec<u8> {
    message("A", &format!("34=1|{HEADER}98=0|108=30|58={}|", "x".repeat(bytes)))
}

/// Returns an order that consists mostly of passwords and line feeds, which a log must hide or
/// escape.
fn order_of_secrets(bytes: usize) -> Vec<u8> {
    message("D", &format!("34=2|{HEADER}{}", "554=x|58=\n|".repeat(bytes / 11)))
}

fn wrong_check_sums(bytes: usize) -> Vec<u8> {
    let mut heartbeat = message("0", &format!("34=2|{HEADER}"));
    let last_digit = heartbeat.len() - 2;
    heartbeat[last_digit] = if heartbeat[last_digit] == b'0' { b'1' } else { b'0' };
    heartbeat.repeat(bytes / heartbeat.len())
}

/// Returns `messages` nested messages, one every 20 bytes, followed by `trailers` trailers with a
/// wrong CheckSum(10). Each message ends at its own trailer; the surplus messages end at the last
/// trailer.
fn nested(messages: usize, trailers: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for n in 0..messages {
        let trailer = (messages + n.min(trailers - 1)) * STEP;
        let length = trailer - n * STEP - 19;
        bytes.extend_from_slice(format!("8=FIX.4.4|9={length:06}|").as_bytes());
        bytes.push(SOH);
    }
    for _ in 0..trailers {
        bytes.extend_from_slice(b"10=999||||||||||||||");
    }
    bytes.iter_mut().filter(|byte| **byte == b'|').for_each(|byte| *byte = SOH);
    bytes
}

/// Returns an order with as many different custom fields as fit into `bytes`.
fn many_fields(bytes: usize) -> Vec<u8> {
    let fields: String = (0..bytes / 9).map(|n| format!("{}=x|", 100_000 + n)).collect();
    message("D", &format!("34=2|{HEADER}{fields}"))
}

/// Returns a News(B) with as many lines as fit into `bytes`; its NoLinesOfText(33) is too high by
/// `wrong_by`.
fn entries(bytes: usize, wrong_by: usize) -> Vec<u8> {
    let lines = bytes / 5;
    let count = lines + wrong_by;
    message("B", &format!("34=2|{HEADER}148=x|33={count}|{}", "58=x|".repeat(lines)))
}

fn mask(frame: &[u8]) -> Result<usize, String> {
    let mut stars = 0;
    measured(&mut || stars = masked(frame).iter().filter(|byte| **byte == b'*').count());
    if stars * 7 < frame.len() {
        return Err(format!("{stars} stars only"));
    }
    Ok(frame.len())
}

fn session(search_garbled: bool, log: Option<LogSettings>) -> Result<SimulatedSession, String> {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    settings.validation.search_garbled = search_garbled;
    settings.log = log;
    let session = Simulation::default().session(&settings, Box::new(Quiet));
    let mut session = session.map_err(|error| error.to_string())?;
    session.connect(now());
    Ok(session)
}

/// Sends the first message of a connection in pieces of `piece` bytes.
fn logon(frame: &[u8], piece: usize) -> Result<usize, String> {
    let mut session = session(false, None)?;
    measured(&mut || {
        for piece in frame.chunks(piece) {
            session.receive(now(), piece);
        }
    });
    Ok(frame.len())
}

/// Sends bytes into a session that is logged on.
fn stream(bytes: &[u8], search_garbled: bool) -> Result<usize, String> {
    into_session(bytes, session(search_garbled, None)?)
}

/// Sends bytes into a logged-on session with a protocol log.
fn logged(bytes: &[u8]) -> Result<usize, String> {
    let dir = scratch_dir();
    let mut log = LogSettings::in_dir(&dir);
    // The log buffer is large enough for all lines, because the work for a discarded line would not
    // be counted.
    log.buffer_bytes = 16 * bytes.len();
    let fed = session(false, Some(log)).and_then(|session| into_session(bytes, session));
    let fed = fed.and_then(|fed| {
        if logged_bytes(&dir) < fed as u64 / 2 {
            Err("the log is nearly empty".to_owned())
        } else {
            Ok(fed)
        }
    });
    let removed = std::fs::remove_dir_all(&dir).map_err(|error| error.to_string());
    let fed = fed?;
    removed.map(|()| fed)
}

/// Returns the size of the protocol log's files.
fn logged_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn into_session(bytes: &[u8], mut session: SimulatedSession) -> Result<usize, String> {
    session.receive(now(), &message("A", &format!("34=1|{HEADER}98=0|108=30|")));
    if session.take_output().is_empty() || session.ended().is_some() {
        return Err("no logon".to_owned());
    }
    measured(&mut || session.receive(now(), bytes));
    match session.ended() {
        None => Ok(bytes.len()),
        Some(why) => Err(format!("the session has ended: {why}")),
    }
}

fn scratch_dir() -> PathBuf {
    std::env::temp_dir().join(format!("transfix-hostile-{}", std::process::id()))
}

/// Validates a whole message with every check.
fn validated(bytes: &[u8]) -> Result<usize, String> {
    let standard = dictionary::standard("FIX44").map_err(|error| error.to_string())?;
    let rules = Rules::new(&standard, &standard);
    let (mut index, mut scratch) = (FieldIndex::default(), Scratch::default());
    let mut is_message = false;
    measured(&mut || {
        let Frame::Whole(end) = frame::split(bytes, Limits::default()) else { return };
        let parsed = Message::parse(&bytes[..end], &mut index, CheckSumPolicy::Verify);
        let Ok(message) = parsed else { return };
        is_message = true;
        let _ = black_box(rules.check(&message, &Switches::ALL, &mut scratch));
    });
    if is_message { Ok(bytes.len()) } else { Err("it is no message".to_owned()) }
}

/// Writes a protocol log line in which each byte must be escaped.
fn log_line(bytes: usize) -> Result<usize, String> {
    let mut line = vec![b'\n'; bytes];
    measured(&mut || shown::escape_line(&mut line));
    if line.len() > bytes { Ok(bytes) } else { Err("nothing was escaped".to_owned()) }
}

/// Reads a settings file with as many sessions as fit.
fn settings(bytes: usize) -> Result<usize, String> {
    let mut text = String::from(
        "[defaults]\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
         role = \"acceptor\"\naddress = \"127.0.0.1:9880\"\nlog = { dir = \"log\" }\n",
    );
    let mut sessions = 0;
    while text.len() < bytes {
        sessions += 1;
        text +=
            &format!("\n[[session]]\ntarget_comp_id = \"CLIENT{sessions}\"\nheart_bt_int_s = 10\n");
    }
    let mut read = Err(String::new());
    measured(&mut || read = Settings::parse("many", &text).map_err(|error| error.to_string()));
    if read?.sessions.len() == sessions { Ok(text.len()) } else { Err("too few".to_owned()) }
}

/// Surveys a store segment whose tail is full of record headers. Each header claims all bytes after
/// it (docs/store-format.md).
fn store_tail(bytes: usize) -> Result<usize, String> {
    let look = |dir: &Path| match store::survey(dir) {
        Ok(survey) => Ok(survey.unfinished_bytes),
        Err(error) => Err(error.to_string()),
    };
    crafted(bytes, look)
}

/// Opens a store whose tail is full of record headers, so that the store truncates the tail.
fn store_opened(bytes: usize) -> Result<usize, String> {
    let open = |dir: &Path| match FileStore::open(dir, Options::default(), 2) {
        Ok((_, recovered)) => Ok(recovered.cut_bytes),
        Err(error) => Err(error.to_string()),
    };
    crafted(bytes, open)
}

/// Runs `work` on a store with a tail of record headers. `work` returns the number of bytes in the
/// tail.
fn crafted(bytes: usize, work: impl Fn(&Path) -> Result<u64, String>) -> Result<usize, String> {
    let dir = scratch_dir();
    let tail = crafted_store(&dir, bytes).and_then(|()| {
        let mut tail = Err(String::new());
        measured(&mut || tail = work(&dir));
        tail
    });
    let removed = std::fs::remove_dir_all(&dir).map_err(|error| error.to_string());
    let tail = tail?;
    removed?;
    // A shorter tail means that the crafted headers were not examined.
    if (tail as usize) < bytes / 2 {
        return Err(format!("{tail} bytes of a batch only"));
    }
    Ok(bytes)
}

fn crafted_store(dir: &Path, bytes: usize) -> Result<(), String> {
    let options = Options { segment_bytes_first: bytes, ..Options::default() };
    let put = || {
        let (mut store, _) = FileStore::open(dir, options, 1)?;
        store.put(1, Record::NextIn(2))?;
        store.commit()
    };
    put().map_err(|error| error.to_string())?;
    let survey = store::survey(dir).map_err(|error| error.to_string())?;
    let path = &survey.segments.first().ok_or("no segment")?.path;
    let mut file = std::fs::read(path).map_err(|error| error.to_string())?;
    let last = file.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let begin = (last + 1).next_multiple_of(8);
    for at in (begin..file.len().saturating_sub(32)).step_by(32) {
        let len = (file.len() - at) as u32;
        file[at..at + 4].copy_from_slice(&len.to_le_bytes());
        // These bytes are a sequence number, and the record kind of a message at the start of a
        // batch.
        file[at + 8] = 1;
        file[at + 24..at + 27].copy_from_slice(&[1, 2, 1]);
    }
    std::fs::write(path, file).map_err(|error| error.to_string())
}
