//! Converts values of a `.cfg` file to values of Transfix settings.

use crate::keys::{quoted, variable_number};
use crate::table::Rule;

/// Returns the Transfix key and its value, converted from `value` by the rule.
pub(crate) fn written(rule: Rule, value: &str) -> Result<Option<(&'static str, String)>, String> {
    let yes = || match value {
        "Y" | "y" => Ok(true),
        "N" | "n" => Ok(false),
        _ => Err(format!("`{value}` is neither Y nor N")),
    };
    Ok(match rule {
        Rule::Nothing | Rule::Tls | Rule::With => None,
        Rule::Text(key) => Some((key, quoted(value))),
        Rule::Flag(key) => Some((key, yes()?.to_string())),
        Rule::Unflag(key) => Some((key, (!yes()?).to_string())),
        Rule::Reset(_) => yes()?.then(|| ("reset_on", String::new())),
        Rule::Number(key, 1) if let Some(variable) = variable_number(value) => {
            Some((key, quoted(&variable)))
        }
        Rule::Number(key, times) => Some((key, number(value, times)?)),
        Rule::Word(key, words) => {
            let pair = words.split(' ').filter_map(|pair| pair.split_once('='));
            let word = pair.into_iter().find(|(from, _)| from.eq_ignore_ascii_case(value));
            let known = || words.split(' ').filter_map(|pair| pair.split_once('='));
            let (_, to) = word.ok_or_else(|| {
                let known: Vec<_> = known().map(|(from, _)| from).collect();
                format!("`{value}` is none of {}", known.join(", "))
            })?;
            Some((key, quoted(to)))
        }
    })
}

/// Returns a number multiplied by `times`. A fraction is accepted if the product is whole.
fn number(value: &str, times: u32) -> Result<String, String> {
    let wrong = || format!("`{value}` is no number");
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let is_number = |text: &str| text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.len() + part.len() == 0 {
        return Err(wrong());
    }
    let digits: u64 = format!("{whole}{part}").parse().map_err(|_| wrong())?;
    let scale = (0..part.len()).fold(1, |scale, _| scale * 10);
    let product = digits * u64::from(times);
    match product % scale {
        0 => Ok((product / scale).to_string()),
        _ => Err(format!("`{value}` is too precise for the unit of the Transfix setting")),
    }
}
