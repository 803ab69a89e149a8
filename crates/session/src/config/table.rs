//! Tables of the settings file: each key is declared once, with its meaning, default and range.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// A key of a table, for the generated page of settings in the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the key in the file. For a duration, the name ends with the unit, unlike the name of
    /// the struct field.
    pub name: &'static str,
    /// Description of the key: the doc comment of the struct field.
    pub about: &'static str,
    /// Default as Rust source; `None` if the key is required.
    pub default: Option<&'static str>,
    /// Minimum and maximum value, where the range is bounded.
    pub range: (Option<u64>, Option<u64>),
}

/// The error for a value outside the range of its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange {
    /// Name of the key in its table.
    pub key: &'static str,
    /// Value of the key.
    pub value: u64,
    /// Minimum and maximum value, where the range is bounded.
    pub range: (Option<u64>, Option<u64>),
}

impl OutOfRange {
    /// Returns an error if the value is out of its range.
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
            (least, None) => write!(f, "{key} must be at least {}", least.unwrap_or(0)),
            (None, Some(most)) => write!(f, "{key} is at most {most}"),
        }?;
        write!(f, ", not {value}")
    }
}

/// Formats as `Display` does, so that an error returned by `main` prints as text.
impl fmt::Debug for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for OutOfRange {}

/// The unit of `NS` nanoseconds in which the file gives a duration.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Unit<const NS: u64>;

impl<const NS: u64> Unit<NS> {
    /// Returns the duration of `count` units.
    #[must_use]
    pub const fn time(count: u32) -> Duration {
        Duration::from_nanos(NS).saturating_mul(count)
    }

    /// Returns the duration in units, rounded up, so that only a duration of zero gives 0.
    #[must_use]
    pub fn count(time: Duration) -> u64 {
        u64::try_from(time.as_nanos().div_ceil(u128::from(NS))).unwrap_or(u64::MAX)
    }

    /// Deserializes a number of units as a duration.
    ///
    /// # Errors
    /// Returns errors of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Duration, D::Error> {
        u32::deserialize(reader).map(Self::time)
    }

    /// Serializes a duration as a number of units.
    ///
    /// # Errors
    /// Returns errors of the serializer.
    pub fn serialize<S: Serializer>(time: &Duration, writer: S) -> Result<S::Ok, S::Error> {
        writer.serialize_u64(Self::count(*time))
    }
}

#[doc(hidden)]
pub type Micros = Unit<1_000>;
#[doc(hidden)]
pub type Millis = Unit<1_000_000>;
#[doc(hidden)]
pub type Secs = Unit<1_000_000_000>;
#[doc(hidden)]
pub type Mins = Unit<60_000_000_000>;
#[doc(hidden)]
pub type Hours = Unit<3_600_000_000_000>;
#[doc(hidden)]
pub type Days = Unit<86_400_000_000_000>;

/// Declares a table of the settings file: a struct with a field for each key. The struct implements
/// `Default`, `Debug`, and a `Deserialize` that rejects unknown keys.
///
/// A key without a default is required: `KEYS` records this, and the reader of the file checks it.
/// `least` and `most` are the bounds of a number. `check_ranges` checks the bounds again, because
/// settings can also be created in code. `debug` names a function that returns the `Debug` form of
/// a key that may contain a password. Fields after `and` are not keys of the file.
///
/// `#[millis("queue_pause_ms")] pub queue_pause: Duration = 1_000` declares a duration. In the
/// file, this key contains a whole number of the unit; the default and the bounds use the unit too.
/// A duration set in code may be more precise: it applies exactly, and is rounded up where its key
/// is shown or checked. A duration is at most 4,294,967,295 units.
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
                $(#[micros($us:literal)])?
                $(#[millis($ms:literal)])?
                $(#[secs($s:literal)])?
                $(#[mins($min:literal)])?
                $(#[hours($h:literal)])?
                $(#[days($days:literal)])?
                pub $key:ident: $type:ty $(= $default:expr)?,
            )*
            $(and { $($(#[$of_part:meta])* $shown:vis $part:ident: $part_type:ty,)* })?
        }
    ) => {
        $crate::settings_table! { @with_units
            $(#[$of_table])*
            pub struct $table {
                $(
                    $(#[doc = $about])*
                    $(#[least($least)])?
                    $(#[most($most)])?
                    $(#[debug($shown_by)])?
                    $(#[serde($($serde)*)])?
                    $(#[time($us, Micros, "transfix_session::Micros", "microseconds")])?
                    $(#[time($ms, Millis, "transfix_session::Millis", "milliseconds")])?
                    $(#[time($s, Secs, "transfix_session::Secs", "seconds")])?
                    $(#[time($min, Mins, "transfix_session::Mins", "minutes")])?
                    $(#[time($h, Hours, "transfix_session::Hours", "hours")])?
                    $(#[time($days, Days, "transfix_session::Days", "days")])?
                    pub $key: $type $(= $default)?,
                )*
                $(and { $($(#[$of_part])* $shown $part: $part_type,)* })?
            }
        }
    };
    (
        @with_units
        $(#[$of_table:meta])*
        pub struct $table:ident {
            $(
                $(#[doc = $about:literal])*
                $(#[least($least:literal)])?
                $(#[most($most:literal)])?
                $(#[debug($shown_by:ident)])?
                $(#[serde($($serde:tt)*)])?
                $(#[time($name:literal, $unit:ident, $with:literal, $units:literal)])?
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
                $(#[doc = concat!(" In a settings file `", $name, "`, in ", $units, ".")])?
                $(#[doc = concat!(" Default `", stringify!($default), "`.")])?
                $(#[serde($($serde)*)])?
                $(#[serde(rename = $name, with = $with)])?
                pub $key: $type,
            )*
            $($($(#[$of_part])* $shown $part: $part_type,)*)?
        }

        impl $table {
            /// The keys, in the order in which the book's page of settings describes them.
            pub const KEYS: &[$crate::Key] = &[$($crate::Key {
                name: $crate::settings_table!(@name $key $($name)?),
                about: concat!($($about),* $(, " In ", $units, ".")?),
                default: $crate::settings_table!(@text $($default)?),
                range: (
                    $crate::settings_table!(@some $($least)?),
                    $crate::settings_table!(@some $($most)?),
                ),
            }),*];

            /// Returns the names of the keys whose values differ between `self` and `other`.
            #[must_use]
            pub fn differing(&self, other: &Self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $(if self.$key != other.$key {
                    keys.push($crate::settings_table!(@name $key $($name)?));
                })*
                keys
            }

            /// Checks that each value is in the range of its key.
            ///
            /// # Errors
            /// Names the first value out of its range, and the range.
            pub fn check_ranges(&self) -> Result<(), $crate::OutOfRange> {
                $($crate::settings_table!(
                    @check self.$key, $key, [$($name, $unit)?], [$($least)?], [$($most)?]
                );)*
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
                    $($key: $crate::settings_table!(@value [$($unit)?] $($default)?),)*
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
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $name:literal) => { $name };
    (@check $value:expr, $key:ident, [], [], []) => {};
    (@check $value:expr, $key:ident, [], [$($least:literal)?], [$($most:literal)?]) => {
        $crate::OutOfRange::check(
            stringify!($key),
            $value as u64,
            ($crate::settings_table!(@some $($least)?), $crate::settings_table!(@some $($most)?)),
        )?
    };
    (
        @check $value:expr, $key:ident, [$name:literal, $unit:ident],
        [$($least:literal)?], [$($most:literal)?]
    ) => {
        let count = $crate::$unit::count($value);
        $crate::OutOfRange::check(
            $name,
            count,
            ($crate::settings_table!(@some $($least)?), $crate::settings_table!(@some $($most)?)),
        )?;
        $crate::OutOfRange::check($name, count, (None, Some(u64::from(u32::MAX))))?
    };
    (@value []) => { Default::default() };
    (@value [] $default:expr) => { $default };
    (@value [$unit:ident]) => { Duration::ZERO };
    (@value [$unit:ident] $default:expr) => { $crate::$unit::time($default) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::Deserialize;
    use serde::de::value::{Error, MapDeserializer};

    use super::*;
    use crate::config::TimingConfig;

    #[test]
    fn a_time_has_its_unit_in_the_key_alone() {
        let file = MapDeserializer::<_, Error>::new([("margin_ms", 5_u32)].into_iter());
        let read = TimingConfig::deserialize(file).unwrap();
        let margin = Duration::from_millis(5);
        assert_eq!(read, TimingConfig { margin, ..TimingConfig::default() });
        assert_eq!(read.differing(&TimingConfig::default()), ["margin_ms"]);
        let key = TimingConfig::KEYS.iter().find(|key| key.name == "test_request_wait_ms").unwrap();
        assert!(key.about.ends_with(" In milliseconds."), "{}", key.about);
        assert_eq!((key.default, key.range), (Some("20_000"), (Some(1), None)));
        assert_eq!(TimingConfig::default().test_request_wait, Duration::from_secs(20));
        assert!(format!("{read:?}").contains("margin: 5ms"), "{read:?}");
    }

    #[test]
    fn a_time_finer_than_its_key_is_rounded_up_there() {
        for (us, ms) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (1_500, 2)] {
            assert_eq!(Millis::count(Duration::from_micros(us)), ms, "{us} us");
        }
        assert_eq!(Micros::count(Duration::MAX), u64::MAX);
        assert_eq!(Days::time(u32::MAX).as_secs(), 86_400 * u64::from(u32::MAX));
    }

    #[test]
    fn a_time_is_in_the_range_of_its_key() {
        let check = |test_request_wait| {
            let timing = TimingConfig { test_request_wait, ..TimingConfig::default() };
            timing.check_ranges().map_err(|wrong| wrong.to_string())
        };
        assert_eq!(check(Duration::from_micros(500)), Ok(()), "any but 0");
        let none = "test_request_wait_ms must be at least 1, not 0";
        assert_eq!(check(Duration::ZERO), Err(none.to_owned()));
        assert_eq!(check(Millis::time(u32::MAX)), Ok(()));
        let long = "test_request_wait_ms is at most 4294967295, not 4294967296";
        let wait = Millis::time(u32::MAX) + Duration::from_nanos(1);
        assert_eq!(check(wait), Err(long.to_owned()));
    }
}
