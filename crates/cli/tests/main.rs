//! All tests of the program that can run beside each other.

mod command_line;
mod generate;
mod store;
