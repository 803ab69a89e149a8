//! Tools for tests: laws that every implementation of a trait obeys, counted allocations,
//! directories that clean up after themselves, repeatable random numbers, a simulated world.
//!
//! **Invariant:** a dev-dependency only; nothing here is part of the product.

#![deny(unsafe_code)]

pub mod alloc;
pub mod laws;
pub mod random;
pub mod temp;
pub mod world;
