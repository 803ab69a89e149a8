//! Operators' requests to an engine as values: actions and actors.
//!
//! This module contains the parts that all administrative interfaces share: programs, browser pages
//! and FIX sessions. Finding and reporting sessions is in `api/admin.rs`. This module does not
//! depend on sessions.

pub(crate) mod action;
pub(crate) mod request;
