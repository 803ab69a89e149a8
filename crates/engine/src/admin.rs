//! Operators' requests to an engine as values: actions, actors and the audit.
//!
//! This module contains the parts that all administrative interfaces share: programs, browser pages
//! and FIX sessions. Finding and reporting sessions is in `api/admin.rs`. This module does not
//! depend on sessions.

pub(crate) mod action;
pub(crate) mod audit;
pub(crate) mod audit_line;
pub(crate) mod request;
