//! All tests of the program that may run beside each other.

mod command_line;
mod generate;
mod store;
