//! Tools for tests: laws that every implementation of a trait obeys, counted allocations, and
//! directories that clean up after themselves. Disks that crash, repeatable random numbers, and
//! sample messages of any dictionary. A second parser, scenarios of the session layer, and a
//! simulated world. Proxies and TLS as counterparties. Applications made of closures.
//!
//! **Invariant:** a dev-dependency only; nothing here is part of the product.

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
