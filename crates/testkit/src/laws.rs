//! The laws of the traits: one test suite for each trait, run against every implementation.

mod store;
mod stream;

pub use store::{Patient, lasting_store_laws, store_laws};
pub use stream::{EndingConnection, stream_end_laws, stream_laws};
