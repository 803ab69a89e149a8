//! FIX messages as text and back, and the reading of logs.
//!
//! - [`json`]: a message as JSON and back, without losing a bit; [`print`](mod@print): readable.
//! - [`input`]: messages of captures, logs and stores, of this engine and of others.
//! - [`logs`]: searches, orders, gaps and latencies in them; with the feature `parquet` a table.
//! - [`convert`]: whole inputs to JSON and back; [`printer`]: whole inputs for people.
//!
//! Nothing here prints: texts go to what the caller gives. `-` stands for the standard input.
#![forbid(unsafe_code)]

pub mod convert;
pub mod input;
pub mod json;
pub mod logs;
pub mod print;
pub mod printer;
