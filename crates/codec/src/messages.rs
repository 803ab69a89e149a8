//! Typed messages of the standard versions, each behind the Cargo feature named after the version.
//!
//! The build script generates the messages from the dictionaries with
//! `transfix_dictionary::generate`.

/// Includes the module of each version whose feature is enabled.
macro_rules! version {
    ($($feature:literal)*) => {
        $(
            #[cfg(feature = $feature)]
            include!(concat!(env!("OUT_DIR"), "/", $feature, ".rs"));
        )*
    };
}

version! {
    "fix40" "fix41" "fix42" "fix43" "fix44" "fix50" "fix50sp1" "fix50sp2" "fixt11" "fixlatest"
}
