//! Quick search for the values of a field in the raw bytes of a message, without parsing.
//!
//! Invariant: every occurrence of the field is found. Similar text within another value may also be
//! found, so callers must check the parsed message.

use memchr::memchr;
use memchr::memmem::Finder;
use transfix_codec::SOH;

/// A quick search for the values of one field.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    /// A finder per delimiter, for the bytes that precede a value: the delimiter, the tag and
    /// `=`.
    finders: [Finder<'static>; DELIMITERS.len()],
    /// The prefix `8=` if the field is BeginString(8), which follows no delimiter.
    start: Option<&'static [u8]>,
}

/// The delimiter bytes that messages may use: SOH, or a printable replacement.
const DELIMITERS: [u8; 3] = [SOH, b'|', b';'];

impl Quick {
    pub(super) fn field(tag: u32) -> Self {
        let finder =
            |by| Finder::new(&[&[by], tag.to_string().as_bytes(), b"="].concat()).into_owned();
        Self { finders: DELIMITERS.map(finder), start: (tag == 8).then_some(b"8=") }
    }

    /// Iterates over the values of the field in a message whose delimiter byte is `by`.
    pub(super) fn values<'m>(
        &'m self,
        bytes: &'m [u8],
        by: u8,
    ) -> impl Iterator<Item = &'m [u8]> + use<'m> {
        let finder = &self.finders[DELIMITERS.iter().position(|known| *known == by).unwrap_or(0)];
        let length = finder.needle().len();
        let (mut at, mut first) = (0, self.start.and_then(|start| bytes.strip_prefix(start)));
        std::iter::from_fn(move || {
            let value = match first.take() {
                Some(value) => value,
                None => {
                    at += finder.find(bytes.get(at..)?)? + length;
                    &bytes[at..]
                }
            };
            Some(&value[..memchr(by, value).unwrap_or(value.len())])
        })
    }

    /// Returns the first value of the field.
    pub(super) fn value<'m>(&'m self, bytes: &'m [u8], by: u8) -> Option<&'m [u8]> {
        self.values(bytes, by).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tag: u32, expected: &[&str]) {
        let text = "8=FIX.4.4|9=40|35=D|1=a|11=b|58=x11=c|11=d|10=000|";
        for by in DELIMITERS {
            let bytes: Vec<u8> = text.bytes().map(|b| if b == b'|' { by } else { b }).collect();
            let quick = Quick::field(tag);
            let found: Vec<_> = quick.values(&bytes, by).map(String::from_utf8_lossy).collect();
            assert_eq!(found, expected, "{tag}");
        }
    }

    #[test]
    fn values_by_tag() {
        check(8, &["FIX.4.4"]);
        check(1, &["a"]);
        check(11, &["b", "d"]);
        check(10, &["000"]);
        check(55, &[]);
    }
}
