//! Checks each message of the sources, and writes the matches.
//!
//! Invariant: memory holds only the messages that may be shown as context before a match.

use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;

use transfix_codec::{CheckSumPolicy, FieldIndex};

use super::follow::follow;
use super::query::Query;
use super::report::Report;
use super::show::{Form, Show};
use super::sources::Source;
use super::{Reader, each};
use crate::input::{
    Delimiter, Failure, InputError, InputMessage, MessageView, Place, Sink, Wanted, parse,
};

/// Maximum total size of the messages kept as context before a match, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A search that reads its sources one after another and writes the matches.
#[derive(Debug)]
pub struct Search<W> {
    pub(super) show: Show<W>,
    pub(super) query: Query,
    pub(super) report: Report,
    pub(super) source: Source,
    /// Number of matches so far.
    pub matches: u64,
    /// Maximum number of matches to show.
    pub limit: Option<u64>,
    around: Around,
    /// If true, the name of each source is written before the first message shown from that source.
    pub has_headings: bool,
    is_headed: bool,
    index: FieldIndex,
}

/// The context of matches: messages shown before and after them.
#[derive(Debug, Default)]
struct Around {
    /// Number of messages shown before and after a match.
    count: usize,
    before: VecDeque<Kept>,
    kept_bytes: usize,
    /// Number of messages still to be shown after the last match.
    after: usize,
    /// True if messages were omitted since the last shown message.
    has_gap: bool,
    has_shown: bool,
}

/// A message kept as context for a later match.
#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    head: String,
    place: Place,
    wrong: Option<InputError>,
}

impl<W: Write> Search<W> {
    /// Creates a search that writes the messages selected by the query.
    pub fn new(show: Show<W>, query: Query, report: Report) -> Self {
        Self {
            index: show.new_index(),
            show,
            query,
            report,
            source: Source::new("-".as_ref()),
            matches: 0,
            limit: None,
            around: Around::default(),
            has_headings: false,
            is_headed: false,
        }
    }

    /// Also shows `count` messages before and after each match.
    #[must_use]
    pub fn around(mut self, count: usize) -> Self {
        self.around.count = count;
        self
    }

    /// Searches these sources. An unreadable source is reported, and the remaining sources are
    /// still searched.
    ///
    /// # Errors
    /// If the output cannot be written, or a dictionary cannot be read.
    pub fn read(
        &mut self,
        sources: &[Source],
        delimiter: Option<Delimiter>,
    ) -> Result<(), Failure> {
        if self.is_enough() {
            return Ok(());
        }
        or_enough(each(sources, delimiter, self))
    }

    /// Searches the existing messages, then new messages as they are written, including those in
    /// rolled files.
    ///
    /// Ends when the limit of matches is reached, or when `goes_on` returns false. `goes_on` waits
    /// between two polls.
    ///
    /// # Errors
    /// As [`Search::read`].
    pub fn follow(
        &mut self,
        paths: &[PathBuf],
        sources: Vec<Source>,
        delimiter: Option<Delimiter>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        if self.is_enough() {
            return Ok(());
        }
        or_enough(follow(paths, sources, delimiter, (self, goes_on)))
    }

    /// Flushes the output; returns the output and the report.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn finish(mut self) -> Result<(W, Report), Failure> {
        self.show.names()?;
        self.show.out.flush()?;
        self.query.tell(&mut self.report);
        Ok((self.show.out, self.report))
    }

    fn begin_source(&mut self, source: &Source) {
        if self.source.path != source.path {
            self.is_headed = false;
        }
        self.source.clone_from(source);
        self.report.file =
            if self.has_headings { format!("{}: ", source.name) } else { String::new() };
        self.around.before.clear();
        self.around.kept_bytes = 0;
        self.around.after = 0;
        self.around.has_gap = true;
    }

    /// Returns true if the limit of matches is reached and all context after the last match has
    /// been shown.
    fn is_enough(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= self.matches) && self.around.after == 0
    }

    fn matched(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.matches += 1;
        self.heading()?;
        if self.around.count == 0 {
            return self.show.message("", found, &self.source);
        }
        if self.around.has_gap && self.around.has_shown {
            self.show.out.write_all(b"--\n")?;
        }
        for kept in self.around.before.drain(..) {
            let Kept { bytes, head, place, wrong } = &kept;
            let kept = InputMessage { bytes, head, place: *place, wrong: *wrong };
            self.show.message("  ", &kept, &self.source)?;
        }
        self.around.kept_bytes = 0;
        self.around.after = self.around.count;
        (self.around.has_gap, self.around.has_shown) = (false, true);
        self.show.message("> ", found, &self.source)
    }

    /// Handles a message that does not match: shows it after a match, or keeps it as context for
    /// the next match.
    fn passed(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        let around = &mut self.around;
        if around.after > 0 {
            around.after -= 1;
            return self.show.message("  ", found, &self.source);
        }
        if around.count == 0 {
            return Ok(());
        }
        around.kept_bytes += found.bytes.len();
        around.before.push_back(Kept {
            bytes: found.bytes.to_vec(),
            head: found.head.to_owned(),
            place: found.place,
            wrong: found.wrong,
        });
        while around.before.len() > around.count || around.kept_bytes > KEPT_BYTES_MAX {
            let Some(dropped) = around.before.pop_front() else { break };
            around.kept_bytes -= dropped.bytes.len();
            around.has_gap = true;
        }
        Ok(())
    }

    fn heading(&mut self) -> Result<(), Failure> {
        if self.has_headings
            && !self.is_headed
            && let Form::Readable { palette, .. } = self.show.form
        {
            let (heading, end, name) = (&palette.heading, &palette.end, &self.source.name);
            writeln!(self.show.out, "{heading}==> {name} <=={end}")?;
        }
        self.is_headed = true;
        Ok(())
    }
}

/// Turns `Failure::Enough`, the regular end of a search, into success.
fn or_enough(done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Err(Failure::Enough) => Ok(()),
        done => done,
    }
}

impl<W: Write> Reader for Search<W> {
    fn begin(&mut self, source: &Source) {
        self.begin_source(source);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl<W: Write> Sink for Search<W> {
    fn glance(&mut self, glance: &MessageView<'_>) -> Wanted {
        if self.around.count > 0 {
            return Wanted::Perhaps;
        }
        let wanted = self.query.glance(glance, &self.source);
        self.report.messages += u64::from(wanted == Wanted::No);
        wanted
    }

    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.report.messages += 1;
        let sound = parse(found.bytes, &mut self.index, CheckSumPolicy::Verify);
        let wrong = found.wrong.or(sound.as_ref().err().copied().map(InputError::Garbled));
        let message = match sound {
            Ok(message) => Some(message),
            Err(_) => parse(found.bytes, &mut self.index, CheckSumPolicy::Ignore).ok(),
        };
        if let Some(wrong) = wrong {
            self.report.garbled(found.place, wrong);
        }
        let is_full = self.limit.is_some_and(|limit| limit <= self.matches);
        if !is_full && self.query.takes(found, message.as_ref(), &self.source) {
            self.matched(found)?;
        } else {
            self.passed(found)?;
        }
        if self.is_enough() { Err(Failure::Enough) } else { Ok(()) }
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.report.garbled(place, wrong);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), Failure> {
        Ok(self.show.out.flush()?)
    }
}
