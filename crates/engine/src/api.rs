//! The types that users read: the application and its session, handles, the builder of an engine,
//! actions of operators.
//!
//! Here belongs what a program calls or implements by name, and the glue that fits it to the layers
//! below ([`owner`]). Nothing below knows it. Values that those layers return (errors, counts,
//! events) lie where they are made, and `lib.rs` exports them.

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
