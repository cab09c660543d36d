//! Settings whose values have names.

/// The names of a setting's values, for configuration files, flags and messages alike.
macro_rules! names {
    ($kind:ty, $setting:literal: $($name:literal => $value:expr),*) => {
        impl $kind {
            /// All values by name.
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
