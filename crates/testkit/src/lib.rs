//! Tools for tests:
//!
//! - laws that every implementation of a trait obeys;
//! - counted allocations, and directories that are removed on drop;
//! - disks that crash, repeatable random numbers, and sample messages of any dictionary;
//! - a second parser, scenarios of the session layer, and a simulated world;
//! - proxies and TLS counterparties.
//!
//! **Invariant:** a dev-dependency only; no product code depends on this crate.

#![deny(unsafe_code)]

pub mod alloc;
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
