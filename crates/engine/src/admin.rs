//! Requests of operators to an engine, as values: the actions, the actor, the audit.
//!
//! Here belongs what every face of the administration has in common, whether a program, a page in
//! the browser or another FIX session. How a session is found and told lies in
//! `api/admin.rs`. Nothing here knows a session.

pub(crate) mod action;
pub(crate) mod audit;
pub(crate) mod audit_line;
pub(crate) mod request;
