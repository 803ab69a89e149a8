//! All tests of the crate that can share a process.

mod every_message;
mod json;
