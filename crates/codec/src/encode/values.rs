//! Writers for values of less common types: dates, times of day and lists of strings.

use crate::time_of_day::TZ_TIME_MAX;
use crate::{Body, Date, Misuse, MonthYear, SOH, Tag, Tenor, TimeOfDay, TzTimeOnly, TzTimestamp};

impl Body<'_> {
    /// Writes a UTCDateOnly or LocalMktDate value.
    pub fn date(&mut self, tag: Tag, value: Date) -> &mut Self {
        self.bytes(tag, &value.text())
    }

    /// Writes a MonthYear value.
    pub fn month_year(&mut self, tag: Tag, value: MonthYear) -> &mut Self {
        self.bytes(tag, value.text(&mut [0; 8]))
    }

    /// Writes a UTCTimeOnly or LocalMktTime value, with the precision of the session.
    pub fn time_of_day(&mut self, tag: Tag, value: TimeOfDay) -> &mut Self {
        let mut buffer = [0; TZ_TIME_MAX];
        let length = value.write(self.precision, &mut buffer);
        self.bytes(tag, &buffer[..length])
    }

    /// Writes a TZTimeOnly value, with the precision of the session.
    pub fn tz_time_only(&mut self, tag: Tag, value: TzTimeOnly) -> &mut Self {
        let mut buffer = [0; TZ_TIME_MAX];
        let length = value.write(self.precision, &mut buffer);
        self.bytes(tag, &buffer[..length])
    }

    /// Writes a TZTimestamp value, with the precision of the session.
    pub fn tz_timestamp(&mut self, tag: Tag, value: TzTimestamp) -> &mut Self {
        let mut buffer = [0; TZ_TIME_MAX];
        let length = value.time().write(self.precision, &mut buffer);
        let mut text = [b'-'; 9 + TZ_TIME_MAX];
        text[..8].copy_from_slice(&value.date().text());
        text[9..9 + length].copy_from_slice(&buffer[..length]);
        self.bytes(tag, &text[..9 + length])
    }

    /// Writes a MultipleCharValue: the characters of `values`, separated by blanks.
    pub fn chars(&mut self, tag: Tag, values: &[u8]) -> &mut Self {
        self.words(tag, values.iter().map(core::slice::from_ref))
    }

    /// Writes a MultipleStringValue; no string may be empty or contain a blank.
    pub fn words<'w>(&mut self, tag: Tag, words: impl IntoIterator<Item = &'w [u8]>) -> &mut Self {
        let mut count = 0_usize;
        for word in words {
            self.word(tag, word, count);
            count += 1;
        }
        if count == 0 {
            self.blame(Misuse::EmptyValue(tag));
        }
        self
    }

    /// Writes the n-th string of a MultipleStringValue, counted from 0; all earlier strings must be
    /// written.
    pub(crate) fn word(&mut self, tag: Tag, word: &[u8], n: usize) {
        if word.is_empty() {
            self.blame(Misuse::EmptyValue(tag));
        } else if word.iter().any(|&b| b == b' ' || b == SOH) {
            self.blame(Misuse::DelimiterInValue(tag));
        }
        if n == 0 {
            self.bytes(tag, word);
        } else {
            self.put_word(word);
        }
    }

    /// Writes a Tenor value.
    pub fn tenor(&mut self, tag: Tag, value: Tenor) -> &mut Self {
        let mut buffer = itoa::Buffer::new();
        let count = buffer.format(value.count()).as_bytes();
        // A Tenor has one letter and at most the ten digits of a `u32`.
        let mut text = [value.letter(); 11];
        text[1..=count.len()].copy_from_slice(count);
        self.bytes(tag, &text[..=count.len()])
    }
}
