//! Operators' requests to an engine as values: actions and actors.
//!
//! All administrative interfaces (programs, browser pages and FIX sessions) share this module.
//! `api/admin.rs` finds the sessions and reports their state; this module does not depend on
//! sessions.

pub(crate) mod action;
pub(crate) mod request;
