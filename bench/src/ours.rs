//! Implements each operation with our codec. The result of each operation is checked once, before
//! the measurement.

use std::hint::black_box;

use transfix::clock::monotonic_ns;
use transfix::tag;
use transfix::{Body, Decimal, Message, Misuse, Precision, Tag, Timestamp};
use transfix_codec::scan::Simd;
use transfix_codec::{
    CheckSumPolicy, Field, FieldIndex, Frame, FrameWriter, Limits, Prepared, Rules,
};
use transfix_codec::{
    Members, MessageLayout, Scratch, Switches, TimeOfDay, encode::Header, frame, value,
};
use transfix_dictionary as dictionary;

use crate::operation::{Operation, Set};
use crate::scenarios::hftest::sample::Samples;
use crate::workload::{ENTRIES, EPOCH, Order, S4B, heartbeat, snapshot};

/// The constant header fields of an order, which a session writes beside MsgSeqNum(34) and
/// SendingTime(52).
const HEADER: &[u8] = b"49=A12345B\x0150=2DEFGH4\x0156=COMPARO\x0157=G\x01142=AU,SY\x01";
/// The constant header fields of a Heartbeat(0).
const HEARTBEAT_HEADER: &[u8] = b"49=A12345B\x0156=COMPARO\x01";
/// Nanoseconds between the SendingTime(52) of two messages, so that the digits change.
const STEP_NS: i64 = 1_000_003;

/// The state of our codec: messages, rules, indexes and buffers for all operations, created
/// beforehand.
pub struct Ours {
    fixed: Messages,
    varied: Messages,
    hftest: Samples,
    header: Header,
    heartbeat_header: Header,
    prepared: Prepared,
    fix42: Rules,
    fix44: Rules,
    index: FieldIndex,
    /// An index that uses AVX2 instructions, even if the processor supports more.
    avx2: FieldIndex,
    sse2: FieldIndex,
    scratch: Scratch,
    out: Vec<u8>,
    /// The typed messages of FIX 4.4; `None` if this build lacks them.
    typed: Option<Typed>,
    heartbeat: Vec<u8>,
    snapshot: Vec<u8>,
    /// The dictionary's layout of MarketDataSnapshotFullRefresh(W), needed to read its entries.
    layout: MessageLayout,
}

/// The operations of the typed messages of FIX 4.4.
#[derive(Clone, Copy)]
pub struct Typed {
    /// Writes the body of an order.
    pub write: fn(&Order, &mut Body<'_>, Timestamp),
    /// Reads the body of an order as [`Operation::DecodeRead`] does.
    pub read: fn(&Message<'_>) -> usize,
    /// Reads a snapshot entry by entry as [`Operation::Groups`] does.
    pub read_entries: fn(&Message<'_>) -> usize,
}

struct Messages {
    orders: Vec<Order>,
    frames: Vec<Vec<u8>>,
}

impl Messages {
    fn of(orders: Vec<Order>) -> Self {
        let frames = orders.iter().map(Order::frame).collect();
        Self { orders, frames }
    }
}

impl Ours {
    /// Prepares all messages and buffers, and checks each operation's result.
    ///
    /// # Errors
    /// Returns the fault as text.
    pub fn new() -> Result<Self, String> {
        let rules = |name| {
            let standard = dictionary::standard(name).map_err(|error| error.to_string())?;
            Ok::<_, String>(Rules::new(&standard, &standard))
        };
        let fix44 = dictionary::standard("FIX44").map_err(|error| error.to_string())?;
        let layout = MessageLayout::new(&fix44, &fix44, "W");
        let mut ours = Self {
            fixed: Messages::of(vec![Order::of_page()]),
            varied: Messages::of(Order::varied()),
            hftest: Samples::new(moment)?,
            header: Header::new(b"FIX.4.4", HEADER),
            heartbeat_header: Header::new(b"FIX.4.4", HEARTBEAT_HEADER),
            prepared: prepared().map_err(|misuse| misuse.to_string())?,
            fix42: rules("FIX42")?,
            fix44: rules("FIX44")?,
            index: FieldIndex::default(),
            avx2: FieldIndex::with(Simd::Avx2),
            sse2: FieldIndex::with(Simd::Sse2),
            scratch: Scratch::default(),
            out: Vec::with_capacity(4096),
            typed: None,
            heartbeat: heartbeat(),
            snapshot: snapshot(),
            layout: layout.ok_or("FIX44 has no snapshot")?,
        };
        ours.check()?;
        Ok(ours)
    }

    /// Returns the Heartbeat(0), so that the peers get the same bytes.
    #[must_use]
    pub fn heartbeat(&self) -> &[u8] {
        &self.heartbeat
    }

    /// Returns the MarketDataSnapshotFullRefresh(W), so that the peers get the same bytes.
    #[must_use]
    pub fn snapshot(&self) -> &[u8] {
        &self.snapshot
    }

    /// Returns the frames of a set, so that the peers get the same bytes.
    #[must_use]
    pub fn frames(&self, set: Set) -> &[Vec<u8>] {
        match set {
            Set::Fixed => &self.fixed.frames,
            Set::Varied => &self.varied.frames,
            Set::Hftest => &self.hftest.frames,
        }
    }

    /// Returns true if our codec has the operation. `Encode` is missing, because our codec has no
    /// message object separate from its bytes.
    #[must_use]
    pub fn knows(&self, operation: Operation) -> bool {
        match operation {
            Operation::Encode => false,
            Operation::TypedEncode
            | Operation::TypedRead
            | Operation::TypedGroups
            | Operation::DecodeTypedGroups => self.typed.is_some(),
            Operation::DecodeAvx2 => Simd::Avx2.is_available(),
            Operation::DecodeSse2 => Simd::Sse2.is_available(),
            _ => true,
        }
    }

    /// Runs `operation` `n` times on messages of `set`. Returns the total nanoseconds.
    pub fn run(&mut self, operation: Operation, set: Set, n: u64) -> u64 {
        if set == Set::Hftest {
            return self.run_hftest(operation, n);
        }
        let Self { fixed, varied, header, prepared, fix42, fix44, scratch, out, typed, .. } = self;
        let (heartbeat, snapshot, layout) = (&self.heartbeat[..], &self.snapshot[..], &self.layout);
        let typed = typed.unwrap_or(Typed { write: Order::write, read, read_entries: walk });
        let index = match operation {
            Operation::DecodeAvx2 => &mut self.avx2,
            Operation::DecodeSse2 => &mut self.sse2,
            _ => &mut self.index,
        };
        let Messages { orders, frames } = if set == Set::Fixed { &*fixed } else { &*varied };
        let frame_of = |i: u64| &frames[i as usize & (frames.len() - 1)][..];
        let order_of = |i: u64| &orders[i as usize & (orders.len() - 1)];
        match operation {
            Operation::Floor => time(n, |i| floor(black_box(frame_of(i)))),
            Operation::Decode | Operation::DecodeAvx2 | Operation::DecodeSse2 => {
                time(n, |i| decode(frame_of(i), index).is_some())
            }
            Operation::DecodeRead => time(n, |i| decode(frame_of(i), index).map(|m| read(&m))),
            Operation::DecodeValidate => time(n, |i| {
                decode(frame_of(i), index)
                    .map(|message| fix44.check(&message, &Switches::default(), scratch))
            }),
            Operation::Encode | Operation::BuildEncode => {
                time(n, |i| build(header, out, (order_of(i), i), Order::write))
            }
            Operation::ScratchEncode => time(n, |i| build_all(out, order_of(i), i)),
            Operation::TypedEncode => {
                time(n, |i| build(header, out, (order_of(i), i), typed.write))
            }
            Operation::Template => time(n, |i| patch(prepared, order_of(i), i).len()),
            Operation::Whole => {
                time(n, |i| frame::verified(black_box(frame_of(i)), Limits::default()))
            }
            Operation::Heartbeat => time(n, |_| decode(heartbeat, index).is_some()),
            Operation::HeartbeatEncode => time(n, |i| beat(&mut self.heartbeat_header, out, i)),
            Operation::TypedRead => {
                time(n, |i| decode(frame_of(i), index).map(|m| (typed.read)(&m)))
            }
            Operation::Walk => read_decoded(snapshot, index, n, walk),
            Operation::Groups => read_decoded(snapshot, index, n, |m| read_entries(m, layout)),
            Operation::TypedGroups => read_decoded(snapshot, index, n, typed.read_entries),
            Operation::DecodeGroups => {
                time(n, |_| decode(snapshot, index).map(|m| read_entries(&m, layout)))
            }
            Operation::DecodeTypedGroups => {
                time(n, |_| decode(snapshot, index).map(|m| (typed.read_entries)(&m)))
            }
            Operation::ValidateFloor => time(n, |_| floor(black_box(S4B))),
            Operation::Validate42 => validate(fix42, (index, scratch), n),
            Operation::Validate44 => validate(fix44, (index, scratch), n),
        }
    }

    /// Runs `operation` `n` times on the messages of scenario S2b. Returns the total nanoseconds.
    fn run_hftest(&mut self, operation: Operation, n: u64) -> u64 {
        let Self { hftest, fix42, index, scratch, out, .. } = self;
        let frames = &hftest.frames;
        let frame_of = |i: u64| &frames[i as usize & (frames.len() - 1)][..];
        match operation {
            Operation::Floor => time(n, |i| floor(black_box(frame_of(i)))),
            Operation::Decode => time(n, |i| decode(frame_of(i), index).is_some()),
            Operation::DecodeValidate => time(n, |i| {
                decode(frame_of(i), index)
                    .map(|message| fix42.check(&message, &Switches::default(), scratch).is_ok())
            }),
            Operation::BuildEncode => time(n, |i| {
                let written = hftest.build(i, out, black_box(moment(i)));
                black_box(&out);
                written
            }),
            // Other operations do not run on the messages of S2b.
            _ => 0,
        }
    }

    fn check(&mut self) -> Result<(), String> {
        for set in [Set::Fixed, Set::Varied] {
            for i in 0..self.frames(set).len() {
                self.check_one(set, i)?;
            }
        }
        self.check_hftest()?;
        decode(&self.heartbeat, &mut self.index).ok_or("the Heartbeat(0) does not decode")?;
        beat(&mut self.heartbeat_header, &mut self.out, 0);
        decode(&self.out, &mut self.index).ok_or("what is encoded is no Heartbeat(0)")?;
        if self.out.len() != self.heartbeat.len() {
            return Err("the Heartbeat(0) is not as long as the peers'".to_owned());
        }
        let message = decode(&self.snapshot, &mut self.index).ok_or("no snapshot")?;
        if [walk(&message), read_entries(&message, &self.layout)] != [6 * ENTRIES; 2] {
            return Err("the snapshot is not read whole".to_owned());
        }
        let message = decode(S4B, &mut self.index).ok_or("S4b does not decode")?;
        let mut judge =
            |rules: &Rules| rules.check(&message, &Switches::default(), &mut self.scratch);
        judge(&self.fix42).map_err(|reject| format!("S4b, FIX42: {reject}"))?;
        match judge(&self.fix44) {
            Err(reject) if reject.tag == Some(Tag(47)) => Ok(()),
            other => Err(format!("S4b, FIX44: Rule80A(47) is not refused: {other:?}")),
        }
    }

    fn check_hftest(&mut self) -> Result<(), String> {
        let Self { hftest, fix42, index, scratch, .. } = self;
        for frame in &hftest.frames {
            let message = decode(frame, index).ok_or("a frame of S2b does not decode")?;
            fix42
                .check(&message, &Switches::default(), scratch)
                .map_err(|reject| format!("{message}: {reject}"))?;
        }
        Ok(())
    }

    /// Sets the operations of the typed messages, after a check of their output and values.
    ///
    /// # Errors
    /// If they differ from the untyped results.
    pub fn set_typed(&mut self, typed: Typed) -> Result<(), String> {
        let Typed { write, read: read_typed, read_entries } = typed;
        for order in self.fixed.orders.iter().chain(&self.varied.orders) {
            let (mut typed, mut plain) = (Vec::new(), Vec::new());
            build(&mut self.header, &mut typed, (order, 0), write);
            build(&mut self.header, &mut plain, (order, 0), Order::write);
            let sorted = |frame: &[u8]| {
                let mut fields: Vec<_> = frame.split(|b| *b == 1).map(<[u8]>::to_vec).collect();
                fields.sort();
                fields
            };
            if sorted(&typed) != sorted(&plain) {
                return Err(format!("typed: {}", typed.escape_ascii()));
            }
        }
        for bytes in self.fixed.frames.iter().chain(&self.varied.frames) {
            let message = decode(bytes, &mut self.index).ok_or("a frame does not decode")?;
            if read_typed(&message) != read(&message) {
                return Err(format!("typed: {message} is not read whole"));
            }
        }
        let message = decode(&self.snapshot, &mut self.index).ok_or("no snapshot")?;
        if read_entries(&message) != walk(&message) {
            return Err("typed: the snapshot is not read whole".to_owned());
        }
        self.typed = Some(typed);
        Ok(())
    }

    fn check_one(&mut self, set: Set, i: usize) -> Result<(), String> {
        let Self { fixed, varied, header, prepared, fix44, index, scratch, out, .. } = self;
        let Messages { orders, frames } = if set == Set::Fixed { &*fixed } else { &*varied };
        let (order, bytes) = (&orders[i], &frames[i]);
        let message = decode(bytes, index).ok_or("a frame of ours does not decode")?;
        let fields = 22 + usize::from(order.price.is_some()) + usize::from(order.text.is_some());
        let body = fields - 11;
        if (message.fields().len(), read(&message)) != (fields, body) {
            return Err(format!("{message} is not read whole"));
        }
        fix44
            .check(&message, &Switches::default(), scratch)
            .map_err(|reject| format!("{message}: {reject}"))?;
        build_all(out, order, 0);
        if out.len() != bytes.len() || decode(out, index).map(|m| read(&m)) != Some(body) {
            return Err(format!("{set:?} {i}: what is written anew differs"));
        }
        build(header, out, (order, 0), Order::write);
        let built = decode(out, index).map_or(0, |message| read(&message));
        let patched = decode(patch(prepared, order, 0), index).map_or(0, |message| read(&message));
        if (built, patched) != (body, 13) {
            return Err(format!("{set:?} {i}: what is encoded does not decode"));
        }
        Ok(())
    }
}

fn time<T>(n: u64, mut operation: impl FnMut(u64) -> T) -> u64 {
    let start = monotonic_ns();
    for i in 0..n {
        black_box(operation(i));
    }
    monotonic_ns() - start
}

/// Makes one plain pass over the bytes. Returns the number of separators and the sum of the bytes,
/// both modulo 256.
fn floor(bytes: &[u8]) -> (u8, u8) {
    let pass = |bytes: &[u8]| {
        bytes.iter().fold((0_u8, 0_u8), |(separators, sum), &b| {
            (separators.wrapping_add(u8::from(b == 1)), sum.wrapping_add(b))
        })
    };
    let (chunks, rest) = bytes.as_chunks::<64>();
    chunks.iter().fold(pass(rest), |(separators, sum), chunk| {
        let (more, part) = pass(chunk);
        (separators.wrapping_add(more), sum.wrapping_add(part))
    })
}

fn decode<'a>(bytes: &'a [u8], index: &'a mut FieldIndex) -> Option<Message<'a>> {
    let Frame::Whole(end) = frame::split(black_box(bytes), Limits::default()) else { return None };
    Message::parse(&bytes[..end], index, CheckSumPolicy::Verify).ok()
}

/// Reads all fields of the order's body with their types, and counts the present fields.
fn read(message: &Message<'_>) -> usize {
    let mut there = 0_usize;
    let mut note = |is_there: bool| there = there.wrapping_add(usize::from(is_there));
    note(black_box(&message.timestamp(tag::TRANSACT_TIME)).is_ok());
    note(black_box(&message.decimal(tag::ORDER_QTY)).is_ok());
    note(black_box(&message.decimal(tag::PRICE)).is_ok());
    for text in [tag::ACCOUNT, tag::CL_ORD_ID, tag::SYMBOL, tag::TEXT, Tag(107), Tag(167)] {
        note(black_box(&message.text(text)).is_ok());
    }
    for char in [tag::HANDL_INST, tag::ORD_TYPE, tag::SIDE, tag::TIME_IN_FORCE] {
        note(black_box(&message.char(char)).is_ok());
    }
    there
}

/// Decodes a message once, then measures repeated reading.
fn read_decoded(
    bytes: &[u8],
    index: &mut FieldIndex,
    n: u64,
    read: impl Fn(&Message<'_>) -> usize,
) -> u64 {
    // Never taken: `Ours::new` has decoded the same bytes.
    let Some(message) = decode(bytes, index) else { return 0 };
    time(n, |_| read(black_box(&message)))
}

/// Reads all fields of the snapshot's entries in their order, and counts the valid fields.
fn walk(message: &Message<'_>) -> usize {
    let mut sound = 0_usize;
    for Field { tag, value } in message.fields() {
        let is_sound = match tag {
            Tag(269) => black_box(&value::char(value)).is_some(),
            Tag(270 | 271) => black_box(&Decimal::parse(value)).is_some(),
            Tag(15) => black_box(&value::currency(value)).is_some(),
            Tag(273) => black_box(&TimeOfDay::parse(value)).is_some(),
            Tag(290) => black_box(&value::int(value)).is_some(),
            _ => false,
        };
        sound = sound.wrapping_add(usize::from(is_sound));
    }
    sound
}

/// Reads the snapshot entry by entry; each field is found by its tag.
fn read_entries(message: &Message<'_>, layout: &MessageLayout) -> usize {
    let mut sound = 0_usize;
    let mut note = |is_sound: bool| sound = sound.wrapping_add(usize::from(is_sound));
    let Some(members) = layout.group(Tag(268)) else { return 0 };
    for entry in message.entries(Tag(268), members) {
        note(black_box(&entry.char(Tag(269))).is_ok());
        note(black_box(&entry.decimal(Tag(270))).is_ok());
        note(black_box(&entry.currency(Tag(15))).is_ok());
        note(black_box(&entry.decimal(Tag(271))).is_ok());
        note(black_box(&entry.time_of_day(Tag(273))).is_ok());
        note(black_box(&entry.int(Tag(290))).is_ok());
    }
    sound
}

fn moment(i: u64) -> Timestamp {
    Timestamp(EPOCH.0.wrapping_add((i as i64).wrapping_mul(STEP_NS)))
}

/// Builds an order like a session: constant header fields are prepared, all other fields are
/// written.
fn build(
    header: &mut Header,
    out: &mut Vec<u8>,
    (order, i): (&Order, u64),
    write: impl FnOnce(&Order, &mut Body<'_>, Timestamp),
) -> usize {
    out.clear();
    let now = black_box(moment(i));
    let sending_time = (now, Precision::Millis);
    let mut frame = header.frame(out, b"D", order.msg_seq_num, sending_time);
    write(black_box(order), frame.body(Precision::Millis), now);
    let written = frame.finish().map_or(0, |range| range.end);
    black_box(&out);
    written
}

/// Builds an order like a program without a session: all header fields are written too.
fn build_all(out: &mut Vec<u8>, order: &Order, i: u64) -> usize {
    out.clear();
    let (now, order) = (black_box(moment(i)), black_box(order));
    let mut frame = FrameWriter::new(out, b"FIX.4.4", b"D");
    frame.header_uint(tag::MSG_SEQ_NUM, order.msg_seq_num);
    frame.raw(b"49=A12345B\x01");
    frame.body(Precision::Millis).str(tag::SENDER_SUB_ID, &order.sender_sub_id);
    frame.header_timestamp(tag::SENDING_TIME, now, Precision::Millis);
    frame.raw(b"56=COMPARO\x0157=G\x01142=AU,SY\x01");
    order.write(frame.body(Precision::Millis), now);
    let written = frame.finish().map_or(0, |range| range.end);
    black_box(&out);
    written
}

fn beat(header: &mut Header, out: &mut Vec<u8>, i: u64) -> usize {
    out.clear();
    let sending_time = (black_box(moment(i)), Precision::Millis);
    let frame = header.frame(out, b"0", black_box(1078), sending_time);
    let written = frame.finish().map_or(0, |range| range.end);
    black_box(&out);
    written
}

/// Prepares the order of the published page, with five variable values.
fn prepared() -> Result<Prepared, Misuse> {
    Prepared::new("FIX.4.4", "D", Precision::Millis, |m| {
        m.slot(tag::MSG_SEQ_NUM).fields(b"49=A12345B\x0150=2DEFGH4\x01").slot(tag::SENDING_TIME);
        m.fields(b"56=COMPARO\x0157=G\x01142=AU,SY\x01").slot(tag::TRANSACT_TIME);
        m.fields(b"1=01234567\x01").slot(tag::ORDER_QTY).fields(b"44=400.5\x01");
        m.slot(tag::CL_ORD_ID).fields(b"21=1\x0140=2\x0154=1\x0155=OC\x0158=NIGEL\x0159=0\x01");
        m.fields(b"107=AOZ3 C02000\x01167=OPT\x01");
    })
}

/// Writes the five variable values of the prepared order: MsgSeqNum(34), SendingTime(52),
/// TransactTime(60), OrderQty(38), ClOrdID(11).
fn patch<'p>(prepared: &'p mut Prepared, order: &Order, i: u64) -> &'p [u8] {
    let (now, order) = (black_box(moment(i)), black_box(order));
    let patch = prepared.patch().uint(order.msg_seq_num).timestamp(now).timestamp(now);
    let bytes = patch.decimal(order.order_qty).str(&order.cl_ord_id).finish();
    black_box(bytes.unwrap_or_default())
}

/// Decodes the message of S4b once, and measures `n` validations. Returns the total nanoseconds.
fn validate(rules: &Rules, (index, scratch): (&mut FieldIndex, &mut Scratch), n: u64) -> u64 {
    // Never taken: `Ours::new` has decoded the same bytes.
    let Some(message) = decode(S4B, index) else { return 0 };
    let switches = Switches::default();
    time(n, |_| rules.check(black_box(&message), &switches, scratch))
}
