//! JSON has no NaN: it is written as `null`. These functions read `null` back as NaN, so that content survives a file.

use serde::{Deserialize, Deserializer};

/// A type that is read from JSON in which some numbers are `null`.
pub(crate) trait Nullable: Sized {
    /// The same type with `Option` around each number.
    type Read: for<'de> Deserialize<'de>;

    /// Puts NaN where there was `null`.
    fn restore(read: Self::Read) -> Self;
}

impl Nullable for f32 {
    type Read = Option<f32>;

    fn restore(read: Option<f32>) -> f32 {
        read.unwrap_or(f32::NAN)
    }
}

impl Nullable for f64 {
    type Read = Option<f64>;

    fn restore(read: Option<f64>) -> f64 {
        read.unwrap_or(f64::NAN)
    }
}

impl<T: Nullable> Nullable for Vec<T> {
    type Read = Vec<T::Read>;

    fn restore(read: Self::Read) -> Self {
        read.into_iter().map(T::restore).collect()
    }
}

impl<T: Nullable> Nullable for [T; 2]
where
    [T::Read; 2]: for<'de> Deserialize<'de>,
{
    type Read = [T::Read; 2];

    fn restore(read: Self::Read) -> Self {
        read.map(T::restore)
    }
}

impl<T: Nullable> Nullable for (String, String, String, T) {
    type Read = (String, String, String, T::Read);

    fn restore((a, b, c, number): Self::Read) -> Self {
        (a, b, c, T::restore(number))
    }
}

impl<T: Nullable> Nullable for (usize, usize, T) {
    type Read = (usize, usize, T::Read);

    fn restore((a, b, number): Self::Read) -> Self {
        (a, b, T::restore(number))
    }
}

impl<T: Nullable> Nullable for Option<(usize, T)> {
    type Read = Option<(usize, T::Read)>;

    fn restore(read: Self::Read) -> Self {
        read.map(|(index, number)| (index, T::restore(number)))
    }
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn or_nan<'de, T: Nullable, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Read::deserialize(deserializer).map(T::restore)
}
