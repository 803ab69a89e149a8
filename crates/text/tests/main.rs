//! All tests of the crate that can run in one process.

mod every_message;
mod json;
