//! Names of the values of enumerated settings.

/// Implements the names of a setting's values, for configuration files, flags and messages.
macro_rules! names {
    ($kind:ty, $setting:literal: $($name:literal => $value:expr),*) => {
        impl $kind {
            /// The names of all values.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }
        impl std::str::FromStr for $kind {
            type Err = crate::Error;
            fn from_str(text: &str) -> crate::Result<Self> {
                match text {
                    $($name => Ok($value),)*
                    _ => Err(crate::Error::setting($setting, format!("`{text}`"), concat!("must be one of:" $(, " ", $name)*))),
                }
            }
        }
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(if *self == $value { return f.write_str($name); })*
                unreachable!("every value has a name")
            }
        }
    };
}
