//! Reads and prints arbitrary bytes as a log, without a panic. Bytes that do not begin a message
//! hide no later message.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use transfix_dictionary::{Dictionary, standard};
use transfix_text::input::{self, Dictionaries, Failure, InputError, InputMessage, Place, Sink};
use transfix_text::print::Palette;
use transfix_text::printer::Printer;

static FIX44: LazyLock<Arc<Dictionary>> =
    LazyLock::new(|| Arc::new(standard("FIX44").expect("it is a standard one")));

/// A message that no input contains by chance, appended to each input.
const LAST: &[u8] = b"8=FIX.4.4\x019=29\x0135=0\x01112=the last one of all\x0110=112\x01";

/// True if the appended message was found.
#[derive(Default)]
struct Last(bool);

impl Sink for Last {
    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.0 |= found.bytes == LAST;
        Ok(())
    }

    fn garbled(&mut self, _: Place, _: InputError) -> Result<(), Failure> {
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let dictionaries = Dictionaries::new(Some(Arc::clone(&FIX44)));
    let mut printer = Printer::new(Vec::new(), dictionaries, &Palette::PLAIN);
    input::stream(&mut &bytes[..], None, None, &mut printer).expect("a slice can be read");
    std::str::from_utf8(&printer.out).expect("it is text");
    // The length in a message may cover the bytes after the message.
    if bytes.windows(5).any(|five| five == b"8=FIX") {
        return;
    }
    let log = [bytes, b"\n", LAST, b"\n"].concat();
    let mut last = Last::default();
    input::stream(&mut &log[..], None, None, &mut last).expect("a slice can be read");
    assert!(last.0, "the message behind is lost");
});
