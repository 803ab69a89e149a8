//! FIX messages as text, and analysis of logs.
//!
//! - [`json`]: lossless conversion of a message to JSON and back; [`print`](mod@print): readable
//!   form.
//! - [`input`]: messages of captures, logs and stores, of this engine and of other engines.
//! - [`logs`]: searches, orders, gaps and latencies in logs; with the feature `parquet` a table.
//! - [`convert`]: whole inputs to JSON and back; [`printer`]: whole inputs in readable form.
//!
//! This crate does not print: output goes to a writer of the caller. `-` means the standard input.
#![forbid(unsafe_code)]

pub mod convert;
pub mod input;
pub mod json;
pub mod logs;
pub mod print;
pub mod printer;
