//! Tables of the settings file: each key stands once, with its meaning, its default and its range.

use std::fmt;

/// A key of a table, as the page of the settings describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it stands in the file.
    pub name: &'static str,
    /// What it means: the comment of its field.
    pub about: &'static str,
    /// Its default as it stands in the code; `None` if the key must be there.
    pub default: Option<&'static str>,
    /// The least and the greatest value, where there are bounds.
    pub range: (Option<u64>, Option<u64>),
}

/// A value out of the range of its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    /// The key, as it stands in its table.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// The least and the greatest value, where there are bounds.
    pub range: (Option<u64>, Option<u64>),
}

impl OutOfRange {
    /// Refuses a value out of its range.
    #[doc(hidden)]
    pub fn check(
        key: &'static str,
        value: u64,
        range: (Option<u64>, Option<u64>),
    ) -> Result<(), Self> {
        let (least, most) = (range.0.unwrap_or(0), range.1.unwrap_or(u64::MAX));
        if (least..=most).contains(&value) { Ok(()) } else { Err(Self { key, value, range }) }
    }
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, range } = self;
        match range {
            (Some(least), Some(most)) => write!(f, "{key} is between {least} and {most}"),
            (least, None) => write!(f, "{key} is at least {}", least.unwrap_or(0)),
            (None, Some(most)) => write!(f, "{key} is at most {most}"),
        }?;
        write!(f, ", not {value}")
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for OutOfRange {}

/// Declares a table of the settings file: a struct with a field for each key, `Default`, `Debug`,
/// and `Deserialize`, which refuses unknown keys.
///
/// A key without a default must be in the file: `KEYS` says so, and the reader of the file checks
/// it. `least` and `most` are the bounds of a number, which `check_ranges` checks: settings may
/// also be made in code. `debug` names a function that gives what `Debug` shows of a key in which a
/// password may stand. Fields behind `and` are not keys of the file.
#[doc(hidden)]
#[macro_export]
macro_rules! settings_table {
    (
        $(#[$of_table:meta])*
        pub struct $table:ident {
            $(
                $(#[doc = $about:literal])*
                $(#[least($least:literal)])?
                $(#[most($most:literal)])?
                $(#[debug($shown_by:ident)])?
                $(#[serde($($serde:tt)*)])?
                pub $key:ident: $type:ty $(= $default:expr)?,
            )*
            $(and { $($(#[$of_part:meta])* $shown:vis $part:ident: $part_type:ty,)* })?
        }
    ) => {
        #[derive(Clone, serde::Deserialize)]
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
                range: (
                    $crate::settings_table!(@some $($least)?),
                    $crate::settings_table!(@some $($most)?),
                ),
            }),*];

            /// The keys whose values are other ones in `other`.
            #[must_use]
            pub fn differing(&self, other: &Self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $(if self.$key != other.$key {
                    keys.push(stringify!($key));
                })*
                keys
            }

            /// Whether each value is in the range of its key.
            ///
            /// # Errors
            /// Names the first that is not, and the range.
            pub fn check_ranges(&self) -> Result<(), $crate::OutOfRange> {
                $($crate::settings_table!(@check self.$key, $key, [$($least)?], [$($most)?]);)*
                Ok(())
            }
        }

        impl std::fmt::Debug for $table {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut fields = f.debug_struct(stringify!($table));
                $(fields.field(
                    stringify!($key),
                    $crate::settings_table!(@debug self.$key, $($shown_by)?),
                );)*
                $($(fields.field(stringify!($part), &self.$part);)*)?
                fields.finish()
            }
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
    (@debug $value:expr,) => { &$value };
    (@debug $value:expr, $shown_by:ident) => { &$shown_by(&$value) };
    (@text) => { None };
    (@text $default:expr) => { Some(stringify!($default)) };
    (@some) => { None };
    (@some $bound:literal) => { Some($bound) };
    (@check $value:expr, $key:ident, [], []) => {};
    (@check $value:expr, $key:ident, [$($least:literal)?], [$($most:literal)?]) => {
        $crate::OutOfRange::check(
            stringify!($key),
            $value as u64,
            ($crate::settings_table!(@some $($least)?), $crate::settings_table!(@some $($most)?)),
        )?
    };
    (@value) => { Default::default() };
    (@value $default:expr) => { $default };
}
