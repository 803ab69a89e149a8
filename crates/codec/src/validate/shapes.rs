//! Shapes: the tag sequences of earlier valid messages, with the checks that their values still
//! need.
//!
//! The sequence of tags alone determines the section of each field, repeated tags and missing
//! required tags. If a message has the type and the tags of an earlier valid message, only its
//! values need checks.
//!
//! Invariants: a shape is used only with the rules that created it. A shape has no group, no data
//! field and no conditionally required field, because their checks involve more than one value. A
//! message that fails the check by shape is checked again from its start by the full walk.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;

use super::codes::ValueCheck;
use super::tables::{Body, LayoutField, NO_GROUP, Tables, is_common_code};
use super::values::{self, LastTime};
use crate::{Decimal, Fields, Tag, digits, scan};
use transfix_dictionary::DataType;

/// Maximum number of shapes. Most sessions have fewer message types, and most types always have the
/// same tags.
const SHAPES_MAX: usize = 8;
/// Maximum number of fields of a shape. For larger messages, a shape would save too little time.
const FIELDS_MAX: usize = 64;
/// From each run of this many valid messages without a shape, a single shape is learned, so that
/// varied messages cost little extra.
const WALKS_PER_SHAPE: u32 = 8;
/// Position in the run of the message whose shape is learned. A session that drops its `Scratch`
/// after each message learns none.
const WALK_OF_SHAPE: u32 = 2;

/// The shapes of recent messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes {
    known: Vec<Shape>,
    /// Number of valid messages so far that matched no shape.
    walks: u32,
    /// Index of the newest shape. The shape at the next index is the oldest and is replaced next.
    newest: usize,
}

/// The common properties of all messages with these tags. An empty tag list matches no message.
#[derive(Clone, Debug)]
struct Shape {
    /// [`Tables::token`] of the rules that created the shape.
    token: Arc<()>,
    /// [`Body::layout`] of the message type.
    layout: usize,
    tags: Vec<Tag>,
    /// The values that need a further check; in addition, no value may be empty.
    values: Vec<Valued>,
}

/// A value that needs a check beyond being non-empty.
#[derive(Clone, Copy, Debug)]
struct Valued {
    /// See [`super::codes::FieldRule::common_codes`].
    codes: u64,
    /// Index into `Tables::fields`.
    field: u32,
    /// Index of the field in the message.
    at: u16,
    look: ValueCheck,
    data_type: DataType,
}

impl Shapes {
    /// Returns true if the message has a known shape and valid values; `false` means only that the
    /// message needs the full walk.
    #[inline]
    pub(super) fn is_sound(
        &self,
        (tables, body): (&Tables, &Body),
        message: &Fields<'_>,
        last_time: &mut LastTime,
    ) -> bool {
        let tags = message.tags();
        let is_shape = |shape: &&Shape| {
            shape.layout == body.layout
                && shape.tags.len() == tags.len()
                && ptr::eq(&*shape.token, &*tables.token)
                && scan::are_same(&shape.tags, tags)
        };
        match self.known.iter().find(is_shape) {
            Some(shape) => shape.has_sound_values(tables, message, last_time),
            None => false,
        }
    }

    /// Counts a valid message without a shape, and learns its shape if one is due.
    #[inline]
    pub(super) fn note(&mut self, rules: (&Tables, &Body), message: &Fields<'_>) {
        let walk = self.walks;
        self.walks = walk.wrapping_add(1);
        if walk % WALKS_PER_SHAPE == WALK_OF_SHAPE {
            self.learn(rules, message);
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, (tables, body): (&Tables, &Body), message: &Fields<'_>) {
        let is_usual = message.len() <= FIELDS_MAX && tables.has_no_conditional(body);
        if !is_usual {
            return;
        }
        if self.known.len() < SHAPES_MAX {
            self.known.push(Shape::of_none(Arc::clone(&tables.token), body.layout));
            self.newest = self.known.len() - 1;
        } else {
            self.newest = (self.newest + 1) % SHAPES_MAX;
        }
        let shape = &mut self.known[self.newest];
        (shape.token, shape.layout) = (Arc::clone(&tables.token), body.layout);
        if !shape.take(tables, body, message) {
            // An empty tag list matches no message.
            shape.tags.clear();
        }
    }
}

impl Shape {
    const fn of_none(token: Arc<()>, layout: usize) -> Self {
        Self { token, layout, tags: Vec::new(), values: Vec::new() }
    }

    /// Stores the shape of a valid message. Returns false if a shape cannot represent the message.
    fn take(&mut self, tables: &Tables, body: &Body, message: &Fields<'_>) -> bool {
        self.tags.clear();
        self.tags.extend_from_slice(message.tags());
        self.values.clear();
        let mut sections = tables.sections(body).into_iter().peekable();
        for (tag, at) in self.tags.iter().zip(0..) {
            // The message is valid, so its sections are in order and the search can continue in the
            // next section.
            let place = loop {
                let Some(section) = sections.peek() else { return false };
                match section.place(tag.0) {
                    Some(place) => break place,
                    None => _ = sections.next(),
                }
            };
            let LayoutField { codes, field, look, data_type, .. } = *place;
            if place.group != NO_GROUP || look == ValueCheck::Data {
                return false;
            }
            if look != ValueCheck::Text {
                self.values.push(Valued { codes, field, at, look, data_type });
            }
        }
        true
    }

    #[inline]
    fn has_sound_values(
        &self,
        tables: &Tables,
        message: &Fields<'_>,
        last_time: &mut LastTime,
    ) -> bool {
        message.has_no_empty_value()
            && self.values.iter().all(|valued| {
                let Valued { codes, field, at, look, data_type } = *valued;
                let value = message.value(usize::from(at));
                match look {
                    ValueCheck::Text | ValueCheck::Data => true,
                    ValueCheck::Codes => {
                        is_common_code(codes, value) || tables.fields[field as usize].is_code(value)
                    }
                    ValueCheck::Decimal => Decimal::parse(value).is_some(),
                    ValueCheck::Digits => digits::are_all(value),
                    ValueCheck::Int => digits::are_int(value),
                    ValueCheck::Timestamp => last_time.is_timestamp(value),
                    ValueCheck::Form => values::fits(data_type, value),
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckSumPolicy, FieldIndex, Message, Rules, Scratch, Switches};
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::String;

    const ORDER: &str = "35=D|34=2|49=A|56=B|52=20261121-09:28:25.623|11=x|55=IBM|54=1|\
        60=20261121-09:28:25.623|38=100|40=2|44=1.5|";

    fn rules() -> Rules {
        let fix44 = transfix_dictionary::standard("FIX44").unwrap();
        Rules::new(&fix44, &fix44)
    }

    /// Returns two results for a message: of the check by shape and of the full walk.
    fn look(rules: &Rules, fields: &str, scratch: &mut Scratch) -> (bool, bool) {
        let text = format!("8=FIX.4.4|9=00|{fields}10=000|").replace('|', "\x01");
        let mut index = FieldIndex::default();
        let message = Message::parse(text.as_bytes(), &mut index, CheckSumPolicy::Ignore).unwrap();
        let body = rules.tables.body(message.msg_type().as_bytes()).unwrap();
        let known = (&rules.tables, body);
        let by_shape = scratch.shapes.is_sound(known, &message, &mut scratch.last_time);
        let switches = Switches { conditions: false, ..Switches::ALL };
        (by_shape, rules.check(&message, &switches, scratch).is_ok())
    }

    /// Returns a `Scratch` that has learned the shape of each of these messages.
    fn taught(rules: &Rules, messages: &[&str]) -> Scratch {
        let mut scratch = Scratch::default();
        for message in messages {
            for _ in 0..WALKS_PER_SHAPE {
                look(rules, message, &mut scratch);
            }
            assert_eq!(look(rules, message, &mut scratch), (true, true), "{message}");
        }
        scratch
    }

    #[test]
    fn only_values_may_differ() {
        let rules = rules();
        let heartbeat = "35=0|34=2|49=A|56=B|52=20261121-09:28:25.623|112=x|";
        let mut scratch = taught(&rules, &[ORDER, heartbeat]);
        for (from, to, by_shape, is_sound) in [
            ("11=x|", "11=another|", true, true),
            ("54=1|", "54=2|", true, true),
            ("54=1|", "54=~|", false, false),
            ("44=1.5|", "44=1.x|", false, false),
            ("38=100|", "38=|", false, false),
            ("11=x|", "11=|", false, false),
            ("34=2|", "34=x|", false, false),
            ("60=20261121", "60=20261122", true, true),
            ("60=20261121", "60=20261131", false, false),
            // The same tags in another order are valid, but match no shape.
            ("11=x|55=IBM|", "55=IBM|11=x|", false, true),
            ("11=x|", "", false, false),
            ("11=x|", "11=x|11=x|", false, false),
            ("44=1.5|", "44=1.5|59=0|", false, true),
            ("44=1.5|", "44=1.5|49=A|", false, false),
            ("44=1.5|", "49=A|", false, false),
            ("35=D|", "35=0|", false, false),
        ] {
            assert!(ORDER.contains(from), "{from}");
            let fields = ORDER.replacen(from, to, 1);
            assert_eq!(look(&rules, &fields, &mut scratch), (by_shape, is_sound), "{from} {to}");
            assert_eq!(look(&rules, ORDER, &mut scratch), (true, true));
        }
        assert_eq!(look(&rules, heartbeat, &mut scratch), (true, true));
    }

    #[test]
    fn other_rules_have_other_shapes() {
        let (rules, same) = (rules(), rules());
        let mut scratch = taught(&rules, &[ORDER]);
        assert_eq!(look(&same, ORDER, &mut scratch), (false, true));
        // New rules at the memory address of dropped rules must not use the shapes of the dropped
        // rules.
        drop(rules);
        for _ in 0..20 {
            assert_eq!(look(&self::rules(), ORDER, &mut scratch.clone()), (false, true));
        }
    }

    #[test]
    fn what_asks_for_more_than_one_value_has_no_shape() {
        let rules = rules();
        let mut scratch = Scratch::default();
        for more in ["354=3|355=a|b|", "453=1|448=A|447=D|452=1|"] {
            let fields = format!("{ORDER}{more}");
            for _ in 0..3 * WALKS_PER_SHAPE {
                assert_eq!(look(&rules, &fields, &mut scratch), (false, true));
            }
            let counted = fields.replace("354=3", "354=2").replace("453=1", "453=2");
            assert_eq!(look(&rules, &counted, &mut scratch), (false, false));
        }
        let mut fields = ORDER.to_owned();
        let values = ["1", "Y", "20261121", "20261121-09:28:25"];
        // The range excludes the tags of the trailer.
        let tags = (1..1_000).filter(|tag| ![89, 93].contains(tag));
        for (tag, value) in tags.flat_map(|tag| values.map(|value| (tag, value))) {
            let more = format!("{fields}{tag}={value}|");
            if look(&rules, &more, &mut Scratch::default()).1 {
                fields = more;
            }
        }
        assert!(fields.matches('|').count() > FIELDS_MAX, "{fields}");
        for _ in 0..3 * WALKS_PER_SHAPE {
            assert_eq!(look(&rules, &fields, &mut scratch), (false, true));
        }
    }

    #[test]
    fn shapes_and_their_memory_are_bounded() {
        let rules = rules();
        let mut scratch = Scratch::default();
        for n in 0..3 * SHAPES_MAX {
            let optional = ["1=a|", "15=USD|", "18=1|", "21=1|", "59=0|"].iter().enumerate();
            let more: String =
                optional.filter(|(bit, _)| n >> bit & 1 == 1).map(|(_, text)| *text).collect();
            let fields = format!("{ORDER}{more}");
            for _ in 0..WALKS_PER_SHAPE {
                assert!(look(&rules, &fields, &mut scratch).1, "{fields}");
            }
            assert_eq!(look(&rules, &fields, &mut scratch), (true, true), "{fields}");
        }
        assert_eq!(scratch.shapes.known.len(), SHAPES_MAX);
        assert_eq!(look(&rules, ORDER, &mut scratch), (false, true), "the oldest have gone");
    }
}
