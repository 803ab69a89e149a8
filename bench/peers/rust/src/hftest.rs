//! The messages of hftest (S2b), FIX 4.2: the values of a NewOrderSingle(D) or ExecutionReport(8)
//! in an application's form.

use rust_decimal::Decimal;

use crate::order::Fields;
use crate::{Codec, Outcome, at_ms, read_frames};

pub(crate) struct Values {
    pub(crate) seq: u64,
    pub(crate) sender: String,
    pub(crate) target: String,
    pub(crate) cl_ord_id: String,
    pub(crate) symbol: String,
    pub(crate) side: char,
    pub(crate) quantity: u64,
    pub(crate) price: Decimal,
    pub(crate) time_in_force: char,
    /// Additional fields of a report.
    pub(crate) report: Option<Report>,
}

pub(crate) struct Report {
    pub(crate) order_id: String,
    pub(crate) exec_id: String,
    pub(crate) status: char,
    pub(crate) left: u64,
    pub(crate) traded: u64,
    pub(crate) average: Decimal,
    /// LastCapacity(29) of an order's first report.
    pub(crate) capacity: Option<char>,
}

impl Values {
    fn of(frame: &[u8]) -> Outcome<Self> {
        let fields = Fields::of(frame)?;
        Ok(Self {
            seq: fields.text("34")?.parse()?,
            sender: fields.text("49")?,
            target: fields.text("56")?,
            cl_ord_id: fields.text("11")?,
            symbol: fields.text("55")?,
            side: fields.char("54")?,
            quantity: fields.text("38")?.parse()?,
            price: fields.text("44")?.parse()?,
            time_in_force: fields.char("59")?,
            report: if fields.text("35")? == "8" { Some(Report::of(&fields)?) } else { None },
        })
    }
}

impl Report {
    fn of(fields: &Fields<'_>) -> Outcome<Self> {
        Ok(Self {
            order_id: fields.text("37")?,
            exec_id: fields.text("17")?,
            status: fields.char("39")?,
            left: fields.text("151")?.parse()?,
            traded: fields.text("14")?.parse()?,
            average: fields.text("6")?.parse()?,
            capacity: fields.char("29").ok(),
        })
    }
}

/// All messages and their values.
pub(crate) struct Messages {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) values: Vec<Values>,
}

impl Messages {
    pub(crate) fn read<C: Codec>(path: &std::path::Path, codec: &mut C) -> Outcome<Self> {
        let frames = read_frames(path)?;
        let values = frames.iter().map(|f| Values::of(f)).collect::<Outcome<Vec<_>>>()?;
        for (i, (frame, values)) in frames.iter().zip(&values).enumerate() {
            // The first message is at millisecond 123.
            let built = codec.build_hftest(values, at_ms(123 + i as u64)).to_vec();
            let is_decoded = codec.decode_hftest(frame) && codec.decode_hftest(&built);
            // A BodyLength(9) with leading zeros changes CheckSum(10).
            let apart: &[&[u8]] = if built.len() == frame.len() { &[] } else { &[b"9=", b"10="] };
            if !is_decoded || sorted(&built, apart) != sorted(frame, apart) {
                let [built, frame] = [&built, frame].map(|bytes| bytes.escape_ascii().to_string());
                return Err(format!("{built} for {frame}").into());
            }
        }
        Ok(Self { frames, values })
    }
}

/// Returns the fields sorted, without those with these prefixes, so the order of the library does
/// not matter.
fn sorted<'a>(frame: &'a [u8], apart: &[&[u8]]) -> Vec<&'a [u8]> {
    let is_kept = |field: &&[u8]| !apart.iter().any(|begin| field.starts_with(begin));
    let mut fields: Vec<_> = frame.split(|b| *b == 1).filter(is_kept).collect();
    fields.sort();
    fields
}
