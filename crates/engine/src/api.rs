//! The types of the public interface: the application and its session, handles, the builder of an
//! engine, and actions of operators.
//!
//! This module contains the types that a program names, and the adapters to the layers below. No
//! lower layer depends on this module. Lower layers define the values that they return (errors,
//! counts, events); `lib.rs` exports these values.

pub(crate) mod adapter;
pub(crate) mod admin;
pub(crate) mod answer;
pub(crate) mod application;
pub(crate) mod batch;
pub(crate) mod builder;
pub(crate) mod certificates;
pub(crate) mod handle;
pub(crate) mod logon;
pub(crate) mod operate;
pub(crate) mod options;
pub(crate) mod reload;
pub(crate) mod status;
pub(crate) mod version;
