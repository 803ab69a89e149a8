//! FIX messages as text and back: [`json`], and readable forms ([`print`](mod@print)).
#![forbid(unsafe_code)]

pub mod json;
pub mod print;
