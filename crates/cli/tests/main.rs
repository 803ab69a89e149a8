//! All tests of `transfix` that may run in parallel.

mod command_line;
mod generate;
mod store;
