//! Converts FIX messages to and from readable text, and analyzes logs.
//!
//! - [`json`]: lossless conversion of a message to JSON and back; [`print`](mod@print): readable
//!   form.
//! - [`input`]: messages of captures, logs and stores, of this engine and of other engines.
//! - [`logs`]: searches, orders, gaps and latencies in logs; with the feature `parquet` a table.
//! - [`convert`]: whole inputs to JSON and back; [`printer`]: whole inputs in readable form.
//!
//! This crate prints nothing itself: all output goes to writers that the caller provides. The path
//! `-` means the standard input.
#![forbid(unsafe_code)]

pub mod convert;
pub mod input;
pub mod json;
pub mod logs;
pub mod print;
pub mod printer;
