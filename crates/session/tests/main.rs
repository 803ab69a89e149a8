//! All tests of the session layer, in one program.

mod cases;
mod found;
mod simulation;
