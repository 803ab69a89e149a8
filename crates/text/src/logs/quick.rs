//! Quick search for a field's values in the bytes of a message, without parsing earlier fields.
//!
//! Invariant: each field of the message is found. Text within another value may be found too, so
//! results need a full check.

use memchr::memchr;
use memchr::memmem::Finder;
use transfix_codec::SOH;

/// A quick search for one field.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    /// The bytes before the value, for each delimiter: the delimiter, the tag and `=`.
    finders: [Finder<'static>; DELIMITERS.len()],
    /// `8=`, which has no preceding delimiter.
    start: Option<&'static [u8]>,
}

/// Bytes that may replace SOH.
const DELIMITERS: [u8; 3] = [SOH, b'|', b';'];

impl Quick {
    pub(super) fn field(tag: u32) -> Self {
        let finder =
            |by| Finder::new(&[&[by], tag.to_string().as_bytes(), b"="].concat()).into_owned();
        Self { finders: DELIMITERS.map(finder), start: (tag == 8).then_some(b"8=") }
    }

    /// Iterates over the values in a message that has `by` in place of SOH.
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

    /// Returns the first value.
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
