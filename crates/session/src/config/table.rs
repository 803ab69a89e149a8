//! Tables of the settings file: each key stands once, with its meaning and its default.

/// A key of a table, as the page of the settings describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it stands in the file.
    pub name: &'static str,
    /// What it means: the comment of its field.
    pub about: &'static str,
    /// Its default as it stands in the code; `None` if the key must be there.
    pub default: Option<&'static str>,
}

/// Declares a table of the settings file: a struct with a field for each key, `Default`, and
/// `Deserialize`, which refuses unknown keys. A key without a default must be in the file: `KEYS`
/// says so, and the reader of the file checks it. Fields behind `and` are not keys of the file.
#[doc(hidden)]
#[macro_export]
macro_rules! settings_table {
    (
        $(#[$of_table:meta])*
        pub struct $table:ident {
            $(
                $(#[doc = $about:literal])*
                $(#[serde($($serde:tt)*)])?
                pub $key:ident: $type:ty $(= $default:expr)?,
            )*
            $(and { $($(#[$of_part:meta])* $shown:vis $part:ident: $part_type:ty,)* })?
        }
    ) => {
        #[derive(Clone, Debug, serde::Deserialize)]
        $(#[$of_table])*
        #[serde(default, deny_unknown_fields)]
        pub struct $table {
            $(
                $(#[doc = $about])*
                $(#[doc = concat!(" Default `", stringify!($default), "`.")])?
                $(#[serde($($serde)*)])?
                pub $key: $type,
            )*
            $($($(#[$of_part])* $shown $part: $part_type,)*)?
        }

        impl $table {
            /// The keys, in the order of the page that describes them.
            pub const KEYS: &[$crate::Key] = &[$($crate::Key {
                name: stringify!($key),
                about: concat!($($about),*),
                default: $crate::settings_table!(@text $($default)?),
            }),*];
        }

        impl Default for $table {
            fn default() -> Self {
                Self {
                    $($key: $crate::settings_table!(@value $($default)?),)*
                    $($($part: Default::default(),)*)?
                }
            }
        }
    };
    (@text) => { None };
    (@text $default:expr) => { Some(stringify!($default)) };
    (@value) => { Default::default() };
    (@value $default:expr) => { $default };
}
