//! Tools for tests: laws for each trait, allocation counters, temporary directories, crashing
//! disks, random numbers and sample messages. Also an independent parser, session-layer scenarios,
//! a simulated world, proxies, TLS counterparties, and applications built from closures.
//!
//! **Invariant:** other crates use this crate only as a dev-dependency, so it is never part of the
//! product.

#![deny(unsafe_code)]

pub mod alloc;
#[cfg(feature = "app")]
pub mod app;
#[cfg(feature = "tls")]
pub mod certificates;
pub mod delayed;
pub mod disk;
#[cfg(feature = "world")]
mod engines;
pub mod laws;
pub mod plain;
pub mod program;
pub mod proxy;
pub mod random;
pub mod sample;
pub mod scenario;
pub mod temp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "world")]
pub mod world;
