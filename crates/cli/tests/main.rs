//! All tests of the program that can run in parallel.

mod command_line;
mod generate;
mod store;
