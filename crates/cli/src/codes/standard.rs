//! Explains codes of the standard: reasons of Reject(3) and BusinessMessageReject(j), and codes of
//! other fields.

use std::fmt::Write as _;
use std::sync::LazyLock;

use transfix::RejectReason;
use transfix_dictionary::{self as dictionary, Dictionary, Field, nearest};

/// Name of the dictionary that contains the codes of all FIX versions.
const NAME: &str = "FIXLatest";

/// The two fields whose codes a number without a field may mean. Each has its tag, the message with
/// the field, and the fields that help to find the cause.
const REASONS: [(u32, &str, &str); 2] = [
    (
        373,
        "Reject(3)",
        "RefSeqNum(45) is the number of the rejected message, and RefTagID(371) the field; \
         `transfix check` shows the correct form",
    ),
    (
        380,
        "BusinessMessageReject(j)",
        "RefSeqNum(45) or BusinessRejectRefID(379) identifies the rejected message; Text(58) may \
         explain the reason",
    ),
];

/// Returns the dictionary, which is read once on first use.
pub(super) fn dictionary() -> Result<&'static Dictionary, String> {
    static READ: LazyLock<Result<Dictionary, String>> =
        LazyLock::new(|| dictionary::standard(NAME).map_err(|error| error.to_string()));
    READ.as_ref().map_err(String::clone)
}

/// A code that a field may have as its value.
pub(super) struct Code<'d> {
    field: &'d Field,
    code: &'d dictionary::Code,
}

impl<'d> Code<'d> {
    /// Returns true if `wanted` is the value or the name of the code.
    pub(super) fn is(&self, wanted: &str) -> bool {
        self.code.value == wanted || self.code.name.eq_ignore_ascii_case(wanted)
    }

    pub(super) fn name(&self) -> &'d str {
        &self.code.name
    }

    /// Returns the message whose reason field uses this code, and the remedy.
    fn reason(&self) -> Option<(&'static str, &'static str)> {
        let mut reasons = REASONS.into_iter();
        reasons.find(|(tag, ..)| *tag == self.field.tag).map(|(_, of, remedy)| (of, remedy))
    }

    /// Returns the code as one line, such as `SessionRejectReason(373)=5 VALUE_IS_INCORRECT
    /// (Reject(3))`.
    pub(super) fn line(&self) -> String {
        let (Field { name, tag, .. }, code) = (self.field, self.code);
        let of = self.reason().map(|(of, _)| format!(" ({of})")).unwrap_or_default();
        format!("{name}({tag})={} {}{of}\n", code.value, code.name)
    }

    pub(super) fn explained(&self) -> String {
        let mut text = self.line();
        let is_it = |reason: &RejectReason| reason.as_u16().to_string() == self.code.value;
        let given =
            RejectReason::ALL.iter().find(|reason| self.field.tag == REASONS[0].0 && is_it(reason));
        // Writing to a `String` never fails.
        if let Some(reason) = given {
            let _ = writeln!(text, "meaning: {}", reason.text());
        }
        if let Some((_, remedy)) = self.reason() {
            let _ = writeln!(text, "what to do: {remedy}");
        }
        text
    }
}

/// Returns the reasons of Reject(3) and BusinessMessageReject(j).
pub(super) fn reasons() -> Result<impl Iterator<Item = Code<'static>>, String> {
    let dictionary = dictionary()?;
    let fields = REASONS.into_iter().filter_map(|(tag, ..)| dictionary.field(tag));
    Ok(fields.flat_map(|field| field.codes.iter().map(move |code| Code { field, code })))
}

/// Explains a code of the field, which is given by name or tag.
///
/// # Errors
/// Returns an error if the code is unknown; the text names similar codes.
pub(super) fn code(field: &str, value: &str) -> Result<String, String> {
    let dictionary = dictionary()?;
    let named = |name: &str| {
        let mut fields = dictionary.fields().iter();
        fields.find(|field| field.name.eq_ignore_ascii_case(name))
    };
    let found = field.parse().ok().and_then(|tag| dictionary.field(tag)).or_else(|| named(field));
    let Some(found) = found else {
        let hint = nearest(field, dictionary.fields().iter().map(|field| &*field.name));
        let hint = hint.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        return Err(format!("FIX has no field {}{hint}", field.escape_debug()));
    };
    let (name, tag) = (&found.name, found.tag);
    if found.codes.is_empty() {
        return Err(format!("{name}({tag}) has no codes"));
    }
    let all = found.codes.iter().map(|code| Code { field: found, code });
    match all.into_iter().find(|code| code.is(value)) {
        Some(code) => Ok(code.explained()),
        None => Err(format!(
            "{name}({tag}) has no code {}; `transfix dictionary {NAME} {tag}` lists all codes",
            value.escape_debug()
        )),
    }
}
