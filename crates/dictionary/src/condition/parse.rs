//! Parser of conditions: splits the text into tokens, then parses `or` expressions that consist of
//! `and` expressions.

use super::{BadCondition, Comparison, Condition, Operand};
use crate::Field;

type Find<'f, 'd> = &'f dyn Fn(&str) -> Option<&'d Field>;

pub(super) fn parse<'d>(text: &str, find: Find<'_, 'd>) -> Result<Condition, BadCondition> {
    let mut parser = Parser { words: words(text)?, next: 0, end: text.chars().count(), find };
    let condition = parser.alternatives(0)?;
    match parser.words.get(parser.next) {
        None => Ok(condition),
        Some(word) => Err(word.error("nothing more is expected here".to_owned())),
    }
}

/// A token of a condition, with its offset in characters.
struct Word {
    at: usize,
    kind: WordKind,
}

#[derive(Clone, PartialEq, Eq)]
enum WordKind {
    /// A name, number, keyword or operator.
    Bare(String),
    /// Text in quotes.
    Quoted(String),
    /// The name of a code, written after `^`.
    Code(String),
}

impl Word {
    fn error(&self, why: String) -> BadCondition {
        BadCondition { at: self.at, why }
    }
}

fn words(text: &str) -> Result<Vec<Word>, BadCondition> {
    let letters: Vec<char> = text.chars().collect();
    let is_name = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    let mut words = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        let name_at = |from: usize| rest[from..].iter().take_while(|c| is_name(c)).count();
        let (kind, len) = match rest {
            [blank, ..] if blank.is_whitespace() => {
                at += 1;
                continue;
            }
            ['^', ..] => (WordKind::Code(rest[1..=name_at(1)].iter().collect()), 1 + name_at(1)),
            [quote @ ('\'' | '"'), quoted @ ..] => {
                let Some(len) = quoted.iter().position(|c| c == quote) else {
                    return Err(BadCondition {
                        at,
                        why: "the closing quote is missing".to_owned(),
                    });
                };
                (WordKind::Quoted(quoted[..len].iter().collect()), len + 2)
            }
            ['-', digit, ..] if digit.is_ascii_digit() => {
                (WordKind::Bare(rest[..=name_at(1)].iter().collect()), 1 + name_at(1))
            }
            [letter, ..] if is_name(letter) => {
                (WordKind::Bare(rest[..name_at(0)].iter().collect()), name_at(0))
            }
            ['=' | '!' | '<' | '>', '=', ..] | ['&', '&', ..] | ['|', '|', ..] => {
                (WordKind::Bare(rest[..2].iter().collect()), 2)
            }
            [other, ..] => (WordKind::Bare(other.to_string()), 1),
            [] => break,
        };
        words.push(Word { at, kind });
        at += len;
    }
    Ok(words)
}

struct Parser<'f, 'd> {
    words: Vec<Word>,
    next: usize,
    /// Length of the whole text, in characters.
    end: usize,
    find: Find<'f, 'd>,
}

impl<'d> Parser<'_, 'd> {
    fn alternatives(&mut self, depth: usize) -> Result<Condition, BadCondition> {
        if depth > Condition::DEPTH_MAX {
            return Err(self.error("nested too deep"));
        }
        let mut all = vec![self.conjunction(depth)?];
        while self.takes(&["or", "||"]) {
            all.push(self.conjunction(depth)?);
        }
        Ok(one_or(all, Condition::Any))
    }

    fn conjunction(&mut self, depth: usize) -> Result<Condition, BadCondition> {
        let mut all = vec![self.simple(depth)?];
        while self.takes(&["and", "&&"]) {
            all.push(self.simple(depth)?);
        }
        Ok(one_or(all, Condition::All))
    }

    fn simple(&mut self, depth: usize) -> Result<Condition, BadCondition> {
        if depth > Condition::DEPTH_MAX {
            return Err(self.error("nested too deep"));
        }
        if self.takes(&["not", "!"]) {
            return Ok(Condition::Not(Box::new(self.simple(depth + 1)?)));
        }
        if self.takes(&["("]) {
            let inner = self.alternatives(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.takes(&["exists"]) {
            return Ok(Condition::Exists(self.field()?.tag));
        }
        let field = self.field()?;
        if self.takes(&["in"]) {
            return Ok(Condition::In(field.tag, self.set(field)?));
        }
        let comparison = self.comparison()?;
        Ok(Condition::Compare(field.tag, comparison, self.operand(field)?))
    }

    fn comparison(&mut self) -> Result<Comparison, BadCondition> {
        const OPERATORS: [(&[&str], Comparison); 6] = [
            (&["==", "=", "eq"], Comparison::Equal),
            (&["!=", "ne"], Comparison::NotEqual),
            (&["<=", "le"], Comparison::LessOrEqual),
            (&["<", "lt"], Comparison::Less),
            (&[">=", "ge"], Comparison::GreaterOrEqual),
            (&[">", "gt"], Comparison::Greater),
        ];
        let found = OPERATORS.into_iter().find(|(words, _)| self.takes(words));
        found.map(|(_, comparison)| comparison).ok_or_else(|| {
            self.error("an operator is expected here: ==, !=, <, <=, >, >= or in {..}")
        })
    }

    /// Parses the values of an `in` set up to the closing brace.
    fn set(&mut self, field: &Field) -> Result<Vec<String>, BadCondition> {
        self.expect("{")?;
        let mut values = Vec::new();
        loop {
            match self.operand(field)? {
                Operand::Value(value) => values.push(value),
                Operand::Field(_) => return Err(self.error("a set contains values, not fields")),
            }
            if !self.takes(&[","]) {
                self.expect("}")?;
                return Ok(values);
            }
        }
    }

    fn operand(&mut self, field: &Field) -> Result<Operand, BadCondition> {
        let Some(word) = self.words.get(self.next) else {
            return Err(self.error("a value is expected here"));
        };
        let value = match &word.kind {
            WordKind::Quoted(text) => text.clone(),
            WordKind::Code(name) => match code(field, name) {
                Some(value) => value.to_owned(),
                None => {
                    let why = format!("{}({}) has no code '{name}'", field.name, field.tag);
                    return Err(word.error(why));
                }
            },
            WordKind::Bare(text) if is_number(text) => text.clone(),
            WordKind::Bare(_) => return Ok(Operand::Field(self.field()?.tag)),
        };
        self.next += 1;
        Ok(Operand::Value(value))
    }

    fn field(&mut self) -> Result<&'d Field, BadCondition> {
        let Some(Word { kind: WordKind::Bare(text), .. }) = self.words.get(self.next) else {
            return Err(self.error("a field is expected here"));
        };
        // Score, the expression language of Orchestra, writes `this.` before a field of the same
        // message.
        let name = text.trim_start_matches('$');
        let name = name.strip_prefix("this.").unwrap_or(name);
        match (self.find)(name) {
            Some(field) => {
                self.next += 1;
                Ok(field)
            }
            None => Err(self.error(&format!("no field has the name '{name}'"))),
        }
    }

    fn takes(&mut self, any: &[&str]) -> bool {
        let is_meant = |word: &Word| match &word.kind {
            WordKind::Bare(text) => any.contains(&text.as_str()),
            _ => false,
        };
        let taken = self.words.get(self.next).is_some_and(is_meant);
        self.next += usize::from(taken);
        taken
    }

    fn expect(&mut self, word: &str) -> Result<(), BadCondition> {
        if self.takes(&[word]) { Ok(()) } else { Err(self.error(&format!("'{word}' is missing"))) }
    }

    fn error(&self, why: &str) -> BadCondition {
        let at = self.words.get(self.next).map_or(self.end, |word| word.at);
        BadCondition { at, why: why.to_owned() }
    }
}

fn one_or(mut all: Vec<Condition>, many: fn(Vec<Condition>) -> Condition) -> Condition {
    match all.pop() {
        Some(only) if all.is_empty() => only,
        last => {
            all.extend(last);
            many(all)
        }
    }
}

fn is_number(text: &str) -> bool {
    text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the value of the code with this name, ignoring case and underscores.
fn code<'d>(field: &'d Field, name: &str) -> Option<&'d str> {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let sought = plain(name);
    field.codes.iter().find(|code| plain(&code.name) == sought).map(|code| code.value.as_str())
}
