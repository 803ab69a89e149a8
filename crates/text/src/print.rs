//! Readable forms of a message: a tree with the names of the dictionary, or a single line.
//!
//! Invariants: every field of the message is printed once, in wire order, for any dictionary. No
//! control character or invisible character of the message reaches the output, so a value cannot
//! forge a line. Only the writer can fail.

mod palette;
mod referred;

use std::fmt::{self, Write};

use transfix_codec::shown::Shown;
use transfix_codec::{Field, Message, Tag, tag, value};
use transfix_dictionary::{Dictionary, Flat, Member};

pub use palette::Palette;
use referred::write_referred;

/// Writes a message as header, body and trailer, one field per line, with indented groups.
///
/// Codes appear as name and value. The first dictionary defines the header, the trailer and
/// administrative messages; the second dictionary defines all other messages. See
/// [`Rules::new`](transfix_codec::Rules::new).
///
/// ```
/// use transfix_codec::{CheckSumPolicy, FieldIndex, Message};
/// use transfix_text::print::{self, Palette};
///
/// let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
/// let bytes = b"8=FIX.4.4\x019=17\x0135=D\x0154=1\x019999=x\x0110=205\x01";
/// let mut index = FieldIndex::default();
/// let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?;
/// let mut text = String::new();
/// print::readable(&message, [&fix44; 2], &Palette::PLAIN, &mut text)?;
/// let expected = r#"header ("header")
///     BeginString (8): FIX.4.4
///     BodyLength (9): 17
///     MsgType (35): NEW_ORDER_SINGLE (D)
/// NewOrderSingle ("D")
///     Side (54): BUY (1)
///     ? (9999): x
/// trailer ("trailer")
///     CheckSum (10): 205
/// "#;
/// assert_eq!(text, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of `out`.
pub fn readable(
    message: &Message<'_>,
    [session, application]: [&Dictionary; 2],
    palette: &Palette,
    out: &mut dyn Write,
) -> fmt::Result {
    let names = Names::of(message, session, application);
    let Palette { heading, end, .. } = palette;
    let mut walk = Walk { message, names, at: 0, sink: Tree { out, names, palette, depth: 1 } };
    writeln!(walk.sink.out, "{heading}header{end} (\"header\")")?;
    walk.until(walk.header_end(), names.session.header())?;
    let name = names.message.map_or("?", |found| found.name.as_str());
    write!(walk.sink.out, "{heading}{name}{end} (\"")?;
    write_value(message.msg_type().as_bytes(), walk.sink.out)?;
    walk.sink.out.write_str("\")\n")?;
    let trailer = walk.trailer_begin();
    walk.until(trailer, names.message.map_or(&[], |found| found.members.as_slice()))?;
    writeln!(walk.sink.out, "{heading}trailer{end} (\"trailer\")")?;
    walk.until(usize::MAX, names.session.trailer())
}

/// Writes a message as one line: type, MsgSeqNum(34), direction and the fields of the body.
///
/// ```
/// use transfix_codec::{CheckSumPolicy, FieldIndex, Message};
/// use transfix_text::print::{self, Palette};
///
/// let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
/// let bytes = b"8=FIX.4.4\x019=46\x0135=D\x0134=5\x0149=CLIENT\x0156=VENUE\x01\
///     11=1\x0154=1\x0138=100\x0110=000\x01";
/// let mut index = FieldIndex::default();
/// let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?;
/// let mut line = String::new();
/// print::one_line(&message, [&fix44; 2], &Palette::PLAIN, &mut line)?;
/// assert_eq!(line, "NewOrderSingle(D) seq 5 CLIENT->VENUE  ClOrdID=1 Side=BUY OrderQty=100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of `out`.
pub fn one_line(
    message: &Message<'_>,
    [session, application]: [&Dictionary; 2],
    palette: &Palette,
    out: &mut dyn Write,
) -> fmt::Result {
    let names = Names::of(message, session, application);
    let Palette { heading, end, .. } = palette;
    let name = names.message.map_or("?", |found| found.name.as_str());
    write!(out, "{heading}{name}{end}(")?;
    write_value(message.msg_type().as_bytes(), out)?;
    out.write_str(") seq ")?;
    write_value(message.raw(tag::MSG_SEQ_NUM).unwrap_or(b"?"), out)?;
    out.write_str(" ")?;
    write_value(message.raw(tag::SENDER_COMP_ID).unwrap_or(b"?"), out)?;
    out.write_str("->")?;
    write_value(message.raw(tag::TARGET_COMP_ID).unwrap_or(b"?"), out)?;
    for (flag, text) in [(tag::POSS_DUP_FLAG, " PossDup"), (tag::POSS_RESEND, " PossResend")] {
        if message.raw(flag) == Some(b"Y") {
            out.write_str(text)?;
        }
    }
    let mut walk = Walk { message, names, at: 0, sink: Line { out, names, palette, gap: "  " } };
    walk.at = walk.header_end();
    let trailer = walk.trailer_begin();
    walk.until(trailer, names.message.map_or(&[], |found| found.members.as_slice()))
}

/// The dictionaries that name fields and messages.
#[derive(Clone, Copy)]
struct Names<'d> {
    session: &'d Dictionary,
    application: &'d Dictionary,
    message: Option<&'d transfix_dictionary::Message>,
    /// True if the message is a Reject(3), BusinessMessageReject(j) or Logout(5), whose Text(58)
    /// may refer to another message.
    rejects: bool,
}

impl<'d> Names<'d> {
    fn of(message: &Message<'_>, session: &'d Dictionary, application: &'d Dictionary) -> Self {
        let msg_type = message.msg_type().as_bytes();
        let message = session.message(msg_type).or_else(|| application.message(msg_type));
        let rejects = matches!(msg_type, b"3" | b"j" | b"5");
        Self { session, application, message, rejects }
    }

    fn field(&self, tag: Tag) -> Option<&'d transfix_dictionary::Field> {
        self.application.field(tag.0).or_else(|| self.session.field(tag.0))
    }

    /// Returns the members of a group's entries, if `tag` is the NumInGroup field of a group in
    /// `members`.
    fn group(&self, members: &'d [Member], tag: Tag) -> Option<&'d [Member]> {
        use transfix_dictionary::DataType as T;
        // FIX 4.0 to 4.2 declare the count field of a group as an int. Checking the data type first
        // avoids most searches.
        let counts = matches!(self.field(tag)?.data_type, T::NumInGroup | T::Int);
        if !counts {
            return None;
        }
        Flat::of(members).find(|member| member.tag == tag.0)?.group
    }
}

fn holds(members: &[Member], tag: Tag) -> bool {
    Flat::of(members).any(|member| member.tag == tag.0)
}

/// Receiver of the fields and group entries that a [`Walk`] visits.
trait Sink {
    /// Receives a field with its definition, if the dictionary has one; `text` is the tag as it
    /// appears in the message.
    fn field(
        &mut self,
        text: &[u8],
        field: Field<'_>,
        known: Option<&transfix_dictionary::Field>,
    ) -> fmt::Result;
    /// Receives the start of entry `n` of `count` of the group named `name`.
    fn entry(&mut self, name: &str, n: u64, count: u64) -> fmt::Result;
    fn entry_end(&mut self) -> fmt::Result;
}

/// A pass over the fields of a message in wire order, with the groups that the dictionary defines.
struct Walk<'w, 'm, S> {
    message: &'w Message<'m>,
    names: Names<'w>,
    /// Message index of the next field.
    at: usize,
    sink: S,
}

impl<'w, S: Sink> Walk<'w, '_, S> {
    /// Returns the index of the first field after the header.
    fn header_end(&self) -> usize {
        let header = self.names.session.header();
        let hops = Flat::of(header).filter_map(|member| member.group);
        let is_header = |tag| holds(header, tag) || hops.clone().any(|group| holds(group, tag));
        self.message.fields().take_while(|field| is_header(field.tag)).count()
    }

    /// Returns the index of the first trailer field.
    fn trailer_begin(&self) -> usize {
        let trailer = self.names.session.trailer();
        let fields = self.message.fields();
        let count = fields.len();
        let length = fields.rev().take_while(|field| holds(trailer, field.tag)).count();
        (count - length).max(self.header_end())
    }

    /// Visits the fields before index `end`; `members` defines their groups.
    fn until(&mut self, end: usize, members: &'w [Member]) -> fmt::Result {
        while self.at < end
            && let Some(field) = self.message.at(self.at)
        {
            self.field(field, members)?;
        }
        Ok(())
    }

    /// Visits one field, and its group if it is a NumInGroup field.
    fn field(&mut self, field: Field<'_>, members: &'w [Member]) -> fmt::Result {
        let known = self.names.field(field.tag);
        self.sink.field(self.message.tag_text(self.at), field, known)?;
        self.at += 1;
        let group = self.names.group(members, field.tag);
        let (Some(entry), Some(known)) = (group, known) else { return Ok(()) };
        let Some(delimiter) = Flat::of(entry).next() else { return Ok(()) };
        let count = value::uint(field.value).unwrap_or(0);
        let mut n = 0;
        while n < count && self.message.at(self.at).is_some_and(|f| f.tag.0 == delimiter.tag) {
            n += 1;
            self.sink.entry(&known.name, n, count)?;
            self.entry(entry, Tag(delimiter.tag))?;
            self.sink.entry_end()?;
        }
        Ok(())
    }

    /// Visits the fields of one group entry, up to the first field that is not a member.
    fn entry(&mut self, members: &'w [Member], delimiter: Tag) -> fmt::Result {
        let begin = self.at;
        while let Some(field) = self.message.at(self.at)
            && (self.at == begin || field.tag != delimiter)
            && holds(members, field.tag)
        {
            self.field(field, members)?;
        }
        Ok(())
    }
}

struct Tree<'o, 'd> {
    out: &'o mut dyn Write,
    names: Names<'d>,
    palette: &'o Palette,
    depth: usize,
}

impl Tree<'_, '_> {
    fn indent(&mut self) -> fmt::Result {
        (0..self.depth).try_for_each(|_| self.out.write_str("    "))
    }
}

impl Sink for Tree<'_, '_> {
    fn field(
        &mut self,
        text: &[u8],
        field: Field<'_>,
        known: Option<&transfix_dictionary::Field>,
    ) -> fmt::Result {
        self.indent()?;
        let Palette { name, value, end, .. } = self.palette;
        write!(self.out, "{name}{}{end} (", known.map_or("?", |known| known.name.as_str()))?;
        write_value(text, self.out)?;
        write!(self.out, "): {value}")?;
        if write_codes(known, field.value, self.out)? {
            write!(self.out, "{end} (")?;
            write_value(field.value, self.out)?;
            return self.out.write_str(")\n");
        }
        if !write_referred(self.names, field, " ", self.out)? {
            write_value(field.value, self.out)?;
        }
        writeln!(self.out, "{end}")
    }

    fn entry(&mut self, name: &str, n: u64, count: u64) -> fmt::Result {
        self.depth += 1;
        self.indent()?;
        self.depth += 1;
        let Palette { name: begin, end, .. } = self.palette;
        writeln!(self.out, "{begin}{name}{end} (Repeating group {n}/{count})")
    }

    fn entry_end(&mut self) -> fmt::Result {
        self.depth -= 2;
        Ok(())
    }
}

struct Line<'o, 'd> {
    out: &'o mut dyn Write,
    names: Names<'d>,
    palette: &'o Palette,
    /// The separator to be written before the next field.
    gap: &'static str,
}

impl Sink for Line<'_, '_> {
    fn field(
        &mut self,
        text: &[u8],
        field: Field<'_>,
        known: Option<&transfix_dictionary::Field>,
    ) -> fmt::Result {
        self.out.write_str(self.gap)?;
        self.gap = " ";
        let Palette { name, value, end, .. } = self.palette;
        self.out.write_str(name)?;
        match known {
            Some(known) => self.out.write_str(&known.name)?,
            None => write_value(text, self.out)?,
        }
        write!(self.out, "{end}={value}")?;
        if !write_codes(known, field.value, self.out)?
            && !write_referred(self.names, field, "", self.out)?
        {
            write_value(field.value, self.out)?;
        }
        self.out.write_str(end)
    }

    fn entry(&mut self, _: &str, _: u64, _: u64) -> fmt::Result {
        self.out.write_str(" [")?;
        self.gap = "";
        Ok(())
    }

    fn entry_end(&mut self) -> fmt::Result {
        self.gap = " ";
        self.out.write_str("]")
    }
}

/// Writes the names of a value's codes. If the dictionary does not define a code, writes nothing
/// and returns false.
fn write_codes(
    known: Option<&transfix_dictionary::Field>,
    value: &[u8],
    out: &mut dyn Write,
) -> Result<bool, fmt::Error> {
    let Some(known) = known.filter(|known| !known.codes.is_empty()) else { return Ok(false) };
    let words = |is_list: bool| value.split(move |&b| is_list && b == b' ');
    let is_list = known.data_type.is_multiple();
    if !words(is_list).all(|word| known.code(word).is_some()) {
        return Ok(false);
    }
    for (n, code) in words(is_list).filter_map(|word| known.code(word)).enumerate() {
        if n > 0 {
            out.write_str(" ")?;
        }
        out.write_str(&code.name)?;
    }
    Ok(true)
}

/// Writes bytes as text on one line, escaped so that the bytes can be recovered.
fn write_value(value: &[u8], out: &mut dyn Write) -> fmt::Result {
    write!(out, "{}", Shown::whole(value))
}

#[cfg(test)]
mod tests;
