//! The typed messages of the standard versions, each behind the feature of its name.
//!
//! The build script writes them from the dictionaries; see `transfix_dictionary::generate` for what
//! is in them.

/// The module of a version, if its feature is on.
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
