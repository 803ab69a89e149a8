//! The venue: its settings file and its handling of orders.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use transfix::{Application, BusinessReject, Message, SessionRef, Tag, msg_type, tag};
use transfix_testkit::certificates::{Authority, Valid};

/// The number of sessions that store messages in files; the others store messages in memory.
const IN_FILES: usize = 40;
/// The password that the venue expects from LOCKED; that counterparty logs on without it.
const SESAME: &str = "sesame";

/// Returns the SenderCompID(49) of counterparty `n`.
pub(crate) fn name(n: usize) -> String {
    format!("FIRM{n:04}")
}

/// Writes the settings file of a venue with `count` plain sessions and six special sessions.
pub(crate) fn settings(dir: &Path, count: usize, broker: &str) -> io::Result<PathBuf> {
    let signed = Authority::new(dir, "authority").sign(&["localhost"], 1, Valid::Now);
    let show = |path: &Path| path.display().to_string();
    let mut text = format!(
        "[engine]\naudit_file = \"{}\"\n\n\
         [defaults]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
         address = \"127.0.0.1:0\"\ndurability = \"process\"\nkeep_inbound = true\n\
         store_dir = \"{}\"\n",
        show(&dir.join("audit.jsonl")),
        show(&dir.join("store")),
    );
    let mut add = |name: &str, more: &str| {
        let _ = write!(text, "\n[[session]]\ntarget_comp_id = \"{name}\"\n{more}");
    };
    add("LINE", "");
    add("LEFT", "");
    add("LOCKED", &format!("logon.expected_password = \"{SESAME}\"\n"));
    add("FULL", "retention = { bytes_max = 65536, when_full = \"refuse\" }\n");
    let window = "{ open = \"0 8 * * mon-fri\", close = \"30 16 * * mon-fri\" }";
    add(
        "SECURE",
        &format!(
            "address = \"127.0.0.2:0\"\ntls = {{ certificate = \"{}\", key = \"{}\" }}\n\
             schedule = {{ zone = \"Europe/London\", windows = [{window}] }}\n",
            show(&signed.certificate),
            show(&signed.key)
        ),
    );
    add(
        "BROKER",
        &format!(
            "role = \"initiator\"\naddress = \"127.0.0.1:1\"\n\
             failover = {{ addresses = [\"{broker}\"] }}\n"
        ),
    );
    for n in 0..count {
        add(
            &name(n),
            if n < IN_FILES {
                ""
            } else {
                "durability = \"memory\"\n\
            keep_inbound = false\n"
            },
        );
    }
    let file = dir.join("venue.toml");
    fs::write(&file, text)?;
    Ok(file)
}

/// The application of the venue: acknowledges orders, replacements and cancellations, and fills no
/// order.
#[derive(Default)]
pub(crate) struct Venue {
    executions: u64,
}

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let status = match order.msg_type().as_bytes() {
            b"D" => b'0',
            b"G" => b'5',
            b"F" => b'4',
            _ => return Err(BusinessReject::unsupported()),
        };
        self.executions += 1;
        let id = order.required(tag::CL_ORD_ID)?;
        let before = order.required(Tag(41)).ok();
        // OrderID(37) is the first ClOrdID(11) of the order, up to the `-`, so that all versions of
        // an order have the same OrderID(37).
        let first = before.unwrap_or(id).split(|byte| *byte == b'-').next().unwrap_or(id);
        let side = order.char(tag::SIDE)?;
        let (execution, symbol) = (self.executions, order.required(tag::SYMBOL)?);
        session.send(msg_type::EXECUTION_REPORT, |report| {
            report.bytes(tag::ORDER_ID, &[b"V-", first].concat()).bytes(tag::CL_ORD_ID, id);
            if let Some(before) = before {
                report.bytes(Tag(41), before);
            }
            report.uint(tag::EXEC_ID, execution).char(tag::EXEC_TYPE, status);
            report.char(tag::ORD_STATUS, status).bytes(tag::SYMBOL, symbol).char(tag::SIDE, side);
            report.uint(tag::LEAVES_QTY, if status == b'4' { 0 } else { 100 });
            report.uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
        })?;
        Ok(())
    }
}
