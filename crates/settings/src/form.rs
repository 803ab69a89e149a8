//! Finds out the form of a key's value from the type that reads the value.
//!
//! A type asks its deserializer for a number, a text, or one of several words. The reference and
//! the schema are made from what it asks for, so that they always agree with the reader of files.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

/// The form of a value in a settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value may have several forms, between which the type distinguishes.
    #[default]
    Any,
    Number,
    Switch,
    Text,
    /// The value is one of these words.
    Words(&'static [&'static str]),
    List(Box<Self>),
    /// The value is a table, with keys of any name or with these keys, whose values have the given
    /// form.
    Map(Option<&'static [&'static str]>, Box<Self>),
    /// A table that the type of this name reads.
    Table(&'static str),
}

/// Returns the form of this key's value in the table `T`.
pub(crate) fn of_key<'de, T: Deserialize<'de>>(key: &'static str) -> Form {
    let form = RefCell::new(Form::Any);
    // The result is ignored, because reading usually fails; the form was recorded nevertheless.
    let read = T::deserialize(Only { key, form: &form });
    let form = form.into_inner();
    match read {
        Err(Probed(Some(words))) => form.with_words(words),
        _ => form,
    }
}

/// A deserializer for a table that has only one key.
struct Only<'p> {
    key: &'static str,
    form: &'p RefCell<Form>,
}

impl<'de> Deserializer<'de> for Only<'_> {
    type Error = Probed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        visitor.visit_map(Entry { key: Some(self.key), form: self.form })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A deserializer for the entry: first its key, then its value.
struct Entry<'p> {
    key: Option<&'static str>,
    form: &'p RefCell<Form>,
}

impl<'de> MapAccess<'de> for Entry<'_> {
    type Error = Probed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Probed> {
        let key = self.key.take().map(IntoDeserializer::into_deserializer);
        key.map(|key: StrDeserializer<'_, Probed>| seed.deserialize(key)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Probed> {
        seed.deserialize(Probe { form: self.form })
    }
}

/// A deserializer for a list with a single element.
struct Element<'p>(Option<&'p RefCell<Form>>);

impl<'de> SeqAccess<'de> for Element<'_> {
    type Error = Probed;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Probed> {
        self.0.take().map(|form| seed.deserialize(Probe { form })).transpose()
    }
}

/// A deserializer for a value, which records the form that the type asks for.
struct Probe<'p> {
    form: &'p RefCell<Form>,
}

impl Probe<'_> {
    fn is(&self, form: Form) {
        *self.form.borrow_mut() = form;
    }
}

/// A text that no file contains, to provoke an error.
const NO_WORD: &str = "\u{1}";

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Probed;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Probed> {
        Err(Probed(None))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.is(Form::Switch);
        visitor.visit_bool(true)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.is(Form::Number);
        visitor.visit_u64(1)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.deserialize_u64(visitor)
    }

    /// Returns a text that no type accepts as a word. A type that accepts only certain words lists
    /// them in its error.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.is(Form::Text);
        visitor.visit_string(NO_WORD.to_owned())
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        self.deserialize_string(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Probed> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        let of_one = RefCell::new(Form::Any);
        let read = visitor.visit_seq(Element(Some(&of_one)));
        self.is(Form::List(Box::new(of_one.into_inner())));
        read
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Probed> {
        let of_one = RefCell::new(Form::Any);
        let read = visitor.visit_map(Entry { key: Some(NO_WORD), form: &of_one });
        self.is(Form::Map(None, Box::new(of_one.into_inner())));
        read
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Probed> {
        self.is(Form::Table(name));
        Err(Probed(None))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Probed> {
        self.is(Form::Words(variants));
        Err(Probed(None))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
        ignored_any
    }
}

/// The error that ends a probe, with the words if the type accepts only certain ones.
struct Probed(Option<&'static [&'static str]>);

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the form is known")
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl fmt::Debug for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Probed {}

impl Error for Probed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(None)
    }

    fn unknown_variant(_: &str, words: &'static [&'static str]) -> Self {
        Self(Some(words))
    }

    fn unknown_field(_: &str, words: &'static [&'static str]) -> Self {
        Self(Some(words))
    }
}

impl Form {
    /// Returns the form with the words of an error.
    fn with_words(self, words: &'static [&'static str]) -> Self {
        match self {
            Self::Text => Self::Words(words),
            Self::List(one) => Self::List(Box::new(one.with_words(words))),
            Self::Map(None, value) => Self::Map(Some(words), value),
            other => other,
        }
    }
}
