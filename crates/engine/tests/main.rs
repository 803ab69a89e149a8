//! All engine tests that can share a process.

mod conformance;
mod dictionaries;
mod dictionary;
mod examples;
mod found;
mod migrated;
mod pair;
mod queue_crash;
mod rig;
mod schedule;
mod settings_page;
mod slow_store;
mod stop;
mod switches;
mod threads;
mod trade;
