//! Finds the most similar valid name for a misspelled name, for error messages.

/// Returns the candidate with the fewest edits from `wrong`, ignoring case.
///
/// Returns `None` if no candidate is similar enough to be a useful suggestion.
/// ```
/// use transfix_dictionary::nearest;
///
/// assert_eq!(nearest("NewOrderSingel", ["Logon", "NewOrderSingle"]), Some("NewOrderSingle"));
/// ```
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong: Vec<char> = wrong.chars().take(LENGTH_MAX).flat_map(char::to_lowercase).collect();
    let edits_max = 1 + wrong.len() / 4;
    let mut best = None;
    for candidate in candidates {
        let right: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        if right.len().abs_diff(wrong.len()) > edits_max {
            continue;
        }
        let edits = distance(&wrong, &right);
        if edits <= edits_max && best.is_none_or(|(fewest, _)| edits < fewest) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions and replacements between two names.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

/// Longer names are truncated to this number of characters, because the time is proportional to the
/// product of both lengths.
const LENGTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name() {
        let names = ["FIX42", "FIX44", "Price", "Symbol", "SenderCompID"];
        let cases = [
            ("Prise", Some("Price")),
            ("price", Some("Price")),
            ("sendercompid", Some("SenderCompID")),
            ("SenderComID", Some("SenderCompID")),
            ("FIX45", Some("FIX42")),
            ("Quantity", None),
            ("", None),
        ];
        for (wrong, expected) in cases {
            assert_eq!(nearest(wrong, names), expected, "{wrong}");
        }
    }
}
