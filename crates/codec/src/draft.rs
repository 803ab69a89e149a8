//! An editable message: a received message to be forwarded, or a message built in any order.
//!
//! A [`MessageDraft`] stores whole encoded fields with an index, without the header and trailer
//! fields that the session layer writes. The getters of [`Fields`] read the draft, and sending the
//! draft copies its bytes once. A draft reuses its memory: repeated loads allocate only while the
//! draft grows.
//!
//! Invariants of changes through [`MessageDraft::edit`]: fields of entries change only through
//! their group. NumInGroup fields are correct after each change of a group. A group without entries
//! is absent.
//!
//! Invariants of all changes: a data field and its Length field are inserted and removed together.
//! A Length field is correct if its data field follows.
//!
//! ```
//! use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, Message, MessageDraft};
//! use transfix_codec::{Decimal, MessageLayout, Precision, Tag, tag};
//!
//! let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
//! let layout = MessageLayout::new(&fix44, &fix44, b"D").expect("a message of FIX 4.4");
//! let bytes = b"8=FIX.4.4\x019=52\x0135=D\x0134=7\x0111=1\x01453=1\x01448=A\x01447=D\x01\
//!     55=EU\x0144=9\x0110=000\x01";
//! let mut index = FieldIndex::default();
//! let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?;
//!
//! let mut draft = MessageDraft::default();
//! draft.load(&message);
//! let mut order = draft.edit(&layout);
//! order.put(|fields| _ = fields.decimal(tag::PRICE, Decimal::new(105, 1)))?;
//! let mut parties = order.group(Tag(453)).expect("NoPartyIDs(453) is a group");
//! parties.add(b"B")?.set(Tag(447), b"D")?;
//!
//! let mut out = Vec::new();
//! let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", draft.msg_type());
//! draft.write(frame.body(Precision::Millis));
//! frame.finish()?;
//! let text = String::from_utf8(out)?.replace('\x01', "|");
//! assert!(text.contains("|11=1|453=2|448=A|447=D|448=B|447=D|55=EU|44=10.5|10="), "{text}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrange;
mod entry;

use alloc::vec::Vec;
use core::ops::Range;

use crate::group::Members;
use crate::{Body, Fields, Message, Misuse, MsgType, Precision, Tag, data, raw, tag, value};
pub use entry::{DraftEntry, DraftGroup};

/// An editable message.
#[derive(Clone, Debug, Default)]
pub struct MessageDraft {
    msg_type: Vec<u8>,
    run: Run,
    /// A buffer for the fields to be inserted, and for the result of sorting the draft.
    spare: Run,
    /// A buffer for sorting: the position of each unit of fields in the dictionary, and its index
    /// range.
    order: Vec<(u32, u32, u32)>,
    precision: Precision,
}

/// Whole encoded fields with the index that [`Fields`] needs.
#[derive(Clone, Debug)]
struct Run {
    bytes: Vec<u8>,
    tags: Vec<Tag>,
    /// Offset of the first byte of each value.
    values: Vec<u32>,
    /// Offset of the first byte of each field, followed by the end offset of the last field.
    starts: Vec<u32>,
    /// Custom data fields in addition to the standard data fields, each after its Length field.
    more_data: Vec<(Tag, Tag)>,
}

/// Returns the Length field of the data field `tag`, as defined by the standard or by `more`.
fn length_of(more: &[(Tag, Tag)], tag: Tag) -> Option<Tag> {
    let venues = || more.iter().find(|(_, data)| *data == tag).map(|(length, _)| *length);
    data::length_of(tag).or_else(venues)
}

/// An empty field list, used to remove fields.
const NOTHING: Fields<'_> = Fields::new(&[], &[], &[], &[0]);

impl Default for Run {
    fn default() -> Self {
        let (bytes, tags, values, more_data) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { bytes, tags, values, starts: [0].into(), more_data }
    }
}

impl Run {
    fn clear(&mut self) {
        self.bytes.clear();
        self.tags.clear();
        self.values.clear();
        self.starts.truncate(1);
    }

    fn fields(&self) -> Fields<'_> {
        Fields::new(&self.bytes, &self.tags, &self.values, &self.starts)
    }

    fn length_of(&self, tag: Tag) -> Option<Tag> {
        length_of(&self.more_data, tag)
    }

    /// Returns true if one tag is the Length field of the other tag.
    fn are_pair(&self, a: Tag, b: Tag) -> bool {
        self.length_of(a) == Some(b) || self.length_of(b) == Some(a)
    }

    /// Rebuilds the index of the encoded fields, and inserts missing Length fields before data
    /// fields.
    fn index(&mut self) {
        let Self { bytes, tags, values, starts, more_data } = self;
        tags.clear();
        values.clear();
        starts.truncate(1);
        let mut at = 0;
        for (encoded, value) in raw::pieces_with(bytes, |tag| length_of(more_data, tag)) {
            tags.push(raw::tag_of(encoded, value));
            values.push((at + value) as u32);
            at += encoded.len();
            starts.push(at as u32);
        }
        // Drops trailing bytes that are not a whole field.
        bytes.truncate(at);
        let mut n = 0;
        while n < self.tags.len() {
            if let Some(length) = self.length_of(self.tags[n]) {
                if n == 0 || self.tags[n - 1] != length {
                    self.insert_number(n, length);
                    n += 1;
                }
                self.mend_length(n);
            }
            n += 1;
        }
    }

    /// Corrects the Length field before the data field at index `at` if its value is wrong.
    ///
    /// A receiver would parse a pair with a wrong length into the following fields.
    fn mend_length(&mut self, at: usize) {
        let Some(&tag) = self.tags.get(at) else { return };
        if at == 0 || self.length_of(tag) != Some(self.tags[at - 1]) {
            return;
        }
        let fields = self.fields();
        let length = fields.value(at).len() as u64;
        if value::uint(fields.value(at - 1)) != Some(length) {
            self.set_count(at - 1, length);
        }
    }

    /// Appends the given fields to this run.
    fn append(&mut self, other: &Fields<'_>) {
        for (n, field) in other.fields().enumerate() {
            self.push(field.tag, other.encoded(n), field.value.len());
        }
    }

    fn push(&mut self, tag: Tag, encoded: &[u8], value_len: usize) {
        self.bytes.extend_from_slice(encoded);
        self.tags.push(tag);
        // The delimiter SOH follows the value, so the value starts one byte before the last
        // `value_len` bytes.
        self.values.push((self.bytes.len() - value_len - 1) as u32);
        self.starts.push(self.bytes.len() as u32);
        self.mend_length(self.tags.len() - 1);
    }

    /// Replaces the fields in `range` by `other`.
    fn splice(&mut self, range: Range<usize>, other: &Fields<'_>) {
        let [begin, end] = [range.start, range.end].map(|n| self.starts[n]);
        let added = other.bytes();
        self.bytes.splice(begin as usize..end as usize, added.iter().copied());
        self.tags.splice(range.clone(), other.tags().iter().copied());
        // The offsets of the fields after `range` move first; the inserted offsets follow.
        self.shift(range.end, added.len() as u32, end - begin);
        let places = core::iter::repeat_n(0, other.len());
        self.values.splice(range.clone(), places.clone());
        self.starts.splice(range.clone(), places);
        let mut at = begin;
        for (n, field) in other.fields().enumerate() {
            let length = other.encoded(n).len();
            self.starts[range.start + n] = at;
            at += length as u32;
            self.values[range.start + n] = at - field.value.len() as u32 - 1;
        }
        self.mend_length(range.start);
        self.mend_length(range.start + other.len());
    }

    /// Inserts a NumInGroup or Length field with the value 0, which the caller sets later.
    fn insert_number(&mut self, at: usize, tag: Tag) {
        let mut number = itoa::Buffer::new();
        let text = number.format(tag.0).as_bytes();
        let begin = self.starts[at];
        // The value `0` is a placeholder.
        let field = text.iter().chain(b"=0\x01").copied();
        self.bytes.splice(begin as usize..begin as usize, field);
        let (value, length) = (text.len() as u32 + 1, text.len() as u32 + 3);
        self.tags.insert(at, tag);
        self.values.insert(at, begin + value);
        self.starts.insert(at, begin);
        self.shift(at + 1, length, 0);
    }

    /// Replaces the value of a NumInGroup or Length field.
    fn set_count(&mut self, at: usize, count: u64) {
        let mut number = itoa::Buffer::new();
        let text = number.format(count).as_bytes();
        let (begin, end) = (self.values[at] as usize, self.starts[at + 1] as usize - 1);
        self.bytes.splice(begin..end, text.iter().copied());
        let (added, removed) = (text.len() as u32, (end - begin) as u32);
        self.shift(at + 1, added, removed);
    }

    /// Moves the offsets of all fields from index `from` on by `added` minus `removed` bytes.
    fn shift(&mut self, from: usize, added: u32, removed: u32) {
        // The start of field `from` is also the end of the preceding field, so that end moves too.
        for place in self.values[from..].iter_mut().chain(&mut self.starts[from..]) {
            *place = *place + added - removed;
        }
    }

    /// Returns the index range of the fields that must stay together with the field at `at`.
    ///
    /// The range is a group with its entries, a Length field with its data field, or a single
    /// field.
    fn unit<M: Members + ?Sized>(&self, at: usize, members: &M) -> Range<usize> {
        let tags = &self.tags;
        if let Some(nested) = members.group(tags[at]) {
            return at..crate::group::group_end(tags, at + 1, nested);
        }
        let next = tags.get(at + 1).and_then(|next| self.length_of(*next));
        at..at + 1 + usize::from(next == Some(tags[at]))
    }
}

impl MessageDraft {
    /// Makes the draft an empty message of type `msg_type`.
    pub fn clear(&mut self, msg_type: impl AsRef<[u8]>) {
        self.set_msg_type(msg_type);
        self.run.clear();
    }

    /// Defines custom pairs of Length field and data field, in addition to the standard pairs.
    ///
    /// In each pair, the Length field comes first. The pairs remain in effect until the next call.
    /// ```
    /// use transfix_codec::{MessageDraft, Tag};
    ///
    /// let mut draft = MessageDraft::default();
    /// draft.set_data_fields([(Tag(5001), Tag(5002))]);
    /// draft.clear(b"U1");
    /// let groups: [(Tag, &[Tag]); 0] = [];
    /// draft.edit(&groups[..]).put(|fields| {
    ///     fields.data(Tag(5001), Tag(5002), b"a\x01b");
    /// })?;
    /// assert_eq!(draft.fields().raw(Tag(5002)), Some(&b"a\x01b"[..]));
    /// draft.set(Tag(5002), b"abcd")?;
    /// assert_eq!(draft.fields().bytes(), b"5001=4\x015002=abcd\x01");
    /// # Ok::<(), transfix_codec::Misuse>(())
    /// ```
    pub fn set_data_fields(&mut self, pairs: impl IntoIterator<Item = (Tag, Tag)>) {
        self.run.more_data = pairs.into_iter().collect();
        self.spare.more_data.clone_from(&self.run.more_data);
    }

    /// Replaces the draft by the fields of `message`, in their order.
    ///
    /// The draft skips fields that the session layer writes, and fields without a valid tag, which
    /// could not be sent. Custom data fields are recognized only after
    /// [`MessageDraft::set_data_fields`].
    pub fn load(&mut self, message: &Message<'_>) {
        self.clear(message.msg_type());
        for (n, field) in message.fields().enumerate() {
            if !tag::is_session_owned(field.tag) && field.tag != Tag(0) {
                self.run.push(field.tag, message.encoded(n), field.value.len());
            }
        }
    }

    /// Returns MsgType(35).
    #[must_use]
    pub fn msg_type(&self) -> MsgType<'_> {
        MsgType::of(&self.msg_type)
    }

    /// Changes MsgType(35) and keeps the fields.
    pub fn set_msg_type(&mut self, msg_type: impl AsRef<[u8]>) {
        self.msg_type.clear();
        self.msg_type.extend_from_slice(msg_type.as_ref());
    }

    /// Sets the fraction digits of inserted times. Default: milliseconds.
    pub const fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Returns the current fields; the getters of [`Fields`] read them.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        self.run.fields()
    }

    /// Returns an editor for the message; `members` defines the permitted fields and the groups.
    ///
    /// Without a dictionary, `members` is a list of groups with the permitted fields of their
    /// entries:
    ///
    /// ```
    /// use transfix_codec::{MessageDraft, Tag};
    ///
    /// let parties = [Tag(448), Tag(447), Tag(452)];
    /// let groups = [(Tag(453), &parties[..])];
    /// let mut draft = MessageDraft::default();
    /// draft.clear(b"D");
    /// let mut message = draft.edit(&groups[..]);
    /// let mut group = message.group(Tag(453)).expect("a group of the list");
    /// let mut party = group.add(b"A")?;
    /// party.set(Tag(452), b"1")?;
    /// party.set(Tag(447), b"D")?;
    /// assert_eq!(draft.fields().bytes(), b"453=1\x01448=A\x01447=D\x01452=1\x01");
    /// # Ok::<(), transfix_codec::Misuse>(())
    /// ```
    pub fn edit<'d, M: Members + ?Sized>(&'d mut self, members: &'d M) -> DraftEntry<'d, M> {
        DraftEntry::whole(self, members)
    }

    /// Sets the first occurrence of the field, or appends the field. A data field is set with its
    /// Length field.
    ///
    /// This method does not know groups: it changes fields of entries and NumInGroup fields like
    /// any other field. A field appended after a group entry may be parsed as part of the entry.
    /// For messages with groups use [`MessageDraft::edit`].
    ///
    /// # Errors
    /// The errors of [`Body::bytes`]; the draft is then unchanged.
    pub fn set(&mut self, tag: Tag, value: &[u8]) -> Result<(), Misuse> {
        self.edit::<[(Tag, &[Tag])]>(&[]).set(tag, value)
    }

    /// Removes the first occurrence of the field; returns true if the field was present.
    ///
    /// A Length field and its data field are both removed. This method does not know groups; see
    /// [`MessageDraft::set`].
    pub fn remove(&mut self, tag: Tag) -> bool {
        self.edit::<[(Tag, &[Tag])]>(&[]).remove(tag).unwrap_or(false)
    }

    /// Sorts the fields into the order of the dictionary, including the fields of group entries.
    ///
    /// Header fields come first, then body fields, then unknown fields, then trailer fields.
    pub fn arrange<M: Members + ?Sized>(&mut self, members: &M) {
        let Self { run, spare, order, .. } = self;
        spare.clear();
        order.clear();
        arrange::level(run, 0..run.tags.len(), members, order, spare);
        core::mem::swap(run, spare);
    }

    /// Removes fields that the dictionary does not permit, and groups without entries.
    ///
    /// A gateway uses this method to forward only fields that both sides know.
    pub fn keep_known<M: Members + ?Sized>(&mut self, members: &M) {
        let Self { run, spare, .. } = self;
        spare.clear();
        arrange::legal(&run.fields(), members, members, spare);
        core::mem::swap(run, spare);
    }

    /// Writes all fields in their current order.
    pub fn write(&self, body: &mut Body<'_>) {
        body.fields_unchecked(&self.run.bytes);
    }

    /// Encodes the fields that the closure `write` adds, and stores them in `spare`.
    fn encode(&mut self, write: impl FnOnce(&mut Body<'_>)) -> Result<(), Misuse> {
        self.spare.clear();
        Body::detached(&mut self.spare.bytes, self.precision, write)?;
        self.spare.index();
        Ok(())
    }
}
