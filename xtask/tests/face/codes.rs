//! The numeric codes of errors and reasons, and the page of the book that lists them.
//!
//! Invariant: a number is assigned only once, and its meaning never changes. The number of a
//! removed variant is never reused.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use syn::{Arm, Expr, File, ImplItem, Item, ItemEnum, ItemImpl, Lit, Pat, Stmt, Type};

use crate::sources::{CRATES, about, files, is_up_to_date};

const PAGE: &str = "book/src/codes.md";
/// Path of the file with the same numbers for the command `transfix codes`.
const LIST: &str = "crates/cli/src/codes/reasons.txt";

const HEAD: &str = "\
# Codes

What does the number of an error or a reason mean? The tables below say it, and
`transfix codes 109` prints one row. Programs get the number by `as_u16()`, for logs, alarms and
other languages. A number never changes its meaning; later versions add numbers. The text of a
number may change. The page [What happened?](what-happened.md#all-events) lists the events.

Numbers below 100 are those of the standard: `RejectReason::as_u16` is SessionRejectReason(373),
`BusinessReject::as_u16` is BusinessRejectReason(380). `transfix codes 5` explains both, and
`transfix codes 373=5` one of them, or a code of any other field.
";

/// The text on the page in place of the meaning, for the number of a removed variant.
const GONE: &str = "No longer used.";

/// A type whose variants have numeric codes.
struct Coded {
    name: String,
    about: String,
    /// Number, name and meaning of each variant.
    rows: Vec<(u16, String, String)>,
    /// Variants that have no number of their own, but return the number of the value that they
    /// contain.
    passed_on: Vec<String>,
}

/// The enums of all crates, and the functions that assign numbers to them.
#[derive(Default)]
struct Found {
    enums: BTreeMap<String, ItemEnum>,
    about: BTreeMap<String, String>,
    impls: Vec<(String, ItemImpl)>,
}

impl Found {
    fn look(&mut self, file: File) {
        for item in file.items {
            match item {
                Item::Enum(found) => {
                    self.about.insert(found.ident.to_string(), about(&found.attrs));
                    self.enums.insert(found.ident.to_string(), found);
                }
                Item::Struct(found) => {
                    self.about.insert(found.ident.to_string(), about(&found.attrs));
                }
                Item::Impl(found) if found.trait_.is_none() => {
                    let Type::Path(of) = &*found.self_ty else { continue };
                    let name = of.path.segments.last().unwrap().ident.to_string();
                    self.impls.push((name, found));
                }
                _ => {}
            }
        }
    }

    /// Returns the name and the meaning of the variant that a match arm names. An arm without a
    /// type name belongs to the type `of`.
    fn row(&self, of: &str, arm: &Arm) -> (String, String) {
        let path = match &arm.pat {
            Pat::Path(pattern) => &pattern.path,
            Pat::Struct(pattern) => &pattern.path,
            Pat::TupleStruct(pattern) => &pattern.path,
            _ => panic!("{of}::as_u16 has an arm that is no variant"),
        };
        let segments: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        let [kind, variant] = &segments[..] else { panic!("{of}::as_u16: not Self::VARIANT") };
        let found = &self.enums[if kind == "Self" { of } else { kind }];
        let meant = found.variants.iter().find(|found| found.ident == variant).unwrap();
        (variant.clone(), about(&meant.attrs))
    }

    fn coded(&self, name: &str, body: &Stmt) -> Option<Coded> {
        let mut coded = Coded {
            name: name.to_owned(),
            about: self.about[name].clone(),
            rows: Vec::new(),
            passed_on: Vec::new(),
        };
        match body {
            Stmt::Expr(Expr::Match(matched), _) => {
                for arm in &matched.arms {
                    let (variant, meaning) = self.row(name, arm);
                    match number(arm.body.as_ref()) {
                        Some(number) => coded.rows.push((number, variant, meaning)),
                        None => coded.passed_on.push(variant),
                    }
                }
            }
            Stmt::Expr(only, _) => {
                // If the body is not a literal number, the type returns the number of a field and
                // has no number of its own.
                let number = number(only)?;
                coded.rows.push((number, name.to_owned(), coded.about.clone()));
            }
            _ => panic!("{name}::as_u16 is more than a match"),
        }
        Some(coded)
    }
}

fn number(expression: &Expr) -> Option<u16> {
    let Expr::Lit(literal) = expression else { return None };
    let Lit::Int(number) = &literal.lit else { return None };
    Some(number.base10_parse().unwrap())
}

fn all() -> Vec<Coded> {
    let mut found = Found::default();
    for krate in CRATES {
        for (_, file) in files(krate) {
            found.look(file);
        }
    }
    let mut all = Vec::new();
    for (name, block) in &found.impls {
        for item in &block.items {
            if let ImplItem::Fn(function) = item
                && function.sig.ident == "as_u16"
            {
                all.extend(found.coded(name, &function.block.stmts[0]));
            }
        }
    }
    all.sort_by_key(|coded| coded.rows[0].0);
    all
}

/// Returns the numbers on the present page, each with its type and name.
fn on_the_page(page: &str) -> BTreeMap<u16, (String, String)> {
    let (mut numbers, mut of) = (BTreeMap::new(), String::new());
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            of = name.trim_matches('`').to_owned();
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        if let ["", number, name, ..] = cells[..]
            && let Ok(number) = number.parse()
        {
            numbers.insert(number, (of.clone(), name.trim_matches('`').to_owned()));
        }
    }
    numbers
}

/// Returns the text of the page, including numbers of removed variants.
fn page(all: &mut [Coded], before: &BTreeMap<u16, (String, String)>) -> String {
    for (number, (of, name)) in before {
        let coded = all.iter_mut().find(|coded| coded.name == *of);
        let coded = coded.unwrap_or_else(|| panic!("{of} is gone, and with it its numbers"));
        if coded.rows.iter().all(|row| row.0 != *number) {
            coded.rows.push((*number, name.clone(), GONE.to_owned()));
        }
        coded.rows.sort_unstable();
    }
    let mut page = HEAD.to_owned();
    for Coded { name, about, rows, passed_on } in all {
        write!(page, "\n## `{name}`\n\n{about}\n").unwrap();
        let held: Vec<_> = passed_on.iter().map(|variant| format!("`{variant}`")).collect();
        if !held.is_empty() {
            writeln!(page, "{} has the number of what it holds.", held.join(", ")).unwrap();
        }
        page.push_str("\n| number | name | meaning |\n|---|---|---|\n");
        for (number, variant, meaning) in rows {
            writeln!(page, "| {number} | `{variant}` | {meaning} |").unwrap();
        }
    }
    page
}

/// Returns a text with a line for each number: number, type, name and meaning, separated by tabs.
fn list(all: &[Coded]) -> String {
    let mut list = String::new();
    for Coded { name, rows, .. } in all {
        for (number, variant, meaning) in rows {
            writeln!(list, "{number}\t{name}\t{variant}\t{meaning}").unwrap();
        }
    }
    list
}

/// Checks that no number is assigned twice and that no number has changed its meaning.
fn check(all: &[Coded], before: &BTreeMap<u16, (String, String)>) {
    let mut given = BTreeMap::new();
    for coded in all {
        for (number, variant, _) in &coded.rows {
            let name = (coded.name.clone(), variant.clone());
            if let Some(first) = given.insert(*number, name.clone()) {
                panic!("{number} is given to {name:?} and to {first:?}");
            }
            assert!(*number >= 100, "{number} of {name:?}: those below 100 are the standard's");
        }
    }
    for (number, name) in before {
        let now = given.get(number).unwrap_or(name);
        assert_eq!(now, name, "{number} has been given to something else");
        let moved = given.iter().find(|(other, now)| *now == name && *other != number);
        assert_eq!(moved, None, "the number of {name:?} was {number}");
    }
}

#[test]
fn numbers_are_for_ever_and_the_page_lists_them() {
    let before = on_the_page(&fs::read_to_string(xtask::root().join(PAGE)).unwrap_or_default());
    let mut all = all();
    check(&all, &before);
    let wanted = page(&mut all, &before);
    for (path, wanted) in [(PAGE, wanted), (LIST, list(&all))] {
        let is_new = is_up_to_date(path, &wanted);
        assert!(is_new, "{path} is old; run `cargo xtask docs` and look at it");
    }
}
